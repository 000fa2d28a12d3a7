//! Prints a turn as text, one JSON object, or one JSON object per line.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};

use loggia_core::{
    CallId, CallOutcome, Details, Envelope, Event, Level, MessageId, SessionId, StepState,
    TurnOutcome, Usage,
};
use serde_json::{Value, json};

use crate::cli::OutputFormat;
use crate::style::{Style, json_line, printable, say};

/// An open call.
pub struct OpenCall {
    pub tool: String,
    pub title: String,
    pub details: Details,
    /// The output so far did not end with a newline.
    mid_line: bool,
}

/// A thought that comes in pieces.
struct Thought {
    of: MessageId,
    subject: String,
    text: String,
}

pub struct Printer {
    format: OutputFormat,
    quiet: bool,
    style: Style,
    session: SessionId,
    to_terminal: bool,
    open: HashMap<CallId, OpenCall>,
    /// The text so far did not end with a newline.
    mid_line: bool,
    /// The agent's whole text, each message on its own lines.
    text: String,
    /// The message of the last text.
    last_message: Option<MessageId>,
    /// Where its text begins in `text`.
    message_start: usize,
    /// The thought that may still grow.
    thought: Option<Thought>,
    calls: Vec<Value>,
    usage: Usage,
}

impl Printer {
    pub fn new(format: OutputFormat, quiet: bool, style: Style, session: SessionId) -> Self {
        Self {
            format,
            quiet: quiet || format != OutputFormat::Text,
            style,
            session,
            to_terminal: std::io::stdout().is_terminal(),
            open: HashMap::new(),
            mid_line: false,
            text: String::new(),
            last_message: None,
            message_start: 0,
            thought: None,
            calls: Vec::new(),
            usage: Usage::default(),
        }
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn call(&self, call: &CallId) -> Option<&OpenCall> {
        self.open.get(call)
    }

    pub fn begin(&mut self) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::StreamJson => print_json(&json!({
                "type": "init",
                "session": self.session,
                "version": env!("CARGO_PKG_VERSION"),
            })),
            OutputFormat::Text | OutputFormat::Json => Ok(()),
        }
    }

    pub fn event(&mut self, envelope: &Envelope) -> anyhow::Result<()> {
        if self.format == OutputFormat::StreamJson {
            let mut line = serde_json::to_value(envelope.public().as_ref())?;
            if let Some(object) = line.as_object_mut() {
                object.insert("type".into(), "event".into());
            }
            print_json(&line)?;
        }
        if !matches!(envelope.event, Event::ThoughtAppended { .. }) {
            self.print_thought()?;
        }
        match &envelope.event {
            Event::TextAppended { message, text, .. } => {
                let is_new = self.last_message.replace(message.clone()).as_ref() != Some(message);
                if is_new {
                    self.message_start = self.text.len();
                }
                if is_new && !self.text.is_empty() && !self.text.ends_with('\n') {
                    self.text.push('\n');
                }
                self.print_text(text)?;
            }
            Event::ThoughtAppended { message, subject, text, .. } => {
                let same =
                    |thought: &Thought| thought.of == *message && thought.subject == *subject;
                match self.thought.as_mut().filter(|thought| same(thought)) {
                    Some(thought) => thought.text.push_str(text),
                    None => {
                        self.print_thought()?;
                        let (of, subject, text) = (message.clone(), subject.clone(), text.clone());
                        self.thought = Some(Thought { of, subject, text });
                    }
                }
            }
            Event::CallProposed { call, tool, title, details, .. } => {
                self.print_action(&format!("{} {}", self.style.cyan("●"), printable(title)))?;
                let shown = OpenCall {
                    tool: tool.clone(),
                    title: title.clone(),
                    details: details.clone(),
                    mid_line: false,
                };
                self.open.insert(call.clone(), shown);
            }
            Event::ApprovalAnswered { call, choice, .. } => {
                let title = self.open.get(call).map_or("", |shown| &shown.title);
                let said = printable(&format!("{choice} by {}: {title}", envelope.origin));
                self.print_action(&self.style.dim(&said))?;
            }
            Event::CallOutput { call, text, skipped } => self.print_output(call, text, *skipped)?,
            Event::CallEnded { call, outcome } => self.print_outcome(call, outcome)?,
            Event::PlanUpdated { steps, .. } => {
                for step in steps {
                    let mark = match step.state {
                        StepState::Pending => "☐",
                        StepState::InProgress => "◐",
                        StepState::Completed => "☑",
                        StepState::Cancelled => "☒",
                    };
                    self.print_action(&format!("  {mark} {}", printable(&step.text)))?;
                }
            }
            Event::PromptExpanded { command, source, text, .. } => {
                let text = printable(&Event::expansion(command, source, text));
                self.print_action(&self.style.dim(&text))?;
            }
            Event::ReplyDiscarded { message, .. } => self.discard(message),
            Event::NoticeRaised { level, text, .. } => {
                let text = printable(text);
                self.print_action(&match level {
                    Level::Info => self.style.dim(&text),
                    Level::Warning => self.style.yellow(&text),
                    Level::Error => self.style.red(&text),
                })?;
            }
            Event::UsageReported { usage, .. } => {
                self.usage.input_tokens += usage.input_tokens;
                self.usage.output_tokens += usage.output_tokens;
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints the thought that is complete now.
    fn print_thought(&mut self) -> anyhow::Result<()> {
        let Some(Thought { subject, text, .. }) = self.thought.take() else { return Ok(()) };
        let thought = match (subject.is_empty(), text.trim().is_empty()) {
            (true, true) => return Ok(()),
            (true, false) => text,
            (false, true) => subject,
            (false, false) => format!("{subject}: {text}"),
        };
        self.print_action(&self.style.dim(&format!("· {}", printable(thought.trim_end()))))
    }

    /// Takes back the text of a reply that broke off. What is printed stays; a notice or the outcome follows.
    fn discard(&mut self, message: &MessageId) {
        if self.last_message.as_ref() == Some(message) {
            self.text.truncate(self.message_start);
            self.last_message = None;
        }
    }

    fn print_text(&mut self, text: &str) -> anyhow::Result<()> {
        self.text.push_str(text);
        if self.format == OutputFormat::Text {
            let mut out = std::io::stdout().lock();
            // A pipe gets the raw text; a terminal gets it escaped.
            let shown = if self.to_terminal { printable(text) } else { text.to_owned() };
            out.write_all(shown.as_bytes())?;
            out.flush()?;
            self.mid_line = !text.ends_with('\n');
        }
        Ok(())
    }

    /// Prints a line about an action to stderr.
    fn print_action(&mut self, line: &str) -> anyhow::Result<()> {
        if self.quiet {
            return Ok(());
        }
        self.line_end()?;
        writeln!(std::io::stderr().lock(), "{line}")?;
        Ok(())
    }

    fn print_output(&mut self, call: &CallId, text: &str, skipped: u64) -> anyhow::Result<()> {
        if self.quiet {
            return Ok(());
        }
        self.line_end()?;
        let mut out = std::io::stderr().lock();
        let mut mid_line = self.open.get(call).is_some_and(|shown| shown.mid_line);
        if skipped > 0 {
            let start = if mid_line { "\n" } else { "" };
            writeln!(out, "{start}{}", self.style.dim(&format!("  … {skipped} bytes left out …")))?;
            mid_line = false;
        }
        for piece in printable(text).split_inclusive('\n') {
            let margin = if mid_line { "" } else { "  " };
            write!(out, "{margin}{}", self.style.dim_line(piece))?;
            mid_line = !piece.ends_with('\n');
        }
        out.flush()?;
        if let Some(shown) = self.open.get_mut(call) {
            shown.mid_line = mid_line;
        }
        Ok(())
    }

    fn print_outcome(&mut self, call: &CallId, outcome: &CallOutcome) -> anyhow::Result<()> {
        let shown = self.open.remove(call);
        if shown.as_ref().is_some_and(|shown| shown.mid_line) && !self.quiet {
            writeln!(std::io::stderr().lock())?;
        }
        let (tool, title) = shown.map_or_else(Default::default, |shown| (shown.tool, shown.title));
        let first = printable(outcome.summary().lines().next().unwrap_or_default());
        self.print_action(&match outcome {
            CallOutcome::Succeeded { .. } => {
                format!("{} {}", self.style.green("✓"), printable(&title))
            }
            CallOutcome::Failed { .. } => {
                format!("{} {}: {first}", self.style.red("✗"), printable(&title))
            }
            CallOutcome::Cancelled { .. } => {
                format!("{} {}: {first}", self.style.yellow("–"), printable(&title))
            }
        })?;
        self.calls.push(json!({ "call": call, "tool": tool, "title": title, "outcome": outcome }));
        Ok(())
    }

    /// Ends an unfinished text line before other output.
    pub fn line_end(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.mid_line) {
            writeln!(std::io::stdout().lock())?;
        }
        Ok(())
    }

    /// Prints the outcome of the turn; None if it needs an approval.
    pub fn finish(&mut self, outcome: Option<&TurnOutcome>) -> anyhow::Result<()> {
        self.print_thought()?;
        self.line_end()?;
        let (outcome, message) = match outcome {
            None => ("approval_needed", None),
            Some(TurnOutcome::Completed) => ("completed", None),
            Some(TurnOutcome::Failed { message, refused: true }) => ("refused", Some(message)),
            Some(TurnOutcome::Failed { message, refused: false }) => ("failed", Some(message)),
            Some(TurnOutcome::Cancelled) => ("cancelled", None),
            Some(TurnOutcome::Interrupted) => ("interrupted", None),
        };
        if self.format == OutputFormat::Text {
            match (outcome, message) {
                ("failed" | "refused", Some(message)) => say(&format!("{outcome}: {message}")),
                ("cancelled" | "interrupted", _) => say(outcome),
                _ => {}
            }
            return Ok(());
        }
        print_json(&json!({
            "type": "result",
            "session": self.session,
            "outcome": outcome,
            "message": message,
            "text": self.text,
            "calls": self.calls,
            "usage": self.usage,
        }))
    }
}

fn print_json(value: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", json_line(value))?;
    Ok(out.flush()?)
}
