//! Any events, keys and terminal sizes: the screen never panics, and nothing reaches the terminal but text
//! and the sequences that draw it.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The same as a law of the terminal interface, with more bytes.
#[path = "../../crates/loggia-tui/tests/suite/storm.rs"]
mod storm;

fuzz_target!(|bytes: &[u8]| storm::storm(bytes));
