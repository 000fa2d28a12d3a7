//! Rewritten messages.

use serde_json::json;

use super::*;

fn content(parts: Vec<Part>) -> Content {
    Content { parts, message: Some("m".into()), metadata: Some(json!({ "a": 1 })), profile: None }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

#[test]
fn a_rewritten_message_keeps_its_other_parts() {
    let table = || Part::Data { data: json!({ "k": [1] }) };
    let cases = [
        (vec![text("a")], vec![text("new")]),
        (vec![text("a"), table(), text("b")], vec![text("new"), table()]),
        (vec![table(), text("a")], vec![table(), text("new")]),
        (vec![table()], vec![table(), text("new")]),
    ];
    for (parts, wanted) in cases {
        let content = rewritten(content(parts), "new".into());
        assert_eq!(content.parts, wanted);
        assert_eq!(content.message.as_deref(), Some("m"));
        assert_eq!(content.metadata, Some(json!({ "a": 1 })));
    }
}

/// A command line may become a message, but a message never becomes a command line.
#[test]
fn a_rewritten_message_is_never_a_command_line() {
    let line = || ClientCommand::Shell { prompt: "p".into(), line: "rm x".into() };
    let message = || ClientCommand::Prompt { prompt: "p".into(), content: Content::text("hi") };
    let said =
        |text: &str| ClientCommand::Prompt { prompt: "p".into(), content: Content::text(text) };
    let ran = |text: &str| ClientCommand::Shell { prompt: "p".into(), line: text.into() };
    let table = [
        (line(), "!ls", ran("ls")),
        (line(), "say ls", said("say ls")),
        (message(), "!ls", said("!ls")),
        (message(), "say ls", said("say ls")),
    ];
    for (command, text, wanted) in table {
        assert_eq!(typed_instead(command, text.to_owned()), wanted);
    }
}
