//! gRPC and JSON agree: the JSON of a protocol is the JSON form of its protocol file, in both directions, and gRPC accepts
//! nothing that JSON does not.
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
