//! `run_shell_command`: a command line, run by a shell, under a guard.
//!
//! What runs is the command and the directory that were shown. The environment is a short list (a
//! command that a rule lets pass also gets settings that keep git from running what a repository
//! configures), the input is empty, and nothing that the command starts outlives the call ([`crate::guard`]).

mod environment;
mod excerpt;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use loggia_core::{Access, CallFailure, Details, Output, SHELL_TOOL};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind, invalid};
use super::text::headline;
use super::{Preview, Tool, ToolConfig, ToolError, ToolSpec, blocking, reading};
use crate::child::{Heard, Running};
use crate::guard;
use crate::workspace::Workspace;

use excerpt::Excerpt;

const DEFAULT_SECONDS: u64 = 600;
/// Live output comes in steps of at least this much time, or of [`HELD`] bytes: people watch it, and
/// whoever shows no more than ten steps a second then shows all of them.
const PACE: Duration = Duration::from_millis(110);
const HELD: usize = 64 * 1024;
const MOST_SECONDS: u64 = 24 * 60 * 60;
/// One argument of a program is at most 128 KiB on Linux.
const LONGEST_COMMAND: usize = 100 * 1024;

const FIELDS: &[Field] = &[
    Field::required("command", Kind::Text, "The command line, as for `bash -c`."),
    Field::optional("directory", Kind::Text, "Where to run it; the workspace unless told."),
    Field::optional("timeout_seconds", Kind::Count, "When to give up; 600 unless told."),
];

#[derive(Deserialize)]
struct Input {
    command: String,
    directory: Option<String>,
    timeout_seconds: Option<u64>,
}

pub(super) struct RunShellCommand {
    guard: Vec<OsString>,
    shell: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl RunShellCommand {
    pub(super) fn new(config: ToolConfig) -> Self {
        let environment = environment::filtered(config.env, &config.pass_env);
        let shell = config.shell.unwrap_or_else(|| environment::shell(&environment));
        Self { guard: config.guard, shell, environment }
    }
}

impl Tool for RunShellCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: SHELL_TOOL.into(),
            description: "Runs a command line in the workspace and returns what it prints. There \
                          is no input and no terminal; processes left running are ended with it."
                .into(),
            parameters: input::schema(FIELDS),
            access: Access::Execute,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let Input { command, directory, timeout_seconds } = input::read(FIELDS, input)?;
            check(&command, timeout_seconds)?;
            let workspace = Arc::clone(workspace);
            let directory = blocking(move || {
                let place = workspace.locate(directory.as_deref().unwrap_or("."))?;
                Ok(workspace.absolute(&workspace.real_directory(&place)?))
            });
            let directory = directory.await?;
            let title = format!("run {}", headline(&command));
            Ok(Preview { title, details: Details::Execute { command, directory } })
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let Details::Execute { command, directory } = permit.details().clone() else {
                return Err(ToolError::unfit());
            };
            let input: Input = input::read(FIELDS, permit.input())?;
            check(&command, input.timeout_seconds)?;
            let asked = Duration::from_secs(input.timeout_seconds.unwrap_or(DEFAULT_SECONDS));
            let limit = asked.min(permit.limit());
            let workspace = Arc::clone(workspace);
            let by_rule = permit.is_by_rule();
            let opened = reading(permit.stop(), move || {
                let place = workspace.locate(&directory)?;
                let opened = workspace.open_real_directory(&place)?;
                let external = by_rule && environment::names_external_diff(Path::new(&directory));
                Ok((opened, external))
            });
            let (directory, external) = opened.await?;
            let environment = match by_rule {
                true => environment::without_configured_programs(&self.environment, external),
                false => self.environment.clone(),
            };
            self.execute(permit, &command, &environment, &directory, limit).await
        })
    }
}

/// Mistakes that can be told before anybody is asked; an edited command is checked again.
fn check(command: &str, timeout_seconds: Option<u64>) -> Result<(), ToolError> {
    if command.trim().is_empty() {
        return Err(invalid("the field `command` must not be empty"));
    }
    if command.contains('\0') {
        return Err(invalid("the field `command` must not hold a NUL character"));
    }
    if command.len() > LONGEST_COMMAND {
        let message = format!("the field `command` has more than {LONGEST_COMMAND} bytes");
        return Err(invalid(format!("{message}: write a script with write_file and run that")));
    }
    if timeout_seconds.is_some_and(|seconds| seconds == 0 || seconds > MOST_SECONDS) {
        return Err(invalid(format!("the field `timeout_seconds` must be 1 to {MOST_SECONDS}")));
    }
    Ok(())
}

/// Why a command no longer runs.
enum Over {
    /// No more output will come.
    Ended,
    Timeout,
    Stopped,
}

impl RunShellCommand {
    async fn execute(
        &self,
        permit: &mut Permit,
        command: &str,
        environment: &[(OsString, OsString)],
        directory: &OwnedFd,
        limit: Duration,
    ) -> Result<Output, ToolError> {
        let command: [OsString; 3] = [self.shell.clone().into(), "-c".into(), command.into()];
        let started = Running::start(&self.guard, &command, environment, directory, Heard::Both);
        let mut running = started.map_err(|error| broken(&error))?;
        let mut excerpt = Excerpt::default();
        let stop = permit.stop().clone();
        let over = tokio::select! {
            biased; // a cancelled call ends, however much it still prints
            () = stop.cancelled() => Ok(Over::Stopped),
            () = tokio::time::sleep(limit) => Ok(Over::Timeout),
            over = pump(&mut running, permit, &mut excerpt) => over,
        };
        match over.map_err(|error| broken(&error))? {
            Over::Ended => {
                let status = running.status().await.map_err(|error| broken(&error))?;
                finished(guard::code(status), excerpt)
            }
            Over::Timeout => {
                running.end(|bytes| excerpt.push(bytes)).await;
                let reason = format!("timed out after {} s", limit.as_secs());
                Err(ToolError::new("timeout", with_reason(excerpt, &reason)))
            }
            Over::Stopped => {
                running.end(|_| {}).await;
                Err(ToolError::Stopped)
            }
        }
    }
}

/// Passes output on until there is no more. What comes faster than [`PACE`] is passed on together.
async fn pump(
    running: &mut Running,
    permit: &mut Permit,
    excerpt: &mut Excerpt,
) -> std::io::Result<Over> {
    let mut held: Vec<u8> = Vec::new();
    let mut next = tokio::time::Instant::now();
    loop {
        let ended = tokio::select! {
            bytes = running.next() => match bytes? {
                Some(bytes) => {
                    excerpt.push(bytes);
                    held.extend_from_slice(bytes);
                    if held.len() < HELD && tokio::time::Instant::now() < next {
                        continue;
                    }
                    false
                }
                None => true,
            },
            () = tokio::time::sleep_until(next), if !held.is_empty() => false,
        };
        if !held.is_empty() && permit.output(&held).await.is_err() {
            return Ok(Over::Stopped);
        }
        if ended {
            return Ok(Over::Ended);
        }
        held.clear();
        next = tokio::time::Instant::now() + PACE;
    }
}

fn finished(code: u8, excerpt: Excerpt) -> Result<Output, ToolError> {
    if code == 0 {
        let text = excerpt.into_text();
        return Ok(Output::text(if text.is_empty() { "(no output)".to_owned() } else { text }));
    }
    let message = with_reason(excerpt, &format!("exit status {code}"));
    let failure =
        CallFailure { code: Some(code.into()), ..CallFailure::new("exit_status", message) };
    Err(ToolError::Failed(failure))
}

fn with_reason(excerpt: Excerpt, reason: &str) -> String {
    let mut text = excerpt.into_text();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + reason
}

fn broken(error: &std::io::Error) -> ToolError {
    ToolError::new("cannot_start", format!("the command could not be run: {error}"))
}
