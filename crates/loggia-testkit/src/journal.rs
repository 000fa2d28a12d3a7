//! What happened, in the order it happened, across tasks; and doors that a test opens.

use std::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a test waits for something that must happen. Generous: a loaded machine is not a bug.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Notes of all doubles of one test. Clones write into the same journal.
#[derive(Clone)]
pub struct Journal {
    notes: watch::Sender<Vec<String>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { notes: watch::Sender::new(Vec::new()) }
    }
}

impl Journal {
    pub fn note(&self, text: impl Into<String>) {
        self.notes.send_modify(|notes| notes.push(text.into()));
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().clone()
    }

    pub fn has(&self, text: &str) -> bool {
        self.notes.borrow().iter().any(|note| note == text)
    }

    /// Waits for a note, and fails the test with the whole journal if it does not come.
    pub async fn until(&self, text: &str) {
        let mut notes = self.notes.subscribe();
        let there = notes.wait_for(|notes| notes.iter().any(|note| note == text));
        let came = tokio::time::timeout(PATIENCE, there).await.is_ok();
        assert!(came, "nobody noted `{text}`:\n{self}");
    }

    /// Where a note stands. Fails the test if it is not there.
    pub fn place(&self, text: &str) -> usize {
        let place = self.notes.borrow().iter().position(|note| note == text);
        place.unwrap_or_else(|| panic!("nobody noted `{text}`:\n{self}"))
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in self.notes.borrow().iter() {
            writeln!(out, "  {note}")?;
        }
        Ok(())
    }
}

/// A door: closed until the test opens it, then open for ever.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    door: CancellationToken,
}

impl Gate {
    pub fn open(&self) {
        self.door.cancel();
    }

    pub async fn passed(&self) {
        self.door.cancelled().await;
    }
}
