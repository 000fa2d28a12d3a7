//! The instructions of a request: how to work, for the family of the model.
//!
//! Not here: what differs from session to session (`notes`).

use loggia_core::ModelName;

use crate::memory::Memory;

const BASE: &str = "You are Loggia, a coding agent. You work in one workspace with the tools you are given. \
     Read before you change anything, change as little as the task needs, and say plainly what you did. \
     If a call is refused, accept that: do not try to get around it.";

/// The instructions for this model.
pub fn for_model(_model: &ModelName) -> &'static str {
    BASE
}

/// The same with the notes of the user and the workspace, for a model that does not keep a conversation.
pub fn with_memory(model: &ModelName, memory: &Memory) -> String {
    match memory.block() {
        Some(block) => format!("{}\n\n{block}", for_model(model)),
        None => for_model(model).to_owned(),
    }
}
