//! Who asks: turns a connection and a request's credentials into a [`Principal`], or says why not.
//!
//! The port for every way of proving oneself. A presented credential decides alone: a wrong one is
//! 401 and never falls back to what the connection would have been worth (A08). Without one, a
//! process of the same user on this machine is itself (§2.4). A process that descends from a call
//! gets nothing, whatever it presents (A15). What a principal may do with which
//! session is decided elsewhere, by its scopes; scopes come from here and never from a request.

mod limiter;
mod scheme;
mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};

pub use limiter::{Limiter, Source};
pub use scheme::Scheme;
pub use token::{Secret, TokenFile, TokenFileError};

use crate::guard::{Rejection, from_page};
use crate::peer::{Peer, PeerIdentity};

/// Somebody, as the rest of the server knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// `local:1000`, `token:NAME`.
    pub name: String,
    pub scopes: Scopes,
    /// Came over loopback; such a client may hold more streams.
    pub local: bool,
}

/// What a principal may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes {
    pub read: bool,
    pub prompt: bool,
    pub approve: bool,
    pub admin: bool,
}

impl Scopes {
    /// The person's own clients: everything except changing how the server works.
    pub const CLIENT: Self = Self { read: true, prompt: true, approve: true, admin: false };
    /// The terminal and stdio, where the person sits.
    pub const ALL: Self = Self { read: true, prompt: true, approve: true, admin: true };
}

const TOOL_DESCENDANT: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "tool-descendant",
    "A process that an agent's call started may not speak for the person.",
);

const CHALLENGE: &str = "Bearer";
const WRONG: &str = "Bearer error=\"invalid_token\"";

/// How clients are told apart. The default trusts the kernel's word about local processes and
/// knows no tokens.
pub struct AuthOptions {
    /// Paths that anybody may GET: the card and the health check, exactly as written.
    pub public: Vec<String>,
    /// Local processes need a credential, too.
    pub require_token: bool,
    /// Connections of this very process count as the person's. Only for tests: in the product, what
    /// reaches the server from inside is a tool or a webhook that was sent here.
    pub trust_own_process: bool,
    pub limiter: Limiter,
}

impl Default for AuthOptions {
    fn default() -> Self {
        let limiter = Limiter::new(5, Duration::from_secs(60));
        Self { public: Vec::new(), require_token: false, trust_own_process: false, limiter }
    }
}

/// Asks the schemes in turn, and the connection last.
pub struct Authenticator {
    schemes: Vec<Arc<dyn Scheme>>,
    options: AuthOptions,
}

impl Authenticator {
    pub fn new(options: AuthOptions) -> Self {
        Self { schemes: Vec::new(), options }
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
        let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_else(Peer::nobody);
        let identity = peer.identity().await;
        // Not with a token either: whoever gives one to a command has not asked its questions.
        if let PeerIdentity::ToolDescendant { .. } = identity {
            return Err(TOOL_DESCENDANT);
        }
        let principal = match parts.headers.contains_key(AUTHORIZATION) {
            true => self.by_credential(parts, &peer, identity).await?,
            false => self.by_connection(parts, identity)?,
        };
        Ok(Some(principal))
    }

    fn is_public(&self, parts: &Parts) -> bool {
        let reading = [Method::GET, Method::HEAD].contains(&parts.method);
        reading && self.options.public.iter().any(|path| path == parts.uri.path())
    }

    /// The limiter comes before the credential is looked at, so nothing sent can get around it.
    async fn by_credential(
        &self,
        parts: &Parts,
        peer: &Peer,
        identity: &PeerIdentity,
    ) -> Result<Principal, Rejection> {
        let source = source(peer, identity);
        if let Err(wait) = self.options.limiter.check(&source, Instant::now()) {
            let message = "Too many wrong credentials: wait before the next attempt.";
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Rejection::new(status, "too-many-failures", message).retry_after(wait));
        }
        let once = parts.headers.get_all(AUTHORIZATION).iter().count() == 1;
        for scheme in self.schemes.iter().filter(|_| once) {
            if let Some(principal) = scheme.judge(parts).await {
                return Ok(Principal { local: peer.is_loopback(), ..principal });
            }
        }
        self.options.limiter.fail(source, Instant::now());
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
        let forbidden =
            |reason, message| Err(Rejection::new(StatusCode::FORBIDDEN, reason, message));
        match identity {
            PeerIdentity::ToolDescendant { .. } => Err(TOOL_DESCENDANT),
            PeerIdentity::OtherUser { .. } => forbidden(
                "other-user",
                "This server belongs to another user of this machine: ask them for a token.",
            ),
            PeerIdentity::Ourselves { .. } if !self.options.trust_own_process => forbidden(
                "own-process",
                "Requests of the server to itself are refused: send them from another process.",
            ),
            PeerIdentity::Local { uid, .. } | PeerIdentity::Ourselves { uid, .. }
                if !self.options.require_token && !from_page(&parts.headers) =>
            {
                Ok(Principal { name: format!("local:{uid}"), scopes: Scopes::CLIENT, local: true })
            }
            PeerIdentity::Local { .. } | PeerIdentity::Ourselves { .. } | PeerIdentity::Unknown => {
                let message = "A token is needed here: send it as Authorization: Bearer.";
                let rejection = Rejection::new(StatusCode::UNAUTHORIZED, "token-needed", message);
                Err(rejection.challenge(CHALLENGE))
            }
        }
    }
}

/// On this machine failures belong to a user, so that one user can not lock out another.
fn source(peer: &Peer, identity: &PeerIdentity) -> Source {
    match (identity.uid(), peer.address().ip()) {
        (Some(uid), _) => Source::User(uid),
        (None, IpAddr::V4(address)) => Source::Address(IpAddr::V4(address)),
        // A household has a whole /64 to choose from.
        (None, IpAddr::V6(address)) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Source::Address(IpAddr::V6(network.into()))
        }
    }
}
