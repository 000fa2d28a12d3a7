//! The disk space of clones, and their removal.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::repository::is_clone_name;

use super::CloneError;
use crate::workspace::{Workspace, shown};

/// The file in a base with the size of its clone when it was created.
pub(super) const SIZE: &str = "size";

/// The disk space and number of all clones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DiskUsage {
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

/// Syncs the file system of this directory: one call instead of one for each file. Blocks.
pub(super) fn make_durable(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(fs::File::open(directory)?)?)
}

/// Syncs the directory entry of a path.
pub(super) fn make_name_durable(path: &Path) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("it has no parent"))?;
    fs::File::open(parent)?.sync_all()
}

/// If this fails, the next attempt or a later cleanup removes the rest.
pub(super) async fn remove(clone: &Path) {
    let clone = clone.to_owned();
    if let Some(Err(error)) = blocking(move || remove_clone(&clone)).await {
        tracing::warn!(%error, "a clone of a repository could not be removed");
    }
}

/// Removes the clone at this path, complete or not, with its base. Blocks.
pub fn remove_clone(clone: &Path) -> io::Result<()> {
    let (Some(directory), Some(name)) =
        (clone.parent(), clone.file_name().and_then(|it| it.to_str()))
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

/// Removes a directory tree, even if directories in it are not writable.
fn remove_tree(path: &Path) -> io::Result<()> {
    let gone = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    };
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path);
            fs::remove_dir_all(path).or_else(gone)
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            fs::remove_file(path).or_else(gone)
        }
        removed => removed.or_else(gone),
    }
}

/// Some programs create directories that are not writable.
fn make_writable(directory: &Path) {
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

/// Creates the directory of all clones with private permissions, and a directory for a new clone in it.
/// Returns the usage before. A clone that is still being created counts as the largest possible.
pub(super) async fn reserve(
    reservation: &Arc<Mutex<()>>,
    directory: &Path,
    new: &Path,
    largest: u64,
) -> Result<DiskUsage, CloneError> {
    let (reservation, directory, new) = (reservation.clone(), directory.to_owned(), new.to_owned());
    let reserve = move || {
        let _guard = reservation.lock().unwrap_or_else(PoisonError::into_inner);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut used = DiskUsage::default();
        for clone in list_clones(&directory)? {
            used.count += 1;
            let mut base = clone.into_os_string();
            base.push(".base");
            let size = fs::read_to_string(Path::new(&base).join(SIZE));
            let size = size.ok().and_then(|text| text.trim().parse().ok());
            used.bytes = used.bytes.saturating_add(size.unwrap_or(largest));
        }
        DirBuilder::new().mode(0o700).create(&new)?;
        Ok(used)
    };
    let reserved: io::Result<DiskUsage> =
        blocking(reserve).await.unwrap_or_else(|| Err(io::Error::other("interrupted")));
    reserved.map_err(|error| {
        CloneError::failed(format!("the directory for the repository cannot be created: {error}"))
    })
}

/// The paths of all clones in a directory, complete or not, each once. Blocks.
pub fn list_clones(directory: &Path) -> io::Result<Vec<PathBuf>> {
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
        // Other files in the directory are ignored.
        found.extend(is_clone_name(plain).then(|| directory.join(plain)));
    }
    Ok(found.into_iter().collect())
}

/// The bytes and the number of files below a directory. Files removed meanwhile are skipped.
pub(super) async fn measure(directory: &Path) -> (u64, u64) {
    let directory = directory.to_owned();
    blocking(move || measure_blocking(&directory)).await.unwrap_or_default()
}

fn measure_blocking(directory: &Path) -> (u64, u64) {
    let Ok(entries) = fs::read_dir(directory) else { return (0, 0) };
    entries.flatten().fold((0, 0), |(bytes, files), entry| match entry.metadata() {
        Ok(found) if found.is_dir() => {
            let (more, within) = measure_blocking(&entry.path());
            (bytes + more, files + within)
        }
        Ok(found) => (bytes + found.len(), files + 1),
        Err(_) => (bytes, files),
    })
}

/// Checks the name of a directory in a clone before the clone exists.
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

/// Opens the directory of a clone that a session works in. Its path must not contain links, so that the
/// repository cannot lead it elsewhere. Blocks.
pub(crate) fn open(clone: &Path, directory: Option<&str>) -> Result<Workspace, CloneError> {
    let failed = |error: crate::workspace::WorkspaceError| CloneError::failed(error.to_string());
    let root = Workspace::open(clone).map_err(failed)?;
    let Some(name) = directory else { return Ok(root) };
    check_name(directory)?;
    let path = root.locate(name).map_err(failed)?;
    if path.is_root() {
        return Ok(root);
    }
    root.open_real_directory(&path).map_err(failed)?;
    let wanted = root.path().join(path.as_str());
    let opened = Workspace::open(&wanted).map_err(failed)?;
    match opened.path() == wanted {
        true => Ok(opened),
        false => Err(CloneError::failed(format!("`{path}` changed while it was opened"))),
    }
}
