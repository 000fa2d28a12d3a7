//! What a rewritten message holds.

use loggia_wire::HistoryLength;
use serde_json::json;

use super::*;

fn prompt(parts: Vec<Part>) -> Prompt {
    Prompt {
        session: None,
        task: loggia_core::TaskChoice::New,
        content: Content {
            parts,
            message: Some("m".into()),
            metadata: Some(json!({ "a": 1 })),
            profile: None,
        },
        settings: None,
        delivery: Delivery::AtOnce,
        push: None,
        history: HistoryLength::All,
        output_modes: Vec::new(),
        references: Vec::new(),
    }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

#[test]
fn a_rewritten_message_keeps_what_is_not_text() {
    let table = || Part::Data { data: json!({ "k": [1] }) };
    let cases = [
        (vec![text("a")], vec![text("new")]),
        (vec![text("a"), table(), text("b")], vec![text("new"), table()]),
        (vec![table(), text("a")], vec![table(), text("new")]),
        (vec![table()], vec![table(), text("new")]),
    ];
    for (parts, wanted) in cases {
        let content = rewritten(prompt(parts), "new".into()).content;
        assert_eq!(content.parts, wanted);
        assert_eq!(content.message.as_deref(), Some("m"));
        assert_eq!(content.metadata, Some(json!({ "a": 1 })));
    }
}
