//! The public interface of the session crate: the store in memory under the store contract, the actor with a
//! failing store, many readers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a failed expectation is a failed test"
)]

mod suite {
    mod actor;
    mod context;
    mod contract;
    mod durability;
    mod faults;
    mod followers;
    mod hub;
    mod idle;
    mod output;
    mod race;
    mod resume;
    mod unanswered;
}
