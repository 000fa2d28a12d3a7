//! The notes beside the prompts: memory files, and what the model must know about this session. They come
//! with the first message, and changes come with a later prompt, so that the beginning of a conversation
//! stays as it was sent. Each note is sent again only if its own text has changed.

use std::path::Path;
use std::sync::Arc;

use jiff::Zoned;
use jiff::civil::Date;
use loggia_core::{CallId, Mode, ModelRecord, Note, OnTimeout, Settings, Timeout};
use loggia_session::TurnContext;

use crate::memory::{LIMIT, Memory};
use crate::repository_tree::{RepositoryTree, TreeLimits};
use crate::workspace::Workspace;

/// The files around a turn, and the day, as they were when it began.
pub struct Surroundings {
    workspace: Arc<Workspace>,
    tree: RepositoryTree,
    pub memory: Memory,
    branch: Option<String>,
    date: Date,
}

impl Surroundings {
    /// `user` is the user's own memory file. Blocks.
    pub fn read(workspace: Arc<Workspace>, user: Option<&Path>, limits: &TreeLimits<'_>) -> Self {
        let tree = RepositoryTree::around(&workspace, limits);
        let memory = Memory::read(&tree, user);
        let (branch, date) = (tree.branch(), Zoned::now().date());
        Self { workspace, tree, memory, branch, date }
    }

    /// The current notes, in the order in which they are sent.
    pub fn notes(&self, context: &TurnContext) -> Vec<Note> {
        let settings = &context.settings;
        let notes = [
            Some(("Workspace", format!("The workspace is {}.", workspace_name(context)))),
            (!is_remote(context)).then(|| ("Platform", platform())),
            Some(("Date", format!("Today is {}.", self.date.strftime("%A, %Y-%m-%d")))),
            self.branch.as_ref().map(|branch| {
                (
                    "Branch",
                    format!("The workspace is in a git repository, on this branch: {branch}."),
                )
            }),
            Some(("Mode", mode(settings))),
            settings.tools.as_ref().map(|names| ("Tools", restricted_tools(names))),
        ];
        let notes = notes.into_iter().flatten();
        let notes = notes.map(|(name, text)| Note { name: name.to_owned(), text });
        self.memory.notes().into_iter().chain(notes).collect()
    }

    /// Memory of directories that calls used for the first time: for each call and path, the records that
    /// give it to the model with the call's result. `given` is in the conversation already. Blocks.
    pub fn memory_for(&self, calls: &[(CallId, String)], given: &[Note]) -> Vec<ModelRecord> {
        let mut known: Vec<String> = given.iter().map(|note| note.name.clone()).collect();
        let mut room = LIMIT.saturating_sub(given.iter().map(|note| note.text.len()).sum());
        let mut records = Vec::new();
        for (call, path) in calls {
            let Ok(path) = self.workspace.locate(path) else { continue };
            let mut notes = Vec::new();
            for directory in self.tree.below_workspace(&path) {
                let name = format!("Memory of {}", self.tree.display(&directory));
                if known.contains(&name) {
                    continue;
                }
                let Some(text) = self.memory.of_directory(&self.tree, &directory, room) else {
                    continue;
                };
                let text = format!("[{name}, for work in this directory]\n{text}");
                room = room.saturating_sub(text.len());
                known.push(name.clone());
                notes.push(Note { name, text });
            }
            if !notes.is_empty() {
                records.push(ModelRecord::MemoryGiven { call: call.clone(), notes });
            }
        }
        records
    }
}

/// Whether the session's owner is on another machine, or another principal than this machine's user.
pub fn is_remote(context: &TurnContext) -> bool {
    context.owner.as_deref().is_some_and(|owner| !owner.starts_with("local:"))
}

/// The workspace to show. A remote client must not learn a path of this machine.
pub fn workspace_name(context: &TurnContext) -> &str {
    match context.workspace.repository() {
        Some(repository) if is_remote(context) => &repository.url,
        None if is_remote(context) => "a directory of the server",
        _ => context.workspace.path(),
    }
}

fn platform() -> String {
    format!("The platform is {} ({}).", std::env::consts::OS, std::env::consts::ARCH)
}

fn mode(settings: &Settings) -> String {
    let meaning = match settings.mode {
        Mode::Ask => {
            "calls that read run at once; a person decides about each file change and each command"
        }
        Mode::Edits => "reading and file changes run at once; a person decides about commands",
        Mode::All => "calls run without a question",
        Mode::Plan => {
            "calls that read run at once; file changes and commands are refused, so describe the change \
             instead"
        }
    };
    let mut text =
        format!("The mode is {}: {meaning}. Rules may say otherwise.", settings.mode.name());
    if settings.unattended {
        text.push_str(
            " No person can answer in this session: a call that would need a decision is refused.",
        );
    } else if let Some(Timeout { after, then }) =
        settings.timeout.filter(|timeout| timeout.then != OnTimeout::Wait)
    {
        text.push_str(&format!(" A question without an answer is {} after {after}.", then.done()));
    }
    text
}

fn restricted_tools(names: &[String]) -> String {
    match names {
        [] => "This session has no tools.".to_owned(),
        names => format!("This session has only these tools: {}.", names.join(", ")),
    }
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
