//! One step of the writer: events decided together, made small together, appended together.

use std::sync::Arc;

use loggia_core::{Amendment, Durability, Envelope, Event, Millis, Origin, Scope, Session, TaskId};

use crate::ports::{Append, Document};

/// One event never grows beyond this by coalescing.
const PIECE: usize = 64 * 1024;

/// The collection of remembered rules; the key is workspace and rule id.
pub const RULES: &str = "rule";

pub fn rule_key(workspace: &str, rule: &str) -> String {
    format!("{workspace}\u{1f}{rule}")
}

#[derive(Default)]
pub(crate) struct Batch {
    events: Vec<Envelope>,
}

impl Batch {
    /// Adds one decided event: folded into the writer's private state, or joined to the piece of
    /// the same stream right before it. Joined pieces change no state (law L6), so nothing is
    /// folded for them and they take no number of their own.
    pub fn push(&mut self, session: &mut Session, at: Millis, origin: &Origin, event: Event) {
        if let Some(last) = self.events.last_mut()
            && last.origin == *origin
            && last.event.absorb(&event, PIECE)
        {
            return;
        }
        let envelope = Envelope { seq: session.head().next(), at, origin: origin.clone(), event };
        session.apply(&envelope);
        self.events.push(envelope);
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
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
            tasks: self.events.iter().filter_map(begun_task).collect(),
            documents: self
                .events
                .iter()
                .filter_map(|envelope| remembered_rule(workspace, &envelope.event))
                .collect(),
            events: self.events.into_iter().map(Arc::new).collect(),
        }
    }
}

fn begun_task(envelope: &Envelope) -> Option<TaskId> {
    match &envelope.event {
        Event::PromptAccepted { task, .. } => Some(task.clone()),
        _ => None,
    }
}

/// A rule for the project outlives the session, so it is written together with the event.
fn remembered_rule(workspace: &str, event: &Event) -> Option<Document> {
    let document = |rule: &str, value| Document {
        collection: RULES.to_owned(),
        key: rule_key(workspace, rule),
        value,
    };
    match event {
        Event::PolicyAmended { amendment: Amendment::Added { rule } }
            if rule.scope == Scope::Project =>
        {
            Some(document(rule.id.as_str(), serde_json::to_string(rule).ok()))
        }
        Event::PolicyAmended { amendment: Amendment::Revoked { rule } } => {
            Some(document(rule.as_str(), None))
        }
        _ => None,
    }
}
