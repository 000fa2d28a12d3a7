//! Limits the connections of each other machine and of each other user of this machine, so that none of them can use up
//! all connections. Connections of our own user and of root are not counted: the limit on all connections covers them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::geteuid;

use crate::peer::network;

/// Where connections come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ConnectionSource {
    /// Another machine, or its /64.
    Network(IpAddr),
    /// Another user of this machine.
    User(u32),
    /// Loopback, and the kernel does not say whose.
    Unknown,
}

impl ConnectionSource {
    pub(super) fn machine(address: IpAddr) -> Self {
        Self::Network(network(address))
    }

    /// None for our own user and root, which are not counted.
    pub(super) fn local(uid: Option<u32>) -> Option<Self> {
        match uid {
            Some(uid) if uid == 0 || uid == geteuid().as_raw() => None,
            Some(uid) => Some(Self::User(uid)),
            None => Some(Self::Unknown),
        }
    }
}

/// Clones share their counts.
#[derive(Clone)]
pub(super) struct PerHostLimit {
    most: usize,
    /// At most one entry per connection.
    held: Arc<Mutex<HashMap<ConnectionSource, usize>>>,
}

/// Counts one connection until it is dropped.
pub(super) struct HostPermit {
    limit: PerHostLimit,
    source: ConnectionSource,
}

impl PerHostLimit {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Arc::default() }
    }

    /// None if the source has reached its limit.
    pub(super) fn acquire(&self, source: ConnectionSource) -> Option<HostPermit> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(source).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(HostPermit { limit: self.clone(), source })
    }
}

impl Drop for HostPermit {
    fn drop(&mut self) {
        let mut held = self.limit.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = held.get_mut(&self.source) else { return };
        *count -= 1;
        if *count == 0 {
            held.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_gets_no_more_than_its_share_and_leaves_no_entry() {
        let limit = PerHostLimit::new(2);
        let at = |text: &str| limit.acquire(ConnectionSource::machine(text.parse().unwrap()));
        let (one, two) = (at("192.0.2.1").unwrap(), at("192.0.2.1").unwrap());
        assert!(at("192.0.2.1").is_none());
        let other = at("192.0.2.2").unwrap();
        drop(one);
        let again = at("192.0.2.1").unwrap();
        let six = [at("fd00::1").unwrap(), at("fd00::2:3").unwrap()];
        assert!(at("fd00::4").is_none(), "one network");
        assert!(at("fd00:0:0:1::4").is_some(), "another");
        drop((two, other, again, six));
        assert!(limit.held.lock().unwrap().is_empty());
    }
}
