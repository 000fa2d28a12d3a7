//! A2A 0.3 requests to intents.

use loggia_core::{Part, TaskId};
use serde_json::Value;

use crate::dialect::{Dialect, Extension, View};
use crate::intent::{DecodedRequest, Delivery, HistoryLength, Intent, PushTarget};
use crate::read::{Fields, Read, violation};
use crate::refuse::WireError;
use crate::send::{self, CoderMessages, Configuration, FILE_URI_LIMIT, MessageForm};

pub(crate) fn decode(method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
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
    Ok(DecodedRequest { view: View { dialect: Dialect::A2a03, extension, guest: false }, intent })
}

fn task(fields: &Fields<'_>) -> Read<TaskId> {
    fields.needed_id("id").map(TaskId::from)
}

/// Zero means all, as the comment in the 0.3 protocol file says and its SDKs do.
pub(crate) fn history(fields: &Fields<'_>) -> Read<HistoryLength> {
    Ok(match fields.count("historyLength")? {
        None | Some(0) => HistoryLength::All,
        Some(length) => HistoryLength::Last(length),
    })
}

fn message(
    fields: &Fields<'_>,
    stream: Option<Delivery>,
    extension: Extension,
) -> Read<DecodedRequest> {
    const FORM: MessageForm = MessageForm {
        dialect: Dialect::A2a03,
        user: "user",
        parts: "parts",
        part,
        data: "data",
        references: true,
        configuration: |fields, stream| configuration(fields, "pushNotificationConfig", stream),
        coder: CoderMessages::OwnDialect,
    };
    let message = fields.object("message")?.ok_or_else(|| fields.missing("message"))?;
    send::decode(&FORM, fields, &message, stream, extension)
}

/// Without `blocking`, a send does not wait: the specification says "if true, the client will wait".
pub(crate) fn configuration(
    fields: &Fields<'_>,
    push: &str,
    stream: Option<Delivery>,
) -> Read<Configuration> {
    let Some(given) = fields.object("configuration")? else {
        return Ok(Configuration::absent(stream.unwrap_or(Delivery::Unsaid)));
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

pub(crate) fn part(fields: &Fields<'_>) -> Read<Part> {
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

/// Some clients write `url` for `uri`.
pub(crate) fn file(fields: &Fields<'_>) -> Read<Part> {
    let base64 = fields.owned_text("bytes")?;
    let uri = match fields.header_text("uri", FILE_URI_LIMIT)? {
        None => fields.header_text("url", FILE_URI_LIMIT)?,
        given => given,
    };
    send::check_file(fields, ("bytes", &base64), ("uri", &uri))?;
    Ok(Part::File {
        name: fields.owned_text("name")?,
        media_type: fields.owned_text("mimeType")?,
        base64,
        uri,
    })
}

/// Some clients write the `scheme` of 1.0 instead of `schemes`.
pub(crate) fn push_target(config: &Fields<'_>) -> Read<PushTarget> {
    let listed = match config.object("authentication")? {
        Some(given) => {
            let listed = given.texts("schemes")?.into_iter().next();
            listed.filter(|_| given.get("scheme").is_none())
        }
        None => None,
    };
    let target = send::push_target(config)?;
    let listed =
        listed.filter(|scheme| !scheme.is_empty() && !scheme.chars().any(char::is_control));
    Ok(PushTarget { scheme: target.scheme.or(listed), ..target })
}
