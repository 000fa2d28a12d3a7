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
    ApprovalId, CallId, CallOutcome, Envelope, Event, Level, MessageId, Origin, PromptId, Question,
    Seq, SessionId, Settings, Surface, TaskArtifact, TaskId, TaskState, TaskView, Tasks, TurnId,
    Usage,
};
use serde_json::Value;

use crate::context;
use crate::dialect::{Dialect, Extension, View};
use crate::intent::HistoryLength;
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
    /// It stays in the task: whoever has the task of later has it.
    pub stays: bool,
}

/// Where the stream of an answer goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Where the stream before it ended.
    pub after: FrameId,
    /// Where the task asked last before it: maybe more than once since then.
    pub asked: FrameId,
    /// The answer itself.
    pub seq: Seq,
}

/// A task that waits for an answer.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// Where the stream of its latest request ended.
    since: FrameId,
    /// The last question.
    asked: FrameId,
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
    /// The turn that this event belongs to, or ends.
    pub turn: Option<&'a TurnId>,
    /// An artifact of the name that this event publishes was there before.
    pub published_before: bool,
    /// What is to be noted with this event: itself, or what came when nobody could hear it.
    pub notices: Vec<Notice>,
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
        Some(Frame { id, task, body, ends, stays: true })
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
        snapshot::shape(&self.session, view, &self.calls, self.view, &self.model, shown)
    }

    fn render(&self, task: &TaskId, envelope: &Envelope, update: &Update) -> Value {
        let place = Place { session: &self.session, task, at: envelope.at, model: &self.model };
        let view = self.tasks.get(task);
        match (update, self.view.dialect) {
            (Update::Task, _) => view.map_or(Value::Null, |view| self.opened(view)),
            (Update::Status(status), Dialect::Legacy) => {
                view.map_or(Value::Null, |view| legacy::project::status(&place, view, status))
            }
            (Update::Piece(piece), Dialect::Legacy) => {
                view.map_or(Value::Null, |view| legacy::project::piece(view, piece))
            }
            (Update::Written { body, .. }, _) => body.clone(),
            (Update::Status(status), Dialect::A2a1) => a2a1::project::status(&place, status),
            (Update::Status(status), Dialect::Proto03) => proto03::project::status(&place, status),
            (Update::Piece(piece), Dialect::Proto03) => proto03::project::piece(&place, piece),
            (Update::Piece(piece), Dialect::A2a1) => a2a1::project::piece(&place, piece),
            (Update::Status(status), Dialect::A2a03 | Dialect::Sdlc | Dialect::Coder) => {
                a2a03::project::status(&place, status)
            }
            (Update::Piece(piece), Dialect::A2a03 | Dialect::Sdlc | Dialect::Coder) => {
                a2a03::project::piece(&place, piece)
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
        self.fold_session(envelope);
        self.tasks.apply(envelope);
        self.calls.apply(envelope);
        // What is told to a client is not for the one whose turn it is.
        let heard = task.is_some() && !opens_a_stream(&envelope.origin);
        let notices = self.notices(envelope, heard);
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
                turn: turn_of(&envelope.event),
                published_before,
                notices,
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
                let before = self.waiting.get(task).filter(|waiting| !waiting.answered);
                // The first one: streams have ended by then.
                let since = before.map_or(*id, |waiting| waiting.since);
                let waiting = Waiting { since, asked: *id, answered: false };
                self.waiting.insert(task.clone(), waiting);
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
            let (after, asked) = waiting.map_or((before, before), |waiting| {
                waiting.answered |= opens_a_stream(&envelope.origin);
                (waiting.since, waiting.asked)
            });
            let answered = Answered { after, asked, seq: envelope.seq };
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
fn opens_a_stream(origin: &Origin) -> bool {
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
