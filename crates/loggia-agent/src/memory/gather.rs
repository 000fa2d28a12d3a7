//! Reads memory files and their imports, each file once.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use super::imports::{imports, looks_like_file, without_punctuation};
use super::{Content, FILE_LIMIT, LIMIT, MemoryFile, NAMES, USER_FILE};
use crate::repository_tree::RepositoryTree;
use crate::workspace::{
    OpenFile, Workspace, WorkspaceError, WorkspaceErrorKind as Kind, WorkspacePath, shown,
};

/// Imports that lead to imports.
const DEEPEST: usize = 5;
/// Files of one conversation's memory, and words that may be imports.
const MOST_FILES: usize = 100;
const MOST_IMPORTS: usize = 1000;
/// Bytes that are read in all. Much more than is used, so only a hostile tree reaches it.
const MOST_BYTES: usize = 4 * 1024 * 1024;
const MOST_REMARKS: usize = 20;

/// The files in the order in which the model reads them.
#[derive(Default)]
pub struct Gathered {
    pub files: Vec<MemoryFile>,
    /// Imports without effect.
    pub remarks: Vec<String>,
    /// Names and complete texts of the files so far.
    texts: Vec<(String, String)>,
    bytes: usize,
    /// The number of imports so far.
    imports: usize,
    imported: HashSet<WorkspacePath>,
}

/// A directory tree that imports are confined to.
struct ImportTree<'a> {
    root: &'a Workspace,
    /// The name to show for a path.
    display: &'a dyn Fn(&WorkspacePath) -> String,
    allowed: fn(&WorkspacePath) -> bool,
}

impl Gathered {
    /// Starts with texts that the model already has.
    pub fn after(texts: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { texts: texts.into_iter().collect(), ..Self::default() }
    }

    /// The user's own file, with imports from its directory.
    pub fn user(&mut self, path: &Path) {
        // The path is omitted because clients of a server also read this.
        let Some(text) = self.add(USER_FILE.to_owned(), 0, read_user(path)) else { return };
        let opened = path.parent().map(Workspace::open);
        let (Some(Ok(root)), Some(name)) = (opened, path.file_name()) else { return };
        let Ok(file) = root.locate(&name.to_string_lossy()) else { return };
        let display = |path: &WorkspacePath| format!("{path} in the configuration directory");
        // Loggia's keys and settings are in the same directory.
        let allowed = |path: &WorkspacePath| {
            [".md", ".txt"].iter().any(|ending| path.as_str().ends_with(ending))
        };
        let tree = ImportTree { root: &root, display: &display, allowed };
        self.import(&tree, &mut vec![file], 0, &text);
        // The paths of the repository are relative to another directory.
        self.imported.clear();
    }

    /// The files of one directory: the first of [`NAMES`] that has a text, with its imports.
    pub fn directory(&mut self, tree: &RepositoryTree, directory: &WorkspacePath, rank: usize) {
        let display = |path: &WorkspacePath| tree.display(path);
        let imports = ImportTree { root: tree.root(), display: &display, allowed: |_| true };
        let mut used: Option<String> = None;
        for name in NAMES {
            let path = directory.child(name);
            let shown_name = tree.display(&path);
            let content = read(tree.root(), &path);
            if matches!(content, Err(Content::Missing)) {
                continue;
            }
            if let Some(instead) = &used {
                let content = Err(Content::NotUsed { instead: instead.clone() });
                self.add(shown_name, rank, content);
                continue;
            }
            let known = self.files.len();
            let text = self.add(shown_name.clone(), rank, content);
            let is_used = self.files.get(known).is_some_and(|file| file.content.is_used());
            used = is_used.then_some(shown_name);
            if let Some(text) = text {
                self.import(&imports, &mut vec![path], rank, &text);
            }
        }
    }

    /// Returns the text if it is new.
    fn add(&mut self, name: String, rank: usize, read: Result<String, Content>) -> Option<String> {
        let (content, text) = match read {
            Err(content) => (content, None),
            Ok(text) if text.trim().is_empty() => (Content::Empty, None),
            Ok(text) => match self.texts.iter().find(|(_, known)| *known == text) {
                Some((other, _)) => (Content::Same { other: other.clone() }, None),
                None => {
                    self.bytes += text.len();
                    self.texts.push((name.clone(), text.clone()));
                    (Content::Text { text: text.clone(), left_out: 0 }, Some(text))
                }
            },
        };
        self.files.push(MemoryFile { name, rank, content });
        text
    }

    /// Adds the imports of a text behind it. `chain` ends with the file that the text is from.
    fn import(
        &mut self,
        tree: &ImportTree<'_>,
        chain: &mut Vec<WorkspacePath>,
        rank: usize,
        text: &str,
    ) {
        let Some(from) = chain.last().cloned() else { return };
        let from_name = (tree.display)(&from);
        let used = text.get(..text.floor_char_boundary(LIMIT)).unwrap_or_default();
        for word in imports(used) {
            if !self.may_import() {
                return;
            }
            let why = match self.import_one(tree, chain, &from, word) {
                Ok(Some((path, text))) => {
                    let name = format!("{}, imported by {from_name}", (tree.display)(&path));
                    if let Some(text) = self.add(name, rank, Ok(text)) {
                        chain.push(path);
                        self.import(tree, chain, rank, &text);
                        chain.pop();
                    }
                    continue;
                }
                Ok(None) => continue,
                Err(_) if !looks_like_file(word) => continue,
                Err(error) => error.message,
            };
            let remark = format!("`@{}` in {from_name}: not imported, {why}", shown(word));
            if self.remarks.len() < MOST_REMARKS && !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
    }

    /// Counts an import. Adds a remark when the limits are reached.
    fn may_import(&mut self) -> bool {
        self.imports += 1;
        if self.imports == MOST_IMPORTS
            || self.files.len() >= MOST_FILES
            || self.bytes >= MOST_BYTES
        {
            self.imports = self.imports.max(MOST_IMPORTS);
            let remark = "not everything is imported, there are too many imports".to_owned();
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        self.imports < MOST_IMPORTS
    }

    /// The imported file and its text; None if it was imported before.
    fn import_one(
        &mut self,
        tree: &ImportTree<'_>,
        chain: &[WorkspacePath],
        from: &WorkspacePath,
        word: &str,
    ) -> Result<Option<(WorkspacePath, String)>, WorkspaceError> {
        let refused = |why: &str| WorkspaceError::new(Kind::Denied, why);
        let (path, mut file) = open(tree, from, word)?;
        if chain.contains(&path) {
            return Err(refused("a cycle"));
        }
        if chain.len() > DEEPEST {
            return Err(refused(&format!("imports are nested deeper than {DEEPEST}")));
        }
        if !self.imported.insert(path.clone()) {
            return Ok(None);
        }
        let text = text(file.read_whole(&path, FILE_LIMIT)?).map_err(refused)?;
        let is_known = self.texts.iter().any(|(_, known)| *known == text);
        Ok((!is_known).then_some((path, text)))
    }
}

/// Opens the file that a word names, relative to the directory of the importing file.
fn open(
    tree: &ImportTree<'_>,
    from: &WorkspacePath,
    word: &str,
) -> Result<(WorkspacePath, OpenFile), WorkspaceError> {
    let directory = from.split().map(|(directory, _)| directory).filter(|at| !at.is_root());
    let open = |word: &str| {
        let text = match directory.as_ref().filter(|_| !word.starts_with(['/', '~'])) {
            Some(directory) => format!("{}/{word}", directory.as_str()),
            None => word.to_owned(),
        };
        let path = tree.root.locate(&text)?;
        if !(tree.allowed)(&path) {
            let why = "only `.md` and `.txt` files are imported here";
            return Err(WorkspaceError::new(Kind::Denied, why));
        }
        tree.root.open_file(&path).map(|file| (path, file))
    };
    let short = without_punctuation(word);
    match open(word) {
        Err(_) if short != word && !short.is_empty() => open(short),
        opened => opened,
    }
}

fn read(root: &Workspace, path: &WorkspacePath) -> Result<String, Content> {
    let bytes = root.open_file(path).and_then(|mut file| file.read_whole(path, FILE_LIMIT));
    let bytes = bytes.map_err(|error| match error.kind {
        Kind::NotFound | Kind::NotADirectory => Content::Missing,
        _ => Content::Unreadable { why: error.message },
    })?;
    text(bytes).map_err(|why| Content::Unreadable { why: why.into() })
}

/// The user's file is outside every workspace, so links are followed.
fn read_user(path: &Path) -> Result<String, Content> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Content::Missing,
        _ => Content::Unreadable { why: error.to_string() },
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(Content::Unreadable { why: "it is not a file".into() });
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_LIMIT {
        let why = format!("it has more than {FILE_LIMIT} bytes");
        return Err(Content::Unreadable { why });
    }
    text(bytes).map_err(|why| Content::Unreadable { why: why.into() })
}

fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
    if text.contains('\0') { Err("it is a binary file") } else { Ok(text) }
}
