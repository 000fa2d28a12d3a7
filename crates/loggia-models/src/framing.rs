//! Cuts the bytes of a response into pieces: server-sent events or lines. Bytes may arrive cut anywhere,
//! also inside a character.

use crate::protocol::{Framing, Piece};

/// Bytes of one piece. A larger one is an error.
const PIECE_LIMIT: usize = 32 * 1024 * 1024;

#[derive(Debug)]
pub struct Splitter {
    framing: Framing,
    /// The unfinished line.
    line: Vec<u8>,
    /// A carriage return ended the last line, so a newline right after it belongs to it.
    after_return: bool,
    piece: Piece,
    /// The event under way has a `data` field.
    has_data: bool,
    begun: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("an event is larger than {PIECE_LIMIT} bytes")]
    TooLarge,
    #[error("an event is not UTF-8 text")]
    NotText,
}

impl Splitter {
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            line: Vec::new(),
            after_return: false,
            piece: Piece::default(),
            has_data: false,
            begun: false,
        }
    }

    /// Takes the next bytes and appends the pieces that are complete.
    pub fn push(&mut self, bytes: &[u8], pieces: &mut Vec<Piece>) -> Result<(), SplitError> {
        let mut rest = bytes;
        if std::mem::take(&mut self.after_return) && rest.first() == Some(&b'\n') {
            rest = rest.get(1..).unwrap_or_default();
        }
        while let Some(end) = self.line_end(rest) {
            let (line, behind) = rest.split_at(end);
            self.extend(line)?;
            let ending = behind.first().copied();
            rest = behind.get(1..).unwrap_or_default();
            if ending == Some(b'\r') {
                match rest.split_first() {
                    Some((b'\n', behind)) => rest = behind,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8(line).map_err(|_| SplitError::NotText)?;
            self.line_ended(&line, pieces)?;
        }
        self.extend(rest)
    }

    /// The end of the response. The last line of a framing by lines may lack its newline; an event without
    /// its empty line is not complete.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) -> Result<(), SplitError> {
        let line = std::mem::take(&mut self.line);
        if self.framing == Framing::Lines && !line.is_empty() {
            let line = String::from_utf8(line).map_err(|_| SplitError::NotText)?;
            self.line_ended(&line, pieces)?;
        }
        Ok(())
    }

    fn line_end(&self, bytes: &[u8]) -> Option<usize> {
        match self.framing {
            Framing::Events => memchr::memchr2(b'\n', b'\r', bytes),
            Framing::Lines => memchr::memchr(b'\n', bytes),
        }
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        if self.line.len() + self.piece.data.len() + bytes.len() > PIECE_LIMIT {
            return Err(SplitError::TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line_ended(&mut self, line: &str, pieces: &mut Vec<Piece>) -> Result<(), SplitError> {
        let first = !std::mem::replace(&mut self.begun, true);
        let line = if first { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        if self.framing == Framing::Lines {
            let data = line.trim();
            if !data.is_empty() {
                pieces.push(Piece { event: String::new(), data: data.to_owned() });
            }
            return Ok(());
        }
        if line.is_empty() {
            let piece = std::mem::take(&mut self.piece);
            if std::mem::take(&mut self.has_data) {
                pieces.push(piece);
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.piece.data.push('\n');
                }
                self.piece.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.piece.event),
            // A comment, or a field without a meaning here.
            _ => {}
        }
        Ok(())
    }
}
