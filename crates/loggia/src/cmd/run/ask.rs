//! Asks approval questions on the terminal, with an editor for changes.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use anyhow::Context;
use loggia_core::{ApprovalId, CallId, Choice, ChoiceId, Details, Edit};
use loggia_tui::dialog::{editable, key_of};
use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::mpsc;

use crate::cmd::require_person::is_agent_command;
use crate::compose::App;
use crate::style::{Style, printable};

/// An unanswered question.
pub struct PendingQuestion {
    pub approval: ApprovalId,
    pub call: CallId,
    pub title: String,
    pub details: Details,
    pub choices: Vec<Choice>,
}

pub struct Answer {
    pub choice: ChoiceId,
    pub edit: Option<Edit>,
}

/// The controlling terminal. It may differ from standard input, which can be a pipe.
pub struct Terminal {
    style: Style,
    editor: Option<String>,
    tty: File,
    /// Requests one line from the reader thread. At most one request is pending.
    request: SyncSender<()>,
    lines: mpsc::Receiver<(Instant, Option<String>)>,
    waiting: bool,
    /// When the question was shown. Lines read before do not answer it.
    shown: Instant,
}

impl Terminal {
    /// None if no person would see a question. A command can create a terminal, so its ancestry is
    /// checked too.
    pub fn open(app: &App) -> Option<Self> {
        if !std::io::stderr().is_terminal() || is_agent_command() {
            return None;
        }
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let reader = tty.try_clone().ok()?;
        let (request, requests) = sync_channel::<()>(1);
        let (sender, lines) = mpsc::channel(1);
        // A thread, because reading a terminal cannot be cancelled. It reads on request only, so
        // that an editor can use the terminal in between.
        std::thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            while requests.recv().is_ok() {
                let mut line = String::new();
                let read = reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0);
                let read_at = Instant::now();
                if sender.blocking_send((read_at, read.map(|_| line))).is_err() {
                    break;
                }
            }
        });
        let environment = &app.environment;
        let editor = environment.get("VISUAL").or_else(|| environment.get("EDITOR"));
        Some(Self {
            style: app.style.clone(),
            editor: editor.map(str::to_owned),
            tty,
            request,
            lines,
            waiting: false,
            shown: Instant::now(),
        })
    }

    /// Shows the whole question and discards earlier input.
    pub fn show(&mut self, pending: &PendingQuestion) -> anyhow::Result<()> {
        let mut out = std::io::stderr().lock();
        writeln!(
            out,
            "\n{}",
            self.style.bold(&format!("Allow Loggia to {}?", printable(&pending.title)))
        )?;
        match &pending.details {
            Details::Execute { command, directory } => {
                writeln!(out, "  in {}", printable(directory))?;
                for line in printable(command).lines() {
                    writeln!(out, "  {} {line}", self.style.dim("$"))?;
                }
            }
            Details::Edit(diff) => {
                if diff.protected {
                    writeln!(out, "  {}", self.style.red("this file configures other programs"))?;
                }
                write!(out, "{}", self.style.diff(&printable(&diff.unified)))?;
            }
            Details::Question { text, .. } => writeln!(out, "  {}", printable(text))?,
            Details::Mcp { server, tool } => {
                writeln!(out, "  {} of {}", printable(tool), printable(server))?;
            }
            Details::Generic { text } => writeln!(out, "  {}", printable(text))?,
        }
        drop(out);
        // Ignored: reading from a broken terminal reports the error.
        let _ = tcflush(&self.tty, FlushArg::TCIFLUSH);
        self.shown = Instant::now();
        self.ask(pending)
    }

    pub fn again(&self, pending: &PendingQuestion) -> anyhow::Result<()> {
        self.ask(pending)
    }

    fn ask(&self, pending: &PendingQuestion) -> anyhow::Result<()> {
        let mut out = std::io::stderr().lock();
        if let Details::Question { options, .. } = &pending.details {
            for (index, option) in options.iter().enumerate() {
                writeln!(
                    out,
                    "  {} {}",
                    self.style.bold(&format!("{}", index + 1)),
                    printable(option)
                )?;
            }
            write!(out, "Your answer (an empty line repeats the question, Ctrl-C stops): ")?;
        } else {
            for choice in &pending.choices {
                if let Some(key) = key_of(&choice.id) {
                    writeln!(
                        out,
                        "  {} {}",
                        self.style.bold(&key.to_string()),
                        printable(&choice.name)
                    )?;
                }
            }
            if self.editor.is_some() && editable(&pending.details).is_some() {
                writeln!(out, "  {} Edit it first", self.style.bold("e"))?;
            }
            write!(out, "> ")?;
        }
        Ok(out.flush()?)
    }

    /// Parses an answer; None if it is not valid here.
    pub fn parse_answer(
        &self,
        line: &str,
        pending: &PendingQuestion,
    ) -> anyhow::Result<Option<Answer>> {
        let line = line.trim();
        if let Details::Question { options, .. } = &pending.details {
            let number =
                line.parse::<usize>().ok().filter(|number| (1..=options.len()).contains(number));
            return Ok(match (line, number) {
                ("", _) => None,
                (_, Some(number)) => {
                    Some(Answer { choice: ChoiceId(format!("option_{number}")), edit: None })
                }
                (text, None) => Some(Answer {
                    choice: ChoiceId::ANSWER.into(),
                    edit: Some(Edit::Text { text: text.to_owned() }),
                }),
            });
        }
        let word = line.to_ascii_lowercase();
        if word == "e" || word == "edit" {
            let edit = self.edit(&pending.details)?;
            return Ok(
                edit.map(|edit| Answer { choice: ChoiceId::PROCEED_ONCE.into(), edit: Some(edit) })
            );
        }
        let offered = pending.choices.iter().find(|choice| {
            key_of(&choice.id).is_some_and(|key| key.to_string() == word)
                || choice.id.0 == word
                || word_of(&choice.id).is_some_and(|name| name == word)
        });
        Ok(offered.map(|choice| Answer { choice: choice.id.clone(), edit: None }))
    }

    /// Opens the proposal in the editor. None if it was not changed.
    fn edit(&self, details: &Details) -> anyhow::Result<Option<Edit>> {
        let (Some(editor), Some((name, text))) = (&self.editor, editable(details)) else {
            return Ok(None);
        };
        let changed = edit_text(editor, name, text, |command| {
            command.stdin(self.tty.try_clone()?);
            command.stdout(self.tty.try_clone()?).stderr(self.tty.try_clone()?);
            Ok(command.status()?)
        })?;
        let Some(changed) = changed else { return Ok(None) };
        Ok(Some(match details {
            Details::Execute { .. } => Edit::Command { command: changed.trim_end().to_owned() },
            _ => Edit::File { content: changed },
        }))
    }
}

/// The next line of input. Never returns without a terminal.
pub async fn line(terminal: &mut Option<Terminal>) -> Option<String> {
    let Some(terminal) = terminal else { return std::future::pending().await };
    loop {
        if !terminal.waiting {
            if terminal.request.try_send(()).is_err() {
                return None;
            }
            terminal.waiting = true;
        }
        let (read_at, line) = terminal.lines.recv().await?;
        terminal.waiting = false;
        // The line was typed for an earlier question.
        if line.is_none() || read_at >= terminal.shown {
            return line;
        }
    }
}

fn word_of(choice: &ChoiceId) -> Option<&'static str> {
    choice.known()?.word_and_key().map(|(word, _)| word)
}

/// Edits a text. None if it was not changed. `run` starts the editor and waits for it.
pub fn edit_text(
    editor: &str,
    name: &str,
    text: &str,
    run: impl FnOnce(&mut Command) -> anyhow::Result<ExitStatus>,
) -> anyhow::Result<Option<String>> {
    let directory = tempdir()?;
    let path = directory.join(name);
    let edit = || -> anyhow::Result<(ExitStatus, String)> {
        std::fs::write(&path, text)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec $0 \"$1\"", editor]).arg(&path);
        let status = run(&mut command);
        let status = status.with_context(|| format!("cannot start the editor `{editor}`"))?;
        Ok((status, std::fs::read_to_string(&path)?))
    };
    let edited = edit();
    let _ = std::fs::remove_dir_all(&directory);
    let (status, changed) = edited?;
    Ok((status.success() && changed != text).then_some(changed))
}

/// A private directory with a random name.
fn tempdir() -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let path = std::env::temp_dir().join(format!("loggia-{}", uuid::Uuid::now_v7()));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
