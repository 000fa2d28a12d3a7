//! A fold of a log that keeps the contents of a few tasks, up to a number of bytes, and drops those of all others.
//!
//! A session may hold far more than one answer shows; what is not shown is not kept in memory either.

use std::collections::HashMap;
use std::sync::Arc;

use loggia_core::{CallOutcome, Content, Envelope, Event, Output, SessionId, TaskId};
use loggia_wire::{Projector, View};

/// An event of this weight is kept whatever task it belongs to.
const SMALL: usize = 1024;

pub(crate) struct Selected {
    projector: Projector,
    wanted: Vec<TaskId>,
    /// What the events of each wanted task weigh.
    weights: HashMap<TaskId, usize>,
    room: usize,
    kept: usize,
    /// Something of the wanted tasks was dropped, too.
    short: bool,
    /// Contents of prompts are of no use.
    without_prompts: bool,
}

impl Selected {
    pub fn new(session: SessionId, view: View, wanted: Vec<TaskId>, room: usize) -> Self {
        let projector = Projector::new(session, view);
        let (weights, without_prompts) = (HashMap::new(), false);
        Self { projector, wanted, weights, room, kept: 0, short: false, without_prompts }
    }

    /// The same for an answer that shows no history.
    #[must_use]
    pub fn without_prompts(mut self, without: bool) -> Self {
        self.without_prompts = without;
        self
    }

    pub fn projector(&self) -> &Projector {
        &self.projector
    }

    pub fn into_projector(self) -> Projector {
        self.projector
    }

    /// Whether a task did not fit, so that the fold is of no use but for its weights.
    pub fn is_short(&self) -> bool {
        self.short
    }

    pub fn weight(&self, task: &TaskId) -> usize {
        self.weights.get(task).copied().unwrap_or_default()
    }

    pub fn learn(&mut self, envelope: &Envelope) {
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
        let fits = wanted.is_some() && self.kept.saturating_add(weight) <= self.room;
        if weight <= SMALL || fits {
            self.kept += if wanted.is_some() { weight } else { 0 };
            self.projector.learn(envelope);
            return;
        }
        self.short |= wanted.is_some();
        match without_contents(&envelope.event) {
            Some(event) => {
                let Envelope { seq, at, ref origin, .. } = *envelope;
                self.projector.learn(&Envelope { seq, at, origin: origin.clone(), event });
            }
            None => self.projector.learn(envelope),
        }
    }
}

/// The same fact without its long texts. None where the fold needs them, or does not keep them.
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
