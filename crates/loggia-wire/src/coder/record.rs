//! The record of one call: its request, its status, its question, its result.

use loggia_core::{Access, CallOutcome, ChoiceId, Details, FileDiff, KnownChoice};
use serde_json::{Value, json};

use super::types::{
    AskedQuestion, ConfirmationDetails, Display, QuestionOption, Request, Response, ToolCall,
    ToolName, ToolStatus,
};
use crate::devtool::schema::object;
use crate::project::calls::OpenCall;

/// `prompt` is the prompt of the turn; in a snapshot it is the task.
pub(super) fn record(call: &OpenCall, status: ToolStatus, task: &str, prompt: &str) -> ToolCall {
    ToolCall {
        request: Request {
            call_id: call.id.to_string(),
            name: call.tool.clone(),
            args: object(&call.input),
            display: Display { name: call.tool.clone(), description: call.title.clone() },
            is_client_initiated: false,
            prompt_id: prompt.to_owned(),
            trace_id: call.message.to_string(),
            scheduler_id: task.to_owned(),
        },
        status,
        confirmation_details: None,
        response: None,
        outcome: call.answer.as_ref().map(|answer| outcome_word(&answer.choice).to_owned()),
        tool: ToolName {
            name: call.tool.clone(),
            display_name: call.tool.clone(),
            kind: kind_of(call.access),
        },
    }
}

/// The outcome of a choice.
fn outcome_word(choice: &str) -> &str {
    match KnownChoice::from_id(choice) {
        Some(KnownChoice::ProceedAlwaysProject) => "proceed_always_and_save",
        Some(KnownChoice::Answer) => ChoiceId::PROCEED_ONCE,
        Some(KnownChoice::ProceedOnce | KnownChoice::ProceedAlways | KnownChoice::Cancel)
        | None => choice,
    }
}

fn kind_of(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Session => "think",
        Access::Edit => "edit",
        Access::Execute => "execute",
        Access::Ask => "communicate",
        Access::Other => "other",
    }
}

/// The details that a person has to decide about.
pub(super) fn details(call: &OpenCall) -> ConfirmationDetails {
    let title = call.title.clone();
    match &call.details {
        Details::Edit(diff) => ConfirmationDetails::Edit {
            title,
            file_name: file_name(diff).to_owned(),
            file_path: diff.absolute_path.clone(),
            file_diff: diff.unified.clone(),
            original_content: diff.old.clone().unwrap_or_default(),
            new_content: diff.new.clone(),
        },
        Details::Execute { command, .. } => {
            let root_commands = root_commands(command);
            let root_command = root_commands.join(", ");
            let command = command.clone();
            ConfirmationDetails::Exec { title, command, root_command, root_commands }
        }
        Details::Mcp { server, tool } => ConfirmationDetails::Mcp {
            title,
            server_name: server.clone(),
            tool_name: tool.clone(),
            tool_display_name: tool.clone(),
            tool_args: object(&call.input),
        },
        Details::Question { text, options } => {
            let option = |option: &String| QuestionOption {
                label: option.clone(),
                description: String::new(),
            };
            let kind = if options.is_empty() { "text" } else { "choice" };
            let options = options.iter().map(option).collect();
            let (question, header) = (text.clone(), String::new());
            let questions = vec![AskedQuestion { question, header, kind, options }];
            ConfirmationDetails::AskUser { title, questions }
        }
        Details::Generic { text } => {
            ConfirmationDetails::Info { title, prompt: text.clone(), urls: Vec::new() }
        }
    }
}

/// The programs that a command line runs, as far as they can be read with certainty.
fn root_commands(line: &str) -> Vec<String> {
    let Ok(commands) = loggia_shell::plain_commands(line) else {
        return line.split_whitespace().next().map(str::to_owned).into_iter().collect();
    };
    let mut names: Vec<String> = Vec::new();
    for name in commands.into_iter().filter_map(|command| command.words.into_iter().next()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn file_name(diff: &FileDiff) -> &str {
    diff.path.rsplit('/').next().unwrap_or_default()
}

/// The result.
pub(super) fn response(call: &OpenCall, outcome: &CallOutcome) -> (ToolStatus, Response) {
    let (status, text, error, kind) = match outcome {
        CallOutcome::Succeeded { output } => (ToolStatus::Success, &output.text, None, None),
        CallOutcome::Failed { failure } => {
            let (why, kind) = (failure.message.clone(), failure.kind.clone());
            (ToolStatus::Error, &failure.message, Some(why), Some(kind))
        }
        CallOutcome::Cancelled { reason } => (ToolStatus::Cancelled, reason, None, None),
    };
    let said = match status {
        ToolStatus::Success => json!({ "output": text }),
        _ => json!({ "error": text }),
    };
    let part =
        json!({ "functionResponse": { "id": call.id, "name": call.tool, "response": said } });
    let response = Response {
        call_id: call.id.to_string(),
        response_parts: vec![part],
        result_display: display(outcome, text),
        error,
        error_type: kind,
        content_length: text.len(),
    };
    (status, response)
}

fn display(outcome: &CallOutcome, text: &str) -> Value {
    let changed = match outcome {
        CallOutcome::Succeeded { output } => output.diff.as_ref(),
        CallOutcome::Failed { .. } | CallOutcome::Cancelled { .. } => None,
    };
    changed.map_or_else(
        || text.into(),
        |diff| {
            json!({
                "fileDiff": diff.unified,
                "fileName": file_name(diff),
                "filePath": diff.absolute_path,
                "originalContent": diff.old.clone().unwrap_or_default(),
                "newContent": diff.new,
                "isNewFile": diff.old.is_none(),
            })
        },
    )
}
