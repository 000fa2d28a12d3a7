//! A2A 0.3 over HTTP+JSON and gRPC: not the JSON of its JSON-RPC, but the JSON form of its protocol
//! file. Roles and states are names of enums, a message has `content`, a canceled task is
//! `TASK_STATE_CANCELLED`, and a task is addressed as `tasks/ID`.
//!
//! Its clients reject members that the protocol file does not have.

pub(crate) mod decode;

use loggia_core::{Part, TaskId, TaskState};
use serde_json::{Map, Value, json};

use crate::a2a::{self, Spelling, members, proto_role, proto_state};
use crate::a2a03::{data_object, wrapped_data_metadata};
use crate::card::CardKind;
use crate::dialect::Extension;
use crate::intent::{DecodedRequest, PushTarget};
use crate::protocol::Protocol;
use crate::read::Read;
use crate::rest::HttpPaths;

pub(crate) struct Proto03;

const PATHS: HttpPaths = HttpPaths {
    prefix: &["v1"],
    subscribe: "TaskSubscription",
    list_configs: "ListTaskPushNotificationConfig",
    card: ("card", "GetAgentCard"),
    task: |task| vec![("name", format!("tasks/{task}"))],
    configs: |task| vec![("parent", format!("tasks/{task}"))],
    config: |task, config| vec![("name", config_name(task, config))],
    media_types: &["application/json"],
};

fn config_name(task: &str, config: &str) -> String {
    format!("tasks/{task}/pushNotificationConfigs/{config}")
}

impl Protocol for Proto03 {
    fn http_paths(&self) -> Option<&'static HttpPaths> {
        Some(&PATHS)
    }

    fn streaming_methods(&self) -> &'static [&'static str] {
        &["SendStreamingMessage", "TaskSubscription"]
    }

    fn decode(&self, method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
        decode::decode(method, params, extension)
    }

    fn spelling(&self) -> &'static Spelling {
        &SPELLING
    }

    fn card_kind(&self) -> CardKind {
        CardKind::Proto03
    }

    fn push_config(&self, task: &TaskId, target: &PushTarget) -> Value {
        let name = config_name(task.as_str(), target.id.as_deref().unwrap_or_default());
        json!({ "name": name, "pushNotificationConfig": a2a::push_config(target) })
    }

    fn push_configs(&self, configs: Vec<Value>) -> Value {
        json!({ "configs": configs, "nextPageToken": "" })
    }

    fn push_config_deleted(&self) -> Value {
        Value::Object(Map::new())
    }
}

const SPELLING: Spelling = Spelling {
    kinds: false,
    finals: true,
    addressed: false,
    parts: "content",
    state,
    role: proto_role,
    part,
};

/// The protocol file spells *cancelled* with two l; the rest of A2A has one.
fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Canceled => "TASK_STATE_CANCELLED",
        other => proto_state(other),
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({ "text": text }),
        Part::File { name, media_type, base64, uri } => {
            let file = members([
                ("fileWithUri", uri.as_deref().map(Value::from)),
                ("fileWithBytes", base64.as_deref().map(Value::from)),
                ("mimeType", media_type.as_deref().map(Value::from)),
                ("name", name.as_deref().map(Value::from)),
            ]);
            json!({ "file": file })
        }
        Part::Data { data } => members([
            ("data", Some(json!({ "data": data_object(data) }))),
            ("metadata", (!data.is_object()).then(wrapped_data_metadata)),
        ]),
    }
}
