//! HTTP+JSON: a verb, a path and a query are a method and its parameters.
//!
//! 1.0 has its paths at the root, or below one segment, the tenant; 0.3 has them below `/v1`. Both are also
//! below `/a2a/VERSION`, where that version's card is. Methods are decoded as on every other binding.

use serde_json::{Map, Value};

use crate::dialect::{Dialect, View, choose};
use crate::jsonrpc;
use crate::read::violation;
use crate::refuse::WireError;

/// The method of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    dialect: Dialect,
    pub method: &'static str,
    /// The answer is a stream of frames.
    pub streams: bool,
    media_types: &'static [&'static str],
    /// Parameters from the path; they override the body and the query.
    path: Map<String, Value>,
}

/// Why a path has no method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    Unknown,
    /// The path exists with other verbs.
    Verb,
}

/// Finds the method of a request. `version` is its `A2A-Version`: a client of 1.0 may have a tenant named
/// `v1`.
pub fn route(verb: &str, path: &str, version: Option<&str>) -> Result<Route, NoRoute> {
    let mut segments = Vec::new();
    for segment in path.split('/').skip(1) {
        segments.push(decoded(segment, false).ok_or(NoRoute::Unknown)?);
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let ["a2a", name, rest @ ..] = segments.as_slice() {
        let named =
            |dialect: &Dialect| dialect.version().name() == *name && has_paths(*dialect, rest);
        if let Some(dialect) = Dialect::ALL.into_iter().find(named) {
            return route_of(dialect, verb, rest);
        }
    }
    let sharing = Dialect::ALL.into_iter().filter(|dialect| has_paths(*dialect, &segments));
    let dialect = choose(sharing, version).ok_or(NoRoute::Unknown)?;
    route_of(dialect, verb, &segments)
}

/// Whether the protocol has its HTTP+JSON paths where this path is.
fn has_paths(dialect: Dialect, segments: &[&str]) -> bool {
    dialect.protocol().http_paths().is_some_and(|paths| segments.starts_with(paths.prefix))
}

/// The route of a path, which may begin with a tenant.
fn route_of(dialect: Dialect, verb: &str, segments: &[&str]) -> Result<Route, NoRoute> {
    let protocol = dialect.protocol();
    let paths = protocol.http_paths().ok_or(NoRoute::Unknown)?;
    let below = segments.strip_prefix(paths.prefix).ok_or(NoRoute::Unknown)?;
    match (paths.route(dialect, verb, below), below) {
        (Err(NoRoute::Unknown), [tenant, rest @ ..])
            if protocol.has_tenants() && !tenant.is_empty() =>
        {
            let mut route = paths.route(dialect, verb, rest)?;
            route.path.insert("tenant".into(), (*tenant).into());
            Ok(route)
        }
        (found, _) => found,
    }
}

/// The verbs that a path accepts.
pub fn verbs(path: &str, version: Option<&str>) -> Vec<&'static str> {
    let leads = |verb: &&str| route(verb, path, version).is_ok();
    ["GET", "POST", "DELETE"].into_iter().filter(leads).collect()
}

impl Route {
    pub fn view(&self) -> View {
        View::plain(self.dialect)
    }

    /// The media types of its answers, the preferred one first. 1.0 has its own, but not all of its clients know it.
    pub fn media_types(&self) -> &'static [&'static str] {
        self.media_types
    }

    /// The parameters: the body, or the query if there is none, with those of the path.
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

/// The differences between the HTTP+JSON paths of the versions.
pub(crate) struct HttpPaths {
    /// The segments before every path.
    pub prefix: &'static [&'static str],
    /// Methods that the versions name differently.
    pub subscribe: &'static str,
    pub list_configs: &'static str,
    /// The segment and the method of the extended card.
    pub card: (&'static str, &'static str),
    /// The parameters that name a task, the push configurations of a task, and one of them.
    pub task: fn(&str) -> Members,
    pub configs: fn(&str) -> Members,
    pub config: fn(&str, &str) -> Members,
    /// The media types of answers, the preferred one first.
    pub media_types: &'static [&'static str],
}

pub(crate) type Members = Vec<(&'static str, String)>;

impl HttpPaths {
    fn route(&self, dialect: Dialect, verb: &str, segments: &[&str]) -> Result<Route, NoRoute> {
        let (task, configs, config) = (self.task, self.configs, self.config);
        let (method, members) = match (resource(segments), verb) {
            (Resource::Send, "POST") => ("SendMessage", Vec::new()),
            (Resource::Stream, "POST") => ("SendStreamingMessage", Vec::new()),
            (Resource::Tasks, "GET") => ("ListTasks", Vec::new()),
            (Resource::Task(id), "GET") => ("GetTask", task(id)),
            (Resource::Cancel(id), "POST") => ("CancelTask", task(id)),
            (Resource::Subscribe(id), "GET" | "POST") => (self.subscribe, task(id)),
            (Resource::Configs(id), "GET") => (self.list_configs, configs(id)),
            (Resource::Configs(id), "POST") => ("CreateTaskPushNotificationConfig", configs(id)),
            (Resource::Config(id, name), "GET") => {
                ("GetTaskPushNotificationConfig", config(id, name))
            }
            (Resource::Config(id, name), "DELETE") => {
                ("DeleteTaskPushNotificationConfig", config(id, name))
            }
            (Resource::Other([card]), "GET") if *card == self.card.0 => (self.card.1, Vec::new()),
            (Resource::Other([card]), _) if *card == self.card.0 => return Err(NoRoute::Verb),
            (Resource::Other(_), _) => return Err(NoRoute::Unknown),
            (_, _) => return Err(NoRoute::Verb),
        };
        let path = members.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        let streams = dialect.protocol().streaming_methods().contains(&method);
        Ok(Route { dialect, method, streams, media_types: self.media_types, path: path.collect() })
    }
}

/// What a path addresses, in every version.
enum Resource<'a> {
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

fn resource<'a>(segments: &'a [&'a str]) -> Resource<'a> {
    match segments {
        ["message:send"] => Resource::Send,
        ["message:stream"] => Resource::Stream,
        ["tasks"] => Resource::Tasks,
        ["tasks", named] if !named.is_empty() => match named.rsplit_once(':') {
            Some((id, "cancel")) if !id.is_empty() => Resource::Cancel(id),
            Some((id, "subscribe")) if !id.is_empty() => Resource::Subscribe(id),
            Some(_) | None => Resource::Task(named),
        },
        ["tasks", id, "pushNotificationConfigs"] if !id.is_empty() => Resource::Configs(id),
        ["tasks", id, "pushNotificationConfigs", name] if !id.is_empty() && !name.is_empty() => {
            Resource::Config(id, name)
        }
        other => Resource::Other(other),
    }
}

/// An object. Some clients send `null` instead of an empty one.
fn from_body(body: &[u8]) -> Result<Map<String, Value>, WireError> {
    match jsonrpc::value(body)? {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(violation("body", "must be an object"))
        }
    }
}

/// The first value of a name is used. Values that look like numbers or flags are converted; the decoder rejects
/// others where it needs a number or a flag.
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

/// Decodes percent-encoding; None if the result is no UTF-8. In a query a plus is a space.
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
