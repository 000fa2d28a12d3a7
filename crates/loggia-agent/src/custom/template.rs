//! What a command's file says, taken apart once: words, and the places where something is put in.
//!
//! What is put in is never read again as a template: neither an argument, nor a file, nor what a
//! command printed can bring a place of its own.

use loggia_core::shell::quoted;

/// Commands that one template may run.
const MOST_SHELLS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// All arguments as they were typed, `{{args}}`; in a command line they are one word.
    Whole,
    /// The same, `$ARGUMENTS`; in a command line they are as many words as were typed.
    Arguments,
    /// One of them, from 1: `$1`. The highest one of a template takes the rest.
    Word(usize),
    /// A command line whose output is put in.
    Shell(Vec<Piece>),
    /// A file of the workspace.
    File(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    pub pieces: Vec<Piece>,
}

/// What was typed behind a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    whole: String,
    words: Vec<String>,
}

impl Given {
    /// Words are separated by white space; quotes hold one together and are left out.
    pub fn new(text: &str) -> Self {
        let whole = text.trim().to_owned();
        let words =
            words(&whole).unwrap_or_else(|| whole.split_whitespace().map(str::to_owned).collect());
        Self { whole, words }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// The words from one on that a place stands for.
    fn from(&self, number: usize, highest: usize) -> &[String] {
        let from = self.words.get(number - 1..).unwrap_or_default();
        if number == highest { from } else { from.get(..1).unwrap_or_default() }
    }
}

/// None where a quote is not closed: then it is an apostrophe.
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
    /// A Markdown body: `$ARGUMENTS`, `$1` to `$9`, and a command line as ``!`…` `` behind white space.
    /// A backslash before the dollar keeps it.
    pub fn markdown(text: &str) -> Result<Self, String> {
        let mut pieces = Pieces::default();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let after_space = pieces.ends_in_space();
            if let Some((piece, behind)) = placeholder(rest) {
                pieces.push(piece);
                rest = behind;
            } else if let Some(behind) =
                rest.strip_prefix('\\').filter(|it| placeholder(it).is_some())
            {
                pieces.letter('$');
                rest = behind.strip_prefix('$').unwrap_or(behind);
            } else if let Some(inside) = rest.strip_prefix("!`").filter(|_| after_space) {
                let (line, behind) =
                    inside.split_once('`').ok_or("a command that begins with !` has no end")?;
                pieces.push(Piece::Shell(placeholders(line)));
                rest = behind;
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
            if let Some(behind) = rest.strip_prefix("{{args}}") {
                pieces.push(Piece::Whole);
                rest = behind;
            } else if let Some(inside) = rest.strip_prefix("!{") {
                let (line, behind) = closed(inside).ok_or("a `!{` has no `}`")?;
                pieces.push(Piece::Shell(braced_arguments(line.trim())));
                rest = behind;
            } else if let Some(inside) = rest.strip_prefix("@{") {
                let (path, behind) = closed(inside).ok_or("an `@{` has no `}`")?;
                if path.contains("{{args}}") {
                    return Err("an argument can not name the file of `@{…}`".to_owned());
                }
                pieces.push(Piece::File(path.trim().to_owned()));
                rest = behind;
            } else {
                pieces.letter(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
        pieces.finish()
    }

    /// Whether something has to run before the prompt is complete.
    pub fn runs(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Shell(_)))
    }

    /// The highest numbered place there is.
    pub fn highest(&self) -> usize {
        self.pieces.iter().map(highest).max().unwrap_or(0)
    }

    fn takes_arguments(&self) -> bool {
        fn takes(piece: &Piece) -> bool {
            match piece {
                Piece::Whole | Piece::Arguments | Piece::Word(_) => true,
                Piece::Shell(line) => line.iter().any(takes),
                Piece::Text(_) | Piece::File(_) => false,
            }
        }
        self.pieces.iter().any(takes)
    }

    /// The words that a place in the text stands for.
    pub fn words(&self, piece: &Piece, given: &Given) -> String {
        match piece {
            Piece::Text(text) => text.clone(),
            Piece::Whole | Piece::Arguments => given.whole.clone(),
            Piece::Word(number) => given.from(*number, self.highest()).join(" "),
            Piece::Shell(_) | Piece::File(_) => String::new(),
        }
    }

    /// What is left to say: arguments that no place takes stand at the end.
    pub fn after(&self, given: &Given) -> String {
        match given.is_empty() || self.takes_arguments() {
            true => String::new(),
            false => format!("\n\n{}", given.whole),
        }
    }

    /// A command line with its arguments in it, each as one word for the shell, whatever is in it.
    pub fn line(&self, line: &[Piece], given: &Given) -> Result<String, String> {
        // Inside of somebody's quotes, quoting would undo itself.
        let delicate = line.iter().any(|piece| match piece {
            Piece::Text(text) => text.contains(['\'', '"', '`', '\\', '$', '<', '#']),
            _ => false,
        });
        let put = |words: &[&str]| -> Result<String, String> {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            match words.iter().find(|word| delicate && word.starts_with('\'')) {
                Some(word) => Err(format!(
                    "the argument {word} can not be put into a command line that has quotes, `$` or \
                     the like of its own"
                )),
                None => Ok(words.join(" ")),
            }
        };
        let all = |words: &[String]| put(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let parts = line.iter().map(|piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Whole if given.is_empty() => Ok(String::new()),
            Piece::Whole => put(&[&given.whole]),
            Piece::Arguments => all(&given.words),
            Piece::Word(number) => all(given.from(*number, self.highest())),
            Piece::Shell(_) | Piece::File(_) => Ok(String::new()),
        });
        parts.collect()
    }
}

fn highest(piece: &Piece) -> usize {
    match piece {
        Piece::Word(number) => *number,
        Piece::Shell(line) => line.iter().map(highest).max().unwrap_or(0),
        Piece::Text(_) | Piece::Whole | Piece::Arguments | Piece::File(_) => 0,
    }
}

/// Collects letters into texts.
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
            true => Err(format!("it runs {shells} commands, at most {MOST_SHELLS} are run")),
            false => Ok(Template { pieces: self.pieces }),
        }
    }
}

/// `$ARGUMENTS` or `$1` to `$9` at the start of a text, and what is behind it. `$10` is money.
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
    (!goes_on(rest, char::is_ascii_digit)).then_some((Piece::Word(number), rest))
}

/// A command line of a Markdown file.
fn placeholders(line: &str) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    let mut rest = line.trim();
    while let Some(letter) = rest.chars().next() {
        match placeholder(rest) {
            Some((piece, behind)) => {
                pieces.push(piece);
                rest = behind;
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

/// What is inside of a brace that is already open, and what is behind it. Braces inside come in pairs.
fn closed(text: &str) -> Option<(&str, &str)> {
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
