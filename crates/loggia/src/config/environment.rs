//! The environment of this process, read once, and the part that is passed to commands.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use loggia_models::providers::secret_variables;

/// Passed to every command, and `LC_*`.
const ALWAYS_PASSED: &[&str] = &["PATH", "HOME", "LANG", "TERM", "TZ", "USER", "LOGNAME", "TMPDIR"];

/// Variables that make a shell or the dynamic linker run arbitrary code in every command. They are
/// never passed, even if listed: use a wrapper script instead. `LD_LIBRARY_PATH` is allowed because
/// programs need it.
const NEVER_PASSED: &[&str] = &[
    "BASH_ENV",
    "BASHOPTS",
    "DYLD_INSERT_LIBRARIES",
    "ENV",
    "LD_AUDIT",
    "LD_PRELOAD",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
];

/// Not `Debug`: it holds secrets.
#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads it")]
    pub fn read() -> Self {
        Self::from(std::env::vars_os())
    }

    pub fn from(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { variables: variables.into_iter().collect() }
    }

    /// A non-empty variable that is valid UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_os(name).and_then(OsStr::to_str)
    }

    /// A non-empty variable, which need not be valid UTF-8.
    pub fn get_os(&self, name: &str) -> Option<&OsStr> {
        let value = self.variables.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().filter_map(|name| name.to_str())
    }

    /// The environment of commands: a short fixed list and `shell.pass_env`.
    pub fn child_environment(&self, pass: &[String]) -> Vec<(OsString, OsString)> {
        let passes = |name: &str| {
            let listed = is_always_passed(name) || pass.iter().any(|passed| passed == name);
            listed && may_be_passed(name)
        };
        self.variables
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(passes))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// False for variables that inject code, for keys of models and for Loggia's own.
pub fn may_be_passed(name: &str) -> bool {
    !NEVER_PASSED.contains(&name)
        && !name.starts_with("BASH_FUNC_")
        && !name.starts_with("LOGGIA")
        && !secret_variables().any(|secret| secret == name)
}

/// Whether every command gets this variable.
pub fn is_always_passed(name: &str) -> bool {
    ALWAYS_PASSED.contains(&name) || name.starts_with("LC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Secrets in the environment are not passed to commands.
    #[test]
    fn commands_see_a_short_list_of_variables() {
        let passed = [
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("LANG", "C"),
            ("LC_ALL", "C"),
            ("TERM", "xterm"),
            ("TZ", "UTC"),
            ("USER", "u"),
            ("LOGNAME", "u"),
            ("TMPDIR", "/tmp"),
        ];
        let canaries = [
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "LOGGIA_TOKEN",
            "LOGGIA_MODE",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "SSH_AUTH_SOCK",
            "BASH_FUNC_ls%%",
            "SHELLOPTS",
            "PROMPT_COMMAND",
            "LCX",
            "PATHX",
            "path",
        ];
        let all = passed.into_iter().chain(canaries.map(|name| (name, "canary")));
        let environment = Environment::from(all.map(|(name, value)| (name.into(), value.into())));
        let names = |pass: &[&str]| {
            let pass: Vec<String> = pass.iter().map(|name| (*name).to_owned()).collect();
            let child = environment.child_environment(&pass);
            child.into_iter().map(|(name, _)| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        let mut short: Vec<&str> = passed.iter().map(|(name, _)| *name).collect();
        short.sort_unstable();
        assert_eq!(names(&[]), short);
        // Listed variables are passed, except those that inject code and keys of models.
        let listed = names(&canaries);
        let further: Vec<_> =
            listed.iter().filter(|name| !short.contains(&name.as_str())).collect();
        let wanted = [
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "GIT_SSH_COMMAND",
            "LCX",
            "LD_LIBRARY_PATH",
            "PATHX",
            "SSH_AUTH_SOCK",
            "path",
        ];
        assert_eq!(further, wanted);
    }
}
