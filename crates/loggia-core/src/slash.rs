//! Slash commands: names, arguments, help, and parsing.
//!
//! A slash command is a prompt. This module parses it; the agent runs it. All front ends share one
//! table: the terminal completes from it, `commands/get` lists it, and a line has the same meaning
//! everywhere.
//!
//! **The rule.** A prompt is a command if its first character is a slash and the text up to the first
//! white space is a name: letters, digits, `-` and `_`, beginning with a letter, or several such names
//! joined by `:`. So `/usr/bin/x`, `//`, `/ x` and ` /help` are messages, and `/foo` is an unknown
//! command, unless there is a file for it ([`custom`]).

pub mod custom;

use std::fmt;

use crate::content::{Content, Part};

/// Characters of an invalid word that an error repeats.
const MAX_SHOWN: usize = 40;

/// One command, or a group of commands.
#[derive(Debug, PartialEq, Eq)]
pub struct SlashCommand {
    pub name: &'static str,
    pub description: &'static str,
    pub arguments: &'static [Argument],
    /// Not empty for a group. The first one is the default.
    pub sub_commands: &'static [SlashCommand],
    action: Action,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: ArgumentKind,
    pub required: bool,
}

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// The rest of the line, unchanged.
    Text,
    /// One word: the id of a rule, or a prefix of it.
    Rule,
    /// The name of a command in this table.
    Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Group,
    Help,
    About,
    Tools,
    ApprovalsList,
    ApprovalsRevoke,
    Init,
    MemoryShow,
    MemoryList,
    MemoryAdd,
    Stats,
    Compact,
    Clear,
    Name,
    Model,
    Effort,
}

/// A parsed command. Its display form parses to the same command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slash {
    /// Path of a command; empty for all commands.
    Help {
        about: Vec<&'static str>,
    },
    About,
    Tools,
    ApprovalsList,
    ApprovalsRevoke {
        rule: String,
    },
    Init,
    MemoryShow,
    MemoryList,
    MemoryAdd {
        text: String,
    },
    Stats,
    Compact {
        focus: Option<String>,
    },
    Clear,
    /// None: shows the name.
    Name {
        name: Option<String>,
    },
    /// None: shows the model and the others.
    Model {
        name: Option<String>,
    },
    /// None: shows the effort.
    Effort {
        level: Option<String>,
    },
    /// A prompt from a file.
    Custom {
        name: String,
        arguments: String,
    },
    /// Explains a command from a file.
    HelpCustom {
        name: String,
    },
}

/// How the text of a prompt is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptKind {
    Message,
    Command(Slash),
    /// Written as a command, but not a valid one.
    Mistake(SlashError),
}

/// Why a line is not a valid command. Each message lists the valid forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlashError {
    #[error("there is no command `/{given}`; there are {}", names(COMMANDS, "/"))]
    UnknownCommand { given: String },
    /// The same if there are commands from files, too.
    #[error("there is no command `/{given}`; there are {known}")]
    UnknownHere { given: String, known: String },
    #[error("`/{group}` has no `{given}`; it has {}", names(below(group), ""))]
    UnknownSubCommand { group: &'static str, given: String },
    #[error("an argument is missing: `{usage}`")]
    Missing { usage: String },
    #[error("unexpected argument `{given}`: `{usage}`")]
    TooMuch { usage: String, given: String },
}

const fn leaf(name: &'static str, description: &'static str, action: Action) -> SlashCommand {
    SlashCommand { name, description, arguments: &[], sub_commands: &[], action }
}

/// Every command, in the order of the help.
pub const COMMANDS: &[SlashCommand] = &[
    SlashCommand {
        arguments: &[Argument {
            name: "command",
            description: "The command to explain; all of them without one",
            kind: ArgumentKind::Command,
            required: false,
        }],
        ..leaf("help", "Shows the commands, or explains one", Action::Help)
    },
    leaf("about", "Shows version, model, mode, workspace and session", Action::About),
    leaf("tools", "Lists the agent's tools and what each can change", Action::Tools),
    SlashCommand {
        sub_commands: &[
            leaf("list", "Lists the remembered permissions", Action::ApprovalsList),
            SlashCommand {
                arguments: &[Argument {
                    name: "rule",
                    description: "The rule's id from the list, or a prefix of it",
                    kind: ArgumentKind::Rule,
                    required: true,
                }],
                ..leaf(
                    "revoke",
                    "Revokes a permission, so that its calls are asked about again",
                    Action::ApprovalsRevoke,
                )
            },
        ],
        ..leaf("approvals", "Shows or revokes remembered permissions", Action::Group)
    },
    leaf("init", "Writes a first AGENTS.md from what is in the workspace", Action::Init),
    SlashCommand {
        sub_commands: &[
            leaf("show", "Shows the memory exactly as the model reads it", Action::MemoryShow),
            leaf("list", "Lists the files that memory is read from", Action::MemoryList),
            SlashCommand {
                arguments: &[Argument {
                    name: "text",
                    description: "What to remember",
                    kind: ArgumentKind::Text,
                    required: true,
                }],
                ..leaf("add", "Adds a note to the workspace's AGENTS.md", Action::MemoryAdd)
            },
        ],
        ..leaf("memory", "Notes that the model always reads, such as AGENTS.md", Action::Group)
    },
    leaf("stats", "Shows turns, calls, tokens, time and the size of the context", Action::Stats),
    SlashCommand {
        arguments: &[Argument {
            name: "focus",
            description: "What the summary should keep in particular",
            kind: ArgumentKind::Text,
            required: false,
        }],
        ..leaf("compact", "Replaces the conversation so far with a summary", Action::Compact)
    },
    leaf("clear", "Starts the conversation over; the log is kept", Action::Clear),
    SlashCommand {
        arguments: &[Argument {
            name: "name",
            description: "The new name; without it, the name is shown",
            kind: ArgumentKind::Text,
            required: false,
        }],
        ..leaf("name", "Shows or sets the name of this session", Action::Name)
    },
    SlashCommand {
        arguments: &[Argument {
            name: "name",
            description: "The model, as PROVIDER/MODEL; without it, the models are listed",
            kind: ArgumentKind::Text,
            required: false,
        }],
        ..leaf("model", "Shows or changes the model of this session", Action::Model)
    },
    SlashCommand {
        arguments: &[Argument {
            name: "level",
            description: "none, minimal, low, medium, high, xhigh, max, or default",
            kind: ArgumentKind::Text,
            required: false,
        }],
        ..leaf("effort", "Shows or changes how much the model thinks", Action::Effort)
    },
];

/// Parses a prompt, before any model sees it.
pub fn read_content(content: &Content) -> PromptKind {
    slash_text(content).map_or(PromptKind::Message, |text| read(&text))
}

/// The text of a prompt whose first part begins with a slash.
fn slash_text(content: &Content) -> Option<String> {
    match content.parts.first()? {
        Part::Text { text } if text.starts_with('/') => Some(content.to_text()),
        Part::Text { .. } | Part::File { .. } | Part::Data { .. } => None,
    }
}

pub fn read(text: &str) -> PromptKind {
    match text.strip_prefix('/') {
        Some(line) if is_name(line.split(char::is_whitespace).next().unwrap_or_default()) => {
            match parse_line(line) {
                Ok(command) => PromptKind::Command(command),
                Err(error) => PromptKind::Mistake(error),
            }
        }
        Some(_) | None => PromptKind::Message,
    }
}

/// A command given by its path, `["memory", "add"]`, with its arguments as one text.
pub fn parse(path: &[impl AsRef<str>], args: &str) -> Result<Slash, SlashError> {
    parse_line(&line_of(path, args))
}

fn line_of(path: &[impl AsRef<str>], args: &str) -> String {
    let mut line: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    if let Some(first) = line.first_mut() {
        *first = first.strip_prefix('/').unwrap_or(first);
    }
    line.push(args);
    line.join(" ")
}

/// The commands that complete the line, each with its full name.
pub fn complete(text: &str) -> Vec<(String, &'static SlashCommand)> {
    let text = text.to_ascii_lowercase();
    let named = |group: &str, command: &SlashCommand| match group {
        "" => format!("/{}", command.name),
        group => format!("/{group} {}", command.name),
    };
    let all = COMMANDS.iter().flat_map(|command| {
        let below = command.sub_commands.iter().map(|sub| (named(command.name, sub), sub));
        std::iter::once((named("", command), command)).chain(below)
    });
    all.filter(|(name, _)| name.starts_with(&text)).collect()
}

fn is_name(word: &str) -> bool {
    word.split(':').all(|part| {
        part.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    })
}

/// The first word, and the rest without the space between them.
fn split(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let (word, rest) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
    (word, rest.trim_start())
}

fn find(commands: &'static [SlashCommand], name: &str) -> Option<&'static SlashCommand> {
    commands.iter().find(|command| command.name.eq_ignore_ascii_case(name))
}

fn below(group: &str) -> &'static [SlashCommand] {
    find(COMMANDS, group).map_or(&[], |command| command.sub_commands)
}

fn names(commands: &[SlashCommand], before: &str) -> String {
    let names: Vec<String> =
        commands.iter().map(|command| format!("{before}{}", command.name)).collect();
    names.join(", ")
}

fn shown(text: &str) -> String {
    let front: String =
        text.chars().take(MAX_SHOWN).filter(|letter| !letter.is_control()).collect();
    if text.chars().count() > MAX_SHOWN { front + "…" } else { front }
}

/// The command at the start of a line, as a path of names, and the rest.
fn locate(line: &str) -> Result<(Vec<&'static SlashCommand>, &str), SlashError> {
    let (word, rest) = split(line);
    let unknown = || SlashError::UnknownCommand { given: shown(word) };
    let command = find(COMMANDS, word).ok_or_else(unknown)?;
    if command.action != Action::Group {
        return Ok((vec![command], rest));
    }
    let (word, after) = split(rest);
    if word.is_empty() {
        return Ok((vec![command], ""));
    }
    let unknown = || SlashError::UnknownSubCommand { group: command.name, given: shown(word) };
    let sub = find(command.sub_commands, word).ok_or_else(unknown)?;
    Ok((vec![command, sub], after))
}

fn parse_line(line: &str) -> Result<Slash, SlashError> {
    let (mut path, rest) = locate(line)?;
    if let [group] = path.as_slice()
        && let Some(first) = group.sub_commands.first()
    {
        path.push(first);
    }
    let Some(command) = path.last() else {
        return Err(SlashError::UnknownCommand { given: String::new() });
    };
    let usage = || usage(&path.iter().map(|command| command.name).collect::<Vec<_>>());
    let rest = rest.trim_end();
    match command.arguments.first() {
        None if !rest.is_empty() => {
            return Err(SlashError::TooMuch { usage: usage(), given: shown(rest) });
        }
        Some(argument) if argument.required && rest.is_empty() => {
            return Err(SlashError::Missing { usage: usage() });
        }
        Some(_) | None => {}
    }
    let word = || match split(rest) {
        (word, "") => Ok(word.to_owned()),
        (_, more) => Err(SlashError::TooMuch { usage: usage(), given: shown(more) }),
    };
    let text = || (!rest.is_empty()).then(|| rest.to_owned());
    Ok(match command.action {
        Action::Help => Slash::Help { about: topic(rest)? },
        Action::About => Slash::About,
        Action::Tools => Slash::Tools,
        // A path never ends with a group.
        Action::Group | Action::ApprovalsList => Slash::ApprovalsList,
        Action::ApprovalsRevoke => Slash::ApprovalsRevoke { rule: word()? },
        Action::Init => Slash::Init,
        Action::MemoryShow => Slash::MemoryShow,
        Action::MemoryList => Slash::MemoryList,
        Action::MemoryAdd => Slash::MemoryAdd { text: rest.to_owned() },
        Action::Stats => Slash::Stats,
        Action::Compact => Slash::Compact { focus: text() },
        Action::Clear => Slash::Clear,
        Action::Name => Slash::Name { name: text() },
        Action::Model => Slash::Model { name: text() },
        Action::Effort => Slash::Effort { level: text() },
    })
}

/// The topic of `/help`.
fn topic(text: &str) -> Result<Vec<&'static str>, SlashError> {
    let text = text.strip_prefix('/').unwrap_or(text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let (path, rest) = locate(text)?;
    let names: Vec<&'static str> = path.iter().map(|command| command.name).collect();
    match rest.is_empty() {
        true => Ok(names),
        false => Err(SlashError::TooMuch { usage: usage(&["help"]), given: shown(rest) }),
    }
}

/// The syntax of a command: `/memory add TEXT`.
pub fn usage(path: &[&str]) -> String {
    let mut usage = format!("/{}", path.join(" "));
    let mut commands = COMMANDS;
    for (depth, name) in path.iter().enumerate() {
        let Some(command) = find(commands, name) else { break };
        commands = command.sub_commands;
        if depth + 1 < path.len() {
            continue;
        }
        for argument in command.arguments {
            let name = argument.name.to_uppercase();
            usage += &if argument.required { format!(" {name}") } else { format!(" [{name}]") };
        }
        if !command.sub_commands.is_empty() {
            let names: Vec<&str> = command.sub_commands.iter().map(|sub| sub.name).collect();
            usage += &format!(" [{}]", names.join("|"));
        }
    }
    usage
}

/// All commands, or those of one group, as a list that is readable as plain text and as Markdown.
pub fn overview(about: &[&str]) -> String {
    let mut lines: Vec<(String, &str)> = Vec::new();
    let asked = |name: &str, depth: usize| about.get(depth).is_none_or(|wanted| *wanted == name);
    for command in COMMANDS.iter().filter(|command| asked(command.name, 0)) {
        if command.sub_commands.is_empty() {
            lines.push((usage(&[command.name]), command.description));
        }
        for sub in command.sub_commands.iter().filter(|sub| asked(sub.name, 1)) {
            lines.push((usage(&[command.name, sub.name]), sub.description));
        }
    }
    let lines: Vec<String> =
        lines.iter().map(|(usage, text)| format!("- `{usage}`: {text}")).collect();
    lines.join("\n")
}

/// The full help of one command.
pub fn explain(about: &[&str]) -> String {
    let mut text = overview(about);
    let mut commands = COMMANDS;
    for name in about {
        let Some(command) = find(commands, name) else { break };
        commands = command.sub_commands;
        for argument in command.arguments {
            let needed = if argument.required { "required" } else { "optional" };
            let name = argument.name.to_uppercase();
            text += &format!("\n\n{name} ({needed}): {}.", argument.description);
        }
    }
    text
}

impl Slash {
    /// Whether running it may need an approval: it changes a file, or a model reads it and may propose any call.
    pub fn may_ask(&self) -> bool {
        match self {
            Slash::Init | Slash::MemoryAdd { .. } | Slash::Custom { .. } => true,
            Slash::HelpCustom { .. }
            | Slash::Help { .. }
            | Slash::About
            | Slash::Tools
            | Slash::ApprovalsList
            | Slash::ApprovalsRevoke { .. }
            | Slash::MemoryShow
            | Slash::MemoryList
            | Slash::Stats
            | Slash::Compact { .. }
            | Slash::Clear
            | Slash::Name { .. }
            | Slash::Model { .. }
            | Slash::Effort { .. } => false,
        }
    }
}

impl fmt::Display for Slash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slash::Help { about } if about.is_empty() => out.write_str("/help"),
            Slash::Help { about } => write!(out, "/help {}", about.join(" ")),
            Slash::About => out.write_str("/about"),
            Slash::Tools => out.write_str("/tools"),
            Slash::ApprovalsList => out.write_str("/approvals list"),
            Slash::ApprovalsRevoke { rule } => write!(out, "/approvals revoke {rule}"),
            Slash::Init => out.write_str("/init"),
            Slash::MemoryShow => out.write_str("/memory show"),
            Slash::MemoryList => out.write_str("/memory list"),
            Slash::MemoryAdd { text } => write!(out, "/memory add {text}"),
            Slash::Stats => out.write_str("/stats"),
            Slash::Compact { focus: None } => out.write_str("/compact"),
            Slash::Compact { focus: Some(focus) } => write!(out, "/compact {focus}"),
            Slash::Clear => out.write_str("/clear"),
            Slash::Name { name: None } => out.write_str("/name"),
            Slash::Name { name: Some(name) } => write!(out, "/name {name}"),
            Slash::Model { name: None } => out.write_str("/model"),
            Slash::Model { name: Some(name) } => write!(out, "/model {name}"),
            Slash::Effort { level: None } => out.write_str("/effort"),
            Slash::Effort { level: Some(level) } => write!(out, "/effort {level}"),
            Slash::Custom { name, arguments, .. } if arguments.is_empty() => write!(out, "/{name}"),
            Slash::Custom { name, arguments, .. } => write!(out, "/{name} {arguments}"),
            Slash::HelpCustom { name } => write!(out, "/help {name}"),
        }
    }
}
