//! Strict fakes of the vendors' model APIs on the loopback interface, for tests and benchmarks.
//!
//! One server answers for all vendors; the first segment of the path says which ([`FakeVendors::url`]).
//! Each vendor's module checks a request as the vendor does, and refuses it with the vendor's own error:
//! calls without a result, signatures that are missing or moved, a changed beginning of a conversation,
//! schemas that the vendor does not accept. A script decides what the model says ([`Script`]), and how the
//! stream fails ([`Fault`]). Official clients of the vendors work against the same server, which shows
//! that it is faithful.
//!
//! Not here: anything of Loggia.

mod script;
mod server;
mod vendor;

pub use script::{Answer, Asked, Fault, Pace, Rule, Say, Script, Spoken, StopKind};
pub use server::{FakeVendors, Recorded};
