//! Commands from files: where they are looked for, which of them count, and what they say.
//!
//! Files are looked at whenever somebody asks, and read again when they have changed. What comes with
//! a project counts once its directory is trusted. Everything here blocks, but [`expand`].

pub mod expand;
mod file;
mod template;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::slash::custom::{is_custom_name, is_taken};
use loggia_core::{CustomCommand, CustomCommands};
use rustix::fs::{Dir, FileType};

use crate::workspace::{Place, Workspace, WorkspaceErrorKind, shown};
use file::{Written, Wrong};

/// Directories of a project, the first one first.
const PLACES: [&str; 5] = [
    ".loggia/commands",
    ".claude/commands",
    ".gemini/commands",
    ".opencode/commands",
    ".opencode/command",
];
/// Bytes of one file.
const FILE_LIMIT: u64 = 64 * 1024;
/// Commands of all places together; further files are left out.
const MOST_COMMANDS: usize = 256;
/// Entries of one place that are looked at.
const MOST_ENTRIES: usize = 2_000;
/// Directories below each other; each is a namespace.
const DEEPEST: usize = 4;
/// Letters of a name, its namespaces included.
const LONGEST_NAME: usize = 100;
/// Sentences about files that do not count.
const MOST_NOTES: usize = 20;
/// Files that are remembered as read, of all workspaces.
const MOST_KEPT: usize = 4_096;

type Trusted = Box<dyn Fn(&Path) -> bool + Send + Sync>;

pub struct CommandFiles {
    /// The directory of the user's own.
    user: PathBuf,
    trusted: Trusted,
    /// A lock, not a task: held for a look-up.
    kept: Mutex<HashMap<PathBuf, Kept>>,
}

struct Kept {
    stamp: Stamp,
    read: Result<Arc<Written>, Wrong>,
}

/// Another one: another file, or another content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A command and what it says.
struct Found {
    command: CustomCommand,
    written: Arc<Written>,
}

/// A place with its files.
struct Shelf {
    root: Workspace,
    place: Place,
    /// What people are shown before a file's name.
    shown: String,
}

#[derive(Default)]
struct Search {
    found: Vec<Found>,
    notes: Vec<String>,
}

impl Search {
    fn note(&mut self, note: String) {
        match self.notes.len() {
            0..MOST_NOTES => self.notes.push(note),
            MOST_NOTES => self.notes.push("and more".to_owned()),
            _ => {}
        }
    }
}

impl CommandFiles {
    /// `user` is the directory of the user's own commands; `trusted` says whether a project's count.
    pub fn new(user: PathBuf, trusted: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self { user, trusted: Box::new(trusted), kept: Mutex::default() }
    }

    /// The commands that count in a workspace now.
    pub fn list(&self, workspace: &Path) -> CustomCommands {
        let Search { found, notes } = self.search(workspace);
        CustomCommands { commands: found.into_iter().map(|found| found.command).collect(), notes }
    }

    /// What a project's files are called that would count, were it trusted.
    pub fn untrusted(&self, workspace: &Path) -> Vec<String> {
        match Workspace::open(workspace) {
            Ok(root) if !(self.trusted)(root.path()) => names(&root, &mut Search::default()),
            _ => Vec::new(),
        }
    }

    fn find(&self, workspace: &Path, name: &str) -> Option<Found> {
        let mut found = self.search(workspace).found.into_iter();
        found.find(|found| found.command.name.eq_ignore_ascii_case(name))
    }

    /// Projects before the user, so that a project can have its own way of something.
    fn search(&self, workspace: &Path) -> Search {
        let mut search = Search::default();
        if let Ok(root) = Workspace::open(workspace) {
            match (self.trusted)(root.path()) {
                true => {
                    let shelves = shelves(&root, &mut search);
                    shelves.iter().for_each(|shelf| self.take(shelf, &mut search));
                }
                false => {
                    let note = not_trusted(&names(&root, &mut search));
                    note.into_iter().for_each(|note| search.note(note));
                }
            }
        }
        if let Ok(root) = Workspace::open(&self.user) {
            let shown = shown(&self.user.to_string_lossy());
            self.take(&Shelf { root, place: Place::root(), shown }, &mut search);
        }
        search.found.sort_by(|a, b| a.command.name.cmp(&b.command.name));
        search
    }

    fn take(&self, shelf: &Shelf, search: &mut Search) {
        for (place, name) in shelf.files(search) {
            let source = shelf.source(&place);
            if is_taken(&name) {
                search.note(format!("`{source}`: `/{name}` is a command of Loggia's own"));
                continue;
            }
            let same = |known: &&Found| known.command.name.eq_ignore_ascii_case(&name);
            if let Some(known) = search.found.iter().find(same) {
                let other = known.command.source.clone();
                search.note(format!("`{source}`: `/{name}` is that of `{other}`"));
                continue;
            }
            if search.found.len() >= MOST_COMMANDS {
                search.note(format!("`{source}`: there are {MOST_COMMANDS} commands already"));
                return;
            }
            match self.read(shelf, &place) {
                Ok(written) => {
                    let command = CustomCommand {
                        name,
                        description: written.description.clone(),
                        hint: written.hint.clone(),
                        source,
                        runs: written.template.runs(),
                        ignored: written.ignored.clone(),
                    };
                    search.found.push(Found { command, written });
                }
                Err(Wrong { line: Some(line), why }) => {
                    search.note(format!("`{source}`, line {line}: {why}"));
                }
                Err(Wrong { line: None, why }) => search.note(format!("`{source}`: {why}")),
            }
        }
    }

    /// Reads a file, unless it is as it was.
    fn read(&self, shelf: &Shelf, place: &Place) -> Result<Arc<Written>, Wrong> {
        let wrong = |why: String| Wrong { line: None, why };
        let mut opened =
            shelf.root.open_file(place).map_err(|error| wrong(error.message.clone()))?;
        let stamp = Stamp::of(&opened.file).map_err(|error| wrong(error.to_string()))?;
        let key = PathBuf::from(shelf.root.absolute(place));
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(&key).filter(|kept| kept.stamp == stamp) {
            return kept.read.clone();
        }
        let bytes = opened.read_whole(place, FILE_LIMIT).map_err(|error| wrong(error.message))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text".into()));
        let read = text.and_then(|text| match place.as_str().ends_with(".toml") {
            true => file::toml(&text),
            false => file::markdown(&text),
        });
        let read = read.map(Arc::new);
        let mut kept = lock();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, Kept { stamp, read: read.clone() });
        read
    }
}

impl Stamp {
    fn of(file: &std::fs::File) -> std::io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

fn shelves(root: &Workspace, search: &mut Search) -> Vec<Shelf> {
    PLACES.iter().filter_map(|place| shelf(root, place, search)).collect()
}

fn names(root: &Workspace, search: &mut Search) -> Vec<String> {
    let shelves = shelves(root, search);
    shelves.iter().flat_map(|shelf| shelf.files(search)).map(|(_, name)| name).collect()
}

/// A project's place; None where there is none, or one that leads elsewhere.
fn shelf(root: &Workspace, place: &str, search: &mut Search) -> Option<Shelf> {
    let place = root.locate(place).ok()?;
    match root.open_directory(&place) {
        Ok(_) => {}
        Err(error) if error.kind == WorkspaceErrorKind::NotFound => return None,
        Err(error) => {
            search.note(error.message);
            return None;
        }
    }
    let root = Workspace::open(root.path()).ok()?;
    Some(Shelf { root, shown: String::new(), place })
}

fn not_trusted(names: &[String]) -> Option<String> {
    let first: Vec<String> = names.iter().take(3).map(|name| format!("`/{name}`")).collect();
    let more = match names.len().saturating_sub(first.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "{}{more} of this directory, which is not trusted: read the files, then run `loggia trust`",
            first.join(", ")
        )
    })
}

impl Shelf {
    fn source(&self, place: &Place) -> String {
        match self.shown.is_empty() {
            true => place.to_string(),
            false => format!("{}/{place}", self.shown),
        }
    }

    /// Every file that is meant as a command, with its name, in order.
    fn files(&self, search: &mut Search) -> Vec<(Place, String)> {
        let mut files = Vec::new();
        let mut left = MOST_ENTRIES;
        self.enter(&self.place, "", DEEPEST, &mut left, &mut files, search);
        files
    }

    fn enter(
        &self,
        directory: &Place,
        namespace: &str,
        depth: usize,
        left: &mut usize,
        files: &mut Vec<(Place, String)>,
        search: &mut Search,
    ) {
        let listed =
            self.root.open_directory(directory).ok().and_then(|it| Dir::read_from(it).ok());
        let mut entries: Vec<(String, FileType)> = listed
            .into_iter()
            .flatten()
            .map_while(Result::ok)
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.file_type()))
            .filter(|(name, _)| !name.starts_with('.'))
            .take(*left)
            .collect();
        *left -= entries.len();
        if *left == 0 {
            let source = self.source(directory);
            search.note(format!("`{source}`: more than {MOST_ENTRIES} entries are not looked at"));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in entries {
            let place = directory.child(&name);
            // A link to a directory is not entered; one to a file is opened inside of the place only.
            let unknown = kind == FileType::Unknown && self.root.open_directory(&place).is_ok();
            if kind == FileType::Directory || unknown {
                let below = format!("{namespace}{name}:");
                match depth.checked_sub(1) {
                    Some(depth) => self.enter(&place, &below, depth, left, files, search),
                    None => search.note(format!("`{}`: too deep", self.source(&place))),
                }
                continue;
            }
            let Some(stem) = name.strip_suffix(".md").or_else(|| name.strip_suffix(".toml")) else {
                continue;
            };
            let name = format!("{namespace}{stem}");
            match is_custom_name(&name) && name.len() <= LONGEST_NAME {
                true => files.push((place, name)),
                false => search.note(format!(
                    "`{}`: a name is made of letters, digits, `-`, `_` and `.`",
                    self.source(&place)
                )),
            }
        }
    }
}

#[cfg(test)]
#[path = "custom/tests.rs"]
mod tests;
