//! A tool's input. One declaration gives the type, the JSON Schema that the model reads and the check
//! that every call must pass.
//!
//! An input that fails the check is `invalid_input`. The message names the field and the expected
//! type, so that the model can repair the call.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{ToolError, ToolResult};
use crate::workspace::shown;

/// Declares the type of an input. A field's doc comment is its description in the schema; a field of
/// type `Option` is optional.
macro_rules! input {
    ($visibility:vis struct $name:ident {
        $($(#[doc = $description:literal])+ $field:ident: $type:ty,)+
    }) => {
        #[derive(Debug, serde::Deserialize)]
        $visibility struct $name {
            $($field: $type,)+
        }

        impl $crate::tool::input::FieldType for $name {
            const KIND: $crate::tool::input::Kind = $crate::tool::input::Kind::Object(&[
                $($crate::tool::input::Field {
                    name: stringify!($field),
                    description: concat!($($description),+),
                    kind: <$type as $crate::tool::input::FieldType>::KIND,
                    required: <$type as $crate::tool::input::FieldType>::REQUIRED,
                }),+
            ]);
        }
    };
}
pub(super) use input;

/// A Rust type that an input or one of its fields can have.
pub(super) trait FieldType {
    const KIND: Kind;
    const REQUIRED: bool = true;
}

pub(super) enum Kind {
    String,
    /// Not negative.
    Integer,
    Boolean,
    /// Any JSON value.
    Any,
    /// A string that is one of these.
    Enum(&'static [&'static str]),
    Array(&'static Kind),
    /// An object with these fields and no others.
    Object(&'static [Field]),
}

pub(super) struct Field {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: Kind,
    pub required: bool,
}

impl FieldType for String {
    const KIND: Kind = Kind::String;
}

impl FieldType for u64 {
    const KIND: Kind = Kind::Integer;
}

impl FieldType for bool {
    const KIND: Kind = Kind::Boolean;
}

impl FieldType for Value {
    const KIND: Kind = Kind::Any;
}

impl<T: FieldType> FieldType for Vec<T> {
    const KIND: Kind = Kind::Array(&T::KIND);
}

impl<T: FieldType> FieldType for Option<T> {
    const KIND: Kind = T::KIND;
    const REQUIRED: bool = false;
}

/// JSON Schema.
pub(super) fn schema(kind: &Kind) -> Value {
    match kind {
        Kind::String => json!({ "type": "string" }),
        Kind::Integer => json!({ "type": "integer", "minimum": 0 }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Any => json!({}),
        Kind::Enum(words) => json!({ "type": "string", "enum": words }),
        Kind::Array(item) => json!({ "type": "array", "items": schema(item) }),
        Kind::Object(fields) => {
            let required = fields.iter().filter(|field| field.required).map(|field| field.name);
            json!({
                "type": "object",
                "properties": fields.iter().map(property).collect::<Map<_, _>>(),
                "required": required.collect::<Vec<_>>(),
                "additionalProperties": false,
            })
        }
    }
}

fn property(field: &Field) -> (String, Value) {
    let mut schema = schema(&field.kind);
    schema["description"] = field.description.trim().into();
    (field.name.to_owned(), schema)
}

/// The input as the tool's own type.
pub(super) fn parse<T: FieldType + DeserializeOwned>(input: &Value) -> ToolResult<T> {
    check(&T::KIND, input, "")?;
    T::deserialize(input).map_err(|error| invalid(format!("the input is invalid: {error}")))
}

pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new("invalid_input", message)
}

/// `path` says where the value is, such as `todos[0].text`. It is empty for the whole input.
fn check(kind: &Kind, value: &Value, path: &str) -> ToolResult<()> {
    let fits = match (kind, value) {
        (Kind::Object(fields), Value::Object(object)) => return check_object(fields, object, path),
        (Kind::Array(item), Value::Array(values)) => {
            let mut values = values.iter().enumerate();
            return values
                .try_for_each(|(index, value)| check(item, value, &format!("{path}[{index}]")));
        }
        (Kind::Enum(words), Value::String(word)) => words.contains(&word.as_str()),
        (Kind::Integer, _) => value.is_u64(),
        (Kind::String, Value::String(_)) | (Kind::Boolean, Value::Bool(_)) | (Kind::Any, _) => true,
        (Kind::String | Kind::Boolean | Kind::Enum(_) | Kind::Array(_) | Kind::Object(_), _) => {
            false
        }
    };
    if fits {
        return Ok(());
    }
    let subject = match path {
        "" => "the input".to_owned(),
        path => format!("the field `{path}`"),
    };
    Err(invalid(format!("{subject} must be {}, not {}", expected(kind), described(value))))
}

fn check_object(fields: &[Field], object: &Map<String, Value>, path: &str) -> ToolResult<()> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    for (name, _) in object {
        if !fields.iter().any(|field| field.name == name) {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let (name, known) = (shown(name), known.join(", "));
            let message = format!("there is no field `{prefix}{name}`; the fields are {known}");
            return Err(invalid(message));
        }
    }
    for field in fields {
        let path = format!("{prefix}{}", field.name);
        match object.get(field.name) {
            Some(value) => check(&field.kind, value, &path)?,
            None if field.required => {
                return Err(invalid(format!("the field `{path}` is missing")));
            }
            None => {}
        }
    }
    Ok(())
}

fn expected(kind: &Kind) -> String {
    match kind {
        Kind::String => "a string".to_owned(),
        Kind::Integer => "a non-negative integer".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Any => "a value".to_owned(),
        Kind::Enum(words) => format!("one of {}", words.join(", ")),
        Kind::Array(_) => "an array".to_owned(),
        Kind::Object(_) => "an object".to_owned(),
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the string `{}`", shown(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum State {
        Open,
        Done,
    }

    impl FieldType for State {
        const KIND: Kind = Kind::Enum(&["open", "done"]);
    }

    input! {
        struct Step {
            /// The text.
            text: String,
            /// The state.
            state: Option<State>,
        }
    }

    input! {
        struct Input {
            /// The path,
            /// in two lines.
            path: String,
            /// The limit.
            limit: Option<u64>,
            /// Whether it is deep.
            deep: Option<bool>,
            /// The names.
            names: Option<Vec<String>>,
            /// The steps.
            steps: Option<Vec<Step>>,
        }
    }

    #[test]
    fn a_valid_input_is_parsed() {
        let input = json!({
            "path": "a",
            "limit": 3,
            "deep": true,
            "names": ["b"],
            "steps": [{ "text": "x", "state": "done" }, { "text": "y", "state": "open" }],
        });
        let Input { path, limit, deep, names, steps } = parse(&input).unwrap();
        assert_eq!((path.as_str(), limit, deep), ("a", Some(3), Some(true)));
        assert_eq!(names, Some(vec!["b".to_owned()]));
        let steps = steps.unwrap();
        assert!(matches!(steps[0], Step { ref text, state: Some(State::Done) } if text == "x"));
        assert!(matches!(steps[1].state, Some(State::Open)));
        let input: Input = parse(&json!({ "path": "a" })).unwrap();
        assert!(input.limit.is_none() && input.steps.is_none());
    }

    #[test]
    fn the_schema_has_every_field_with_its_description() {
        let schema = schema(&Input::KIND);
        assert_eq!(schema["required"], json!(["path"]));
        assert_eq!(schema["properties"]["path"]["description"], "The path, in two lines.");
        let steps = &schema["properties"]["steps"];
        assert_eq!(steps["items"]["required"], json!(["text"]));
        assert_eq!(steps["items"]["properties"]["state"]["enum"], json!(["open", "done"]));
    }

    #[test]
    fn an_invalid_input_names_the_field_and_the_expected_type() {
        for (input, named) in [
            (json!({}), "`path` is missing"),
            (json!({ "path": 7 }), "`path` must be a string, not 7"),
            (json!({ "path": null }), "`path` must be a string, not null"),
            (json!({ "path": "a", "file": "b" }), "no field `file`; the fields are path, limit"),
            (json!({ "path": "a", "limit": -1 }), "`limit` must be a non-negative integer, not -1"),
            (json!({ "path": "a", "limit": 1.5 }), "`limit`"),
            (json!({ "path": "a", "limit": "3" }), "`limit`"),
            (json!({ "path": "a", "deep": "yes" }), "`deep` must be true or false"),
            (json!({ "path": "a", "names": "b" }), "`names` must be an array"),
            (json!({ "path": "a", "names": [1] }), "`names[0]` must be a string, not 1"),
            (json!({ "path": "a", "steps": {} }), "`steps` must be an array, not an object"),
            (json!({ "path": "a", "steps": [{}] }), "`steps[0].text` is missing"),
            (json!({ "path": "a", "steps": [{ "text": 1 }] }), "`steps[0].text` must be a string"),
            (json!({ "path": "a", "steps": [{ "text": "x", "state": "?" }] }), "one of open, done"),
            (json!({ "path": "a", "steps": [1] }), "`steps[0]` must be an object, not 1"),
            (json!([]), "the input must be an object"),
        ] {
            let error = parse::<Input>(&input).unwrap_err();
            let ToolError::Failed(failure) = &error else { panic!("{error}") };
            assert_eq!(failure.kind, "invalid_input");
            assert!(failure.message.contains(named), "{input}: {}", failure.message);
        }
    }
}
