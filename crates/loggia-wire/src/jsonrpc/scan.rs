//! A look at JSON text before anything parses it: how deep it nests and how much it holds. It neither
//! recurses nor allocates, and does not care whether the text is valid.

/// What is wrong with a text whose arrays and objects nest deeper than `depth_limit`, or that holds
/// more than `values_limit` values: read, each takes many times the two bytes it can be written in.
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

/// Goes on behind the quote that ends a string.
fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // Whatever it is, it ends nothing.
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}
