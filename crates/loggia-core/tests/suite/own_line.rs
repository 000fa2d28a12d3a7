//! Shell lines that a person typed: which call they allow, and for how long.

use loggia_core::{
    Access, Authority, CallOutcome, Command, Content, Details, Event, Matcher, Mode, Origin,
    Proposal, Refusal, Report, Rule, RuleLifetime, SHELL_TOOL, TaskChoice, TurnOutcome,
};
use loggia_shell::parse_denied_pattern;
use serde_json::json;

use super::generate::{World, client, open, settings};

const LINE: &str = "make && ./run";

fn world(mode: Mode, rules: Vec<Rule>) -> World {
    let mut world = World::default();
    world.submit(client(0), open(settings(mode, rules))).unwrap();
    world
}

fn shell(id: &str) -> Command {
    Command::Shell { prompt: id.into(), line: LINE.into() }
}

fn exact() -> Proposal {
    Proposal {
        message: "message-1".into(),
        tool: SHELL_TOOL.into(),
        title: "run".into(),
        access: Access::Execute,
        input: json!({ "command": LINE }),
        details: Details::Execute { command: LINE.into(), directory: "/work/project".into() },
        needs_person: false,
    }
}

/// The result of a proposal, in a word.
fn propose(world: &mut World, call: &str, proposal: Proposal) -> &'static str {
    let turn = world.session.turn().unwrap().id.clone();
    let report = Report::Propose { call: call.into(), proposal };
    let range = world.submit(Origin::agent(), Command::Report { turn, report }).unwrap();
    match &world.log[range].last().unwrap().event {
        Event::CallStarted { authority: Authority::Typed { .. }, .. } => "typed",
        Event::CallStarted { authority: Authority::Rule { .. }, .. } => "rule",
        Event::ApprovalAsked { .. } => "asked",
        Event::CallEnded { outcome: CallOutcome::Cancelled { .. }, .. } => "denied",
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_typed_line_allows_exactly_that_line() {
    let details = |command: &str, directory: &str| Details::Execute {
        command: command.into(),
        directory: directory.into(),
    };
    let generic = Details::Generic { text: LINE.into() };
    let cases = [
        ("as typed", exact(), "typed"),
        (
            "one more space",
            Proposal { details: details("make && ./run ", "/work/project"), ..exact() },
            "asked",
        ),
        (
            "with its mark",
            Proposal { details: details("!make && ./run", "/work/project"), ..exact() },
            "asked",
        ),
        ("elsewhere", Proposal { details: details(LINE, "/work"), ..exact() }, "asked"),
        ("another tool", Proposal { tool: "github.search".into(), ..exact() }, "asked"),
        ("another access", Proposal { access: Access::Other, ..exact() }, "asked"),
        ("no command", Proposal { access: Access::Other, details: generic, ..exact() }, "asked"),
    ];
    for (what, proposal, wanted) in cases {
        let mut world = world(Mode::Ask, Vec::new());
        world.submit(client(0), shell("prompt-1")).unwrap();
        assert_eq!(propose(&mut world, "call-1", proposal), wanted, "{what}");
    }
}

#[test]
fn it_is_allowed_in_every_mode_unless_a_rule_denies_it() {
    for mode in [Mode::Ask, Mode::Edits, Mode::All, Mode::Plan] {
        let mut world = world(mode, Vec::new());
        world.submit(client(0), shell("prompt-1")).unwrap();
        assert_eq!(propose(&mut world, "call-1", exact()), "typed", "{mode:?}");
    }
    let matcher = Matcher::Command(parse_denied_pattern("make").unwrap());
    let rule = Rule {
        id: "no".into(),
        matcher,
        allow: false,
        scope: RuleLifetime::Configured,
        directory: None,
        principal: None,
    };
    let mut world = world(Mode::All, vec![rule]);
    world.submit(client(0), shell("prompt-1")).unwrap();
    assert_eq!(propose(&mut world, "call-1", exact()), "denied");
}

#[test]
fn it_runs_once_and_only_in_its_own_turn() {
    let mut world = world(Mode::Ask, Vec::new());
    world.submit(client(0), shell("prompt-1")).unwrap();
    assert_eq!(propose(&mut world, "call-1", exact()), "typed");
    assert_eq!(propose(&mut world, "call-2", exact()), "asked");
    let turn = world.session.turn().unwrap().id.clone();
    let finish = Report::Finish { outcome: TurnOutcome::Completed };
    world.submit(Origin::agent(), Command::Report { turn, report: finish }).unwrap();
    let content = Content::text("go on");
    let task = TaskChoice::New;
    world.submit(client(0), Command::Prompt { prompt: "prompt-2".into(), task, content }).unwrap();
    assert_eq!(propose(&mut world, "call-3", exact()), "asked");
}

#[test]
fn a_prompt_with_the_same_text_is_not_a_typed_line() {
    let mut world = world(Mode::Ask, Vec::new());
    let content = Content::text(format!("!{LINE}"));
    let task = TaskChoice::New;
    world.submit(client(1), Command::Prompt { prompt: "prompt-1".into(), task, content }).unwrap();
    assert_eq!(world.session.turn().unwrap().line, None);
    assert_eq!(propose(&mut world, "call-1", exact()), "asked");
}

#[test]
fn it_is_queued_like_a_prompt_and_a_retry_changes_nothing() {
    let mut world = world(Mode::Ask, Vec::new());
    let content = Content::text("work");
    let task = TaskChoice::New;
    world.submit(client(1), Command::Prompt { prompt: "prompt-1".into(), task, content }).unwrap();
    world.submit(client(0), shell("prompt-2")).unwrap();
    assert_eq!(world.session.queue().len(), 1);
    assert!(world.submit(client(0), shell("prompt-2")).unwrap().is_empty());
    // The agent of the turn before cannot use it.
    assert_eq!(propose(&mut world, "call-1", exact()), "asked");
    let turn = world.session.turn().unwrap().id.clone();
    let finish = Report::Finish { outcome: TurnOutcome::Completed };
    world.submit(Origin::agent(), Command::Report { turn: turn.clone(), report: finish }).unwrap();
    assert_eq!(world.session.turn().unwrap().line.as_deref(), Some(LINE));
    let late = Report::Propose { call: "call-2".into(), proposal: exact() };
    let refused = world.submit(Origin::agent(), Command::Report { turn, report: late });
    assert_eq!(refused, Err(Refusal::StaleTurn));
    assert_eq!(propose(&mut world, "call-3", exact()), "typed");
}

#[test]
fn a_crash_ends_it_and_it_is_never_run_again() {
    let mut world = world(Mode::Ask, Vec::new());
    world.submit(client(0), shell("prompt-1")).unwrap();
    assert_eq!(propose(&mut world, "call-1", exact()), "typed");
    let fresh = loggia_core::FreshIds::new(99, loggia_core::Millis(0));
    let events = world.session.recover(&fresh);
    let [Event::CallEnded { outcome: CallOutcome::Failed { failure }, .. }, ended] =
        events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!(failure.kind, "interrupted");
    assert!(matches!(ended, Event::TurnEnded { outcome: TurnOutcome::Interrupted, .. }));
}
