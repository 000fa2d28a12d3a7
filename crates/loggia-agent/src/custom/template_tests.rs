use super::*;

/// What a template says to somebody who typed `given`, commands as `«line»`, files as `‹path›`.
fn said(template: &Template, given: &str) -> String {
    let given = Given::new(given);
    let text: String = template
        .pieces
        .iter()
        .map(|piece| match piece {
            Piece::Shell(line) => match template.line(line, &given) {
                Ok(line) => format!("«{line}»"),
                Err(why) => format!("«! {why}»"),
            },
            Piece::File(path) => format!("‹{path}›"),
            piece => template.words(piece, &given),
        })
        .collect();
    text + &template.after(&given)
}

#[test]
fn arguments_of_a_markdown_command() {
    let cases = [
        ("Fix $ARGUMENTS now", "issue 12", "Fix issue 12 now"),
        ("Fix $ARGUMENTS now", "", "Fix  now"),
        ("$1 then $2", "a b", "a then b"),
        // The highest one takes the rest: nothing that was typed is lost.
        ("$1 then $2", "a b c d", "a then b c d"),
        ("$1 then $2", "a", "a then "),
        ("$2 before $1", "a b c", "b c before a"),
        ("$1 and $1", "x y", "x y and x y"),
        ("PR $1: $2", "7 'two words' more", "PR 7: two words more"),
        ("$1|$2", "\"a b\" c", "a b|c"),
        ("$1|$2", "it's so", "it's|so"),
        // No place takes them: they stand at the end.
        ("Review it.", "the parser", "Review it.\n\nthe parser"),
        ("Review it.", "", "Review it."),
        ("It costs $10, $0 or $ 1, $ARGUMENTSX", "", "It costs $10, $0 or $ 1, $ARGUMENTSX"),
        (r"\$1 is \$ARGUMENTS, \n", "a", "$1 is $ARGUMENTS, \\n\n\na"),
        ("$1", "$2 $ARGUMENTS", "$2 $ARGUMENTS"),
        ("$ARGUMENTS", "!`rm -rf x`", "!`rm -rf x`"),
        ("@src/main.rs stays", "", "@src/main.rs stays"),
    ];
    for (text, given, expected) in cases {
        assert_eq!(said(&Template::markdown(text).unwrap(), given), expected, "{text} {given}");
    }
}

#[test]
fn command_lines_of_a_markdown_command() {
    let cases = [
        ("!`git status`", "", "«git status»"),
        ("- now: !`git log -$1`\n", "3", "- now: «git log -3»\n"),
        ("!`gh issue view $1` $2", "12 soon or late", "«gh issue view 12» soon or late"),
        ("!`git log $ARGUMENTS`", "--oneline 'a b'", "«git log --oneline 'a b'»"),
        ("!`ls $1`", "; rm -rf x", "«ls ';' rm -rf x»"),
        ("!`ls $1`", "$(reboot)", "«ls '$(reboot)'»"),
        ("!`git log`", "x", "«git log»\n\nx"),
        // Behind a word it is a mark of a sentence.
        ("Wow!`code`", "", "Wow!`code`"),
        ("`!`", "", "`!`"),
    ];
    for (text, given, expected) in cases {
        assert_eq!(said(&Template::markdown(text).unwrap(), given), expected, "{text} {given}");
    }
    assert!(Template::markdown("go: !`ls").unwrap_err().contains("has no end"));
}

/// Where the author has quoted already, what would have to be quoted is refused: inside of double
/// quotes, single ones protect nothing.
#[test]
fn an_argument_never_gets_out_of_somebodys_quotes() {
    let why = "can not be put into a command line that has quotes";
    for line in ["!`echo \"$1\"`", "!`echo '$1'`", "!`x=$(cat $1)`", "!`cat <<X $1`", "!`a # $1`"] {
        let template = Template::markdown(line).unwrap();
        assert!(said(&template, "$(reboot)").contains(why), "{line}");
        assert!(said(&template, "a;b").contains(why), "{line}");
        assert!(!said(&template, "plain").contains(why), "{line}");
    }
}

#[test]
fn places_of_a_gemini_command() {
    let cases = [
        ("Fix {{args}}.", "it is broken", "Fix it is broken."),
        ("Fix it.", "now, please", "Fix it.\n\nnow, please"),
        ("!{git diff --staged}", "", "«git diff --staged»"),
        ("!{grep -r {{args}} .}", "two words", "«grep -r 'two words' .»"),
        ("!{grep -r {{args}} .}", "it's; ls", "«grep -r 'it'\"'\"'s; ls' .»"),
        ("!{ls {{args}}}", "", "«ls »"),
        ("!{awk '{print $1}' x} end", "", "«awk '{print $1}' x» end"),
        ("See @{docs/a b.md}!", "", "See ‹docs/a b.md›!"),
        ("{{args}}", "!{reboot} @{x}", "!{reboot} @{x}"),
        ("$1 and $ARGUMENTS stay", "", "$1 and $ARGUMENTS stay"),
    ];
    for (text, given, expected) in cases {
        assert_eq!(said(&Template::braces(text).unwrap(), given), expected, "{text} {given}");
    }
    for (text, why) in [
        ("!{ls", "a `!{` has no `}`"),
        ("@{a", "an `@{` has no `}`"),
        ("@{docs/{{args}}.md}", "an argument can not name the file"),
        (&"!{ls}".repeat(17), "at most 16 are run"),
    ] {
        assert!(Template::braces(text).unwrap_err().contains(why), "{text}");
    }
}

proptest::proptest! {
    /// Total, and without a place it says what it says.
    #[test]
    fn any_text_is_a_template(text in "[a-z$!`{}@\\\\ 0-9ARGUMENTSargs\n]{0,60}", given in ".{0,30}") {
        for template in [Template::markdown(&text), Template::braces(&text)].into_iter().flatten() {
            said(&template, &given);
        }
        let plain = text.replace(['$', '!', '{', '@', '\\'], "");
        proptest::prop_assert_eq!(said(&Template::markdown(&plain).unwrap(), ""), plain.clone());
        proptest::prop_assert_eq!(said(&Template::braces(&plain).unwrap(), ""), plain);
    }
}
