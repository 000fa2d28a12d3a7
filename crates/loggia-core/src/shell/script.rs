//! Finds the commands that a shell would run in a line, whatever its form.
//!
//! [`super::plain_commands`] accepts plain lines only. This reader accepts every line that it
//! understands: lists, pipelines, compound commands, functions, substitutions, here-documents. A word
//! whose text is only known once the shell has expanded it keeps a [`Piece::Gap`] in that place.
//!
//! What must not be here: rules, and what a program does with its arguments ([`super::denied`]).

mod word;

/// Nesting of substitutions and compound commands that is followed.
const DEEPEST: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// Any text. It can become several words, or none, if it `splits`.
    Gap {
        splits: bool,
    },
}

/// A word with its quotes resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub pieces: Vec<Piece>,
    /// Some part of it was quoted, so it is no keyword.
    quoted: bool,
    /// `NAME=…`, written in a way that a shell takes for an assignment.
    assigns: bool,
}

impl Word {
    pub fn text(text: &str) -> Self {
        Self::of(vec![Piece::Text(text.to_owned())])
    }

    pub fn gap() -> Self {
        Self::of(vec![Piece::Gap { splits: true }])
    }

    pub fn of(pieces: Vec<Piece>) -> Self {
        Self { pieces, ..Self::default() }
    }

    /// The text, where all of it is known.
    pub fn known(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Gap { .. } => return None,
            }
        }
        Some(text)
    }

    pub fn splits(&self) -> bool {
        self.pieces.contains(&Piece::Gap { splits: true })
    }

    /// Whether a shell takes it for `NAME=…`.
    pub fn assigns(&self) -> bool {
        self.assigns
    }

    fn push(&mut self, character: char) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(character),
            _ => self.pieces.push(Piece::Text(character.to_string())),
        }
    }

    fn push_gap(&mut self, splits: bool) {
        self.pieces.push(Piece::Gap { splits });
    }

    fn append(&mut self, other: Word) {
        for piece in other.pieces {
            match piece {
                Piece::Text(text) => text.chars().for_each(|character| self.push(character)),
                gap @ Piece::Gap { .. } => self.pieces.push(gap),
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

/// A simple command: assignments, words and what it reads, without its redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub assignments: Vec<Word>,
    pub words: Vec<Word>,
    /// A here-document or here-string, or a gap for another redirected input.
    pub input: Option<Word>,
}

/// The reader does not know what a shell would make of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// Every simple command of a line, nested ones included.
pub(super) fn commands(line: &str, depth: usize) -> Read<Vec<Simple>> {
    let mut reader = Reader::new(line, depth)?;
    reader.list(End::Line)?;
    reader.bodies()?;
    Ok(reader.commands)
}

/// The commands that are substituted in a text which a shell expands as if it were in double quotes.
pub(super) fn substituted(text: &str, depth: usize) -> Read<Vec<Simple>> {
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
struct Here {
    delimiter: String,
    quoted: bool,
    tabs: bool,
    command: usize,
}

struct Reader {
    text: Vec<char>,
    at: usize,
    depth: usize,
    commands: Vec<Simple>,
    here: Vec<Here>,
}

impl Reader {
    fn new(text: &str, depth: usize) -> Read<Self> {
        if depth > DEEPEST {
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

    fn takes(&mut self, text: &str) -> bool {
        let found =
            text.chars().enumerate().all(|(ahead, wanted)| self.peek(ahead) == Some(wanted));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Read<()> {
        if self.next() == Some(wanted) { Ok(()) } else { Err(Unreadable) }
    }

    fn blanks(&mut self) {
        while self.takes(" ") || self.takes("\t") || self.takes("\\\n") {}
    }

    /// Blanks, line ends and comments.
    fn space(&mut self) -> Read<()> {
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

    fn line_end(&mut self) -> Read<()> {
        self.at += 1;
        self.bodies()
    }

    fn nested(&mut self, end: End) -> Read<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
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

    fn list(&mut self, end: End) -> Read<Stop> {
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
                    let _ = self.takes(";;&") || self.takes(";;") || self.takes(";&");
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
    fn parenthesis(&mut self) -> Read<()> {
        if self.peek(1) == Some('(') && self.tried(|reader| reader.arithmetic(2)).is_ok() {
            return Ok(());
        }
        self.at += 1;
        self.nested(End::Parenthesis)
    }

    /// Undone where it fails.
    fn tried<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
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

    /// After so many opening characters, up to `))`.
    fn arithmetic(&mut self, opening: usize) -> Read<()> {
        self.at += opening;
        let mut open = 0_usize;
        let mut inside = Word::default();
        loop {
            match self.next().ok_or(Unreadable)? {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' => return self.expect(')'),
                '\\' => drop(self.next()),
                '$' => self.dollar(&mut inside, true)?,
                '`' => self.backquoted(&mut inside, true)?,
                _ => {}
            }
        }
    }

    /// One simple command, or the keyword that begins or ends a compound one.
    fn simple(&mut self) -> Read<Stop> {
        let slot = self.commands.len();
        self.commands.push(Simple::default());
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
                                if self.takes("(") {
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

    /// A parenthesis behind words: `for ((…))`, `name ()`, or a group behind `time`.
    fn after_word(&mut self, words: &[Word]) -> Read<()> {
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

    /// `case WORD in PATTERN) … ;; esac`, behind its first word.
    fn case(&mut self) -> Read<()> {
        self.blanks();
        self.word()?;
        self.space()?;
        if self.word()?.keyword() != Some("in") {
            return Err(Unreadable);
        }
        loop {
            self.space()?;
            if self.tried(|reader| reader.esac()).is_ok() {
                return Ok(());
            }
            let _ = self.takes("(");
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
            if self.depth > DEEPEST {
                return Err(Unreadable);
            }
            let stop = self.list(End::Branch)?;
            self.depth -= 1;
            if stop == Stop::Esac {
                return Ok(());
            }
        }
    }

    fn esac(&mut self) -> Read<()> {
        if self.word()?.keyword() == Some("esac") { Ok(()) } else { Err(Unreadable) }
    }

    /// `[[ … ]]`, behind its first word. Operators separate the words in it.
    fn test(&mut self) -> Read<()> {
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

    /// The number or `{name}` in front of a redirection.
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

    fn redirection(&mut self, command: usize) -> Read<()> {
        const OPERATORS: [&str; 12] =
            ["<<<", "<<-", "<<", "<>", "<&", "<", "&>>", "&>", ">>", ">|", ">&", ">"];
        let operator =
            OPERATORS.into_iter().find(|operator| self.takes(operator)).ok_or(Unreadable)?;
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
                self.here.push(Here { delimiter, quoted: target.quoted, tabs, command });
                return Ok(());
            }
            "<<<" => target,
            "<" | "<>" | "<&" => Word::gap(),
            _ => return Ok(()),
        };
        if let Some(command) = self.commands.get_mut(command) {
            command.input = Some(input);
        }
        Ok(())
    }

    /// The bodies of the here-documents that the line before has named.
    fn bodies(&mut self) -> Read<()> {
        for Here { delimiter, quoted, tabs, command } in std::mem::take(&mut self.here) {
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

/// `for NAME do …`, which takes the place of `for NAME in LIST; do …`.
fn is_loop_without_list(words: &[Word]) -> bool {
    matches!(words, [first, _] if matches!(first.keyword(), Some("for" | "select")))
}
