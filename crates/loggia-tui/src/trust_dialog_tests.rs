use crossterm::event::{KeyCode, KeyModifiers};

use super::*;
use crate::key_timing::{ALONE, GUARD};

fn asking(text: &str, size: (u16, u16)) -> TrustDialog {
    let question = TrustQuestion {
        heading: "Do you trust it?".into(),
        text: text.into(),
        theme: Theme::default(),
        reflows: true,
    };
    TrustDialog::new(question, size)
}

fn draw(asking: &mut TrustDialog, now: u64) -> Vec<String> {
    let frame = asking.draw(Uptime(now));
    asking.was_drawn(frame.shown(Some(0)), Uptime(now));
    frame.lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
}

fn press(asking: &mut TrustDialog, code: KeyCode, now: u64) -> Option<TrustDecision> {
    let event = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    asking.read(&event, Uptime(now)).or_else(|| asking.due(Uptime(now + ALONE)))
}

#[test]
fn every_answer_has_its_key_and_esc_is_not_now() {
    use KeyCode::{Char, Enter, Esc};
    let cases = [
        (Char('y'), Some(TrustDecision::Trust)),
        (Char('n'), Some(TrustDecision::NotNow)),
        (Char('d'), Some(TrustDecision::Never)),
        (Char('3'), Some(TrustDecision::Never)),
        // The initial mark does not allow anything.
        (Enter, Some(TrustDecision::NotNow)),
        (Esc, Some(TrustDecision::NotNow)),
        (Char('x'), None),
        (Char('e'), None),
    ];
    for (key, wanted) in cases {
        let mut asking = asking("model = x", (60, 20));
        draw(&mut asking, 0);
        assert_eq!(press(&mut asking, key, GUARD), wanted, "{key}");
    }
    let mut asking = asking("model = x", (60, 20));
    draw(&mut asking, 0);
    let leave = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
    let left = asking.read(&Event::Key(leave), Uptime(1));
    assert_eq!(left, Some(TrustDecision::Leave(Exit::Asked)), "leaving needs no waiting time");
}

#[test]
fn nothing_typed_or_pasted_before_it_was_seen_answers() {
    let mut asking = asking("model = x", (60, 20));
    assert_eq!(press(&mut asking, KeyCode::Char('y'), 10), None, "never drawn");
    draw(&mut asking, 11);
    let mut now = 11;
    for key in [KeyCode::Char('y'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char('d')] {
        now += GUARD - 1;
        assert_eq!(press(&mut asking, key, now), None, "{key}");
        draw(&mut asking, now);
    }
    let now = now + GUARD;
    assert_eq!(asking.read(&Event::Paste("y".into()), Uptime(now)), None);
    assert_eq!(press(&mut asking, KeyCode::Char('y'), now + 1), None, "just pasted");
    assert_eq!(press(&mut asking, KeyCode::Char('y'), now + 1 + GUARD), Some(TrustDecision::Trust));
}

#[test]
fn a_sentence_answers_nothing() {
    for sentence in ["yes please", "no", "do it", "yn", "1st"] {
        let mut asking = asking("model = x", (60, 20));
        draw(&mut asking, 0);
        for letter in sentence.chars() {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
            assert_eq!(asking.read(&Event::Key(key), Uptime(GUARD)), None, "{sentence}");
        }
        assert_eq!(asking.due(Uptime(10 * GUARD)), None, "{sentence}");
    }
}

/// A long list must be scrolled to its end before it can be trusted; the other answers are always
/// possible.
#[test]
fn it_is_trusted_only_when_seen_to_its_end() {
    let long = "hooks.prompt_submit = x\n".repeat(40);
    for (key, wanted) in [('n', TrustDecision::NotNow), ('d', TrustDecision::Never)] {
        let mut asking = asking(&long, (60, 12));
        draw(&mut asking, 0);
        assert_eq!(press(&mut asking, KeyCode::Char('y'), GUARD), None);
        assert_eq!(press(&mut asking, KeyCode::Char(key), GUARD), Some(wanted));
    }
    let mut asking = asking(&long, (60, 12));
    draw(&mut asking, 0);
    press(&mut asking, KeyCode::End, GUARD);
    assert!(draw(&mut asking, GUARD).join("\n").contains("the end"));
    assert_eq!(press(&mut asking, KeyCode::Char('y'), GUARD), Some(TrustDecision::Trust));
}

#[test]
fn every_size_asks() {
    for (width, height) in [(1, 1), (10, 3), (24, 10), (300, 100)] {
        let mut asking = asking("model = x", (width, height));
        let lines = draw(&mut asking, 0);
        assert!(!lines.is_empty() && lines.len() <= usize::from(height), "{width}x{height}");
    }
}
