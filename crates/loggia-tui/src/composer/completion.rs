//! Completion at the cursor and its popup.

use loggia_core::CustomCommand;
use loggia_core::shell::quoted;

use crate::command::{self, Values};

/// Maximum rows of the popup.
pub const ROWS: usize = 8;
/// Maximum number of requested files.
pub const FILES: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// A `/` at the start of the text.
    Command { start: usize, typed: String },
    /// An `@` at the start of a word.
    File { start: usize, typed: String },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Popup {
    /// Start of the completed word.
    pub start: usize,
    pub items: Vec<Offer>,
    pub selected: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Command,
    File,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub label: String,
    pub about: String,
    pub insert: String,
}

impl Popup {
    pub fn go(&mut self, down: bool) {
        let count = self.items.len().max(1);
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    pub fn chosen(&self) -> Option<&Offer> {
        self.items.get(self.selected)
    }

    pub fn is_command(&self) -> bool {
        self.kind == Kind::Command
    }

    /// The visible part of the list, which contains the selection.
    pub fn shown(&self, rows: usize) -> impl Iterator<Item = (bool, &Offer)> {
        let rows = rows.clamp(1, ROWS);
        let skip = (self.selected + 1).saturating_sub(rows);
        let marked = self.selected;
        let numbered = self.items.iter().enumerate().skip(skip).take(rows);
        numbered.map(move |(index, offer)| (index == marked, offer))
    }
}

pub fn trigger(text: &str, cursor: usize) -> Option<Trigger> {
    let before = text.get(..cursor)?;
    if before.starts_with('/') && !before.contains('\n') {
        return Some(Trigger::Command { start: 0, typed: before.to_owned() });
    }
    let word = before.rfind(char::is_whitespace);
    let start = match word {
        Some(at) => at + before.get(at..)?.chars().next().map_or(1, char::len_utf8),
        None => 0,
    };
    let typed = before.get(start..)?.strip_prefix('@')?;
    Some(Trigger::File { start, typed: typed.to_owned() })
}

/// Commands with this prefix; after a command, the values of its argument.
pub fn commands(start: usize, typed: &str, custom: &[CustomCommand]) -> Option<Popup> {
    let name = typed.strip_prefix('/')?;
    let items: Vec<Offer> = match name.split_once(' ') {
        None => {
            let fits =
                command::all(custom).into_iter().filter(|known| known.name.starts_with(name));
            let offer = |known: command::SlashCommand| Offer {
                label: format!("/{}{}", known.name, known.argument_hint()),
                about: known.about.clone(),
                insert: match known.takes_argument() {
                    true => format!("/{} ", known.name),
                    false => format!("/{}", known.name),
                },
            };
            fits.map(offer).collect()
        }
        Some((name, argument)) => {
            let known = command::all(custom).into_iter().find(|known| known.name == name)?;
            let Values::Fixed(values) = known.values else { return None };
            let fits =
                values.into_iter().filter(|value| value.starts_with(argument) && value != argument);
            let offer = |value: String| Offer {
                insert: format!("/{name} {value}"),
                label: value,
                about: String::new(),
            };
            fits.map(offer).collect()
        }
    };
    popup(start, items, Kind::Command)
}

/// In a shell command the path is quoted; in a prompt it is inserted as it is.
pub fn files(start: usize, found: Vec<String>, shell: bool) -> Option<Popup> {
    let offer = |path: String| {
        let insert = match (shell, path.contains(char::is_whitespace)) {
            (true, _) => format!("{} ", quoted(&path)),
            (false, true) => format!("\"{path}\" "),
            (false, false) => format!("{path} "),
        };
        Offer { insert, label: path, about: String::new() }
    };
    popup(start, found.into_iter().map(offer).collect(), Kind::File)
}

fn popup(start: usize, items: Vec<Offer>, kind: Kind) -> Option<Popup> {
    (!items.is_empty()).then_some(Popup { start, items, selected: 0, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_cursor_decides_what_is_completed() {
        let command = |typed: &str| Some(Trigger::Command { start: 0, typed: typed.to_owned() });
        let file = |start, typed: &str| Some(Trigger::File { start, typed: typed.to_owned() });
        let cases = [
            ("/mo|", command("/mo")),
            ("/mode ed|", command("/mode ed")),
            ("say /mo|", None),
            ("look at @src/m|", file(8, "src/m")),
            ("@|", file(0, "")),
            ("\u{3000}@ä|", file(3, "ä")),
            ("a@b|", None),
            ("two\n@x|", file(4, "x")),
            ("/x\n|", None),
            ("|@x", None),
        ];
        for (marked, wanted) in cases {
            let cursor = marked.find('|').unwrap();
            assert_eq!(trigger(&marked.replace('|', ""), cursor), wanted, "{marked}");
        }
    }
}
