//! The agent at work for the writer: how a turn is begun, and what may be computed ahead of the log.
//!
//! A turn is acted on when its prompt is on disk, not before. To *compute* what it comes to is no
//! act: where an agent touches nothing before it has waited ([`Agent::waits_to_act`]), and whoever
//! prompts waits for the outcome and not for the prompt, the writer lets the agent run up to there in
//! the very step that accepts the prompt. An agent that never waited has
//! said all it had to say, and the prompt and its outcome are one append: the same events in the
//! same order as in two, all of them on disk before anybody sees the first. An agent that waits (for
//! a permit, a person, a clock, a file, [`Turn::on_disk`]) stays where it is until the prompt is on
//! disk. Should the append fail, what was computed is forgotten with it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use loggia_core::{Effect, Level, Report, TurnId, TurnOutcome};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Actor, Step};
use crate::boxed::boxed;
use crate::handle::Told;
use crate::ports::{Agent, TurnOver};
use crate::turn::{FromAgent, PendingCall, Turn, TurnContext};

/// How long the next turn waits for the last one's agent to leave.
const AGENT_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Running {
    pub turn: TurnId,
    pub stop: CancellationToken,
    /// Stops the agent even if this writer ends in a panic.
    _guard: DropGuard,
    /// None: its first look was all it needed.
    task: Option<JoinHandle<()>>,
}

impl Running {
    /// Told to go; false if it is still there when its time is up.
    pub async fn leave(self) -> bool {
        self.stop.cancel();
        match self.task {
            Some(task) => tokio::time::timeout(AGENT_GRACE, task).await.is_ok(),
            None => true,
        }
    }

    pub fn has_left(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// An agent that has looked at its turn and waits. Dropped, it has done nothing.
pub(super) struct Begun {
    turn: TurnId,
    stop: CancellationToken,
    working: BoxFuture<'static, ()>,
}

impl Actor {
    /// Lets the agent compute what it can of the turn that this step starts.
    pub(super) fn look_ahead(&mut self, step: &mut Step) {
        // Nothing else is to be done first, and all that the agent can read is visible.
        let [Effect::StartTurn(turn)] = step.effects.as_slice() else { return };
        let alone = self.running.as_ref().is_none_or(Running::has_left) && !self.stopping;
        // Whoever wants to know that a prompt is on disk is not kept waiting for more.
        let patient = step.replies.iter().all(|(told, ..)| *told == Told::Settled);
        if !alone || !patient || !step.batch.only_begins() || !self.agent.waits_to_act() {
            return;
        }
        let turn = turn.clone();
        let Some(mut begun) = self.begin(&turn, None) else { return };
        if begun.working.as_mut().now_or_never().is_none() {
            step.begun = Some(begun);
            return;
        }
        // All of it, the end last.
        self.running = None;
        while let Ok(message) = self.reports.try_recv() {
            self.take_report(*message, step);
        }
    }

    /// Runs the agent on a turn that is on disk.
    pub(super) fn start_turn(&mut self, turn: &TurnId, begun: Option<Begun>) {
        // Cancelled in the step that started it, or over already: it needs no agent.
        if self.session.turn().is_none_or(|open| open.id != *turn) {
            return;
        }
        let previous = self.running.take();
        let begun = match begun.filter(|begun| begun.turn == *turn) {
            // The one before has left, or nobody would have begun.
            Some(begun) => begun,
            None => match self.begin(turn, previous) {
                Some(begun) => begun,
                None => return,
            },
        };
        let Begun { turn, stop, mut working } = begun;
        // A turn that needs to wait for nothing is done here and now, without a task of its own.
        let waits = working.as_mut().now_or_never().is_none();
        let task = waits.then(|| tokio::spawn(working));
        let guard = stop.clone().drop_guard();
        self.running = Some(Running { turn, stop, _guard: guard, task });
    }

    /// The work on the open turn, not yet looked at.
    fn begin(&mut self, turn: &TurnId, previous: Option<Running>) -> Option<Begun> {
        let open = self.session.turn().filter(|open| open.id == *turn)?;
        let opened = self.session.opened()?;
        let stop = CancellationToken::new();
        let work = Turn {
            context: TurnContext {
                session: self.id.clone(),
                owner: opened.principal.clone(),
                turn: turn.clone(),
                task: open.task.clone(),
                prompt: open.prompt.clone(),
                content: open.content.clone(),
                guest: open.guest.clone(),
                line: open.line.clone(),
                settings: opened.settings.clone(),
                workspace: opened.workspace.clone(),
                summary: self
                    .session
                    .compacted()
                    .map(|compacted| compacted.summary.clone())
                    .filter(|summary| !summary.is_empty()),
                rules: self.session.policy().rules.clone(),
                name: self.session.name().map(str::to_owned),
                stats: self.session.stats().clone(),
            },
            pending: open.calls.iter().map(pending_call).collect(),
            started: open.started,
            recent_from: self.session.recent_from(),
            log: self.log.clone(),
            sender: self.report_sender.clone(),
            stop: stop.clone(),
        };
        let agent = self.agent.clone();
        let working = boxed(move || drive(agent, work, previous));
        Some(Begun { turn: turn.clone(), stop, working })
    }
}

fn pending_call(open: &loggia_core::OpenCall) -> PendingCall {
    PendingCall { call: open.id.clone(), message: open.message.clone(), tool: open.tool.clone() }
}

/// Runs the agent on one turn and reports how it ended, through the same queue as everything else
/// it said, so that the end comes last.
async fn drive(agent: Arc<dyn Agent>, turn: Turn, previous: Option<Running>) {
    // A tool of the last turn must be gone before the next turn touches the same files.
    if let Some(previous) = previous
        && !previous.leave().await
    {
        tracing::warn!("the last turn's agent did not stop in time");
    }
    let (id, sender, stop) = (turn.context().turn.clone(), turn.sender.clone(), turn.stop.clone());
    if stop.is_cancelled() {
        return; // cancelled while the last agent was leaving
    }
    let ended = AssertUnwindSafe(async { agent.run(turn).await }).catch_unwind().await;
    if stop.is_cancelled() {
        return;
    }
    let outcome = match ended {
        Ok(Ok(())) => TurnOutcome::Completed,
        Ok(Err(TurnOver::Failed(message))) => TurnOutcome::failed(message),
        Ok(Err(TurnOver::Stopped)) => TurnOutcome::failed("the agent stopped without a reason"),
        Err(panic) => {
            let message = format!("internal error: {}", panic_text(panic.as_ref()));
            let report = Report::Notice { level: Level::Error, text: message.clone() };
            let notice = FromAgent::Report { turn: id.clone(), report, waiter: None };
            // A closed queue means that the session is gone, and with it everybody who could care.
            let _ = sender.send(Box::new(notice)).await;
            TurnOutcome::failed(message)
        }
    };
    let report = Report::Finish { outcome };
    let _ = sender.send(Box::new(FromAgent::Report { turn: id, report, waiter: None })).await;
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}
