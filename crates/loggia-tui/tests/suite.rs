//! Cells, golden logs and the transcript view as people see them, laws over everything that others
//! may write, and the whole screen against real sessions: keys in, pictures and facts out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "tests"
)]

mod suite {
    mod cells;
    mod desk;
    mod files;
    mod generate;
    mod golden;
    mod keys;
    mod laws;
    mod look;
    mod pager;
    mod panic;
    mod storm;
}
