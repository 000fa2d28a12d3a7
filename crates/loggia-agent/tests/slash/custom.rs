//! Custom commands: the log contains the typed line and the expansion.

use loggia_core::{CallId, Details, Event, Mode, TurnOutcome};

use super::talk::Talk;

/// Repeats its prompt.
const ECHO: &str = "script [[rule]]\nregex = '(?s)^.*$'\nsteps = [{text=\"told: $0\"}]\n";

async fn trusting(model: &str) -> Talk {
    let talk = Talk::with(Mode::Ask, model, None).await;
    talk.put("trusted", "");
    talk
}

fn expansions(log: &[Event]) -> Vec<(String, String, String)> {
    let expanded = |event: &Event| match event {
        Event::PromptExpanded { command, source, text, .. } => {
            Some((command.clone(), source.clone(), text.clone()))
        }
        _ => None,
    };
    log.iter().filter_map(expanded).collect()
}

#[tokio::test]
async fn a_command_is_expanded_to_a_prompt_of_its_author() {
    let mut talk = trusting(ECHO).await;
    talk.put("w/.loggia/commands/git/commit.md", "---\ndescription: d\n---\nCommit $1 for $2.\n");
    assert_eq!(
        talk.say("/git:commit it 'all of us' now").await,
        "told: Commit it for all of us now."
    );
    let log = talk.log().await;
    let typed = log.iter().find_map(|event| match event {
        Event::PromptAccepted { content, .. } => Some(content.to_text()),
        _ => None,
    });
    assert_eq!(typed.unwrap(), "/git:commit it 'all of us' now");
    let source = ".loggia/commands/git/commit.md".to_owned();
    let text = "Commit it for all of us now.".to_owned();
    assert_eq!(expansions(&log), [("git:commit".to_owned(), source, text)]);
    // The expansion is part of the conversation.
    let stats = talk.say("/stats").await;
    assert!(stats.contains("earlier turns: 1"), "{stats}");
    assert!(talk.say("/compact").await.contains("1 turn"));
}

#[tokio::test]
async fn a_changed_file_takes_effect_at_once() {
    let mut talk = trusting(ECHO).await;
    assert!(talk.fails("/go").await.contains("there is no command `/go`"));
    talk.put("w/.claude/commands/go.md", "one");
    assert_eq!(talk.say("/go").await, "told: one");
    talk.put("w/.claude/commands/go.md", "two $ARGUMENTS");
    assert_eq!(talk.say("/GO x").await, "told: two x");
    talk.put("user/commands/go.md", "mine");
    assert_eq!(talk.say("/go x").await, "told: two x", "a project's is before one's own");
    std::fs::remove_file(talk.directory.path().join("trusted")).unwrap();
    assert_eq!(
        talk.say("/go").await,
        "told: mine",
        "of a project that is not trusted nothing counts"
    );
}

#[tokio::test]
async fn help_lists_commands_and_errors_in_files() {
    let mut talk = trusting("offline").await;
    talk.put(
        "w/.gemini/commands/plan.toml",
        "description = 'Plans'\nprompt = 'say {{args}} !{ls}'\n",
    );
    talk.put("w/.loggia/commands/bad.md", "---\ndescription: x\nnonsense\n---\nsay x");
    talk.put("user/commands/mine.md", "---\nargument-hint: <what>\nmodel: big\n---\nsay $1");
    let help = talk.say("/help").await;
    assert!(help.contains("\n- `/mine <what>`: say $1\n- `/plan`: Plans\n\nNot used:\n"), "{help}");
    assert!(help.contains("- `.loggia/commands/bad.md`, line 3: `nonsense` is not `key"), "{help}");
    let plan = talk.say("/help plan").await;
    assert!(
        plan.contains("A prompt from `.gemini/commands/plan.toml`. It runs commands"),
        "{plan}"
    );
    assert!(talk.say("/help /MINE").await.contains("Not supported: `model`."));
    let unknown = talk.fails("/nothing").await;
    assert!(unknown.ends_with("/clear, /name, /model, /effort, /mine, /plan"), "{unknown}");
    std::fs::remove_file(talk.directory.path().join("trusted")).unwrap();
    let help = talk.say("/help").await;
    assert!(help.contains("- `/bad`, `/plan` of this directory, which is not trusted"), "{help}");
}

#[tokio::test]
async fn files_are_inserted_and_never_parsed_as_commands() {
    let mut talk = trusting(ECHO).await;
    talk.put("w/notes.txt", "!{touch pwned} {{args}}");
    talk.put("w/.loggia/commands/see.toml", "prompt = 'See @{notes.txt} for {{args}}'\n");
    let said = talk.say("/see !{touch pwned}").await;
    assert_eq!(said, "told: See !{touch pwned} {{args}} for !{touch pwned}");
    assert_eq!(talk.read("pwned"), None);
    for (path, why) in [
        ("../user/AGENTS.md", "is outside the workspace"),
        ("missing.txt", "there is no `missing.txt`"),
        (".loggia", "is a directory"),
        ("secret.env", "excluded by an ignore file"),
        ("build/deep/x", "excluded by an ignore file"),
    ] {
        talk.put("w/.gitignore", "*.env\nbuild/\n");
        talk.put("w/secret.env", "token");
        talk.put("w/build/deep/x", "x");
        talk.put("w/.loggia/commands/see.toml", &format!("prompt = 'See @{{{path}}}'\n"));
        let message = talk.fails("/see").await;
        assert!(message.starts_with("/see: ") && message.contains(why), "{path}: {message}");
    }
}

/// The command line of the open approval.
async fn asked(talk: &mut Talk) -> (CallId, String) {
    let mut shown = None;
    loop {
        match talk.event().await {
            Event::CallProposed { call, details: Details::Execute { command, .. }, .. } => {
                shown = Some((call, command));
            }
            Event::ApprovalAsked { .. } => return shown.unwrap(),
            Event::TurnEnded { outcome, .. } => panic!("nothing was asked: {outcome:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_command_line_needs_approval_and_a_refusal_sends_nothing() {
    let mut talk = trusting(ECHO).await;
    talk.put("w/.loggia/commands/look.toml", "prompt = 'Look: !{touch {{args}}}'\n");
    talk.prompt("/look a b").await;
    let (call, command) = asked(&mut talk).await;
    assert_eq!(command, "touch 'a b'");
    talk.answer(&call, "cancel").await;
    let ended = talk.end().await;
    assert_eq!(ended.outcome, TurnOutcome::Completed);
    assert!(ended.said.starts_with("Nothing was sent: "), "{}", ended.said);
    assert!(expansions(&talk.log().await).is_empty());
}

#[tokio::test]
async fn a_file_that_changed_during_an_approval_is_not_used() {
    let mut talk = trusting(ECHO).await;
    talk.put("w/.loggia/commands/look.toml", "prompt = '!{touch a}'\n");
    talk.prompt("/look").await;
    let (call, _) = asked(&mut talk).await;
    talk.put("w/.loggia/commands/look.toml", "prompt = '!{touch b}'\n");
    talk.restart().await;
    talk.answer(&call, "cancel").await;
    let TurnOutcome::Failed { message, .. } = talk.end().await.outcome else { panic!() };
    assert!(message.contains("its file changed while a call waited"), "{message}");
}

#[tokio::test]
async fn without_the_shell_tool_no_command_line_runs() {
    let tools = Some(vec!["read_file".to_owned()]);
    let mut talk = Talk::with(Mode::All, ECHO, tools).await;
    talk.put("user/commands/look.md", "!`touch x`");
    let message = talk.fails("/look").await;
    assert!(message.contains("there is no tool run_shell_command"), "{message}");
    assert_eq!(talk.read("x"), None);
}
