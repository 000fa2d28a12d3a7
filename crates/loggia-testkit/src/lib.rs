//! Contracts, doubles and drivers for the tests: what every store must do, a store that fails on
//! request, agents that follow a script, and clients that wait for what they expect.
//!
//! Nothing here sleeps to let something happen. A test waits for the thing itself, and a wait that
//! takes too long fails with everything that was seen until then.

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
pub mod journal;
pub mod store_contract;
pub mod task_contract;
pub mod terminal;

pub use agents::{Act, ScriptAgent};
pub use client::Reader;
pub use faulty::{Fault, FaultyStore};
pub use journal::{Gate, Journal};
pub use loggia_store::SqliteStore;
