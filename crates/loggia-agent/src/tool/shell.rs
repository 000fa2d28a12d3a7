//! `run_shell_command`: a command line, run by a shell, under a guard.
//!
//! The command and the directory are those that were shown. The environment is a short list of
//! variables; a command that a rule allows also gets settings that keep git from running programs
//! that a repository configures. Standard input is empty. No process that the command starts outlives
//! the call ([`crate::guard`]).

mod configured_programs;
mod environment;
mod excerpt;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loggia_core::{Access, CallFailure, Details, Output, SHELL_TOOL};
use loggia_session::Permit;

use super::input::{input, invalid};
use super::text::headline;
use super::typed::{Call, TypedTool};
use super::{Preview, ToolConfig, ToolError, ToolResult, blocking};
use crate::child::{Captured, Running};
use crate::guard;
use crate::workspace::Workspace;

use excerpt::Excerpt;

const DEFAULT_SECONDS: u64 = 600;
const MOST_SECONDS: u64 = 24 * 60 * 60;
/// Live output is passed on after this much time or [`OUTPUT_BATCH`] bytes. A client that redraws
/// ten times a second then shows every step.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(110);
const OUTPUT_BATCH: usize = 64 * 1024;
/// One argument of a program has at most 128 KiB on Linux.
const LONGEST_COMMAND: usize = 100 * 1024;

input! {
    pub(super) struct Input {
        /// The command line, as for `bash -c`.
        command: String,
        /// The directory to run it in. Default: the workspace.
        directory: Option<String>,
        /// The time limit in seconds. Default: 600.
        timeout_seconds: Option<u64>,
    }
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

impl TypedTool for RunShellCommand {
    const NAME: &'static str = SHELL_TOOL;
    const DESCRIPTION: &'static str = "Runs a command line in the workspace and returns its output. \
        It has no input and no terminal. Processes that it leaves running are killed when it ends.";
    const ACCESS: Access = Access::Execute;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        let Input { command, directory, timeout_seconds } = input;
        check(&command, timeout_seconds)?;
        let located = blocking(workspace, move |workspace| {
            let path = workspace.locate_or_root(directory.as_deref())?;
            let path = workspace.real_directory(&path)?;
            Ok((workspace.absolute(&path), workspace.open_real_directory(&path)?))
        });
        let (directory, opened) = located.await?;
        let mut title = format!("run {}", headline(&command));
        let configured = self.configured_program(&command, &directory, &opened).await;
        if let Some(key) = &configured {
            title = format!("{title} (the repository configures {})", headline(key));
        }
        let details = Details::Execute { command, directory };
        Ok(Preview { needs_person: configured.is_some(), ..Preview::new(title, details) })
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        let Details::Execute { command, directory } = call.permit.details().clone() else {
            return Err(ToolError::wrong_permit());
        };
        check(&command, input.timeout_seconds)?;
        let requested = Duration::from_secs(input.timeout_seconds.unwrap_or(DEFAULT_SECONDS));
        let limit = requested.min(call.permit.limit());
        let by_rule = call.permit.is_by_rule();
        let path = directory.clone();
        let opened = call.read(move |workspace| {
            let path = workspace.locate(&path)?;
            Ok(workspace.open_real_directory(&path)?)
        });
        let opened = opened.await?;
        if !by_rule {
            return self.execute(call.permit, &command, &self.environment, &opened, limit).await;
        }
        // Another call may have changed the configuration since the preview.
        if let Some(key) = self.configured_program(&command, &directory, &opened).await {
            let key = headline(&key);
            let why = format!("the repository configures {key}, which no rule allows: try again");
            return Err(ToolError::new("configuration_changed", why));
        }
        let environment = environment::without_configured_programs(&self.environment);
        self.execute(call.permit, &command, &environment, &opened, limit).await
    }
}

/// Checked before the person is asked, and again because the person may have edited the command.
fn check(command: &str, timeout_seconds: Option<u64>) -> ToolResult<()> {
    if command.trim().is_empty() {
        return Err(invalid("the field `command` must not be empty"));
    }
    if command.contains('\0') {
        return Err(invalid("the field `command` must not contain a NUL character"));
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

/// How the execution of a command ended.
enum Ending {
    /// The output ended.
    OutputClosed,
    Timeout,
    Stopped,
}

impl RunShellCommand {
    /// A program that git would run although the line does not name it.
    async fn configured_program(
        &self,
        command: &str,
        directory: &str,
        opened: &OwnedFd,
    ) -> Option<String> {
        match configured_programs::names_git(command) {
            true => {
                let path = Path::new(directory);
                configured_programs::find(&self.guard, &self.environment, opened, path).await
            }
            false => None,
        }
    }

    async fn execute(
        &self,
        permit: &mut Permit,
        command: &str,
        environment: &[(OsString, OsString)],
        directory: &OwnedFd,
        limit: Duration,
    ) -> ToolResult<Output> {
        let command: [OsString; 3] = [self.shell.clone().into(), "-c".into(), command.into()];
        let started = Running::start(
            &self.guard,
            &command,
            environment,
            directory,
            Captured::OutputAndErrors,
        );
        let mut running = started.map_err(|error| not_run(&error))?;
        let mut excerpt = Excerpt::default();
        let stop = permit.stop().clone();
        let ending = tokio::select! {
            biased; // a cancelled call ends even if it still prints
            () = stop.cancelled() => Ok(Ending::Stopped),
            () = tokio::time::sleep(limit) => Ok(Ending::Timeout),
            ending = forward_output(&mut running, permit, &mut excerpt) => ending,
        };
        match ending.map_err(|error| not_run(&error))? {
            Ending::OutputClosed => {
                let status = running.status().await.map_err(|error| not_run(&error))?;
                finished(guard::code(status), excerpt)
            }
            Ending::Timeout => {
                running.end(|bytes| excerpt.push(bytes)).await;
                let reason = format!("timed out after {} s", limit.as_secs());
                Err(ToolError::new("timeout", with_reason(excerpt, &reason)))
            }
            Ending::Stopped => {
                running.end(|_| {}).await;
                Err(ToolError::Stopped)
            }
        }
    }
}

/// Passes output on until it ends, in batches of [`OUTPUT_INTERVAL`].
async fn forward_output(
    running: &mut Running,
    permit: &mut Permit,
    excerpt: &mut Excerpt,
) -> std::io::Result<Ending> {
    let mut batch: Vec<u8> = Vec::new();
    let mut next = tokio::time::Instant::now();
    loop {
        let ended = tokio::select! {
            bytes = running.next() => match bytes? {
                Some(bytes) => {
                    excerpt.push(bytes);
                    batch.extend_from_slice(bytes);
                    if batch.len() < OUTPUT_BATCH && tokio::time::Instant::now() < next {
                        continue;
                    }
                    false
                }
                None => true,
            },
            () = tokio::time::sleep_until(next), if !batch.is_empty() => false,
        };
        if !batch.is_empty() && permit.output(&batch).await.is_err() {
            return Ok(Ending::Stopped);
        }
        if ended {
            return Ok(Ending::OutputClosed);
        }
        batch.clear();
        next = tokio::time::Instant::now() + OUTPUT_INTERVAL;
    }
}

fn finished(code: u8, excerpt: Excerpt) -> ToolResult<Output> {
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

fn not_run(error: &std::io::Error) -> ToolError {
    ToolError::new("cannot_start", format!("the command could not be run: {error}"))
}
