//! The agent's side of a session: the turn it works on, and a permit for each call it may run.
//!
//! A [`Permit`] has no public constructor. The actor makes one after the log holds the authority
//! for exactly that call, so a tool that needs a permit cannot run without one.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    Artifact, Authority, CallId, CallOutcome, ChoiceId, CompactReach, Content, Details, Edit,
    Envelope, Event, Level, MessageId, ModelChoice, ModelName, ModelRecord, OpenCall, PlanStep,
    PromptId, Proposal, Report, Rule, RuleId, Seq, SessionId, SessionName, Settings, Source, Stats,
    TaskId, TurnId, Usage, Workspace,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::output::OutputBudget;
use crate::ports::TurnOver;

/// A message from the running agent to the actor. The queue is bounded (256). When it is full, the agent waits and
/// stops reading from the model. Messages are boxed because a queue allocates memory for dozens of them, and most
/// sessions never need it.
pub(crate) enum FromAgent {
    Report {
        turn: TurnId,
        report: Report,
        waiter: Option<Waiter>,
    },
    /// Waits for the verdict on a call that was proposed before a restart.
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
    /// The principal that the session belongs to, if it is known.
    pub owner: Option<Arc<str>>,
    pub turn: TurnId,
    pub task: TaskId,
    pub prompt: PromptId,
    pub content: Arc<Content>,
    /// The guest who sent the prompt. None: the owner.
    pub guest: Option<Arc<str>>,
    /// The prompt is a command line that a person typed. It may run exactly as it is, once.
    pub line: Option<String>,
    pub settings: Settings,
    pub workspace: Workspace,
    /// Replaces the conversation before the turns of [`Turn::history`].
    pub summary: Option<String>,
    /// The rules in force when the turn began, including those of the session.
    pub rules: Vec<Rule>,
    /// The name of the session when the turn began.
    pub name: Option<String>,
    /// The counts of the session up to and including the start of this turn.
    pub stats: Stats,
}

/// A call that was proposed before a restart and still waits for its answer.
#[derive(Debug, Clone)]
pub struct PendingCall {
    pub call: CallId,
    pub message: MessageId,
    pub tool: String,
}

/// The turn that an agent works on. All that an agent does goes through this.
pub struct Turn {
    pub(crate) context: TurnContext,
    pub(crate) pending: Vec<PendingCall>,
    pub(crate) recent_from: Seq,
    pub(crate) context_from: Seq,
    pub(crate) log: Log,
    pub(crate) sender: mpsc::Sender<Box<FromAgent>>,
    pub(crate) stop: CancellationToken,
}

/// Why there is no permit: the call was refused, or the turn is over.
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

    /// Calls that an earlier owner of the session left open. Empty for a new turn.
    pub fn pending(&self) -> &[PendingCall] {
        &self.pending
    }

    /// Cancelled when the turn is over for any reason.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// A new id for one reply of the model.
    pub fn message(&self) -> MessageId {
        uuid::Uuid::now_v7().into()
    }

    /// The recent turns and this one so far, oldest first. Thoughts and live output are left out: a model is not told
    /// of them, and they are most of a log. Bounded by the number of turns, not by the length of the session.
    pub async fn recent_history(&self) -> Result<Vec<Arc<Envelope>>, TurnOver> {
        self.history_from(self.recent_from).await
    }

    /// The same with every turn since the last compaction.
    pub async fn history(&self) -> Result<Vec<Arc<Envelope>>, TurnOver> {
        self.history_from(self.context_from).await
    }

    async fn history_from(&self, first: Seq) -> Result<Vec<Arc<Envelope>>, TurnOver> {
        let mut after = Seq(first.0.saturating_sub(1));
        let head = self.log.head();
        let mut events = Vec::new();
        while after < head {
            let batch =
                self.log.read(after).await.map_err(|error| TurnOver::Failed(error.to_string()))?;
            let Some(last) = batch.last() else { break };
            after = last.seq;
            let left_out = |event: &Event| {
                matches!(event, Event::ThoughtAppended { .. } | Event::CallOutput { .. })
            };
            events.extend(batch.into_iter().filter(|envelope| !left_out(&envelope.event)));
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

    pub async fn plan(&self, steps: Vec<PlanStep>) -> Result<(), TurnOver> {
        self.report(Report::Plan { steps }).await
    }

    pub async fn cite(&self, sources: Vec<Source>) -> Result<(), TurnOver> {
        self.report(Report::Cite { sources }).await
    }

    pub async fn usage(&self, model: ModelName, usage: Usage) -> Result<(), TurnOver> {
        self.usage_within(model, usage, None).await
    }

    /// The same for a model with this context window, in tokens.
    pub async fn usage_within(
        &self,
        model: ModelName,
        usage: Usage,
        window: Option<u64>,
    ) -> Result<(), TurnOver> {
        self.report(Report::Usage { model, usage, window }).await
    }

    pub async fn notice(&self, level: Level, text: impl Into<String>) -> Result<(), TurnOver> {
        self.report(Report::Notice { level, text: text.into(), wait: None }).await
    }

    /// A notice about a wait that begins now.
    pub async fn waiting(
        &self,
        level: Level,
        text: impl Into<String>,
        wait: Duration,
    ) -> Result<(), TurnOver> {
        let wait = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self.report(Report::Notice { level, text: text.into(), wait }).await
    }

    /// Records what only the model needs.
    pub async fn record(&self, record: ModelRecord) -> Result<(), TurnOver> {
        self.report(Report::Record { record }).await
    }

    /// Discards the text and the thoughts of a reply that broke off.
    pub async fn discard(&self, message: &MessageId) -> Result<(), TurnOver> {
        self.report(Report::Discard { message: message.clone() }).await
    }

    /// Publishes a named result of the turn to every client.
    pub async fn publish(&self, artifact: Artifact) -> Result<(), TurnOver> {
        self.report(Report::Publish { artifact }).await
    }

    /// Records the prompt that a command from a file was expanded to.
    pub async fn expand(&self, command: &str, source: &str, text: &str) -> Result<(), TurnOver> {
        let (command, source, text) = (command.to_owned(), source.to_owned(), text.to_owned());
        self.report(Report::Expand { command, source, text }).await
    }

    /// From the next turn on, the summary replaces the conversation so far. An empty summary clears it.
    pub async fn compact(&self, summary: impl Into<String>) -> Result<(), TurnOver> {
        let (summary, reach) = (summary.into(), CompactReach::Everything);
        self.report(Report::Compact { summary, reach }).await
    }

    /// The summary replaces the turns before this one, or also the replies of this one (automatic compaction). Returns
    /// when it is durable, so that it may be used.
    pub async fn compact_now(&self, summary: &str, reach: CompactReach) -> Result<(), TurnOver> {
        let mut after = self.log.head();
        self.report(Report::Compact { summary: summary.to_owned(), reach }).await?;
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

    /// Names the session.
    pub async fn name(&self, name: SessionName) -> Result<(), TurnOver> {
        self.report(Report::Name { name }).await
    }

    /// Changes the model or the effort of the turns that follow.
    pub async fn choose(&self, choice: ModelChoice) -> Result<(), TurnOver> {
        self.report(Report::Choose { choice }).await
    }

    /// Revokes a rule, for the session and for the workspace. An agent cannot add one.
    pub async fn revoke(&self, rule: RuleId) -> Result<(), TurnOver> {
        self.report(Report::Revoke { rule }).await
    }

    /// The rules that any session remembered for the workspace.
    pub async fn remembered_rules(&self) -> Result<Vec<Rule>, TurnOver> {
        let rules = self.log.remembered_rules(self.context.workspace.path()).await;
        rules.map_err(|error| TurnOver::Failed(error.to_string()))
    }

    /// A new id for one call.
    pub fn call(&self) -> CallId {
        uuid::Uuid::now_v7().into()
    }

    /// Records a call that could not be proposed.
    pub async fn invalid(
        &self,
        call: CallId,
        message: &MessageId,
        tool: &str,
        input: Value,
        outcome: CallOutcome,
    ) -> Result<(), TurnOver> {
        let report = Report::Invalid {
            call,
            message: message.clone(),
            tool: tool.to_owned(),
            input,
            outcome,
        };
        self.report(report).await
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
            biased; // a verdict that has arrived is used even if the turn was stopped meanwhile
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

    /// The input from the model. A tool runs [`Permit::details`] instead, which is what was shown.
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// The approved call, including the change that a person made. A tool runs this, not its input.
    pub fn details(&self) -> &Details {
        &self.details
    }

    /// The answer, if the call was a question.
    pub fn answer(&self) -> Option<(&ChoiceId, Option<&Edit>)> {
        self.choice.as_ref().map(|choice| (choice, self.edit.as_ref()))
    }

    /// A rule allows the call: no person has seen it, and the mode does not allow everything.
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

    /// Live output, any bytes and any amount. The log gets a bounded part, and the rest is counted.
    pub async fn output(&mut self, bytes: &[u8]) -> Result<(), TurnOver> {
        if let Some(piece) = self.output.take(bytes, std::time::Instant::now()) {
            self.report_output(piece.text, piece.skipped).await?;
        }
        Ok(())
    }

    /// Shows the agent's plan.
    pub async fn plan(&self, steps: Vec<PlanStep>) -> Result<(), TurnOver> {
        let turn = self.turn.clone();
        let report = Report::Plan { steps };
        send(&self.sender, &self.stop, FromAgent::Report { turn, report, waiter: None }).await
    }

    /// Ends the call. Logs the output that was held back first.
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
