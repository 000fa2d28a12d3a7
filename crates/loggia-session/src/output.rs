//! Limits how much of a call's output goes into the log: the beginning, then a sample of the newest bytes from time to
//! time so that people can watch, and the end. The bytes that are left out are counted.
//!
//! Output is bytes, the log has text. The limits apply to the text, because an invalid byte becomes a replacement
//! character of three bytes. Keeps at most [`TAIL`] bytes in memory.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes that are logged as they arrive.
pub const HEAD: usize = 256 * 1024;
/// Bytes that are logged at the end.
pub const TAIL: usize = 128 * 1024;
/// Bytes of one sample between head and tail.
const SAMPLE: usize = 4 * 1024;
const SAMPLES: u32 = 30;
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
    samples: u32,
    next_sample: Option<Instant>,
    pause: Duration,
}

impl OutputBudget {
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Option<Piece> {
        if self.head_full {
            self.hold(bytes);
            return self.sample(now);
        }
        let text = self.fill_head(bytes);
        (!text.is_empty()).then_some(Piece { text, skipped: 0 })
    }

    /// The rest to log when the call ends.
    pub fn finish(&mut self) -> Option<Piece> {
        let partial = std::mem::take(&mut self.partial);
        self.hold(&partial);
        let held = self.tail.len();
        (held > 0).then(|| self.newest(held, TAIL))
    }

    /// Returns the text that fits into the head, and holds the other bytes for later.
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

    fn sample(&mut self, now: Instant) -> Option<Piece> {
        let due = *self.next_sample.get_or_insert_with(|| now + FIRST_PAUSE);
        let complete = self.tail.len() - incomplete_suffix(self.tail.iter().rev());
        if now < due || self.samples >= SAMPLES || complete == 0 {
            return None;
        }
        self.pause = if self.samples == 0 { FIRST_PAUSE } else { self.pause.mul_f32(1.3) };
        self.next_sample = Some(now + self.pause);
        self.samples += 1;
        Some(self.newest(complete, SAMPLE))
    }

    /// The newest of the first `held` bytes of the tail, as text of at most `limit` bytes. Skips older bytes.
    fn newest(&mut self, held: usize, limit: usize) -> Piece {
        let older = held.saturating_sub(limit); // a byte becomes at least a byte of text
        self.skip(older);
        // Skips the rest of a character whose first byte was skipped.
        let cut = match self.skipped {
            0 => 0,
            _ => self.tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count(),
        };
        let cut = cut.min(held - older);
        self.skip(cut);
        let bytes: Vec<u8> = self.tail.drain(..held - older - cut).collect();
        let length: usize = characters(&bytes).map(|(character, _)| character.len_utf8()).sum();
        let mut excess = length.saturating_sub(limit);
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

/// The characters of `bytes`, each with the number of bytes it was made from.
fn characters(bytes: &[u8]) -> impl Iterator<Item = (char, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|character| (character, character.len_utf8()));
        let invalid = chunk.invalid().len();
        valid.chain((invalid > 0).then_some((char::REPLACEMENT_CHARACTER, invalid)))
    })
}

/// The length of an unfinished character at the end, 0 to 3. Takes the bytes in reverse order.
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
