//! Reading parameters: a JSON object that knows its path, so that an error names the field. Null is the same
//! as absent, and unknown members are ignored. No value is converted, except for numbers as text in the JSON
//! form of protocol buffers.
//!
//! In that form a member may also have its name in the protocol file (`history_length` for `historyLength`),
//! which the specification requires of every reader.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::refuse::{MISSING, Violation, WireError};

/// Characters of ids, names of choices and page tokens.
pub(crate) const ID_LIMIT: usize = 256;
const ID_LENGTH: &str = "must have 1 to 256 characters";
/// One metadata object, as JSON.
const METADATA_LIMIT: usize = 64 * 1024;
const URL_LIMIT: usize = 2048;
const SECRET_LIMIT: usize = 8 * 1024;
/// Objects with at most so many members are searched without building the other name.
const FEW: usize = 16;

pub(crate) type Read<T> = Result<T, WireError>;

pub(crate) fn violation(field: impl Into<String>, why: impl Into<String>) -> WireError {
    WireError::Invalid(Violation { field: field.into(), why: why.into() })
}

/// Counted in characters, as in JSON Schema, which the card uses.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.chars().take(ID_LIMIT + 1).count() <= ID_LIMIT
}

pub(crate) struct Fields<'a> {
    at: String,
    /// None: no object, which is allowed.
    map: Option<&'a Map<String, Value>>,
    proto_names: bool,
}

impl<'a> Fields<'a> {
    pub fn of(at: impl Into<String>, value: &'a Value) -> Read<Self> {
        let at = at.into();
        match value.as_object() {
            Some(map) => Ok(Self { at, map: Some(map), proto_names: false }),
            None => Err(violation(at, "must be an object")),
        }
    }

    /// The parameters of a request. Absent parameters are an empty object.
    pub fn of_params(params: &'a Value) -> Read<Self> {
        match params {
            Value::Null => Ok(Self { at: String::new(), map: None, proto_names: false }),
            Value::Object(map) => {
                Ok(Self { at: String::new(), map: Some(map), proto_names: false })
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(violation("params", "must be an object"))
            }
        }
    }

    /// The body of a request that has no envelope.
    pub fn of_body(body: &'a Value) -> Read<Self> {
        match body {
            Value::Null | Value::Object(_) => Self::of_params(body),
            _ => Err(violation("body", "must be an object")),
        }
    }

    /// This object and those in it may use the names of the protocol file.
    pub fn with_proto_names(self) -> Self {
        Self { proto_names: true, ..self }
    }

    /// The path of a member, with the name that the client used.
    pub fn path(&self, name: &str) -> String {
        let name = self.written(name);
        if self.at.is_empty() { name.into_owned() } else { [self.at.as_str(), ".", &name].concat() }
    }

    fn written<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let given = |name: &str| self.map.is_some_and(|map| map.contains_key(name));
        if self.proto_names && has_proto_name(name) && !given(name) {
            let proto = proto_name(name);
            if given(&proto) {
                return proto.into();
            }
        }
        name.into()
    }

    /// The path of this object.
    pub fn at(&self) -> &str {
        &self.at
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let map = self.map?;
        let by_proto_name = || match self.proto_names && has_proto_name(name) {
            true if map.len() <= FEW => {
                let mut members = map.iter();
                members.find(|(key, _)| is_proto_name(key, name)).map(|(_, value)| value)
            }
            true => map.get(&proto_name(name)),
            false => None,
        };
        map.get(name).or_else(by_proto_name).filter(|value| !value.is_null())
    }

    pub fn names(&self) -> impl Iterator<Item = &'a String> {
        self.map.into_iter().flat_map(Map::keys)
    }

    pub fn missing(&self, name: &str) -> WireError {
        violation(self.path(name), MISSING)
    }

    pub fn text(&self, name: &str) -> Read<Option<&'a str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(violation(self.path(name), "must be a string")),
        }
    }

    pub fn owned_text(&self, name: &str) -> Read<Option<String>> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    /// A short name: 1 to 256 characters.
    pub fn id(&self, name: &str) -> Read<Option<&'a str>> {
        self.short(name, self.text(name)?)
    }

    fn short(&self, name: &str, text: Option<&'a str>) -> Read<Option<&'a str>> {
        match text.is_none_or(is_id) {
            true => Ok(text),
            false => Err(violation(self.path(name), ID_LENGTH)),
        }
    }

    /// The same, where an empty text means absent.
    pub fn optional_id(&self, name: &str) -> Read<Option<&'a str>> {
        self.short(name, self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// An id that may be empty in the JSON form of protocol buffers only.
    pub fn proto_id(&self, name: &str) -> Read<Option<&'a str>> {
        if self.proto_names { self.optional_id(name) } else { self.id(name) }
    }

    pub fn needed_id(&self, name: &str) -> Read<&'a str> {
        self.id(name)?.ok_or_else(|| self.missing(name))
    }

    pub fn ids(&self, name: &str) -> Read<Vec<&'a str>> {
        let texts = self.array(name)?.iter().enumerate();
        texts
            .map(|(n, value)| match value.as_str() {
                Some(text) if is_id(text) => Ok(text),
                Some(_) => Err(violation(self.item_path(name, n), ID_LENGTH)),
                None => Err(violation(self.item_path(name, n), "must be a string")),
            })
            .collect()
    }

    pub fn texts(&self, name: &str) -> Read<Vec<String>> {
        let texts = self.array(name)?.iter().enumerate();
        texts
            .map(|(n, value)| match value.as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(violation(self.item_path(name, n), "must be a string")),
            })
            .collect()
    }

    pub fn flag(&self, name: &str) -> Read<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(violation(self.path(name), "must be true or false")),
        }
    }

    /// A whole number, zero or more.
    pub fn count(&self, name: &str) -> Read<Option<usize>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = if self.proto_names { proto_count(value) } else { value.as_u64() };
        let count = number.and_then(|number| usize::try_from(number).ok());
        match count {
            Some(count) => Ok(Some(count)),
            None => Err(violation(self.path(name), "must be a whole number, zero or more")),
        }
    }

    pub fn object(&self, name: &str) -> Read<Option<Fields<'a>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        self.item(self.path(name), value).map(Some)
    }

    /// The elements of an array with their paths; an absent array is empty.
    pub fn items(&self, name: &str) -> Read<Vec<(String, &'a Value)>> {
        let items = self.array(name)?.iter().enumerate();
        Ok(items.map(|(n, item)| (self.item_path(name, n), item)).collect())
    }

    /// An element that is an object.
    pub fn item(&self, at: String, value: &'a Value) -> Read<Fields<'a>> {
        Ok(Fields { proto_names: self.proto_names, ..Fields::of(at, value)? })
    }

    fn array(&self, name: &str) -> Read<&'a [Value]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(violation(self.path(name), "must be an array")),
        }
    }

    fn item_path(&self, name: &str, n: usize) -> String {
        [self.path(name).as_str(), "[", n.to_string().as_str(), "]"].concat()
    }

    pub fn metadata(&self, name: &str) -> Read<Option<Value>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        if !value.is_object() {
            return Err(violation(self.path(name), "must be an object"));
        }
        if json_length(value) > METADATA_LIMIT {
            let why = format!("must have at most {METADATA_LIMIT} bytes");
            return Err(violation(self.path(name), why));
        }
        Ok(Some(value.clone()))
    }

    /// A value that becomes part of an HTTP request: no control characters.
    pub fn header_text(&self, name: &str, limit: usize) -> Read<Option<String>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if text.len() > limit {
            return Err(violation(self.path(name), format!("must have at most {limit} bytes")));
        }
        if text.chars().any(char::is_control) {
            return Err(violation(self.path(name), "must contain no control characters"));
        }
        Ok(Some(text.to_owned()))
    }

    pub fn secret(&self, name: &str) -> Read<Option<String>> {
        self.header_text(name, SECRET_LIMIT)
    }

    pub fn url(&self, name: &str) -> Read<String> {
        match self.header_text(name, URL_LIMIT)? {
            Some(url) if !url.is_empty() => Ok(url),
            Some(_) | None => Err(self.missing(name)),
        }
    }
}

/// A number in the JSON form of protocol buffers: also as text, and with a fraction that is zero.
fn proto_count(value: &Value) -> Option<u64> {
    let whole = |double: f64| {
        let fits = double >= 0.0 && double <= f64::from(i32::MAX) && double.fract() == 0.0;
        // A double represents every whole number in this range.
        fits.then(|| format!("{double:.0}").parse().ok()).flatten()
    };
    match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text
            .parse()
            .ok()
            .or_else(|| text.parse().ok().filter(|_| is_number(text)).and_then(whole)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Digits, a point and an exponent; no `inf` and no `nan`.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
}

/// A name of one word is the same in the protocol file.
fn has_proto_name(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// `historyLength` is `history_length`.
fn proto_name(name: &str) -> String {
    proto_letters(name).collect()
}

/// The same comparison without allocating.
fn is_proto_name(written: &str, name: &str) -> bool {
    written.chars().eq(proto_letters(name))
}

fn proto_letters(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().flat_map(|letter| {
        let before = letter.is_ascii_uppercase().then_some('_');
        before.into_iter().chain([letter.to_ascii_lowercase()])
    })
}

/// The length of a value as JSON, without allocating.
fn json_length(value: &Value) -> usize {
    struct Counted(usize);
    impl fmt::Write for Counted {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut counted = Counted(0);
    // Counting cannot fail.
    let _ = fmt::Write::write_fmt(&mut counted, format_args!("{value}"));
    counted.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn protocol_buffers_may_write_a_number_as_text() {
        let table = [
            (json!(5), Some(5)),
            (json!("5"), Some(5)),
            (json!("0"), Some(0)),
            (json!(5.0), Some(5)),
            (json!("5.0"), Some(5)),
            (json!("1e1"), Some(10)),
            (json!(1e1), Some(10)),
            (json!("5.5"), None),
            (json!(-1), None),
            (json!("-1"), None),
            (json!(""), None),
            (json!(" 5"), None),
            (json!("five"), None),
            (json!("inf"), None),
            (json!("1e300"), None),
            (json!(true), None),
        ];
        for (given, wanted) in table {
            let given = json!({ "page_size": given });
            let fields = Fields::of_params(&given).unwrap().with_proto_names();
            let read = fields.count("pageSize");
            match wanted {
                Some(wanted) => assert_eq!(read.unwrap(), Some(wanted), "{given}"),
                // The error names the field as the client wrote it.
                None => assert_eq!(
                    read.unwrap_err(),
                    violation("page_size", "must be a whole number, zero or more"),
                    "{given}"
                ),
            }
        }
        let strict = json!({ "historyLength": "5" });
        assert!(Fields::of_params(&strict).unwrap().count("historyLength").is_err());
    }

    #[test]
    fn protocol_file_names_in_small_and_large_objects() {
        for more in [0, 2 * FEW] {
            let mut given = json!({ "history_length": 1, "page_size": 2, "pageSize": 3, "a": 4 });
            for n in 0..more {
                given[format!("m{n:02}")] = n.into();
            }
            let fields = Fields::of_params(&given).unwrap();
            assert_eq!(fields.count("historyLength").unwrap(), None, "{more}");
            let fields = fields.with_proto_names();
            let found = ["historyLength", "pageSize", "a", "contextId", "historylength"]
                .map(|name| fields.count(name).unwrap());
            assert_eq!(found, [Some(1), Some(3), Some(4), None, None], "{more}");
        }
    }
}
