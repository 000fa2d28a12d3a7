//! Directories whose configuration a person has agreed to: `trusted` in the data directory, one
//! full path a line.
//!
//! Trust is for exactly that directory, neither above nor below it. The list lies outside every
//! workspace, and counts only while nobody but its owner can write it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{ConfigError, Paths};

const MAX_BYTES: u64 = 1024 * 1024;

pub struct Trust {
    data: PathBuf,
}

impl Trust {
    pub fn new(paths: &Paths) -> Self {
        Self { data: paths.data.clone() }
    }

    /// The file, for messages.
    pub fn file(&self) -> PathBuf {
        self.data.join("trusted")
    }

    pub fn is_trusted(&self, directory: &Path) -> Result<bool, ConfigError> {
        let trusted = self.list()?;
        Ok(directory.canonicalize().is_ok_and(|directory| trusted.contains(&directory)))
    }

    pub fn list(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let bytes = self.read()?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| PathBuf::from(OsString::from_vec(line.to_vec()))).collect())
    }

    /// Returns the path that is trusted from now on.
    pub fn trust(&self, directory: &Path) -> Result<PathBuf, ConfigError> {
        let directory = directory
            .canonicalize()
            .map_err(|error| ConfigError::file(directory, format!("cannot be trusted: {error}")))?;
        if !directory.is_dir() {
            return Err(ConfigError::file(&directory, "only a directory can be trusted"));
        }
        if directory.as_os_str().as_bytes().contains(&b'\n') {
            return Err(ConfigError::file(&directory, "a name with a line break cannot be kept"));
        }
        self.change(|trusted| {
            if !trusted.contains(&directory) {
                trusted.push(directory.clone());
            }
        })?;
        Ok(directory)
    }

    /// Returns false when the directory was not trusted. It need not exist any more.
    pub fn revoke(&self, directory: &Path) -> Result<bool, ConfigError> {
        let named =
            std::path::absolute(directory).map_err(|error| ConfigError::file(directory, error))?;
        let real = directory.canonicalize().unwrap_or_else(|_| named.clone());
        let mut found = false;
        self.change(|trusted| {
            let before = trusted.len();
            trusted.retain(|path| *path != named && *path != real);
            found = trusted.len() < before;
        })?;
        Ok(found)
    }

    fn read(&self) -> Result<Vec<u8>, ConfigError> {
        let path = self.file();
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
                "others may write this list, so it cannot be believed; look through it, then run \
                 chmod 600 on it"
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

    /// Changes the list as a whole: another process sees it before or after, never in between.
    fn change(&self, edit: impl FnOnce(&mut Vec<PathBuf>)) -> Result<(), ConfigError> {
        let cannot = |error: io::Error| {
            ConfigError::file(&self.file(), format!("cannot be written: {error}"))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.data).map_err(cannot)?;
        let lock = self.create("trusted.lock", false).map_err(cannot)?;
        lock.lock().map_err(cannot)?;
        let mut trusted = self.list()?;
        edit(&mut trusted);
        let mut bytes = Vec::new();
        for directory in &trusted {
            bytes.extend_from_slice(directory.as_os_str().as_bytes());
            bytes.push(b'\n');
        }
        self.replace(&bytes).map_err(cannot)
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create("trusted.new", true)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(self.data.join("trusted.new"), self.file())?;
        File::open(&self.data)?.sync_all()
    }

    fn create(&self, name: &str, empty: bool) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(empty).mode(0o600).custom_flags(flags);
        options.open(self.data.join(name))
    }
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
