//! Parsing of slash commands: commands, messages and errors.

use std::collections::HashSet;

use loggia_core::slash::custom::{is_custom_name, is_taken};
use loggia_core::slash::{self, COMMANDS, PromptKind, Slash, SlashError, read};
use loggia_core::{Content, CustomCommand, CustomCommands, Part};
use proptest::prelude::*;
use serde_json::json;

fn memory(text: &str) -> Slash {
    Slash::MemoryAdd { text: text.into() }
}

#[test]
fn a_line_is_a_command_or_a_message() {
    let command = PromptKind::Command;
    let cases: Vec<(&str, PromptKind)> = vec![
        ("/help", command(Slash::Help { about: vec![] })),
        ("/HELP  ", command(Slash::Help { about: vec![] })),
        ("/help memory", command(Slash::Help { about: vec!["memory"] })),
        ("/help /memory ADD", command(Slash::Help { about: vec!["memory", "add"] })),
        ("/about", command(Slash::About)),
        ("/tools\n", command(Slash::Tools)),
        ("/approvals", command(Slash::ApprovalsList)),
        ("/approvals list", command(Slash::ApprovalsList)),
        ("/approvals revoke r-1", command(Slash::ApprovalsRevoke { rule: "r-1".into() })),
        ("/init", command(Slash::Init)),
        ("/memory", command(Slash::MemoryShow)),
        ("/memory list", command(Slash::MemoryList)),
        ("/memory add  two  words ", command(memory("two  words"))),
        ("/memory add\none\n  two", command(memory("one\n  two"))),
        ("/stats", command(Slash::Stats)),
        ("/compact", command(Slash::Compact { focus: None })),
        ("/compact the names", command(Slash::Compact { focus: Some("the names".into()) })),
        ("/clear", command(Slash::Clear)),
        ("/name", command(Slash::Name { name: None })),
        ("/name  the parser ", command(Slash::Name { name: Some("the parser".into()) })),
        ("/model", command(Slash::Model { name: None })),
        (
            "/model openai/gpt-6-luna",
            command(Slash::Model { name: Some("openai/gpt-6-luna".into()) }),
        ),
        ("/effort", command(Slash::Effort { level: None })),
        ("/effort high", command(Slash::Effort { level: Some("high".into()) })),
        ("/usr/bin/x explain", PromptKind::Message),
        ("/etc", PromptKind::Mistake(SlashError::UnknownCommand { given: "etc".into() })),
        ("/help/me", PromptKind::Message),
        ("/a.out", PromptKind::Message),
        ("/", PromptKind::Message),
        ("/ help", PromptKind::Message),
        ("//help", PromptKind::Message),
        ("/* a comment */", PromptKind::Message),
        ("/42", PromptKind::Message),
        ("/ärger", PromptKind::Message),
        (" /help", PromptKind::Message),
        ("see /help", PromptKind::Message),
        ("", PromptKind::Message),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected, "{text:?}");
    }
}

#[test]
fn an_error_lists_the_valid_forms() {
    let cases = [
        (
            "/foo",
            "there is no command `/foo`; there are /help, /about, /tools, /approvals, /init, \
             /memory, /stats, /compact, /clear, /name, /model, /effort",
        ),
        ("/memory forget x", "`/memory` has no `forget`; it has show, list, add"),
        ("/memory add", "an argument is missing: `/memory add TEXT`"),
        ("/memory add   ", "an argument is missing: `/memory add TEXT`"),
        ("/approvals revoke", "an argument is missing: `/approvals revoke RULE`"),
        ("/approvals revoke a b", "unexpected argument `b`: `/approvals revoke RULE`"),
        ("/about me", "unexpected argument `me`: `/about`"),
        ("/help about me", "unexpected argument `me`: `/help [COMMAND]`"),
    ];
    for (text, expected) in cases {
        let PromptKind::Mistake(error) = read(text) else { panic!("{text} is no mistake") };
        assert_eq!(error.to_string(), expected);
    }
    let PromptKind::Mistake(error) = read(&format!("/{}", "x".repeat(10_000))) else { panic!() };
    assert!(error.to_string().len() < 300, "{error}");
}

#[test]
fn a_command_may_be_given_by_its_path() {
    assert_eq!(slash::parse(&["memory", "add"], "likes tea"), Ok(memory("likes tea")));
    assert_eq!(slash::parse(&["/memory"], "add likes tea"), Ok(memory("likes tea")));
    assert_eq!(slash::parse(&["help"], ""), Ok(Slash::Help { about: vec![] }));
    let given = "usr/bin".to_owned();
    assert_eq!(slash::parse(&["usr/bin"], ""), Err(SlashError::UnknownCommand { given }));
    let empty: [&str; 0] = [];
    assert!(slash::parse(&empty, "").is_err());
}

#[test]
fn only_a_leading_text_part_is_a_command() {
    let text = |text: &str| Part::Text { text: text.into() };
    let data = || Part::Data { data: json!({}) };
    let read = |parts| slash::read_content(&Content { parts, ..Content::default() });
    assert_eq!(read(vec![text("/memory add a"), data()]), PromptKind::Command(memory("a")));
    assert_eq!(read(vec![text("/memory add a"), text("b")]), PromptKind::Command(memory("a\nb")));
    assert_eq!(read(vec![data(), text("/help")]), PromptKind::Message);
    assert_eq!(read(Vec::new()), PromptKind::Message);
}

#[test]
fn a_line_is_completed_with_descriptions() {
    let names = |text: &str| -> Vec<String> {
        slash::complete(text).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("/m"), ["/memory", "/memory show", "/memory list", "/memory add", "/model"]);
    assert_eq!(names("/memory a"), ["/memory add"]);
    assert_eq!(names("/A"), ["/about", "/approvals", "/approvals list", "/approvals revoke"]);
    assert_eq!(names("memory"), Vec::<String>::new());
    assert!(names("/").len() > COMMANDS.len());
}

/// Names are unique, descriptions are present, and every offered command parses.
#[test]
fn the_table_is_consistent() {
    let mut seen = HashSet::new();
    for (name, command) in slash::complete("/") {
        assert!(seen.insert(name.clone()), "{name} is there twice");
        assert!(!command.description.is_empty() && !command.description.ends_with('.'), "{name}");
        assert!(command.arguments.len() <= 1, "{name}: one argument, which is the rest");
        let needed = command.arguments.iter().any(|argument| argument.required);
        let line = if needed { format!("{name} x") } else { name.clone() };
        let PromptKind::Command(read) = read(&line) else { panic!("{line} is not understood") };
        assert_eq!(read.may_ask(), matches!(read, Slash::Init | Slash::MemoryAdd { .. }));
        let path: Vec<&str> = name.trim_start_matches('/').split(' ').collect();
        assert!(slash::usage(&path).starts_with(&name));
        assert!(slash::explain(&path).contains(&slash::usage(&path)) || path.len() == 1);
    }
    assert_eq!(
        slash::explain(&["memory", "add"]),
        "- `/memory add TEXT`: Adds a note to the workspace's AGENTS.md\n\n\
         TEXT (required): What to remember."
    );
    assert_eq!(slash::overview(&[]).lines().count(), 15);
}

fn custom() -> CustomCommands {
    let command = |name: &str, runs| CustomCommand {
        name: name.into(),
        description: "d".into(),
        hint: Some("[x]".into()),
        source: "f.md".into(),
        runs,
        ..CustomCommand::default()
    };
    let commands = vec![command("git:commit", true), command("speckit.plan", false)];
    CustomCommands { commands, notes: vec!["`g.md`: bad".into()] }
}

#[test]
fn commands_from_files_are_parsed_too() {
    let run = |name: &str, arguments: &str| {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        PromptKind::Command(Slash::Custom { name, arguments })
    };
    let custom = custom();
    let cases = [
        ("/git:commit", run("git:commit", "")),
        ("/GIT:Commit  a  b \n", run("git:commit", "a  b")),
        ("/git:commit\none\n two", run("git:commit", "one\n two")),
        ("/speckit.plan x", run("speckit.plan", "x")),
        ("/about", PromptKind::Command(Slash::About)),
        ("/help git:commit", PromptKind::Command(Slash::HelpCustom { name: "git:commit".into() })),
        (
            "/help /Speckit.plan",
            PromptKind::Command(Slash::HelpCustom { name: "speckit.plan".into() }),
        ),
        ("/git:commit/x", PromptKind::Message),
        ("/ git:commit", PromptKind::Message),
        (" /git:commit", PromptKind::Message),
        ("/a.out", PromptKind::Message),
        ("/usr/bin/x", PromptKind::Message),
        ("say /git:commit", PromptKind::Message),
    ];
    for (text, expected) in cases {
        assert_eq!(custom.read(text), expected, "{text:?}");
    }
    for (text, given) in [("/git:push", "git:push"), ("/foo x", "foo"), ("/help foo", "foo")] {
        let PromptKind::Mistake(error) = custom.read(text) else { panic!("{text}") };
        let expected = format!("there is no command `/{given}`; there are /help, ");
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(error.to_string().ends_with("/effort, /git:commit, /speckit.plan"), "{error}");
    }
    let parsed = custom.parse(&["git:commit"], "a").unwrap();
    assert_eq!((parsed.to_string().as_str(), parsed.may_ask()), ("/git:commit a", true));
    assert_eq!(PromptKind::Command(parsed), custom.read("/git:commit a"));
    let overview = custom.overview();
    assert!(overview.contains("\n- `/git:commit [x]`: d\n"), "{overview}");
    assert!(overview.ends_with("\n\nNot used:\n\n- `g.md`: bad"), "{overview}");
}

#[test]
fn valid_names_of_commands_from_files() {
    for name in ["a", "git:commit", "speckit.plan", "2-do", "A_b"] {
        assert!(is_custom_name(name) && !is_taken(name), "{name}");
    }
    for name in ["", ":", "a:", ":a", "a b", "a/b", "ä", "-a", ".a", "a:.b", "a\n"] {
        assert!(!is_custom_name(name), "{name}");
    }
    for name in ["help", "CLEAR", "quit", "Mode"] {
        assert!(is_taken(name), "{name}");
    }
}

proptest! {
    /// Parsing never fails, and a parsed command parses again from its display form.
    #[test]
    fn parsing_never_fails_and_the_display_form_parses_back(
        text in prop_oneof![
            any::<String>(),
            "/(help|memory|approvals|compact|about|clear|foo)[ \n]{0,2}(add|list|revoke|show|memory)?[ \n]{0,2}.{0,12}",
        ],
    ) {
        match read(&text) {
            PromptKind::Command(command) => {
                prop_assert_eq!(read(&command.to_string()), PromptKind::Command(command));
            }
            PromptKind::Mistake(error) => prop_assert!(error.to_string().len() < 400),
            PromptKind::Message => {}
        }
    }
}
