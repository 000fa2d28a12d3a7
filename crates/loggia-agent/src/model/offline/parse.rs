//! Reads a prompt as steps, or says line by line why it cannot.
//!
//! Total: any text comes out as a [`Reading`]. Must not know what the steps will do.

use std::iter::{Enumerate, Peekable};
use std::str::Lines;

use super::step::{CallStep, Step};
use crate::model::play::{duration, start};

/// A step and the line of the prompt it stands on, counted from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub line: usize,
    pub step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub reason: String,
    /// The line starts like a step: its writer meant one.
    pub verb_known: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Every line was understood, and there is at least one.
    Script(Vec<Instruction>),
    /// Some lines were understood; these were not.
    Partly(Vec<Problem>),
    /// No line was understood.
    Nothing(Vec<Problem>),
}

pub struct Form {
    pub verb: &'static str,
    pub usage: &'static str,
}

/// Everything the offline model understands, in the order it is explained.
pub const FORMS: [Form; 13] = [
    Form { verb: "say", usage: "say TEXT" },
    Form { verb: "think", usage: "think SUBJECT: TEXT" },
    Form { verb: "run", usage: "run COMMAND" },
    Form { verb: "write", usage: "write PATH: TEXT" },
    Form { verb: "edit", usage: "edit PATH: OLD => NEW" },
    Form { verb: "read", usage: "read PATH" },
    Form { verb: "list", usage: "list PATH" },
    Form { verb: "search", usage: "search PATTERN" },
    Form { verb: "plan", usage: "plan: STEP; STEP" },
    Form { verb: "ask", usage: "ask QUESTION" },
    Form { verb: "artifact", usage: "artifact NAME: TEXT" },
    Form { verb: "wait", usage: "wait DURATION" },
    Form { verb: "fail", usage: "fail MESSAGE" },
];

pub fn read(prompt: &str) -> Reading {
    let mut reader = Reader { lines: prompt.lines().enumerate().peekable() };
    let mut script = Vec::new();
    let mut problems = Vec::new();
    while let Some((index, text)) = reader.lines.next() {
        let line = index + 1;
        if text.trim().is_empty() {
            continue;
        }
        match reader.step(text) {
            Ok(step) => script.push(Instruction { line, step }),
            Err(Unread { reason, verb_known }) => {
                problems.push(Problem { line, reason, verb_known });
            }
        }
    }
    match (script.is_empty(), problems.is_empty()) {
        (true, _) => Reading::Nothing(problems),
        (false, true) => Reading::Script(script),
        (false, false) => Reading::Partly(problems),
    }
}

struct Unread {
    reason: String,
    verb_known: bool,
}

struct Reader<'a> {
    lines: Peekable<Enumerate<Lines<'a>>>,
}

impl<'a> Reader<'a> {
    fn step(&mut self, text: &'a str) -> Result<Step, Unread> {
        let text = text.trim();
        let end = text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let verb = word.to_ascii_lowercase();
        let found = FORMS.iter().find(|form| form.verb == verb);
        let separated = rest.is_empty() || rest.starts_with([':', ' ', '\t']);
        let Some(form) = found.filter(|_| separated) else {
            return Err(Unread { reason: self.stranger(text), verb_known: false });
        };
        self.arguments(form.verb, rest).map_err(|reason| {
            let reason = format!("{reason}; the form is `{}`", form.usage);
            Unread { reason, verb_known: true }
        })
    }

    /// Why a line starts no step. Takes a stray block with it: its lines are no instructions.
    fn stranger(&mut self, text: &'a str) -> String {
        if fence_length(text).is_some() {
            self.skip_block(text);
            return "a fenced block belongs after `write PATH:`, `edit PATH:` or `artifact NAME:`"
                .to_owned();
        }
        format!("`{}` starts with no word I know", start(text))
    }

    fn arguments(&mut self, verb: &str, rest: &'a str) -> Result<Step, String> {
        let after_colon = rest.strip_prefix(':');
        if verb == "plan" {
            return plan(after_colon.ok_or("a colon has to follow `plan`")?);
        }
        if after_colon.is_some() {
            return Err(format!("a space has to follow `{verb}`, not a colon"));
        }
        let rest = rest.trim();
        if rest.is_empty() && verb != "list" {
            return Err(format!("something is missing after `{verb}`"));
        }
        let text = rest.to_owned();
        let call = match verb {
            "say" => return Ok(Step::Say(text)),
            "fail" => return Ok(Step::Fail(text)),
            "wait" => return duration(rest).map(Step::Wait),
            "think" => return think(rest),
            "run" => CallStep::Run { command: text },
            "read" => CallStep::Read { path: plain_path(rest) },
            "search" => CallStep::Search { pattern: text },
            "ask" => CallStep::Ask { question: text },
            "list" if rest.is_empty() => CallStep::List { path: ".".to_owned() },
            "list" => CallStep::List { path: plain_path(rest) },
            "edit" => self.edit(rest)?,
            "write" => {
                let (path, content) = self.named_text(rest)?;
                let path = plain_path(&path);
                let content = content.map_inline(|line| line + "\n");
                CallStep::Write { path, content }
            }
            "artifact" => {
                let (name, text) = self.named_text(rest)?;
                CallStep::Artifact { name, text: text.map_inline(|line| line) }
            }
            _ => return Err(format!("`{verb}` cannot be read")),
        };
        Ok(Step::Call(call))
    }

    fn named_text(&mut self, rest: &'a str) -> Result<(String, Given), String> {
        let (name, text) = split_name(rest)?;
        let given = if text.is_empty() {
            Given::Block(self.block()?)
        } else if fence_length(text).is_some() {
            return Err("the fenced block has to start on the line after the colon".to_owned());
        } else {
            Given::Inline(text.to_owned())
        };
        Ok((name.to_owned(), given))
    }

    fn edit(&mut self, rest: &'a str) -> Result<CallStep, String> {
        let (path, text) = split_name(rest)?;
        let (old, new) = if text.is_empty() {
            (self.block()?, self.block()?)
        } else {
            // Padded, so that nothing after the arrow is an empty NEW.
            let padded = format!("{text} ");
            match padded.split(" => ").collect::<Vec<_>>().as_slice() {
                [old, new] => (old.trim().to_owned(), new.trim().to_owned()),
                [_] | [] => return Err("` => ` is missing between OLD and NEW".to_owned()),
                _ => {
                    return Err("` => ` is there more than once: give OLD and NEW as two fenced \
                                blocks after the colon"
                        .to_owned());
                }
            }
        };
        if old.is_empty() {
            return Err("OLD is empty".to_owned());
        }
        Ok(CallStep::Edit { path: plain_path(path), old, new })
    }

    /// The fenced block on the next lines; every line of it ends with a newline.
    fn block(&mut self) -> Result<String, String> {
        while self.lines.next_if(|(_, line)| line.trim().is_empty()).is_some() {}
        let opening = self.lines.next_if(|(_, line)| fence_length(line).is_some());
        let Some(length) = opening.and_then(|(_, line)| fence_length(line)) else {
            return Err("neither a text after the colon nor a fenced block below it".to_owned());
        };
        let mut content = String::new();
        for (_, line) in self.lines.by_ref() {
            if closes(line, length) {
                return Ok(content);
            }
            content.push_str(line);
            content.push('\n');
        }
        Err("the fenced block is never closed".to_owned())
    }

    fn skip_block(&mut self, opening: &str) {
        let length = fence_length(opening).unwrap_or_default();
        let _closed = self.lines.by_ref().any(|(_, line)| closes(line, length));
    }
}

/// A text as it was given: exactness differs.
enum Given {
    Inline(String),
    Block(String),
}

impl Given {
    fn map_inline(self, finish: impl FnOnce(String) -> String) -> String {
        match self {
            Given::Inline(line) => finish(line),
            Given::Block(text) => text,
        }
    }
}

fn think(rest: &str) -> Result<Step, String> {
    let (subject, text) = split_name(rest)?;
    if text.is_empty() {
        return Err("a text is missing after the colon".to_owned());
    }
    Ok(Step::Think { subject: subject.to_owned(), text: text.to_owned() })
}

fn plan(rest: &str) -> Result<Step, String> {
    let steps = rest.split(';').map(str::trim).filter(|step| !step.is_empty());
    let todos: Vec<String> = steps.map(str::to_owned).collect();
    if todos.is_empty() {
        return Err("the plan has no step".to_owned());
    }
    Ok(Step::Call(CallStep::Plan { todos }))
}

/// Splits at the first colon before a space or the end, so that a path may hold a colon.
/// A path as people mention one: `@src/main.rs`, `"two words.md"`.
fn plain_path(text: &str) -> String {
    let mut path = text.trim();
    loop {
        let bare = path.strip_prefix('@').unwrap_or(path);
        let quoted = bare.strip_prefix('"').and_then(|bare| bare.strip_suffix('"'));
        let bare = quoted.unwrap_or(bare).trim();
        if bare.is_empty() || bare == path {
            return path.to_owned();
        }
        path = bare;
    }
}

fn split_name(rest: &str) -> Result<(&str, &str), String> {
    let mut colons = rest.match_indices(':').map(|(index, _)| rest.split_at(index));
    let found = colons.find_map(|(name, after)| {
        let text = after.strip_prefix(':')?;
        let separated = text.is_empty() || text.starts_with(char::is_whitespace);
        (separated && !name.trim().is_empty()).then(|| (name.trim(), text.trim()))
    });
    found.ok_or_else(|| "a colon and a space are missing after the name".to_owned())
}

/// How many backticks open a block here, if any do.
fn fence_length(line: &str) -> Option<usize> {
    let after = line.trim().trim_start_matches('`');
    let length = line.trim().len() - after.len();
    (length >= 3 && !after.contains('`')).then_some(length)
}

fn closes(line: &str, length: usize) -> bool {
    let line = line.trim();
    line.len() >= length && line.chars().all(|letter| letter == '`')
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
