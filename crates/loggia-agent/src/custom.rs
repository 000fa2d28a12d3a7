//! Custom commands: where their files are, which of them are used, and what they contain.
//!
//! The files are read for every listing and every use. A project's commands are used only if its
//! directory is trusted. Everything here blocks except [`expand`].

pub mod expand;
mod file;
mod template;

use std::path::{Path, PathBuf};

use loggia_core::slash::custom::{is_custom_name, is_taken};
use loggia_core::{CustomCommand, CustomCommands};
use rustix::fs::{Dir, FileType};

use crate::workspace::{Workspace, WorkspaceErrorKind, WorkspacePath, shown};
use file::{CommandFile, FileError};

/// Directories of a project, in order of precedence.
const PROJECT_DIRECTORIES: [&str; 5] = [
    ".loggia/commands",
    ".claude/commands",
    ".gemini/commands",
    ".opencode/commands",
    ".opencode/command",
];
/// Bytes of one file.
const FILE_LIMIT: u64 = 64 * 1024;
/// Commands of all directories together; further files are left out.
const MOST_COMMANDS: usize = 256;
/// Entries of one directory tree that are read.
const MOST_ENTRIES: usize = 2_000;
/// Levels of subdirectories. Each is a namespace.
const DEEPEST: usize = 4;
/// Bytes of a name, including its namespaces.
const LONGEST_NAME: usize = 100;
/// Notes about files that are not used.
const MOST_NOTES: usize = 20;

type Trusted = Box<dyn Fn(&Path) -> bool + Send + Sync>;

pub struct CommandFiles {
    /// The directory of the user's own commands.
    user: PathBuf,
    trusted: Trusted,
}

struct FoundCommand {
    command: CustomCommand,
    file: CommandFile,
}

/// A directory with command files.
struct CommandDirectory<'a> {
    root: &'a Workspace,
    path: WorkspacePath,
    /// The prefix of file names that are shown to people.
    shown: String,
}

#[derive(Default)]
struct Search {
    found: Vec<FoundCommand>,
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
    /// `user` is the directory of the user's own commands; `trusted` tells whether to use a project's.
    pub fn new(user: PathBuf, trusted: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self { user, trusted: Box::new(trusted) }
    }

    /// The commands of a workspace.
    pub fn list(&self, workspace: &Path) -> CustomCommands {
        let Search { found, notes } = self.search(workspace);
        CustomCommands { commands: found.into_iter().map(|found| found.command).collect(), notes }
    }

    /// The names of a project's commands that are not used because it is not trusted.
    pub fn untrusted(&self, workspace: &Path) -> Vec<String> {
        match Workspace::open(workspace) {
            Ok(root) if !(self.trusted)(root.path()) => names(&root, &mut Search::default()),
            _ => Vec::new(),
        }
    }

    fn find(&self, workspace: &Path, name: &str) -> Option<FoundCommand> {
        let mut found = self.search(workspace).found.into_iter();
        found.find(|found| found.command.name.eq_ignore_ascii_case(name))
    }

    /// A project's commands override the user's.
    fn search(&self, workspace: &Path) -> Search {
        let mut search = Search::default();
        if let Ok(root) = Workspace::open(workspace) {
            match (self.trusted)(root.path()) {
                true => {
                    let directories = project_directories(&root, &mut search);
                    directories.iter().for_each(|directory| directory.collect(&mut search));
                }
                false => {
                    let note = not_trusted(&names(&root, &mut search));
                    note.into_iter().for_each(|note| search.note(note));
                }
            }
        }
        if let Ok(root) = Workspace::open(&self.user) {
            let shown = shown(&self.user.to_string_lossy());
            let directory = CommandDirectory { root: &root, path: WorkspacePath::root(), shown };
            directory.collect(&mut search);
        }
        search.found.sort_by(|a, b| a.command.name.cmp(&b.command.name));
        search
    }
}

fn project_directories<'a>(root: &'a Workspace, search: &mut Search) -> Vec<CommandDirectory<'a>> {
    PROJECT_DIRECTORIES.iter().filter_map(|path| project_directory(root, path, search)).collect()
}

fn names(root: &Workspace, search: &mut Search) -> Vec<String> {
    let directories = project_directories(root, search);
    directories.iter().flat_map(|directory| directory.files(search)).map(|(_, name)| name).collect()
}

/// None if the directory is missing or leads out of the project.
fn project_directory<'a>(
    root: &'a Workspace,
    path: &str,
    search: &mut Search,
) -> Option<CommandDirectory<'a>> {
    let path = root.locate(path).ok()?;
    match root.open_directory(&path) {
        Ok(_) => Some(CommandDirectory { root, shown: String::new(), path }),
        Err(error) if error.kind == WorkspaceErrorKind::NotFound => None,
        Err(error) => {
            search.note(error.message);
            None
        }
    }
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

impl CommandDirectory<'_> {
    /// Adds the commands of this directory.
    fn collect(&self, search: &mut Search) {
        for (path, name) in self.files(search) {
            let source = self.source(&path);
            if is_taken(&name) {
                search.note(format!("`{source}`: `/{name}` is a built-in command"));
                continue;
            }
            let same = |known: &&FoundCommand| known.command.name.eq_ignore_ascii_case(&name);
            if let Some(known) = search.found.iter().find(same) {
                let other = known.command.source.clone();
                search.note(format!("`{source}`: `/{name}` is defined in `{other}`"));
                continue;
            }
            if search.found.len() >= MOST_COMMANDS {
                search.note(format!("`{source}`: there are {MOST_COMMANDS} commands already"));
                return;
            }
            match self.read(&path) {
                Ok(file) => {
                    let command = CustomCommand {
                        name,
                        description: file.description.clone(),
                        hint: file.hint.clone(),
                        source,
                        runs: file.template.runs(),
                        ignored: file.ignored.clone(),
                    };
                    search.found.push(FoundCommand { command, file });
                }
                Err(FileError { line: Some(line), why }) => {
                    search.note(format!("`{source}`, line {line}: {why}"));
                }
                Err(FileError { line: None, why }) => search.note(format!("`{source}`: {why}")),
            }
        }
    }

    fn read(&self, path: &WorkspacePath) -> Result<CommandFile, FileError> {
        let bytes =
            self.root.open_file(path).and_then(|mut file| file.read_whole(path, FILE_LIMIT));
        let bytes = bytes.map_err(|error| FileError::whole(error.message))?;
        let text =
            String::from_utf8(bytes).map_err(|_| FileError::whole("it is not UTF-8 text"))?;
        match path.as_str().ends_with(".toml") {
            true => file::toml(&text),
            false => file::markdown(&text),
        }
    }

    fn source(&self, path: &WorkspacePath) -> String {
        match self.shown.is_empty() {
            true => path.to_string(),
            false => format!("{}/{path}", self.shown),
        }
    }

    /// The command files with the names of their commands, sorted.
    fn files(&self, search: &mut Search) -> Vec<(WorkspacePath, String)> {
        let mut files = Vec::new();
        let mut left = MOST_ENTRIES;
        self.enter(&self.path, "", DEEPEST, &mut left, &mut files, search);
        files
    }

    fn enter(
        &self,
        directory: &WorkspacePath,
        namespace: &str,
        depth: usize,
        left: &mut usize,
        files: &mut Vec<(WorkspacePath, String)>,
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
            search.note(format!("`{source}`: only the first {MOST_ENTRIES} entries are read"));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in entries {
            let path = directory.child(&name);
            // A link to a directory is not entered. A link to a file must stay inside the root.
            let unknown = kind == FileType::Unknown && self.root.open_directory(&path).is_ok();
            if kind == FileType::Directory || unknown {
                let below = format!("{namespace}{name}:");
                match depth.checked_sub(1) {
                    Some(depth) => self.enter(&path, &below, depth, left, files, search),
                    None => search.note(format!("`{}`: too deep", self.source(&path))),
                }
                continue;
            }
            let Some(stem) = name.strip_suffix(".md").or_else(|| name.strip_suffix(".toml")) else {
                continue;
            };
            let name = format!("{namespace}{stem}");
            match is_custom_name(&name) && name.len() <= LONGEST_NAME {
                true => files.push((path, name)),
                false => search.note(format!(
                    "`{}`: a name may contain only letters, digits, `-`, `_` and `.`",
                    self.source(&path)
                )),
            }
        }
    }
}

#[cfg(test)]
#[path = "custom/tests.rs"]
mod tests;
