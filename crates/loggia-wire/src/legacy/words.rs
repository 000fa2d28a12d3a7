//! The text of a task, for python-a2a's `/stream`: its client posts a message and reads chunks of the
//! answer. It is made of the frames of the legacy service.

use serde_json::{Map, Value, json};

/// The chunk of an event, if it has text: `{content, append}`; the last one has `lastChunk` too.
pub fn chunk(event: &Value) -> Option<Value> {
    let words = |parts: &Value| -> String {
        let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
        parts.iter().filter_map(|part| part["text"].as_str()).collect()
    };
    if let Some(artifact) = event.get("artifact").filter(|artifact| artifact["name"] == "response")
    {
        let content = words(&artifact["parts"]);
        return (!content.is_empty()).then(|| json!({ "content": content, "append": true }));
    }
    (event["final"] == true).then(|| {
        // The text of a completed task was sent already; the reason of a failure was not.
        let failed = event["state"] != "completed";
        let content = if failed { words(&event["message"]["parts"]) } else { String::new() };
        json!({ "content": content, "append": true, "lastChunk": true })
    })
}

/// The parameters of a task that a bare message begins.
pub fn task_of(message: Value, id: &str) -> Value {
    let mut params = Map::new();
    params.insert("id".into(), id.into());
    params.insert("message".into(), message);
    Value::Object(params)
}
