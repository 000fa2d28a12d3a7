//! Host names as the guard compares them: parsed, whole, and never by prefix or suffix.
//!
//! Names are compared as text without regard to case, IPv6 addresses as addresses. Forms that only some
//! resolvers understand (`127.1`, `0x7f000001`, `localhost.`) match nothing.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A host with or without a port, as in a `Host` header or in `:authority`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    pub host: Host,
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Lower case. IPv4 addresses stay text: only their usual form can match.
    Name(String),
    V6(Ipv6Addr),
}

impl HostPort {
    /// None if the text cannot be a host.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            let host = Host::V6(address.parse().ok()?);
            let port = match port.strip_prefix(':') {
                Some(digits) => Some(parse_port(digits)?),
                None if port.is_empty() => None,
                None => return None,
            };
            return Some(Self { host, port });
        }
        let (name, port) = match text.split_once(':') {
            Some((name, digits)) => (name, Some(parse_port(digits)?)),
            None => (text, None),
        };
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let plausible = !name.is_empty() && name.len() <= 253 && name.bytes().all(letters);
        plausible.then(|| Self { host: Host::Name(name.to_ascii_lowercase()), port })
    }

    pub fn at(address: IpAddr, port: u16) -> Self {
        let host = match address {
            IpAddr::V4(address) => Host::Name(address.to_string()),
            IpAddr::V6(address) => Host::V6(address),
        };
        Self { host, port: Some(port) }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(out, "{name}")?,
            Host::V6(address) => write!(out, "[{address}]")?,
        }
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Digits only: `u16::from_str` accepts a sign.
fn parse_port(digits: &str) -> Option<u16> {
    let digits_only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits_only.then(|| digits.parse().ok())?
}
