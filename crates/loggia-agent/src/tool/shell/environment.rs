//! The environment of a command: an allow-list of names.
//!
//! Loggia's environment often contains provider keys, tokens, agent sockets and preload variables. An
//! allow-list excludes all of them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const NAMES: &[&str] = &["PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"];
const FIXED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("LOGGIA", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables of `all` that a command may see, with the fixed ones.
pub(super) fn filtered(
    all: Vec<(OsString, OsString)>,
    further: &[String],
) -> Vec<(OsString, OsString)> {
    let allowed = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            NAMES.contains(&name)
                || name.starts_with("LC_")
                || further.iter().any(|one| one == name)
        })
    };
    let mut kept: Vec<_> = all.into_iter().filter(|(name, _)| allowed(name)).collect();
    if !kept.iter().any(|(name, _)| name == "PATH") {
        kept.push(("PATH".into(), DEFAULT_PATH.into()));
    }
    for (name, value) in FIXED {
        // A variable that the user passes on keeps its value.
        if !kept.iter().any(|(kept, _)| kept == name) {
            kept.push((name.into(), value.into()));
        }
    }
    kept
}

/// Git settings for a command that a rule allows. A rule for `git status` must not allow the programs
/// that a repository configures. A directory that only looks like a bare repository is ignored.
const GIT: &[(&str, &str)] = &[
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("log.showSignature", "false"),
];
const GIT_COUNT: &str = "GIT_CONFIG_COUNT";
const PAGERS: &[&str] = &["PAGER", "GIT_PAGER"];

/// The environment of a command that a rule allows. [`super::configured_programs`] finds the programs that
/// git has no setting for.
pub(super) fn without_configured_programs(
    environment: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let ours = |name: &OsStr| name == GIT_COUNT || PAGERS.iter().any(|pager| name == *pager);
    let mut kept: Vec<_> = environment.iter().filter(|(name, _)| !ours(name)).cloned().collect();
    // Settings that the user passes on stay. Ours come later and override them.
    let passed = environment.iter().find(|(name, _)| name == GIT_COUNT);
    let passed = passed.and_then(|(_, count)| count.to_str()?.parse::<usize>().ok()).unwrap_or(0);
    for (index, (key, value)) in GIT.iter().enumerate() {
        let index = passed.saturating_add(index);
        kept.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
        kept.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
    }
    kept.push((GIT_COUNT.into(), passed.saturating_add(GIT.len()).to_string().into()));
    kept.extend(PAGERS.iter().map(|pager| (pager.into(), "cat".into())));
    kept
}

/// bash if it is on the path, otherwise sh.
pub(super) fn shell(environment: &[(OsString, OsString)]) -> PathBuf {
    program(environment, "bash").unwrap_or_else(|| Path::new("/bin/sh").to_owned())
}

/// A program on the path.
pub(super) fn program(environment: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    let path =
        environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    std::env::split_paths(path)
        // A relative entry could make a file of the workspace the program.
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_pass() {
        let all = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("OPENAI_API_KEY", "canary"),
            ("LD_PRELOAD", "canary"),
            ("BASH_ENV", "canary"),
            ("SSH_AUTH_SOCK", "canary"),
            ("TERM", "canary"),
            ("MINE", "yes"),
            ("GIT_SSH_COMMAND", "canary"),
            ("LCX", "canary"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into())).to_vec();
        let kept = filtered(all, &["MINE".to_owned()]);
        let names: Vec<_> = kept.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(
            names,
            [
                "PATH",
                "LC_ALL",
                "MINE",
                "TERM",
                "LOGGIA",
                "PAGER",
                "GIT_PAGER",
                "GIT_TERMINAL_PROMPT"
            ]
        );
        assert!(kept.iter().all(|(_, value)| value != "canary"));
    }
}
