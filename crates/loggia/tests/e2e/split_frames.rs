//! Splits streams into frames from raw bytes, since thousands of readers cannot afford a library's
//! parser. Also used by the benchmark with many clients.

use std::ops::Range;

/// One server-sent event and its length; comments are skipped.
pub fn next_event(bytes: &[u8]) -> Option<(usize, Range<usize>)> {
    let end = bytes.windows(2).position(|two| two == b"\n\n")?;
    let frame = if bytes.first() == Some(&b':') { 0..0 } else { 0..end };
    Some((end + 2, frame))
}

/// One WebSocket frame; pings are skipped.
pub fn next_frame(bytes: &[u8]) -> Option<(usize, Range<usize>)> {
    let (start, length) = match bytes.get(1)? {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().unwrap()))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().unwrap()) as usize),
        length => (2, usize::from(*length)),
    };
    let end = start + length;
    let frame = if bytes.first() == Some(&0x81) { start..end } else { 0..0 };
    (bytes.len() >= end).then_some((end, frame))
}
