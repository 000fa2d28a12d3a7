//! Test doubles and contracts: the contract of every store, a store that fails on request, agents that follow a script,
//! and clients that wait for an expected event.
//!
//! Nothing here sleeps. A test waits for an event, and a wait that takes too long fails and prints all events until
//! then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "test code: a failed expectation is a failed test"
)]

pub mod agents;
pub mod client;
pub mod faulty;
pub mod store_contract;
pub mod task_contract;
pub mod terminal;
pub mod test_log;

pub use agents::{Act, ScriptAgent};
pub use client::Reader;
pub use faulty::{Fault, FaultyStore};
pub use loggia_store::SqliteStore;
pub use test_log::{Gate, TestLog};
