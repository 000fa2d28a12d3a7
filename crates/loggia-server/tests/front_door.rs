//! Guard, authentication and connection limits on real sockets: a small test server in a separate process,
//! attacked and overloaded from this one. Raw bytes where a client library would correct a request.
//!
//! Needs root (to run processes as other users), curl, setpriv, unshare and bash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "front_door/bodies.rs"]
mod bodies;
#[path = "front_door/hosts.rs"]
mod hosts;
#[path = "front_door/identity.rs"]
mod identity;
#[path = "front_door/listen.rs"]
mod listen;
#[path = "front_door/slow.rs"]
mod slow;
#[path = "front_door/stage.rs"]
mod stage;
#[path = "front_door/stop.rs"]
mod stop;
#[path = "front_door/tls.rs"]
mod tls;
#[path = "front_door/tokens.rs"]
mod tokens;
#[path = "front_door/toy.rs"]
mod toy;

/// Not a test: the process that [`stage::Server`] starts. Without input it ends at once.
#[test]
fn child_server() {
    toy::main();
}

/// Not a test: a call whose thread hides its descriptors.
#[test]
fn child_hider() {
    identity::hide_and_ask();
}

/// Not a test: a call that passes its connection to another process.
#[test]
fn child_sharer() {
    identity::share_connection();
}
