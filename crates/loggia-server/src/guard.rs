//! The first check of every request, also for routes that do not exist: its host, its origin, its content type and its
//! size.
//!
//! Protects against DNS rebinding, cross-site requests, webhooks of other Loggias and oversized bodies (A02, A03, A04,
//! A39). Knows no client (see `auth`), session, protocol or route.

mod body;
mod bytes;
mod cors;
mod host;
mod rejection;
mod streams;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::body::Body;
use axum::http::header::{HOST, ORIGIN, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use http_body_util::Limited;

pub use body::read_body;
pub(crate) use body::{BodyShare, drain, is_grpc, read_growing_body};
pub use bytes::{ByteLimits, BytePermit, ByteShares, Load, SMALL};
pub(crate) use cors::CorsHeaders;
pub use cors::read_origin;
pub use host::{Host, HostPort};
pub use rejection::Rejection;
pub use streams::{StreamLimits, StreamPermit, Streams};

use crate::peer::Peer;

const NO_HOST: Rejection = Rejection::new(
    StatusCode::BAD_REQUEST,
    "host",
    "A request names exactly one valid host: send one Host header.",
);

const OTHER_HOST: Rejection = Rejection::new(
    StatusCode::MISDIRECTED_REQUEST,
    "host",
    "This server does not answer for that host: use localhost, or allow the name when starting it.",
);

const FOREIGN_ORIGIN: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "origin",
    "Web pages of other origins are refused: allow the origin when starting the server.",
);

const CROSS_SITE: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "cross-site",
    "Requests that a page of another site caused are refused.",
);

const NOTIFICATION: Rejection = Rejection::new(
    StatusCode::FORBIDDEN,
    "notification",
    "This is a push notification of a Loggia: a webhook must not be a Loggia.",
);

/// The user agent of requests to webhooks, without the version.
pub(crate) const NOTIFIER: &str = "loggia/";
/// The header of a notification.
pub(crate) static NOTIFICATION_ID: HeaderName = HeaderName::from_static("webhook-id");

/// The header by which a browser says where a request came from.
static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names, origins and limits that the operator sets.
#[derive(Debug, Clone)]
pub struct GuardOptions {
    /// Further names of this server: `name:port` exactly, or `name` for no port or ours.
    pub allowed_hosts: Vec<HostPort>,
    /// Origins as browsers write them: `https://console.example`.
    pub allowed_origins: Vec<String>,
    /// Paths that accept forms; their routes check the content type.
    pub forms: Vec<String>,
    pub body_limit: usize,
    /// Whether clients use https.
    pub encrypted: bool,
}

impl Default for GuardOptions {
    fn default() -> Self {
        let (allowed_hosts, allowed_origins, forms) = (Vec::new(), Vec::new(), Vec::new());
        let (body_limit, encrypted) = (10 << 20, false);
        Self { allowed_hosts, allowed_origins, forms, body_limit, encrypted }
    }
}

/// The check, for the addresses that the server listens on.
pub struct Guard {
    hosts: Vec<HostPort>,
    own_origins: Vec<String>,
    allowed_origins: Vec<String>,
    forms: Vec<String>,
    body_limit: usize,
    scheme: WebScheme,
}

/// How a browser writes this server's own origins.
#[derive(Debug, Clone, Copy)]
struct WebScheme {
    name: &'static str,
    /// The default port, which clients leave out.
    port: u16,
}

const HTTP: WebScheme = WebScheme { name: "http", port: 80 };
const HTTPS: WebScheme = WebScheme { name: "https", port: 443 };

impl WebScheme {
    fn origin_of(self, host: &HostPort) -> String {
        let port = host.port.filter(|port| *port != self.port);
        format!("{}://{}", self.name, HostPort { port, ..host.clone() })
    }
}

impl Guard {
    pub fn new(listening: &[SocketAddr], options: GuardOptions) -> Self {
        let mut own = Vec::new();
        for address in listening {
            let port = address.port();
            let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            own.push(HostPort { host: Host::Name("localhost".to_owned()), port: Some(port) });
            own.push(HostPort::at(address.ip(), port));
            own.extend(loopback.map(|address| HostPort::at(address, port)));
        }
        let scheme = if options.encrypted { HTTPS } else { HTTP };
        let own_origins = own.iter().map(|own| scheme.origin_of(own)).collect();
        let ports: Vec<u16> = listening.iter().map(SocketAddr::port).collect();
        let mut hosts = own;
        for allowed in options.allowed_hosts {
            let with_our_port = |port: &u16| HostPort { port: Some(*port), ..allowed.clone() };
            if allowed.port.is_none() {
                hosts.extend(ports.iter().map(with_our_port));
            }
            hosts.push(allowed);
        }
        let allowed_origins =
            options.allowed_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        let GuardOptions { forms, body_limit, .. } = options;
        Self { hosts, own_origins, allowed_origins, forms, body_limit, scheme }
    }

    pub(crate) fn check(&self, parts: &Parts, body: &Body) -> Result<(), Rejection> {
        self.check_host(parts)?;
        self.check_origin(&parts.headers)?;
        if is_notification(parts) {
            return Err(NOTIFICATION);
        }
        body::check(parts, body, self.body_limit as u64)?;
        match self.forms.iter().any(|path| path == parts.uri.path()) {
            true => Ok(()),
            false => body::check_type(parts, body),
        }
    }

    /// The same body; one of unknown size fails at the limit.
    pub(crate) fn limit(&self, body: Body) -> Body {
        match body::is_counted(&body) {
            true => body,
            false => Body::new(Limited::new(body, self.body_limit)),
        }
    }

    /// The header and the target's own authority (absolute form, HTTP/2) must both be ours.
    fn check_host(&self, parts: &Parts) -> Result<(), Rejection> {
        let mut headers = parts.headers.get_all(HOST).iter();
        let header = match (headers.next(), headers.next()) {
            (Some(_), Some(_)) => return Err(NO_HOST),
            (Some(value), None) => Some(value.to_str().map_err(|_| NO_HOST)?),
            (None, _) => None,
        };
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        if header.is_none() && authority.is_none() {
            return Err(NO_HOST);
        }
        for text in header.into_iter().chain(authority) {
            let host = HostPort::parse(text).ok_or(NO_HOST)?;
            if !self.is_ours(&host) && !self.is_reached(&host, parts) {
                return Err(OTHER_HOST);
            }
        }
        Ok(())
    }

    /// Clients leave out the scheme's default port.
    fn is_ours(&self, host: &HostPort) -> bool {
        let usual = Some(self.scheme.port);
        let on_it = |ours: &HostPort| ours.port == usual && ours.host == host.host;
        self.hosts.contains(host) || (host.port.is_none() && self.hosts.iter().any(on_it))
    }

    /// The address that the client connected to, for servers that listen on all addresses of the machine.
    /// A foreign DNS name that resolves to this machine is not accepted.
    fn is_reached(&self, host: &HostPort, parts: &Parts) -> bool {
        let Some(at) = parts.extensions.get::<Peer>().map(Peer::server) else { return false };
        let port = host.port.unwrap_or(self.scheme.port);
        HostPort { port: Some(port), ..host.clone() } == HostPort::at(at.ip(), at.port())
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => {}
            (Some(_), Some(_)) => return Err(FOREIGN_ORIGIN),
            (Some(origin), None) => {
                let origin = origin.to_str().map_err(|_| FOREIGN_ORIGIN)?.to_ascii_lowercase();
                // The operator allowed it, so it may be cross-site.
                if self.allowed_origins.contains(&origin) {
                    return Ok(());
                }
                if !self.own_origins.contains(&origin) {
                    return Err(FOREIGN_ORIGIN);
                }
            }
        }
        let site = |value: &[u8]| value == b"none" || value == b"same-origin";
        match headers.get_all(&FETCH_SITE).iter().all(|value| site(value.as_bytes())) {
            true => Ok(()),
            false => Err(CROSS_SITE),
        }
    }
}

/// Whether another Loggia sent this because one of its clients named this server as a webhook. That Loggia
/// may run as our user, so its request would count as the user's although its client chose the content.
fn is_notification(request: &Parts) -> bool {
    let agent = request.headers.get(USER_AGENT).map(|agent| agent.as_bytes());
    !request.method.is_safe()
        && request.headers.contains_key(&NOTIFICATION_ID)
        && agent.is_some_and(|agent| agent.starts_with(NOTIFIER.as_bytes()))
}

/// Whether a web page sent this, according to the browser. Such a request needs a token, even from our own
/// page.
pub(crate) fn from_page(headers: &HeaderMap) -> bool {
    let site = headers.get(&FETCH_SITE);
    headers.contains_key(ORIGIN) || site.is_some_and(|site| site != "none")
}
