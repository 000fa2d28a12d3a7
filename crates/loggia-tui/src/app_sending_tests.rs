//! With a lost connection, nothing is sent or kept for later.

use super::*;
use crate::guard::{ALONE, GUARD};

const LOST: &str = "connection lost, trying again";

fn asked() -> Desk {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.ask("ls");
    desk.look();
    desk
}

fn lose(desk: &mut Desk) {
    desk.send(Msg::Trouble(LOST.into()));
    desk.look();
}

fn find(desk: &mut Desk) {
    desk.send(Msg::Trouble(String::new()));
}

#[test]
fn a_key_at_a_question_does_nothing_while_the_connection_is_lost() {
    let mut desk = asked();
    lose(&mut desk);
    for key in ["y", "a", "n"] {
        assert_eq!(desk.types(key), []);
        assert_eq!(desk.remark(), "not connected: your answer was not sent");
        desk.model.remark = None;
    }
    desk.press(KeyCode::Down);
    assert_eq!(desk.press(KeyCode::Enter), []);
    assert_eq!(desk.press(KeyCode::Esc), []);
    // After the reconnect nothing is sent or marked, and the question must be seen again.
    find(&mut desk);
    assert_eq!(answer(&desk.press(KeyCode::Enter)), None);
    desk.look();
    desk.now += GUARD;
    assert_eq!(answer(&desk.press(KeyCode::Enter)), None);
    desk.now += GUARD;
    assert_eq!(answer(&desk.types("n")), Some(("ls", "cancel")));
}

/// A letter was pending when the connection was lost or restored.
#[test]
fn a_letter_on_either_side_of_the_break_does_not_answer() {
    let mut desk = asked();
    desk.press(KeyCode::Char('y'));
    desk.send(Msg::Trouble(LOST.into()));
    desk.now += ALONE;
    assert_eq!(desk.send(Msg::Tick), []);
    let mut desk = asked();
    lose(&mut desk);
    desk.press(KeyCode::Char('y'));
    find(&mut desk);
    desk.now += ALONE;
    assert_eq!(desk.send(Msg::Tick), []);
}

/// An unconfirmed answer can be given again, but is not repeated automatically.
#[test]
fn an_answer_that_was_lost_may_be_given_again() {
    let mut desk = asked();
    assert_eq!(answer(&desk.types("y")), Some(("ls", "proceed_once")));
    lose(&mut desk);
    let lost = SubmitError::Store(loggia_session::StoreError::Io("the connection broke".into()));
    desk.send(Msg::Submitted { what: Submitted::Answer("ls".into()), result: Err(lost) });
    assert_eq!(desk.remark(), "the connection broke");
    find(&mut desk);
    desk.look();
    assert_eq!(answer(&desk.types("n")), Some(("ls", "cancel")));
}

#[test]
fn a_prompt_stays_in_the_line_and_nothing_is_interrupted() {
    let mut desk = Desk::new();
    desk.turn("go");
    lose(&mut desk);
    assert_eq!(desk.types("say hi\n"), []);
    assert_eq!(desk.remark(), "not connected: your prompt was not sent");
    assert_eq!(desk.model.composer.editor.text(), "say hi");
    assert_eq!(desk.press(KeyCode::Esc), []);
    assert_eq!(desk.remark(), "not connected: nothing was interrupted");
    desk.ctrl('c');
    assert_eq!(desk.types("!ls\n"), []);
    assert_eq!(desk.model.composer.editor.text(), "!ls");
    desk.ctrl('c');
    assert_eq!(desk.ctrl('c'), [], "the turn goes on");
    assert_eq!(desk.ctrl('c'), [Effect::Leave(Exit::Asked)]);
    // Local commands still work.
    let mut desk = Desk::new();
    lose(&mut desk);
    assert!(desk.types("/quit\n").contains(&Effect::Leave(Exit::Asked)));
}

/// Only the confirmation was lost: the prompt leaves the composer when the log contains it.
#[test]
fn a_prompt_that_had_arrived_leaves_the_line() {
    for (typed, wanted) in [("", ""), (" and more", "say hi and more")] {
        let mut desk = Desk::new();
        desk.types("say hi\n");
        lose(&mut desk);
        let lost = SubmitError::Store(loggia_session::StoreError::Io("broke".into()));
        let what = Submitted::Prompt { prompt: "p".into(), text: "say hi".into() };
        desk.send(Msg::Submitted { what, result: Err(lost) });
        assert_eq!(desk.model.composer.editor.text(), "say hi");
        desk.types(typed);
        find(&mut desk);
        let (task, content) = ("t".into(), Content::text("say hi"));
        let prompt = PromptId::from("p");
        desk.event(
            me(),
            Event::PromptAccepted { prompt, task, content: content.into(), shell: false },
        );
        assert_eq!(desk.model.composer.editor.text(), wanted);
        assert!(desk.remark().contains("had arrived"), "{}", desk.remark());
    }
}
