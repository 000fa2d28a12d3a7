//! The bytes of a reply.

use serde_json::{Map, Value, json};

use super::Server;
use crate::script::{Answer, Asked, Say, StopKind};
use crate::vendor::{sign, tokens};

/// Characters of one delta.
const DELTA: usize = 5;

/// The signature of reasoning at this place of a message: it fits the whole conversation before it.
pub fn seal(body: &Value, message: usize, index: usize, text: &str) -> String {
    let before = body["messages"].as_array().map(|all| all.iter().take(message).cloned());
    let before = Value::Array(before.into_iter().flatten().collect());
    sign(&[&body["model"], &body["tools"], &before, &index.into(), &text.into()])
}

/// The number of blocks of reasoning that a call of ours came with.
pub fn sealed_details(call: &str) -> Option<usize> {
    call.strip_prefix("toolu_")?.rsplit_once('_')?.1.parse().ok()
}

/// The reply in the server's words.
struct Parts<'a> {
    server: Server,
    asked: &'a Asked,
    answer: &'a Answer,
    id: String,
}

pub fn chunks(server: Server, asked: &Asked, answer: &Answer) -> Vec<String> {
    let parts = Parts::new(server, asked, answer);
    let asks_usage = asked.body["stream_options"]["include_usage"] == true;
    let mut chunks = Vec::new();
    chunks.push(parts.chunk(parts.first_delta(), None));
    let mut deltas = parts.deltas();
    chunks.extend(deltas.drain(..).map(|delta| parts.chunk(delta, None)));
    let mut last = parts.chunk(parts.last_delta(), Some(parts.finish()));
    let mut usage = parts.chunk(Value::Null, None);
    usage["choices"] = json!([]);
    match server {
        Server::DeepSeek => last["usage"] = parts.usage(),
        _ => usage["usage"] = parts.usage(),
    }
    let separate = server != Server::DeepSeek && (asks_usage || server == Server::OpenRouter);
    if asks_usage && server == Server::OpenAi {
        chunks.iter_mut().chain([&mut last]).for_each(|chunk| chunk["usage"] = Value::Null);
    }
    chunks.push(last);
    if separate {
        chunks.push(usage);
    }
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

pub fn whole(server: Server, asked: &Asked, answer: &Answer) -> Value {
    let parts = Parts::new(server, asked, answer);
    let mut choice = json!({
        "index": 0,
        "message": parts.message(),
        "logprobs": null,
        "finish_reason": parts.finish(),
    });
    if server == Server::OpenRouter {
        choice["native_finish_reason"] = parts.finish().into();
    }
    json!({
        "id": parts.id, "object": "chat.completion", "created": 1_790_000_000, "model": asked.model,
        "choices": [choice], "usage": parts.usage(),
    })
}

impl<'a> Parts<'a> {
    fn new(server: Server, asked: &'a Asked, answer: &'a Answer) -> Self {
        let prefix = if server == Server::OpenRouter { "gen-" } else { "chatcmpl-" };
        // The same for a streamed reply and one that is not.
        let hash: String = sign(&[&asked.body["messages"]]).chars().take(24).collect();
        Self { server, asked, answer, id: format!("{prefix}{hash}") }
    }

    fn chunk(&self, delta: Value, finish: Option<&str>) -> Value {
        let mut choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        if self.server == Server::OpenRouter {
            choice["native_finish_reason"] = json!(finish);
        }
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": self.asked.model, "system_fingerprint": "fp_1", "choices": [choice],
        })
    }

    fn first_delta(&self) -> Value {
        match self.server {
            Server::OpenAi if self.calls().is_empty() => {
                json!({ "role": "assistant", "content": "", "refusal": null })
            }
            Server::OpenAi => json!({ "role": "assistant", "content": null, "refusal": null }),
            Server::DeepSeek => {
                json!({ "role": "assistant", "content": null, "reasoning_content": "" })
            }
            Server::LlamaCpp => json!({ "role": "assistant", "content": null }),
            Server::OpenRouter | Server::Vllm => json!({ "role": "assistant", "content": "" }),
        }
    }

    fn last_delta(&self) -> Value {
        match self.server {
            Server::DeepSeek => json!({ "content": "", "reasoning_content": null }),
            Server::OpenRouter => json!({ "role": "assistant", "content": "" }),
            _ => json!({}),
        }
    }

    fn deltas(&self) -> Vec<Value> {
        let mut deltas = Vec::new();
        let (mut block, mut call) = (0, 0);
        for say in &self.answer.says {
            match say {
                Say::Thought(text) => {
                    deltas
                        .extend(split(text).iter().filter_map(|piece| self.thought(piece, block)));
                    if self.server == Server::OpenRouter {
                        deltas.push(self.detail(json!({
                            "type": "reasoning.text", "signature": self.seal(block, text),
                            "format": "anthropic-claude-v1", "index": block,
                        })));
                    }
                    block += 1;
                }
                Say::Redacted => {
                    if self.server == Server::OpenRouter {
                        deltas.push(self.detail(self.redacted(block)));
                    }
                    block += 1;
                }
                Say::Text(text) => {
                    deltas.extend(split(text).iter().map(|piece| json!({ self.text(): piece })));
                }
                Say::Call { .. } => {
                    let Some(whole) = self.calls().get(call).cloned() else { continue };
                    deltas.extend(call_deltas(&whole, call));
                    call += 1;
                }
            }
        }
        deltas
    }

    /// The field that has the text.
    fn text(&self) -> &'static str {
        match (self.server, self.answer.stop) {
            (Server::OpenAi, StopKind::Refusal) => "refusal",
            _ => "content",
        }
    }

    fn thought(&self, piece: &str, block: usize) -> Option<Value> {
        match self.server {
            // It counts its reasoning, and does not show it.
            Server::OpenAi => None,
            Server::DeepSeek => Some(json!({ "content": null, "reasoning_content": piece })),
            Server::LlamaCpp => Some(json!({ "reasoning_content": piece })),
            Server::Vllm => Some(json!({ "reasoning": piece })),
            Server::OpenRouter => Some(json!({
                "role": "assistant", "content": "", "reasoning": piece,
                "reasoning_details": [{
                    "type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1",
                    "index": block,
                }],
            })),
        }
    }

    fn detail(&self, detail: Value) -> Value {
        json!({ "role": "assistant", "content": "", "reasoning_details": [detail] })
    }

    fn redacted(&self, block: usize) -> Value {
        json!({
            "type": "reasoning.encrypted", "data": self.seal(block, ""),
            "format": "anthropic-claude-v1", "index": block,
        })
    }

    fn seal(&self, block: usize, text: &str) -> String {
        let place = self.asked.body["messages"].as_array().map_or(0, Vec::len);
        seal(&self.asked.body, place, block, text)
    }

    fn calls(&self) -> Vec<Value> {
        let says = &self.answer.says;
        let blocks = says.iter().filter(|say| matches!(say, Say::Thought(_) | Say::Redacted));
        let blocks = blocks.count();
        let hash: String = self.id.chars().rev().take(16).collect();
        let calls = says.iter().filter_map(|say| match say {
            Say::Call { tool, arguments } => Some((tool, arguments)),
            Say::Thought(_) | Say::Redacted | Say::Text(_) => None,
        });
        let calls = calls.enumerate().map(|(index, (tool, arguments))| {
            let id = match self.server {
                Server::OpenRouter => format!("toolu_{hash}{index}_{blocks}"),
                Server::Vllm => format!("chatcmpl-tool-{hash}{index}"),
                Server::LlamaCpp => format!("{hash}{index}"),
                Server::OpenAi | Server::DeepSeek => format!("call_{index}_{hash}"),
            };
            let function = json!({ "name": tool, "arguments": arguments });
            json!({ "id": id, "type": "function", "function": function })
        });
        calls.collect()
    }

    fn message(&self) -> Value {
        let joined = |wanted: fn(&Say) -> Option<&str>| -> Option<String> {
            let texts: Vec<&str> = self.answer.says.iter().filter_map(wanted).collect();
            (!texts.is_empty()).then(|| texts.concat())
        };
        let text = joined(|say| match say {
            Say::Text(text) => Some(text),
            Say::Thought(_) | Say::Redacted | Say::Call { .. } => None,
        });
        let thought = joined(|say| match say {
            Say::Thought(text) => Some(text),
            Say::Text(_) | Say::Redacted | Say::Call { .. } => None,
        });
        let calls = self.calls();
        let mut message = Map::new();
        let mut set = |name: &str, value: Value| message.insert(name.to_owned(), value);
        set("role", "assistant".into());
        set("content", Value::Null);
        set(self.text(), text.map_or_else(|| self.no_text(&calls), Value::from));
        match self.server {
            Server::OpenAi => {
                set("annotations", json!([]));
            }
            Server::DeepSeek => {
                set("reasoning_content", thought.unwrap_or_default().into());
            }
            Server::LlamaCpp => {
                thought.map(|thought| set("reasoning_content", thought.into()));
            }
            Server::Vllm => {
                set("reasoning", json!(thought));
            }
            Server::OpenRouter => {
                set("reasoning", json!(thought));
                set("reasoning_details", self.details().into());
            }
        }
        if !calls.is_empty() {
            set("tool_calls", calls.into());
        }
        message.into()
    }

    fn no_text(&self, calls: &[Value]) -> Value {
        match self.server {
            Server::OpenAi | Server::LlamaCpp | Server::Vllm if !calls.is_empty() => Value::Null,
            _ => "".into(),
        }
    }

    fn details(&self) -> Vec<Value> {
        let blocks =
            self.answer.says.iter().filter(|say| matches!(say, Say::Thought(_) | Say::Redacted));
        let details = blocks.enumerate().map(|(block, say)| match say {
            Say::Thought(text) => json!({
                "type": "reasoning.text", "text": text, "signature": self.seal(block, text),
                "format": "anthropic-claude-v1", "index": block,
            }),
            _ => self.redacted(block),
        });
        details.collect()
    }

    fn finish(&self) -> &'static str {
        match (self.answer.stop, self.server) {
            (StopKind::Length | StopKind::WindowFull, _) => "length",
            (StopKind::Refusal, Server::OpenAi) => "stop",
            (StopKind::Refusal, _) => "content_filter",
            (StopKind::Natural | StopKind::Paused, _) if self.answer.calls() => "tool_calls",
            (StopKind::Natural | StopKind::Paused, _) => "stop",
        }
    }

    fn usage(&self) -> Value {
        let said: Vec<u64> = self
            .answer
            .says
            .iter()
            .map(|say| match say {
                Say::Thought(text) | Say::Text(text) => tokens(text),
                Say::Call { tool, arguments } => tokens(tool) + tokens(arguments),
                Say::Redacted => 8,
            })
            .collect();
        let thoughts = self.answer.says.iter().zip(&said);
        let thoughts = thoughts.filter(|(say, _)| matches!(say, Say::Thought(_) | Say::Redacted));
        let thoughts: u64 = thoughts.map(|(_, tokens)| tokens).sum();
        let input = tokens(&self.asked.body["messages"].to_string());
        let [input, cached, output] = self.answer.usage.unwrap_or([input, 0, said.iter().sum()]);
        let mut usage = json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            "prompt_tokens_details": { "cached_tokens": cached },
            "completion_tokens_details": { "reasoning_tokens": thoughts.min(output) },
        });
        match self.server {
            Server::DeepSeek => {
                usage["prompt_cache_hit_tokens"] = cached.into();
                usage["prompt_cache_miss_tokens"] = input.saturating_sub(cached).into();
            }
            Server::OpenRouter => usage["cost"] = json!(0.0012),
            Server::Vllm => {
                usage["prompt_tokens_details"] = Value::Null;
                usage["completion_tokens_details"] = Value::Null;
            }
            Server::OpenAi | Server::LlamaCpp => {}
        }
        usage
    }
}

/// The name comes first, then the arguments in pieces.
fn call_deltas(call: &Value, index: usize) -> Vec<Value> {
    let mut first = call.clone();
    first["index"] = index.into();
    first["function"]["arguments"] = "".into();
    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
    let pieces = split(arguments);
    let pieces = pieces.iter().filter(|piece| !piece.is_empty()).map(
        |piece| json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }),
    );
    [json!({ "tool_calls": [first] })].into_iter().chain(pieces).collect()
}

/// Pieces of a few characters; one empty piece if the text is empty.
fn split(text: &str) -> Vec<String> {
    let symbols: Vec<char> = text.chars().collect();
    match symbols.is_empty() {
        true => vec![String::new()],
        false => symbols.chunks(DELTA).map(|piece| piece.iter().collect()).collect(),
    }
}
