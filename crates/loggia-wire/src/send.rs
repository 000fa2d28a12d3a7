//! A decoded message becomes a prompt or an answer. The dialects differ in how a message is
//! written; what it means is decided here, once.

use loggia_core::{AnswerMessage, ChoiceId, Content, Edit, Part, SessionId, TaskChoice, TaskId};
use serde_json::Value;

use crate::coder;
use crate::devtool::{self, decode::Confirmation};
use crate::dialect::{Dialect, Extension, View};
use crate::intent::{
    AgentSettings, Answer, Answers, Asked, Delivery, HistoryLength, Intent, Prompt, PushTarget,
};
use crate::read::{Read, violation};
use crate::refuse::WireError;

/// All text of one message together.
const TEXT_LIMIT: usize = 1024 * 1024;

/// A message as any dialect may write it.
pub(crate) struct Draft {
    pub session: Option<SessionId>,
    pub task: Option<TaskId>,
    /// The client's name for the message.
    pub message: String,
    pub parts: Vec<Part>,
    /// Where the client wrote them.
    pub parts_at: String,
    pub metadata: Option<Value>,
    pub metadata_at: String,
    pub extensions: Vec<String>,
    pub references: Vec<TaskId>,
    /// Of the request around the message.
    pub request_metadata: Option<Value>,
    pub configuration: Configuration,
}

pub(crate) struct Configuration {
    pub delivery: Delivery,
    pub push: Option<PushTarget>,
    pub history: HistoryLength,
    pub output_modes: Vec<String>,
}

pub(crate) fn asked(draft: Draft, dialect: Dialect, extension: Extension) -> Read<Asked> {
    let metadata = draft.metadata.as_ref();
    let extension = extension
        .or(devtool::activated_by_message(&draft.extensions, metadata))
        .or(devtool::activated_by_message(&[], draft.request_metadata.as_ref()));
    let view = spoken(&draft, dialect, extension);
    let intent = match confirmation(&draft, dialect)? {
        Some(confirmation) => Intent::Answer(Box::new(answer(draft, confirmation))),
        None => {
            check_text(&draft.parts_at, &draft.parts)?;
            let settings = settings(&draft)?;
            let answers = devtool::decode::answers("message.metadata", draft.metadata.as_ref())?;
            let prompt = prompt(draft, view.extension, settings);
            Intent::Prompt(Box::new(Prompt { answers, ..prompt }))
        }
    };
    let asked = Asked { view, intent };
    Ok(if view == View::CODER { coder::in_this_dialect(asked) } else { asked })
}

/// Metadata or answers in the form of the shipped SDLC agent server, without the extension's name:
/// its dialect, where it is 0.3, which is all that server speaks.
fn spoken(draft: &Draft, dialect: Dialect, extension: Extension) -> View {
    let metadata = [&draft.metadata, &draft.request_metadata];
    let named = metadata.iter().any(|metadata| coder::is_spoken_in(metadata.as_ref()));
    let answers =
        |part: &Part| matches!(part, Part::Data { data } if coder::decode::is_answer(data));
    match (dialect, extension) {
        (Dialect::A2a03, Extension::Off) if named || draft.parts.iter().any(answers) => View::CODER,
        (Dialect::A2a1, Extension::Off) if named => View { dialect, extension: Extension::On },
        (_, _) => View { dialect, extension },
    }
}

/// A message that confirms a call confirms that call and does nothing else. Only the choice to
/// answer in words has words beside it.
fn confirmation(draft: &Draft, dialect: Dialect) -> Read<Option<Confirmation>> {
    let confirms = |part: &Part| match part {
        Part::Data { data } => {
            let shipped = dialect == Dialect::A2a03 && coder::decode::is_answer(data);
            devtool::decode::is_confirmation(data) || shipped
        }
        Part::Text { .. } | Part::File { .. } => false,
    };
    let Some(index) = draft.parts.iter().position(confirms) else {
        return Ok(None);
    };
    let mut confirmation = None;
    let mut words: Vec<&str> = Vec::new();
    for (at, part) in draft.parts.iter().enumerate() {
        match part {
            Part::Data { data } if at == index => {
                let inner = if dialect == Dialect::Proto03 { ".data" } else { "" };
                let at = format!("{}[{at}].data{inner}", draft.parts_at);
                let beside = draft.metadata.as_ref().map(|beside| (&*draft.metadata_at, beside));
                confirmation = Some(match devtool::decode::is_confirmation(data) {
                    true => devtool::decode::confirmation(&at, data, beside)?,
                    false => coder::decode::answer(&at, data)?,
                });
            }
            Part::Text { text } => words.push(text),
            Part::Data { .. } | Part::File { .. } => return Err(crowded(draft)),
        }
    }
    match confirmation {
        Some(confirmation) if words.is_empty() => Ok(Some(confirmation)),
        Some(confirmation) if confirmation.choice.0 == ChoiceId::ANSWER => {
            let edit = Some(Edit::Text { text: words.join("\n") });
            Ok(Some(Confirmation { edit, ..confirmation }))
        }
        Some(_) | None => Err(crowded(draft)),
    }
}

fn crowded(draft: &Draft) -> WireError {
    violation(&*draft.parts_at, "must hold one confirmation and nothing beside it")
}

fn answer(draft: Draft, confirmation: Confirmation) -> Answer {
    let Confirmation { to, choice, edit, digest } = confirmation;
    let Configuration { delivery, history, .. } = draft.configuration;
    let message = Some(AnswerMessage { id: Some(draft.message), text: None });
    let (session, task) = (draft.session, draft.task);
    Answer { session, task, to, choice, edit, digest, message, delivery, history }
}

fn prompt(draft: Draft, extension: Extension, settings: Option<AgentSettings>) -> Prompt {
    let Configuration { delivery, push, history, output_modes } = draft.configuration;
    Prompt {
        session: draft.session,
        task: match (draft.task, extension) {
            (None, _) => TaskChoice::New,
            (Some(task), Extension::On) => TaskChoice::Reopen(task),
            (Some(task), Extension::Off) => TaskChoice::Continue(task),
        },
        content: Content {
            parts: draft.parts,
            message: Some(draft.message),
            metadata: draft.metadata.map(devtool::decode::without_servers),
            profile: (extension == Extension::On).then(|| devtool::PROFILE.to_owned()),
        },
        answers: Answers::default(),
        settings,
        delivery,
        push,
        history,
        output_modes,
        references: draft.references,
    }
}

fn settings(draft: &Draft) -> Read<Option<AgentSettings>> {
    match devtool::decode::settings(&draft.metadata_at, draft.metadata.as_ref())? {
        None => devtool::decode::settings("metadata", draft.request_metadata.as_ref()),
        given => Ok(given),
    }
}

pub(crate) fn check_text(at: &str, parts: &[Part]) -> Read<()> {
    let texts = parts.iter().map(|part| match part {
        Part::Text { text } => text.len(),
        Part::File { .. } | Part::Data { .. } => 0,
    });
    match texts.sum::<usize>() <= TEXT_LIMIT {
        true => Ok(()),
        false => Err(violation(at, "must hold at most 1 MiB of text")),
    }
}

/// Whether text can be base64, in either alphabet.
pub(crate) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len() - body.len() <= 2
        && body.len() % 4 != 1
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte))
}
