//! The session crate from outside: the store in memory under the contract, the writer under faults, readers
//! under load.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a failed expectation is a failed test"
)]

mod suite {
    mod actor;
    mod ahead;
    mod context;
    mod contract;
    mod faults;
    mod followers;
    mod hub;
    mod idle;
    mod output;
    mod race;
    mod resume;
    mod settled;
    mod unanswered;
}
