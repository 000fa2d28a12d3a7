//! Counts the depth and the values of JSON text before it is parsed. It neither recurses nor allocates, and
//! accepts invalid text.

/// The reason to reject a text whose arrays and objects nest deeper than `depth_limit`, or which has more
/// than `values_limit` values. A value of two bytes takes many times as much memory when parsed.
pub fn excess(json: &[u8], depth_limit: usize, values_limit: usize) -> Option<&'static str> {
    let (mut depth, mut values) = (0usize, 0usize);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                values += 1;
                if depth > depth_limit {
                    return Some("it is nested too deep");
                }
            }
            b',' => values += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if values > values_limit {
            return Some("it holds too many values");
        }
    }
    None
}

/// Advances past the quote that ends a string.
fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // An escaped character never ends the string.
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}
