use proptest::prelude::*;

use super::*;

fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

fn letters(text: &str) -> Vec<KeyEvent> {
    text.chars().map(|letter| key(KeyCode::Char(letter), KeyModifiers::NONE)).collect()
}

/// The keys that crossterm makes of a reply.
fn answer(text: &str, whole: bool, bell: bool) -> Vec<KeyEvent> {
    let escape = || key(KeyCode::Esc, KeyModifiers::NONE);
    let mut keys = match whole {
        true => vec![key(KeyCode::Char(']'), KeyModifiers::ALT)],
        false => [vec![escape()], letters("]")].concat(),
    };
    keys.extend(letters(text));
    match (bell, whole) {
        (true, _) => keys.push(key(KeyCode::Char('g'), KeyModifiers::CONTROL)),
        (false, true) => keys.push(key(KeyCode::Char('\\'), KeyModifiers::ALT)),
        (false, false) => keys.extend([vec![escape()], letters("\\")].concat()),
    }
    keys
}

/// The recognized backgrounds and the remaining keys.
fn filter(keys: &[KeyEvent]) -> (Vec<Background>, Vec<KeyEvent>) {
    let (mut said, mut left) = (Vec::new(), Vec::new());
    let mut answers = ReplyFilter::default();
    for one in keys {
        match answers.filter(*one) {
            KeyOrReply::Keys(keys) => left.extend(keys),
            KeyOrReply::Background(background) => said.push(background),
        }
    }
    (said, left)
}

#[test]
fn an_answer_is_understood_and_no_key_of_it_is_left() {
    let cases = [
        ("11;rgb:ffff/ffff/ffff", Some(Background::Light)),
        ("11;rgb:0000/0000/0000", Some(Background::Dark)),
        ("11;rgb:fd/f6/e3", Some(Background::Light)),
        ("11;rgb:1e1e/1e1e/2e2e", Some(Background::Dark)),
        ("11;rgba:ffff/ffff/ffff/ffff", Some(Background::Light)),
        ("11;#002b36", Some(Background::Dark)),
        ("11;rgb:f/f/f", Some(Background::Light)),
        ("11;rgb:zz/00/00", None),
        ("11;rgb:00/00", None),
        ("11;nonsense", None),
    ];
    for (text, wanted) in cases {
        for bell in [false, true] {
            let (said, left) = filter(&answer(text, true, bell));
            assert_eq!((said.first().copied(), left.len()), (wanted, 0), "{text}");
            // In two parts: the Esc was passed on, nothing else.
            let (said, left) = filter(&answer(text, false, bell));
            assert_eq!((said.first().copied(), left.len()), (wanted, 1), "{text}");
        }
    }
}

/// Keys before and after a reply, and keys that only start like one.
#[test]
fn keys_around_an_answer_are_keys() {
    let around = [letters("ab"), answer("11;rgb:ff/ff/ff", true, false), letters("]\\x")].concat();
    assert_eq!(filter(&around), (vec![Background::Light], letters("ab]\\x")));
    for text in ["12;rgb:", "1x", "11;rgb:ff ", "11;(", "x", "]"] {
        let keys = [vec![key(KeyCode::Char(']'), KeyModifiers::ALT)], letters(text)].concat();
        assert_eq!(filter(&keys), (Vec::new(), keys.clone()), "{text}");
    }
    let endless = [vec![key(KeyCode::Char(']'), KeyModifiers::ALT)], letters("11;")].concat();
    let endless = [endless, letters(&"f".repeat(LONGEST + 1))].concat();
    assert_eq!(filter(&endless).1, endless);
}

proptest! {
    /// No key is lost or reordered.
    #[test]
    fn typed_keys_pass_through(text in "[\\]1;rgbx/]{0,20}", at in 0usize..20) {
        let keys = letters(&text);
        prop_assert_eq!(filter(&keys), (Vec::new(), keys.clone()));
        let at = at.min(keys.len());
        let (before, after) = keys.split_at(at);
        let mixed = [before.to_vec(), answer("11;rgb:0/0/0", true, true), after.to_vec()].concat();
        prop_assert_eq!(filter(&mixed), (vec![Background::Dark], keys));
    }
}
