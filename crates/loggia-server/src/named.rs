//! Tasks that their clients name: a message under a known name is the same request again, or the
//! answer to a question, or a mistake, and never a second task.
//!
//! Names are found in the store's index like every other task. Two requests under one name meet in
//! one session, whose writer lets one of them in.

use loggia_core::{
    Cancel, Command, Exchange, Refusal, SessionId, TaskChoice, TaskId, TaskState, TaskView,
};
use loggia_session::{Ack, SessionHandle};
use loggia_wire::legacy::{name, request};
use loggia_wire::{Answers, Condition, Dialect, Prompt, TaskDetail, View, Violation, WireError};

use crate::dispatch::{Due, Opening, Reply, submit};
use crate::state::{Caller, Server, Shape, hub_error};

/// What a message under a client's own name is.
pub(crate) enum Recognised {
    /// New, or what a task goes on with.
    Goes(Box<Prompt>),
    /// It was sent before: here is what became of it.
    Again(Reply),
}

impl Server {
    pub(crate) async fn recognise(
        &self,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Recognised, WireError> {
        let TaskChoice::Named(task) = &prompt.task else { return Ok(Recognised::Goes(prompt)) };
        let task = task.clone();
        Box::pin(self.recognise_named(task, prompt, view, caller)).await
    }

    async fn recognise_named(
        &self,
        task: TaskId,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Recognised, WireError> {
        match self.session_of(&task, caller).await {
            Ok(handle) => self.repeated(&handle, task, prompt, view, caller).await,
            Err(WireError::Condition(Condition::TaskNotFound)) => Ok(Recognised::Goes(prompt)),
            Err(error) => Err(error),
        }
    }

    /// A message for a name that is taken.
    async fn repeated(
        &self,
        handle: &SessionHandle,
        task: TaskId,
        mut prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Recognised, WireError> {
        let content = prompt.content.clone();
        let (state, difference) = self
            .look_at(handle, view, &task, move |task| {
                (task.state, differs_from_all(task, &content))
            })
            .await?;
        let Some(violation) = difference else {
            return self.again(handle, task, &prompt, view, caller).await;
        };
        prompt.task = TaskChoice::Continue(task.clone());
        // It is an answer or a mistake: the task's name was given with another message.
        prompt.answers = Answers::Only;
        // The task knows its session.
        prompt.session = None;
        if state == TaskState::InputRequired {
            return Ok(Recognised::Goes(prompt));
        }
        let may_answer = caller.principal.scopes.approve;
        let command = prompt.clone().command(view, SessionHandle::fresh_prompt(), may_answer);
        match submit(handle, command, caller).await {
            Ok(_) => self.again(handle, task, &prompt, view, caller).await,
            Err(WireError::Refused(Refusal::UnknownQuestion)) => Err(WireError::Invalid(violation)),
            Err(error) => Err(error),
        }
    }

    /// What became of a message that was sent before.
    async fn again(
        &self,
        handle: &SessionHandle,
        task: TaskId,
        prompt: &Prompt,
        view: View,
        caller: &Caller,
    ) -> Result<Recognised, WireError> {
        let head = handle.head();
        let ack = Ack { after: head, seq: head, task: Some(task.clone()), answered: None };
        let shown = TaskDetail { history: prompt.history, artifacts: true };
        let (ack, delivery, opening) = (&ack, prompt.delivery, Opening::Now);
        let due = Due { handle, view, task, ack, delivery, shown, opening, caller };
        Ok(Recognised::Again(self.deliver(due).await?))
    }

    /// The answer to a message whose name was taken while it was on its way.
    pub(crate) async fn late(
        &self,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        match self.recognise(prompt, view, caller).await? {
            Recognised::Again(reply) => Ok(reply),
            // It asks by now, and this is no answer to a question that nobody has read yet.
            Recognised::Goes(_) => Err(Condition::Busy.into()),
        }
    }

    /// Two requests with one name for two sessions came at once, and this one was second: the task
    /// is where the index has it, and what began here ends.
    pub(crate) async fn is_second(
        &self,
        handle: &SessionHandle,
        task: &TaskId,
        caller: &Caller,
    ) -> Result<bool, WireError> {
        let found = self.hub.locate(task).await.map_err(hub_error)?;
        if found.is_none_or(|first| first == *handle.id()) {
            return Ok(false);
        }
        let command = Command::Cancel { what: Cancel::Task(task.clone()) };
        // What is over can not be cancelled, and need not be.
        let _ = handle.submit(command, caller.origin.clone()).await;
        Ok(true)
    }

    /// The session a new task belongs into. Where one session is shared, that one; otherwise the one
    /// the client names, in our words or in its own, or a session of the task's own.
    pub(crate) async fn session_name(
        &self,
        prompt: &Prompt,
        caller: &Caller,
    ) -> Result<Option<SessionId>, WireError> {
        let TaskChoice::Named(task) = &prompt.task else { return Ok(prompt.session.clone()) };
        match (&self.shape, &prompt.session) {
            (Shape::Shared(_), _) => Ok(None),
            (Shape::Many, None) => Ok(Some(task.as_str().into())),
            (Shape::Many, Some(word)) => match Box::pin(self.session(word, caller)).await {
                Ok(handle) => Ok(Some(handle.id().clone())),
                Err(WireError::Condition(Condition::UnknownContext)) => {
                    Ok(Some(name::session(&caller.principal.name, word.as_str())))
                }
                // Here it is called otherwise.
                Err(WireError::Invalid(Violation { why, .. })) => {
                    Err(WireError::Invalid(Violation { field: "sessionId".to_owned(), why }))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// What a reader of this view calls a task.
    pub(crate) async fn name_of(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
    ) -> Result<TaskId, WireError> {
        match view.dialect {
            Dialect::A2a03 | Dialect::Proto03 | Dialect::A2a1 | Dialect::Sdlc | Dialect::Coder => {
                Ok(task.clone())
            }
            Dialect::Legacy => {
                let named = |task: &TaskView| {
                    request::of_task(task).and_then(|sent| sent["id"].as_str().map(TaskId::from))
                };
                let named = self.look_at(handle, view, task, named).await?;
                Ok(named.unwrap_or_else(|| task.clone()))
            }
        }
    }

    pub(crate) async fn has_task(&self, task: &TaskId) -> Result<bool, WireError> {
        Ok(self.hub.locate(task).await.map_err(hub_error)?.is_some())
    }
}

/// How a request differs from everything that was sent to a task; None if it was sent before.
fn differs_from_all(task: &TaskView, content: &loggia_core::Content) -> Option<Violation> {
    let mut first = None;
    for said in &task.history {
        if let Exchange::Prompt { content: before, .. } = said {
            let difference = request::difference(before, content)?;
            first.get_or_insert(difference);
        }
    }
    first
}
