//! Puts an intent to the hub and returns a value or frames. Knows no protocol and no transport.

mod frames;
mod open_question;

use std::time::Duration;

use loggia_core::{
    Cancel, Command, Question, Refusal, Seq, Session, SessionId, TaskChoice, TaskId, TaskView,
};
use loggia_session::{Ack, HubError, SessionHandle, hub};
use loggia_wire::{
    Answer, Condition, DecodedRequest, Delivery, FrameId, HistoryLength, Intent, OpenTask, Prompt,
    TaskDetail, View, WireError,
};
use loggia_wire::{Subject, Subscription};
use serde_json::Value;
use tokio::time::Instant;

use crate::client_task_ids::Recognised;
use crate::guard::SMALL;
use crate::hook::{HookResult, Passed};
use crate::not_found::padded_since;
use crate::required_scopes;
use crate::state::{Caller, ServedSessions, Server, hub_error, submit_error};
use crate::task_fold::{TaskFold, fold_tasks};

pub(crate) use frames::StreamStart;
pub use frames::TaskFrames;
use open_question::open_question;

pub enum Reply {
    Value(Value),
    /// The only frame of a stream.
    Frame(Value),
    Frames(TaskFrames),
}

/// The client that gets a task, and how.
#[derive(Clone, Copy)]
pub(crate) struct Recipient<'a> {
    pub caller: &'a Caller,
    pub view: View,
    pub delivery: Delivery,
    pub history: HistoryLength,
}

impl Recipient<'_> {
    fn shown(self) -> TaskDetail {
        TaskDetail { history: self.history, artifacts: true }
    }
}

impl Server {
    /// `resume` is the last frame that a reconnecting reader has seen. If the credential expires before the answer is
    /// there, the request fails as unauthenticated.
    pub async fn ask(
        &self,
        asked: DecodedRequest,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        let started = caller.started.unwrap_or_else(Instant::now);
        tokio::select! {
            reply = padded_since(started, self.reply(asked, caller, resume)) => {
                caller.load.release_body();
                let mut reply = reply?;
                if let Reply::Frames(frames) = &mut reply {
                    frames.count(&self.replies, &caller.principal.name);
                }
                Ok(reply)
            }
            () = caller.principal.lifetime.clone().ended() => Err(Condition::Unauthenticated.into()),
        }
    }

    async fn reply(
        &self,
        asked: DecodedRequest,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        let asked = self.in_profile(asked, caller).await?;
        let streams = asked.is_stream();
        let DecodedRequest { view, intent } = asked;
        let view = caller.reads(view);
        required_scopes::check(required_scopes::of_intent(&intent, streams), caller)?;
        if streams && !self.facts.streaming {
            return Err(Condition::StreamingNotSupported.into());
        }
        // Boxed, except for messages: the future of every request would be as large as the largest of these.
        match intent {
            Intent::OpenTask(open) => Box::pin(self.open_task(open, view, caller)).await,
            Intent::Prompt(prompt) => {
                let prompt = match self.recognise(prompt, view, caller).await? {
                    Recognised::New(prompt) => prompt,
                    Recognised::Repeated(reply) => return Ok(reply),
                };
                match self.screen(prompt, view, caller).await? {
                    HookResult::Pass(passed) => self.prompt(passed, view, caller).await,
                    HookResult::Record(prompt, screening) => {
                        Box::pin(self.record_and_deliver(prompt, screening, view, caller)).await
                    }
                    HookResult::Reply(reply) => Ok(reply),
                }
            }
            Intent::Answer(answer) => Box::pin(self.answer(*answer, view, caller)).await,
            Intent::Cancel { task } => Box::pin(self.cancel(&task, view, caller)).await,
            Intent::Subscribe { task } => {
                Box::pin(self.subscribe(&task, view, caller, resume)).await
            }
            Intent::GetTask { task, history } => {
                let shown = TaskDetail { history, artifacts: true };
                Box::pin(self.get_task(&task, shown, view, caller)).await
            }
            Intent::ListTasks(list) => Box::pin(self.list(list, view, caller)).await,
            Intent::SetPush { task, target } => {
                Box::pin(self.set_push(task, target, view, caller)).await
            }
            Intent::GetPush { task, config } => {
                Box::pin(self.get_push(task, config, view, caller)).await
            }
            Intent::ListPush { task } => Box::pin(self.list_push(task, view, caller)).await,
            Intent::DeletePush { task, config } => {
                Box::pin(self.delete_push(task, config, view, caller)).await
            }
            Intent::GetExtendedCard => Box::pin(self.extended_card(view, caller)).await,
            Intent::ListSlash { session } => Box::pin(self.list_slash(session, view, caller)).await,
            Intent::RunSlash(run) => Box::pin(self.run_slash(run, view, caller)).await,
        }
    }

    /// Resolves the view of a request that names none: it takes the profile of its task or session. If
    /// the caller may not see the task, carrying out the request says so.
    async fn in_profile(
        &self,
        asked: DecodedRequest,
        caller: &Caller,
    ) -> Result<DecodedRequest, WireError> {
        let Some(subject) = asked.profile_subject() else { return Ok(asked) };
        let profile = Box::pin(self.profile_of(subject, caller)).await?;
        Ok(asked.in_profile(profile.as_deref()))
    }

    /// The profile of a task, or of the first message of its session. A shared session has many clients, so there only
    /// the task counts.
    async fn profile_of(
        &self,
        subject: Subject<'_>,
        caller: &Caller,
    ) -> Result<Option<String>, WireError> {
        let (handle, task) = match subject {
            Subject::Task(task) => (self.session_of(task, caller).await, Some(task.clone())),
            Subject::Session(_) if !self.serves_many_sessions() => return Ok(None),
            Subject::Session(session) => (self.session(session, caller).await, None),
        };
        let many = self.serves_many_sessions();
        let named = task.clone();
        let profile = move |session: &Session| {
            let of_task = named.and_then(|task| session.profile_of(&task).map(str::to_owned));
            let of_session = || session.profile().filter(|_| many).map(str::to_owned);
            of_task.or_else(of_session)
        };
        match (handle, task) {
            (Ok(handle), _) => handle.inspect(profile).await.map_err(submit_error),
            (Err(error), Some(task)) if is_readable(&error) => {
                let (id, mut session) = (self.located(&task).await?, Session::default());
                let store = self.hub.store().as_ref();
                let read = hub::fold(store, &id, |envelope| session.apply(envelope)).await;
                read.map_err(|error| hub_error(HubError::Store(error)))?;
                Ok(profile(&session))
            }
            (Err(_), _) => Ok(None),
        }
    }

    /// The session of a task that its client may see.
    async fn located(&self, task: &TaskId) -> Result<SessionId, WireError> {
        let session = self.hub.locate(task).await.map_err(hub_error)?;
        session.ok_or_else(|| Condition::TaskNotFound.into())
    }

    async fn open_task(
        &self,
        open: OpenTask,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let OpenTask { session, settings, profile } = open;
        let handle = self.session_for(session.as_ref(), settings.as_ref(), caller).await?;
        let task = TaskId::from(uuid::Uuid::now_v7());
        let command = Command::OpenTask { task: task.clone(), profile };
        let ack = submit(&handle, command, caller).await?;
        let task =
            self.snapshot(&handle, view, &task, TaskDetail::default(), ack.seq, caller).await?;
        Ok(Reply::Value(task))
    }

    async fn get_task(
        &self,
        task: &TaskId,
        shown: TaskDetail,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let task = match self.session_of(task, caller).await {
            Ok(handle) => self.snapshot(&handle, view, task, shown, handle.head(), caller).await?,
            Err(error) if is_readable(&error) => {
                let session = self.located(task).await?;
                self.stored_task(&session, view, task, shown, caller).await?
            }
            Err(error) => return Err(error),
        };
        Ok(Reply::Value(task))
    }

    async fn prompt(
        &self,
        mut passed: Passed,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let prompt = passed.prompt();
        // Checked first: a message that is accepted without its webhook leaves its client waiting for ever.
        self.check_callback(prompt.push.as_ref(), caller)?;
        let handle = match prompt.named_task() {
            Some(task) => Box::pin(self.session_of_named(task, prompt, caller)).await?,
            None => {
                let (wanted, settings) =
                    (self.session_name(prompt, caller).await?, prompt.settings.as_ref());
                self.session_for(wanted.as_ref(), settings, caller).await?
            }
        };
        let named = prompt.named_task().cloned();
        let target = passed.take_callback();
        let callback = self.callback(&handle, passed.task_mut(), target, view, caller).await?;
        let prompt = passed.prompt();
        let (delivery, history) = (prompt.delivery, prompt.history);
        let to = Recipient { caller, view, delivery, history };
        // Another request of the client may have taken the same task id first.
        let by_client =
            matches!(prompt.task, TaskChoice::Named(_)).then(|| Box::new(prompt.clone()));
        // The message may turn out to be an answer, which needs its own scope.
        let command = passed.command(view, caller.principal.scopes.approve);
        // From here on the session counts the message, until its turn is over.
        caller.load.release_body();
        let submitted = match callback {
            None => Box::pin(submit(&handle, command, caller)).await,
            Some(callback) => {
                let origin = caller.origin.clone();
                let submitted = Box::pin(callback.submit(&handle, command, origin)).await;
                submitted.map_err(submit_error)
            }
        };
        let ack = match (submitted, &by_client) {
            (Ok(ack), _) => ack,
            (Err(WireError::Refused(Refusal::TaskExists)), Some(prompt)) => {
                return Box::pin(self.reply_for_taken_id(prompt.clone(), view, caller)).await;
            }
            (Err(error), _) => return Err(error),
        };
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        if let Some(call) = &ack.answered {
            self.task_changed(&task);
            let start = StreamStart::of_answer(view, &ack, Question::Call(call.clone()));
            return Box::pin(self.deliver(&handle, task, &ack, start, to)).await;
        }
        if let Some(task) = &named {
            self.task_continued(task);
        }
        if let Some(prompt) = by_client.filter(|prompt| prompt.session.is_some())
            && Box::pin(self.is_second(&handle, &task, caller)).await?
        {
            return Box::pin(self.reply_for_taken_id(prompt, view, caller)).await;
        }
        self.deliver(&handle, task, &ack, StreamStart::Prompt, to).await
    }

    /// The session of the task that a message names, adapted to the message's settings.
    async fn session_of_named(
        &self,
        task: &TaskId,
        prompt: &Prompt,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let handle = self.session_of(task, caller).await?;
        self.check_name(&handle, prompt.session.as_ref(), caller).await?;
        self.apply_to_existing(&handle, prompt.settings.as_ref(), caller).await?;
        Ok(handle)
    }

    /// A context that is named beside a task must be the task's.
    async fn check_name(
        &self,
        handle: &SessionHandle,
        name: Option<&SessionId>,
        caller: &Caller,
    ) -> Result<(), WireError> {
        match name {
            Some(name) if !self.is_name_of(name, handle.id(), caller).await? => {
                Err(Condition::ContextMismatch.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn answer(
        &self,
        answer: Answer,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let handle = match (&answer.task, &answer.session, &self.sessions) {
            (Some(task), session, _) => {
                let handle = self.session_of(task, caller).await?;
                self.check_name(&handle, session.as_ref(), caller).await?;
                handle
            }
            (None, Some(session), _) | (None, None, ServedSessions::Shared(session)) => {
                self.session(session, caller).await?
            }
            (None, None, ServedSessions::Many) => return Err(Refusal::UnknownQuestion.into()),
        };
        let Answer { task, to, choice, edit, digest, message, delivery, history, .. } = answer;
        let open = open_question(&handle, &to).await?;
        let choice = match &open {
            Some(open) => view.offered_choice(choice, &open.choices),
            None => choice,
        };
        let asked_in = open.map(|open| open.task);
        if let (Some(named), Some(actual)) = (&task, &asked_in)
            && named != actual
        {
            return Err(Condition::QuestionElsewhere.into());
        }
        let command = Command::Answer { to: to.clone(), choice, edit, digest, message };
        let ack = submit(&handle, command, caller).await?;
        let task = asked_in.or(task).ok_or(Condition::TaskNotFound)?;
        self.task_changed(&task);
        let start = StreamStart::of_answer(view, &ack, to);
        let to = Recipient { caller, view, delivery, history };
        self.deliver(&handle, task, &ack, start, to).await
    }

    async fn cancel(&self, task: &TaskId, view: View, caller: &Caller) -> Result<Reply, WireError> {
        let handle = self.session_of(task, caller).await?;
        let command = Command::Cancel { what: Cancel::Task(task.clone()) };
        let ack = submit(&handle, command, caller).await?;
        self.task_changed(task);
        let task =
            self.snapshot(&handle, view, task, TaskDetail::default(), ack.seq, caller).await?;
        Ok(Reply::Value(task))
    }

    async fn subscribe(
        &self,
        task: &TaskId,
        view: View,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        let handle = match self.session_of(task, caller).await {
            Ok(handle) => handle,
            Err(error) if is_readable(&error) => {
                return Box::pin(self.stored_end(task, view, caller, resume, error)).await;
            }
            Err(error) => return Err(error),
        };
        let reader = self.projections.reader(&handle, view);
        Ok(Reply::Frames(TaskFrames::of_subscription(&reader, task, resume).await?))
    }

    /// The stream of a task that is over: the task itself. `error` says why the session is not open.
    async fn stored_end(
        &self,
        task: &TaskId,
        view: View,
        caller: &Caller,
        resume: Option<FrameId>,
        error: WireError,
    ) -> Result<Reply, WireError> {
        let session = self.located(task).await?;
        let folded = self.stored_fold(&session, view, task, caller).await?;
        let projector = folded.projector();
        let is_over = projector.tasks().get(task).is_some_and(|view| view.state.is_over());
        if !is_over || projector.subscription(task, resume)? != Subscription::Now {
            return Err(error);
        }
        let opening = projector.opening(task).ok_or(Condition::TaskNotFound)?;
        Ok(Reply::Frame(opening.body))
    }

    /// The result of a message: the task at once, the task when it is over or asks, or a stream.
    pub(crate) async fn deliver(
        &self,
        handle: &SessionHandle,
        task: TaskId,
        ack: &Ack,
        start: StreamStart,
        to: Recipient<'_>,
    ) -> Result<Reply, WireError> {
        let (view, caller) = (to.view, to.caller);
        let at = match view.delivery(to.delivery) {
            Delivery::Stream => {
                let reader = self.projections.reader(handle, view);
                let frames = Box::pin(TaskFrames::of_message(&reader, &task, ack, start)).await?;
                return Ok(Reply::Frames(frames));
            }
            Delivery::WhenSettled => {
                self.projections.reader(handle, view).settled(&task, ack.seq).await?;
                handle.head()
            }
            Delivery::AtOnce | Delivery::Unsaid => ack.seq,
        };
        let task = self.snapshot(handle, view, &task, to.shown(), at, caller).await?;
        Ok(Reply::Value(view.sent(task)))
    }

    /// A task of an open session, with everything up to `at_least`.
    async fn snapshot(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
        shown: TaskDetail,
        at_least: Seq,
        caller: &Caller,
    ) -> Result<Value, WireError> {
        let reader = self.projections.reader(handle, view);
        reader.reached(at_least).await?;
        if reader.with_projector(|projector| projector.tasks().get(task).is_none()) {
            return Err(Condition::TaskNotFound.into());
        }
        if let Some(weight) = reader.with_task(task, |_, view| view.approx_bytes()) {
            self.count_reply(weight, caller).await?;
            let snapshot = reader.with_task(task, |projector, _| projector.snapshot(task, shown));
            if let Some(snapshot) = snapshot.flatten() {
                return Ok(snapshot);
            }
        }
        // The projection does not keep all contents of this task.
        Box::pin(self.stored_task(handle.id(), view, task, shown, caller)).await
    }

    /// A task as it is in the store. Needs no open session.
    async fn stored_task(
        &self,
        session: &SessionId,
        view: View,
        task: &TaskId,
        shown: TaskDetail,
        caller: &Caller,
    ) -> Result<Value, WireError> {
        let folded = self.stored_fold(session, view, task, caller).await?;
        let snapshot = folded.projector().snapshot(task, shown);
        snapshot.ok_or_else(|| Condition::TaskNotFound.into())
    }

    /// A fold of the store with all contents of a task, which are counted for its reader.
    async fn stored_fold(
        &self,
        session: &SessionId,
        view: View,
        task: &TaskId,
        caller: &Caller,
    ) -> Result<TaskFold, WireError> {
        let fold = async |byte_limit| {
            let tasks = vec![task.clone()];
            let folded =
                fold_tasks(self.hub.store().as_ref(), session, view, tasks, byte_limit).await;
            folded.map_err(|error| hub_error(HubError::Store(error)))
        };
        let mut folded = fold(SMALL).await?;
        if folded.is_incomplete() {
            // Counted before its contents are in memory.
            self.count_reply(folded.weight(task), caller).await?;
            folded = fold(usize::MAX).await?;
        }
        Ok(folded)
    }

    /// Reads a task as it is in the log.
    pub(crate) async fn with_task<T>(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
        read: impl FnOnce(&TaskView) -> T,
    ) -> Result<T, WireError> {
        let reader = self.projections.reader(handle, view);
        reader.reached(handle.head()).await?;
        let mut read = Some(read);
        let value = reader.with_task(task, |_, view| read.take().map(|read| read(view))).flatten();
        if let Some(value) = value {
            return Ok(value);
        }
        let (store, tasks) = (self.hub.store(), vec![task.clone()]);
        let folded = fold_tasks(store.as_ref(), handle.id(), view, tasks, usize::MAX).await;
        let folded = folded.map_err(|error| hub_error(HubError::Store(error)))?;
        let found = folded.projector().tasks().get(task).zip(read);
        found.map(|(view, read)| read(view)).ok_or_else(|| Condition::TaskNotFound.into())
    }
}

/// Whether the log can be read although the session cannot be opened: another process has it, or opening it cannot be
/// recorded because the disk is full.
fn is_readable(error: &WireError) -> bool {
    matches!(error, WireError::Condition(Condition::HeldElsewhere | Condition::StorageFull))
}

/// How long a command waits for a busy session before its client is told *busy*.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn submit(
    handle: &SessionHandle,
    command: Command,
    caller: &Caller,
) -> Result<Ack, WireError> {
    let submitted = handle.submit_within(SUBMIT_TIMEOUT, command, caller.origin.clone()).await;
    submitted.map_err(submit_error)
}
