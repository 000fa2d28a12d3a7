//! Agent cards: what Loggia says about itself.
//!
//! Three of them. The root shows both versions in one, because 0.3 clients ask for it without
//! saying who they are; the pure ones hold one version and nothing of the other, because 1.0 is
//! read strictly. The same facts give the same bytes, so their hash can name them.

use loggia_core::{Mode, ModelName, SessionId};
use serde_json::{Map, Value, json};

use crate::devtool;
use crate::dialect::major_minor;

/// Our own binding, described in `docs/protocols/websocket.md`.
pub const WEBSOCKET: &str = "urn:loggia:a2a:websocket:v1";

/// How sessions are set up, on the extended card, described in `docs/protocols/extended-card.md`.
pub const SETUP: &str = "urn:loggia:a2a:setup:v1";

/// What the server knows about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFacts {
    pub name: String,
    pub description: String,
    pub version: String,
    /// Where clients reach the server: scheme, host, port and prefix, without a slash at the end.
    pub public_url: String,
    pub documentation_url: Option<String>,
    pub streaming: bool,
    pub push: bool,
    pub extended_card: bool,
    /// None needed where this is empty.
    pub auth: Vec<AuthScheme>,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    pub skills: Vec<Skill>,
    /// One for each tool, its name as the id; on the extended card only.
    pub tools: Vec<Skill>,
}

/// What only a client that may read sessions is told: how they are set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Extended {
    /// The one session that is shared; None where a message without a context opens a new one.
    pub session: Option<SessionId>,
    pub workspace: String,
    /// Directories below which a client may choose another workspace.
    pub roots: Vec<String>,
    pub mode: Mode,
    pub model: ModelName,
    /// The tools that the agent is given; None means all of them.
    pub tools: Option<Vec<String>>,
}

/// A way to prove who one is; where there are several, any one will do.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthScheme {
    /// No way at all will do, too: who is here already is known without a word.
    Nothing,
    Bearer,
    ClientCredentials {
        token_url: String,
        /// Names and what they allow.
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
}

/// Which card the root gives: who says 1.x gets 1.0 pure, everybody else gets both in one.
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
        CardKind::A2a03 => add_a2a03(&mut card, facts, &[WEBSOCKET]),
        CardKind::Hybrid => {
            // A custom transport among the 0.3 interfaces makes the 0.3 conformance kit refuse the
            // whole card; whoever reads this one finds the WebSocket among the 1.0 interfaces.
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

/// The card of somebody who may read sessions: everything of the public one, the tools as skills,
/// and the set-up of the sessions as the parameters of an extension, which is where both versions
/// have room for it.
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

/// What both versions write alike.
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
    let interface = |url: &str, binding: &str, version: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": version });
    let rpc = versions.iter().map(|version| interface(&facts.public_url, "JSONRPC", version));
    let socket = websocket_url(&facts.public_url);
    let sockets = versions.iter().map(|version| interface(&socket, WEBSOCKET, version));
    let interfaces: Vec<Value> = rpc.chain(sockets).collect();
    card.insert("supportedInterfaces".into(), interfaces.into());
    if !facts.auth.is_empty() {
        // Either one will do.
        let either = facts.auth.iter().map(|scheme| match scheme.name() {
            Some(name) => json!({ "schemes": { name: { "list": scheme.needed() } } }),
            None => json!({ "schemes": {} }),
        });
        card.insert("securityRequirements".into(), either.collect::<Vec<Value>>().into());
    }
}

fn add_a2a03(card: &mut Map<String, Value>, facts: &CardFacts, sockets: &[&str]) {
    card.insert("protocolVersion".into(), "0.3.0".into());
    card.insert("url".into(), facts.public_url.as_str().into());
    card.insert("preferredTransport".into(), "JSONRPC".into());
    let rpc = json!({ "url": facts.public_url, "transport": "JSONRPC" });
    let sockets = sockets.iter().map(
        |transport| json!({ "url": websocket_url(&facts.public_url), "transport": transport }),
    );
    let interfaces: Vec<Value> = std::iter::once(rpc).chain(sockets).collect();
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

/// Required would shut out every client that does not know the extension.
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
        if kind != CardKind::A2a03 {
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

    /// 0.3 has a `type`, 1.0 a wrapper; in the hybrid they stand side by side.
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
            (CardKind::Hybrid, Value::Object(v03), Value::Object(v1)) => {
                Value::Object(v03.into_iter().chain(v1).collect())
            }
            (CardKind::Hybrid, v03, _) => v03,
        }
    }
}

/// `http://host` is `ws://host/ws`, `https://host` is `wss://host/ws`.
fn websocket_url(public_url: &str) -> String {
    let rest = public_url.strip_prefix("http");
    rest.map_or_else(|| format!("{public_url}/ws"), |rest| format!("ws{rest}/ws"))
}
