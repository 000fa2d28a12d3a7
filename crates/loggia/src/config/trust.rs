//! The lists of trusted and refused directories: `trusted` and `refused` in the data directory, one
//! absolute path per line.
//!
//! Trust applies to exactly one directory, not to its parents or subdirectories. The lists are
//! outside all workspaces and are ignored if other users can write them.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{ConfigError, Paths};

const MAX_BYTES: u64 = 1024 * 1024;
const TRUSTED: &str = "trusted";
const REFUSED: &str = "refused";

pub struct Trust {
    data: PathBuf,
}

/// A person's decision about a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustState {
    Nothing,
    Trusted,
    /// Do not ask again.
    Refused,
}

/// Both lists during a change.
struct Lists {
    trusted: Vec<PathBuf>,
    refused: Vec<PathBuf>,
}

impl Trust {
    pub fn new(paths: &Paths) -> Self {
        Self { data: paths.data.clone() }
    }

    /// The path of the trust list, for messages.
    pub fn file(&self) -> PathBuf {
        self.data.join(TRUSTED)
    }

    pub fn is_trusted(&self, directory: &Path) -> Result<bool, ConfigError> {
        let trusted = self.list()?;
        Ok(directory.canonicalize().is_ok_and(|directory| trusted.contains(&directory)))
    }

    pub fn is_refused(&self, directory: &Path) -> Result<bool, ConfigError> {
        let refused = self.refused()?;
        Ok(directory.canonicalize().is_ok_and(|directory| refused.contains(&directory)))
    }

    pub fn list(&self) -> Result<Vec<PathBuf>, ConfigError> {
        self.listed(TRUSTED)
    }

    pub fn refused(&self) -> Result<Vec<PathBuf>, ConfigError> {
        self.listed(REFUSED)
    }

    fn listed(&self, name: &str) -> Result<Vec<PathBuf>, ConfigError> {
        let bytes = self.read(name)?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| PathBuf::from(OsString::from_vec(line.to_vec()))).collect())
    }

    /// Returns the canonical path.
    pub fn trust(&self, directory: &Path) -> Result<PathBuf, ConfigError> {
        let directory = listable(directory)?;
        self.change(|lists| {
            lists.refused.retain(|path| *path != directory);
            if !lists.trusted.contains(&directory) {
                lists.trusted.push(directory.clone());
            }
        })?;
        Ok(directory)
    }

    /// Stops Loggia from asking about the directory.
    pub fn refuse(&self, directory: &Path) -> Result<(), ConfigError> {
        let directory = listable(directory)?;
        self.change(|lists| {
            lists.trusted.retain(|path| *path != directory);
            if !lists.refused.contains(&directory) {
                lists.refused.push(directory.clone());
            }
        })
    }

    /// Removes the decision and returns it. The directory need not exist.
    pub fn revoke(&self, directory: &Path) -> Result<TrustState, ConfigError> {
        let named =
            std::path::absolute(directory).map_err(|error| ConfigError::file(directory, error))?;
        let real = directory.canonicalize().unwrap_or_else(|_| named.clone());
        let mut state = TrustState::Nothing;
        self.change(|Lists { trusted, refused }| {
            let lists = [(refused, TrustState::Refused), (trusted, TrustState::Trusted)];
            for (list, what) in lists {
                let before = list.len();
                list.retain(|path| *path != named && *path != real);
                state = if list.len() < before { what } else { state };
            }
        })?;
        Ok(state)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, ConfigError> {
        let path = self.data.join(name);
        let refuse = |sentence: String| ConfigError::file(&path, sentence);
        let cannot = |error: io::Error| refuse(format!("cannot be read: {error}"));
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(cannot(error)),
        };
        let found = file.metadata().map_err(cannot)?;
        if !found.is_file() || found.mode() & 0o022 != 0 {
            return Err(refuse(
                "other users can write this list, so it is ignored; check it, then run chmod 600 on \
                 it"
                    .into(),
            ));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(refuse(format!("is larger than {MAX_BYTES} bytes; shorten it")));
        }
        Ok(bytes)
    }

    /// Replaces each list atomically. Trust is written first: after a crash, the directory is
    /// either asked about again or trusted as intended.
    fn change(&self, edit: impl FnOnce(&mut Lists)) -> Result<(), ConfigError> {
        let cannot = |error: io::Error| {
            ConfigError::file(&self.file(), format!("cannot be written: {error}"))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.data).map_err(cannot)?;
        let lock = self.create("trusted.lock", false).map_err(cannot)?;
        lock.lock().map_err(cannot)?;
        let mut lists = Lists { trusted: self.list()?, refused: self.refused()? };
        let (trusted, refused) = (lists.trusted.clone(), lists.refused.clone());
        edit(&mut lists);
        for (name, before, after) in
            [(TRUSTED, trusted, lists.trusted), (REFUSED, refused, lists.refused)]
        {
            if before != after {
                self.replace(name, &after).map_err(cannot)?;
            }
        }
        Ok(())
    }

    fn replace(&self, name: &str, directories: &[PathBuf]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for directory in directories {
            bytes.extend_from_slice(directory.as_os_str().as_bytes());
            bytes.push(b'\n');
        }
        let fresh = format!("{name}.new");
        let mut file = self.create(&fresh, true)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(self.data.join(fresh), self.data.join(name))?;
        File::open(&self.data)?.sync_all()
    }

    fn create(&self, name: &str, empty: bool) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(empty).mode(0o600).custom_flags(flags);
        options.open(self.data.join(name))
    }
}

/// The canonical path of a directory that the lists can contain.
fn listable(directory: &Path) -> Result<PathBuf, ConfigError> {
    let directory = directory
        .canonicalize()
        .map_err(|error| ConfigError::file(directory, format!("cannot be trusted: {error}")))?;
    if !directory.is_dir() {
        return Err(ConfigError::file(&directory, "only a directory can be trusted"));
    }
    if directory.as_os_str().as_bytes().contains(&b'\n') {
        return Err(ConfigError::file(&directory, "a name with a line break cannot be stored"));
    }
    Ok(directory)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
