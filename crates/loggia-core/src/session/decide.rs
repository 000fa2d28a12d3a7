//! Every decision of a session. This is the only place where an approval is answered.
//!
//! A decision reads the state and returns the events that follow, or a refusal. It changes nothing and
//! does no I/O: two clients that race are two commands, one after the other.

use std::sync::Arc;

use crate::approval::{AnswerMessage, ChoiceId, Edit, KnownChoice, Question};
use crate::call::{Access, CallOutcome, CallState, Details};
use crate::command::{
    Cancel, Command, CompactReach, ModelChoice, Proposal, QueueBound, Refusal, Report,
    SHELL_PREFIX, SHELL_TOOL, Stamped, TaskChoice,
};
use crate::content::Content;
use crate::event::{Amendment, Authority, CloseReason, Event, Level, Screening, TurnOutcome};
use crate::id::{ApprovalId, CallId, FreshIds, PromptId, RuleId, Seq, TaskId};
use crate::name::SessionName;
use crate::origin::Origin;
use crate::policy::{self, Rule, RuleLifetime, Verdict};
use crate::session::{
    ClosedQuestion, Closing, OpenCall, OpenTurn, QUEUE_BYTES, QUEUE_LIMIT, QUEUE_OTHERS,
    QUEUE_OTHERS_BYTES, QUEUE_SHARE, QUEUE_SHARE_BYTES, READY_LIMIT, SUMMARY_LIMIT, Session,
};
use crate::settings::Settings;
use crate::shell::ShellParser;
use crate::timeout::OnTimeout;

pub(super) type Decision = Result<Vec<Event>, Refusal>;

/// The inputs of a decision besides the state and the command.
pub(super) struct Context<'a> {
    pub origin: &'a Origin,
    pub fresh: &'a FreshIds,
    pub shell: &'a dyn ShellParser,
}

/// An answer to a question.
pub(super) struct Answer<'a> {
    pub to: &'a Question,
    pub choice: &'a ChoiceId,
    pub edit: Option<&'a Edit>,
    pub message: Option<&'a AnswerMessage>,
}

// Positions in a command's new ids, so that one decision never uses the same id twice.
const TASK: u64 = 0;
const TURN: u64 = 1;
const APPROVAL: u64 = 2;
const RULE: u64 = 3;

/// Why a call that needs an approval is refused in an unattended session.
const UNATTENDED: &str = "it needs an approval, and this session is unattended";

impl Session {
    pub fn decide(&self, stamped: &Stamped<Command>, shell: &dyn ShellParser) -> Decision {
        let Stamped { command, origin, fresh, .. } = stamped;
        let context = &Context { origin, fresh, shell };
        match (command, &self.opened) {
            (Command::Open { .. }, Some(_)) => return Err(Refusal::AlreadyOpen),
            (Command::Open { .. }, None) => {}
            (_, None) => return Err(Refusal::NotOpen),
            (_, Some(_)) if self.closed.is_some() => return Err(Refusal::SessionClosed),
            (_, Some(_)) => {}
        }
        match command {
            Command::Open { workspace, settings, agent } => Ok(vec![Event::SessionOpened {
                workspace: workspace.clone(),
                settings: settings.clone(),
                agent: agent.clone(),
            }]),
            Command::OpenTask { task, profile } => self.open_task(task, profile.as_deref()),
            Command::Prompt { prompt, task, content } => {
                self.prompt(prompt, task, content, false, context)
            }
            Command::Reply(reply) => self.reply(reply, context),
            Command::Screened { prompt, task, content, screening } => {
                self.screened(prompt, task, content, screening, fresh)
            }
            Command::Shell { prompt, line } => {
                let content = Content::text(format!("{}{line}", SHELL_PREFIX));
                self.prompt(prompt, &TaskChoice::New, &content, true, context)
            }
            Command::Answer { to, choice, edit, digest, message } => {
                let answer = Answer { to, choice, edit: edit.as_ref(), message: message.as_ref() };
                self.answer(&answer, digest.as_deref(), context)
            }
            Command::Expire { approval } => Ok(self.expire(approval, fresh)),
            Command::Cancel { what } => self.cancel(what, origin, fresh),
            Command::Configure { settings } => Ok(self.configured(settings.clone())),
            Command::Amend { amendment } => self.amendment(amendment, origin),
            Command::Name { name } => Ok(self.named(name)),
            Command::Notice { level, text } => {
                Ok(vec![Event::NoticeRaised { level: *level, text: text.clone(), wait: None }])
            }
            Command::Close { reason } => Ok(self.close(*reason, origin)),
            Command::Report { turn, report } => {
                let open = self.turn.as_ref().filter(|open| open.id == *turn);
                self.report(open.ok_or(Refusal::StaleTurn)?, report, context)
            }
        }
    }

    fn named(&self, name: &SessionName) -> Vec<Event> {
        let same = self.name.as_deref() == Some(name.as_str());
        let named = Event::SessionNamed { name: name.as_str().to_owned() };
        if same { Vec::new() } else { vec![named] }
    }

    fn configured(&self, settings: Settings) -> Vec<Event> {
        let same = self.opened.as_ref().is_some_and(|opened| opened.settings == settings);
        if same { Vec::new() } else { vec![Event::SettingsChanged { settings }] }
    }

    /// The running turn keeps the model that it started with.
    fn chosen(&self, choice: &ModelChoice) -> Vec<Event> {
        let Some(opened) = &self.opened else { return Vec::new() };
        let settings = opened.settings.clone();
        self.configured(match choice.clone() {
            ModelChoice::Model(model) => Settings { model, ..settings },
            ModelChoice::Effort(effort) => Settings { effort, ..settings },
        })
    }

    fn open_task(&self, task: &TaskId, profile: Option<&str>) -> Decision {
        if self.tasks.contains_key(task) {
            return Err(Refusal::TaskExists);
        }
        let ready = || self.tasks.iter().filter(|(_, known)| known.progress.is_ready());
        let given_up = ready().min_by_key(|(_, known)| known.since);
        let given_up = given_up.filter(|_| ready().count() >= READY_LIMIT);
        let closed = given_up.map(|(task, _)| Event::TaskClosed { task: task.clone() });
        let (task, profile) = (task.clone(), profile.map(str::to_owned));
        Ok(closed.into_iter().chain([Event::TaskOpened { task, profile }]).collect())
    }

    pub(super) fn prompt(
        &self,
        prompt: &PromptId,
        choice: &TaskChoice,
        content: &Content,
        shell: bool,
        context: &Context<'_>,
    ) -> Decision {
        if self.prompts.get(prompt).is_some() {
            return Ok(Vec::new());
        }
        self.check_queue(content.approx_bytes(), context.origin)?;
        let task = self.choose_task(choice, context.fresh)?;
        let accepted = Event::PromptAccepted {
            prompt: prompt.clone(),
            task: task.clone(),
            content: Arc::new(content.clone()),
            shell,
        };
        if self.turn.is_some() || !self.queue.is_empty() {
            return Ok(vec![accepted]);
        }
        let started = Event::TurnStarted {
            turn: context.fresh.id(TURN).into(),
            prompt: prompt.clone(),
            task,
        };
        Ok(vec![accepted, started])
    }

    /// Whether one more prompt may wait. Clients have shares; the rest is reserved for the session's owner.
    fn check_queue(&self, bytes: usize, origin: &Origin) -> Result<(), Refusal> {
        let opened_by = self.opened.as_ref().and_then(|opened| opened.principal.as_ref());
        let is_owner = |by: Option<&Arc<str>>| by.is_none() || by == opened_by;
        let mine = origin.principal.as_ref();
        let (mut all, mut others, mut own) = ((0, bytes), (0, bytes), (0, bytes));
        for queued in &self.queue {
            let by = queued.by.as_ref();
            let shares = [(&mut all, true), (&mut others, !is_owner(by)), (&mut own, by == mine)];
            for ((prompts, held), _) in shares.into_iter().filter(|(_, counts)| *counts) {
                *prompts += 1;
                *held += queued.bytes;
            }
        }
        let full = |queued, bound| Err(Refusal::QueueFull { queued, bound });
        let ((all, all_bytes), (others, others_bytes), (own, own_bytes)) = (all, others, own);
        match is_owner(mine) {
            _ if all >= QUEUE_LIMIT => full(all, QueueBound::Prompts),
            false if own >= QUEUE_SHARE => full(own, QueueBound::Share),
            false if others >= QUEUE_OTHERS => full(others, QueueBound::Prompts),
            _ if all > 0 && all_bytes > QUEUE_BYTES => full(all, QueueBound::Bytes),
            false if own > 0 && own_bytes > QUEUE_SHARE_BYTES => full(own, QueueBound::ShareBytes),
            false if others > 0 && others_bytes > QUEUE_OTHERS_BYTES => {
                full(others, QueueBound::Bytes)
            }
            true | false => Ok(()),
        }
    }

    fn screened(
        &self,
        prompt: &PromptId,
        choice: &TaskChoice,
        content: &Content,
        screening: &Screening,
        fresh: &FreshIds,
    ) -> Decision {
        if self.prompts.get(prompt).is_some() {
            return Ok(Vec::new());
        }
        let task = match choice {
            TaskChoice::New | TaskChoice::Named(_) => self.choose_task(choice, fresh)?,
            // A rejected message must not end a task that exists already.
            TaskChoice::Continue(_) | TaskChoice::Reopen(_) => return Err(Refusal::TaskExists),
        };
        let (prompt, content) = (prompt.clone(), Arc::new(content.clone()));
        Ok(vec![Event::PromptScreened { prompt, task, content, screening: screening.clone() }])
    }

    fn choose_task(&self, choice: &TaskChoice, fresh: &FreshIds) -> Result<TaskId, Refusal> {
        match choice {
            TaskChoice::New => Ok(fresh.id(TASK).into()),
            TaskChoice::Named(task) if self.tasks.contains_key(task) => Err(Refusal::TaskExists),
            TaskChoice::Named(task) => Ok(task.clone()),
            TaskChoice::Continue(task) => match self.task_state(task) {
                None => Err(Refusal::UnknownTask),
                Some(state) if state.is_over() => Err(Refusal::TaskOver),
                Some(_) => Ok(task.clone()),
            },
            TaskChoice::Reopen(task) if self.tasks.contains_key(task) => Ok(task.clone()),
            TaskChoice::Reopen(_) => Err(Refusal::UnknownTask),
        }
    }

    pub(super) fn answer(
        &self,
        answer: &Answer<'_>,
        digest: Option<&str>,
        context: &Context<'_>,
    ) -> Decision {
        let Context { origin, shell, .. } = *context;
        let Answer { to, choice, edit, message } = *answer;
        // A refusal runs nothing, so an edit with it is ignored.
        let edit = edit.filter(|_| choice.proceeds());
        let asked = self.open_approvals().find(|(call, approval)| to.is(&call.id, &approval.id));
        let Some((call, approval)) = asked else {
            return self.answer_too_late(to, choice, edit, origin);
        };
        if !approval.choices.iter().any(|offered| offered.id == *choice) {
            return Err(Refusal::NotAChoice {
                given: choice.0.chars().take(64).collect(),
                offered: approval.choices.iter().map(|offered| offered.id.0.clone()).collect(),
            });
        }
        // Only the owner may add rules for the whole project.
        let lifetime = choice.known().and_then(KnownChoice::rule_lifetime);
        if lifetime == Some(RuleLifetime::Project) && origin.guest().is_some() {
            let others = approval.choices.iter().filter(|offered| offered.id != *choice);
            return Err(Refusal::OwnerOnly {
                given: choice.0.clone(),
                instead: others.map(|offered| offered.id.0.clone()).collect(),
            });
        }
        if digest.is_some_and(|digest| digest != call.details.digest()) {
            return Err(Refusal::DetailsChanged);
        }
        let details = edited(call, choice, edit)?;
        let mut events = vec![Event::ApprovalAnswered {
            approval: approval.id.clone(),
            call: call.id.clone(),
            choice: choice.clone(),
            edit: edit.cloned(),
            details: details.clone(),
            message: message.cloned(),
        }];
        if !choice.proceeds() {
            events.push(cancelled_call(&call.id, &format!("refused by {origin}")));
            return Ok(events);
        }
        let shown = details.as_ref().unwrap_or(&call.details);
        // Deny rules override a person's approval: the edit or a later rule may forbid the call.
        let guest = self.turn.as_ref().and_then(|turn| turn.guest.as_deref());
        if let Verdict::Deny(why) = self.policy.judge(&call.tool, call.access, shown, guest, shell)
        {
            return Err(Refusal::UnfitEdit { why });
        }
        events.extend(always_rule(choice, &call.tool, shown, context));
        events.push(Event::CallStarted {
            call: call.id.clone(),
            authority: Authority::Approval { approval: approval.id.clone() },
        });
        Ok(events)
    }

    /// The question is closed: refuse with the answer that was given, or recognise a retry of it.
    pub(super) fn answer_too_late(
        &self,
        to: &Question,
        choice: &ChoiceId,
        edit: Option<&Edit>,
        origin: &Origin,
    ) -> Decision {
        let mut closed = self.closed_questions.values();
        let closed = closed.find(|(call, closed)| to.is(call, &closed.approval));
        let Some((_, ClosedQuestion { at, how, .. })) = closed else {
            return Err(match self.is_mixed(to) {
                true => Refusal::MixedQuestion,
                false => Refusal::UnknownQuestion,
            });
        };
        match how {
            Closing::Answered { choice: won, edit: with, by }
                if by == origin && won == choice && with.as_ref() == edit =>
            {
                Ok(Vec::new())
            }
            Closing::Answered { choice, by, .. } => {
                Err(Refusal::AlreadyAnswered { choice: choice.clone(), by: by.clone(), at: *at })
            }
            Closing::Withdrawn { why, .. } => Err(Refusal::Withdrawn { why: why.clone(), at: *at }),
        }
    }

    fn is_mixed(&self, to: &Question) -> bool {
        let mut open = self.open_approvals();
        let mut closed = self.closed_questions.values();
        open.any(|(call, approval)| to.is_mixed_with(&call.id, &approval.id))
            || closed.any(|(call, closed)| to.is_mixed_with(call, &closed.approval))
    }

    /// The policy's answer to a question that timed out. If the question was answered or the policy has
    /// changed in the meantime, nothing happens.
    fn expire(&self, approval: &ApprovalId, fresh: &FreshIds) -> Vec<Event> {
        let timeout = self.opened.as_ref().and_then(|opened| opened.settings.timeout);
        let asked = self.open_approvals().find(|(_, asked)| asked.id == *approval);
        let (Some(timeout), Some(turn), Some((call, _))) = (timeout, &self.turn, asked) else {
            return Vec::new();
        };
        let reason = timeout.reason();
        let answered = Event::ApprovalAnswered {
            approval: approval.clone(),
            call: call.id.clone(),
            choice: ChoiceId::CANCEL.into(),
            edit: None,
            details: None,
            message: None,
        };
        match timeout.then {
            OnTimeout::Wait => Vec::new(),
            OnTimeout::Deny => vec![answered, cancelled_call(&call.id, &reason)],
            OnTimeout::Cancel => {
                let text = format!("The turn was cancelled: {reason}.");
                let notice = Event::NoticeRaised { level: Level::Warning, text, wait: None };
                // The answer comes last, so that no other question becomes the open one in between.
                let others = turn.calls.iter().filter(|other| other.id != call.id);
                let mut events = vec![notice];
                events.extend(others.map(|other| cancelled_call(&other.id, &reason)));
                events.extend([answered, cancelled_call(&call.id, &reason)]);
                let (turn, outcome) = (turn.id.clone(), TurnOutcome::Cancelled);
                events.push(Event::TurnEnded { turn, outcome });
                events.extend(self.start_next(fresh, &[]));
                events
            }
        }
    }

    fn cancel(&self, what: &Cancel, origin: &Origin, fresh: &FreshIds) -> Decision {
        let running =
            |wanted: &dyn Fn(&OpenTurn) -> bool| self.turn.as_ref().filter(|turn| wanted(turn));
        let (turn, prompts): (Option<&OpenTurn>, Vec<&PromptId>) = match what {
            Cancel::Turn => (self.turn.as_ref(), Vec::new()),
            Cancel::Prompt(prompt) => (
                running(&|turn| turn.prompt == *prompt),
                self.queue.iter().map(|queued| &queued.prompt).filter(|id| *id == prompt).collect(),
            ),
            Cancel::Task(task) => {
                match self.tasks.get(task) {
                    None => return Err(Refusal::UnknownTask),
                    Some(known) if known.progress.is_ready() => {
                        return Ok(vec![Event::TaskClosed { task: task.clone() }]);
                    }
                    Some(_) => {}
                }
                let queued = self.queue.iter().filter(|queued| queued.task == *task);
                (running(&|turn| turn.task == *task), queued.map(|queued| &queued.prompt).collect())
            }
        };
        if turn.is_none() && prompts.is_empty() {
            return Err(Refusal::NothingToCancel);
        }
        let withdrawn: Vec<PromptId> = prompts.into_iter().cloned().collect();
        let mut events: Vec<Event> = withdrawn
            .iter()
            .map(|prompt| Event::PromptWithdrawn { prompt: prompt.clone() })
            .collect();
        if let Some(turn) = turn {
            events.extend(end_turn(
                turn,
                TurnOutcome::Cancelled,
                &format!("cancelled by {origin}"),
            ));
            events.extend(self.start_next(fresh, &withdrawn));
        }
        Ok(events)
    }

    fn amendment(&self, amendment: &Amendment, origin: &Origin) -> Decision {
        let guest = origin.guest().map(|guest| &**guest);
        let mut amendment = amendment.clone();
        match &mut amendment {
            Amendment::Revoked { rule } => {
                let mut open = self.policy.rules.iter().filter(|known| known.is_open_to(guest));
                if !open.any(|known| known.id == *rule) {
                    return Err(Refusal::UnknownRule);
                }
            }
            Amendment::Added { rule } => {
                // The fold adds the guest.
                if guest.is_some() {
                    rule.scope = RuleLifetime::Session;
                }
            }
        }
        Ok(vec![Event::PolicyAmended { amendment }])
    }

    fn close(&self, reason: CloseReason, origin: &Origin) -> Vec<Event> {
        let withdrawn = self
            .queue
            .iter()
            .map(|queued| Event::PromptWithdrawn { prompt: queued.prompt.clone() });
        let ended = self.turn.iter().flat_map(|turn| {
            end_turn(turn, TurnOutcome::Cancelled, &format!("session closed by {origin}"))
        });
        withdrawn.chain(ended).chain([Event::SessionClosed { reason }]).collect()
    }

    fn report(&self, turn: &OpenTurn, report: &Report, context: &Context<'_>) -> Decision {
        let id = || turn.id.clone();
        Ok(match report {
            Report::Text { message, text } => {
                vec![Event::TextAppended {
                    turn: id(),
                    message: message.clone(),
                    text: text.clone(),
                }]
            }
            Report::Thought { message, subject, text } => vec![Event::ThoughtAppended {
                turn: id(),
                message: message.clone(),
                subject: subject.clone(),
                text: text.clone(),
            }],
            Report::Plan { steps } => vec![Event::PlanUpdated { turn: id(), steps: steps.clone() }],
            Report::Cite { sources } => {
                vec![Event::SourcesCited { turn: id(), sources: sources.clone() }]
            }
            Report::Usage { model, usage, window } => {
                let (model, usage, window) = (model.clone(), *usage, *window);
                vec![Event::UsageReported { turn: id(), model, usage, window }]
            }
            Report::Notice { level, text, wait } => {
                vec![Event::NoticeRaised { level: *level, text: text.clone(), wait: *wait }]
            }
            Report::Record { record } => {
                vec![Event::ModelRecord { turn: id(), record: record.clone() }]
            }
            Report::Discard { message } => {
                vec![Event::ReplyDiscarded { turn: id(), message: message.clone() }]
            }
            Report::Propose { call, proposal } => self.propose(turn, call, proposal, context)?,
            Report::Invalid { call, message, tool, input, outcome } => {
                let proposal = Proposal {
                    message: message.clone(),
                    tool: tool.clone(),
                    title: tool.clone(),
                    access: Access::Other,
                    input: input.clone(),
                    details: Details::Generic { text: "a call that could not be read".into() },
                };
                self.no_duplicate(call)?;
                vec![
                    proposed(turn, call, &proposal),
                    Event::CallEnded { call: call.clone(), outcome: outcome.clone() },
                ]
            }
            Report::Output { call, text, skipped } => {
                running_call(turn, call)?;
                vec![Event::CallOutput {
                    call: call.clone(),
                    text: text.clone(),
                    skipped: *skipped,
                }]
            }
            Report::End { call, outcome } => {
                running_call(turn, call)?;
                vec![Event::CallEnded { call: call.clone(), outcome: outcome.clone() }]
            }
            Report::Publish { artifact } => {
                vec![Event::ArtifactPublished { turn: turn.id.clone(), artifact: artifact.clone() }]
            }
            Report::Expand { command, source, text } => vec![Event::PromptExpanded {
                turn: id(),
                command: command.clone(),
                source: source.clone(),
                text: text.clone(),
            }],
            Report::Compact { summary, reach } => {
                let end = summary.floor_char_boundary(SUMMARY_LIMIT);
                let summary = summary.get(..end).unwrap_or_default().to_owned();
                let before = Seq(turn.started.0.saturating_sub(1));
                let (upto, automatic, within_turn) = match reach {
                    CompactReach::Everything => (self.head, false, false),
                    CompactReach::EarlierTurns => (before, true, false),
                    CompactReach::Replies => (before, true, true),
                };
                vec![Event::ContextCompacted { upto, summary, automatic, within_turn }]
            }
            Report::Name { name } => self.named(name),
            Report::Choose { choice } => self.chosen(choice),
            // The rule may be unknown here: the event also removes a rule that is stored for the
            // project only. A guest may revoke its own rules.
            Report::Revoke { rule } => {
                let own =
                    |known: &Rule| known.id == *rule && known.is_open_to(turn.guest.as_deref());
                if turn.guest.is_some() && !self.policy.rules.iter().any(own) {
                    return Err(Refusal::UnknownRule);
                }
                let amendment = Amendment::Revoked { rule: rule.clone() };
                vec![Event::PolicyAmended { amendment }]
            }
            Report::Finish { outcome } => {
                let mut events = end_turn(turn, finished(turn, outcome), "the turn ended");
                events.extend(self.start_next(context.fresh, &[]));
                events
            }
        })
    }

    fn propose(
        &self,
        turn: &OpenTurn,
        call: &CallId,
        proposal: &Proposal,
        context: &Context<'_>,
    ) -> Decision {
        let Context { fresh, shell, .. } = *context;
        self.no_duplicate(call)?;
        let mut events = vec![proposed(turn, call, proposal)];
        let started = |authority| Event::CallStarted { call: call.clone(), authority };
        let verdict = match self.is_typed(turn, proposal) {
            // A typed line is allowed in every mode, but deny rules still apply.
            true => match self.policy.forbids(&proposal.tool, &proposal.details, shell) {
                Some(why) => Verdict::Deny(why),
                None => {
                    events.push(started(Authority::Typed { prompt: turn.prompt.clone() }));
                    return Ok(events);
                }
            },
            false => {
                let guest = turn.guest.as_deref();
                self.policy.judge(&proposal.tool, proposal.access, &proposal.details, guest, shell)
            }
        };
        events.push(match verdict {
            Verdict::Allow(rule, id) => started(Authority::Rule { rule, id }),
            Verdict::Deny(reason) => cancelled_call(call, &reason),
            Verdict::Ask(_) if self.is_unattended() => cancelled_call(call, UNATTENDED),
            Verdict::Ask(risk) => Event::ApprovalAsked {
                approval: fresh.id(APPROVAL).into(),
                call: call.clone(),
                choices: policy::choices(&proposal.tool, &proposal.details, risk, shell),
                risk,
            },
        });
        Ok(events)
    }

    /// Whether the proposal is exactly the shell line of this turn's prompt, in the workspace.
    fn is_typed(&self, turn: &OpenTurn, proposal: &Proposal) -> bool {
        let workspace = self.opened.as_ref().map(|opened| opened.workspace.path());
        match (&turn.line, &proposal.details) {
            (Some(line), Details::Execute { command, directory }) => {
                command == line
                    && Some(directory.as_str()) == workspace
                    && proposal.tool == SHELL_TOOL
                    && proposal.access == Access::Execute
            }
            _ => false,
        }
    }

    fn is_unattended(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.settings.unattended)
    }

    fn no_duplicate(&self, call: &CallId) -> Result<(), Refusal> {
        match self.open_call(call).is_some() || self.calls.get(call).is_some() {
            true => Err(Refusal::DuplicateCall),
            false => Ok(()),
        }
    }

    /// Starts the turn of the oldest queued prompt that was not just withdrawn.
    pub(super) fn start_next(&self, fresh: &FreshIds, withdrawn: &[PromptId]) -> Option<Event> {
        let next = self.queue.iter().find(|queued| !withdrawn.contains(&queued.prompt))?;
        Some(Event::TurnStarted {
            turn: fresh.id(TURN).into(),
            prompt: next.prompt.clone(),
            task: next.task.clone(),
        })
    }
}

fn proposed(turn: &OpenTurn, call: &CallId, proposal: &Proposal) -> Event {
    Event::CallProposed {
        turn: turn.id.clone(),
        message: proposal.message.clone(),
        call: call.clone(),
        tool: proposal.tool.clone(),
        title: proposal.title.clone(),
        access: proposal.access,
        input: proposal.input.clone(),
        details: proposal.details.clone(),
    }
}

fn running_call(turn: &OpenTurn, call: &CallId) -> Result<(), Refusal> {
    let running = |open: &OpenCall| open.id == *call && open.state == CallState::Started;
    match turn.calls.iter().any(running) {
        true => Ok(()),
        false => Err(Refusal::StaleCall),
    }
}

/// Every call ends before its turn does.
fn end_turn(turn: &OpenTurn, outcome: TurnOutcome, why: &str) -> Vec<Event> {
    let ended = turn.calls.iter().map(|call| cancelled_call(&call.id, why));
    ended.chain([Event::TurnEnded { turn: turn.id.clone(), outcome }]).collect()
}

/// The outcome of a turn that the agent has finished. Clients that poll see only the state, so a turn
/// whose calls were refused without a person is not reported as a success.
fn finished(turn: &OpenTurn, outcome: &TurnOutcome) -> TurnOutcome {
    match (outcome, &turn.refused) {
        (TurnOutcome::Completed, Some(refused)) => TurnOutcome::refused(refused.message()),
        (outcome, _) => outcome.clone(),
    }
}

fn cancelled_call(call: &CallId, reason: &str) -> Event {
    let outcome = CallOutcome::Cancelled { reason: reason.to_owned() };
    Event::CallEnded { call: call.clone(), outcome }
}

/// The details with the person's change. A change may replace content, but not the path.
fn edited(
    call: &OpenCall,
    choice: &ChoiceId,
    edit: Option<&Edit>,
) -> Result<Option<Details>, Refusal> {
    let unfit = |why: &str| Refusal::UnfitEdit { why: why.to_owned() };
    match (&call.details, edit) {
        (Details::Question { .. }, None) if choice.0 == ChoiceId::ANSWER => {
            Err(unfit("the answer's text is missing"))
        }
        (_, None) => Ok(None),
        (Details::Edit(diff), Some(Edit::File { content })) => {
            Ok(Some(Details::Edit(diff.with_new(content))))
        }
        (Details::Execute { directory, .. }, Some(Edit::Command { command })) => {
            Ok(Some(Details::Execute { command: command.clone(), directory: directory.clone() }))
        }
        (Details::Question { .. }, Some(Edit::Text { .. })) => Ok(None),
        (_, Some(Edit::File { .. })) => {
            Err(unfit("it changes a file, and no file edit was asked about"))
        }
        (_, Some(Edit::Command { .. })) => {
            Err(unfit("it changes a command, and no command was asked about"))
        }
        (_, Some(Edit::Text { .. })) => {
            Err(unfit("it answers in words, and no question was asked"))
        }
    }
}

/// The rule that "always" adds for the approved details, edits included. It applies in their directory,
/// and only to prompts of the guest that granted it.
fn always_rule(
    choice: &ChoiceId,
    tool: &str,
    details: &Details,
    context: &Context<'_>,
) -> Option<Event> {
    let scope = choice.known()?.rule_lifetime()?;
    let matcher = policy::rule_for(tool, details, context.shell)?;
    let directory = match details {
        Details::Execute { directory, .. } => Some(directory.clone()),
        _ => None,
    };
    let (id, principal) = (RuleId::from(context.fresh.id(RULE)), context.origin.guest().cloned());
    let rule = Rule { id, matcher, allow: true, scope, directory, principal };
    Some(Event::PolicyAmended { amendment: Amendment::Added { rule } })
}
