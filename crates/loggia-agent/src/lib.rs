//! Runs turns: streams a model's replies, proposes its calls and runs the permitted ones with tools.
//!
//! [`NativeAgent`] is the agent; [`model::Model`] and [`tool::Tool`] are its two ports.
//!
//! Not here: clients, protocols that Loggia serves, storage.

mod child;
pub mod clone;
mod compaction;
pub mod context;
pub mod custom;
pub mod guard;
mod instructions;
mod memory;
pub mod model;
pub mod native;
mod notes;
mod repository_tree;
mod slash;
pub mod tool;
pub mod workspace;

pub use compaction::CompactAt;
pub use custom::CommandFiles;
pub use native::NativeAgent;
