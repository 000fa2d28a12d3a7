//! The front door on real sockets: a toy router behind it in a process of its own, attacked and
//! overloaded from this one. Raw bytes wherever a client library would put things right.
//!
//! Needs root (other users are played by changing to them), curl, setpriv, unshare and bash.
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

/// Not a test: the process that [`stage::Server`] starts. Without a word on its standard input it
/// ends at once.
#[test]
fn child_server() {
    toy::main();
}

/// Not a test: a call whose thread hides its descriptors.
#[test]
fn child_hider() {
    identity::hide_and_ask();
}

/// Not a test: a call that hands its connection to somebody else.
#[test]
fn child_sharer() {
    identity::share_connection();
}
