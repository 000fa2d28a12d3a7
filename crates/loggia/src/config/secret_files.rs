//! The list of secret files: `secret-files` in the data directory, one absolute path per line.
//!
//! A token file or a TLS key can be named by a flag or a variable of one server. The list closes it to the
//! tools of every other Loggia process of this user, also after that server has ended. The tools read
//! the list (`loggia_agent::workspace::ReservedDirs`).

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{ConfigError, Paths};

pub fn list(paths: &Paths) -> PathBuf {
    paths.data.join("secret-files")
}

/// Adds the files of `found` that the list does not contain. Directories are left out: everything below
/// them would be closed.
pub fn add(paths: &Paths, found: &[PathBuf]) -> Result<(), ConfigError> {
    let file = list(paths);
    let cannot = |error: io::Error| ConfigError::file(&file, format!("cannot be written: {error}"));
    let mut found = found.iter().filter(|path| path.is_file()).peekable();
    if found.peek().is_none() {
        return Ok(());
    }
    if let Some(path) = found.clone().find(|path| path.as_os_str().as_bytes().contains(&b'\n')) {
        return Err(ConfigError::file(
            path,
            "a name with a line break cannot be stored: rename it",
        ));
    }
    append(&file, found.map(PathBuf::as_path)).map_err(cannot)
}

fn append<'a>(file: &Path, found: impl Iterator<Item = &'a Path>) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(flags);
    let mut opened = options.open(file)?;
    opened.lock()?;
    let mut listed = Vec::new();
    opened.read_to_end(&mut listed)?;
    let known: Vec<&[u8]> = listed.split(|byte| *byte == b'\n').collect();
    let mut fresh = Vec::new();
    for path in found.map(|path| path.as_os_str().as_bytes()).filter(|path| !known.contains(path)) {
        fresh.extend_from_slice(path);
        fresh.push(b'\n');
    }
    if !fresh.is_empty() {
        opened.write_all(&fresh)?;
        opened.sync_all()?;
    }
    Ok(())
}
