//! Commands that people wrote in files, as every front end knows them: names, help, how a line is
//! read among them and the built-in ones.
//!
//! What must not be here: files, what a command says, and what becomes of it; that is the agent's.

use serde::{Deserialize, Serialize};

use super::{COMMANDS, Reading, Slash, SlashError, find, names, shown, split};
use crate::content::{Content, Part};

/// Commands of a terminal's own screen: no file may be called like them either.
pub const OF_THE_SCREEN: &[&str] =
    &["share", "resume", "transcript", "copy", "vim", "quit", "mode", "model"];

/// Names that an error repeats.
const NAMED: usize = 20;

/// One command from a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CustomCommand {
    /// With its namespace: `git:commit`.
    pub name: String,
    pub description: String,
    /// What is to be typed behind it, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The file, for people.
    pub source: String,
    /// Whether it runs something before its prompt is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs: bool,
    /// What stands in the file and is not done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// The commands from files that count in one workspace, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CustomCommands {
    pub commands: Vec<CustomCommand>,
    /// Files that do not count, and why: one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl CustomCommand {
    /// How it is typed: `/git:commit [message]`.
    pub fn usage(&self) -> String {
        match &self.hint {
            Some(hint) => format!("/{} {hint}", self.name),
            None => format!("/{}", self.name),
        }
    }
}

/// Whether a file may give a command this name.
pub fn is_custom_name(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    name.split(':').all(plain)
}

/// Whether a name is Loggia's own.
pub fn is_taken(name: &str) -> bool {
    let same = |known: &&str| known.eq_ignore_ascii_case(name);
    find(COMMANDS, name).is_some() || OF_THE_SCREEN.iter().any(same)
}

impl CustomCommands {
    pub fn find(&self, name: &str) -> Option<&CustomCommand> {
        self.commands.iter().find(|command| command.name.eq_ignore_ascii_case(name))
    }

    /// What a prompt is, these commands included.
    pub fn read_content(&self, content: &Content) -> Reading {
        match content.parts.first() {
            Some(Part::Text { text }) if text.starts_with('/') => self.read(&content.to_text()),
            Some(Part::Text { .. } | Part::File { .. } | Part::Data { .. }) | None => {
                Reading::Message
            }
        }
    }

    pub fn read(&self, text: &str) -> Reading {
        let Some(line) =
            text.strip_prefix('/').filter(|line| !line.starts_with(char::is_whitespace))
        else {
            return Reading::Message;
        };
        match (self.parse_line(line), super::read(text)) {
            (Ok(command), _) => Reading::Command(command),
            (Err(_), Reading::Message) => Reading::Message,
            (Err(error), _) => Reading::Mistake(error),
        }
    }

    /// A command given by its path, with its arguments as one text.
    pub fn parse(&self, path: &[impl AsRef<str>], args: &str) -> Result<Slash, SlashError> {
        self.parse_line(&super::line_of(path, args))
    }

    fn parse_line(&self, line: &str) -> Result<Slash, SlashError> {
        let (word, rest) = split(line);
        let error = match super::parse_line(line) {
            Ok(command) => return Ok(command),
            Err(error @ SlashError::UnknownCommand { .. }) => error,
            Err(error) => return Err(error),
        };
        if let Some(command) = self.find(word) {
            let (name, arguments) = (command.name.clone(), rest.trim_end().to_owned());
            return Ok(Slash::Custom { name, arguments });
        }
        let topic = rest.trim_end().trim_start_matches('/');
        let given = match word.eq_ignore_ascii_case("help") {
            true => match self.find(topic) {
                Some(command) => return Ok(Slash::HelpCustom { name: command.name.clone() }),
                None => topic,
            },
            false => word,
        };
        match self.commands.is_empty() {
            true => Err(error),
            false => Err(SlashError::UnknownHere { given: shown(given), known: self.names() }),
        }
    }

    fn names(&self) -> String {
        let own = self.commands.iter().take(NAMED).map(|command| format!("/{}", command.name));
        let more = (self.commands.len() > NAMED).then(|| "…".to_owned());
        let all = std::iter::once(names(COMMANDS, "/")).chain(own).chain(more);
        all.collect::<Vec<_>>().join(", ")
    }

    /// The list of every command, and of the files that do not count.
    pub fn overview(&self) -> String {
        let mut text = super::overview(&[]);
        for command in &self.commands {
            text += &format!("\n- `{}`: {}", command.usage(), command.description);
        }
        if !self.notes.is_empty() {
            text += &format!("\n\nNot used:\n\n- {}", self.notes.join("\n- "));
        }
        text
    }

    /// One command in full.
    pub fn explain(&self, name: &str) -> String {
        let Some(command) = self.find(name) else { return self.overview() };
        let mut text = format!(
            "- `{}`: {}\n\nA prompt from `{}`.",
            command.usage(),
            command.description,
            command.source
        );
        if command.runs {
            text += " It runs commands first, which ask like all others.";
        }
        if !command.ignored.is_empty() {
            text += &format!(" Not done here: {}.", command.ignored.join(", "));
        }
        text
    }
}
