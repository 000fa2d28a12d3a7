//! A task as nothing but words, for python-a2a's `/stream`: it posts a message and reads chunks of
//! the answer. Made of the frames of the task service, so it is no view of its own.

use serde_json::{Map, Value, json};

/// The chunk that an event is, if it has words: `{content, append}`, the last one `lastChunk` too.
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
        // What went well was said; what did not is said now.
        let failed = event["state"] != "completed";
        let content = if failed { words(&event["message"]["parts"]) } else { String::new() };
        json!({ "content": content, "append": true, "lastChunk": true })
    })
}

/// The task that a message without one begins.
pub fn task_of(message: Value, id: &str) -> Value {
    let mut params = Map::new();
    params.insert("id".into(), id.into());
    params.insert("message".into(), message);
    Value::Object(params)
}
