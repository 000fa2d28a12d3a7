//! What the bindings have in common: the JSON of a dialect is the JSON form of its protocol file, in
//! both directions, and gRPC reads nothing that JSON would not have read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod bindings {
    mod descriptors;
    mod laws;
    mod limits;
}
