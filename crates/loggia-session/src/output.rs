//! How much of a call's output goes into the log: the beginning whole, then now and then the
//! newest lines so that people can watch, at the end the end. What is left out is counted.
//!
//! Output is any bytes; the log has text. The bounds are bounds of the text, because a byte that is
//! no text is shown as a character of three. Holds at most [`TAIL`] bytes, whatever the call prints.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Logged as it comes.
pub const HEAD: usize = 256 * 1024;
/// Logged at the end.
pub const TAIL: usize = 128 * 1024;
/// One glimpse of what runs by between head and tail.
const GLIMPSE: usize = 4 * 1024;
const GLIMPSES: u32 = 30;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

pub struct Piece {
    pub text: String,
    pub skipped: u64,
}

#[derive(Default)]
pub struct OutputBudget {
    head_used: usize,
    head_full: bool,
    /// Bytes of an unfinished UTF-8 character at the end of the last piece.
    partial: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes left out right before the tail.
    skipped: u64,
    glimpses: u32,
    next_glimpse: Option<Instant>,
    pause: Duration,
}

impl OutputBudget {
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Option<Piece> {
        if self.head_full {
            self.hold(bytes);
            return self.glimpse(now);
        }
        let text = self.fill_head(bytes);
        (!text.is_empty()).then_some(Piece { text, skipped: 0 })
    }

    /// What is left to log when the call ends.
    pub fn finish(&mut self) -> Option<Piece> {
        let partial = std::mem::take(&mut self.partial);
        self.hold(&partial);
        let held = self.tail.len();
        (held > 0).then(|| self.newest(held, TAIL))
    }

    /// As much as fits into the head; what does not is held for later.
    fn fill_head(&mut self, bytes: &[u8]) -> String {
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        let complete = whole.len() - incomplete_suffix(whole.iter().rev());
        let (mut text, mut used) = (String::new(), 0);
        for (character, length) in characters(&whole[..complete]) {
            if self.head_used + text.len() + character.len_utf8() > HEAD {
                self.head_full = true;
                break;
            }
            text.push(character);
            used += length;
        }
        self.head_used += text.len();
        let rest = whole.split_off(used);
        if self.head_full {
            self.hold(&rest);
        } else {
            self.partial = rest;
        }
        text
    }

    fn hold(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len() - bytes.len().min(TAIL)..];
        self.skip((self.tail.len() + kept.len()).saturating_sub(TAIL));
        self.skipped += (bytes.len() - kept.len()) as u64;
        self.tail.extend(kept);
    }

    fn skip(&mut self, bytes: usize) {
        self.skipped += bytes as u64;
        self.tail.drain(..bytes);
    }

    fn glimpse(&mut self, now: Instant) -> Option<Piece> {
        let due = *self.next_glimpse.get_or_insert_with(|| now + FIRST_PAUSE);
        let complete = self.tail.len() - incomplete_suffix(self.tail.iter().rev());
        if now < due || self.glimpses >= GLIMPSES || complete == 0 {
            return None;
        }
        self.pause = if self.glimpses == 0 { FIRST_PAUSE } else { self.pause.mul_f32(1.3) };
        self.next_glimpse = Some(now + self.pause);
        self.glimpses += 1;
        Some(self.newest(complete, GLIMPSE))
    }

    /// The newest of the first `held` bytes of the tail, as text of at most `room` bytes. What is
    /// older is skipped.
    fn newest(&mut self, held: usize, room: usize) -> Piece {
        let older = held.saturating_sub(room); // a byte makes at least a byte of text
        self.skip(older);
        // What is left of a character whose beginning was skipped is skipped with it.
        let cut = match self.skipped {
            0 => 0,
            _ => self.tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count(),
        };
        let cut = cut.min(held - older);
        self.skip(cut);
        let bytes: Vec<u8> = self.tail.drain(..held - older - cut).collect();
        let length: usize = characters(&bytes).map(|(character, _)| character.len_utf8()).sum();
        let mut excess = length.saturating_sub(room);
        let mut text = String::with_capacity(length - excess);
        for (character, length) in characters(&bytes) {
            if excess > 0 {
                excess = excess.saturating_sub(character.len_utf8());
                self.skipped += length as u64;
            } else {
                text.push(character);
            }
        }
        Piece { text, skipped: std::mem::take(&mut self.skipped) }
    }
}

/// The characters of `bytes`, each with the number of bytes it stands for.
fn characters(bytes: &[u8]) -> impl Iterator<Item = (char, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|character| (character, character.len_utf8()));
        let invalid = chunk.invalid().len();
        valid.chain((invalid > 0).then_some((char::REPLACEMENT_CHARACTER, invalid)))
    })
}

/// Length of an unfinished character at the end of some bytes, 0 to 3. Takes them from the end.
fn incomplete_suffix<'a>(backwards: impl Iterator<Item = &'a u8>) -> usize {
    for (back, byte) in (1..=3).zip(backwards) {
        let needed = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return 0,
        };
        return if needed > back { back } else { 0 };
    }
    0
}
