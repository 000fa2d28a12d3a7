//! A question is open while the person types: typed text never answers it.

use proptest::prelude::*;

use super::*;
use crate::guard::{ALONE, GUARD};

fn asked() -> Desk {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.ask("ls");
    desk.look();
    desk
}

/// Types with pauses in milliseconds and draws after each letter.
fn write(desk: &mut Desk, text: &str, pauses: &[u64]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (letter, pause) in text.chars().zip(pauses.iter().cycle()) {
        desk.now += pause;
        desk.draw();
        effects.extend(match letter {
            '\n' => desk.press(KeyCode::Enter),
            letter => desk.press(KeyCode::Char(letter)),
        });
    }
    effects
}

#[test]
fn a_word_is_a_word_and_a_message_is_sent() {
    let words = ["make", "hurry", "my answer, 1"];
    for (typed, wanted) in words.into_iter().map(|word| (word, word)) {
        for pause in [0, GUARD, 10 * GUARD] {
            let mut desk = asked();
            let effects = write(&mut desk, typed, &[pause]);
            assert_eq!((answer(&effects), effects.len()), (None, 0), "{typed}");
            assert_eq!(desk.model.composer.editor.text(), wanted);
        }
    }
    let mut desk = asked();
    let effects = write(&mut desk, "huh\n", &[GUARD]);
    assert_eq!(effects, [Effect::Remember("huh".into()), Effect::Prompt("huh".into())]);
    // The composer is empty: after the guard time, keys are for the question again.
    assert_eq!(answer(&desk.types("y")), None);
    desk.press(KeyCode::Backspace);
    desk.now += GUARD;
    assert_eq!(answer(&desk.types("n")), Some(("ls", "cancel")));
}

/// Words that start with a key of the dialog.
#[test]
fn a_word_may_begin_with_any_letter() {
    for typed in ["yes please", "no, wait", "explain", "always?", "put it there", "just", "1 more"]
    {
        for pause in [0, ALONE - 1] {
            let mut desk = asked();
            let effects = write(&mut desk, typed, &[pause]);
            assert_eq!(effects, [], "{typed}");
            assert_eq!(desk.model.composer.editor.text(), typed);
            assert!(!desk.model.dialog.as_ref().is_some_and(Dialog::is_editing), "{typed}");
            desk.now += 10 * GUARD;
            assert_eq!(desk.send(Msg::Tick), [], "{typed}");
        }
    }
    // A paste continues the word, and Ctrl-C drops the letter.
    let mut desk = asked();
    desk.press(KeyCode::Char('y'));
    assert_eq!(desk.send(Msg::Paste("es".into())), []);
    assert_eq!(desk.model.composer.editor.text(), "yes");
    let mut desk = asked();
    desk.press(KeyCode::Char('y'));
    desk.ctrl('c');
    desk.now += ALONE;
    assert_eq!(answer(&desk.send(Msg::Tick)), None);
}

/// A letter whose waiting time is over answers before any other event is handled.
#[test]
fn a_letter_that_stood_alone_answers_before_anything_else() {
    let mut desk = asked();
    desk.press(KeyCode::Char('y'));
    assert_eq!(desk.model.next_move(Moment(desk.now)), Some(Moment(desk.now + ALONE)));
    desk.now += ALONE;
    assert_eq!(answer(&desk.press(KeyCode::Char('x'))), Some(("ls", "proceed_once")));
    assert_eq!(desk.model.composer.editor.text(), "x");
}

/// With a draft, an arrow moves to the answers and a word moves back to the composer.
#[test]
fn arrows_go_to_the_answers_and_a_word_goes_back() {
    let mut desk = asked();
    desk.types("s");
    desk.look();
    let shown = |desk: &mut Desk| {
        let frame = desk.draw();
        frame.lines.iter().map(|line| line.to_string() + "\n").collect::<String>()
    };
    assert!(
        shown(&mut desk).contains("you are writing: ↑↓ to the answers"),
        "{}",
        shown(&mut desk)
    );
    assert_eq!(desk.press(KeyCode::Down), []);
    assert!(shown(&mut desk).contains("Enter choose"), "{}", shown(&mut desk));
    desk.types("o");
    desk.look();
    assert_eq!(desk.types("y"), []);
    assert_eq!(desk.model.composer.editor.text(), "soy");
    desk.look();
    desk.press(KeyCode::Up);
    desk.press(KeyCode::Down);
    assert_eq!(answer(&desk.press(KeyCode::Enter)), Some(("ls", "proceed_once")));
    assert_eq!(desk.model.composer.editor.text(), "soy", "the draft stays");
    // Esc rejects from anywhere, but closes a popup first.
    let mut desk = asked();
    desk.types("/mo");
    desk.look();
    assert_eq!(desk.press(KeyCode::Esc), []);
    desk.look();
    assert_eq!(answer(&desk.press(KeyCode::Esc)), Some(("ls", "cancel")));
}

/// Enter gives only an answer that an arrow marked for this question, if nothing was typed since.
#[test]
fn nothing_is_marked_but_by_arrows() {
    let enter = |desk: &mut Desk| {
        desk.look();
        desk.now += GUARD;
        let effects = desk.press(KeyCode::Enter);
        (answer(&effects).map(|(_, choice)| choice.to_owned()), desk.remark().to_owned())
    };
    let says_keys = |(answer, said): (Option<String>, String)| {
        assert_eq!(answer, None);
        assert!(said.contains("Enter alone answers nothing: y, a, p, n"), "{said}");
    };
    says_keys(enter(&mut asked()));
    // A sent message that starts with an answer key, a deleted word, a paste, an open popup.
    let mut desk = asked();
    write(&mut desk, "always ask me\n", &[0]);
    says_keys(enter(&mut desk));
    let mut desk = asked();
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    write(&mut desk, "hm", &[0]);
    desk.ctrl('u');
    says_keys(enter(&mut desk));
    let mut desk = asked();
    desk.press(KeyCode::Down);
    desk.send(Msg::Paste("words".into()));
    desk.ctrl('u');
    says_keys(enter(&mut desk));
    let mut desk = asked();
    desk.press(KeyCode::Down);
    desk.press(KeyCode::F(1));
    desk.press(KeyCode::Esc);
    says_keys(enter(&mut desk));
    // An answer that was not possible yet is not given by a later Enter.
    let mut desk = asked();
    desk.press(KeyCode::Char('a'));
    desk.press(KeyCode::Backspace);
    says_keys(enter(&mut desk));
    // Another question replaced it.
    let mut desk = asked();
    desk.ask("two");
    desk.press(KeyCode::Down);
    desk.answered(other(), "ls", "cancel");
    desk.look();
    desk.now += crate::guard::AFTER;
    says_keys(enter(&mut desk));
    // A marked answer is given.
    let mut desk = asked();
    desk.press(KeyCode::Down);
    assert_eq!(answer(&desk.press(KeyCode::Enter)), Some(("ls", "proceed_once")));
    let mut desk = asked();
    desk.press(KeyCode::Up);
    assert_eq!(answer(&desk.press(KeyCode::Enter)), Some(("ls", "cancel")));
}

/// An overlay covers the question: a click on its row answers nothing.
#[test]
fn a_click_on_a_list_over_the_question_answers_nothing() {
    let mut desk = asked();
    let rows = desk.model.dialog.as_ref().unwrap().answer_rows.clone();
    assert!(!rows.is_empty());
    desk.press(KeyCode::F(1));
    desk.look();
    for (row, _) in rows {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let click = MouseEvent { kind, column: 4, row, modifiers: KeyModifiers::NONE };
        assert_eq!(desk.send(Msg::Mouse(click)), []);
    }
}

#[test]
fn what_is_searched_for_in_the_transcript_answers_nothing() {
    let mut desk = asked();
    desk.ctrl('t');
    desk.types("/");
    let effects = write(&mut desk, "hay\n", &[GUARD]);
    assert_eq!(effects, []);
}

/// A draft stays in the composer when a question with a text answer opens.
#[test]
fn a_draft_is_not_the_answer_to_a_question_in_words() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.types("see");
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
    desk.event(Origin::agent(), proposed);
    let risk = Risk::Normal;
    desk.event(Origin::agent(), Event::ApprovalAsked { approval, call, choices, risk });
    desk.look();
    let effects = write(&mut desk, " it\n", &[GUARD]);
    assert!(effects.contains(&Effect::Prompt("see it".into())), "{effects:?}");
    assert_eq!(answer(&effects), None);
}

/// After a letter, an arrow can move to the answers at once; answering is possible later.
#[test]
fn an_arrow_right_after_a_letter_goes_up() {
    let mut desk = asked();
    desk.types("s");
    assert_eq!(desk.press(KeyCode::Up), []);
    assert_eq!(desk.model.composer.editor.text(), "s", "no older prompt");
    assert_eq!(answer(&desk.press(KeyCode::Enter)), None);
    let mut desk = asked();
    desk.types("s");
    desk.press(KeyCode::Up);
    desk.now += GUARD;
    assert_eq!(answer(&desk.types("n")), Some(("ls", "cancel")));
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
        let mut desk = asked();
        let text = format!("{first}{second}{rest}");
        let mut effects = write(&mut desk, &format!("{first}{second}"), &[begun]);
        effects.extend(write(&mut desk, &rest, &pauses));
        prop_assert_eq!(effects, []);
        prop_assert_eq!(desk.model.composer.editor.text(), text);
        if enter {
            let effects = write(&mut desk, "\n", &pauses);
            prop_assert_eq!(answer(&effects), None);
        }
    }

    /// Text started before the question appeared stays text.
    #[test]
    fn what_was_begun_before_never_answers(
        before in "[a-zA-Z][a-z0-9 ]{0,5}",
        after in "[a-z0-9 ]{0,8}",
        pauses in prop::collection::vec(0u64..2 * GUARD, 1..6),
    ) {
        let mut desk = Desk::new();
        desk.turn("go");
        let effects = write(&mut desk, &before, &pauses);
        prop_assert_eq!(effects, []);
        desk.ask("ls");
        let effects = write(&mut desk, &(after.clone() + "\n"), &pauses);
        prop_assert_eq!(answer(&effects), None);
        prop_assert!(effects.contains(&Effect::Prompt(format!("{before}{after}"))), "{effects:?}");
    }
}
