//! Messages of A2A become prompts or answers. The versions differ in the form of a message, which is in their
//! [`MessageForm`]; its meaning is the same in all of them.

use loggia_core::{AnswerMessage, ChoiceId, Content, Edit, Part, SessionId, TaskChoice, TaskId};
use serde_json::Value;

use crate::coder;
use crate::devtool::{self, decode::Confirmation};
use crate::dialect::{Dialect, Extension, View};
use crate::intent::{
    AgentSettings, Answer, Answers, DecodedRequest, Delivery, HistoryLength, Intent, Prompt,
    PushTarget,
};
use crate::read::{Fields, Read, violation};
use crate::refuse::WireError;

/// All text of one message together.
const TEXT_LIMIT: usize = 1024 * 1024;
/// The address of a file.
pub(crate) const FILE_URI_LIMIT: usize = 64 * 1024;

/// How a version of A2A writes a message.
pub(crate) struct MessageForm {
    pub dialect: Dialect,
    /// The role of a client.
    pub user: &'static str,
    /// The member that holds the parts.
    pub parts: &'static str,
    pub part: fn(&Fields<'_>) -> Read<Part>,
    /// The path from a part to its data.
    pub data: &'static str,
    /// It has `referenceTaskIds`.
    pub references: bool,
    pub configuration: fn(&Fields<'_>, Option<Delivery>) -> Read<Configuration>,
    pub coder: CoderMessages,
}

/// How to read a message that has the form of the shipped SDLC agent server and does not name the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoderMessages {
    /// In that server's dialect, which is based on this version.
    OwnDialect,
    /// With the extension on.
    Extension,
    /// As any other message of this version.
    Ignored,
}

/// A message after reading.
struct Draft {
    session: Option<SessionId>,
    task: Option<TaskId>,
    /// The client's id for the message.
    message: String,
    parts: Vec<Part>,
    /// Where the client wrote them.
    parts_at: String,
    metadata: Option<Value>,
    metadata_at: String,
    extensions: Vec<String>,
    references: Vec<TaskId>,
    /// Of the request around the message.
    request_metadata: Option<Value>,
    configuration: Configuration,
}

pub(crate) struct Configuration {
    pub delivery: Delivery,
    pub push: Option<PushTarget>,
    pub history: HistoryLength,
    pub output_modes: Vec<String>,
}

impl Configuration {
    /// Of a request without one.
    pub fn absent(delivery: Delivery) -> Self {
        Self { delivery, push: None, history: HistoryLength::All, output_modes: Vec::new() }
    }
}

/// Decodes a request with a message. `stream` is set where the method streams.
pub(crate) fn decode(
    form: &MessageForm,
    request: &Fields<'_>,
    message: &Fields<'_>,
    stream: Option<Delivery>,
    extension: Extension,
) -> Read<DecodedRequest> {
    if message.text("role")?.ok_or_else(|| message.missing("role"))? != form.user {
        let why = format!("must be {} in a message of a client", form.user);
        return Err(violation(message.path("role"), why));
    }
    let draft = Draft {
        session: message.proto_id("contextId")?.map(Into::into),
        task: message.proto_id("taskId")?.map(Into::into),
        message: message.needed_id("messageId")?.to_owned(),
        parts: parts(message, form.parts, form.part)?,
        parts_at: message.path(form.parts),
        metadata: message.metadata("metadata")?,
        metadata_at: message.path("metadata"),
        extensions: message.texts("extensions")?,
        references: match form.references {
            true => message.ids("referenceTaskIds")?.into_iter().map(TaskId::from).collect(),
            false => Vec::new(),
        },
        request_metadata: request.metadata("metadata")?,
        configuration: (form.configuration)(request, stream)?,
    };
    let extension = extension
        .or(devtool::activated_by_message(&draft.extensions, draft.metadata.as_ref()))
        .or(devtool::activated_by_message(&[], draft.request_metadata.as_ref()));
    let view = view_of(&draft, form, extension);
    let intent = match confirmation(&draft, form)? {
        Some(confirmation) => Intent::Answer(Box::new(answer(draft, confirmation))),
        None => {
            check_text(&draft.parts_at, &draft.parts)?;
            let settings = settings(&draft)?;
            let answers = devtool::decode::answers("message.metadata", draft.metadata.as_ref())?;
            let prompt = prompt(draft, view.extension, settings);
            Intent::Prompt(Box::new(Prompt { answers, ..prompt }))
        }
    };
    let asked = DecodedRequest { view, intent };
    Ok(if view == View::CODER { asked.continued_in(view, coder::PROFILE) } else { asked })
}

/// The parts of a message, at least one.
pub(crate) fn parts(
    message: &Fields<'_>,
    member: &str,
    part: fn(&Fields<'_>) -> Read<Part>,
) -> Read<Vec<Part>> {
    let items = message.items(member)?;
    if items.is_empty() {
        return Err(violation(message.path(member), "must contain at least one part"));
    }
    items.into_iter().map(|(at, value)| part(&message.item(at, value)?)).collect()
}

fn view_of(draft: &Draft, form: &MessageForm, extension: Extension) -> View {
    let metadata = [&draft.metadata, &draft.request_metadata];
    let named = metadata.iter().any(|metadata| coder::is_used_in(metadata.as_ref()));
    let answers =
        |part: &Part| matches!(part, Part::Data { data } if coder::decode::is_answer(data));
    let plain = View { dialect: form.dialect, extension, guest: false };
    match (form.coder, extension) {
        (_, Extension::On) | (CoderMessages::Ignored, _) => plain,
        (CoderMessages::OwnDialect, _) if named || draft.parts.iter().any(answers) => View::CODER,
        (CoderMessages::Extension, _) if named => View { extension: Extension::On, ..plain },
        (CoderMessages::OwnDialect | CoderMessages::Extension, _) => plain,
    }
}

/// A message that confirms a call does nothing else. Only the choice to answer in words may have text beside it.
fn confirmation(draft: &Draft, form: &MessageForm) -> Read<Option<Confirmation>> {
    let confirms = |part: &Part| match part {
        Part::Data { data } => {
            let coder = form.coder == CoderMessages::OwnDialect && coder::decode::is_answer(data);
            devtool::decode::is_confirmation(data) || coder
        }
        Part::Text { .. } | Part::File { .. } => false,
    };
    let Some(index) = draft.parts.iter().position(confirms) else {
        return Ok(None);
    };
    let mut confirmation = None;
    let mut texts: Vec<&str> = Vec::new();
    for (at, part) in draft.parts.iter().enumerate() {
        match part {
            Part::Data { data } if at == index => {
                let at = format!("{}[{at}].{}", draft.parts_at, form.data);
                let metadata = draft.metadata.as_ref().map(|value| (&*draft.metadata_at, value));
                confirmation = Some(match devtool::decode::is_confirmation(data) {
                    true => devtool::decode::confirmation(&at, data, metadata)?,
                    false => coder::decode::answer(&at, data)?,
                });
            }
            Part::Text { text } => texts.push(text),
            Part::Data { .. } | Part::File { .. } => return Err(not_alone(draft)),
        }
    }
    match confirmation {
        Some(confirmation) if texts.is_empty() => Ok(Some(confirmation)),
        Some(confirmation) if confirmation.choice.0 == ChoiceId::ANSWER => {
            let edit = Some(Edit::Text { text: texts.join("\n") });
            Ok(Some(Confirmation { edit, ..confirmation }))
        }
        Some(_) | None => Err(not_alone(draft)),
    }
}

fn not_alone(draft: &Draft) -> WireError {
    violation(&*draft.parts_at, "must contain one confirmation and nothing beside it")
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
        false => Err(violation(at, "must contain at most 1 MiB of text")),
    }
}

/// A file has bytes or an address, and not both.
pub(crate) fn check_file(
    fields: &Fields<'_>,
    (bytes_name, base64): (&str, &Option<String>),
    (uri_name, uri): (&str, &Option<String>),
) -> Read<()> {
    match (base64, uri) {
        (Some(bytes), None) if !is_base64(bytes) => {
            Err(violation(fields.path(bytes_name), "must be base64"))
        }
        (Some(_), None) | (None, Some(_)) => Ok(()),
        (Some(_), Some(_)) | (None, None) => {
            let why = format!("or {uri_name} is required, and not both");
            Err(violation(fields.path(bytes_name), why))
        }
    }
}

/// Where to send push notifications. An empty member is an absent one.
pub(crate) fn push_target(config: &Fields<'_>) -> Read<PushTarget> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (mut scheme, mut credentials) = (None, None);
    if let Some(authentication) = config.object("authentication")? {
        scheme = authentication.secret("scheme")?;
        credentials = authentication.secret("credentials")?;
    }
    Ok(PushTarget {
        id: config.optional_id("id")?.map(str::to_owned),
        url: config.url("url")?,
        token: given(config.secret("token")?),
        scheme: given(scheme),
        credentials: given(credentials),
    })
}

/// Whether text can be base64, in either alphabet.
pub(crate) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len() - body.len() <= 2
        && body.len() % 4 != 1
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte))
}
