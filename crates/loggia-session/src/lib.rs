//! Runs sessions: one writer each, a durable log, readers that pull.
//!
//! The [`Hub`] finds and opens sessions. Each open session is one actor task that owns its state,
//! decides with `loggia-core`, appends to the [`Store`], and only then shows and acts. Clients hold
//! a [`SessionHandle`]; the running agent holds a [`Turn`].
//!
//! What must not be here: any protocol, any model, any tool, any terminal.

mod actor;
mod backlog;
mod batch;
pub mod boxed;
pub mod client;
pub mod handle;
pub mod hub;
pub mod index;
pub mod log;
pub mod output;
pub mod ports;
pub mod store;
pub mod turn;

pub use backlog::BacklogLimits;
pub use client::{LocalClient, SessionClient};
pub use handle::{Ack, SessionHandle, SubmitError};
pub use hub::{Hub, HubError, Idle, NewSession};
pub use index::{ListedTask, TaskMark, TaskPage, TaskPlace, TaskQuery};
pub use log::{Events, Follower};
pub use ports::{Agent, Append, Document, Lease, Listed, Owner, Store, StoreError, TurnOver};
pub use store::memory::MemoryStore;
pub use store::sqlite::SqliteStore;
pub use turn::{Denied, PendingCall, Permit, Turn, TurnContext};
