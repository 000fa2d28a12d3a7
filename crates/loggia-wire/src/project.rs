//! The log as a reader of one view sees it: one fold of the whole session, frames out.
//!
//! Deterministic: the same log gives the same frames under the same ids, so one projector serves
//! all readers of a view, and a reader that comes back with the id of its last frame goes on after
//! it without a gap. A reader of one task picks the frames of that task.

pub(crate) mod calls;
mod plain;
pub(crate) mod question;
pub(crate) mod snapshot;
mod tool;
pub(crate) mod update;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use loggia_core::{
    ApprovalId, CallId, CallOutcome, Envelope, Event, Exchange, Level, MessageId, Origin, PromptId,
    Question, Seq, SessionId, Settings, Surface, TaskArtifact, TaskId, TaskState, TaskView, Tasks,
    TurnId, Usage, slash,
};
use serde_json::Value;

use crate::context;
use crate::dialect::{A2aVersion, Dialect, Extension, View};
use crate::intent::HistoryLength;
use crate::refuse::Condition;
use crate::stream::Subscription;
use crate::{a2a1, a2a03, coder, legacy, proto03, reply, sdlc};
use calls::Calls;
use update::{Place, Update};

/// The place of a frame: the event it comes from, and which of that event's frames it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FrameId {
    pub seq: Seq,
    pub k: u32,
}

impl fmt::Display for FrameId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.seq, self.k)
    }
}

impl FromStr for FrameId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (seq, k) = text.trim().split_once('.').ok_or(())?;
        Ok(Self { seq: Seq(seq.parse().map_err(|_| ())?), k: k.parse().map_err(|_| ())? })
    }
}

/// One piece of a dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub id: FrameId,
    pub task: TaskId,
    /// The `result` of a JSON-RPC response, the `data` of an HTTP+JSON stream.
    pub body: Value,
    pub ends: Option<End>,
    /// Contained in every later snapshot of the task.
    pub stays: bool,
    /// The whole task, not an update of it.
    pub whole: bool,
}

/// Where the stream of an answer goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Where the stream before it ended.
    pub after: FrameId,
    /// The answer itself.
    pub seq: Seq,
}

/// A task that waits for an answer.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// Where the stream of its latest request ended.
    since: FrameId,
    /// There was an answer, whose stream has not ended.
    answered: bool,
}

/// Why a request's stream may end here. In 0.3 either is `final: true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The task waits for an answer. A stream that merely watches goes on.
    InputRequired,
    /// The task is over.
    Terminal,
}

impl End {
    fn of(state: TaskState) -> Option<End> {
        match state {
            TaskState::Submitted | TaskState::Working => None,
            TaskState::InputRequired => Some(End::InputRequired),
            TaskState::Completed
            | TaskState::Failed
            | TaskState::Canceled
            | TaskState::Rejected => Some(End::Terminal),
        }
    }
}

/// How many requests of a kind a projector remembers.
const REMEMBERED: usize = 256;
/// How many notices wait for the next turn.
const MOST_UNSAID: usize = 8;

/// How much of a task to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    pub history: HistoryLength,
    pub artifacts: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self { history: HistoryLength::All, artifacts: true }
    }
}

/// The fold of one session for one view.
#[derive(Debug, Clone)]
pub struct Projector {
    view: View,
    session: SessionId,
    model: String,
    tasks: Tasks,
    calls: Calls,
    /// Where the response of the open turn stands; None until its first word.
    spoken: Option<Spoken>,
    /// How the session is set up, as far as frames tell.
    setup: Setup,
    /// The prompt of the open turn, and what its last reply cost.
    prompt: Option<PromptId>,
    usage: Option<Usage>,
    waiting: HashMap<TaskId, Waiting>,
    /// What was noted while no turn was open: it is said where the next one starts, so that whoever
    /// asked for that one hears it. The latest, at most [`MOST_UNSAID`].
    unsaid: VecDeque<Notice>,
    /// Settings changed while no turn was open: said where the next one starts.
    reconfigured: bool,
    /// The latest prompts and answers, and which frame their streams begin after.
    prompts: VecDeque<(PromptId, FrameId)>,
    answers: VecDeque<(ApprovalId, CallId, Answered)>,
    last: FrameId,
    /// Large contents of tasks that are over are not kept.
    trims: bool,
}

/// Where a session works, and under which settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Setup {
    pub workspace: String,
    pub settings: Option<Settings>,
    /// The session is that of a client with a name, which may be on another machine.
    pub remote: bool,
}

impl Setup {
    /// A directory as texts name it: to clients from elsewhere without the server's own path.
    pub fn directory<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(&self.workspace).filter(|_| self.remote) {
            Some("") => "the workspace",
            Some(below) => below.strip_prefix('/').unwrap_or(path),
            None => path,
        }
    }
}

/// A notice, and which event it was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notice {
    pub seq: Seq,
    pub level: Level,
    pub text: String,
}

impl Notice {
    /// The name of the message that says it.
    pub fn id(&self) -> String {
        format!("notice-{}", self.seq)
    }
}

/// The last thing that went into a turn's response. What comes from somewhere else begins a
/// paragraph of its own.
#[derive(Debug, Clone, PartialEq)]
enum Spoken {
    Reply(MessageId),
    Sources,
}

/// One event and all that its frames are made of, the event already folded in.
pub(crate) struct Step<'a> {
    pub envelope: &'a Envelope,
    dialect: Dialect,
    pub place: Place<'a>,
    pub setup: &'a Setup,
    pub prompt: Option<&'a PromptId>,
    pub usage: Option<&'a Usage>,
    pub task: &'a TaskView,
    pub calls: &'a mut Calls,
    spoken: &'a mut Option<Spoken>,
    /// The task's turn is open.
    pub running: bool,
    /// Some turn is open: what comes now waits.
    pub busy: bool,
    /// The task was over before this event.
    pub was_over: bool,
    /// The turn that this event belongs to, or ends.
    pub turn: Option<&'a TurnId>,
    /// An artifact of the name that this event publishes was there before.
    pub published_before: bool,
    /// What is to be noted with this event: itself, or what came when nobody could hear it.
    pub notices: Vec<Notice>,
    /// Settings changed since the last turn.
    pub reconfigured: bool,
}

impl Projector {
    pub fn new(session: SessionId, view: View) -> Self {
        Self {
            view,
            session: context::shown_id(session),
            model: String::new(),
            tasks: Tasks::default(),
            calls: Calls::default(),
            spoken: None,
            setup: Setup::default(),
            prompt: None,
            usage: None,
            waiting: HashMap::new(),
            unsaid: VecDeque::new(),
            reconfigured: false,
            prompts: VecDeque::new(),
            answers: VecDeque::new(),
            last: FrameId::default(),
            trims: false,
        }
    }

    pub fn view(&self) -> View {
        self.view
    }

    /// The last event folded in.
    pub fn head(&self) -> Seq {
        self.last.seq
    }

    /// The place of the last frame, or of the last event where that gave none.
    pub fn last(&self) -> FrameId {
        self.last
    }

    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Folds the next event and gives its frames.
    pub fn project(&mut self, envelope: &Envelope) -> Vec<Frame> {
        let Some((task, updates)) = self.step(envelope) else { return Vec::new() };
        let frames = updates.iter().map(|(id, update)| Frame {
            id: *id,
            task: task.clone(),
            body: self.render(&task, envelope, update),
            ends: update.ends().or_else(|| self.ends_at_once(&task, update)),
            stays: update.stays(),
            whole: matches!(update, Update::Task),
        });
        let frames = frames.collect();
        self.trim(&task);
        frames
    }

    /// Folds the next event silently.
    pub fn fold(&mut self, envelope: &Envelope) {
        // What it would have said is of no interest; what it changed is.
        if let Some((task, _)) = self.step(envelope) {
            self.trim(&task);
        }
    }

    /// The same projector, which keeps no large contents of tasks that are over: for a fold that lives as long as its
    /// session does. [`TaskView::trimmed`] says of which tasks something is missing.
    #[must_use]
    pub fn trimming(mut self) -> Self {
        self.trims = true;
        self
    }

    fn trim(&mut self, task: &TaskId) {
        if self.trims {
            self.tasks.trim(task);
        }
    }

    /// Folds the next event as far as a task as it is now needs it. Frames are not to be made of a
    /// fold that left something out.
    pub fn learn(&mut self, envelope: &Envelope) {
        self.last = FrameId { seq: envelope.seq, k: 0 };
        self.fold_session(envelope);
        self.tasks.apply(envelope);
        self.calls.apply(envelope);
        self.calls.forget(envelope);
    }

    /// Folds the next event and gives those of its frames that come after `after`: what a reader
    /// that has seen everything up to there is still to see.
    pub fn resume(&mut self, envelope: &Envelope, after: FrameId) -> Vec<Frame> {
        if envelope.seq < after.seq {
            self.fold(envelope);
            return Vec::new();
        }
        let mut frames = self.project(envelope);
        frames.retain(|frame| frame.id > after);
        frames
    }

    /// The frame that the stream of a prompt begins after; the next one of its task is the task
    /// itself. None for a prompt that is not among the latest.
    pub fn prompted_after(&self, prompt: &PromptId) -> Option<FrameId> {
        self.prompts.iter().rev().find(|(id, _)| id == prompt).map(|(_, after)| *after)
    }

    /// Where the stream of an answer goes on, whatever has happened since. None for an answer that is not among
    /// the latest.
    pub fn answered(&self, to: &Question) -> Option<Answered> {
        let named = |(approval, call, _): &&(ApprovalId, CallId, Answered)| to.is(call, approval);
        self.answers.iter().rev().find(named).map(|(_, _, answered)| *answered)
    }

    /// Where a subscription to a task begins. `seen` is the last frame that the reader has seen.
    pub fn subscription(
        &self,
        task: &TaskId,
        seen: Option<FrameId>,
    ) -> Result<Subscription, Condition> {
        let view = self.tasks.get(task).ok_or(Condition::TaskNotFound)?;
        // A place behind the end is none of this session: nothing would ever come after it.
        if let Some(seen) = seen.filter(|seen| seen.seq <= self.head()) {
            return Ok(Subscription::After(seen));
        }
        // Events without a task in front of them are read from the first one on.
        if self.view == View::SDLC {
            return Ok(Subscription::After(FrameId::default()));
        }
        if let Some(before) = self.command_after(view) {
            return Ok(Subscription::After(before));
        }
        match view.state.is_over() && self.view.dialect.version() == A2aVersion::V1 {
            true => Err(Condition::NothingToFollow),
            false => Ok(Subscription::Now),
        }
    }

    /// The frame before the first one of a task that is a slash command. A client of `command/execute` learns the
    /// task's id when the command may have ended already, and is still to get its output as updates (S1 §3.3).
    fn command_after(&self, view: &TaskView) -> Option<FrameId> {
        let mut prompts = view.history.iter().filter_map(|said| match said {
            Exchange::Prompt { prompt, content, .. } => Some((prompt, content)),
            _ => None,
        });
        let (prompt, content) = prompts.next()?;
        let is_command = !matches!(slash::read_content(content), slash::PromptKind::Message);
        (is_command && prompts.next().is_none()).then(|| self.prompted_after(prompt)).flatten()
    }

    /// What a reader that follows the whole session from now on has to know: the task that waits for an answer, with
    /// its open questions as updates.
    pub fn joining(&self) -> Vec<Frame> {
        let task = self.tasks.running().and_then(|task| self.tasks.get(task));
        let Some(view) = task.filter(|view| view.state == TaskState::InputRequired) else {
            return Vec::new();
        };
        let (id, at) = (self.last, view.updated);
        let place = Place { session: &self.session, task: &view.id, at, model: &self.model };
        let asked = match (self.view.dialect, self.view.extension) {
            (Dialect::A2a03 | Dialect::Proto03 | Dialect::A2a1, Extension::On) => {
                tool::ask_again(&self.calls, id.seq)
            }
            // The task says it all.
            _ => Vec::new(),
        };
        let asked = asked.iter().map(|update| Frame {
            id,
            task: view.id.clone(),
            body: self.written(&place, update),
            ends: update.ends(),
            stays: update.stays(),
            whole: false,
        });
        self.opening(&view.id).into_iter().chain(asked).collect()
    }

    /// The task as it is now: what a poll gets.
    pub fn snapshot(&self, task: &TaskId, shown: Shown) -> Option<Value> {
        let shape = self.shape(self.tasks.get(task)?, shown);
        Some(match self.view.dialect {
            Dialect::A2a03 => a2a03::project::task(&shape),
            Dialect::Proto03 => proto03::project::task(&shape),
            Dialect::A2a1 => a2a1::project::task(&shape),
            Dialect::Legacy => legacy::project::task(&shape),
            Dialect::Sdlc => sdlc::project::snapshot(&shape, &self.model, &self.setup),
            Dialect::Coder => coder::project::task(&shape, &self.calls),
        })
    }

    /// The task as it is now, as the result of a send and written down: the same as
    /// [`reply::sent`] of a snapshot, without a value in between where clients are many.
    pub fn sent(&self, task: &TaskId, shown: Shown) -> Option<String> {
        match self.view.dialect {
            Dialect::A2a1 => {
                Some(a2a1::project::sent_task(&self.shape(self.tasks.get(task)?, shown)))
            }
            Dialect::A2a03
            | Dialect::Proto03
            | Dialect::Legacy
            | Dialect::Sdlc
            | Dialect::Coder => {
                Some(reply::sent(self.view.dialect, self.snapshot(task, shown)?).to_string())
            }
        }
    }

    /// The task as it is now, as the first frame of a stream that goes on with what comes next.
    pub fn opening(&self, task: &TaskId) -> Option<Frame> {
        let view = self.tasks.get(task)?;
        let body = self.opened(view);
        let (id, task, ends) = (self.last, task.clone(), End::of(view.state));
        Some(Frame { id, task, body, ends, stays: true, whole: true })
    }

    /// The same where more follows in any case: nothing in it says that it is the last one.
    pub fn beginning(&self, task: &TaskId) -> Option<Frame> {
        let frame = self.opening(task)?;
        let body = match self.view.dialect {
            Dialect::Legacy => legacy::project::begun(frame.body),
            _ => frame.body,
        };
        Some(Frame { body, ends: None, ..frame })
    }

    fn opened(&self, view: &TaskView) -> Value {
        let shape = self.shape(view, Shown::default());
        match self.view.dialect {
            Dialect::A2a03 => a2a03::project::task(&shape),
            Dialect::Proto03 => proto03::project::streamed_task(&shape),
            Dialect::A2a1 => a2a1::project::streamed_task(&shape),
            Dialect::Legacy => legacy::project::streamed_task(&shape),
            Dialect::Sdlc => sdlc::project::snapshot(&shape, &self.model, &self.setup),
            Dialect::Coder => coder::project::task(&shape, &self.calls),
        }
    }

    /// A task that is over in the moment it begins.
    fn ends_at_once(&self, task: &TaskId, update: &Update) -> Option<End> {
        let over = self.tasks.get(task).is_some_and(|view| view.state.is_over());
        (over && matches!(update, Update::Task)).then_some(End::Terminal)
    }

    fn shape<'a>(&'a self, view: &'a TaskView, shown: Shown) -> snapshot::Shape<'a> {
        let open = snapshot::Open { calls: &self.calls, setup: &self.setup, model: &self.model };
        snapshot::shape(&self.session, view, open, self.view, shown)
    }

    fn render(&self, task: &TaskId, envelope: &Envelope, update: &Update) -> Value {
        let place = Place { session: &self.session, task, at: envelope.at, model: &self.model };
        self.written(&place, update)
    }

    fn written(&self, place: &Place<'_>, update: &Update) -> Value {
        let view = self.tasks.get(place.task);
        match (update, self.view.dialect) {
            (Update::Task, _) => view.map_or(Value::Null, |view| self.opened(view)),
            (Update::Status(status), Dialect::Legacy) => {
                view.map_or(Value::Null, |view| legacy::project::status(place, view, status))
            }
            (Update::Piece(piece), Dialect::Legacy) => {
                view.map_or(Value::Null, |view| legacy::project::piece(view, piece))
            }
            (Update::Written { body, .. }, _) => body.clone(),
            (Update::Status(status), Dialect::A2a1) => a2a1::project::status(place, status),
            (Update::Status(status), Dialect::Proto03) => proto03::project::status(place, status),
            (Update::Piece(piece), Dialect::Proto03) => proto03::project::piece(place, piece),
            (Update::Piece(piece), Dialect::A2a1) => a2a1::project::piece(place, piece),
            (Update::Status(status), Dialect::A2a03 | Dialect::Sdlc | Dialect::Coder) => {
                a2a03::project::status(place, status)
            }
            (Update::Piece(piece), Dialect::A2a03 | Dialect::Sdlc | Dialect::Coder) => {
                a2a03::project::piece(place, piece)
            }
        }
    }

    /// The one place where state moves. None where the event is about no task.
    fn step(&mut self, envelope: &Envelope) -> Option<(TaskId, Vec<(FrameId, Update)>)> {
        self.last = FrameId { seq: envelope.seq, k: 0 };
        let before = self.tasks.running().cloned();
        let busy = before.is_some();
        let published_before = self.has_published(envelope);
        let task = self.task_of(envelope).or(before);
        let was_over = task
            .as_ref()
            .and_then(|task| self.tasks.get(task))
            .is_some_and(|view| view.state.is_over());
        self.fold_session(envelope);
        self.tasks.apply(envelope);
        self.calls.apply(envelope);
        // What is told to a client is not for the one whose turn it is.
        let heard = task.is_some() && !is_by_client(&envelope.origin);
        let notices = self.notices(envelope, heard);
        let reconfigured = match &envelope.event {
            Event::TurnStarted { .. } => std::mem::take(&mut self.reconfigured),
            Event::SettingsChanged { .. } => {
                self.reconfigured |= task.is_none();
                false
            }
            _ => false,
        };
        let task = task?;
        self.note_request(&task, envelope);
        let updates = self.tasks.get(&task).map(|view| {
            let mut step = Step {
                envelope,
                dialect: self.view.dialect,
                place: Place {
                    session: &self.session,
                    task: &view.id,
                    at: envelope.at,
                    model: &self.model,
                },
                setup: &self.setup,
                prompt: self.prompt.as_ref(),
                usage: self.usage.as_ref(),
                task: view,
                calls: &mut self.calls,
                spoken: &mut self.spoken,
                running: self.tasks.running() == Some(&task),
                busy,
                was_over,
                turn: turn_of(&envelope.event),
                published_before,
                notices,
                reconfigured,
            };
            match (self.view.dialect, self.view.extension) {
                (Dialect::Sdlc, _) => sdlc::project::updates(&mut step),
                (Dialect::Coder, _) => coder::project::updates(&mut step),
                (Dialect::Legacy, _) => plain::updates(&mut step),
                (Dialect::A2a03 | Dialect::Proto03 | Dialect::A2a1, Extension::On) => {
                    tool::updates(&mut step)
                }
                (Dialect::A2a03 | Dialect::Proto03 | Dialect::A2a1, Extension::Off) => {
                    plain::updates(&mut step)
                }
            }
        });
        self.calls.forget(envelope);
        if matches!(envelope.event, Event::TurnEnded { .. }) {
            self.spoken = None;
            self.usage = None;
        }
        Some((task.clone(), self.number(&task, envelope.seq, updates?)))
    }

    /// What is noted with this event, or kept until somebody can hear it.
    fn notices(&mut self, envelope: &Envelope, heard: bool) -> Vec<Notice> {
        match &envelope.event {
            Event::NoticeRaised { level, text } => {
                let notice = Notice { seq: envelope.seq, level: *level, text: text.clone() };
                if heard {
                    return vec![notice];
                }
                self.unsaid.push_back(notice);
                if self.unsaid.len() > MOST_UNSAID {
                    self.unsaid.pop_front();
                }
                Vec::new()
            }
            Event::TurnStarted { .. } => self.unsaid.drain(..).collect(),
            _ => Vec::new(),
        }
    }

    /// Gives updates their places, and remembers the last of them.
    fn number(&mut self, task: &TaskId, seq: Seq, updates: Vec<Update>) -> Vec<(FrameId, Update)> {
        let ids = (0..).map(|k| FrameId { seq, k });
        let numbered: Vec<(FrameId, Update)> = ids.zip(updates).collect();
        for (id, update) in &numbered {
            self.last = *id;
            if update.ends() == Some(End::InputRequired) {
                // Streams ended with the first one.
                let before = self.waiting.get(task).filter(|waiting| !waiting.answered);
                let since = before.map_or(*id, |waiting| waiting.since);
                self.waiting.insert(task.clone(), Waiting { since, answered: false });
            }
        }
        numbered
    }

    /// Remembers where the stream of a request that this event records begins.
    fn note_request(&mut self, task: &TaskId, envelope: &Envelope) {
        let before = FrameId { seq: Seq(envelope.seq.0.saturating_sub(1)), k: u32::MAX };
        if let Event::PromptAccepted { prompt, .. } = &envelope.event {
            remember(&mut self.prompts, (prompt.clone(), before));
        }
        if let Event::ApprovalAnswered { approval, call, .. } = &envelope.event {
            let waiting = self.waiting.get_mut(task);
            let after = waiting.map_or(before, |waiting| {
                waiting.answered |= is_by_client(&envelope.origin);
                waiting.since
            });
            let answered = Answered { after, seq: envelope.seq };
            remember(&mut self.answers, (approval.clone(), call.clone(), answered));
        }
        if matches!(envelope.event, Event::TurnEnded { .. }) {
            self.waiting.remove(task);
        }
    }

    fn fold_session(&mut self, envelope: &Envelope) {
        if let Event::SessionOpened { settings, .. } | Event::SettingsChanged { settings } =
            &envelope.event
        {
            self.model.clone_from(&settings.model.0);
            // Told in this dialect alone.
            if self.view.dialect == Dialect::Sdlc {
                self.setup.settings = Some(settings.clone());
            }
        }
        match &envelope.event {
            Event::SessionOpened { workspace, .. } => {
                self.setup.remote = envelope.origin.name().is_some();
                self.setup.workspace = workspace.path().to_owned();
            }
            Event::TurnStarted { prompt, .. } => self.prompt = Some(prompt.clone()),
            Event::UsageReported { usage, .. } => self.usage = Some(*usage),
            _ => {}
        }
    }

    /// The task an event names by itself; every other event belongs to the open turn.
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

fn remember<T>(kept: &mut VecDeque<T>, item: T) {
    kept.push_back(item);
    if kept.len() > REMEMBERED {
        kept.pop_front();
    }
}

/// Whether it is by a client which may read what comes of it as a stream. The answer of a terminal or of the time-out
/// ends nobody's wait for the next one.
fn is_by_client(origin: &Origin) -> bool {
    match origin.surface {
        Surface::A2a | Surface::Sdlc | Surface::Legacy => true,
        Surface::Cli
        | Surface::Tui
        | Surface::Acp
        | Surface::Web
        | Surface::Agent
        | Surface::Policy
        | Surface::System => false,
    }
}

/// The turn of the events for which frames need to know it.
fn turn_of(event: &Event) -> Option<&TurnId> {
    if let Event::TextAppended { turn, .. }
    | Event::SourcesCited { turn, .. }
    | Event::TurnEnded { turn, .. } = event
    {
        Some(turn)
    } else {
        None
    }
}
