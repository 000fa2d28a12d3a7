//! Loggia's directories: XDG directories, or all under `LOGGIA_HOME`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{ConfigError, Environment};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Written by the user.
    pub config: PathBuf,
    /// The database and the trust lists.
    pub data: PathBuf,
    /// Logs, history and clones; can be deleted.
    pub state: PathBuf,
}

impl Paths {
    pub fn new(environment: &Environment) -> Result<Self, ConfigError> {
        if let Some(home) = environment.get_os("LOGGIA_HOME") {
            let home = absolute("LOGGIA_HOME", home)?;
            let [config, data, state] = ["config", "data", "state"].map(|name| home.join(name));
            return Ok(Self { config, data, state });
        }
        let directory = |variable: &str, below_home: &str| {
            // The XDG specification says that relative paths are invalid and must be ignored.
            let named =
                environment.get_os(variable).map(Path::new).filter(|path| path.is_absolute());
            let base = match named {
                Some(path) => path.to_owned(),
                None => home(environment, variable)?.join(below_home),
            };
            Ok(base.join("loggia"))
        };
        Ok(Self {
            config: directory("XDG_CONFIG_HOME", ".config")?,
            data: directory("XDG_DATA_HOME", ".local/share")?,
            state: directory("XDG_STATE_HOME", ".local/state")?,
        })
    }
}

/// Resolves links in the existing part of a path.
pub fn real(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), _, _) => real,
        (Err(_), Some(parent), Some(name)) => real(parent).join(name),
        (Err(_), _, _) => path.to_owned(),
    }
}

fn home(environment: &Environment, instead: &str) -> Result<PathBuf, ConfigError> {
    let home = environment.get_os("HOME").ok_or_else(|| {
        ConfigError::new(format!(
            "there is no place for Loggia's files: set HOME, {instead} or LOGGIA_HOME"
        ))
    })?;
    absolute("HOME", home)
}

/// Rejects a relative path, which would let the current project choose the file.
pub fn absolute(variable: &str, value: &OsStr) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        return Ok(path);
    }
    let shown = path.display();
    Err(ConfigError::new(format!("{variable} is `{shown}`: write a full path, beginning with `/`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_follow_xdg_and_loggia_home() {
        type Case<'a> = (&'a [(&'a str, &'a str)], Result<[&'a str; 3], &'a str>);
        let home = ["/h/.config/loggia", "/h/.local/share/loggia", "/h/.local/state/loggia"];
        let cases: &[Case<'_>] = &[
            (&[("HOME", "/h")], Ok(home)),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "relative")], Ok(home)),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "")], Ok(home)),
            (
                &[("HOME", "/h"), ("XDG_DATA_HOME", "/d"), ("XDG_STATE_HOME", "/s")],
                Ok(["/h/.config/loggia", "/d/loggia", "/s/loggia"]),
            ),
            (
                &[("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "/d"), ("XDG_STATE_HOME", "/s")],
                Ok(["/c/loggia", "/d/loggia", "/s/loggia"]),
            ),
            (
                &[("HOME", "/h"), ("XDG_DATA_HOME", "/d"), ("LOGGIA_HOME", "/l")],
                Ok(["/l/config", "/l/data", "/l/state"]),
            ),
            (
                &[],
                Err(
                    "there is no place for Loggia's files: set HOME, XDG_CONFIG_HOME or LOGGIA_HOME",
                ),
            ),
            (&[("HOME", "h")], Err("HOME is `h`: write a full path, beginning with `/`")),
            (
                &[("LOGGIA_HOME", ".")],
                Err("LOGGIA_HOME is `.`: write a full path, beginning with `/`"),
            ),
        ];
        for (variables, wanted) in cases {
            let environment = Environment::from(
                variables.iter().map(|(name, value)| (name.into(), value.into())),
            );
            let found = Paths::new(&environment).map_err(|error| error.to_string());
            let wanted = wanted.map_err(str::to_owned).map(|[config, data, state]| Paths {
                config: config.into(),
                data: data.into(),
                state: state.into(),
            });
            assert_eq!(found, wanted, "{variables:?}");
        }
    }
}
