//! `loggia run`: one turn in the current directory, printed as it happens.
//!
//! It is an ordinary client: it submits a prompt, follows the log and answers questions.

mod ask;
mod print;

use std::collections::{HashSet, VecDeque};
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::Context;
use futures::StreamExt;
use loggia_core::{
    Access, ApprovalId, CallId, ChoiceId, Content, Details, Edit, Envelope, Event, Mode, Origin,
    PromptId, Question, Refusal, Seq, Session, Surface, TurnId, TurnOutcome, Verdict,
};
use loggia_session::{LocalClient, SessionClient, SessionHandle, SubmitError};
use tokio::signal::unix::{SignalKind, signal};

use super::require_person::{RESUME, require_person};
use crate::cli::{Approve, OutputFormat, RunArgs};
use crate::compose::App;
use crate::config::{self, Flags};
use crate::exit::{FAILED, INTERRUPTED, NEEDS_APPROVAL, REFUSED, TERMINATED, UsageError};
use crate::style::{one_line, say};
pub(super) use ask::edit_text;
use ask::{Answer, PendingQuestion, Terminal};
use print::Printer;

/// Maximum size of a prompt.
const PROMPT_LIMIT: u64 = 1024 * 1024;

pub async fn run(args: RunArgs, app: &App) -> anyhow::Result<ExitCode> {
    let resumes = args.session.is_some() || args.continue_last;
    if resumes {
        require_person(RESUME)?;
    }
    let prompt = read_prompt(&args.prompt, resumes)?;
    let mode = args.approve.and_then(mode_of);
    let (model, effort) = (args.model.clone(), args.effort.clone());
    let loaded = app.load_config(&Flags { model, effort, mode })?;
    // Only a person may choose a more permissive mode. An agent's command gets the configured one.
    let chosen = matches!(
        loaded.origins.get("mode"),
        Some(config::ValueSource::Flag(_) | config::ValueSource::Variable(_))
    );
    if chosen && loaded.config.mode.permissiveness() > Mode::Ask.permissiveness() {
        require_person("choose an approval mode")?;
    }
    app.check_model(&loaded.config)?;
    if args.output == OutputFormat::Text && !args.quiet && !resumes {
        app.explain_offline(&loaded.config).await.iter().for_each(|line| say(line));
    }
    let store = app.open_store()?;
    let hub = app.hub(store.clone(), &loaded.config, "loggia run")?;
    let mut settings = app.settings(&loaded.config, store.as_ref()).await?;
    settings.unattended |= args.approve == Some(Approve::None);
    let origin = Origin::new(Surface::Cli, format!("cli-{}", std::process::id()).as_str());

    let wanted =
        app.wanted_session(store.as_ref(), args.session.as_deref(), args.continue_last).await?;
    let handle = app.open_session(&hub, wanted.as_ref(), settings, &loaded.config, &origin).await?;
    let watched = watch(&handle, prompt, origin, &args, app).await;
    // The log is already complete. This stops remaining work and releases the lease.
    hub.stop().await;
    watched
}

fn mode_of(approve: Approve) -> Option<Mode> {
    match approve {
        Approve::Ask | Approve::None => Some(Mode::Ask),
        Approve::Edits => Some(Mode::Edits),
        Approve::All => Some(Mode::All),
        Approve::Plan => Some(Mode::Plan),
    }
}

/// The words of the command line followed by piped input, or either alone. None only if a resumed
/// session can continue without a prompt.
fn read_prompt(words: &[String], resumes: bool) -> anyhow::Result<Option<String>> {
    let text = words.join(" ");
    let text = match text.strip_suffix('-').map(str::trim_end) {
        Some("") => read_input()?,
        Some(words) if text.ends_with(" -") => with_input(words, &read_input()?),
        _ if text.is_empty() && !std::io::stdin().is_terminal() => read_input()?,
        _ if is_piped() => with_input(&text, &read_input()?),
        _ => text,
    };
    if text.len() as u64 > PROMPT_LIMIT {
        return Err(UsageError(format!("the prompt is larger than {PROMPT_LIMIT} bytes")).into());
    }
    match text.trim().is_empty() {
        false => Ok(Some(text)),
        true if resumes => Ok(None),
        true => {
            Err(UsageError("there is no prompt: `loggia run \"what to do\"`, or pipe it in".into())
                .into())
        }
    }
}

fn read_input() -> anyhow::Result<String> {
    let mut read = String::new();
    let mut input = std::io::stdin().lock().take(PROMPT_LIMIT + 1);
    input.read_to_string(&mut read).context("the prompt on standard input is not readable text")?;
    Ok(read)
}

fn with_input(words: &str, piped: &str) -> String {
    if piped.trim().is_empty() { words.to_owned() } else { format!("{words}\n\n{piped}") }
}

/// Whether stdin is a pipe or file with data or at its end. A pipe inherited from a script may stay
/// silent, so it is not waited for.
fn is_piped() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::FileType;
    const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
    let input = std::io::stdin();
    let kind = rustix::fs::fstat(&input).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::RegularFile)) {
        return false;
    }
    let ready = poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&WAIT));
    if ready == Ok(0) {
        eprintln!(
            "loggia: standard input is silent and is not read: end the command with ` -` to wait for it"
        );
    }
    matches!(ready, Ok(1..))
}

/// The state of the session when this client opened it.
struct InitialState {
    after: Seq,
    head: Seq,
    turn: Option<TurnId>,
    /// Open questions that the current policy would not ask.
    settled: Vec<ApprovalId>,
}

fn initial_state(session: &Session) -> InitialState {
    let allowed = |call: &loggia_core::OpenCall| {
        let guest = session.turn().and_then(|turn| turn.guest.as_deref());
        let verdict = session.policy().judge(
            &call.tool,
            call.access,
            &call.details,
            guest,
            &loggia_shell::Parser,
        );
        // A command that a rule would now allow is still asked about, because approving it would
        // record a person's decision.
        let passes = match verdict {
            Verdict::Allow(_, Some(_)) => call.access != Access::Execute,
            Verdict::Allow(_, None) => true,
            Verdict::Ask(_) | Verdict::Deny(_) => false,
        };
        call.access != Access::Ask && passes
    };
    let settled = session
        .open_approvals()
        .filter(|(call, _)| allowed(call))
        .map(|(_, approval)| approval.id.clone());
    InitialState {
        after: session.turn().map_or(session.head(), |turn| Seq(turn.started.0.saturating_sub(1))),
        head: session.head(),
        turn: session.turn().map(|turn| turn.id.clone()),
        settled: settled.collect(),
    }
}

async fn watch(
    handle: &SessionHandle,
    prompt: Option<String>,
    origin: Origin,
    args: &RunArgs,
    app: &App,
) -> anyhow::Result<ExitCode> {
    let found = handle.inspect(initial_state).await?;
    if prompt.is_none() && found.turn.is_none() {
        return Err(
            UsageError("this session has nothing left to do: give it a prompt".into()).into()
        );
    }
    let client = LocalClient::new(handle.clone(), origin);
    let mut watch = Watch {
        client: &client,
        printer: Printer::new(args.output, args.quiet, app.style.clone(), handle.id().clone()),
        terminal: Terminal::open(app),
        refuse: args.approve == Some(Approve::None),
        prompt: None,
        turn: found.turn,
        pending: VecDeque::new(),
        shown: None,
        running: HashSet::new(),
        cursor: found.after,
        ask_from: found.head,
        cancelled: false,
    };
    watch.printer.begin()?;
    for approval in found.settled {
        watch.answer(approval, ChoiceId::PROCEED_ONCE.into(), None).await?;
    }
    if let Some(text) = prompt {
        let id = SessionHandle::fresh_prompt();
        watch.ask_from = client.prompt(id.clone(), Content::text(text)).await?.seq;
        watch.prompt = Some(id);
        watch.turn = None;
    }
    watch.follow_to_end(found.after).await
}

struct Watch<'a> {
    client: &'a LocalClient,
    printer: Printer,
    terminal: Option<Terminal>,
    /// `--approve none`: reject questions that were already open.
    refuse: bool,
    /// The prompt whose turn is awaited. None: the turn that was already running.
    prompt: Option<PromptId>,
    turn: Option<TurnId>,
    /// Unanswered questions, oldest first.
    pending: VecDeque<PendingQuestion>,
    /// The displayed question.
    shown: Option<ApprovalId>,
    running: HashSet<CallId>,
    cursor: Seq,
    /// Questions are handled once the log is read up to here. An earlier one may already be
    /// answered later in the log.
    ask_from: Seq,
    cancelled: bool,
}

impl Watch<'_> {
    async fn follow_to_end(&mut self, after: Seq) -> anyhow::Result<ExitCode> {
        let mut events = self.client.follow(after);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            self.refuse_all().await?;
            if let Some(code) = self.end_without_terminal()? {
                return Ok(code);
            }
            self.show_question()?;
            let asking = self.shown.is_some();
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => {
                        if let Some(code) = self.take(event?.as_ref()).await? {
                            return Ok(code);
                        }
                    }
                    None => anyhow::bail!("the session stopped; its log is kept"),
                },
                line = ask::line(&mut self.terminal), if asking => self.take_line(line).await?,
                _ = interrupt.recv() => {
                    if self.cancelled {
                        return Ok(ExitCode::from(INTERRUPTED));
                    }
                    self.cancelled = true;
                    match self.client.cancel().await {
                        // The turn is over; its end follows in the log.
                        Ok(_) | Err(SubmitError::Refused(Refusal::NothingToCancel)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                _ = terminate.recv() => return Ok(ExitCode::from(TERMINATED)),
            }
        }
    }

    async fn take(&mut self, envelope: &Envelope) -> anyhow::Result<Option<ExitCode>> {
        self.printer.event(envelope)?;
        self.cursor = envelope.seq;
        match &envelope.event {
            Event::TurnStarted { turn, prompt, .. } if self.prompt.as_ref() == Some(prompt) => {
                self.turn = Some(turn.clone());
            }
            Event::ApprovalAsked { approval, call, choices, .. } => {
                let Some(shown) = self.printer.call(call) else { return Ok(None) };
                let pending = PendingQuestion {
                    approval: approval.clone(),
                    call: call.clone(),
                    title: shown.title.clone(),
                    details: shown.details.clone(),
                    choices: choices.clone(),
                };
                self.pending.push_back(pending);
            }
            Event::ApprovalAnswered { approval, .. } => {
                self.withdraw(|known| known.approval == *approval)
            }
            Event::CallStarted { call, .. } => {
                self.running.insert(call.clone());
            }
            Event::CallEnded { call, .. } => {
                self.running.remove(call);
                self.withdraw(|known| known.call == *call);
            }
            Event::TurnEnded { turn, outcome } if self.turn.as_ref() == Some(turn) => {
                let code = match outcome {
                    TurnOutcome::Completed => 0,
                    TurnOutcome::Failed { refused: true, .. } => REFUSED,
                    TurnOutcome::Failed { .. } | TurnOutcome::Interrupted => FAILED,
                    TurnOutcome::Cancelled => INTERRUPTED,
                };
                self.printer.finish(Some(outcome))?;
                return Ok(Some(ExitCode::from(code)));
            }
            _ => {}
        }
        Ok(None)
    }

    fn withdraw(&mut self, gone: impl Fn(&PendingQuestion) -> bool) {
        self.pending.retain(|known| !gone(known));
        if !self.pending.iter().any(|known| Some(&known.approval) == self.shown.as_ref()) {
            self.shown = None;
        }
    }

    /// Without a terminal: leaves an open question open and prints how to continue. Waits for
    /// running calls first.
    fn end_without_terminal(&mut self) -> anyhow::Result<Option<ExitCode>> {
        let Some(first) = self.pending.front().filter(|_| self.cursor >= self.ask_from) else {
            return Ok(None);
        };
        if self.terminal.is_some() || !self.running.is_empty() {
            return Ok(None);
        }
        let (title, session) = (one_line(&first.title), self.printer.session().as_str());
        let details = self.printer.call(&first.call).map(|shown| &shown.details);
        let flags = match details {
            Some(Details::Edit(diff)) if !diff.protected => "--approve edits or --approve all",
            _ => "--approve all",
        };
        say(&format!(
            "approval needed to {title}, and there is no terminal to ask on.\n\
             It was not done, and the question stays open. Allow it beforehand with\n\
             {flags}, or answer it in a terminal:\n\
             loggia run --session {}",
            one_line(session)
        ));
        self.printer.finish(None)?;
        Ok(Some(ExitCode::from(NEEDS_APPROVAL)))
    }

    /// `--approve none`: rejects the questions that the session asked earlier.
    async fn refuse_all(&mut self) -> anyhow::Result<()> {
        while self.refuse
            && self.cursor >= self.ask_from
            && let Some(pending) = self.pending.pop_front()
        {
            self.answer(pending.approval, ChoiceId::CANCEL.into(), None).await?;
        }
        Ok(())
    }

    fn show_question(&mut self) -> anyhow::Result<()> {
        let caught_up = self.cursor >= self.ask_from;
        if let (true, None, Some(first), Some(terminal)) =
            (caught_up, &self.shown, self.pending.front(), &mut self.terminal)
        {
            self.printer.line_end()?;
            terminal.show(first)?;
            self.shown = Some(first.approval.clone());
        }
        Ok(())
    }

    async fn take_line(&mut self, line: Option<String>) -> anyhow::Result<()> {
        let Some(line) = line else {
            // The terminal is gone, so no more questions can be asked.
            self.terminal = None;
            self.shown = None;
            return Ok(());
        };
        let (Some(first), Some(terminal)) = (self.pending.front(), &self.terminal) else {
            return Ok(());
        };
        match terminal.parse_answer(&line, first)? {
            Some(Answer { choice, edit }) => {
                let approval = first.approval.clone();
                self.answer(approval, choice, edit).await
            }
            None => terminal.again(first),
        }
    }

    async fn answer(
        &mut self,
        approval: ApprovalId,
        choice: ChoiceId,
        edit: Option<Edit>,
    ) -> anyhow::Result<()> {
        match self.client.answer(Question::Approval(approval), choice, edit).await {
            Ok(ack) => {
                self.ask_from = self.ask_from.max(ack.seq);
                Ok(())
            }
            // Another client answered first, or the turn is over. The log tells all clients.
            Err(SubmitError::Refused(
                refusal @ (Refusal::AlreadyAnswered { .. } | Refusal::Withdrawn { .. }),
            )) => {
                say(&refusal.to_string());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
