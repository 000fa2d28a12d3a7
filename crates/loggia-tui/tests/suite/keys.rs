//! Key scripts on real sessions.

use std::sync::Mutex;

use loggia_core::{
    Authority, ChoiceId, Command, Content, CustomCommand, CustomCommands, Event, Origin, Question,
    Surface, TaskChoice,
};
use loggia_testkit::client::Reader;
use loggia_testkit::journal::Gate;
use loggia_testkit::{Act, Journal, ScriptAgent};
use loggia_tui::app::Exit;
use loggia_tui::engine::Wish;
use loggia_tui::{Present, Preview};

use super::desk::{Desk, Study};

fn phone() -> Origin {
    Origin::new(Surface::A2a, "phone")
}

#[tokio::test]
async fn a_prompt_is_answered() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::say("hello back")])).await;
    desk.types("hello<enter>").sees("hello back").await.sees_no("working").await;
    assert_eq!(desk.host.written.lock().unwrap().as_slice(), ["hello"]);
}

#[tokio::test]
async fn a_command_is_allowed_with_a_key_and_runs() {
    let acts = [Act::execute("ls"), Act::succeed("a.txt"), Act::say("done")];
    let mut desk = Desk::new(ScriptAgent::doing(acts)).await;
    desk.types("go<enter>").sees("Allow once").await.reads().types("y").sees("done").await;
    desk.sees_no("Allow once").await;
}

#[tokio::test]
async fn a_refusal_is_final() {
    let agent = ScriptAgent::doing([Act::execute("ls"), Act::say("then not")]);
    let mut desk = Desk::new(agent.clone()).await;
    desk.types("go<enter>").sees("Allow once").await.reads().types("n").sees("then not").await;
    let notes = agent.journal().notes();
    assert!(notes.contains(&"refused ls".to_owned()), "{notes:?}");
}

/// Keys typed together with the prompt, before the question: none of them answers.
#[tokio::test]
async fn keys_typed_ahead_do_not_answer() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::execute("rm -rf x")])).await;
    desk.types("go<enter>y").sees("Allow once").await;
    desk.types("ya1");
    // All of it is a draft.
    desk.sees("yya1").await;
    // It stays a draft; an arrow moves to the answers.
    desk.reads().sees("you are writing").await.types("n").sees("› yya1n").await;
    desk.reads().types("<up>").sees("Enter choose").await.types("n").sees_no("Allow once").await;
    desk.sees("› yya1n").await;
}

#[tokio::test]
async fn an_edited_command_is_what_runs() {
    let agent = ScriptAgent::doing([Act::execute("ls"), Act::succeed("ok")]);
    let mut desk = Desk::new(agent).await;
    desk.types("go<enter>").sees("Allow once").await.reads();
    desk.types("e").types(" -la<enter>").sees_no("Your version").await;
    let mut reader = Reader::new(&desk.handle);
    let answered = reader.until(|event| matches!(event, Event::ApprovalAnswered { .. })).await;
    let Event::ApprovalAnswered { details, .. } = &answered.event else { panic!() };
    let wanted =
        loggia_core::Details::Execute { command: "ls -la".into(), directory: "/workspace".into() };
    assert_eq!(details.as_ref(), Some(&wanted));
}

#[tokio::test]
async fn somebody_elses_answer_closes_the_dialog_and_is_named() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::execute("ls"), Act::succeed("ok")])).await;
    desk.types("go<enter>").sees("Allow once").await;
    let approval = Reader::new(&desk.handle).until_asked().await;
    let command = Command::Answer {
        to: Question::Approval(approval),
        choice: ChoiceId::PROCEED_ONCE.into(),
        edit: None,
        digest: None,
        message: None,
    };
    desk.handle.submit(command, phone()).await.unwrap();
    desk.sees_no("Allow once").await.sees("approved by A2A:phone").await;
}

/// The key was in flight when another client answered: it is ignored, and the notice is repeated.
#[tokio::test]
async fn a_key_on_its_way_when_the_dialog_closed_is_swallowed() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::execute("ls"), Act::succeed("ok")])).await;
    desk.types("go<enter>").sees("Allow once").await.reads();
    let approval = Reader::new(&desk.handle).until_asked().await;
    let command = Command::Answer {
        to: Question::Approval(approval),
        choice: ChoiceId::PROCEED_ONCE.into(),
        edit: None,
        digest: None,
        message: None,
    };
    desk.handle.submit(command, phone()).await.unwrap();
    desk.sees_no("Allow once").await.types("y<esc><enter>").sees("approved by A2A:phone").await;
    desk.sees("what shall I do?").await.waits(loggia_tui::guard::AFTER).types("y");
    desk.sees("› y").await;
}

#[tokio::test]
async fn somebody_elses_prompt_appears_with_its_origin() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::say("for the phone")])).await;
    let command = Command::Prompt {
        prompt: "p".into(),
        task: TaskChoice::New,
        content: Content::text("from elsewhere"),
    };
    desk.handle.submit(command, phone()).await.unwrap();
    desk.sees("from elsewhere").await.sees("[A2A").await.sees("for the phone").await;
}

#[tokio::test]
async fn prompts_are_queued_and_shown_and_can_be_taken_back() {
    let gate = Gate::default();
    let scripts = [vec![Act::WaitFor(gate.clone())], vec![Act::say("second done")]];
    let mut desk = Desk::new(ScriptAgent::new(Journal::default(), scripts)).await;
    desk.types("first<enter>").sees("working").await;
    desk.types("second<enter>").sees("queued: second").await;
    desk.types("third<enter>").sees("queued: third").await;
    gate.open();
    desk.sees("second done").await.sees_no("queued:").await;
}

/// The agent proposes the typed command: no question is asked, and it is in the log and the
/// history.
#[tokio::test]
async fn a_line_behind_a_mark_is_run_without_a_question() {
    let acts = [Act::execute("echo hi"), Act::output("hi\n"), Act::succeed("hi")];
    let mut desk = Desk::new(ScriptAgent::doing(acts)).await;
    desk.types("!echo hi").sees("$ !echo hi").await.sees("without a question").await;
    desk.types("<enter>").sees("✓ echo hi").await.sees("› !echo hi").await.sees("\n  hi").await;
    assert!(!desk.screen().contains("Allow once"), "{}", desk.screen());
    assert_eq!(desk.host.written.lock().unwrap().as_slice(), ["!echo hi"]);
    desk.types("<up>").sees("$ !echo hi").await;
    let mut reader = Reader::new(&desk.handle);
    let started = reader.until(|event| matches!(event, Event::CallStarted { .. })).await;
    let Event::CallStarted { authority, .. } = &started.event else { panic!() };
    assert!(matches!(authority, Authority::Typed { .. }), "{authority:?}");
}

/// The output of the person's own command is longer, with a hint for the rest.
#[tokio::test]
async fn more_is_shown_of_what_one_ran_oneself() {
    let long: String = (1..=60).map(|number| format!("row {number}\n")).collect();
    for (typed, first, more) in [("!seq", 41, 40), ("go", 56, 55)] {
        let acts = [Act::execute("seq"), Act::output(&long), Act::succeed(&long)];
        let mut desk = Desk::sized(ScriptAgent::doing(acts), Study::default(), (80, 40)).await;
        desk.types(typed).types("<enter>");
        if typed == "go" {
            desk.sees("Allow once").await.reads().types("y");
        }
        desk.sees("row 60").await.sees_no("working").await;
        desk.sees(&format!("… {more} more lines: Ctrl-T shows all\n  row {first}\n")).await;
    }
}

/// Other actions in that turn still need approvals.
#[tokio::test]
async fn a_line_of_ones_own_lets_nothing_else_pass() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::execute("echo hi; rm -rf x")])).await;
    desk.types("!echo hi<enter>").sees("Allow once").await.reads().types("n");
    desk.sees("refused").await;
}

/// A mark alone runs nothing; a leading space makes it a message, and so does a folded paste, whose
/// mark is not visible.
#[tokio::test]
async fn what_is_no_line_of_ones_own() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::say("heard")])).await;
    desk.types("! <enter>").sees("$ !").await.types("<ctrl-c>");
    desk.types(" !x<enter>").sees("heard").await;
    desk.pastes(&"!echo pasted\n".repeat(20)).sees("› [pasted 20 lines]").await.types("<enter>");
    let mut reader = Reader::new(&desk.handle);
    for _ in 0..2 {
        let prompt = reader.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
        let Event::PromptAccepted { shell, .. } = &prompt.event else { panic!() };
        assert!(!shell, "{prompt:?}");
    }
}

#[tokio::test]
async fn a_file_in_a_line_of_ones_own_is_a_word_of_it() {
    let files = ["src/a b.rs", "src/view.rs"].map(str::to_owned).to_vec();
    let study = Study { files, ..Study::default() };
    let mut desk = Desk::sized(ScriptAgent::idle(), study, (80, 24)).await;
    desk.types("!cat @view").sees("src/view.rs").await.types("<tab>@ab");
    desk.sees("src/a b.rs").await.types("<tab>").sees("$ !cat src/view.rs 'src/a b.rs'").await;
}

#[tokio::test]
async fn esc_interrupts() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::WaitForCancel])).await;
    desk.types("go<enter>").sees("working").await.types("<esc>").sees_no("working").await;
}

#[tokio::test]
async fn files_commands_and_history_complete() {
    let files = ["src/main.rs", "src/view.rs", "a b.md"].map(str::to_owned).to_vec();
    let study = Study { files, ..Study::default() };
    let mut desk = Desk::sized(ScriptAgent::doing([Act::say("ok")]), study, (80, 24)).await;
    // The inserted path is sent as it is.
    desk.types("see @mai").sees("src/main.rs").await.types("<tab>@ab").sees("a b.md").await;
    desk.types("<tab>").sees("see src/main.rs \"a b.md\"").await.types("<enter>").sees("ok").await;
    desk.types("/mo").sees("what passes without a question").await.types("<ctrl-c>");
    desk.types("<ctrl-r>main").sees("search: main  see src/main.rs").await.types("<enter>");
    desk.sees("› see src/main.rs").await;
}

#[tokio::test]
async fn a_large_paste_is_a_chip_on_the_screen_and_whole_in_the_log() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::say("read")])).await;
    let long = "a line of it\n".repeat(40);
    desk.types("see ").pastes(&long).sees("see [pasted 40 lines]").await.types("<enter>");
    desk.sees("read").await;
    let mut reader = Reader::new(&desk.handle);
    let prompt = reader.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
    let Event::PromptAccepted { content, .. } = &prompt.event else { panic!() };
    assert_eq!(content.to_text(), format!("see {long}"));
}

#[tokio::test]
async fn share_shows_where_and_a_code() {
    let mut desk = Desk::new(ScriptAgent::idle()).await;
    desk.types("/share<enter>").sees("ws://localhost:1234/ws").await.sees("█").await;
    desk.sees("loggia attach http://localhost:1234").await;
    desk.types("x").sees_no("ws://").await;
}

#[tokio::test]
async fn a_device_is_let_in_by_a_code() {
    let mut desk = Desk::new(ScriptAgent::idle()).await;
    desk.types("/share code read<enter>").sees("One-time code: ABCD-EFGH").await;
    desk.sees("Good once, for read.").await.sees("--code ABCD-EFGH").await.sees("█").await;
    desk.types("x").sees_no("ABCD-EFGH").await;
    desk.types("/share<enter>").sees("ws://localhost:1234/ws").await.sees_no("ABCD").await;
    desk.types("<esc>/share code admin<enter>").sees("a code gives no admin").await;
    // The session received nothing.
    assert_eq!(desk.handle.head(), loggia_core::Seq(1));
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
    let study = Study { previews, ..Study::default() };
    let mut desk = Desk::sized(ScriptAgent::idle(), study, (80, 24)).await;
    desk.types("/resume<enter>").sees("the end of one").await;
    desk.types("<down>").sees("the end of two").await.sees("yesterday  Parser: two").await;
    // It is found by its name too.
    desk.types("pars").sees_no("yesterday  one").await.types("<enter>");
    assert_eq!(desk.wishes().await, [Wish::Leave(Exit::Resume("s2".into()))]);
}

#[tokio::test]
async fn all_that_waits_is_taken_back_at_once() {
    let acts = [Act::execute("ls"), Act::succeed("ok"), Act::say("done")];
    let mut desk = Desk::new(ScriptAgent::doing(acts)).await;
    desk.types("go<enter>").sees("Allow once").await;
    desk.types("one<enter>two<enter>").sees("queued: two").await.types("<ctrl-x>");
    desk.sees("2 prompts were taken back").await.sees_no("queued:").await;
    desk.types("<ctrl-x>").sees("no prompt of yours waits").await;
}

/// An invalid model is not set.
#[tokio::test]
async fn a_model_is_looked_for_before_the_session_is_set_to_it() {
    let mut desk = Desk::new(ScriptAgent::idle()).await;
    desk.types("/model bogus<enter>").sees("there is no `bogus`: `offline` or").await;
    desk.types("/model<enter>").sees("the model is `").await;
    desk.types("/Model scripted<enter>").sees("· scripted ·").await;
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
    let study = Study { previews: vec![preview], unreachable, ..Study::default() };
    let mut desk = Desk::sized(ScriptAgent::doing([Act::say("still here")]), study, (80, 24)).await;
    desk.types("/resume<enter>").sees("yesterday").await.types("<enter>");
    desk.sees("in use by process 7").await.types("hello<enter>").sees("still here").await;
    assert_eq!(desk.wishes, []);
}

/// An attached terminal gets a new identity after a reconnect.
#[tokio::test]
async fn a_screen_with_a_new_name_is_still_oneself() {
    let me = |client: &str| Origin::new(Surface::A2a, client);
    let (sender, _) = tokio::sync::watch::channel(me("me@1"));
    let study = Study { me: Some(sender), ..Study::default() };
    let acts = [Act::execute("ls"), Act::succeed("ok"), Act::say("done")];
    let mut desk = Desk::sized(ScriptAgent::doing(acts), study, (80, 24)).await;
    desk.host.trouble.send_replace("connection lost, trying again (closed)".into());
    desk.sees("trying again").await;
    let command = Command::Prompt {
        prompt: "p".into(),
        task: TaskChoice::New,
        content: Content::text("mine"),
    };
    desk.handle.submit(command, me("me@2")).await.unwrap();
    desk.host.me.as_ref().unwrap().send_replace(me("me@2"));
    desk.sees("Allow once").await.reads().types("y");
    desk.sees("not connected: your answer was not sent").await;
    desk.host.trouble.send_replace(String::new());
    desk.sees_no("trying again").await.reads().types("y");
    desk.sees("done").await;
    assert!(!desk.screen().contains("[A2A]"), "{}", desk.screen());
}

#[tokio::test]
async fn who_is_here_is_on_the_screen() {
    let mut desk = Desk::new(ScriptAgent::idle()).await;
    let phone = Present { surface: Surface::A2a, name: "phone".into() };
    desk.host.present.send_replace(vec![phone]);
    desk.sees("phone joined").await.sees("with phone").await;
}

/// A whole exchange on the smallest supported terminal.
#[tokio::test]
async fn ten_columns_and_three_rows_are_enough() {
    let acts = [Act::execute("ls"), Act::succeed("ok"), Act::say("fine")];
    let agent = ScriptAgent::doing(acts);
    let mut desk = Desk::sized(agent.clone(), Study::default(), (10, 3)).await;
    desk.types("go<enter>").sees("a moment").await.reads().sees("y/a/p/n").await;
    // The end of the text must be seen here too.
    desk.types("GGG").reads().types("y").sees_no("y/a/p/n").await;
    let mut reader = Reader::new(&desk.handle);
    reader.until_over().await;
    assert!(agent.journal().notes().contains(&"permit ls".to_owned()));
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
    let study = Study { commands: Mutex::new(commands(&[])), ..Study::default() };
    let mut desk = Desk::sized(agent, study, (80, 24)).await;
    desk.types("/gi").sees("/git:commit [about what]").await.sees("Writes the message").await;
    desk.types("<tab>the parser<enter>").sees("committed").await;
    let mut reader = Reader::new(&desk.handle);
    let accepted = reader.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
    let Event::PromptAccepted { content, .. } = &accepted.event else { panic!() };
    assert_eq!(content.to_text(), "/git:commit the parser");
}

/// The list is loaded whenever it opens, so it contains new files.
#[tokio::test]
async fn a_file_that_came_since_is_in_the_list() {
    let mut desk = Desk::new(ScriptAgent::doing([Act::say("x")])).await;
    desk.types("/co").sees("/compact").await.sees_no("/git:commit").await;
    desk.types("<backspace><backspace><backspace>").sees_no("/compact").await;
    *desk.host.commands.lock().unwrap() = commands(&[]);
    desk.types("/g").sees("/git:commit").await;
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_said_and_stays_in_the_help() {
    let note = "`.loggia/commands/bad.md`, line 3: `x` is no `key: value`";
    let study = Study { commands: Mutex::new(commands(&[note])), ..Study::default() };
    let mut desk = Desk::sized(ScriptAgent::doing([]), study, (100, 120)).await;
    desk.types("/").sees(&format!("not used: {note}")).await;
    desk.types("<backspace>?").sees("Files that are not used").await;
    desk.sees(&format!("  {note}")).await.sees("/git:commit [about what]").await;
}

#[tokio::test]
async fn a_session_is_shared_and_not_any_more() {
    let mut desk = Desk::new(ScriptAgent::doing([])).await;
    desk.types("/share 4321<enter>").sees("ws://localhost:4321/ws").await;
    desk.types("<esc>/share off<enter>").sees("this session is not shared any more").await;
    desk.types("/share 1<enter>").sees("port 1 is taken").await;
    desk.types("/share 70000<enter>").sees("/share and a port, 0 for a free one").await;
    // The session received nothing.
    assert_eq!(desk.handle.head(), loggia_core::Seq(1));
}
