//! The part of a command's output that its result contains: the beginning and the end. Bytes between
//! them are counted.

use std::collections::VecDeque;

use super::super::text::incomplete_tail;

const HEAD: usize = 16 * 1024;
const TAIL: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Excerpt {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let (passed, kept) = rest.split_at(rest.len().saturating_sub(TAIL));
        let surplus = (self.tail.len() + kept.len()).saturating_sub(TAIL);
        self.tail.drain(..surplus);
        self.tail.extend(kept);
        self.left_out += (passed.len() + surplus) as u64;
    }

    pub(super) fn into_text(self) -> String {
        let (mut bytes, tail) = (self.head, Vec::from(self.tail));
        if self.left_out == 0 {
            bytes.extend(tail);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        // Characters cut in half are left out.
        bytes.truncate(bytes.len() - incomplete_tail(&bytes));
        let start =
            tail.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
        let head = String::from_utf8_lossy(&bytes);
        let tail = String::from_utf8_lossy(tail.get(start..).unwrap_or_default());
        format!("{head}\n… {} bytes left out …\n{tail}", self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &[&[u8]]) -> String {
        let mut excerpt = Excerpt::default();
        for piece in pieces {
            excerpt.push(piece);
        }
        excerpt.into_text()
    }

    #[test]
    fn short_output_is_kept_whole() {
        assert_eq!(text(&[b"one ", b"two"]), "one two");
        let whole = vec![b'x'; HEAD + TAIL];
        assert_eq!(text(&[&whole]).len(), HEAD + TAIL);
    }

    #[test]
    fn the_middle_is_counted_however_it_arrives() {
        let total = HEAD + TAIL + 100_000;
        let bytes: Vec<u8> = (0..total).map(|index| b'a' + (index % 26) as u8).collect();
        let at_once = text(&[&bytes]);
        assert!(at_once.contains("\n… 100000 bytes left out …\n"));
        for size in [1, 7, 16 * 1024, 64 * 1024] {
            assert_eq!(text(&bytes.chunks(size).collect::<Vec<_>>()), at_once, "chunks of {size}");
        }
    }

    #[test]
    fn no_character_is_cut_in_half() {
        let bytes = "é".repeat(60_000);
        for shift in [0, 1] {
            let text = text(&[&b"x"[..shift], bytes.as_bytes()]);
            assert!(!text.contains(char::REPLACEMENT_CHARACTER));
        }
    }
}
