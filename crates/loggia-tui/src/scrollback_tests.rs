use loggia_core::{
    CallOutcome, Content, Details, Envelope, Event, Millis, Origin, Output, Seq, TurnOutcome,
};

use super::*;

fn transcript(events: impl IntoIterator<Item = Event>) -> Transcript {
    let mut transcript = Transcript::default();
    for (seq, event) in (1..).zip(events) {
        let origin = Origin::agent();
        transcript.apply(&Envelope { seq: Seq(seq), at: Millis(0), origin, event });
    }
    transcript
}

fn prompt(id: &str) -> Event {
    Event::PromptAccepted {
        prompt: id.into(),
        task: "t".into(),
        content: Content::text(id).into(),
        shell: false,
    }
}

fn started(id: &str) -> Event {
    Event::TurnStarted { turn: "u".into(), prompt: id.into(), task: "t".into() }
}

fn text(message: &str, text: &str) -> Event {
    Event::TextAppended { turn: "u".into(), message: message.into(), text: text.into() }
}

fn proposed(call: &str) -> Event {
    Event::CallProposed {
        turn: "u".into(),
        message: "m".into(),
        call: call.into(),
        tool: "t".into(),
        title: call.into(),
        access: loggia_core::Access::Read,
        input: Default::default(),
        details: Details::Generic { text: String::new() },
    }
}

fn ended(call: &str) -> Event {
    let outcome = CallOutcome::Succeeded { output: Output::text("done") };
    Event::CallEnded { call: call.into(), outcome }
}

fn words(cells: &[Cell]) -> Vec<String> {
    let word = |cell: &Cell| match &cell.body {
        CellBody::Prompt { text, .. } | CellBody::Text { text, .. } => text.trim().to_owned(),
        CellBody::Call(call) => call.title.clone(),
        CellBody::TurnEnd { .. } => "end".to_owned(),
        other => format!("{other:?}"),
    };
    cells.iter().map(word).collect()
}

/// Each event with the cells printed after it, once and in order.
#[test]
fn cells_are_printed_once_when_they_are_finished() {
    let over = Event::TurnEnded { turn: "u".into(), outcome: TurnOutcome::Completed };
    let steps: Vec<(Event, &[&str])> = vec![
        (prompt("one"), &[]),
        (started("one"), &["one"]),
        (text("a", "hello"), &[]),
        // A queued prompt is not printed yet.
        (prompt("two"), &[]),
        (text("a", " world"), &[]),
        (proposed("c1"), &["hello world"]),
        (proposed("c2"), &[]),
        (ended("c2"), &[]),
        (ended("c1"), &["c1", "c2"]),
        (over.clone(), &["end"]),
        (started("two"), &["two"]),
        (text("b", "bye"), &[]),
        (over, &["bye", "end"]),
    ];
    let mut printed = Scrollback::default();
    let mut events = Vec::new();
    for (event, wanted) in steps {
        let running = !matches!(event, Event::TurnEnded { .. } | Event::PromptAccepted { .. })
            || !events.is_empty() && !matches!(event, Event::TurnEnded { .. });
        events.push(event);
        let transcript = transcript(events.clone());
        let found = words(&printed.take(&transcript, running));
        assert_eq!(found, wanted, "after {:?}", events.last());
        assert!(printed.take(&transcript, running).is_empty());
    }
}

/// The result is the same however many events arrive between two frames.
#[test]
fn a_prompt_that_waited_stands_below_the_turn_before() {
    let over = || Event::TurnEnded { turn: "u".into(), outcome: TurnOutcome::Completed };
    let events = [
        prompt("one"),
        started("one"),
        text("a", "hello"),
        prompt("two"),
        prompt("three"),
        Event::PromptWithdrawn { prompt: "three".into() },
        prompt("four"),
        text("a", " world"),
        over(),
        started("two"),
        text("b", "bye"),
        over(),
        started("four"),
        text("c", "the end"),
        over(),
    ];
    for apart in 1..=events.len() {
        let mut printed = Scrollback::default();
        let mut found = Vec::new();
        let seen = (1..events.len()).filter(|count| count % apart == 0).chain([events.len()]);
        for count in seen {
            let transcript = transcript(events[..count].to_vec());
            let running = count > 1 && !matches!(events[count - 1], Event::TurnEnded { .. });
            found.extend(words(&printed.take(&transcript, running)));
        }
        found.retain(|word| word != "three" && word != "end");
        let wanted = ["one", "hello", "world", "two", "bye", "four", "the end"];
        assert_eq!(found, wanted, "{apart} events between two frames");
    }
}

#[test]
fn finished_paragraphs_of_a_growing_text_are_printed() {
    let mut printed = Scrollback::default();
    let mut so_far = String::new();
    let mut found = Vec::new();
    let whole =
        "First.\n\n```rust\nlet a;\n\nlet b;\n```\n\nThen:\n\n- one\n\n- two\n\nLast words.";
    for letter in whole.chars() {
        so_far.push(letter);
        let transcript = transcript([prompt("p"), started("p"), text("m", &so_far)]);
        found.extend(words(&printed.take(&transcript, true)));
    }
    let code = "```rust\nlet a;\n\nlet b;\n```";
    assert_eq!(found, ["p", "First.", code, "Then:\n\n- one\n\n- two"]);
    let transcript = transcript([prompt("p"), started("p"), text("m", whole)]);
    assert_eq!(words(&printed.live(&transcript)), ["Last words."]);
    assert_eq!(words(&printed.take(&transcript, false)), ["Last words."]);
    assert!(printed.live(&transcript).is_empty());
}

#[test]
fn a_text_is_cut_only_where_something_new_begins() {
    let cases = [
        ("one", 0),
        ("one\n\ntwo", 5),
        ("one\n\ntw", 0),
        ("one\n\n- list", 0),
        ("one\n\n1. list", 0),
        ("one\n\n1984 was", 5),
        ("one\n\n> quote", 0),
        ("one\n\n  indented", 0),
        ("one\n\n```\ncode\n\nmore", 5),
        ("```\ncode\n\nmore\n```\n\nafter", 20),
        ("~~~~\n```\n\nmore\n~~~~\n\nafter", 21),
        ("one\n\n\n\ntwo", 7),
        ("ä\n\ntwo", 4),
    ];
    for (text, wanted) in cases {
        assert_eq!(settled(text), wanted, "{text:?}");
    }
}

#[test]
fn of_a_long_history_only_the_end_is_printed() {
    let events: Vec<Event> = (0..500).map(|index| text(&index.to_string(), "x")).collect();
    let transcript = transcript(events);
    let mut printed = Scrollback::default();
    printed.skip_history(&transcript);
    assert_eq!((printed.take_skipped(), printed.take_skipped()), (Some(500 - REPLAYED), None));
    assert_eq!(printed.take(&transcript, false).len(), REPLAYED);
}
