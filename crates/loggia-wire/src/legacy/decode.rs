//! Requests of the legacy service to intents.
//!
//! Parts may be tagged `type`, `kind` or not at all, and python-a2a has one `content` instead. Clients
//! cannot answer questions, so a session that they open is unattended: policy decides.

use loggia_core::{Content, Part, TaskChoice, TaskId};
use serde_json::{Map, Value, json};

use super::{STREAM, name, request};
use crate::dialect::View;
use crate::intent::{
    AgentSettings, Answers, DecodedRequest, Delivery, HistoryLength, Intent, Prompt, PushTarget,
};
use crate::jsonrpc::Call;
use crate::read::{Fields, Read, violation};
use crate::refuse::WireError;
use crate::{a2a03, send};

mod repository;

/// Whose task ids a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskIds<'a> {
    /// Those of this client.
    OfClient(&'a str),
    /// The tasks' own ids, as in other protocols.
    OfServer,
}

/// The circumstances of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions<'a> {
    pub ids: TaskIds<'a>,
    /// When `tasks/send` answers.
    pub send: Delivery,
}

pub fn decode(call: &Call, options: DecodeOptions<'_>) -> Result<DecodedRequest, WireError> {
    let fields = Fields::of_params(&call.params)?;
    let task = || fields.needed_id("id").map(|sent_id| options.task(sent_id));
    let intent = match call.method.as_str() {
        "tasks/send" => sent(&call.params, &fields, options, options.send)?,
        "tasks/sendSubscribe" | STREAM => sent(&call.params, &fields, options, Delivery::Stream)?,
        "tasks/get" => Intent::GetTask { task: task()?, history: history(&fields)? },
        "tasks/cancel" => Intent::Cancel { task: task()? },
        "tasks/resubscribe" => Intent::Subscribe { task: task()? },
        "tasks/pushNotification/set" => {
            let config = fields.object("pushNotificationConfig")?;
            let config = config.ok_or_else(|| fields.missing("pushNotificationConfig"))?;
            Intent::SetPush { task: task()?, target: push_target(&config)? }
        }
        "tasks/pushNotification/get" => Intent::GetPush { task: task()?, config: None },
        _ => return Err(WireError::MethodNotFound),
    };
    Ok(DecodedRequest { view: View::LEGACY, intent })
}

/// Decodes the parameters of `tasks/sendSubscribe` without an envelope.
pub fn decode_bare(
    params: &Value,
    options: DecodeOptions<'_>,
) -> Result<DecodedRequest, WireError> {
    let fields = Fields::of_params(params)?;
    Ok(DecodedRequest {
        view: View::LEGACY,
        intent: sent(params, &fields, options, Delivery::Stream)?,
    })
}

impl DecodeOptions<'_> {
    fn task(&self, sent_id: &str) -> TaskId {
        match self.ids {
            TaskIds::OfClient(owner) => name::task(owner, sent_id),
            TaskIds::OfServer => sent_id.into(),
        }
    }
}

fn sent(
    params: &Value,
    fields: &Fields<'_>,
    options: DecodeOptions<'_>,
    delivery: Delivery,
) -> Read<Intent> {
    let task = options.task(fields.needed_id("id")?);
    let message = fields.object("message")?.ok_or_else(|| fields.missing("message"))?;
    match message.text("role")? {
        None | Some("user") => {}
        Some(_) => {
            return Err(violation(message.path("role"), "must be user in a message of a client"));
        }
    }
    let mut parts = parts(&message)?;
    let parts_at = match (message.get("parts"), message.get("content")) {
        (None, Some(_)) => message.path("content"),
        (_, _) => message.path("parts"),
    };
    message.metadata("metadata")?;
    fields.metadata("metadata")?;
    let context = fields.metadata("context")?;
    let context = context.as_ref().map(|value| Fields::of("context", value)).transpose()?;
    let repository = context.as_ref().map(repository::read).transpose()?.flatten();
    if let Some(context) = &context {
        parts.extend(context_part(context, repository.is_some()));
    }
    send::check_text(&parts_at, &parts)?;
    let push = fields.object("pushNotification")?;
    let id = match message.id("messageId")? {
        None => message.id("message_id")?,
        given => given,
    };
    let described = context.as_ref().filter(|_| repository.is_some());
    let settings = AgentSettings {
        repository_fields: described.map(repository::fields).unwrap_or_default(),
        repository,
        unattended: true,
        ..AgentSettings::default()
    };
    Ok(Intent::Prompt(Box::new(Prompt {
        session: fields.id("sessionId")?.map(Into::into),
        task: TaskChoice::Named(task),
        content: Content {
            parts,
            message: id.map(str::to_owned),
            metadata: params.as_object().map(request::kept),
            profile: None,
        },
        answers: Answers::default(),
        settings: Some(settings),
        delivery,
        push: push.map(|config| push_target(&config)).transpose()?,
        history: history(fields)?,
        output_modes: fields.texts("acceptedOutputModes")?,
        references: Vec::new(),
    })))
}

/// Without `historyLength`, clients of this protocol expect no history.
fn history(fields: &Fields<'_>) -> Read<HistoryLength> {
    Ok(HistoryLength::Last(fields.count("historyLength")?.unwrap_or(0)))
}

/// Members of the context that do not describe the repository are for the agent to read.
fn context_part(context: &Fields<'_>, cloned: bool) -> Option<Part> {
    let ours = |name: &str| cloned && repository::MEMBERS.contains(&name);
    let names = context.names().filter(|name| !ours(name));
    let pairs = names.filter_map(|name| Some((name.clone(), context.get(name)?.clone())));
    let pairs: Map<String, Value> = pairs.collect();
    (!pairs.is_empty()).then(|| Part::Data { data: json!({ "context": pairs }) })
}

fn parts(message: &Fields<'_>) -> Read<Vec<Part>> {
    let items = message.items("parts")?;
    match (items.is_empty(), message.object("content")?) {
        (true, Some(content)) => Ok(vec![content_part(&content, message.get("content"))?]),
        (true, None) if message.get("parts").is_none() => Err(message.missing("parts")),
        (true, None) => Err(violation(message.path("parts"), "must contain at least one part")),
        (false, _) => items.into_iter().map(|(at, value)| part(&Fields::of(at, value)?)).collect(),
    }
}

/// python-a2a: one `content`, text or structured.
fn content_part(content: &Fields<'_>, value: Option<&Value>) -> Read<Part> {
    match (content.text("type")?, value) {
        (None | Some("text"), _) | (Some(_), None) => {
            let text = content.owned_text("text")?.ok_or_else(|| content.missing("text"))?;
            Ok(Part::Text { text })
        }
        (Some(_), Some(value)) => Ok(Part::Data { data: value.clone() }),
    }
}

fn part(fields: &Fields<'_>) -> Read<Part> {
    let tag = match fields.text("type")? {
        None => fields.text("kind")?,
        given => given,
    };
    let untagged = ["text", "file", "data"].into_iter().find(|name| fields.get(name).is_some());
    match tag.or(untagged) {
        Some("text") | None => {
            let text = fields.owned_text("text")?.ok_or_else(|| fields.missing("text"))?;
            Ok(Part::Text { text })
        }
        Some("file") => {
            let file = fields.object("file")?.ok_or_else(|| fields.missing("file"))?;
            a2a03::decode::file(&file)
        }
        Some("data") => match fields.get("data") {
            Some(data) => Ok(Part::Data { data: data.clone() }),
            None => Err(fields.missing("data")),
        },
        Some(_) => Err(violation(fields.path("type"), "must be text, file or data")),
    }
}

fn push_target(config: &Fields<'_>) -> Read<PushTarget> {
    // A task has one webhook; setting it again replaces it.
    Ok(PushTarget { id: None, ..a2a03::decode::push_target(config)? })
}
