//! Parses git's messages: its progress, and the reason of a failure.

use std::time::Duration;

use tokio::time::Instant;

use crate::workspace::shown;

/// The time between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of one line; the rest of a longer one is dropped.
const LONGEST_LINE: usize = 1024;
const PREFIXES: &[&str] = &["fatal: ", "error: ", "warning: ", "remote: "];

#[derive(Debug)]
pub(super) struct GitProgress {
    line: Vec<u8>,
    /// The first line of each kind of error.
    fatal: Option<String>,
    error: Option<String>,
    /// The newest progress that has not been reported.
    progress: Option<String>,
    next: Option<Instant>,
    /// Git processes data that it has received.
    local: bool,
    /// Bytes of all messages.
    pub bytes: u64,
}

impl GitProgress {
    pub fn new() -> Self {
        Self {
            line: Vec::new(),
            fatal: None,
            error: None,
            progress: None,
            next: None,
            local: false,
            bytes: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
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
        } else if !PREFIXES.iter().any(|prefix| line.starts_with(prefix)) && line.contains('%') {
            self.local = !line.starts_with("Receiving objects");
            self.progress = Some(shown(&line));
        }
    }

    /// Whether git waits for the remote.
    pub fn waits_for_remote(&self) -> bool {
        !self.local
    }

    /// The progress, at most once a second.
    pub fn take_report(&mut self, now: Instant) -> Option<String> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let progress = self.progress.take()?;
        self.next = Some(now + REPORT_INTERVAL);
        Some(progress)
    }

    /// The reason of a failure; git's own message if it is not a known one.
    pub fn failure_reason(&self) -> String {
        let message = self.fatal.as_ref().or(self.error.as_ref());
        let Some(message) = message else { return "git gave no reason".to_owned() };
        let all = format!("{message} {}", self.error.as_deref().unwrap_or_default());
        let known = REASONS.iter().find(|(part, _)| all.contains(part));
        match known {
            Some((_, why)) => (*why).to_owned(),
            None => format!("git reports: {}", shown(&without_credentials(message))),
        }
    }
}

const CREDENTIALS: &str = "it does not exist, or needs credentials: check the address, or ask the operator \
                           of this server for credentials (server.clones.credentials)";
const ELSEWHERE: &str =
    "its host redirects to another address, and redirects are not followed: name that address";
const NO_GIT: &str = "the server at its address does not speak git: check scheme, host and port";
const BROKEN_OFF: &str = "its host closed the connection too early: try again";
const UNREACHABLE: &str = "its host cannot be reached: check host and port, or try again later";
const UNTRUSTED: &str = "the certificate of its host is not trusted here (server.clones.ca_file)";

/// A part of git's message, and the reason to report. The first match is used.
const REASONS: &[(&str, &str)] = &[
    ("No space left on device", "the disk of this server is full: try again later"),
    ("Remote branch", "it has no branch or tag of that name: name another one, or none"),
    ("could not read Username", CREDENTIALS),
    ("terminal prompts disabled", CREDENTIALS),
    ("Authentication failed", CREDENTIALS),
    ("returned error: 403", CREDENTIALS),
    ("Permission denied", "its host does not accept the key, or there is none"),
    ("Host key verification failed", "the key of its host is not known"),
    ("returned error: 30", ELSEWHERE),
    ("redirect", ELSEWHERE),
    ("returned error: 429", "its host limits requests: try again later"),
    ("returned error: 5", "its host reports an internal error: try again later"),
    ("is this a git repository", "there is no git repository at its address: check the address"),
    ("does not appear to be a git repository", "there is no repository: check the address"),
    ("not found", "there is no such repository: check the address"),
    ("not our ref", "it has no such commit"),
    ("unadvertised object", "its host does not serve that commit: name a branch or a tag"),
    ("bad line length", NO_GIT),
    ("HTTP/0.9", NO_GIT),
    ("TLS packet", NO_GIT),
    ("wrong version number", NO_GIT),
    ("certificate", UNTRUSTED),
    ("Could not resolve host", "the name of its host cannot be resolved: check the address"),
    ("Couldn't connect", UNREACHABLE),
    ("Connection refused", UNREACHABLE),
    ("unable to connect", UNREACHABLE),
    ("transfer closed", BROKEN_OFF),
    ("Empty reply", BROKEN_OFF),
    ("early EOF", BROKEN_OFF),
    ("hung up unexpectedly", BROKEN_OFF),
    ("RPC failed", BROKEN_OFF),
    ("Could not read from remote", "its host does not serve it: check the address"),
];

/// Removes credentials from URLs.
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
    fn reasons_are_found_in_git_messages() {
        let table: &[(&str, &str)] = &[
            ("", "git gave no reason"),
            ("Cloning into 'x'...\nfatal: no luck\nfatal: second\n", "git reports: no luck"),
            ("remote: fatal: not this\nerror: bad\n", "git reports: bad"),
            ("fatal: \x1b[31mred\x07\n", "git reports: \\u{1b}[31mred\\u{7}"),
            (
                "fatal: odd 'https://u:hush@h/x' and ssh://hush@h\n",
                "git reports: odd 'https://h/x' and ssh://h",
            ),
            (
                "fatal: Remote branch x not found in upstream origin\n",
                "it has no branch or tag of that name: name another one, or none",
            ),
        ];
        for (messages, wanted) in table {
            let mut progress = GitProgress::new();
            messages.bytes().for_each(|byte| progress.push(&[byte]));
            assert_eq!(progress.failure_reason(), *wanted, "{messages:?}");
        }
    }

    #[test]
    fn progress_is_reported_once_a_second_and_the_newest_only() {
        let mut progress = GitProgress::new();
        let now = Instant::now();
        assert_eq!(progress.take_report(now), None);
        progress.push(b"remote: Counting objects: 10% (1/10)\rReceiving objects:  10% (1/10)\r");
        assert!(progress.waits_for_remote());
        assert_eq!(progress.take_report(now).as_deref(), Some("Receiving objects:  10% (1/10)"));
        for percent in 11..99 {
            progress.push(format!("Receiving objects:  {percent}% (1/10)\r").as_bytes());
            assert_eq!(progress.take_report(now + REPORT_INTERVAL / 2), None);
        }
        assert_eq!(
            progress.take_report(now + REPORT_INTERVAL).as_deref(),
            Some("Receiving objects:  98% (1/10)")
        );
        progress.push(b"Resolving deltas:   1% (1/99)\r");
        assert!(!progress.waits_for_remote());
        // A line that does not end uses little memory.
        progress.push(&vec![b'x'; 1 << 20]);
        assert!(progress.line.len() <= LONGEST_LINE);
    }
}
