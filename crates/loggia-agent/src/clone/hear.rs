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
        let known = REASONS.iter().find(|(part, _)| all.contains(part));
        match known {
            Some((_, why)) => (*why).to_owned(),
            None => format!("git says: {}", shown(&without_credentials(said))),
        }
    }
}

const CREDENTIALS: &str = "it does not exist, or needs credentials: check the address, or ask whoever \
                           runs this server for credentials (server.clones.credentials)";
const ELSEWHERE: &str =
    "its host answers with another address, which is not followed: name that one";
const NO_GIT: &str = "what answers at its address does not speak git: check scheme, host and port";
const BROKEN_OFF: &str = "its host broke off in the middle: try again";
const UNREACHABLE: &str = "its host can not be reached: check host and port, or try again later";
const UNTRUSTED: &str = "the certificate of its host is not trusted here (server.clones.ca_file)";

/// A part of what git says, and what that means and asks for. The first that fits counts.
const REASONS: &[(&str, &str)] = &[
    ("No space left on device", "the disk of this server is full: try again when there is room"),
    ("Remote branch", "it has no branch or tag of that name: name another one, or none"),
    ("could not read Username", CREDENTIALS),
    ("terminal prompts disabled", CREDENTIALS),
    ("Authentication failed", CREDENTIALS),
    ("returned error: 403", CREDENTIALS),
    ("Permission denied", "its host does not accept the key, or there is none"),
    ("Host key verification failed", "the key of its host is not known"),
    ("returned error: 30", ELSEWHERE),
    ("redirect", ELSEWHERE),
    ("returned error: 429", "its host is asked too often: try again later"),
    ("returned error: 5", "its host has an error of its own: try again later"),
    ("is this a git repository", "there is no git repository at its address: check the address"),
    ("does not appear to be a git repository", "there is no repository: check the address"),
    ("not found", "there is no such repository: check the address"),
    ("not our ref", "it has no such commit"),
    ("unadvertised object", "it does not give out that commit: name a branch or a tag"),
    ("bad line length", NO_GIT),
    ("HTTP/0.9", NO_GIT),
    ("TLS packet", NO_GIT),
    ("wrong version number", NO_GIT),
    ("certificate", UNTRUSTED),
    ("Could not resolve host", "the name of its host is not known: check the address"),
    ("Couldn't connect", UNREACHABLE),
    ("Connection refused", UNREACHABLE),
    ("unable to connect", UNREACHABLE),
    ("transfer closed", BROKEN_OFF),
    ("Empty reply", BROKEN_OFF),
    ("early EOF", BROKEN_OFF),
    ("hung up unexpectedly", BROKEN_OFF),
    ("RPC failed", BROKEN_OFF),
    ("Could not read from remote", "its host does not give it out: check the address"),
];

/// Addresses without what stands before the host in them.
fn without_credentials(text: &str) -> String {
    let mut pieces = text.split("://");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(piece.len());
        let (authority, rest) = piece.split_at(end);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        out.extend(["://", host, rest]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_among_everything_that_is_said() {
        let table: &[(&str, &str)] = &[
            ("", "git gave no reason"),
            ("Cloning into 'x'...\nfatal: no luck\nfatal: second\n", "git says: no luck"),
            ("remote: fatal: not this\nerror: bad\n", "git says: bad"),
            ("fatal: \x1b[31mred\x07\n", "git says: \\u{1b}[31mred\\u{7}"),
            (
                "fatal: odd 'https://u:hush@h/x' and ssh://hush@h\n",
                "git says: odd 'https://h/x' and ssh://h",
            ),
            (
                "fatal: Remote branch x not found in upstream origin\n",
                "it has no branch or tag of that name: name another one, or none",
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
