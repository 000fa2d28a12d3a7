//! The parsed template of a custom command: text and placeholders.
//!
//! Inserted text is never parsed as a template: an argument, a file or the output of a command line
//! cannot add placeholders.

use loggia_core::shell::quoted;

/// Command lines in one template.
const MOST_SHELLS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// All arguments as typed, `{{args}}`. In a command line they are one word.
    Whole,
    /// All arguments as typed, `$ARGUMENTS`. In a command line each is a word.
    Arguments,
    /// One argument, from 1: `$1`. The highest one of a template takes all that follow.
    Argument(usize),
    /// A command line whose output is inserted.
    Shell(Vec<Piece>),
    /// A file of the workspace.
    File(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    pub pieces: Vec<Piece>,
}

/// The arguments of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arguments {
    whole: String,
    words: Vec<String>,
}

impl Arguments {
    /// Words are separated by white space. Quotes group a word and are removed.
    pub fn new(text: &str) -> Self {
        let whole = text.trim().to_owned();
        let words =
            words(&whole).unwrap_or_else(|| whole.split_whitespace().map(str::to_owned).collect());
        Self { whole, words }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// The words of a numbered placeholder.
    fn words_from(&self, number: usize, highest: usize) -> &[String] {
        let from = self.words.get(number - 1..).unwrap_or_default();
        if number == highest { from } else { from.get(..1).unwrap_or_default() }
    }
}

/// None if a quote is not closed: then it is an apostrophe.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for letter in text.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

impl Template {
    /// A Markdown body: `$ARGUMENTS`, `$1` to `$9`, and a command line as ``!`…` `` after white space.
    /// A backslash escapes the dollar.
    pub fn markdown(text: &str) -> Result<Self, String> {
        let mut pieces = Pieces::default();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let after_space = pieces.ends_in_space();
            if let Some((piece, after)) = placeholder(rest) {
                pieces.push(piece);
                rest = after;
            } else if let Some(after) =
                rest.strip_prefix('\\').filter(|it| placeholder(it).is_some())
            {
                pieces.letter('$');
                rest = after.strip_prefix('$').unwrap_or(after);
            } else if let Some(inside) = rest.strip_prefix("!`").filter(|_| after_space) {
                let (line, after) = inside
                    .split_once('`')
                    .ok_or("a command line that begins with !` is not closed")?;
                pieces.push(Piece::Shell(placeholders(line)));
                rest = after;
            } else {
                pieces.letter(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
        pieces.finish()
    }

    /// A prompt of Gemini CLI: `{{args}}`, `!{command line}`, `@{file}`.
    pub fn braces(text: &str) -> Result<Self, String> {
        let mut pieces = Pieces::default();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{{args}}") {
                pieces.push(Piece::Whole);
                rest = after;
            } else if let Some(inside) = rest.strip_prefix("!{") {
                let (line, after) = split_at_brace(inside).ok_or("a `!{` has no closing `}`")?;
                pieces.push(Piece::Shell(braced_arguments(line.trim())));
                rest = after;
            } else if let Some(inside) = rest.strip_prefix("@{") {
                let (path, after) = split_at_brace(inside).ok_or("an `@{` has no closing `}`")?;
                if path.contains("{{args}}") {
                    return Err("an argument cannot name the file of `@{…}`".to_owned());
                }
                pieces.push(Piece::File(path.trim().to_owned()));
                rest = after;
            } else {
                pieces.letter(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
        pieces.finish()
    }

    /// Whether the template has command lines.
    pub fn runs(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Shell(_)))
    }

    /// The highest numbered placeholder.
    pub fn highest(&self) -> usize {
        self.pieces.iter().map(highest).max().unwrap_or(0)
    }

    fn takes_arguments(&self) -> bool {
        fn takes(piece: &Piece) -> bool {
            match piece {
                Piece::Whole | Piece::Arguments | Piece::Argument(_) => true,
                Piece::Shell(line) => line.iter().any(takes),
                Piece::Text(_) | Piece::File(_) => false,
            }
        }
        self.pieces.iter().any(takes)
    }

    /// The text of a piece.
    pub fn text(&self, piece: &Piece, arguments: &Arguments) -> String {
        match piece {
            Piece::Text(text) => text.clone(),
            Piece::Whole | Piece::Arguments => arguments.whole.clone(),
            Piece::Argument(number) => arguments.words_from(*number, self.highest()).join(" "),
            Piece::Shell(_) | Piece::File(_) => String::new(),
        }
    }

    /// The arguments if the template has no placeholder for them. They are added at the end.
    pub fn unused_arguments(&self, arguments: &Arguments) -> String {
        match arguments.is_empty() || self.takes_arguments() {
            true => String::new(),
            false => format!("\n\n{}", arguments.whole),
        }
    }

    /// A command line with its arguments, each quoted for the shell.
    pub fn command_line(&self, line: &[Piece], arguments: &Arguments) -> Result<String, String> {
        // An argument inside the line's own quotes cannot be quoted.
        let has_quotes = line.iter().any(|piece| match piece {
            Piece::Text(text) => text.contains(['\'', '"', '`', '\\', '$', '<', '#']),
            _ => false,
        });
        let quote = |words: &[&str]| -> Result<String, String> {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            match words.iter().find(|word| has_quotes && word.starts_with('\'')) {
                Some(word) => Err(format!(
                    "the argument {word} cannot be inserted into a command line that contains quotes, \
                     `$` or other special characters"
                )),
                None => Ok(words.join(" ")),
            }
        };
        let all = |words: &[String]| quote(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let parts = line.iter().map(|piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Whole if arguments.is_empty() => Ok(String::new()),
            Piece::Whole => quote(&[&arguments.whole]),
            Piece::Arguments => all(&arguments.words),
            Piece::Argument(number) => all(arguments.words_from(*number, self.highest())),
            Piece::Shell(_) | Piece::File(_) => Ok(String::new()),
        });
        parts.collect()
    }
}

fn highest(piece: &Piece) -> usize {
    match piece {
        Piece::Argument(number) => *number,
        Piece::Shell(line) => line.iter().map(highest).max().unwrap_or(0),
        Piece::Text(_) | Piece::Whole | Piece::Arguments | Piece::File(_) => 0,
    }
}

/// Collects characters into texts.
#[derive(Default)]
struct Pieces {
    pieces: Vec<Piece>,
    text: String,
}

impl Pieces {
    fn letter(&mut self, letter: char) {
        self.text.push(letter);
    }

    fn push(&mut self, piece: Piece) {
        self.end_text();
        self.pieces.push(piece);
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }

    fn ends_in_space(&self) -> bool {
        match self.text.chars().next_back() {
            Some(letter) => letter.is_whitespace(),
            None => self.pieces.is_empty(),
        }
    }

    fn finish(mut self) -> Result<Template, String> {
        self.end_text();
        let shells = self.pieces.iter().filter(|piece| matches!(piece, Piece::Shell(_))).count();
        match shells > MOST_SHELLS {
            true => Err(format!("it runs {shells} command lines; the limit is {MOST_SHELLS}")),
            false => Ok(Template { pieces: self.pieces }),
        }
    }
}

/// `$ARGUMENTS` or `$1` to `$9` at the start of a text, and the rest. `$10` is an amount of money.
fn placeholder(text: &str) -> Option<(Piece, &str)> {
    let name = text.strip_prefix('$')?;
    let goes_on =
        |rest: &str, more: fn(&char) -> bool| rest.chars().next().is_some_and(|it| more(&it));
    if let Some(rest) = name.strip_prefix("ARGUMENTS") {
        let whole = !goes_on(rest, |letter| letter.is_ascii_alphanumeric() || *letter == '_');
        return whole.then_some((Piece::Arguments, rest));
    }
    let digit = name.chars().next()?.to_digit(10).filter(|digit| *digit > 0)?;
    let rest = name.get(1..)?;
    let number = usize::try_from(digit).ok()?;
    (!goes_on(rest, char::is_ascii_digit)).then_some((Piece::Argument(number), rest))
}

/// A command line of a Markdown file.
fn placeholders(line: &str) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    let mut rest = line.trim();
    while let Some(letter) = rest.chars().next() {
        match placeholder(rest) {
            Some((piece, after)) => {
                pieces.push(piece);
                rest = after;
            }
            None => {
                pieces.letter(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
    }
    pieces.end_text();
    pieces.pieces
}

/// A command line of a Gemini command.
fn braced_arguments(line: &str) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    for (index, part) in line.split("{{args}}").enumerate() {
        if index > 0 {
            pieces.push(Piece::Whole);
        }
        part.chars().for_each(|letter| pieces.letter(letter));
    }
    pieces.end_text();
    pieces.pieces
}

/// The text up to the closing brace, and the rest. Braces inside must be balanced.
fn split_at_brace(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((text.get(..at)?, text.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
