//! The built-in models, and the port that they share with the vendors' models (`loggia-models`).

mod actions;
pub mod offline;
pub mod registry;
pub mod scripted;
mod summarize;

pub use loggia_core::Stop;
pub use loggia_models::{
    Delta, Message, Model, ModelError, ModelErrorKind, ModelRequest, PastCall, Purpose, Reply,
    UserMessage,
};
