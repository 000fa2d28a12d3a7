use super::*;

/// The expansion of a template for the arguments `given`, command lines as `«line»`, files as `‹path›`.
fn expanded(template: &Template, given: &str) -> String {
    let given = Arguments::new(given);
    let text: String = template
        .pieces
        .iter()
        .map(|piece| match piece {
            Piece::Shell(line) => match template.command_line(line, &given) {
                Ok(line) => format!("«{line}»"),
                Err(why) => format!("«! {why}»"),
            },
            Piece::File(path) => format!("‹{path}›"),
            piece => template.text(piece, &given),
        })
        .collect();
    text + &template.unused_arguments(&given)
}

#[test]
fn arguments_of_a_markdown_command() {
    let cases = [
        ("Fix $ARGUMENTS now", "issue 12", "Fix issue 12 now"),
        ("Fix $ARGUMENTS now", "", "Fix  now"),
        ("$1 then $2", "a b", "a then b"),
        // The highest one takes the rest, so that no argument is lost.
        ("$1 then $2", "a b c d", "a then b c d"),
        ("$1 then $2", "a", "a then "),
        ("$2 before $1", "a b c", "b c before a"),
        ("$1 and $1", "x y", "x y and x y"),
        ("PR $1: $2", "7 'two words' more", "PR 7: two words more"),
        ("$1|$2", "\"a b\" c", "a b|c"),
        ("$1|$2", "it's so", "it's|so"),
        // Without a placeholder they are added at the end.
        ("Review it.", "the parser", "Review it.\n\nthe parser"),
        ("Review it.", "", "Review it."),
        ("It costs $10, $0 or $ 1, $ARGUMENTSX", "", "It costs $10, $0 or $ 1, $ARGUMENTSX"),
        (r"\$1 is \$ARGUMENTS, \n", "a", "$1 is $ARGUMENTS, \\n\n\na"),
        ("$1", "$2 $ARGUMENTS", "$2 $ARGUMENTS"),
        ("$ARGUMENTS", "!`rm -rf x`", "!`rm -rf x`"),
        ("@src/main.rs stays", "", "@src/main.rs stays"),
    ];
    for (text, given, expected) in cases {
        assert_eq!(expanded(&Template::markdown(text).unwrap(), given), expected, "{text} {given}");
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
        // After a word it is an exclamation mark.
        ("Wow!`code`", "", "Wow!`code`"),
        ("`!`", "", "`!`"),
    ];
    for (text, given, expected) in cases {
        assert_eq!(expanded(&Template::markdown(text).unwrap(), given), expected, "{text} {given}");
    }
    assert!(Template::markdown("go: !`ls").unwrap_err().contains("is not closed"));
}

/// An argument that needs quotes is refused if the line has its own: single quotes have no effect inside
/// double quotes.
#[test]
fn an_argument_cannot_break_out_of_quotes() {
    let why = "cannot be inserted into a command line that contains quotes";
    for line in ["!`echo \"$1\"`", "!`echo '$1'`", "!`x=$(cat $1)`", "!`cat <<X $1`", "!`a # $1`"] {
        let template = Template::markdown(line).unwrap();
        assert!(expanded(&template, "$(reboot)").contains(why), "{line}");
        assert!(expanded(&template, "a;b").contains(why), "{line}");
        assert!(!expanded(&template, "plain").contains(why), "{line}");
    }
}

#[test]
fn placeholders_of_a_gemini_command() {
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
        assert_eq!(expanded(&Template::braces(text).unwrap(), given), expected, "{text} {given}");
    }
    for (text, why) in [
        ("!{ls", "a `!{` has no closing `}`"),
        ("@{a", "an `@{` has no closing `}`"),
        ("@{docs/{{args}}.md}", "an argument cannot name the file"),
        (&"!{ls}".repeat(17), "the limit is 16"),
    ] {
        assert!(Template::braces(text).unwrap_err().contains(why), "{text}");
    }
}

proptest::proptest! {
    /// Any text can be parsed, and a template without placeholders is its own expansion.
    #[test]
    fn any_text_is_a_template(text in "[a-z$!`{}@\\\\ 0-9ARGUMENTSargs\n]{0,60}", given in ".{0,30}") {
        for template in [Template::markdown(&text), Template::braces(&text)].into_iter().flatten() {
            expanded(&template, &given);
        }
        let plain = text.replace(['$', '!', '{', '@', '\\'], "");
        proptest::prop_assert_eq!(expanded(&Template::markdown(&plain).unwrap(), ""), plain.clone());
        proptest::prop_assert_eq!(expanded(&Template::braces(&plain).unwrap(), ""), plain);
    }
}
