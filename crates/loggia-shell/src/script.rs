//! Finds the commands that a shell would run in a line of any form.
//!
//! [`crate::plain_commands`] accepts plain lines only. This reader accepts every line that it
//! understands: lists, pipelines, compound commands, functions, substitutions, here-documents. Text
//! that is only known once the shell has expanded it becomes a [`Piece::Unknown`].
//!
//! Not here: rules, and what a program does with its arguments ([`crate::denied`]).

mod word;

/// Nesting of substitutions and compound commands. A deeper line is unreadable.
const MAX_DEPTH: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// Any text. If it `splits`, it can become several words or none.
    Unknown {
        splits: bool,
    },
}

/// A word with its quotes resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub pieces: Vec<Piece>,
    /// Some part of it was quoted, so it is not a keyword.
    quoted: bool,
    /// A shell reads it as an assignment, `NAME=…`.
    assigns: bool,
}

impl Word {
    pub fn text(text: &str) -> Self {
        Self::from_pieces(vec![Piece::Text(text.to_owned())])
    }

    pub fn unknown() -> Self {
        Self::from_pieces(vec![Piece::Unknown { splits: true }])
    }

    pub fn from_pieces(pieces: Vec<Piece>) -> Self {
        Self { pieces, ..Self::default() }
    }

    /// The text, if all of it is known.
    pub fn known(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Unknown { .. } => return None,
            }
        }
        Some(text)
    }

    pub fn splits(&self) -> bool {
        self.pieces.contains(&Piece::Unknown { splits: true })
    }

    pub fn assigns(&self) -> bool {
        self.assigns
    }

    fn push(&mut self, character: char) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(character),
            _ => self.pieces.push(Piece::Text(character.to_string())),
        }
    }

    fn push_unknown(&mut self, splits: bool) {
        self.pieces.push(Piece::Unknown { splits });
    }

    fn append(&mut self, other: Word) {
        for piece in other.pieces {
            match piece {
                Piece::Text(text) => text.chars().for_each(|character| self.push(character)),
                unknown @ Piece::Unknown { .. } => self.pieces.push(unknown),
            }
        }
    }

    fn keyword(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] if !self.quoted => Some(text),
            _ => None,
        }
    }
}

/// A simple command: assignments, words and input, without its redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub assignments: Vec<Word>,
    pub words: Vec<Word>,
    /// A here-document or here-string; unknown text for any other redirected input.
    pub input: Option<Word>,
}

/// The reader does not know how a shell would read the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

type ReadResult<T> = Result<T, Unreadable>;

/// Every simple command of a line, nested ones included.
pub(super) fn commands(line: &str, depth: usize) -> ReadResult<Vec<SimpleCommand>> {
    let mut reader = Reader::new(line, depth)?;
    reader.list(End::Line)?;
    reader.here_documents()?;
    Ok(reader.commands)
}

/// The command substitutions in a text that a shell expands like a text in double quotes.
pub(super) fn substituted(text: &str, depth: usize) -> ReadResult<Vec<SimpleCommand>> {
    let mut reader = Reader::new(text, depth)?;
    reader.body()?;
    Ok(reader.commands)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Line,
    /// A closing parenthesis.
    Parenthesis,
    /// The end of a branch of `case`.
    Branch,
}

#[derive(PartialEq, Eq)]
enum Stop {
    End,
    Esac,
}

/// A here-document whose body begins after the line.
struct HereDocument {
    delimiter: String,
    quoted: bool,
    tabs: bool,
    command: usize,
}

struct Reader {
    text: Vec<char>,
    at: usize,
    depth: usize,
    commands: Vec<SimpleCommand>,
    here: Vec<HereDocument>,
}

impl Reader {
    fn new(text: &str, depth: usize) -> ReadResult<Self> {
        if depth > MAX_DEPTH {
            return Err(Unreadable);
        }
        let text = text.chars().collect();
        Ok(Self { text, at: 0, depth, commands: Vec::new(), here: Vec::new() })
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek(0)?;
        self.at += 1;
        Some(next)
    }

    fn accept(&mut self, text: &str) -> bool {
        let found =
            text.chars().enumerate().all(|(ahead, wanted)| self.peek(ahead) == Some(wanted));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> ReadResult<()> {
        if self.next() == Some(wanted) { Ok(()) } else { Err(Unreadable) }
    }

    fn blanks(&mut self) {
        while self.accept(" ") || self.accept("\t") || self.accept("\\\n") {}
    }

    /// Blanks, line ends and comments.
    fn space(&mut self) -> ReadResult<()> {
        loop {
            self.blanks();
            match self.peek(0) {
                Some('\n') => self.line_end()?,
                Some('#') => self.comment(),
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) {
        while self.peek(0).is_some_and(|character| character != '\n') {
            self.at += 1;
        }
    }

    fn line_end(&mut self) -> ReadResult<()> {
        self.at += 1;
        self.here_documents()
    }

    fn nested(&mut self, end: End) -> ReadResult<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unreadable);
        }
        let pending = std::mem::take(&mut self.here);
        self.list(end)?;
        if !self.here.is_empty() {
            return Err(Unreadable);
        }
        self.here = pending;
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self, end: End) -> ReadResult<Stop> {
        loop {
            self.blanks();
            match self.peek(0) {
                None if end == End::Line => return Ok(Stop::End),
                None => return Err(Unreadable),
                Some('\n') => self.line_end()?,
                Some('#') => self.comment(),
                Some(')') if end == End::Parenthesis => {
                    self.at += 1;
                    return Ok(Stop::End);
                }
                Some(')') => return Err(Unreadable),
                Some(';') if matches!(self.peek(1), Some(';' | '&')) => {
                    if end != End::Branch {
                        return Err(Unreadable);
                    }
                    let _ = self.accept(";;&") || self.accept(";;") || self.accept(";&");
                    return Ok(Stop::End);
                }
                Some('&') if self.peek(1) == Some('>') => {
                    if self.simple()? == Stop::Esac {
                        return Ok(Stop::Esac);
                    }
                }
                Some(';' | '&' | '|') => self.at += 1,
                Some('(') => self.parenthesis()?,
                Some(_) => {
                    if self.simple()? == Stop::Esac {
                        return if end == End::Branch { Ok(Stop::Esac) } else { Err(Unreadable) };
                    }
                }
            }
        }
    }

    /// A subshell, or `((…))`.
    fn parenthesis(&mut self) -> ReadResult<()> {
        if self.peek(1) == Some('(') && self.attempt(|reader| reader.arithmetic(2)).is_ok() {
            return Ok(());
        }
        self.at += 1;
        self.nested(End::Parenthesis)
    }

    /// Restores the state if reading fails.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> ReadResult<T>) -> ReadResult<T> {
        let (at, commands, here, depth) =
            (self.at, self.commands.len(), self.here.len(), self.depth);
        let read = read(self);
        if read.is_err() {
            self.at = at;
            self.commands.truncate(commands);
            self.here.truncate(here);
            self.depth = depth;
        }
        read
    }

    /// Skips `opening` characters, then reads up to `))`.
    fn arithmetic(&mut self, opening: usize) -> ReadResult<()> {
        self.at += opening;
        self.balanced('(', ')')?;
        self.expect(')')
    }

    /// Reads an arithmetic expression up to the closing bracket that has no opening one.
    fn balanced(&mut self, opening: char, closing: char) -> ReadResult<()> {
        let mut open = 0_usize;
        let mut inside = Word::default();
        loop {
            match self.next().ok_or(Unreadable)? {
                character if character == opening => open += 1,
                character if character == closing && open > 0 => open -= 1,
                character if character == closing => return Ok(()),
                '\\' => drop(self.next()),
                '$' => self.dollar(&mut inside, true)?,
                '`' => self.backquoted(&mut inside, true)?,
                _ => {}
            }
        }
    }

    /// One simple command, or the keyword that begins or ends a compound one.
    fn simple(&mut self) -> ReadResult<Stop> {
        let slot = self.commands.len();
        self.commands.push(SimpleCommand::default());
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.blanks();
            match self.peek(0) {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if self.peek(1) == Some('>') => self.redirection(slot)?,
                Some('&') => break,
                Some('#') => self.comment(),
                Some('<' | '>') if self.peek(1) != Some('(') => self.redirection(slot)?,
                Some('(') => {
                    self.after_word(&words)?;
                    break;
                }
                Some(_) if self.descriptor() => self.redirection(slot)?,
                Some(_) => {
                    let word = self.word()?;
                    if words.is_empty() {
                        match word.keyword() {
                            Some("esac") => return Ok(Stop::Esac),
                            Some("case") => {
                                self.case()?;
                                continue;
                            }
                            Some("[[") => {
                                self.test()?;
                                continue;
                            }
                            Some("function") => {
                                self.blanks();
                                self.word()?;
                                self.blanks();
                                if self.accept("(") {
                                    self.blanks();
                                    self.expect(')')?;
                                }
                                break;
                            }
                            Some(
                                "!" | "{" | "}" | "if" | "then" | "else" | "elif" | "fi" | "do"
                                | "done" | "while" | "until",
                            ) => continue,
                            _ => {}
                        }
                        if word.assigns {
                            self.assign(slot, word);
                            continue;
                        }
                    } else if is_loop_without_list(&words) && word.keyword() == Some("do") {
                        break;
                    }
                    words.push(word);
                }
            }
        }
        if let Some(command) = self.commands.get_mut(slot) {
            command.words = words;
        }
        Ok(Stop::End)
    }

    fn assign(&mut self, slot: usize, word: Word) {
        if let Some(command) = self.commands.get_mut(slot) {
            command.assignments.push(word);
        }
    }

    /// A parenthesis after words: `for ((…))`, `name ()`, or a group after `time`.
    fn after_word(&mut self, words: &[Word]) -> ReadResult<()> {
        let only = match words {
            [only] => only.keyword(),
            _ => None,
        };
        match (only, self.peek(1)) {
            (Some("for"), Some('(')) => self.arithmetic(2),
            (None, _) | (Some("time" | "coproc"), _) => Ok(()),
            (Some(_), _) => {
                self.at += 1;
                self.blanks();
                self.expect(')')
            }
        }
    }

    /// `case WORD in PATTERN) … ;; esac`, after the word `case`.
    fn case(&mut self) -> ReadResult<()> {
        self.blanks();
        self.word()?;
        self.space()?;
        if self.word()?.keyword() != Some("in") {
            return Err(Unreadable);
        }
        loop {
            self.space()?;
            if self.attempt(|reader| reader.esac()).is_ok() {
                return Ok(());
            }
            let _ = self.accept("(");
            loop {
                self.blanks();
                self.word()?;
                self.blanks();
                match self.next() {
                    Some('|') => {}
                    Some(')') => break,
                    _ => return Err(Unreadable),
                }
            }
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(Unreadable);
            }
            let stop = self.list(End::Branch)?;
            self.depth -= 1;
            if stop == Stop::Esac {
                return Ok(());
            }
        }
    }

    fn esac(&mut self) -> ReadResult<()> {
        if self.word()?.keyword() == Some("esac") { Ok(()) } else { Err(Unreadable) }
    }

    /// `[[ … ]]`, after the `[[`. Operators separate the words in it.
    fn test(&mut self) -> ReadResult<()> {
        loop {
            self.space()?;
            match self.peek(0) {
                None => return Err(Unreadable),
                Some('<' | '>') if self.peek(1) != Some('(') => self.at += 1,
                Some('&' | '|' | '(' | ')' | ';') => self.at += 1,
                Some(_) => {
                    if self.word()?.keyword() == Some("]]") {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The number or `{name}` before a redirection.
    fn descriptor(&mut self) -> bool {
        let mut ahead = 0;
        let digit = |character: Option<char>| character.is_some_and(|one| one.is_ascii_digit());
        let name = |character: Option<char>| {
            character.is_some_and(|one| one.is_ascii_alphanumeric() || one == '_')
        };
        if self.peek(0) == Some('{') {
            ahead = 1;
            while name(self.peek(ahead)) {
                ahead += 1;
            }
            if ahead == 1 || self.peek(ahead) != Some('}') {
                return false;
            }
            ahead += 1;
        } else {
            while digit(self.peek(ahead)) {
                ahead += 1;
            }
        }
        let redirects = ahead > 0
            && matches!(self.peek(ahead), Some('<' | '>'))
            && self.peek(ahead + 1) != Some('(');
        if redirects {
            self.at += ahead;
        }
        redirects
    }

    fn redirection(&mut self, command: usize) -> ReadResult<()> {
        const OPERATORS: [&str; 12] =
            ["<<<", "<<-", "<<", "<>", "<&", "<", "&>>", "&>", ">>", ">|", ">&", ">"];
        let operator =
            OPERATORS.into_iter().find(|operator| self.accept(operator)).ok_or(Unreadable)?;
        self.blanks();
        if matches!(self.peek(0), None | Some('\n' | ';' | '|' | '&' | ')' | '(')) {
            return Err(Unreadable);
        }
        let target = self.word()?;
        if target.pieces.is_empty() && !target.quoted {
            return Err(Unreadable);
        }
        let input = match operator {
            "<<" | "<<-" => {
                let delimiter = target.known().ok_or(Unreadable)?;
                let tabs = operator == "<<-";
                self.here.push(HereDocument { delimiter, quoted: target.quoted, tabs, command });
                return Ok(());
            }
            "<<<" => target,
            "<" | "<>" | "<&" => Word::unknown(),
            _ => return Ok(()),
        };
        if let Some(command) = self.commands.get_mut(command) {
            command.input = Some(input);
        }
        Ok(())
    }

    /// The bodies of the here-documents that the previous line started.
    fn here_documents(&mut self) -> ReadResult<()> {
        for HereDocument { delimiter, quoted, tabs, command } in std::mem::take(&mut self.here) {
            let mut body = String::new();
            while self.at < self.text.len() {
                let mut line = String::new();
                loop {
                    let part = self.physical_line();
                    let backslashes = part.chars().rev().take_while(|one| *one == '\\').count();
                    let joined = !quoted && backslashes % 2 == 1 && self.at < self.text.len();
                    line.push_str(part.get(..part.len() - usize::from(joined)).unwrap_or_default());
                    if !joined {
                        break;
                    }
                }
                let line = if tabs { line.trim_start_matches('\t') } else { &line };
                if line == delimiter {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            let word = match quoted {
                true => Word::text(&body),
                false => {
                    let mut inside = Reader::new(&body, self.depth + 1)?;
                    let word = inside.body()?;
                    self.commands.append(&mut inside.commands);
                    word
                }
            };
            if let Some(command) = self.commands.get_mut(command) {
                command.input = Some(word);
            }
        }
        Ok(())
    }

    fn physical_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(character) = self.next() {
            if character == '\n' {
                break;
            }
            line.push(character);
        }
        line
    }
}

/// `for NAME do …`, the form without `in LIST`.
fn is_loop_without_list(words: &[Word]) -> bool {
    matches!(words, [first, _] if matches!(first.keyword(), Some("for" | "select")))
}
