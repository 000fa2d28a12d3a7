//! From an intent to the hub and back: a value, or frames. Knows no dialect and no transport.

mod asked;
mod frames;

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    Cancel, Command, Question, Refusal, Seq, SessionId, TaskChoice, TaskId, TaskState, TaskView,
};
use loggia_session::{Ack, SessionHandle};
use loggia_wire::{
    Answer, Answered, Asked, Condition, Delivery, Frame, FrameId, Intent, OpenTask, Projector,
    Prompt, Subscription, TaskDetail, TaskStream, View, WireError, coder,
    devtool::{self, Subject},
    reply,
};
use serde_json::Value;

use crate::alone;
use crate::hook::{Passed, Screened};
use crate::named::Recognised;
use crate::projection::{Encoded, Frames, Opened, Reading};
use crate::state::{Caller, Server, stopped, submit_error};

use asked::asked_now;
pub use frames::TaskFrames;

pub enum Reply {
    Value(Value),
    /// The same where it is written down already, as JSON.
    Written(String),
    /// The only frame of a stream.
    Frame(Value),
    Frames(TaskFrames),
}

impl Server {
    /// `resume` is the last frame a reconnecting reader has seen. An answer may have to wait for the
    /// end of a turn; who is nobody any more by then gets none.
    pub async fn ask(
        &self,
        asked: Asked,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        tokio::select! {
            reply = self.reply(asked, caller, resume) => {
                caller.load.release_body();
                let mut reply = reply?;
                if let Reply::Frames(frames) = &mut reply {
                    frames.count(&self.replies, &caller.principal.name);
                }
                Ok(reply)
            }
            () = caller.principal.tenure.clone().over() => Err(Condition::Unauthenticated.into()),
        }
    }

    async fn reply(
        &self,
        asked: Asked,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        let Asked { view, intent } = self.as_it_was_begun(asked, caller).await?;
        let scopes = &caller.principal.scopes;
        // What comes as a stream shows a task as it goes on; the plain answer is the task alone.
        let streams = is_stream(&intent);
        let (read, prompt, approve) =
            ((scopes.read, "read"), (scopes.prompt, "prompt"), (scopes.approve, "approve"));
        let needed = match &intent {
            Intent::Prompt(_) if streams => [prompt, read],
            // A webhook is shown the task.
            Intent::Prompt(message) if message.push.is_some() => [prompt, read],
            Intent::SetPush { .. } => [prompt, read],
            Intent::Answer(_) if streams => [approve, read],
            Intent::OpenTask(_)
            | Intent::Prompt(_)
            | Intent::Cancel { .. }
            | Intent::RunSlash(_) => [prompt; 2],
            Intent::Answer(_) => [approve; 2],
            Intent::DeletePush { .. } => [prompt; 2],
            Intent::Subscribe { .. }
            | Intent::GetTask { .. }
            | Intent::ListTasks(_)
            | Intent::GetPush { .. }
            | Intent::ListPush { .. }
            | Intent::GetExtendedCard
            | Intent::ListSlash { .. } => [read; 2],
        };
        if let Some((_, scope)) = needed.into_iter().find(|(given, _)| !given) {
            return Err(out_of_scope(scope));
        }
        if streams && !self.facts.streaming {
            return Err(Condition::StreamingNotSupported.into());
        }
        // Boxed, but for messages: what a request may need is set up for every one of them. Below the
        // same holds for whatever a message that begins a task does not need.
        match intent {
            Intent::OpenTask(open) => Box::pin(self.open_task(open, view, caller)).await,
            Intent::Prompt(prompt) => {
                let prompt = match self.recognise(prompt, view, caller).await? {
                    Recognised::Goes(prompt) => prompt,
                    Recognised::Again(reply) => return Ok(reply),
                };
                match self.screen(prompt, view, caller).await? {
                    Screened::Goes(passed) => self.prompt(passed, view, caller).await,
                    Screened::Settled(prompt, screening) => {
                        Box::pin(self.settle(prompt, screening, view, caller)).await
                    }
                    Screened::Answered(reply) => Ok(reply),
                }
            }
            Intent::Answer(answer) => Box::pin(self.answer(*answer, view, caller)).await,
            Intent::Cancel { task } => Box::pin(self.cancel(&task, view, caller)).await,
            Intent::Subscribe { task } => {
                Box::pin(self.subscribe(task, view, caller, resume)).await
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
            Intent::GetExtendedCard => Box::pin(self.extended_card(view.dialect, caller)).await,
            Intent::ListSlash { session } => Box::pin(self.list_slash(session, view, caller)).await,
            Intent::RunSlash(run) => Box::pin(self.run_slash(run, view, caller)).await,
        }
    }

    /// A request about a task or a session that says nothing about its view is meant as that was begun.
    /// Who may not see it is told so where the request is done.
    async fn as_it_was_begun(&self, asked: Asked, caller: &Caller) -> Result<Asked, WireError> {
        let (shipped, extended) = (coder::leaves_open(&asked), devtool::leaves_open(&asked));
        let (may_be_shipped, may_be_extended) = (shipped.is_some(), extended.is_some());
        let Some(subject) = shipped.map(Subject::Task).or(extended) else { return Ok(asked) };
        let profile = Box::pin(self.profile_of(subject, caller)).await?;
        Ok(match profile.as_deref() {
            Some(coder::PROFILE) if may_be_shipped => coder::in_this_dialect(asked),
            Some(devtool::PROFILE) if may_be_extended => devtool::with_extension(asked),
            _ if devtool::is_meant(&asked) && matches!(subject, Subject::Task(_)) => {
                devtool::with_extension(asked)
            }
            _ => asked,
        })
    }

    /// The profile of a task, or of the first message of its session. A shared session was begun by no
    /// client, and others are in it: there a task speaks for itself alone.
    async fn profile_of(
        &self,
        subject: Subject<'_>,
        caller: &Caller,
    ) -> Result<Option<String>, WireError> {
        let (handle, task) = match subject {
            Subject::Task(task) => (self.session_of(task, caller).await, Some(task.clone())),
            Subject::Session(_) if !self.is_many() => return Ok(None),
            Subject::Session(session) => (self.session(session, caller).await, None),
        };
        let Ok(handle) = handle else { return Ok(None) };
        let many = self.is_many();
        let profile = move |session: &loggia_core::Session| {
            let of_task = task.and_then(|task| session.profile_of(&task).map(str::to_owned));
            let of_session = || session.profile().filter(|_| many).map(str::to_owned);
            of_task.or_else(of_session)
        };
        handle.inspect(profile).await.map_err(submit_error)
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
        Ok(Reply::Value(
            self.snapshot(&handle, view, &task, TaskDetail::default(), ack.seq, caller).await?,
        ))
    }

    async fn get_task(
        &self,
        task: &TaskId,
        shown: TaskDetail,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let handle = match self.session_of(task, caller).await {
            // Reading needs no ownership.
            Err(WireError::Condition(Condition::HeldElsewhere)) => {
                return Ok(Reply::Value(self.shown_by_log(task, shown, view, caller).await?));
            }
            found => found?,
        };
        Ok(Reply::Value(self.snapshot(&handle, view, task, shown, handle.head(), caller).await?))
    }

    async fn prompt(
        &self,
        mut passed: Passed,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let prompt = passed.prompt();
        // Taking the message and dropping its callback would leave a client waiting for ever.
        self.check_callback(prompt.push.as_ref(), caller)?;
        let handle = match prompt.named_task() {
            Some(task) => Box::pin(self.session_to_go_on_in(task, prompt, caller)).await?,
            None => {
                let (wanted, settings) =
                    (self.session_name(prompt, caller).await?, prompt.settings.as_ref());
                self.session_for(wanted.as_ref(), settings, caller).await?
            }
        };
        let named = prompt.named_task().cloned();
        let target = passed.take_callback();
        let callback = self.callback(&handle, passed.task_mut(), target, view, caller).await?;
        // Under a name that a client made, another request of it may have been faster.
        let prompt = passed.prompt();
        let (delivery, history) = (prompt.delivery, prompt.history);
        let by_client =
            matches!(prompt.task, TaskChoice::Named(_)).then(|| Box::new(prompt.clone()));
        // Words may be an answer, too, and need the same right then.
        let command = passed.command(view, caller.principal.scopes.approve);
        let origin = caller.origin.clone();
        // From here on the session counts it, until its turn is over.
        caller.load.release_body();
        let submitted = match callback {
            // Whoever waits for the outcome is woken once. A task that goes on has others to tell.
            None if delivery == Delivery::WhenSettled && named.is_none() => {
                let settled = handle.submit_until_settled(PATIENCE, command, origin).await;
                settled.map_err(submit_error)
            }
            None => Box::pin(submit(&handle, command, caller)).await,
            Some(callback) => {
                let submitted = Box::pin(callback.submit(&handle, command, origin)).await;
                submitted.map_err(submit_error)
            }
        };
        let ack = match (submitted, &by_client) {
            (Ok(ack), _) => ack,
            (Err(WireError::Refused(Refusal::TaskExists)), Some(prompt)) => {
                return Box::pin(self.late(prompt.clone(), view, caller)).await;
            }
            (Err(error), _) => return Err(error),
        };
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        let shown = TaskDetail { history, artifacts: true };
        if let Some(call) = &ack.answered {
            self.task_changed(&task);
            let opening = Opening::of_answer(view, &ack, Question::Call(call.clone()));
            let (handle, ack) = (&handle, &ack);
            let due = Due { handle, view, task, ack, delivery, shown, opening, caller };
            return Box::pin(self.deliver(due)).await;
        }
        if let Some(task) = &named {
            self.task_goes_on(task);
        }
        if let Some(prompt) = by_client.filter(|prompt| prompt.session.is_some())
            && Box::pin(self.is_second(&handle, &task, caller)).await?
        {
            return Box::pin(self.late(prompt, view, caller)).await;
        }
        let (handle, ack, opening) = (&handle, &ack, Opening::InFrames);
        self.deliver(Due { handle, view, task, ack, delivery, shown, opening, caller }).await
    }

    /// The session of the task that a message goes on with.
    async fn session_to_go_on_in(
        &self,
        task: &TaskId,
        prompt: &Prompt,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let handle = self.session_of(task, caller).await?;
        self.check_name(&handle, prompt.session.as_ref(), caller).await?;
        self.fit(&handle, prompt.settings.as_ref(), caller).await?;
        Ok(handle)
    }

    /// Whoever names a context beside a task means the task's.
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
        let handle = match (&answer.task, &answer.session) {
            (Some(task), session) => {
                let handle = self.session_of(task, caller).await?;
                self.check_name(&handle, session.as_ref(), caller).await?;
                handle
            }
            (None, session) => self.session_for_answer(session.as_ref(), caller).await?,
        };
        let Answer { task, to, choice, edit, digest, message, delivery, history, .. } = answer;
        let (asked_in, offered) = asked_now(&handle, &to).await?.unzip();
        let choice = match offered {
            Some(offered) if view == View::CODER => coder::within(choice, &offered),
            _ => choice,
        };
        if let (Some(named), Some(actual)) = (&task, &asked_in)
            && named != actual
        {
            return Err(Condition::QuestionElsewhere.into());
        }
        let command = Command::Answer { to: to.clone(), choice, edit, digest, message };
        let ack = submit(&handle, command, caller).await?;
        let task = asked_in.or(task).ok_or(Condition::TaskNotFound)?;
        self.task_changed(&task);
        let opening = Opening::of_answer(view, &ack, to);
        let shown = TaskDetail { history, artifacts: true };
        let (handle, ack) = (&handle, &ack);
        self.deliver(Due { handle, view, task, ack, delivery, shown, opening, caller }).await
    }

    async fn session_for_answer(
        &self,
        session: Option<&SessionId>,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        match (session, &self.shape) {
            (Some(session), _) => self.session(session, caller).await,
            (None, crate::state::Shape::Shared(shared)) => self.session(shared, caller).await,
            (None, crate::state::Shape::Many) => Err(Refusal::UnknownQuestion.into()),
        }
    }

    async fn cancel(&self, task: &TaskId, view: View, caller: &Caller) -> Result<Reply, WireError> {
        let handle = self.session_of(task, caller).await?;
        let command = Command::Cancel { what: Cancel::Task(task.clone()) };
        let ack = submit(&handle, command, caller).await?;
        self.task_changed(task);
        Ok(Reply::Value(
            self.snapshot(&handle, view, task, TaskDetail::default(), ack.seq, caller).await?,
        ))
    }

    async fn subscribe(
        &self,
        task: TaskId,
        view: View,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        let handle = self.session_of(&task, caller).await?;
        let projection = self.projection(&handle, view);
        let head = handle.head();
        if !projection.reach(head).await {
            return Err(stopped(&handle));
        }
        let (begins, closes_at, head) = projection.look(|projector| {
            let begins = projector.subscription(&task, resume);
            (begins, ended_at(projector, &task), projector.head())
        });
        let stream = TaskStream::of_subscription(task.clone());
        Ok(Reply::Frames(match begins? {
            Subscription::After(seen) => TaskFrames {
                closes_at,
                ..TaskFrames::new(projection.frames(seen), stream.resumed(head))
            },
            Subscription::Now => {
                let (opening, frames) = opening_of(&projection, &task).await?;
                TaskFrames { opening: Some(Arc::new(opening)), ..TaskFrames::new(frames, stream) }
            }
        }))
    }

    /// One place for three ways to deliver a result.
    pub(crate) async fn deliver(&self, due: Due<'_>) -> Result<Reply, WireError> {
        let delivery = due.delivery.in_dialect(due.view.dialect);
        let Due { handle, view, ref task, ack, shown, caller, .. } = due;
        if delivery == Delivery::AtOnce {
            let value = Box::pin(self.snapshot(handle, view, task, shown, ack.seq, caller)).await?;
            return Ok(Reply::Value(reply::sent(view.dialect, value)));
        }
        if delivery == Delivery::WhenSettled && alone::is_short(handle) {
            let settled = |projector: &Projector| {
                let state = projector.tasks().get(task).map(|task| task.state);
                let waits = state.is_some_and(|state| state == TaskState::InputRequired);
                projector.head() >= ack.seq && (waits || state.is_some_and(TaskState::is_over))
            };
            let mut projector = alone::fold(handle, view, task, settled).await?;
            let weight = projector.tasks().get(task).map_or(0, TaskView::approx_bytes);
            if !self.count_reply_now(weight, caller) {
                // Nothing of it stays in memory while it waits.
                drop(projector);
                self.count_reply(weight, caller).await?;
                projector = alone::fold(handle, view, task, settled).await?;
            }
            let sent = projector.sent(task, shown).ok_or(Condition::TaskNotFound)?;
            return Ok(Reply::Written(sent));
        }
        Box::pin(self.deliver_frames(Due { delivery, ..due })).await
    }

    async fn deliver_frames(&self, due: Due<'_>) -> Result<Reply, WireError> {
        let Due { handle, view, task, ack, delivery, shown, opening, caller } = due;
        let projection = self.projection(handle, view);
        let from = projection.frames(FrameId { seq: ack.after, k: u32::MAX });
        let mut frames = TaskFrames::new(from, TaskStream::of_message(task.clone()));
        match opening {
            Opening::InFrames => {}
            Opening::Now => {
                let projection = &projection;
                if !projection.reach(ack.seq).await {
                    return Err(stopped(handle));
                }
                let now = opening_of(projection, &task).await?;
                (frames.opening, frames.frames) = (Some(Arc::new(now.0)), now.1);
            }
            Opening::After(to) => go_on(&projection, &mut frames, &task, ack, &to).await?,
            Opening::TaskAfter(to) => {
                go_on(&projection, &mut frames, &task, ack, &to).await?;
                if delivery == Delivery::Stream {
                    let mut opening = task_at(&projection, &task, ack.seq).await?;
                    // A reader that comes back with it has seen nothing of what follows.
                    opening.id = frames.frames.cursor();
                    frames.opening = Some(Arc::new(Encoded::new(handle.id(), opening)));
                    frames.stream = frames.stream.clone().showing(ack.seq);
                }
            }
        }
        if delivery == Delivery::Stream {
            return Ok(Reply::Frames(frames));
        }
        while frames.next().await?.is_some() {}
        drop(frames);
        let at = handle.head();
        let value = Box::pin(self.snapshot(handle, view, &task, shown, at, caller)).await?;
        Ok(Reply::Value(reply::sent(view.dialect, value)))
    }

    async fn snapshot(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
        shown: TaskDetail,
        at_least: Seq,
        caller: &Caller,
    ) -> Result<Value, WireError> {
        let weigh =
            |projector: &Projector| projector.tasks().get(task).map_or(0, TaskView::approx_bytes);
        let look = |projector: &Projector| projector.snapshot(task, shown);
        let (weight, folded) = self.folded(handle, view, task, at_least, weigh).await?;
        let folded = if self.count_reply_now(weight, caller) {
            folded
        } else {
            // Nothing of it stays in memory while it waits.
            drop(folded);
            self.count_reply(weight, caller).await?;
            None
        };
        let shown = match folded {
            Some(projector) => look(&projector),
            None => self.folded(handle, view, task, at_least, look).await?.0,
        };
        shown.ok_or_else(|| Condition::TaskNotFound.into())
    }

    /// Looks at a task as it is in the log.
    pub(crate) async fn look_at<T>(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
        look: impl FnOnce(&TaskView) -> T,
    ) -> Result<T, WireError> {
        let look = |folded: &Projector| folded.tasks().get(task).map(look);
        let (looked, _) = self.folded(handle, view, task, handle.head(), look).await?;
        looked.ok_or_else(|| Condition::TaskNotFound.into())
    }

    /// Looks at a task in the frames that are shared, or in a fold of its own, which is returned as well.
    async fn folded<T>(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
        at_least: Seq,
        look: impl FnOnce(&Projector) -> T,
    ) -> Result<(T, Option<Projector>), WireError> {
        let mut look = Some(look);
        if !alone::is_short(handle) {
            let projection = self.projection(handle, view);
            if !projection.reach(at_least).await {
                return Err(stopped(handle));
            }
            let looked = projection.look(|projector| {
                let whole = projector.tasks().get(task).is_none_or(|view| !view.trimmed);
                whole.then(|| look.take().map(|look| look(projector))).flatten()
            });
            if let Some(looked) = looked {
                return Ok((looked, None));
            }
        }
        let enough = |folded: &Projector| folded.head() >= at_least;
        let projector = alone::fold(handle, view, task, enough).await?;
        let look = look.take().ok_or(Condition::Internal)?;
        Ok((look(&projector), Some(projector)))
    }
}

/// What a principal is told whose scopes are too few.
pub(crate) fn out_of_scope(missing: &'static str) -> WireError {
    Condition::Forbidden(loggia_wire::refuse::Forbidden::Scope(missing)).into()
}

/// Whether the answer would be a stream.
pub(crate) fn is_stream(intent: &Intent) -> bool {
    match intent {
        Intent::Prompt(prompt) => prompt.delivery == Delivery::Stream,
        Intent::Answer(answer) => answer.delivery == Delivery::Stream,
        Intent::Subscribe { .. } => true,
        Intent::OpenTask(_)
        | Intent::Cancel { .. }
        | Intent::GetTask { .. }
        | Intent::ListTasks(_)
        | Intent::SetPush { .. }
        | Intent::GetPush { .. }
        | Intent::ListPush { .. }
        | Intent::DeletePush { .. }
        | Intent::GetExtendedCard
        | Intent::ListSlash { .. }
        | Intent::RunSlash(_) => false,
    }
}

/// A result, and how somebody is to have it.
pub(crate) struct Due<'a> {
    pub handle: &'a SessionHandle,
    pub view: View,
    pub task: TaskId,
    pub ack: &'a Ack,
    pub delivery: Delivery,
    pub shown: TaskDetail,
    pub opening: Opening,
    pub caller: &'a Caller,
}

/// Where a stream's first `Task` comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The accepted prompt has one among its frames.
    InFrames,
    /// The task as it is.
    Now,
    /// The stream of an answer goes on where the one before it ended, whatever happened since; so an
    /// answer that was given before gets its stream once more.
    After(Question),
    /// The same behind the task itself.
    TaskAfter(Question),
}

impl Opening {
    /// Of the stream of an answer.
    fn of_answer(view: View, ack: &Ack, to: Question) -> Self {
        // An answer that was given before gets its stream once more.
        let again = ack.seq == ack.after;
        match view.answer_opens_with_task() && !again {
            true => Opening::TaskAfter(to),
            false => Opening::After(to),
        }
    }
}

/// Where the stream before an answer ended, its own goes on.
async fn go_on(
    projection: &Reading,
    frames: &mut TaskFrames,
    task: &TaskId,
    ack: &Ack,
    to: &Question,
) -> Result<(), WireError> {
    if !projection.reach(ack.seq).await {
        return Err(stopped(projection.handle()));
    }
    match projection.look(|projector| projector.answered(to)) {
        Some(Answered { after, seq }) => {
            frames.frames = projection.frames(after);
            frames.stream = TaskStream::of_message(task.clone()).continued(seq);
        }
        // Given long ago: the task as it is.
        None if ack.seq == ack.after => {
            let now = opening_of(projection, task).await?;
            (frames.opening, frames.frames) = (Some(Arc::new(now.0)), now.1);
        }
        None => {}
    }
    frames.closes_at = projection.look(|projector| ended_at(projector, task));
    Ok(())
}

/// The task as it is now, and the frames that come after exactly this state.
async fn opening_of(projection: &Reading, task: &TaskId) -> Result<(Encoded, Frames), WireError> {
    match projection.opening(task) {
        Opened::Whole(opening, frames) => Ok((*opening, frames)),
        Opened::Trimmed(head) => {
            let (handle, view) = (projection.handle(), projection.view());
            let then = Box::pin(alone::fold_to(handle, view, head)).await?.opening(task);
            let frame = then.ok_or(Condition::TaskNotFound)?;
            let frames = projection.frames(frame.id);
            Ok((Encoded::new(handle.id(), frame), frames))
        }
        Opened::Absent => Err(Condition::TaskNotFound.into()),
    }
}

/// A task as an event left it, for the beginning of a stream that goes on.
async fn task_at(projection: &Reading, task: &TaskId, seq: Seq) -> Result<Frame, WireError> {
    let now = projection.look(|now| {
        let whole = now.tasks().get(task).is_none_or(|view| !view.trimmed);
        (whole && now.head() == seq).then(|| now.beginning(task))
    });
    let then = match now {
        Some(now) => now,
        // It has gone on meanwhile.
        None => {
            let (handle, view) = (projection.handle(), projection.view());
            Box::pin(alone::fold_to(handle, view, seq)).await?.beginning(task)
        }
    };
    then.ok_or_else(|| Condition::TaskNotFound.into())
}

/// The last event, if the task is over: nothing more comes after it.
fn ended_at(projector: &Projector, task: &TaskId) -> Option<Seq> {
    let over = projector.tasks().get(task).is_some_and(|view| view.state.is_over());
    over.then(|| projector.head())
}

/// How long a command waits where many come at once, before its client is told *busy*.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn submit(
    handle: &SessionHandle,
    command: Command,
    caller: &Caller,
) -> Result<Ack, WireError> {
    let submitted = handle.submit_within(PATIENCE, command, caller.origin.clone()).await;
    submitted.map_err(submit_error)
}
