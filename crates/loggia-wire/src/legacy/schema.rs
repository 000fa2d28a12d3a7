//! The methods of the legacy service as JSON Schema, for the card. A test compares them with the decoder and
//! the frames.

use serde_json::{Value, json};

/// Name, description, schema of the parameters, schema of the result.
pub fn methods() -> Value {
    let method = |name: &str, description: &str, streaming: bool, input: &Value, output: &str| {
        json!({
            "name": name,
            "description": description,
            "streaming": streaming,
            "inputSchema": input,
            "outputSchema": reference(output),
        })
    };
    let (send, id) = (send(), task_id());
    json!([
        method("tasks/send", "Submits a task under an id of the client's.", false, &send, "Task"),
        method("tasks/get", "The task as it is now.", false, &get(), "Task"),
        method("tasks/cancel", "Stops a task.", false, &id, "Task"),
        method("tasks/sendSubscribe", "Submits a task and follows it.", true, &send, "Event"),
        method("tasks/resubscribe", "Follows a task from now on.", true, &id, "Event"),
    ])
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

fn send() -> Value {
    json!({
        "type": "object",
        "required": ["id", "message"],
        "properties": {
            "id": { "type": "string", "minLength": 1, "maxLength": 256 },
            "message": {
                "allOf": [reference("Message"), { "properties": { "role": { "const": "user" } } }],
            },
            "sessionId": { "type": "string", "minLength": 1, "maxLength": 256 },
            "context": {
                "type": "object",
                "properties": {
                    "repositoryUrl": { "type": "string", "format": "uri" },
                    "branch": { "type": "string" },
                    "revision": { "type": "string" },
                    "commit": { "type": "string" },
                    "shallow": { "type": "boolean" },
                    "targetDirectory": { "type": "string" },
                },
                "additionalProperties": true,
            },
            "metadata": { "type": "object" },
            "historyLength": { "type": "integer", "minimum": 0 },
        },
    })
}

fn get() -> Value {
    json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": { "type": "string", "minLength": 1, "maxLength": 256 },
            "historyLength": { "type": "integer", "minimum": 0 },
        },
    })
}

fn task_id() -> Value {
    json!({
        "type": "object",
        "required": ["id"],
        "properties": { "id": { "type": "string", "minLength": 1, "maxLength": 256 } },
    })
}

pub fn definitions() -> Value {
    let list = |name: &str| json!({ "type": "array", "items": reference(name) });
    let time = json!({ "type": "string", "format": "date-time" });
    let text = json!({ "type": "string" });
    let state = json!({
        "enum": ["submitted", "working", "input-required", "completed", "failed", "canceled"],
    });
    let status = json!({
        "type": "object",
        "required": ["state", "timestamp"],
        "properties": { "state": state, "message": reference("Message"), "timestamp": time },
    });
    json!({
        "Task": {
            "type": "object",
            "required": ["id", "state", "status", "message", "createdAt", "updatedAt"],
            "properties": {
                "id": text,
                "sessionId": text,
                "state": state,
                "status": status,
                "message": reference("Message"),
                "input": { "type": "object" },
                "context": { "type": "object" },
                "metadata": { "type": "object" },
                "artifacts": list("Artifact"),
                "history": list("Message"),
                "createdAt": time,
                "updatedAt": time,
            },
        },
        "Event": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": text,
                "status": status,
                "artifact": reference("Artifact"),
                "final": { "type": "boolean" },
            },
        },
        "Message": {
            "type": "object",
            "required": ["parts"],
            "properties": { "role": { "enum": ["user", "agent"] }, "parts": list("Part") },
        },
        "Part": {
            "type": "object",
            "properties": {
                "type": { "enum": ["text", "file", "data"] },
                "text": text,
                "file": { "type": "object" },
                "data": { "type": "object" },
            },
        },
        "Artifact": {
            "type": "object",
            "required": ["name", "mimeType", "parts", "index"],
            "properties": {
                "name": text,
                "mimeType": text,
                "parts": list("Part"),
                "index": { "type": "integer" },
                "append": { "type": "boolean" },
                "lastChunk": { "type": "boolean" },
            },
        },
    })
}
