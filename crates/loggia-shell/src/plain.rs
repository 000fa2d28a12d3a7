//! Splits a plain line into commands, for allow rules.
//!
//! "Always allow `git log`" is only safe if the words compared are the words that the shell will run.
//! So a line is accepted only if it is *plain*: simple commands made of literal words. It is read
//! twice, by the small scanner here and by `brush-parser`, and both results must agree. A line that
//! either of them does not understand is not plain, and the policy asks a person.
//!
//! Not here: knowledge about the arguments of particular programs.

use std::iter::Peekable;
use std::str::Chars;

use brush_parser::word::{WordPiece, WordPieceWithSource};
use brush_parser::{ParserOptions, ast, word};
use loggia_core::shell::{CommandPattern, PlainCommand};

const MAX_LINE_BYTES: usize = 16 * 1024;
const MAX_COMMANDS: usize = 20;
/// Quoting makes a word up to five times longer, and a rule must be readable in the form it is shown in.
const MAX_PATTERN_BYTES: usize = 8 * MAX_LINE_BYTES;
pub(crate) const BLANKS: [char; 2] = [' ', '\t'];

/// Words that start or shape compound commands.
const KEYWORDS: &str = "! [[ ]] { } case coproc do done elif else esac fi for function if in \
    select then time until while";

/// Builtins that change the shell for the commands after them or evaluate their arguments
/// (`test -v 'a[$(id)]'` and `printf -v` do, `printf %n` assigns), and programs that run another
/// program: their first word does not say which program runs.
const REFUSED_NAMES: &str = "\
    . [ alias bg bind break builtin cd command compgen complete compopt continue declare dirs \
    disown enable eval exec exit export fc fg getopts hash history jobs let local logout mapfile \
    popd printf pushd read readarray readonly return set shift shopt source suspend test trap \
    typeset ulimit umask unalias unset wait ash bash busybox cmd csh dash elvish fish ksh mksh nu \
    powershell pwsh rbash screen sh tcsh tmux toybox xonsh zsh at batch bwrap caffeinate chroot \
    chrt doas entr env fakeroot firejail flock gdb gosu ionice ltrace nice nohup nsenter parallel \
    pkexec prlimit proot run0 runuser sandbox-exec script setarch setpriv setsid sg stdbuf strace \
    su sudo systemd-run taskset timeout unshare valgrind watch xargs xvfb-run";

/// Why an allow rule cannot apply to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPlain {
    #[error("it names no command")]
    Empty,
    #[error("it cannot be read with certainty")]
    Unparsable,
    #[error("it is too long")]
    TooLong,
    #[error("it holds too many commands")]
    TooManyCommands,
    #[error("it uses an expansion")]
    Expansion,
    #[error("it uses a command or process substitution")]
    Substitution,
    #[error("it uses a redirection")]
    Redirection,
    #[error("it sets a variable")]
    Assignment,
    #[error("it uses a file name pattern")]
    Glob,
    #[error("it uses braces outside quotes")]
    Brace,
    #[error("it uses `!`, `^` or `%`, which can stand for earlier commands or jobs")]
    History,
    #[error("it holds a control character")]
    ControlCharacter,
    #[error("it holds a character that cannot be seen")]
    InvisibleCharacter,
    #[error("it runs something in the background")]
    Background,
    #[error("it is a compound command")]
    Compound,
    #[error("it starts with a command that changes the shell or runs other commands")]
    StatefulBuiltin,
    #[error("it holds a comment or an unquoted `#`")]
    Comment,
}

/// The commands of a line, or why the line is not plain.
pub fn plain_commands(line: &str) -> Result<Vec<PlainCommand>, NotPlain> {
    read(line, MAX_LINE_BYTES, check_name)
}

type NameCheck = fn(&str) -> Result<(), NotPlain>;

fn read(line: &str, limit: usize, check: NameCheck) -> Result<Vec<PlainCommand>, NotPlain> {
    if line.len() > limit {
        return Err(NotPlain::TooLong);
    }
    line.chars().try_for_each(check_visible)?;
    // The scanner goes first, so that `brush-parser` only sees flat, bounded input.
    let commands = group(scan(line)?)?;
    for command in &commands {
        check(command.words.first().map_or("", String::as_str))?;
    }
    if commands == parse_with_brush(line)? { Ok(commands) } else { Err(NotPlain::Unparsable) }
}

/// First and last of the ranges of invisible characters (joiners, fillers, bidi controls, variation
/// selectors, tags) and of those that look alike in every font (private use, specials, non-characters).
const INVISIBLE: [u32; 38] = [
    0xad, 0xad, 0x34f, 0x34f, 0x61c, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180f, 0x200b,
    0x200f, 0x202a, 0x202e, 0x2060, 0x206f, 0x2800, 0x2800, 0x3164, 0x3164, 0xe000, 0xf8ff, 0xfdd0,
    0xfdef, 0xfe00, 0xfe0f, 0xfeff, 0xfeff, 0xffa0, 0xffa0, 0xfff0, 0xffff, 0x1bca0, 0x1d17a,
    0xe0000, 0x10ffff,
];

/// A person cannot approve a character that is not visible.
pub(crate) fn check_visible(character: char) -> Result<(), NotPlain> {
    let (invisible, _) = INVISIBLE.as_chunks::<2>();
    if BLANKS.contains(&character) {
        Ok(())
    } else if character.is_control() {
        Err(NotPlain::ControlCharacter)
    } else if character.is_whitespace()
        || invisible.iter().any(|[first, last]| (*first..=*last).contains(&u32::from(character)))
    {
        Err(NotPlain::InvisibleCharacter)
    } else {
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), NotPlain> {
    // `/usr/bin/ENV` is `env` on a file system that ignores case.
    let program = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let listed = |names: &str| names.split_whitespace().any(|listed| listed == program);
    if name.contains('=') {
        Err(NotPlain::Assignment)
    } else if program.is_empty() {
        Err(NotPlain::Empty)
    } else if listed(KEYWORDS) {
        Err(NotPlain::Compound)
    } else if listed(REFUSED_NAMES) {
        Err(NotPlain::StatefulBuiltin)
    } else {
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum Token {
    Word(String),
    /// `;`
    End,
    /// `&&`, `||` or `|`: another command must follow.
    Join,
}

fn scan(line: &str) -> Result<Vec<Token>, NotPlain> {
    let mut rest = line.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(&character) = rest.peek() {
        match character {
            ' ' | '\t' => drop(rest.next()),
            ';' | '&' | '|' => tokens.push(scan_operator(&mut rest)?),
            _ => tokens.push(Token::Word(scan_word(&mut rest)?)),
        }
    }
    Ok(tokens)
}

fn scan_operator(rest: &mut Peekable<Chars<'_>>) -> Result<Token, NotPlain> {
    let first = rest.next();
    match (first, rest.peek()) {
        (Some('&'), Some('&')) | (Some('|'), Some('|')) => {
            rest.next();
            Ok(Token::Join)
        }
        (Some('&'), Some('>')) | (Some('|'), Some('&')) => Err(NotPlain::Redirection),
        (Some('&'), _) => Err(NotPlain::Background),
        (Some('|'), _) => Ok(Token::Join),
        _ => Ok(Token::End),
    }
}

fn scan_word(rest: &mut Peekable<Chars<'_>>) -> Result<String, NotPlain> {
    let mut word = String::new();
    while let Some(&character) = rest.peek() {
        match character {
            '\\' | '|' if may_be_swallowed(&word) => return Err(NotPlain::Unparsable),
            ' ' | '\t' | ';' | '&' | '|' => break,
            _ => drop(rest.next()),
        }
        match character {
            '\'' => scan_single_quoted(rest, &mut word)?,
            '"' => scan_double_quoted(rest, &mut word)?,
            '\\' => word.push(rest.next().ok_or(NotPlain::Unparsable)?),
            _ => word.push(literal_or_refusal(character, rest.peek().copied())?),
        }
    }
    // A tab inside a word looks like a space between two words.
    if word.contains('\t') { Err(NotPlain::ControlCharacter) } else { Ok(word) }
}

/// In Shift-JIS or GBK locales the last byte of a UTF-8 character and a `\` or `|` after it can be
/// read as one character, which would move the end of a quote.
fn may_be_swallowed(text_before: &str) -> bool {
    text_before.chars().next_back().is_some_and(|last| !last.is_ascii())
}

fn scan_single_quoted(rest: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), NotPlain> {
    loop {
        match rest.next().ok_or(NotPlain::Unparsable)? {
            '\'' => return Ok(()),
            character => word.push(character),
        }
    }
}

fn scan_double_quoted(rest: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), NotPlain> {
    loop {
        match rest.next().ok_or(NotPlain::Unparsable)? {
            '"' => return Ok(()),
            '\\' if may_be_swallowed(word) => return Err(NotPlain::Unparsable),
            '\\' => match rest.next_if(|next| matches!(next, '$' | '`' | '"' | '\\')) {
                Some(escaped) => word.push(escaped),
                None => word.push('\\'),
            },
            special @ ('$' | '`' | '!') => {
                word.push(literal_or_refusal(special, rest.peek().copied())?);
            }
            character => word.push(character),
        }
    }
}

/// The character, unless some shell treats it specially outside quotes.
fn literal_or_refusal(character: char, next: Option<char>) -> Result<char, NotPlain> {
    Err(match character {
        '$' | '<' | '>' if next == Some('(') => NotPlain::Substitution,
        '`' => NotPlain::Substitution,
        '$' | '~' => NotPlain::Expansion,
        '<' | '>' => NotPlain::Redirection,
        '(' | ')' => NotPlain::Compound,
        '{' | '}' => NotPlain::Brace,
        '*' | '?' | '[' | ']' => NotPlain::Glob,
        '!' | '^' | '%' => NotPlain::History,
        '#' => NotPlain::Comment,
        _ => return Ok(character),
    })
}

fn group(tokens: Vec<Token>) -> Result<Vec<PlainCommand>, NotPlain> {
    let unfinished = tokens.last() == Some(&Token::Join);
    let mut commands = Vec::new();
    let mut words = Vec::new();
    for token in tokens {
        match token {
            Token::Word(word) => words.push(word),
            Token::End | Token::Join if words.is_empty() => return Err(NotPlain::Unparsable),
            Token::End | Token::Join => {
                commands.push(PlainCommand { words: std::mem::take(&mut words) })
            }
        }
    }
    if !words.is_empty() {
        commands.push(PlainCommand { words });
    }
    match commands.len() {
        0 => Err(NotPlain::Empty),
        _ if unfinished => Err(NotPlain::Unparsable),
        count if count > MAX_COMMANDS => Err(NotPlain::TooManyCommands),
        _ => Ok(commands),
    }
}

/// The second reading. It names every kind of node and word piece that it accepts.
fn parse_with_brush(line: &str) -> Result<Vec<PlainCommand>, NotPlain> {
    let options = ParserOptions::default();
    let program = brush_parser::Parser::new(line.as_bytes(), &options)
        .parse_program()
        .map_err(|_| NotPlain::Unparsable)?;
    let mut commands = Vec::new();
    for ast::CompoundListItem(list, separator) in
        program.complete_commands.iter().flat_map(|list| &list.0)
    {
        match separator {
            ast::SeparatorOperator::Sequence => {}
            ast::SeparatorOperator::Async => return Err(NotPlain::Background),
        }
        for (_and_or, ast::Pipeline { timed, bang, seq }) in list {
            if timed.is_some() || *bang {
                return Err(NotPlain::Compound);
            }
            for command in seq {
                commands.push(simple_command(command, &options)?);
            }
        }
    }
    Ok(commands)
}

fn simple_command(
    command: &ast::Command,
    options: &ParserOptions,
) -> Result<PlainCommand, NotPlain> {
    let ast::Command::Simple(ast::SimpleCommand { prefix, word_or_name: Some(name), suffix }) =
        command
    else {
        return Err(NotPlain::Compound);
    };
    if prefix.is_some() {
        return Err(NotPlain::Assignment);
    }
    let mut words = vec![literal_word(name, options)?];
    for item in suffix.iter().flat_map(|suffix| &suffix.0) {
        words.push(match item {
            // After the name, `CC=gcc` is a word like any other: declaring builtins are refused.
            ast::CommandPrefixOrSuffixItem::Word(word)
            | ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                literal_word(word, options)?
            }
            ast::CommandPrefixOrSuffixItem::IoRedirect(_) => return Err(NotPlain::Redirection),
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                return Err(NotPlain::Substitution);
            }
        });
    }
    Ok(PlainCommand { words })
}

fn literal_word(word: &ast::Word, options: &ParserOptions) -> Result<String, NotPlain> {
    literal_pieces(&word::parse(&word.value, options).map_err(|_| NotPlain::Unparsable)?)
}

fn literal_pieces(pieces: &[WordPieceWithSource]) -> Result<String, NotPlain> {
    let mut text = String::new();
    for piece in pieces {
        match &piece.piece {
            WordPiece::Text(literal) | WordPiece::SingleQuotedText(literal) => {
                text.push_str(literal)
            }
            WordPiece::EscapeSequence(escape) => text.extend(escape.chars().skip(1)),
            WordPiece::DoubleQuotedSequence(inner) => text.push_str(&literal_pieces(inner)?),
            WordPiece::CommandSubstitution(_) | WordPiece::BackquotedCommandSubstitution(_) => {
                return Err(NotPlain::Substitution);
            }
            WordPiece::AnsiCQuotedText(_)
            | WordPiece::GettextDoubleQuotedSequence(_)
            | WordPiece::TildeExpansion(_)
            | WordPiece::ParameterExpansion(_)
            | WordPiece::ArithmeticExpression(_) => return Err(NotPlain::Expansion),
        }
    }
    Ok(text)
}

/// Parses the text of a configured allow rule: one plain command. A last bare word `*` makes it open.
pub fn parse_pattern(text: &str) -> Result<CommandPattern, NotPlain> {
    parse_checked(text, check_name)
}

/// Parses the text of a deny rule, which may also name commands that no rule can allow: `sudo *`.
pub fn parse_denied_pattern(text: &str) -> Result<CommandPattern, NotPlain> {
    parse_checked(text, |_| Ok(()))
}

fn parse_checked(text: &str, check: NameCheck) -> Result<CommandPattern, NotPlain> {
    let before_star =
        text.trim_end_matches(BLANKS).strip_suffix('*').filter(|body| body.ends_with(BLANKS));
    let body = before_star.map_or(text, |body| body.trim_end_matches(BLANKS));
    // `\ *` is one word: an escaped blank and a file name pattern.
    if before_star.is_some() && body.ends_with('\\') {
        return Err(NotPlain::Glob);
    }
    let commands = read(body, MAX_PATTERN_BYTES, check)?;
    // No operator, not even a `;` at the end: the stored rule must be the rule that is shown.
    let only_words = scan(body)?.iter().all(|token| matches!(token, Token::Word(_)));
    match commands.into_iter().next() {
        Some(command) if only_words => {
            Ok(CommandPattern { words: command.words, open: before_star.is_some() })
        }
        _ => Err(NotPlain::TooManyCommands),
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
