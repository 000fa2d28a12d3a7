//! The events of one step of an actor, joined where possible and appended together.

use std::sync::Arc;

use loggia_core::{
    Amendment, ApprovalId, Durability, Envelope, Event, Millis, Origin, RuleLifetime, Session,
    TaskId, TaskState,
};

use crate::index::TaskMark;
use crate::ports::{Append, Document};

/// Bytes of an event that pieces are joined to at most.
const PIECE: usize = 64 * 1024;
/// A step with this many bytes of text takes no more reports.
const LARGE: usize = 256 * 1024;

/// The collection of remembered rules. A key is a workspace and a rule id.
pub const RULES: &str = "rule";

pub fn rule_key(workspace: &str, rule: &str) -> String {
    [workspace, "\u{1f}", rule].concat()
}

#[derive(Default)]
pub(crate) struct Batch {
    /// Not shared yet, so that pieces can be joined.
    events: Vec<Arc<Envelope>>,
    /// Tasks whose status changed, and when it last changed.
    changed: Vec<(TaskId, Millis)>,
    weight: usize,
}

impl Batch {
    /// Adds one decided event: applies it to the actor's private state, or joins it to the previous event if both are
    /// pieces of the same stream. A joined piece changes no state (law L6), so that it is not applied and takes no
    /// sequence number.
    pub fn push(&mut self, session: &mut Session, at: Millis, origin: &Origin, event: Event) {
        self.weight += event.approx_bytes();
        if let Some(last) = self.events.last_mut().and_then(Arc::get_mut)
            && last.origin == *origin
            && last.event.absorb(&event, PIECE)
        {
            return;
        }
        let envelope = Envelope { seq: session.head().next(), at, origin: origin.clone(), event };
        let [named, running] = concerned(session, &envelope.event);
        let status = |task: &TaskId| (task.clone(), Status::of(session, task));
        let before = [named.map(status), running.map(status)];
        session.apply(&envelope);
        let prompted = match &envelope.event {
            Event::PromptAccepted { task, .. } => Some(task),
            _ => None,
        };
        for (task, status) in before.into_iter().flatten() {
            if prompted == Some(&task) || status != Status::of(session, &task) {
                self.changed(task, at);
            }
        }
        self.events.push(Arc::new(envelope));
    }

    fn changed(&mut self, task: TaskId, at: Millis) {
        match self.changed.iter_mut().find(|(known, _)| *known == task) {
            Some((_, updated)) => *updated = at,
            None => self.changed.push((task, at)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub fn is_large(&self) -> bool {
        self.weight >= LARGE
    }

    pub fn into_append(self, session: &Session) -> Append {
        let expected = self
            .events
            .first()
            .map_or(session.head(), |first| loggia_core::Seq(first.seq.0.saturating_sub(1)));
        let workspace = session.opened().map_or("", |opened| opened.workspace.path());
        let durability = self.events.iter().map(|envelope| envelope.event.durability()).max();
        Append {
            expected,
            durability: durability.unwrap_or(Durability::Stream),
            summary: session.summary(),
            tasks: marks(self.changed, session),
            documents: self
                .events
                .iter()
                .filter_map(|envelope| remembered_rule(workspace, &envelope.event))
                .collect(),
            events: self.events,
        }
    }
}

/// The part of a task that the index of tasks shows.
#[derive(PartialEq)]
struct Status {
    state: Option<TaskState>,
    questions: Vec<ApprovalId>,
}

impl Status {
    fn of(session: &Session, task: &TaskId) -> Self {
        let running = session.turn().is_some_and(|turn| turn.task == *task);
        let questions = session.open_approvals().filter(|_| running);
        Self {
            state: session.task_state(task),
            questions: questions.map(|(_, approval)| approval.id.clone()).collect(),
        }
    }
}

/// The tasks whose status an event can change. None for stream events, which are most of a log.
fn concerned<'a>(session: &'a Session, event: &'a Event) -> [Option<&'a TaskId>; 2] {
    let running = session.turn().map(|turn| &turn.task);
    match event {
        Event::TaskOpened { task, .. }
        | Event::TaskClosed { task }
        | Event::PromptScreened { task, .. }
        | Event::PromptAccepted { task, .. } => [Some(task), None],
        Event::PromptWithdrawn { prompt } => {
            let queued = session.queue().find(|queued| queued.prompt == *prompt);
            [queued.map(|queued| &queued.task), None]
        }
        Event::TurnStarted { task, .. } => [Some(task), running],
        Event::TurnEnded { .. }
        | Event::ApprovalAsked { .. }
        | Event::ApprovalAnswered { .. }
        | Event::CallEnded { .. } => [None, running],
        Event::SessionOpened { .. }
        | Event::SettingsChanged { .. }
        | Event::PolicyAmended { .. }
        | Event::SessionNamed { .. }
        | Event::SessionClosed { .. }
        | Event::PromptExpanded { .. }
        | Event::TextAppended { .. }
        | Event::ThoughtAppended { .. }
        | Event::PlanUpdated { .. }
        | Event::SourcesCited { .. }
        | Event::UsageReported { .. }
        | Event::CallProposed { .. }
        | Event::CallStarted { .. }
        | Event::CallOutput { .. }
        | Event::ArtifactPublished { .. }
        | Event::ContextCompacted { .. }
        | Event::NoticeRaised { .. }
        | Event::ModelRecord { .. }
        | Event::ReplyDiscarded { .. }
        | Event::Unknown => [None; 2],
    }
}

fn marks(changed: Vec<(TaskId, Millis)>, session: &Session) -> Vec<TaskMark> {
    let principal = session.opened().and_then(|opened| opened.principal.as_deref());
    let mark = |(task, updated)| {
        let state = session.task_state(&task)?;
        Some(TaskMark { task, state, updated, principal: principal.map(str::to_owned) })
    };
    changed.into_iter().filter_map(mark).collect()
}

/// A project rule outlives the session, so that it is also written as a document, in the same append.
fn remembered_rule(workspace: &str, event: &Event) -> Option<Document> {
    let document = |rule: &str, value| Document {
        collection: RULES.to_owned(),
        key: rule_key(workspace, rule),
        value,
    };
    match event {
        Event::PolicyAmended { amendment: Amendment::Added { rule } }
            if rule.scope == RuleLifetime::Project =>
        {
            Some(document(rule.id.as_str(), serde_json::to_string(rule).ok()))
        }
        Event::PolicyAmended { amendment: Amendment::Revoked { rule } } => {
            Some(document(rule.as_str(), None))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
pub(crate) mod tests;
