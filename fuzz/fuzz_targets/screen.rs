//! Whatever is said and done in a session, whatever key is pressed and however the terminal changes
//! its size: the screen never panics, and nothing reaches the terminal but text and what a picture
//! is painted with.
#![no_main]

use libfuzzer_sys::fuzz_target;

// What a law of the terminal interface does with few bytes, this does with many.
#[path = "../../crates/loggia-tui/tests/suite/storm.rs"]
mod storm;

fuzz_target!(|bytes: &[u8]| storm::storm(bytes));
