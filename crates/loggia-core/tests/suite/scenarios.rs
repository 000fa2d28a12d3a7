//! Small scripts whose logs are stored as `tests/golden/*.jsonl`, byte for byte. They are the fixtures of
//! the protocol transcripts, and they show that old logs stay readable.
//!
//! Time and seeds are fixed. Turns, tasks, approvals and rules get their ids from `FreshIds`; ids of
//! clients and agents are readable names. `UPDATE_GOLDEN=1` rewrites the files.

pub mod script;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use loggia_core::{
    Access, Amendment, Artifact, CallFailure, CallOutcome, Cancel, ChoiceId, CloseReason, Command,
    Content, Details, Edit, Envelope, Level, Matcher, Mode, OnTimeout, Output, Part, PlanStep,
    Refusal, Repository, Rule, RuleLifetime, Screening, Seconds, SessionName, Settings, Source,
    StepState, TaskChoice, Timeout, TurnOutcome, Workspace,
};
use loggia_shell::{parse_denied_pattern, parse_pattern};
use serde_json::json;

use super::laws::fold;
use super::witness::Witness;
use script::{Script, browser, edit_of, editor, ide, reporter, settings, shell, tui, typed};

macro_rules! scenarios {
    ($($test:ident => $name:ident),* $(,)?) => {
        /// Every scenario with the name of its golden log.
        const ALL: &[(&str, fn() -> Script)] = &[$((stringify!($name), $name)),*];

        $(#[test]
        fn $test() {
            check(stringify!($name), &$name());
        })*
    };
}

scenarios! {
    a_person_says_hello_and_the_agent_answers => hello,
    a_rule_lets_a_command_pass => tool_allowed,
    somebody_else_approves_an_edit => approved,
    a_person_refuses_a_command_and_the_agent_goes_on => denied,
    a_person_changes_the_edit_before_approving_it => edited,
    two_questions_are_open_at_once => two_approvals,
    a_turn_is_cancelled_while_its_tool_runs => cancel_mid_tool,
    the_model_fails => failure,
    prompts_wait_for_their_turn => queue,
    the_agent_asks_a_question_and_gets_an_answer => question,
    a_crash_is_survived => crash_and_resume,
    a_tool_prints_more_than_anybody_reads => long_output,
    always_means_always => always_allow,
    a_plan_is_made_before_anything_is_changed => plan_and_settings,
    commands_are_prompts => slash,
    a_summary_stands_for_what_was => compaction,
    a_session_gets_a_name => named,
    a_conversation_is_compacted_automatically => compacted,
    a_command_from_a_file_becomes_a_prompt => custom_command,
    a_session_works_in_a_clone_of_a_repository => repository,
    a_task_is_ready_before_its_message => task_opened,
    a_ready_task_is_closed => task_closed,
    a_message_is_screened_by_a_hook => screened,
    a_person_runs_a_line_of_their_own => own_line,
    an_unattended_session_asks_no_question => unattended,
    a_question_expires => expired,
    an_expired_question_cancels_the_turn => expired_turn,
}

/// The task id that the legacy service derives from the name `report-7` of this client.
const NAMED: &str = "aef6ac3b-e438-8e2b-82a9-c4e6c719a143";

/// A task of a client that cannot answer questions, with a client-chosen id.
fn unattended() -> Script {
    let settings = Settings { unattended: true, ..settings(Mode::Ask, Vec::new()) };
    let mut script = Script::open_with(reporter(), settings);
    let sent = json!({
        "id": "report-7",
        "message": { "role": "user", "parts": [{ "text": "Write the report." }] },
        "context": { "quarter": "Q3" },
    });
    let content = Content {
        metadata: Some(json!({ "urn:loggia:tasks:request:v1": sent })),
        ..Content::text("Write the report.")
    };
    let (prompt, task) = ("prompt-1".into(), TaskChoice::Named(NAMED.into()));
    script.submit(reporter(), Command::Prompt { prompt, task, content });
    script.propose("message-1", "call-1", shell("make report"));
    script.propose("message-1", "call-2", edit_of("report.md", "", "# Report\n"));
    script.say("message-2", &["I may neither build nor write it."]);
    script.finish();
    script
}

/// The timeout policy answers; a later answer is refused.
fn expired() -> Script {
    let mut script = left_open(OnTimeout::Deny);
    script.expire("call-1");
    let late = script.refused(browser(), "call-1", ChoiceId::PROCEED_ONCE);
    assert_eq!(late.to_string(), "already answered: cancel by the time-out");
    script.say("message-2", &["Nobody was there: I left it undone."]);
    script.finish();
    script
}

fn expired_turn() -> Script {
    let mut script = left_open(OnTimeout::Cancel);
    script.propose("message-1", "call-2", edit_of("notes.md", "", "later\n"));
    script.prompt(ide(), "prompt-2", TaskChoice::New, "And then?");
    script.expire("call-1");
    let late = script.refused(browser(), "call-2", ChoiceId::PROCEED_ONCE);
    let why = "no answer within 10m";
    assert_eq!(late.to_string(), format!("this question is no longer open: {why}"));
    script.say("message-2", &["Nothing more."]);
    script.finish();
    script
}

fn left_open(then: OnTimeout) -> Script {
    let timeout = Some(Timeout { after: Seconds(600), then });
    let settings = Settings { timeout, ..settings(Mode::Ask, Vec::new()) };
    let mut script = Script::open_with(tui(), settings);
    script.prompt(ide(), "prompt-1", TaskChoice::New, "Build it.");
    script.propose("message-1", "call-1", shell("make"));
    script
}

/// The example of the SDLC agent server's document: a task, its message, one approved file.
fn task_opened() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    let profile = Some("coder-agent".to_owned());
    script.submit(ide(), Command::OpenTask { task: "task-1".into(), profile });
    let ready = TaskChoice::Continue("task-1".into());
    script.prompt(ide(), "prompt-1", ready, "Create src/main.rs.");
    script.think("message-1", "Creating a file", "I'll create src/main.rs.");
    script.propose("message-1", "call-1", edit_of("src/main.rs", OLD_MAIN, NEW_MAIN));
    script.answer(browser(), "call-1", ChoiceId::PROCEED_ONCE, None);
    script.succeed("call-1", Output::text("wrote src/main.rs"));
    script.say("message-2", &["I've created src/main.rs."]);
    script.usage(812, 14);
    script.finish();
    script
}

fn task_closed() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.submit(ide(), Command::OpenTask { task: "task-1".into(), profile: None });
    script.submit(ide(), Command::Cancel { what: Cancel::Task("task-1".into()) });
    script
}

/// A rejected and an answered message, while the turn of a third one runs.
fn screened() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Say hello.");
    let message = Some("message-of-the-client".to_owned());
    script.submit(
        ide(),
        Command::Screened {
            prompt: "prompt-2".into(),
            task: TaskChoice::Named("task-2".into()),
            content: Content { message, ..Content::default() },
            screening: Screening::Rejected { reason: "not on a Sunday".into() },
        },
    );
    script.submit(
        browser(),
        Command::Screened {
            prompt: "prompt-3".into(),
            task: TaskChoice::Named("task-3".into()),
            content: Content::text("What is the answer?"),
            screening: Screening::Answered { text: "forty-two".into() },
        },
    );
    script.say("message-1", &["Hello!"]);
    script.finish();
    script
}

fn hello() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Say hello.");
    script.think("message-1", "Greeting", "A short greeting is enough.");
    script.say("message-1", &["Hello! ", "What shall we ", "work on?"]);
    script.usage(812, 14);
    script.finish();
    script
}

fn tool_allowed() -> Script {
    let matcher = Matcher::Command(parse_pattern("cargo test *").unwrap());
    let rule = Rule {
        id: "rule-tests".into(),
        matcher,
        allow: true,
        scope: RuleLifetime::Configured,
        directory: None,
        principal: None,
    };
    let mut script = Script::open(Mode::Ask, vec![rule]);
    script.prompt(ide(), "prompt-1", TaskChoice::Named("task-1".into()), "Do the tests pass?");
    script.say("message-1", &["I run the tests."]);
    script.propose("message-1", "call-1", shell("cargo test --quiet"));
    script.output("call-1", "running 12 tests\n............\n", 0);
    script.output("call-1", "test result: ok. 12 passed; 0 failed\n", 0);
    script.succeed("call-1", Output::text("test result: ok. 12 passed; 0 failed"));
    script.say("message-2", &["Yes: all 12 tests pass."]);
    script.usage(1_530, 48);
    script.finish();
    script
}

fn approved() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Fix the greeting in src/main.rs.");
    script.say("message-1", &["The greeting has a typo; ", "I correct it."]);
    let edit = edit_of("src/main.rs", OLD_MAIN, NEW_MAIN);
    script.propose("message-1", "call-1", edit.clone());
    script.answer(ide(), "call-1", ChoiceId::PROCEED_ONCE, None);
    // The terminal answers later and is refused with the first answer.
    let late = script.refused(tui(), "call-1", ChoiceId::CANCEL);
    assert!(matches!(late, Refusal::AlreadyAnswered { by, .. } if by == ide()));
    let Details::Edit(diff) = edit.details else { unreachable!() };
    let output = Output { diff: Some(diff), ..Output::text("src/main.rs: 1 line changed") };
    script.succeed("call-1", output);
    script.say("message-2", &["Done."]);
    script.usage(2_104, 131);
    script.finish();
    script
}

fn denied() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(browser(), "prompt-1", TaskChoice::New, "Clean up the build directory.");
    script.propose("message-1", "call-1", shell("rm -rf target && rm -rf ~/.cargo/registry"));
    script.answer(browser(), "call-1", ChoiceId::CANCEL, None);
    script.say("message-2", &["I left everything as it is. ", "`cargo clean` would be safer."]);
    script.finish();
    script
}

fn edited() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Fix the greeting, then show the log.");
    let edit = edit_of("src/main.rs", OLD_MAIN, NEW_MAIN);
    script.propose("message-1", "call-1", edit.clone());
    let content = NEW_MAIN.replace("Hello, world!", "Hello, Loggia!");
    let change = Edit::File { content: content.clone() };
    script.answer(editor(), "call-1", ChoiceId::PROCEED_ONCE, Some(change));
    let Details::Edit(diff) = edit.details else { unreachable!() };
    let output = Output {
        diff: Some(diff.with_new(&content)),
        ..Output::text("src/main.rs: 1 line changed")
    };
    script.succeed("call-1", output);
    script.propose("message-2", "call-2", shell("git log"));
    let change = Edit::Command { command: "git log --oneline -n 1".into() };
    script.answer(tui(), "call-2", ChoiceId::PROCEED_ONCE, Some(change));
    script.output("call-2", "1f2e3d4 greet\n", 0);
    script.succeed("call-2", Output::text("1f2e3d4 greet"));
    script.say("message-3", &["The greeting is as you wrote it; the last commit is 1f2e3d4."]);
    script.finish();
    script
}

fn two_approvals() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(ide(), "prompt-1", TaskChoice::New, "Update the changelog and tag the release.");
    script.say("message-1", &["Two steps: the file, then the tag."]);
    let edit = edit_of("CHANGELOG.md", "# Changes\n", "# Changes\n\n## 0.2.0\n\n- greeting\n");
    script.propose("message-1", "call-1", edit);
    script.propose("message-1", "call-2", shell("git tag v0.2.0"));
    script.answer(tui(), "call-2", ChoiceId::CANCEL, None);
    script.answer(browser(), "call-1", ChoiceId::PROCEED_ONCE, None);
    script.succeed("call-1", Output::text("CHANGELOG.md: 4 lines changed"));
    script.say("message-2", &["The changelog is updated. I did not tag the release."]);
    script.finish();
    script
}

fn cancel_mid_tool() -> Script {
    let mut script = Script::open(Mode::All, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Run the long benchmark.");
    script.propose("message-1", "call-1", shell("cargo bench"));
    script.output("call-1", "Benchmarking fold/10k events: warming up\n", 0);
    script.output("call-1", "Benchmarking fold/10k events: collecting\n", 0);
    script.submit(browser(), Command::Cancel { what: Cancel::Turn });
    let prompt = "Then only the first one.";
    let task = TaskChoice::Reopen(script.task().clone());
    script.prompt(tui(), "prompt-2", task, prompt);
    script.say("message-2", &["The first one takes 1.2 ms."]);
    script.finish();
    script
}

fn failure() -> Script {
    let mut script = Script::open(Mode::All, Vec::new());
    script.prompt(ide(), "prompt-1", TaskChoice::New, "Build it.");
    script.propose("message-1", "call-1", shell("cargo build"));
    script.output("call-1", "error[E0425]: cannot find value `greting`\n", 0);
    let failed = CallFailure { code: Some(101), ..CallFailure::new("exit", "exit status 101") };
    script.end("call-1", CallOutcome::Failed { failure: failed });
    script.invalid("message-2", "call-2", "fix_everything", "there is no tool fix_everything");
    script.notice(Level::Warning, "the model is overloaded (529); trying again in 1.0 s");
    let message = "the model is overloaded (529)".to_owned();
    script.finish_with(TurnOutcome::failed(message));
    script
}

fn queue() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Explain src/main.rs.");
    script.prompt(ide(), "prompt-2", TaskChoice::Named("task-ide".into()), "Write a test for it.");
    script.prompt(browser(), "prompt-3", TaskChoice::New, "Rename the crate.");
    let running = TaskChoice::Continue(script.task().clone());
    script.prompt(tui(), "prompt-4", running, "In two sentences.");
    // A retry: nothing happens twice.
    script.prompt(ide(), "prompt-2", TaskChoice::Named("task-ide".into()), "Write a test for it.");
    script.submit(browser(), Command::Cancel { what: Cancel::Prompt("prompt-3".into()) });
    script.say("message-1", &["It prints a greeting."]);
    script.finish();
    script.say("message-2", &["The test is in tests/greeting.rs."]);
    script.finish();
    script.say("message-3", &["It prints a greeting. ", "It takes no arguments."]);
    script.finish();
    script
}

fn question() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(ide(), "prompt-1", TaskChoice::New, "Add logging.");
    let ask = |text: &str, options: &[&str]| loggia_core::Proposal {
        message: "".into(),
        tool: "ask".into(),
        title: text.to_owned(),
        access: Access::Ask,
        input: json!({ "options": options, "question": text }),
        details: Details::Question {
            text: text.to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        },
        needs_person: false,
    };
    script.propose("message-1", "call-1", ask("Which crate?", &["tracing", "log"]));
    script.answer(tui(), "call-1", "option_1", None);
    script.succeed("call-1", Output::text("tracing"));
    script.propose("message-2", "call-2", ask("Which level by default?", &[]));
    let words = Edit::Text { text: "info, and debug for our own crates".into() };
    script.answer(browser(), "call-2", ChoiceId::ANSWER, Some(words));
    script.succeed("call-2", Output::text("info, and debug for our own crates"));
    script.say("message-3", &["I set up tracing with `info,loggia=debug`."]);
    script.finish();
    script
}

fn crash_and_resume() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Run the tests and fix what fails.");
    script.prompt(ide(), "prompt-2", TaskChoice::New, "Then format the code.");
    script.propose("message-1", "call-1", shell("cargo test"));
    let edit = edit_of("src/main.rs", OLD_MAIN, NEW_MAIN);
    script.propose("message-1", "call-2", edit);
    script.answer(tui(), "call-1", ChoiceId::PROCEED_ONCE, None);
    script.output("call-1", "running 12 tests\n", 0);
    script.crash();
    // The question is still open; the agent runs again on the same history and waits for the answer.
    script.answer(ide(), "call-2", ChoiceId::PROCEED_ONCE, None);
    script.succeed("call-2", Output::text("src/main.rs: 1 line changed"));
    script.say("message-2", &["The tests were interrupted, so I only fixed the greeting."]);
    script.finish();
    script.say("message-3", &["Formatting"]);
    // No question is open this time: the turn is over.
    script.crash();
    script.prompt(ide(), "prompt-3", TaskChoice::New, "Then format the code, please.");
    script.say("message-4", &["It was formatted already."]);
    script.finish();
    script
}

fn long_output() -> Script {
    let mut script = Script::open(Mode::All, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "List all files.");
    script.propose("message-1", "call-1", shell("find / -name '*.rs'"));
    let lines = |from: usize| -> String {
        (from..from + 40).map(|n| format!("/work/project/src/file_{n:06}.rs\n")).collect()
    };
    script.output("call-1", &lines(1), 0);
    script.output("call-1", &lines(41), 0);
    script.output("call-1", &lines(52_000), 1_610_412);
    script.output("call-1", &lines(99_961), 1_485_693);
    script.succeed("call-1", Output::text("100000 files; 3096105 bytes of output were left out"));
    script.say("message-2", &["There are 100,000 files."]);
    script.finish();
    script
}

fn always_allow() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "What changed lately?");
    script.propose("message-1", "call-1", shell("git log --oneline -n 3"));
    script.answer(tui(), "call-1", ChoiceId::PROCEED_ALWAYS, None);
    script.output("call-1", "1f2e3d4 greet\n9a8b7c6 begin\n", 0);
    script.succeed("call-1", Output::text("1f2e3d4 greet\n9a8b7c6 begin"));
    script.propose("message-2", "call-2", shell("git log --oneline -n 3"));
    script.succeed("call-2", Output::text("1f2e3d4 greet\n9a8b7c6 begin"));
    // With one more word it is another command, which is asked about.
    script.propose("message-3", "call-3", shell("git log --oneline -n 3 --all"));
    script.answer(tui(), "call-3", ChoiceId::PROCEED_ALWAYS_PROJECT, None);
    script.succeed("call-3", Output::text("1f2e3d4 greet\n9a8b7c6 begin"));
    script.say("message-4", &["Two commits: the greeting, and the beginning."]);
    script.finish();
    script
}

fn plan_and_settings() -> Script {
    let mut script = Script::open(Mode::Plan, Vec::new());
    script.prompt(ide(), "prompt-1", TaskChoice::New, "Port the parser to winnow.");
    let step = |text: &str, state| PlanStep { text: text.to_owned(), state };
    script.plan(vec![
        step("read the parser", StepState::InProgress),
        step("write it anew", StepState::Pending),
    ]);
    script.propose("message-1", "call-1", edit_of("src/main.rs", OLD_MAIN, NEW_MAIN));
    script.cite(vec![Source {
        title: "winnow tutorial".into(),
        uri: "https://docs.rs/winnow/latest/winnow/_tutorial/index.html".into(),
    }]);
    script.plan(vec![
        step("read the parser", StepState::Completed),
        step("write it anew", StepState::Cancelled),
    ]);
    script.say("message-2", &["This is the plan; I changed nothing."]);
    script.finish();
    script.configure(tui(), Mode::Edits);
    let matcher = Matcher::Command(parse_denied_pattern("git push *").unwrap());
    let rule = Rule {
        id: "rule-no-push".into(),
        matcher,
        allow: false,
        scope: RuleLifetime::Session,
        directory: None,
        principal: None,
    };
    script.submit(tui(), Command::Amend { amendment: Amendment::Added { rule } });
    let content = Content {
        parts: vec![
            Part::Text { text: "Go on, with this example.".into() },
            Part::File {
                name: Some("example.txt".into()),
                media_type: Some("text/plain".into()),
                base64: Some("MSArIDI=".into()),
                uri: None,
            },
            Part::Data { data: json!({ "limit": 1, "ratio": 1.5 }) },
        ],
        message: Some("msg-2".into()),
        metadata: Some(json!({ "trace": "abc" })),
        profile: None,
    };
    let task = TaskChoice::Reopen(script.task().clone());
    script.submit(ide(), Command::Prompt { prompt: "prompt-2".into(), task, content });
    script.propose("message-3", "call-2", edit_of("src/main.rs", OLD_MAIN, NEW_MAIN));
    let artifact = Artifact {
        id: "artifact-1".into(),
        name: "port.md".into(),
        parts: vec![Part::Text { text: "# What was ported\n".into() }],
        append: false,
        last: true,
    };
    let output = Output { artifact: Some(artifact), ..Output::text("src/main.rs: 1 line changed") };
    script.succeed("call-2", output);
    script.propose("message-4", "call-3", shell("git push origin main"));
    script.submit(tui(), Command::Close { reason: CloseReason::Requested });
    script
}

/// A shell line typed while the agent works is queued. It runs in plan mode without a question. Other
/// calls of that turn are judged by the policy.
fn own_line() -> Script {
    let mut script = Script::open(Mode::Plan, Vec::new());
    script.prompt(ide(), "prompt-1", TaskChoice::New, "What is here?");
    let line = Command::Shell { prompt: "prompt-2".into(), line: "cargo test -q | tail -1".into() };
    script.submit(tui(), line);
    script.say("message-1", &["A small crate."]);
    script.finish();
    script.propose("message-2", "call-1", typed("cargo test -q | tail -1"));
    script.output("call-1", "test result: ok. 12 passed\n", 0);
    script.succeed("call-1", Output::text("test result: ok. 12 passed"));
    script.propose("message-3", "call-2", typed("cargo test -q | tail -1"));
    script.finish();
    script
}

fn slash() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "/memory add the tests need a database");
    let old = "# Notes\n";
    let new = "# Notes\n\n- the tests need a database\n";
    let edit = edit_of("AGENTS.md", old, new);
    script.propose("message-1", "call-1", edit);
    script.answer(tui(), "call-1", ChoiceId::PROCEED_ALWAYS_PROJECT, None);
    script.succeed("call-1", Output::text("wrote AGENTS.md (3 lines, 39 bytes)"));
    script.say("message-2", &["Remembered in AGENTS.md."]);
    script.finish();
    let rule = script.session.policy().rules[0].id.clone();
    script.prompt(tui(), "prompt-2", TaskChoice::New, &format!("/approvals revoke {rule}"));
    script.revoke(rule);
    script.say("message-3", &["Revoked: file edits. From now on it asks again."]);
    script.finish();
    script.prompt(browser(), "prompt-3", TaskChoice::New, "/foo bar");
    script.say("message-4", &["there is no command `/foo`"]);
    let message = "there is no command `/foo`".to_owned();
    script.finish_with(TurnOutcome::failed(message));
    script
}

/// The typed line, the command that ran to expand it, and the text for the model.
fn custom_command() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(browser(), "prompt-1", TaskChoice::New, "/review the parser");
    script.propose("message-1", "call-1", shell("git diff"));
    script.answer(tui(), "call-1", ChoiceId::PROCEED_ONCE, None);
    script.succeed("call-1", Output::text("+fn parse() {}"));
    let text = "Review the parser. It was changed:\n\n+fn parse() {}";
    script.expand("review", ".loggia/commands/review.md", text);
    script.say("message-2", &["It is short."]);
    script.finish();
    script
}

/// Named from the command line while nothing runs, and by a slash command in a turn.
fn named() -> Script {
    let name = |text| SessionName::parse(text).unwrap();
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Write a parser.");
    script.say("message-1", &["It is written."]);
    script.finish();
    script.submit(tui(), Command::Name { name: name("parser") });
    script.prompt(ide(), "prompt-2", TaskChoice::New, "/name the parser, 2nd try");
    script.name(name("the parser, 2nd try"));
    script.say("message-2", &["This session is called `the parser, 2nd try`."]);
    script.finish();
    script
}

fn compaction() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Call it Loggia.");
    script.say("message-1", &["It is called Loggia."]);
    // Both are queued: the first becomes part of the summary, the second does not.
    script.prompt(ide(), "prompt-2", TaskChoice::New, "And the crate?");
    script.prompt(ide(), "prompt-3", TaskChoice::New, "/compact");
    script.prompt(ide(), "prompt-4", TaskChoice::New, "What is it called?");
    script.finish();
    script.say("message-2", &["loggia."]);
    script.finish();
    script.usage(1_204, 88);
    script.compact("It is called Loggia, and its crate loggia.");
    script.say("message-3", &["A summary stands for 2 turns."]);
    script.finish();
    script.say("message-4", &["Loggia."]);
    script.finish();
    script.prompt(tui(), "prompt-5", TaskChoice::New, "/clear");
    script.compact("");
    script.say("message-5", &["The conversation begins anew."]);
    script.finish();
    script.prompt(tui(), "prompt-6", TaskChoice::New, "What is it called?");
    script.say("message-6", &["I do not know."]);
    script.finish();
    script
}

/// A turn whose context would exceed the model's window begins with a summary of the earlier turns.
fn compacted() -> Script {
    let mut script = Script::open(Mode::Ask, Vec::new());
    script.prompt(tui(), "prompt-1", TaskChoice::New, "Call it Loggia.");
    script.say("message-1", &["It is called Loggia."]);
    // It is queued and is not part of the summary at the start of its own turn.
    script.prompt(ide(), "prompt-2", TaskChoice::New, "What is it called?");
    script.finish();
    script.usage(1_204, 88);
    script.compact_earlier("It is called Loggia.");
    script.say("message-2", &["Loggia."]);
    script.finish();
    script
}

const OLD_MAIN: &str = "fn main() {\n    println!(\"Helo, world!\");\n}\n";
const NEW_MAIN: &str = "fn main() {\n    println!(\"Hello, world!\");\n}\n";

// ---------------------------------------------------------------------------------------- checks

fn repository() -> Script {
    let repository = Repository {
        url: "https://example.org/one/two.git".into(),
        revision: Some("main".into()),
        shallow: true,
        directory: Some("src".into()),
    };
    let path = "/state/clones/01890a5d-ac96-774b-bcce-b302099a8057".into();
    let workspace = Workspace::Clone { path, repository };
    let mut script = Script::open_in(tui(), workspace, settings(Mode::Edits, Vec::new()));
    script.prompt(ide(), "prompt-1", TaskChoice::New, "Add a greeting.");
    script.notice(Level::Info, "Cloning https://example.org/one/two.git at main");
    script.notice(Level::Info, "Cloned commit 0123456789ab: 12 files, 40.0 KiB");
    script.propose("message-1", "call-1", edit_of("src/hello.rs", "", "fn hello() {}\n"));
    script.succeed("call-1", Output::text("wrote src/hello.rs (1 line, 14 bytes)"));
    script.say("message-2", &["There is a greeting now."]);
    script.publish("output.txt", Part::Text { text: "There is a greeting now.".into() });
    let patch = Part::File {
        name: Some("changes.patch".into()),
        media_type: Some("text/x-diff".into()),
        base64: Some("ZGlmZiAtLWdpdCBhL3NyYy9oZWxsby5ycwo=".into()),
        uri: None,
    };
    script.publish("changes.patch", patch);
    script.finish();
    script
}

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[expect(clippy::disallowed_methods, reason = "a test is told by hand to write its golden logs")]
fn updates() -> bool {
    std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1")
}

fn check(name: &str, script: &Script) {
    let path = golden().join(format!("{name}.jsonl"));
    let lines = script.to_jsonl();
    if updates() {
        fs::write(&path, &lines).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    for (number, (kept, line)) in kept.lines().zip(lines.lines()).enumerate() {
        assert_eq!(kept, line, "{name}.jsonl, line {}: UPDATE_GOLDEN=1 if meant", number + 1);
    }
    assert_eq!(kept, lines, "{name}.jsonl: UPDATE_GOLDEN=1 if meant");
}

/// Each log with its name and text. With `UPDATE_GOLDEN`, as the scenarios write them.
fn golden_logs() -> Vec<(String, String)> {
    if updates() {
        return ALL.iter().map(|(name, make)| ((*name).to_owned(), make().to_jsonl())).collect();
    }
    let files = fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(&path).unwrap())
    });
    named.collect()
}

#[test]
fn every_golden_log_has_its_scenario() {
    let expected: BTreeSet<&str> = ALL.iter().map(|(name, _)| *name).collect();
    let logs = golden_logs();
    let found: BTreeSet<&str> = logs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, expected);
}

#[test]
fn golden_logs_keep_the_laws_and_are_written_as_they_were_read() {
    for (name, text) in golden_logs() {
        let log: Vec<Envelope> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Witness::of(&log).unwrap_or_else(|why| panic!("{name}: {why}"));
        let written: String = log.iter().map(script::to_line).collect();
        assert_eq!(written, text, "{name}");
        let (_, make) = ALL.iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(fold(&log), make().session, "{name}");
    }
}

#[test]
fn every_kind_of_event_is_in_some_golden_log() {
    let kind = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["event"]["type"].as_str().unwrap().to_owned()
    };
    let logs = golden_logs();
    let found: BTreeSet<String> =
        logs.iter().flat_map(|(_, text)| text.lines().map(kind)).collect();
    let all = "approval_answered approval_asked artifact_published call_ended call_output call_proposed call_started \
        context_compacted notice_raised plan_updated policy_amended prompt_accepted prompt_expanded prompt_screened prompt_withdrawn session_closed \
        session_named session_opened settings_changed sources_cited task_closed task_opened text_appended thought_appended turn_ended \
        turn_started usage_reported";
    let all: BTreeSet<String> = all.split_whitespace().map(str::to_owned).collect();
    assert_eq!(found, all);
}
