//! The port to a tool: what it can do, a preview without side effects, and the run on a permit.
//!
//! The built-in tools are one file each below; [`builtin`] puts them together.

mod artifact;
mod ask;
pub mod edit;
mod glob;
mod input;
mod list;
mod plan;
mod read;
mod search;
mod shell;
mod text;
pub mod write;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, CallFailure, Details, Output};
use loggia_session::{Permit, TurnOver};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, WorkspaceError};

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the input, an object.
    pub parameters: Value,
    pub access: Access,
}

pub trait Tool: Send + Sync + 'static {
    fn spec(&self) -> ToolSpec;

    /// What the call would do, shown before anyone is asked. Reads at most; changes nothing.
    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>>;

    /// Does what the permit's details say: the diff that was shown, the command that was shown.
    /// Stops soon after the permit's token is cancelled; bounds what it keeps in memory.
    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// One line for lists: `write hello.txt`, `run cargo test`.
    pub title: String,
    pub details: Details,
}

impl Preview {
    /// For calls that need no more explanation than their title.
    fn plain(title: String) -> Self {
        Self { details: Details::Generic { text: title.clone() }, title }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    #[error("{}", .0.message)]
    Failed(CallFailure),
    /// The permit's token was cancelled; the log already says why.
    #[error("stopped")]
    Stopped,
}

impl ToolError {
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        ToolError::Failed(CallFailure::new(kind, message))
    }

    /// A permit for something this tool never showed.
    fn unfit() -> Self {
        Self::new("unfit_permit", "the permit is for another kind of call")
    }
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        Self::new(error.kind.name(), error.message)
    }
}

impl From<TurnOver> for ToolError {
    fn from(_: TurnOver) -> Self {
        ToolError::Stopped
    }
}

/// The tools of an agent, by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    /// Of each tool, in the same order: made once, and sent with every request to a model.
    specs: Arc<[ToolSpec]>,
}

impl Toolbox {
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        Self { tools, specs }
    }

    /// The tools of these names only.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        let known = self.tools.iter().zip(self.specs.iter());
        let named = known.filter(|(_, spec)| names.contains(&spec.name));
        Self::new(named.map(|(tool, _)| tool.clone()).collect())
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let mut known = self.tools.iter().zip(self.specs.iter());
        known.find(|(_, spec)| spec.name == name).map(|(tool, _)| tool)
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }
}

/// What the built-in tools need to know about this machine and this user. Not `Debug`: the
/// environment holds secrets.
#[derive(Clone, Default)]
pub struct ToolConfig {
    /// Program and arguments that end in [`crate::guard::main`]: `/proc/self/exe guard` stays right
    /// even when the binary is replaced while Loggia runs.
    pub guard: Vec<OsString>,
    /// Names of further environment variables that commands may see.
    pub pass_env: Vec<String>,
    /// Instead of bash, or sh where there is no bash.
    pub shell: Option<PathBuf>,
    /// The environment to pick from. Only what commands may see is kept.
    pub env: Vec<(OsString, OsString)>,
}

/// Every tool that Loggia brings along.
pub fn builtin(config: ToolConfig) -> Toolbox {
    Toolbox::new(vec![
        Arc::new(read::ReadFile),
        Arc::new(list::ListDirectory),
        Arc::new(glob::Glob),
        Arc::new(search::SearchFileContent),
        Arc::new(write::WriteFile),
        Arc::new(edit::Replace),
        Arc::new(shell::RunShellCommand::new(config)),
        Arc::new(plan::WriteTodos),
        Arc::new(artifact::PublishArtifact),
        Arc::new(ask::AskUser),
    ])
}

/// Runs work that waits for the disk on a thread made for waiting.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(ToolError::new("internal", format!("the tool broke: {error}"))))
}

/// The same for work that may be abandoned: it only reads. A disk that hangs can not hold a
/// cancelled turn.
async fn reading<T: Send + 'static>(
    stop: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::select! {
        biased; // a cancelled call has no result
        () = stop.cancelled() => Err(ToolError::Stopped),
        done = blocking(work) => done,
    }
}
