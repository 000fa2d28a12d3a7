//! Where a webhook may be: https anywhere in public, or this very machine's loopback.
//!
//! Pure. An address is looked at here whoever it comes from: written in a URL, or answered by a name
//! server a moment before the connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use loggia_core::address::is_public;
use reqwest::Url;

/// The name that means loopback, whatever a name server says.
pub const LOOPBACK_NAME: &str = "localhost";

/// A URL that may be called, as far as can be told without looking up its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub url: Url,
    pub host: Host,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Loopback,
    /// A public address.
    Address(IpAddr),
    /// Has to be looked up for every connection.
    Name(String),
}

impl Target {
    /// `own` are the ports that this server listens on: it does not call itself.
    pub fn read(text: &str, own: &[u16]) -> Result<Self, &'static str> {
        let url = Url::parse(text).map_err(|_| "it is no URL")?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err("it must begin with https://"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not hold a user name or a password");
        }
        let host = host(&url)?;
        match &host {
            Host::Loopback => {
                let port = url.port_or_known_default();
                if port.is_none_or(|port| port == 0 || own.contains(&port)) {
                    return Err("it is this server itself");
                }
            }
            Host::Address(_) | Host::Name(_) if !secure => {
                return Err("it must begin with https://, except on localhost");
            }
            Host::Address(_) | Host::Name(_) => {}
        }
        Ok(Self { url, host })
    }

    /// For people and logs: without the path, which may hold a secret.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// The URL's host as it is going to be connected to: `2130706433` and `0x7f.1` are 127.0.0.1 here.
fn host(url: &Url) -> Result<Host, &'static str> {
    let text = url.host_str().ok_or("it has no host")?;
    let literal = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match literal {
        Ok(address) if address.is_loopback() => Ok(Host::Loopback),
        Ok(address) if is_public(address) => Ok(Host::Address(address)),
        Ok(_) => Err("it is no public address"),
        Err(_) if text == LOOPBACK_NAME => Ok(Host::Loopback),
        Err(_) => Ok(Host::Name(text.to_owned())),
    }
}

/// What a name may stand for. One address that is not public spoils them all: which of them is
/// connected to is not ours to say.
pub fn check(name: &str, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, &'static str> {
    if name == LOOPBACK_NAME {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    match addresses.iter().all(|address| is_public(*address)) {
        _ if addresses.is_empty() => Err("its name has no address"),
        true => Ok(addresses),
        false => Err("its name stands for an address that is not public"),
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
