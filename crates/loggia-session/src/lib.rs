//! Runs sessions: one writer each, a durable log, readers that pull.
//!
//! The [`Hub`] finds and opens sessions. Each open session is one actor task that owns its state,
//! decides with `loggia-core`, appends to the [`Store`], and only then publishes and acts. Clients hold
//! a [`SessionHandle`]; the running agent holds a [`Turn`].
//!
//! Not here: protocols, models, tools, terminals and databases. The production store is the crate
//! `loggia-store`; the store in memory is for tests.

mod actor;
mod backlog;
mod batch;
pub mod client;
pub mod handle;
pub mod hub;
pub mod index;
pub mod log;
mod memory;
pub mod output;
pub mod ports;
pub mod turn;

pub use client::{LocalClient, SessionClient};
pub use handle::{Ack, SessionHandle, SubmitError};
pub use hub::{Hub, HubError, IdlePolicy, NewSession};
pub use index::{ListedTask, TaskMark, TaskPage, TaskPosition, TaskQuery};
pub use log::{Events, Follower};
pub use memory::MemoryStore;
pub use ports::{
    Agent, Append, Document, Lease, Listed, Listing, Owner, Principals, Store, StoreError, TurnOver,
};
pub use turn::{Denied, PendingCall, Permit, Turn, TurnContext};
