//! The fields of a tool's input: one table gives the schema that the model reads and the check that
//! its calls must pass.
//!
//! A call that does not fit is `invalid_input`, and the sentence names the field: a model can only
//! repair what it is told.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ToolError;
use crate::workspace::shown;

pub(super) struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    pub description: &'static str,
}

pub(super) enum Kind {
    Text,
    /// A whole number from 0.
    Count,
    Flag,
    /// Any JSON value.
    Any,
    /// One of these words.
    Word(&'static [&'static str]),
    Texts,
    Objects(&'static [Field]),
}

impl Field {
    pub(super) const fn required(
        name: &'static str,
        kind: Kind,
        description: &'static str,
    ) -> Self {
        Self { name, kind, required: true, description }
    }

    pub(super) const fn optional(
        name: &'static str,
        kind: Kind,
        description: &'static str,
    ) -> Self {
        Self { name, kind, required: false, description }
    }
}

/// JSON Schema of an object with these fields and no others.
pub(super) fn schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field_schema(field))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn field_schema(field: &Field) -> Value {
    let mut schema = match &field.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Any => json!({}),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Objects(fields) => json!({ "type": "array", "items": schema(fields) }),
    };
    schema["description"] = field.description.into();
    schema
}

/// The input as a type of the tool's own, once every field fits.
pub(super) fn read<T: DeserializeOwned>(fields: &[Field], input: &Value) -> Result<T, ToolError> {
    check(fields, input, "")?;
    T::deserialize(input).map_err(|error| invalid(format!("the input does not fit: {error}")))
}

pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new("invalid_input", message)
}

/// `path` is where the object is, empty or ending in a dot.
fn check(fields: &[Field], input: &Value, path: &str) -> Result<(), ToolError> {
    let Some(object) = input.as_object() else {
        let whole = path.strip_suffix('.').unwrap_or("the input");
        return Err(invalid(format!("{whole} must be an object, but is {}", named(input))));
    };
    for (name, _) in object {
        if !fields.iter().any(|field| field.name == name) {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let (name, known) = (shown(name), known.join(", "));
            return Err(invalid(format!("there is no field `{path}{name}`; there are {known}")));
        }
    }
    for field in fields {
        match object.get(field.name) {
            Some(value) => check_value(field, value, path)?,
            None if field.required => {
                return Err(invalid(format!("the field `{path}{}` is missing", field.name)));
            }
            None => {}
        }
    }
    Ok(())
}

fn check_value(field: &Field, value: &Value, path: &str) -> Result<(), ToolError> {
    let name = format!("{path}{}", field.name);
    let (fits, wanted) = match &field.kind {
        Kind::Text => (value.is_string(), "a text".to_owned()),
        Kind::Count => (value.is_u64(), "a whole number from 0".to_owned()),
        Kind::Flag => (value.is_boolean(), "true or false".to_owned()),
        Kind::Any => (true, String::new()),
        Kind::Word(words) => (
            value.as_str().is_some_and(|word| words.contains(&word)),
            format!("one of {}", words.join(", ")),
        ),
        Kind::Texts => (
            value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            "a list of texts".to_owned(),
        ),
        Kind::Objects(fields) => {
            for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                check(fields, inner, &format!("{name}[{index}]."))?;
            }
            (value.is_array(), "a list of objects".to_owned())
        }
    };
    if fits {
        return Ok(());
    }
    Err(invalid(format!("the field `{name}` must be {wanted}, but is {}", named(value))))
}

fn named(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text `{}`", shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    const STEP: &[Field] = &[
        Field::required("text", Kind::Text, "what"),
        Field::optional("state", Kind::Word(&["open", "done"]), "how far"),
    ];
    const FIELDS: &[Field] = &[
        Field::required("path", Kind::Text, "where"),
        Field::optional("limit", Kind::Count, "how many"),
        Field::optional("deep", Kind::Flag, "how"),
        Field::optional("names", Kind::Texts, "who"),
        Field::optional("steps", Kind::Objects(STEP), "what"),
    ];

    #[derive(Debug, Deserialize)]
    struct Input {
        path: String,
        limit: Option<u64>,
    }

    #[test]
    fn what_fits_is_read() {
        let input: Input = read(FIELDS, &json!({ "path": "a", "limit": 3, "names": [] })).unwrap();
        assert_eq!((input.path.as_str(), input.limit), ("a", Some(3)));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (input, named) in [
            (json!({}), "`path` is missing"),
            (json!({ "path": 7 }), "`path` must be a text, but is 7"),
            (json!({ "path": null }), "`path` must be a text, but is null"),
            (json!({ "path": "a", "file": "b" }), "no field `file`; there are path, limit"),
            (
                json!({ "path": "a", "limit": -1 }),
                "`limit` must be a whole number from 0, but is -1",
            ),
            (json!({ "path": "a", "limit": 1.5 }), "`limit`"),
            (json!({ "path": "a", "limit": "3" }), "`limit`"),
            (json!({ "path": "a", "deep": "yes" }), "`deep` must be true or false"),
            (json!({ "path": "a", "names": [1] }), "`names` must be a list of texts"),
            (json!({ "path": "a", "steps": {} }), "`steps` must be a list of objects"),
            (json!({ "path": "a", "steps": [{ "text": 1 }] }), "`steps[0].text` must be a text"),
            (json!({ "path": "a", "steps": [{ "text": "x", "state": "?" }] }), "one of open, done"),
            (json!({ "path": "a", "steps": [1] }), "steps[0] must be an object, but is 1"),
            (json!([]), "the input must be an object"),
        ] {
            let error = read::<Input>(FIELDS, &input).unwrap_err();
            let ToolError::Failed(failure) = &error else { panic!("{error}") };
            assert_eq!(failure.kind, "invalid_input");
            assert!(failure.message.contains(named), "{input}: {}", failure.message);
        }
    }
}
