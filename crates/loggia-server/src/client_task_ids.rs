//! Task ids chosen by clients. A message with a known id repeats a request, answers a question, or is a mistake; it never
//! creates a second task.
//!
//! The store's index finds these ids like those of all tasks. Two requests with one id meet in one session, whose actor
//! accepts one of them.

use loggia_core::{
    Cancel, Command, Exchange, Refusal, SessionId, TaskChoice, TaskId, TaskState, TaskView,
};
use loggia_session::{Ack, SessionHandle};
use loggia_wire::legacy::{name, request};
use loggia_wire::{Answers, Condition, KnownNames, Prompt, TaskNames, View, Violation, WireError};

use crate::dispatch::{Recipient, Reply, StreamStart, submit};
use crate::state::{Caller, ServedSessions, Server, hub_error};

/// A message whose client may have chosen the task's id.
pub(crate) enum Recognised {
    /// A new message, possibly to an existing task.
    New(Box<Prompt>),
    /// It was sent before: the reply is its result.
    Repeated(Reply),
}

impl Server {
    pub(crate) async fn recognise(
        &self,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Recognised, WireError> {
        let TaskChoice::Named(task) = &prompt.task else { return Ok(Recognised::New(prompt)) };
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
            Err(WireError::Condition(Condition::TaskNotFound)) => Ok(Recognised::New(prompt)),
            Err(error) => Err(error),
        }
    }

    /// A message with a task id that exists.
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
            .with_task(handle, view, &task, move |task| {
                (task.state, differs_from_all(task, &content))
            })
            .await?;
        let Some(violation) = difference else {
            return self.repeat_result(handle, task, &prompt, view, caller).await;
        };
        prompt.task = TaskChoice::Continue(task.clone());
        // An answer or a mistake: the id belongs to another message.
        prompt.answers = Answers::Only;
        prompt.session = None;
        if state == TaskState::InputRequired {
            return Ok(Recognised::New(prompt));
        }
        let may_answer = caller.principal.scopes.approve;
        let command = prompt.clone().command(view, SessionHandle::fresh_prompt(), may_answer);
        match submit(handle, command, caller).await {
            Ok(_) => self.repeat_result(handle, task, &prompt, view, caller).await,
            Err(WireError::Refused(Refusal::UnknownQuestion)) => Err(WireError::Invalid(violation)),
            Err(error) => Err(error),
        }
    }

    /// The result of a message that was sent before.
    async fn repeat_result(
        &self,
        handle: &SessionHandle,
        task: TaskId,
        prompt: &Prompt,
        view: View,
        caller: &Caller,
    ) -> Result<Recognised, WireError> {
        let head = handle.head();
        let ack = Ack { after: head, seq: head, task: Some(task.clone()), answered: None };
        let to = Recipient { caller, view, delivery: prompt.delivery, history: prompt.history };
        let reply = self.deliver(handle, task, &ack, StreamStart::Now, to).await?;
        Ok(Recognised::Repeated(reply))
    }

    /// The reply to a message whose task id was taken by another request meanwhile.
    pub(crate) async fn reply_for_taken_id(
        &self,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        match self.recognise(prompt, view, caller).await? {
            Recognised::Repeated(reply) => Ok(reply),
            // The task already asks, and this message cannot be an answer to that question.
            Recognised::New(_) => Err(Condition::Busy.into()),
        }
    }

    /// Whether another request created this task in another session at the same time. Then the task of this session is
    /// cancelled: the index has the first one.
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
        // Fails if the task is already over.
        let _ = handle.submit(command, caller.origin.clone()).await;
        Ok(true)
    }

    /// The session of a new task: the shared one, or the one that the client names by id or by its own name, or a session
    /// for this task.
    pub(crate) async fn session_name(
        &self,
        prompt: &Prompt,
        caller: &Caller,
    ) -> Result<Option<SessionId>, WireError> {
        let TaskChoice::Named(task) = &prompt.task else { return Ok(prompt.session.clone()) };
        match (&self.sessions, &prompt.session) {
            (ServedSessions::Shared(_), _) => Ok(None),
            (ServedSessions::Many, None) => Ok(Some(task.as_str().into())),
            (ServedSessions::Many, Some(word)) => {
                match Box::pin(self.session(word, caller)).await {
                    Ok(handle) => Ok(Some(handle.id().clone())),
                    Err(WireError::Condition(Condition::UnknownContext)) => {
                        Ok(Some(name::session(&caller.principal.name, word.as_str())))
                    }
                    // The field has another name in this protocol.
                    Err(WireError::Invalid(Violation { why, .. })) => {
                        Err(WireError::Invalid(Violation { field: "sessionId".to_owned(), why }))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The id that clients of this view know a task by.
    pub(crate) async fn shown_task_id(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
    ) -> Result<TaskId, WireError> {
        match view.has_client_task_ids() {
            true => self.with_task(handle, view, task, |task| view.task_id(task)).await,
            false => Ok(task.clone()),
        }
    }

    /// Which of these tasks exist. Always looks up both, so that another client's task takes as long as none.
    pub(crate) async fn known_names(&self, names: &TaskNames) -> Result<KnownNames, WireError> {
        let by_server = self.hub.locate(&names.by_server).await.map_err(hub_error)?.is_some();
        let by_client = self.hub.locate(&names.by_client).await.map_err(hub_error)?.is_some();
        Ok(KnownNames { by_client, by_server })
    }
}

/// How a request differs from the first request of a task; None if it equals any of them.
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
