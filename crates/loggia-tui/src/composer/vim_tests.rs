use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::{Composer, KeyResult};
use super::*;
use crate::composer::history::History;

/// A composer in normal mode with the cursor at the `|`.
fn normal(marked: &str) -> Composer {
    let at = marked.find('|').unwrap();
    let mut composer = Composer {
        vim: Some(Vim { mode: Mode::Normal, ..Vim::default() }),
        width: 40,
        history: History::new(vec!["old one".into(), "older\ntwo".into()]),
        ..Composer::default()
    };
    composer.editor = Editor::with_text(&marked.replace('|', ""));
    composer.editor.put_cursor(at);
    composer
}

/// Types keys: letters, `⎋` for Esc, `
/// ` for Enter, `↵` for Shift-Enter.
fn types(composer: &mut Composer, keys: &str) -> Vec<KeyResult> {
    let press = |composer: &mut Composer, letter| {
        let (code, held) = match letter {
            '⎋' => (KeyCode::Esc, KeyModifiers::NONE),
            '⏎' => (KeyCode::Enter, KeyModifiers::NONE),
            '↵' => (KeyCode::Enter, KeyModifiers::SHIFT),
            '→' => (KeyCode::Right, KeyModifiers::NONE),
            letter => (KeyCode::Char(letter), KeyModifiers::NONE),
        };
        let event = KeyEvent::new(code, held);
        composer.key(&event, keymap::action(KeyContext::Composer, &event))
    };
    keys.chars().map(|letter| press(composer, letter)).collect()
}

/// The text with the cursor; `>` in front in insert mode.
fn shown(composer: &Composer) -> String {
    let (before, after) = composer.editor.raw().split_at(composer.editor.cursor());
    let insert = !composer.vim.as_ref().unwrap().is_normal();
    format!("{}{before}|{after}", if insert { ">" } else { "" })
}

#[test]
fn keys_in_text_and_cursor_out() {
    const TABLE: &[(&str, &str, &str)] = &[
        // motions in a line
        ("one |two", "h", "one| two"),
        ("one |two", "l", "one t|wo"),
        ("one tw|o", "l", "one tw|o"),
        ("|one", "h", "|one"),
        ("o|ne\ntwo", "3h", "|one\ntwo"),
        ("on|e\ntwo", "9l", "on|e\ntwo"),
        ("|one two", "3l", "one| two"),
        ("one t|wo", "0", "|one two"),
        ("  one t|wo", "^", "  |one two"),
        ("  one t|wo", "0", "|  one two"),
        ("|one two", "$", "one tw|o"),
        ("|one\ntwo", "$", "on|e\ntwo"),
        ("|", "hl0$^wbe", "|"),
        // words
        ("|one two", "w", "one |two"),
        ("|one two three", "2w", "one two |three"),
        ("|a.b(c)", "w", "a|.b(c)"),
        ("|a.b(c)", "3w", "a.b|(c)"),
        ("on|e\n  two", "w", "one\n  |two"),
        ("|one\n\ntwo", "w", "one\n|\ntwo"),
        ("|one\n\ntwo", "ww", "one\n\n|two"),
        ("one tw|o", "w", "one tw|o"),
        ("one two|", "b", "one |two"),
        ("one |two", "b", "|one two"),
        ("one\n\n|two", "b", "one\n|\ntwo"),
        ("one  ..tw|o", "2b", "one  |..two"),
        ("|one two", "e", "on|e two"),
        ("on|e two", "e", "one tw|o"),
        ("|a.b", "ee", "a.|b"),
        ("|one two", "9e", "one tw|o"),
        ("|日本 語", "w", "日本 |語"),
        ("|e\u{301}a x", "e", "e\u{301}|a x"),
        ("👩‍💻 |x", "b", "|👩‍💻 x"),
        // lines
        ("one\n  t|wo\nthree", "gg", "|one\n  two\nthree"),
        ("|one\n  two\nthree", "G", "one\n  two\n|three"),
        ("|one\n  two\nthree", "2G", "one\n  |two\nthree"),
        ("|one\n  two\nthree", "2gg", "one\n  |two\nthree"),
        ("|one\ntwo", "j", "one\n|two"),
        ("one\nt|wo", "k", "o|ne\ntwo"),
        ("|one\ntwo\nthree", "2j", "one\ntwo\n|three"),
        // single characters
        ("o|ne", "x", "o|e"),
        ("|one", "2x", "|e"),
        ("on|e\ntwo", "5x", "o|n\ntwo"),
        ("|\ntwo", "x", "|\ntwo"),
        // operators with motions
        ("|one two", "dw", "|two"),
        ("|one two three", "d2w", "|three"),
        ("|one two three four", "2dw", "|three four"),
        ("one |two\nthree", "dw", "one| \nthree"),
        ("one |two\n  three", "dw", "one| \n  three"),
        ("one |two", "db", "|two"),
        ("|one two", "de", "| two"),
        ("one |two", "d$", "one| "),
        ("one |two", "d0", "|two"),
        ("  one |two", "d^", "  |two"),
        ("o|ne", "dh", "|ne"),
        ("o|ne", "dl", "o|e"),
        ("one |two", "D", "one| "),
        ("|one two", "cw", ">| two"),
        ("|one two", "cwsix⎋", "si|x two"),
        ("one| two", "cwx⎋", "one|xtwo"),
        ("one |two", "Cx⎋", "one |x"),
        ("|one two", "c2wx⎋", "|x"),
        ("one |two", "cbx⎋", "|xtwo"),
        // whole lines
        ("one\nt|wo\nthree", "dd", "one\n|three"),
        ("one\nt|wo", "dd", "|one"),
        ("|one", "dd", "|"),
        ("o|ne\ntwo\nthree", "2dd", "|three"),
        ("o|ne\ntwo\nthree", "dj", "|three"),
        ("one\ntwo\nth|ree", "dk", "|one"),
        ("one\nt|wo\nthree", "dG", "|one"),
        ("one\nt|wo\nthree", "dgg", "|three"),
        ("one\nt|wo\nthree", "cc", "one\n>|\nthree"),
        ("one\nt|wo\nthree", "ccx⎋", "one\n|x\nthree"),
        // copy and paste
        ("|one two", "ywP", "one| one two"),
        ("|one two", "ywwp", "one tone| wo"),
        ("one |two", "yb", "|one two"),
        ("o|ne\ntwo", "yyjp", "one\ntwo\n|one"),
        ("o|ne\ntwo", "yyp", "one\n|one\ntwo"),
        ("one\nt|wo", "yyP", "one\n|two\ntwo"),
        ("o|ne\ntwo", "ddp", "two\n|one"),
        ("|ab", "xp", "b|a"),
        ("|ab", "x3p", "baa|a"),
        ("|one", "p", "|one"),
        // insert mode
        ("o|ne", "ix⎋", "o|xne"),
        ("o|ne", "ax⎋", "on|xe"),
        ("  o|ne", "Ix⎋", "  |xone"),
        ("o|ne\ntwo", "Ax⎋", "one|x\ntwo"),
        ("o|ne\ntwo", "ox⎋", "one\n|x\ntwo"),
        ("one\nt|wo", "Ox⎋", "one\n|x\ntwo"),
        ("|", "i", ">|"),
        ("|", "ahi⎋", "h|i"),
        // undo: one command, or one insertion
        ("|one two", "dwu", "|one two"),
        ("|one two", "cwsix⎋u", "|one two"),
        ("|one", "ofour↵five⎋u", "on|e"),
        ("|one", "xxuu", "|one"),
        ("|abc", "xx2u", "|abc"),
        // a dropped command, and unbound letters
        ("|one two", "d⎋w", "one |two"),
        ("|one two", "2⎋w", "one |two"),
        ("|one two", "dzw", "one |two"),
        ("|one two", "gzw", "one |two"),
        ("|one", "zqQ!@", "|one"),
        ("|one two", "d9999999999w", "|"),
        // other keys keep their meaning, and the cursor stays on a character
        ("o|ne", "→→→", "on|e"),
    ];
    for (before, keys, wanted) in TABLE {
        let mut composer = normal(before);
        types(&mut composer, keys);
        let wanted = match wanted.split_once('>') {
            Some((front, back)) => format!(">{front}{back}"),
            None => (*wanted).to_owned(),
        };
        assert_eq!(shown(&composer), wanted, "{before:?} {keys}");
    }
}

#[test]
fn history_is_at_the_edges() {
    let mut composer = normal("dra|ft");
    types(&mut composer, "k");
    assert_eq!(composer.editor.text(), "older\ntwo");
    // To the first row, then to the previous entry, and back to the draft.
    types(&mut composer, "kk");
    assert_eq!(composer.editor.text(), "old one");
    types(&mut composer, "9j");
    assert_eq!(composer.editor.text(), "draft");
}

#[test]
fn after_submitting_the_composer_is_in_insert_mode() {
    let mut composer = normal("say h|i");
    let sent = types(&mut composer, "⏎");
    assert_eq!(sent, [KeyResult::Submit("say hi".into())]);
    assert_eq!(shown(&composer), ">|");
    types(&mut composer, "next⎋");
    assert_eq!(shown(&composer), "nex|t");
}

/// In insert mode Esc belongs to the editor, in normal mode to the turn.
#[test]
fn the_second_esc_is_not_taken() {
    let mut composer = normal("|");
    assert_eq!(types(&mut composer, "ix⎋").last(), Some(&KeyResult::Nothing));
    assert_eq!(types(&mut composer, "⎋"), [KeyResult::Unknown]);
    assert_eq!(types(&mut composer, "2d⎋⎋").last(), Some(&KeyResult::Unknown));
}

#[test]
fn the_status_shows_what_was_typed() {
    let mut composer = normal("|one two");
    let status = |composer: &Composer| composer.vim.as_ref().unwrap().shown();
    assert_eq!(status(&composer), "NORMAL");
    types(&mut composer, "2d");
    assert_eq!(status(&composer), "NORMAL 2d");
    types(&mut composer, "w");
    assert_eq!(status(&composer), "NORMAL");
    types(&mut composer, "i");
    assert_eq!(status(&composer), "INSERT");
}

/// Also for the first prompt, which starts without `i`.
#[test]
fn the_first_prompt_is_undone_at_once_as_well() {
    let mut composer = Composer::default();
    composer.toggle_vim();
    types(&mut composer, "one two⎋u");
    assert_eq!(shown(&composer), "|");
}

/// A folded paste is one character, but a copy contains its whole text.
#[test]
fn a_folded_paste_is_cut_and_put_whole() {
    let mut composer = normal("a| b");
    composer.vim.as_mut().unwrap().insert(&mut composer.editor);
    composer.paste(&"line\n".repeat(20));
    types(&mut composer, "⎋x");
    assert_eq!(composer.editor.text(), "a b");
    types(&mut composer, "0P");
    assert_eq!(composer.editor.text(), format!("{}a b", "line\n".repeat(20)));
}
