//! Folds one event into the state. It never fails, whatever a log contains.

use std::sync::Arc;

use crate::call::{CallOutcome, CallState, Details};
use crate::event::{Amendment, Authority, Envelope, Event};
use crate::id::{ApprovalId, CallId, PromptId, Seq, TaskId};
use crate::origin::{Origin, Surface};
use crate::policy::{Policy, RuleLifetime};
use crate::session::{
    ClosedQuestion, Closing, Compacted, OpenApproval, OpenCall, OpenTurn, Opened, Queued,
    RECENT_TURNS, RecentTurn, Refusals, Session, TaskRecord,
};
use crate::task::TaskState;

impl Session {
    pub fn apply(&mut self, envelope: &Envelope) {
        let seq = envelope.seq;
        self.head = seq;
        self.updated = envelope.at;
        self.stats.apply(envelope);
        match &envelope.event {
            Event::SessionOpened { workspace, settings, agent } => {
                self.created = envelope.at;
                self.opened = Some(Opened {
                    principal: envelope.origin.principal.clone(),
                    workspace: workspace.clone(),
                    settings: settings.clone(),
                    agent: agent.clone(),
                });
                self.rebuild_policy();
            }
            Event::SettingsChanged { settings } => {
                if let Some(opened) = &mut self.opened {
                    opened.settings = settings.clone();
                }
                self.rebuild_policy();
            }
            Event::PolicyAmended { amendment } => {
                self.amend(amendment, envelope.origin.guest());
            }
            Event::SessionNamed { name } => self.name = Some(name.clone()),
            Event::SessionClosed { reason } => self.closed = Some(*reason),
            Event::TaskOpened { task, profile } => {
                self.task_record(task, seq, profile.as_ref());
            }
            Event::TaskClosed { task } => self.finish_prompt_of(task, TaskState::Canceled),
            Event::PromptAccepted { prompt, task, content, shell } => {
                if self.title.is_empty() {
                    self.title = title_of(&content.to_text());
                }
                self.prompts.insert(prompt.clone(), task.clone());
                let running = self.turn.as_ref().is_some_and(|turn| turn.task == *task);
                let known = self.task_record(task, seq, content.profile.as_ref());
                known.progress.accept_prompt();
                // A message after the turn that asked: late answers to its question no longer apply.
                if !running {
                    known.last_question = None;
                }
                self.queue.push_back(Queued {
                    accepted: envelope.seq,
                    prompt: prompt.clone(),
                    task: task.clone(),
                    content: content.clone(),
                    by: envelope.origin.principal.clone(),
                    bytes: content.approx_bytes(),
                    shell: *shell,
                    guest: envelope.origin.guest().cloned(),
                });
            }
            Event::PromptWithdrawn { prompt } => {
                if let Some(queued) = self.take_queued(prompt) {
                    self.finish_prompt_of(&queued.task, TaskState::Canceled);
                }
            }
            Event::PromptScreened { prompt, task, content, screening } => {
                self.prompts.insert(prompt.clone(), task.clone());
                self.task_record(task, seq, content.profile.as_ref());
                self.finish_prompt_of(task, TaskState::of_screening(screening));
            }
            Event::TurnStarted { turn, prompt, task } => {
                let queued = self.take_queued(prompt);
                let accepted = queued.as_ref().map_or(envelope.seq, |queued| queued.accepted);
                let line = queued.as_ref().and_then(Queued::line);
                let guest = queued.as_ref().and_then(|queued| queued.guest.clone());
                let (by, bytes) =
                    queued.as_ref().map_or((None, 0), |queued| (queued.by.clone(), queued.bytes));
                let content = queued.map(|queued| queued.content).unwrap_or_default();
                self.context_from.get_or_insert(accepted);
                self.turns.push_back(RecentTurn { accepted, started: envelope.seq });
                if self.turns.len() > RECENT_TURNS {
                    self.turns.pop_front();
                }
                if let Some(known) = self.tasks.get_mut(task) {
                    known.progress.start_turn();
                }
                self.turn = Some(OpenTurn {
                    id: turn.clone(),
                    prompt: prompt.clone(),
                    task: task.clone(),
                    content,
                    by,
                    bytes,
                    line,
                    guest,
                    started: envelope.seq,
                    calls: Vec::new(),
                    refused: None,
                });
            }
            Event::TurnEnded { outcome, .. } => {
                if let Some(turn) = self.turn.take() {
                    self.finish_prompt_of(&turn.task, TaskState::of_outcome(outcome));
                }
            }
            Event::ContextCompacted { upto, summary, .. } => {
                self.turns.retain(|turn| turn.started > *upto);
                self.context_from = self.turns.front().map(|turn| turn.accepted);
                self.compacted = Some(Compacted { upto: *upto, summary: summary.clone() });
            }
            Event::CallProposed { message, call, tool, title, access, input, details, .. } => {
                self.calls.insert(call.clone(), ());
                if let Some(turn) = &mut self.turn {
                    turn.calls.push(OpenCall {
                        id: call.clone(),
                        message: message.clone(),
                        tool: tool.clone(),
                        title: title.clone(),
                        access: *access,
                        input: input.clone(),
                        details: details.clone(),
                        edit: None,
                        choice: None,
                        state: CallState::Proposed,
                        approval: None,
                        authority: None,
                    });
                }
            }
            Event::ApprovalAsked { approval, call, choices, risk } => {
                if let Some(open) = self.open_call_mut(call) {
                    open.state = CallState::Asked;
                    open.approval = Some(OpenApproval {
                        id: approval.clone(),
                        choices: choices.clone(),
                        risk: *risk,
                        asked: envelope.at,
                    });
                }
            }
            Event::ApprovalAnswered { approval, call, choice, edit, details, .. } => {
                let how = Closing::Answered {
                    choice: choice.clone(),
                    edit: edit.clone(),
                    by: envelope.origin.clone(),
                };
                let mut closed = closed_question(approval, envelope, how);
                if let Some(open) = self.open_call_mut(call) {
                    closed.details = details_for_words(&open.details);
                    closed.choices =
                        open.approval.take().map(|asked| asked.choices).unwrap_or_default();
                    open.choice = Some(choice.clone());
                    open.edit = edit.clone();
                    if let Some(details) = details {
                        open.details = details.clone();
                    }
                }
                self.close_question(call, closed);
            }
            Event::CallStarted { call, authority } => {
                if let (Authority::Typed { .. }, Some(turn)) = (authority, &mut self.turn) {
                    turn.line = None;
                }
                if let Some(open) = self.open_call_mut(call) {
                    open.state = CallState::Started;
                    open.authority = Some(authority.clone());
                }
            }
            Event::CallEnded { call, outcome } => {
                let ended = self.turn.as_mut().and_then(|turn| {
                    let index = turn.calls.iter().position(|open| open.id == *call)?;
                    Some(turn.calls.remove(index))
                });
                if let Some(ended) = &ended {
                    self.count_refusal(ended, outcome, &envelope.origin);
                }
                if let Some((open, approval)) =
                    ended.and_then(|mut open| open.approval.take().map(|asked| (open, asked)))
                {
                    let (why, by) = (outcome.summary().to_owned(), envelope.origin.clone());
                    let how = Closing::Withdrawn { why, by };
                    let mut closed = closed_question(&approval.id, envelope, how);
                    closed.details = details_for_words(&open.details);
                    closed.choices = approval.choices;
                    self.close_question(call, closed);
                }
            }
            Event::TextAppended { .. }
            | Event::ThoughtAppended { .. }
            | Event::PlanUpdated { .. }
            | Event::SourcesCited { .. }
            | Event::UsageReported { .. }
            | Event::CallOutput { .. }
            | Event::ArtifactPublished { .. }
            | Event::NoticeRaised { .. }
            | Event::PromptExpanded { .. }
            | Event::ModelRecord { .. }
            | Event::ReplyDiscarded { .. }
            | Event::Unknown => {}
        }
    }

    /// The record of a task, which is created if it does not exist. The session has the profile of its
    /// first task.
    fn task_record(
        &mut self,
        task: &TaskId,
        since: Seq,
        profile: Option<&String>,
    ) -> &mut TaskRecord {
        if self.tasks.is_empty() {
            self.profile = profile.cloned();
        }
        let new = || TaskRecord::new(since, profile.cloned());
        self.tasks.entry(task.clone()).or_insert_with(new)
    }

    /// Removes a prompt from the queue.
    fn take_queued(&mut self, prompt: &PromptId) -> Option<Queued> {
        let index = self.queue.iter().position(|queued| queued.prompt == *prompt)?;
        self.queue.remove(index)
    }

    /// Counts a refusal if no person made it: in an unattended session, or by a timeout. A later change
    /// that succeeds resets the count: the agent found another way.
    fn count_refusal(&mut self, call: &OpenCall, outcome: &CallOutcome, by: &Origin) {
        let opened = self.opened.as_ref();
        let unattended = opened.is_some_and(|opened| opened.settings.unattended);
        let Some(turn) = &mut self.turn else { return };
        match outcome {
            CallOutcome::Succeeded { .. } if call.access.changes() => turn.refused = None,
            CallOutcome::Cancelled { reason }
                if call.state != CallState::Started
                    && (unattended || by.surface == Surface::Policy) =>
            {
                match &mut turn.refused {
                    Some(refused) => refused.more = refused.more.saturating_add(1),
                    None => {
                        let (title, reason) = (call.title.clone(), reason.clone());
                        turn.refused = Some(Refusals { title, reason, more: 0 });
                    }
                }
            }
            CallOutcome::Succeeded { .. }
            | CallOutcome::Failed { .. }
            | CallOutcome::Cancelled { .. } => {}
        }
    }

    fn open_call_mut(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.turn.as_mut()?.calls.iter_mut().find(|open| open.id == *call)
    }

    fn close_question(&mut self, call: &CallId, closed: ClosedQuestion) {
        self.closed_questions.insert(call.clone(), closed);
        let task = self.turn.as_ref().map(|turn| &turn.task);
        if let Some(known) = task.and_then(|task| self.tasks.get_mut(task)) {
            known.last_question = Some(call.clone());
        }
    }

    fn finish_prompt_of(&mut self, task: &TaskId, state: TaskState) {
        if let Some(known) = self.tasks.get_mut(task) {
            known.progress.finish_prompt(state);
        }
    }

    fn amend(&mut self, amendment: &Amendment, guest: Option<&Arc<str>>) {
        match amendment {
            Amendment::Added { rule } => {
                let mut rule = rule.clone();
                // Older logs name the guest that granted a rule only in the envelope.
                if rule.scope == RuleLifetime::Session && rule.principal.is_none() {
                    rule.principal = guest.cloned();
                }
                self.session_rules.retain(|known| known.id != rule.id);
                self.session_rules.push(rule);
            }
            Amendment::Revoked { rule } => {
                self.session_rules.retain(|known| known.id != *rule);
                if let Some(opened) = &mut self.opened {
                    opened.settings.rules.retain(|known| known.id != *rule);
                }
            }
        }
        self.rebuild_policy();
    }

    fn rebuild_policy(&mut self) {
        let settings = self.opened.as_ref().map(|opened| &opened.settings);
        let configured = settings.map_or(&[][..], |settings| &settings.rules);
        self.policy = Policy {
            mode: settings.map_or_else(Default::default, |settings| settings.mode),
            rules: configured.iter().chain(&self.session_rules).cloned().collect(),
            root: self
                .opened
                .as_ref()
                .map_or_else(String::new, |opened| opened.workspace.path().to_owned()),
        };
    }
}

fn closed_question(approval: &ApprovalId, envelope: &Envelope, how: Closing) -> ClosedQuestion {
    let details = Details::Generic { text: String::new() };
    ClosedQuestion {
        approval: approval.clone(),
        at: envelope.at,
        how,
        choices: Vec::new(),
        details,
    }
}

/// The details that are needed to read an answer in words. A diff can be large and is not needed.
fn details_for_words(details: &Details) -> Details {
    match details {
        Details::Question { .. } => details.clone(),
        Details::Execute { .. }
        | Details::Edit(_)
        | Details::Mcp { .. }
        | Details::Generic { .. } => Details::Generic { text: String::new() },
    }
}

/// The first line of the first prompt, short enough for a list.
fn title_of(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.chars().count() <= 80 {
        return line.to_owned();
    }
    line.chars().take(79).chain(['…']).collect()
}
