//! The actor of one session: the only task that decides, appends and acts.
//!
//! It runs from the opening of the session until the session is stopped or closed for being idle. Each step: wait for
//! a message, drain the other messages that have arrived, decide, append, publish, reply, act. The order never
//! changes: durable, then visible, then acted on. A failed append stops the actor; the next opening repairs the
//! session.
//!
//! [`turn_runner`] runs the agent, [`approval_timeout`] says when a question has been open for too long,
//! [`revoked_rules`] finds rules that were revoked outside of the session.

mod approval_timeout;
mod revoked_rules;
mod turn_runner;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loggia_core::{
    ApprovalId, CallId, CallOutcome, CallState, Command, Effect, FreshIds, Millis, Origin, Refusal,
    Report, Session, SessionId, Stamped, effects,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backlog::{Backlog, Charge, Reserved};
use crate::batch::Batch;
use crate::handle::{Ack, ActorAddress, Control, Inspection, Reply, SubmitError};
use crate::hub::open_sessions::{IdleCheck, OpenSessions, Registration};
use crate::log::{self, Log, Publisher};
use crate::ports::{Agent, Lease, Principals, Store, StoreError};
use crate::turn::{FromAgent, Permit, Waiter};
use approval_timeout::ApprovalTimeouts;
use turn_runner::Running;

const CONTROL_INBOX: usize = 64;
/// One step may take all of them, unless they are large, so that readers are woken once.
const REPORT_INBOX: usize = 256;
const CONTROL_DRAIN: usize = 32;

type PermitResult = Result<Permit, CallOutcome>;

pub(crate) struct Actor {
    id: SessionId,
    session: Session,
    /// Dropped before `publisher`: when the log is closed, the session is free for the next owner.
    lease: Lease,
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    principals: Option<Arc<dyn Principals>>,
    /// A proposed call that waits for the check of the rules.
    held: Option<Box<FromAgent>>,
    publisher: Publisher,
    log: Log,
    control: mpsc::Receiver<Box<Control>>,
    reports: mpsc::Receiver<Box<FromAgent>>,
    report_sender: mpsc::Sender<Box<FromAgent>>,
    running: Option<Running>,
    /// Agents waiting in `propose`, by call.
    waiters: HashMap<CallId, Waiter>,
    /// Calls that an earlier owner left open, until the agent has claimed them. An answer may arrive before the
    /// agent asks for it.
    inherited: HashSet<CallId>,
    unclaimed: HashMap<CallId, PermitResult>,
    /// The share of the clients' memory that running and waiting prompts use.
    charge: Charge,
    approval_timeouts: ApprovalTimeouts,
    seeds: u64,
    stopping: bool,
    /// For a session that begins with its first command: the command that opens it.
    unopened: Option<(Command, Origin)>,
    /// Dropped last, when nothing of the actor is left.
    registration: Registration,
}

/// One drained step before it is durable.
#[derive(Default)]
struct ActorStep {
    batch: Batch,
    replies: Vec<(Reply, Result<Ack, SubmitError>)>,
    /// Memory of the commands in this step, until `charge` counts it.
    reserved: Vec<Reserved>,
    inspections: Vec<Inspection>,
    effects: Vec<Effect>,
    /// The rules have been compared with the store.
    rules_checked: bool,
}

impl Actor {
    /// Takes over an open log. [`Actor::recover`] finishes what the last owner left, if there was one, and
    /// [`Actor::run`] serves.
    pub fn new(
        session: Session,
        lease: Lease,
        Ports { store, agent, principals }: Ports,
        sessions: &Arc<OpenSessions>,
        backlog: &Arc<Backlog>,
    ) -> (Arc<ActorAddress>, Self) {
        let (id, epoch) = (lease.session.clone(), lease.epoch);
        let (publisher, log) = log::log(id.clone(), store.clone(), session.head());
        // When full: a caller gets busy (handle.rs), an agent waits (turn.rs).
        let (control_sender, control) = mpsc::channel(CONTROL_INBOX);
        let (report_sender, reports) = mpsc::channel(REPORT_INBOX);
        let address = Arc::new(ActorAddress {
            id: id.clone(),
            epoch,
            control: control_sender,
            log: log.clone(),
            backlog: backlog.clone(),
        });
        let actor = Actor {
            id,
            session,
            lease,
            store,
            agent,
            principals,
            held: None,
            publisher,
            log,
            control,
            reports,
            report_sender,
            running: None,
            waiters: HashMap::new(),
            inherited: HashSet::new(),
            unclaimed: HashMap::new(),
            charge: Charge::new(backlog),
            approval_timeouts: ApprovalTimeouts::default(),
            seeds: uuid::Uuid::now_v7().as_u64_pair().1,
            stopping: false,
            unopened: None,
            registration: Registration::new(sessions, &address),
        };
        (address, actor)
    }

    /// Opens the session in the step of its first command.
    pub fn opening_with(self, command: Command, origin: Origin) -> Self {
        Self { unopened: Some((command, origin)), ..self }
    }

    /// `failure` is why the last owner stopped, if it was this process and an append failed.
    pub async fn recover(&mut self, failure: Option<&StoreError>) -> Result<(), StoreError> {
        let at = now();
        let fresh = self.fresh(at);
        let mut step = ActorStep::default();
        for event in self.session.recover_after(failure.and_then(interruption), &fresh) {
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

    pub async fn run(mut self) {
        loop {
            let idle_until = match self.check_idle() {
                IdleCheck::Wait => None,
                IdleCheck::Idle(until) => Some(until),
                IdleCheck::Close => break,
            };
            let mut step = ActorStep::default();
            if !self.next(idle_until, &mut step).await || !self.conclude(step).await {
                break;
            }
        }
        self.leave().await;
    }

    fn check_idle(&mut self) -> IdleCheck {
        let open = self.session.turn().is_some() || self.session.queue().len() > 0;
        if open || !self.reports.is_empty() {
            return IdleCheck::Wait;
        }
        let check = self.registration.check_idle(&mut self.control);
        if matches!(check, IdleCheck::Idle(_)) {
            self.log.release_memory();
        }
        check
    }

    /// Waits for something to do and adds it to the step. False: no client can reach this session, and the hub is
    /// gone.
    async fn next(&mut self, idle_until: Option<Instant>, step: &mut ActorStep) -> bool {
        if self.held.is_some() {
            self.propose_held(step).await;
            return true;
        }
        let timeout = self.approval_timeouts.next(&self.session, now);
        let due = timeout.as_ref().map(|(due, _)| *due);
        tokio::select! {
            biased; // control first: a cancel or an answer must not wait behind a stream
            message = self.control.recv() => match message {
                Some(message) => self.take_control(*message, step),
                None => return false,
            },
            () = reached(due) => {
                if let Some((_, approval)) = timeout {
                    self.expire(approval, step);
                }
            }
            Some(message) = self.reports.recv() => self.take_report(*message, step),
            () = reached(idle_until) => {}
        }
        true
    }

    /// Adds the messages that have arrived meanwhile and commits. False: this was the last step.
    async fn conclude(&mut self, mut step: ActorStep) -> bool {
        self.drain(&mut step);
        if let Err(error) = self.commit(step).await {
            tracing::error!(session = %self.id, %error, "the session stops: its log cannot grow");
            return false;
        }
        !self.stopping
    }

    fn drain(&mut self, step: &mut ActorStep) {
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

    fn take_control(&mut self, message: Control, step: &mut ActorStep) {
        let commands = matches!(message, Control::Submit { .. } | Control::Inspect(_));
        if commands
            && let Some((command, origin)) = self.unopened.take()
            && let Err(refusal) = self.decide(command, &origin, step)
        {
            tracing::error!(session = %self.id, %refusal, "a new session was not opened");
        }
        match message {
            Control::Submit { command, origin, reply, reserved } => {
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
                        let asked = self.session.asked_by_reply(reply, &origin);
                        (asked, reply.task.existing().cloned())
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
                step.replies.push((reply, result.map_err(SubmitError::from)));
            }
            Control::Inspect(inspection) => step.inspections.push(inspection),
            Control::CheckIdle => {} // checked before the next step
            Control::Stop => self.stopping = true,
        }
    }

    fn take_report(&mut self, message: FromAgent, step: &mut ActorStep) {
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
                    // The turn is over already. Dropping the waiter tells the agent.
                    Err(refusal) => tracing::debug!(session = %self.id, %refusal, "report refused"),
                }
            }
            FromAgent::Await { turn, call, waiter } => {
                self.inherited.remove(&call);
                let asked = |open: &loggia_core::OpenCall| open.state == CallState::Asked;
                // Answered in this step: the verdict is sent when the answer is durable.
                let decided = step.effects.iter().any(|effect| effect.answers(&call));
                if let Some(verdict) = self.unclaimed.remove(&call) {
                    // An error means that the agent is gone, and its turn over.
                    let _ = waiter.send(verdict);
                } else if self.session.turn().is_some_and(|open| open.id == turn)
                    && (decided || self.session.open_call(&call).is_some_and(asked))
                {
                    self.waiters.insert(call, waiter);
                }
            }
        }
    }

    fn expire(&mut self, approval: ApprovalId, step: &mut ActorStep) {
        let command = Command::Expire { approval };
        if let Err(refusal) = self.decide(command, &Origin::timeout(), step) {
            tracing::error!(session = %self.id, %refusal, "a question cannot expire");
        }
    }

    /// Decides one command and applies the resulting events to the private state.
    fn decide(
        &mut self,
        command: Command,
        origin: &Origin,
        step: &mut ActorStep,
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

    async fn commit(&mut self, step: ActorStep) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        if !step.batch.is_empty() {
            let append = step.batch.into_append(&self.session);
            let events = append.events.clone();
            outcome = self.store.append(&self.lease, append).await;
            match &outcome {
                Ok(()) => {
                    self.publisher.publish(&events);
                    // Logs numbers only: contents must not leave the event log.
                    tracing::debug!(session = %self.id, events = events.len(), head = %self.log.head(), "appended");
                }
                Err(error) => {
                    // Recorded before anything closes: later callers are told this reason.
                    self.publisher.fail(error);
                    self.registration.failed(error);
                    // Closed before the replies are sent: a caller that opens the session again gets a new opening.
                    self.control.close();
                }
            }
        }
        self.charge.set(&self.session);
        drop(step.reserved);
        for (reply, result) in step.replies {
            let result = match &outcome {
                Ok(()) => result,
                Err(error) => Err(SubmitError::Store(error.clone())),
            };
            // An error means that the caller is gone.
            let _ = reply.send(result);
        }
        outcome?;
        for inspection in step.inspections {
            inspection(&self.session);
        }
        for effect in step.effects {
            self.act(effect);
        }
        Ok(())
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::StartTurn(turn) => self.start_turn(&turn),
            Effect::Grant(call) => {
                let Some(running) = &self.running else { return };
                // The call ended in the same step: the denial follows.
                let Some(open) = self.session.open_call(&call) else { return };
                let stop = running.stop.child_token();
                let sender = self.report_sender.clone();
                let opened = self.session.opened();
                let limit = opened.map_or(0, |opened| opened.settings.limits.call_seconds);
                let limit = Duration::from_secs(limit);
                let permit = Permit::new(running.turn.clone(), open, limit, sender, stop);
                self.give_verdict(call, Ok(permit));
            }
            Effect::Deny(call, outcome) => self.give_verdict(call, Err(outcome)),
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

    fn give_verdict(&mut self, call: CallId, verdict: PermitResult) {
        if let Some(waiter) = self.waiters.remove(&call) {
            // An error means that the agent was stopped: its call ends with the turn.
            let _ = waiter.send(verdict);
        } else if self.inherited.contains(&call) {
            self.unclaimed.insert(call, verdict);
        }
    }

    /// Stops the agent and gives it time to clean up. The log stays as it is.
    async fn leave(mut self) {
        self.control.close();
        // Callers that wait for a reply learn now that the session has stopped, not when the agent is gone.
        while self.control.try_recv().is_ok() {}
        if let Some(running) = self.running.take() {
            self.reports.close();
            if !running.stop().await {
                tracing::warn!(session = %self.id, "the agent did not stop in time");
            }
        }
    }

    fn fresh(&mut self, at: Millis) -> FreshIds {
        self.seeds = self.seeds.wrapping_add(1);
        FreshIds::new(self.seeds, at)
    }
}

/// The ports that a session uses.
pub(crate) struct Ports {
    pub store: Arc<dyn Store>,
    pub agent: Arc<dyn Agent>,
    pub principals: Option<Arc<dyn Principals>>,
}

/// The reason given for a turn that ended because an append failed. None: it was interrupted for no known reason.
fn interruption(failure: &StoreError) -> Option<&'static str> {
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

/// The wall clock, shown to people. Order never depends on it.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns at this time, or never if there is none.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
