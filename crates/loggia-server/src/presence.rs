//! Who is connected now. Not in the log: a crash takes the clients with it.

use std::sync::Arc;

use loggia_core::Origin;
use tokio::sync::watch;

/// One entry a connection, in the order in which they came.
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
    /// Counted from now until the place is dropped.
    pub fn join(&self, origin: &Origin) -> Present {
        self.open.send_modify(|open| open.push(origin.clone()));
        Present { origin: origin.clone(), open: self.open.clone() }
    }

    /// Who is there, now and whenever that changes.
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
    fn each_connection_is_there_until_it_leaves() {
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
