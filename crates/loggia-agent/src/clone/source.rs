//! Restricts git to one remote.
//!
//! The host name is resolved and its addresses are checked here, and git connects to exactly these
//! addresses. A later change of the DNS answer has no effect.

use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use loggia_core::repository::{RemoteHost, RepositoryUrl, Scheme};

use super::git::Call;
use super::{CloneConfig, CloneError};

/// The time limit for resolving a name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_CREDENTIALS: u64 = 8 * 1024;

/// Resolves host names.
pub trait Lookup: Send + Sync + 'static {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A call with the options for the remote.
pub(super) async fn call_for_remote(
    config: &CloneConfig,
    url: &RepositoryUrl,
) -> Result<Call, CloneError> {
    let mut call = Call { protocol: url.scheme.name(), ..Call::default() };
    call.options.push(format!("protocol.{}.allow=always", url.scheme.name()));
    let Some(host) = &url.host else { return Ok(call) };
    let addresses = addresses(config, url, host).await?;
    let credentials = credentials(config, url, host);
    match url.scheme {
        Scheme::Https => {
            pin(&mut call, url, host, &addresses);
            if let Some(file) = &config.ca_file {
                call.options.push(format!("http.sslCAInfo={}", file.display()));
            }
            if let Some(file) = credentials {
                let header = authorization(file).await?;
                // In the environment, because other users can read a command line.
                call.set("GIT_CONFIG_COUNT", "1");
                call.set("GIT_CONFIG_KEY_0", "http.extraHeader");
                call.set("GIT_CONFIG_VALUE_0", header);
            }
        }
        Scheme::Http => pin(&mut call, url, host, &addresses),
        Scheme::Ssh => call.set("GIT_SSH_COMMAND", ssh(host, &addresses, credentials)?),
        // Only allowed for this machine, so no address is pinned.
        Scheme::Git | Scheme::File => {}
    }
    Ok(call)
}

async fn addresses(
    config: &CloneConfig,
    url: &RepositoryUrl,
    host: &RemoteHost,
) -> Result<Vec<IpAddr>, CloneError> {
    let found = match host {
        RemoteHost::Address(address) => vec![*address],
        RemoteHost::Name(name) => {
            let found = tokio::time::timeout(LOOKUP_TIMEOUT, config.lookup.lookup(name)).await;
            match found {
                Ok(Ok(found)) => found,
                Ok(Err(_)) | Err(_) => Vec::new(),
            }
        }
    };
    if found.is_empty() {
        return Err(CloneError::failed(format!("the repository's host {host} has no address")));
    }
    // All addresses must be allowed, because git chooses among them.
    for address in &found {
        let admitted = config.sources.admit_address(url, *address);
        admitted
            .map_err(|why| CloneError::failed(format!("the repository's host {host} {why}")))?;
    }
    Ok(found)
}

fn pin(call: &mut Call, url: &RepositoryUrl, host: &RemoteHost, addresses: &[IpAddr]) {
    let RemoteHost::Name(name) = host else { return };
    let written = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    let written = written.collect::<Vec<_>>().join(",");
    call.options.push(format!("http.curloptResolve={name}:{}:{written}", url.port()));
}

/// The ssh command: it requires a known host key, uses the given key and reads no configuration.
fn ssh(host: &RemoteHost, addresses: &[IpAddr], key: Option<&Path>) -> Result<String, CloneError> {
    let mut line = "ssh -F none -T -x -a -o BatchMode=yes -o StrictHostKeyChecking=yes \
                    -o CheckHostIP=no -o ProxyCommand=none -o PermitLocalCommand=no \
                    -o ClearAllForwardings=yes -o ControlMaster=no -o ControlPath=none \
                    -o IdentityAgent=none -o ConnectTimeout=30 -o IdentitiesOnly=yes"
        .to_owned();
    if let Some(address) = addresses.first() {
        let alias = host.to_string();
        let alias = alias.trim_start_matches('[').trim_end_matches(']');
        line.push_str(&format!(" -o HostName={address} -o HostKeyAlias={alias}"));
    }
    let key = match key {
        None => "none".to_owned(),
        Some(key) => {
            let text = key.to_str().filter(|text| !text.contains(['\'', '\0', '\n']));
            let text = text.ok_or_else(|| {
                CloneError::failed("the path of the key for the repository's host is not plain")
            })?;
            format!("'{text}'")
        }
    };
    line.push_str(&format!(" -i {key}"));
    Ok(line)
}

fn credentials<'a>(
    config: &'a CloneConfig,
    url: &RepositoryUrl,
    host: &RemoteHost,
) -> Option<&'a Path> {
    let names = [host.to_string(), format!("{host}:{}", url.port())];
    let found = config.credentials.iter().find(|(name, _)| names.contains(name));
    found.map(|(_, file)| file.as_path())
}

/// The header for the `user:password` in a private file.
async fn authorization(file: &Path) -> Result<String, CloneError> {
    let file: PathBuf = file.to_owned();
    let read = tokio::task::spawn_blocking(move || read_private(&file)).await;
    let text = read.unwrap_or(Err("could not be read"));
    let text = text.map_err(|why| {
        CloneError::failed(format!("the file with credentials for the repository's host {why}"))
    })?;
    Ok(format!("Authorization: Basic {}", STANDARD.encode(text.as_bytes())))
}

fn read_private(file: &Path) -> Result<String, &'static str> {
    let opened = std::fs::File::open(file).map_err(|_| "cannot be opened")?;
    let found = opened.metadata().map_err(|_| "cannot be read")?;
    if !found.is_file() || found.mode() & 0o077 != 0 {
        return Err("must be a file that only you may read (chmod 600)");
    }
    let mut text = String::new();
    let read = opened.take(LONGEST_CREDENTIALS).read_to_string(&mut text);
    read.map_err(|_| "is not text")?;
    let line = text.trim();
    match line.contains(':') && !line.contains(char::is_control) {
        true => Ok(line.to_owned()),
        false => Err("must contain one line, `user:password`"),
    }
}
