//! The environment of a command: a short list of names, nothing else.
//!
//! Keys of providers, tokens, agent sockets and preload variables are in Loggia's environment more
//! often than not; a list of what is allowed does not forget one.

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
        // A name the user asked to pass on is the user's.
        if !kept.iter().any(|(kept, _)| kept == name) {
            kept.push((name.into(), value.into()));
        }
    }
    kept
}

/// bash where the path has one, else sh.
pub(super) fn shell(environment: &[(OsString, OsString)]) -> PathBuf {
    let path =
        environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    std::env::split_paths(path)
        // Relative entries would make the workspace's own files the shell.
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("bash"))
        .find(|shell| shell.is_file())
        .unwrap_or_else(|| Path::new("/bin/sh").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_short_list_passes() {
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
