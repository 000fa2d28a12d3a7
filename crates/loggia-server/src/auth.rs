//! Who asks: turns a connection and a request's credentials into a [`Principal`], or says why not.
//!
//! The port for every way of proving oneself. A presented credential decides alone: a wrong one is
//! 401 and never falls back to what the connection would have been worth (A08). Without one, a
//! process of the same user on this machine is itself (§2.4). A process that descends from a call
//! gets nothing, whatever it presents (A15). What a principal may do with which
//! session is decided elsewhere, by its scopes; scopes come from here and never from a request.

mod access;
mod client;
mod guesses;
mod keys;
mod limiter;
mod oauth;
mod pairing;
mod scheme;
mod scope;
mod secret;
mod tenure;
mod token;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};

use loggia_core::origin::PRINCIPAL_SEPARATOR;

pub use client::{Client, ClientError, Clients, SAMPLE};
pub use keys::{KeyError, Keys, OldTokens};
pub use limiter::{Limiter, Source};
pub use oauth::{Asked, Denied, Issued, OAuth, OAuthError, Paired, Redeemed, SampleClient};
pub use pairing::{CODE_LIFE, Code, Pairing, PairingError};
pub use scheme::{Judged, Scheme};
pub use scope::{Grant, NoScope, SCOPES, Scopes};
pub use secret::Secret;
pub use tenure::Tenure;
pub use token::{TokenFile, TokenFileError};

use crate::guard::{Rejection, from_page};
use crate::peer::{Peer, PeerIdentity, network};
use guesses::{Guess, Guesses};

/// How the names of local users begin. Those of tokens and clients begin otherwise.
const LOCAL: &str = "local:";

/// Whether this is the person at this machine, by the kernel's word and without a token: behind a
/// token, a process of this machine may speak for a client elsewhere.
pub(crate) fn is_local_user(principal: &str) -> bool {
    principal.starts_with(LOCAL)
}

/// Somebody, as the rest of the server knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// `local:1000`, `token:NAME`, `client:NAME~ID`. Nobody else ever has it.
    pub name: Arc<str>,
    pub scopes: Scopes,
    /// What passes for it without a question.
    pub grant: Grant,
    /// Came over loopback; such a client may hold more streams.
    pub local: bool,
    /// How long it stays somebody: a stream ends with it.
    pub tenure: Tenure,
}

impl Principal {
    /// Somebody who may do nothing yet.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        let (scopes, grant, tenure) = (Scopes::default(), Grant::None, Tenure::default());
        Self { name: name.into(), scopes, grant, local: false, tenure }
    }

    /// As people call it.
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
    pub fn during(mut self, tenure: Tenure) -> Self {
        self.tenure = tenure;
        self
    }
}

const TOOL_DESCENDANT: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "tool-descendant",
    "A process that an agent's call started may not speak for the person.",
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
    "The credential cannot be looked at now: try again.",
)
.retry_after(Duration::from_secs(1));

const OWN_PROCESS: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "own-process",
    "Requests of the server to itself are refused: send them from another process.",
);

/// How clients are told apart. The default trusts the kernel's word about local processes and
/// knows no tokens.
pub struct AuthOptions {
    /// Paths that anybody may GET: the card and the health check, exactly as written.
    pub public: Vec<String>,
    /// Paths to which anybody may POST, because what is posted is itself the proof: where a secret
    /// is given for a token. Not for tools.
    pub proving: Vec<String>,
    /// Paths where a local process needs a credential, whatever holds elsewhere.
    pub token_always: Vec<String>,
    /// Local processes need a credential, too.
    pub require_token: bool,
    /// Local processes of this user that are not visible, such as `sshd`, can connect with a
    /// credential while no call of this user runs.
    pub allow_hidden_peers: bool,
    /// Connections of this very process count as the person's. Only for tests: in the product, what
    /// reaches the server from inside is a tool or a webhook that was sent here.
    pub trust_own_process: bool,
    pub limiter: Limiter,
}

impl Default for AuthOptions {
    fn default() -> Self {
        let limiter = Limiter::new(5, Duration::from_secs(60));
        let [public, proving, token_always] = [const { Vec::new() }; 3];
        Self {
            public,
            proving,
            token_always,
            require_token: false,
            allow_hidden_peers: false,
            trust_own_process: false,
            limiter,
        }
    }
}

/// Asks the schemes in turn, and the connection last.
pub struct Authenticator {
    schemes: Vec<Arc<dyn Scheme>>,
    options: AuthOptions,
    guesses: Guesses,
}

impl Authenticator {
    pub fn new(options: AuthOptions) -> Self {
        Self { schemes: Vec::new(), options, guesses: Guesses::default() }
    }

    /// Adds a way of proving oneself; the first that knows a credential decides.
    pub fn with(mut self, scheme: impl Scheme + 'static) -> Self {
        self.schemes.push(Arc::new(scheme));
        self
    }

    /// Who sent this. Nothing on a public route, where nobody is asked.
    pub(crate) async fn identify(&self, parts: &Parts) -> Result<Option<Principal>, Rejection> {
        if self.is_public(parts) {
            return Ok(None);
        }
        let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_else(Peer::unknown);
        let identity = peer.identity().await;
        self.refuse_tools(identity)?;
        if self.proves_itself(parts) {
            return match identity {
                PeerIdentity::Ourselves { .. } if !self.options.trust_own_process => {
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

    fn proves_itself(&self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        parts.method == Method::POST && self.options.proving.iter().any(|proving| proving == path)
    }

    /// The credential is looked at first: a right one is somebody, however many wrong ones came from
    /// the same place. Only wrong ones count, and only they are turned away.
    async fn by_credential(
        &self,
        parts: &Parts,
        peer: &Peer,
        identity: &PeerIdentity,
    ) -> Result<Principal, Rejection> {
        let source = source(peer, identity);
        let guess = Guess::new(source.clone(), parts);
        let looked_at = self.guesses.check(&guess, Instant::now());
        let once = parts.headers.get_all(AUTHORIZATION).iter().count() == 1;
        let asked = |scheme: &&Arc<dyn Scheme>| once && (looked_at.is_ok() || !scheme.is_chosen());
        for scheme in self.schemes.iter().filter(asked) {
            match scheme.judge(parts).await {
                Judged::Somebody(principal) => {
                    if scheme.is_chosen() {
                        self.guesses.right(guess);
                    }
                    return Ok(Principal { local: peer.is_loopback(), ..principal });
                }
                Judged::Over => return Err(TOKEN_OVER),
                Judged::Unavailable => return Err(NOT_NOW),
                Judged::Nobody => {}
            }
        }
        let now = Instant::now();
        if looked_at.is_ok() {
            self.guesses.wrong(guess, now);
        }
        if let Err(wait) = looked_at.and_then(|()| self.options.limiter.check(&source, now)) {
            let message = "Too many wrong credentials: wait before the next attempt.";
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Rejection::new(status, "too-many-failures", message).retry_after(wait));
        }
        self.options.limiter.fail(source, now);
        let message = "The credential is not valid: send one of this server's tokens.";
        let rejection = Rejection::new(StatusCode::UNAUTHORIZED, "invalid-token", message);
        Err(rejection.challenge(WRONG))
    }

    /// §2.4, row 3: the kernel says who owns the other end.
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
            PeerIdentity::Ourselves { .. } if !self.options.trust_own_process => Err(OWN_PROCESS),
            PeerIdentity::Local { uid, .. } | PeerIdentity::Ourselves { uid, .. } if open => {
                let principal = Principal::new(format!("{LOCAL}{uid}")).may(Scopes::CLIENT);
                Ok(Principal { local: true, ..principal })
            }
            _ => Err(TOKEN_NEEDED),
        }
    }
}

/// The token of a request that has one, and that alone.
fn bearer(request: &Parts) -> Option<&str> {
    let value = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// On this machine failures belong to a user, so that one user can not lock out another.
pub(crate) fn source(peer: &Peer, identity: &PeerIdentity) -> Source {
    match identity.uid() {
        Some(uid) => Source::User(uid),
        None => Source::Address(network(peer.address().ip())),
    }
}
