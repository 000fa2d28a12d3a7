//! Frames in a form that is easy to read: one after the other, with short names instead of ids, without
//! common ids, and compact.

use std::collections::HashMap;

use loggia_core::{Envelope, Event};
use loggia_wire::{Dialect, End, Extension, Frame, Projector, View};
use serde_json::Value;

pub fn project(log: &[Envelope], view: View) -> Vec<Frame> {
    let mut projector = Projector::new("session-1".into(), view);
    log.iter().flat_map(|envelope| projector.project(envelope)).collect()
}

/// The folder and the title of a view.
pub fn name(view: View) -> &'static str {
    match (view.dialect, view.extension) {
        (Dialect::A2a03, Extension::On) => "a2a03-devtool",
        (Dialect::A2a03, Extension::Off) => "a2a03-plain",
        (Dialect::Proto03, Extension::On) => "proto03-devtool",
        (Dialect::Proto03, Extension::Off) => "proto03-plain",
        (Dialect::A2a1, Extension::On) => "a2a1-devtool",
        (Dialect::A2a1, Extension::Off) => "a2a1-plain",
        (Dialect::Legacy, _) => "tasks",
        (Dialect::Sdlc, _) => "sdlc-documented",
        (Dialect::Coder, _) => "sdlc-shipped",
    }
}

pub fn transcript(log: &[Envelope], view: View) -> String {
    let names = names(log);
    let frames = project(log, view);
    let text: String = frames.iter().map(frame_text).collect();
    let mut named = text;
    for (id, name) in names {
        named = named.replace(&id, &name);
    }
    digests(&named)
}

fn frame_text(frame: &Frame) -> String {
    let ends = match frame.ends {
        None => "",
        Some(End::InputRequired) => "   (the request's stream ends: an answer is needed)",
        Some(End::Terminal) => "   (the stream ends: the task is over)",
    };
    let mut body = frame.body.clone();
    drop_repeated(&mut body, frame.task.as_str());
    format!("{} · {}{ends}\n{}\n\n", frame.id, frame.task, compact(&body, 0))
}

/// The ids that every event and message repeats; a law checks them.
fn drop_repeated(value: &mut Value, task: &str) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| match name.as_str() {
                "contextId" => value != "session-1",
                "taskId" => value != task,
                _ => true,
            });
            map.values_mut().for_each(|value| drop_repeated(value, task));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_repeated(item, task)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// JSON with sorted members, on one line if it fits.
pub fn compact(value: &Value, indent: usize) -> String {
    let flat = flat(value);
    if flat.chars().count() + indent <= 110 {
        return flat;
    }
    let inner = " ".repeat(indent + 2);
    let outer = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let lines: Vec<String> = members
                .into_iter()
                .map(|(name, value)| {
                    format!("{inner}{:?}: {}", short(name), compact(value, indent + 2))
                })
                .collect();
            format!("{{\n{}\n{outer}}}", lines.join(",\n"))
        }
        Value::Array(items) => {
            let lines: Vec<String> =
                items.iter().map(|item| format!("{inner}{}", compact(item, indent + 2))).collect();
            format!("[\n{}\n{outer}]", lines.join(",\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => flat,
    }
}

/// The extension's URI is long and always the same.
fn short(text: &str) -> String {
    text.replace(loggia_wire::devtool::URI, "<development-tool>")
}

fn flat(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{:?}: {}", short(name), flat(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flat).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            short(&value.to_string())
        }
    }
}

/// Short names for the ids in a log, in order of appearance.
fn names(log: &[Envelope]) -> Vec<(String, String)> {
    let mut named: HashMap<String, String> = HashMap::new();
    let mut order: Vec<(String, String)> = Vec::new();
    let mut counts: HashMap<&'static str, usize> = HashMap::new();
    let mut add = |kind: &'static str, id: &str| {
        // Generated ids only: ids that the test chose stay.
        if id.len() < 32 || named.contains_key(id) {
            return;
        }
        let count = counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{kind}-{count}");
        named.insert(id.to_owned(), name.clone());
        order.push((id.to_owned(), name));
    };
    for envelope in log {
        match &envelope.event {
            Event::PromptAccepted { prompt, task, .. } => {
                add("task", task.as_str());
                add("prompt", prompt.as_str());
            }
            Event::TurnStarted { turn, .. } => add("turn", turn.as_str()),
            Event::TextAppended { message, .. } | Event::ThoughtAppended { message, .. } => {
                add("reply", message.as_str());
            }
            Event::CallProposed { call, message, .. } => {
                add("reply", message.as_str());
                add("call", call.as_str());
            }
            Event::ApprovalAsked { approval, .. } => add("approval", approval.as_str()),
            _ => {}
        }
    }
    order
}

/// A hash is replaced too.
fn digests(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let flush = |out: &mut String, word: &mut String| {
        out.push_str(if word.len() == 64 { "<sha256>" } else { word });
        word.clear();
    };
    for c in text.chars() {
        if c.is_ascii_hexdigit() {
            word.push(c);
        } else {
            flush(&mut out, &mut word);
            out.push(c);
        }
    }
    flush(&mut out, &mut word);
    out
}
