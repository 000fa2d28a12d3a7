//! Sessions that work in copies of repositories: real git, real remotes, real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "clone/bounds.rs"]
mod bounds;
#[path = "clone/changes.rs"]
mod changes;
#[path = "clone/hostile.rs"]
mod hostile;
#[path = "clone/leftovers.rs"]
mod leftovers;
#[path = "clone/remotes.rs"]
mod remotes;
#[path = "clone/server.rs"]
mod server;
#[path = "clone/stage.rs"]
mod stage;
#[path = "tools/stage.rs"]
mod tools;
