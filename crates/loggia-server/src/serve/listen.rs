//! Binds the listening sockets: loopback on both address families; other addresses only with TLS and tokens.
//!
//! An address that other machines can reach is refused before it is bound (A05), unless connections are encrypted and every
//! client must authenticate. Knows sockets and the processes that hold ports, not protocols.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::str::FromStr;

use tokio::net::TcpListener;

use super::tls::Tls;
use crate::peer::{PortOwner, owner_of_port};

/// How often another port is tried, if one is free on one address family only.
const ATTEMPTS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddress {
    /// 127.0.0.1 and, if the machine has IPv6, ::1 on the same port.
    Localhost,
    Ip(IpAddr),
}

impl ListenAddress {
    /// Whether only this machine can reach it.
    pub fn is_loopback(self) -> bool {
        match self {
            Self::Localhost => true,
            Self::Ip(address) => address.to_canonical().is_loopback(),
        }
    }
}

/// What to listen on, and how.
#[derive(Debug, Clone)]
pub struct Listen {
    pub address: ListenAddress,
    /// 0 picks a free one.
    pub port: u16,
    /// Every client must present a token.
    pub authenticated: bool,
    /// None: plaintext.
    pub tls: Option<Tls>,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("`{0}` is not an address to listen on: use localhost, or an address of this machine")]
    NoAddress(String),
    #[error(
        "other machines can reach {address}, so listening there needs {missing}; or listen on \
         localhost, and connect from elsewhere through `ssh -L` (--allow-hidden-peers)"
    )]
    NotLoopback { address: IpAddr, missing: &'static str },
    #[error("port {port} is in use{}: choose another, or 0 for any", by(.owner))]
    InUse { port: u16, owner: Option<PortOwner> },
    #[error("port {port} is privileged: choose one from 1024 up, or 0 for any")]
    Privileged { port: u16 },
    #[error("no port is free on both 127.0.0.1 and ::1: name one")]
    NoFreePort,
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
}

fn by(owner: &Option<PortOwner>) -> String {
    let by = |owner: &PortOwner| format!(" by process {} ({})", owner.pid, owner.program);
    owner.as_ref().map(by).unwrap_or_default()
}

/// Listening sockets, before connections are accepted.
#[derive(Debug)]
pub struct Bound {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
}

impl Bound {
    /// The requested port, or the one that was picked.
    pub fn port(&self) -> u16 {
        self.addresses.first().map(SocketAddr::port).unwrap_or_default()
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The certificate, if connections are encrypted.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    pub(super) fn into_parts(self) -> (Vec<TcpListener>, Option<Tls>) {
        (self.listeners, self.tls)
    }
}

impl FromStr for ListenAddress {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        if text.eq_ignore_ascii_case("localhost") {
            return Ok(Self::Localhost);
        }
        let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let address = address.unwrap_or(text).parse::<IpAddr>();
        address.map(Self::Ip).map_err(|_| ServeError::NoAddress(text.escape_debug().collect()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Localhost => write!(out, "localhost"),
            Self::Ip(address) => write!(out, "{address}"),
        }
    }
}

/// Binds the sockets. Must be called inside of a runtime.
pub fn bind(listen: Listen) -> Result<Bound, ServeError> {
    let Listen { address, port, authenticated, tls } = listen;
    let bound = bind_to(address, port, missing(authenticated, tls.is_some()))?;
    Ok(Bound { tls, ..bound })
}

/// What is missing to listen on an address that other machines can reach.
fn missing(authenticated: bool, encrypted: bool) -> Option<&'static str> {
    match (encrypted, authenticated) {
        (true, true) => None,
        (true, false) => Some("authentication (--require-token)"),
        (false, true) => Some("TLS (--tls-cert and --tls-key)"),
        (false, false) => {
            Some("TLS (--tls-cert and --tls-key) and authentication (--require-token)")
        }
    }
}

fn bind_to(
    address: ListenAddress,
    port: u16,
    missing: Option<&'static str>,
) -> Result<Bound, ServeError> {
    match address {
        ListenAddress::Localhost if port == 0 => {
            let pick = || bind_localhost(0).map_err(|(_, error)| error);
            for _ in 0..ATTEMPTS {
                match pick() {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                    Err(error) => return Err(explain((Ipv4Addr::LOCALHOST, 0).into(), error)),
                    Ok(bound) => return Ok(bound),
                }
            }
            Err(ServeError::NoFreePort)
        }
        ListenAddress::Localhost => {
            bind_localhost(port).map_err(|(address, error)| explain(address, error))
        }
        ListenAddress::Ip(address) => {
            let address = address.to_canonical();
            if let (Some(missing), false) = (missing, address.is_loopback()) {
                return Err(ServeError::NotLoopback { address, missing });
            }
            let address = SocketAddr::new(address, port);
            let listener = listen_on(address).map_err(|error| explain(address, error))?;
            bound(vec![listener]).map_err(|error| explain(address, error))
        }
    }
}

/// Both address families, or only IPv4 if the machine has no IPv6.
fn bind_localhost(port: u16) -> Result<Bound, (SocketAddr, io::Error)> {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let first = listen_on(v4).map_err(|error| (v4, error))?;
    let picked = first.local_addr().map_err(|error| (v4, error))?.port();
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, picked));
    let listeners = match listen_on(v6) {
        Ok(second) => vec![first, second],
        Err(error) if is_missing(&error) => vec![first],
        Err(error) => return Err((v6, error)),
    };
    bound(listeners).map_err(|error| (v4, error))
}

fn is_missing(error: &io::Error) -> bool {
    let unsupported = nix::errno::Errno::EAFNOSUPPORT as i32;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(unsupported)
}

/// A listener with a longer queue than the standard library's.
fn listen_on(address: SocketAddr) -> io::Result<StdListener> {
    let listener = StdListener::bind(address)?;
    rustix::net::listen(&listener, 1_024)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn bound(listeners: Vec<StdListener>) -> io::Result<Bound> {
    let listeners: Vec<TcpListener> =
        listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<_>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
    Ok(Bound { listeners, addresses, tls: None })
}

fn explain(address: SocketAddr, error: io::Error) -> ServeError {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse { port, owner: owner_of_port(port) },
        io::ErrorKind::PermissionDenied if port < 1024 => ServeError::Privileged { port },
        _ => ServeError::Listen { address, error },
    }
}
