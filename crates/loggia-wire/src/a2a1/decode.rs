//! A2A 1.0 requests to intents. `tenant` was checked before ([`View::check_tenant`]).

use loggia_core::{Part, TaskId, TaskState};
use serde_json::Value;

use crate::dialect::{Dialect, Extension, View};
use crate::intent::{DecodedRequest, Delivery, HistoryLength, Intent, ListTasks, StatusFilter};
use crate::read::{Fields, Read, violation};
use crate::refuse::WireError;
use crate::send::{self, CoderMessages, Configuration, FILE_URI_LIMIT, MessageForm, is_base64};
use crate::time;

const PAGE: usize = 50;
const LARGEST_PAGE: usize = 100;

/// `dialect` is the version of the request, for versions that read requests as 1.0 does.
pub(crate) fn decode(
    dialect: Dialect,
    method: &str,
    params: &Value,
    extension: Extension,
) -> Read<DecodedRequest> {
    let fields = Fields::of_params(params)?.with_proto_names();
    let intent = match method {
        "SendMessage" => return message(dialect, &fields, None, extension),
        "SendStreamingMessage" => {
            return message(dialect, &fields, Some(Delivery::Stream), extension);
        }
        "GetTask" => Intent::GetTask { task: task(&fields, "id")?, history: history(&fields)? },
        "ListTasks" => Intent::ListTasks(list(&fields)?),
        "CancelTask" => Intent::Cancel { task: task(&fields, "id")? },
        "SubscribeToTask" => Intent::Subscribe { task: task(&fields, "id")? },
        "CreateTaskPushNotificationConfig" => {
            Intent::SetPush { task: task(&fields, "taskId")?, target: send::push_target(&fields)? }
        }
        "GetTaskPushNotificationConfig" => Intent::GetPush {
            task: task(&fields, "taskId")?,
            config: Some(fields.needed_id("id")?.to_owned()),
        },
        "ListTaskPushNotificationConfigs" => Intent::ListPush { task: task(&fields, "taskId")? },
        "DeleteTaskPushNotificationConfig" => Intent::DeletePush {
            task: task(&fields, "taskId")?,
            config: fields.needed_id("id")?.to_owned(),
        },
        "GetExtendedAgentCard" => Intent::GetExtendedCard,
        _ => return Err(WireError::MethodNotFound),
    };
    Ok(DecodedRequest { view: View { dialect, extension, guest: false }, intent })
}

fn task(fields: &Fields<'_>, name: &str) -> Read<TaskId> {
    fields.needed_id(name).map(TaskId::from)
}

fn history(fields: &Fields<'_>) -> Read<HistoryLength> {
    Ok(fields.count("historyLength")?.map_or(HistoryLength::All, HistoryLength::Last))
}

pub(crate) fn list(fields: &Fields<'_>) -> Read<ListTasks> {
    let page_size = fields.count("pageSize")?.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&page_size) {
        return Err(violation("pageSize", "must be between 1 and 100"));
    }
    let since = match fields.text("statusTimestampAfter")? {
        None => None,
        Some(text) => Some(time::parse(text).ok_or_else(|| {
            violation("statusTimestampAfter", "must be a moment such as 2026-01-31T12:00:00Z")
        })?),
    };
    Ok(ListTasks {
        // An empty text is the protocol's default.
        session: fields.text("contextId")?.filter(|id| !id.is_empty()).map(Into::into),
        status: status(fields)?,
        page_size,
        page_token: fields.owned_text("pageToken")?.filter(|token| !token.is_empty()),
        history: history(fields)?,
        artifacts: fields.flag("includeArtifacts")?.unwrap_or(false),
        since,
    })
}

fn status(fields: &Fields<'_>) -> Read<StatusFilter> {
    Ok(match fields.text("status")? {
        None | Some("TASK_STATE_UNSPECIFIED") => StatusFilter::Any,
        Some("TASK_STATE_SUBMITTED") => StatusFilter::Is(TaskState::Submitted),
        Some("TASK_STATE_WORKING") => StatusFilter::Is(TaskState::Working),
        Some("TASK_STATE_COMPLETED") => StatusFilter::Is(TaskState::Completed),
        Some("TASK_STATE_FAILED") => StatusFilter::Is(TaskState::Failed),
        Some("TASK_STATE_CANCELED") => StatusFilter::Is(TaskState::Canceled),
        Some("TASK_STATE_REJECTED") => StatusFilter::Is(TaskState::Rejected),
        Some("TASK_STATE_INPUT_REQUIRED") => StatusFilter::Is(TaskState::InputRequired),
        Some("TASK_STATE_AUTH_REQUIRED") => StatusFilter::Nothing,
        Some(_) => return Err(violation("status", "must be a task state")),
    })
}

fn message(
    dialect: Dialect,
    fields: &Fields<'_>,
    stream: Option<Delivery>,
    extension: Extension,
) -> Read<DecodedRequest> {
    let form = MessageForm {
        dialect,
        user: "ROLE_USER",
        parts: "parts",
        part,
        data: "data",
        references: true,
        configuration,
        coder: CoderMessages::Extension,
    };
    let message = fields.object("message")?.ok_or_else(|| fields.missing("message"))?;
    send::decode(&form, fields, &message, stream, extension)
}

/// A send waits unless the client asks for an immediate answer.
fn configuration(fields: &Fields<'_>, stream: Option<Delivery>) -> Read<Configuration> {
    let Some(given) = fields.object("configuration")? else {
        return Ok(Configuration::absent(stream.unwrap_or(Delivery::WhenSettled)));
    };
    let at_once = given.flag("returnImmediately")?.unwrap_or(false);
    let unary = if at_once { Delivery::AtOnce } else { Delivery::WhenSettled };
    let push = given.object("taskPushNotificationConfig")?;
    Ok(Configuration {
        delivery: stream.unwrap_or(unary),
        push: push.map(|config| send::push_target(&config)).transpose()?,
        history: history(&given)?,
        output_modes: given.texts("acceptedOutputModes")?,
    })
}

fn part(fields: &Fields<'_>) -> Read<Part> {
    const CONTENT: [&str; 4] = ["text", "raw", "url", "data"];
    let mut given = CONTENT.into_iter().filter(|name| fields.get(name).is_some());
    let (first, second) = (given.next(), given.next());
    if second.is_some() {
        return Err(violation(fields.path("text"), "and raw, url and data exclude each other"));
    }
    let file = |base64: Option<String>, uri: Option<String>| -> Read<Part> {
        Ok(Part::File {
            name: fields.owned_text("filename")?,
            media_type: fields.owned_text("mediaType")?,
            base64,
            uri,
        })
    };
    match first {
        Some("text") => Ok(Part::Text { text: fields.owned_text("text")?.unwrap_or_default() }),
        Some("raw") => match fields.owned_text("raw")? {
            Some(bytes) if is_base64(&bytes) => file(Some(bytes), None),
            Some(_) | None => Err(violation(fields.path("raw"), "must be base64")),
        },
        Some("url") => file(None, fields.header_text("url", FILE_URI_LIMIT)?),
        Some("data") => Ok(Part::Data { data: fields.get("data").cloned().unwrap_or_default() }),
        Some(_) | None => Err(violation(fields.path("text"), "or raw, url or data is required")),
    }
}
