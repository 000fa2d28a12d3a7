//! The port to a tool: its description, a preview without side effects, and the run on a permit.
//!
//! Each built-in tool is one file below. It declares a typed input and implements [`typed::TypedTool`];
//! [`builtin`] lists them all.

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
mod typed;
pub mod write;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, CallFailure, Details, Output, ToolDescription};
use loggia_session::{Permit, TurnOver};
use serde_json::Value;

use crate::workspace::{Workspace, WorkspaceError};

/// The description of a tool that a model reads.
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

    /// Shows what the call would do, before the person is asked. May read, must not change anything.
    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, ToolResult<Preview>>;

    /// Carries out the permit's details: the diff or the command that was shown. Stops soon after the
    /// permit's token is cancelled, and limits the memory that it uses.
    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, ToolResult<Output>>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// One line for lists: `write hello.txt`, `run cargo test`.
    pub title: String,
    pub details: Details,
    /// No rule may allow the call: it would run more than the details show.
    pub needs_person: bool,
}

impl Preview {
    fn new(title: String, details: Details) -> Self {
        Self { title, details, needs_person: false }
    }

    /// For calls that the title describes completely.
    fn plain(title: String) -> Self {
        Self::new(title.clone(), Details::Generic { text: title })
    }
}

pub type ToolResult<T> = Result<T, ToolError>;

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

    /// The permit's details are not of the kind that this tool previews.
    fn wrong_permit() -> Self {
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

/// The tools of an agent.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    /// The description of each tool, in the same order.
    specs: Arc<[ToolSpec]>,
    descriptions: Arc<[ToolDescription]>,
}

impl Toolbox {
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let specs: Arc<[ToolSpec]> = tools.iter().map(|tool| tool.spec()).collect();
        let descriptions = specs.iter().map(|spec| ToolDescription {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
        });
        Self { tools, descriptions: descriptions.collect(), specs }
    }

    /// Only the tools with these names.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        let tools = self.tools.iter().zip(self.specs.iter());
        let tools = tools.filter(|(_, spec)| names.contains(&spec.name));
        Self::new(tools.map(|(tool, _)| tool.clone()).collect())
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let mut tools = self.tools.iter().zip(self.specs.iter());
        tools.find(|(_, spec)| spec.name == name).map(|(tool, _)| tool)
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    /// The tools as a model is told about them.
    pub fn descriptions(&self) -> Arc<[ToolDescription]> {
        self.descriptions.clone()
    }
}

/// Settings of the built-in tools. Not `Debug`: the environment contains secrets.
#[derive(Clone, Default)]
pub struct ToolConfig {
    /// A command line that runs [`crate::guard::main`]. `/proc/self/exe guard` stays correct even if
    /// the binary is replaced while Loggia runs.
    pub guard: Vec<OsString>,
    /// Names of additional environment variables that commands get.
    pub pass_env: Vec<String>,
    /// Replaces the default: bash, or sh if there is no bash.
    pub shell: Option<PathBuf>,
    /// Loggia's environment. Commands get the allowed variables of it.
    pub env: Vec<(OsString, OsString)>,
}

/// All built-in tools.
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

/// Runs work that waits for the disk on a blocking thread.
async fn blocking<T: Send + 'static>(
    workspace: &Arc<Workspace>,
    work: impl FnOnce(&Workspace) -> ToolResult<T> + Send + 'static,
) -> ToolResult<T> {
    let workspace = workspace.clone();
    tokio::task::spawn_blocking(move || work(&workspace)).await.unwrap_or_else(|error| {
        Err(ToolError::new("internal", format!("the tool failed unexpectedly: {error}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_and_every_field_has_a_description() {
        let tools = builtin(ToolConfig::default()).specs();
        assert_eq!(tools.len(), 10);
        for tool in tools.iter() {
            assert!(tool.description.ends_with('.'), "{}", tool.name);
            assert_eq!(tool.parameters["type"], "object", "{}", tool.name);
            for (name, field) in tool.parameters["properties"].as_object().unwrap() {
                let description = field["description"].as_str().unwrap();
                assert!(description.ends_with('.'), "{}.{name}: {description}", tool.name);
                assert_eq!(description, description.trim(), "{}.{name}", tool.name);
            }
        }
    }
}
