//! What a running agent holds: the turn it works on, and a permit for each call it may run.
//!
//! A [`Permit`] has no public constructor. The actor makes one after the log holds the authority
//! for exactly that call, so a tool that wants a permit cannot run without one.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    Artifact, Authority, CallId, CallOutcome, ChoiceId, Content, Details, Edit, Envelope, Event,
    Level, MessageId, ModelName, OpenCall, PromptId, Proposal, Report, Rule, RuleId, Seq,
    SessionId, SessionName, Settings, Source, Stats, Step, TaskId, TurnId, Usage, Workspace,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::output::OutputBudget;
use crate::ports::TurnOver;

/// From the running agent to the writer. Bounded (256): when it is full the agent waits, and with
/// it the model's socket. Boxed on its way: a queue reserves room for dozens, and most sessions
/// never need it.
pub(crate) enum FromAgent {
    Report {
        turn: TurnId,
        report: Report,
        waiter: Option<Waiter>,
    },
    /// A call proposed before a restart: wake me with its verdict.
    Await {
        turn: TurnId,
        call: CallId,
        waiter: Waiter,
    },
}

pub(crate) type Waiter = oneshot::Sender<Result<Permit, CallOutcome>>;

#[derive(Debug, Clone)]
pub struct TurnContext {
    pub session: SessionId,
    /// Whose session it is, where that is known.
    pub owner: Option<Arc<str>>,
    pub turn: TurnId,
    pub task: TaskId,
    pub prompt: PromptId,
    pub content: Arc<Content>,
    /// The guest whose prompt it is; None: the owner's.
    pub guest: Option<Arc<str>>,
    /// The prompt is this command line of a person's own, which may run as it stands, once.
    pub line: Option<String>,
    pub settings: Settings,
    pub workspace: Workspace,
    /// What stands for the conversation before the turns of [`Turn::history`].
    pub summary: Option<String>,
    /// The rules in force when the turn began, the session's own included.
    pub rules: Vec<Rule>,
    /// What the session was called when the turn began.
    pub name: Option<String>,
    /// What the session has done up to this turn, its start included.
    pub stats: Stats,
}

/// A call that was proposed before a restart and still waits for its answer.
#[derive(Debug, Clone)]
pub struct PendingCall {
    pub call: CallId,
    pub message: MessageId,
    pub tool: String,
}

/// Everything an agent can do.
pub struct Turn {
    pub(crate) context: TurnContext,
    pub(crate) pending: Vec<PendingCall>,
    pub(crate) recent_from: Seq,
    pub(crate) log: Log,
    pub(crate) sender: mpsc::Sender<Box<FromAgent>>,
    pub(crate) stop: CancellationToken,
}

/// No permit: the call is over before it began, or the whole turn is.
#[derive(Debug, Clone, PartialEq)]
pub enum Denied {
    Refused(CallOutcome),
    Over(TurnOver),
}

impl From<TurnOver> for Denied {
    fn from(over: TurnOver) -> Self {
        Denied::Over(over)
    }
}

impl Turn {
    pub fn context(&self) -> &TurnContext {
        &self.context
    }

    /// Calls left open by an earlier owner of the session; empty for a turn that just began.
    pub fn pending(&self) -> &[PendingCall] {
        &self.pending
    }

    /// Cancelled when the turn is over for any reason.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// A fresh id for one reply of the model.
    pub fn message(&self) -> MessageId {
        uuid::Uuid::now_v7().into()
    }

    /// The recent turns and this one so far, oldest first, without thoughts and live output: what a
    /// model is told of holds neither, and they are most of a log. Bounded by turns, not by the
    /// session's length.
    pub async fn history(&self) -> Result<Vec<Arc<Envelope>>, TurnOver> {
        let mut after = Seq(self.recent_from.0.saturating_sub(1));
        let head = self.log.head();
        let mut events = Vec::new();
        while after < head {
            let batch =
                self.log.read(after).await.map_err(|error| TurnOver::Failed(error.to_string()))?;
            let Some(last) = batch.last() else { break };
            after = last.seq;
            let passing = |event: &Event| {
                matches!(event, Event::ThoughtAppended { .. } | Event::CallOutput { .. })
            };
            events.extend(batch.into_iter().filter(|envelope| !passing(&envelope.event)));
        }
        Ok(events)
    }

    pub async fn say(&self, message: &MessageId, text: impl Into<String>) -> Result<(), TurnOver> {
        self.report(Report::Text { message: message.clone(), text: text.into() }).await
    }

    pub async fn think(
        &self,
        message: &MessageId,
        subject: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<(), TurnOver> {
        let (subject, text) = (subject.into(), text.into());
        self.report(Report::Thought { message: message.clone(), subject, text }).await
    }

    pub async fn plan(&self, steps: Vec<Step>) -> Result<(), TurnOver> {
        self.report(Report::Plan { steps }).await
    }

    pub async fn cite(&self, sources: Vec<Source>) -> Result<(), TurnOver> {
        self.report(Report::Cite { sources }).await
    }

    pub async fn usage(&self, model: ModelName, usage: Usage) -> Result<(), TurnOver> {
        self.usage_within(model, usage, None).await
    }

    /// The same, of a model that can hold so many tokens at once.
    pub async fn usage_within(
        &self,
        model: ModelName,
        usage: Usage,
        window: Option<u64>,
    ) -> Result<(), TurnOver> {
        self.report(Report::Usage { model, usage, window }).await
    }

    pub async fn notice(&self, level: Level, text: impl Into<String>) -> Result<(), TurnOver> {
        self.report(Report::Notice { level, text: text.into() }).await
    }

    /// A result of the turn, under its name, for every client.
    pub async fn publish(&self, artifact: Artifact) -> Result<(), TurnOver> {
        self.report(Report::Publish { artifact }).await
    }

    /// The prompt was a command from a file: what it became.
    pub async fn expand(&self, command: &str, source: &str, text: &str) -> Result<(), TurnOver> {
        let (command, source, text) = (command.to_owned(), source.to_owned(), text.to_owned());
        self.report(Report::Expand { command, source, text }).await
    }

    /// From the next turn on, this stands for the conversation so far; empty to begin anew.
    pub async fn compact(&self, summary: impl Into<String>) -> Result<(), TurnOver> {
        let (summary, automatic) = (summary.into(), false);
        self.report(Report::Compact { summary, automatic }).await
    }

    /// This stands for the turns before this one, by itself. Returns when that is on disk: then it
    /// may be used.
    pub async fn compact_earlier(&self, summary: &str) -> Result<(), TurnOver> {
        let mut after = self.log.head();
        let (summary, automatic) = (summary.to_owned(), true);
        self.report(Report::Compact { summary, automatic }).await?;
        let compacted =
            |event: &Event| matches!(event, Event::ContextCompacted { automatic: true, .. });
        loop {
            let grown = self.log.reached(after.next()).await;
            let read = self.log.read(after).await;
            let read = read.map_err(|error| TurnOver::Failed(error.to_string()))?;
            let Some(last) = read.last().filter(|_| grown) else { return Err(TurnOver::Stopped) };
            if read.iter().any(|envelope| compacted(&envelope.event)) {
                return Ok(());
            }
            after = last.seq;
        }
    }

    /// Calls the session something.
    pub async fn name(&self, name: SessionName) -> Result<(), TurnOver> {
        self.report(Report::Name { name }).await
    }

    /// Takes back a permission, here and for the workspace. There is no way to give one.
    pub async fn revoke(&self, rule: RuleId) -> Result<(), TurnOver> {
        self.report(Report::Revoke { rule }).await
    }

    /// What is remembered for the workspace, by any session.
    pub async fn remembered_rules(&self) -> Result<Vec<Rule>, TurnOver> {
        let rules = self.log.remembered_rules(self.context.workspace.path()).await;
        rules.map_err(|error| TurnOver::Failed(error.to_string()))
    }

    /// Records a call that could not even be proposed.
    pub async fn invalid(
        &self,
        message: &MessageId,
        tool: &str,
        input: Value,
        outcome: CallOutcome,
    ) -> Result<CallId, TurnOver> {
        let call = CallId::from(uuid::Uuid::now_v7());
        let report = Report::Invalid {
            call: call.clone(),
            message: message.clone(),
            tool: tool.to_owned(),
            input,
            outcome,
        };
        self.report(report).await?;
        Ok(call)
    }

    /// Proposes a call and waits for a rule or a person.
    pub async fn propose(&self, call: CallId, proposal: Proposal) -> Result<Permit, Denied> {
        let (waiter, verdict) = oneshot::channel();
        let turn = self.context.turn.clone();
        let report = Report::Propose { call, proposal };
        self.send(FromAgent::Report { turn, report, waiter: Some(waiter) }).await?;
        self.verdict(verdict).await
    }

    /// Waits for the answer to a call that was proposed before a restart.
    pub async fn resume(&self, call: &CallId) -> Result<Permit, Denied> {
        let (waiter, verdict) = oneshot::channel();
        let turn = self.context.turn.clone();
        self.send(FromAgent::Await { turn, call: call.clone(), waiter }).await?;
        self.verdict(verdict).await
    }

    async fn verdict(
        &self,
        verdict: oneshot::Receiver<Result<Permit, CallOutcome>>,
    ) -> Result<Permit, Denied> {
        tokio::select! {
            biased; // a verdict that is there counts, even if the turn was stopped meanwhile
            verdict = verdict => match verdict {
                Ok(Ok(permit)) => Ok(permit),
                Ok(Err(outcome)) => Err(Denied::Refused(outcome)),
                Err(_) => Err(Denied::Over(TurnOver::Stopped)),
            },
            () = self.stop.cancelled() => Err(Denied::Over(TurnOver::Stopped)),
        }
    }

    async fn report(&self, report: Report) -> Result<(), TurnOver> {
        let turn = self.context.turn.clone();
        self.send(FromAgent::Report { turn, report, waiter: None }).await
    }

    async fn send(&self, message: FromAgent) -> Result<(), TurnOver> {
        send(&self.sender, &self.stop, message).await
    }
}

async fn send(
    sender: &mpsc::Sender<Box<FromAgent>>,
    stop: &CancellationToken,
    message: FromAgent,
) -> Result<(), TurnOver> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(TurnOver::Stopped),
        sent = sender.send(Box::new(message)) => sent.map_err(|_| TurnOver::Stopped),
    }
}

/// Proof that one call may run, once.
pub struct Permit {
    turn: TurnId,
    call: CallId,
    input: Value,
    details: Details,
    choice: Option<ChoiceId>,
    edit: Option<Edit>,
    by_rule: bool,
    limit: Duration,
    sender: mpsc::Sender<Box<FromAgent>>,
    stop: CancellationToken,
    output: OutputBudget,
}

impl Permit {
    pub(crate) fn new(
        turn: TurnId,
        open: &OpenCall,
        limit: Duration,
        sender: mpsc::Sender<Box<FromAgent>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            turn,
            call: open.id.clone(),
            input: open.input.clone(),
            details: open.details.clone(),
            choice: open.choice.clone(),
            edit: open.edit.clone(),
            by_rule: matches!(open.authority, Some(Authority::Rule { id: Some(_), .. })),
            limit,
            sender,
            stop,
            output: OutputBudget::default(),
        }
    }

    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// The input as the model gave it. What may run is what was shown: [`Permit::details`].
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// What was approved, with the person's change in it. A tool runs this, not its input.
    pub fn details(&self) -> &Details {
        &self.details
    }

    /// The answer to a question, where the call was one.
    pub fn answer(&self) -> Option<(&ChoiceId, Option<&Edit>)> {
        self.choice.as_ref().map(|choice| (choice, self.edit.as_ref()))
    }

    /// A rule lets it pass: no person has seen this very call, and none has chosen to let everything
    /// pass.
    pub fn is_by_rule(&self) -> bool {
        self.by_rule
    }

    /// How long the call may take at most.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Cancelled when the call must stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Live output, any bytes, any amount: what goes into the log is bounded, the rest is counted.
    pub async fn output(&mut self, bytes: &[u8]) -> Result<(), TurnOver> {
        if let Some(piece) = self.output.take(bytes, std::time::Instant::now()) {
            self.report_output(piece.text, piece.skipped).await?;
        }
        Ok(())
    }

    /// Shows the agent's plan as the call knows it.
    pub async fn plan(&self, steps: Vec<Step>) -> Result<(), TurnOver> {
        let turn = self.turn.clone();
        let report = Report::Plan { steps };
        send(&self.sender, &self.stop, FromAgent::Report { turn, report, waiter: None }).await
    }

    /// Ends the call. Output held back is logged first.
    pub async fn end(mut self, outcome: CallOutcome) -> Result<(), TurnOver> {
        if let Some(piece) = self.output.finish() {
            self.report_output(piece.text, piece.skipped).await?;
        }
        let report = Report::End { call: self.call.clone(), outcome };
        let turn = self.turn.clone();
        send(&self.sender, &self.stop, FromAgent::Report { turn, report, waiter: None }).await
    }

    async fn report_output(&self, text: String, skipped: u64) -> Result<(), TurnOver> {
        let report = Report::Output { call: self.call.clone(), text, skipped };
        let turn = self.turn.clone();
        send(&self.sender, &self.stop, FromAgent::Report { turn, report, waiter: None }).await
    }
}
