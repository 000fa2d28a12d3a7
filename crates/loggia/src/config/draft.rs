//! The configuration while the sources are merged, and the notices about ignored values.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::shortened;
use super::key::{KEYS, Key, OTHER_VARIABLES, Setting};
use super::nearest::nearest;
use super::{Config, Environment, Loaded, UntrustedSetting, ValueSource};
use crate::style::one_line;

/// Maximum number of keys named in a notice, so that a hostile file cannot fill the screen.
const MOST_NAMED: usize = 12;

pub struct Draft {
    config: Config,
    origins: BTreeMap<String, ValueSource>,
    notices: Vec<String>,
    untrusted: Option<Vec<UntrustedSetting>>,
}

impl Draft {
    pub fn built_in() -> Self {
        let scalars = KEYS.iter().filter(|key| key.is_scalar());
        Self {
            config: Config::default(),
            origins: scalars.map(|key| (key.name.to_owned(), ValueSource::BuiltIn)).collect(),
            notices: Vec::new(),
            untrusted: Some(Vec::new()),
        }
    }

    pub fn finish(self) -> Loaded {
        let Self { config, origins, notices, untrusted } = self;
        Loaded { config, origins, notices, untrusted }
    }

    /// The value is valid: it was checked when it was read.
    pub fn put(&mut self, key: &Key, setting: &Setting, origin: ValueSource) {
        if let Ok(Some(name)) = key.apply(&mut self.config, setting) {
            self.origins.insert(name, origin);
        }
    }

    pub fn restricts(&mut self, key: &Key, setting: &Setting) -> bool {
        key.restricts(&mut self.config, setting)
    }

    pub fn is_already(&mut self, key: &Key, setting: &Setting) -> bool {
        key.is_already(&mut self.config, setting)
    }

    pub fn note_untrusted(
        &mut self,
        path: &Path,
        need_trust: Vec<UntrustedSetting>,
        unknown: Vec<(String, ValueSource)>,
        wrong: Vec<String>,
    ) {
        let at = |line| ValueSource::File { path: path.to_owned(), line };
        let named = need_trust.iter().map(|kept| (kept.key.to_owned(), at(kept.line)));
        if let Some(keys) = listed(named.collect()) {
            self.note(format!(
                "Ignored, because this directory is not trusted: {keys}. Read the file, then run \
                 `loggia trust` to let it apply."
            ));
        }
        let understood = unknown.is_empty() && wrong.is_empty();
        self.untrusted = understood.then_some(need_trust);
        if let Some(keys) = listed(unknown) {
            self.note(format!("Ignored, because there are no such keys: {keys}."));
        }
        let more = wrong.len().saturating_sub(MOST_NAMED);
        for sentence in wrong.into_iter().take(MOST_NAMED) {
            self.note(format!("Ignored, because its value cannot be used: {sentence}"));
        }
        if more > 0 {
            self.note(format!("Ignored, because their values cannot be used: {more} more."));
        }
    }

    /// Reports variables whose name is similar to one of Loggia's.
    pub fn note_misspelled(&mut self, environment: &Environment) {
        let known: Vec<String> = KEYS
            .iter()
            .filter_map(Key::variable)
            .chain(OTHER_VARIABLES.iter().map(|name| (*name).to_owned()))
            .collect();
        let ours = environment.names().filter(|name| name.starts_with("LOGGIA_"));
        for name in ours.filter(|name| !known.iter().any(|known| known == name)) {
            if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
                self.notices.push(one_line(&format!(
                    "The environment variable {name} is unknown; did you mean {near}?"
                )));
            }
        }
    }

    fn note(&mut self, sentence: String) {
        self.notices.push(one_line(&sentence));
    }
}

/// "`model` (FILE:1), `commands.allow` (FILE:4)": each key once, with its first line.
fn listed(mut keys: Vec<(String, ValueSource)>) -> Option<String> {
    keys.dedup_by(|later, first| later.0 == first.0);
    let more = keys.len().saturating_sub(MOST_NAMED);
    let mut named: Vec<String> = keys
        .iter()
        .take(MOST_NAMED)
        .map(|(name, origin)| format!("`{}` ({origin})", shortened(name)))
        .collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    (!named.is_empty()).then(|| named.join(", "))
}
