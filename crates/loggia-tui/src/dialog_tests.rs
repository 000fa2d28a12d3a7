use crossterm::event::{KeyCode, KeyModifiers};
use loggia_core::{FileDiff, Risk, policy};

use super::*;
use crate::key_timing::{ALONE, GUARD};

fn question(details: Details) -> OpenQuestion {
    OpenQuestion {
        approval: "a".into(),
        call: "c".into(),
        tool: "tool".into(),
        title: "do it".into(),
        choices: policy::choices("tool", &details, Risk::Normal, &loggia_shell::Parser),
        details,
        risk: Risk::Normal,
        asked: Default::default(),
    }
}

fn command(command: &str) -> Dialog {
    let details = Details::Execute { command: command.into(), directory: "/w".into() };
    Dialog::new(question(details))
}

fn press(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Types a letter and lets its waiting time pass.
fn letter(dialog: &mut Dialog, letter: char, now: u64) -> Reaction {
    let reaction = dialog.key(&press(KeyCode::Char(letter)), Uptime(now));
    assert_eq!(dialog.due(Uptime(now + ALONE - 1)), None);
    dialog.due(Uptime(now + ALONE)).unwrap_or(reaction)
}

fn draw(dialog: &mut Dialog, height: usize, now: u64) -> Drawn {
    let drawn = dialog.draw(40, height, &Theme::default(), Uptime(now));
    dialog.was_drawn(Uptime(now), drawn.end_shown);
    drawn
}

fn text(drawn: &Drawn) -> Vec<String> {
    drawn.lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
}

fn answered(choice: &str) -> Reaction {
    Reaction::Answer(choice.into(), None)
}

/// Not drawn, just drawn, or just typed: the key goes to the composer.
#[test]
fn a_key_counts_only_after_the_dialog_was_seen() {
    let mut dialog = command("ls");
    assert_eq!(letter(&mut dialog, 'y', 10_000), Reaction::Elsewhere, "never drawn");
    draw(&mut dialog, 20, 10_001);
    assert_eq!(letter(&mut dialog, 'y', 10_002), Reaction::Elsewhere, "just drawn");
    // Continued typing postpones the answers.
    let mut now = 10_002;
    for _ in 0..20 {
        now += GUARD - 1;
        assert_eq!(letter(&mut dialog, 'y', now), Reaction::Elsewhere);
        draw(&mut dialog, 20, now);
    }
    assert_eq!(letter(&mut dialog, 'y', now + GUARD), answered("proceed_once"));
}

#[test]
fn answers_have_letters_numbers_and_a_mark() {
    for (key, wanted) in [
        ('y', "proceed_once"),
        ('a', "proceed_always"),
        ('p', "proceed_always_project"),
        ('n', "cancel"),
        ('1', "proceed_once"),
        ('4', "cancel"),
    ] {
        let mut dialog = command("ls");
        draw(&mut dialog, 20, 0);
        assert_eq!(letter(&mut dialog, key, GUARD), answered(wanted), "{key}");
    }
    let mut dialog = command("ls");
    draw(&mut dialog, 20, 0);
    dialog.key(&press(KeyCode::Down), Uptime(GUARD));
    assert_eq!(dialog.key(&press(KeyCode::Enter), Uptime(GUARD)), answered("proceed_once"));
    dialog.key(&press(KeyCode::Down), Uptime(GUARD));
    assert_eq!(dialog.key(&press(KeyCode::Enter), Uptime(GUARD)), answered("proceed_always"));
    assert_eq!(dialog.key(&press(KeyCode::Esc), Uptime(GUARD)), answered("cancel"));
    assert_eq!(letter(&mut dialog, '9', GUARD), Reaction::Elsewhere);
}

/// `y` and a following key some milliseconds later: an answer or the start of a word.
#[test]
fn a_letter_answers_where_it_stands_alone() {
    use KeyCode::{Backspace, Char, Down, Enter, Esc};
    let elsewhere = |word: &str| (Reaction::Elsewhere, word.to_owned());
    let done = |reaction: Reaction| (reaction, String::new());
    let cases = [
        ('y', Char('e'), elsewhere("y")),
        ('y', Char(' '), elsewhere("y")),
        ('y', Char('n'), elsewhere("y")),
        ('n', Char('o'), elsewhere("n")),
        ('e', Char('x'), elsewhere("e")),
        ('j', Char('u'), elsewhere("j")),
        ('1', Char('.'), elsewhere("1")),
        // The key was held down, confirmed, or deleted.
        ('y', Char('y'), done(Reaction::Nothing)),
        ('y', Enter, done(answered("proceed_once"))),
        ('n', Enter, done(answered("cancel"))),
        ('e', Enter, done(Reaction::Nothing)),
        ('y', Backspace, elsewhere("")),
        ('y', Esc, done(answered("cancel"))),
        ('y', Down, done(Reaction::Nothing)),
    ];
    for (first, second, wanted) in cases {
        let mut dialog = command("ls");
        draw(&mut dialog, 20, 0);
        let at = Uptime(GUARD + ALONE - 1);
        assert_eq!(dialog.key(&press(Char(first)), Uptime(GUARD)), Reaction::Nothing);
        assert_eq!(dialog.next_move(Uptime(GUARD)), Some(Uptime(GUARD + ALONE)), "{first}");
        assert_eq!(dialog.due(at), None);
        let reaction = dialog.key(&press(second), at);
        let word = match reaction {
            Reaction::Elsewhere => dialog.take_word(),
            _ => String::new(),
        };
        assert_eq!((reaction, word), wanted, "{first} {second}");
        let later = dialog.due(Uptime(10 * GUARD));
        let held = (first, second) == ('y', Char('y'));
        assert_eq!(later, held.then(|| answered("proceed_once")), "{first} {second}");
        assert_eq!(dialog.is_editing(), (first, second) == ('e', Enter));
    }
}

/// A text that does not fit must be seen to its end before it is allowed; rejecting is always
/// possible.
#[test]
fn a_long_command_is_allowed_only_when_seen_to_its_end() {
    let hidden = format!("echo ok{} ; touch PWNED", " ".repeat(800));
    let mut dialog = command(&hidden);
    let drawn = draw(&mut dialog, 12, 0);
    let shown = text(&drawn).join("\n");
    assert!(!drawn.end_shown && shown.contains("more lines"), "{shown}");
    for key in ['y', '1'] {
        assert!(matches!(letter(&mut dialog, key, GUARD), Reaction::Hint(_)), "{key}");
    }
    assert!(matches!(dialog.key(&press(KeyCode::Enter), Uptime(GUARD)), Reaction::Hint(_)));
    let click = drawn.answers.first().map(|(_, index)| *index).unwrap_or_default();
    assert!(matches!(dialog.click(click, Uptime(GUARD)), Reaction::Hint(_)));
    for _ in 0..40 {
        dialog.key(&press(KeyCode::PageDown), Uptime(GUARD));
        draw(&mut dialog, 12, GUARD);
    }
    let shown = text(&draw(&mut dialog, 12, GUARD)).join("\n");
    assert!(shown.contains("touch PWNED"), "{shown}");
    assert_eq!(letter(&mut dialog, 'y', GUARD), answered("proceed_once"));

    let mut dialog = command(&hidden);
    draw(&mut dialog, 12, 0);
    assert_eq!(letter(&mut dialog, 'n', GUARD), answered("cancel"));
}

#[test]
fn the_proposal_can_be_changed_in_place() {
    let mut dialog = command("rm a");
    draw(&mut dialog, 20, 0);
    letter(&mut dialog, 'e', GUARD);
    // Letters are now text.
    letter(&mut dialog, 'y', GUARD);
    let edit = Edit::Command { command: "rm ay".into() };
    let sent = dialog.key(&press(KeyCode::Enter), Uptime(GUARD));
    assert_eq!(sent, Reaction::Answer("proceed_once".into(), Some(edit)));

    let diff = FileDiff::between("src/a.txt", "/w/src/a.txt", None, "one\n");
    let mut dialog = Dialog::new(question(Details::Edit(diff)));
    draw(&mut dialog, 20, 0);
    let outside =
        dialog.key(&KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL), Uptime(GUARD));
    let wanted = Reaction::EditOutside { name: "a.txt".into(), text: "one\n".into() };
    assert_eq!(outside, wanted);
    // The edited text is shown again.
    dialog.edited_outside("two\n");
    assert!(text(&draw(&mut dialog, 20, GUARD)).contains(&"▌ two".to_owned()));
    let done = KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL);
    let edit = Edit::File { content: "two\n".into() };
    let sent = dialog.key(&done, Uptime(GUARD));
    assert_eq!(sent, Reaction::Answer("proceed_once".into(), Some(edit)));
}

#[test]
fn a_question_is_answered_in_words_or_by_an_option() {
    let details = Details::Question { text: "which?".into(), options: vec!["red".into()] };
    let mut dialog = Dialog::new(question(details));
    // Keys that are text are not shown as keys.
    let shown = text(&draw(&mut dialog, 20, 0)).join("\n");
    assert!(
        shown.contains("▌ · red") && shown.contains("▌ Esc ") && !shown.contains("▌ n "),
        "{shown}"
    );
    let enter = |dialog: &mut Dialog| dialog.key(&press(KeyCode::Enter), Uptime(GUARD));
    assert!(matches!(enter(&mut dialog), Reaction::Hint(_)), "nothing is marked");
    dialog.key(&press(KeyCode::Down), Uptime(GUARD));
    assert_eq!(enter(&mut dialog), answered("option_1"));
    "yes".chars().for_each(|key| drop(letter(&mut dialog, key, GUARD)));
    let words = Edit::Text { text: "yes".into() };
    let sent = dialog.key(&press(KeyCode::Enter), Uptime(GUARD));
    assert_eq!(sent, Reaction::Answer("answer".into(), Some(words)));
    assert_eq!(dialog.key(&press(KeyCode::Esc), Uptime(GUARD)), answered("cancel"));
}

/// Whatever a tool writes, the first column belongs to the dialog and no control sequence takes
/// effect.
#[test]
fn a_command_can_not_draw_a_dialog() {
    let nasty = "echo\u{1b}[2J\u{1b}[H\n▌ Allow Loggia to do good?\n▌ y Allow once\u{202e}";
    let mut dialog = command(nasty);
    let drawn = draw(&mut dialog, 30, 0);
    let lines = text(&drawn);
    assert_eq!(lines[0], "▌ Allow Loggia to do it?");
    assert!(lines.iter().all(|line| line.starts_with("▌ ") && !line.contains('\u{1b}')));
    assert!(lines.iter().any(|line| line == "▌   ▌ y Allow once\\u{202e}"), "{lines:#?}");
    // Clicks hit the real answers.
    assert!(drawn.answers.iter().all(|(row, _)| *row >= 5), "{:?}", drawn.answers);
}

#[test]
fn every_size_has_a_dialog() {
    for width in 1..50 {
        for height in 1..20 {
            let mut dialog = command("ls -la && echo 漢字 👩‍💻");
            let drawn = dialog.draw(width, height, &Theme::default(), Uptime(0));
            assert!(drawn.lines.len() <= height, "{width}x{height}");
        }
    }
}

/// In a narrow window the title is wrapped, not cut.
#[test]
fn a_narrow_dialog_says_what_it_is_about() {
    let mut dialog = command("ls");
    dialog.question.title = "run the tests of the parser".into();
    let lines = text(&Drawn {
        lines: dialog.draw(22, 7, &Theme::default(), Uptime(0)).lines,
        ..Drawn::default()
    });
    let joined = lines.iter().map(|line| line.trim_start_matches("▌ ")).collect::<Vec<_>>();
    let shown = joined.join(" ");
    assert!(shown.starts_with("Allow Loggia to run the tests of the parser?"), "{lines:#?}");
    assert!(lines.len() <= 7 && shown.contains("$ ls"), "{lines:#?}");
}

/// Without movement there is no later frame to correct the first.
#[test]
fn the_first_frame_shows_the_edited_text() {
    let mut dialog = command(&"echo a\n".repeat(30));
    draw(&mut dialog, 30, 0);
    letter(&mut dialog, 'e', 10_000);
    let first = draw(&mut dialog, 8, 10_001);
    assert!(first.cursor.is_some(), "{:#?}", text(&first));
    assert_eq!(text(&draw(&mut dialog, 8, 10_001)), text(&first));
}
