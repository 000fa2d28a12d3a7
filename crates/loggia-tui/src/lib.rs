//! Shows a session in a terminal and types into it: one client among many.
//!
//! What must not be here: the hub, storage, agents, the environment. A session is known by its
//! cells ([`loggia_core::Transcript`]) and reached by its client port.
//!
//! How it is shown, from the bottom up, every step a pure function: [`safe`] makes text fit for a
//! terminal, [`wrap`] fits it to columns, [`theme`] says how meanings look, [`highlight`] colours
//! code, [`markdown`] and [`diff`] make lines of what models and tools wrote, [`cell`] renders one
//! cell, and [`pager`] scrolls through all of them.

pub mod cell;
pub mod diff;
pub mod highlight;
pub mod markdown;
pub mod pager;
pub mod safe;
pub mod theme;
pub mod wrap;
