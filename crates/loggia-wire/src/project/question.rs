//! Words for things: a question that a person can read and answer, and what a turn came to.

use std::borrow::Cow;

use loggia_core::{Artifact, Details, Event, Exchange, Source, TaskView, TurnId, TurnOutcome};

use super::calls::{Asked, OpenCall};
use super::update::{Piece, Update};
use super::{Setup, Step};

/// What a client without the extension shows its person: all that would run, what may be answered,
/// and how.
pub(super) fn question_text(call: &OpenCall, asked: &Asked, setup: &Setup) -> String {
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

fn how_to_answer(details: &Details, asked: &Asked) -> String {
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

/// Where paragraphs of a response meet.
pub(super) const PARAGRAPH: &str = "\n\n";

pub(super) fn response_id(turn: &TurnId) -> String {
    ["response-", turn.as_str()].concat()
}

/// All that the agent said in a turn.
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

/// A chunk that an agent published. The first chunk of an artifact appends to nothing.
pub(crate) fn published(piece: &Artifact, before: bool) -> Update {
    Update::Piece(Piece {
        id: piece.id.clone(),
        name: piece.name.clone(),
        parts: piece.parts.clone(),
        append: piece.append && before,
        last: piece.last,
    })
}

/// One failure is one message, in a stream and in a task of later.
pub(crate) fn failure_id(task: &TaskView) -> String {
    format!("failure-{}", task.failed_at)
}

/// Why the turn that ends with this event failed, if it did.
pub(crate) fn failure_of<'a>(step: &Step<'a>) -> Option<&'a str> {
    let failed = matches!(
        &step.envelope.event,
        Event::TurnEnded { outcome: TurnOutcome::Failed { .. } | TurnOutcome::Interrupted, .. }
            | Event::PromptScreened { .. }
    );
    if failed { step.task.failure.as_deref() } else { None }
}
