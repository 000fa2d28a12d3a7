//! Commands from files: names, help, and parsing them beside the built-in commands.
//!
//! Not here: reading files, and expanding or running commands. The agent does that.

use serde::{Deserialize, Serialize};

use super::{COMMANDS, PromptKind, Slash, SlashError, find, names, shown, slash_text, split};
use crate::content::Content;

/// Commands of the terminal interface. A file cannot use these names either.
pub const TERMINAL_COMMANDS: &[&str] =
    &["share", "resume", "transcript", "copy", "vim", "quit", "mode"];

/// Command names that an error lists.
const MAX_LISTED: usize = 20;

/// One command from a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CustomCommand {
    /// With its namespace: `git:commit`.
    pub name: String,
    pub description: String,
    /// The author's hint about its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The file, for people.
    pub source: String,
    /// Whether it runs commands to build its prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs: bool,
    /// Settings in the file that are not supported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// The commands from files that are available in one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CustomCommands {
    pub commands: Vec<CustomCommand>,
    /// Why files were ignored: one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl CustomCommand {
    /// Its syntax: `/git:commit [message]`.
    pub fn usage(&self) -> String {
        match &self.hint {
            Some(hint) => format!("/{} {hint}", self.name),
            None => format!("/{}", self.name),
        }
    }
}

/// Whether a command from a file may have this name.
pub fn is_custom_name(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    name.split(':').all(plain)
}

/// Whether a name is reserved for a command of Loggia.
pub fn is_taken(name: &str) -> bool {
    let same = |known: &&str| known.eq_ignore_ascii_case(name);
    find(COMMANDS, name).is_some() || TERMINAL_COMMANDS.iter().any(same)
}

impl CustomCommands {
    pub fn find(&self, name: &str) -> Option<&CustomCommand> {
        self.commands.iter().find(|command| command.name.eq_ignore_ascii_case(name))
    }

    /// Parses a prompt, these commands included.
    pub fn read_content(&self, content: &Content) -> PromptKind {
        slash_text(content).map_or(PromptKind::Message, |text| self.read(&text))
    }

    pub fn read(&self, text: &str) -> PromptKind {
        let Some(line) =
            text.strip_prefix('/').filter(|line| !line.starts_with(char::is_whitespace))
        else {
            return PromptKind::Message;
        };
        match (self.parse_line(line), super::read(text)) {
            (Ok(command), _) => PromptKind::Command(command),
            (Err(_), PromptKind::Message) => PromptKind::Message,
            (Err(error), _) => PromptKind::Mistake(error),
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
        let own = self.commands.iter().take(MAX_LISTED).map(|command| format!("/{}", command.name));
        let more = (self.commands.len() > MAX_LISTED).then(|| "…".to_owned());
        let all = std::iter::once(names(COMMANDS, "/")).chain(own).chain(more);
        all.collect::<Vec<_>>().join(", ")
    }

    /// The list of all commands, and of the ignored files.
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

    /// The full help of one command.
    pub fn explain(&self, name: &str) -> String {
        let Some(command) = self.find(name) else { return self.overview() };
        let mut text = format!(
            "- `{}`: {}\n\nA prompt from `{}`.",
            command.usage(),
            command.description,
            command.source
        );
        if command.runs {
            text += " It runs commands first, which are asked about like all others.";
        }
        if !command.ignored.is_empty() {
            text += &format!(" Not supported: {}.", command.ignored.join(", "));
        }
        text
    }
}
