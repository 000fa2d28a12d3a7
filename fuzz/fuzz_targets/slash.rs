//! Reading a prompt as a slash command never panics, a command is read again from its own text, and an error
//! is a short sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_core::slash::{PromptKind, complete, parse, read};

fuzz_target!(|text: &str| {
    let _ = complete(text);
    match read(text) {
        PromptKind::Command(command) => {
            assert_eq!(read(&command.to_string()), PromptKind::Command(command));
        }
        PromptKind::Mistake(error) => assert!(error.to_string().len() < 1024),
        PromptKind::Message => {}
    }
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if let Ok(command) = parse(&[first], rest) {
        assert_eq!(read(&command.to_string()), PromptKind::Command(command));
    }
});
