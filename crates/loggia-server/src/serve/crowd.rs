//! How many connections each other machine and each other user of this one holds, so that none of
//! them alone can take all. Those of our own user and of root are not counted: for them the limit on
//! all connections is enough.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::geteuid;

use crate::peer::network;

/// Where connections come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// Another machine, or its /64.
    Network(IpAddr),
    /// Another user of this machine.
    User(u32),
    /// Loopback, and the kernel does not say whose.
    Unknown,
}

impl Origin {
    pub(super) fn machine(address: IpAddr) -> Self {
        Self::Network(network(address))
    }

    /// None for those that are not counted: our own user, and root.
    pub(super) fn local(uid: Option<u32>) -> Option<Self> {
        match uid {
            Some(uid) if uid == 0 || uid == geteuid().as_raw() => None,
            Some(uid) => Some(Self::User(uid)),
            None => Some(Self::Unknown),
        }
    }
}

/// Clones count together.
#[derive(Clone)]
pub(super) struct Crowd {
    most: usize,
    /// A lock, not a task: held for a count. As many entries as there are connections, at most.
    held: Arc<Mutex<HashMap<Origin, usize>>>,
}

/// One connection that counts until it is dropped.
pub(super) struct Counted {
    crowd: Crowd,
    origin: Origin,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Arc::default() }
    }

    /// None where this one has enough already.
    pub(super) fn enter(&self, origin: Origin) -> Option<Counted> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(origin).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted { crowd: self.clone(), origin })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut held = self.crowd.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = held.get_mut(&self.origin) else { return };
        *count -= 1;
        if *count == 0 {
            held.remove(&self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gets_no_more_than_its_share_and_leaves_nothing_behind() {
        let crowd = Crowd::new(2);
        let at = |text: &str| crowd.enter(Origin::machine(text.parse().unwrap()));
        let (one, two) = (at("192.0.2.1").unwrap(), at("192.0.2.1").unwrap());
        assert!(at("192.0.2.1").is_none());
        let other = at("192.0.2.2").unwrap();
        drop(one);
        let again = at("192.0.2.1").unwrap();
        let six = [at("fd00::1").unwrap(), at("fd00::2:3").unwrap()];
        assert!(at("fd00::4").is_none(), "one network");
        assert!(at("fd00:0:0:1::4").is_some(), "another");
        drop((two, other, again, six));
        assert!(crowd.held.lock().unwrap().is_empty());
    }
}
