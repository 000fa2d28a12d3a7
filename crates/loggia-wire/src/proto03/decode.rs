//! A2A 0.3 requests in the JSON form of its protocol file to intents.

use loggia_core::{Part, TaskId};
use serde_json::Value;

use crate::a2a03::decode::{configuration, history, push_target};
use crate::dialect::{Dialect, Extension, View};
use crate::intent::{DecodedRequest, Delivery, Intent, PushTarget};
use crate::read::{Fields, Read, violation};
use crate::refuse::WireError;
use crate::send::{self, CoderMessages, FILE_URI_LIMIT, MessageForm};

pub(crate) fn decode(method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
    let fields = Fields::of_params(params)?.with_proto_names();
    let intent = match method {
        "SendMessage" => return message(&fields, None, extension),
        "SendStreamingMessage" => return message(&fields, Some(Delivery::Stream), extension),
        "GetTask" => Intent::GetTask { task: task(&fields, "name")?, history: history(&fields)? },
        // Only its HTTP paths have lists, whose form is not specified: they are as in 1.0.
        "ListTasks" => Intent::ListTasks(crate::a2a1::decode::list(&fields)?),
        "CancelTask" => Intent::Cancel { task: task(&fields, "name")? },
        "TaskSubscription" => Intent::Subscribe { task: task(&fields, "name")? },
        "CreateTaskPushNotificationConfig" => create_push(&fields)?,
        "GetTaskPushNotificationConfig" => {
            let (task, config) = config(&fields)?;
            Intent::GetPush { task, config: Some(config) }
        }
        "ListTaskPushNotificationConfig" => Intent::ListPush { task: task(&fields, "parent")? },
        "DeleteTaskPushNotificationConfig" => {
            let (task, config) = config(&fields)?;
            Intent::DeletePush { task, config }
        }
        "GetAgentCard" => Intent::GetExtendedCard,
        _ => return Err(WireError::MethodNotFound),
    };
    Ok(DecodedRequest { view: View { dialect: Dialect::Proto03, extension, guest: false }, intent })
}

/// A name has two ids, each of the longest length.
const NAME_LIMIT: usize = 1024;

fn name<'a>(fields: &Fields<'a>, member: &str) -> Read<&'a str> {
    let name = fields.text(member)?.filter(|name| !name.is_empty());
    match name.ok_or_else(|| fields.missing(member))? {
        name if name.len() <= NAME_LIMIT => Ok(name),
        _ => Err(violation(fields.path(member), format!("must have at most {NAME_LIMIT} bytes"))),
    }
}

/// `tasks/ID`.
fn task(fields: &Fields<'_>, member: &str) -> Read<TaskId> {
    match name(fields, member)?.strip_prefix("tasks/") {
        Some(id) if !id.is_empty() && !id.contains('/') => Ok(TaskId::from(id)),
        Some(_) | None => Err(violation(fields.path(member), "must be tasks/ID")),
    }
}

/// `tasks/ID/pushNotificationConfigs/ID`.
fn config(fields: &Fields<'_>) -> Read<(TaskId, String)> {
    let mut parts = name(fields, "name")?.split('/');
    let mut next = || parts.next().filter(|part| !part.is_empty());
    match (next(), next(), next(), next(), next()) {
        (Some("tasks"), Some(task), Some("pushNotificationConfigs"), Some(config), None) => {
            Ok((TaskId::from(task), config.to_owned()))
        }
        _ => Err(violation("name", "must be tasks/ID/pushNotificationConfigs/ID")),
    }
}

/// The protocol file has the configuration in `config`; some clients send its members directly.
fn create_push(fields: &Fields<'_>) -> Read<Intent> {
    let task = task(fields, "parent")?;
    let resource = fields.object("config")?;
    let resource = resource.as_ref().unwrap_or(fields);
    let config = resource.object("pushNotificationConfig")?;
    let config = config.ok_or_else(|| resource.missing("pushNotificationConfig"))?;
    let target = push_target(&config)?;
    let id = match target.id {
        None => fields.text("configId")?.filter(|id| !id.is_empty()).map(str::to_owned),
        given => given,
    };
    Ok(Intent::SetPush { task, target: PushTarget { id, ..target } })
}

fn message(
    fields: &Fields<'_>,
    stream: Option<Delivery>,
    extension: Extension,
) -> Read<DecodedRequest> {
    const FORM: MessageForm = MessageForm {
        dialect: Dialect::Proto03,
        user: "ROLE_USER",
        parts: "content",
        part,
        data: "data.data",
        references: false,
        configuration: |fields, stream| configuration(fields, "pushNotification", stream),
        coder: CoderMessages::Ignored,
    };
    // The protocol file calls the member `request`.
    let message = match fields.object("message")? {
        None => fields.object("request")?,
        given => given,
    };
    let message = message.ok_or_else(|| fields.missing("message"))?;
    send::decode(&FORM, fields, &message, stream, extension)
}

fn part(fields: &Fields<'_>) -> Read<Part> {
    let (text, file, data) =
        (fields.owned_text("text")?, fields.object("file")?, fields.object("data")?);
    match (text, file, data) {
        (Some(text), None, None) => Ok(Part::Text { text }),
        (None, Some(file), None) => self::file(&file),
        (None, None, Some(data)) => match data.get("data") {
            Some(object) if object.is_object() => Ok(Part::Data { data: object.clone() }),
            Some(_) => Err(violation(data.path("data"), "must be an object")),
            None => Err(data.missing("data")),
        },
        (None, None, None) => Err(violation(fields.path("text"), "or file or data is required")),
        (_, _, _) => Err(violation(fields.path("text"), "and file and data exclude each other")),
    }
}

fn file(fields: &Fields<'_>) -> Read<Part> {
    let base64 = fields.owned_text("fileWithBytes")?;
    let uri = fields.header_text("fileWithUri", FILE_URI_LIMIT)?;
    send::check_file(fields, ("fileWithBytes", &base64), ("fileWithUri", &uri))?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(Part::File {
        name: given(fields.owned_text("name")?),
        media_type: given(fields.owned_text("mimeType")?),
        base64,
        uri,
    })
}
