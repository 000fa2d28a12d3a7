//! The models that the fake offers, with what each accepts.

use serde_json::{Value, json};

pub struct Offered {
    /// The name, which a date may follow.
    pub name: &'static str,
    pub window: u64,
    pub output: u64,
    /// The types of thinking that it accepts.
    pub thinking: &'static [&'static str],
    pub efforts: &'static [&'static str],
    /// Binds thinking blocks to everything before them.
    pub binds: bool,
    /// Newer models think unless told otherwise, show thoughts only on request, accept instructions among
    /// the messages, and do not continue a reply that the client began.
    pub newer: bool,
}

const ALL_EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

const fn newer(name: &'static str, thinking: &'static [&'static str], binds: bool) -> Offered {
    let (window, output) = (1_000_000, 128_000);
    Offered { name, window, output, thinking, efforts: ALL_EFFORTS, binds, newer: true }
}

const fn older(name: &'static str, efforts: &'static [&'static str]) -> Offered {
    let (window, output) = (200_000, 64_000);
    let thinking = &["enabled", "disabled"];
    Offered { name, window, output, thinking, efforts, binds: false, newer: false }
}

static MODELS: [Offered; 9] = [
    newer("claude-opus-5-5", &["adaptive"], true),
    newer("claude-sonnet-5-5", &["adaptive", "between_tools", "disabled"], true),
    newer("claude-haiku-5-5", &["adaptive", "disabled"], true),
    newer("claude-fable-5-2", &["adaptive"], true),
    newer("claude-mythos-5-2", &["adaptive"], true),
    newer("claude-opus-4-8", &["adaptive", "disabled"], false),
    older("claude-opus-4-5", &["low", "medium", "high"]),
    older("claude-sonnet-4-5", &[]),
    older("claude-haiku-4-5", &[]),
];

pub fn find(name: &str) -> Option<&'static Offered> {
    MODELS.iter().find(|model| {
        let rest = name.strip_prefix(model.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-20"))
    })
}

pub fn described(name: &str) -> Option<Value> {
    find(name).map(describe)
}

pub fn list() -> Value {
    let data: Vec<Value> = MODELS.iter().map(describe).collect();
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    let (first, last) = (id(data.first()), id(data.last()));
    json!({ "data": data, "has_more": false, "first_id": first, "last_id": last })
}

fn describe(model: &Offered) -> Value {
    let supported = |supported: bool| json!({ "supported": supported });
    let types = ["adaptive", "between_tools", "disabled", "enabled"];
    let types = types.map(|kind| (kind.to_owned(), supported(model.thinking.contains(&kind))));
    let mut effort = json!({ "supported": !model.efforts.is_empty() });
    for level in ALL_EFFORTS {
        effort[*level] = supported(model.efforts.contains(level));
    }
    json!({
        "type": "model", "id": model.name, "display_name": model.name,
        "created_at": "2026-09-01T00:00:00Z", "lifecycle": "active", "line": null,
        "deprecated_at": null, "retires_at": null,
        "max_input_tokens": model.window, "max_tokens": model.output,
        "capabilities": {
            "batch": supported(true), "citations": supported(true),
            "code_execution": supported(true), "context_management": supported(true),
            "effort": effort, "image_input": supported(true), "pdf_input": supported(true),
            "server_tools": {
                "supported": true, "code_execution": supported(true),
                "web_search": supported(true),
            },
            "structured_outputs": supported(true),
            "thinking": { "supported": true, "types": Value::Object(types.into_iter().collect()) },
        },
    })
}
