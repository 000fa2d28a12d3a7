use crossterm::event::{KeyCode, KeyModifiers};

use super::*;
use crate::keymap::KeyContext;

fn press(composer: &mut Composer, code: KeyCode, modifiers: KeyModifiers) -> KeyResult {
    let event = KeyEvent::new(code, modifiers);
    composer.key(&event, keymap::action(KeyContext::Composer, &event))
}

fn types(composer: &mut Composer, text: &str) -> KeyResult {
    let keys = text.chars().map(|letter| {
        let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
        press(composer, code, KeyModifiers::NONE)
    });
    keys.last().unwrap_or(KeyResult::Nothing)
}

fn open() -> Composer {
    Composer { width: 40, ..Composer::default() }
}

#[test]
fn enter_sends_and_empties() {
    let mut composer = open();
    assert_eq!(types(&mut composer, "  \n"), KeyResult::Nothing);
    assert_eq!(types(&mut composer, "hi\n"), KeyResult::Submit("  hi".into()));
    assert!(composer.editor.is_empty());
    assert_eq!(press(&mut composer, KeyCode::Up, KeyModifiers::NONE), KeyResult::Nothing);
    assert_eq!(composer.editor.text(), "  hi");
}

#[test]
fn a_new_line_in_every_way_a_terminal_can_say_it() {
    for (code, modifiers) in [
        (KeyCode::Enter, KeyModifiers::SHIFT),
        (KeyCode::Enter, KeyModifiers::ALT),
        (KeyCode::Char('j'), KeyModifiers::CONTROL),
    ] {
        let mut composer = open();
        types(&mut composer, "a");
        press(&mut composer, code, modifiers);
        assert_eq!(types(&mut composer, "b\n"), KeyResult::Submit("a\nb".into()), "{code:?}");
    }
    let mut composer = open();
    assert_eq!(types(&mut composer, "a\\\nb\n"), KeyResult::Submit("a\nb".into()));
}

#[test]
fn a_large_paste_is_folded_and_sent_whole() {
    let mut composer = open();
    let small = "two\nlines";
    let large = "x\n".repeat(100);
    composer.paste(small);
    composer.paste(&large);
    assert_eq!(composer.editor.layout(40).rows, ["two", "lines[pasted 100 lines]"]);
    assert_eq!(types(&mut composer, "\n"), KeyResult::Submit(format!("{small}{large}")));
    assert_eq!(composer.paste(&"x".repeat(PROMPT_LIMIT + 1)), KeyResult::TooLong);
}

#[test]
fn commands_are_offered_completed_and_sent() {
    let mut composer = open();
    types(&mut composer, "/mod");
    let offered = |composer: &Composer| -> Vec<String> {
        let items = composer.popup.iter().flat_map(|popup| &popup.items);
        items.map(|offer| offer.insert.trim_end().to_owned()).collect()
    };
    assert_eq!(offered(&composer), ["/mode", "/model"]);
    press(&mut composer, KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(composer.editor.text(), "/mode ");
    assert_eq!(offered(&composer), ["/mode ask", "/mode edits", "/mode plan", "/mode all"]);
    press(&mut composer, KeyCode::Down, KeyModifiers::NONE);
    assert_eq!(press(&mut composer, KeyCode::Enter, KeyModifiers::NONE), KeyResult::Nothing);
    assert_eq!(types(&mut composer, "\n"), KeyResult::Submit("/mode edits".into()));
    // A complete command is submitted at once.
    assert_eq!(types(&mut composer, "/quit\n"), KeyResult::Submit("/quit".into()));
    // Esc closes the popup, then Enter submits the text.
    types(&mut composer, "/mo");
    press(&mut composer, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(types(&mut composer, "\n"), KeyResult::Submit("/mo".into()));
}

#[test]
fn files_are_asked_for_and_the_newest_question_counts() {
    let mut composer = open();
    assert_eq!(types(&mut composer, "see @ma"), KeyResult::FindFiles("ma".into()));
    composer.files_found("m", vec!["old.rs".into()]);
    assert_eq!(composer.popup, None);
    composer.files_found("ma", vec!["src/main.rs".into(), "Makefile".into()]);
    press(&mut composer, KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(composer.editor.text(), "see src/main.rs ");
}

#[test]
fn a_search_finds_what_was_written_and_takes_it() {
    let mut composer = open();
    ["run cargo test", "write a.txt: hi"].iter().for_each(|text| composer.history.add(text));
    press(&mut composer, KeyCode::Char('r'), KeyModifiers::CONTROL);
    types(&mut composer, "carg");
    assert_eq!(composer.history.found(), Some("run cargo test"));
    assert_eq!(types(&mut composer, "\n"), KeyResult::Nothing);
    assert_eq!(types(&mut composer, "\n"), KeyResult::Submit("run cargo test".into()));
}

#[test]
fn a_prompt_that_was_not_taken_comes_back() {
    let mut composer = open();
    types(&mut composer, "first\n");
    types(&mut composer, "second");
    composer.give_back("first");
    assert_eq!(composer.editor.text(), "first\nsecond");
}
