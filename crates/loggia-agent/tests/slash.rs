//! Slash commands with the real agent: prompts in, text and calls out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "slash/automatic_compaction.rs"]
mod automatic_compaction;
#[path = "slash/custom.rs"]
mod custom;
#[path = "slash/talk.rs"]
mod talk;

use loggia_core::{
    AgentName, CallOutcome, Cancel, ChoiceId, Command, Event, Mode, Seq, TurnOutcome, Workspace,
};
use loggia_session::NewSession;
use talk::{Talk, origin};

#[tokio::test]
async fn about_tools_and_help_describe_the_session() {
    let mut talk = Talk::open(Mode::Edits).await;
    let help = talk.say("/help").await;
    assert!(help.contains("- `/memory add TEXT`: Adds a note"), "{help}");
    let help = talk.say("/help approvals revoke").await;
    assert!(help.contains("RULE (required): The rule's id"), "{help}");
    let about = talk.say("/about").await;
    let session = talk.handle.id().to_string();
    for part in ["model: offline", "mode: edits", &talk.workspace(), &session, "Loggia 0."] {
        assert!(about.contains(part), "{part} is not in {about}");
    }
    let tools = talk.say("/tools").await;
    assert!(tools.contains("- `write_file` (edits files): Writes a complete text file"), "{tools}");
    assert!(tools.contains("- `run_shell_command` (runs a program)"), "{tools}");
}

#[tokio::test]
async fn stats_are_counted_from_the_log() {
    let mut talk = Talk::open(Mode::Edits).await;
    let before = talk.say("/stats").await;
    assert!(before.contains("turns: 1, including this one (0 failed, 0 cancelled)"), "{before}");
    talk.say("write a.txt: hi").await;
    talk.fails("fail on purpose").await;
    talk.say("read none.txt").await;
    let after = talk.say("/stats").await;
    assert!(after.contains("turns: 5, including this one (1 failed, 0 cancelled)"), "{after}");
    assert!(after.contains("calls: 2 (1 succeeded, 1 failed, 0 refused"), "{after}");
    assert!(after.contains("(earlier turns: 3)"), "commands are no part of the context: {after}");
    assert!(after.contains("compactions, including clears: 0"), "{after}");
}

#[tokio::test]
async fn an_unknown_command_lists_the_commands_and_reaches_no_model() {
    let mut talk =
        Talk::with(Mode::All, "script [[rule]]\nsteps = [{text=\"played\"}]", None).await;
    let ended = talk.ask("/foo bar").await;
    assert!(ended.said.contains("there is no command `/foo`"), "{ended:?}");
    assert!(ended.said.contains("- `/help [COMMAND]`"), "{ended:?}");
    assert!(ended.said.contains("put a space before it"), "{ended:?}");
    assert!(!ended.said.contains("played"), "{ended:?}");
    assert!(matches!(ended.outcome, TurnOutcome::Failed { .. }), "{ended:?}");
    for text in ["/usr/bin/x explain", " /foo bar", "say /help"] {
        assert_eq!(talk.say(text).await, "played", "{text}");
    }
}

#[tokio::test]
async fn a_note_is_shown_before_it_is_written_and_reaches_the_model() {
    let echo = "script [[rule]]\nsteps = [{text=\"${instructions}\"}]";
    let mut talk = Talk::with(Mode::Ask, echo, None).await;
    talk.put("user/AGENTS.md", "I like tea.\n");
    let before = talk.say("what are you told?").await;
    assert!(before.contains("I like tea."), "{before}");

    talk.prompt("/memory add the tests need a database").await;
    let (call, diff) = talk.question().await;
    assert_eq!(diff.path, "AGENTS.md");
    assert_eq!(diff.old, None);
    assert!(diff.unified.contains("+- the tests need a database"), "{}", diff.unified);
    assert_eq!(talk.read("AGENTS.md"), None, "nothing is written before it is allowed");
    talk.answer(&call, ChoiceId::PROCEED_ONCE).await;
    assert!(talk.end().await.said.starts_with("wrote AGENTS.md"));
    let text = "# Notes for agents\n\n- the tests need a database\n";
    assert_eq!(talk.read("AGENTS.md").as_deref(), Some(text));

    let shown = talk.say("/memory show").await;
    let told = talk.say("what are you told?").await;
    assert!(told.ends_with(&shown), "shown:\n{shown}\ntold:\n{told}");
    assert!(shown.contains("- the tests need a database"), "{shown}");
    let list = talk.say("/memory list").await;
    assert!(list.ends_with("\n- AGENTS.md: 48 bytes"), "{list}");

    talk.prompt("/memory add and a cache").await;
    let (call, diff) = talk.question().await;
    assert_eq!(diff.old.as_deref(), Some(text));
    talk.answer(&call, ChoiceId::CANCEL).await;
    let refused = talk.end().await;
    assert!(refused.said.contains("Nothing was done: refused by CLI:test"), "{refused:?}");
    assert_eq!(talk.read("AGENTS.md").as_deref(), Some(text));
}

#[tokio::test]
async fn a_note_is_added_to_the_file_that_is_used() {
    let mut talk = Talk::open(Mode::Edits).await;
    talk.put("w/CLAUDE.md", "Run make.\n");
    assert!(talk.say("/memory add and test").await.starts_with("wrote CLAUDE.md"));
    assert_eq!(talk.read("CLAUDE.md").as_deref(), Some("Run make.\n\n- and test\n"));
    assert!(talk.say("/init").await.contains("CLAUDE.md already exists"));
    assert_eq!(talk.read("AGENTS.md"), None);
}

#[tokio::test]
async fn memory_names_the_origin_of_each_part() {
    let mut talk = Talk::open(Mode::Ask).await;
    talk.put(".git/HEAD", "ref: refs/heads/main\n");
    talk.put("AGENTS.md", "Root.\n");
    talk.put("w/AGENTS.md", "See @docs/style.md.\n");
    talk.put("w/docs/style.md", "Style.\n");
    let shown = talk.say("/memory").await;
    for part in [
        "--- ../AGENTS.md ---\nRoot.",
        "--- AGENTS.md ---\nSee @docs/style.md.",
        "--- docs/style.md, imported by AGENTS.md ---\nStyle.",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}

#[tokio::test]
async fn init_describes_the_workspace() {
    let mut talk = Talk::open(Mode::Ask).await;
    talk.put("w/Cargo.toml", "[package]\nname = \"demo\"\n");
    talk.put("w/src/main.rs", "fn main() {}\n");
    talk.prompt("/init").await;
    let (call, diff) = talk.question().await;
    assert!(
        diff.new.contains("- Cargo (`Cargo.toml`): `cargo build`, `cargo test`"),
        "{}",
        diff.new
    );
    talk.answer(&call, ChoiceId::PROCEED_ONCE).await;
    talk.end().await;
    assert_eq!(talk.read("AGENTS.md"), Some(diff.new));
    talk.put("w/AGENTS.md", "mine\n");
    let again = talk.say("/init").await;
    assert!(again.contains("already exists, and nothing was written"), "{again}");
    assert_eq!(talk.read("AGENTS.md").as_deref(), Some("mine\n"));
}

#[tokio::test]
async fn commands_respect_the_mode_and_the_tools_of_the_session() {
    let mut talk = Talk::open(Mode::Plan).await;
    let refused = talk.say("/init").await;
    assert!(refused.contains("plan mode is read-only"), "{refused}");
    assert_eq!(talk.read("AGENTS.md"), None);

    let mut talk = Talk::with(Mode::All, "offline", Some(vec!["read_file".into()])).await;
    assert!(talk.fails("/init").await.contains("there is no tool write_file"));
    assert_eq!(talk.say("/tools").await.lines().count(), 1);

    let mut talk = Talk::open(Mode::All).await;
    std::os::unix::fs::symlink("../secret", talk.directory.path().join("w/AGENTS.md")).unwrap();
    assert!(talk.fails("/memory add x").await.contains("symbolic link"));
    assert!(!talk.directory.path().join("secret").exists());
}

#[tokio::test]
async fn an_open_question_of_a_command_survives_a_restart() {
    let mut talk = Talk::open(Mode::Ask).await;
    talk.prompt("/memory add it survives").await;
    let (call, _) = talk.question().await;
    talk.restart().await;
    talk.answer(&call, ChoiceId::PROCEED_ONCE).await;
    assert_eq!(talk.end().await.outcome, TurnOutcome::Completed);
    assert!(talk.read("AGENTS.md").unwrap().contains("- it survives"));
    let log = talk.log().await;
    let proposed = log.iter().filter(|event| matches!(event, Event::CallProposed { .. })).count();
    assert_eq!(proposed, 1, "the call is taken up, not made again");
}

#[tokio::test]
async fn a_rule_is_listed_and_revoked() {
    let mut talk = Talk::open(Mode::Ask).await;
    assert_eq!(talk.say("/approvals").await, "No rule is in force here; the mode is ask.");
    talk.prompt("write a.txt: 1").await;
    let (call, _) = talk.question().await;
    talk.answer(&call, ChoiceId::PROCEED_ALWAYS_PROJECT).await;
    talk.end().await;
    talk.say("write a.txt: 2").await;
    let rule = talk.rules().await.remove(0);
    let list = talk.say("/approvals list").await;
    let line = format!("- `{rule}`: allow file edits, always in this workspace");
    assert!(list.contains(&line), "{list}");

    assert!(talk.fails("/approvals revoke nonsense").await.contains("there is no rule `nonsense`"));
    let beginning: String = rule.as_str().chars().take(20).collect();
    let said = talk.say(&format!("/approvals revoke {beginning}")).await;
    assert_eq!(said, "Revoked: file edits. It needs approval again.");
    assert!(talk.rules().await.is_empty(), "forgotten for the workspace, too");
    talk.prompt("write a.txt: 3").await;
    let (call, _) = talk.question().await;
    talk.answer(&call, ChoiceId::PROCEED_ALWAYS).await;
    talk.end().await;
    let list = talk.say("/approvals").await;
    assert!(list.contains("allow file edits, for this session"), "{list}");
}

#[tokio::test]
async fn a_rule_of_another_session_can_be_revoked() {
    let mut talk = Talk::open(Mode::Ask).await;
    let settings = talk.handle.inspect(|session| session.opened().unwrap().settings.clone()).await;
    let new = NewSession {
        workspace: Workspace::Local { path: talk.workspace() },
        settings: settings.unwrap(),
        agent: AgentName("loggia".into()),
    };
    let other = talk.hub.create(new, origin()).await.unwrap();
    let (here, mut follower) = (talk.handle.clone(), other.follow(Seq::ZERO));
    std::mem::swap(&mut talk.follower, &mut follower);
    talk.handle = other;
    talk.prompt("write a.txt: 1").await;
    let (call, _) = talk.question().await;
    talk.answer(&call, ChoiceId::PROCEED_ALWAYS_PROJECT).await;
    talk.end().await;
    talk.handle = here;
    talk.follower = follower;
    let rule = talk.rules().await.remove(0);
    let list = talk.say("/approvals").await;
    assert!(list.contains(rule.as_str()), "{list}");
    talk.say(&format!("/approvals revoke {rule}")).await;
    assert!(talk.rules().await.is_empty());
}

#[tokio::test]
async fn a_summary_replaces_the_earlier_conversation() {
    let mut talk = Talk::open(Mode::Edits).await;
    assert!(talk.say("/compact").await.contains("There is nothing to summarise"));
    talk.say("write a.txt: one").await;
    talk.say("say two").await;
    talk.say("/help").await;
    let said = talk.say("/compact the names").await;
    assert!(said.contains("now replaces 2 turns"), "{said}");
    let expected = "- Asked: write a.txt: one\n  Did: write_file a.txt, done\n  \
                    Said: wrote a.txt (1 line, 4 bytes)\n- Asked: say two\n  Said: two\n\n\
                    Files that were read or changed last: a.txt";
    assert!(said.ends_with(expected), "{said}");
    let compacted = talk.log().await.into_iter().find_map(|event| match event {
        Event::ContextCompacted { upto, summary, .. } => Some((upto, summary)),
        _ => None,
    });
    let (upto, summary) = compacted.unwrap();
    assert!(said.ends_with(&summary) && upto > Seq::ZERO);
    let (from, stands) = talk
        .handle
        .inspect(|session| (session.recent_from(), session.compacted().cloned()))
        .await
        .unwrap();
    assert!(from >= upto, "nothing before the summary is read again");
    assert_eq!(stands.unwrap().summary, summary);
    assert!(talk.say("/compact").await.contains("no turn since the last summary"));

    // The next summary covers the first summary and the turns since.
    talk.restart().await;
    talk.say("say three").await;
    let said = talk.say("/compact").await;
    assert!(said.contains("now replaces 1 turn ("), "{said}");
    let whole = format!("{expected}\n- Asked: say three\n  Said: three");
    assert!(said.ends_with(&whole), "{said}");

    talk.say("/clear").await;
    talk.say("say four").await;
    let said = talk.say("/compact").await;
    assert!(said.ends_with("cut short.\n- Asked: say four\n  Said: four"), "{said}");
    let stats = talk.say("/stats").await;
    assert!(stats.contains("compactions, including clears: 4"), "{stats}");
    let said = talk.log().await;
    let prompts = said.iter().filter(|event| matches!(event, Event::PromptAccepted { .. }));
    assert_eq!(prompts.count(), 12, "the log keeps everything");
}

#[tokio::test]
async fn a_prompt_queued_behind_a_compaction_gets_only_the_summary() {
    let script = r#"
[[rule]]
contains = "Summarise the conversation"
steps = [{text="SUMMARY"}]
[[rule]]
prompt = "slow"
steps = [{delay="300ms"}, {text="old words"}]
[[rule]]
steps = [{text="new words"}]
"#;
    let mut talk = Talk::with(Mode::All, &format!("script {script}"), None).await;
    for text in ["slow", "second", "/compact", "waiting"] {
        talk.prompt(text).await;
    }
    for _ in 0..4 {
        assert_eq!(talk.end().await.outcome, TurnOutcome::Completed);
    }
    let stats = talk.say("/stats").await;
    assert!(stats.contains("(earlier turns: 1, a summary before them)"), "{stats}");
}

#[tokio::test]
async fn a_summary_that_fails_changes_nothing() {
    let script = r#"
[[rule]]
contains = "Summarise the conversation"
steps = [{text="half of"}, {error="no", kind="refused"}]
[[rule]]
steps = [{text="words"}]
"#;
    let mut talk = Talk::with(Mode::All, &format!("script {script}"), None).await;
    talk.say("hello").await;
    assert_eq!(talk.fails("/compact").await, "nothing was summarised: no");
    let log = talk.log().await;
    assert!(!log.iter().any(|event| matches!(event, Event::ContextCompacted { .. })));
}

#[tokio::test]
async fn a_summary_that_is_cancelled_changes_nothing() {
    let script = r#"
[[rule]]
contains = "Summarise the conversation"
steps = [{text="half of"}, {delay="60m"}]
[[rule]]
steps = [{text="words"}]
"#;
    let mut talk = Talk::with(Mode::All, &format!("script {script}"), None).await;
    talk.say("hello").await;
    talk.prompt("/compact").await;
    let cancel = Command::Cancel { what: Cancel::Turn };
    talk.handle.submit(cancel, origin()).await.unwrap();
    assert_eq!(talk.end().await.outcome, TurnOutcome::Cancelled);
    talk.say("go on").await;
    let stats = talk.say("/stats").await;
    assert!(stats.contains("(earlier turns: 2)"), "{stats}");
    assert!(stats.contains("including clears: 0"), "{stats}");
}

#[tokio::test]
async fn a_note_is_not_added_to_a_file_that_is_not_text() {
    let mut talk = Talk::open(Mode::All).await;
    std::fs::write(talk.directory.path().join("w/AGENTS.md"), [0xff, 0xfe]).unwrap();
    assert!(talk.fails("/memory add x").await.contains("not UTF-8"));
    let outcome = talk.log().await.into_iter().find_map(|event| match event {
        Event::CallEnded { outcome, .. } => Some(outcome),
        _ => None,
    });
    assert!(!matches!(outcome, Some(CallOutcome::Succeeded { .. })));
    assert_eq!(std::fs::read(talk.directory.path().join("w/AGENTS.md")).unwrap(), [0xff, 0xfe]);
}
