//! With a lost connection, nothing is sent or kept for later.

use super::*;
use crate::key_timing::{ALONE, GUARD};

const LOST: &str = "connection lost, trying again";

fn asked() -> Harness {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("ls");
    harness.look();
    harness
}

fn lose(harness: &mut Harness) {
    harness.send(Msg::ConnectionProblem(LOST.into()));
    harness.look();
}

fn find(harness: &mut Harness) {
    harness.send(Msg::ConnectionProblem(String::new()));
}

#[test]
fn a_key_at_a_question_does_nothing_while_the_connection_is_lost() {
    let mut harness = asked();
    lose(&mut harness);
    for key in ["y", "a", "n"] {
        assert_eq!(harness.types(key), []);
        assert_eq!(harness.remark(), "not connected: your answer was not sent");
        harness.model.remark = None;
    }
    harness.press(KeyCode::Down);
    assert_eq!(harness.press(KeyCode::Enter), []);
    assert_eq!(harness.press(KeyCode::Esc), []);
    // After the reconnect nothing is sent or marked, and the question must be seen again.
    find(&mut harness);
    assert_eq!(answer(&harness.press(KeyCode::Enter)), None);
    harness.look();
    harness.now += GUARD;
    assert_eq!(answer(&harness.press(KeyCode::Enter)), None);
    harness.now += GUARD;
    assert_eq!(answer(&harness.types("n")), Some(("ls", "cancel")));
}

/// A letter was pending when the connection was lost or restored.
#[test]
fn a_letter_on_either_side_of_the_break_does_not_answer() {
    let mut harness = asked();
    harness.press(KeyCode::Char('y'));
    harness.send(Msg::ConnectionProblem(LOST.into()));
    harness.now += ALONE;
    assert_eq!(harness.send(Msg::Tick), []);
    let mut harness = asked();
    lose(&mut harness);
    harness.press(KeyCode::Char('y'));
    find(&mut harness);
    harness.now += ALONE;
    assert_eq!(harness.send(Msg::Tick), []);
}

/// An unconfirmed answer can be given again, but is not repeated automatically.
#[test]
fn an_answer_that_was_lost_may_be_given_again() {
    let mut harness = asked();
    assert_eq!(answer(&harness.types("y")), Some(("ls", "proceed_once")));
    lose(&mut harness);
    let lost = SubmitError::Store(loggia_session::StoreError::Io("the connection broke".into()));
    harness.send(Msg::Submitted { what: Submitted::Answer("ls".into()), result: Err(lost) });
    assert_eq!(harness.remark(), "the connection broke");
    find(&mut harness);
    harness.look();
    assert_eq!(answer(&harness.types("n")), Some(("ls", "cancel")));
}

#[test]
fn a_prompt_stays_in_the_line_and_nothing_is_interrupted() {
    let mut harness = Harness::new();
    harness.turn("go");
    lose(&mut harness);
    assert_eq!(harness.types("say hi\n"), []);
    assert_eq!(harness.remark(), "not connected: your prompt was not sent");
    assert_eq!(harness.model.composer.editor.text(), "say hi");
    assert_eq!(harness.press(KeyCode::Esc), []);
    assert_eq!(harness.remark(), "not connected: nothing was interrupted");
    harness.ctrl('c');
    assert_eq!(harness.types("!ls\n"), []);
    assert_eq!(harness.model.composer.editor.text(), "!ls");
    harness.ctrl('c');
    assert_eq!(harness.ctrl('c'), [], "the turn goes on");
    assert_eq!(harness.ctrl('c'), [Effect::Leave(Exit::Asked)]);
    // Local commands still work.
    let mut harness = Harness::new();
    lose(&mut harness);
    assert!(harness.types("/quit\n").contains(&Effect::Leave(Exit::Asked)));
}

/// Only the confirmation was lost: the prompt leaves the composer when the log contains it.
#[test]
fn a_prompt_that_had_arrived_leaves_the_line() {
    for (typed, wanted) in [("", ""), (" and more", "say hi and more")] {
        let mut harness = Harness::new();
        harness.types("say hi\n");
        lose(&mut harness);
        let lost = SubmitError::Store(loggia_session::StoreError::Io("broke".into()));
        let what = Submitted::Prompt { prompt: "p".into(), text: "say hi".into() };
        harness.send(Msg::Submitted { what, result: Err(lost) });
        assert_eq!(harness.model.composer.editor.text(), "say hi");
        harness.types(typed);
        find(&mut harness);
        let (task, content) = ("t".into(), Content::text("say hi"));
        let prompt = PromptId::from("p");
        harness.event(
            me(),
            Event::PromptAccepted { prompt, task, content: content.into(), shell: false },
        );
        assert_eq!(harness.model.composer.editor.text(), wanted);
        assert!(harness.remark().contains("had arrived"), "{}", harness.remark());
    }
}
