//! The composer: editor, history and completion.

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

/// A paste with more lines or bytes is folded.
const FOLD_LINES: usize = 8;
const FOLD_BYTES: usize = 1000;
/// Maximum count for a row motion.
const ROWS: usize = 1000;
/// Maximum size of a prompt.
pub const PROMPT_LIMIT: usize = 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composer {
    pub editor: Editor,
    pub history: History,
    pub popup: Option<Popup>,
    /// Text width of the last frame, for moving between rows.
    pub width: u16,
    /// Some with Vim keys.
    pub vim: Option<Vim>,
    /// Custom commands, as last loaded.
    pub custom: CustomCommands,
}

/// The result of a key in the composer.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyResult {
    Nothing,
    /// The composer does not use the key.
    Unknown,
    Submit(String),
    /// A shell command without its mark.
    Shell(String),
    /// Load matching files for the completion.
    FindFiles(String),
    /// Load custom commands for the completion.
    LoadCommands,
    EditOutside(String),
    TooLong,
}

impl Composer {
    pub fn paste(&mut self, text: &str) -> KeyResult {
        if self.editor.raw().len() + text.len() > PROMPT_LIMIT {
            return KeyResult::TooLong;
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

    pub fn key(&mut self, event: &KeyEvent, action: Option<Action>) -> KeyResult {
        let written = match self.vim_key(event, action) {
            Some(written) => written,
            None => self.plain_key(event, action),
        };
        if let Some(vim) = &mut self.vim {
            match written {
                // The next prompt starts in insert mode.
                KeyResult::Submit(_) | KeyResult::Shell(_) => vim.insert(&mut self.editor),
                _ => vim.settle(&mut self.editor),
            }
        }
        written
    }

    /// Handles a Vim key; None if the key has its usual meaning.
    fn vim_key(&mut self, event: &KeyEvent, action: Option<Action>) -> Option<KeyResult> {
        let vim = self.vim.as_mut().filter(|_| self.history.search.is_none())?;
        if action == Some(Action::Interrupt) {
            self.popup = None;
            return vim.escape(&mut self.editor).then_some(KeyResult::Nothing);
        }
        if !vim.is_normal() {
            return None;
        }
        match vim.key(event, &mut self.editor) {
            Done::Taken => {}
            Done::Elsewhere => return None,
            Done::Row { down, times } => (0..times.min(ROWS)).for_each(|_| self.go_row(down)),
        }
        Some(KeyResult::Nothing)
    }

    /// Turns Vim keys on or off.
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

    /// Moves one row, or to the previous or next history entry.
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

    fn plain_key(&mut self, event: &KeyEvent, action: Option<Action>) -> KeyResult {
        if let Some(search) = &mut self.history.search {
            return match (keymap::letter(event), action) {
                (Some(letter), _) => {
                    search.query.push(letter);
                    self.history.search_again();
                    KeyResult::Nothing
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
                KeyResult::Nothing
            }
            Some(Action::Complete) => self.look_for_completion(),
            Some(Action::EditOutside) => KeyResult::EditOutside(self.editor.text()),
            Some(Action::SearchHistory) => {
                self.history.start_search();
                KeyResult::Nothing
            }
            Some(Action::Older) => {
                self.go_row(false);
                KeyResult::Nothing
            }
            Some(Action::Newer) => {
                self.go_row(true);
                KeyResult::Nothing
            }
            Some(action) if crate::dialog::edit(&mut self.editor, action) => {
                self.look_for_completion()
            }
            _ => KeyResult::Unknown,
        }
    }

    fn key_while_searching(&mut self, action: Option<Action>) -> KeyResult {
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
            _ => return KeyResult::Unknown,
        }
        KeyResult::Nothing
    }

    /// Handles a key in the popup; None if the popup does not use it.
    fn key_in_popup(&mut self, action: Option<Action>) -> Option<KeyResult> {
        let popup = self.popup.as_mut()?;
        match action? {
            Action::Older => popup.go(false),
            Action::Newer => popup.go(true),
            Action::Interrupt => self.popup = None,
            taken @ (Action::Complete | Action::Submit) => {
                let (start, chosen) = (popup.start, popup.chosen()?.clone());
                let whole = popup.is_command() && self.typed(start) == chosen.insert.trim_end();
                self.popup = None;
                // Submit a complete command instead of completing it again.
                if whole && taken == Action::Submit {
                    return None;
                }
                self.editor.replace_before(start, &chosen.insert);
                return Some(self.look_for_completion());
            }
            _ => return None,
        }
        Some(KeyResult::Nothing)
    }

    fn typed(&self, start: usize) -> &str {
        self.editor.raw().get(start..self.editor.cursor()).unwrap_or_default()
    }

    fn submit(&mut self) -> KeyResult {
        let text = self.editor.text();
        // A trailing backslash inserts a line break, for terminals without Shift-Enter.
        if self.editor.raw().ends_with('\\') && self.editor.cursor() == self.editor.raw().len() {
            self.editor.delete(crate::editor::Motion::Left);
            self.editor.insert("\n");
            return KeyResult::Nothing;
        }
        if text.trim().is_empty() {
            return KeyResult::Nothing;
        }
        if text.len() > PROMPT_LIMIT {
            return KeyResult::TooLong;
        }
        let line = self.is_shell().then(|| text.strip_prefix(SHELL_PREFIX)).flatten();
        let line = line.map(|line| line.trim().to_owned());
        if line.as_deref() == Some("") {
            return KeyResult::Nothing;
        }
        self.editor = Editor::default();
        self.popup = None;
        self.history.add(&text);
        line.map_or(KeyResult::Submit(text), KeyResult::Shell)
    }

    /// Whether the text is a shell command. A mark inside a folded paste does not count, because it
    /// is not visible.
    pub fn is_shell(&self) -> bool {
        self.editor.raw().starts_with(SHELL_PREFIX)
    }

    /// Returns a prompt that was not accepted, in front of the current text.
    pub fn give_back(&mut self, text: &str) {
        let since = self.editor.text();
        let joined = if since.is_empty() { text.to_owned() } else { format!("{text}\n{since}") };
        self.editor.replace(&joined);
    }

    pub fn look_for_completion(&mut self) -> KeyResult {
        match completion::trigger(self.editor.raw(), self.editor.cursor()) {
            Some(Trigger::Command { start, typed }) => {
                let fresh =
                    !typed.contains(' ') && !self.popup.as_ref().is_some_and(Popup::is_command);
                self.popup = completion::commands(start, &typed, &self.custom.commands);
                if fresh { KeyResult::LoadCommands } else { KeyResult::Nothing }
            }
            Some(Trigger::File { start, typed }) => {
                // Keep the old list until the new one arrives, to avoid flicker.
                let keeps = self.popup.as_ref().is_some_and(|popup| popup.start == start);
                if !keeps {
                    self.popup = None;
                }
                KeyResult::FindFiles(typed)
            }
            None => {
                self.popup = None;
                KeyResult::Nothing
            }
        }
    }

    /// Updates the custom commands and keeps the selection.
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

    /// Shows found files, unless the query changed.
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
