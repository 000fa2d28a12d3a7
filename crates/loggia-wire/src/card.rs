//! Agent cards: how Loggia describes itself.
//!
//! There are three. The root card has both versions in one, because 0.3 clients ask for it without naming
//! their version. The others have one version each, because clients of 1.0 reject unknown members. The same
//! facts give the same bytes, so a hash can identify a card.

use loggia_core::{Mode, ModelName, SessionId};
use serde_json::{Map, Value, json};

use crate::devtool;
use crate::dialect::major_minor;

/// Loggia's WebSocket binding, described in `docs/protocols/websocket.md`.
pub const WEBSOCKET: &str = "urn:loggia:a2a:websocket:v1";

/// The extension of the extended card that describes how sessions are set up:
/// `docs/protocols/extended-card.md`.
pub const SETUP: &str = "urn:loggia:a2a:setup:v1";

/// The facts that the cards show.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CardFacts {
    pub name: String,
    pub description: String,
    pub version: String,
    /// The URL at which clients reach the server: scheme, host, port and prefix, without a trailing slash.
    pub public_url: String,
    /// The same for gRPC clients; None if gRPC is not reachable.
    pub grpc: Option<GrpcUrls>,
    /// The tenant that 1.0 clients put before paths and into requests, if there is one.
    pub tenant: Option<String>,
    pub documentation_url: Option<String>,
    pub streaming: bool,
    pub push: bool,
    pub extended_card: bool,
    /// Empty: no authentication is needed.
    pub auth: Vec<AuthScheme>,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    pub skills: Vec<Skill>,
    /// One for each tool, with its name as the id; on the extended card only.
    pub tools: Vec<Skill>,
}

/// `host:port`, the form that clients of both versions read; some 0.3 clients want a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcUrls {
    pub v1: String,
    pub v03: String,
}

impl GrpcUrls {
    /// Derived from the public URL. None if that has a path: gRPC has its own paths, which a proxy must
    /// forward.
    pub fn of(public_url: &str) -> Option<Self> {
        let (scheme, rest) = public_url.split_once("://")?;
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if host.is_empty() || host.contains('/') {
            return None;
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let port = if scheme == "https" { 443 } else { 80 };
        let url = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        Some(Self { v1: url.clone(), v03: url })
    }
}

/// How sessions are set up. Shown only to clients that may read sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Extended {
    /// The shared session; None if a message without a context opens a new one.
    pub session: Option<SessionId>,
    pub workspace: String,
    /// Directories below which a client may choose another workspace.
    pub roots: Vec<String>,
    pub mode: Mode,
    pub model: ModelName,
    /// The tools that the agent has; None means all of them.
    pub tools: Option<Vec<String>>,
}

/// A way to authenticate. If there are several, any of them is enough.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthScheme {
    /// No credential is needed: local processes are identified by the kernel.
    Nothing,
    Bearer,
    ClientCredentials {
        token_url: String,
        /// Names, each with a description.
        scopes: Vec<(String, String)>,
        /// The scopes that ordinary use needs.
        needed: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub examples: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardKind {
    Hybrid,
    A2a1,
    A2a03,
    /// 0.3 with the security schemes of both its JSON and its protocol file.
    Proto03,
}

/// The kind of the root card: 1.0 for clients that name 1.x, both versions in one for all others.
pub fn card_kind(version: Option<&str>) -> CardKind {
    match version.map(str::trim).and_then(major_minor) {
        Some([1, _]) => CardKind::A2a1,
        Some(_) | None => CardKind::Hybrid,
    }
}

pub fn card(facts: &CardFacts, kind: CardKind) -> Value {
    let mut card = of_both(facts);
    match kind {
        CardKind::A2a1 => add_a2a1(&mut card, facts, &[V1]),
        CardKind::A2a03 | CardKind::Proto03 => add_a2a03(&mut card, facts, &[WEBSOCKET]),
        CardKind::Hybrid => {
            // The 0.3 conformance kit rejects a card with a custom transport among the 0.3 interfaces.
            // Readers of this card find the WebSocket among the 1.0 interfaces.
            add_a2a03(&mut card, facts, &[]);
            add_a2a1(&mut card, facts, &[V1, V03]);
        }
    }
    card.insert("capabilities".into(), capabilities(facts, kind));
    if !facts.auth.is_empty() {
        let schemes = facts
            .auth
            .iter()
            .filter_map(|scheme| Some((scheme.name()?.to_owned(), scheme.shape(kind))));
        card.insert("securitySchemes".into(), Value::Object(schemes.collect()));
    }
    Value::Object(card)
}

/// The card for clients that may read sessions: the public card, the tools as skills, and how sessions are
/// set up as the parameters of an extension, which both versions allow.
pub fn extended_card(facts: &CardFacts, extended: &Extended, kind: CardKind) -> Value {
    let given =
        |tool: &&Skill| extended.tools.as_ref().is_none_or(|given| given.contains(&tool.id));
    let tools = facts.tools.iter().filter(given);
    let skills = facts.skills.iter().chain(tools).cloned().collect();
    let mut card = card(&CardFacts { skills, ..facts.clone() }, kind);
    let extensions = card.pointer_mut("/capabilities/extensions").and_then(Value::as_array_mut);
    if let Some(extensions) = extensions {
        extensions.push(json!({
            "uri": SETUP,
            "description": "How the sessions of this server are set up.",
            "required": false,
            "params": setup(extended),
        }));
    }
    card
}

fn setup(extended: &Extended) -> Value {
    let mut setup = Map::new();
    if let Some(session) = &extended.session {
        setup.insert("contextId".into(), session.to_string().into());
    }
    setup.insert("workspace".into(), extended.workspace.as_str().into());
    if !extended.roots.is_empty() {
        setup.insert("roots".into(), extended.roots.clone().into());
    }
    setup.insert("mode".into(), extended.mode.name().into());
    setup.insert("model".into(), extended.model.to_string().into());
    Value::Object(setup)
}

const V1: &str = "1.0";
const V03: &str = "0.3";

/// The members that both versions write alike.
fn of_both(facts: &CardFacts) -> Map<String, Value> {
    let mut card = Map::new();
    card.insert("name".into(), facts.name.as_str().into());
    card.insert("description".into(), facts.description.as_str().into());
    card.insert("version".into(), facts.version.as_str().into());
    if let Some(url) = &facts.documentation_url {
        card.insert("documentationUrl".into(), url.as_str().into());
    }
    card.insert("defaultInputModes".into(), facts.input_modes.clone().into());
    card.insert("defaultOutputModes".into(), facts.output_modes.clone().into());
    let skills = facts.skills.iter().map(|skill| {
        json!({
            "id": skill.id,
            "name": skill.name,
            "description": skill.description,
            "tags": skill.tags,
            "examples": skill.examples,
        })
    });
    card.insert("skills".into(), skills.collect::<Vec<Value>>().into());
    card
}

fn add_a2a1(card: &mut Map<String, Value>, facts: &CardFacts, versions: &[&str]) {
    card.insert("supportedInterfaces".into(), interfaces(facts, versions).into());
    if !facts.auth.is_empty() {
        // Any one of them is enough.
        let either = facts.auth.iter().map(|scheme| match scheme.name() {
            Some(name) => json!({ "schemes": { name: { "list": scheme.needed() } } }),
            None => json!({ "schemes": {} }),
        });
        card.insert("securityRequirements".into(), either.collect::<Vec<Value>>().into());
    }
}

/// Each binding in each version, the newer version first: a client takes the first interface that it
/// supports.
fn interfaces(facts: &CardFacts, versions: &[&str]) -> Vec<Value> {
    let socket = websocket_url(&facts.public_url);
    let mut interfaces = Vec::new();
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC", WEBSOCKET] {
        for version in versions {
            let grpc = |urls: &GrpcUrls| match *version {
                V1 => urls.v1.clone(),
                _ => urls.v03.clone(),
            };
            let url = match binding {
                "GRPC" => facts.grpc.as_ref().map(grpc),
                WEBSOCKET => Some(socket.clone()),
                _ => Some(facts.public_url.clone()),
            };
            let Some(url) = url else { continue };
            let mut interface = Map::new();
            interface.insert("url".into(), url.into());
            interface.insert("protocolBinding".into(), binding.into());
            if let (Some(tenant), V1) = (&facts.tenant, *version) {
                interface.insert("tenant".into(), tenant.as_str().into());
            }
            interface.insert("protocolVersion".into(), (*version).into());
            interfaces.push(Value::Object(interface));
        }
    }
    interfaces
}

fn add_a2a03(card: &mut Map<String, Value>, facts: &CardFacts, sockets: &[&str]) {
    card.insert("protocolVersion".into(), "0.3.0".into());
    card.insert("url".into(), facts.public_url.as_str().into());
    card.insert("preferredTransport".into(), "JSONRPC".into());
    let interface = |url: &str, transport: &str| json!({ "url": url, "transport": transport });
    let plain = ["JSONRPC", "HTTP+JSON"].map(|transport| interface(&facts.public_url, transport));
    let grpc = facts.grpc.iter().map(|urls| interface(&urls.v03, "GRPC"));
    let socket = websocket_url(&facts.public_url);
    let sockets = sockets.iter().map(|transport| interface(&socket, transport));
    let interfaces: Vec<Value> = plain.into_iter().chain(grpc).chain(sockets).collect();
    card.insert("additionalInterfaces".into(), interfaces.into());
    card.insert("supportsAuthenticatedExtendedCard".into(), facts.extended_card.into());
    if !facts.auth.is_empty() {
        let either = facts.auth.iter().map(|scheme| match scheme.name() {
            Some(name) => json!({ name: scheme.needed() }),
            None => json!({}),
        });
        card.insert("security".into(), either.collect::<Vec<Value>>().into());
    }
}

/// The extension is optional: `required` would lock out clients that do not know it.
fn capabilities(facts: &CardFacts, kind: CardKind) -> Value {
    let mut capabilities = json!({
        "streaming": facts.streaming,
        "pushNotifications": facts.push,
        "extensions": [{
            "uri": devtool::URI,
            "description": devtool::DESCRIPTION,
            "required": false,
        }],
    });
    if let Some(map) = capabilities.as_object_mut() {
        if matches!(kind, CardKind::A2a1 | CardKind::Hybrid) {
            map.insert("extendedAgentCard".into(), facts.extended_card.into());
        }
        if kind != CardKind::A2a1 {
            map.insert("stateTransitionHistory".into(), true.into());
        }
    }
    capabilities
}

impl AuthScheme {
    fn name(&self) -> Option<&'static str> {
        match self {
            AuthScheme::Nothing => None,
            AuthScheme::Bearer => Some("bearer"),
            AuthScheme::ClientCredentials { .. } => Some("oauth2"),
        }
    }

    fn needed(&self) -> &[String] {
        match self {
            AuthScheme::Nothing | AuthScheme::Bearer => &[],
            AuthScheme::ClientCredentials { needed, .. } => needed,
        }
    }

    /// 0.3 has a `type`, 1.0 a wrapper; the hybrid card has both.
    fn shape(&self, kind: CardKind) -> Value {
        let (v03, v1) = match self {
            AuthScheme::Nothing => (json!({}), json!({})),
            AuthScheme::Bearer => (
                json!({ "type": "http", "scheme": "bearer" }),
                json!({ "httpAuthSecurityScheme": { "scheme": "bearer" } }),
            ),
            AuthScheme::ClientCredentials { token_url, scopes, .. } => {
                let scopes: Map<String, Value> = scopes
                    .iter()
                    .map(|(name, what)| (name.clone(), what.as_str().into()))
                    .collect();
                let flows =
                    json!({ "clientCredentials": { "tokenUrl": token_url, "scopes": scopes } });
                (
                    json!({ "type": "oauth2", "flows": flows }),
                    json!({ "oauth2SecurityScheme": { "flows": flows } }),
                )
            }
        };
        match (kind, v03, v1) {
            (CardKind::A2a03, v03, _) => v03,
            (CardKind::A2a1, _, v1) => v1,
            (CardKind::Hybrid | CardKind::Proto03, Value::Object(v03), Value::Object(v1)) => {
                Value::Object(v03.into_iter().chain(v1).collect())
            }
            (CardKind::Hybrid | CardKind::Proto03, v03, _) => v03,
        }
    }
}

/// The extended card of 0.3 in the JSON form of its protocol file: requirements and schemes are wrapped as
/// in 1.0. The encoder drops members that the file does not have.
pub fn proto_card(mut card: Value) -> Value {
    if let Some(requirements) = card.get_mut("security").and_then(Value::as_array_mut) {
        for requirement in requirements {
            let Some(schemes) = requirement.as_object_mut() else { continue };
            let lists = std::mem::take(schemes).into_iter();
            let lists: Map<String, Value> =
                lists.map(|(name, scopes)| (name, json!({ "list": scopes }))).collect();
            schemes.insert("schemes".into(), Value::Object(lists));
        }
    }
    card
}

/// `http://host` is `ws://host/ws`, `https://host` is `wss://host/ws`.
fn websocket_url(public_url: &str) -> String {
    let rest = public_url.strip_prefix("http");
    rest.map_or_else(|| format!("{public_url}/ws"), |rest| format!("ws{rest}/ws"))
}
