//! A question is open while the person types: typed text never answers it.

use proptest::prelude::*;

use super::*;
use crate::key_timing::{ALONE, GUARD};

fn asked() -> Harness {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("ls");
    harness.look();
    harness
}

/// Types with pauses in milliseconds and draws after each letter.
fn write(harness: &mut Harness, text: &str, pauses: &[u64]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (letter, pause) in text.chars().zip(pauses.iter().cycle()) {
        harness.now += pause;
        harness.draw();
        effects.extend(match letter {
            '\n' => harness.press(KeyCode::Enter),
            letter => harness.press(KeyCode::Char(letter)),
        });
    }
    effects
}

#[test]
fn a_word_is_a_word_and_a_message_is_sent() {
    let words = ["make", "hurry", "my answer, 1"];
    for (typed, wanted) in words.into_iter().map(|word| (word, word)) {
        for pause in [0, GUARD, 10 * GUARD] {
            let mut harness = asked();
            let effects = write(&mut harness, typed, &[pause]);
            assert_eq!((answer(&effects), effects.len()), (None, 0), "{typed}");
            assert_eq!(harness.model.composer.editor.text(), wanted);
        }
    }
    let mut harness = asked();
    let effects = write(&mut harness, "huh\n", &[GUARD]);
    assert_eq!(effects, [Effect::Remember("huh".into()), Effect::Prompt("huh".into())]);
    // The composer is empty: after the guard time, keys are for the question again.
    assert_eq!(answer(&harness.types("y")), None);
    harness.press(KeyCode::Backspace);
    harness.now += GUARD;
    assert_eq!(answer(&harness.types("n")), Some(("ls", "cancel")));
}

/// Words that start with a key of the dialog.
#[test]
fn a_word_may_begin_with_any_letter() {
    for typed in ["yes please", "no, wait", "explain", "always?", "put it there", "just", "1 more"]
    {
        for pause in [0, ALONE - 1] {
            let mut harness = asked();
            let effects = write(&mut harness, typed, &[pause]);
            assert_eq!(effects, [], "{typed}");
            assert_eq!(harness.model.composer.editor.text(), typed);
            assert!(!harness.model.dialog.as_ref().is_some_and(Dialog::is_editing), "{typed}");
            harness.now += 10 * GUARD;
            assert_eq!(harness.send(Msg::Tick), [], "{typed}");
        }
    }
    // A paste continues the word, and Ctrl-C drops the letter.
    let mut harness = asked();
    harness.press(KeyCode::Char('y'));
    assert_eq!(harness.send(Msg::Paste("es".into())), []);
    assert_eq!(harness.model.composer.editor.text(), "yes");
    let mut harness = asked();
    harness.press(KeyCode::Char('y'));
    harness.ctrl('c');
    harness.now += ALONE;
    assert_eq!(answer(&harness.send(Msg::Tick)), None);
}

/// A letter whose waiting time is over answers before any other event is handled.
#[test]
fn a_letter_that_stood_alone_answers_before_anything_else() {
    let mut harness = asked();
    harness.press(KeyCode::Char('y'));
    assert_eq!(harness.model.next_move(Uptime(harness.now)), Some(Uptime(harness.now + ALONE)));
    harness.now += ALONE;
    assert_eq!(answer(&harness.press(KeyCode::Char('x'))), Some(("ls", "proceed_once")));
    assert_eq!(harness.model.composer.editor.text(), "x");
}

/// With a draft, an arrow moves to the answers and a word moves back to the composer.
#[test]
fn arrows_go_to_the_answers_and_a_word_goes_back() {
    let mut harness = asked();
    harness.types("s");
    harness.look();
    let shown = |harness: &mut Harness| {
        let frame = harness.draw();
        frame.lines.iter().map(|line| line.to_string() + "\n").collect::<String>()
    };
    assert!(
        shown(&mut harness).contains("you are writing: ↑↓ to the answers"),
        "{}",
        shown(&mut harness)
    );
    assert_eq!(harness.press(KeyCode::Down), []);
    assert!(shown(&mut harness).contains("Enter choose"), "{}", shown(&mut harness));
    harness.types("o");
    harness.look();
    assert_eq!(harness.types("y"), []);
    assert_eq!(harness.model.composer.editor.text(), "soy");
    harness.look();
    harness.press(KeyCode::Up);
    harness.press(KeyCode::Down);
    assert_eq!(answer(&harness.press(KeyCode::Enter)), Some(("ls", "proceed_once")));
    assert_eq!(harness.model.composer.editor.text(), "soy", "the draft stays");
    // Esc rejects from anywhere, but closes a popup first.
    let mut harness = asked();
    harness.types("/mo");
    harness.look();
    assert_eq!(harness.press(KeyCode::Esc), []);
    harness.look();
    assert_eq!(answer(&harness.press(KeyCode::Esc)), Some(("ls", "cancel")));
}

/// Enter gives only an answer that an arrow marked for this question, if nothing was typed since.
#[test]
fn nothing_is_marked_but_by_arrows() {
    let enter = |harness: &mut Harness| {
        harness.look();
        harness.now += GUARD;
        let effects = harness.press(KeyCode::Enter);
        (answer(&effects).map(|(_, choice)| choice.to_owned()), harness.remark().to_owned())
    };
    let says_keys = |(answer, said): (Option<String>, String)| {
        assert_eq!(answer, None);
        assert!(said.contains("press a key to answer: y, a, p, n"), "{said}");
    };
    says_keys(enter(&mut asked()));
    // A sent message that starts with an answer key, a deleted word, a paste, an open popup.
    let mut harness = asked();
    write(&mut harness, "always ask me\n", &[0]);
    says_keys(enter(&mut harness));
    let mut harness = asked();
    harness.press(KeyCode::Down);
    harness.press(KeyCode::Down);
    write(&mut harness, "hm", &[0]);
    harness.ctrl('u');
    says_keys(enter(&mut harness));
    let mut harness = asked();
    harness.press(KeyCode::Down);
    harness.send(Msg::Paste("words".into()));
    harness.ctrl('u');
    says_keys(enter(&mut harness));
    let mut harness = asked();
    harness.press(KeyCode::Down);
    harness.press(KeyCode::F(1));
    harness.press(KeyCode::Esc);
    says_keys(enter(&mut harness));
    // An answer that was not possible yet is not given by a later Enter.
    let mut harness = asked();
    harness.press(KeyCode::Char('a'));
    harness.press(KeyCode::Backspace);
    says_keys(enter(&mut harness));
    // Another question replaced it.
    let mut harness = asked();
    harness.ask("two");
    harness.press(KeyCode::Down);
    harness.answered(other(), "ls", "cancel");
    harness.look();
    harness.now += crate::key_timing::AFTER;
    says_keys(enter(&mut harness));
    // A marked answer is given.
    let mut harness = asked();
    harness.press(KeyCode::Down);
    assert_eq!(answer(&harness.press(KeyCode::Enter)), Some(("ls", "proceed_once")));
    let mut harness = asked();
    harness.press(KeyCode::Up);
    assert_eq!(answer(&harness.press(KeyCode::Enter)), Some(("ls", "cancel")));
}

/// An overlay covers the question: a click on its row answers nothing.
#[test]
fn a_click_on_a_list_over_the_question_answers_nothing() {
    let mut harness = asked();
    let rows = harness.model.dialog.as_ref().unwrap().answer_rows.clone();
    assert!(!rows.is_empty());
    harness.press(KeyCode::F(1));
    harness.look();
    for (row, _) in rows {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let click = MouseEvent { kind, column: 4, row, modifiers: KeyModifiers::NONE };
        assert_eq!(harness.send(Msg::Mouse(click)), []);
    }
}

#[test]
fn a_transcript_search_answers_nothing() {
    let mut harness = asked();
    harness.ctrl('t');
    harness.types("/");
    let effects = write(&mut harness, "hay\n", &[GUARD]);
    assert_eq!(effects, []);
}

/// A draft stays in the composer when a question with a text answer opens.
#[test]
fn a_draft_is_not_the_answer_to_a_question_in_words() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.types("see");
    let details = Details::Question { text: "which?".into(), options: vec!["red".into()] };
    let choices = policy::choices("ask", &details, Risk::Normal, &loggia_shell::Parser);
    let (call, approval) = (loggia_core::CallId::from("q"), ApprovalId::from("q"));
    let proposed = Event::CallProposed {
        turn: "u".into(),
        message: "m".into(),
        call: call.clone(),
        tool: "ask".into(),
        title: "ask".into(),
        access: Access::Read,
        input: Default::default(),
        details,
    };
    harness.event(Origin::agent(), proposed);
    let risk = Risk::Normal;
    harness.event(Origin::agent(), Event::ApprovalAsked { approval, call, choices, risk });
    harness.look();
    let effects = write(&mut harness, " it\n", &[GUARD]);
    assert!(effects.contains(&Effect::Prompt("see it".into())), "{effects:?}");
    assert_eq!(answer(&effects), None);
}

/// After a letter, an arrow can move to the answers at once; answering is possible later.
#[test]
fn an_arrow_right_after_a_letter_goes_up() {
    let mut harness = asked();
    harness.types("s");
    assert_eq!(harness.press(KeyCode::Up), []);
    assert_eq!(harness.model.composer.editor.text(), "s", "no older prompt");
    assert_eq!(answer(&harness.press(KeyCode::Enter)), None);
    let mut harness = asked();
    harness.types("s");
    harness.press(KeyCode::Up);
    harness.now += GUARD;
    assert_eq!(answer(&harness.types("n")), Some(("ls", "cancel")));
}

proptest! {
    /// Ordinary words at any typing speed never answer and all arrive in the composer.
    #[test]
    fn no_sentence_answers(
        first in "[a-zA-Z0-9]",
        second in "[,.;:-]|[a-zA-Z0-9 ]",
        begun in 0u64..ALONE,
        rest in "[a-zA-Z0-9 ,.!?-]{0,12}",
        pauses in prop::collection::vec(0u64..2 * GUARD, 1..6),
        enter: bool,
    ) {
        prop_assume!(first != second);
        let mut harness = asked();
        let text = format!("{first}{second}{rest}");
        let mut effects = write(&mut harness, &format!("{first}{second}"), &[begun]);
        effects.extend(write(&mut harness, &rest, &pauses));
        prop_assert_eq!(effects, []);
        prop_assert_eq!(harness.model.composer.editor.text(), text);
        if enter {
            let effects = write(&mut harness, "\n", &pauses);
            prop_assert_eq!(answer(&effects), None);
        }
    }

    /// Text started before the question appeared stays text.
    #[test]
    fn text_started_before_the_question_never_answers(
        before in "[a-zA-Z][a-z0-9 ]{0,5}",
        after in "[a-z0-9 ]{0,8}",
        pauses in prop::collection::vec(0u64..2 * GUARD, 1..6),
    ) {
        let mut harness = Harness::new();
        harness.turn("go");
        let effects = write(&mut harness, &before, &pauses);
        prop_assert_eq!(effects, []);
        harness.ask("ls");
        let effects = write(&mut harness, &(after.clone() + "\n"), &pauses);
        prop_assert_eq!(answer(&effects), None);
        prop_assert!(effects.contains(&Effect::Prompt(format!("{before}{after}"))), "{effects:?}");
    }
}
