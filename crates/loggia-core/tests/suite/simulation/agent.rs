//! The agent of one turn: sends text, proposes calls, runs permitted calls, ends the turn.

use loggia_core::shell::CommandPattern;
use loggia_core::{
    Access, CallFailure, CallId, CallOutcome, Details, FileDiff, Level, Matcher, MessageId,
    ModelName, Output, PlanStep, Proposal, Report, Rule, RuleId, RuleLifetime, SHELL_TOOL, Source,
    StepState, TurnId, TurnOutcome, Usage,
};
use serde_json::json;

use super::rng::Rng;

pub struct Agent {
    pub turn: TurnId,
    pub calls: Vec<(CallId, Phase)>,
    /// Remaining replies of the model, and remaining pieces of the current one.
    replies: usize,
    pieces: usize,
    message: usize,
    pub gone: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Waits for a rule or a person.
    Waiting,
    /// Has a permit for exactly these details.
    Permitted(Details),
    /// Runs, with this many pieces of output left.
    Running(usize),
    Over,
}

/// One action of an agent between two awaits.
pub enum Doing {
    Report(Report),
    /// The tool is started: it may have changed the outside world.
    Run(CallId, Details),
    Wait,
}

impl Agent {
    /// For a new turn, or for one that still waits for answers after a crash.
    pub fn on(turn: TurnId, pending: Vec<CallId>, rng: &mut Rng) -> Self {
        Self {
            turn,
            calls: pending.into_iter().map(|call| (call, Phase::Waiting)).collect(),
            replies: rng.below(3),
            pieces: rng.below(5),
            message: 0,
            gone: false,
        }
    }

    pub fn permit(&mut self, call: &CallId, details: &Details) {
        self.settle(call, Phase::Permitted(details.clone()));
    }

    pub fn deny(&mut self, call: &CallId) {
        self.settle(call, Phase::Over);
    }

    fn settle(&mut self, call: &CallId, phase: Phase) {
        if let Some((_, known)) = self.calls.iter_mut().find(|(id, _)| id == call) {
            *known = phase;
        }
    }

    pub fn step(&mut self, rng: &mut Rng, names: &mut u64) -> Vec<Doing> {
        let movable: Vec<usize> = (0..self.calls.len())
            .filter(|index| matches!(self.calls[*index].1, Phase::Permitted(_) | Phase::Running(_)))
            .collect();
        if let Some(index) = rng.maybe_pick(&movable)
            && rng.percent(70)
        {
            let (call, phase) = &mut self.calls[*index];
            return vec![work(call, phase, rng)];
        }
        if self.calls.iter().any(|(_, phase)| *phase != Phase::Over) {
            return if rng.percent(15) { vec![self.say(rng)] } else { vec![Doing::Wait] };
        }
        if self.pieces > 0 {
            self.pieces -= 1;
            return vec![self.say(rng)];
        }
        if self.replies > 0 {
            self.replies -= 1;
            self.pieces = rng.below(3);
            let proposed = (0..1 + rng.below(4)).map(|_| self.propose(rng, names)).collect();
            self.message += 1;
            return proposed;
        }
        self.gone = true;
        let outcome = match rng.below(8) {
            0 => TurnOutcome::failed("the model is gone"),
            _ => TurnOutcome::Completed,
        };
        vec![Doing::Report(Report::Finish { outcome })]
    }

    /// A panic in the turn, caught at its boundary.
    pub fn crash(&mut self) -> [Doing; 2] {
        self.gone = true;
        let message = "internal error".to_owned();
        [
            Doing::Report(Report::Notice {
                level: Level::Error,
                text: message.clone(),
                wait: None,
            }),
            Doing::Report(Report::Finish { outcome: TurnOutcome::failed(message) }),
        ]
    }

    /// An invalid action: name an unknown call, propose one twice, end one that still waits for its
    /// permit.
    pub fn misbehave(&self, rng: &mut Rng) -> Doing {
        let own = rng.maybe_pick(&self.calls).map(|(call, _)| call.clone());
        let own = own.unwrap_or("call-of-nobody".into());
        let waits = self.calls.iter().find(|(_, phase)| *phase == Phase::Waiting);
        let not_running = waits.map_or("call-of-nobody".into(), |(call, _)| call.clone());
        Doing::Report(match rng.below(4) {
            0 => Report::Propose { call: own, proposal: proposal("message-x".into(), rng) },
            1 => Report::Output { call: not_running, text: "?".into(), skipped: 0 },
            2 => Report::End {
                call: not_running,
                outcome: CallOutcome::Succeeded { output: Output::text("done") },
            },
            _ => Report::Invalid {
                call: own,
                message: "message-x".into(),
                tool: "no_such_tool".into(),
                input: json!({}),
                outcome: CallOutcome::Failed {
                    failure: CallFailure::new("unknown_tool", "there is no such tool"),
                },
            },
        })
    }

    fn message(&self) -> MessageId {
        MessageId::new(format!("{}.{}", self.turn, self.message))
    }

    fn say(&mut self, rng: &mut Rng) -> Doing {
        let message = self.message();
        let text =
            (*rng.pick(&["ok, ", "so ", "ä", "日本", "a longer piece of text. "])).to_owned();
        Doing::Report(match rng.below(14) {
            0..6 => Report::Text { message, text },
            6..9 => {
                let subject = (*rng.pick(&["", "Plan"])).to_owned();
                Report::Thought { message, subject, text }
            }
            9 => Report::Plan { steps: vec![PlanStep { text, state: StepState::InProgress }] },
            10 => Report::Cite { sources: vec![Source { title: text, uri: "file:a".into() }] },
            11 => Report::Compact { summary: text, reach: loggia_core::CompactReach::Everything },
            12 => Report::Revoke { rule: "no-rule".into() },
            _ => {
                let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
                Report::Usage { model: ModelName("scripted".into()), usage, window: None }
            }
        })
    }

    fn propose(&mut self, rng: &mut Rng, names: &mut u64) -> Doing {
        *names += 1;
        let call = CallId::new(format!("call-{names}"));
        self.calls.push((call.clone(), Phase::Waiting));
        Doing::Report(Report::Propose { call, proposal: proposal(self.message(), rng) })
    }
}

fn work(call: &CallId, phase: &mut Phase, rng: &mut Rng) -> Doing {
    match std::mem::replace(phase, Phase::Over) {
        Phase::Permitted(details) => {
            *phase = Phase::Running(rng.below(4));
            Doing::Run(call.clone(), details)
        }
        Phase::Running(0) => {
            let outcome = match rng.below(5) {
                0 => CallOutcome::Failed { failure: CallFailure::new("exit", "exit status 1") },
                _ => CallOutcome::Succeeded { output: Output::text("done") },
            };
            Doing::Report(Report::End { call: call.clone(), outcome })
        }
        Phase::Running(left) => {
            *phase = Phase::Running(left - 1);
            let text = (*rng.pick(&["line\n", "ü\n", "a long line of output\n"])).to_owned();
            let skipped = if rng.percent(10) { 4096 } else { 0 };
            Doing::Report(Report::Output { call: call.clone(), text, skipped })
        }
        Phase::Waiting | Phase::Over => Doing::Wait,
    }
}

fn proposal(message: MessageId, rng: &mut Rng) -> Proposal {
    let edit = |path: &str| Details::Edit(FileDiff::between(path, path, Some("old\n"), "new\n"));
    let execute = |command: &str| Details::Execute {
        command: command.into(),
        directory: "/work/project".into(),
    };
    let (access, details) = match rng.below(16) {
        0..6 => (Access::Edit, edit("src/main.rs")),
        6 => (Access::Edit, edit(".git/hooks/pre-commit")),
        7..9 => (Access::Execute, execute("git log")),
        9 => (Access::Execute, execute("git log; rm -rf /")),
        10 => (Access::Read, Details::Generic { text: "README.md".into() }),
        11..13 => {
            let options = vec!["yes".into(), "no".into()];
            (Access::Ask, Details::Question { text: "go on?".into(), options })
        }
        _ => (Access::Other, Details::Mcp { server: "a".into(), tool: "b".into() }),
    };
    let runs = matches!(details, Details::Execute { .. });
    let tool = if runs { SHELL_TOOL } else { "a.b" }.to_owned();
    Proposal {
        message,
        tool,
        title: "a call".into(),
        access,
        input: json!({ "a": 1 }),
        details,
        needs_person: false,
    }
}

/// Rules that match proposals of these agents.
pub fn rule(rng: &mut Rng) -> Rule {
    let matcher = match rng.below(3) {
        0 => Matcher::Edits,
        1 => Matcher::Tool("a.b".into()),
        _ => Matcher::Command(CommandPattern { words: vec!["git".into()], open: true }),
    };
    let id = RuleId::new(format!("rule-{}", rng.below(4)));
    Rule {
        id,
        matcher,
        allow: rng.percent(70),
        scope: RuleLifetime::Session,
        directory: None,
        principal: None,
    }
}
