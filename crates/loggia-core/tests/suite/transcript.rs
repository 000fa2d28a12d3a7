//! The order of cells in the transcript.

use loggia_core::{
    CellBody, Content, Envelope, Event, Millis, Origin, Seq, Transcript, TurnOutcome,
};

fn fold(events: impl IntoIterator<Item = Event>) -> Transcript {
    let mut transcript = Transcript::default();
    for (seq, event) in (1..).zip(events) {
        let at = Millis(i64::try_from(seq).unwrap());
        transcript.apply(&Envelope { seq: Seq(seq), at, origin: Origin::agent(), event });
    }
    transcript
}

fn prompt(id: &str) -> Event {
    let content = Content::text(id).into();
    Event::PromptAccepted { prompt: id.into(), task: "t".into(), content, shell: false }
}

fn started(id: &str) -> Event {
    Event::TurnStarted { turn: id.into(), prompt: id.into(), task: "t".into() }
}

fn text(text: &str) -> Event {
    Event::TextAppended { turn: "u".into(), message: "m".into(), text: text.into() }
}

fn over() -> Event {
    Event::TurnEnded { turn: "u".into(), outcome: TurnOutcome::Completed }
}

fn words<'a>(cells: impl IntoIterator<Item = &'a loggia_core::Cell>) -> Vec<String> {
    let word = |cell: &loggia_core::Cell| match &cell.body {
        CellBody::Prompt { text, withdrawn: true, .. } => format!("({text})"),
        CellBody::Prompt { text, queued: true, .. } => format!("{text}…"),
        CellBody::Prompt { text, .. } | CellBody::Text { text, .. } => text.clone(),
        CellBody::TurnEnd { .. } => "end".to_owned(),
        other => panic!("{other:?}"),
    };
    cells.into_iter().map(word).collect()
}

/// The cell of a queued prompt comes before its own turn, not in the middle of the one before.
#[test]
fn a_prompt_is_shown_where_its_turn_began() {
    let events = [
        prompt("one"),
        started("one"),
        text("a"),
        prompt("two"),
        prompt("three"),
        text("b"),
        Event::PromptWithdrawn { prompt: "three".into() },
        text("c"),
        over(),
        started("two"),
        text("d"),
        prompt("four"),
    ];
    let wanted: [(usize, &[&str], &[&str]); 4] = [
        (1, &[], &["one…"]),
        (6, &["one", "ab"], &["two…", "three…"]),
        (9, &["one", "ab", "(three)", "c", "end"], &["two…"]),
        (12, &["one", "ab", "(three)", "c", "end", "two", "d"], &["four…"]),
    ];
    for (count, cells, waiting) in wanted {
        let transcript = fold(events[..count].to_vec());
        assert_eq!(words(transcript.cells()), cells, "after {count} events");
        assert_eq!(words(transcript.waiting()), waiting, "after {count} events");
    }
    // The cell keeps its id and time.
    let transcript = fold(events);
    let two = transcript.cells().iter().find(|cell| cell.id == Seq(4)).unwrap();
    assert_eq!(two.at, Millis(4));
}
