//! The connected clients. Not in the log: a crash disconnects them all.

use std::sync::Arc;

use loggia_core::Origin;
use tokio::sync::watch;

/// One entry per connection, in the order in which they connected.
#[derive(Clone)]
pub struct Presence {
    open: Arc<watch::Sender<Vec<Origin>>>,
}

impl Default for Presence {
    fn default() -> Self {
        Self { open: Arc::new(watch::Sender::new(Vec::new())) }
    }
}

impl Presence {
    /// The connection counts until the result is dropped.
    pub fn join(&self, origin: &Origin) -> Present {
        self.open.send_modify(|open| open.push(origin.clone()));
        Present { origin: origin.clone(), open: self.open.clone() }
    }

    /// The connected clients, now and whenever they change.
    pub fn watch(&self) -> watch::Receiver<Vec<Origin>> {
        self.open.subscribe()
    }
}

pub struct Present {
    origin: Origin,
    open: Arc<watch::Sender<Vec<Origin>>>,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.open.send_modify(|open| {
            if let Some(place) = open.iter().position(|origin| *origin == self.origin) {
                open.remove(place);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use loggia_core::Surface;

    use super::*;

    #[test]
    fn each_connection_counts_until_it_ends() {
        let presence = Presence::default();
        let seen = presence.watch();
        let names = || seen.borrow().iter().map(ToString::to_string).collect::<Vec<_>>();
        let ann = Origin::new(Surface::A2a, "ann");
        let (first, second) = (presence.join(&ann), presence.join(&ann));
        let other = presence.join(&Origin::new(Surface::Tui, "bob"));
        assert_eq!(names(), ["A2A:ann", "A2A:ann", "TUI:bob"]);
        drop(first);
        assert_eq!(names(), ["A2A:ann", "TUI:bob"]);
        drop((second, other));
        assert_eq!(names(), [""; 0]);
    }
}
