//! Any bytes as a text or as the output of a program: the result has no control sequences, safe text is
//! unchanged, and output is bounded by its input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_testkit::terminal::is_safe;
use loggia_tui::safe::{one_line, output, printable};
use ratatui::style::Style;

/// How many blank columns cursor movements may make in any output.
const BLANKS: usize = 80_000;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let shown = printable(&text);
    assert!(shown.split('\n').all(is_safe), "{shown:?}");
    assert_eq!(printable(&shown), shown);
    assert!(is_safe(&one_line(&text)));
    for colors in [false, true] {
        let lines = output(&text, Style::new(), colors);
        let spans = || lines.iter().flat_map(|line| &line.spans);
        assert!(spans().all(|span| is_safe(&span.content)), "{lines:?}");
        let columns: usize = spans().map(|span| span.content.len()).sum();
        assert!(columns <= BLANKS + 12 * text.len(), "{columns} from {} bytes", text.len());
    }
});
