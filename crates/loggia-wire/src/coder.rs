//! The SDLC agent server as it was shipped: A2A 0.3 whose status updates carry that server's own
//! records of calls, named by `metadata.coderAgent`.
//!
//! A message that says `coderAgent` and does not name the development-tool extension is spoken in
//! this dialect, and so is the task it begins: the log keeps [`PROFILE`] with the prompt, and who
//! reads the task later without naming an extension is shown it the same way.
//!
//! What must not be here: the faults of that server. `docs/protocols/sdlc.md` lists what is written
//! differently on purpose.

pub mod decode;
pub(crate) mod project;
pub mod types;

use loggia_core::{ChoiceId, TaskChoice};

use crate::devtool::CODER_AGENT;
use crate::dialect::{Dialect, Extension, View};
use crate::intent::{Asked, Intent};

/// What the log calls this dialect.
pub const PROFILE: &str = "coder-agent";

/// Whether a message's metadata is that server's.
pub(crate) fn is_spoken_in(metadata: Option<&serde_json::Value>) -> bool {
    metadata.is_some_and(|metadata| metadata.get(CODER_AGENT).is_some())
}

/// Whether a request says by itself in which view its answer has to be. A plain 0.3 request about a
/// task does not: the task may have been begun in this dialect.
pub fn leaves_open(asked: &Asked) -> Option<&loggia_core::TaskId> {
    let plain = View { dialect: Dialect::A2a03, extension: Extension::Off };
    if asked.view != plain {
        return None;
    }
    match &asked.intent {
        Intent::Prompt(prompt) => prompt.named_task(),
        Intent::Answer(answer) => answer.task.as_ref(),
        Intent::Cancel { task } | Intent::Subscribe { task } | Intent::GetTask { task, .. } => {
            Some(task)
        }
        Intent::OpenTask(_)
        | Intent::ListTasks(_)
        | Intent::SetPush { .. }
        | Intent::GetPush { .. }
        | Intent::ListPush { .. }
        | Intent::DeletePush { .. }
        | Intent::GetExtendedCard
        | Intent::ListSlash { .. }
        | Intent::RunSlash(_) => None,
    }
}

/// The widest offered choice that reaches no further than the given one. Its clients are not told
/// what is offered, so "always" may be said where only "once" is; anything else stays as it is.
#[must_use]
pub fn within(choice: ChoiceId, offered: &[ChoiceId]) -> ChoiceId {
    const WIDEST_FIRST: [&str; 3] =
        [ChoiceId::PROCEED_ALWAYS_PROJECT, ChoiceId::PROCEED_ALWAYS, ChoiceId::PROCEED_ONCE];
    let Some(from) = WIDEST_FIRST.iter().position(|id| choice.0 == *id) else { return choice };
    let narrower = WIDEST_FIRST.iter().skip(from);
    let taken = narrower.copied().find(|id| offered.iter().any(|offered| offered.0 == *id));
    taken.map_or(choice, ChoiceId::from)
}

/// The same request, as this dialect means it: here a task goes on after a turn has ended.
#[must_use]
pub fn in_this_dialect(asked: Asked) -> Asked {
    let Asked { mut intent, .. } = asked;
    if let Intent::Prompt(prompt) = &mut intent {
        prompt.content.profile = Some(PROFILE.to_owned());
        if let TaskChoice::Continue(task) = &prompt.task {
            prompt.task = TaskChoice::Reopen(task.clone());
        }
    }
    Asked { view: View::CODER, intent }
}
