//! Arbitrary histories: moves that mean something in whatever state they are made, and the small
//! world that makes them.
//!
//! A move says "the second open question", not an id, and is resolved when it is made. So random
//! sequences reach deep states, and shrinking keeps them meaningful.

use std::ops::Range;

use loggia_core::shell::CommandPattern;
use loggia_core::{
    Access, AgentName, Amendment, ApprovalId, CallFailure, CallId, CallOutcome, Cancel, ChoiceId,
    CloseReason, Command, Content, Details, Edit, Envelope, Event, FileDiff, Fresh, Level, Limits,
    Matcher, MessageId, Millis, Mode, ModelName, Origin, Output, Part, PromptId, Proposal,
    Question, Refusal, Report, Rule, RuleId, Scope, Session, Settings, Source, Stamped, Step,
    StepState, Surface, TaskChoice, TaskId, TurnId, TurnOutcome, Usage, Workspace,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

// ------------------------------------------------------------------------------------- the world

/// A session driven like the actor drives it: decide, number, apply. Nothing is coalesced here.
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

/// What a failing history looks like: each command with the facts it added or why it added none.
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

/// One command and what came of it.
#[derive(Debug, Clone)]
pub struct Taken {
    pub stamped: Stamped<Command>,
    /// The part of the log this command added, or why it added nothing.
    pub outcome: Result<Range<usize>, Refusal>,
}

impl World {
    pub fn stamp(&mut self, origin: Origin, command: Command) -> Stamped<Command> {
        self.seeds += 1;
        // People's clocks go back, too.
        self.clock += if self.seeds.is_multiple_of(17) { -3_600_000 } else { 250 };
        let at = Millis(1_767_225_600_000 + self.clock);
        Stamped { command, at, origin, fresh: Fresh::new(self.seeds, at) }
    }

    pub fn submit(&mut self, origin: Origin, command: Command) -> Result<Range<usize>, Refusal> {
        let stamped = self.stamp(origin, command);
        let outcome = self.session.decide(&stamped).map(|events| {
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
            Event::PromptAccepted { prompt, task, .. } => {
                self.prompts.push(prompt.clone());
                if !self.tasks.contains(task) {
                    self.tasks.push(task.clone());
                }
            }
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
            Move::Answer(answer) => (client(answer.by), self.answer(answer)),
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
            TaskPick::Named(Pick::Fresh) => {
                TaskChoice::Named(TaskId::new(format!("task-{}", self.tasks.len() + 1)))
            }
            TaskPick::Named(pick) => TaskChoice::Named(task(pick)),
            TaskPick::Continue(pick) => TaskChoice::Continue(task(pick)),
            TaskPick::Reopen(pick) => TaskChoice::Reopen(task(pick)),
        }
    }

    fn answer(&self, pick: &AnswerPick) -> Command {
        let open: Vec<_> = self.session.open_approvals().collect();
        let asked = match &pick.to {
            QuestionPick::Open(index) if !open.is_empty() => {
                let (call, approval) = open[index.index(open.len())];
                Some((approval.id.clone(), call.id.clone()))
            }
            QuestionPick::Open(index) | QuestionPick::Any(index) => {
                known(&Pick::Known(*index), &self.approvals)
            }
            QuestionPick::Unknown => None,
        };
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
        Command::Answer { to, choice, edit, digest }
    }

    fn report(&self, pick: &ReportPick) -> Report {
        let message = |number: u8| MessageId::new(format!("message-{number}"));
        match pick {
            ReportPick::Text(number, text) => {
                Report::Text { message: message(*number), text: text.clone() }
            }
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
                Report::Usage { model: ModelName("scripted".into()), usage: *usage }
            }
            ReportPick::Notice(text) => Report::Notice { level: Level::Info, text: text.clone() },
            ReportPick::Propose(call, proposal) => {
                Report::Propose { call: self.call(call), proposal: proposal.clone() }
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
            ReportPick::Compact(summary) => Report::Compact { summary: summary.clone() },
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
            CallPick::Fresh => Some(CallId::new(format!("call-{}", self.calls.len() + 1))),
            CallPick::Open(index) if !open.is_empty() => known(&Pick::Known(*index), &open),
            CallPick::Open(index) | CallPick::Any(index) => {
                known(&Pick::Known(*index), &self.calls)
            }
            CallPick::Unknown => None,
        };
        picked.unwrap_or("no-call".into())
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
        mode,
        rules,
        tools: None,
        limits: Limits::default(),
    }
}

fn known<T: Clone>(pick: &Pick, all: &[T]) -> Option<T> {
    match pick {
        Pick::Known(index) if !all.is_empty() => Some(all[index.index(all.len())].clone()),
        Pick::Known(_) | Pick::Fresh | Pick::Unknown => None,
    }
}

// ------------------------------------------------------------------------------------- the moves

#[derive(Debug, Clone)]
pub enum Move {
    Open { settings: Settings },
    Prompt { by: u8, id: Pick, task: TaskPick, content: Content },
    Answer(AnswerPick),
    Cancel { by: u8, what: CancelPick },
    Configure { by: u8, settings: Settings },
    Amend { by: u8, amendment: AmendPick },
    Notice { by: u8, text: String },
    Close { by: u8 },
    Report { turn: TurnPick, report: ReportPick },
}

#[derive(Debug, Clone)]
pub enum Pick {
    Fresh,
    Known(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum TaskPick {
    New,
    Named(Pick),
    Continue(Pick),
    Reopen(Pick),
}

#[derive(Debug, Clone)]
pub enum CancelPick {
    Turn,
    Prompt(Pick),
    Task(Pick),
}

#[derive(Debug, Clone)]
pub enum AmendPick {
    Add(Rule),
    Revoke(Pick),
}

#[derive(Debug, Clone)]
pub enum TurnPick {
    Current,
    Past(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum CallPick {
    Fresh,
    Open(Index),
    Any(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub struct AnswerPick {
    by: u8,
    to: QuestionPick,
    by_call: bool,
    choice: ChoicePick,
    edit: EditPick,
    words: String,
    digest: DigestPick,
}

#[derive(Debug, Clone)]
pub enum QuestionPick {
    Open(Index),
    Any(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum ChoicePick {
    Offered(Index),
    Named(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub enum EditPick {
    None,
    /// Of the kind the question is about.
    Fitting,
    File,
    Command,
    Text,
}

#[derive(Debug, Clone, Copy)]
pub enum DigestPick {
    None,
    Right,
    Wrong,
}

#[derive(Debug, Clone)]
pub enum ReportPick {
    Text(u8, String),
    Thought(u8, &'static str, String),
    Plan(Vec<Step>),
    Cite(String),
    Usage(Usage),
    Notice(String),
    Propose(CallPick, Proposal),
    Invalid(CallPick, Value),
    Output(CallPick, String, u64),
    End(CallPick, CallOutcome),
    Compact(String),
    Revoke(Pick),
    Finish(TurnOutcome),
}

// -------------------------------------------------------------------------------- the strategies

/// A history: nearly always opened, nearly always with work to do, then anything.
pub fn histories() -> impl Strategy<Value = World> {
    (prop::bool::weighted(0.97), opening(), prop::collection::vec(moves(), 0..90)).prop_map(
        |(opened, opening, moves)| {
            let mut world = World::default();
            for moved in opening.iter().filter(|_| opened).chain(&moves) {
                let _ = world.make(moved);
            }
            world
        },
    )
}

fn opening() -> impl Strategy<Value = [Move; 2]> {
    (settings_strategy(), contents()).prop_map(|(settings, content)| {
        let prompt = Move::Prompt { by: 0, id: Pick::Fresh, task: TaskPick::New, content };
        [Move::Open { settings }, prompt]
    })
}

pub fn moves() -> impl Strategy<Value = Move> {
    let by = || 0..4u8;
    prop_oneof![
        180 => reports(),
        45 => answers(),
        30 => (by(), prompt_picks(), task_picks(), contents())
            .prop_map(|(by, id, task, content)| Move::Prompt { by, id, task, content }),
        9 => (by(), cancels()).prop_map(|(by, what)| Move::Cancel { by, what }),
        6 => (by(), settings_strategy()).prop_map(|(by, settings)| Move::Configure { by, settings }),
        6 => (by(), amendments()).prop_map(|(by, amendment)| Move::Amend { by, amendment }),
        3 => (by(), texts()).prop_map(|(by, text)| Move::Notice { by, text }),
        1 => settings_strategy().prop_map(|settings| Move::Open { settings }),
        1 => by().prop_map(|by| Move::Close { by }),
    ]
}

fn reports() -> impl Strategy<Value = Move> {
    let turns = prop_oneof![
        30 => Just(TurnPick::Current),
        2 => any::<Index>().prop_map(TurnPick::Past),
        1 => Just(TurnPick::Unknown),
    ];
    let message = || 0..3u8;
    let report = prop_oneof![
        16 => (new_calls(), proposals()).prop_map(|(call, it)| ReportPick::Propose(call, it)),
        10 => (message(), texts()).prop_map(|(message, text)| ReportPick::Text(message, text)),
        5 => (message(), select(vec!["", "Looking", "Thinking hard"]), texts())
            .prop_map(|(message, subject, text)| ReportPick::Thought(message, subject, text)),
        8 => (old_calls(), texts(), prop_oneof![6 => Just(0), 1 => any::<u64>()])
            .prop_map(|(call, text, skipped)| ReportPick::Output(call, text, skipped)),
        6 => (old_calls(), outcomes()).prop_map(|(call, it)| ReportPick::End(call, it)),
        2 => turn_outcomes().prop_map(ReportPick::Finish),
        1 => texts().prop_map(ReportPick::Compact),
        1 => picks().prop_map(ReportPick::Revoke),
        2 => usages().prop_map(ReportPick::Usage),
        1 => (new_calls(), values()).prop_map(|(call, input)| ReportPick::Invalid(call, input)),
        1 => prop::collection::vec(steps(), 0..3).prop_map(ReportPick::Plan),
        1 => texts().prop_map(ReportPick::Cite),
        1 => texts().prop_map(ReportPick::Notice),
    ];
    (turns, report).prop_map(|(turn, report)| Move::Report { turn, report })
}

fn new_calls() -> impl Strategy<Value = CallPick> {
    prop_oneof![
        16 => Just(CallPick::Fresh),
        1 => any::<Index>().prop_map(CallPick::Open),
        1 => any::<Index>().prop_map(CallPick::Any),
    ]
}

fn old_calls() -> impl Strategy<Value = CallPick> {
    prop_oneof![
        16 => any::<Index>().prop_map(CallPick::Open),
        2 => any::<Index>().prop_map(CallPick::Any),
        1 => Just(CallPick::Unknown),
    ]
}

fn answers() -> impl Strategy<Value = Move> {
    let to = prop_oneof![
        12 => any::<Index>().prop_map(QuestionPick::Open),
        5 => any::<Index>().prop_map(QuestionPick::Any),
        1 => Just(QuestionPick::Unknown),
    ];
    let names = vec![
        ChoiceId::PROCEED_ONCE,
        ChoiceId::PROCEED_ALWAYS,
        ChoiceId::PROCEED_ALWAYS_PROJECT,
        ChoiceId::CANCEL,
        ChoiceId::ANSWER,
        "option_1",
        "",
        "yes",
    ];
    let choice = prop_oneof![
        6 => any::<Index>().prop_map(ChoicePick::Offered),
        1 => select(names).prop_map(ChoicePick::Named),
    ];
    let edit = prop_oneof![
        6 => Just(EditPick::None),
        4 => Just(EditPick::Fitting),
        1 => select(vec![EditPick::File, EditPick::Command, EditPick::Text]),
    ];
    let words = prop_oneof![command_lines().prop_map(str::to_owned), texts()];
    let digest = prop_oneof![
        6 => Just(DigestPick::None),
        3 => Just(DigestPick::Right),
        1 => Just(DigestPick::Wrong),
    ];
    (0..4u8, to, any::<bool>(), choice, edit, words, digest).prop_map(
        |(by, to, by_call, choice, edit, words, digest)| {
            Move::Answer(AnswerPick { by, to, by_call, choice, edit, words, digest })
        },
    )
}

fn prompt_picks() -> impl Strategy<Value = Pick> {
    prop_oneof![5 => Just(Pick::Fresh), 1 => any::<Index>().prop_map(Pick::Known)]
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![8 => any::<Index>().prop_map(Pick::Known), 1 => Just(Pick::Unknown)]
}

fn task_picks() -> impl Strategy<Value = TaskPick> {
    let named = prop_oneof![3 => Just(Pick::Fresh), 1 => any::<Index>().prop_map(Pick::Known)];
    prop_oneof![
        2 => Just(TaskPick::New),
        1 => named.prop_map(TaskPick::Named),
        2 => picks().prop_map(TaskPick::Continue),
        2 => picks().prop_map(TaskPick::Reopen),
    ]
}

fn cancels() -> impl Strategy<Value = CancelPick> {
    prop_oneof![
        Just(CancelPick::Turn),
        picks().prop_map(CancelPick::Prompt),
        picks().prop_map(CancelPick::Task),
    ]
}

fn amendments() -> impl Strategy<Value = AmendPick> {
    prop_oneof![2 => rules().prop_map(AmendPick::Add), 1 => picks().prop_map(AmendPick::Revoke)]
}

pub fn settings_strategy() -> impl Strategy<Value = Settings> {
    let mode = prop_oneof![
        6 => Just(Mode::Ask),
        2 => Just(Mode::Edits),
        1 => Just(Mode::All),
        1 => Just(Mode::Plan),
    ];
    (mode, prop::collection::vec(rules(), 0..3)).prop_map(|(mode, rules)| settings(mode, rules))
}

pub fn rules() -> impl Strategy<Value = Rule> {
    let pattern = select(vec!["git log", "git log *", "git *", "cargo test", "ls *"])
        .prop_map(|text| Matcher::Command(CommandPattern::parse(text).unwrap()));
    let matcher = prop_oneof![
        3 => pattern,
        1 => Just(Matcher::Edits),
        1 => Just(Matcher::Tool("github.search".into())),
    ];
    let scope = select(vec![Scope::Session, Scope::Project, Scope::Configured]);
    (0..6u8, matcher, prop::bool::weighted(0.7), scope).prop_map(|(id, matcher, allow, scope)| {
        Rule { id: RuleId::new(format!("rule-{id}")), matcher, allow, scope }
    })
}

pub fn command_lines() -> impl Strategy<Value = &'static str> {
    select(vec![
        "git log",
        "git log --oneline -n 3",
        "git status && git diff",
        "cargo test",
        "ls -la | wc -l",
        "ls; rm -rf /",
        "echo $HOME",
        "sudo id",
        "git log > out.txt",
        "",
    ])
}

pub fn details() -> impl Strategy<Value = (Access, Details)> {
    let path = select(vec!["src/main.rs", "README.md", ".git/hooks/pre-commit", ".github/ci.yml"]);
    let old = prop::option::of(texts());
    prop_oneof![
        4 => command_lines().prop_map(|command| {
            let directory = "/work/project".into();
            (Access::Execute, Details::Execute { command: command.into(), directory })
        }),
        3 => (path, old, texts()).prop_map(|(path, old, new)| {
            let absolute = format!("/work/project/{path}");
            let diff = FileDiff::between(path, &absolute, old.as_deref(), &new);
            (Access::Edit, Details::Edit(diff))
        }),
        1 => Just((
            Access::Other,
            Details::Mcp { server: "github".into(), tool: "search".into() },
        )),
        2 => (texts(), prop::collection::vec(texts(), 0..3))
            .prop_map(|(text, options)| (Access::Ask, Details::Question { text, options })),
        1 => (select(vec![Access::Read, Access::Session]), texts())
            .prop_map(|(access, text)| (access, Details::Generic { text })),
    ]
}

fn proposals() -> impl Strategy<Value = Proposal> {
    let accesses = vec![
        Access::Read,
        Access::Session,
        Access::Edit,
        Access::Execute,
        Access::Ask,
        Access::Other,
    ];
    let other = prop_oneof![15 => Just(None), 1 => select(accesses).prop_map(Some)];
    (0..3u8, details(), other, values()).prop_map(|(message, (access, details), other, input)| {
        Proposal {
            message: MessageId::new(format!("message-{message}")),
            tool: "github.search".into(),
            title: "a call".into(),
            access: other.unwrap_or(access),
            input,
            details,
        }
    })
}

fn outcomes() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        4 => (texts(), prop::option::of(values())).prop_map(|(text, data)| {
            CallOutcome::Succeeded { output: Output { data, ..Output::text(text) } }
        }),
        1 => texts().prop_map(|message| CallOutcome::Failed {
            failure: CallFailure { code: Some(-1), ..CallFailure::new("exit", message) },
        }),
        1 => texts().prop_map(|reason| CallOutcome::Cancelled { reason }),
    ]
}

fn turn_outcomes() -> impl Strategy<Value = TurnOutcome> {
    prop_oneof![
        3 => Just(TurnOutcome::Completed),
        1 => texts().prop_map(|message| TurnOutcome::Failed { message }),
        1 => Just(TurnOutcome::Cancelled),
    ]
}

fn usages() -> impl Strategy<Value = Usage> {
    let count = || prop_oneof![8 => 0..100_000u64, 1 => any::<u64>()];
    (count(), count()).prop_map(|(input_tokens, output_tokens)| Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    })
}

fn steps() -> impl Strategy<Value = Step> {
    (texts(), select(vec![StepState::Pending, StepState::Completed]))
        .prop_map(|(text, state)| Step { text, state })
}

fn contents() -> impl Strategy<Value = Content> {
    let part = prop_oneof![
        4 => texts().prop_map(|text| Part::Text { text }),
        1 => values().prop_map(|data| Part::Data { data }),
        1 => texts().prop_map(|name| Part::File {
            name: Some(name),
            media_type: None,
            base64: Some("AAAA".into()),
            uri: None,
        }),
    ];
    let parts = prop::collection::vec(part, 0..3);
    (parts, prop::option::of(texts()), prop::option::of(values()))
        .prop_map(|(parts, message, metadata)| Content { parts, message, metadata })
}

/// Short, and long enough in bytes to need care: umlauts, emoji, quotes, newlines, nothing.
pub fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z ]{0,12}",
        2 => select(vec!["ä", "日本語", "🙂\u{200d}🙂", "\"\\\n\t", "\u{0}\u{7f}", ""])
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Any JSON, numbers of every size included.
pub fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    let nested = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop_oneof![3 => Just(json!({ "path": "src/main.rs" })), 2 => nested]
}
