//! Programs that a repository's configuration makes git run: diff drivers, text conversions, filters.
//!
//! A rule for `git diff` allows git, not these programs, and git has no setting that disables them all.
//! So a line that runs git in such a repository needs a person. Git itself reads the configuration, with
//! the worktree's part and included files. The user's own configuration is not looked at.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use super::environment;
use crate::child::{Captured, Running};
use crate::guard;

/// Sections, and the last words of their keys, whose values are programs. The words are in lower case, as
/// git prints them. `*` stands for every word.
const KEYS: &[(&str, &[&str])] = &[
    ("alias", &["*"]),
    ("browser", &["cmd", "path"]),
    ("core", &["alternaterefscommand", "askpass", "editor", "gitproxy", "sshcommand"]),
    ("credential", &["helper"]),
    ("diff", &["command", "external", "textconv"]),
    ("difftool", &["cmd", "path"]),
    ("filter", &["clean", "process", "smudge"]),
    ("gpg", &["defaultkeycommand", "program"]),
    ("guitool", &["cmd"]),
    ("hook", &["command"]),
    ("imap", &["tunnel"]),
    ("interactive", &["difffilter"]),
    ("lfs", &["clean", "path", "smudge"]),
    ("man", &["cmd", "path"]),
    ("merge", &["driver"]),
    ("mergetool", &["cmd", "path"]),
    ("protocol", &["allow"]),
    ("remote", &["receivepack", "uploadpack", "vcs"]),
    ("sendemail", &["*"]),
    ("sequence", &["editor"]),
    ("submodule", &["update"]),
    ("tar", &["command"]),
    ("trailer", &["cmd", "command"]),
    ("uploadpack", &["packobjectshook"]),
];
const ARGUMENTS: &[&str] = &["config", "--list", "--show-scope", "--name-only", "-z"];
const LIMIT: Duration = Duration::from_secs(5);
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// Whether the line names git. Rules compare words without their quotes, so the quotes do not count.
pub(super) fn names_git(command: &str) -> bool {
    let plain = |character: &char| !matches!(character, '\'' | '"' | '\\');
    command.chars().filter(plain).collect::<String>().to_ascii_lowercase().contains("git")
}

/// A key of the directory's repository that configures a program, or why the keys are not known.
pub(super) async fn find(
    guard: &[OsString],
    environment: &[(OsString, OsString)],
    directory: &OwnedFd,
    path: &Path,
) -> Option<String> {
    let chosen = environment.iter().any(|(name, _)| name == "GIT_DIR");
    if !chosen && !path.ancestors().any(|above| above.join(".git").exists()) {
        return None;
    }
    let git = environment::program(environment, "git")?;
    let environment = environment::without_configured_programs(environment);
    let command: Vec<OsString> =
        std::iter::once(git.into()).chain(ARGUMENTS.iter().map(Into::into)).collect();
    let mut running =
        Running::start(guard, &command, &environment, directory, Captured::Output).ok()?;
    let listed = tokio::time::timeout(LIMIT, output(&mut running)).await;
    match listed.ok().flatten() {
        Some(listed) => configured(&listed),
        None => {
            running.end(|_| {}).await;
            Some("a configuration that git does not list".to_owned())
        }
    }
}

async fn output(running: &mut Running) -> Option<Vec<u8>> {
    let mut listed = Vec::new();
    while let Some(bytes) = running.next().await.ok()? {
        if listed.len() + bytes.len() > MAX_OUTPUT_BYTES {
            return None;
        }
        listed.extend_from_slice(bytes);
    }
    let status = running.status().await.ok()?;
    (guard::code(status) == 0).then_some(listed)
}

/// The first key that configures a program, in pairs of a scope and a key.
fn configured(listed: &[u8]) -> Option<String> {
    let listed = String::from_utf8_lossy(listed);
    let words: Vec<&str> = listed.split('\0').collect();
    let (pairs, _) = words.as_chunks::<2>();
    let own = pairs.iter().filter(|[scope, _]| matches!(*scope, "local" | "worktree"));
    own.map(|[_, key]| *key).find(|key| runs_a_program(key)).map(str::to_owned)
}

fn runs_a_program(key: &str) -> bool {
    let (Some((section, _)), Some((_, last))) = (key.split_once('.'), key.rsplit_once('.')) else {
        return false;
    };
    KEYS.iter().any(|(name, words)| *name == section && (words.contains(&last) || *words == ["*"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_repositorys_own_programs_are_found() {
        for (listed, wanted) in [
            ("", None),
            ("local\0core.bare\0", None),
            ("global\0filter.lfs.process\0system\0core.editor\0", None),
            ("local\0diff.external\0", Some("diff.external")),
            ("global\0diff.a.command\0worktree\0diff.b.c.command\0", Some("diff.b.c.command")),
            ("local\0filter.x.required\0local\0filter.x.smudge\0", Some("filter.x.smudge")),
            ("local\0alias.st\0", Some("alias.st")),
            ("local\0branch.command\0local\0remote.origin.url\0", None),
        ] {
            assert_eq!(configured(listed.as_bytes()).as_deref(), wanted, "{listed:?}");
        }
    }

    #[test]
    fn quotes_do_not_hide_git() {
        for line in ["git diff", "gi''t diff", "\"g\"it diff", "g\\it diff", "/usr/bin/GIT diff"] {
            assert!(names_git(line), "{line}");
        }
        assert!(!names_git("cargo test"));
    }
}
