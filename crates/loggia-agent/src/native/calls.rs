//! Runs the calls of a reply: checks each, proposes it, waits for its permit, runs the tool and records the
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use loggia_core::{Access, CallId, CallOutcome, Details, Edit, Level, MessageId, Proposal};
use loggia_session::{Denied, Permit, Turn, TurnOver};
use serde_json::Value;

use super::reply::{ModelReply, RequestedCall};
use super::{NativeAgent, failed};
use crate::tool::{Tool, ToolError};
use crate::workspace::Workspace;

/// Bytes of one call's input.
const INPUT_LIMIT: usize = 1024 * 1024;
/// Nesting levels of one call's input. A deeper one could be logged but not be parsed again.
const INPUT_DEPTH: usize = 64;
/// How long a tool may exceed its time limit before its future is dropped.
const TOOL_GRACE: Duration = Duration::from_secs(5);

pub(super) struct FinishedCall {
    pub call: CallId,
    pub tool: String,
    pub input: Value,
    pub outcome: CallOutcome,
    /// False if the input was invalid or the tool unknown.
    pub readable: bool,
}

/// A call that cannot be proposed, with the outcome for the model.
struct Unreadable {
    input: Value,
    outcome: CallOutcome,
}

impl NativeAgent {
    pub(super) async fn run_calls(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
        reply: ModelReply,
    ) -> Result<Vec<FinishedCall>, TurnOver> {
        let ModelReply { message, calls, surplus, .. } = reply;
        if surplus > 0 {
            let text =
                format!("the model asked for {surplus} calls too many at once; they were left out");
            turn.notice(Level::Warning, text).await?;
        }
        let running =
            calls.into_iter().map(|requested| self.run_call(turn, workspace, &message, requested));
        join_all(running).await.into_iter().collect()
    }

    pub(super) async fn run_call(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
        message: &MessageId,
        requested: RequestedCall,
    ) -> Result<FinishedCall, TurnOver> {
        let RequestedCall { call, tool: name, input } = requested;
        let (tool, input) = match self.check_call(&name, input) {
            Ok(found) => found,
            Err(Unreadable { input, outcome }) => {
                turn.invalid(call.clone(), message, &name, input.clone(), outcome.clone()).await?;
                return Ok(FinishedCall { call, tool: name, input, outcome, readable: false });
            }
        };
        let spec = tool.spec();
        let preview = match tool.preview(&input, workspace).await {
            Ok(preview) => preview,
            Err(ToolError::Stopped) => return Err(TurnOver::Stopped),
            Err(ToolError::Failed(failure)) => {
                let readable = failure.kind != "invalid_input";
                let outcome = CallOutcome::Failed { failure };
                turn.invalid(call.clone(), message, &name, input.clone(), outcome.clone()).await?;
                return Ok(FinishedCall { call, tool: name, input, outcome, readable });
            }
        };
        let proposal = Proposal {
            message: message.clone(),
            tool: name.clone(),
            title: preview.title,
            access: access(spec.access, &preview.details),
            input: input.clone(),
            details: preview.details,
            needs_person: preview.needs_person,
        };
        let outcome = match turn.propose(call.clone(), proposal).await {
            Ok(permit) => run_permitted(turn, tool, permit, workspace).await?,
            Err(Denied::Refused(outcome)) => outcome,
            Err(Denied::Over(over)) => return Err(over),
        };
        Ok(FinishedCall { call, tool: name, input, outcome, readable: true })
    }

    /// The tool and the parsed input of a call.
    fn check_call(
        &self,
        name: &str,
        input: Result<Value, String>,
    ) -> Result<(&Arc<dyn Tool>, Value), Unreadable> {
        let unreadable = |input, kind, why| Unreadable { input, outcome: failed(kind, why) };
        let input = input.map_err(|raw| {
            let shown: String = raw.chars().take(200).collect();
            let why = format!("the input of {name} is not valid JSON: {shown}");
            unreadable(Value::String(shown), "malformed_input", why)
        })?;
        if input.to_string().len() > INPUT_LIMIT {
            let why = format!("the input of {name} is larger than {INPUT_LIMIT} bytes");
            return Err(unreadable(Value::Null, "input_too_large", why));
        }
        if !is_shallow(&input, INPUT_DEPTH) {
            let why = format!("the input of {name} is nested deeper than {INPUT_DEPTH} levels");
            return Err(unreadable(Value::Null, "input_too_deep", why));
        }
        match self.tools.find(name) {
            Some(tool) => Ok((tool, input)),
            None => {
                let known: Vec<String> =
                    self.tools.specs().iter().map(|spec| spec.name.clone()).collect();
                let why = format!("there is no tool {name}; the tools are {}", known.join(", "));
                Err(unreadable(input, "unknown_tool", why))
            }
        }
    }
}

/// Runs a permitted call to its end and records how it went.
pub(super) async fn run_permitted(
    turn: &Turn,
    tool: &Arc<dyn Tool>,
    mut permit: Permit,
    workspace: &Arc<Workspace>,
) -> Result<CallOutcome, TurnOver> {
    let limit = Duration::from_secs(turn.context().settings.limits.call_seconds);
    let edit = permit.answer().and_then(|(_, edit)| edit).and_then(|edit| match edit {
        Edit::File { .. } => Some("The user changed the content before approving it.\n".to_owned()),
        Edit::Command { command } => {
            Some(format!("The user changed the command before approving it: {command}\n"))
        }
        Edit::Text { .. } => None,
    });
    let ran = tokio::time::timeout(limit + TOOL_GRACE, tool.run(&mut permit, workspace)).await;
    let outcome = match ran {
        Ok(Ok(mut output)) => {
            // At the beginning, because the end of a long output may be cut.
            if let Some(edit) = edit {
                output.text.insert_str(0, &edit);
            }
            CallOutcome::Succeeded { output }
        }
        Ok(Err(ToolError::Failed(failure))) => CallOutcome::Failed { failure },
        Ok(Err(ToolError::Stopped)) => return Err(TurnOver::Stopped),
        Err(_) => failed("timeout", format!("timed out after {} s", limit.as_secs())),
    };
    permit.end(outcome.clone()).await?;
    Ok(outcome)
}

/// The access that a call needs. An edit that changes nothing only reads, so it needs no approval.
fn access(of_tool: Access, details: &Details) -> Access {
    match details {
        Details::Edit(diff) if diff.changes_nothing() => Access::Read,
        _ => of_tool,
    }
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    let Some(inner) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, inner)),
        Value::Object(members) => members.values().all(|member| is_shallow(member, inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
