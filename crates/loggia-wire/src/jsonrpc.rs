//! JSON-RPC 2.0 envelopes: bytes in, calls out, answers spliced together.
//!
//! Limits are checked first: depth and values are counted before parsing, ids and batches are bounded, and
//! an id is echoed exactly or not at all. The size of a body is limited by the server that reads it.

pub(crate) mod scan;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dialect::{Dialect, View, dialect_of, streams};
use crate::refuse::{ErrorObject, WireError};

/// How deep a body may nest, the envelope included.
pub const DEPTH_LIMIT: usize = 64;
/// How many values a body may have: elements, members, arrays and objects.
pub const VALUES_LIMIT: usize = 65_536;
pub const BATCH_LIMIT: usize = 100;
/// Bytes of an id in the body.
pub const ID_LIMIT: usize = 256;
const METHOD_LIMIT: usize = 256;

/// The id of a request, exactly as sent. A request without one is answered under `null`: A2A has no
/// notifications, and a client that forgot the id should still get the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(Cow<'static, str>);

impl Id {
    pub const NULL: Id = Id(Cow::Borrowed("null"));

    /// As JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: Id,
    pub method: String,
    /// Null when absent.
    pub params: Value,
}

/// A body or an item of a batch that is no valid request, with the id and the dialect of the error.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    pub id: Id,
    dialect: Dialect,
    pub error: WireError,
}

impl Rejected {
    /// The view in which it is answered.
    pub fn view(&self) -> View {
        View::plain(self.dialect)
    }

    fn nameless(error: WireError) -> Self {
        Self { id: Id::NULL, dialect: Dialect::A2a03, error }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    One(Call),
    /// Each is answered separately, in this order, in one array.
    Batch(Vec<Result<Call, Rejected>>),
}

/// Reads the body of a request. `version` is its `A2A-Version`.
pub fn parse(bytes: &[u8], version: Option<&str>) -> Result<Body, Rejected> {
    let nameless = Rejected::nameless;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| nameless(WireError::Parse("it is not valid UTF-8")))?;
    if let Some(excess) = scan::excess(bytes, DEPTH_LIMIT, VALUES_LIMIT) {
        return Err(nameless(WireError::Parse(excess)));
    }
    if text.trim_start().starts_with('[') {
        batch(text, version)
    } else {
        one(text, version).map(Body::One)
    }
}

/// One JSON value under the same limits, for bindings without JSON-RPC.
pub(crate) fn value(bytes: &[u8]) -> Result<Value, WireError> {
    let text = std::str::from_utf8(bytes).map_err(|_| WireError::Parse("it is not valid UTF-8"))?;
    if let Some(excess) = scan::excess(bytes, DEPTH_LIMIT, VALUES_LIMIT) {
        return Err(WireError::Parse(excess));
    }
    serde_json::from_str(text).map_err(|_| MALFORMED)
}

fn batch(text: &str, version: Option<&str>) -> Result<Body, Rejected> {
    let nameless = Rejected::nameless;
    let items = read_batch(text).map_err(|_| nameless(MALFORMED))?;
    match items.len() {
        0 => Err(nameless(WireError::InvalidRequest("a batch must not be empty"))),
        1..=BATCH_LIMIT => Ok(Body::Batch(
            items
                .into_iter()
                .map(|item| {
                    let call = one(item.get(), version)?;
                    if streams(&call.method, version) {
                        let error = WireError::InvalidRequest("a stream cannot be in a batch");
                        let dialect = dialect_of(&call.method, version).unwrap_or(Dialect::A2a03);
                        return Err(Rejected { id: call.id, dialect, error });
                    }
                    Ok(call)
                })
                .collect(),
        )),
        _ => Err(nameless(WireError::InvalidRequest("a batch must contain at most 100 requests"))),
    }
}

const MALFORMED: WireError = WireError::Parse("it is malformed");

fn one(text: &str, version: Option<&str>) -> Result<Call, Rejected> {
    let nameless = Rejected::nameless;
    // If the parameters are malformed, read the envelope again without them, for the id of the error.
    let members = read_members(text, Ok).or_else(|_| read_members(text, read_params));
    let members = members.map_err(|_| nameless(MALFORMED))?;
    let members = members
        .ok_or_else(|| nameless(WireError::InvalidRequest("a request must be an object")))?;
    let id = members.id.map_or(Ok(Id::NULL), read_id).map_err(nameless)?;
    let method = members.method.and_then(as_text).unwrap_or_default();
    let dialect = dialect_of(&method, version).unwrap_or(Dialect::A2a03);
    let named = |error| Rejected { id: id.clone(), dialect, error };
    if members.twice {
        return Err(named(WireError::InvalidRequest("a member is duplicated")));
    }
    let jsonrpc: Option<Cow<'_, str>> = members.jsonrpc.and_then(as_text);
    if jsonrpc.as_deref() != Some("2.0") {
        return Err(named(WireError::InvalidRequest("jsonrpc must be \"2.0\"")));
    }
    if !(1..=METHOD_LIMIT).contains(&method.len()) {
        return Err(named(WireError::InvalidRequest("method must be a short string")));
    }
    let params = members.params.unwrap_or(Ok(Value::Null)).map_err(named)?;
    Ok(Call { id, method: method.into_owned(), params })
}

fn as_text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|Text(text)| text)
}

/// Copied only if it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn read_id(raw: &RawValue) -> Result<Id, WireError> {
    const SHAPE: WireError =
        WireError::InvalidRequest("id must be a string, a number or null of at most 256 bytes");
    let text = raw.get();
    let fits = |first: char| first.is_ascii_digit() || "\"-n".contains(first);
    if text.len() > ID_LIMIT || !text.starts_with(fits) {
        return Err(SHAPE);
    }
    // Only a valid value may be echoed.
    serde_json::from_str::<Value>(text).map_err(|_| MALFORMED)?;
    Ok(Id(Cow::Owned(text.to_owned())))
}

fn read_params(raw: &RawValue) -> Result<Value, WireError> {
    serde_json::from_str(raw.get()).map_err(|_| MALFORMED)
}

/// The members of an envelope; only the parameters are parsed.
#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<Result<Value, WireError>>,
    twice: bool,
}

/// None: well-formed, but not an object.
fn read_members<'a, P: Deserialize<'a>>(
    text: &'a str,
    read_params: fn(P) -> Result<Value, WireError>,
) -> Result<Option<Members<'a>>, serde_json::Error> {
    struct Envelope<P>(fn(P) -> Result<Value, WireError>);
    impl<'de, P: Deserialize<'de>> Visitor<'de> for Envelope<P> {
        type Value = Members<'de>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an envelope")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
            let mut members = Members::default();
            while let Some(Text(name)) = map.next_key()? {
                let slot = match &*name {
                    "jsonrpc" => &mut members.jsonrpc,
                    "id" => &mut members.id,
                    "method" => &mut members.method,
                    "params" => {
                        members.twice |= members.params.is_some();
                        members.params = Some(self.0(map.next_value()?));
                        continue;
                    }
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                };
                members.twice |= slot.is_some();
                *slot = Some(map.next_value()?);
            }
            Ok(members)
        }
    }
    if !text.trim_start().starts_with('{') {
        return serde_json::from_str::<&RawValue>(text).map(|_| None);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(Envelope(read_params))?;
    reader.end()?;
    Ok(Some(members))
}

/// The items of a batch, not parsed; at most one more than allowed.
fn read_batch(text: &str) -> Result<Vec<&RawValue>, serde_json::Error> {
    struct Items;
    impl<'de> Visitor<'de> for Items {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a batch")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while items.len() <= BATCH_LIMIT
                && let Some(item) = seq.next_element()?
            {
                items.push(item);
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(items)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let items = reader.deserialize_seq(Items)?;
    reader.end()?;
    Ok(items)
}

/// The answer to a call. `result` is JSON that all readers of a frame share.
pub fn response(id: &Id, result: &str) -> String {
    ["{\"jsonrpc\":\"2.0\",\"id\":", id.as_json(), ",\"result\":", result, "}"].concat()
}

/// The same for a result with one reader.
pub fn response_of(id: &Id, result: &Value) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    text.extend_from_slice(id.as_json().as_bytes());
    text.extend_from_slice(b",\"result\":");
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut text, result);
    text.push(b'}');
    text
}

pub fn error_response(id: &Id, error: &ErrorObject) -> String {
    let error = serde_json::to_string(error).unwrap_or_else(|_| INTERNAL.to_owned());
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", id.as_json())
}

const INTERNAL: &str = r#"{"code":-32603,"message":"Internal error"}"#;
