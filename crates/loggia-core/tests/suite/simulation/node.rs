//! One process that has, or had, the session: the writer, its two inboxes, its agent.
//!
//! The steps have the same order as in the actor. They are separate, so that a crash can happen between
//! any two.

use std::collections::VecDeque;
use std::sync::Arc;

use loggia_core::{
    Command, Effect, Envelope, Event, FreshIds, Millis, Origin, Refusal, Report, Seq, Session,
    Stamped, TurnId, effects,
};
use loggia_shell::Parser;

use super::agent::Agent;
use super::rng::Rng;

pub const CONTROL_INBOX: usize = 8;
pub const REPORT_INBOX: usize = 12;
/// Small, so that some pieces are not joined.
const PIECE: usize = 48;
/// Newest events served from memory.
const TAIL: usize = 8;

pub struct Node {
    pub session: Session,
    /// The events that readers of this node can see.
    pub head: usize,
    pub control: VecDeque<usize>,
    pub reports: VecDeque<(TurnId, Report)>,
    pub agent: Option<Agent>,
    /// Agents that were told to stop and have not ended: their reports are stale.
    pub leaving: Vec<TurnId>,
    tail: VecDeque<Arc<Envelope>>,
    seeds: u64,
}

/// One drained step before it is durable.
#[derive(Default)]
pub struct Step {
    pub events: Vec<Envelope>,
    pub replies: Vec<Reply>,
    pub effects: Vec<Effect>,
}

pub struct Reply {
    pub request: usize,
    /// The first event that this command added, if any.
    pub result: Result<Option<Seq>, Refusal>,
}

impl Node {
    pub fn new(session: Session, rng: &mut Rng) -> Self {
        Self {
            head: session.head().0 as usize,
            session,
            control: VecDeque::new(),
            reports: VecDeque::new(),
            agent: None,
            leaving: Vec::new(),
            tail: VecDeque::new(),
            seeds: rng.next(),
        }
    }

    pub fn recover(&mut self, at: Millis) -> Step {
        let mut step = Step::default();
        let fresh = self.fresh(at);
        for event in self.session.recover(&fresh) {
            self.push(&mut step, at, &Origin::system(), event);
        }
        let starts = step.effects.iter().any(|it| matches!(it, Effect::StartTurn(_)));
        if let Some(turn) = self.session.turn()
            && !starts
        {
            step.effects.push(Effect::StartTurn(turn.id.clone()));
        }
        step
    }

    pub fn decide(
        &mut self,
        step: &mut Step,
        command: Command,
        origin: &Origin,
        at: Millis,
    ) -> Result<Option<Seq>, Refusal> {
        let fresh = self.fresh(at);
        let stamped = Stamped { command, at, origin: origin.clone(), fresh };
        let events = self.session.decide(&stamped, &Parser)?;
        let first = (!events.is_empty()).then(|| self.session.head().next());
        for event in events {
            self.push(step, at, origin, event);
        }
        Ok(first)
    }

    fn push(&mut self, step: &mut Step, at: Millis, origin: &Origin, event: Event) {
        step.effects.extend(effects(&event));
        if let Some(last) = step.events.last_mut()
            && last.origin == *origin
            && last.event.absorb(&event, PIECE)
        {
            return;
        }
        let seq = self.session.head().next();
        let envelope = Envelope { seq, at, origin: origin.clone(), event };
        self.session.apply(&envelope);
        step.events.push(envelope);
    }

    pub fn publish(&mut self, events: &[Arc<Envelope>]) {
        self.tail.extend(events.iter().cloned());
        while self.tail.len() > TAIL {
            self.tail.pop_front();
        }
        self.head += events.len();
    }

    /// The events after `after`, from memory if it still has them, otherwise from the disk.
    pub fn read(&self, after: usize, limit: usize, log: &[Arc<Envelope>]) -> Vec<Arc<Envelope>> {
        let limit = limit.min(self.head.saturating_sub(after));
        let first = self.tail.front().map_or(usize::MAX, |first| first.seq.0 as usize);
        match (after + 1).checked_sub(first) {
            Some(skip) => self.tail.iter().skip(skip).take(limit).cloned().collect(),
            None => log.iter().skip(after).take(limit).cloned().collect(),
        }
    }

    pub fn act(&mut self, effect: Effect, rng: &mut Rng) {
        match effect {
            Effect::StartTurn(turn) => {
                let Some(open) = self.session.turn().filter(|open| open.id == turn) else { return };
                let pending = open.calls.iter().map(|call| call.id.clone()).collect();
                let before = self.agent.replace(Agent::on(turn, pending, rng));
                self.leaving.extend(before.map(|agent| agent.turn));
            }
            Effect::Grant(call) => {
                let Some(open) = self.session.open_call(&call) else { return };
                if let Some(agent) = &mut self.agent {
                    agent.permit(&call, &open.details);
                }
            }
            Effect::Deny(call, _) => {
                if let Some(agent) = &mut self.agent {
                    agent.deny(&call);
                }
            }
            Effect::StopTurn(turn) => {
                if self.agent.as_ref().is_some_and(|agent| agent.turn == turn) {
                    self.agent = None;
                    self.leaving.push(turn);
                }
            }
        }
    }

    fn fresh(&mut self, at: Millis) -> FreshIds {
        self.seeds = self.seeds.wrapping_add(1);
        FreshIds::new(self.seeds, at)
    }
}
