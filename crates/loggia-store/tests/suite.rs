//! The SQLite store from outside: under the contract of every store, beside other processes, with damaged
//! files, and with databases of older versions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a failed expectation is a failed test"
)]

mod suite {
    mod contract;
    mod damage;
    mod migration;
    mod processes;
    mod sqlite;
}
