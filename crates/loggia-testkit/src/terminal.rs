//! Checks what is written to a terminal: visible text, and the few escape sequences that the screen uses. The
//! sequences are listed here again, so that the product's tables are not checked against themselves.

/// Whether `CSI parameters final` is a sequence that draws a picture.
fn paints(parameters: &str, last: char) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match last {
        // Up, down, right.
        'A' | 'B' | 'C' => digits(parameters),
        // To the end of the row, to the end of the screen.
        'J' | 'K' => parameters.is_empty(),
        'H' => {
            parameters.split_once(';').is_some_and(|(row, column)| digits(row) && digits(column))
        }
        // Every style starts with a reset.
        'm' => parameters.split(';').all(digits) && parameters.split(';').next() == Some("0"),
        'h' | 'l' => parameters == "?25",
        _ => false,
    }
}

/// Whether it enters or leaves a mode of the terminal, or queries the cursor position.
fn sets_up(parameters: &str, last: char) -> bool {
    const MODES: &[&str] =
        &["1000", "1002", "1003", "1004", "1006", "1015", "1049", "2004", "2026"];
    match last {
        'h' | 'l' => parameters.strip_prefix('?').is_some_and(|mode| MODES.contains(&mode)),
        'u' => matches!(parameters, ">1" | "<1"),
        'n' => parameters == "6",
        _ => false,
    }
}

/// No control characters and no invisible characters.
pub fn is_safe(text: &str) -> bool {
    text.chars().all(|it| {
        let bidi = matches!(it, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let hidden = matches!(it, '\u{ad}' | '\u{200b}'..='\u{200c}' | '\u{2028}'..='\u{2029}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        !it.is_control() && !bidi && !hidden
    })
}

/// The first part of a picture that is neither text nor a drawing sequence.
pub fn foreign_in_picture(bytes: &[u8]) -> Option<String> {
    foreign(bytes, &paints)
}

/// The first part of a terminal's output that the screen does not write.
pub fn foreign_in_terminal(bytes: &[u8]) -> Option<String> {
    // The query for the background colour.
    const BACKGROUND: &str = "\u{1b}]11;?\u{1b}\\";
    let text = String::from_utf8_lossy(bytes).replace(BACKGROUND, "");
    foreign(text.as_bytes(), &|parameters, last| {
        paints(parameters, last) || sets_up(parameters, last)
    })
}

fn foreign(bytes: &[u8], own: &dyn Fn(&str, char) -> bool) -> Option<String> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Some("bytes that are not UTF-8".into());
    };
    let mut pieces = text.split('\u{1b}');
    let seen = |text: &str| text.split(['\r', '\n']).find(|text| !is_safe(text)).map(str::to_owned);
    if let Some(found) = pieces.next().and_then(seen) {
        return Some(found);
    }
    pieces.find_map(|piece| {
        let shown = || Some(format!("ESC {}", piece.chars().take(40).collect::<String>()));
        let Some(rest) = piece.strip_prefix('[') else { return shown() };
        let Some(end) = rest.find(|it: char| !('\u{20}'..='\u{3f}').contains(&it)) else {
            return shown();
        };
        let (parameters, rest) = rest.split_at(end);
        let mut rest = rest.chars();
        match rest.next() {
            Some(last) if own(parameters, last) => seen(rest.as_str()),
            _ => shown(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_sequences_are_found() {
        let ours =
            ["a\r\nb", "\u{1b}[3A\rx\u{1b}[K", "\u{1b}[0;1;38;5;9mé\u{1b}[0m", "\u{1b}[?25l"];
        for text in ours {
            assert_eq!(foreign_in_picture(text.as_bytes()), None, "{text:?}");
        }
        let others = [
            "\u{1b}[2J",
            "\u{1b}]0;x\u{7}",
            "\u{1b}c",
            "\u{9b}31m",
            "\u{7}",
            "\u{1b}[31m",
            "\u{1b}[?1049h",
            "\u{202e}",
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}[6n",
            "\u{1b}[0m\u{8}",
        ];
        for text in others {
            assert!(foreign_in_picture(text.as_bytes()).is_some(), "{text:?}");
        }
        assert!(foreign_in_picture(b"\xff").is_some());
        for text in ["\u{1b}[?1049h\u{1b}[6n", "\u{1b}[>1u"] {
            assert_eq!(foreign_in_terminal(text.as_bytes()), None, "{text:?}");
        }
        assert!(foreign_in_terminal(b"\x1b[?7h").is_some());
    }
}
