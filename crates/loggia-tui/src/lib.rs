//! Shows a session in a terminal and types into it: one client among many.
//!
//! [`run`] is the whole of it from outside. It knows the session by `SessionClient` alone, and asks
//! a [`Host`] for what is not the session. What must not be here: the hub, storage, agents,
//! protocols, the environment.
//!
//! How it is shown, from the bottom up, every step a pure function: [`safe`] makes text fit for a
//! terminal, [`wrap`] fits it to columns, [`theme`] says how meanings look, [`highlight`] colours
//! code, [`markdown`] and [`diff`] make lines of what models and tools wrote, [`cell`] renders one
//! cell, [`pager`] scrolls through all of them, and [`view`] puts the screen together.
//!
//! How it is used: [`app`] is a pure machine (messages in, effects out) over the [`composer`], the
//! [`dialog`] and the folds of the log; [`engine`] connects it to the session and `runner` to the
//! terminal, whose [`picture`] is kept by [`terminal`]. [`before`] asks what has to be known before
//! there is a session.

pub mod app;
mod background;
pub mod before;
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
pub mod guard;
pub mod highlight;
pub mod host;
mod input;
pub mod keymap;
mod lines;
pub mod markdown;
pub mod moment;
pub mod myself;
pub mod overlay;
pub mod pager;
pub mod picture;
pub mod printed;
pub mod questions;
mod runner;
pub mod safe;
mod sgr;
mod status;
pub mod terminal;
pub mod theme;
pub mod tty;
pub mod view;
pub mod wrap;

pub use app::{Exit, Start};
pub use before::{Beforehand, Decision, ask};
pub use host::{Enough, Host, Invitation, Present, Preview, ShareFacts};
pub use overlay::qr_code;
pub use runner::{TuiError, run};
