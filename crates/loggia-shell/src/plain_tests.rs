//! Known ways to run more than an allow rule permits. A real bash checks the expected words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::NotPlain::*;
use super::*;
use crate::mentions;

fn pattern(text: &str) -> CommandPattern {
    parse_pattern(text).unwrap_or_else(|reason| panic!("{text:?}: {reason}"))
}

/// Whether a policy with the rules `git log *` and `git status` allows the line without asking.
fn allowed(line: &str) -> bool {
    let rules = [pattern("git log *"), pattern("git status")];
    plain_commands(line).is_ok_and(|commands| {
        commands.iter().all(|command| rules.iter().any(|rule| rule.matches(command)))
    })
}

/// `None` where the line is plain but no rule may match it.
const BYPASSES: &[(&str, Option<NotPlain>)] = &[
    // A second command.
    ("git log; id", None),
    ("git log;id", None),
    ("git log && id", None),
    ("git log || id", None),
    ("git log|id", None),
    ("id | git log", None),
    ("git status; rm -rf ~", Some(Expansion)),
    ("git status; rm -rf /", None),
    ("git log & id", Some(Background)),
    ("git log &", Some(Background)),
    ("git log &! id", Some(Background)),
    ("git log |& id", Some(Redirection)),
    ("git log\nid", Some(ControlCharacter)),
    ("git log\n", Some(ControlCharacter)),
    ("git log\r\nid", Some(ControlCharacter)),
    ("git log\rid", Some(ControlCharacter)),
    ("git log\0id", Some(ControlCharacter)),
    ("git log \\\nid", Some(ControlCharacter)),
    ("git log 'a\nid'", Some(ControlCharacter)),
    ("git log \"a\nid\"", Some(ControlCharacter)),
    ("git log\x0bid", Some(ControlCharacter)),
    ("git log\x0cid", Some(ControlCharacter)),
    ("git log\x1b[2K", Some(ControlCharacter)),
    ("git log \x7f", Some(ControlCharacter)),
    ("git log \u{85}id", Some(ControlCharacter)),
    ("git log 'a\tb'", Some(ControlCharacter)),
    ("git log \\\tb", Some(ControlCharacter)),
    // Substitutions and expansions.
    ("git log $(id)", Some(Substitution)),
    ("git log \"$(id)\"", Some(Substitution)),
    ("git log `id`", Some(Substitution)),
    ("git log \"`id`\"", Some(Substitution)),
    ("$(echo git) log", Some(Substitution)),
    ("git log <(id)", Some(Substitution)),
    ("git log >(id)", Some(Substitution)),
    ("git log =(id)", Some(Compound)),
    ("git log $((a[$(id)]))", Some(Substitution)),
    ("git log $[a[$(id)]]", Some(Expansion)),
    ("git log ${a@P}", Some(Expansion)),
    ("git log \"${a@P}\"", Some(Expansion)),
    ("git log ${a:=$(id)}", Some(Expansion)),
    ("git log ${!a}", Some(Expansion)),
    ("git log $HOME", Some(Expansion)),
    ("git log \"$HOME\"", Some(Expansion)),
    ("git log $", Some(Expansion)),
    ("git log $'\\x3b id'", Some(Expansion)),
    ("git log $\"id\"", Some(Expansion)),
    ("$IFS git log", Some(Expansion)),
    ("git$IFS'log'", Some(Expansion)),
    ("git log ~", Some(Expansion)),
    ("git log ~root/x", Some(Expansion)),
    ("git log a=~", Some(Expansion)),
    ("git log {a,b}", Some(Brace)),
    ("git log {1..9}", Some(Brace)),
    ("git log *", Some(Glob)),
    ("git log a?", Some(Glob)),
    ("git log [ab]", Some(Glob)),
    ("git log @(a|b)", Some(Compound)),
    ("git log !!", Some(History)),
    ("git log \"!!\"", Some(History)),
    ("git log \"\\!x\"", Some(History)),
    ("^log^push", Some(History)),
    ("%1", Some(History)),
    // Redirections.
    ("git log >x", Some(Redirection)),
    ("git log > x", Some(Redirection)),
    ("git log >>x", Some(Redirection)),
    ("git log >|x", Some(Redirection)),
    ("git log <x", Some(Redirection)),
    ("git log <>x", Some(Redirection)),
    ("git log 2>x", Some(Redirection)),
    ("git log 2>&1", Some(Redirection)),
    ("git log &>x", Some(Redirection)),
    ("git log &>>x", Some(Redirection)),
    ("git log >&x", Some(Redirection)),
    ("git log {fd}>x", Some(Brace)),
    ("git log <<E", Some(Redirection)),
    ("git log <<<x", Some(Redirection)),
    (">x git log", Some(Redirection)),
    // Something in front.
    ("GIT_PAGER=id git log", Some(Assignment)),
    ("A= git log", Some(Assignment)),
    ("A+=b git log", Some(Assignment)),
    ("a[0]=b git log", Some(Glob)),
    ("a=(b) git log", Some(Compound)),
    ("'A=b' git log", Some(Assignment)),
    ("GIT_PAGER=id", Some(Assignment)),
    ("env GIT_PAGER=id git log", Some(StatefulBuiltin)),
    ("env -S 'git log'", Some(StatefulBuiltin)),
    ("/usr/bin/env git log", Some(StatefulBuiltin)),
    ("/usr/bin/ENV git log", Some(StatefulBuiltin)),
    ("'e'\"n\"\\v git log", Some(StatefulBuiltin)),
    ("command git log", Some(StatefulBuiltin)),
    ("builtin eval git log", Some(StatefulBuiltin)),
    ("exec git log", Some(StatefulBuiltin)),
    ("eval git log", Some(StatefulBuiltin)),
    ("sudo git log", Some(StatefulBuiltin)),
    ("nohup git log", Some(StatefulBuiltin)),
    ("xargs git log", Some(StatefulBuiltin)),
    ("bash -c 'git log'", Some(StatefulBuiltin)),
    (". ./x", Some(StatefulBuiltin)),
    ("time git log", Some(Compound)),
    ("! git log", Some(History)),
    ("coproc git log", Some(Compound)),
    // State set up for an allowed command that follows.
    ("export GIT_PAGER=id; git log", Some(StatefulBuiltin)),
    ("typeset GIT_PAGER=id && git log", Some(StatefulBuiltin)),
    ("declare -x GIT_PAGER=id; git log", Some(StatefulBuiltin)),
    ("alias git=id; git log", Some(StatefulBuiltin)),
    ("cd /tmp/evil && git log", Some(StatefulBuiltin)),
    ("hash -p /tmp/evil git; git log", Some(StatefulBuiltin)),
    ("set -x; git log", Some(StatefulBuiltin)),
    ("trap id EXIT; git log", Some(StatefulBuiltin)),
    ("printf -v GIT_PAGER id; git log", Some(StatefulBuiltin)),
    ("printf %n PATH; git log", Some(History)),
    ("printf '%n' PATH; git log", Some(StatefulBuiltin)),
    ("test -v 'a[$(id)]'; git log", Some(StatefulBuiltin)),
    ("'[' -v 'a[$(id)]' ']'; git log", Some(StatefulBuiltin)),
    ("read GIT_PAGER; git log", Some(StatefulBuiltin)),
    ("let 'a[$(id)]'; git log", Some(StatefulBuiltin)),
    // Compound commands.
    ("(git log)", Some(Compound)),
    ("((a[$(id)]))", Some(Compound)),
    ("{ git log; }", Some(Brace)),
    ("if git log; then id; fi", Some(Compound)),
    ("while git log; do id; done", Some(Compound)),
    ("for a in b; do git log; done", Some(Compound)),
    ("case a in esac", Some(Compound)),
    ("git() { id; }", Some(Compound)),
    ("function git { id; }", Some(Brace)),
    ("[[ -v a ]] && git log", Some(Glob)),
    ("select a in b; do git log; done", Some(Compound)),
    // Nearly the right words.
    ("git logx", None),
    ("gitlog", None),
    ("git  status -s", None),
    ("git 'log '", None),
    ("git ' log'", None),
    ("git '' log", None),
    ("'git log'", None),
    ("'git log' -3", None),
    ("git -c core.pager=id log", None),
    ("git --exec-path=/tmp log", None),
    ("./git log", None),
    ("/tmp/git log", None),
    ("GIT log", None),
    ("git LOG", None),
    ("git l\u{43e}g", None), // Cyrillic o
    ("git\\ log", None),
    ("git log#x; id", Some(Comment)),
    ("git log #x", Some(Comment)),
    ("#git log", Some(Comment)),
    // Characters that do not show.
    ("git\u{a0}log", Some(InvisibleCharacter)),
    ("git log\u{2003}-3", Some(InvisibleCharacter)),
    ("git\u{3000}log", Some(InvisibleCharacter)),
    ("git log\u{2028}id", Some(InvisibleCharacter)),
    ("git log \u{200b}", Some(InvisibleCharacter)),
    ("git log \u{202e}di", Some(InvisibleCharacter)),
    ("git log \u{2066}x", Some(InvisibleCharacter)),
    ("\u{feff}git log", Some(InvisibleCharacter)),
    ("git log \u{e0041}", Some(InvisibleCharacter)),
    ("git log \u{3164}", Some(InvisibleCharacter)),
    ("git log \u{ad}", Some(InvisibleCharacter)),
    ("git log \u{fffd}", Some(InvisibleCharacter)),
    // Not even shell.
    ("", Some(Empty)),
    (" \t ", Some(Empty)),
    ("''", Some(Empty)),
    ("/", Some(Empty)),
    ("git log '", Some(Unparsable)),
    ("git log \"", Some(Unparsable)),
    ("git log 'a\" ; id", Some(Unparsable)),
    ("git log \\", Some(Unparsable)),
    ("git log \"\\\"", Some(Unparsable)),
    ("git log `", Some(Substitution)),
    ("git log $(", Some(Substitution)),
    ("git log &&", Some(Unparsable)),
    ("git log |", Some(Unparsable)),
    ("&& git log", Some(Unparsable)),
    ("; git log", Some(Unparsable)),
    (";", Some(Unparsable)),
    ("git log ;; id", Some(Unparsable)),
    ("git log ;& id", Some(Background)),
    ("git log && && git log", Some(Unparsable)),
    ("git log ; && git log", Some(Unparsable)),
    ("git log ||| git log", Some(Unparsable)),
    ("git log &&& git log", Some(Background)),
    // Shift-JIS: the last byte of the kana takes the backslash along and the quote ends.
    ("git log \"\u{3042}\\\"; id \\\"\"", Some(Unparsable)),
    ("git log \u{3042}\\'; id '", Some(Unparsable)),
    ("git log \u{3042}|id", Some(Unparsable)),
    // brush-parser takes this for $'…' and sees one word more or less than bash does.
    (r"git log \$'a\'", Some(Unparsable)),
];

#[test]
fn no_bypass_is_allowed() {
    for (line, reason) in BYPASSES {
        assert!(!allowed(line), "allowed: {line:?}");
        assert_eq!(plain_commands(line).err(), *reason, "{line:?}");
    }
    assert!(BYPASSES.len() >= 60);
}

#[test]
fn limits_are_exact() {
    assert!(allowed(&"git log;".repeat(20)));
    for (count, command) in [(21, "git log;"), (51, "true;"), (21, "git log|")] {
        let line = format!("{}git log", command.repeat(count - 1));
        assert_eq!(plain_commands(&line), Err(TooManyCommands), "{count} x {command}");
    }
    let padded = |length: usize| format!("git log {}", "a".repeat(length - "git log ".len()));
    assert!(allowed(&padded(16 * 1024)));
    assert_eq!(plain_commands(&padded(16 * 1024 + 1)), Err(TooLong));
    assert!(!allowed(&"git log ".repeat(2049)));
}

#[test]
fn plain_lines_are_allowed() {
    for line in [
        "git log",
        "git log -3",
        "  git\tlog\t ",
        "git log\tid",
        "git log --format='%h %s'",
        "git log --format=\"%h %s\"",
        "git log && git log -1",
        "git log -1 || git status",
        "git log|git log",
        "git status; git log;",
        "g'i't \"log\" --",
        r"git l\og a\ b \* \$HOME \`id\`",
        r#"git log "\$HOME \`id\` \" \\ \n" 'a\b' '$(id)' '*' '!'"#,
        "git log 'it'\\''s' \"it's\" ''",
        "git log CC=gcc a=b --grep=x",
        "git log if then time done",
        "git log -- src/é.rs 日本語",
        "git status",
        "git   'status'",
    ] {
        assert!(allowed(line), "{line:?}: {:?}", plain_commands(line));
    }
}

#[test]
fn words_are_what_the_shell_would_pass() {
    let words = |line: &str| -> Vec<Vec<String>> {
        plain_commands(line).unwrap().into_iter().map(|command| command.words).collect()
    };
    assert_eq!(words(r#"a 'b c'd"e f"\ g ''"#), [["a", "b cde f g", ""]]);
    assert_eq!(words(r#"a "\a\$\"\\" 'x\'"#), [["a", r#"\a$"\"#, r"x\"]]);
    assert_eq!(
        words("a b;c|d&&e||f"),
        [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"], vec!["f"]]
    );
}

#[test]
fn patterns_match_whole_words() {
    let command = |line: &str| plain_commands(line).unwrap().remove(0);
    let matches = |rule: &str, line: &str| pattern(rule).matches(&command(line));
    assert!(matches("git log *", "git log"));
    assert!(matches("git log *", "git log -3 x"));
    assert!(matches("git status", "git 'status'"));
    assert!(matches("git log '*'", "git log '*'"));
    assert!(matches("find . -name x \\;", "find . -name x ';'"));
    assert!(!matches("git log '*'", "git log -3"));
    assert!(!matches("git log *", "git"));
    assert!(!matches("git log *", "git logx"));
    assert!(!matches("git log *", "git -c core.pager=id log"));
    assert!(!matches("git status", "git status -s"));
    assert!(!matches("git 'log -3'", "git log -3"));
}

#[test]
fn a_pattern_without_words_matches_nothing() {
    for open in [true, false] {
        let nothing = CommandPattern { words: Vec::new(), open };
        assert!(!nothing.matches(&PlainCommand { words: vec!["id".to_owned()] }));
        assert!(!nothing.matches(&PlainCommand { words: Vec::new() }));
    }
}

#[test]
fn patterns_that_do_not_say_what_they_mean_are_refused() {
    for (text, reason) in [
        ("", Empty),
        ("*", Glob),
        (" * ", Empty),
        ("git log*", Glob),
        ("git * log", Glob),
        ("git log * *", Glob),
        ("* git", Glob),
        (r"git log \ *", Glob),
        (r"git log \\ *", Glob),
        ("git 'log *", Unparsable),
        ("git log; *", TooManyCommands),
        ("git log;", TooManyCommands),
        ("git log && git status", TooManyCommands),
        ("git log && *", Unparsable),
        ("git log $x *", Expansion),
        ("A=b git log *", Assignment),
        ("sudo *", StatefulBuiltin),
        ("bash -c *", StatefulBuiltin),
        ("git log > *", Redirection),
        ("git log\n*", ControlCharacter),
    ] {
        assert_eq!(parse_pattern(text), Err(reason), "{text:?}");
    }
}

#[test]
fn what_no_rule_can_allow_can_still_be_denied() {
    for (text, line) in [
        ("sudo *", "true && sudo id"),
        ("bash -c *", "bash -c id"),
        ("export PATH *", "export PATH=x"),
        ("printf -v *", "printf -v a b"),
    ] {
        assert_eq!(parse_pattern(text), Err(StatefulBuiltin), "{text:?}");
        let denied = parse_denied_pattern(text).unwrap();
        assert_eq!(parse_denied_pattern(&denied.to_string()), Ok(denied.clone()));
        assert!(mentions(line, &denied), "{line:?}");
    }
    for text in ["", "*", "sudo; *", "sudo $x *", "time *", "A=b *"] {
        assert!(parse_denied_pattern(text).is_err(), "{text:?}");
    }
}

#[test]
fn patterns_are_shown_as_they_are_read() {
    for (text, shown) in [
        ("git log  * ", "git log *"),
        ("git log '*'", "git log '*'"),
        ("git log \"--format=%h\" *", "git log '--format=%h' *"),
        ("echo it\\'s ''", r#"echo 'it'"'"'s' ''"#),
        ("make CC=gcc", "make CC=gcc"),
    ] {
        assert_eq!(pattern(text).to_string(), shown);
        assert_eq!(pattern(shown), pattern(text));
    }
}

#[test]
fn the_longest_command_still_makes_a_readable_rule() {
    let line = format!("a \"{}\"", "'".repeat(16 * 1024 - 4));
    let exact = CommandPattern::exact(&plain_commands(&line).unwrap().remove(0));
    assert_eq!(parse_pattern(&exact.to_string()), Ok(exact));
}

#[test]
fn reasons_read_as_fragments() {
    assert_eq!(Redirection.to_string(), "it uses a redirection");
}

#[test]
fn denied_words_are_found_however_they_are_written() {
    let push = pattern("git push *");
    for line in [
        "git push",
        "git push --force",
        "true; git push",
        "true;git push;true",
        "(git push)",
        "{ git push; }",
        "$(git push)",
        "`git push`",
        "echo \"$(git push)\"",
        "sh -c 'git push'",
        "bash -lc \"git push\"",
        "X=1 git push",
        "alias p='git push'",
        "g'i't \"pu\"sh",
        r"g\it pu\sh",
        "git\tpush",
        "git \\\n push",
        "gi\\\nt push",
        "true\ngit push",
        "true\r\ngit push\r\n",
        "# a\\\ngit push",
        "true \\\\\ngi\\\nt push",
        "/usr/bin/git push",
        "./git push",
        "git${IFS}push",
        "git$IFS\"push\"",
        "{git,push,--force}",
        "git push>x",
        "<x git push",
        "if git push; then :; fi",
        "git\u{a0}push",
        "git push'",
        "gi\0t push",
    ] {
        assert!(mentions(line, &push), "{line:?}");
    }
    for line in ["", "git", "push", "push git", "git pushx", "mygit push", "git log; docker push"] {
        assert!(!mentions(line, &push), "{line:?}");
    }
    assert!(mentions("rm -rf *", &pattern("rm -rf '*'")));
    assert!(!mentions("rm -rf target", &pattern("rm -rf '*'")));
    assert!(!mentions("rm -rf target", &pattern("rm -rf /")));
    assert!(mentions("x \"a; b\"", &pattern("x 'a; b'")));
    assert!(mentions(r"echo \$IFS", &pattern("echo '$IFS'"))); // found by the fuzzer
    assert!(mentions("anything", &CommandPattern { words: Vec::new(), open: true }));
}

/// A plain line cannot hide words.
fn assert_plain_words_are_mentioned(line: &str) {
    for command in plain_commands(line).unwrap_or_default() {
        assert!(mentions(line, &CommandPattern::exact(&command)), "{line:?}");
    }
}

fn shellish(characters: &'static str) -> impl Strategy<Value = String> {
    let characters: Vec<char> = characters.chars().collect();
    proptest::collection::vec(proptest::sample::select(characters), 0..40)
        .prop_map(|characters| characters.into_iter().collect())
}

fn visible_word() -> impl Strategy<Value = String> {
    "[ -~éжあ]{0,12}"
}

fn program_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", visible_word()]
        .prop_filter("refused", |name| check_name(name).is_ok())
}

proptest! {
    #[test]
    fn nothing_panics(line in prop_oneof![
        any::<String>(),
        "\\PC*",
        shellish("ab ;&|<>(){}[]$`'\"\\*?~!#^%=\n\t\0@+-1é"),
    ]) {
        let _ = parse_pattern(&line);
        let _ = mentions(&line, &CommandPattern { words: vec![line.clone()], open: true });
        for command in plain_commands(&line).unwrap_or_default() {
            let exact = CommandPattern::exact(&command);
            prop_assert_eq!(parse_pattern(&exact.to_string()), Ok(exact));
        }
        assert_plain_words_are_mentioned(&line);
    }

    #[test]
    fn a_shown_pattern_is_the_pattern(
        name in program_name(),
        arguments in proptest::collection::vec(visible_word(), 0..6),
        open: bool,
    ) {
        let words = std::iter::once(name).chain(arguments).collect();
        let pattern = CommandPattern { words, open };
        prop_assert_eq!(parse_pattern(&pattern.to_string()), Ok(pattern.clone()));
        if !open {
            let command = PlainCommand { words: pattern.words.clone() };
            prop_assert!(pattern.matches(&command));
            prop_assert_eq!(plain_commands(&pattern.to_string()), Ok(vec![command]));
        }
    }
}

/// The arguments of every call of `show` that a real bash makes when it runs `line`. Each call ends
/// with `status`: with 0 all that follows `&&` runs, with 1 all that follows `||`.
fn shown_by_bash(line: &str, status: &str) -> BTreeSet<Vec<String>> {
    let output = Command::new("/bin/bash")
        .args(["--norc", "--noprofile", "-c", line])
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", "/nonexistent")
        .env("BASH_FUNC_show%%", format!("() {{ printf '%s\\0' $# \"$@\" >&2; return {status}; }}"))
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let mut fields = text.split_terminator('\0').map(str::to_owned);
    let mut calls = BTreeSet::new();
    while let Some(count) = fields.next() {
        let count: usize =
            count.parse().unwrap_or_else(|_| panic!("{line:?} made bash say {text:?}"));
        calls.insert(fields.by_ref().take(count).collect());
    }
    calls
}

fn assert_bash_agrees(line: &str) {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let commands = plain_commands(line).unwrap_or_default();
    if commands.is_empty()
        || commands.iter().any(|command| command.words.first().unwrap() != "show")
    {
        return;
    }
    let expected: BTreeSet<Vec<String>> =
        commands.into_iter().map(|command| command.words.into_iter().skip(1).collect()).collect();
    let mut seen = shown_by_bash(line, "0");
    seen.extend(shown_by_bash(line, "1"));
    assert_eq!(seen, expected, "{line:?}");
}

/// A piece of a word, written in one of the four ways a plain line may write it.
fn written_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_./:=,@+é-]{1,6}",
        "'[ -&(-~éあ]{0,6}'",
        "\"([ #%-\\[\\]-_a-~é]|\\\\[$`\"\\\\a]){0,6}\"",
        "\\\\[ -~]",
    ]
}

fn written_command() -> impl Strategy<Value = String> {
    let word = proptest::collection::vec(written_piece(), 1..4).prop_map(|pieces| pieces.concat());
    proptest::collection::vec(("[ \t]{1,2}", word), 0..5).prop_map(|words| {
        words.iter().fold("show".to_owned(), |line, (blank, word)| line + blank + word)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bash_sees_the_words_we_see(
        first in written_command(),
        others in proptest::collection::vec(
            (proptest::sample::select(vec![";", "&&", "||", "|"]), written_command()),
            0..4,
        ),
    ) {
        let line = others.iter().fold(first, |line, (operator, command)| line + operator + command);
        // Almost all generated lines must be plain, or bash would check nothing.
        let excused = !line.is_ascii() || line.contains("\\$'");
        prop_assert!(excused || plain_commands(&line).is_ok(), "{}", line);
        assert_bash_agrees(&line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn bash_sees_the_words_we_see_in_any_soup(
        soup in shellish("aaab  ''\"\"\\\\;&|$`(é#*=-\t"),
        again: bool,
    ) {
        let tail = if again { soup.replace(';', ";show ") } else { soup };
        assert_bash_agrees(&format!("show {tail}"));
    }
}
