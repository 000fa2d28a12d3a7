//! Reading a command line never panics, and a rule made from it can be shown and read back unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_core::shell::CommandPattern;
use loggia_shell::{mentions, parse_pattern, plain_commands};

fuzz_target!(|line: &str| {
    let _ = parse_pattern(line);
    for command in plain_commands(line).unwrap_or_default() {
        let exact = CommandPattern::exact(&command);
        let open = CommandPattern {
            open: true,
            ..exact.clone()
        };
        assert!(exact.matches(&command) && open.matches(&command));
        assert!(mentions(line, &exact));
        for pattern in [exact, open] {
            assert_eq!(parse_pattern(&pattern.to_string()), Ok(pattern));
        }
    }
});
