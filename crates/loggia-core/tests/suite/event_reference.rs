//! docs/reference/events.md lists every type of event, and no other.

use std::collections::BTreeSet;

use loggia_core::Event;
use serde_json::json;

const MANUAL: &str = include_str!("../../../../docs/reference/events.md");
const SOURCE: &str = include_str!("../../src/event.rs");

/// The types of events by their names in the log, from the definition of [`Event`].
fn types() -> BTreeSet<String> {
    let start = SOURCE.find("pub enum Event {").unwrap();
    let variants = SOURCE[start..].lines().skip(1).take_while(|line| *line != "}");
    let names = variants.filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    let name = |line: &str| -> String {
        let name: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
        let words = name.char_indices().map(|(at, letter)| match letter.is_ascii_uppercase() {
            true if at > 0 => format!("_{}", letter.to_ascii_lowercase()),
            _ => letter.to_ascii_lowercase().to_string(),
        });
        words.collect()
    };
    names.map(name).filter(|name| name != "unknown").collect()
}

/// The first column of the tables of events. The table of the envelope's fields comes before them.
fn documented() -> BTreeSet<String> {
    let (_, tables) = MANUAL.split_once("## The session").unwrap();
    let rows = tables.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_reference_lists_every_type_of_event() {
    assert_eq!(documented(), types());
    for name in types() {
        let event = serde_json::from_value::<Event>(json!({ "type": name }));
        assert!(!matches!(event, Ok(Event::Unknown)), "{name} is not a type of event");
    }
}
