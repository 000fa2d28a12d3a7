//! The notes beside the prompts: memory files, and what the model must know about this session. They come
//! with the first message, and changes come with a later prompt, so that the beginning of a conversation
//! stays as it was sent.

use loggia_core::Note;
use loggia_session::TurnContext;

use crate::memory::Memory;

/// The current notes, in the order in which they are sent.
pub fn current(memory: &Memory, context: &TurnContext) -> Vec<Note> {
    let memory = memory.block().map(|text| Note { name: "Memory".to_owned(), text });
    memory.into_iter().chain([environment(context)]).collect()
}

fn environment(context: &TurnContext) -> Note {
    let text = format!(
        "The workspace is {}. The mode is {}.",
        context.workspace.path(),
        context.settings.approvals()
    );
    Note { name: "Environment".to_owned(), text }
}
