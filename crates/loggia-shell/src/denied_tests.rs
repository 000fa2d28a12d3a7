//! Known ways to write a denied command. A real bash checks whether the command runs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::parse_denied_pattern;

fn pattern(text: &str) -> CommandPattern {
    parse_denied_pattern(text).unwrap()
}

/// Bash runs `touch X` in each of these lines, or does in some environment.
const DENIED: &[&str] = &[
    // Quoting.
    "touch X",
    "to''uch X",
    "to\"\"uch X",
    "\\touch X",
    "t\\ouch 'X'",
    "$'\\x74ouch' X",
    "$'\\164ouch' X",
    "$'\\u0074ouch' X",
    "$'touch\\0rest' X",
    "t$'o'u$\"c\"h X",
    "to\\\nuch X",
    "touch $'\\x58'",
    // Expansions.
    "t$@ouch X",
    "t${x}ouch X",
    "${x:-touch} X",
    "\"${x:-touch}\" X",
    "${x:=to}uch X",
    "x=touch; $x X",
    "BASH_CMDS[foo]=/usr/bin/touch; foo X",
    "BASH_CMDS[foo]=$(echo /usr/bin/tou?h); foo X",
    "git -c alias.x='!touch X' x",
    "x=tou; ${x}ch X",
    "set -- touch X; \"$@\"",
    "a=(touch X); \"${a[@]}\"",
    "touch $x",
    "touch \"$x\"",
    "touch ${x}X",
    "touch {X,Y}",
    "{touch,X}",
    "t{ouch,} X",
    "/usr/bin/touc? X",
    "/usr/bin/t[o]uch X",
    "/*/*/touch X",
    "/usr/bin/touch X",
    "x=/touch; /usr/bin$x X",
    "~/touch X",
    // Substitutions.
    "$(echo touch) X",
    "`echo touch` X",
    "$(printf to)uch X",
    "echo $(touch X)",
    "echo \"$($'\\x74ouch' X)\"",
    "echo `$'\\\\x74ouch' X`",
    "echo \"${x:-$($'\\x74ouch' X)}\"",
    "echo $(($($'\\x74ouch' X)+1))",
    "x=$($'\\x74ouch' X)",
    "x[$($'\\x74ouch' X)]=1",
    "cat <($'\\x74ouch' X)",
    "echo >($'\\x74ouch' X)",
    "cat <<E\n$($'\\x74ouch' X)\nE",
    "cat <<< $($'\\x74ouch' X)",
    "[[ -n $($'\\x74ouch' X) ]]",
    "(( $($'\\x74ouch' X) ))",
    "case $($'\\x74ouch' X) in *) ;; esac",
    "for i in $($'\\x74ouch' X); do :; done",
    "a=($($'\\x74ouch' X))",
    "declare -a a=($($'\\x74ouch' X))",
    "test -v 'a[$('$'\\x74ouch'' X)]'",
    "x='a[$('$'\\x74ouch'' X)]'; echo $((x))",
    // Redirections.
    "touch 2>&1 X",
    "2>&1 touch X",
    "touch >f X",
    "touch 2>f X",
    ">f touch X",
    "<f touch X",
    "touch <f X",
    "touch &>f X",
    "&>f touch X",
    "touch {fd}>f X",
    "touch <<E X\nE",
    "touch <<<a X",
    "touch >&2 X",
    // Something in front.
    "A=1 touch X",
    "A=1 $'\\x74ouch' X",
    "a[0]=1 $'\\x74ouch' X",
    "! $'\\x74ouch' X",
    "time $'\\x74ouch' X",
    "time -p $'\\x74ouch' X",
    "time ($'\\x74ouch' X)",
    "coproc $'\\x74ouch' X",
    "coproc N { $'\\x74ouch' X; }",
    "env touch X",
    "env A=1 $'\\x74ouch' X",
    "env -S $'\\x74ouch X'",
    "env -i $x X",
    "command touch X",
    "command -p $'\\x74ouch' X",
    "builtin command $'\\x74ouch' X",
    "exec touch X",
    "exec -a n $'\\x74ouch' X",
    "nohup $x X",
    "nice -n 3 $'\\x74ouch' X",
    "timeout 3 $x",
    "busybox $'\\x74ouch' X",
    "sudo -u a $'\\x74ouch' X",
    // Text that is run.
    "eval touch X",
    "eval 'to''uch' X",
    "eval \"\\$'\\\\x74ouch' X\"",
    "eval $x",
    "eval \"$(cat f)\"",
    "sh -c 'touch X'",
    "sh -c \"\\$'\\\\x74ouch' X\"",
    "bash -ec $'$\\'\\\\x74ouch\\' X'",
    "bash -c 'to''uch X'",
    "bash -c \"$x\"",
    "bash -c '$0 X' touch",
    "bash -o pipefail -c '$(echo touch) X'",
    "env bash -c '$1 X' a touch",
    "sh <<E\ntouch X\nE",
    "sh <<'E'\n$'\\x74ouch' X\nE",
    "sh <<< \"$'\\\\x74ouch' X\"",
    "echo dG91Y2ggWA== | base64 -d | sh",
    "base64 -d <<< dG91Y2ggWA== | bash -s",
    "bash <(echo dG91Y2ggWA== | base64 -d)",
    ". <(echo dG91Y2ggWA== | base64 -d)",
    "source /dev/stdin <<< $(base64 -d f)",
    "echo 'cX' | tr c t | bash /dev/stdin",
    "{ sh; } <<E\n$(echo a)\nE",
    "trap $'$\\'\\\\x74ouch\\' X' EXIT",
    "trap \"$x\" EXIT",
    "alias t=$'to\\x75ch'; t X",
    "alias t=$x",
    "compgen -C \"$x\"",
    "mapfile -C $x -c 1 a",
    "hash -p $x a; a",
    "fish -c 'echo (date)'",
    "csh -c id",
    "su -c $'$\\'\\\\x74ouch\\' X'",
    "watch $'$\\'\\\\x74ouch\\' X'",
    // Programs that run their arguments.
    "echo X | xargs touch",
    "echo X | xargs $'\\x74ouch'",
    "echo touch | xargs -I% % X",
    "echo touch | xargs -I % % X",
    "echo touch | xargs -i {} X",
    "echo touch | xargs --replace=R R X",
    "echo to | xargs -I% %uch X",
    "xargs -n 1 $x",
    "xargs -I% sh -c '% X'",
    "xargs -I% xargs -I@ @ X",
    "env xargs -I% % X",
    "find . -exec touch X \\;",
    "find . -exec $'\\x74ouch' X ';'",
    "find . -execdir $x {} +",
    "find . -exec {} X \\;",
    "find $x",
    "find . -exec sh -c '$1 X' a touch \\;",
    // Compound commands.
    "($'\\x74ouch' X)",
    "( ($'\\x74ouch' X) )",
    "{ $'\\x74ouch' X; }",
    "if $'\\x74ouch' X; then :; fi",
    "if :; then $'\\x74ouch' X; fi",
    "while ! $'\\x74ouch' X; do :; done",
    "until $'\\x74ouch' X; do :; done",
    "for i in a; do $'\\x74ouch' X; done",
    "for i do $x; done",
    "for ((;;)); do $x; done",
    "case a in a) $'\\x74ouch' X;; esac",
    "case a in b) :;; (a|c) $x;; esac",
    "case a in a) case b in b) $x; esac;; esac",
    "f() { $'\\x74ouch' X; }; f",
    "f () { \"$@\"; }; f touch X",
    "function f { $x; }; f",
    "function f() ( $x ); f",
    ": & $'\\x74ouch' X",
    ": | $'\\x74ouch' X",
    ": |& $'\\x74ouch' X",
    ":\n$'\\x74ouch' X",
    ": # a\n$'\\x74ouch' X",
    "cat <<E | $x\na\nE",
    "cat <<A <<B; $'\\x74ouch' X\na\nA\nb\nB",
    "cat <<E\nE\n$'\\x74ouch' X",
    "cat <<-E\n\tE\n$'\\x74ouch' X",
    "cat <<'E F'\nE F\n$'\\x74ouch' X",
    "\"$(case a in a) $'\\x74ouch' X;; esac)\"",
    "select i in a; do $x; done",
    // Unreadable.
    "echo '",
    "echo $(",
    "echo \"${x#'}'}\"",
    "${ $'\\x74ouch' X; }",
    "echo @(a|b)",
    "echo )",
];

#[test]
fn a_denied_command_is_found_in_every_form() {
    let rules = [pattern("touch X"), pattern("touch *")];
    let passes = |line: &&&str| rules.iter().any(|rule| denies(line, rule).is_none());
    let passed: Vec<&&str> = DENIED.iter().filter(passes).collect();
    assert!(passed.is_empty(), "{passed:#?}");
    assert!(DENIED.len() > 150);
}

/// Lines that people and models write. None of them can run `touch` or `git push`.
const ALLOWED: &[&str] = &[
    "ls -l",
    "cargo test 2>&1 | tail -20",
    "cd src && grep -rn \"foo\" . | head",
    "for f in *.rs; do wc -l \"$f\"; done",
    "for f in a b\ndo cat $f\ndone",
    "x=$(git rev-parse HEAD); echo $x",
    "echo \"$HOME ${x:-y} $((1 + 2)) `date`\" > out.txt",
    "if [ -f x ]; then cat x; else echo \"no\"; fi",
    "[[ $a == b* && -n \"$c\" ]] || exit 1",
    "cat > notes.md <<'EOF'\n# it's $(new)\nEOF",
    "cat <<EOF > f\n$x and $(date)\nEOF",
    "python3 - <<'EOF'\nprint('\"')\nEOF",
    "find . -name '*.rs' -exec wc -l {} +",
    "find \"$d\" -type f",
    "ls | xargs -n 1 basename",
    "ls | xargs -I{} cp {} x/{}",
    "git diff --stat HEAD~1",
    "git log --format='%h %s' -n 3",
    "git -C sub status",
    "git commit -m \"$message\"",
    "env A=$b cargo build",
    "timeout 60 cargo test",
    "bash build.sh \"$1\"",
    "bash -c 'cargo build && ls'",
    "bash --version",
    "sh -ec 'ls; cd x'",
    "source venv/bin/activate && pytest -q",
    "\"$HOME\"/bin/tool run",
    "a=(1 2 $x); echo ${a[0]}",
    "a[1]=2",
    "case $x in a|b) echo 1;; *) echo 2;; esac",
    "f() { local x=1; echo $x; }; f",
    "while read -r line; do echo \"$line\"; done < f",
    "((i++)); echo $((i * (2 + 3)))",
    "printf '%s\\n' \"${a[@]}\"",
    "grep '$(' f",
    "sed -i 's/a/b/' f",
    "trap 'rm -f x' EXIT",
    "alias ll='ls -l'",
    "set -e; export A=b",
    "time cargo build",
    "make -j$(nproc)",
    "echo {a,b}.txt",
    "exec 3>log",
    "true # it's a comment",
];

#[test]
fn ordinary_lines_are_not_denied() {
    let rules = [pattern("touch X"), pattern("git push *")];
    let denied = |line: &&&str| rules.iter().any(|rule| denies(line, rule).is_some());
    let denied: Vec<&&str> = ALLOWED.iter().filter(denied).collect();
    assert!(denied.is_empty(), "{denied:#?}");
}

#[test]
fn options_do_not_hide_the_words_of_a_rule() {
    let push = pattern("git push *");
    for line in ["git -C . push", "git --no-pager push", "git -c a=b -C . push origin", "git $x"] {
        assert!(denies(line, &push).is_some(), "{line}");
    }
    for line in ["git log push", "git commit -m push", "git log $x", "git stash push"] {
        assert_eq!(denies(line, &push), None, "{line}");
    }
}

#[test]
fn a_refusal_says_whether_the_words_are_there() {
    let rule = pattern("touch *");
    assert_eq!(denies("$'\\x74ouch' X", &rule), Some(Denial::Named));
    assert_eq!(denies("touch 2>&1 X", &pattern("touch X")), Some(Denial::Named));
    assert_eq!(denies("$x X", &rule), Some(Denial::Possible));
    assert_eq!(denies("sh -c \"$x\"", &rule), Some(Denial::Possible));
}

/// Long and deep lines are answered, and soon.
#[test]
fn no_line_takes_long() {
    let rule = pattern("touch *");
    for line in [
        "env ".repeat(5_000),
        "xargs ".repeat(20_000),
        "env find ".repeat(400),
        "git -a ".to_owned() + &"-b ".repeat(20_000),
        "$(".repeat(10_000),
        "`".repeat(10_001),
        "(".repeat(10_000),
        "{ ".repeat(10_000),
        "case a in a) ".repeat(1_000),
        "sh -c '".repeat(1_000),
        "a".repeat(20_000),
        "$a".repeat(10_000),
        "{a,".repeat(10_000),
    ] {
        let begun = std::time::Instant::now();
        let _ = denies(&line, &rule);
        let _ = denies(&line, &pattern("git push *"));
        assert!(begun.elapsed().as_secs() < 20, "{}", line.get(..40).unwrap_or(&line));
    }
}

/// A directory with programs. Its `touch` creates the file `ran`.
struct Bash {
    directory: tempfile::TempDir,
}

impl Bash {
    fn new() -> Option<Self> {
        if !Path::new("/bin/bash").exists() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let programs = directory.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        let touch = programs.join("touch");
        let marker = directory.path().join("ran");
        std::fs::write(&touch, format!("#!/bin/sh\n: > '{}'\n", marker.display())).unwrap();
        std::fs::set_permissions(&touch, std::fs::Permissions::from_mode(0o755)).unwrap();
        let real = |name: &str| {
            ["/usr/bin", "/bin"].iter().map(|at| Path::new(at).join(name)).find(|at| at.exists())
        };
        for name in ["sh", "bash", "env", "xargs", "find", "nice", "timeout", "cat", "tr"] {
            if let Some(real) = real(name) {
                std::os::unix::fs::symlink(real, programs.join(name)).unwrap();
            }
        }
        std::fs::create_dir(directory.path().join("work")).unwrap();
        Some(Self { directory })
    }

    fn marker(&self) -> PathBuf {
        self.directory.path().join("ran")
    }

    /// Whether bash runs the program in this line.
    fn runs(&self, line: &str) -> bool {
        let _ = std::fs::remove_file(self.marker());
        let mut child = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", line])
            .env_clear()
            .env("PATH", self.directory.path().join("bin"))
            .env("P", self.directory.path().join("bin"))
            .current_dir(self.directory.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        self.marker().exists()
    }
}

/// One character of a word, written in a form that stands for itself.
fn written(character: char, form: u8) -> String {
    let code = u32::from(character);
    match form {
        0 => format!("\\{character}"),
        1 => format!("'{character}'"),
        2 => format!("\"{character}\""),
        3 => format!("$'\\x{code:02x}'"),
        4 => format!("$'\\{code:03o}'"),
        5 => format!("$'\\u{code:04x}'"),
        6 => format!("{character}''"),
        7 => format!("{character}$@"),
        8 => format!("{character}${{none}}"),
        9 => format!("${{none:-{character}}}"),
        10 => format!("$(printf {character})"),
        11 => format!("`printf {character}`"),
        12 => format!("\\\n{character}"),
        _ => character.to_string(),
    }
}

fn spelled(word: &'static str) -> impl Strategy<Value = String> {
    let forms = proptest::collection::vec(0_u8..40, word.len());
    forms.prop_map(move |forms| {
        word.chars().zip(forms).map(|(character, form)| written(character, form)).collect()
    })
}

fn one_of(options: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(options).prop_map(str::to_owned)
}

const REDIRECTIONS: &[&str] = &[
    "",
    "",
    "",
    "2>&1",
    ">out",
    "2>/dev/null",
    "</dev/null",
    "&>out",
    "{fd}>out",
    ">&2",
    "<<<x",
    ">|out",
    "1<>out",
];

const PREFIXES: &[&str] = &[
    "",
    "",
    "",
    "",
    "A=1",
    "A=$(:)",
    "a[0]=1",
    "a=(1 2)",
    "!",
    "time",
    "time -p",
    "env",
    "env A=b",
    "command",
    "command -p",
    "exec",
    "exec -a n",
    "builtin command",
    "nice",
    "timeout 9",
    "coproc",
    "{ :; };",
    ": &&",
    "false ||",
    ": |",
    ": |&",
    ": &",
    ":;",
    ": #c\n",
    "if",
    "while !",
    "x=1;",
    "$none",
    "\"$@\"",
    "eval",
    "eval eval",
    "xargs",
    "cat <<E\na\nE\n",
];

/// A line that mostly runs `touch X`.
fn simple_line() -> impl Strategy<Value = String> {
    let program = prop_oneof![
        6 => spelled("touch"),
        1 => spelled("touch").prop_map(|word| format!("$P/{word}")),
        1 => one_of(&["$P/touc?", "$P/t*h", "\"$P\"/[t]ouch", "t{ouch,}", "{touch,Y}"]),
        1 => one_of(&["x=touch; $x", "x=touc; ${x}h", "set -- touch; \"$@\"", "a=(touch); ${a[@]}"]),
    ];
    let parts =
        (one_of(PREFIXES), one_of(REDIRECTIONS), program, one_of(REDIRECTIONS), spelled("X"));
    (parts, one_of(REDIRECTIONS)).prop_map(
        |((prefix, before, program, between, argument), after)| {
            format!("{prefix} {before} {program} {between} {argument} {after}")
        },
    )
}

/// The same line in another place.
fn wrapped(line: &str, form: u8) -> String {
    let quoted = format!("'{}'", line.replace('\'', "'\\''"));
    match form {
        0 => format!("({line})"),
        1 => format!("{{ {line}\n}}"),
        2 => format!("echo $({line}\n)"),
        3 => format!("x=\"$({line}\n)\""),
        4 => format!("cat <({line}\n)"),
        5 => format!("f() {{ {line}\n}}; f"),
        6 => format!("function f {{ {line}\n}}; f"),
        7 => format!("for i in a; do {line}\ndone"),
        8 => format!("for i do :; done; {line}"),
        9 => format!("case a in b) :;; a) {line}\n;; esac"),
        10 => format!("if :; then {line}\nfi"),
        11 => format!("until {line}\ndo break; done"),
        12 => format!("sh -c {quoted}"),
        13 => format!("bash -ec {quoted}"),
        14 => format!("eval {quoted}"),
        15 => format!("bash <<'E'\n{line}\nE"),
        16 => format!("bash <<< {quoted}"),
        17 => format!("trap {quoted} EXIT"),
        18 => format!("echo $((1 + $({line}\n) + 1))"),
        19 => format!("echo \"${{none:-$({line}\n)}}\""),
        20 => format!("[[ -n $({line}\n) ]]"),
        21 => format!("a=($({line}\n))"),
        22 => format!("cat <<E\n$({line}\n)\nE"),
        23 => format!("find . -maxdepth 0 -exec bash -c {quoted} \\;"),
        24 => format!("echo a | xargs -I% bash -c {quoted}"),
        25 => format!("env bash -c {quoted}"),
        26 => format!("echo {quoted} | bash"),
        27 => format!("x={quoted}; eval \"$x\""),
        _ => line.to_owned(),
    }
}

fn lines() -> impl Strategy<Value = String> {
    let wrappers = proptest::collection::vec(0_u8..40, 0..3);
    (simple_line(), wrappers).prop_map(|(line, wrappers)| {
        wrappers.into_iter().fold(line, |line, form| wrapped(&line, form))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 300, ..ProptestConfig::default() })]

    /// Bash never runs a denied command in a line that the rule did not refuse.
    #[test]
    fn bash_never_runs_what_a_rule_denies(lines in proptest::collection::vec(lines(), 1..4)) {
        let Some(bash) = Bash::new() else { return Ok(()) };
        for line in lines {
            if denies(&line, &pattern("touch *")).is_none() {
                prop_assert!(!bash.runs(&line), "{}", line);
            }
        }
    }

    #[test]
    fn any_soup_is_answered(soup in proptest::collection::vec(
        select(vec![
            "touch", " ", " ", "X", "$x", "$(", ")", "`", "'", "\"", "\\", "{", "}", ",", ";", "\n",
            "|", "&", "<", ">", "<<E", "E", "[[", "]]", "((", "))", "case", "in", "esac", "if", "do",
            "=", "a=", "${", "#", "*", "$'", "\\x74", "~", "!", "eval", "sh -c", "xargs", "-I%", "%",
        ]),
        0..24,
    ).prop_map(|pieces| pieces.concat())) {
        let Some(bash) = Bash::new() else { return Ok(()) };
        if denies(&soup, &pattern("touch *")).is_none() && soup.contains("ouch") {
            prop_assert!(!bash.runs(&soup), "{}", soup);
        }
    }
}

/// The check itself works: bash runs the program in these lines.
#[test]
fn the_marker_shows_what_bash_runs() {
    let Some(bash) = Bash::new() else { return };
    for line in ["touch X", "$'\\x74ouch' X", "touch 2>&1 X", "t$@ouch X", "echo a | xargs touch"] {
        assert!(bash.runs(line), "{line}");
    }
    assert!(!bash.runs("echo touch X"));
}
