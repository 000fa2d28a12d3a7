//! Listens: HTTP, SSE and WebSocket in front of shared sessions.
//!
//! Every request passes the [`guard`] and the authenticator ([`auth`]). `loggia-wire` decodes it into an intent, and
//! [`Server::ask`](state::Server::ask) puts that to the hub. The answer is a value, or frames that are read by cursor from a
//! shared [`projection`].
//!
//! Not here: the meaning of an event, a protocol's rules (both are in `loggia-wire`), a decision about a
//! session, a second state beside the log.

mod access;
pub mod auth;
mod client_task_ids;
pub mod clones;
pub mod dispatch;
pub mod grpc;
pub mod guard;
pub mod hook;
pub mod http;
mod keyed_semaphores;
mod list;
mod mode;
mod not_found;
pub mod peer;
pub mod presence;
pub mod projection;
pub mod push;
mod requested_settings;
mod required_scopes;
pub mod serve;
mod slash;
pub mod state;
mod task_fold;
mod time;
