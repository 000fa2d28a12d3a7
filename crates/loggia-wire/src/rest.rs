//! HTTP+JSON: a verb, a path and a query are a method and its parameters.
//!
//! 1.0 has its paths at the root, or below one segment, the tenant; 0.3 has them below `/v1`. Both may
//! stand below `/a2a/VERSION`, where that version's card names them. What the method wants is decoded
//! as on every other binding.

use serde_json::{Map, Value};

use crate::dialect::{Dialect, View, major_minor};
use crate::jsonrpc::{DEPTH_LIMIT, VALUES_LIMIT, scan};
use crate::read::violation;
use crate::refuse::WireError;

/// Where a request leads.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub dialect: Dialect,
    pub method: &'static str,
    /// The answer is a stream of frames.
    pub streams: bool,
    /// Members that the path gives; they win over those of the body and the query.
    path: Map<String, Value>,
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    Unknown,
    /// It is there, with other verbs.
    Verb,
}

/// The method of a request. `version` is what it says about itself: a client of 1.0 may have a
/// tenant by the name of `v1`.
pub fn route(verb: &str, path: &str, version: Option<&str>) -> Result<Route, NoRoute> {
    let mut segments = Vec::new();
    for segment in path.split('/').skip(1) {
        segments.push(decoded(segment, false).ok_or(NoRoute::Unknown)?);
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let newer = version.and_then(|given| major_minor(given.trim())).is_some_and(|[n, _]| n >= 1);
    match segments.as_slice() {
        ["a2a", "1.0", rest @ ..] => of_v1(verb, rest),
        ["a2a", "0.3", "v1", rest @ ..] => of_v03(verb, rest),
        ["v1", rest @ ..] if !newer => of_v03(verb, rest),
        rest => of_v1(verb, rest),
    }
}

/// The verbs with which a path leads somewhere.
pub fn verbs(path: &str, version: Option<&str>) -> Vec<&'static str> {
    let leads = |verb: &&str| route(verb, path, version).is_ok();
    ["GET", "POST", "DELETE"].into_iter().filter(leads).collect()
}

impl Route {
    pub fn view(&self) -> View {
        View::plain(self.dialect)
    }

    /// The media types of its answers, the preferred one first. 1.0 has its own, and clients that do not know it
    /// yet.
    pub fn media_types(&self) -> &'static [&'static str] {
        match self.dialect {
            Dialect::A2a1 => &["application/a2a+json", "application/json"],
            _ => &["application/json"],
        }
    }

    /// The parameters: the body, or the query where there is none, and what the path says.
    pub fn params(&self, query: Option<&str>, body: &[u8]) -> Result<Value, WireError> {
        let mut params = match body.trim_ascii() {
            b"" => from_query(query.unwrap_or_default()),
            body => from_body(body)?,
        };
        for (name, value) in &self.path {
            params.insert(name.clone(), value.clone());
        }
        Ok(Value::Object(params))
    }
}

fn of_v1(verb: &str, segments: &[&str]) -> Result<Route, NoRoute> {
    match (v1_below(verb, segments), segments) {
        (Err(NoRoute::Unknown), [tenant, rest @ ..]) if !tenant.is_empty() => {
            let mut route = v1_below(verb, rest)?;
            route.path.insert("tenant".into(), (*tenant).into());
            Ok(route)
        }
        (found, _) => found,
    }
}

fn v1_below(verb: &str, segments: &[&str]) -> Result<Route, NoRoute> {
    let task = |method, id: &str| Ok((method, vec![("id", id.to_owned())]));
    let config = |method, task: &str, config: &str| {
        Ok((method, vec![("taskId", task.to_owned()), ("id", config.to_owned())]))
    };
    let of_task = |method, task: &str| Ok((method, vec![("taskId", task.to_owned())]));
    let plain = |method| Ok((method, Vec::new()));
    let (method, members) = match (addressed(segments), verb) {
        (Place::Send, "POST") => plain("SendMessage"),
        (Place::Stream, "POST") => plain("SendStreamingMessage"),
        (Place::Tasks, "GET") => plain("ListTasks"),
        (Place::Task(id), "GET") => task("GetTask", id),
        (Place::Cancel(id), "POST") => task("CancelTask", id),
        (Place::Subscribe(id), "GET" | "POST") => task("SubscribeToTask", id),
        (Place::Configs(id), "GET") => of_task("ListTaskPushNotificationConfigs", id),
        (Place::Configs(id), "POST") => of_task("CreateTaskPushNotificationConfig", id),
        (Place::Config(id, name), "GET") => config("GetTaskPushNotificationConfig", id, name),
        (Place::Config(id, name), "DELETE") => config("DeleteTaskPushNotificationConfig", id, name),
        (Place::Other(["extendedAgentCard"]), "GET") => plain("GetExtendedAgentCard"),
        (Place::Other(["extendedAgentCard"]), _) => Err(NoRoute::Verb),
        (Place::Other(_), _) => Err(NoRoute::Unknown),
        (_, _) => Err(NoRoute::Verb),
    }?;
    Ok(Route::new(Dialect::A2a1, method, members))
}

fn of_v03(verb: &str, segments: &[&str]) -> Result<Route, NoRoute> {
    let task = |method, id: &str| Ok((method, vec![("name", format!("tasks/{id}"))]));
    let of_task = |method, id: &str| Ok((method, vec![("parent", format!("tasks/{id}"))]));
    let config = |method, id: &str, name: &str| {
        Ok((method, vec![("name", format!("tasks/{id}/pushNotificationConfigs/{name}"))]))
    };
    let plain = |method| Ok((method, Vec::new()));
    let (method, members) = match (addressed(segments), verb) {
        (Place::Send, "POST") => plain("SendMessage"),
        (Place::Stream, "POST") => plain("SendStreamingMessage"),
        (Place::Tasks, "GET") => plain("ListTasks"),
        (Place::Task(id), "GET") => task("GetTask", id),
        (Place::Cancel(id), "POST") => task("CancelTask", id),
        (Place::Subscribe(id), "GET" | "POST") => task("TaskSubscription", id),
        (Place::Configs(id), "GET") => of_task("ListTaskPushNotificationConfig", id),
        (Place::Configs(id), "POST") => of_task("CreateTaskPushNotificationConfig", id),
        (Place::Config(id, name), "GET") => config("GetTaskPushNotificationConfig", id, name),
        (Place::Config(id, name), "DELETE") => config("DeleteTaskPushNotificationConfig", id, name),
        (Place::Other(["card"]), "GET") => plain("GetAgentCard"),
        (Place::Other(["card"]), _) => Err(NoRoute::Verb),
        (Place::Other(_), _) => Err(NoRoute::Unknown),
        (_, _) => Err(NoRoute::Verb),
    }?;
    Ok(Route::new(Dialect::Proto03, method, members))
}

impl Route {
    fn new(dialect: Dialect, method: &'static str, members: Vec<(&str, String)>) -> Self {
        let streams = match dialect == Dialect::Proto03 {
            true => crate::proto03::STREAMING.contains(&method),
            false => crate::dialect::streams(method),
        };
        let path = members.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        Self { dialect, method, streams, path: path.collect() }
    }
}

/// The places that both versions have.
enum Place<'a> {
    Send,
    Stream,
    Tasks,
    Task(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
    Configs(&'a str),
    Config(&'a str, &'a str),
    Other(&'a [&'a str]),
}

fn addressed<'a>(segments: &'a [&'a str]) -> Place<'a> {
    match segments {
        ["message:send"] => Place::Send,
        ["message:stream"] => Place::Stream,
        ["tasks"] => Place::Tasks,
        ["tasks", named] if !named.is_empty() => match named.rsplit_once(':') {
            Some((id, "cancel")) if !id.is_empty() => Place::Cancel(id),
            Some((id, "subscribe")) if !id.is_empty() => Place::Subscribe(id),
            Some(_) | None => Place::Task(named),
        },
        ["tasks", id, "pushNotificationConfigs"] if !id.is_empty() => Place::Configs(id),
        ["tasks", id, "pushNotificationConfigs", name] if !id.is_empty() && !name.is_empty() => {
            Place::Config(id, name)
        }
        other => Place::Other(other),
    }
}

/// An object; `null` is what some clients send where there is nothing to say.
fn from_body(body: &[u8]) -> Result<Map<String, Value>, WireError> {
    let text = std::str::from_utf8(body).map_err(|_| WireError::Parse("it is not valid UTF-8"))?;
    if let Some(excess) = scan::excess(body, DEPTH_LIMIT, VALUES_LIMIT) {
        return Err(WireError::Parse(excess));
    }
    match serde_json::from_str(text).map_err(|_| WireError::Parse("it is malformed"))? {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(violation("body", "must be an object"))
        }
    }
}

/// The first of each name counts. What is to be a number or a flag is read as one; where it is none,
/// the decoder says so.
fn from_query(query: &str) -> Map<String, Value> {
    let mut members = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name, true), decoded(value, true)) else {
            continue;
        };
        let typed = match name.as_str() {
            "historyLength" | "history_length" | "pageSize" | "page_size" => {
                value.parse::<i64>().ok().map(Value::from)
            }
            "includeArtifacts" | "include_artifacts" => value.parse::<bool>().ok().map(Value::from),
            _ => None,
        };
        members.entry(name).or_insert_with(|| typed.unwrap_or(Value::String(value)));
    }
    members
}

/// Percent-encoding taken away; None for what is no text then. In a query a plus is a space.
fn decoded(text: &str, query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
