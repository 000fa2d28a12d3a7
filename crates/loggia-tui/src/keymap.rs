//! The key bindings. The help overlay shows this table.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyContext {
    Anywhere,
    Composer,
    /// The composer in Vim's normal mode.
    Normal,
    Dialog,
    Transcript,
}

impl KeyContext {
    pub fn title(self) -> &'static str {
        match self {
            KeyContext::Anywhere => "Everywhere",
            KeyContext::Composer => "While you write",
            KeyContext::Normal => "While you write, with `tui.keys = \"vim\"`, in normal mode",
            KeyContext::Dialog => "When you are asked",
            KeyContext::Transcript => "In the full transcript",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    // global
    Interrupt,
    Leave,
    LeaveIfEmpty,
    Suspend,
    Transcript,
    NextMode,
    Help,
    Redraw,
    // composer
    Submit,
    Newline,
    Complete,
    EditOutside,
    SearchHistory,
    Older,
    Newer,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    DeleteLeft,
    DeleteRight,
    DeleteWord,
    DeleteToStart,
    DeleteToEnd,
    Yank,
    Undo,
    TakeBack,
    TakeBackAll,
    // composer, normal mode
    NextWord,
    WordEnd,
    FirstSign,
    Cut,
    Change,
    ChangeToEnd,
    CopyText,
    Put,
    PutBefore,
    InsertHere,
    InsertAfter,
    InsertAtStart,
    InsertAtEnd,
    LineBelow,
    LineAbove,
    // question
    ChooseUp,
    ChooseDown,
    Confirm,
    EditProposal,
    // scrolling in questions and the transcript
    ScrollUp,
    ScrollDown,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Search,
    NextMatch,
    PreviousMatch,
    NextCell,
    PreviousCell,
    Fold,
    FoldAll,
    Close,
}

pub struct Binding {
    pub context: KeyContext,
    pub action: Action,
    pub keys: Keys,
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

const fn plain(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::NONE }
}

const fn key(letter: char) -> Key {
    plain(KeyCode::Char(letter))
}

const fn upper(letter: char) -> Key {
    shift(KeyCode::Char(letter))
}

const fn ctrl(letter: char) -> Key {
    Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL }
}

const fn alt(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::ALT }
}

const fn shift(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::SHIFT }
}

const fn control(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::CONTROL }
}

type Keys = &'static [Key];

const fn bind(context: KeyContext, action: Action, keys: Keys, help: &'static str) -> Binding {
    Binding { context, action, keys, help }
}

use Action as A;
use KeyCode as K;
use KeyContext as P;

pub const BINDINGS: &[Binding] = &[
    bind(P::Anywhere, A::Interrupt, &[plain(K::Esc)], "interrupt the turn, or close what is open"),
    bind(P::Anywhere, A::Leave, &[ctrl('c')], "clear the line; interrupt; twice to leave"),
    bind(P::Anywhere, A::LeaveIfEmpty, &[ctrl('d')], "leave, if the line is empty"),
    bind(P::Anywhere, A::Suspend, &[ctrl('z')], "suspend; `fg` resumes"),
    bind(P::Anywhere, A::Transcript, &[ctrl('t')], "the full transcript, and back"),
    bind(P::Anywhere, A::NextMode, &[plain(K::BackTab)], "switch the approval mode"),
    bind(P::Anywhere, A::Help, &[plain(K::F(1))], "this help"),
    bind(P::Anywhere, A::Redraw, &[ctrl('l')], "draw again"),
    bind(
        P::Composer,
        A::Submit,
        &[plain(K::Enter)],
        "send, or queue while a turn runs; a line after `!` runs in the shell",
    ),
    bind(
        P::Composer,
        A::Newline,
        &[shift(K::Enter), alt(K::Enter), ctrl('j')],
        "a new line; also `\\` and Enter",
    ),
    bind(P::Composer, A::Complete, &[plain(K::Tab)], "complete `/command` or `@file`"),
    bind(P::Composer, A::EditOutside, &[ctrl('g')], "write in your external editor"),
    bind(P::Composer, A::SearchHistory, &[ctrl('r')], "search the prompt history"),
    bind(P::Composer, A::Older, &[plain(K::Up), ctrl('p')], "a row up, or an older prompt"),
    bind(P::Composer, A::Newer, &[plain(K::Down), ctrl('n')], "a row down, or a newer prompt"),
    bind(P::Composer, A::TakeBack, &[alt(K::Up)], "take back the last queued prompt"),
    bind(P::Composer, A::TakeBackAll, &[ctrl('x')], "take back all your queued prompts"),
    bind(P::Composer, A::Left, &[plain(K::Left), ctrl('b')], "left"),
    bind(P::Composer, A::Right, &[plain(K::Right), ctrl('f')], "right"),
    bind(
        P::Composer,
        A::WordLeft,
        &[alt(K::Char('b')), control(K::Left), alt(K::Left)],
        "a word left",
    ),
    bind(
        P::Composer,
        A::WordRight,
        &[alt(K::Char('f')), control(K::Right), alt(K::Right)],
        "a word right",
    ),
    bind(P::Composer, A::LineStart, &[plain(K::Home), ctrl('a')], "to the start of the line"),
    bind(P::Composer, A::LineEnd, &[plain(K::End), ctrl('e')], "to the end of the line"),
    bind(P::Composer, A::DeleteLeft, &[plain(K::Backspace), ctrl('h')], "delete to the left"),
    bind(P::Composer, A::DeleteRight, &[plain(K::Delete)], "delete to the right"),
    bind(P::Composer, A::DeleteWord, &[ctrl('w'), alt(K::Backspace)], "cut the word before"),
    bind(P::Composer, A::DeleteToStart, &[ctrl('u')], "cut to the start of the line"),
    bind(P::Composer, A::DeleteToEnd, &[ctrl('k')], "cut to the end of the line"),
    bind(P::Composer, A::Yank, &[ctrl('y')], "insert what was cut"),
    bind(P::Composer, A::Undo, &[ctrl('_'), alt(K::Char('z'))], "undo"),
    bind(P::Normal, A::Left, &[key('h'), plain(K::Backspace)], "left; a count before any"),
    bind(P::Normal, A::Newer, &[key('j')], "a row down, or a newer prompt"),
    bind(P::Normal, A::Older, &[key('k')], "a row up, or an older prompt"),
    bind(P::Normal, A::Right, &[key('l'), key(' ')], "right"),
    bind(P::Normal, A::NextWord, &[key('w')], "to the next word"),
    bind(P::Normal, A::WordLeft, &[key('b')], "to the previous word"),
    bind(P::Normal, A::WordEnd, &[key('e')], "to the end of the word"),
    bind(P::Normal, A::LineStart, &[key('0')], "to the start of the line"),
    bind(P::Normal, A::FirstSign, &[key('^')], "to the first character of the line"),
    bind(P::Normal, A::LineEnd, &[key('$')], "to the end of the line"),
    bind(P::Normal, A::Top, &[key('g')], "twice: to the first line, or to a line number"),
    bind(P::Normal, A::Bottom, &[upper('G')], "to the last line, or to a line number"),
    bind(P::Normal, A::DeleteRight, &[key('x')], "cut the character"),
    bind(P::Normal, A::Cut, &[key('d')], "cut: with a motion, or twice for the line"),
    bind(P::Normal, A::DeleteToEnd, &[upper('D')], "cut to the end of the line"),
    bind(P::Normal, A::Change, &[key('c')], "cut and write: with a motion, or twice"),
    bind(P::Normal, A::ChangeToEnd, &[upper('C')], "cut to the end of the line and write"),
    bind(P::Normal, A::CopyText, &[key('y')], "copy: with a motion, or twice"),
    bind(P::Normal, A::Put, &[key('p')], "insert what was cut or copied, after the cursor"),
    bind(
        P::Normal,
        A::PutBefore,
        &[upper('P')],
        "insert what was cut or copied, before the cursor",
    ),
    bind(P::Normal, A::Undo, &[key('u')], "undo"),
    bind(P::Normal, A::InsertHere, &[key('i')], "insert here; Esc returns to normal mode"),
    bind(P::Normal, A::InsertAfter, &[key('a')], "write after the character"),
    bind(P::Normal, A::InsertAtStart, &[upper('I')], "write at the start of the line"),
    bind(P::Normal, A::InsertAtEnd, &[upper('A')], "write at the end of the line"),
    bind(P::Normal, A::LineBelow, &[key('o')], "write on a new line below"),
    bind(P::Normal, A::LineAbove, &[upper('O')], "write on a new line above"),
    bind(P::Dialog, A::ChooseUp, &[plain(K::Up), plain(K::Left)], "the previous answer"),
    bind(
        P::Dialog,
        A::ChooseDown,
        &[plain(K::Down), plain(K::Right), plain(K::Tab)],
        "the next answer",
    ),
    bind(P::Dialog, A::Confirm, &[plain(K::Enter)], "give the marked answer"),
    bind(P::Dialog, A::EditProposal, &[key('e')], "edit it before it runs"),
    bind(P::Dialog, A::EditOutside, &[ctrl('g')], "edit it in your external editor"),
    bind(P::Dialog, A::ScrollUp, &[key('k')], "scroll up"),
    bind(P::Dialog, A::ScrollDown, &[key('j')], "scroll down"),
    bind(P::Dialog, A::PageUp, &[plain(K::PageUp), ctrl('b')], "a page up"),
    bind(P::Dialog, A::PageDown, &[plain(K::PageDown), key(' '), ctrl('f')], "a page down"),
    bind(P::Dialog, A::Top, &[plain(K::Home), key('g')], "to the start"),
    bind(P::Dialog, A::Bottom, &[plain(K::End), upper('G')], "to the end"),
    bind(P::Transcript, A::ScrollUp, &[plain(K::Up), key('k')], "scroll up"),
    bind(P::Transcript, A::ScrollDown, &[plain(K::Down), key('j')], "scroll down"),
    bind(P::Transcript, A::PageUp, &[plain(K::PageUp), ctrl('b')], "a page up"),
    bind(P::Transcript, A::PageDown, &[plain(K::PageDown), key(' '), ctrl('f')], "a page down"),
    bind(P::Transcript, A::Top, &[plain(K::Home), key('g')], "to the start"),
    bind(P::Transcript, A::Bottom, &[plain(K::End), upper('G')], "to the end"),
    bind(P::Transcript, A::Search, &[key('/')], "search"),
    bind(P::Transcript, A::NextMatch, &[key('n')], "the next match"),
    bind(P::Transcript, A::PreviousMatch, &[upper('N')], "the previous match"),
    bind(P::Transcript, A::NextCell, &[plain(K::Tab)], "mark the next cell"),
    bind(P::Transcript, A::PreviousCell, &[plain(K::BackTab)], "mark the previous cell"),
    bind(P::Transcript, A::Fold, &[plain(K::Enter)], "fold or unfold the marked cell"),
    bind(P::Transcript, A::FoldAll, &[key('z')], "fold or unfold all"),
    bind(P::Transcript, A::Close, &[key('q'), plain(K::Esc)], "back"),
];

/// The action of a key in a context, which takes precedence over the global one.
pub fn action(context: KeyContext, event: &KeyEvent) -> Option<Action> {
    own_action(context, event).or_else(|| own_action(KeyContext::Anywhere, event))
}

/// The action of a key in a context, without global ones.
pub fn own_action(context: KeyContext, event: &KeyEvent) -> Option<Action> {
    let pressed = normal(event);
    let bound = |binding: &&Binding| binding.context == context && binding.keys.contains(&pressed);
    BINDINGS.iter().find(bound).map(|binding| binding.action)
}

/// A character typed without Control or Alt.
pub fn letter(event: &KeyEvent) -> Option<char> {
    let held = event.modifiers.difference(KeyModifiers::SHIFT);
    match event.code {
        KeyCode::Char(letter) if held.is_empty() => Some(letter),
        _ => None,
    }
}

/// Normalizes differences between terminals: Shift with a capital letter, Shift with BackTab,
/// control characters.
fn normal(event: &KeyEvent) -> Key {
    let mut modifiers = event
        .modifiers
        .intersection(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
    let mut code = event.code;
    if let KeyCode::Char(letter) = code {
        if modifiers.contains(KeyModifiers::CONTROL) {
            code = KeyCode::Char(letter.to_ascii_lowercase());
            modifiers.remove(KeyModifiers::SHIFT);
            if matches!(letter, '7' | '/' | '_') {
                code = KeyCode::Char('_');
            }
        } else if letter.is_uppercase() {
            modifiers.insert(KeyModifiers::SHIFT);
        } else if !letter.is_alphabetic() {
            modifiers.remove(KeyModifiers::SHIFT);
        }
    }
    if code == KeyCode::Tab && modifiers.contains(KeyModifiers::SHIFT) {
        code = KeyCode::BackTab;
    }
    if code == KeyCode::BackTab {
        modifiers.remove(KeyModifiers::SHIFT);
    }
    Key { code, modifiers }
}

/// The name of a key: `Ctrl-T`.
pub fn name(key: &Key) -> String {
    let mut name = String::new();
    for (held, word) in [
        (KeyModifiers::CONTROL, "Ctrl-"),
        (KeyModifiers::ALT, "Alt-"),
        (KeyModifiers::SHIFT, "Shift-"),
    ] {
        // A capital letter implies Shift.
        if key.modifiers.contains(held)
            && !(held == KeyModifiers::SHIFT && matches!(key.code, KeyCode::Char(_)))
        {
            name.push_str(word);
        }
    }
    match key.code {
        KeyCode::Char(' ') => name.push_str("Space"),
        KeyCode::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            name.extend(letter.to_uppercase());
        }
        KeyCode::Char(letter) => name.push(letter),
        KeyCode::BackTab => name.push_str("Shift-Tab"),
        KeyCode::Up => name.push('↑'),
        KeyCode::Down => name.push('↓'),
        KeyCode::Left => name.push('←'),
        KeyCode::Right => name.push('→'),
        KeyCode::PageUp => name.push_str("PgUp"),
        KeyCode::PageDown => name.push_str("PgDn"),
        KeyCode::F(number) => name.push_str(&format!("F{number}")),
        other => name.push_str(&format!("{other:?}")),
    }
    name
}

/// The help: context headings, then keys and descriptions.
pub fn help() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let contexts = [
        KeyContext::Anywhere,
        KeyContext::Composer,
        KeyContext::Dialog,
        KeyContext::Transcript,
        KeyContext::Normal,
    ];
    for context in contexts {
        lines.push((context.title().to_owned(), String::new()));
        for binding in BINDINGS.iter().filter(|binding| binding.context == context) {
            let keys: Vec<String> = binding.keys.iter().map(name).collect();
            lines.push((format!("  {}", keys.join(", ")), binding.help.to_owned()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No key has two actions in one context.
    #[test]
    fn a_key_has_one_meaning_at_a_place() {
        for (index, binding) in BINDINGS.iter().enumerate() {
            for key in binding.keys {
                let twice = BINDINGS
                    .iter()
                    .skip(index + 1)
                    .find(|other| other.context == binding.context && other.keys.contains(key));
                assert!(twice.is_none(), "{} at {:?}", name(key), binding.context);
            }
        }
    }

    #[test]
    fn keys_are_found_however_a_terminal_sends_them() {
        let event = |code, modifiers| KeyEvent::new(code, modifiers);
        let cases = [
            (KeyContext::Composer, event(K::Char('C'), KeyModifiers::CONTROL), Some(A::Leave)),
            (KeyContext::Composer, event(K::BackTab, KeyModifiers::SHIFT), Some(A::NextMode)),
            (KeyContext::Composer, event(K::Tab, KeyModifiers::SHIFT), Some(A::NextMode)),
            (KeyContext::Transcript, event(K::Char('G'), KeyModifiers::NONE), Some(A::Bottom)),
            (KeyContext::Transcript, event(K::Char('/'), KeyModifiers::SHIFT), Some(A::Search)),
            (KeyContext::Transcript, event(K::Esc, KeyModifiers::NONE), Some(A::Close)),
            (KeyContext::Composer, event(K::Esc, KeyModifiers::NONE), Some(A::Interrupt)),
            (KeyContext::Composer, event(K::Char('7'), KeyModifiers::CONTROL), Some(A::Undo)),
            (KeyContext::Composer, event(K::Char('x'), KeyModifiers::NONE), None),
        ];
        for (context, event, wanted) in cases {
            assert_eq!(action(context, &event), wanted, "{event:?}");
        }
    }
}
