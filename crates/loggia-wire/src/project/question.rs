//! Texts: a question that a person can read and answer, the response of a turn, the reason of a failure.

use std::borrow::Cow;

use loggia_core::{Artifact, Details, Event, Exchange, Source, TaskView, TurnId, TurnOutcome};

use super::calls::{OpenCall, PendingApproval};
use super::update::ArtifactChunk;
use super::{FoldedEvent, Setup};

/// A question for clients without the extension: everything that would run, the possible answers, and how to give
/// them.
pub(super) fn question_text(call: &OpenCall, asked: &PendingApproval, setup: &Setup) -> String {
    let mut text = match &call.details {
        Details::Execute { command, directory } => {
            let directory = setup.directory(directory);
            format!("Loggia asks to run this command in {directory}:\n\n{}\n", indented(command))
        }
        Details::Edit(diff) => {
            format!("Loggia asks to change {}:\n\n{}\n", diff.path, indented(&diff.unified))
        }
        Details::Mcp { server, tool } => format!(
            "Loggia asks to use the tool {tool} of the server {server}: {}\n\n{}\n",
            call.title,
            indented(&call.input.to_string())
        ),
        Details::Question { text, .. } => format!("{text}\n"),
        Details::Generic { text } => format!("Loggia asks for permission: {text}\n"),
    };
    text.push_str(&how_to_answer(&call.details, asked));
    text
}

fn how_to_answer(details: &Details, asked: &PendingApproval) -> String {
    match details {
        Details::Question { options, .. } if options.is_empty() => {
            "\nAnswer in your own words, or with cancel.".to_owned()
        }
        Details::Question { options, .. } => {
            let numbered = (1..).zip(options);
            let listed: String =
                numbered.map(|(number, option)| format!("  {number}. {option}\n")).collect();
            format!("\n{listed}\nAnswer with one of these or in your own words, or with cancel.")
        }
        Details::Execute { .. }
        | Details::Edit(_)
        | Details::Mcp { .. }
        | Details::Generic { .. } => {
            let choices = asked.choices.iter();
            let listed: String =
                choices.map(|choice| format!("  {}: {}\n", choice.id, choice.name)).collect();
            format!("\nAnswer with one of:\n{listed}\nyes means proceed_once, no means cancel.")
        }
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

pub(crate) fn sources_text(sources: &[Source]) -> String {
    let lines = sources.iter().map(|source| format!("\n- {}: {}", source.title, source.uri));
    format!("Sources:{}", lines.collect::<String>())
}

/// Between paragraphs of a response.
pub(super) const PARAGRAPH: &str = "\n\n";

pub(super) fn response_id(turn: &TurnId) -> String {
    ["response-", turn.as_str()].concat()
}

/// The whole text of the agent in a turn.
pub(super) fn response_text(task: &TaskView, wanted: &TurnId) -> String {
    let said = task.history.iter().filter_map(|said| match said {
        Exchange::Reply { turn, text, .. } => (turn == wanted).then(|| Cow::from(text)),
        Exchange::Sources { turn, sources, .. } => {
            (turn == wanted).then(|| sources_text(sources).into())
        }
        Exchange::Prompt { .. } | Exchange::Question { .. } | Exchange::Answer { .. } => None,
    });
    said.collect::<Vec<Cow<'_, str>>>().join(PARAGRAPH)
}

/// A chunk that an agent published. The first chunk of an artifact does not append.
pub(crate) fn published(artifact: &Artifact, before: bool) -> ArtifactChunk {
    ArtifactChunk {
        id: artifact.id.clone(),
        name: artifact.name.clone(),
        parts: artifact.parts.clone(),
        append: artifact.append && before,
        last: artifact.last,
    }
}

/// The id of the message of a failure: the same in a stream and in a snapshot.
pub(crate) fn failure_id(task: &TaskView) -> String {
    format!("failure-{}", task.failed_at)
}

/// Why the turn that ends with this event failed, if it did.
pub(crate) fn failure_of<'a>(folded: &FoldedEvent<'a>) -> Option<&'a str> {
    let failed = matches!(
        &folded.envelope.event,
        Event::TurnEnded { outcome: TurnOutcome::Failed { .. } | TurnOutcome::Interrupted, .. }
            | Event::PromptScreened { .. }
    );
    if failed { folded.task.failure.as_deref() } else { None }
}
