//! Runs the agent: each turn in a task of its own, started when its prompt is durable.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use loggia_core::{Level, Report, TurnId, TurnOutcome};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Actor;
use crate::ports::{Agent, TurnOver};
use crate::turn::{FromAgent, PendingCall, Turn, TurnContext};

/// How long the next turn waits for the previous agent to stop.
const AGENT_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Running {
    pub turn: TurnId,
    pub stop: CancellationToken,
    /// Stops the agent even if the actor panics.
    _guard: DropGuard,
    task: JoinHandle<()>,
}

impl Running {
    /// Tells the agent to stop. False if it is still running when its time is up.
    pub async fn stop(self) -> bool {
        self.stop.cancel();
        tokio::time::timeout(AGENT_GRACE, self.task).await.is_ok()
    }
}

impl Actor {
    pub(super) fn start_turn(&mut self, turn: &TurnId) {
        // A turn that was cancelled in the step that started it needs no agent.
        let Some(open) = self.session.turn().filter(|open| open.id == *turn) else { return };
        let Some(opened) = self.session.opened() else { return };
        let stop = CancellationToken::new();
        let started = Turn {
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
            recent_from: self.session.recent_from(),
            context_from: self.session.context_from(),
            log: self.log.clone(),
            principals: self.principals.clone(),
            sender: self.report_sender.clone(),
            stop: stop.clone(),
        };
        let task = tokio::spawn(run_turn(self.agent.clone(), started, self.running.take()));
        let guard = stop.clone().drop_guard();
        self.running = Some(Running { turn: turn.clone(), stop, _guard: guard, task });
    }
}

fn pending_call(open: &loggia_core::OpenCall) -> PendingCall {
    PendingCall { call: open.id.clone(), message: open.message.clone(), tool: open.tool.clone() }
}

/// Runs the agent on one turn and reports its outcome. The outcome goes through the same queue as the agent's other
/// reports, so it comes last.
async fn run_turn(agent: Arc<dyn Agent>, turn: Turn, previous: Option<Running>) {
    // A tool of the previous turn must be gone before this turn touches the same files.
    if let Some(previous) = previous
        && !previous.stop().await
    {
        tracing::warn!("the agent of the previous turn did not stop in time");
    }
    let (id, sender, stop) = (turn.context().turn.clone(), turn.sender.clone(), turn.stop.clone());
    if stop.is_cancelled() {
        return; // cancelled while the previous agent was stopping
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
            let report = Report::Notice { level: Level::Error, text: message.clone(), wait: None };
            let notice = FromAgent::Report { turn: id.clone(), report, waiter: None };
            // An error means that the actor is gone.
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
