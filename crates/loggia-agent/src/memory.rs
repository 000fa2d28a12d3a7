//! Memory: the files with instructions of the user and of the repository, which the model reads.
//!
//! `AGENTS.md` in the configuration directory comes first, then one file of each directory from the root of
//! the repository down to the workspace: `AGENTS.md`, else `CLAUDE.md`, else `GEMINI.md`. Each is followed by
//! the files that it imports. Files of directories below the workspace come with the result of the first
//! call that uses the directory. All are only text for the model: they cannot change settings or allow
//! calls. Everything here blocks.

mod gather;
mod imports;

use std::path::Path;

use loggia_core::Note;

use crate::repository_tree::RepositoryTree;
use crate::workspace::WorkspacePath;
use gather::Gathered;

/// The display name of the user's own file.
const USER_FILE: &str = "AGENTS.md in the configuration directory";

/// The file that `/init` creates and `/memory add` appends to.
pub const AGENTS: &str = "AGENTS.md";
/// Only the first of them in a directory is used: the others usually say the same to other agents.
pub const NAMES: [&str; 3] = [AGENTS, "CLAUDE.md", "GEMINI.md"];
/// Bytes of all files together that the model is given, and again of the files below the workspace.
pub const LIMIT: usize = 32 * 1024;
/// A larger file is not read.
const FILE_LIMIT: u64 = 1024 * 1024;

const HEADING: &str = "Notes of the user and of this repository follow, the general ones first. They do not \
     replace any approval.";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    files: Vec<MemoryFile>,
    remarks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MemoryFile {
    /// The path as seen from the workspace, or [`USER_FILE`], and the file that imports it.
    name: String,
    /// If the files are too large, those with a low rank are used first: the user's own, then the nearest.
    rank: usize,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// The text that the model gets, and the number of bytes that it does not get.
    Text {
        text: String,
        left_out: usize,
    },
    /// The same text as in another file.
    Same {
        other: String,
    },
    /// Another file of the directory is used.
    NotUsed {
        instead: String,
    },
    Empty,
    Missing,
    Unreadable {
        why: String,
    },
}

impl Content {
    fn is_used(&self) -> bool {
        matches!(self, Content::Text { .. } | Content::Same { .. })
    }
}

impl Memory {
    pub fn read(tree: &RepositoryTree, user: Option<&Path>) -> Self {
        let mut gathered = Gathered::default();
        if let Some(path) = user {
            gathered.user(path);
        }
        let directories = tree.directories();
        for (index, directory) in directories.iter().enumerate() {
            gathered.directory(tree, directory, directories.len() - index);
        }
        if !gathered.files.iter().any(|file| file.rank == 1) {
            let (name, content) = (AGENTS.to_owned(), Content::Missing);
            gathered.files.push(MemoryFile { name, rank: 1, content });
        }
        Self::limited(gathered, LIMIT)
    }

    /// The files of a directory below the workspace that are not in this memory already; None if there are
    /// none. `room` limits their bytes.
    pub fn of_directory(
        &self,
        tree: &RepositoryTree,
        directory: &WorkspacePath,
        room: usize,
    ) -> Option<String> {
        if tree.root().excludes(&directory.child(AGENTS)) {
            return None;
        }
        let known = self.files.iter().filter_map(|file| match &file.content {
            Content::Text { text, .. } => Some((file.name.clone(), text.clone())),
            _ => None,
        });
        let mut gathered = Gathered::after(known);
        gathered.directory(tree, directory, 0);
        let texts = Self::limited(gathered, room).texts();
        (!texts.is_empty()).then(|| joined(&texts))
    }

    fn limited(gathered: Gathered, limit: usize) -> Self {
        let Gathered { mut files, remarks, .. } = gathered;
        let mut order: Vec<&mut MemoryFile> = files.iter_mut().collect();
        order.sort_by_key(|file| file.rank);
        let mut room = limit;
        for file in order {
            if let Content::Text { text, left_out } = &mut file.content {
                let end = text.floor_char_boundary(room);
                *left_out = text.len() - end;
                text.truncate(end);
                room -= end;
            }
        }
        Self { files, remarks }
    }

    /// The notes for the model, one for each file, so that only changed files are sent again.
    pub fn notes(&self) -> Vec<Note> {
        let texts = self.texts();
        if texts.is_empty() {
            return Vec::new();
        }
        let heading = Note { name: "Memory".to_owned(), text: HEADING.to_owned() };
        std::iter::once(heading).chain(texts).collect()
    }

    fn texts(&self) -> Vec<Note> {
        let notes = self.files.iter().filter_map(|MemoryFile { name, content, .. }| {
            let Content::Text { text, left_out } = content else { return None };
            let cut = match left_out {
                0 => String::new(),
                bytes => format!("\n({bytes} more bytes are left out)"),
            };
            let text = format!("--- {name} ---\n{}{cut}", text.trim_end());
            Some(Note { name: format!("Memory file {name}"), text })
        });
        notes.collect()
    }

    /// The notes as one text; None if there are none.
    pub fn block(&self) -> Option<String> {
        let notes = self.notes();
        (!notes.is_empty()).then(|| joined(&notes))
    }

    /// One line for each file: how much of it is used, or why it is not.
    pub fn list(&self) -> String {
        let files = self.files.iter().map(|MemoryFile { name, content, .. }| match content {
            Content::Text { text, left_out: 0 } => format!("{name}: {} bytes", text.len()),
            Content::Text { text, left_out } => {
                let whole = text.len() + left_out;
                format!("{name}: {} of {whole} bytes (the limit is {LIMIT})", text.len())
            }
            Content::Same { other } => format!("{name}: the same as {other}"),
            Content::NotUsed { instead } => format!("{name}: not used, {instead} is"),
            Content::Empty => format!("{name}: empty"),
            Content::Missing => format!("{name}: missing"),
            Content::Unreadable { why } => format!("{name}: unreadable, {why}"),
        });
        files.chain(self.remarks.iter().cloned()).collect::<Vec<_>>().join("\n")
    }

    /// Files that are not used completely.
    pub fn warning(&self) -> Option<String> {
        let cut = |file: &&MemoryFile| matches!(&file.content, Content::Text { left_out, .. } if *left_out > 0);
        let unread = |file: &&MemoryFile| matches!(file.content, Content::Unreadable { .. });
        let named = |files: Vec<&MemoryFile>| {
            files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let cut: Vec<&MemoryFile> = self.files.iter().filter(cut).collect();
        let unread: Vec<&MemoryFile> = self.files.iter().filter(unread).collect();
        let mut sentences = Vec::new();
        if !cut.is_empty() {
            let limit = LIMIT / 1024;
            sentences.push(format!("more than {limit} KiB of memory: cut short in {}", named(cut)));
        }
        if !unread.is_empty() {
            sentences.push(format!("memory that cannot be read: {}", named(unread)));
        }
        (!sentences.is_empty()).then(|| format!("{}; see /memory list", sentences.join("; ")))
    }
}

fn joined(notes: &[Note]) -> String {
    notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
