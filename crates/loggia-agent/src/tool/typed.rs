//! A tool whose input is a Rust type: the adapter that the built-in tools share.
//!
//! A tool whose schema is known only at run time implements [`Tool`] itself.

use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, Output};
use loggia_session::Permit;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::input::{self, FieldType};
use super::{Preview, Tool, ToolError, ToolResult, ToolSpec, blocking};
use crate::workspace::Workspace;

/// A permitted call that runs.
pub(super) struct Call<'a> {
    pub permit: &'a mut Permit,
    pub workspace: &'a Arc<Workspace>,
}

impl Call<'_> {
    /// Runs work that only reads on a blocking thread. A cancelled call does not wait for it, so a disk
    /// that hangs cannot block a cancelled turn.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> ToolResult<T> + Send + 'static,
    ) -> ToolResult<T> {
        tokio::select! {
            biased; // a cancelled call has no result
            () = self.permit.stop().cancelled() => Err(ToolError::Stopped),
            done = blocking(self.workspace, work) => done,
        }
    }
}

/// The methods are those of [`Tool`], with the input parsed.
pub(super) trait TypedTool: Send + Sync + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const ACCESS: Access;
    type Input: FieldType + DeserializeOwned + Send;

    fn preview(
        &self,
        input: Self::Input,
        workspace: &Arc<Workspace>,
    ) -> impl Future<Output = ToolResult<Preview>> + Send;

    fn run(
        &self,
        input: Self::Input,
        call: Call<'_>,
    ) -> impl Future<Output = ToolResult<Output>> + Send;
}

impl<T: TypedTool> Tool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.to_owned(),
            parameters: input::schema(&T::Input::KIND),
            access: T::ACCESS,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, ToolResult<Preview>> {
        Box::pin(async move { TypedTool::preview(self, input::parse(input)?, workspace).await })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, ToolResult<Output>> {
        Box::pin(async move {
            let input = input::parse(permit.input())?;
            TypedTool::run(self, input, Call { permit, workspace }).await
        })
    }
}
