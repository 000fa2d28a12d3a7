//! Repositories to clone: their addresses, parsed strictly, and the rules about which are allowed.
//!
//! An address that is accepted here has only one meaning for git: a known scheme, a plain host, a user
//! for ssh only, no options, no transport helpers. Host names are resolved when the connection is
//! made, and the result is checked with [`AllowedSources`] then.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::address::is_public;
use crate::approval::hex;
use crate::id::SessionId;

const URL_LIMIT: usize = 2048;
const REVISION_LIMIT: usize = 256;
/// Prefix of the clone directory of a session whose id a client chose.
const NAMED: &str = "named-";

/// A repository that a session works in a clone of. It is validated when the session is opened, and
/// again before it is cloned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Never contains credentials.
    pub url: String,
    /// A branch, a tag or a commit; None for the HEAD of the remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Only the newest commit.
    #[serde(default)]
    pub shallow: bool,
    /// The directory below the root to work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

impl Repository {
    /// The parsed URL, if it is valid.
    pub fn address(&self) -> Result<RepositoryUrl, &'static str> {
        RepositoryUrl::parse(&self.url)
    }

    /// The parsed revision, if it is valid.
    pub fn named_revision(&self) -> Result<Option<Revision<'_>>, &'static str> {
        self.revision.as_deref().map(Revision::parse).transpose()
    }
}

/// The revision to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision<'a> {
    /// A whole commit id.
    Commit(&'a str),
    /// A branch or a tag.
    Name(&'a str),
}

impl<'a> Revision<'a> {
    /// Follows `git check-ref-format`, and rejects names that look like an option.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > REVISION_LIMIT {
            return Err("must have 1 to 256 bytes");
        }
        if text.starts_with('-') {
            return Err("must not begin with a dash");
        }
        let unfit = |letter: char| !letter.is_ascii_graphic() || "~^:?*[\\".contains(letter);
        let parts_fit = text
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"));
        if text.contains(unfit)
            || text.contains("..")
            || text.contains("@{")
            || text.ends_with('.')
            || text == "@"
            || !parts_fit
        {
            return Err("must be the name of a branch or a tag, or a whole commit id");
        }
        match matches!(text.len(), 40 | 64) && text.bytes().all(is_hex) {
            true => Ok(Revision::Commit(text)),
            false => Ok(Revision::Name(text)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    Https,
    Ssh,
    File,
    /// Unencrypted, so for this machine only.
    Http,
    /// Unencrypted, so for this machine only.
    Git,
}

impl Scheme {
    pub const ALL: [Scheme; 5] =
        [Scheme::Https, Scheme::Ssh, Scheme::File, Scheme::Http, Scheme::Git];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Https => "https",
            Scheme::Ssh => "ssh",
            Scheme::File => "file",
            Scheme::Http => "http",
            Scheme::Git => "git",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text)
    }

    fn default_port(self) -> u16 {
        match self {
            Scheme::Https => 443,
            Scheme::Ssh => 22,
            Scheme::Http => 80,
            Scheme::Git => 9418,
            Scheme::File => 0,
        }
    }
}

/// A validated repository URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryUrl {
    pub scheme: Scheme,
    /// For ssh only.
    pub user: Option<String>,
    /// None for a file.
    pub host: Option<RemoteHost>,
    port: Option<u16>,
    /// Begins with a slash.
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteHost {
    Address(IpAddr),
    /// In lower case.
    Name(String),
}

impl RemoteHost {
    /// Whether it is this machine without a name lookup.
    pub fn is_loopback(&self) -> bool {
        match self {
            RemoteHost::Address(address) => address.is_loopback(),
            RemoteHost::Name(name) => name == "localhost",
        }
    }
}

impl fmt::Display for RemoteHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteHost::Address(IpAddr::V4(address)) => write!(out, "{address}"),
            RemoteHost::Address(IpAddr::V6(address)) => write!(out, "[{address}]"),
            RemoteHost::Name(name) => out.write_str(name),
        }
    }
}

impl RepositoryUrl {
    /// The error is the rest of a sentence that begins with the name of the field.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > URL_LIMIT {
            return Err("must have 1 to 2048 bytes");
        }
        if text.starts_with('-') {
            return Err("must not begin with a dash");
        }
        if text.contains(|letter: char| !letter.is_ascii_graphic()) {
            return Err("must not contain spaces, control characters or characters beyond ASCII");
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("must be a URL such as https://host/path");
        };
        let Some(scheme) = Scheme::parse(scheme) else {
            return Err("must begin with https://, or with another scheme that is allowed here");
        };
        if rest.contains(['?', '#', '\\', '"', '\'', '<', '>', '`', '{', '}', '|', '^']) {
            return Err("must not contain a query, a fragment, quotes or backslashes");
        }
        if rest.split('/').any(|part| part == "." || part == "..") {
            return Err("must not contain `.` or `..` in its path");
        }
        if scheme == Scheme::File {
            return match rest.len() > 1 && rest.starts_with('/') && !rest.contains('%') {
                true => {
                    let path = rest.to_owned();
                    Ok(Self { scheme, user: None, host: None, port: None, path })
                }
                false => Err("must be a full path after file://"),
            };
        }
        let (authority, path) = rest.split_once('/').ok_or("must name a repository on its host")?;
        if path.is_empty() {
            return Err("must name a repository on its host");
        }
        let (user, host_and_port) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, host_and_port)) if scheme == Scheme::Ssh && is_user(user) => {
                (Some(user.to_owned()), host_and_port)
            }
            Some(_) => return Err("must not contain a user name or a password"),
        };
        let (host, port) = parse_host_and_port(host_and_port)?;
        Ok(Self { scheme, user, host: Some(host), port, path: format!("/{path}") })
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://", self.scheme.name())?;
        if let Some(user) = &self.user {
            write!(out, "{user}@")?;
        }
        if let Some(host) = &self.host {
            write!(out, "{host}")?;
        }
        if let Some(port) = self.port {
            write!(out, ":{port}")?;
        }
        out.write_str(&self.path)
    }
}

fn is_user(user: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    !user.is_empty() && !user.starts_with(['-', '.']) && user.chars().all(plain)
}

/// Parses a host and a port. The host is an IP address in its usual form, or a name that cannot be
/// mistaken for one: `2130706433` and `0x7f.1` are neither.
fn parse_host_and_port(host_and_port: &str) -> Result<(RemoteHost, Option<u16>), &'static str> {
    const NO_HOST: &str = "must name a host, as letters and digits or as an address";
    let (host, port) = match host_and_port.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(NO_HOST)?;
            let address: Ipv6Addr = address.parse().map_err(|_| NO_HOST)?;
            let port = match port.strip_prefix(':') {
                None if port.is_empty() => None,
                None => return Err(NO_HOST),
                given => given,
            };
            (RemoteHost::Address(address.into()), port)
        }
        None => {
            let (host, port) = match host_and_port.split_once(':') {
                None => (host_and_port, None),
                Some((host, port)) => (host, Some(port)),
            };
            (parse_host(host).ok_or(NO_HOST)?, port)
        }
    };
    let port = port.map(|port| {
        let digits = !port.is_empty() && port.chars().all(|letter| letter.is_ascii_digit());
        let number = digits.then(|| port.parse().ok()).flatten().filter(|port| *port != 0);
        number.ok_or("must have a port from 1 to 65535")
    });
    Ok((host, port.transpose()?))
}

fn parse_host(host: &str) -> Option<RemoteHost> {
    let last = host.rsplit('.').next()?;
    if last.starts_with(|first: char| first.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().ok().map(|address| RemoteHost::Address(address.into()));
    }
    let label = |label: &str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(plain)
    };
    let fits = host.len() <= 253 && host.split('.').all(label);
    fits.then(|| RemoteHost::Name(host.to_ascii_lowercase()))
}

/// Which repositories may be cloned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSources {
    pub schemes: Vec<Scheme>,
    /// The allowed hosts, each `host` or `host:port`; empty for all.
    pub hosts: Vec<String>,
    /// Hosts that may resolve to private addresses.
    pub private_hosts: Vec<String>,
}

impl Default for AllowedSources {
    fn default() -> Self {
        Self { schemes: vec![Scheme::Https], hosts: Vec::new(), private_hosts: Vec::new() }
    }
}

impl AllowedSources {
    /// Whether a URL is allowed, as far as is known without a name lookup.
    pub fn admit(&self, url: &RepositoryUrl) -> Result<(), &'static str> {
        if !self.schemes.contains(&url.scheme) {
            return Err("has a scheme that is not allowed here");
        }
        let Some(host) = &url.host else { return Ok(()) };
        if matches!(url.scheme, Scheme::Http | Scheme::Git) && !host.is_loopback() {
            return Err("must begin with https:// for any host but this machine");
        }
        if !self.hosts.is_empty() && !is_listed(&self.hosts, host, url.port()) {
            return Err("names a host that is not on the list of allowed hosts");
        }
        match host {
            RemoteHost::Address(address) => self.admit_address(url, *address),
            // Regardless of the name server.
            RemoteHost::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                self.admit_address(url, Ipv4Addr::LOCALHOST.into())
            }
            RemoteHost::Name(_) => Ok(()),
        }
    }

    /// Whether a connection to this address is allowed.
    pub fn admit_address(&self, url: &RepositoryUrl, address: IpAddr) -> Result<(), &'static str> {
        let Some(host) = &url.host else { return Ok(()) };
        let plain = matches!(url.scheme, Scheme::Http | Scheme::Git);
        let private = is_listed(&self.private_hosts, host, url.port());
        match address {
            address if plain && address.is_loopback() => Ok(()),
            _ if plain => Err("resolves to an address that is not on this machine"),
            _ if private => Ok(()),
            address if is_public(address) => Ok(()),
            _ => Err("resolves to an address that is not public"),
        }
    }
}

fn is_listed(list: &[String], host: &RemoteHost, port: u16) -> bool {
    let host = host.to_string();
    list.iter().any(|listed| {
        let listed = listed.to_ascii_lowercase();
        listed == host || listed == format!("{host}:{port}")
    })
}

/// The name of the clone directory of a session. Clients may choose session ids with arbitrary
/// characters, so only an id in the form of a UUID is used unchanged. Any other id is hashed, which
/// gives a name of another form.
pub fn clone_name(session: &SessionId) -> String {
    let id = session.as_str();
    match is_own_id(id) {
        true => id.to_owned(),
        false => format!("{NAMED}{}", hex(&Sha256::digest(id.as_bytes()))),
    }
}

/// Whether [`clone_name`] can return this name.
pub fn is_clone_name(name: &str) -> bool {
    let digest = name.strip_prefix(NAMED);
    is_own_id(name) || digest.is_some_and(|digest| digest.len() == 64 && digest.bytes().all(is_hex))
}

/// Whether an id has the form of a generated one: a UUID in lower case with hyphens.
fn is_own_id(id: &str) -> bool {
    let mut buffer = Uuid::encode_buffer();
    Uuid::try_parse(id).is_ok_and(|uuid| uuid.hyphenated().encode_lower(&mut buffer) == id)
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
#[path = "repository_tests.rs"]
mod tests;
