//! Sessions in clones of repositories, with real git, real remotes and real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "clone/bounds.rs"]
mod bounds;
#[path = "clone/changes.rs"]
mod changes;
#[path = "clone/fixture.rs"]
mod fixture;
#[path = "clone/hostile.rs"]
mod hostile;
#[path = "clone/leftovers.rs"]
mod leftovers;
#[path = "clone/remotes.rs"]
mod remotes;
#[path = "clone/server.rs"]
mod server;
#[path = "tools/fixture.rs"]
mod tools;
