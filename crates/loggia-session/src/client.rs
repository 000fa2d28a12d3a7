//! The interface between a front end and a session, for local and remote sessions.

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use loggia_core::{
    Cancel, ChoiceId, Command, Content, Edit, Envelope, Origin, PromptId, Question, Seq, TaskChoice,
};
use std::sync::Arc;

use crate::handle::{Ack, SessionHandle, SubmitError};
use crate::ports::StoreError;

/// All that a front end can do with a session.
pub trait SessionClient: Send + Sync {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Ack, SubmitError>>;
    fn follow(&self, after: Seq) -> BoxStream<'static, Result<Arc<Envelope>, StoreError>>;

    fn prompt(
        &self,
        prompt: PromptId,
        content: Content,
    ) -> BoxFuture<'_, Result<Ack, SubmitError>> {
        self.submit(Command::Prompt { prompt, task: TaskChoice::New, content })
    }

    fn answer(
        &self,
        to: Question,
        choice: ChoiceId,
        edit: Option<Edit>,
    ) -> BoxFuture<'_, Result<Ack, SubmitError>> {
        self.submit(Command::Answer { to, choice, edit, digest: None, message: None })
    }

    fn cancel(&self) -> BoxFuture<'_, Result<Ack, SubmitError>> {
        self.submit(Command::Cancel { what: Cancel::Turn })
    }
}

/// A client in the same process.
#[derive(Clone)]
pub struct LocalClient {
    handle: SessionHandle,
    origin: Origin,
}

impl LocalClient {
    pub fn new(handle: SessionHandle, origin: Origin) -> Self {
        Self { handle, origin }
    }
}

impl SessionClient for LocalClient {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Ack, SubmitError>> {
        Box::pin(self.handle.submit(command, self.origin.clone()))
    }

    fn follow(&self, after: Seq) -> BoxStream<'static, Result<Arc<Envelope>, StoreError>> {
        self.handle.follow(after).into_stream().boxed()
    }
}
