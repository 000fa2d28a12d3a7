//! Arbitrary histories: moves that are meaningful in any state, and the world that makes them.
//!
//! A move names "the second open question" instead of an id, and is resolved when it is made. So random
//! sequences reach deep states, and shrinking keeps them meaningful.

use std::ops::Range;

use loggia_core::{
    Access, AgentName, Amendment, ApprovalId, Artifact, CallFailure, CallId, CallOutcome, Cancel,
    ChoiceId, CloseReason, Command, Content, Details, Edit, Effort, Envelope, Event, FileDiff,
    FreshIds, Level, Limits, Matcher, MessageId, Millis, Mode, ModelChoice, ModelName, OnTimeout,
    Origin, Output, Part, PlanStep, PromptId, Proposal, Question, Refusal, Report, Rule, RuleId,
    RuleLifetime, SHELL_TOOL, Screening, Seconds, Session, Settings, Source, Stamped, StepState,
    Surface, TaskChoice, TaskId, Timeout, TurnId, TurnOutcome, Usage, Workspace,
};
use loggia_shell::parse_pattern;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

mod moves;
mod world;

pub use moves::*;
pub use world::*;

/// A history: almost always an opened session with a prompt, then arbitrary moves.
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
    let line = prop::option::weighted(0.4, command_lines());
    (settings_strategy(), contents(), line).prop_map(|(settings, content, line)| {
        let (by, id) = (0, Pick::FreshIds);
        let first = match line {
            Some(line) => Move::Shell { by, id, line },
            None => Move::Prompt { by, id, task: TaskPick::New, content },
        };
        [Move::Open { settings }, first]
    })
}

pub fn moves() -> impl Strategy<Value = Move> {
    let by = || 0..4u8;
    prop_oneof![
        200 => reports(),
        45 => answers(),
        5 => asked_picks().prop_map(Move::Expire),
        34 => (by(), prompt_picks(), task_picks(), contents())
            .prop_map(|(by, id, task, content)| Move::Prompt { by, id, task, content }),
        8 => (by(), prompt_picks(), command_lines())
            .prop_map(|(by, id, line)| Move::Shell { by, id, line }),
        4 => (by(), prompt_picks()).prop_map(|(by, task)| Move::OpenTask { by, task }),
        4 => (by(), prompt_picks(), task_picks(), screenings())
            .prop_map(|(by, id, task, screening)| Move::Screened { by, id, task, screening }),
        9 => (by(), cancels()).prop_map(|(by, what)| Move::Cancel { by, what }),
        6 => (by(), settings_strategy()).prop_map(|(by, settings)| Move::Configure { by, settings }),
        6 => (by(), amendments()).prop_map(|(by, amendment)| Move::Amend { by, amendment }),
        3 => (by(), texts()).prop_map(|(by, text)| Move::Notice { by, text }),
        1 => (by(), names()).prop_map(|(by, name)| Move::Name { by, name }),
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
        8 => (new_calls(), line_picks()).prop_map(|(call, it)| ReportPick::ProposeLine(call, it)),
        12 => (message(), texts()).prop_map(|(message, text)| ReportPick::Text(message, text)),
        5 => (message(), select(vec!["", "Looking", "Thinking hard"]), texts())
            .prop_map(|(message, subject, text)| ReportPick::Thought(message, subject, text)),
        8 => (old_calls(), texts(), prop_oneof![6 => Just(0), 1 => any::<u64>()])
            .prop_map(|(call, text, skipped)| ReportPick::Output(call, text, skipped)),
        6 => (old_calls(), outcomes()).prop_map(|(call, it)| ReportPick::End(call, it)),
        2 => turn_outcomes().prop_map(ReportPick::Finish),
        1 => (texts(), any::<bool>()).prop_map(|(it, auto)| ReportPick::Compact(it, auto)),
        1 => texts().prop_map(ReportPick::Expand),
        1 => picks().prop_map(ReportPick::Revoke),
        2 => usages().prop_map(ReportPick::Usage),
        1 => (new_calls(), values()).prop_map(|(call, input)| ReportPick::Invalid(call, input)),
        1 => prop::collection::vec(steps(), 0..3).prop_map(ReportPick::Plan),
        1 => texts().prop_map(ReportPick::Cite),
        1 => texts().prop_map(ReportPick::Notice),
        1 => names().prop_map(ReportPick::Name),
        1 => choices().prop_map(ReportPick::Choose),
        1 => (select(vec!["a.patch", "b.txt"]), texts(), any::<(bool, bool)>())
            .prop_map(|(name, text, (append, last))| ReportPick::Publish(Artifact {
                id: name.into(),
                name: name.into(),
                parts: vec![Part::Text { text }],
                append,
                last,
            })),
    ];
    (turns, report).prop_map(|(turn, report)| Move::Report { turn, report })
}

fn line_picks() -> impl Strategy<Value = LinePick> {
    prop_oneof![
        6 => Just(LinePick::Exact),
        1 => Just(LinePick::OtherLine),
        1 => Just(LinePick::OtherTool),
        1 => Just(LinePick::OtherDirectory),
        1 => Just(LinePick::OtherAccess),
    ]
}

fn new_calls() -> impl Strategy<Value = CallPick> {
    prop_oneof![
        16 => Just(CallPick::FreshIds),
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

fn asked_picks() -> impl Strategy<Value = QuestionPick> {
    prop_oneof![
        12 => any::<Index>().prop_map(QuestionPick::Open),
        5 => any::<Index>().prop_map(QuestionPick::Any),
        1 => Just(QuestionPick::Unknown),
    ]
}

fn answers() -> impl Strategy<Value = Move> {
    let to = asked_picks();
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
    prop_oneof![5 => Just(Pick::FreshIds), 1 => any::<Index>().prop_map(Pick::Known)]
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![8 => any::<Index>().prop_map(Pick::Known), 1 => Just(Pick::Unknown)]
}

fn screenings() -> impl Strategy<Value = Screening> {
    (any::<bool>(), texts()).prop_map(|(rejected, text)| match rejected {
        true => Screening::Rejected { reason: text },
        false => Screening::Answered { text },
    })
}

fn task_picks() -> impl Strategy<Value = TaskPick> {
    let named = prop_oneof![3 => Just(Pick::FreshIds), 1 => any::<Index>().prop_map(Pick::Known)];
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
    let timeout = prop::option::of((1..600u64, select(OnTimeout::ALL.to_vec())))
        .prop_map(|set| set.map(|(after, then)| Timeout { after: Seconds(after), then }));
    (mode, prop::collection::vec(rules(), 0..3), timeout)
        .prop_map(|(mode, rules, timeout)| Settings { timeout, ..settings(mode, rules) })
}

pub fn rules() -> impl Strategy<Value = Rule> {
    let pattern = select(vec!["git log", "git log *", "git *", "cargo test", "ls *"])
        .prop_map(|text| Matcher::Command(parse_pattern(text).unwrap()));
    let matcher = prop_oneof![
        3 => pattern,
        1 => Just(Matcher::Edits),
        1 => Just(Matcher::Tool("github.search".into())),
    ];
    let scope =
        select(vec![RuleLifetime::Session, RuleLifetime::Project, RuleLifetime::Configured]);
    (0..6u8, matcher, prop::bool::weighted(0.7), scope).prop_map(|(id, matcher, allow, scope)| {
        Rule {
            id: RuleId::new(format!("rule-{id}")),
            matcher,
            allow,
            scope,
            directory: None,
            principal: None,
        }
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
            needs_person: false,
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
        1 => texts().prop_map(TurnOutcome::failed),
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

fn steps() -> impl Strategy<Value = PlanStep> {
    (texts(), select(vec![StepState::Pending, StepState::Completed]))
        .prop_map(|(text, state)| PlanStep { text, state })
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
    let profile = prop::option::of(texts());
    (parts, prop::option::of(texts()), prop::option::of(values()), profile).prop_map(
        |(parts, message, metadata, profile)| Content { parts, message, metadata, profile },
    )
}

/// Few, so that they repeat.
fn choices() -> impl Strategy<Value = ModelChoice> {
    prop_oneof![
        prop_oneof![Just("scripted"), Just("offline")]
            .prop_map(|name| ModelChoice::Model(ModelName(name.into()))),
        prop::option::of(select(Effort::ALL.to_vec())).prop_map(ModelChoice::Effort),
    ]
}

fn names() -> impl Strategy<Value = &'static str> {
    select(vec!["parser", "the other one", "日本語 🙂"])
}

/// Short texts with multi-byte characters, quotes and newlines, and the empty text.
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
