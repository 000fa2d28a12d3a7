//! Signatures of thinking blocks. A signature is bound to the model, the system prompt, the tools and each
//! block before it, in whatever messages these are; markers of the cache do not count.

use serde_json::{Value, json};

use super::history::{blocks, field, messages};
use super::models;
use crate::vendor::sign;

const PART: usize = 16;

/// The beginning of a conversation. Blocks are added as they are sent or said.
#[derive(Clone)]
pub struct Beginning {
    model: String,
    system: String,
    tools: String,
    blocks: String,
    /// Whether this model checks more than the block itself.
    binds: bool,
}

/// How a signature does not fit.
pub enum Misfit {
    Forged,
    /// It was made behind another beginning: this differs.
    Moved(&'static str),
}

impl Beginning {
    pub fn of(body: &Value) -> Self {
        let model = field(body, "model");
        let system: Vec<Value> = blocks(&body["system"]).iter().map(unmarked).collect();
        Self {
            model: part(&[&body["model"]]),
            system: part(&[&Value::Array(system)]),
            tools: part(&[&unmarked(&body["tools"])]),
            blocks: part(&[]),
            binds: models::find(model).is_some_and(|model| model.binds),
        }
    }

    /// The beginning with all messages of a request.
    pub fn whole(body: &Value) -> Self {
        let mut beginning = Self::of(body);
        for message in messages(body) {
            for block in blocks(&message["content"]) {
                beginning.add(field(message, "role"), &block);
            }
        }
        beginning
    }

    /// A blank text is not part of it: the vendor refuses it in a request, so a client must leave it out.
    pub fn add(&mut self, role: &str, block: &Value) {
        if block["type"] == "text" && field(block, "text").trim().is_empty() {
            return;
        }
        let block = unmarked(block);
        self.blocks = part(&[&json!(self.blocks), &json!(role), &block]);
    }

    /// A text that differs for each place in each conversation.
    pub fn place(&self) -> &str {
        &self.blocks
    }

    pub fn signature(&self, shown: &str) -> String {
        let bound = [&self.model, &self.system, &self.tools, &self.blocks].map(String::as_str);
        let bound = bound.concat();
        format!("{bound}{}", part(&[&json!(bound), &json!(shown)]))
    }

    pub fn verify(&self, signature: &str, shown: &str) -> Result<(), Misfit> {
        let letters: Vec<char> = signature.chars().collect();
        let parts: Vec<String> = letters.chunks(PART).map(|part| part.iter().collect()).collect();
        let [model, system, tools, blocks, own] = parts.as_slice() else {
            return Err(Misfit::Forged);
        };
        let bound = [model, system, tools, blocks].map(String::as_str).concat();
        if *own != part(&[&json!(bound), &json!(shown)]) {
            return Err(Misfit::Forged);
        }
        let compared = [
            (model, &self.model, "model"),
            (system, &self.system, "system"),
            (tools, &self.tools, "tools"),
            (blocks, &self.blocks, "messages"),
        ];
        let differs = compared.into_iter().find(|(made, now, _)| made != now);
        match differs {
            Some((.., what)) if self.binds => Err(Misfit::Moved(what)),
            _ => Ok(()),
        }
    }
}

fn part(values: &[&Value]) -> String {
    sign(values).chars().take(PART).collect()
}

/// Without markers of the cache and fields that say nothing, and with one form for each number: 1.50 and 1.5
/// are the same to the vendor, and its clients change one into the other.
fn unmarked(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(unmarked).collect(),
        Value::Object(fields) => {
            let kept = fields.iter();
            let kept = kept.filter(|(name, value)| *name != "cache_control" && !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), unmarked(value))).collect())
        }
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}
