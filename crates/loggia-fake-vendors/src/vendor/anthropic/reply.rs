//! A reply as events or as one message.

use serde_json::{Value, json};

use super::binding::Beginning;
use super::history::{blocks, field, messages};
use super::models;
use crate::script::{Answer, Asked, Say, StopKind};
use crate::vendor::{sign, tokens};

/// Characters of one delta.
const DELTA: usize = 12;

pub fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

pub fn events(asked: &Asked, answer: &Answer) -> Vec<String> {
    let content = content(asked, answer);
    let counted = Counted::of(asked, answer, &content);
    let mut message = message(asked, Vec::new());
    message["usage"] = counted.at_start();
    let mut events = vec![("message_start", json!({ "message": message })), ("ping", json!({}))];
    for (index, block) in content.iter().enumerate() {
        events.extend(block.events().into_iter().map(|(name, mut data)| {
            data["index"] = json!(index);
            (name, data)
        }));
    }
    let usage = counted.at_end();
    events.push(("message_delta", json!({ "delta": stop(answer), "usage": usage })));
    events.push(("message_stop", json!({})));
    let framed = events.into_iter().map(|(name, mut data)| {
        data["type"] = json!(name);
        event(name, &data)
    });
    framed.collect()
}

pub fn whole(asked: &Asked, answer: &Answer) -> Value {
    let content = content(asked, answer);
    let mut message = message(asked, content.iter().map(|block| block.whole.clone()).collect());
    let mut usage = Counted::of(asked, answer, &content).at_start();
    let end = Counted::of(asked, answer, &content).at_end();
    usage["output_tokens"] = end["output_tokens"].clone();
    usage["output_tokens_details"] = end["output_tokens_details"].clone();
    message["usage"] = usage;
    let stop = stop(answer);
    for name in ["stop_reason", "stop_sequence", "stop_details"] {
        message[name] = stop[name].clone();
    }
    message
}

fn message(asked: &Asked, content: Vec<Value>) -> Value {
    let id = sign(&[&json!(asked.earlier_requests), &asked.body]);
    let id: String = id.chars().take(22).collect();
    json!({
        "id": format!("msg_01{id}"), "type": "message", "role": "assistant",
        "model": asked.model, "content": content,
        "stop_reason": null, "stop_sequence": null, "stop_details": null,
    })
}

fn stop(answer: &Answer) -> Value {
    let (reason, details) = match answer.stop {
        StopKind::Natural if answer.calls() => ("tool_use", Value::Null),
        StopKind::Natural => ("end_turn", Value::Null),
        StopKind::Length => ("max_tokens", Value::Null),
        StopKind::Paused => ("pause_turn", Value::Null),
        StopKind::WindowFull => ("model_context_window_exceeded", Value::Null),
        StopKind::Refusal => (
            "refusal",
            json!({ "type": "refusal", "category": "cyber",
                    "explanation": "This request may enable harm to computers." }),
        ),
    };
    json!({ "stop_reason": reason, "stop_sequence": null, "stop_details": details })
}

/// A block of a reply: as its start event has it, its deltas, and as it is in a message.
struct Block {
    start: Value,
    deltas: Vec<Value>,
    whole: Value,
}

impl Block {
    fn events(&self) -> Vec<(&'static str, Value)> {
        let start = ("content_block_start", json!({ "content_block": self.start }));
        let deltas = self.deltas.iter();
        let deltas = deltas.map(|delta| ("content_block_delta", json!({ "delta": delta })));
        let stop = ("content_block_stop", json!({}));
        [start].into_iter().chain(deltas).chain([stop]).collect()
    }

    fn text(text: &str) -> Self {
        let delta = |text: String| json!({ "type": "text_delta", "text": text });
        Self {
            start: json!({ "type": "text", "text": "", "citations": null }),
            deltas: cut(text).into_iter().map(delta).collect(),
            whole: json!({ "type": "text", "text": text, "citations": null }),
        }
    }

    fn thinking(shown: &str, signature: &str) -> Self {
        let delta = |text: String| json!({ "type": "thinking_delta", "thinking": text });
        let signed = json!({ "type": "signature_delta", "signature": signature });
        Self {
            start: json!({ "type": "thinking", "thinking": "", "signature": "" }),
            deltas: cut(shown).into_iter().map(delta).chain([signed]).collect(),
            whole: json!({ "type": "thinking", "thinking": shown, "signature": signature }),
        }
    }

    fn redacted(data: &str) -> Self {
        let whole = json!({ "type": "redacted_thinking", "data": data });
        Self { start: whole.clone(), deltas: Vec::new(), whole }
    }

    /// The first part of the arguments is empty. Only a stream can have arguments that are not an object.
    fn call(kind: &str, id: &str, tool: &str, arguments: &str) -> Self {
        let mut start = json!({ "type": kind, "id": id, "name": tool, "input": {} });
        if kind == "tool_use" {
            start["caller"] = json!({ "type": "direct" });
        }
        let delta = |part: String| json!({ "type": "input_json_delta", "partial_json": part });
        let mut whole = start.clone();
        whole["input"] = match serde_json::from_str(arguments) {
            Ok(Value::Object(input)) => Value::Object(input),
            _ if arguments.is_empty() => json!({}),
            _ => json!({ "INVALID_JSON": arguments }),
        };
        let deltas = [String::new()].into_iter().chain(cut(arguments)).map(delta).collect();
        Self { start, deltas, whole }
    }
}

/// How much of its thoughts a request gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thoughts {
    Shown,
    /// Blocks with a signature and without text.
    Empty,
    None,
}

fn thoughts(asked: &Asked) -> Thoughts {
    let newer = models::find(&asked.model).is_some_and(|model| model.newer);
    let thinking = &asked.body["thinking"];
    match (field(thinking, "type"), field(thinking, "display")) {
        ("disabled", _) => Thoughts::None,
        ("between_tools", _) | (_, "summarized") => Thoughts::Shown,
        ("", _) if !newer => Thoughts::None,
        (_, "omitted") => Thoughts::Empty,
        _ if newer => Thoughts::Empty,
        _ => Thoughts::Shown,
    }
}

fn content(asked: &Asked, answer: &Answer) -> Vec<Block> {
    let mut beginning = Beginning::whole(&asked.body);
    let thoughts = thoughts(asked);
    let mut thinking_before = 0;
    let mut content = Vec::new();
    for say in &answer.says {
        let block = match say {
            Say::Thought(_) | Say::Redacted if thoughts == Thoughts::None => continue,
            Say::Thought(text) => {
                let shown = if thoughts == Thoughts::Shown { text.as_str() } else { "" };
                Block::thinking(shown, &beginning.signature(shown))
            }
            Say::Redacted => Block::redacted(&beginning.signature("redacted")),
            Say::Text(text) => Block::text(text),
            Say::Call { tool, arguments } => {
                let id = format!("toolu_01{}{thinking_before:02}", beginning.place());
                Block::call("tool_use", &id, tool, arguments)
            }
        };
        thinking_before += usize::from(matches!(say, Say::Thought(_) | Say::Redacted));
        beginning.add("assistant", &block.whole);
        content.push(block);
    }
    if answer.stop == StopKind::Paused {
        // The vendor pauses only between the steps of a tool that it runs itself.
        let id = format!("srvtoolu_01{}", beginning.place());
        content.push(Block::call("server_tool_use", &id, "web_search", r#"{"query":"loggia"}"#));
    }
    content
}

fn cut(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(DELTA).map(|part| part.iter().collect()).collect()
}

struct Counted {
    fresh: u64,
    written: u64,
    read: u64,
    output: u64,
    thinking: u64,
}

impl Counted {
    /// The part up to the last reply counts as read from the cache.
    fn of(asked: &Asked, answer: &Answer, content: &[Block]) -> Self {
        let said = |kinds: [&str; 2]| {
            let blocks =
                content.iter().filter(|block| kinds.contains(&field(&block.whole, "type")));
            blocks.map(|block| tokens(&block.whole.to_string())).sum::<u64>()
        };
        let thinking = said(["thinking", "redacted_thinking"]);
        if let Some([input, cached, output]) = answer.usage {
            let fresh = input.saturating_sub(cached);
            return Self { fresh, written: 0, read: cached, output, thinking };
        }
        let sent = messages(&asked.body);
        let known = sent.iter().rposition(|message| message["role"] == "assistant");
        let count = |messages: &[Value]| {
            let blocks = messages.iter().flat_map(|message| blocks(&message["content"]));
            blocks.map(|block| tokens(&block.to_string())).sum::<u64>()
        };
        let (old, new) = sent.split_at(known.unwrap_or(0));
        let top =
            tokens(&asked.body["system"].to_string()) + tokens(&asked.body["tools"].to_string());
        let (read, written) = match (known, asked.body["cache_control"].is_object()) {
            (Some(_), true) => (top + count(old), count(new)),
            (None, true) => (0, top + count(new)),
            (_, false) => (0, 0),
        };
        let fresh = if read + written > 0 { 3 } else { top + count(sent) };
        let output = thinking + said(["text", "tool_use"]) + said(["server_tool_use", ""]);
        Self { fresh, written, read, output: output.max(1), thinking }
    }

    fn at_start(&self) -> Value {
        json!({
            "input_tokens": self.fresh, "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written, "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": 1, "service_tier": "standard", "inference_geo": "global",
        })
    }

    fn at_end(&self) -> Value {
        json!({
            "input_tokens": self.fresh, "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read, "output_tokens": self.output,
            "output_tokens_details": { "thinking_tokens": self.thinking.min(self.output) },
        })
    }
}
