//! The laws of the core, a simulation with faults, and golden logs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "tests"
)]

mod suite {
    mod event_reference;
    mod generate;
    mod grants;
    mod laws;
    mod own_line;
    mod policy;
    mod recovery;
    mod refused;
    mod replies;
    mod scenarios;
    mod simulation;
    mod slash;
    mod timeouts;
    mod transcript;
    mod witness;
}
