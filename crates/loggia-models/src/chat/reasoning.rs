//! Collects the reasoning of a reply in all the fields that servers use for it, and says which of them
//! comes back in later requests.
//!
//! A block of a list arrives in several fragments, and must come back as one: its signature covers the
//! whole text.

use crate::fields::{Fields, raw};
use serde_json::value::RawValue;

/// Fields with a text.
const TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Fields with a list of blocks.
const LISTS: [&str; 2] = ["reasoning_details", "thinking_blocks"];
/// Fields of a block whose text arrives in pieces.
const PIECES: [&str; 3] = ["text", "summary", "thinking"];

#[derive(Debug, Default)]
pub struct Reasoning {
    texts: [Option<String>; 2],
    blocks: [Option<Vec<Block>>; 2],
}

#[derive(Debug)]
struct Block {
    /// As it arrived first, and what was added to it later.
    fields: Fields,
    /// The text of each of [`PIECES`] so far.
    texts: [Option<String>; 3],
}

impl Reasoning {
    /// Takes the reasoning of one delta, and returns the text to show. Servers repeat the same text in
    /// several fields.
    pub fn take(&mut self, delta: &Fields) -> String {
        let mut shown = String::new();
        for (name, known) in TEXTS.iter().zip(&mut self.texts) {
            let Some(text) = delta.text(name) else { continue };
            known.get_or_insert_default().push_str(&text);
            if shown.is_empty() {
                shown = text;
            }
        }
        for (name, known) in LISTS.iter().zip(&mut self.blocks) {
            let Some(fragments) = delta.read::<Vec<Fields>>(name) else { continue };
            let known = known.get_or_insert_default();
            let mut text = String::new();
            for fragment in fragments {
                let fragment = Block::new(fragment);
                fragment.texts.iter().flatten().for_each(|piece| text.push_str(piece));
                match known.last_mut().filter(|last| last.continues_with(&fragment)) {
                    Some(last) => last.add(fragment),
                    None => known.push(fragment),
                }
            }
            if shown.is_empty() {
                shown = text;
            }
        }
        shown
    }

    /// The field that comes back: the first of these that the reply has.
    pub fn returned(&self, names: &[&'static str]) -> Option<(&'static str, Box<RawValue>)> {
        names.iter().find_map(|name| {
            let text = TEXTS.iter().zip(&self.texts).find(|(known, _)| *known == name);
            let list = LISTS.iter().zip(&self.blocks).find(|(known, _)| *known == name);
            let text = text.and_then(|(_, text)| text.as_ref()).map(raw);
            let list = list
                .and_then(|(_, blocks)| blocks.as_ref())
                .map(|blocks| raw(&blocks.iter().map(Block::whole).collect::<Vec<_>>()));
            Some((*name, text.or(list)?))
        })
    }
}

impl Block {
    fn new(fields: Fields) -> Self {
        let texts = PIECES.map(|name| fields.text(name));
        Self { fields, texts }
    }

    /// Whether the fragment belongs to this block: nothing contradicts it, and the signature, which comes
    /// last, is not there yet.
    fn continues_with(&self, fragment: &Block) -> bool {
        let differs = |name: &str| match (self.present(name), fragment.present(name)) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        };
        let has_pieces = self.texts.iter().chain(&fragment.texts).any(Option::is_some);
        has_pieces
            && !["type", "index", "id", "format"].into_iter().any(differs)
            && self.present("signature").is_none()
            && self.present("data").is_none()
            && fragment.present("data").is_none()
    }

    /// The text of a field that says something.
    fn present(&self, name: &str) -> Option<&str> {
        let text = self.fields.get(name)?.get();
        (!matches!(text, "null" | "\"\"")).then_some(text)
    }

    fn add(&mut self, fragment: Block) {
        for (known, more) in self.texts.iter_mut().zip(&fragment.texts) {
            if let Some(more) = more {
                known.get_or_insert_default().push_str(more);
            }
        }
        for (name, value) in fragment.fields.iter() {
            if self.present(name).is_none() {
                self.fields.set(name, value);
            }
        }
    }

    fn whole(&self) -> Fields {
        let mut fields = self.fields.clone();
        for (name, text) in PIECES.iter().zip(&self.texts) {
            if let Some(text) = text {
                fields.set(name, text);
            }
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(deltas: &[&str], names: &[&'static str]) -> Option<(&'static str, String)> {
        let mut reasoning = Reasoning::default();
        for delta in deltas {
            reasoning.take(&Fields::parse(delta).unwrap());
        }
        reasoning.returned(names).map(|(name, value)| (name, value.get().to_owned()))
    }

    #[test]
    fn fragments_of_a_block_are_joined_and_blocks_stay_apart() {
        let deltas = [
            r#"{"reasoning":"Le","reasoning_details":[{"type":"reasoning.text","text":"Le","format":"a","index":0}]}"#,
            r#"{"reasoning":"t","reasoning_details":[{"type":"reasoning.text","text":"t","format":"a","index":0}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.text","signature":"S","format":"a","index":0}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","z":1,"a":2,"index":1}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"y","index":1}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.text","text":"","signature":null,"index":2}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.text","signature":"T","index":2}]}"#,
        ];
        let wanted = concat!(
            r#"[{"type":"reasoning.text","text":"Let","format":"a","index":0,"signature":"S"},"#,
            r#"{"type":"reasoning.encrypted","data":"x","z":1,"a":2,"index":1},"#,
            r#"{"type":"reasoning.encrypted","data":"y","index":1},"#,
            r#"{"type":"reasoning.text","text":"","signature":"T","index":2}]"#,
        );
        let details = Some(("reasoning_details", wanted.to_owned()));
        assert_eq!(returned(&deltas, &["reasoning_details", "reasoning"]), details);
        let text = Some(("reasoning", r#""Let""#.to_owned()));
        assert_eq!(returned(&deltas, &["reasoning"]), text);
        assert_eq!(returned(&deltas, &["reasoning_content"]), None);
        assert_eq!(returned(&deltas, &[]), None);
    }

    #[test]
    fn thinking_blocks_end_with_their_signature() {
        let deltas = [
            r#"{"thinking_blocks":[{"type":"thinking","thinking":"a","signature":null}]}"#,
            r#"{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"S"}]}"#,
            r#"{"thinking_blocks":[{"type":"thinking","thinking":"b"}]}"#,
        ];
        let wanted = r#"[{"type":"thinking","thinking":"a","signature":"S"},{"type":"thinking","thinking":"b"}]"#;
        let blocks = Some(("thinking_blocks", wanted.to_owned()));
        assert_eq!(returned(&deltas, &["thinking_blocks"]), blocks);
    }
}
