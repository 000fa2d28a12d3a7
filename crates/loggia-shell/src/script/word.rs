//! Reads the words of a line: quotes, expansions and substitutions.
//!
//! Not here: commands and their separators.

use super::{End, Piece, ReadResult, Reader, Unreadable, Word, commands};

impl Reader {
    /// Reads text in which expansions take place, to its end.
    pub(super) fn body(&mut self) -> ReadResult<Word> {
        let mut word = Word::default();
        while let Some(character) = self.next() {
            match character {
                '\\' => self.escaped(&mut word, "$`\\"),
                '$' => self.dollar(&mut word, true)?,
                '`' => self.backquoted(&mut word, true)?,
                _ => word.push(character),
            }
        }
        Ok(word)
    }

    /// After a backslash that only escapes `special` characters.
    fn escaped(&mut self, word: &mut Word, special: &str) {
        match self.peek(0) {
            Some('\n') => self.at += 1,
            Some(character) if special.contains(character) => {
                self.at += 1;
                word.push(character);
            }
            _ => word.push('\\'),
        }
    }

    pub(super) fn word(&mut self) -> ReadResult<Word> {
        let mut word = Word::default();
        // Set after an open brace: whether it contains a list or a range.
        let mut brace: Option<bool> = None;
        let start = self.at;
        while let Some(character) = self.peek(0) {
            match character {
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.nested(End::Parenthesis)?;
                    word.push_unknown(false);
                    continue;
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                '(' if word.assigns && self.text.get(self.at - 1) == Some(&'=') => {
                    self.array()?;
                    word.push_unknown(false);
                    continue;
                }
                // An extended file name pattern.
                '(' if matches!(
                    self.text.get(start..self.at),
                    Some([.., '?' | '*' | '+' | '@' | '!'])
                ) =>
                {
                    return Err(Unreadable);
                }
                '(' => break,
                _ => self.at += 1,
            }
            match character {
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(escaped) => {
                        word.quoted = true;
                        word.push(escaped);
                    }
                    None => word.push('\\'),
                },
                '\'' => {
                    word.quoted = true;
                    self.single_quoted(&mut word)?;
                }
                '"' => {
                    word.quoted = true;
                    self.double_quoted(&mut word)?;
                }
                '$' => self.dollar(&mut word, false)?,
                '`' => self.backquoted(&mut word, false)?,
                '*' | '?' => word.push_unknown(true),
                '[' if !word.quoted && self.subscript(&mut word) => {}
                '[' if self.word_ends() || self.peek(0) == Some('[') => word.push('['),
                '[' => word.push_unknown(true),
                '~' if word.pieces.is_empty() && !word.quoted => word.push_unknown(false),
                '=' => {
                    word.assigns |= !word.quoted && is_target(&word);
                    word.push('=');
                }
                '{' => {
                    brace = brace.or(Some(false));
                    word.push('{');
                }
                ',' | '.' => {
                    let ranges = character == ',' || self.peek(0) == Some('.');
                    brace = brace.map(|lists| lists || ranges);
                    word.push(character);
                }
                '}' => match brace {
                    Some(true) => {
                        brace = None;
                        braces_expand(&mut word);
                    }
                    _ => word.push('}'),
                },
                _ => word.push(character),
            }
        }
        if self.at == start { Err(Unreadable) } else { Ok(word) }
    }

    fn word_ends(&self) -> bool {
        matches!(
            self.peek(0),
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
        )
    }

    /// `NAME[…]=`, where the subscript is a simple one.
    fn subscript(&mut self, word: &mut Word) -> bool {
        if !is_target(word) {
            return false;
        }
        let simple = |one: char| one.is_ascii_alphanumeric() || "_@*+-$ ".contains(one);
        let mut ahead = 0;
        while self.peek(ahead).is_some_and(simple) {
            ahead += 1;
        }
        let assigns = self.peek(ahead) == Some(']')
            && (self.peek(ahead + 1) == Some('=')
                || self.peek(ahead + 1) == Some('+') && self.peek(ahead + 2) == Some('='));
        if assigns {
            self.at += ahead + 1;
        }
        assigns
    }

    /// The elements of an array, with their parentheses.
    fn array(&mut self) -> ReadResult<()> {
        self.at += 1;
        loop {
            self.space()?;
            match self.peek(0) {
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => drop(self.word()?),
            }
        }
    }

    fn single_quoted(&mut self, word: &mut Word) -> ReadResult<()> {
        // Empty quotes are a word, too.
        word.pieces.push(Piece::Text(String::new()));
        loop {
            match self.next().ok_or(Unreadable)? {
                '\'' => return Ok(()),
                character => word.push(character),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> ReadResult<()> {
        word.pieces.push(Piece::Text(String::new()));
        loop {
            match self.next().ok_or(Unreadable)? {
                '"' => return Ok(()),
                '\\' => self.escaped(word, "$`\"\\"),
                '$' => self.dollar(word, true)?,
                '`' => self.backquoted(word, true)?,
                character => word.push(character),
            }
        }
    }

    /// After a dollar sign.
    pub(super) fn dollar(&mut self, word: &mut Word, quoted: bool) -> ReadResult<()> {
        match self.peek(0) {
            Some('(') => {
                let arithmetic = self.peek(1) == Some('(')
                    && self.attempt(|reader| reader.arithmetic(2)).is_ok();
                if !arithmetic {
                    self.at += 1;
                    self.nested(End::Parenthesis)?;
                }
                word.push_unknown(!quoted);
            }
            Some('{') => {
                self.at += 1;
                self.parameter(word, quoted)?;
            }
            Some('[') => {
                self.at += 1;
                self.balanced('[', ']')?;
                word.push_unknown(!quoted);
            }
            Some('\'') if !quoted => {
                self.at += 1;
                word.quoted = true;
                self.ansi_quoted(word)?;
            }
            Some('"') if !quoted => {
                self.at += 1;
                word.quoted = true;
                self.double_quoted(word)?;
            }
            Some(character) if character.is_ascii_alphabetic() || character == '_' => {
                while self.peek(0).is_some_and(|one| one.is_ascii_alphanumeric() || one == '_') {
                    self.at += 1;
                }
                word.push_unknown(!quoted);
            }
            Some(character) if character.is_ascii_digit() || "@*#?-$!".contains(character) => {
                self.at += 1;
                word.push_unknown(!quoted || character == '@');
            }
            _ => word.push('$'),
        }
        Ok(())
    }

    /// After `${`.
    fn parameter(&mut self, word: &mut Word, quoted: bool) -> ReadResult<()> {
        // `${ command; }` and `${| command; }` of newer shells run commands.
        if matches!(self.peek(0), Some(' ' | '\t' | '\n' | '|')) {
            return Err(Unreadable);
        }
        let mut many = false;
        let mut inside = Word::default();
        loop {
            match self.next().ok_or(Unreadable)? {
                '}' => break,
                '\\' => drop(self.next()),
                // Whether a single quote quotes here depends on the operator.
                '\'' if quoted => return Err(Unreadable),
                '\'' => self.single_quoted(&mut inside)?,
                '"' => self.double_quoted(&mut inside)?,
                '$' => self.dollar(&mut inside, quoted)?,
                '`' => self.backquoted(&mut inside, quoted)?,
                '<' | '>' if !quoted && self.peek(0) == Some('(') => {
                    self.at += 1;
                    self.nested(End::Parenthesis)?;
                }
                '@' => many = true,
                _ => {}
            }
        }
        word.push_unknown(!quoted || many);
        Ok(())
    }

    /// After a backquote.
    pub(super) fn backquoted(&mut self, word: &mut Word, quoted: bool) -> ReadResult<()> {
        let mut line = String::new();
        loop {
            match self.next().ok_or(Unreadable)? {
                '`' => break,
                '\\' => match self.next().ok_or(Unreadable)? {
                    escaped @ ('`' | '\\' | '$') => line.push(escaped),
                    '"' if quoted => line.push('"'),
                    '\n' => {}
                    other => line.extend(['\\', other]),
                },
                character => line.push(character),
            }
        }
        self.commands.append(&mut commands(&line, self.depth + 1)?);
        word.push_unknown(!quoted);
        Ok(())
    }

    /// After `$'`.
    fn ansi_quoted(&mut self, word: &mut Word) -> ReadResult<()> {
        word.pieces.push(Piece::Text(String::new()));
        let mut cut = false;
        let mut inside = Word::default();
        loop {
            match self.next().ok_or(Unreadable)? {
                '\'' => break,
                '\\' => {
                    let mut one = Word::default();
                    cut |= self.ansi_escape(&mut one)?;
                    if !cut {
                        inside.append(one);
                    }
                }
                _ if cut => {}
                character => inside.push(character),
            }
        }
        word.append(inside);
        Ok(())
    }

    /// One escape of `$'…'`. True if it is NUL, which ends the string.
    fn ansi_escape(&mut self, word: &mut Word) -> ReadResult<bool> {
        let escape = self.next().ok_or(Unreadable)?;
        if let Some(plain) = plain_escape(escape) {
            word.push(plain);
            return Ok(false);
        }
        let (base, most) = match escape {
            '0'..='7' => {
                self.at -= 1;
                (8, 3)
            }
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            'c' => {
                self.next().ok_or(Unreadable)?;
                word.push_unknown(false);
                return Ok(false);
            }
            other => {
                word.push('\\');
                word.push(other);
                return Ok(false);
            }
        };
        let (mut value, mut digits) = (0_u32, 0);
        while digits < most
            && let Some(digit) = self.peek(0).and_then(|one| one.to_digit(base))
        {
            value = value.wrapping_mul(base).wrapping_add(digit);
            digits += 1;
            self.at += 1;
        }
        match (digits, char::from_u32(value)) {
            // Without digits, bash keeps the letters.
            (0, _) => {
                word.push('\\');
                word.push(escape);
            }
            (_, Some('\0')) => return Ok(true),
            (_, Some(character)) if character.is_ascii() || matches!(escape, 'u' | 'U') => {
                word.push(character);
            }
            // One byte of a character, or `\x{…}`.
            _ => word.push_unknown(false),
        }
        Ok(false)
    }
}

fn plain_escape(escape: char) -> Option<char> {
    Some(match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'e' | 'E' => '\u{1b}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '?' => escape,
        _ => return None,
    })
}

/// Whether the word so far is a variable name, so that `=` or `[` can follow.
fn is_target(word: &Word) -> bool {
    let [Piece::Text(name)] = word.pieces.as_slice() else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let letter = |one: char| one.is_ascii_alphanumeric() || one == '_';
    !word.quoted
        && !name.is_empty()
        && name.chars().all(letter)
        && !name.starts_with(|one: char| one.is_ascii_digit())
}

/// Braces with a list or a range expand to several words: the text from the brace on is unknown.
fn braces_expand(word: &mut Word) {
    let Some(piece) = word
        .pieces
        .iter()
        .position(|piece| matches!(piece, Piece::Text(text) if text.contains('{')))
    else {
        return;
    };
    if let Some(Piece::Text(text)) = word.pieces.get_mut(piece) {
        let end = text.find('{').unwrap_or(text.len());
        text.truncate(end);
    }
    word.pieces.truncate(piece + 1);
    word.push_unknown(true);
}
