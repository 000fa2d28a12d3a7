//! Parses a prompt to steps, or reports for each line why it cannot.
//!
//! Total: any text gives a [`ParsedPrompt`]. Not here: how steps are performed.

use std::iter::{Enumerate, Peekable};
use std::str::Lines;

use super::step::{CallStep, Step};
use crate::model::actions::{duration, start};

/// A step and its line in the prompt, counted from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub line: usize,
    pub step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub reason: String,
    /// The line begins with a known verb.
    pub verb_known: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedPrompt {
    /// Every line was understood.
    Script(Vec<Instruction>),
    /// Some lines were understood, but not these.
    Partial(Vec<Problem>),
    /// No line was understood.
    NotUnderstood(Vec<Problem>),
}

pub struct Form {
    pub verb: &'static str,
    pub usage: &'static str,
}

/// All instructions, in the order of the explanation.
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

pub fn parse(prompt: &str) -> ParsedPrompt {
    let mut parser = Parser { lines: prompt.lines().enumerate().peekable() };
    let mut script = Vec::new();
    let mut problems = Vec::new();
    while let Some((index, text)) = parser.lines.next() {
        let line = index + 1;
        if text.trim().is_empty() {
            continue;
        }
        match parser.step(text) {
            Ok(step) => script.push(Instruction { line, step }),
            Err(LineError { reason, verb_known }) => {
                problems.push(Problem { line, reason, verb_known });
            }
        }
    }
    match (script.is_empty(), problems.is_empty()) {
        (true, _) => ParsedPrompt::NotUnderstood(problems),
        (false, true) => ParsedPrompt::Script(script),
        (false, false) => ParsedPrompt::Partial(problems),
    }
}

struct LineError {
    reason: String,
    verb_known: bool,
}

struct Parser<'a> {
    lines: Peekable<Enumerate<Lines<'a>>>,
}

impl<'a> Parser<'a> {
    fn step(&mut self, text: &'a str) -> Result<Step, LineError> {
        let text = text.trim();
        let end = text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let verb = word.to_ascii_lowercase();
        let found = FORMS.iter().find(|form| form.verb == verb);
        let separated = rest.is_empty() || rest.starts_with([':', ' ', '\t']);
        let Some(form) = found.filter(|_| separated) else {
            return Err(LineError { reason: self.unknown_line(text), verb_known: false });
        };
        self.arguments(form.verb, rest).map_err(|reason| {
            let reason = format!("{reason}; the form is `{}`", form.usage);
            LineError { reason, verb_known: true }
        })
    }

    /// Why a line is not an instruction. Skips a stray fenced block, whose lines are not instructions.
    fn unknown_line(&mut self, text: &'a str) -> String {
        if fence_length(text).is_some() {
            self.skip_block(text);
            return "a fenced block belongs after `write PATH:`, `edit PATH:` or `artifact NAME:`"
                .to_owned();
        }
        format!("`{}` does not start with an instruction I know", start(text))
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

    fn named_text(&mut self, rest: &'a str) -> Result<(String, TextForm), String> {
        let (name, text) = split_name(rest)?;
        let text = if text.is_empty() {
            TextForm::Block(self.block()?)
        } else if fence_length(text).is_some() {
            return Err("the fenced block has to start on the line after the colon".to_owned());
        } else {
            TextForm::Inline(text.to_owned())
        };
        Ok((name.to_owned(), text))
    }

    fn edit(&mut self, rest: &'a str) -> Result<CallStep, String> {
        let (path, text) = split_name(rest)?;
        let (old, new) = if text.is_empty() {
            (self.block()?, self.block()?)
        } else {
            // Padded, so that an arrow at the end means an empty NEW.
            let padded = format!("{text} ");
            match padded.split(" => ").collect::<Vec<_>>().as_slice() {
                [old, new] => (old.trim().to_owned(), new.trim().to_owned()),
                [_] | [] => return Err("` => ` is missing between OLD and NEW".to_owned()),
                _ => {
                    return Err("` => ` occurs more than once: give OLD and NEW as two fenced \
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

/// A text after the colon, or in a fenced block.
enum TextForm {
    Inline(String),
    Block(String),
}

impl TextForm {
    fn map_inline(self, finish: impl FnOnce(String) -> String) -> String {
        match self {
            TextForm::Inline(line) => finish(line),
            TextForm::Block(text) => text,
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

/// Removes the marks of a mentioned path: `@src/main.rs`, `"two words.md"`.
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

/// Splits at the first colon before a space or the end, so that a path may contain a colon.
fn split_name(rest: &str) -> Result<(&str, &str), String> {
    let mut colons = rest.match_indices(':').map(|(index, _)| rest.split_at(index));
    let found = colons.find_map(|(name, after)| {
        let text = after.strip_prefix(':')?;
        let separated = text.is_empty() || text.starts_with(char::is_whitespace);
        (separated && !name.trim().is_empty()).then(|| (name.trim(), text.trim()))
    });
    found.ok_or_else(|| "a colon and a space are missing after the name".to_owned())
}

/// The number of backticks if the line opens a block.
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
