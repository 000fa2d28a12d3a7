//! Makes the JSON Schema of a tool's input acceptable to OpenAI. The schema's meaning stays as near as the
//! API allows: the tool checks its input itself.

use serde_json::{Map, Value, json};

/// Keywords that the API refuses at the root.
const NOT_AT_ROOT: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];

pub fn accepted(schema: &Value) -> Value {
    let mut root = schema.as_object().cloned().unwrap_or_else(Map::new);
    for keyword in NOT_AT_ROOT {
        root.remove(keyword);
    }
    root.insert("type".to_owned(), json!("object"));
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".to_owned(), json!({}));
    }
    let mut schema = Value::Object(root);
    give_items(&mut schema);
    schema
}

/// The API refuses an array whose schema says nothing of its items.
fn give_items(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_array = match fields.get("type") {
                Some(Value::String(kind)) => kind == "array",
                Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
                _ => false,
            };
            if is_array && !fields.contains_key("items") {
                fields.insert("items".to_owned(), json!({}));
            }
            fields.values_mut().for_each(give_items);
        }
        Value::Array(values) => values.iter_mut().for_each(give_items),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_made_acceptable() {
        let check = |schema: Value, wanted: Value| assert_eq!(accepted(&schema), wanted);
        check(Value::Null, json!({"type": "object", "properties": {}}));
        check(json!({"type": "object"}), json!({"type": "object", "properties": {}}));
        let kept = json!({
            "type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}},
            "required": ["a"], "additionalProperties": false, "$defs": {},
        });
        check(kept.clone(), kept);
        check(
            json!({
                "anyOf": [{"required": ["a"]}],
                "properties": {"a": {"type": ["array", "null"]}, "b": {"anyOf": [{"type": "array"}]}},
            }),
            json!({
                "type": "object",
                "properties": {
                    "a": {"type": ["array", "null"], "items": {}},
                    "b": {"anyOf": [{"type": "array", "items": {}}]},
                },
            }),
        );
    }
}
