//! Authentication: turns a connection and a request's credentials into a [`Principal`], or refuses it.
//!
//! A presented credential decides alone: a wrong one is answered with 401 and never falls back to the
//! identity of the connection (A08). Without a credential, a process of the same user on this machine
//! is that user (docs/authentication.md). A process that descends from a call is refused with any credential (A15).
//! Scopes are decided here and never by a request; which request needs which scope is decided in
//! `required_scopes`.

mod access_token;
mod client;
mod credential_lifetime;
mod failed_attempts;
mod keys;
mod limiter;
mod oauth;
mod pairing;
mod scheme;
mod scope;
mod secret;
mod token_file;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};

use loggia_core::origin::PRINCIPAL_SEPARATOR;

pub use client::{Client, ClientError, Clients, SAMPLE};
pub use credential_lifetime::CredentialLifetime;
pub use keys::{KeyError, Keys, OldTokens};
pub use limiter::{Limiter, Source};
pub use oauth::{
    Denied, Issued, OAuth, OAuthError, Paired, PairingRequest, SampleClient, TokenRequest,
};
pub use pairing::{CODE_LIFE, Code, Pairing, PairingError};
pub use scheme::{CredentialCheck, Scheme};
pub use scope::{Grant, NoScope, SCOPES, Scope, Scopes};
pub use secret::Secret;
pub use token_file::{TokenFile, TokenFileError};

use crate::guard::{Rejection, from_page};
use crate::peer::{Peer, PeerIdentity, network};
use failed_attempts::{Attempt, FailedAttempts};

/// The prefix of local users' names. Tokens and clients have other prefixes.
const LOCAL: &str = "local:";

/// Whether this is the local user, identified by the kernel and without a token. With a token, a local
/// process may act for a client elsewhere.
pub(crate) fn is_local_user(principal: &str) -> bool {
    principal.starts_with(LOCAL)
}

/// An authenticated user or client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// `local:1000`, `token:NAME`, `client:NAME~ID`. Unique, also over time.
    pub name: Arc<str>,
    pub scopes: Scopes,
    /// Which calls run without approval in the sessions that it opens.
    pub grant: Grant,
    /// Connected over loopback; such a client may hold more streams.
    pub local: bool,
    /// Streams end with the credential.
    pub lifetime: CredentialLifetime,
}

impl Principal {
    /// A principal without any scope.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        let (scopes, grant, lifetime) =
            (Scopes::default(), Grant::None, CredentialLifetime::default());
        Self { name: name.into(), scopes, grant, local: false, lifetime }
    }

    /// The name without the part that makes it unique.
    pub(crate) fn label(&self) -> &str {
        self.name.split(PRINCIPAL_SEPARATOR).next().unwrap_or(&self.name)
    }

    #[must_use]
    pub fn may(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    #[must_use]
    pub fn granted(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    #[must_use]
    pub fn during(mut self, lifetime: CredentialLifetime) -> Self {
        self.lifetime = lifetime;
        self
    }
}

const TOOL_DESCENDANT: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "tool-descendant",
    "A process that a command of the agent started cannot act for a person.",
);

const HIDDEN: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "hidden-process",
    "The connecting process is not visible, so it may be a command of the agent. Connect directly, \
     or start the server with --allow-hidden-peers (ssh -L needs it).",
);

/// For servers that admit hidden peers at other times.
const HIDDEN_DURING_CALL: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "hidden-process",
    "The connecting process is not visible, and a command of the agent is running: try again when \
     it has ended.",
);

const CHALLENGE: &str = "Bearer realm=\"loggia\"";
const WRONG: &str = "Bearer realm=\"loggia\", error=\"invalid_token\"";

const TOKEN_NEEDED: Rejection = Rejection::new(
    StatusCode::UNAUTHORIZED,
    "token-needed",
    "Authentication is required: send a token as Authorization: Bearer.",
)
.challenge(CHALLENGE);

const TOKEN_OVER: Rejection = Rejection::new(
    StatusCode::UNAUTHORIZED,
    "token-over",
    "The token has expired or was revoked: get a new one.",
)
.challenge(WRONG);

const NOT_NOW: Rejection = Rejection::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "credentials-unavailable",
    "The credential cannot be checked now: try again.",
)
.retry_after(Duration::from_secs(1));

const OWN_PROCESS: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "own-process",
    "Requests of the server to itself are refused: send them from another process.",
);

/// How clients are authenticated. The default admits local processes of the same user, and no tokens.
pub struct AuthOptions {
    /// Paths that need no authentication for GET: the card and the health check. Exact matches.
    pub public: Vec<String>,
    /// Paths that need no authentication for POST, because the body holds the secret: the token
    /// endpoint. Tools are refused there, too.
    pub token_endpoints: Vec<String>,
    /// Paths where local processes always need a credential.
    pub token_always: Vec<String>,
    /// Local processes need a credential everywhere.
    pub require_token: bool,
    /// Local processes of this user that are not visible, such as `sshd`, can connect with a
    /// credential while no call of this user runs.
    pub allow_hidden_peers: bool,
    /// Connections of this process count as the user's. For tests only: in the product such a request
    /// comes from a tool or from a webhook that names this server.
    pub trust_own_process: bool,
    pub limiter: Limiter,
}

impl Default for AuthOptions {
    fn default() -> Self {
        let limiter = Limiter::new(5, Duration::from_secs(60));
        let [public, token_endpoints, token_always] = [const { Vec::new() }; 3];
        Self {
            public,
            token_endpoints,
            token_always,
            require_token: false,
            allow_hidden_peers: false,
            trust_own_process: false,
            limiter,
        }
    }
}

/// Asks each scheme in turn, and then the connection.
pub struct Authenticator {
    schemes: Vec<Arc<dyn Scheme>>,
    options: AuthOptions,
    failed_attempts: FailedAttempts,
}

impl Authenticator {
    pub fn new(options: AuthOptions) -> Self {
        Self { schemes: Vec::new(), options, failed_attempts: FailedAttempts::default() }
    }

    /// Adds a scheme; the first that knows a credential decides.
    pub fn with(mut self, scheme: impl Scheme + 'static) -> Self {
        self.schemes.push(Arc::new(scheme));
        self
    }

    /// The sender of a request; None on a public route.
    pub(crate) async fn identify(&self, parts: &Parts) -> Result<Option<Principal>, Rejection> {
        if self.is_public(parts) {
            return Ok(None);
        }
        let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_else(Peer::unknown);
        let identity = peer.identity().await;
        self.refuse_tools(identity)?;
        if self.is_token_endpoint(parts) {
            return match identity {
                PeerIdentity::OwnProcess { .. } if !self.options.trust_own_process => {
                    Err(OWN_PROCESS)
                }
                _ => Ok(None),
            };
        }
        let principal = match parts.headers.contains_key(AUTHORIZATION) {
            true => Box::pin(self.by_credential(parts, &peer, identity)).await?,
            false => self.by_connection(parts, identity)?,
        };
        Ok(Some(principal))
    }

    /// A process that is or may be a command of the agent is refused with any token: a command that
    /// has found one must not answer its own questions.
    fn refuse_tools(&self, identity: &PeerIdentity) -> Result<(), Rejection> {
        match (identity, self.options.allow_hidden_peers) {
            (PeerIdentity::ToolDescendant { .. }, _) => Err(TOOL_DESCENDANT),
            (PeerIdentity::Hidden | PeerIdentity::Unseen { .. }, false) => Err(HIDDEN),
            (PeerIdentity::Hidden, true) => Err(HIDDEN_DURING_CALL),
            _ => Ok(()),
        }
    }

    fn is_public(&self, parts: &Parts) -> bool {
        let reading = [Method::GET, Method::HEAD].contains(&parts.method);
        reading && self.options.public.iter().any(|path| path == parts.uri.path())
    }

    fn is_token_endpoint(&self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        parts.method == Method::POST
            && self.options.token_endpoints.iter().any(|endpoint| endpoint == path)
    }

    /// The credential is checked before the rate limit: a right one is accepted however many wrong ones
    /// came from the same source. Only wrong ones are counted and delayed.
    async fn by_credential(
        &self,
        parts: &Parts,
        peer: &Peer,
        identity: &PeerIdentity,
    ) -> Result<Principal, Rejection> {
        let source = source(peer, identity);
        let attempt = Attempt::new(source.clone(), parts);
        let may_check = self.failed_attempts.check(&attempt, Instant::now());
        let once = parts.headers.get_all(AUTHORIZATION).iter().count() == 1;
        let asked = |scheme: &&Arc<dyn Scheme>| {
            once && (may_check.is_ok() || !scheme.has_guessable_credentials())
        };
        for scheme in self.schemes.iter().filter(asked) {
            match scheme.check(parts).await {
                CredentialCheck::Accepted(principal) => {
                    if scheme.has_guessable_credentials() {
                        self.failed_attempts.succeeded(attempt);
                    }
                    return Ok(Principal { local: peer.is_loopback(), ..principal });
                }
                CredentialCheck::Expired => return Err(TOKEN_OVER),
                CredentialCheck::Unavailable => return Err(NOT_NOW),
                CredentialCheck::Unknown => {}
            }
        }
        let now = Instant::now();
        if may_check.is_ok() {
            self.failed_attempts.failed(attempt, now);
        }
        if let Err(wait) = may_check.and_then(|()| self.options.limiter.check(&source, now)) {
            let message = "Too many wrong credentials: wait before the next attempt.";
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Rejection::new(status, "too-many-failures", message).retry_after(wait));
        }
        self.options.limiter.fail(source, now);
        let message = "The credential is not valid: send one of this server's tokens.";
        let rejection = Rejection::new(StatusCode::UNAUTHORIZED, "invalid-token", message);
        Err(rejection.challenge(WRONG))
    }

    /// Identifies a local client by the owner of its socket, as the kernel reports it.
    fn by_connection(
        &self,
        parts: &Parts,
        identity: &PeerIdentity,
    ) -> Result<Principal, Rejection> {
        if self.options.token_always.iter().any(|path| path == parts.uri.path()) {
            return Err(TOKEN_NEEDED);
        }
        let open = !self.options.require_token && !from_page(&parts.headers);
        match identity {
            PeerIdentity::OtherUser { .. } => {
                let message =
                    "This server belongs to another user of this machine: ask them for a token.";
                Err(Rejection::new(StatusCode::FORBIDDEN, "other-user", message))
            }
            PeerIdentity::OwnProcess { .. } if !self.options.trust_own_process => Err(OWN_PROCESS),
            PeerIdentity::Local { uid, .. } | PeerIdentity::OwnProcess { uid, .. } if open => {
                let principal = Principal::new(format!("{LOCAL}{uid}")).may(Scopes::CLIENT);
                Ok(Principal { local: true, ..principal })
            }
            _ => Err(TOKEN_NEEDED),
        }
    }
}

/// The bearer token of a request.
fn bearer(request: &Parts) -> Option<&str> {
    let value = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Local failures are counted by user, so that one user cannot lock out another.
pub(crate) fn source(peer: &Peer, identity: &PeerIdentity) -> Source {
    match identity.uid() {
        Some(uid) => Source::User(uid),
        None => Source::Address(network(peer.address().ip())),
    }
}
