//! The built-in tools in complete turns: with the hub, the log and a permit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "tools/confinement.rs"]
mod confinement;
#[path = "tools/files.rs"]
mod files;
#[path = "tools/fixture.rs"]
mod fixture;
#[path = "tools/guard.rs"]
mod guard;
#[path = "tools/own_line.rs"]
mod own_line;
#[path = "tools/search.rs"]
mod search;
#[path = "tools/session.rs"]
mod session;
#[path = "tools/shell.rs"]
mod shell;
