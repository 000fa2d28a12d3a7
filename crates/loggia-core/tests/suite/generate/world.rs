//! A session with the ids that moves refer to, and the translation of moves into commands.

use loggia_shell::Parser;

use super::*;

/// A session driven like in the actor: decide, number, apply. Nothing is coalesced here.
#[derive(Clone, Default)]
pub struct World {
    pub session: Session,
    pub log: Vec<Envelope>,
    pub steps: Vec<Taken>,
    pub prompts: Vec<PromptId>,
    pub tasks: Vec<TaskId>,
    pub turns: Vec<TurnId>,
    pub calls: Vec<CallId>,
    pub approvals: Vec<(ApprovalId, CallId)>,
    pub rules: Vec<RuleId>,
    seeds: u64,
    clock: i64,
}

/// Prints a failing history: each command with its events or its refusal.
impl std::fmt::Debug for World {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Taken { stamped, outcome } in &self.steps {
            write!(out, "\n{}: {:?}", stamped.origin, stamped.command)?;
            match outcome {
                Ok(range) => self.log[range.clone()]
                    .iter()
                    .try_for_each(|it| write!(out, "\n    {} {:?}", it.seq, it.event))?,
                Err(refusal) => write!(out, "\n    refused: {refusal}")?,
            }
        }
        Ok(())
    }
}

/// One command and its result.
#[derive(Debug, Clone)]
pub struct Taken {
    pub stamped: Stamped<Command>,
    /// The part of the log that the command added, or its refusal.
    pub outcome: Result<Range<usize>, Refusal>,
}

impl World {
    pub fn stamp(&mut self, origin: Origin, command: Command) -> Stamped<Command> {
        self.seeds += 1;
        // Clocks can go back.
        self.clock += if self.seeds.is_multiple_of(17) { -3_600_000 } else { 250 };
        let at = Millis(1_767_225_600_000 + self.clock);
        Stamped { command, at, origin, fresh: FreshIds::new(self.seeds, at) }
    }

    pub fn submit(&mut self, origin: Origin, command: Command) -> Result<Range<usize>, Refusal> {
        let stamped = self.stamp(origin, command);
        let outcome = self.session.decide(&stamped, &Parser).map(|events| {
            let start = self.log.len();
            for event in events {
                self.append(stamped.at, stamped.origin.clone(), event);
            }
            start..self.log.len()
        });
        self.steps.push(Taken { stamped, outcome: outcome.clone() });
        outcome
    }

    pub fn append(&mut self, at: Millis, origin: Origin, event: Event) {
        self.remember(&event);
        let envelope = Envelope { seq: self.session.head().next(), at, origin, event };
        self.session.apply(&envelope);
        self.log.push(envelope);
    }

    pub fn make(&mut self, moved: &Move) -> Result<Range<usize>, Refusal> {
        let (origin, command) = self.resolve(moved);
        self.submit(origin, command)
    }

    fn remember(&mut self, event: &Event) {
        match event {
            Event::PromptAccepted { prompt, task, .. }
            | Event::PromptScreened { prompt, task, .. } => {
                self.prompts.push(prompt.clone());
                if !self.tasks.contains(task) {
                    self.tasks.push(task.clone());
                }
            }
            Event::TaskOpened { task, .. } => self.tasks.push(task.clone()),
            Event::TurnStarted { turn, .. } => self.turns.push(turn.clone()),
            Event::CallProposed { call, .. } => self.calls.push(call.clone()),
            Event::ApprovalAsked { approval, call, .. } => {
                self.approvals.push((approval.clone(), call.clone()));
            }
            Event::PolicyAmended { amendment: Amendment::Added { rule } } => {
                self.rules.push(rule.id.clone());
            }
            _ => {}
        }
    }

    fn resolve(&self, moved: &Move) -> (Origin, Command) {
        match moved {
            Move::Open { settings } => (client(0), open(settings.clone())),
            Move::Prompt { by, id, task, content } => {
                let fresh = || format!("prompt-{}", self.prompts.len() + 1);
                let prompt = known(id, &self.prompts).unwrap_or_else(|| PromptId::new(fresh()));
                let task = self.task_choice(task);
                (client(*by), Command::Prompt { prompt, task, content: content.clone() })
            }
            Move::Screened { by, id, task, screening } => {
                let fresh = || format!("prompt-{}", self.prompts.len() + 1);
                let prompt = known(id, &self.prompts).unwrap_or_else(|| PromptId::new(fresh()));
                let (task, content) = (self.task_choice(task), Content::default());
                let screening = screening.clone();
                (client(*by), Command::Screened { prompt, task, content, screening })
            }
            Move::Shell { by, id, line } => {
                let fresh = || format!("prompt-{}", self.prompts.len() + 1);
                let prompt = known(id, &self.prompts).unwrap_or_else(|| PromptId::new(fresh()));
                (client(*by), Command::Shell { prompt, line: (*line).to_owned() })
            }
            Move::OpenTask { by, task } => {
                let fresh = || TaskId::new(format!("task-{}", self.tasks.len() + 1));
                let task = known(task, &self.tasks).unwrap_or_else(fresh);
                (client(*by), Command::OpenTask { task, profile: None })
            }
            Move::Answer(answer) => (client(answer.by), self.answer(answer)),
            Move::Expire(pick) => {
                let asked = self.asked(pick).map(|(approval, _)| approval);
                let approval = asked.unwrap_or("no-approval".into());
                (Origin::timeout(), Command::Expire { approval })
            }
            Move::Cancel { by, what } => {
                let what = match what {
                    CancelPick::Turn => Cancel::Turn,
                    CancelPick::Prompt(pick) => {
                        Cancel::Prompt(known(pick, &self.prompts).unwrap_or("no-prompt".into()))
                    }
                    CancelPick::Task(pick) => {
                        Cancel::Task(known(pick, &self.tasks).unwrap_or("no-task".into()))
                    }
                };
                (client(*by), Command::Cancel { what })
            }
            Move::Configure { by, settings } => {
                (client(*by), Command::Configure { settings: settings.clone() })
            }
            Move::Amend { by, amendment } => {
                let amendment = match amendment {
                    AmendPick::Add(rule) => Amendment::Added { rule: rule.clone() },
                    AmendPick::Revoke(pick) => Amendment::Revoked {
                        rule: known(pick, &self.rules).unwrap_or("no-rule".into()),
                    },
                };
                (client(*by), Command::Amend { amendment })
            }
            Move::Notice { by, text } => {
                let text = text.clone();
                (client(*by), Command::Notice { level: Level::Warning, text })
            }
            Move::Name { by, name } => (
                client(*by),
                Command::Name { name: loggia_core::SessionName::parse(name).unwrap() },
            ),
            Move::Close { by } => (client(*by), Command::Close { reason: CloseReason::Requested }),
            Move::Report { turn, report } => {
                let current = self.session.turn().map(|turn| turn.id.clone());
                let turn = match turn {
                    TurnPick::Current => current.or_else(|| self.turns.last().cloned()),
                    TurnPick::Past(index) => known(&Pick::Known(*index), &self.turns),
                    TurnPick::Unknown => None,
                };
                let turn = turn.unwrap_or("no-turn".into());
                (Origin::agent(), Command::Report { turn, report: self.report(report) })
            }
        }
    }

    fn task_choice(&self, pick: &TaskPick) -> TaskChoice {
        let task = |pick: &Pick| known(pick, &self.tasks).unwrap_or("no-task".into());
        match pick {
            TaskPick::New => TaskChoice::New,
            TaskPick::Named(Pick::FreshIds) => {
                TaskChoice::Named(TaskId::new(format!("task-{}", self.tasks.len() + 1)))
            }
            TaskPick::Named(pick) => TaskChoice::Named(task(pick)),
            TaskPick::Continue(pick) => TaskChoice::Continue(task(pick)),
            TaskPick::Reopen(pick) => TaskChoice::Reopen(task(pick)),
        }
    }

    fn asked(&self, pick: &QuestionPick) -> Option<(ApprovalId, CallId)> {
        let open: Vec<_> = self.session.open_approvals().collect();
        match pick {
            QuestionPick::Open(index) if !open.is_empty() => {
                let (call, approval) = open[index.index(open.len())];
                Some((approval.id.clone(), call.id.clone()))
            }
            QuestionPick::Open(index) | QuestionPick::Any(index) => {
                known(&Pick::Known(*index), &self.approvals)
            }
            QuestionPick::Unknown => None,
        }
    }

    fn answer(&self, pick: &AnswerPick) -> Command {
        let open: Vec<_> = self.session.open_approvals().collect();
        let asked = self.asked(&pick.to);
        let (approval, call) = asked.unwrap_or(("no-approval".into(), "no-call".into()));
        let found = open.iter().find(|(_, open)| open.id == approval);
        let choice = match &pick.choice {
            ChoicePick::Offered(index) => found
                .map(|(_, open)| open.choices[index.index(open.choices.len())].id.clone())
                .unwrap_or(ChoiceId::PROCEED_ONCE.into()),
            ChoicePick::Named(name) => (*name).into(),
        };
        let shown = found.map(|(call, _)| &call.details);
        let words = pick.words.clone();
        let edit = match (pick.edit, shown) {
            (EditPick::None, _) => None,
            (EditPick::Fitting, Some(Details::Edit(_))) | (EditPick::File, _) => {
                Some(Edit::File { content: words })
            }
            (EditPick::Fitting, Some(Details::Execute { .. })) | (EditPick::Command, _) => {
                Some(Edit::Command { command: words })
            }
            (EditPick::Fitting, _) | (EditPick::Text, _) => Some(Edit::Text { text: words }),
        };
        let digest = match pick.digest {
            DigestPick::None => None,
            DigestPick::Right => shown.map(Details::digest),
            DigestPick::Wrong => Some("0".repeat(64)),
        };
        let to = if pick.by_call { Question::Call(call) } else { Question::Approval(approval) };
        Command::Answer { to, choice, edit, digest, message: None }
    }

    fn report(&self, pick: &ReportPick) -> Report {
        let message = |number: u8| MessageId::new(format!("message-{number}"));
        match pick {
            ReportPick::Text(number, text) => {
                Report::Text { message: message(*number), text: text.clone() }
            }
            ReportPick::Publish(artifact) => Report::Publish { artifact: artifact.clone() },
            ReportPick::Thought(number, subject, text) => Report::Thought {
                message: message(*number),
                subject: (*subject).to_owned(),
                text: text.clone(),
            },
            ReportPick::Plan(steps) => Report::Plan { steps: steps.clone() },
            ReportPick::Cite(uri) => Report::Cite {
                sources: vec![Source { title: "a source".into(), uri: uri.clone() }],
            },
            ReportPick::Usage(usage) => {
                let window = (usage.input_tokens % 2 == 0).then_some(200_000);
                let model = ModelName("scripted".into());
                Report::Usage { model, usage: *usage, window }
            }
            ReportPick::Notice(text) => {
                Report::Notice { level: Level::Info, text: text.clone(), wait: None }
            }
            ReportPick::Name(name) => {
                Report::Name { name: loggia_core::SessionName::parse(name).unwrap() }
            }
            ReportPick::Choose(choice) => Report::Choose { choice: choice.clone() },
            ReportPick::Propose(call, proposal) => {
                Report::Propose { call: self.call(call), proposal: proposal.clone() }
            }
            ReportPick::ProposeLine(call, pick) => {
                let typed = self.session.turn().and_then(|turn| turn.line.clone());
                let proposal = of_line(typed.as_deref().unwrap_or("git log"), *pick);
                Report::Propose { call: self.call(call), proposal }
            }
            ReportPick::Invalid(call, input) => Report::Invalid {
                call: self.call(call),
                message: message(0),
                tool: "no_such_tool".into(),
                input: input.clone(),
                outcome: CallOutcome::Failed {
                    failure: CallFailure::new("unknown_tool", "there is no such tool"),
                },
            },
            ReportPick::Output(call, text, skipped) => {
                Report::Output { call: self.call(call), text: text.clone(), skipped: *skipped }
            }
            ReportPick::End(call, outcome) => {
                Report::End { call: self.call(call), outcome: outcome.clone() }
            }
            ReportPick::Compact(summary, automatic) => {
                let reach = match automatic {
                    true => loggia_core::CompactReach::EarlierTurns,
                    false => loggia_core::CompactReach::Everything,
                };
                Report::Compact { summary: summary.clone(), reach }
            }
            ReportPick::Expand(text) => Report::Expand {
                command: "review".into(),
                source: "review.md".into(),
                text: text.clone(),
            },
            ReportPick::Revoke(pick) => {
                Report::Revoke { rule: known(pick, &self.rules).unwrap_or("no-rule".into()) }
            }
            ReportPick::Finish(outcome) => Report::Finish { outcome: outcome.clone() },
        }
    }

    fn call(&self, pick: &CallPick) -> CallId {
        let open: Vec<CallId> = self
            .session
            .turn()
            .map(|turn| turn.calls.iter().map(|call| call.id.clone()).collect())
            .unwrap_or_default();
        let picked = match pick {
            CallPick::FreshIds => Some(CallId::new(format!("call-{}", self.calls.len() + 1))),
            CallPick::Open(index) if !open.is_empty() => known(&Pick::Known(*index), &open),
            CallPick::Open(index) | CallPick::Any(index) => {
                known(&Pick::Known(*index), &self.calls)
            }
            CallPick::Unknown => None,
        };
        picked.unwrap_or("no-call".into())
    }
}

/// A call that runs this line in the workspace, or a slightly different one.
fn of_line(line: &str, pick: LinePick) -> Proposal {
    let command = match pick {
        LinePick::OtherLine => format!("{line} "),
        _ => line.to_owned(),
    };
    let directory = match pick {
        LinePick::OtherDirectory => "/work/project/src",
        _ => "/work/project",
    };
    let tool = if matches!(pick, LinePick::OtherTool) { "shell" } else { SHELL_TOOL };
    let reads = matches!(pick, LinePick::OtherAccess);
    Proposal {
        message: "message-0".into(),
        tool: tool.into(),
        title: format!("run {line}"),
        access: if reads { Access::Other } else { Access::Execute },
        input: json!({ "command": line }),
        details: Details::Execute { command, directory: directory.into() },
        needs_person: false,
    }
}

pub fn client(number: u8) -> Origin {
    match number % 4 {
        0 => Origin::new(Surface::Tui, "tui"),
        1 => Origin { principal: Some("ada".into()), ..Origin::new(Surface::A2a, "ide") },
        2 => Origin::new(Surface::Acp, "editor"),
        _ => Origin::new(Surface::Web, "browser"),
    }
}

pub fn open(settings: Settings) -> Command {
    Command::Open {
        workspace: Workspace::Local { path: "/work/project".into() },
        settings,
        agent: AgentName("native".into()),
    }
}

pub fn settings(mode: Mode, rules: Vec<Rule>) -> Settings {
    Settings {
        model: ModelName("scripted".into()),
        effort: None,
        mode,
        rules,
        tools: None,
        unattended: false,
        timeout: None,
        limits: Limits::default(),
    }
}

fn known<T: Clone>(pick: &Pick, all: &[T]) -> Option<T> {
    match pick {
        Pick::Known(index) if !all.is_empty() => Some(all[index.index(all.len())].clone()),
        Pick::Known(_) | Pick::FreshIds | Pick::Unknown => None,
    }
}
