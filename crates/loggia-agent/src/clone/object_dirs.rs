//! The directories from which git reads a local repository's objects. Files in the repository can name
//! other directories; without this check a client could clone objects that it must not read.

use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a file that names another directory.
const LONGEST: u64 = 64 * 1024;

/// Every directory that git would read, without links. Fails if they cannot be determined. Blocks.
pub(super) fn find(repository: &Path) -> io::Result<Vec<PathBuf>> {
    let inner = repository.join(".git");
    let git = match inner.is_file() {
        true => target(&inner, "gitdir: ", repository)?.unwrap_or(inner),
        false if inner.exists() => inner,
        false => repository.to_owned(),
    };
    let common = target(&git.join("commondir"), "", &git)?.unwrap_or_else(|| git.clone());
    let objects = common.join("objects");
    let mut directories = vec![repository.to_owned(), git, common.join("refs"), common];
    for line in text(&objects.join("info/alternates"))?.unwrap_or_default().lines() {
        if line.starts_with('"') {
            return Err(io::Error::other("a quoted path"));
        }
        directories.push(objects.join(line));
    }
    directories.push(objects);
    Ok(directories.iter().filter_map(|path| path.canonicalize().ok()).collect())
}

/// The directory that a file names, relative to `base`; None if there is no such file.
fn target(file: &Path, prefix: &str, base: &Path) -> io::Result<Option<PathBuf>> {
    let Some(text) = text(file)? else { return Ok(None) };
    let path = text.trim_end_matches(['\n', '\r']).strip_prefix(prefix);
    path.map(|path| Some(base.join(path))).ok_or_else(|| io::Error::other("not a path"))
}

fn text(file: &Path) -> io::Result<Option<String>> {
    match file.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(found) if found.is_file() && found.len() <= LONGEST => {
            std::fs::read_to_string(file).map(Some)
        }
        Ok(_) => Err(io::Error::other("not a short file")),
    }
}
