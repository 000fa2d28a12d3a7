use super::*;

fn described(text: &str) -> (String, Option<String>) {
    let written = markdown(text).unwrap();
    (written.description, written.hint)
}

#[test]
fn front_matter_as_people_write_it() {
    let cases = [
        ("Do it.", "Do it.", None),
        ("\n# Review\n\nthe code", "Review", None),
        ("---\ndescription: Reviews it\n---\nDo it.", "Reviews it", None),
        ("---\r\ndescription: Reviews it\r\n---\r\nDo it.\r\n", "Reviews it", None),
        ("\u{feff}---\ndescription: a\n---\nb", "a", None),
        // Not valid YAML, but common.
        ("---\ndescription: Fix: all of it\n---\nx", "Fix: all of it", None),
        ("---\nargument-hint: [issue] [priority]\n---\nx", "x", Some("[issue] [priority]")),
        ("---\nargument-hint: \"<file>\" # quoted\n---\nx", "x", Some("<file>")),
        ("---\ndescription: 'it''s'\n---\nx", "it's", None),
        ("---\ndescription: \"say \\\"hi\\\"\"\n---\nx", "say \"hi\"", None),
        ("---\ndescription: yes # it is\n---\nx", "yes", None),
        ("---\ndescription: >\n  two\n  lines\nargument-hint: n\n---\nx", "two lines", Some("n")),
        ("---\ndescription: |\n  one\n  two\n---\nx", "one two", None),
        ("---\nallowed-tools:\n  - Bash(git:*)\n  - Read\ndescription: d\n---\nx", "d", None),
        ("---\nallowed-tools:\n- Bash\ndescription: d\n---\nx", "d", None),
        ("---\n# a comment\n\ndescription: d\n---\nx", "d", None),
        ("---\ndescription:\n---\nfirst words", "first words", None),
        ("---\n---\nx", "x", None),
        ("a\n---\nb", "a", None),
        ("---\ndescription: a\u{7}\u{1b}[31mb\n---\nx", "a[31mb", None),
    ];
    for (text, description, hint) in cases {
        assert_eq!(described(text), (description.to_owned(), hint.map(str::to_owned)), "{text:?}");
    }
    assert_eq!(described(&"x".repeat(500)).0.chars().count(), 200);
}

#[test]
fn ignored_keys_are_named() {
    let text = "---\ndescription: d\nmodel: opus\nallowed-tools: Bash\nagent: plan\n---\nx";
    assert_eq!(markdown(text).unwrap().ignored, ["`model`", "`allowed-tools`", "`agent`"]);
    let text = "prompt = 'x'\nmodel = 'y'\n[more]\na = 1\n";
    assert_eq!(toml(text).unwrap().ignored, ["`model`", "`more`"]);
}

#[test]
fn an_error_is_reported_with_its_line() {
    let cases = [
        ("", None, "it contains no prompt"),
        ("---\ndescription: d\n---\n \n", None, "it contains no prompt"),
        ("---\ndescription: d\nx", Some(1), "the front matter has no closing line `---`"),
        (
            "---\ndescription: d\nwhat is this\n---\nx",
            Some(3),
            "`what is this` is not `key: value`",
        ),
        ("---\n  - a\n---\nx", Some(2), "a value without a key"),
        ("---\na: 1\nb: \"open\n---\nx", Some(3), "a quote is not closed"),
        ("---\na: 1\na: 2\n---\nx", Some(3), "`a` is defined twice"),
        ("go !`ls", None, "is not closed"),
    ];
    for (text, line, why) in cases {
        let wrong = markdown(text).unwrap_err();
        assert!(wrong.line == line && wrong.why.contains(why), "{text:?}: {wrong:?}");
    }
    let cases = [
        ("description = 'd'\n", None, "missing field `prompt`"),
        ("prompt = 'x'\ndescription = 3\n", Some(2), "invalid type"),
        ("prompt = 'x\n", Some(1), ""),
        ("prompt = ' '\n", None, "it contains no prompt"),
        ("prompt = '!{ls'\n", None, "has no closing `}`"),
    ];
    for (text, line, why) in cases {
        let wrong = toml(text).unwrap_err();
        let line_matches = line.is_none() || wrong.line == line;
        assert!(line_matches && wrong.why.contains(why), "{text:?}: {wrong:?}");
    }
}

#[test]
fn a_gemini_command() {
    let text = "description = \"Plans\"\nprompt = \"\"\"\nPlan {{args}}.\n\"\"\"\n";
    let written = toml(text).unwrap();
    assert_eq!(written.description, "Plans");
    assert_eq!(written.hint, None);
    assert_eq!(written.template, Template::braces("Plan {{args}}.").unwrap());
    assert_eq!(toml("prompt = 'Plan it well.'").unwrap().description, "Plan it well.");
}

proptest::proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "(---\n)?([a-z:'\"|> #\\-]{0,12}\n){0,6}(---\n)?[a-z]{0,5}") {
        let _ = markdown(&text);
        let _ = toml(&text);
    }
}
