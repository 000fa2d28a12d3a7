//! `POST /oauth/token`: the client credentials grant of RFC 6749, §4.4, and one-time codes as an extension grant (§4.5).
//! Reads the request and writes the answer; [`OAuth`](crate::auth::OAuth) checks secrets and codes.
//!
//! Strict where leniency would hide a mistake or an attack: repeated parameters, two kinds of credentials, parameters in
//! the URL.

mod form;
mod pairing;

pub(super) use form::decode;
pub use pairing::GRANT as PAIRING;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, PRAGMA,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use self::form::Form;
use crate::auth::{Denied, Issued, Scopes, Secret, TokenRequest, source};
use crate::guard::{Rejection, read_body};
use crate::peer::Peer;
use crate::state::Server;

/// Far more than any valid request.
const BODY_LIMIT: usize = 8 * 1024;
const BODY_TIME: Duration = Duration::from_secs(10);
const BASIC: &str = "Basic realm=\"loggia\", charset=\"UTF-8\"";

const fn invalid(description: &'static str) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, "invalid_request", description)
}

const NO_CLIENT: Rejection = Rejection::new(
    StatusCode::UNAUTHORIZED,
    "invalid_client",
    "The client is unknown or its secret is wrong: send client_id and client_secret.",
);
const NO_GRANT: Rejection = Rejection::new(
    StatusCode::BAD_REQUEST,
    "unsupported_grant_type",
    "The grant types are client_credentials and one-time codes.",
);
const NO_SCOPE: Rejection = Rejection::new(
    StatusCode::BAD_REQUEST,
    "invalid_scope",
    "That scope is not granted: leave scope out for all granted scopes.",
);
const UNAVAILABLE: &str = "temporarily_unavailable";

#[derive(Serialize)]
struct Token<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: u64,
    /// Present if the client asked for scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// Present if this request registered a client.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    registered: Option<pairing::Registered>,
}

/// A token and the rest of the response.
struct Given {
    issued: Issued,
    scope: Option<String>,
    registered: Option<pairing::Registered>,
}

pub async fn post(State(server): State<Arc<Server>>, request: Request) -> Response {
    // A failed Basic authentication is answered with a challenge.
    let basic = request.headers().contains_key(AUTHORIZATION);
    let answer = match give(&server, request).await {
        Ok(Given { issued: Issued { token, life }, scope, registered }) => {
            let (token_type, expires_in) = ("Bearer", life.as_secs());
            let body = Token { access_token: &token, token_type, expires_in, scope, registered };
            (StatusCode::OK, axum::Json(body)).into_response()
        }
        Err(mistake) => {
            let challenged = basic && mistake.status == StatusCode::UNAUTHORIZED;
            let mistake = if challenged { mistake.challenge(BASIC) } else { mistake };
            let body = json!({ "error": mistake.reason, "error_description": mistake.message });
            mistake.respond(body)
        }
    };
    private(answer)
}

async fn give(server: &Server, request: Request) -> Result<Given, Rejection> {
    let Some(oauth) = &server.oauth else { return Err(NO_CLIENT) };
    let peer = request.extensions().get::<Peer>().cloned().ok_or(NO_CLIENT)?;
    check_head(request.uri(), request.headers())?;
    let basic = basic(request.headers())?;
    let program = pairing::program(request.headers());
    let body = read_body(request.into_body(), BODY_LIMIT, BODY_TIME).await;
    let form = Form::parse(&body.map_err(unreadable)?).map_err(invalid)?;
    match form.get("grant_type") {
        None => return Err(invalid("grant_type is missing: send client_credentials.")),
        Some("client_credentials") => {}
        Some(PAIRING) => {
            let proven = basic.is_some() || form.get("client_secret").is_some();
            return pairing::redeem(server, oauth, &form, proven, program, &peer).await;
        }
        Some(_) => return Err(NO_GRANT),
    }
    let (client, secret) = credentials(basic, &form)?;
    let scopes = scopes(&form);
    let asked = TokenRequest { client, secret: Secret::new(secret), scopes };
    let identity = peer.identity().await;
    let issued = oauth.issue(asked, source(&peer, identity), identity).await.map_err(denied)?;
    Ok(Given { issued, scope: scopes.map(|scopes| scopes.to_string()), registered: None })
}

/// The requested scopes. Unknown ones are reported only after the secret was checked, so that strangers learn nothing.
fn scopes(form: &Form) -> Option<Scopes> {
    form.get("scope").map(|text| text.parse().unwrap_or_default())
}

fn check_head(uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
    if uri.query().is_some() {
        return Err(invalid("Send parameters in the body: URLs are logged."));
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let essence = match (types.next(), types.next()) {
        (Some(only), None) => only.to_str().ok().and_then(|text| text.split(';').next()),
        _ => None,
    };
    let form = essence.is_some_and(|essence| {
        essence.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
    });
    match form {
        true => Ok(()),
        false => Err(invalid("The body must be application/x-www-form-urlencoded.")),
    }
}

/// The credentials of `Authorization: Basic`, if present. Both halves are form-encoded (§2.3.1).
fn basic(headers: &HeaderMap) -> Result<Option<(String, String)>, Rejection> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let value = match (given.next(), given.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(invalid("There is more than one Authorization header.")),
    };
    let read = || {
        let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
        let decoded = STANDARD.decode(encoded.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        let (client, secret) = text.split_once(':')?;
        let basic = scheme.eq_ignore_ascii_case("basic");
        basic.then_some((form::decode(client)?, form::decode(secret)?))
    };
    read().map(Some).ok_or(NO_CLIENT)
}

/// The credentials, from one source only. The body may repeat the client's name.
fn credentials(
    basic: Option<(String, String)>,
    form: &Form,
) -> Result<(String, String), Rejection> {
    let (client, secret) = (form.get("client_id"), form.get("client_secret"));
    match (basic, client, secret) {
        (Some(_), _, Some(_)) => {
            Err(invalid("Send the secret in the header or in the body, not in both."))
        }
        (Some((named, _)), Some(client), None) if named != client => {
            Err(invalid("The header and the body name different clients."))
        }
        (Some(basic), _, None) => Ok(basic),
        (None, Some(client), Some(secret)) => Ok((client.to_owned(), secret.to_owned())),
        (None, _, _) => Err(NO_CLIENT),
    }
}

fn denied(denied: Denied) -> Rejection {
    let rejection = |status, description| Rejection::new(status, UNAVAILABLE, description);
    let (busy, unavailable) = (StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE);
    match denied {
        Denied::Client => NO_CLIENT,
        Denied::Code => pairing::NO_CODE,
        Denied::Scope => NO_SCOPE,
        Denied::Wait(wait) => {
            let message = "Too many wrong secrets: wait before the next attempt.";
            rejection(busy, message).retry_after(wait)
        }
        Denied::TooManyChecks => {
            let message = "Too many clients ask for tokens at once: try again.";
            rejection(unavailable, message).retry_after(Duration::from_secs(1))
        }
        Denied::Storage => {
            rejection(unavailable, "Tokens cannot be issued now: see the server log.")
        }
    }
}

fn unreadable(rejection: Rejection) -> Rejection {
    Rejection { reason: "invalid_request", ..rejection }
}

/// A rejection by the guard on this path, in the form of the RFC.
pub(super) fn refusal(rejection: &Rejection) -> Value {
    let error = match rejection.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        StatusCode::UNAUTHORIZED => "invalid_client",
        StatusCode::FORBIDDEN => "unauthorized_client",
        _ => "invalid_request",
    };
    json!({ "error": error, "error_description": rejection.message })
}

/// Forbids caches to store the response.
fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}
