//! Agents that follow a script, without a model and without tools.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use loggia_core::{Access, CallFailure, CallOutcome, Details, Output, Proposal, SHELL_TOOL};
use loggia_session::{Agent, Denied, Permit, Turn, TurnOver};

use crate::test_log::{Gate, TestLog};

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Act {
    Say(String),
    Think(String, String),
    /// This many texts, each with its own message id, so that no two are joined into one event.
    Flood(usize),
    /// Proposes a call and waits for the verdict. The permit is kept for `Output` and `End`; a refusal is noted and
    /// the script continues. If an earlier owner of the session left a call open, that one is resumed instead.
    Propose(Details),
    /// Output of the current call.
    Output(Vec<u8>),
    /// Ends the current call, if there is one.
    End(CallOutcome),
    /// Writes a note into the test log.
    Note(String),
    /// Yields to other tasks once.
    Pause,
    WaitForCancel,
    WaitFor(Gate),
    Fail(String),
    Panic(String),
}

impl Act {
    pub fn say(text: impl Into<String>) -> Self {
        Act::Say(text.into())
    }

    pub fn note(text: impl Into<String>) -> Self {
        Act::Note(text.into())
    }

    /// A command that needs approval in every mode except `All`.
    pub fn execute(command: &str) -> Self {
        Act::Propose(Details::Execute {
            command: command.to_owned(),
            directory: "/workspace".to_owned(),
        })
    }

    pub fn output(text: &str) -> Self {
        Act::Output(text.as_bytes().to_vec())
    }

    pub fn succeed(text: &str) -> Self {
        Act::End(CallOutcome::Succeeded { output: Output::text(text) })
    }

    pub fn break_down(kind: &str) -> Self {
        Act::End(CallOutcome::Failed { failure: CallFailure::new(kind, kind) })
    }
}

/// Follows one script for each turn, in the order given. The last script is repeated.
///
/// Notes `turn <prompt> starts`, `turn <prompt> leaves`, `permit <command>`, `refused <command>`, and
/// `stopped` if the turn was over before the script.
#[derive(Clone)]
pub struct ScriptAgent {
    scripts: Arc<Mutex<VecDeque<Vec<Act>>>>,
    test_log: TestLog,
}

impl ScriptAgent {
    pub fn new(test_log: TestLog, scripts: impl IntoIterator<Item = Vec<Act>>) -> Arc<Self> {
        let scripts = Arc::new(Mutex::new(scripts.into_iter().collect()));
        Arc::new(Self { scripts, test_log })
    }

    /// An agent that follows the same script in every turn.
    pub fn doing(acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Self::new(TestLog::default(), [acts.into_iter().collect()])
    }

    /// An agent whose turns end at once.
    pub fn idle() -> Arc<Self> {
        Self::doing([])
    }

    pub fn test_log(&self) -> &TestLog {
        &self.test_log
    }

    fn script(&self) -> Vec<Act> {
        let mut scripts = self.scripts.lock().unwrap();
        match scripts.len() {
            0 => Vec::new(),
            1 => scripts[0].clone(),
            _ => scripts.pop_front().unwrap_or_default(),
        }
    }
}

impl Agent for ScriptAgent {
    fn run(&self, turn: Turn) -> BoxFuture<'static, Result<(), TurnOver>> {
        let (script, test_log) = (self.script(), self.test_log.clone());
        Box::pin(async move {
            let prompt = turn.context().content.to_text();
            test_log.note(format!("turn {prompt} starts"));
            let result = follow(&turn, script, &test_log).await;
            if result == Err(TurnOver::Stopped) {
                test_log.note("stopped");
            }
            test_log.note(format!("turn {prompt} leaves"));
            result
        })
    }
}

async fn follow(turn: &Turn, script: Vec<Act>, test_log: &TestLog) -> Result<(), TurnOver> {
    let message = turn.message();
    let mut left_open = turn.pending().iter();
    let mut permit: Option<Permit> = None;
    for act in script {
        match act {
            Act::Say(text) => turn.say(&message, text).await?,
            Act::Think(subject, text) => turn.think(&message, subject, text).await?,
            Act::Flood(pieces) => {
                for piece in 0..pieces {
                    turn.say(&turn.message(), format!("piece {piece}")).await?;
                }
            }
            Act::Propose(details) => {
                let title = title(&details);
                let answer = match left_open.next() {
                    Some(left) => turn.resume(&left.call).await,
                    None => {
                        turn.propose(uuid::Uuid::now_v7().into(), proposal(turn, details)).await
                    }
                };
                permit = verdict(&title, answer, test_log)?;
            }
            Act::Output(bytes) => {
                if let Some(permit) = &mut permit {
                    permit.output(&bytes).await?;
                }
            }
            Act::End(outcome) => {
                if let Some(permit) = permit.take() {
                    permit.end(outcome).await?;
                }
            }
            Act::Note(text) => test_log.note(text),
            Act::Pause => tokio::task::yield_now().await,
            Act::WaitForCancel => match &permit {
                Some(permit) => permit.stop().cancelled().await,
                None => turn.stop().cancelled().await,
            },
            Act::WaitFor(gate) => gate.passed().await,
            Act::Fail(message) => return Err(TurnOver::Failed(message)),
            Act::Panic(message) => panic!("{message}"),
        }
    }
    Ok(())
}

fn verdict(
    title: &str,
    verdict: Result<Permit, Denied>,
    test_log: &TestLog,
) -> Result<Option<Permit>, TurnOver> {
    match verdict {
        Ok(permit) => {
            test_log.note(format!("permit {title}"));
            Ok(Some(permit))
        }
        Err(Denied::Refused(_)) => {
            test_log.note(format!("refused {title}"));
            Ok(None)
        }
        Err(Denied::Over(over)) => Err(over),
    }
}

fn title(details: &Details) -> String {
    match details {
        Details::Execute { command, .. } => command.clone(),
        Details::Edit(diff) => diff.path.clone(),
        Details::Mcp { tool, .. } => tool.clone(),
        Details::Question { text, .. } | Details::Generic { text } => text.clone(),
    }
}

fn proposal(turn: &Turn, details: Details) -> Proposal {
    let (tool, access) = match &details {
        Details::Execute { .. } => (SHELL_TOOL, Access::Execute),
        Details::Edit(_) => ("edit", Access::Edit),
        Details::Question { .. } => ("ask", Access::Ask),
        Details::Mcp { .. } | Details::Generic { .. } => ("other", Access::Other),
    };
    Proposal {
        message: turn.message(),
        tool: tool.to_owned(),
        title: title(&details),
        access,
        input: serde_json::Value::Null,
        details,
        needs_person: false,
    }
}
