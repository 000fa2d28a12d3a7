//! The offline model's last text: the results of all calls, or the call that failed and why.
//!
//! Uses the call's own input and outcome instead of the prompt, because a person may have edited the call
//! before it ran.

use loggia_core::CallOutcome;
use serde_json::Value;

use super::parse::Instruction;
use super::step::{CallStep, fence};
use crate::model::PastCall;
use crate::model::actions::{self, RESULT_BYTES};

/// The results of all calls; None if there were none.
pub fn results(script: &[Instruction], done: &[&PastCall]) -> Option<String> {
    let calls = script.iter().filter_map(|instruction| instruction.step.call());
    let blocks: Vec<String> = calls.zip(done).map(|(step, call)| result(step, call)).collect();
    (!blocks.is_empty()).then(|| blocks.join("\n\n"))
}

/// If a call failed: the results before it, the failed step, and the number of later steps.
pub fn failure(script: &[Instruction], done: &[&PastCall]) -> Option<String> {
    let failed = done.iter().position(|call| failure_reason(&call.outcome).is_some())?;
    let calls = script.iter().enumerate().filter(|(_, line)| line.step.call().is_some());
    let (index, instruction) = calls.clone().nth(failed)?;
    let reason = failure_reason(&done.get(failed)?.outcome)?;
    let left = script.len() - index - 1;
    let left = match left {
        0 => String::new(),
        1 => "\n\n1 later step was not done.".to_owned(),
        left => format!("\n\n{left} later steps were not done."),
    };
    let before = results(script, done.get(..failed)?).map(|text| text + "\n\n");
    Some(format!(
        "{}Line {}, {}, {reason}{left}",
        before.unwrap_or_default(),
        instruction.line,
        code(&instruction.step.to_string()),
    ))
}

fn failure_reason(outcome: &CallOutcome) -> Option<String> {
    match outcome {
        CallOutcome::Succeeded { .. } => None,
        CallOutcome::Failed { failure } => Some(format!("failed: {}", clipped(&failure.message))),
        // Clients show with the call who refused it.
        CallOutcome::Cancelled { reason } if reason.starts_with("refused by ") => {
            Some("was not done: refused".to_owned())
        }
        CallOutcome::Cancelled { reason } => Some(format!("was not done: {}", clipped(reason))),
    }
}

fn result(step: &CallStep, call: &PastCall) -> String {
    let text = call.outcome.summary().trim_end();
    let field = |name: &str| match call.input.get(name) {
        Some(Value::String(text)) => actions::start(text),
        _ => "?".to_owned(),
    };
    match step {
        CallStep::Run { .. } => with_block(&format!("ran {}", code(&field("command"))), text),
        CallStep::Read { .. } => with_block(&format!("read {}", field("path")), text),
        CallStep::List { .. } => with_block(&format!("listed {}", field("path")), text),
        CallStep::Search { .. } => {
            with_block(&format!("searched for {}", code(&field("pattern"))), text)
        }
        CallStep::Write { .. } => with_sentence(&format!("wrote {}", field("path")), text),
        CallStep::Edit { .. } => with_sentence(&format!("edited {}", field("path")), text),
        CallStep::Artifact { .. } => with_sentence(&format!("published {}", field("name")), text),
        CallStep::Ask { .. } => with_sentence(&format!("asked {}", code(&field("question"))), text),
        CallStep::Plan { todos } => match todos.len() {
            1 => "planned 1 step".to_owned(),
            steps => format!("planned {steps} steps"),
        },
    }
}

/// For tools that return a sentence. It may contain more than the title, for example that a person
/// changed the call before it ran.
fn with_sentence(title: &str, text: &str) -> String {
    if text.is_empty() {
        title.to_owned()
    } else if text.contains('\n') {
        with_block(title, text)
    } else if text.to_lowercase().starts_with(&title.to_lowercase()) {
        clipped(text)
    } else {
        format!("{title}: {}", clipped(text))
    }
}

fn with_block(title: &str, text: &str) -> String {
    let (front, left_out) = actions::clip(text, RESULT_BYTES);
    if front.is_empty() {
        return format!("{title}: no output");
    }
    let fence = fence(front);
    let note = match left_out {
        0 => String::new(),
        bytes => format!("\n({bytes} more bytes are not repeated here)"),
    };
    format!("{title}:\n{fence}\n{front}\n{fence}{note}")
}

fn clipped(text: &str) -> String {
    match actions::clip(text, RESULT_BYTES) {
        (front, 0) => front.to_owned(),
        (front, left_out) => format!("{front}… ({left_out} more bytes)"),
    }
}

/// The beginning of a text as inline code.
fn code(text: &str) -> String {
    let front = actions::start(text);
    if front.contains('`') { format!("`` {front} ``") } else { format!("`{front}`") }
}
