//! A fold of a session's log from the store, for one answer: it keeps the contents of a few tasks, up to a number of
//! bytes, and drops the contents of all others.
//!
//! For tasks that no [`projection`](crate::projection) holds complete: tasks of sessions that are not open here, and large
//! tasks that are over. Needs no lease and opens no session.

use std::collections::HashMap;
use std::sync::Arc;

use loggia_core::{CallOutcome, Content, Envelope, Event, Output, SessionId, TaskId};
use loggia_session::{Store, StoreError, hub};
use loggia_wire::{Projector, View};

/// Events up to this weight are kept for every task.
const SMALL: usize = 1024;

pub(crate) struct TaskFold {
    projector: Projector,
    wanted: Vec<TaskId>,
    /// The weight of each wanted task's events.
    weights: HashMap<TaskId, usize>,
    byte_limit: usize,
    kept: usize,
    /// Contents of a wanted task were dropped, too.
    incomplete: bool,
    /// The contents of prompts are not needed.
    without_prompts: bool,
}

/// Folds the log of a session for some of its tasks, with at most `byte_limit` bytes of their contents.
pub(crate) async fn fold_tasks(
    store: &dyn Store,
    session: &SessionId,
    view: View,
    wanted: Vec<TaskId>,
    byte_limit: usize,
) -> Result<TaskFold, StoreError> {
    TaskFold::new(session, view, wanted, byte_limit).read(store, session).await
}

impl TaskFold {
    pub fn new(session: &SessionId, view: View, wanted: Vec<TaskId>, byte_limit: usize) -> Self {
        let projector = Projector::new(session.clone(), view);
        let (weights, without_prompts) = (HashMap::new(), false);
        Self { projector, wanted, weights, byte_limit, kept: 0, incomplete: false, without_prompts }
    }

    /// For an answer that shows no history.
    #[must_use]
    pub fn without_prompts(mut self, without: bool) -> Self {
        self.without_prompts = without;
        self
    }

    pub async fn read(
        mut self,
        store: &dyn Store,
        session: &SessionId,
    ) -> Result<Self, StoreError> {
        hub::fold(store, session, |envelope| self.apply(envelope)).await?;
        Ok(self)
    }

    pub fn projector(&self) -> &Projector {
        &self.projector
    }

    /// Whether a wanted task did not fit. Then only the weights are of use.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    pub fn weight(&self, task: &TaskId) -> usize {
        self.weights.get(task).copied().unwrap_or_default()
    }

    fn apply(&mut self, envelope: &Envelope) {
        let weight = envelope.event.approx_bytes();
        let prompted = match &envelope.event {
            Event::PromptAccepted { task, .. } | Event::PromptScreened { task, .. } => Some(task),
            _ => None,
        };
        let shown = prompted.is_none() || !self.without_prompts;
        let task = prompted.or(self.projector.tasks().running()).filter(|_| shown);
        let wanted = task.and_then(|task| self.wanted.iter().find(|wanted| *wanted == task));
        if let Some(task) = wanted {
            *self.weights.entry(task.clone()).or_default() += weight;
        }
        let fits = wanted.is_some() && self.kept.saturating_add(weight) <= self.byte_limit;
        if weight <= SMALL || fits {
            self.kept += if wanted.is_some() { weight } else { 0 };
            self.projector.fold_for_snapshot(envelope);
            return;
        }
        self.incomplete |= wanted.is_some();
        match without_contents(&envelope.event) {
            Some(event) => {
                let Envelope { seq, at, ref origin, .. } = *envelope;
                self.projector.fold_for_snapshot(&Envelope {
                    seq,
                    at,
                    origin: origin.clone(),
                    event,
                });
            }
            None => self.projector.fold_for_snapshot(envelope),
        }
    }
}

/// The same event without its long texts. None if the fold needs them, or does not keep them.
fn without_contents(event: &Event) -> Option<Event> {
    let emptied = |content: &Content| {
        let (message, profile) = (content.message.clone(), content.profile.clone());
        Arc::new(Content { parts: Vec::new(), message, metadata: None, profile })
    };
    match event {
        Event::PromptAccepted { prompt, task, content, shell } => Some(Event::PromptAccepted {
            prompt: prompt.clone(),
            task: task.clone(),
            content: emptied(content),
            shell: *shell,
        }),
        Event::PromptScreened { prompt, task, content, screening } => Some(Event::PromptScreened {
            prompt: prompt.clone(),
            task: task.clone(),
            content: emptied(content),
            screening: screening.clone(),
        }),
        Event::CallEnded { call, outcome: CallOutcome::Succeeded { .. } } => {
            let outcome = CallOutcome::Succeeded { output: Output::text(String::new()) };
            Some(Event::CallEnded { call: call.clone(), outcome })
        }
        Event::TextAppended { .. }
        | Event::ThoughtAppended { .. }
        | Event::CallOutput { .. }
        | Event::ArtifactPublished { .. }
        | Event::SourcesCited { .. } => Some(Event::Unknown),
        _ => None,
    }
}
