//! Guard, authentication and connection limits on real sockets: a small test server in a separate process,
//! attacked and overloaded from this one. Raw bytes where a client library would correct a request.
//!
//! Needs root (to run processes as other users), curl, setpriv, unshare and bash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "connections/bodies.rs"]
mod bodies;
#[path = "connections/hosts.rs"]
mod hosts;
#[path = "connections/identity.rs"]
mod identity;
#[path = "connections/listen.rs"]
mod listen;
#[path = "connections/slow.rs"]
mod slow;
#[path = "connections/stage.rs"]
mod stage;
#[path = "connections/stop.rs"]
mod stop;
#[path = "connections/test_server.rs"]
mod test_server;
#[path = "connections/tls.rs"]
mod tls;
#[path = "connections/tokens.rs"]
mod tokens;

/// Not a test: the process that [`stage::Server`] starts. Without input it ends at once.
#[test]
fn child_server() {
    test_server::main();
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
