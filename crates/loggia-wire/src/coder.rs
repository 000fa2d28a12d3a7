//! The SDLC agent server as it was shipped: A2A 0.3 whose status updates carry that server's own
//! records of calls, named by `metadata.coderAgent`.
//!
//! A message with `coderAgent` in its metadata that does not name the development-tool extension is in this dialect,
//! and so is the task that it begins. The log keeps [`PROFILE`] with the prompt, and readers that name no extension later see the task in
//! the same way.
//!
//! The faults of that server are not repeated. `docs/protocols/sdlc.md` lists the deliberate differences.

pub(crate) mod decode;
mod project;
mod record;
mod types;

use loggia_core::{ChoiceId, KnownChoice, LateUntil, TaskArtifact, TaskView};
use serde_json::Value;

use crate::a2a03;
use crate::devtool::CODER_AGENT;
use crate::dialect::Extension;
use crate::intent::{DecodedRequest, Delivery};
use crate::project::FoldedEvent;
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::Update;
use crate::protocol::Protocol;
use crate::read::Read;

/// The name of this dialect in the log.
pub const PROFILE: &str = "coder-agent";

pub(crate) struct Coder;

impl Protocol for Coder {
    fn is_a2a(&self) -> bool {
        false
    }

    fn decode(&self, method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
        a2a03::decode::decode(method, params, extension)
    }

    fn default_delivery(&self) -> Delivery {
        Delivery::WhenSettled
    }

    /// Answers are records of their own.
    fn has_answer_form(&self, _: Extension) -> bool {
        true
    }

    /// A task waits for its next message when a turn has ended, and that message may be "yes".
    fn late_answers(&self) -> LateUntil {
        LateUntil::UntilTurnEnds
    }

    fn offered_choice(&self, choice: ChoiceId, offered: &[ChoiceId]) -> ChoiceId {
        within(choice, offered)
    }

    fn updates(&self, folded: &mut FoldedEvent<'_>, _: Extension) -> Vec<Update> {
        project::updates(folded)
    }

    fn task(&self, task: TaskSnapshot<'_>) -> Value {
        project::task(task)
    }

    /// Text is in the history, and changed files are in the records of their calls.
    fn artifacts<'a>(&self, task: &'a TaskView) -> Vec<&'a TaskArtifact> {
        let published =
            |artifact: &&TaskArtifact| matches!(artifact, TaskArtifact::Published { .. });
        task.artifacts.iter().filter(published).collect()
    }

    fn has_question_in_status(&self) -> bool {
        false
    }

    fn answer_starts_with_task(&self, _: Extension) -> bool {
        false
    }
}

/// Whether a message's metadata is that server's.
pub(crate) fn is_used_in(metadata: Option<&Value>) -> bool {
    metadata.is_some_and(|metadata| metadata.get(CODER_AGENT).is_some())
}

/// The widest offered choice that is not wider than the given one. Its clients do not see the offered choices, so they
/// may send "always" where only "once" is offered. Any other choice stays as it is.
#[must_use]
pub fn within(choice: ChoiceId, offered: &[ChoiceId]) -> ChoiceId {
    let reach = |choice: &ChoiceId| choice.known().and_then(KnownChoice::reach);
    let Some(given) = reach(&choice) else { return choice };
    let allowed = offered.iter().filter_map(|offered| Some((reach(offered)?, offered)));
    let widest = allowed.filter(|(reach, _)| *reach <= given).max_by_key(|(reach, _)| *reach);
    widest.map_or(choice, |(_, widest)| widest.clone())
}
