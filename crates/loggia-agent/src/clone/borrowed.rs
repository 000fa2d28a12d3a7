//! Where a repository of this machine has its commits, by its own word: a file in it may send git to
//! another place, and who can write files could so have cloned what is not theirs to read.

use std::io;
use std::path::{Path, PathBuf};

/// Of a file that says where else to look.
const LONGEST: u64 = 64 * 1024;

/// Every directory that git would read commits from, free of links. An error: that can not be said.
/// Blocks.
pub(super) fn places(repository: &Path) -> io::Result<Vec<PathBuf>> {
    let inner = repository.join(".git");
    let git = match inner.is_file() {
        true => pointed(&inner, "gitdir: ", repository)?.unwrap_or(inner),
        false if inner.exists() => inner,
        false => repository.to_owned(),
    };
    let common = pointed(&git.join("commondir"), "", &git)?.unwrap_or_else(|| git.clone());
    let objects = common.join("objects");
    let mut places = vec![repository.to_owned(), git, common.join("refs"), common];
    for line in text(&objects.join("info/alternates"))?.unwrap_or_default().lines() {
        if line.starts_with('"') {
            return Err(io::Error::other("a quoted path"));
        }
        places.push(objects.join(line));
    }
    places.push(objects);
    Ok(places.iter().filter_map(|path| path.canonicalize().ok()).collect())
}

/// What a file points to, if there is one.
fn pointed(file: &Path, word: &str, from: &Path) -> io::Result<Option<PathBuf>> {
    let Some(text) = text(file)? else { return Ok(None) };
    let path = text.trim_end_matches(['\n', '\r']).strip_prefix(word);
    path.map(|path| Some(from.join(path))).ok_or_else(|| io::Error::other("not a path"))
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
