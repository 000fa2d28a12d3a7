//! Key scripts on real sessions.

use std::sync::Mutex;

use loggia_core::{
    Authority, ChoiceId, Command, Content, CustomCommand, CustomCommands, Event, Origin, Question,
    Surface, TaskChoice,
};
use loggia_testkit::client::Reader;
use loggia_testkit::test_log::Gate;
use loggia_testkit::{Act, ScriptAgent, TestLog};
use loggia_tui::app::Effect;
use loggia_tui::app::Exit;
use loggia_tui::{ConnectedClient, Preview};

use super::harness::{Harness, MemoryHost};

fn phone() -> Origin {
    Origin::new(Surface::A2a, "phone")
}

#[tokio::test]
async fn a_prompt_is_answered() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::say("hello back")])).await;
    harness.types("hello<enter>").sees("hello back").await.sees_no("working").await;
    assert_eq!(harness.host.written.lock().unwrap().as_slice(), ["hello"]);
}

#[tokio::test]
async fn a_command_is_allowed_with_a_key_and_runs() {
    let acts = [Act::execute("ls"), Act::succeed("a.txt"), Act::say("done")];
    let mut harness = Harness::new(ScriptAgent::doing(acts)).await;
    harness.types("go<enter>").sees("Allow once").await.reads().types("y").sees("done").await;
    harness.sees_no("Allow once").await;
}

#[tokio::test]
async fn a_refusal_is_final() {
    let agent = ScriptAgent::doing([Act::execute("ls"), Act::say("then not")]);
    let mut harness = Harness::new(agent.clone()).await;
    harness.types("go<enter>").sees("Allow once").await.reads().types("n").sees("then not").await;
    let notes = agent.test_log().notes();
    assert!(notes.contains(&"refused ls".to_owned()), "{notes:?}");
}

/// Keys typed together with the prompt, before the question: none of them answers.
#[tokio::test]
async fn keys_typed_ahead_do_not_answer() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::execute("rm -rf x")])).await;
    harness.types("go<enter>y").sees("Allow once").await;
    harness.types("ya1");
    // All of it is a draft.
    harness.sees("yya1").await;
    // It stays a draft; an arrow moves to the answers.
    harness.reads().sees("you are writing").await.types("n").sees("› yya1n").await;
    harness.reads().types("<up>").sees("Enter choose").await.types("n").sees_no("Allow once").await;
    harness.sees("› yya1n").await;
}

#[tokio::test]
async fn an_edited_command_is_what_runs() {
    let agent = ScriptAgent::doing([Act::execute("ls"), Act::succeed("ok")]);
    let mut harness = Harness::new(agent).await;
    harness.types("go<enter>").sees("Allow once").await.reads();
    harness.types("e").types(" -la<enter>").sees_no("Your version").await;
    let mut reader = Reader::new(&harness.handle);
    let answered = reader.until(|event| matches!(event, Event::ApprovalAnswered { .. })).await;
    let Event::ApprovalAnswered { details, .. } = &answered.event else { panic!() };
    let wanted =
        loggia_core::Details::Execute { command: "ls -la".into(), directory: "/workspace".into() };
    assert_eq!(details.as_ref(), Some(&wanted));
}

#[tokio::test]
async fn another_clients_answer_closes_the_dialog_and_is_named() {
    let mut harness =
        Harness::new(ScriptAgent::doing([Act::execute("ls"), Act::succeed("ok")])).await;
    harness.types("go<enter>").sees("Allow once").await;
    let approval = Reader::new(&harness.handle).until_asked().await;
    let command = Command::Answer {
        to: Question::Approval(approval),
        choice: ChoiceId::PROCEED_ONCE.into(),
        edit: None,
        digest: None,
        message: None,
    };
    harness.handle.submit(command, phone()).await.unwrap();
    harness.sees_no("Allow once").await.sees("approved by A2A:phone").await;
}

/// The key was in flight when another client answered: it is ignored, and the notice is repeated.
#[tokio::test]
async fn a_key_on_its_way_when_the_dialog_closed_is_swallowed() {
    let mut harness =
        Harness::new(ScriptAgent::doing([Act::execute("ls"), Act::succeed("ok")])).await;
    harness.types("go<enter>").sees("Allow once").await.reads();
    let approval = Reader::new(&harness.handle).until_asked().await;
    let command = Command::Answer {
        to: Question::Approval(approval),
        choice: ChoiceId::PROCEED_ONCE.into(),
        edit: None,
        digest: None,
        message: None,
    };
    harness.handle.submit(command, phone()).await.unwrap();
    harness.sees_no("Allow once").await.types("y<esc><enter>").sees("approved by A2A:phone").await;
    harness.sees("what shall I do?").await.waits(loggia_tui::key_timing::AFTER).types("y");
    harness.sees("› y").await;
}

#[tokio::test]
async fn another_clients_prompt_appears_with_its_origin() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::say("for the phone")])).await;
    let command = Command::Prompt {
        prompt: "p".into(),
        task: TaskChoice::New,
        content: Content::text("from elsewhere"),
    };
    harness.handle.submit(command, phone()).await.unwrap();
    harness.sees("from elsewhere").await.sees("[A2A").await.sees("for the phone").await;
}

#[tokio::test]
async fn prompts_are_queued_and_shown_and_can_be_taken_back() {
    let gate = Gate::default();
    let scripts = [vec![Act::WaitFor(gate.clone())], vec![Act::say("second done")]];
    let mut harness = Harness::new(ScriptAgent::new(TestLog::default(), scripts)).await;
    harness.types("first<enter>").sees("working").await;
    harness.types("second<enter>").sees("queued: second").await;
    harness.types("third<enter>").sees("queued: third").await;
    gate.open();
    harness.sees("second done").await.sees_no("queued:").await;
}

/// The agent proposes the typed command: no question is asked, and it is in the log and the
/// history.
#[tokio::test]
async fn a_line_behind_a_mark_is_run_without_a_question() {
    let acts = [Act::execute("echo hi"), Act::output("hi\n"), Act::succeed("hi")];
    let mut harness = Harness::new(ScriptAgent::doing(acts)).await;
    harness.types("!echo hi").sees("$ !echo hi").await.sees("without a question").await;
    harness.types("<enter>").sees("✓ echo hi").await.sees("› !echo hi").await.sees("\n  hi").await;
    assert!(!harness.screen().contains("Allow once"), "{}", harness.screen());
    assert_eq!(harness.host.written.lock().unwrap().as_slice(), ["!echo hi"]);
    harness.types("<up>").sees("$ !echo hi").await;
    let mut reader = Reader::new(&harness.handle);
    let started = reader.until(|event| matches!(event, Event::CallStarted { .. })).await;
    let Event::CallStarted { authority, .. } = &started.event else { panic!() };
    assert!(matches!(authority, Authority::Typed { .. }), "{authority:?}");
}

/// The output of the person's own command is longer, with a hint for the rest.
#[tokio::test]
async fn the_output_of_a_shell_command_is_longer() {
    let long: String = (1..=60).map(|number| format!("row {number}\n")).collect();
    for (typed, first, more) in [("!seq", 41, 40), ("go", 56, 55)] {
        let acts = [Act::execute("seq"), Act::output(&long), Act::succeed(&long)];
        let mut harness =
            Harness::sized(ScriptAgent::doing(acts), MemoryHost::default(), (80, 40)).await;
        harness.types(typed).types("<enter>");
        if typed == "go" {
            harness.sees("Allow once").await.reads().types("y");
        }
        harness.sees("row 60").await.sees_no("working").await;
        harness.sees(&format!("… {more} more lines: Ctrl-T shows all\n  row {first}\n")).await;
    }
}

/// Other actions in that turn still need approvals.
#[tokio::test]
async fn a_shell_command_allows_nothing_else() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::execute("echo hi; rm -rf x")])).await;
    harness.types("!echo hi<enter>").sees("Allow once").await.reads().types("n");
    harness.sees("refused").await;
}

/// A mark alone runs nothing; a leading space makes it a message, and so does a folded paste, whose
/// mark is not visible.
#[tokio::test]
async fn messages_that_are_not_shell_commands() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::say("heard")])).await;
    harness.types("! <enter>").sees("$ !").await.types("<ctrl-c>");
    harness.types(" !x<enter>").sees("heard").await;
    harness.pastes(&"!echo pasted\n".repeat(20)).sees("› [pasted 20 lines]").await.types("<enter>");
    let mut reader = Reader::new(&harness.handle);
    for _ in 0..2 {
        let prompt = reader.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
        let Event::PromptAccepted { shell, .. } = &prompt.event else { panic!() };
        assert!(!shell, "{prompt:?}");
    }
}

#[tokio::test]
async fn a_file_path_in_a_shell_command_is_quoted() {
    let files = ["src/a b.rs", "src/view.rs"].map(str::to_owned).to_vec();
    let study = MemoryHost { files, ..MemoryHost::default() };
    let mut harness = Harness::sized(ScriptAgent::idle(), study, (80, 24)).await;
    harness.types("!cat @view").sees("src/view.rs").await.types("<tab>@ab");
    harness.sees("src/a b.rs").await.types("<tab>").sees("$ !cat src/view.rs 'src/a b.rs'").await;
}

#[tokio::test]
async fn esc_interrupts() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::WaitForCancel])).await;
    harness.types("go<enter>").sees("working").await.types("<esc>").sees_no("working").await;
}

#[tokio::test]
async fn files_commands_and_history_complete() {
    let files = ["src/main.rs", "src/view.rs", "a b.md"].map(str::to_owned).to_vec();
    let study = MemoryHost { files, ..MemoryHost::default() };
    let mut harness = Harness::sized(ScriptAgent::doing([Act::say("ok")]), study, (80, 24)).await;
    // The inserted path is sent as it is.
    harness.types("see @mai").sees("src/main.rs").await.types("<tab>@ab").sees("a b.md").await;
    harness
        .types("<tab>")
        .sees("see src/main.rs \"a b.md\"")
        .await
        .types("<enter>")
        .sees("ok")
        .await;
    harness.types("/mo").sees("the approval mode").await.types("<ctrl-c>");
    harness.types("<ctrl-r>main").sees("search: main  see src/main.rs").await.types("<enter>");
    harness.sees("› see src/main.rs").await;
}

#[tokio::test]
async fn a_large_paste_is_a_chip_on_the_screen_and_whole_in_the_log() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::say("read")])).await;
    let long = "a line of it\n".repeat(40);
    harness.types("see ").pastes(&long).sees("see [pasted 40 lines]").await.types("<enter>");
    harness.sees("read").await;
    let mut reader = Reader::new(&harness.handle);
    let prompt = reader.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
    let Event::PromptAccepted { content, .. } = &prompt.event else { panic!() };
    assert_eq!(content.to_text(), format!("see {long}"));
}

#[tokio::test]
async fn share_shows_where_and_a_code() {
    let mut harness = Harness::new(ScriptAgent::idle()).await;
    harness.types("/share<enter>").sees("ws://localhost:1234/ws").await.sees("█").await;
    harness.sees("loggia attach http://localhost:1234").await;
    harness.types("x").sees_no("ws://").await;
}

#[tokio::test]
async fn a_device_is_let_in_by_a_code() {
    let mut harness = Harness::new(ScriptAgent::idle()).await;
    harness.types("/share code read<enter>").sees("One-time code: ABCD-EFGH").await;
    harness.sees("Good once, for read.").await.sees("--code ABCD-EFGH").await.sees("█").await;
    harness.types("x").sees_no("ABCD-EFGH").await;
    harness.types("/share<enter>").sees("ws://localhost:1234/ws").await.sees_no("ABCD").await;
    harness.types("<esc>/share code admin<enter>").sees("a code cannot give admin").await;
    // The session received nothing.
    assert_eq!(harness.handle.head(), loggia_core::Seq(1));
}

#[tokio::test]
async fn resume_offers_sessions_and_leaves_for_the_chosen_one() {
    let preview = |id: &str, title: &str| Preview {
        session: id.into(),
        when: "yesterday".into(),
        name: (id == "s2").then(|| "Parser".to_owned()),
        title: title.into(),
        lines: vec![format!("the end of {title}")],
        here: true,
    };
    let previews = vec![preview("s1", "one"), preview("s2", "two")];
    let study = MemoryHost { previews, ..MemoryHost::default() };
    let mut harness = Harness::sized(ScriptAgent::idle(), study, (80, 24)).await;
    harness.types("/resume<enter>").sees("the end of one").await;
    harness.types("<down>").sees("the end of two").await.sees("yesterday  Parser: two").await;
    // It is found by its name too.
    harness.types("pars").sees_no("yesterday  one").await.types("<enter>");
    assert_eq!(harness.effects().await, [Effect::Leave(Exit::Resume("s2".into()))]);
}

#[tokio::test]
async fn all_that_waits_is_taken_back_at_once() {
    let acts = [Act::execute("ls"), Act::succeed("ok"), Act::say("done")];
    let mut harness = Harness::new(ScriptAgent::doing(acts)).await;
    harness.types("go<enter>").sees("Allow once").await;
    harness.types("one<enter>two<enter>").sees("queued: two").await.types("<ctrl-x>");
    harness.sees("2 prompts removed from the queue").await.sees_no("queued:").await;
    harness.types("<ctrl-x>").sees("you have no queued prompts").await;
}

/// A session that cannot be opened does not close the current one.
#[tokio::test]
async fn a_session_that_cannot_be_opened_leaves_the_screen_where_it_is() {
    let preview = Preview {
        session: "s1".into(),
        when: "yesterday".into(),
        name: None,
        title: "one".into(),
        lines: Vec::new(),
        here: true,
    };
    let unreachable = Some("session s1 is in use by process 7 (loggia)".to_owned());
    let study = MemoryHost { previews: vec![preview], unreachable, ..MemoryHost::default() };
    let mut harness =
        Harness::sized(ScriptAgent::doing([Act::say("still here")]), study, (80, 24)).await;
    harness.types("/resume<enter>").sees("yesterday").await.types("<enter>");
    harness.sees("in use by process 7").await.types("hello<enter>").sees("still here").await;
    assert_eq!(harness.effects, []);
}

/// An attached terminal gets a new identity after a reconnect.
#[tokio::test]
async fn a_reconnected_terminal_is_the_same_person() {
    let me = |client: &str| Origin::new(Surface::A2a, client);
    let (sender, _) = tokio::sync::watch::channel(me("me@1"));
    let study = MemoryHost { me: Some(sender), ..MemoryHost::default() };
    let acts = [Act::execute("ls"), Act::succeed("ok"), Act::say("done")];
    let mut harness = Harness::sized(ScriptAgent::doing(acts), study, (80, 24)).await;
    harness.host.connection_problem.send_replace("connection lost, trying again (closed)".into());
    harness.sees("trying again").await;
    let command = Command::Prompt {
        prompt: "p".into(),
        task: TaskChoice::New,
        content: Content::text("mine"),
    };
    harness.handle.submit(command, me("me@2")).await.unwrap();
    harness.host.me.as_ref().unwrap().send_replace(me("me@2"));
    harness.sees("Allow once").await.reads().types("y");
    harness.sees("not connected: your answer was not sent").await;
    harness.host.connection_problem.send_replace(String::new());
    harness.sees_no("trying again").await.reads().types("y");
    harness.sees("done").await;
    assert!(!harness.screen().contains("[A2A]"), "{}", harness.screen());
}

#[tokio::test]
async fn connected_clients_are_shown() {
    let mut harness = Harness::new(ScriptAgent::idle()).await;
    let phone = ConnectedClient { surface: Surface::A2a, name: "phone".into() };
    harness.host.present.send_replace(vec![phone]);
    harness.sees("phone joined").await.sees("with phone").await;
}

/// A whole exchange on the smallest supported terminal.
#[tokio::test]
async fn ten_columns_and_three_rows_are_enough() {
    let acts = [Act::execute("ls"), Act::succeed("ok"), Act::say("fine")];
    let agent = ScriptAgent::doing(acts);
    let mut harness = Harness::sized(agent.clone(), MemoryHost::default(), (10, 3)).await;
    harness.types("go<enter>").sees("a moment").await.reads().sees("y/a/p/n").await;
    // The end of the text must be seen here too.
    harness.types("GGG").reads().types("y").sees_no("y/a/p/n").await;
    let mut reader = Reader::new(&harness.handle);
    reader.until_over().await;
    assert!(agent.test_log().notes().contains(&"permit ls".to_owned()));
}

fn commands(notes: &[&str]) -> CustomCommands {
    let command = CustomCommand {
        name: "git:commit".into(),
        description: "Writes the message of a commit".into(),
        hint: Some("[about what]".into()),
        source: ".loggia/commands/git/commit.md".into(),
        ..CustomCommand::default()
    };
    let notes = notes.iter().map(|note| (*note).to_owned()).collect();
    CustomCommands { commands: vec![command], notes }
}

#[tokio::test]
async fn a_command_from_a_file_is_completed_and_sent_as_it_was_typed() {
    let agent = ScriptAgent::doing([Act::say("committed")]);
    let study = MemoryHost { commands: Mutex::new(commands(&[])), ..MemoryHost::default() };
    let mut harness = Harness::sized(agent, study, (80, 24)).await;
    harness.types("/gi").sees("/git:commit [about what]").await.sees("Writes the message").await;
    harness.types("<tab>the parser<enter>").sees("committed").await;
    let mut reader = Reader::new(&harness.handle);
    let accepted = reader.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
    let Event::PromptAccepted { content, .. } = &accepted.event else { panic!() };
    assert_eq!(content.to_text(), "/git:commit the parser");
}

/// The list is loaded whenever it opens, so it contains new files.
#[tokio::test]
async fn a_file_that_came_since_is_in_the_list() {
    let mut harness = Harness::new(ScriptAgent::doing([Act::say("x")])).await;
    harness.types("/co").sees("/compact").await.sees_no("/git:commit").await;
    harness.types("<backspace><backspace><backspace>").sees_no("/compact").await;
    *harness.host.commands.lock().unwrap() = commands(&[]);
    harness.types("/g").sees("/git:commit").await;
}

#[tokio::test]
async fn invalid_command_files_are_reported_and_listed_in_the_help() {
    let note = "`.loggia/commands/bad.md`, line 3: `x` is no `key: value`";
    let study = MemoryHost { commands: Mutex::new(commands(&[note])), ..MemoryHost::default() };
    let mut harness = Harness::sized(ScriptAgent::doing([]), study, (100, 120)).await;
    harness.types("/").sees(&format!("not used: {note}")).await;
    harness.types("<backspace>?").sees("Ignored command files").await;
    harness.sees(&format!("  {note}")).await.sees("/git:commit [about what]").await;
}

#[tokio::test]
async fn sharing_starts_and_stops() {
    let mut harness = Harness::new(ScriptAgent::doing([])).await;
    harness.types("/share 4321<enter>").sees("ws://localhost:4321/ws").await;
    harness.types("<esc>/share off<enter>").sees("this session is no longer shared").await;
    harness.types("/share 1<enter>").sees("port 1 is taken").await;
    harness.types("/share 70000<enter>").sees("usage: /share PORT").await;
    // The session received nothing.
    assert_eq!(harness.handle.head(), loggia_core::Seq(1));
}
