//! Protocols: requests to intents, events to frames.
//!
//! Each protocol has a directory, and implements [`protocol::Protocol`] at its top. [`decode`] turns a
//! request into an [`Intent`], which names no protocol; [`Projector::project`] turns an event into
//! [`Frame`]s of one protocol; [`refuse`] is the one table of errors. A server uses [`View`] and
//! [`Endpoint`] and never asks which protocol it serves.
//!
//! No socket, runtime, clock, file or decision belongs here. The same log always gives the same frames with
//! the same ids, so that a stream can be resumed exactly and all its readers can share one projection.
//!
//! ```text
//! bytes ─ jsonrpc::parse ─► Call ─ decode ─► DecodedRequest { view, intent }        (or a WireError)
//! log   ─ Projector::project ─► Frame { id: "<seq>.<k>", task, body, ends }
//! WireError ─ refuse ─► ErrorObject { code, message, data }
//! ```

mod a2a;
mod a2a03;
mod a2a1;
pub mod attach;
pub mod card;
pub mod coder;
pub mod commands;
pub mod context;
pub mod devtool;
pub mod dialect;
pub mod endpoint;
pub mod intent;
pub mod jsonrpc;
pub mod legacy;
pub mod project;
mod proto03;
mod protocol;
mod read;
pub mod refuse;
pub mod reply;
pub mod rest;
pub mod sdlc;
mod send;
pub mod stream;
pub mod time;
mod view;

pub use card::{CardFacts, CardKind, Extended, card, card_kind, extended_card};
pub use dialect::{
    A2aVersion, Dialect, Extension, View, check_call_version, decode, dialect_of,
    is_served_version, methods, streams,
};
pub use endpoint::{CallContext, Endpoint, KnownNames, StreamFormat, TaskNames, decode_call};
pub use intent::{
    AgentSettings, Answer, Answers, DecodedRequest, Delivery, HistoryLength, Intent, ListTasks,
    OpenTask, Prompt, PushTarget, RepositoryFields, RunSlash, StatusFilter, Subject,
};
pub use jsonrpc::{Body, Call, Id};
pub use loggia_core::words::words_to_choice;
pub use project::{Answered, End, Frame, FrameId, Projector, TaskDetail};
pub use refuse::{Condition, ErrorObject, RpcCode, Status, Violation, WireError};
pub use stream::{Mark, Subscription, TaskStream};
