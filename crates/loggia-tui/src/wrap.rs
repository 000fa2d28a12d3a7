//! Provisional: replaced by the rendering half's module of the same name.

pub fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}
