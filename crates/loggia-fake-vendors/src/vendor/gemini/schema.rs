//! The check of a function's parameters.

use serde_json::Value;

use super::errors::Refusal;

/// `parametersJsonSchema`: JSON Schema without references, and with `items` for arrays. It may name its
/// version: Gemini CLI sends that in every request.
pub fn json_schema(schema: &Value, place: &str) -> Result<(), Refusal> {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
    }
    within(&schema, place)
}

fn within(schema: &Value, place: &str) -> Result<(), Refusal> {
    let Some(fields) = schema.as_object() else { return Ok(()) };
    for (name, value) in fields {
        let place = format!("{place}.{name}");
        match (name.as_str(), value) {
            ("$schema" | "$ref" | "$defs" | "definitions", _) => {
                return Err(Refusal::unknown_field(name, &place));
            }
            ("properties" | "patternProperties", Value::Object(schemas)) => {
                for (property, schema) in schemas {
                    within(schema, &format!("{place}[{property}]"))?;
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().try_for_each(|schema| within(schema, &place))?;
            }
            ("items" | "additionalProperties" | "not", schema) => within(schema, &place)?,
            _ => {}
        }
    }
    if fields.get("type").is_some_and(|kind| kind == "array") && !fields.contains_key("items") {
        return Err(Refusal::invalid(format!(
            "* GenerateContentRequest.{place}.items: missing field."
        )));
    }
    Ok(())
}

/// The fields of `parameters`, a part of OpenAPI.
const OPENAPI: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "minimum",
    "maximum",
];

pub fn openapi(schema: &Value, place: &str) -> Result<(), Refusal> {
    let Some(fields) = schema.as_object() else { return Ok(()) };
    for (name, value) in fields {
        let known = OPENAPI.iter().any(|known| *known == name || super::snake(known) == *name);
        if !known {
            return Err(Refusal::unknown_field(name, place));
        }
        let place = format!("{place}.{name}");
        match (name.as_str(), value) {
            ("type", kind) if !kind.is_string() => {
                return Err(Refusal::invalid(format!("Invalid value at '{place}' (type)")));
            }
            ("properties", Value::Object(schemas)) => {
                for (property, schema) in schemas {
                    openapi(schema, &format!("{place}[{property}]"))?;
                }
            }
            ("anyOf" | "any_of", Value::Array(schemas)) => {
                schemas.iter().try_for_each(|schema| openapi(schema, &place))?;
            }
            ("items", schema) => openapi(schema, &place)?,
            _ => {}
        }
    }
    Ok(())
}
