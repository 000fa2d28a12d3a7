//! A token for a one-time code: an extension grant of RFC 6749, §4.5. The response also has the credentials of a newly
//! registered client (as in RFC 7591), with which the device gets its next tokens.

use axum::http::StatusCode;
use axum::http::header::{HeaderMap, USER_AGENT};
use loggia_core::{Command, Level, Origin};
use serde::Serialize;

use super::form::Form;
use super::{Given, denied, invalid, scopes};
use crate::auth::{OAuth, Paired, PairingRequest, source};
use crate::guard::Rejection;
use crate::peer::Peer;
use crate::state::{ServedSessions, Server};

/// The grant type, an absolute URI as the RFC requires.
pub const GRANT: &str = "urn:loggia:oauth:grant-type:pairing-code";

pub(super) const NO_CODE: Rejection = Rejection::new(
    StatusCode::BAD_REQUEST,
    "invalid_grant",
    "The code is wrong, used or expired: ask for a new one.",
);

/// The client that was registered.
#[derive(Serialize)]
pub(super) struct Registered {
    client_id: String,
    client_secret: String,
    /// Seconds since 1970.
    client_secret_expires_at: i64,
}

/// The program that sends a request: the first word of `User-Agent`.
pub(super) fn program(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(USER_AGENT)?.to_str().ok()?;
    said.split(['/', ' ']).next().map(str::to_owned)
}

pub(super) async fn redeem(
    server: &Server,
    oauth: &OAuth,
    form: &Form,
    proven: bool,
    program: Option<String>,
    peer: &Peer,
) -> Result<Given, Rejection> {
    if proven {
        return Err(invalid("A code needs no client secret: leave it out."));
    }
    let code = form.get("code").ok_or(invalid("code is missing: send the one-time code."))?;
    let device = form.get("client_name").or(program.as_deref()).unwrap_or_default();
    let new = PairingRequest { code, device, scopes: scopes(form) };
    let from = source(peer, peer.identity().await);
    let Paired { issued, client, secret } = oauth.redeem(new, from).await.map_err(denied)?;
    add_notice(server, format!("{} was paired with a code: {}.", client.name, client.scopes)).await;
    let registered = Registered {
        client_secret: secret.reveal().to_owned(),
        client_secret_expires_at: client.until.map_or(0, |until| until.0 / 1000),
        client_id: client.name,
    };
    Ok(Given { issued, scope: Some(client.scopes.to_string()), registered: Some(registered) })
}

/// Adds a notice to the shared session.
async fn add_notice(server: &Server, text: String) {
    let ServedSessions::Shared(session) = &server.sessions else { return };
    let added = async {
        let handle = server.open(session).await.map_err(|error| format!("{error:?}"))?;
        let notice = Command::Notice { level: Level::Info, text };
        let added = handle.submit(notice, Origin::system()).await;
        added.map_err(|error| error.to_string())
    };
    if let Err(error) = added.await {
        tracing::warn!(error, "the notice about a new client was not written");
    }
}
