//! What git says while it works: how far it is, and why it failed.

use std::time::Duration;

use tokio::time::Instant;

use crate::workspace::shown;

/// Between two reports of progress.
const PACE: Duration = Duration::from_secs(1);
/// Of one line; the rest of a longer one is dropped.
const LONGEST_LINE: usize = 1024;
const WORDS: &[&str] = &["fatal: ", "error: ", "warning: ", "remote: "];

#[derive(Debug)]
pub(super) struct Listener {
    line: Vec<u8>,
    /// The first line of each kind that says what is wrong.
    fatal: Option<String>,
    error: Option<String>,
    /// How far it is, unless that was reported.
    progress: Option<String>,
    next: Option<Instant>,
    /// It is busy with what it has: the remote owes nothing.
    local: bool,
    pub heard: u64,
}

impl Listener {
    pub fn new() -> Self {
        Self {
            line: Vec::new(),
            fatal: None,
            error: None,
            progress: None,
            next: None,
            local: false,
            heard: 0,
        }
    }

    pub fn hear(&mut self, bytes: &[u8]) {
        self.heard += bytes.len() as u64;
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => self.end_line(),
                byte if self.line.len() < LONGEST_LINE => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if let Some(why) = line.strip_prefix("fatal: ") {
            self.fatal.get_or_insert(why.to_owned());
        } else if let Some(why) = line.strip_prefix("error: ") {
            self.error.get_or_insert(why.to_owned());
        } else if !WORDS.iter().any(|word| line.starts_with(word)) && line.contains('%') {
            self.local = !line.starts_with("Receiving objects");
            self.progress = Some(shown(&line));
        }
    }

    /// Whether the remote is what is waited for.
    pub fn waits_for_remote(&self) -> bool {
        !self.local
    }

    /// How far it is, at most once a second.
    pub fn due(&mut self, now: Instant) -> Option<String> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let progress = self.progress.take()?;
        self.next = Some(now + PACE);
        Some(progress)
    }

    /// The reason, in words of ours where it is a usual one.
    pub fn why(&self) -> String {
        let said = self.fatal.as_ref().or(self.error.as_ref());
        let Some(said) = said else { return "git gave no reason".to_owned() };
        let all = format!("{said} {}", self.error.as_deref().unwrap_or_default());
        let table = [
            ("Remote branch", "it has no branch or tag of that name"),
            ("could not read Username", "it does not exist, or needs credentials"),
            ("terminal prompts disabled", "it does not exist, or needs credentials"),
            ("Authentication failed", "it does not exist, or needs credentials"),
            ("Permission denied", "its host does not accept the key, or there is none"),
            ("Host key verification failed", "the key of its host is not known"),
            ("returned error: 30", "its host answers with another address, which is not followed"),
            ("redirect", "its host answers with another address, which is not followed"),
            ("does not appear to be a git repository", "there is no repository"),
            ("not found", "there is no such repository"),
            ("not our ref", "it has no such commit"),
            ("unadvertised object", "it does not give out that commit"),
        ];
        let known = table.iter().find(|(part, _)| all.contains(part));
        known.map_or_else(|| shown(said), |(_, why)| (*why).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_among_everything_that_is_said() {
        let table: &[(&str, &str)] = &[
            ("", "git gave no reason"),
            ("Cloning into 'x'...\nfatal: no luck\nfatal: second\n", "no luck"),
            ("remote: fatal: not this\nerror: bad\n", "bad"),
            ("fatal: \x1b[31mred\x07\n", "\\u{1b}[31mred\\u{7}"),
            (
                "fatal: Remote branch x not found in upstream origin\n",
                "it has no branch or tag of that name",
            ),
        ];
        for (said, wanted) in table {
            let mut listener = Listener::new();
            said.bytes().for_each(|byte| listener.hear(&[byte]));
            assert_eq!(listener.why(), *wanted, "{said:?}");
        }
    }

    #[test]
    fn progress_is_reported_once_a_second_and_the_newest_only() {
        let mut listener = Listener::new();
        let now = Instant::now();
        assert_eq!(listener.due(now), None);
        listener.hear(b"remote: Counting objects: 10% (1/10)\rReceiving objects:  10% (1/10)\r");
        assert!(listener.waits_for_remote());
        assert_eq!(listener.due(now).as_deref(), Some("Receiving objects:  10% (1/10)"));
        for percent in 11..99 {
            listener.hear(format!("Receiving objects:  {percent}% (1/10)\r").as_bytes());
            assert_eq!(listener.due(now + PACE / 2), None);
        }
        assert_eq!(listener.due(now + PACE).as_deref(), Some("Receiving objects:  98% (1/10)"));
        listener.hear(b"Resolving deltas:   1% (1/99)\r");
        assert!(!listener.waits_for_remote());
        // A line without an end, of any length, takes little room.
        listener.hear(&vec![b'x'; 1 << 20]);
        assert!(listener.line.len() <= LONGEST_LINE);
    }
}
