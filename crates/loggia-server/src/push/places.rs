//! Places for requests under way: bounded in total, and shared so that whoever fills them delays
//! nobody but itself.
//!
//! There are two circles, principals and within each the servers that it has called. A principal
//! may hold as many places as stay free beside it, and a server a quarter of what its principal could
//! still take. So whoever wants them all leaves some, and the next one of its kind leaves some of
//! these: it takes ten at once until somebody new finds none. Who has to wait does so in line with
//! its like; a place that is left goes to whoever holds the fewest.
//!
//! Knows no webhook and no request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// What one server gets of its principal's room.
const SHARE: usize = 4;

#[derive(Clone)]
pub(super) struct Places {
    shared: Arc<Shared>,
}

struct Shared {
    most: usize,
    /// A lock, not a task: held for a look at who has what.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    principals: HashMap<Arc<str>, Circle>,
}

/// A principal.
#[derive(Default)]
struct Circle {
    taken: usize,
    servers: HashMap<Arc<str>, Line>,
}

/// A server, as one principal calls it.
#[derive(Default)]
struct Line {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

/// Whose place it is.
#[derive(Clone)]
struct Holder {
    principal: Arc<str>,
    server: Arc<str>,
}

/// One request may be under way while this lives.
pub(super) struct Place {
    shared: Arc<Shared>,
    holder: Holder,
}

impl Places {
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::new(Shared { most, state: Mutex::default() }) }
    }

    /// Waits for a place. Nobody else waits for one who stops waiting.
    pub async fn take(&self, principal: &str, server: &str) -> Option<Place> {
        let holder = Holder { principal: principal.into(), server: server.into() };
        let (sender, place) = oneshot::channel();
        self.shared.change(|state| state.line(&holder).waiting.push_back(sender));
        // An error cannot be: a line is left with a place, or by who stopped waiting.
        place.await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.change(|state| state.leave(&self.holder));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and hands out what is free after it. Outside of the lock, which a place that
    /// nobody takes any more needs to be given back.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut given = Vec::new();
        {
            let mut state = self.state();
            change(&mut state);
            while let Some((next, holder)) = state.next(self.most) {
                given.push((next, Place { shared: self.clone(), holder }));
            }
        }
        for (next, place) in given {
            drop(next.send(place));
        }
    }
}

impl State {
    fn line(&mut self, holder: &Holder) -> &mut Line {
        let circle = self.principals.entry(holder.principal.clone()).or_default();
        circle.servers.entry(holder.server.clone()).or_default()
    }

    /// The next who gets a place, counted as having it.
    fn next(&mut self, most: usize) -> Option<(oneshot::Sender<Place>, Holder)> {
        let free = most.saturating_sub(self.taken);
        let mut best: Option<((usize, usize), Holder)> = None;
        for (principal, circle) in &mut self.principals {
            let room = free.saturating_sub(circle.taken);
            for (server, line) in &mut circle.servers {
                while line.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                    line.waiting.pop_front();
                }
                let has = (circle.taken, line.taken);
                let fits = !line.waiting.is_empty() && line.taken < room.div_ceil(SHARE);
                if fits && best.as_ref().is_none_or(|(least, _)| has < *least) {
                    let holder = Holder { principal: principal.clone(), server: server.clone() };
                    best = Some((has, holder));
                }
            }
        }
        let (_, holder) = best?;
        let next = self.line(&holder).waiting.pop_front()?;
        self.taken += 1;
        self.line(&holder).taken += 1;
        if let Some(circle) = self.principals.get_mut(&holder.principal) {
            circle.taken += 1;
        }
        Some((next, holder))
    }

    fn leave(&mut self, holder: &Holder) {
        self.taken = self.taken.saturating_sub(1);
        let Some(circle) = self.principals.get_mut(&holder.principal) else { return };
        circle.taken = circle.taken.saturating_sub(1);
        if let Some(line) = circle.servers.get_mut(&holder.server) {
            line.taken = line.taken.saturating_sub(1);
            if line.taken == 0 && line.waiting.is_empty() {
                circle.servers.remove(&holder.server);
            }
        }
        if circle.servers.is_empty() {
            self.principals.remove(&holder.principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Takes as many as there are for it.
    fn fill(places: &Places, principal: &str, server: &str) -> Vec<Place> {
        let next = || places.take(principal, server).now_or_never().flatten();
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn whoever_takes_all_it_can_leaves_some_for_others() {
        let places = Places::new(256);
        let mut held = Vec::new();
        for n in 0..10 {
            let more = fill(&places, "ann", &format!("server {n}"));
            assert!(!more.is_empty(), "another server of the same principal: {n}");
            held.extend(more);
        }
        assert!(held.len() <= 128, "a principal leaves half of them: {}", held.len());
        for n in 0..10 {
            let more = fill(&places, &format!("principal {n}"), "server 0");
            assert!(!more.is_empty(), "another principal at the same server: {n}");
            held.extend(more);
        }
        assert!(held.len() < 256);
        held.clear();
        assert!(places.shared.state().principals.is_empty(), "nothing is kept about nobody");
        assert_eq!(places.shared.state().taken, 0);
        assert_eq!(fill(&places, "ann", "a").len(), 43);
    }

    #[test]
    fn a_place_that_is_left_goes_to_whoever_waits_and_has_the_fewest() {
        // Two of them: one for each principal.
        let places = Places::new(2);
        let (mut ann, mut bob) = (fill(&places, "ann", "a"), fill(&places, "bob", "b"));
        assert_eq!((ann.len(), bob.len()), (1, 1));
        let mut gone = Box::pin(places.take("bob", "b"));
        let mut more = Box::pin(places.take("ann", "a"));
        let mut first = Box::pin(places.take("bob", "b"));
        let mut second = Box::pin(places.take("bob", "b"));
        for waiting in [&mut gone, &mut more, &mut first, &mut second] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(gone);
        bob.clear();
        bob.extend((&mut first).now_or_never().flatten());
        assert_eq!(bob.len(), 1, "in line, without who is gone");
        for waiting in [&mut more, &mut second] {
            assert!(waiting.now_or_never().is_none(), "there is none");
        }
        ann.clear();
        assert!((&mut second).now_or_never().is_none(), "it has one");
        assert!(more.now_or_never().flatten().is_some());
        bob.clear();
        assert!(second.now_or_never().flatten().is_some());
    }
}
