use loggia_core::{
    CallOutcome, Content, Envelope, Event, Limits, Millis, ModelName, Origin, Output, Repository,
    Seconds, Seq, Stats,
};
use serde_json::json;

use super::*;
use crate::context::Conversation;
use crate::model::Message;
use crate::workspace::ReservedDirs;

const PATH: &str = "/srv/secret/project";

fn context(owner: Option<&str>) -> TurnContext {
    TurnContext {
        session: "session".into(),
        owner: owner.map(Arc::from),
        turn: "turn".into(),
        task: "task".into(),
        prompt: "prompt".into(),
        content: Arc::default(),
        guest: None,
        line: None,
        settings: Settings {
            model: ModelName("offline".into()),
            effort: None,
            mode: Mode::Ask,
            rules: Vec::new(),
            tools: None,
            unattended: false,
            timeout: None,
            limits: Limits::default(),
        },
        workspace: loggia_core::Workspace::Local { path: PATH.into() },
        summary: None,
        rules: Vec::new(),
        name: None,
        stats: Stats::default(),
    }
}

/// A repository with the workspace `w` and its surroundings on a fixed day.
fn surroundings(files: &[(&str, &str)]) -> (tempfile::TempDir, Surroundings) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("w")).unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let workspace = Arc::new(Workspace::open(&directory.path().join("w")).unwrap());
    let reserved = ReservedDirs::default();
    let limits =
        TreeLimits { home: Some(directory.path()), above_workspace: true, reserved: &reserved };
    let read = Surroundings::read(workspace, None, &limits);
    (directory, Surroundings { date: jiff::civil::date(2026, 11, 18), ..read })
}

fn texts(surroundings: &Surroundings, context: &TurnContext) -> Vec<(String, String)> {
    surroundings.notes(context).into_iter().map(|note| (note.name, note.text)).collect()
}

#[test]
fn the_notes_say_what_differs_between_sessions() {
    let files = [(".git/HEAD", "ref: refs/heads/main\n"), ("AGENTS.md", "Run make.\n")];
    let (_directory, surroundings) = surroundings(&files);
    let platform = format!("The platform is linux ({}).", std::env::consts::ARCH);
    let expected = [
        (
            "Memory",
            "Notes of the user and of this repository follow, the general ones first. They do not replace any approval.",
        ),
        ("Memory file ../AGENTS.md", "--- ../AGENTS.md ---\nRun make."),
        ("Workspace", "The workspace is /srv/secret/project."),
        ("Platform", &platform),
        ("Date", "Today is Wednesday, 2026-11-18."),
        ("Branch", "The workspace is in a git repository, on this branch: main."),
        (
            "Mode",
            "The mode is ask: calls that read run at once; a person decides about each file change and each command. Rules may say otherwise.",
        ),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(texts(&surroundings, &context(Some("local:1000"))), expected);
}

#[test]
fn a_remote_owner_learns_no_path() {
    let (_directory, surroundings) = surroundings(&[]);
    let mut context = context(Some("client:phone"));
    let notes = format!("{:?}", surroundings.notes(&context));
    assert!(notes.contains("a directory of the server"), "{notes}");
    assert!(!notes.contains(PATH) && !notes.contains("Platform"), "{notes}");
    let repository = Repository {
        url: "https://h/r.git".into(),
        revision: None,
        shallow: false,
        directory: None,
    };
    context.workspace = loggia_core::Workspace::Clone { path: PATH.into(), repository };
    let notes = format!("{:?}", surroundings.notes(&context));
    assert!(notes.contains("https://h/r.git") && !notes.contains(PATH), "{notes}");
}

#[test]
fn modes_and_restrictions_are_explained() {
    let deny = Timeout { after: Seconds(60), then: OnTimeout::Deny };
    let wait = Timeout { after: Seconds(60), then: OnTimeout::Wait };
    let cases = [
        (Mode::Ask, false, Some(wait), "each command. Rules may say otherwise."),
        (Mode::Edits, false, None, "a person decides about commands. Rules"),
        (Mode::All, false, None, "calls run without a question. Rules"),
        (Mode::Plan, false, None, "file changes and commands are refused"),
        (Mode::Ask, true, Some(deny), "otherwise. No person can answer in this session"),
        (Mode::Ask, false, Some(deny), "A question without an answer is refused after 1m."),
    ];
    for (named, unattended, timeout, expected) in cases {
        let settings = Settings { mode: named, unattended, timeout, ..context(None).settings };
        let text = mode(&settings);
        assert!(text.starts_with(&format!("The mode is {}: ", named.name())), "{text}");
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let names = ["glob".to_owned(), "read_file".to_owned()];
    assert_eq!(restricted_tools(&names), "This session has only these tools: glob, read_file.");
    assert_eq!(restricted_tools(&[]), "This session has no tools.");
}

#[test]
fn only_what_changed_is_sent_again() {
    let files = [(".git/HEAD", "ref: refs/heads/main\n"), ("w/AGENTS.md", "1"), ("b.md", "b")];
    let (directory, before) = surroundings(&files);
    let mut context = context(None);
    let start = ModelRecord::ContextStarted {
        model: ModelName("m".into()),
        instructions: "".into(),
        tools: [].into(),
        notes: before.notes(&context),
    };
    let mut conversation = Conversation::from_log(&[], &context.turn, &context.content, None);
    conversation.record(&start);
    let changed = |surroundings: &Surroundings, context: &TurnContext| -> Vec<String> {
        let changed = conversation.changed_notes(&surroundings.notes(context));
        changed.into_iter().map(|note| note.name).collect()
    };
    assert_eq!(changed(&before, &context), Vec::<String>::new());

    std::fs::write(directory.path().join(".git/HEAD"), "ref: refs/heads/side\n").unwrap();
    std::fs::write(directory.path().join("w/AGENTS.md"), "1 @../b.md").unwrap();
    context.settings.mode = Mode::Plan;
    let after = Surroundings {
        memory: Memory::read(&before.tree, None),
        branch: before.tree.branch(),
        date: before.date.tomorrow().unwrap(),
        workspace: before.workspace.clone(),
        tree: before.tree,
    };
    let expected = [
        "Memory file AGENTS.md",
        "Memory file ../b.md, imported by AGENTS.md",
        "Date",
        "Branch",
        "Mode",
    ];
    assert_eq!(changed(&after, &context), expected);
}

fn log(events: Vec<Event>) -> Vec<Arc<Envelope>> {
    let envelope = |(at, event)| {
        Arc::new(Envelope { seq: Seq(at), at: Millis(1), origin: Origin::system(), event })
    };
    (1..).zip(events).map(envelope).collect()
}

/// A turn with one reply that reads a file.
fn read_events(number: usize, path: &str) -> Vec<Event> {
    let (turn, call) = ("turn", format!("call {number}"));
    vec![
        Event::CallProposed {
            turn: turn.into(),
            call: call.as_str().into(),
            message: format!("message {number}").as_str().into(),
            tool: "read_file".into(),
            title: String::new(),
            access: loggia_core::Access::Read,
            input: json!({ "path": path }),
            details: loggia_core::Details::Generic { text: String::new() },
        },
        Event::CallEnded {
            call: call.as_str().into(),
            outcome: CallOutcome::Succeeded { output: Output::text("text") },
        },
    ]
}

#[test]
fn memory_of_a_directory_follows_the_first_result_and_the_log_decides() {
    let files = [("w/a/AGENTS.md", "a"), ("w/a/b/CLAUDE.md", "b"), (".git/HEAD", "")];
    let (_directory, surroundings) = surroundings(&files);
    let context = context(None);
    let mut events = vec![
        Event::PromptAccepted {
            prompt: "prompt".into(),
            task: "task".into(),
            content: Content::text("hi").into(),
            shell: false,
        },
        Event::TurnStarted { turn: "turn".into(), task: "task".into(), prompt: "prompt".into() },
    ];
    let from_log = |events: &[Event]| {
        Conversation::from_log(&log(events.to_vec()), &context.turn, &context.content, None)
    };
    // Returns what the next request gives, and records it as the turn loop does.
    let mut give = |path: &str| -> Vec<String> {
        events.extend(read_events(events.len(), path));
        let conversation = from_log(&events);
        let records =
            surroundings.memory_for(&conversation.last_paths(), &conversation.given_memory());
        let record = |record| Event::ModelRecord { turn: "turn".into(), record };
        events.extend(records.into_iter().map(record));
        // The next start of the program reads the same.
        let again = from_log(&events);
        assert_eq!(surroundings.memory_for(&again.last_paths(), &again.given_memory()), Vec::new());
        let Some(Message::Reply(reply)) = again.messages().pop() else { panic!("a reply") };
        reply.calls.iter().map(|call| call.outcome.summary().to_owned()).collect()
    };
    let a = "\n\n[Memory of a, for work in this directory]\n--- a/AGENTS.md ---\na";
    let b = "\n\n[Memory of a/b, for work in this directory]\n--- a/b/CLAUDE.md ---\nb";
    assert_eq!(give("main.rs"), ["text"]);
    assert_eq!(give("../w/x"), ["text"], "no path of the workspace");
    assert_eq!(give("a/main.rs"), [format!("text{a}")]);
    assert_eq!(give("a/b/main.rs"), [format!("text{b}")]);
    assert_eq!(give("a/b/main.rs"), ["text"]);
    // Two calls of one reply: the first one gets it.
    let calls = [("1".into(), "a/1".to_owned()), ("2".into(), "a/b/2".to_owned())];
    let records = surroundings.memory_for(&calls, &[]);
    let notes = records.iter().map(|record| match record {
        ModelRecord::MemoryGiven { call, notes } => (call.as_str(), notes.len()),
        other => panic!("{other:?}"),
    });
    assert_eq!(notes.collect::<Vec<_>>(), [("1", 1), ("2", 1)]);
}
