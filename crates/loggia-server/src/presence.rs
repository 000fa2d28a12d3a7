//! Who is connected now. Not in the log: a crash takes the clients with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use loggia_core::Origin;
use tokio::sync::watch;

/// Names and how many connections go by each.
#[derive(Clone)]
pub struct Presence {
    open: Arc<watch::Sender<BTreeMap<String, usize>>>,
}

impl Default for Presence {
    fn default() -> Self {
        Self { open: Arc::new(watch::Sender::new(BTreeMap::new())) }
    }
}

impl Presence {
    /// Counted from now until the place is dropped.
    pub fn join(&self, origin: &Origin) -> Present {
        let name = origin.to_string();
        self.open.send_modify(|open| *open.entry(name.clone()).or_default() += 1);
        Present { name, open: self.open.clone() }
    }

    /// The names, now and whenever they change.
    pub fn watch(&self) -> watch::Receiver<BTreeMap<String, usize>> {
        self.open.subscribe()
    }
}

pub struct Present {
    name: String,
    open: Arc<watch::Sender<BTreeMap<String, usize>>>,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.open.send_modify(|open| {
            if let Some(count) = open.get_mut(&self.name) {
                *count -= 1;
                if *count == 0 {
                    open.remove(&self.name);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use loggia_core::Surface;

    use super::*;

    #[test]
    fn a_name_is_there_while_any_of_its_connections_is() {
        let presence = Presence::default();
        let seen = presence.watch();
        let ann = Origin::new(Surface::A2a, "ann");
        let first = presence.join(&ann);
        let second = presence.join(&ann);
        let other = presence.join(&Origin::new(Surface::Tui, "bob"));
        drop(first);
        assert_eq!(seen.borrow().keys().collect::<Vec<_>>(), ["A2A:ann", "TUI:bob"]);
        drop((second, other));
        assert!(seen.borrow().is_empty());
    }
}
