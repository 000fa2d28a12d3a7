//! `keys.toml` in the configuration directory: the keys that `loggia keys set` stored, by provider.
//!
//! Only its owner may read it; otherwise it is ignored. Keys in the environment are read elsewhere.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use loggia_models::Secret;

use super::{ConfigError, Paths};

const NAME: &str = "keys.toml";
const MAX_BYTES: u64 = 1024 * 1024;
/// The longest key.
pub const MAX_KEY: usize = 16 * 1024;
const HEADING: &str =
    "# Keys of model providers. `loggia keys` writes this file; keep it private.\n";

pub type StoredKeys = BTreeMap<String, Secret>;

pub struct KeyFile {
    directory: PathBuf,
}

impl KeyFile {
    pub fn new(paths: &Paths) -> Self {
        Self { directory: paths.config.clone() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// The keys; empty without a file.
    pub fn read(&self) -> Result<StoredKeys, ConfigError> {
        let refuse = |why: String| ConfigError::file(&self.path(), why);
        let cannot = |error: io::Error| refuse(format!("cannot be read: {error}"));
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(self.path());
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StoredKeys::new()),
            Err(error) => return Err(cannot(error)),
        };
        let found = file.metadata().map_err(cannot)?;
        let own = found.uid() == rustix::process::geteuid().as_raw();
        if !found.is_file() || !own || found.mode() & 0o077 != 0 {
            return Err(refuse(
                "other users can read or write it, so its keys are ignored; run chmod 600 on it, \
                 and replace the keys if it was shared"
                    .into(),
            ));
        }
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
        // The message of the parser quotes the file.
        let keys: BTreeMap<String, String> = toml::from_str(&text).map_err(|_| {
            refuse("is not a list of keys, such as openai = \"…\"; remove it or repair it".into())
        })?;
        Ok(keys.into_iter().map(|(name, key)| (name, Secret::new(key))).collect())
    }

    pub fn set(&self, provider: &str, key: Secret) -> Result<(), ConfigError> {
        self.change(|keys| drop(keys.insert(provider.to_owned(), key)))
    }

    /// Whether there was a key.
    pub fn remove(&self, provider: &str) -> Result<bool, ConfigError> {
        let mut removed = false;
        self.change(|keys| removed = keys.remove(provider).is_some())?;
        Ok(removed)
    }

    /// Replaces the file atomically.
    fn change(&self, edit: impl FnOnce(&mut StoredKeys)) -> Result<(), ConfigError> {
        let cannot = |error: io::Error| {
            ConfigError::file(&self.path(), format!("cannot be written: {error}"))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(cannot)?;
        let lock = self.create("keys.lock", false).map_err(cannot)?;
        lock.lock().map_err(cannot)?;
        let mut keys = self.read()?;
        edit(&mut keys);
        let plain: BTreeMap<&str, &str> =
            keys.iter().map(|(name, key)| (name.as_str(), key.expose())).collect();
        let text = toml::to_string(&plain)
            .map_err(|error| ConfigError::file(&self.path(), error.to_string()))?;
        self.replace(&format!("{HEADING}{text}")).map_err(cannot)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let fresh = "keys.toml.new";
        // A file from an interrupted run may have other permissions.
        match std::fs::remove_file(self.directory.join(fresh)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.create(fresh, true)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(self.directory.join(fresh), self.path())?;
        File::open(&self.directory)?.sync_all()
    }

    fn create(&self, name: &str, fresh: bool) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).create_new(fresh).mode(0o600).custom_flags(flags);
        options.open(self.directory.join(name))
    }
}

/// The key in a text: one line of visible characters.
pub fn parse_key(text: &str) -> Result<Secret, &'static str> {
    let key = text.trim();
    if key.is_empty() {
        return Err("there is no key: paste it, or pipe it in");
    }
    if key.len() > MAX_KEY || !key.chars().all(|letter| letter.is_ascii_graphic()) {
        return Err(
            "this is not a key: it is one line of letters, digits and signs, without spaces",
        );
    }
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file() -> (tempfile::TempDir, KeyFile) {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile { directory: directory.path().join("config") };
        (directory, file)
    }

    #[test]
    fn keys_are_stored_privately_and_removed() {
        let (_directory, file) = file();
        assert!(file.read().unwrap().is_empty());
        file.set("openai", Secret::new("sk-1")).unwrap();
        file.set("anthropic", Secret::new("sk-\"2\"")).unwrap();
        let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(file.directory.clone())), (0o600, 0o700));
        let keys = file.read().unwrap();
        assert_eq!(keys["anthropic"].expose(), "sk-\"2\"");
        assert_eq!((file.remove("openai").unwrap(), file.remove("openai").unwrap()), (true, false));
        assert_eq!(file.read().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_never_quoted() {
        let (_directory, file) = file();
        file.set("openai", Secret::new("sk-secret")).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(file.path(), "openai = sk-secret\n").unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_key_is_one_word() {
        for (text, wanted) in [(" sk-1\n", Some("sk-1")), ("", None), ("a b", None), ("a\nb", None)]
        {
            let read = parse_key(text).ok();
            assert_eq!(read.as_ref().map(Secret::expose), wanted, "{text:?}");
        }
    }
}
