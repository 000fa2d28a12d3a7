//! A2A 0.3 requests to intents.

use loggia_core::{Part, TaskId};
use serde_json::Value;

use crate::dialect::{Dialect, Extension, View};
use crate::intent::{Asked, Delivery, HistoryLength, Intent, PushTarget};
use crate::read::{Fields, Read, violation};
use crate::refuse::WireError;
use crate::send::{self, Configuration, Draft, is_base64};

pub(crate) fn asked(method: &str, params: &Value, extension: Extension) -> Read<Asked> {
    let fields = Fields::of_params(params)?;
    let intent = match method {
        "message/send" => return message(&fields, None, extension),
        "message/stream" => return message(&fields, Some(Delivery::Stream), extension),
        "tasks/get" => Intent::GetTask { task: task(&fields)?, history: history(&fields)? },
        "tasks/cancel" => Intent::Cancel { task: task(&fields)? },
        "tasks/resubscribe" => Intent::Subscribe { task: task(&fields)? },
        "tasks/pushNotificationConfig/set" => {
            let config = fields.object("pushNotificationConfig")?;
            let config = config.ok_or_else(|| fields.missing("pushNotificationConfig"))?;
            let task = TaskId::from(fields.needed_id("taskId")?);
            Intent::SetPush { task, target: push_target(&config)? }
        }
        "tasks/pushNotificationConfig/get" => Intent::GetPush {
            task: task(&fields)?,
            config: fields.id("pushNotificationConfigId")?.map(str::to_owned),
        },
        "tasks/pushNotificationConfig/list" => Intent::ListPush { task: task(&fields)? },
        "tasks/pushNotificationConfig/delete" => Intent::DeletePush {
            task: task(&fields)?,
            config: fields.needed_id("pushNotificationConfigId")?.to_owned(),
        },
        "agent/getAuthenticatedExtendedCard" => Intent::GetExtendedCard,
        _ => return Err(WireError::MethodNotFound),
    };
    Ok(Asked { view: View { dialect: Dialect::A2a03, extension }, intent })
}

fn task(fields: &Fields<'_>) -> Read<TaskId> {
    fields.needed_id("id").map(TaskId::from)
}

/// Zero means everything, as the comment in the 0.3 protocol file says and its SDKs do.
pub(crate) fn history(fields: &Fields<'_>) -> Read<HistoryLength> {
    Ok(match fields.count("historyLength")? {
        None | Some(0) => HistoryLength::All,
        Some(length) => HistoryLength::Last(length),
    })
}

fn message(fields: &Fields<'_>, stream: Option<Delivery>, extension: Extension) -> Read<Asked> {
    let message = fields.object("message")?.ok_or_else(|| fields.missing("message"))?;
    match message.text("role")?.ok_or_else(|| message.missing("role"))? {
        "user" => {}
        _ => return Err(violation(message.path("role"), "must be user in what a client sends")),
    }
    let draft = Draft {
        session: message.id("contextId")?.map(Into::into),
        task: message.id("taskId")?.map(Into::into),
        message: message.needed_id("messageId")?.to_owned(),
        parts: parts(&message)?,
        parts_at: message.path("parts"),
        metadata: message.metadata("metadata")?,
        metadata_at: message.path("metadata"),
        extensions: message.texts("extensions")?,
        references: message.ids("referenceTaskIds")?.into_iter().map(TaskId::from).collect(),
        request_metadata: fields.metadata("metadata")?,
        configuration: configuration(fields, "pushNotificationConfig", stream)?,
    };
    send::asked(draft, Dialect::A2a03, extension)
}

/// Without `blocking`, nobody waits: the protocol's own words are "if true, the client will wait".
pub(crate) fn configuration(
    fields: &Fields<'_>,
    push: &str,
    stream: Option<Delivery>,
) -> Read<Configuration> {
    let Some(given) = fields.object("configuration")? else {
        return Ok(Configuration {
            delivery: stream.unwrap_or(Delivery::Unsaid),
            push: None,
            history: HistoryLength::All,
            output_modes: Vec::new(),
        });
    };
    let unary = match given.flag("blocking")? {
        Some(true) => Delivery::WhenSettled,
        Some(false) => Delivery::AtOnce,
        None => Delivery::Unsaid,
    };
    let push = given.object(push)?;
    Ok(Configuration {
        delivery: stream.unwrap_or(unary),
        push: push.map(|config| push_target(&config)).transpose()?,
        history: history(&given)?,
        output_modes: given.texts("acceptedOutputModes")?,
    })
}

pub(crate) fn parts(message: &Fields<'_>) -> Read<Vec<Part>> {
    let items = message.items("parts")?;
    if items.is_empty() {
        return Err(violation(message.path("parts"), "must hold at least one part"));
    }
    items.into_iter().map(|(at, value)| part(&Fields::of(at, value)?)).collect()
}

fn part(fields: &Fields<'_>) -> Read<Part> {
    match fields.text("kind")?.ok_or_else(|| fields.missing("kind"))? {
        "text" => {
            let text = fields.owned_text("text")?.ok_or_else(|| fields.missing("text"))?;
            Ok(Part::Text { text })
        }
        "file" => file(&fields.object("file")?.ok_or_else(|| fields.missing("file"))?),
        "data" => match fields.get("data") {
            Some(data) if data.is_object() => Ok(Part::Data { data: data.clone() }),
            Some(_) => Err(violation(fields.path("data"), "must be an object")),
            None => Err(fields.missing("data")),
        },
        _ => Err(violation(fields.path("kind"), "must be text, file or data")),
    }
}

/// `url` is what some clients write for `uri`.
pub(crate) fn file(fields: &Fields<'_>) -> Read<Part> {
    let base64 = fields.owned_text("bytes")?;
    let uri = match fields.header_text("uri", 64 * 1024)? {
        None => fields.header_text("url", 64 * 1024)?,
        given => given,
    };
    match (&base64, &uri) {
        (Some(bytes), None) if !is_base64(bytes) => {
            return Err(violation(fields.path("bytes"), "must be base64"));
        }
        (Some(_), None) | (None, Some(_)) => {}
        (Some(_), Some(_)) | (None, None) => {
            return Err(violation(fields.path("bytes"), "or uri must be there, and only one"));
        }
    }
    Ok(Part::File {
        name: fields.owned_text("name")?,
        media_type: fields.owned_text("mimeType")?,
        base64,
        uri,
    })
}

pub(crate) fn push_target(config: &Fields<'_>) -> Read<PushTarget> {
    let authentication = config.object("authentication")?;
    let (mut scheme, mut credentials) = (None, None);
    if let Some(given) = &authentication {
        // Some clients of either version write the other's form.
        let listed = given.texts("schemes")?.into_iter().next();
        scheme = match given.secret("scheme")? {
            None => listed.filter(|scheme| !scheme.chars().any(char::is_control)),
            one => one,
        };
        credentials = given.secret("credentials")?;
    }
    Ok(PushTarget {
        id: config.optional_id("id")?.map(str::to_owned),
        url: config.url("url")?,
        token: config.secret("token")?.filter(|token| !token.is_empty()),
        scheme: scheme.filter(|scheme| !scheme.is_empty()),
        credentials: credentials.filter(|credentials| !credentials.is_empty()),
    })
}
