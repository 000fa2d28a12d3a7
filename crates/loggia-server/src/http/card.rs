//! Agent cards, public and extended, with a hash as their entity tag.
//!
//! The extended card shows how sessions are set up, to callers that may read them. The public one shows only what a
//! stranger may know.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use loggia_core::SessionId;
use loggia_wire::card::AuthScheme;
use loggia_wire::time::http_date;
use loggia_wire::{
    CardFacts, CardKind, Condition, Extended, View, WireError, card, card_kind, extended_card,
    legacy as legacy_wire,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::auth::{SCOPES, Scopes};
use crate::dispatch::Reply;
use crate::state::{Caller, ServedSessions, Server, submit_error};

/// All versions in one card, or the version that the request names.
pub async fn root(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    let version = headers.get("a2a-version").and_then(|value| value.to_str().ok());
    answer(&server, card_kind(version), &headers).await
}

pub(super) async fn of_version(server: Arc<Server>, headers: HeaderMap, view: View) -> Response {
    answer(&server, view.card_kind(), &headers).await
}

pub async fn legacy(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    shown(&server, &legacy_wire::card::agent_json(&server.card_facts().await), &headers)
}

async fn answer(server: &Server, kind: CardKind, headers: &HeaderMap) -> Response {
    shown(server, &card(&server.card_facts().await, kind), headers)
}

fn shown(server: &Server, card: &Value, headers: &HeaderMap) -> Response {
    let text = card.to_string();
    let digest = Sha256::digest(text.as_bytes());
    let tag: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|given| given.split(',').any(|one| one.trim() == tag || one.trim() == "*"));
    let body = if known { Body::empty() } else { Body::from(text) };
    let mut response = Response::new(body);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::VARY, "A2A-Version"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let since = http_date(server.started);
    for (name, value) in [(header::ETAG, tag), (header::LAST_MODIFIED, since)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

impl Server {
    pub(crate) async fn extended_card(
        &self,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        if !self.facts.extended_card {
            return Err(Condition::ExtendedCardNotSupported.into());
        }
        let extended = match &self.sessions {
            ServedSessions::Shared(session) => self.setup_of(session, caller).await?,
            ServedSessions::Many => self.setup_of_new_sessions(caller),
        };
        let facts = self.card_facts().await;
        Ok(Reply::Value(extended_card(&facts, &extended, view.card_kind())))
    }

    /// The contents of the cards now: clients may be registered while the server runs.
    pub async fn card_facts(&self) -> CardFacts {
        let mut facts = self.facts.clone();
        let known = match &self.oauth {
            Some(oauth) => oauth.is_in_use().await,
            None => false,
        };
        if known {
            if facts.auth.is_empty() {
                facts.auth.push(AuthScheme::Nothing);
            }
            let named = |(_, name, allows): (_, &str, &str)| (name.to_owned(), allows.to_owned());
            let needed = Scopes::REGISTERED.names().into_iter().map(str::to_owned).collect();
            facts.auth.push(AuthScheme::ClientCredentials {
                token_url: format!("{}{}", facts.public_url, super::TOKEN),
                scopes: SCOPES.map(named).to_vec(),
                needed,
            });
        }
        facts
    }

    /// The current settings of the shared session.
    async fn setup_of(&self, id: &SessionId, caller: &Caller) -> Result<Extended, WireError> {
        let handle = self.session(id, caller).await?;
        let session = Some(id.clone());
        let look = move |state: &loggia_core::Session| {
            let opened = state.opened()?;
            let settings = &opened.settings;
            Some(Extended {
                session,
                workspace: opened.workspace.path().to_owned(),
                roots: Vec::new(),
                mode: settings.mode,
                model: settings.model.clone(),
                tools: settings.tools.clone(),
            })
        };
        let looked = handle.inspect(look).await.map_err(submit_error)?;
        looked.ok_or_else(|| Condition::Internal.into())
    }

    fn setup_of_new_sessions(&self, caller: &Caller) -> Extended {
        let settings = &self.defaults.settings;
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        // Only of use to clients that may open a session.
        let roots = match caller.principal.scopes.prompt {
            true => self.defaults.roots.iter().map(shown).collect(),
            false => Vec::new(),
        };
        Extended {
            session: None,
            workspace: shown(&self.defaults.workspace),
            roots,
            mode: settings.mode,
            model: settings.model.clone(),
            tools: settings.tools.clone(),
        }
    }
}
