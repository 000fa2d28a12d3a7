//! Provisional: replaced by the rendering half's module of the same name.

use std::fmt::Write;

fn unseen(letter: char) -> bool {
    let code = u32::from(letter);
    letter.is_control()
        || matches!(code, 0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5
            | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x2800
            | 0x3164 | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xe0000..=0xe0fff)
}

pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

pub fn printable(text: &str) -> String {
    escaped(text, |letter| letter == '\n' || letter == '\t')
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    text.chars().fold(String::new(), |mut shown, letter| {
        if keeps(letter) || !unseen(letter) {
            shown.push(letter);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        }
        shown
    })
}
