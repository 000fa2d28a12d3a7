//! Whether a line could run a command that a deny rule names.
//!
//! The answer errs on the side of yes. First the words of the rule are searched in the text of the
//! line. Then every command that the shell would run is compared with the rule. A word that only the
//! shell can expand could be any word, so it is treated as the denied one.
//!
//! Only commands that the shell itself runs for the line are considered. What a program, a script or
//! an interpreter runs is unknown here.

use loggia_core::shell::{CommandPattern, Denial};

use crate::plain::{BLANKS, check_visible};
use crate::script::{self, Piece, SimpleCommand, Word};

/// Shells that read what [`script`] reads.
const SHELLS: &str = "ash bash dash ksh mksh rbash sh zsh";
/// Shells and job queues whose input is in another language or is not part of the line.
const FOREIGN: &str = "at batch cmd csh elvish fish nu powershell pwsh tcsh xonsh";
/// Programs that run their arguments, after their own options, or run one of the arguments as a line.
const RUNNERS: &str = "bwrap builtin busybox caffeinate chroot chrt command coproc doas entr env exec \
    fakeroot firejail flock gdb gosu ionice ltrace nice nohup nsenter parallel pkexec prlimit proot \
    run0 runuser sandbox-exec screen script setarch setpriv setsid sg stdbuf strace su sudo systemd-run \
    taskset time timeout tmux toybox unshare valgrind watch xvfb-run";
/// Builtins that store or run a text as commands.
const TEXTS: &str = "alias bind compgen complete enable fc hash mapfile readarray trap";
/// Builtins that can evaluate a subscript in their arguments, with the substitutions in it.
const SUBSCRIPTS: &str =
    "[ declare export getopts let local printf read readonly test typeset unset wait";

/// Arguments of a program that runs other programs. A command with more is not examined.
const MAX_WORDS: usize = 1_024;

/// Whether a line could run the command that a pattern denies.
pub fn denies(line: &str, pattern: &CommandPattern) -> Option<Denial> {
    if mentions(line, pattern) {
        return Some(Denial::Named);
    }
    text(line, pattern, 0)
}

/// True if the words of `pattern` occur in the line in sequence, however they are written: quotes and
/// backslashes are removed, every shell metacharacter separates. For deny rules, so it errs on the side
/// of true. It evaluates nothing: a line that is not plain must be asked about anyway.
pub fn mentions(line: &str, pattern: &CommandPattern) -> bool {
    // Split the same way, so that the one word `'a b'` of a pattern is found in any quoting.
    let wanted = lenient_words(&pattern.words.join(" "));
    let Some((program, arguments)) = wanted.split_first() else {
        return true;
    };
    let names = |word: &String| word == program || word.ends_with(&format!("/{program}"));
    let readings = [
        line.to_owned(),
        // A backslash at the end of a line joins it to the next, but not at the end of a comment.
        line.replace("\\\n", "\n"),
        line.replace("${IFS}", " ").replace("$IFS", " "),
    ];
    readings.iter().any(|reading| {
        lenient_words(reading).windows(wanted.len()).any(|run| {
            run.split_first().is_some_and(|(first, others)| names(first) && others == arguments)
        })
    })
}

fn lenient_words(text: &str) -> Vec<String> {
    let mut flat = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\'' | '"' | '\0' => {}
            '\\' => drop(rest.next_if(|next| matches!(next, '\\' | '\n'))),
            _ if ";&|<>(){}$`!,=".contains(character) => flat.push(' '),
            _ if check_visible(character).is_err() => flat.push(' '),
            _ => flat.push(character),
        }
    }
    flat.split(BLANKS).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Text that a shell would run as a line.
fn text(line: &str, pattern: &CommandPattern, depth: usize) -> Option<Denial> {
    match script::commands(line, depth) {
        Err(script::Unreadable) => Some(Denial::Possible),
        Ok(commands) => worst(commands.iter().map(|command| simple(command, pattern, depth))),
    }
}

/// Text that a shell would expand, such as the value of a variable in arithmetic.
fn expanded(value: &str, pattern: &CommandPattern, depth: usize) -> Option<Denial> {
    if !value.contains("$(") && !value.contains('`') {
        return None;
    }
    match script::substituted(value, depth + 1) {
        Err(script::Unreadable) => Some(Denial::Possible),
        Ok(commands) => worst(commands.iter().map(|command| simple(command, pattern, depth + 1))),
    }
}

fn worst(found: impl Iterator<Item = Option<Denial>>) -> Option<Denial> {
    found.flatten().max()
}

fn simple(command: &SimpleCommand, pattern: &CommandPattern, depth: usize) -> Option<Denial> {
    let SimpleCommand { assignments, words, input } = command;
    let values = assignments.iter().filter_map(Word::known);
    if words.iter().chain(assignments).any(sets_command_table) {
        return Some(Denial::Possible);
    }
    let assigned = worst(values.map(|value| expanded(&value, pattern, depth)));
    let texts = words.iter().chain(assignments).chain(input).filter_map(Word::known);
    let named = texts.into_iter().any(|text| mentions(&text, pattern));
    let named =
        named || (0..words.len()).any(|at| match_at(words, at, pattern) == MatchResult::Yes);
    if named {
        return Some(Denial::Named);
    }
    assigned.max(run(words, input.as_ref(), RunBy::Shell, pattern, depth))
}

/// Whether the word assigns to one of bash's tables of commands, which gives a command another name.
fn sets_command_table(word: &Word) -> bool {
    let tables = ["BASH_CMDS", "BASH_ALIASES"];
    let named = |text: &str| tables.iter().any(|table| text.starts_with(table));
    matches!(word.pieces.first(), Some(Piece::Text(text)) if named(text))
}

/// Which program runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunBy {
    Shell,
    /// One of [`RUNNERS`]. Every argument after it is tried as the program.
    Runner,
    /// `find` or `xargs`, which also change the words.
    Replacing,
}

/// Checks a command, the first word being the program, and the commands that it runs in turn.
fn run(
    words: &[Word],
    input: Option<&Word>,
    by: RunBy,
    pattern: &CommandPattern,
    depth: usize,
) -> Option<Denial> {
    let (program, arguments) = words.split_first()?;
    let own = match_at(words, 0, pattern).denial();
    let Some(name) = program.known() else { return own };
    let name = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let listed = |names: &str| names.split_whitespace().any(|listed| listed == name);
    if words.len() > MAX_WORDS && (listed(RUNNERS) || listed("find xargs")) {
        return own.max(Some(Denial::Possible));
    }
    let others = match name.as_str() {
        "eval" => match arguments.iter().map(Word::known).collect::<Option<Vec<_>>>() {
            Some(arguments) => text(&arguments.join(" "), pattern, depth + 1),
            None => Some(Denial::Possible),
        },
        "." | "source" => arguments.first().and_then(script_file),
        // `-c alias.NAME=…` can run anything.
        "git"
            if arguments.iter().filter_map(Word::known).any(|word| word.starts_with("alias.")) =>
        {
            Some(Denial::Possible)
        }
        "find" | "xargs" if by == RunBy::Replacing => Some(Denial::Possible),
        "find" => find(arguments, pattern, depth),
        "xargs" => xargs(arguments, pattern, depth),
        _ if listed(SHELLS) => shell(arguments, input, pattern, depth),
        _ if listed(FOREIGN) => Some(Denial::Possible),
        _ if listed(RUNNERS) && by == RunBy::Shell => runner(&name, arguments, pattern, depth),
        _ if listed(TEXTS) => worst(arguments.iter().map(|argument| match argument.known() {
            Some(argument) if name == "alias" => {
                // Further words can follow where the alias is used.
                let (_, value) = argument.split_once('=')?;
                text(&format!("{value} $_"), pattern, depth + 1)
            }
            Some(argument) => text(&argument, pattern, depth + 1),
            None => Some(Denial::Possible),
        })),
        _ if listed(SUBSCRIPTS) => {
            let known = arguments.iter().filter_map(Word::known);
            worst(known.map(|argument| expanded(&argument, pattern, depth)))
        }
        _ => None,
    };
    own.max(others)
}

/// Any argument could be the program, and any argument could be a line to run.
fn runner(
    name: &str,
    arguments: &[Word],
    pattern: &CommandPattern,
    depth: usize,
) -> Option<Denial> {
    let split = |word: &Word| {
        word.known().is_some_and(|word| word.starts_with("--split") || is_cluster(&word, 'S'))
    };
    if name == "env" && arguments.iter().any(split) {
        return Some(Denial::Possible);
    }
    worst((0..arguments.len()).map(|at| {
        let rest = arguments.get(at..).unwrap_or_default();
        let first = rest.first().filter(|first| !first.assigns())?;
        let line = first.known().filter(|line| line.contains([' ', '\t', '\n', ';', '$', '`']));
        let line = line.and_then(|line| text(&line, pattern, depth + 1));
        line.max(run(rest, None, RunBy::Runner, pattern, depth + 1))
    }))
}

/// A shell: its `-c` text, its script, or its input.
fn shell(
    arguments: &[Word],
    input: Option<&Word>,
    pattern: &CommandPattern,
    depth: usize,
) -> Option<Denial> {
    let unknown = Some(Denial::Possible);
    let (mut line, mut reads, mut options) = (false, false, true);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(known) = argument.known() else { return unknown };
        match known.as_str() {
            "--version" | "--help" => return None,
            "--" | "-" if options => options = false,
            "--rcfile" | "--init-file" if options => drop(arguments.next()),
            _ if options && known.starts_with("--") => {}
            _ if options && known.starts_with(['-', '+']) => {
                line |= known.contains('c');
                reads |= known.contains('s');
                if known.ends_with(['o', 'O']) {
                    arguments.next();
                }
            }
            _ if line => return text(&known, pattern, depth + 1),
            _ if reads => break,
            _ => return script_file(argument),
        }
    }
    match input.map(Word::known) {
        Some(Some(input)) => text(&input, pattern, depth + 1),
        Some(None) | None => unknown,
    }
}

/// A file of commands. The content of a file is not part of the line, but the content of a pipe is.
fn script_file(file: &Word) -> Option<Denial> {
    match file.known() {
        Some(path) if !path.starts_with("/dev/") && !path.starts_with("/proc/") => None,
        Some(_) | None => Some(Denial::Possible),
    }
}

/// `find` runs the words after `-exec` and its variants.
fn find(arguments: &[Word], pattern: &CommandPattern, depth: usize) -> Option<Denial> {
    // An expansion could yield `-exec` and a command.
    if arguments.iter().any(Word::splits) {
        return Some(Denial::Possible);
    }
    let runs = ["-exec", "-execdir", "-ok", "-okdir"];
    let words = replaced(arguments, "{}");
    worst((0..arguments.len()).map(|at| {
        let word = arguments.get(at)?.known();
        match word.is_none_or(|word| runs.contains(&word.as_str())) {
            true => run(words.get(at + 1..)?, None, RunBy::Replacing, pattern, depth + 1),
            false => None,
        }
    }))
}

/// `xargs` runs its arguments with words from its input appended, or inserted in place of a mark.
fn xargs(arguments: &[Word], pattern: &CommandPattern, depth: usize) -> Option<Denial> {
    let mut mark = None;
    for (at, argument) in arguments.iter().enumerate() {
        let Some(known) = argument.known() else { continue };
        if known == "-I" || known == "-J" {
            mark = arguments.get(at + 1).and_then(Word::known);
        } else if known.starts_with("-i") || known.starts_with("--replace") {
            mark = Some(known.trim_start_matches("--replace").trim_start_matches("-i").into());
        } else if let Some(glued) = known.strip_prefix("-I") {
            mark = Some(glued.to_owned());
        }
        if mark.is_some() {
            break;
        }
    }
    let mark = mark.map(|mark: String| mark.trim_start_matches('=').to_owned());
    let mark = mark.map(|mark| if mark.is_empty() { "{}".to_owned() } else { mark });
    let mut words = match &mark {
        Some(mark) => replaced(arguments, mark),
        None => arguments.to_vec(),
    };
    // The argument that defines the mark is not the program.
    if let (Some(mark), Some(at)) = (&mark, arguments.iter().position(is_replacing))
        && arguments.get(at + 1).and_then(Word::known).as_ref() == Some(mark)
        && let Some(named) = words.get_mut(at + 1)
    {
        *named = Word::text("");
    }
    words.push(Word::unknown());
    let programs = after_options(arguments).into_iter();
    worst(programs.map(|at| run(words.get(at..)?, None, RunBy::Replacing, pattern, depth + 1)))
}

fn is_replacing(word: &Word) -> bool {
    word.known().is_some_and(|word| word == "-I" || word == "-J")
}

/// The words with every mark replaced by unknown text.
fn replaced(words: &[Word], mark: &str) -> Vec<Word> {
    let replace = |word: &Word| match word.known() {
        Some(known) if known.contains(mark) => {
            let mut pieces = Vec::new();
            for (index, part) in known.split(mark).enumerate() {
                if index > 0 {
                    pieces.push(Piece::Unknown { splits: false });
                }
                pieces.push(Piece::Text(part.to_owned()));
            }
            Word::from_pieces(pieces)
        }
        _ => word.clone(),
    };
    words.iter().map(replace).collect()
}

fn is_cluster(word: &str, letter: char) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchResult {
    No,
    Maybe,
    Yes,
}

impl MatchResult {
    fn denial(self) -> Option<Denial> {
        match self {
            MatchResult::No => None,
            MatchResult::Maybe => Some(Denial::Possible),
            MatchResult::Yes => Some(Denial::Named),
        }
    }
}

/// Whether the words from `at` on begin with the words of the rule.
fn match_at(words: &[Word], at: usize, pattern: &CommandPattern) -> MatchResult {
    let words = words.get(at..).unwrap_or_default();
    let (Some((program, rest)), Some((name, wanted))) =
        (words.split_first(), pattern.words.split_first())
    else {
        return MatchResult::No;
    };
    let below = format!("/{name}");
    let named = match_word(program, name, false).max(match_word(program, &below, true));
    match named {
        MatchResult::No => MatchResult::No,
        // The word can expand to several words.
        _ if program.splits() => MatchResult::Maybe,
        _ => named.min(match_after_options(rest, wanted)),
    }
}

/// Whether arguments begin with the wanted words, with or without options before them.
fn match_after_options(words: &[Word], wanted: &[String]) -> MatchResult {
    let positions = after_options(words).into_iter();
    let fit = |at| match_prefix(words.get(at..).unwrap_or_default(), wanted);
    let first = match_prefix(words, wanted);
    positions.map(fit).max().unwrap_or(MatchResult::No).max(first)
}

/// The positions at which the first argument that is not an option can be. An option can have a value.
fn after_options(words: &[Word]) -> Vec<usize> {
    let option = |word: &Word| {
        let text = match word.pieces.first() {
            Some(Piece::Text(text)) => text.as_str(),
            _ => "",
        };
        text.starts_with('-')
    };
    let mut found = Vec::new();
    let (mut here, mut next) = (true, false);
    for (at, word) in words.iter().enumerate() {
        let reached = here;
        (here, next) = (next, false);
        match (reached, option(word)) {
            (true, true) => (here, next) = (true, true),
            (true, false) => found.push(at),
            (false, _) => {}
        }
    }
    found
}

/// Whether words begin with the wanted words, one by one.
fn match_prefix(words: &[Word], wanted: &[String]) -> MatchResult {
    let mut fit = MatchResult::Yes;
    for (at, next) in wanted.iter().enumerate() {
        let Some(word) = words.get(at) else { return MatchResult::No };
        match match_word(word, next, false) {
            MatchResult::No => return MatchResult::No,
            // The word can expand to several words.
            _ if word.splits() => return MatchResult::Maybe,
            found => fit = fit.min(found),
        }
    }
    fit
}

/// Whether a word could be equal to a text or, `at_end`, end with it.
fn match_word(word: &Word, text: &str, at_end: bool) -> MatchResult {
    if let Some(known) = word.known() {
        let same = if at_end { known.ends_with(text) } else { known == text };
        return if same { MatchResult::Yes } else { MatchResult::No };
    }
    // None stands for unknown text.
    let mut pieces: Vec<Option<char>> = Vec::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text(text) => pieces.extend(text.chars().map(Some)),
            Piece::Unknown { splits } => {
                pieces.push(None);
                if *splits {
                    break;
                }
            }
        }
    }
    let text: Vec<Option<char>> =
        at_end.then_some(None).into_iter().chain(text.chars().map(Some)).collect();
    if unify(&pieces, &text) { MatchResult::Maybe } else { MatchResult::No }
}

/// Whether some text matches both patterns. None in a pattern stands for any text.
fn unify(one: &[Option<char>], other: &[Option<char>]) -> bool {
    // `row[j]`: the rest of `one` and `other[j..]` can be equal.
    let mut row = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let below = row.clone();
        let end = i == one.len();
        for j in (0..=other.len()).rev() {
            let right = row.get(j + 1).copied().unwrap_or(false) && j < other.len();
            let down = !end && below.get(j).copied().unwrap_or(false);
            let across = !end && j < other.len() && below.get(j + 1).copied().unwrap_or(false);
            let same = match (one.get(i), other.get(j)) {
                (None, None) => true,
                (Some(None), _) | (_, Some(None)) => down || right,
                (Some(mine), Some(theirs)) => mine == theirs && across,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if let Some(cell) = row.get_mut(j) {
                *cell = same;
            }
        }
    }
    row.first().copied().unwrap_or(false)
}

#[cfg(test)]
#[path = "denied_tests.rs"]
mod tests;
