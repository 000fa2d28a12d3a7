//! `/.well-known/agent.json`: the card where clients of A2A 0.1 and 0.2 look for it. It describes the legacy
//! service, its methods and how to get a token. Its `url` is the URL for every version, so that a client of
//! 0.2 finds `message/send` there.

use serde_json::{Map, Value, json};

use super::schema;
use crate::card::{AuthScheme, CardFacts, CardKind, card};

pub fn agent_json(facts: &CardFacts) -> Value {
    let mut shown = Map::new();
    if let Value::Object(modern) = card(facts, CardKind::A2a03) {
        // Members with another form here, or newer than this card.
        const NEWER: &[&str] = &["additionalInterfaces", "preferredTransport", "protocolVersion"];
        shown.extend(modern.into_iter().filter(|(name, _)| !NEWER.contains(&name.as_str())));
    }
    shown.insert("endpoints".into(), endpoints(facts));
    shown.insert("authentication".into(), authentication(facts));
    shown.insert("methods".into(), schema::methods());
    shown.insert("definitions".into(), schema::definitions());
    Value::Object(shown)
}

fn token_url(facts: &CardFacts) -> Option<(&str, &[(String, String)])> {
    facts.auth.iter().find_map(|scheme| match scheme {
        AuthScheme::ClientCredentials { token_url, scopes, .. } => {
            Some((token_url.as_str(), scopes.as_slice()))
        }
        AuthScheme::Bearer | AuthScheme::Nothing => None,
    })
}

fn endpoints(facts: &CardFacts) -> Value {
    let mut endpoints = Map::new();
    endpoints.insert("rpc".into(), format!("{}/rpc", facts.public_url).into());
    if let Some((url, _)) = token_url(facts) {
        endpoints.insert("token".into(), url.into());
    }
    Value::Object(endpoints)
}

/// 0.1 lists the names of schemes; the way to a token is next to them.
fn authentication(facts: &CardFacts) -> Value {
    match token_url(facts) {
        Some((url, scopes)) => {
            let scopes: Map<String, Value> =
                scopes.iter().map(|(name, what)| (name.clone(), what.as_str().into())).collect();
            json!({
                "schemes": ["OAuth2", "Bearer"],
                "type": "oauth2",
                "flow": "client_credentials",
                "tokenUrl": url,
                "flows": { "clientCredentials": { "tokenUrl": url, "scopes": scopes } },
            })
        }
        None => json!({ "schemes": ["Bearer"], "type": "http" }),
    }
}
