//! Cells, golden logs and the transcript view as people see them, and laws over everything that
//! others may write.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "tests"
)]

mod suite {
    mod cells;
    mod generate;
    mod golden;
    mod laws;
    mod look;
    mod pager;
}
