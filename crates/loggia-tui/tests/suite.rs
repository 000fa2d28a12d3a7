//! Tests of cells, golden logs and the transcript view, properties for untrusted input, and the
//! whole interface on real sessions: keys in, frames and events out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "tests"
)]

mod suite {
    mod cells;
    mod files;
    mod generate;
    mod golden;
    mod harness;
    mod keys;
    mod laws;
    mod pager;
    mod panic;
    mod snapshot_text;
    mod storm;
}
