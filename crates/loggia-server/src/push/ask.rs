//! Requests about webhooks, and webhooks that come with messages.

use loggia_core::{Command, Origin, TaskChoice, TaskId};
use loggia_session::{Ack, SessionHandle, StoreError, SubmitError};
use loggia_wire::{Condition, PushTarget, View, WireError};

use super::record::{Key, Registration, Start};
use super::{NewWebhook, PushOptions, Registered, Webhooks};
use crate::dispatch::Reply;
use crate::state::{Caller, ServedSessions, Server};

/// A webhook that came with a message, until the message is accepted.
pub(crate) struct Callback {
    webhooks: Webhooks,
    registered: Registered,
}

impl Callback {
    /// Submits the message that it came with, in a task of its own: a client that hangs up meanwhile
    /// still gets its notifications if the prompt is accepted.
    pub async fn submit(
        self,
        handle: &SessionHandle,
        command: Command,
        origin: Origin,
    ) -> Result<Ack, SubmitError> {
        let (handle, Self { webhooks, registered }) = (handle.clone(), self);
        let tasks = webhooks.inner.tasks.clone();
        let submitted = tasks.spawn(async move {
            let ack = handle.submit(command, origin).await;
            match &ack {
                Ok(_) => webhooks.start_registered(registered),
                Err(_) => webhooks.withdraw(registered).await,
            }
            ack
        });
        submitted.await.unwrap_or(Err(SubmitError::Stopped))
    }
}

impl Server {
    /// Sends push notifications, and announces that in the card.
    #[must_use]
    pub fn with_push(mut self, options: PushOptions) -> Self {
        let webhooks = Webhooks::new(self.hub.clone(), self.projections.clone(), options);
        if let Some(oauth) = &self.oauth {
            webhooks.end_with_clients(oauth.clone());
        }
        self.push = Some(webhooks);
        self.facts.push = true;
        self
    }

    /// Delivers what an earlier process did not.
    pub async fn resume_push(&self) -> Result<(), StoreError> {
        let Some(webhooks) = &self.push else { return Ok(()) };
        match &self.sessions {
            ServedSessions::Shared(session) => webhooks.resume(Some(session)).await,
            ServedSessions::Many => webhooks.resume(None).await,
        }
    }

    pub async fn stop_push(&self) {
        if let Some(webhooks) = &self.push {
            webhooks.stop().await;
        }
    }

    fn webhooks(&self) -> Result<&Webhooks, WireError> {
        self.push.as_ref().ok_or_else(|| Condition::PushNotSupported.into())
    }

    pub(crate) async fn set_push(
        &self,
        task: TaskId,
        target: PushTarget,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let webhooks = self.webhooks()?;
        let handle = self.session_of(&task, caller).await?;
        let new = NewWebhook {
            session: handle.id().clone(),
            task: task.clone(),
            target,
            view,
            principal: caller.principal.name.to_string(),
            start: Start::Snapshot,
        };
        let registered = webhooks.register(new).await?;
        let target = registered.registration.target();
        webhooks.start_registered(registered);
        let name = self.shown_task_id(&handle, view, &task).await?;
        Ok(Reply::Value(view.push_config(&name, &target)))
    }

    /// Without a name: the only one, or the first.
    pub(crate) async fn get_push(
        &self,
        task: TaskId,
        config: Option<String>,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let webhooks = self.webhooks()?;
        let handle = self.session_of(&task, caller).await?;
        let found = match config {
            Some(config) => webhooks.registration(&Key { task: task.clone(), config }).await?,
            None => webhooks.of_task(&task).await?.into_iter().next(),
        };
        let found = found.ok_or(Condition::UnknownPushConfig)?;
        let name = self.shown_task_id(&handle, view, &task).await?;
        Ok(Reply::Value(view.push_config(&name, &found.target())))
    }

    pub(crate) async fn list_push(
        &self,
        task: TaskId,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let webhooks = self.webhooks()?;
        self.session_of(&task, caller).await?;
        let found = webhooks.of_task(&task).await?;
        let targets: Vec<PushTarget> = found.iter().map(Registration::target).collect();
        Ok(Reply::Value(view.push_configs(&task, &targets)))
    }

    /// Deleting one that does not exist succeeds.
    pub(crate) async fn delete_push(
        &self,
        task: TaskId,
        config: String,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let webhooks = self.webhooks()?;
        self.session_of(&task, caller).await?;
        webhooks.delete(&Key { task, config }).await?;
        Ok(Reply::Value(view.push_config_deleted()))
    }

    /// Refuses a message whose webhook cannot be called, before anything is done for it.
    pub(crate) fn check_callback(
        &self,
        target: Option<&PushTarget>,
        caller: &Caller,
    ) -> Result<(), WireError> {
        let Some(target) = target else { return Ok(()) };
        let checked = self.webhooks()?.check(&target.url, &caller.principal.name);
        checked.map_err(|why| Condition::PushTargetRefused { why }.into())
    }

    /// Makes the webhook of a message durable before the message is accepted, so that an accepted
    /// prompt always has its callback. A new task gets its id here for that.
    pub(crate) async fn callback(
        &self,
        handle: &SessionHandle,
        choice: &mut TaskChoice,
        target: Option<PushTarget>,
        view: View,
        caller: &Caller,
    ) -> Result<Option<Callback>, WireError> {
        let Some(target) = target else { return Ok(None) };
        let webhooks = self.webhooks()?;
        let task = match choice {
            TaskChoice::New => TaskId::from(uuid::Uuid::now_v7()),
            TaskChoice::Named(task) | TaskChoice::Continue(task) | TaskChoice::Reopen(task) => {
                task.clone()
            }
        };
        if *choice == TaskChoice::New {
            *choice = TaskChoice::Named(task.clone());
        }
        let new = NewWebhook {
            session: handle.id().clone(),
            task,
            target,
            view,
            principal: caller.principal.name.to_string(),
            start: Start::After(handle.head()),
        };
        let registered = Box::pin(webhooks.register(new)).await?;
        Ok(Some(Callback { webhooks: webhooks.clone(), registered }))
    }

    /// Called when a prompt was accepted for a task that may have been over.
    pub(crate) fn task_continued(&self, task: &TaskId) {
        if let Some(webhooks) = &self.push {
            webhooks.restart_workers(task);
        }
    }

    pub(crate) fn task_changed(&self, task: &TaskId) {
        if let Some(webhooks) = &self.push {
            webhooks.wake_workers(task);
        }
    }
}
