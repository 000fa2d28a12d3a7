//! How many connections each place on the network holds, so that no other machine alone can take all
//! of them. Loopback is not counted: there the limit on all connections is enough.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::peer::network;

/// Clones count together.
#[derive(Clone)]
pub(super) struct Crowd {
    most: usize,
    /// A lock, not a task: held for a count. As many entries as there are connections, at most.
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection that counts until it is dropped.
pub(super) struct Counted {
    crowd: Crowd,
    place: IpAddr,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Arc::default() }
    }

    /// None where this place has enough already.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Counted> {
        let place = network(address);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(place).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted { crowd: self.clone(), place })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut held = self.crowd.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = held.get_mut(&self.place) else { return };
        *count -= 1;
        if *count == 0 {
            held.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gets_no_more_than_its_share_and_leaves_nothing_behind() {
        let crowd = Crowd::new(2);
        let at = |text: &str| crowd.enter(text.parse().unwrap());
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
