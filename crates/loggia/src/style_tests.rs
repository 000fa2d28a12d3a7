use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::from(variables.iter().map(|(name, value)| (name.into(), value.into())))
}

#[test]
fn colours_follow_the_environment_and_the_terminal() {
    type Case<'a> = (&'a [(&'a str, &'a str)], bool, bool);
    let cases: &[Case<'_>] = &[
        (&[], true, true),
        (&[], false, false),
        (&[("NO_COLOR", "1")], true, false),
        (&[("NO_COLOR", "")], true, true),
        (&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true, false),
        (&[("CLICOLOR_FORCE", "1")], false, true),
        (&[("CLICOLOR_FORCE", "0")], false, false),
        (&[("FORCE_COLOR", "1")], false, true),
        (&[("TERM", "dumb")], true, false),
        (&[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")], true, true),
        (&[("TERM", "xterm-256color")], true, true),
        (&[("CLICOLOR", "0")], true, false),
    ];
    for (variables, terminal, wanted) in cases {
        let style = Style::detect(&environment(variables), *terminal);
        assert_eq!(style.color(), *wanted, "{variables:?}, terminal: {terminal}");
    }
}

#[test]
fn colours_end_before_the_line_does() {
    let style = Style { color: true };
    assert_eq!(style.dim_line("a\n"), "\u{1b}[2ma\u{1b}[0m\n");
    assert_eq!(style.dim_line("\n"), "\n");
    assert_eq!(style.diff("-a\n+b\n c\n"), "\u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n c\n");
    assert_eq!(Style { color: false }.diff("-a\n+b"), "-a\n+b");
}

#[test]
fn hostile_texts_are_shown_not_obeyed() {
    let cases = [
        ("plain ünïcödé 日本語 ✓\n\tkept", "plain ünïcödé 日本語 ✓\n\tkept"),
        ("\u{1b}[2Jgone", r"\u{1b}[2Jgone"),
        ("\u{9b}31m", r"\u{9b}31m"),
        ("\u{1b}]52;c;aGk=\u{7}", r"\u{1b}]52;c;aGk=\u{7}"),
        ("over\rwritten", r"over\u{d}written"),
        ("back\u{8}space\u{7f}", r"back\u{8}space\u{7f}"),
        ("ad\u{200b}min", r"ad\u{200b}min"),
        ("\u{202e}txt.exe", r"\u{202e}txt.exe"),
        ("\u{2066}a\u{2069}", r"\u{2066}a\u{2069}"),
        ("two\u{2028}lines", r"two\u{2028}lines"),
        ("tag\u{e0041}", r"tag\u{e0041}"),
        ("\u{feff}mark", r"\u{feff}mark"),
        ("\u{0}", r"\u{0}"),
        // Joiners inside an emoji are shown; elsewhere they hide something.
        ("⚠\u{fe0f} 👩\u{200d}💻", "⚠\u{fe0f} 👩\u{200d}💻"),
        ("a\u{fe0f}", r"a\u{fe0f}"),
        ("⚠\u{fe0f}\u{fe0f}", "⚠\u{fe0f}\\u{fe0f}"),
        ("⚠\u{fe01}", r"⚠\u{fe01}"),
        ("👩\u{200d}", r"👩\u{200d}"),
        ("a\u{200d}👩", r"a\u{200d}👩"),
    ];
    for (text, wanted) in cases {
        assert_eq!(printable(text), wanted, "{}", text.escape_unicode());
    }
    assert_eq!(one_line("a\n\tb\r\nc"), r"a\u{a}\u{9}b\u{d}\u{a}c");
}

/// Tests every character alone and every escaped one between others, because escaping depends on
/// the neighbours only.
#[test]
fn no_control_character_passes() {
    let harmless = |shown: &str| {
        shown.chars().all(|character| matches!(character, '\n' | '\t') || !character.is_control())
    };
    for character in '\0'..=char::MAX {
        if character.is_control() {
            assert!(is_unseen(character), "{}", character.escape_unicode());
        }
        if !is_unseen(character) {
            continue;
        }
        for text in [format!("{character}"), format!("⚠{character}👩"), format!("a{character}b")]
        {
            assert!(harmless(&printable(&text)), "{}", text.escape_unicode());
            assert!(!one_line(&text).contains(char::is_control), "{}", text.escape_unicode());
        }
        assert!(one_line(&format!("a{character}b")).is_ascii(), "{}", character.escape_unicode());
    }
}
