//! Reading a command line never panics, and a rule made from what was read says the same when it
//! is shown and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_core::shell::{CommandPattern, mentions, plain_commands};

fuzz_target!(|line: &str| {
    let _ = CommandPattern::parse(line);
    for command in plain_commands(line).unwrap_or_default() {
        let exact = CommandPattern::exact(&command);
        let open = CommandPattern {
            open: true,
            ..exact.clone()
        };
        assert!(exact.matches(&command) && open.matches(&command));
        assert!(mentions(line, &exact));
        for pattern in [exact, open] {
            assert_eq!(CommandPattern::parse(&pattern.to_string()), Ok(pattern));
        }
    }
});
