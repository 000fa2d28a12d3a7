//! A step of the offline model, its tool call and its text form.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::model::actions;

pub const ASK: &str = "ask_user";

/// Placeholder for the answer to the last question, in every later text.
const ANSWER: &str = "{answer}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Say(String),
    Think {
        subject: String,
        text: String,
    },
    Wait(Duration),
    Fail(String),
    /// Calls a tool and ends the reply.
    Call(CallStep),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallStep {
    Run { command: String },
    Write { path: String, content: String },
    Edit { path: String, old: String, new: String },
    Read { path: String },
    List { path: String },
    Search { pattern: String },
    Plan { todos: Vec<String> },
    Ask { question: String },
    Artifact { name: String, text: String },
}

impl Step {
    pub fn call(&self) -> Option<&CallStep> {
        match self {
            Step::Call(call) => Some(call),
            Step::Say(_) | Step::Think { .. } | Step::Wait(_) | Step::Fail(_) => None,
        }
    }

    /// The same step with the answer filled in.
    #[must_use]
    pub fn with_answer(&self, answer: &str) -> Step {
        let fill = |text: &String| actions::fill(text, ANSWER, answer);
        match self {
            Step::Say(text) => Step::Say(fill(text)),
            Step::Think { subject, text } => {
                Step::Think { subject: fill(subject), text: fill(text) }
            }
            Step::Wait(duration) => Step::Wait(*duration),
            Step::Fail(message) => Step::Fail(fill(message)),
            Step::Call(call) => Step::Call(call.map(fill)),
        }
    }
}

impl CallStep {
    /// The tool for this step, and its input.
    pub fn tool(&self) -> (&'static str, Value) {
        match self {
            CallStep::Run { command } => ("run_shell_command", json!({ "command": command })),
            CallStep::Write { path, content } => {
                ("write_file", json!({ "path": path, "content": content }))
            }
            CallStep::Edit { path, old, new } => {
                ("replace", json!({ "path": path, "old_string": old, "new_string": new }))
            }
            CallStep::Read { path } => ("read_file", json!({ "path": path })),
            CallStep::List { path } => ("list_directory", json!({ "path": path })),
            CallStep::Search { pattern } => ("search_file_content", json!({ "pattern": pattern })),
            CallStep::Plan { todos } => {
                let todos: Vec<Value> =
                    todos.iter().map(|text| json!({ "text": text, "state": "pending" })).collect();
                ("write_todos", json!({ "todos": todos }))
            }
            CallStep::Ask { question } => (ASK, json!({ "question": question })),
            CallStep::Artifact { name, text } => {
                ("publish_artifact", json!({ "name": name, "text": text }))
            }
        }
    }

    fn map(&self, fill: impl Fn(&String) -> String) -> CallStep {
        match self {
            CallStep::Run { command } => CallStep::Run { command: fill(command) },
            CallStep::Write { path, content } => {
                CallStep::Write { path: fill(path), content: fill(content) }
            }
            CallStep::Edit { path, old, new } => {
                CallStep::Edit { path: fill(path), old: fill(old), new: fill(new) }
            }
            CallStep::Read { path } => CallStep::Read { path: fill(path) },
            CallStep::List { path } => CallStep::List { path: fill(path) },
            CallStep::Search { pattern } => CallStep::Search { pattern: fill(pattern) },
            CallStep::Plan { todos } => CallStep::Plan { todos: todos.iter().map(fill).collect() },
            CallStep::Ask { question } => CallStep::Ask { question: fill(question) },
            CallStep::Artifact { name, text } => {
                CallStep::Artifact { name: fill(name), text: fill(text) }
            }
        }
    }
}

/// A code fence that no line of the text can close.
pub fn fence(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

/// Lines that parse to this step.
impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Say(text) => write!(out, "say {text}"),
            Step::Think { subject, text } => write!(out, "think {subject}: {text}"),
            Step::Wait(duration) => write!(out, "wait {}ms", duration.as_millis()),
            Step::Fail(message) => write!(out, "fail {message}"),
            Step::Call(call) => call.fmt(out),
        }
    }
}

impl fmt::Display for CallStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallStep::Run { command } => write!(out, "run {command}"),
            CallStep::Write { path, content } => {
                write!(out, "write {path}:")?;
                match content.strip_suffix('\n') {
                    Some(line) => write_text(out, line, content),
                    None => write_block(out, content),
                }
            }
            CallStep::Edit { path, old, new } if old.contains('\n') => {
                write!(out, "edit {path}:")?;
                write_block(out, old)?;
                write_block(out, new)
            }
            CallStep::Edit { path, old, new } => write!(out, "edit {path}: {old} => {new}"),
            CallStep::Read { path } => write!(out, "read {path}"),
            CallStep::List { path } => write!(out, "list {path}"),
            CallStep::Search { pattern } => write!(out, "search {pattern}"),
            CallStep::Plan { todos } => write!(out, "plan: {}", todos.join("; ")),
            CallStep::Ask { question } => write!(out, "ask {question}"),
            CallStep::Artifact { name, text } => {
                write!(out, "artifact {name}:")?;
                write_text(out, text, text)
            }
        }
    }
}

/// Writes `line` after the colon if it fits on one line, otherwise `block` in a fence.
fn write_text(out: &mut fmt::Formatter<'_>, line: &str, block: &str) -> fmt::Result {
    let fits =
        !line.is_empty() && !line.contains('\n') && !line.starts_with("```") && line.trim() == line;
    if fits { write!(out, " {line}") } else { write_block(out, block) }
}

fn write_block(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let fence = fence(text);
    write!(out, "\n{fence}\n{text}{fence}")
}
