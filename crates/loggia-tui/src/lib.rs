//! The terminal interface: one client of a session.
//!
//! [`run`] is the entry point. It uses the session through `SessionClient` and a [`Host`] for
//! everything else. This crate does not use the hub, storage, agents, protocols or the environment.
//!
//! Rendering, from the bottom up, in pure functions: [`safe`] escapes untrusted text, [`wrap`]
//! wraps it to columns, [`theme`] chooses styles, [`highlight`] colours code, [`markdown`] and
//! [`diff`] render messages and changes, [`cell`] renders one cell, [`pager`] scrolls through all
//! cells, and [`view`] composes the screen.
//!
//! Control: [`app`] is a pure state machine (messages in, effects out) over the [`composer`], the
//! [`dialog`] and folds of the log; [`engine`] connects it to the session and `runner` to the
//! terminal. [`renderer`] and [`terminal`] turn the model into terminal output. [`trust_dialog`]
//! asks the trust question before a session starts.

pub mod app;
mod background;
pub mod cell;
pub mod command;
pub mod composer;
pub mod dialog;
pub mod diff;
pub mod editor;
pub mod engine;
pub mod facts;
mod files;
pub mod full;
pub mod highlight;
pub mod host;
mod input;
pub mod key_timing;
pub mod keymap;
mod lines;
pub mod markdown;
pub mod overlay;
pub mod own_origins;
pub mod pager;
pub mod questions;
pub mod renderer;
mod runner;
pub mod safe;
pub mod scrollback;
mod sgr;
mod status;
pub mod terminal;
pub mod theme;
pub mod trust_dialog;
pub mod tty;
pub mod uptime;
pub mod view;
pub mod wrap;

pub use app::{Exit, Start};
pub use host::{ConnectedClient, Host, Invitation, Preview, ShareFacts};
pub use overlay::qr_code;
pub use runner::{TuiError, run};
pub use trust_dialog::{TrustDecision, TrustQuestion, ask_trust};
