//! JSON Schema as Gemini reads it: without references, definitions and `$schema`, and with `items` for
//! every array.

use serde_json::{Map, Value, json};

/// References that are replaced in one schema. Definitions that refer to each other twice would otherwise
/// double at each step.
const REFERENCES: usize = 500;

/// The schema of the input of a tool.
pub fn inlined(schema: &Value) -> Value {
    let mut inliner = Inliner { root: schema, left: REFERENCES, open: Vec::new() };
    let Value::Object(mut fields) = inliner.schema(schema) else {
        return json!({ "type": "object" });
    };
    fields.entry("type").or_insert_with(|| "object".into());
    Value::Object(fields)
}

struct Inliner<'a> {
    root: &'a Value,
    left: usize,
    /// The references that are being replaced. One of them again is recursion, and becomes any value.
    open: Vec<&'a str>,
}

impl<'a> Inliner<'a> {
    fn schema(&mut self, schema: &'a Value) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        let mut made = match fields.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference),
            None => Map::new(),
        };
        for (name, value) in fields {
            if let Some(value) = self.keyword(name, value) {
                made.insert(name.clone(), value);
            }
        }
        if made.get("type").is_some_and(is_array) && !made.contains_key("items") {
            made.insert("items".to_owned(), json!({}));
        }
        Value::Object(made)
    }

    fn keyword(&mut self, name: &str, value: &'a Value) -> Option<Value> {
        match (name, value) {
            (
                "$ref" | "$schema" | "$id" | "$defs" | "definitions" | "$anchor" | "$comment"
                | "$dynamicRef" | "$dynamicAnchor" | "$vocabulary",
                _,
            ) => None,
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(schemas)) => {
                let made = schemas.iter().map(|(name, schema)| (name.clone(), self.schema(schema)));
                Some(Value::Object(made.collect()))
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                Some(schemas.iter().map(|schema| self.schema(schema)).collect())
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema,
            ) => Some(self.schema(schema)),
            (_, value) => Some(value.clone()),
        }
    }

    fn referred(&mut self, reference: &'a str) -> Map<String, Value> {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target else { return Map::new() };
        if self.left == 0 || self.open.contains(&reference) {
            return Map::new();
        }
        self.left -= 1;
        self.open.push(reference);
        let made = self.schema(target);
        self.open.pop();
        match made {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

/// Whether `type` is or contains `array`.
fn is_array(kind: &Value) -> bool {
    kind == "array" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_arrays_have_items() {
        let check = |schema: Value, wanted: Value| assert_eq!(inlined(&schema), wanted);
        check(Value::Null, json!({ "type": "object" }));
        check(json!({}), json!({ "type": "object" }));
        check(
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "$ref": { "type": "string" },
                    "tags": { "type": "array" },
                    "at": { "$ref": "#/$defs/point", "description": "where" },
                    "mode": { "enum": [{ "$ref": "data" }], "default": { "$schema": 1 } },
                    "other": { "$ref": "https://example.com/x" },
                },
                "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" } } } },
            }),
            json!({
                "type": "object",
                "properties": {
                    "$ref": { "type": "string" },
                    "tags": { "type": "array", "items": {} },
                    "at": {
                        "type": "object", "description": "where",
                        "properties": { "x": { "type": "number" } },
                    },
                    "mode": { "enum": [{ "$ref": "data" }], "default": { "$schema": 1 } },
                    "other": {},
                },
            }),
        );
    }

    #[test]
    fn recursion_and_growth_end() {
        let list = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
        let next = json!({ "type": "object", "properties": { "next": {} } });
        assert_eq!(inlined(&list), json!({ "type": "object", "properties": { "next": next } }),);
        let mut definitions = Map::new();
        for step in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/{}", step + 1) });
            definitions.insert(step.to_string(), json!({ "anyOf": [next, next] }));
        }
        let wide = json!({ "$ref": "#/$defs/0", "$defs": definitions });
        assert!(inlined(&wide).to_string().len() < 100_000);
    }
}
