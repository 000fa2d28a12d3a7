//! The writer of one session: the only task that decides, appends and acts.
//!
//! Each step: wait for a message, drain what else is there, decide, append, publish, answer, act.
//! In that order, always: durable, then visible, then acted on. A failed append stops the actor;
//! opening the session again is the repair. How the agent is run, and what it may compute before its
//! prompt is on disk, is in [`work`]; where a writer is that has nothing to do, in [`bed`]; when a
//! question has been open for too long, in [`patience`]; which rules have been taken back elsewhere, in
//! [`standing`].

pub mod bed;
mod patience;
mod standing;
mod work;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loggia_core::{
    ApprovalId, CallId, CallOutcome, CallState, Command, Effect, FreshIds, Millis, Origin, Refusal,
    Report, Session, SessionId, Stamped, TaskId, TaskState, effects,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::backlog::{Backlog, Charge, Reserved};
use crate::batch::Batch;
use crate::handle::{Ack, Control, Line, Look, Reply, SubmitError, Told};
use crate::hub::seats::Presence;
use crate::log::{self, Log, Publisher};
use crate::ports::{Agent, Lease, Principals, Store, StoreError};
use crate::turn::{FromAgent, Permit, Waiter};
use bed::Bed;
use patience::{Patience, expired};
use work::{Begun, Running};

const CONTROL_INBOX: usize = 64;
/// All of them may go into one step, unless they are large: whoever reads is woken once for it.
const REPORT_INBOX: usize = 256;
const CONTROL_DRAIN: usize = 32;

type Verdict = Result<Permit, CallOutcome>;

pub(crate) struct Actor {
    id: SessionId,
    session: Session,
    /// Dropped before `publisher`: whoever sees the log closed finds the session free.
    lease: Lease,
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    principals: Option<Arc<dyn Principals>>,
    /// A proposed call that waits until the rules have been checked.
    held: Option<Box<FromAgent>>,
    publisher: Publisher,
    log: Log,
    control: mpsc::Receiver<Box<Control>>,
    reports: mpsc::Receiver<Box<FromAgent>>,
    report_sender: mpsc::Sender<Box<FromAgent>>,
    running: Option<Running>,
    /// Agents waiting in `propose`, by call.
    waiters: HashMap<CallId, Waiter>,
    /// Calls that an earlier owner left open, until the agent has claimed them: their answer may
    /// come before the agent asks for it.
    inherited: HashSet<CallId>,
    unclaimed: HashMap<CallId, Verdict>,
    /// What the prompts that run or wait take of the memory that clients share.
    charge: Charge,
    /// Who waits until a task is over or asks. Bounded by the clients there are.
    settling: Vec<(TaskId, Reply, Ack)>,
    patience: Patience,
    seeds: u64,
    stopping: bool,
    /// A session that begins with its first command: how it is opened then.
    unopened: Option<(Command, Origin)>,
    /// The last to go: then the session is free and this writer forgotten.
    presence: Presence,
}

/// One drained step before it is durable.
#[derive(Default)]
struct Step {
    batch: Batch,
    replies: Vec<(Told, Reply, Result<Ack, SubmitError>)>,
    /// Of the commands in this step, until the session counts what it keeps of them.
    reserved: Vec<Reserved>,
    looks: Vec<Look>,
    effects: Vec<Effect>,
    /// The turn that this step starts, where its agent has looked at it already and waits.
    begun: Option<Begun>,
    /// The rules are as they are known elsewhere.
    checked: bool,
}

impl Actor {
    /// Takes over an open log. [`Actor::recover`] deals with what the last owner left, if there was
    /// one; [`Actor::run`] then serves.
    pub fn new(
        session: Session,
        lease: Lease,
        Ports { store, agent, principals }: Ports,
        bed: Arc<Bed>,
        presence: Presence,
        backlog: &Arc<Backlog>,
    ) -> (Line, Box<Self>) {
        let (id, epoch) = (lease.session.clone(), lease.epoch);
        let (publisher, log) = log::log(id.clone(), store.clone(), session.head());
        // Full: the caller is told busy (handle.rs). Full: the agent waits (turn.rs).
        let (control_sender, control) = mpsc::channel(CONTROL_INBOX);
        let (report_sender, reports) = mpsc::channel(REPORT_INBOX);
        // Boxed: it is handed on several times before it runs.
        let actor = Box::new(Actor {
            id: id.clone(),
            session,
            lease,
            store,
            agent,
            principals,
            held: None,
            publisher,
            log: log.clone(),
            control,
            reports,
            report_sender,
            running: None,
            waiters: HashMap::new(),
            inherited: HashSet::new(),
            unclaimed: HashMap::new(),
            charge: Charge::new(backlog),
            settling: Vec::new(),
            patience: Patience::default(),
            seeds: uuid::Uuid::now_v7().as_u64_pair().1,
            stopping: false,
            unopened: None,
            presence,
        });
        let backlog = backlog.clone();
        (Line { id, epoch, control: control_sender, log, bed, backlog }, actor)
    }

    /// Opens the session in the step of its first command, not in one of its own.
    pub fn opening_with(mut self: Box<Self>, command: Command, origin: Origin) -> Box<Self> {
        self.unopened = Some((command, origin));
        self
    }

    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// `failure` is why the last owner stopped, where that was this process and its log could not grow.
    pub async fn recover(&mut self, failure: Option<&StoreError>) -> Result<(), StoreError> {
        let at = now();
        let fresh = self.fresh(at);
        let mut step = Step::default();
        for event in self.session.recover_after(failure.and_then(told), &fresh) {
            step.effects.extend(effects(&event));
            step.batch.push(&mut self.session, at, &Origin::system(), event);
        }
        let resumed = match self.session.turn() {
            Some(turn)
                if !step.effects.iter().any(|effect| matches!(effect, Effect::StartTurn(_))) =>
            {
                self.inherited = turn.calls.iter().map(|call| call.id.clone()).collect();
                Some(Effect::StartTurn(turn.id.clone()))
            }
            _ => None,
        };
        step.effects.extend(resumed);
        self.commit(step).await
    }

    /// Nothing to do, nothing to wait for, and nobody has asked for anything.
    pub fn is_at_rest(&self) -> bool {
        let open = self.session.turn().is_some() || self.session.queue().len() > 0;
        !open && !self.stopping && self.control.is_empty() && self.reports.is_empty()
    }

    /// Works until there is nothing to do. None: this opening of the session is over.
    pub async fn run(mut self: Box<Self>) -> Option<Box<Self>> {
        while !self.is_at_rest() {
            let mut step = Step::default();
            if self.held.is_some() {
                self.propose_held(&mut step).await;
                if !self.conclude(step).await {
                    self.leave().await;
                    return None;
                }
                continue;
            }
            let next = self.patience.next(&self.session, now);
            let over = tokio::select! {
                biased; // control first: a cancel or an answer must not wait behind a stream
                message = self.control.recv() => match message {
                    Some(message) => {
                        self.take_control(*message, &mut step);
                        false
                    }
                    None => true, // every handle is gone: nobody can reach this session any more
                },
                approval = expired(next) => {
                    self.expire(approval, &mut step);
                    false
                }
                Some(message) = self.reports.recv() => {
                    self.take_report(*message, &mut step);
                    false
                }
            };
            if over || !self.conclude(step).await {
                self.leave().await;
                return None;
            }
        }
        Some(self)
    }

    /// One step for what is in the inbox. None: this opening of the session is over.
    pub async fn step(mut self: Box<Self>) -> Option<Box<Self>> {
        let mut step = Step::default();
        if let Ok(message) = self.control.try_recv() {
            self.take_control(*message, &mut step);
        }
        match self.conclude(step).await {
            true => Some(self),
            false => {
                self.leave().await;
                None
            }
        }
    }

    /// The step with what else is there, done. False: the last one.
    async fn conclude(&mut self, mut step: Step) -> bool {
        self.drain(&mut step);
        self.look_ahead(&mut step);
        if let Err(error) = self.commit(step).await {
            tracing::error!(session = %self.id, %error, "the session stops: its log cannot grow");
            return false;
        }
        !self.stopping
    }

    /// Closed for being idle. The session is free when this returns, or when its agent has left.
    pub fn close(mut self: Box<Self>, home: &Handle) {
        self.control.close();
        match self.running.as_ref().is_none_or(Running::has_left) {
            true => drop(self),
            false => drop(home.spawn(self.leave())),
        }
    }

    /// Nobody can give it anything any more.
    pub fn shut(&mut self) {
        self.control.close();
    }

    fn drain(&mut self, step: &mut Step) {
        for _ in 0..CONTROL_DRAIN {
            let Ok(message) = self.control.try_recv() else { break };
            self.take_control(*message, step);
        }
        for _ in 0..REPORT_INBOX {
            if step.batch.is_large() || self.held.is_some() {
                break;
            }
            let Ok(message) = self.reports.try_recv() else { break };
            self.take_report(*message, step);
        }
    }

    fn take_control(&mut self, message: Control, step: &mut Step) {
        if !matches!(message, Control::Stop)
            && let Some((command, origin)) = self.unopened.take()
            && let Err(refusal) = self.decide(command, &origin, step)
        {
            tracing::error!(session = %self.id, %refusal, "a new session was not opened");
        }
        match message {
            Control::Submit { command, origin, told, reply, reserved } => {
                step.reserved.push(reserved);
                let prompt = match &command {
                    Command::Prompt { prompt, .. }
                    | Command::Reply(loggia_core::Reply { prompt, .. })
                    | Command::Screened { prompt, .. }
                    | Command::Shell { prompt, .. } => Some(prompt.clone()),
                    _ => None,
                };
                let before = self.session.head();
                let (answered, replied_to) = match &command {
                    Command::Reply(reply) => {
                        (self.session.asked_by_reply(reply), reply.task.existing().cloned())
                    }
                    _ => (None, None),
                };
                let result = self.decide(command, &origin, step).map(|()| Ack {
                    after: before,
                    seq: self.session.head(),
                    task: prompt
                        .and_then(|prompt| self.session.task_of(&prompt).cloned())
                        .or_else(|| answered.as_ref().and(replied_to)),
                    answered,
                });
                step.replies.push((told, reply, result.map_err(SubmitError::from)));
            }
            Control::Inspect(look) => step.looks.push(look),
            Control::Stop => self.stopping = true,
        }
    }

    fn take_report(&mut self, message: FromAgent, step: &mut Step) {
        if self.must_check_rules(&message, step) {
            self.held = Some(Box::new(message));
            return;
        }
        match message {
            FromAgent::Report { turn, report, waiter } => {
                let proposed = match &report {
                    Report::Propose { call, .. } => Some(call.clone()),
                    _ => None,
                };
                let command = Command::Report { turn, report };
                match self.decide(command, &Origin::agent(), step) {
                    Ok(()) => {
                        if let (Some(call), Some(waiter)) = (proposed, waiter) {
                            self.waiters.insert(call, waiter);
                        }
                    }
                    // A finished turn's last words. Dropping the waiter tells the agent.
                    Err(refusal) => tracing::debug!(session = %self.id, %refusal, "report refused"),
                }
            }
            FromAgent::Await { turn, call, waiter } => {
                self.inherited.remove(&call);
                let asked = |open: &loggia_core::OpenCall| open.state == CallState::Asked;
                // Answered in this very step: the verdict is given once that is durable.
                let decided = step.effects.iter().any(|effect| effect.answers(&call));
                if let Some(verdict) = self.unclaimed.remove(&call) {
                    // The agent left in between: then its turn is over and the call with it.
                    let _ = waiter.send(verdict);
                } else if self.session.turn().is_some_and(|open| open.id == turn)
                    && (decided || self.session.open_call(&call).is_some_and(asked))
                {
                    self.waiters.insert(call, waiter);
                }
            }
        }
    }

    fn expire(&mut self, approval: ApprovalId, step: &mut Step) {
        let command = Command::Expire { approval };
        if let Err(refusal) = self.decide(command, &Origin::timeout(), step) {
            tracing::error!(session = %self.id, %refusal, "a question can not expire");
        }
    }

    /// Decides one command and folds what follows into the private state.
    fn decide(
        &mut self,
        command: Command,
        origin: &Origin,
        step: &mut Step,
    ) -> Result<(), Refusal> {
        let at = now();
        let fresh = self.fresh(at);
        let stamped = Stamped { command, at, origin: origin.clone(), fresh };
        for event in self.session.decide(&stamped, &loggia_shell::Parser)? {
            step.effects.extend(effects(&event));
            step.batch.push(&mut self.session, at, origin, event);
        }
        Ok(())
    }

    async fn commit(&mut self, step: Step) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        if !step.batch.is_empty() {
            let append = step.batch.into_append(&self.session);
            let events = append.events.clone();
            outcome = self.store.append(&self.lease, append).await;
            if let Err(error) = &outcome {
                // Before anything closes: it is the answer to all that still comes.
                self.publisher.fail(error);
                self.presence.place().failed(error);
            }
            if outcome.is_ok() {
                self.publisher.publish(&events);
                // Kinds and numbers: what was said is in the log, and nowhere else.
                tracing::debug!(session = %self.id, events = events.len(), head = %self.log.head(), "appended");
            } else {
                // Closed before anybody is told, so that whoever opens it again gets a new one.
                self.control.close();
            }
        }
        self.charge.set(&self.session);
        drop(step.reserved);
        for (told, reply, result) in step.replies {
            let result = match &outcome {
                Ok(()) => result,
                Err(error) => Err(SubmitError::Store(error.clone())),
            };
            match (told, result) {
                (Told::Settled, Ok(ack @ Ack { task: Some(_), .. })) => {
                    self.settling.extend(ack.task.clone().map(|task| (task, reply, ack)));
                }
                // A caller that has gone away does not need its answer.
                (Told::Durable | Told::Settled, result) => drop(reply.send(result)),
            }
        }
        outcome?;
        self.tell_settled();
        for look in step.looks {
            look(&self.session);
        }
        let mut begun = step.begun;
        for effect in step.effects {
            self.act(effect, &mut begun);
        }
        Ok(())
    }

    /// Answers who waits for a task that needs somebody now.
    fn tell_settled(&mut self) {
        let session = &self.session;
        let settled = |task: &TaskId| {
            let state = session.task_state(task);
            state.is_none_or(|state| state.is_over() || state == TaskState::InputRequired)
        };
        for (_, reply, ack) in
            self.settling.extract_if(.., |(task, reply, _)| reply.is_closed() || settled(task))
        {
            let _ = reply.send(Ok(ack));
        }
    }

    fn act(&mut self, effect: Effect, begun: &mut Option<Begun>) {
        match effect {
            Effect::StartTurn(turn) => self.start_turn(&turn, begun.take()),
            Effect::Grant(call) => {
                let Some(running) = &self.running else { return };
                // Ended again in the same step: the denial follows.
                let Some(open) = self.session.open_call(&call) else { return };
                let stop = running.stop.child_token();
                let sender = self.report_sender.clone();
                let opened = self.session.opened();
                let limit = opened.map_or(0, |opened| opened.settings.limits.call_seconds);
                let limit = Duration::from_secs(limit);
                let permit = Permit::new(running.turn.clone(), open, limit, sender, stop);
                self.settle(call, Ok(permit));
            }
            Effect::Deny(call, outcome) => self.settle(call, Err(outcome)),
            Effect::StopTurn(turn) => {
                if let Some(running) = self.running.as_ref().filter(|running| running.turn == turn)
                {
                    running.stop.cancel();
                }
                self.waiters.clear();
                self.inherited.clear();
                self.unclaimed.clear();
            }
        }
    }

    fn settle(&mut self, call: CallId, verdict: Verdict) {
        if let Some(waiter) = self.waiters.remove(&call) {
            // An agent that stopped waiting has been stopped; its call ends with the turn.
            let _ = waiter.send(verdict);
        } else if self.inherited.contains(&call) {
            self.unclaimed.insert(call, verdict);
        }
    }

    /// The log stays as it is; the agent is told to go and given time to leave nothing behind.
    async fn leave(mut self: Box<Self>) {
        self.control.close();
        // Whoever waits for an answer is told now, not when the agent has left.
        while self.control.try_recv().is_ok() {}
        if let Some(running) = self.running.take() {
            self.reports.close();
            if !running.leave().await {
                tracing::warn!(session = %self.id, "the agent did not stop in time");
            }
        }
    }

    fn fresh(&mut self, at: Millis) -> FreshIds {
        self.seeds = self.seeds.wrapping_add(1);
        FreshIds::new(self.seeds, at)
    }
}

/// What a session needs from outside.
pub(crate) struct Ports {
    pub store: Arc<dyn Store>,
    pub agent: Arc<dyn Agent>,
    pub principals: Option<Arc<dyn Principals>>,
}

/// What a task is told whose turn ended because the log could not grow. None: nothing is known but that it was cut.
fn told(failure: &StoreError) -> Option<&'static str> {
    match failure {
        StoreError::Full { .. } => {
            Some("storage-full: the disk was full while this turn was running")
        }
        StoreError::Io(_) | StoreError::Locked { .. } => {
            Some("storage: the log could not be written while this turn was running")
        }
        StoreError::Busy { .. }
        | StoreError::Unknown(_)
        | StoreError::Conflict { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Damaged { .. }
        | StoreError::Newer { .. } => None,
    }
}

/// The wall clock, for people; order never depends on it.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
