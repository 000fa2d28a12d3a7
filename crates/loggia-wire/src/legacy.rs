//! The task service: `tasks/send` and its family, as A2A 0.1 and the services built on it write
//! them. Clients name their tasks themselves, poll for results, and can not be asked.
//!
//! One more dialect of the same log: what a client sent is kept in its prompt ([`request`]), its
//! name for the task leads to ours by a digest ([`name`]), and every answer is a projection. What
//! must not be here: a table of names, or a state that is not in the log.

pub mod card;
pub mod decode;
pub mod name;
pub(crate) mod project;
pub mod request;
pub mod schema;
pub mod types;
pub mod words;

pub use decode::{Names, Reading, decode, decode_bare};

/// Methods that nobody else has.
pub(crate) const METHODS: &[&str] = &[
    "tasks/send",
    "tasks/sendSubscribe",
    STREAM,
    "tasks/pushNotification/set",
    "tasks/pushNotification/get",
];
/// What python-a2a calls `tasks/sendSubscribe`.
pub(crate) const STREAM: &str = "tasks/stream";
pub(crate) const STREAMING: &[&str] = &["tasks/sendSubscribe", STREAM];

/// Methods that name a task which exists.
pub(crate) fn names_task(method: &str) -> bool {
    is_shared(method) || method.starts_with("tasks/pushNotification/")
}

/// Methods that A2A 0.3 has under the same names: which one is meant depends on the task.
pub fn is_shared(method: &str) -> bool {
    ["tasks/get", "tasks/cancel", "tasks/resubscribe"].contains(&method)
}
