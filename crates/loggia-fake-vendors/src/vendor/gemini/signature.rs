//! Signatures of parts. One fits only the model and the conversation it was made for.

use serde_json::{Value, json};

use super::{array, field, role};
use crate::vendor::sign;

/// Accepted instead of a signature.
pub const SKIP: &str = "skip_thought_signature_validator";

/// The signature of a part of the reply to these contents.
///
/// Of the other parts of the reply it covers only the number of calls before it: clients may join texts and
/// leave out thoughts.
pub fn of_part(model: &str, body: &Value, before: &[Value], calls: usize, part: &Value) -> String {
    let before: Value = before.iter().map(without_skipped).collect();
    let system = field(body, "systemInstruction").cloned().unwrap_or_default();
    let tools = field(body, "tools").cloned().unwrap_or_default();
    sign(&[&model.into(), &system, &tools, &before, &calls.into(), &what(part)])
}

fn what(part: &Value) -> Value {
    match field(part, "functionCall") {
        Some(call) => {
            let args = call.get("args").cloned().unwrap_or_else(|| json!({}));
            json!({ "call": call.get("name"), "args": args })
        }
        None if part.get("thought") == Some(&true.into()) => "thought".into(),
        None => "text".into(),
    }
}

/// Clients add the replacement of a signature while a turn runs, and leave it out later.
fn without_skipped(content: &Value) -> Value {
    let mut content = content.clone();
    let parts = content.get_mut("parts").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
        if part.get("thoughtSignature").is_some_and(|signature| signature == SKIP) {
            part.remove("thoughtSignature");
        }
    }
    content
}

/// Whether every signature is where it was made.
pub fn all_fit(model: &str, body: &Value) -> bool {
    let contents: Vec<Value> = array(body, "contents").cloned().collect();
    contents.iter().enumerate().all(|(place, content)| {
        let before = contents.get(..place).unwrap_or_default();
        let mut calls = 0;
        array(content, "parts").all(|part| {
            let signature = field(part, "thoughtSignature").and_then(Value::as_str);
            let fits = match signature {
                None | Some(SKIP) => true,
                Some(signature) => {
                    role(content) == "model"
                        && signature == of_part(model, body, before, calls, part)
                }
            };
            calls += usize::from(field(part, "functionCall").is_some());
            fits
        })
    })
}
