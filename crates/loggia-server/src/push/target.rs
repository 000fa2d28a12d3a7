//! Which addresses a webhook may have: https to public addresses, loopback for the local user, and hosts of a
//! private network that the operator named.
//!
//! Pure. Checks addresses of URLs and addresses that names resolve to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use loggia_core::address::is_public;
use reqwest::Url;

use crate::auth::is_local_user;

/// The name that always means loopback. No name server is asked.
pub const LOOPBACK_NAME: &str = "localhost";

/// Metadata services of clouds inside the ranges of private networks.
const METADATA_4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
const METADATA_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// A URL that may be called, before its name is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub url: Url,
    pub host: Host,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Loopback,
    /// A public address, or a private one that was named.
    Address(IpAddr),
    /// Resolved for each connection.
    Name(String),
}

/// Hosts that the operator named. They may be in a private network, and may use http.
#[derive(Debug, Clone, Default)]
pub struct AllowedPrivateHosts(Arc<[String]>);

impl AllowedPrivateHosts {
    pub fn new(hosts: &[String]) -> Self {
        Self(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
    }

    /// Compares the whole name or address.
    fn names(&self, host: &str) -> bool {
        self.0.iter().any(|named| named == host)
    }
}

impl Target {
    /// `own` are the ports that this server listens on, which cannot be called. `by` is the principal:
    /// services on loopback trust local processes, so only the local user may have them called, unless the
    /// operator named `localhost`.
    pub fn read(
        text: &str,
        own: &[u16],
        private: &AllowedPrivateHosts,
        by: &str,
    ) -> Result<Self, &'static str> {
        let url = Url::parse(text).map_err(|_| "it is not a URL")?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err("it must begin with https://"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not contain a user name or a password");
        }
        if url.port() == Some(0) {
            return Err("there is no port 0");
        }
        let host = host(&url, private)?;
        let named = match &host {
            Host::Loopback => false,
            Host::Address(address) => private.names(&address.to_string()),
            Host::Name(name) => private.names(name),
        };
        match &host {
            Host::Loopback if !is_local_user(by) && !private.names(LOOPBACK_NAME) => {
                return Err("only the user of this machine may name an address on it");
            }
            Host::Loopback => {
                let port = url.port_or_known_default();
                if port.is_none_or(|port| own.contains(&port)) {
                    return Err("it is this server itself");
                }
            }
            Host::Address(_) | Host::Name(_) if !secure && !named => {
                return Err("it must begin with https://, except on localhost");
            }
            Host::Address(_) | Host::Name(_) => {}
        }
        Ok(Self { url, host })
    }
}

/// A URL for messages and logs, without the path, which may contain a secret.
pub fn origin(url: &str) -> String {
    let url = Url::parse(url);
    url.map_or_else(|_| "?".to_owned(), |url| url.origin().ascii_serialization())
}

/// The host that is connected to: the parser has turned `2130706433` and `0x7f.1` into 127.0.0.1.
fn host(url: &Url, private: &AllowedPrivateHosts) -> Result<Host, &'static str> {
    let text = url.host_str().ok_or("it has no host")?;
    let literal = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match literal {
        Ok(address) if address.is_loopback() => Ok(Host::Loopback),
        Ok(address) if is_public(address) => Ok(Host::Address(address)),
        Ok(address) if is_private(address) && private.names(&address.to_string()) => {
            Ok(Host::Address(address))
        }
        Ok(_) => Err("it is not a public address"),
        // A name may end with the dot of the root.
        Err(_) if text.trim_end_matches('.') == LOOPBACK_NAME => Ok(Host::Loopback),
        Err(_) => Ok(Host::Name(text.to_owned())),
    }
}

/// Checks the addresses of a name. One that is not allowed refuses them all, because the HTTP client chooses
/// among them.
pub fn check(
    name: &str,
    addresses: Vec<IpAddr>,
    private: &AllowedPrivateHosts,
) -> Result<Vec<IpAddr>, &'static str> {
    if name == LOOPBACK_NAME {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let named = private.names(name);
    let may_be = |address: IpAddr| is_public(address) || (named && is_private(address));
    match addresses.iter().all(|address| may_be(*address)) {
        _ if addresses.is_empty() => Err("its name has no address"),
        true => Ok(addresses),
        false => Err("its name resolves to an address that is not public"),
    }
}

/// Addresses of private networks. Not loopback, link-local addresses or metadata services, which are never
/// called, named or not.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
            address.is_private() || (shared && address != METADATA_4)
        }
        IpAddr::V6(address) => address.is_unique_local() && address != METADATA_6,
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
