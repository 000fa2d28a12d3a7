//! An ordered record of what tasks did, and gates that a test opens.

use std::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a test waits for something that must happen. Generous, because the machine may be loaded.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Notes of all test doubles of one test. Clones write into the same log.
#[derive(Clone)]
pub struct TestLog {
    notes: watch::Sender<Vec<String>>,
}

impl Default for TestLog {
    fn default() -> Self {
        Self { notes: watch::Sender::new(Vec::new()) }
    }
}

impl TestLog {
    pub fn note(&self, text: impl Into<String>) {
        self.notes.send_modify(|notes| notes.push(text.into()));
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().clone()
    }

    pub fn has(&self, text: &str) -> bool {
        self.notes.borrow().iter().any(|note| note == text)
    }

    /// Waits for a note. Fails the test and prints the log if it does not come.
    pub async fn until(&self, text: &str) {
        let mut notes = self.notes.subscribe();
        let there = notes.wait_for(|notes| notes.iter().any(|note| note == text));
        let came = tokio::time::timeout(TIMEOUT, there).await.is_ok();
        assert!(came, "`{text}` was not noted:\n{self}");
    }

    /// The position of a note. Fails the test if it is not there.
    pub fn position(&self, text: &str) -> usize {
        let position = self.notes.borrow().iter().position(|note| note == text);
        position.unwrap_or_else(|| panic!("`{text}` was not noted:\n{self}"))
    }
}

impl fmt::Display for TestLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in self.notes.borrow().iter() {
            writeln!(out, "  {note}")?;
        }
        Ok(())
    }
}

/// Closed until the test opens it, then open for ever.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    opened: CancellationToken,
}

impl Gate {
    pub fn open(&self) {
        self.opened.cancel();
    }

    pub async fn passed(&self) {
        self.opened.cancelled().await;
    }
}
