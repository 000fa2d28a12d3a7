//! Workspaces that turns have open right now: those that work in one directory share it. Of those
//! that nobody works in only the last is kept, for the next turn is mostly where the last one was.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Walls, Workspace, WorkspaceError};

#[derive(Default)]
pub struct OpenWorkspaces {
    /// What none of them shows.
    walls: Walls,
    /// A lock, not a task: held for a look-up.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    open: HashMap<PathBuf, Weak<Workspace>>,
    last: Option<Arc<Workspace>>,
}

impl OpenWorkspaces {
    pub fn behind(walls: Walls) -> Self {
        Self { walls, known: Mutex::default() }
    }

    /// The directory that the path leads to now, whether it is open already or not.
    pub fn open(&self, path: &Path) -> Result<Arc<Workspace>, WorkspaceError> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().open.get(path).and_then(Weak::upgrade);
        let opened = match known.filter(|known| known.is_at(path)) {
            Some(known) => known,
            None => Arc::new(Workspace::open_behind(path, &self.walls)?),
        };
        let mut known = lock();
        if known.last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &opened)) {
            known.open.insert(path.to_owned(), Arc::downgrade(&opened));
            known.last = Some(opened.clone());
            known.open.retain(|_, workspace| workspace.strong_count() > 0);
        }
        Ok(opened)
    }
}
