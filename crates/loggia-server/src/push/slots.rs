//! Counts webhooks and their requests: for all clients, for one principal, for one server of a principal.
//!
//! Each count is a semaphore. A request takes a slot of the narrowest count first, so a principal whose requests hang
//! waits for its own slots and leaves the rest to others.

use tokio::sync::OwnedSemaphorePermit;

use crate::keyed_semaphores::KeyedSemaphores;

/// `N` counts, from the narrowest to the widest.
pub(super) struct Slots<const N: usize>([KeyedSemaphores; N]);

/// Taken while this lives.
pub(super) struct Slot(
    #[expect(dead_code, reason = "held for its drop")] Vec<OwnedSemaphorePermit>,
);

impl<const N: usize> Slots<N> {
    pub fn new(most: [usize; N]) -> Self {
        Self(most.map(KeyedSemaphores::new))
    }

    /// Waits for a slot of each count; those who wait for the same one get it in order.
    pub async fn acquire(&self, keys: [&str; N]) -> Slot {
        let mut permits = Vec::with_capacity(N);
        for (count, key) in self.0.iter().zip(keys) {
            // No semaphore is ever closed.
            permits.extend(count.of(key).acquire_owned().await.ok());
        }
        Slot(permits)
    }

    pub fn try_acquire(&self, keys: [&str; N]) -> Option<Slot> {
        let permits = self.0.iter().zip(keys);
        let permits = permits.map(|(count, key)| count.of(key).try_acquire_owned().ok());
        permits.collect::<Option<_>>().map(Slot)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn fill(slots: &Slots<3>, principal: &str, server: &str) -> Vec<Slot> {
        let key = format!("{principal} {server}");
        std::iter::from_fn(|| slots.try_acquire([&key, principal, ""])).collect()
    }

    #[test]
    fn a_principal_that_takes_all_it_can_leaves_some_for_others() {
        let slots = Slots::new([12, 128, 256]);
        let mut held = Vec::new();
        for n in 0..10 {
            let more = fill(&slots, "ann", &format!("server {n}"));
            assert_eq!(more.len(), 12, "another server of the same principal: {n}");
            held.extend(more);
        }
        held.extend(fill(&slots, "ann", "server 10"));
        assert_eq!(held.len(), 128, "a principal leaves half of them");
        for n in 0..10 {
            let more = fill(&slots, &format!("principal {n}"), "server 0");
            assert_eq!(more.len(), 12, "another principal at the same server: {n}");
            held.extend(more);
        }
        held.clear();
        assert_eq!(fill(&slots, "ann", "a").len(), 12);
    }

    #[test]
    fn a_free_slot_goes_to_the_first_that_waits_for_it() {
        let slots = Slots::new([1, 2]);
        let acquire = |key| Box::pin(slots.acquire([key, ""]));
        let [ann, bob] = ["ann", "bob"].map(|key| acquire(key).now_or_never());
        assert!(ann.is_some() && bob.is_some());
        let (mut gone, mut first, mut second) = (acquire("bob"), acquire("bob"), acquire("bob"));
        for waiting in [&mut gone, &mut first, &mut second] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(gone);
        drop(ann);
        assert!((&mut first).now_or_never().is_none(), "it waits for its own principal's slot");
        drop(bob);
        assert!((&mut second).now_or_never().is_none(), "in order");
        assert!((&mut first).now_or_never().is_some());
    }
}
