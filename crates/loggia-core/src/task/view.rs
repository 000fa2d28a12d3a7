//! Tasks as clients poll them: state, what was said, what came out. A fold of the whole log.
//!
//! Says the same about a task's state as [`Session::task_state`](crate::Session::task_state), and
//! knows besides what a decision does not need: the words and the results. Holds facts only; how a
//! question is worded or a result is shown belongs to whoever shows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::approval::{AnswerMessage, ChoiceId, Edit};
use crate::call::{Artifact, CallOutcome, Details, Output};
use crate::content::{Content, Part};
use crate::event::weight::of_parts;
use crate::event::{Envelope, Event, Screening, Source, TurnOutcome};
use crate::id::{ApprovalId, CallId, MessageId, Millis, PromptId, Seq, TaskId, TurnId};
use crate::origin::Origin;
use crate::task::TaskState;

/// Contents beyond this are not kept for long.
const LARGE: usize = 64 * 1024;

/// Every task of one session, in the order they began.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tasks {
    views: BTreeMap<TaskId, TaskView>,
    order: Vec<TaskId>,
    /// Prompts that wait for their turn.
    queued: BTreeMap<PromptId, TaskId>,
    turn: Option<Running>,
}

#[derive(Debug, Clone, PartialEq)]
struct Running {
    turn: TurnId,
    task: TaskId,
    /// Calls that have not ended.
    calls: Vec<RunningCall>,
}

#[derive(Debug, Clone, PartialEq)]
struct RunningCall {
    id: CallId,
    /// What a question about this call is about.
    subject: String,
    asked: Option<ApprovalId>,
    /// It was started, or somebody was asked about it.
    admitted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    pub id: TaskId,
    pub state: TaskState,
    /// It was there before its first message.
    pub opened: bool,
    pub created: Millis,
    /// When its status last changed: its state, its prompts, or the questions it waits with. What
    /// streams by changes none of them, so that an index of tasks is not written for every word.
    pub updated: Millis,
    /// What was said, in order.
    pub history: Vec<Exchange>,
    pub artifacts: Vec<TaskArtifact>,
    /// Why the last turn failed, or why there was none.
    pub failure: Option<String>,
    /// The event that said so.
    pub failed_at: Seq,
    /// What policy did not allow, in order.
    pub refused: Vec<RefusedCall>,
    /// Large contents of prompts were left out ([`Tasks::trim`]): the whole task is in the log.
    pub trimmed: bool,
    /// Prompts of this task that wait or run.
    waiting: usize,
    last: Option<TaskState>,
    /// A turn of it has started, and prompts of it have waited or run ever since.
    at_work: bool,
}

/// A call that was refused without anybody being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCall {
    pub subject: String,
    pub reason: String,
}

/// One thing said, by either side.
#[derive(Debug, Clone, PartialEq)]
pub enum Exchange {
    Prompt {
        prompt: PromptId,
        content: Arc<Content>,
        origin: Origin,
        at: Millis,
    },
    Reply {
        turn: TurnId,
        message: MessageId,
        text: String,
        at: Millis,
    },
    Sources {
        turn: TurnId,
        sources: Vec<Source>,
        at: Millis,
    },
    Question {
        approval: ApprovalId,
        call: CallId,
        subject: String,
        at: Millis,
    },
    Answer {
        approval: ApprovalId,
        choice: ChoiceId,
        text: Option<String>,
        message: Option<AnswerMessage>,
        by: Origin,
        at: Millis,
    },
}

/// One thing that came out.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskArtifact {
    /// The agent's words of one turn; they stand in the history.
    Response { turn: TurnId, complete: bool },
    /// Published by the agent under a name.
    Published { id: String, name: String, parts: Vec<Part>, complete: bool },
    /// A file that a call changed.
    Change { call: CallId, path: String, unified: String },
}

impl Tasks {
    pub fn get(&self, task: &TaskId) -> Option<&TaskView> {
        self.views.get(task)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &TaskView> {
        self.order.iter().filter_map(|task| self.views.get(task))
    }

    /// The task of a prompt that waits for its turn.
    pub fn waiting(&self, prompt: &PromptId) -> Option<&TaskId> {
        self.queued.get(prompt)
    }

    /// The task whose turn is open.
    pub fn running(&self) -> Option<&TaskId> {
        self.turn.as_ref().map(|running| &running.task)
    }

    pub fn apply(&mut self, envelope: &Envelope) {
        let at = envelope.at;
        match &envelope.event {
            Event::TaskOpened { task, .. } => {
                self.view(task, at).opened = true;
            }
            Event::TaskClosed { task } => self.settle(task, TaskState::Canceled, None, at),
            Event::PromptAccepted { prompt, task, content, .. } => {
                self.queued.insert(prompt.clone(), task.clone());
                let said = Exchange::Prompt {
                    prompt: prompt.clone(),
                    content: content.clone(),
                    origin: envelope.origin.clone(),
                    at,
                };
                self.accept(task, said, at);
            }
            Event::PromptWithdrawn { prompt } => {
                if let Some(task) = self.queued.remove(prompt) {
                    self.settle(&task, TaskState::Canceled, None, at);
                }
            }
            Event::PromptScreened { prompt, task, content, screening } => {
                let (prompt, content, origin) =
                    (prompt.clone(), content.clone(), envelope.origin.clone());
                // There was no turn; the answer goes by the name of what it answers.
                let turn = TurnId::from(prompt.as_str());
                self.accept(task, Exchange::Prompt { prompt, content, origin, at }, at);
                let (state, mut failure) = (TaskState::of_screening(screening), None);
                match screening {
                    Screening::Rejected { reason } => failure = Some(reason.clone()),
                    Screening::Answered { text } => {
                        let message = MessageId::from(format!("{turn}-answer").as_str());
                        let view = self.view(task, at);
                        view.reply(&turn, &message, text, at);
                        view.complete_response(&turn);
                    }
                }
                self.settle(task, state, failure, at);
            }
            Event::TurnStarted { turn, prompt, task } => {
                self.queued.remove(prompt);
                let running = Running { turn: turn.clone(), task: task.clone(), calls: Vec::new() };
                let before = self.turn.replace(running);
                if let Some(before) = before {
                    self.restate(&before.task, at);
                }
                self.touch(at, |view| view.at_work = true);
            }
            Event::TurnEnded { outcome, .. } => self.end_turn(outcome, envelope.seq, at),
            Event::TextAppended { turn, message, text } => {
                self.touch(at, |view| view.reply(turn, message, text, at));
            }
            Event::SourcesCited { turn, sources } => self.touch(at, |view| {
                let (turn, sources) = (turn.clone(), sources.clone());
                view.respond(&turn);
                view.history.push(Exchange::Sources { turn, sources, at });
            }),
            Event::CallProposed { call, title, details, .. } => {
                if let Some(running) = &mut self.turn {
                    let subject = subject_of(title, details);
                    let id = call.clone();
                    running.calls.push(RunningCall { id, subject, asked: None, admitted: false });
                }
                self.touch(at, |_| {});
            }
            Event::ApprovalAsked { approval, call, .. } => self.ask(approval, call, at),
            Event::ApprovalAnswered { approval, call, choice, edit, message, .. } => {
                let said = Exchange::Answer {
                    approval: approval.clone(),
                    choice: choice.clone(),
                    text: edit.as_ref().and_then(words_of),
                    message: message.clone(),
                    by: envelope.origin.clone(),
                    at,
                };
                let asked = self.call_mut(call).and_then(|open| open.asked.take());
                self.touch(at, |view| {
                    view.history.push(said);
                    view.question_changed(asked.is_some(), at);
                });
            }
            Event::CallStarted { call, .. } => {
                if let Some(open) = self.call_mut(call) {
                    open.admitted = true;
                }
                self.touch(at, |_| {});
            }
            Event::CallEnded { call, outcome } => self.end_call(call, outcome, at),
            Event::ArtifactPublished { artifact, .. } => {
                self.touch(at, |view| view.publish(artifact));
            }
            Event::ThoughtAppended { .. }
            | Event::PlanUpdated { .. }
            | Event::UsageReported { .. }
            | Event::ContextCompacted { .. }
            | Event::PromptExpanded { .. }
            | Event::CallOutput { .. } => self.touch(at, |_| {}),
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionNamed { .. }
            | Event::SessionClosed { .. }
            | Event::NoticeRaised { .. }
            | Event::Unknown => {}
        }
    }

    /// Leaves out the large contents of prompts of a task that is over, for a fold that is kept for long.
    pub fn trim(&mut self, task: &TaskId) {
        let Some(view) = self.views.get_mut(task).filter(|view| view.state.is_over()) else {
            return;
        };
        for said in &mut view.history {
            let Exchange::Prompt { content, .. } = said else { continue };
            let bytes = content.weight();
            if bytes > LARGE {
                let text = format!("[{bytes} bytes; ask for the task to see them]");
                let parts = vec![Part::Text { text }];
                let Content { message, metadata, profile, .. } = content.as_ref();
                let metadata =
                    metadata.clone().filter(|_| of_parts(&content.parts) + LARGE > bytes);
                let (message, profile) = (message.clone(), profile.clone());
                *content = Arc::new(Content { parts, message, metadata, profile });
                view.trimmed = true;
            }
        }
    }

    fn view(&mut self, task: &TaskId, at: Millis) -> &mut TaskView {
        self.views.entry(task.clone()).or_insert_with(|| {
            self.order.push(task.clone());
            TaskView::new(task.clone(), at)
        })
    }

    fn accept(&mut self, task: &TaskId, said: Exchange, at: Millis) {
        let view = self.view(task, at);
        view.waiting += 1;
        view.history.push(said);
        view.updated = at;
        self.restate(task, at);
    }

    fn settle(&mut self, task: &TaskId, state: TaskState, failure: Option<String>, at: Millis) {
        if let Some(view) = self.views.get_mut(task) {
            view.waiting = view.waiting.saturating_sub(1);
            view.last = Some(state);
            view.at_work &= view.waiting > 0;
            view.failure = failure;
        }
        self.restate(task, at);
    }

    fn end_turn(&mut self, outcome: &TurnOutcome, seq: Seq, at: Millis) {
        let Some(running) = self.turn.take() else { return };
        if let Some(view) = self.views.get_mut(&running.task) {
            view.complete_response(&running.turn);
            view.failed_at = seq;
        }
        let failure = match outcome {
            TurnOutcome::Failed { message, .. } => Some(message.clone()),
            TurnOutcome::Interrupted => {
                Some("interrupted: Loggia stopped while this turn was running".to_owned())
            }
            TurnOutcome::Completed | TurnOutcome::Cancelled => None,
        };
        self.settle(&running.task, TaskState::of_outcome(outcome), failure, at);
    }

    fn ask(&mut self, approval: &ApprovalId, call: &CallId, at: Millis) {
        let Some(open) = self.call_mut(call) else { return };
        open.asked = Some(approval.clone());
        open.admitted = true;
        let (approval, call, subject) = (approval.clone(), call.clone(), open.subject.clone());
        self.touch(at, |view| {
            view.history.push(Exchange::Question { approval, call, subject, at });
            view.question_changed(true, at);
        });
    }

    fn end_call(&mut self, call: &CallId, outcome: &CallOutcome, at: Millis) {
        let Some(running) = &mut self.turn else { return };
        let open = running.calls.iter().position(|open| open.id == *call);
        let open = open.map(|index| running.calls.remove(index));
        let asked = open.as_ref().is_some_and(|open| open.asked.is_some());
        self.touch(at, |view| {
            match (outcome, open) {
                (CallOutcome::Succeeded { output }, _) => view.keep(call, output),
                // Policy speaks in the same step in which a call is proposed.
                (CallOutcome::Cancelled { reason }, Some(open)) if !open.admitted => {
                    let (subject, reason) = (open.subject, reason.clone());
                    view.refused.push(RefusedCall { subject, reason });
                }
                (CallOutcome::Failed { .. } | CallOutcome::Cancelled { .. }, _) => {}
            }
            view.question_changed(asked, at);
        });
    }

    /// Changes the task whose turn is open, and derives its state anew.
    fn touch(&mut self, at: Millis, change: impl FnOnce(&mut TaskView)) {
        let Some(task) = self.running().cloned() else { return };
        if let Some(view) = self.views.get_mut(&task) {
            change(view);
        }
        self.restate(&task, at);
    }

    fn restate(&mut self, task: &TaskId, at: Millis) {
        let running = self.turn.as_ref().filter(|running| running.task == *task);
        let asked = running.map(|running| running.calls.iter().any(|call| call.asked.is_some()));
        if let Some(view) = self.views.get_mut(task) {
            let state = match (asked, view.last) {
                (Some(true), _) => TaskState::InputRequired,
                (Some(false), _) => TaskState::Working,
                (None, Some(ended)) if view.waiting == 0 => ended,
                // Between two of its turns.
                (None, Some(_) | None) if view.at_work => TaskState::Working,
                (None, Some(_) | None) => TaskState::Submitted,
            };
            if state != view.state {
                view.state = state;
                view.updated = at;
            }
        }
    }

    fn call_mut(&mut self, call: &CallId) -> Option<&mut RunningCall> {
        self.turn.as_mut()?.calls.iter_mut().find(|open| open.id == *call)
    }
}

impl TaskView {
    /// About how much memory its words and results take, in bytes.
    pub fn weight(&self) -> usize {
        let said = self.history.iter().map(|said| match said {
            Exchange::Prompt { content, .. } => content.weight(),
            Exchange::Reply { text, .. } => text.len(),
            Exchange::Sources { sources, .. } => {
                sources.iter().map(|source| source.title.len() + source.uri.len()).sum()
            }
            Exchange::Question { subject, .. } => subject.len(),
            Exchange::Answer { text, .. } => text.as_ref().map_or(0, String::len),
        });
        let published = self.artifacts.iter().map(|artifact| match artifact {
            TaskArtifact::Response { .. } => 0,
            TaskArtifact::Published { parts, .. } => of_parts(parts),
            TaskArtifact::Change { unified, .. } => unified.len(),
        });
        said.chain(published).sum()
    }

    fn new(id: TaskId, at: Millis) -> Self {
        Self {
            id,
            state: TaskState::Submitted,
            opened: false,
            created: at,
            updated: at,
            history: Vec::new(),
            artifacts: Vec::new(),
            failure: None,
            failed_at: Seq::ZERO,
            refused: Vec::new(),
            trimmed: false,
            waiting: 0,
            last: None,
            at_work: false,
        }
    }

    fn question_changed(&mut self, changed: bool, at: Millis) {
        if changed {
            self.updated = at;
        }
    }

    fn reply(&mut self, turn: &TurnId, message: &MessageId, more: &str, at: Millis) {
        self.respond(turn);
        let spoken = |said: &&mut Exchange| {
            matches!(said, Exchange::Reply { .. } | Exchange::Sources { .. })
        };
        if let Some(Exchange::Reply { turn: in_turn, message: id, text, .. }) =
            self.history.iter_mut().rev().find(spoken)
            && in_turn == turn
            && id == message
        {
            text.push_str(more);
            return;
        }
        self.history.push(Exchange::Reply {
            turn: turn.clone(),
            message: message.clone(),
            text: more.to_owned(),
            at,
        });
    }

    fn respond(&mut self, turn: &TurnId) {
        let known = self.artifacts.iter().any(
            |artifact| matches!(artifact, TaskArtifact::Response { turn: id, .. } if id == turn),
        );
        if !known {
            self.artifacts.push(TaskArtifact::Response { turn: turn.clone(), complete: false });
        }
    }

    fn complete_response(&mut self, ended: &TurnId) {
        for artifact in &mut self.artifacts {
            if let TaskArtifact::Response { turn, complete } = artifact
                && turn == ended
            {
                *complete = true;
            }
        }
    }

    fn keep(&mut self, call: &CallId, output: &Output) {
        if let Some(diff) = &output.diff {
            let (path, unified) = (diff.path.clone(), diff.unified.clone());
            self.artifacts.push(TaskArtifact::Change { call: call.clone(), path, unified });
        }
        if let Some(published) = &output.artifact {
            self.publish(published);
        }
    }

    fn publish(&mut self, piece: &Artifact) {
        let known = self.artifacts.iter_mut().find_map(|artifact| match artifact {
            TaskArtifact::Published { id, name, parts, complete } => {
                (*id == piece.id).then_some((name, parts, complete))
            }
            TaskArtifact::Response { .. } | TaskArtifact::Change { .. } => None,
        });
        match known {
            Some((name, parts, complete)) => {
                if !piece.append {
                    parts.clear();
                }
                parts.extend(piece.parts.iter().cloned());
                name.clone_from(&piece.name);
                *complete = piece.last;
            }
            None => self.artifacts.push(TaskArtifact::Published {
                id: piece.id.clone(),
                name: piece.name.clone(),
                parts: piece.parts.clone(),
                complete: piece.last,
            }),
        }
    }
}

fn subject_of(title: &str, details: &Details) -> String {
    match details {
        Details::Question { text, .. } => text.clone(),
        Details::Execute { .. }
        | Details::Edit(_)
        | Details::Mcp { .. }
        | Details::Generic { .. } => title.to_owned(),
    }
}

/// What a person said in their own words; a changed file or command is no word of theirs.
fn words_of(edit: &Edit) -> Option<String> {
    match edit {
        Edit::Text { text } => Some(text.clone()),
        Edit::File { .. } | Edit::Command { .. } => None,
    }
}
