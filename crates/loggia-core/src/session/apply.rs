//! The fold: one event into state. Total: whatever a log holds, folding it does not fail.

use crate::call::{CallState, Details};
use crate::event::{Amendment, Authority, Envelope, Event};
use crate::id::{CallId, TaskId};
use crate::policy::Policy;
use crate::session::{
    AnsweredQuestion, ClosedQuestion, Closing, Compacted, KnownTask, OpenApproval, OpenCall,
    OpenTurn, Opened, Queued, RECENT_TURNS, RecentTurn, Session,
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
            Event::PolicyAmended { amendment } => self.amend(amendment),
            Event::SessionNamed { name } => self.name = Some(name.clone()),
            Event::SessionClosed { reason } => self.closed = Some(*reason),
            Event::TaskOpened { task, profile } => {
                self.tasks
                    .entry(task.clone())
                    .or_insert_with(|| KnownTask::new(seq, profile.clone()));
            }
            Event::TaskClosed { task } => self.settle_task(task, TaskState::Canceled),
            Event::PromptAccepted { prompt, task, content, shell } => {
                if self.title.is_empty() {
                    self.title = title_of(&content.to_text());
                }
                self.prompts.insert(prompt.clone(), task.clone());
                let known = self
                    .tasks
                    .entry(task.clone())
                    .or_insert_with(|| KnownTask::new(seq, content.profile.clone()));
                known.waiting += 1;
                self.queue.push_back(Queued {
                    accepted: envelope.seq,
                    prompt: prompt.clone(),
                    task: task.clone(),
                    content: content.clone(),
                    by: envelope.origin.principal.clone(),
                    bytes: content.weight(),
                    shell: *shell,
                });
            }
            Event::PromptWithdrawn { prompt } => {
                let index = self.queue.iter().position(|queued| queued.prompt == *prompt);
                if let Some(queued) = index.and_then(|index| self.queue.remove(index)) {
                    self.settle_task(&queued.task, TaskState::Canceled);
                }
            }
            Event::PromptScreened { prompt, task, content, screening } => {
                self.prompts.insert(prompt.clone(), task.clone());
                self.tasks
                    .entry(task.clone())
                    .or_insert_with(|| KnownTask::new(seq, content.profile.clone()));
                self.settle_task(task, TaskState::of_screening(screening));
            }
            Event::TurnStarted { turn, prompt, task } => {
                let index = self.queue.iter().position(|queued| queued.prompt == *prompt);
                let queued = index.and_then(|index| self.queue.remove(index));
                let accepted = queued.as_ref().map_or(envelope.seq, |queued| queued.accepted);
                let line = queued.as_ref().and_then(Queued::line);
                let (by, bytes) =
                    queued.as_ref().map_or((None, 0), |queued| (queued.by.clone(), queued.bytes));
                let content = queued.map(|queued| queued.content).unwrap_or_default();
                self.turns.push_back(RecentTurn { accepted, started: envelope.seq });
                if self.turns.len() > RECENT_TURNS {
                    self.turns.pop_front();
                }
                self.turn = Some(OpenTurn {
                    id: turn.clone(),
                    prompt: prompt.clone(),
                    task: task.clone(),
                    content,
                    by,
                    bytes,
                    line,
                    started: envelope.seq,
                    calls: Vec::new(),
                    answered: None,
                });
            }
            Event::TurnEnded { outcome, .. } => {
                if let Some(turn) = self.turn.take() {
                    self.settle_task(&turn.task, TaskState::of_outcome(outcome));
                    self.last_task = Some(turn.task);
                }
            }
            Event::ContextCompacted { upto, summary, .. } => {
                self.turns.retain(|turn| turn.started > *upto);
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
                let mut answered = None;
                if let Some(open) = self.open_call_mut(call) {
                    // Any words answer a question to the user, so none of them can be told late.
                    let by_choice = !matches!(open.details, Details::Question { .. });
                    let asked = open.approval.take().filter(|_| by_choice);
                    answered = asked.map(|asked| asked.choices);
                    open.choice = Some(choice.clone());
                    open.edit = edit.clone();
                    if let Some(details) = details {
                        open.details = details.clone();
                    }
                }
                if let Some(turn) = &mut self.turn {
                    let question = |choices| AnsweredQuestion { call: call.clone(), choices };
                    turn.answered = answered.map(question);
                }
                let how = Closing::Answered {
                    choice: choice.clone(),
                    edit: edit.clone(),
                    by: envelope.origin.clone(),
                };
                let closed = ClosedQuestion { approval: approval.clone(), at: envelope.at, how };
                self.closed_questions.insert(call.clone(), closed);
            }
            Event::CallStarted { call, authority } => {
                if let (Authority::Typed { .. }, Some(turn)) = (authority, &mut self.turn) {
                    turn.line = None;
                }
                if let Some(open) = self.open_call_mut(call) {
                    open.state = CallState::Started;
                }
            }
            Event::CallEnded { call, outcome } => {
                let ended = self.turn.as_mut().and_then(|turn| {
                    let index = turn.calls.iter().position(|open| open.id == *call)?;
                    Some(turn.calls.remove(index))
                });
                if let Some(approval) = ended.and_then(|call| call.approval) {
                    let how = Closing::Withdrawn { why: outcome.summary().to_owned() };
                    let closed = ClosedQuestion { approval: approval.id, at: envelope.at, how };
                    self.closed_questions.insert(call.clone(), closed);
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
            | Event::Unknown => {}
        }
    }

    fn open_call_mut(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.turn.as_mut()?.calls.iter_mut().find(|open| open.id == *call)
    }

    fn settle_task(&mut self, task: &TaskId, state: TaskState) {
        if let Some(known) = self.tasks.get_mut(task) {
            known.waiting = known.waiting.saturating_sub(1);
            known.last = Some(state);
        }
    }

    fn amend(&mut self, amendment: &Amendment) {
        match amendment {
            Amendment::Added { rule } => {
                self.session_rules.retain(|known| known.id != rule.id);
                self.session_rules.push(rule.clone());
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
        };
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
