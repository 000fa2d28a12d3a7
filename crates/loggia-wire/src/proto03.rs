//! A2A 0.3 over HTTP+JSON and gRPC: not the JSON of its JSON-RPC, but the JSON form of its protocol
//! file. Roles and states are names of enums, a message has `content`, a canceled task is
//! `TASK_STATE_CANCELLED`, and a task is addressed as `tasks/ID`.
//!
//! Clients read it strictly: no member may be written that the protocol file does not have.

pub mod decode;
pub(crate) mod project;
pub mod types;

/// Those of its methods, as the gRPC service names them, whose answer is a stream.
pub(crate) const STREAMING: &[&str] = &["SendStreamingMessage", "TaskSubscription"];
