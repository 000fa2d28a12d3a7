//! Tasks as clients poll them: state, history and results. A fold of the whole log.
//!
//! The state of a task is the same as in [`Session::task_state`](crate::Session::task_state). In addition,
//! this fold keeps the texts and results, which decisions do not need. It does not word questions or
//! format results; the projections do.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::approval::{AnswerMessage, ChoiceId, Edit};
use crate::call::{Artifact, CallOutcome, Details, Output};
use crate::content::{Content, Part};
use crate::event::size::of_parts;
use crate::event::{Envelope, Event, Screening, Source, TurnOutcome};
use crate::id::{ApprovalId, CallId, MessageId, Millis, PromptId, Seq, TaskId, TurnId};
use crate::origin::Origin;
use crate::task::{TaskProgress, TaskState};

/// Larger contents of prompts are dropped when their task is over.
const LARGE_CONTENT: usize = 64 * 1024;

/// Every task of one session, in the order of creation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tasks {
    views: BTreeMap<TaskId, TaskView>,
    order: Vec<TaskId>,
    /// Prompts that wait for their turn.
    queued: BTreeMap<PromptId, TaskId>,
    turn: Option<RunningTurn>,
}

#[derive(Debug, Clone, PartialEq)]
struct RunningTurn {
    turn: TurnId,
    task: TaskId,
    /// Calls that have not ended.
    calls: Vec<RunningCall>,
}

#[derive(Debug, Clone, PartialEq)]
struct RunningCall {
    id: CallId,
    /// The subject of a question about this call.
    subject: String,
    asked: Option<ApprovalId>,
    /// It was started, or a question about it was asked.
    admitted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    pub id: TaskId,
    pub state: TaskState,
    /// It was opened before its first message.
    pub opened: bool,
    pub created: Millis,
    /// When its state, its prompts or its open questions last changed. Stream events do not change it, so
    /// that the index of tasks is not written for every piece of text.
    pub updated: Millis,
    /// Prompts, replies, questions and answers, in order.
    pub history: Vec<Exchange>,
    pub artifacts: Vec<TaskArtifact>,
    /// Why the last turn failed, or why there was none.
    pub failure: Option<String>,
    /// The event that ended that turn.
    pub failed_at: Seq,
    /// Calls that the policy refused, in order.
    pub refused: Vec<RefusedCall>,
    /// Large contents of prompts were left out ([`Tasks::trim`]): the whole task is in the log.
    pub trimmed: bool,
    progress: TaskProgress,
}

/// A call that was refused without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCall {
    pub subject: String,
    pub reason: String,
}

/// One entry of the history.
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

/// One result.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskArtifact {
    /// The agent's text in one turn; the history contains it.
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
            Event::TaskClosed { task } => self.finish_prompt(task, TaskState::Canceled, None, at),
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
                    self.finish_prompt(&task, TaskState::Canceled, None, at);
                }
            }
            Event::PromptScreened { prompt, task, content, screening } => {
                let (prompt, content, origin) =
                    (prompt.clone(), content.clone(), envelope.origin.clone());
                // There was no turn, so the id of the prompt stands in for that of the turn.
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
                self.finish_prompt(task, state, failure, at);
            }
            Event::TurnStarted { turn, prompt, task } => {
                self.queued.remove(prompt);
                let running =
                    RunningTurn { turn: turn.clone(), task: task.clone(), calls: Vec::new() };
                let before = self.turn.replace(running);
                if let Some(before) = before {
                    self.update_state(&before.task, at);
                }
                self.update_running(at, |view| view.progress.start_turn());
            }
            Event::TurnEnded { outcome, .. } => self.end_turn(outcome, envelope.seq, at),
            Event::TextAppended { turn, message, text } => {
                self.update_running(at, |view| view.reply(turn, message, text, at));
            }
            Event::ReplyDiscarded { message, .. } => {
                self.update_running(at, |view| view.discard(message));
            }
            Event::SourcesCited { turn, sources } => self.update_running(at, |view| {
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
                self.update_running(at, |_| {});
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
                self.update_running(at, |view| {
                    view.history.push(said);
                    view.question_changed(asked.is_some(), at);
                });
            }
            Event::CallStarted { call, .. } => {
                if let Some(open) = self.call_mut(call) {
                    open.admitted = true;
                }
                self.update_running(at, |_| {});
            }
            Event::CallEnded { call, outcome } => self.end_call(call, outcome, at),
            Event::ArtifactPublished { artifact, .. } => {
                self.update_running(at, |view| view.publish(artifact));
            }
            Event::ThoughtAppended { .. }
            | Event::PlanUpdated { .. }
            | Event::UsageReported { .. }
            | Event::ContextCompacted { .. }
            | Event::PromptExpanded { .. }
            | Event::CallOutput { .. } => self.update_running(at, |_| {}),
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionNamed { .. }
            | Event::SessionClosed { .. }
            | Event::NoticeRaised { .. }
            | Event::ModelRecord { .. }
            | Event::Unknown => {}
        }
    }

    /// Drops the large contents of prompts of a task that is over, to save memory in a cached fold.
    pub fn trim(&mut self, task: &TaskId) {
        let Some(view) = self.views.get_mut(task).filter(|view| view.state.is_over()) else {
            return;
        };
        for said in &mut view.history {
            let Exchange::Prompt { content, .. } = said else { continue };
            let bytes = content.approx_bytes();
            if bytes > LARGE_CONTENT {
                let text = format!("[{bytes} bytes; ask for the task to see them]");
                let parts = vec![Part::Text { text }];
                let Content { message, metadata, profile, .. } = content.as_ref();
                let metadata =
                    metadata.clone().filter(|_| of_parts(&content.parts) + LARGE_CONTENT > bytes);
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
        view.progress.accept_prompt();
        view.history.push(said);
        view.updated = at;
        self.update_state(task, at);
    }

    fn finish_prompt(
        &mut self,
        task: &TaskId,
        state: TaskState,
        failure: Option<String>,
        at: Millis,
    ) {
        if let Some(view) = self.views.get_mut(task) {
            view.progress.finish_prompt(state);
            view.failure = failure;
        }
        self.update_state(task, at);
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
        self.finish_prompt(&running.task, TaskState::of_outcome(outcome), failure, at);
    }

    fn ask(&mut self, approval: &ApprovalId, call: &CallId, at: Millis) {
        let Some(open) = self.call_mut(call) else { return };
        open.asked = Some(approval.clone());
        open.admitted = true;
        let (approval, call, subject) = (approval.clone(), call.clone(), open.subject.clone());
        self.update_running(at, |view| {
            view.history.push(Exchange::Question { approval, call, subject, at });
            view.question_changed(true, at);
        });
    }

    fn end_call(&mut self, call: &CallId, outcome: &CallOutcome, at: Millis) {
        let Some(running) = &mut self.turn else { return };
        let open = running.calls.iter().position(|open| open.id == *call);
        let open = open.map(|index| running.calls.remove(index));
        let asked = open.as_ref().is_some_and(|open| open.asked.is_some());
        self.update_running(at, |view| {
            match (outcome, open) {
                (CallOutcome::Succeeded { output }, _) => view.add_output(call, output),
                // The policy refuses a call in the same step in which it is proposed.
                (CallOutcome::Cancelled { reason }, Some(open)) if !open.admitted => {
                    let (subject, reason) = (open.subject, reason.clone());
                    view.refused.push(RefusedCall { subject, reason });
                }
                (CallOutcome::Failed { .. } | CallOutcome::Cancelled { .. }, _) => {}
            }
            view.question_changed(asked, at);
        });
    }

    /// Changes the task whose turn is open, and updates its state.
    fn update_running(&mut self, at: Millis, change: impl FnOnce(&mut TaskView)) {
        let Some(task) = self.running().cloned() else { return };
        if let Some(view) = self.views.get_mut(&task) {
            change(view);
        }
        self.update_state(&task, at);
    }

    fn update_state(&mut self, task: &TaskId, at: Millis) {
        let running = self.turn.as_ref().filter(|running| running.task == *task);
        let asked = running.map(|running| running.calls.iter().any(|call| call.asked.is_some()));
        if let Some(view) = self.views.get_mut(task) {
            let state = view.progress.state(asked);
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
    /// Estimates the memory that its history and results take.
    pub fn approx_bytes(&self) -> usize {
        let said = self.history.iter().map(|said| match said {
            Exchange::Prompt { content, .. } => content.approx_bytes(),
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
            progress: TaskProgress::default(),
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

    /// Removes a reply that broke off, and the response if nothing else is left of it.
    fn discard(&mut self, discarded: &MessageId) {
        self.history.retain(
            |said| !matches!(said, Exchange::Reply { message, .. } if message == discarded),
        );
        let history = &self.history;
        let is_left = |response: &TurnId| {
            history.iter().any(|said| match said {
                Exchange::Reply { turn, .. } | Exchange::Sources { turn, .. } => turn == response,
                Exchange::Prompt { .. } | Exchange::Question { .. } | Exchange::Answer { .. } => {
                    false
                }
            })
        };
        self.artifacts.retain(|artifact| match artifact {
            TaskArtifact::Response { turn, .. } => is_left(turn),
            TaskArtifact::Published { .. } | TaskArtifact::Change { .. } => true,
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

    fn add_output(&mut self, call: &CallId, output: &Output) {
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

/// The text of an answer in words.
fn words_of(edit: &Edit) -> Option<String> {
    match edit {
        Edit::Text { text } => Some(text.clone()),
        Edit::File { .. } | Edit::Command { .. } => None,
    }
}
