//! A2A 1.0 on all its bindings: the JSON form of its protocol file. The only member of a frame names its type, names
//! of enums are written in full, and the state of a task ends a stream.

pub(crate) mod decode;

use loggia_core::{Part, TaskId};
use serde_json::{Map, Value, json};

use crate::a2a::{Spelling, members, proto_role, proto_state};
use crate::card::CardKind;
use crate::dialect::{A2aVersion, Dialect, Extension};
use crate::intent::{DecodedRequest, PushTarget};
use crate::protocol::{ErrorFormat, Protocol};
use crate::read::Read;
use crate::rest::HttpPaths;

pub(crate) struct A2a1;

const METHODS: &[&str] = &[
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

const MEDIA_TYPE: &str = "application/a2a+json";

const PATHS: HttpPaths = HttpPaths {
    prefix: &[],
    subscribe: "SubscribeToTask",
    list_configs: "ListTaskPushNotificationConfigs",
    card: ("extendedAgentCard", "GetExtendedAgentCard"),
    task: |task| vec![("id", task.to_owned())],
    configs: |task| vec![("taskId", task.to_owned())],
    config: |task, config| vec![("taskId", task.to_owned()), ("id", config.to_owned())],
    media_types: &[MEDIA_TYPE, "application/json"],
};

impl Protocol for A2a1 {
    fn version(&self) -> A2aVersion {
        A2aVersion::V1
    }

    fn has_tenants(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn http_paths(&self) -> Option<&'static HttpPaths> {
        Some(&PATHS)
    }

    fn streaming_methods(&self) -> &'static [&'static str] {
        &["SendStreamingMessage", "SubscribeToTask"]
    }

    fn decode(&self, method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
        decode::decode(Dialect::A2a1, method, params, extension)
    }

    fn error_format(&self) -> ErrorFormat {
        ErrorFormat::Typed
    }

    fn refuses_in_stream(&self) -> bool {
        false
    }

    fn spelling(&self) -> &'static Spelling {
        &SPELLING
    }

    /// 1.0 wants results as artifacts.
    fn repeats_response(&self) -> bool {
        true
    }

    fn follows_ended_tasks(&self) -> bool {
        false
    }

    fn card_kind(&self) -> CardKind {
        CardKind::A2a1
    }

    fn push_config(&self, task: &TaskId, target: &PushTarget) -> Value {
        members([
            ("id", target.id.as_deref().map(Value::from)),
            ("taskId", Some(task.as_str().into())),
            ("url", Some(target.url.as_str().into())),
            ("authentication", target.scheme.as_ref().map(|scheme| json!({ "scheme": scheme }))),
        ])
    }

    fn push_configs(&self, configs: Vec<Value>) -> Value {
        json!({ "configs": configs, "nextPageToken": "" })
    }

    fn push_config_deleted(&self) -> Value {
        Value::Object(Map::new())
    }

    fn pushes_updates(&self) -> bool {
        true
    }

    fn push_media_type(&self) -> &'static str {
        MEDIA_TYPE
    }

    fn replaces_unnamed_push(&self) -> bool {
        false
    }
}

const SPELLING: Spelling = Spelling {
    kinds: false,
    finals: false,
    addressed: false,
    parts: "parts",
    state: proto_state,
    role: proto_role,
    part,
};

fn part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({ "text": text }),
        Part::Data { data } => json!({ "data": data }),
        Part::File { name, media_type, base64, uri } => members([
            ("filename", name.as_deref().map(Value::from)),
            ("mediaType", media_type.as_deref().map(Value::from)),
            ("raw", base64.as_deref().map(Value::from)),
            ("url", uri.as_deref().filter(|_| base64.is_none()).map(Value::from)),
        ]),
    }
}
