//! Listens: HTTP, SSE and WebSocket in front of shared sessions.
//!
//! Every request passes the [`guard`], which knows who sends it; then it is decoded by
//! `loggia-wire` and put to [`Server::ask`](state::Server::ask), which knows the hub; the answer is
//! a value or frames, read by cursor from a shared [`projection`].
//!
//! What must not be here: the meaning of an event (it moves intents and frames), a decision about a
//! session, a second state beside the log.

mod alone;
pub mod auth;
pub mod clones;
pub mod dispatch;
mod extended;
mod grant;
pub mod grpc;
pub mod guard;
pub mod hook;
pub mod http;
mod list;
mod load;
mod named;
mod owned;
pub mod pacer;
pub mod peer;
pub mod presence;
pub mod projection;
pub mod push;
mod selected;
pub mod serve;
mod slash;
pub mod state;
mod time;
mod wishes;
