//! The `loggia` subprotocol of `/ws`: the log itself, for `loggia attach`.
//!
//! One JSON object for each text frame. An attached terminal gets the envelopes of the log and folds them
//! like a local one. It sends the commands that any client may send; running turns and setting up sessions
//! stay on the server.

use std::sync::Arc;

use loggia_core::{
    Cancel, ChoiceId, Command, Content, CustomCommands, Edit, Envelope, Origin, PromptId, Question,
    Refusal, Seq, SessionId, TaskChoice, TaskId,
};
use serde::{Deserialize, Serialize};

/// The subprotocol in `Sec-WebSocket-Protocol`.
pub const SUBPROTOCOL: &str = "loggia";

/// The largest prompt, in bytes.
pub const PROMPT_LIMIT: usize = 1024 * 1024;

/// A command with a number that its answer repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandRequest {
    pub id: u64,
    #[serde(flatten)]
    pub command: ClientCommand,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientCommand {
    Prompt {
        prompt: PromptId,
        content: Content,
    },
    /// A shell command typed by the person.
    Shell {
        prompt: PromptId,
        line: String,
    },
    Answer {
        to: Question,
        choice: ChoiceId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<Edit>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    Cancel {
        what: Cancel,
    },
}

impl ClientCommand {
    /// The command in this form; None for a command that a client does not send.
    pub fn of(command: Command) -> Option<Self> {
        match command {
            Command::Prompt { prompt, task: TaskChoice::New, content } => {
                Some(ClientCommand::Prompt { prompt, content })
            }
            Command::Shell { prompt, line } => Some(ClientCommand::Shell { prompt, line }),
            Command::Answer { to, choice, edit, digest, message: _ } => {
                Some(ClientCommand::Answer { to, choice, edit, digest })
            }
            Command::Cancel { what } => Some(ClientCommand::Cancel { what }),
            Command::Prompt { .. }
            | Command::Reply(_)
            | Command::Open { .. }
            | Command::OpenTask { .. }
            | Command::Screened { .. }
            | Command::Configure { .. }
            | Command::Amend { .. }
            | Command::Name { .. }
            | Command::Notice { .. }
            | Command::Close { .. }
            | Command::Expire { .. }
            | Command::Report { .. } => None,
        }
    }
}

impl From<ClientCommand> for Command {
    fn from(command: ClientCommand) -> Self {
        match command {
            ClientCommand::Prompt { prompt, content } => {
                Command::Prompt { prompt, task: TaskChoice::New, content }
            }
            ClientCommand::Shell { prompt, line } => Command::Shell { prompt, line },
            ClientCommand::Answer { to, choice, edit, digest } => {
                Command::Answer { to, choice, edit, digest, message: None }
            }
            ClientCommand::Cancel { what } => Command::Cancel { what },
        }
    }
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Update {
    /// The first frame. `commands` are the custom commands, for completion; they may change later.
    Welcome {
        session: SessionId,
        head: Seq,
        you: Origin,
        #[serde(default)]
        commands: CustomCommands,
    },
    /// One event of the log, in order, without gaps.
    Event { envelope: Arc<Envelope> },
    /// The command is on disk.
    Done {
        id: u64,
        after: Seq,
        seq: Seq,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// The command was refused and changed nothing.
    Refused { id: u64, refusal: Refusal },
    /// The command could not be accepted now.
    Failed { id: Option<u64>, message: String },
    /// The connected clients, this one included.
    Present { clients: Vec<Origin> },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(request: &CommandRequest) -> CommandRequest {
        serde_json::from_str(&serde_json::to_string(request).unwrap()).unwrap()
    }

    #[test]
    fn commands_survive_the_wire() {
        let commands = [
            Command::Prompt {
                prompt: "p1".into(),
                task: TaskChoice::New,
                content: Content::text("say hi"),
            },
            Command::Shell { prompt: "p2".into(), line: "make | tail".into() },
            Command::Answer {
                to: Question::Approval("a1".into()),
                choice: "proceed_once".into(),
                edit: Some(Edit::Command { command: "ls".into() }),
                digest: Some("d".into()),
                message: None,
            },
            Command::Answer {
                to: Question::Call("c1".into()),
                choice: "cancel".into(),
                edit: None,
                digest: None,
                message: None,
            },
            Command::Cancel { what: Cancel::Turn },
            Command::Cancel { what: Cancel::Prompt("p1".into()) },
        ];
        for command in commands {
            let request =
                CommandRequest { id: 7, command: ClientCommand::of(command.clone()).unwrap() };
            assert_eq!(round(&request), request);
            assert_eq!(Command::from(request.command), command);
        }
    }

    #[test]
    fn commands_of_the_owner_have_no_form() {
        let close = Command::Close { reason: loggia_core::CloseReason::Requested };
        assert_eq!(ClientCommand::of(close), None);
        let text = r#"{"id":1,"type":"configure","settings":{}}"#;
        assert!(serde_json::from_str::<CommandRequest>(text).is_err());
    }
}
