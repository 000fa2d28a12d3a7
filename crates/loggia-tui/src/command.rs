//! The slash commands for completion: those of the terminal interface and those of every session.

use loggia_core::CustomCommand;
use loggia_core::slash::COMMANDS;

use crate::safe::one_line;

/// The arguments of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    None,
    Fixed(Vec<String>),
    Free(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    pub name: String,
    pub about: String,
    pub values: Values,
    /// Some: handled by the terminal interface. None: sent to the session.
    pub local: Option<Local>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    Help,
    Share,
    Resume,
    Transcript,
    Copy,
    Mode,
    Vim,
    Quit,
}

impl SlashCommand {
    pub fn takes_argument(&self) -> bool {
        self.values != Values::None
    }

    pub fn argument_hint(&self) -> String {
        match &self.values {
            Values::None => String::new(),
            Values::Fixed(values) => format!(" {}", values.join("|")),
            Values::Free(name) if name.is_empty() => String::new(),
            Values::Free(name) => format!(" {name}"),
        }
    }
}

/// All commands, sorted by name.
pub fn all(custom: &[CustomCommand]) -> Vec<SlashCommand> {
    let mut all = built_in();
    all.extend(custom.iter().map(|command| SlashCommand {
        name: one_line(&command.name).into_owned(),
        about: one_line(&command.description).into_owned(),
        // Any argument is inserted into its prompt.
        values: Values::Free(one_line(command.hint.as_deref().unwrap_or_default()).into_owned()),
        local: None,
    }));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn built_in() -> Vec<SlashCommand> {
    let local = |name: &str, about: &str, local| SlashCommand {
        name: name.to_owned(),
        about: about.to_owned(),
        values: Values::None,
        local: Some(local),
    };
    let mut all = vec![
        local("help", "the keys and commands", Local::Help),
        SlashCommand {
            values: Values::Free("[PORT|code|off]".into()),
            ..local("share", "share this session", Local::Share)
        },
        local("resume", "resume another session", Local::Resume),
        local("transcript", "the whole transcript, to scroll and search", Local::Transcript),
        local("copy", "copy the last answer", Local::Copy),
        local("vim", "turn Vim keys on or off", Local::Vim),
        local("quit", "leave; the session is kept", Local::Quit),
    ];
    let modes = ["ask", "edits", "plan", "all"].map(str::to_owned).to_vec();
    all.push(SlashCommand {
        values: Values::Fixed(modes),
        ..local("mode", "the approval mode", Local::Mode)
    });
    all.extend(of_the_session());
    all
}

/// The session's commands. `/help` is handled here because it also shows the keys.
fn of_the_session() -> impl Iterator<Item = SlashCommand> {
    COMMANDS.iter().filter(|command| command.name != "help").map(|command| SlashCommand {
        name: command.name.to_owned(),
        about: command.description.to_owned(),
        values: match (command.sub_commands, command.arguments) {
            ([], []) => Values::None,
            ([], arguments) => {
                let names = arguments.iter().map(|argument| argument.name.to_uppercase());
                Values::Free(names.collect::<Vec<_>>().join(" "))
            }
            (below, _) => Values::Fixed(below.iter().map(|one| one.name.to_owned()).collect()),
        },
        local: None,
    })
}

/// Parses a local command and its argument.
pub fn local(text: &str) -> Option<(Local, &str)> {
    // A leading space makes any text a message, as in every client.
    let line = text.trim_end().strip_prefix('/')?;
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let known = built_in().into_iter().find(|known| known.name.eq_ignore_ascii_case(name))?;
    let (local, argument) = (known.local?, argument.trim());
    // `/help mode` is sent to the session.
    (local != Local::Help || argument.is_empty()).then_some((local, argument))
}

/// The names of the local commands.
pub fn of_this_screen() -> String {
    let own = built_in().into_iter().filter(|known| known.local.is_some());
    own.map(|known| format!("/{}", known.name)).collect::<Vec<_>>().join(", ")
}

/// The name of a local command without arguments.
pub fn alone(local: Local) -> Option<String> {
    let known = built_in().into_iter().find(|known| known.local == Some(local))?;
    (!known.takes_argument()).then_some(known.name)
}

#[cfg(test)]
mod tests {
    use loggia_core::slash::custom::{TERMINAL_COMMANDS, is_taken};

    use super::*;

    /// A command file with the name of a local command could never be reached.
    #[test]
    fn names_of_the_screen_are_taken() {
        let local: Vec<String> = built_in()
            .into_iter()
            .filter(|known| known.local.is_some() && known.name != "help")
            .map(|known| known.name)
            .collect();
        assert_eq!(local, TERMINAL_COMMANDS);
        assert!(built_in().iter().all(|known| is_taken(&known.name)));
    }
}
