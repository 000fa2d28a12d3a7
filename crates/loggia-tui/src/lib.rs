//! The terminal: one client of a session among many.
//!
//! [`run`] shows a session and lets a person write, ask and answer in it. It knows the session by
//! `SessionClient` alone, and asks a [`Host`] for what is not the session. Inside, [`app`] is a
//! pure machine; [`engine`] connects it to the session, `runner` to the terminal.
//!
//! What must not be here: the hub, storage, agents, protocols, the environment. Whatever a model, a
//! tool, a file or another client wrote goes through [`safe`] before it is drawn.

pub mod app;
pub mod command;
pub mod composer;
pub mod dialog;
pub mod editor;
pub mod engine;
pub mod facts;
mod files;
pub mod full;
pub mod host;
pub mod keymap;
pub mod moment;
pub mod overlay;
pub mod printed;
mod provisional_view;
pub mod questions;
mod runner;
pub mod safe;
mod sgr;
mod status;
pub mod terminal;
pub mod tty;
pub mod view;
pub mod wrap;

pub use app::{Exit, Start};
pub use host::{Enough, Host, Present, Preview, ShareFacts};
pub use runner::{TuiError, run};
