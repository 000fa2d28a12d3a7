//! Runs a configured program as the hook: a message on its standard input, a decision on its output.
//!
//! One process for each message, in its own process group, which is killed after the answer, after the
//! timeout and when the request is dropped. It gets a configured environment and not ours, and starts in
//! `/`, so that files of a workspace do not influence it.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;

use super::{Decision, HookError, PromptHook, Submitted};

/// Bytes of a hook's output: a rewritten message of the largest size, with every byte escaped.
const OUTPUT_LIMIT: usize = 6 * 1024 * 1024 + 1024;
/// The same as for inbound messages.
const TEXT_LIMIT: usize = 1024 * 1024;
/// Hooks at a time. Further messages wait, within the timeout of their hook.
const AT_A_TIME: usize = 16;

/// A configured program and its arguments.
pub struct HookProgram {
    command: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    time: Duration,
    running: Arc<Semaphore>,
}

impl HookProgram {
    /// `command` is the program, a full path or a name on the environment's `PATH`, and its
    /// arguments.
    pub fn new(
        command: Vec<String>,
        environment: Vec<(OsString, OsString)>,
        time: Duration,
    ) -> Self {
        Self { command, environment, time, running: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    async fn run(&self, submitted: &Submitted) -> Result<Decision, HookError> {
        let failed = |error: std::io::Error| HookError::Failed(error.to_string());
        let input =
            serde_json::to_vec(submitted).map_err(|error| HookError::Failed(error.to_string()))?;
        let _running = self.running.acquire().await;
        let (mut group, stdin, stdout) = self.start()?;
        let written = async {
            // The hook may answer without reading everything, so a failed write is no error.
            let _ = write(stdin, &input).await;
            Ok(())
        };
        let ended = async { group.ended().await.map_err(failed) };
        let ((), output, status) = tokio::try_join!(written, read(stdout), ended)?;
        if !status.success() {
            return Err(HookError::Failed(status.to_string()));
        }
        parse_decision(&output)
    }

    fn start(&self) -> Result<(Group, ChildStdin, ChildStdout), HookError> {
        let cannot = |error: std::io::Error| HookError::Start(error.to_string());
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| HookError::Start("no program is configured".to_owned()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("LOGGIA", "1")
            .current_dir("/")
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It may contain the message, so it is not logged. A hook can write its own log file.
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let group = Group { child };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((group, stdin, stdout)),
            (_, None) | (None, _) => Err(HookError::Start("it has no pipes".to_owned())),
        }
    }
}

impl PromptHook for HookProgram {
    fn decide<'a>(
        &'a self,
        submitted: &'a Submitted,
    ) -> BoxFuture<'a, Result<Decision, HookError>> {
        Box::pin(async move {
            let timed = tokio::time::timeout(self.time, self.run(submitted)).await;
            timed.unwrap_or(Err(HookError::TooSlow(self.time.as_secs())))
        })
    }
}

async fn write(mut stdin: ChildStdin, input: &[u8]) -> std::io::Result<()> {
    stdin.write_all(input).await?;
    stdin.shutdown().await
}

async fn read(stdout: ChildStdout) -> Result<Vec<u8>, HookError> {
    let mut output = Vec::new();
    let limit = OUTPUT_LIMIT as u64 + 1;
    let read = stdout.take(limit).read_to_end(&mut output).await;
    read.map_err(|error| HookError::Failed(error.to_string()))?;
    match output.len() <= OUTPUT_LIMIT {
        true => Ok(output),
        false => Err(HookError::TooMuch(OUTPUT_LIMIT)),
    }
}

/// Reads one JSON object and nothing else. The error does not repeat the output.
fn parse_decision(output: &[u8]) -> Result<Decision, HookError> {
    let unreadable = |why: &str| HookError::Unreadable(why.to_owned());
    let decision: Decision = serde_json::from_slice(output).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        unreadable(&match error.classify() {
            serde_json::error::Category::Data => {
                format!("it is no decision (line {line}, column {column})")
            }
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => {
                format!("it is not one JSON object (line {line}, column {column})")
            }
        })
    })?;
    let text = match &decision {
        Decision::Pass {} => return Ok(decision),
        Decision::Rewrite { text } | Decision::Answer { text } => text,
        Decision::Reject { reason } => reason,
    };
    match (text.trim().is_empty(), text.len() <= TEXT_LIMIT) {
        (true, _) => Err(unreadable("its text is empty")),
        (_, false) => Err(unreadable("it has more than 1 MiB of text")),
        (false, true) => Ok(decision),
    }
}

/// The process group of a hook. Killed when this value is dropped.
struct Group {
    child: Child,
}

impl Group {
    /// Waits for the process to end, and kills the rest of its group.
    async fn ended(&mut self) -> std::io::Result<std::process::ExitStatus> {
        if let Some(pid) = self.pid() {
            // The process stays a zombie, so that its group id is not reused yet. The thread ends with
            // the process, which ends at the latest when this value is dropped.
            let wait =
                move || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let waited = tokio::task::spawn_blocking(wait).await;
            waited.map_err(std::io::Error::other)??;
        }
        self.kill();
        self.child.wait().await
    }

    /// None once it has been waited for.
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    fn kill(&self) {
        if let Some(pid) = self.pid() {
            // An error means that the group has ended.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
