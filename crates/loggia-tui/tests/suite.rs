//! The screen against real sessions: keys in, pictures and facts out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "suite/desk.rs"]
mod desk;
#[path = "suite/files.rs"]
mod files;
#[path = "suite/keys.rs"]
mod keys;
