//! Resolves names of webhooks and checks the addresses. The connection goes to one of the checked addresses, so
//! a name that resolves differently the second time gains nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::target::{self, AllowedPrivateHosts, Host, Target};

/// How long a registration waits for a name server.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Resolves a name.
pub trait Lookup: Send + Sync + 'static {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the system.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The only resolver of the HTTP client: it returns checked addresses.
#[derive(Clone)]
pub struct CheckedResolver {
    lookup: Arc<dyn Lookup>,
    private: AllowedPrivateHosts,
}

impl CheckedResolver {
    pub fn new(lookup: Arc<dyn Lookup>, private: AllowedPrivateHosts) -> Self {
        Self { lookup, private }
    }

    /// Whether a target may be registered. A name that cannot be resolved now is accepted, because it is
    /// resolved and checked again for each connection.
    pub async fn admits(&self, target: &Target) -> Result<(), &'static str> {
        let Host::Name(name) = &target.host else { return Ok(()) };
        match tokio::time::timeout(LOOKUP_TIMEOUT, self.lookup.lookup(name)).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                target::check(name, addresses, &self.private).map(drop)
            }
            Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
        }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { lookup, private } = self.clone();
        Box::pin(async move {
            let addresses = match name.as_str() {
                target::LOOPBACK_NAME => Vec::new(),
                name => lookup.lookup(name).await?,
            };
            let checked = target::check(name.as_str(), addresses, &private);
            let checked = checked.map_err(io::Error::other)?;
            // The port is the URL's.
            let sockets = checked.into_iter().map(|address| SocketAddr::new(address, 0));
            let addresses: Addrs = Box::new(sockets);
            Ok(addresses)
        })
    }
}
