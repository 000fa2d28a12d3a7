//! The log as a reader of one view sees it: one fold of the whole session, which gives frames.
//!
//! The same log gives the same frames under the same ids, so one projector serves all readers of a view, and a reader
//! that returns with the id of its last frame continues after it without a gap. A reader of one task selects the
//! frames of that task.

pub(crate) mod calls;
pub(crate) mod frame;
pub(crate) mod plain;
pub(crate) mod question;
mod requests;
pub(crate) mod setup;
pub(crate) mod snapshot;
pub(crate) mod tool;
pub(crate) mod update;

use loggia_core::{
    CallOutcome, Envelope, Event, Exchange, MessageId, PromptId, Question, Seq, SessionId,
    TaskArtifact, TaskId, TaskState, TaskView, Tasks, TurnId, Usage, slash,
};
use serde_json::Value;

use crate::context;
use crate::dialect::{Extension, View};
use crate::intent::HistoryLength;
use crate::protocol::Protocol;
use crate::refuse::Condition;
use crate::stream::Subscription;
use calls::Calls;
pub use frame::{End, Frame, FrameId};
pub use requests::Answered;
use requests::{Requests, is_by_client};
use setup::Pending;
pub(crate) use setup::{Notice, Setup};
use snapshot::TaskSnapshot;
use update::{FrameContext, Update};

/// How much of a task to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskDetail {
    pub history: HistoryLength,
    pub artifacts: bool,
}

impl Default for TaskDetail {
    fn default() -> Self {
        Self { history: HistoryLength::All, artifacts: true }
    }
}

/// The fold of one session for one view.
#[derive(Debug, Clone)]
pub struct Projector {
    view: View,
    session: SessionId,
    setup: Setup,
    tasks: Tasks,
    calls: Calls,
    requests: Requests,
    pending: Pending,
    /// The last part of the open turn's response; None before its first word.
    response: Option<ResponsePart>,
    /// The prompt of the open turn, and the cost of its last reply.
    prompt: Option<PromptId>,
    usage: Option<Usage>,
    last: FrameId,
    /// Large contents of tasks that are over are not kept.
    trims: bool,
}

/// A part of a turn's response. A part from another source begins a new paragraph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResponsePart {
    Reply(MessageId),
    Sources,
}

/// One event, already folded, and everything that its frames are made of.
pub(crate) struct FoldedEvent<'a> {
    pub envelope: &'a Envelope,
    pub protocol: &'static dyn Protocol,
    pub context: FrameContext<'a>,
    pub setup: &'a Setup,
    pub prompt: Option<&'a PromptId>,
    pub usage: Option<&'a Usage>,
    pub task: &'a TaskView,
    pub calls: &'a mut Calls,
    pub response: &'a mut Option<ResponsePart>,
    /// The task's turn is open.
    pub running: bool,
    /// Some turn is open, so that a new prompt has to wait.
    pub busy: bool,
    /// The task was over before this event.
    pub was_over: bool,
    /// The turn that this event belongs to, or ends.
    pub turn: Option<&'a TurnId>,
    /// An artifact with the id that this event publishes existed before.
    pub published_before: bool,
    /// The notices to send with this event.
    pub notices: Vec<Notice>,
    /// A turn starts, and settings changed since the last one.
    pub settings_changed: bool,
}

impl Projector {
    pub fn new(session: SessionId, view: View) -> Self {
        Self {
            view,
            session: context::shown_id(session),
            setup: Setup::default(),
            tasks: Tasks::default(),
            calls: Calls::read_by(view.guest),
            requests: Requests::default(),
            pending: Pending::default(),
            response: None,
            prompt: None,
            usage: None,
            last: FrameId::default(),
            trims: false,
        }
    }

    pub fn view(&self) -> View {
        self.view
    }

    /// The last event that was folded.
    pub fn head(&self) -> Seq {
        self.last.seq
    }

    /// The id of the last frame, or of the last event if that had none.
    pub fn last(&self) -> FrameId {
        self.last
    }

    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The same projector, which does not keep large contents of tasks that are over: for a fold that lives as long
    /// as its session. [`TaskView::trimmed`] tells which tasks are incomplete.
    #[must_use]
    pub fn trimming(mut self) -> Self {
        self.trims = true;
        self
    }

    /// Folds the next event and returns its frames.
    pub fn project(&mut self, envelope: &Envelope) -> Vec<Frame> {
        let Some((task, updates)) = self.step(envelope) else { return Vec::new() };
        let frames = self.tasks.get(&task).map(|view| {
            let at = envelope.at;
            updates.iter().map(|(id, update)| self.frame(*id, view, at, update)).collect()
        });
        self.trim(&task);
        frames.unwrap_or_default()
    }

    /// Folds the next event without making frames.
    pub fn fold(&mut self, envelope: &Envelope) {
        if let Some((task, _)) = self.step(envelope) {
            self.trim(&task);
        }
    }

    fn trim(&mut self, task: &TaskId) {
        if self.trims {
            self.tasks.trim(task);
        }
    }

    /// Folds the next event as far as a snapshot needs it. Such a fold must not make frames.
    pub fn fold_for_snapshot(&mut self, envelope: &Envelope) {
        self.last = FrameId { seq: envelope.seq, k: 0 };
        self.setup.apply(envelope);
        self.tasks.apply(envelope);
        self.calls.apply(envelope);
        self.calls.forget(envelope);
    }

    /// Folds the next event and returns its frames after `after`: those that a reader has not seen yet.
    pub fn resume(&mut self, envelope: &Envelope, after: FrameId) -> Vec<Frame> {
        if envelope.seq < after.seq {
            self.fold(envelope);
            return Vec::new();
        }
        let mut frames = self.project(envelope);
        frames.retain(|frame| frame.id > after);
        frames
    }

    /// The frame after which the stream of a prompt begins; the next frame of its task is the task itself. None for
    /// a prompt that is not among the latest.
    pub fn prompted_after(&self, prompt: &PromptId) -> Option<FrameId> {
        self.requests.prompted_after(prompt)
    }

    /// Where the stream of an answer continues, whatever has happened since. None for an answer that is not among
    /// the latest.
    pub fn answered(&self, to: &Question) -> Option<Answered> {
        self.requests.answered(to)
    }

    /// Where a subscription to a task begins. `seen` is the last frame that the reader has seen.
    pub fn subscription(
        &self,
        task: &TaskId,
        seen: Option<FrameId>,
    ) -> Result<Subscription, Condition> {
        let view = self.tasks.get(task).ok_or(Condition::TaskNotFound)?;
        // A position behind the end is not one of this session: no frame would ever come after it.
        if let Some(seen) = seen.filter(|seen| seen.seq <= self.head()) {
            return Ok(Subscription::After(seen));
        }
        let protocol = self.view.protocol();
        if protocol.subscribes_from_start() {
            return Ok(Subscription::After(FrameId::default()));
        }
        if let Some(before) = self.command_after(view) {
            return Ok(Subscription::After(before));
        }
        match view.state.is_over() && !protocol.follows_ended_tasks() {
            true => Err(Condition::NothingToFollow),
            false => Ok(Subscription::Now),
        }
    }

    /// The frame before the first one of a task that is a slash command. A client of `command/execute` learns the
    /// task's id when the command may have ended already, and still has to get its output as updates (S1 §3.3).
    fn command_after(&self, view: &TaskView) -> Option<FrameId> {
        let mut prompts = view.history.iter().filter_map(|said| match said {
            Exchange::Prompt { prompt, content, .. } => Some((prompt, content)),
            _ => None,
        });
        let (prompt, content) = prompts.next()?;
        let is_command = !matches!(slash::read_content(content), slash::PromptKind::Message);
        (is_command && prompts.next().is_none()).then(|| self.prompted_after(prompt)).flatten()
    }

    /// The first frames for a reader that follows the whole session from now on: the task that waits for an answer,
    /// and with the extension its open questions as updates.
    pub fn joining(&self) -> Vec<Frame> {
        let task = self.tasks.running().and_then(|task| self.tasks.get(task));
        let Some(view) = task.filter(|view| view.state == TaskState::InputRequired) else {
            return Vec::new();
        };
        let asked = match self.view.extension {
            Extension::On => tool::ask_again(&self.calls, self.last.seq),
            Extension::Off => Vec::new(),
        };
        let asked = asked.iter().map(|update| self.frame(self.last, view, view.updated, update));
        self.opening(&view.id).into_iter().chain(asked).collect()
    }

    /// The task as it is now: the answer to a poll.
    pub fn snapshot(&self, task: &TaskId, detail: TaskDetail) -> Option<Value> {
        let view = self.tasks.get(task)?;
        Some(self.view.protocol().task(self.task_snapshot(view, detail)))
    }

    /// The task as it is now, as the first frame of a stream that continues with the next event.
    pub fn opening(&self, task: &TaskId) -> Option<Frame> {
        let view = self.tasks.get(task)?;
        let (id, task, body) = (self.last, task.clone(), self.task_frame(view));
        Some(Frame { id, task, body, ends: End::of(view.state), is_in_snapshot: true, whole: true })
    }

    /// The same for a stream that continues whatever the task's state is: nothing in the frame says that it is the
    /// last one.
    pub fn beginning(&self, task: &TaskId) -> Option<Frame> {
        let frame = self.opening(task)?;
        let body = self.view.protocol().continued_task_frame(frame.body);
        Some(Frame { body, ends: None, ..frame })
    }

    fn task_frame(&self, view: &TaskView) -> Value {
        self.view.protocol().task_frame(self.task_snapshot(view, TaskDetail::default()))
    }

    fn task_snapshot<'a>(&'a self, view: &'a TaskView, detail: TaskDetail) -> TaskSnapshot<'a> {
        TaskSnapshot::new(&self.session, view, &self.calls, &self.setup, self.view, detail)
    }

    fn frame(
        &self,
        id: FrameId,
        view: &TaskView,
        at: loggia_core::Millis,
        update: &Update,
    ) -> Frame {
        let context =
            FrameContext { session: &self.session, task: &view.id, at, model: &self.setup.model };
        let protocol = self.view.protocol();
        let whole = matches!(update, Update::Task);
        Frame {
            id,
            task: view.id.clone(),
            body: match update {
                Update::Task => self.task_frame(view),
                Update::Status(status) => protocol.status_frame(&context, view, status),
                Update::Artifact(chunk) => protocol.artifact_frame(&context, view, chunk),
                Update::Ready { body, .. } => body.clone(),
            },
            // A task can be over with the event that begins it.
            ends: update.ends().or((whole && view.state.is_over()).then_some(End::Terminal)),
            is_in_snapshot: update.is_in_snapshot(),
            whole,
        }
    }

    /// Applies an event to the state, which nothing else changes. None if the event belongs to no task.
    fn step(&mut self, envelope: &Envelope) -> Option<(TaskId, Vec<(FrameId, Update)>)> {
        self.last = FrameId { seq: envelope.seq, k: 0 };
        let running_before = self.tasks.running().cloned();
        let busy = running_before.is_some();
        let published_before = self.has_published(envelope);
        let task = self.task_of(envelope).or(running_before);
        let before = task.as_ref().and_then(|task| self.tasks.get(task));
        let was_over = before.is_some_and(|view| view.state.is_over());
        self.setup.apply(envelope);
        self.tasks.apply(envelope);
        self.calls.apply(envelope);
        self.fold_turn(envelope);
        // A notice that answers a client is not shown to the client whose turn is open.
        let has_reader = task.is_some() && !is_by_client(&envelope.origin);
        let notices = self.pending.notices(envelope, has_reader);
        let settings_changed = self.pending.settings_changed(envelope, task.is_some());
        let task = task?;
        self.requests.apply(&task, envelope);
        let updates = self.tasks.get(&task).map(|view| {
            let protocol = self.view.protocol();
            let mut folded = FoldedEvent {
                envelope,
                protocol,
                context: FrameContext {
                    session: &self.session,
                    task: &view.id,
                    at: envelope.at,
                    model: &self.setup.model,
                },
                setup: &self.setup,
                prompt: self.prompt.as_ref(),
                usage: self.usage.as_ref(),
                task: view,
                calls: &mut self.calls,
                response: &mut self.response,
                running: self.tasks.running() == Some(&task),
                busy,
                was_over,
                turn: turn_of(&envelope.event),
                published_before,
                notices,
                settings_changed,
            };
            protocol.updates(&mut folded, self.view.extension)
        });
        self.calls.forget(envelope);
        if matches!(envelope.event, Event::TurnEnded { .. }) {
            self.response = None;
            self.usage = None;
        }
        Some((task.clone(), self.number(&task, envelope.seq, updates?)))
    }

    /// Gives updates their ids, and remembers the last one.
    fn number(&mut self, task: &TaskId, seq: Seq, updates: Vec<Update>) -> Vec<(FrameId, Update)> {
        let ids = (0..).map(|k| FrameId { seq, k });
        let numbered: Vec<(FrameId, Update)> = ids.zip(updates).collect();
        for (id, update) in &numbered {
            self.last = *id;
            if update.ends() == Some(End::InputRequired) {
                self.requests.ended_at(task, *id);
            }
        }
        numbered
    }

    fn fold_turn(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::TurnStarted { prompt, .. } => self.prompt = Some(prompt.clone()),
            Event::UsageReported { usage, .. } => self.usage = Some(*usage),
            _ => {}
        }
    }

    /// The task that an event names. Every other event belongs to the open turn.
    fn task_of(&self, envelope: &Envelope) -> Option<TaskId> {
        match &envelope.event {
            Event::TaskOpened { task, .. }
            | Event::TaskClosed { task }
            | Event::PromptScreened { task, .. }
            | Event::PromptAccepted { task, .. }
            | Event::TurnStarted { task, .. } => Some(task.clone()),
            Event::PromptWithdrawn { prompt } => self.tasks.waiting(prompt).cloned(),
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionNamed { .. }
            | Event::SessionClosed { .. }
            | Event::TurnEnded { .. }
            | Event::TextAppended { .. }
            | Event::ThoughtAppended { .. }
            | Event::PlanUpdated { .. }
            | Event::SourcesCited { .. }
            | Event::UsageReported { .. }
            | Event::CallProposed { .. }
            | Event::ApprovalAsked { .. }
            | Event::ApprovalAnswered { .. }
            | Event::CallStarted { .. }
            | Event::CallOutput { .. }
            | Event::CallEnded { .. }
            | Event::ArtifactPublished { .. }
            | Event::ContextCompacted { .. }
            | Event::NoticeRaised { .. }
            | Event::PromptExpanded { .. }
            | Event::ModelRecord { .. }
            | Event::ReplyDiscarded { .. }
            | Event::Unknown => None,
        }
    }

    fn has_published(&self, envelope: &Envelope) -> bool {
        let published = if let Event::ArtifactPublished { artifact, .. } = &envelope.event {
            Some(artifact)
        } else if let Event::CallEnded { outcome: CallOutcome::Succeeded { output }, .. } =
            &envelope.event
        {
            output.artifact.as_ref()
        } else {
            None
        };
        let view = self.tasks.running().and_then(|task| self.tasks.get(task));
        match (published, view) {
            (Some(artifact), Some(view)) => view.artifacts.iter().any(
                |known| matches!(known, TaskArtifact::Published { id, .. } if *id == artifact.id),
            ),
            (None, _) | (_, None) => false,
        }
    }
}

/// The turn of an event, if its frames need it.
fn turn_of(event: &Event) -> Option<&TurnId> {
    if let Event::TextAppended { turn, .. }
    | Event::ReplyDiscarded { turn, .. }
    | Event::SourcesCited { turn, .. }
    | Event::TurnEnded { turn, .. } = event
    {
        Some(turn)
    } else {
        None
    }
}
