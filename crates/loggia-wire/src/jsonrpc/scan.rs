//! A look at JSON text before anything parses it: how deep it nests and how much it holds. It neither
//! recurses nor allocates, and does not care whether the text is valid.

/// What is wrong with a text whose arrays and objects nest deeper than `depth_limit`, or that holds
/// more than `values_limit` values: read, each takes many times the two bytes it can be written in.
pub fn excess(json: &[u8], depth_limit: usize, values_limit: usize) -> Option<&'static str> {
    let (mut depth, mut values) = (0usize, 0usize);
    let mut quoted = Quoted::default();
    for &byte in json {
        if quoted.swallows(byte) {
            continue;
        }
        match byte {
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

/// Where a reader of JSON stands: in a string or not.
#[derive(Default)]
struct Quoted {
    open: bool,
    escaped: bool,
}

impl Quoted {
    /// Whether this byte belongs to a string, its quotes included.
    fn swallows(&mut self, byte: u8) -> bool {
        if !self.open {
            self.open = byte == b'"';
            return self.open;
        }
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.open = false;
        }
        true
    }
}
