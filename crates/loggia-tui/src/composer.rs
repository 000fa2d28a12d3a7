//! Where prompts are written: a text, what was written before, and completion.

pub mod completion;
pub mod history;
pub mod vim;

use crossterm::event::KeyEvent;
use loggia_core::{CustomCommands, SHELL_PREFIX};

use crate::editor::Editor;
use crate::keymap::{self, Action};
use completion::{Popup, Trigger};
use history::History;
use vim::{Done, Vim};

/// A paste of more lines, or of more bytes, is folded to a chip.
const FOLD_LINES: usize = 8;
const FOLD_BYTES: usize = 1000;
/// Rows that one command goes at most.
const ROWS: usize = 1000;
/// A prompt larger than this is a mistake.
pub const PROMPT_LIMIT: usize = 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composer {
    pub editor: Editor,
    pub history: History,
    pub popup: Option<Popup>,
    /// Columns for text at the last drawing; rows move by it.
    pub width: u16,
    /// Some where keys are Vim's.
    pub vim: Option<Vim>,
    /// Commands from files, as they were when somebody last asked.
    pub custom: CustomCommands,
}

/// What a key in the composer leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    Nothing,
    /// The key means nothing here.
    Unknown,
    Submit(String),
    /// A command line of the person's own, without its mark.
    Shell(String),
    /// Files that match this are wanted for the completion.
    FindFiles(String),
    /// Commands from files are wanted for the completion.
    LoadCommands,
    EditOutside(String),
    TooLong,
}

impl Composer {
    pub fn paste(&mut self, text: &str) -> Written {
        if self.editor.raw().len() + text.len() > PROMPT_LIMIT {
            return Written::TooLong;
        }
        let large = text.len() > FOLD_BYTES || text.lines().count() > FOLD_LINES;
        if !large || !self.editor.insert_chip(text) {
            self.editor.insert(text);
        }
        if let Some(vim) = &self.vim {
            vim.settle(&mut self.editor);
        }
        self.history.leave();
        self.look_for_completion()
    }

    pub fn key(&mut self, event: &KeyEvent, action: Option<Action>) -> Written {
        let written = match self.vim_key(event, action) {
            Some(written) => written,
            None => self.plain_key(event, action),
        };
        if let Some(vim) = &mut self.vim {
            match written {
                // The next prompt is written, not edited.
                Written::Submit(_) | Written::Shell(_) => vim.insert(&mut self.editor),
                _ => vim.settle(&mut self.editor),
            }
        }
        written
    }

    /// What a key does with Vim's keys; None where it does what it always does.
    fn vim_key(&mut self, event: &KeyEvent, action: Option<Action>) -> Option<Written> {
        let vim = self.vim.as_mut().filter(|_| self.history.search.is_none())?;
        if action == Some(Action::Interrupt) {
            self.popup = None;
            return vim.escape(&mut self.editor).then_some(Written::Nothing);
        }
        if !vim.is_normal() {
            return None;
        }
        match vim.key(event, &mut self.editor) {
            Done::Taken => {}
            Done::Elsewhere => return None,
            Done::Row { down, times } => (0..times.min(ROWS)).for_each(|_| self.go_row(down)),
        }
        Some(Written::Nothing)
    }

    /// Keys are Vim's from now on, or no more.
    pub fn toggle_vim(&mut self) {
        self.editor.end_change();
        self.vim = match self.vim {
            Some(_) => None,
            None => Some(Vim::default()),
        };
        if let Some(vim) = &mut self.vim {
            vim.insert(&mut self.editor);
        }
    }

    /// A row up or down, or to what was written before or after.
    fn go_row(&mut self, down: bool) {
        if self.editor.go_row(self.width, down) {
            return;
        }
        let text = match down {
            true => self.history.newer(),
            false => self.history.older(&self.editor.text()),
        };
        if let Some(text) = text {
            self.editor.replace(&text);
        }
    }

    fn plain_key(&mut self, event: &KeyEvent, action: Option<Action>) -> Written {
        if let Some(search) = &mut self.history.search {
            return match (keymap::letter(event), action) {
                (Some(letter), _) => {
                    search.query.push(letter);
                    self.history.search_again();
                    Written::Nothing
                }
                (None, action) => self.key_while_searching(action),
            };
        }
        if let Some(written) = self.key_in_popup(action) {
            return written;
        }
        if let Some(letter) = keymap::letter(event) {
            self.editor.insert(letter.encode_utf8(&mut [0; 4]));
            self.history.leave();
            return self.look_for_completion();
        }
        match action {
            Some(Action::Submit) => self.submit(),
            Some(Action::Newline) => {
                self.editor.insert("\n");
                Written::Nothing
            }
            Some(Action::Complete) => self.look_for_completion(),
            Some(Action::EditOutside) => Written::EditOutside(self.editor.text()),
            Some(Action::SearchHistory) => {
                self.history.start_search();
                Written::Nothing
            }
            Some(Action::Older) => {
                self.go_row(false);
                Written::Nothing
            }
            Some(Action::Newer) => {
                self.go_row(true);
                Written::Nothing
            }
            Some(action) if crate::dialog::edit(&mut self.editor, action) => {
                self.look_for_completion()
            }
            _ => Written::Unknown,
        }
    }

    fn key_while_searching(&mut self, action: Option<Action>) -> Written {
        match action {
            Some(Action::SearchHistory | Action::Older) => self.history.search_older(),
            Some(Action::DeleteLeft) => {
                if let Some(search) = &mut self.history.search {
                    search.query.pop();
                }
                self.history.search_again();
            }
            Some(Action::Interrupt | Action::Leave) => self.history.search = None,
            Some(Action::Submit | Action::Complete | Action::Right | Action::LineEnd) => {
                if let Some(text) = self.history.found().map(str::to_owned) {
                    self.editor.replace(&text);
                }
                self.history.search = None;
            }
            _ => return Written::Unknown,
        }
        Written::Nothing
    }

    /// Keys that a popup takes; None where it takes them not.
    fn key_in_popup(&mut self, action: Option<Action>) -> Option<Written> {
        let popup = self.popup.as_mut()?;
        match action? {
            Action::Older => popup.go(false),
            Action::Newer => popup.go(true),
            Action::Interrupt => self.popup = None,
            taken @ (Action::Complete | Action::Submit) => {
                let (start, chosen) = (popup.start, popup.chosen()?.clone());
                let whole = popup.is_command() && self.typed(start) == chosen.insert.trim_end();
                self.popup = None;
                // A command that stands there in full is sent, not completed once more.
                if whole && taken == Action::Submit {
                    return None;
                }
                self.editor.replace_before(start, &chosen.insert);
                return Some(self.look_for_completion());
            }
            _ => return None,
        }
        Some(Written::Nothing)
    }

    fn typed(&self, start: usize) -> &str {
        self.editor.raw().get(start..self.editor.cursor()).unwrap_or_default()
    }

    fn submit(&mut self) -> Written {
        let text = self.editor.text();
        // A backslash at the end is a new line, for terminals that cannot tell Shift-Enter.
        if self.editor.raw().ends_with('\\') && self.editor.cursor() == self.editor.raw().len() {
            self.editor.delete(crate::editor::Motion::Left);
            self.editor.insert("\n");
            return Written::Nothing;
        }
        if text.trim().is_empty() {
            return Written::Nothing;
        }
        if text.len() > PROMPT_LIMIT {
            return Written::TooLong;
        }
        let line = self.is_shell().then(|| text.strip_prefix(SHELL_PREFIX)).flatten();
        let line = line.map(|line| line.trim().to_owned());
        if line.as_deref() == Some("") {
            return Written::Nothing;
        }
        self.editor = Editor::default();
        self.popup = None;
        self.history.add(&text);
        line.map_or(Written::Submit(text), Written::Shell)
    }

    /// What is written is a command line. The mark must be seen: one inside a folded paste is none.
    pub fn is_shell(&self) -> bool {
        self.editor.raw().starts_with(SHELL_PREFIX)
    }

    /// The prompt could not be taken: it is here again, in front of what was typed since.
    pub fn give_back(&mut self, text: &str) {
        let since = self.editor.text();
        let joined = if since.is_empty() { text.to_owned() } else { format!("{text}\n{since}") };
        self.editor.replace(&joined);
    }

    pub fn look_for_completion(&mut self) -> Written {
        match completion::trigger(self.editor.raw(), self.editor.cursor()) {
            Some(Trigger::Command { start, typed }) => {
                let fresh =
                    !typed.contains(' ') && !self.popup.as_ref().is_some_and(Popup::is_command);
                self.popup = completion::commands(start, &typed, &self.custom.commands);
                if fresh { Written::LoadCommands } else { Written::Nothing }
            }
            Some(Trigger::File { start, typed }) => {
                // What is there stays until the new list comes, so that nothing flickers.
                let keeps = self.popup.as_ref().is_some_and(|popup| popup.start == start);
                if !keeps {
                    self.popup = None;
                }
                Written::FindFiles(typed)
            }
            None => {
                self.popup = None;
                Written::Nothing
            }
        }
    }

    /// The commands from files; what is marked in a list of commands stays marked.
    pub fn commands_found(&mut self, custom: CustomCommands) {
        self.custom = custom;
        let open = self.popup.take_if(|popup| popup.is_command());
        let place = completion::trigger(self.editor.raw(), self.editor.cursor());
        let Some(Trigger::Command { start, typed }) = place else { return };
        let marked = open.as_ref().and_then(Popup::chosen);
        let mut fresh = completion::commands(start, &typed, &self.custom.commands);
        if let Some(popup) = &mut fresh {
            let again = popup.items.iter().position(|offer| Some(offer) == marked);
            popup.selected = again.unwrap_or(0);
        }
        self.popup = fresh;
    }

    /// The files that were asked for, unless something else was typed since.
    pub fn files_found(&mut self, query: &str, found: Vec<String>) {
        if let Some(Trigger::File { start, typed }) =
            completion::trigger(self.editor.raw(), self.editor.cursor())
            && typed == query
        {
            self.popup = completion::files(start, found, self.is_shell());
        }
    }
}

#[cfg(test)]
#[path = "composer_tests.rs"]
mod tests;
