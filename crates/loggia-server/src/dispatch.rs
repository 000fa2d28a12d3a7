//! From an intent to the hub and back: a value, or frames. Knows no dialect and no transport.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{Cancel, Command, Question, Refusal, Seq, Session, SessionId, TaskId, TaskState};
use loggia_session::{Ack, SessionHandle};
use loggia_wire::{
    A2aVersion, Answer, Asked, Condition, Delivery, Dialect, End, Extension, FrameId, Intent,
    Projector, Prompt, Shown, View, WireError, reply,
};
use serde_json::Value;

use crate::alone;
use crate::hook::Screened;
use crate::projection::{Encoded, Frames};
use crate::state::{Caller, Server, submit_error};

pub enum Reply {
    Value(Value),
    /// The only frame of a stream.
    Frame(Value),
    Frames(TaskFrames),
}

/// The frames of one task, from an opening to the end that the request asked for.
pub struct TaskFrames {
    opening: Option<Arc<Encoded>>,
    frames: Frames,
    task: TaskId,
    until: Until,
    over: bool,
    /// The task was over already when the reader came: nothing more comes after this event.
    closes_at: Option<Seq>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The task is over or asks: the answer opens the next stream.
    Settled,
    /// The task is over.
    Over,
}

impl TaskFrames {
    pub fn session(&self) -> &SessionId {
        self.frames.projection().handle().id()
    }

    /// The next frames of the task; None at the end. An error ends the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Encoded>>>, WireError> {
        if let Some(opening) = self.opening.take() {
            self.over = self.ends(&opening);
            return Ok(Some(vec![opening]));
        }
        while !self.over {
            if self.closes_at.is_some_and(|seq| self.frames.has_all_up_to(seq)) {
                return Ok(None);
            }
            let Ok(batch) = self.frames.next().await else { return Err(Condition::Storage.into()) };
            let Some(batch) = batch else { return Err(Condition::Restarting.into()) };
            let mut mine = Vec::new();
            for frame in batch.into_iter().filter(|frame| frame.task == self.task) {
                self.over = self.ends(&frame);
                mine.push(frame);
                if self.over {
                    break;
                }
            }
            if !mine.is_empty() {
                return Ok(Some(mine));
            }
        }
        Ok(None)
    }

    fn ends(&self, frame: &Encoded) -> bool {
        match (frame.ends, self.until) {
            (None, _) | (Some(End::InputRequired), Until::Over) => false,
            (Some(End::InputRequired | End::Terminal), Until::Settled)
            | (Some(End::Terminal), Until::Over) => true,
        }
    }
}

/// The question that a task waits with.
struct OpenQuestion {
    call: loggia_core::CallId,
    choices: Vec<loggia_core::Choice>,
    details: loggia_core::Details,
}

impl Server {
    /// `resume` is the last frame a reconnecting reader has seen.
    pub async fn ask(
        &self,
        asked: Asked,
        caller: &Caller,
        resume: Option<FrameId>,
    ) -> Result<Reply, WireError> {
        let Asked { view, intent } = asked;
        let scopes = &caller.principal.scopes;
        let allowed = match &intent {
            Intent::Prompt(_) | Intent::Cancel { .. } | Intent::RunSlash(_) => scopes.prompt,
            Intent::Answer(_) => scopes.approve,
            Intent::SetPush { .. } | Intent::DeletePush { .. } => scopes.prompt,
            Intent::Subscribe { .. }
            | Intent::GetTask { .. }
            | Intent::ListTasks(_)
            | Intent::GetPush { .. }
            | Intent::ListPush { .. }
            | Intent::GetExtendedCard
            | Intent::ListSlash { .. } => scopes.read,
        };
        if !allowed {
            return Err(Condition::Forbidden(loggia_wire::refuse::Forbidden::Scope).into());
        }
        if streams(&intent) && !self.facts.streaming {
            return Err(Condition::StreamingNotSupported.into());
        }
        match intent {
            Intent::Prompt(prompt) => match self.screen(*prompt, view, caller).await? {
                Screened::Goes(prompt) => self.prompt(prompt, view, caller).await,
                Screened::Answered(reply) => Ok(reply),
            },
            Intent::Answer(answer) => self.answer(*answer, view, caller).await,
            Intent::Cancel { task } => self.cancel(&task, view, caller).await,
            Intent::Subscribe { task } => self.subscribe(task, view, caller, resume).await,
            Intent::GetTask { task, history } => {
                let handle = self.session_of(&task, caller).await?;
                let shown = Shown { history, artifacts: true };
                Ok(Reply::Value(self.snapshot(&handle, view, &task, shown, handle.head()).await?))
            }
            Intent::ListTasks(list) => self.list(list, view, caller).await,
            Intent::SetPush { task, target } => self.set_push(task, target, view, caller).await,
            Intent::GetPush { task, config } => self.get_push(task, config, view, caller).await,
            Intent::ListPush { task } => self.list_push(task, view, caller).await,
            Intent::DeletePush { task, config } => {
                self.delete_push(task, config, view, caller).await
            }
            Intent::GetExtendedCard => self.extended_card(view.dialect, caller).await,
            Intent::ListSlash { session } => self.list_slash(session, caller).await,
            Intent::RunSlash(run) => self.run_slash(run, view, caller).await,
        }
    }

    async fn prompt(
        &self,
        mut prompt: Prompt,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        // Taking the message and dropping its callback would leave a client waiting for ever.
        self.check_callback(prompt.push.as_ref())?;
        let handle = match prompt.named_task() {
            Some(task) => {
                let handle = self.session_of(task, caller).await?;
                if prompt.session.as_ref().is_some_and(|session| session != handle.id()) {
                    return Err(Condition::ContextMismatch.into());
                }
                handle
            }
            None => {
                let settings = prompt.settings.as_ref();
                self.session_for(prompt.session.as_ref(), settings, caller).await?
            }
        };
        let answer = answer_in_words(&handle, &prompt, view).await?;
        let named = prompt.named_task().cloned();
        let target = prompt.push.take();
        let callback = self.callback(&handle, &mut prompt.task, target, view, caller).await?;
        if let Some(answer) = answer {
            if let Some(callback) = callback {
                callback.start();
            }
            return self.answer(answer, view, caller).await;
        }
        let Prompt { task, content, delivery, history, .. } = prompt;
        let command = Command::Prompt { prompt: SessionHandle::fresh_prompt(), task, content };
        let origin = caller.origin.clone();
        let ack = match callback {
            None => submit(&handle, command, caller).await?,
            Some(callback) => {
                callback.submit(&handle, command, origin).await.map_err(submit_error)?
            }
        };
        if let Some(task) = &named {
            self.task_goes_on(task);
        }
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        let shown = Shown { history, artifacts: true };
        self.deliver(&handle, view, task, &ack, delivery, shown, Opening::InFrames).await
    }

    async fn answer(
        &self,
        answer: Answer,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let handle = match (&answer.task, &answer.session) {
            (Some(task), _) => self.session_of(task, caller).await?,
            (None, session) => self.session_for_answer(session.as_ref(), caller).await?,
        };
        let Answer { task, to, choice, edit, digest, delivery, history, .. } = answer;
        let asked_in = task_of_question(&handle, &to).await?;
        if let (Some(named), Some(actual)) = (&task, &asked_in)
            && named != actual
        {
            return Err(Condition::QuestionElsewhere.into());
        }
        let command = Command::Answer { to, choice, edit, digest };
        let ack = submit(&handle, command, caller).await?;
        let task = asked_in.or(task).ok_or(Condition::TaskNotFound)?;
        self.task_changed(&task);
        // The extension's own exchange goes on with the call itself; everybody else gets the task.
        let opening = match view {
            View { dialect: Dialect::A2a03, extension: Extension::On } => Opening::InFrames,
            View { .. } => Opening::Snapshot,
        };
        let shown = Shown { history, artifacts: true };
        self.deliver(&handle, view, task, &ack, delivery, shown, opening).await
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
        Ok(Reply::Value(self.snapshot(&handle, view, task, Shown::default(), ack.seq).await?))
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
        if !projection.reach(handle.head()).await {
            return Err(Condition::Restarting.into());
        }
        if let Some(seen) = resume {
            let frames = projection.frames(seen);
            let closes_at = projection.look(|projector| {
                let over = projector.tasks().get(&task).is_some_and(|view| view.state.is_over());
                over.then(|| projector.head())
            });
            let until = Until::Over;
            let frames = TaskFrames { opening: None, frames, task, until, over: false, closes_at };
            return Ok(Reply::Frames(frames));
        }
        let (opening, frames) = projection.opening(&task).ok_or(Condition::TaskNotFound)?;
        if opening.ends == Some(End::Terminal) && view.dialect.version() == A2aVersion::V1 {
            return Err(Condition::NothingToFollow.into());
        }
        let opening = Some(Arc::new(opening));
        let until = Until::Over;
        let frames = TaskFrames { opening, frames, task, until, over: false, closes_at: None };
        Ok(Reply::Frames(frames))
    }

    #[expect(clippy::too_many_arguments, reason = "one place for three ways to deliver a result")]
    async fn deliver(
        &self,
        handle: &SessionHandle,
        view: View,
        task: TaskId,
        ack: &Ack,
        delivery: Delivery,
        shown: Shown,
        opening: Opening,
    ) -> Result<Reply, WireError> {
        if delivery == Delivery::AtOnce {
            let value = self.snapshot(handle, view, &task, shown, ack.seq).await?;
            return Ok(Reply::Value(reply::sent(view.dialect, value)));
        }
        if delivery == Delivery::WhenSettled && alone::is_short(handle) {
            let settled = |projector: &Projector| {
                let state = projector.tasks().get(&task).map(|task| task.state);
                let waits = state.is_some_and(|state| state == TaskState::InputRequired);
                projector.head() >= ack.seq && (waits || state.is_some_and(TaskState::is_over))
            };
            let projector = alone::fold(handle, view, settled).await?;
            let value = projector.snapshot(&task, shown).ok_or(Condition::TaskNotFound)?;
            return Ok(Reply::Value(reply::sent(view.dialect, value)));
        }
        let projection = self.projection(handle, view);
        let (opening, frames) = match opening {
            Opening::InFrames => (None, projection.frames(FrameId { seq: ack.after, k: u32::MAX })),
            Opening::Snapshot => {
                if !projection.reach(ack.seq).await {
                    return Err(Condition::Restarting.into());
                }
                let (opening, frames) = projection.opening(&task).ok_or(Condition::TaskNotFound)?;
                (Some(Arc::new(opening)), frames)
            }
        };
        let until = Until::Settled;
        let mut frames = TaskFrames { opening, frames, task, until, over: false, closes_at: None };
        if delivery == Delivery::Stream {
            return Ok(Reply::Frames(frames));
        }
        while frames.next().await?.is_some() {}
        let value = projection.snapshot(&frames.task, shown).ok_or(Condition::TaskNotFound)?;
        Ok(Reply::Value(reply::sent(view.dialect, value)))
    }

    async fn snapshot(
        &self,
        handle: &SessionHandle,
        view: View,
        task: &TaskId,
        shown: Shown,
        at_least: Seq,
    ) -> Result<Value, WireError> {
        if alone::is_short(handle) {
            let projector = alone::fold(handle, view, |folded| folded.head() >= at_least).await?;
            return projector.snapshot(task, shown).ok_or_else(|| Condition::TaskNotFound.into());
        }
        let projection = self.projection(handle, view);
        if !projection.reach(at_least).await {
            return Err(Condition::Restarting.into());
        }
        projection.snapshot(task, shown).ok_or_else(|| Condition::TaskNotFound.into())
    }
}

/// Whether the answer would be a stream.
fn streams(intent: &Intent) -> bool {
    match intent {
        Intent::Prompt(prompt) => prompt.delivery == Delivery::Stream,
        Intent::Answer(answer) => answer.delivery == Delivery::Stream,
        Intent::Subscribe { .. } => true,
        Intent::Cancel { .. }
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

/// Where a stream's first `Task` comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// The accepted prompt has one among its frames.
    InFrames,
    Snapshot,
}

/// The answer that a message to a task with an open question is; None if it is the next prompt.
async fn answer_in_words(
    handle: &SessionHandle,
    prompt: &Prompt,
    view: View,
) -> Result<Option<Answer>, WireError> {
    let Some(task) = prompt.named_task() else { return Ok(None) };
    let Some(question) = open_question(handle, task).await? else { return Ok(None) };
    let words = prompt.answering(&question.call, &question.choices, &question.details);
    match (words, view.extension) {
        (Some(answer), _) => Ok(Some(answer)),
        // With the extension, answers have a form of their own: words are the next prompt.
        (None, Extension::On) => Ok(None),
        (None, Extension::Off) => {
            let offered = question.choices.iter().map(|choice| choice.id.0.clone()).collect();
            Err(Refusal::NotAChoice { given: "this message".into(), offered }.into())
        }
    }
}

/// How long a command waits where many come at once, before its client is told *busy*.
const PATIENCE: Duration = Duration::from_secs(5);

async fn submit(
    handle: &SessionHandle,
    command: Command,
    caller: &Caller,
) -> Result<Ack, WireError> {
    let submitted = handle.submit_within(PATIENCE, command, caller.origin.clone()).await;
    submitted.map_err(submit_error)
}

async fn open_question(
    handle: &SessionHandle,
    task: &TaskId,
) -> Result<Option<OpenQuestion>, WireError> {
    let task = task.clone();
    let look = move |session: &Session| {
        let here = session.turn().is_some_and(|turn| turn.task == task);
        let (call, approval) = session.open_approvals().next().filter(|_| here)?;
        Some(OpenQuestion {
            call: call.id.clone(),
            choices: approval.choices.clone(),
            details: call.details.clone(),
        })
    };
    handle.inspect(look).await.map_err(submit_error)
}

/// The task whose turn asks this question now.
async fn task_of_question(
    handle: &SessionHandle,
    question: &Question,
) -> Result<Option<TaskId>, WireError> {
    let question = question.clone();
    let look = move |session: &Session| {
        let asked = session.open_approvals().any(|(call, approval)| match &question {
            Question::Approval(id) => approval.id == *id,
            Question::Call(id) => call.id == *id,
        });
        session.turn().filter(|_| asked).map(|turn| turn.task.clone())
    };
    handle.inspect(look).await.map_err(submit_error)
}
