//! Answers in text, and their questions.

use loggia_core::policy::choices;
use loggia_core::{Choice, ChoiceId, Details, Edit, Risk};
use loggia_wire::words_to_choice;

fn execute() -> Details {
    Details::Execute { command: "cargo test".into(), directory: "/work/demo".into() }
}

fn question(options: &[&str]) -> Details {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    Details::Question { text: "Which?".into(), options }
}

fn offered(details: &Details) -> Vec<Choice> {
    choices("tool", details, Risk::Normal, &loggia_shell::Parser)
}

fn choice(text: &str, details: &Details) -> Option<String> {
    let read = words_to_choice(text, &offered(details), details);
    read.map(|(choice, edit)| match edit {
        None => choice.0,
        Some(Edit::Text { text }) => format!("{choice}: {text}"),
        Some(other) => panic!("{other:?}"),
    })
}

#[test]
fn words_for_an_approval() {
    let details = execute();
    for (text, expected) in [
        ("yes", Some("proceed_once")),
        ("Yes.", Some("proceed_once")),
        (" y\n", Some("proceed_once")),
        ("OK!", Some("proceed_once")),
        ("go ahead", Some("proceed_once")),
        ("proceed_once", Some("proceed_once")),
        ("`proceed_once`", Some("proceed_once")),
        ("Allow once", Some("proceed_once")),
        ("1", Some("proceed_once")),
        ("2", Some("proceed_always")),
        ("always", Some("proceed_always")),
        ("proceed_always_project", Some("proceed_always_project")),
        ("no", Some("cancel")),
        ("No, thanks", None),
        ("cancel", Some("cancel")),
        ("Refuse", Some("cancel")),
        ("4", Some("cancel")),
        ("5", None),
        ("0", None),
        ("", None),
        ("   ", None),
        ("yes, but in release mode", None),
        ("no, write it to another file", None),
        ("proceed", Some("proceed_once")),
        ("proceed_twice", None),
        ("also fix the tests", None),
    ] {
        assert_eq!(choice(text, &details).as_deref(), expected, "{text:?}");
    }
}

/// "always" does not match a choice that is not offered.
#[test]
fn text_matches_offered_choices_only() {
    let details = execute();
    let offered = choices("tool", &details, Risk::High, &loggia_shell::Parser);
    assert_eq!(words_to_choice("always", &offered, &details), None);
    assert_eq!(words_to_choice("yes", &[], &details), None);
}

#[test]
fn words_for_a_question() {
    let open = question(&[]);
    assert_eq!(choice("yes", &open).as_deref(), Some("answer: yes"));
    assert_eq!(choice("3", &open).as_deref(), Some("answer: 3"));
    assert_eq!(choice(" Use Zig. ", &open).as_deref(), Some("answer: Use Zig."));
    assert_eq!(choice("cancel", &open).as_deref(), Some("cancel"));
    assert_eq!(choice("", &open), None);
    // The name of the choice to answer in text is a text like any other.
    assert_eq!(choice("answer", &open).as_deref(), Some("answer: answer"));
    let closed = question(&["Rust", "Python"]);
    assert_eq!(choice("rust", &closed).as_deref(), Some("option_1"));
    assert_eq!(choice("2", &closed).as_deref(), Some("option_2"));
    assert_eq!(choice("option_2", &closed).as_deref(), Some("option_2"));
    assert_eq!(choice("3", &closed).as_deref(), Some("answer: 3"));
    assert_eq!(choice("Neither", &closed).as_deref(), Some("answer: Neither"));
    assert_eq!(ChoiceId::ANSWER, "answer");
}

/// Every answer that a question lists is accepted.
#[test]
fn listed_answers_are_accepted() {
    use loggia_wire::View;
    let mut script = super::script::Script::new();
    script.prompt("Build it");
    script.shell("make");
    let view = View::A2A_03;
    let frames = super::transcript::project(&script.log, view);
    let text = frames.last().unwrap().body["status"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.contains("make"));
    let (call, approval) = script.session.open_approvals().next().unwrap();
    for offered in &approval.choices {
        assert!(text.contains(&offered.id.0), "{text}");
        let read = words_to_choice(&offered.id.0, &approval.choices, &call.details);
        assert_eq!(read, Some((offered.id.clone(), None)));
    }
}
