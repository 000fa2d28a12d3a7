//! How much copies take, and how they are removed, to the last byte.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::repository::is_clone_name;

use super::CloneError;
use crate::workspace::{Workspace, shown};

/// In a base: how large its copy was when it was made.
pub(super) const SIZE: &str = "size";

/// What all copies take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Taken {
    pub bytes: u64,
    pub count: u64,
}

pub(super) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

pub(super) async fn is_directory(path: &Path) -> bool {
    tokio::fs::symlink_metadata(path).await.is_ok_and(|found| found.is_dir())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Everything below this directory, and all that was written before, is on the disk when this returns:
/// one call for the whole file system instead of one a file. Fails where something could not be
/// written. Blocks.
pub(super) fn make_durable(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(fs::File::open(directory)?)?)
}

/// The same for the name alone.
pub(super) fn make_name_durable(path: &Path) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("it has no parent"))?;
    fs::File::open(parent)?.sync_all()
}

/// What can not be removed now is a leftover, and those are removed by whoever comes next.
pub(super) async fn remove(copy: &Path) {
    let copy = copy.to_owned();
    if let Some(Err(error)) = blocking(move || remove_copy(&copy)).await {
        tracing::warn!(%error, "a copy of a repository could not be removed");
    }
}

/// Removes the copy at this path, whole or not, and all that lies beside it. Blocks.
pub fn remove_copy(copy: &Path) -> io::Result<()> {
    let (Some(directory), Some(name)) =
        (copy.parent(), copy.file_name().and_then(|it| it.to_str()))
    else {
        return Err(io::Error::other("it has no name"));
    };
    let gone = format!("{name}.gone-");
    for part in [name.to_owned(), format!("{name}.new"), format!("{name}.base")] {
        let aside = directory.join(format!("{gone}{}", uuid::Uuid::now_v7()));
        match fs::rename(directory.join(part), aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&gone)) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a directory and everything in it, also where something in it forbids that.
fn remove_tree(path: &Path) -> io::Result<()> {
    let gone = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    };
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path).or_else(gone)
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            fs::remove_file(path).or_else(gone)
        }
        removed => removed.or_else(gone),
    }
}

/// Some programs take the right to write from the directories that they make.
fn open_up(directory: &Path) {
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Makes the directory of all copies, for us alone, and takes a place in it; says what was taken
/// before. A copy that is still made counts as the largest that there may be.
pub(super) async fn take(
    room: &Arc<Mutex<()>>,
    directory: &Path,
    new: &Path,
    largest: u64,
) -> Result<Taken, CloneError> {
    let (room, directory, new) = (room.clone(), directory.to_owned(), new.to_owned());
    let look = move || {
        let _room = room.lock().unwrap_or_else(PoisonError::into_inner);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut taken = Taken::default();
        for copy in copies(&directory)? {
            taken.count += 1;
            let mut base = copy.into_os_string();
            base.push(".base");
            let size = fs::read_to_string(Path::new(&base).join(SIZE));
            let size = size.ok().and_then(|text| text.trim().parse().ok());
            taken.bytes = taken.bytes.saturating_add(size.unwrap_or(largest));
        }
        DirBuilder::new().mode(0o700).create(&new)?;
        Ok(taken)
    };
    let looked: io::Result<Taken> =
        blocking(look).await.unwrap_or_else(|| Err(io::Error::other("interrupted")));
    looked.map_err(|error| {
        CloneError::failed(format!("there is no place for a copy of the repository: {error}"))
    })
}

/// The paths of the copies below a directory, whole or not; each once. Blocks.
pub fn copies(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let plain = name.split('.').next().unwrap_or(name);
        // Whatever else somebody keeps there is none of ours.
        found.extend(is_clone_name(plain).then(|| directory.join(plain)));
    }
    Ok(found.into_iter().collect())
}

/// Bytes and files below a directory; what vanishes meanwhile does not count.
pub(super) async fn measure(directory: &Path) -> (u64, u64) {
    let directory = directory.to_owned();
    blocking(move || weigh(&directory)).await.unwrap_or_default()
}

fn weigh(directory: &Path) -> (u64, u64) {
    let Ok(entries) = fs::read_dir(directory) else { return (0, 0) };
    entries.flatten().fold((0, 0), |(bytes, files), entry| match entry.metadata() {
        Ok(found) if found.is_dir() => {
            let (more, within) = weigh(&entry.path());
            (bytes + more, files + within)
        }
        Ok(found) => (bytes + found.len(), files + 1),
        Err(_) => (bytes, files),
    })
}

/// Whether the name can be one of a directory in a copy, before there is one.
pub(super) fn check_name(directory: Option<&str>) -> Result<(), CloneError> {
    let Some(name) = directory else { return Ok(()) };
    let has = |wanted: &str| name.split('/').any(|part| part.eq_ignore_ascii_case(wanted));
    let why = match name {
        _ if Path::new(name).is_absolute() || has("..") => "is not inside the repository",
        _ if has(".git") => "is git's own",
        _ => return Ok(()),
    };
    let name = shown(name);
    Err(CloneError::failed(format!("the directory `{name}` {why}: name one with its files")))
}

/// The directory of a copy that is worked in. No link on the way: what the repository holds does
/// not decide what is worked in. Blocks.
pub(crate) fn open(copy: &Path, directory: Option<&str>) -> Result<Workspace, CloneError> {
    let failed = |error: crate::workspace::WorkspaceError| CloneError::failed(error.to_string());
    let root = Workspace::open(copy).map_err(failed)?;
    let Some(name) = directory else { return Ok(root) };
    check_name(directory)?;
    let place = root.locate(name).map_err(failed)?;
    if place.is_root() {
        return Ok(root);
    }
    root.open_real_directory(&place).map_err(failed)?;
    let wanted = root.path().join(place.as_str());
    let opened = Workspace::open(&wanted).map_err(failed)?;
    match opened.path() == wanted {
        true => Ok(opened),
        false => Err(CloneError::failed(format!("`{place}` changed while it was opened"))),
    }
}
