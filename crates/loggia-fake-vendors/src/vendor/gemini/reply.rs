//! The responses of a reply. The arguments of a call are put in as they are in the script, so the
//! responses are written as text.

use serde_json::{Value, json};

use super::{array, field, major, signature};
use crate::script::{Answer, Asked, Say, StopKind};
use crate::vendor::{sign, tokens};

/// Tokens of thinking that is not shown.
const HIDDEN: u64 = 64;

struct Reply<'a> {
    asked: &'a Asked,
    /// The conversation that was asked about.
    before: Vec<Value>,
    thinks: bool,
    shows_thoughts: bool,
    calls: usize,
    /// The parts of each response.
    responses: Vec<Vec<String>>,
    thought_tokens: u64,
    output_tokens: u64,
    /// A call that is not an object.
    malformed: Option<String>,
}

/// The responses of a stream.
pub fn chunks(asked: &Asked, answer: &Answer) -> Vec<String> {
    let reply = Reply::new(asked, answer);
    if let Some(blocked) = reply.blocked(answer) {
        return vec![blocked];
    }
    let last = reply.responses.len().saturating_sub(1);
    let chunk = |(place, parts): (usize, &Vec<String>)| {
        let end = if place == last { reply.end(answer) } else { String::new() };
        reply.response(answer, parts, &end)
    };
    reply.responses.iter().enumerate().map(chunk).collect()
}

/// The same as one response.
pub fn whole(asked: &Asked, answer: &Answer) -> Value {
    let reply = Reply::new(asked, answer);
    let whole = reply.blocked(answer).unwrap_or_else(|| {
        let parts: Vec<String> = reply.responses.concat();
        reply.response(answer, &parts, &reply.end(answer))
    });
    serde_json::from_str(&whole).unwrap_or_default()
}

impl<'a> Reply<'a> {
    fn new(asked: &'a Asked, answer: &Answer) -> Self {
        let config = field(&asked.body, "generationConfig");
        let thinking = config.and_then(|config| field(config, "thinkingConfig"));
        let shown = thinking.and_then(|thinking| field(thinking, "includeThoughts"));
        let is_new = major(&asked.model) >= 3;
        let says_thought = |say: &Say| matches!(say, Say::Thought(_) | Say::Redacted);
        let mut reply = Self {
            asked,
            before: array(&asked.body, "contents").cloned().collect(),
            thinks: is_new || answer.says.iter().any(says_thought),
            shows_thoughts: shown == Some(&true.into()),
            calls: 0,
            responses: Vec::new(),
            thought_tokens: 0,
            output_tokens: 0,
            malformed: None,
        };
        for say in &answer.says {
            reply.say(say);
        }
        reply.finish(is_new);
        reply
    }

    fn say(&mut self, say: &Say) {
        if self.malformed.is_some() {
            return;
        }
        match say {
            Say::Thought(text) => {
                self.thought_tokens += tokens(text).max(1);
                if self.shows_thoughts {
                    let mut part = json!({ "text": text, "thought": true });
                    if text.is_empty() {
                        part["thoughtSignature"] = self.sign(&part).into();
                    }
                    self.responses.push(vec![part.to_string()]);
                }
            }
            Say::Redacted => self.thought_tokens += HIDDEN,
            Say::Text(text) => {
                self.output_tokens += tokens(text);
                for piece in halves(text) {
                    self.responses.push(vec![json!({ "text": piece }).to_string()]);
                }
            }
            Say::Call { tool, arguments } => self.call(tool, arguments),
        }
    }

    /// Calls arrive whole, those right behind each other in one response. The first one has the signature.
    fn call(&mut self, tool: &str, arguments: &str) {
        let args: Value = match arguments.trim() {
            "" => json!({}),
            text => serde_json::from_str(text).unwrap_or_default(),
        };
        if !args.is_object() {
            self.malformed = Some(format!("call:{tool}{arguments}"));
            return;
        }
        self.output_tokens += tokens(tool) + tokens(arguments);
        let mut call = format!("{{\"name\":{}", json!(tool));
        if !arguments.trim().is_empty() {
            call.push_str(&format!(",\"args\":{arguments}"));
        }
        if major(&self.asked.model) >= 3 {
            call.push_str(&format!(",\"id\":\"{}\"", self.call_id()));
        }
        let mut part = format!("{{\"functionCall\":{call}}}");
        if self.calls == 0 && self.thinks {
            let signature = self.sign(&json!({ "functionCall": { "name": tool, "args": args } }));
            part.push_str(&format!(",\"thoughtSignature\":\"{signature}\""));
        }
        part.push('}');
        self.calls += 1;
        match self.responses.last_mut() {
            Some(parts) if parts.iter().all(|part| part.contains("\"functionCall\"")) => {
                parts.push(part);
            }
            _ => self.responses.push(vec![part]),
        }
    }

    /// Without a call, the signature comes at the end, on a text that is empty.
    fn finish(&mut self, is_new: bool) {
        let mut part = json!({ "text": "" });
        if is_new && self.calls == 0 && self.malformed.is_none() {
            part["thoughtSignature"] = self.sign(&part).into();
        }
        self.responses.push(vec![part.to_string()]);
    }

    fn sign(&self, part: &Value) -> String {
        let asked = self.asked;
        signature::of_part(&asked.model, &asked.body, &self.before, self.calls, part)
    }

    fn call_id(&self) -> String {
        let id = sign(&[&self.asked.earlier_requests.into(), &self.calls.into()]);
        id.chars().take(8).collect()
    }

    /// The response to a prompt that a filter blocked: it has no candidates.
    fn blocked(&self, answer: &Answer) -> Option<String> {
        let blocked = answer.stop == StopKind::Refusal && answer.says.is_empty();
        blocked.then(|| {
            let feedback = "\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\"}";
            format!("{{{feedback},{}}}", self.tail(answer))
        })
    }

    /// The fields of the candidate that end a reply.
    fn end(&self, answer: &Answer) -> String {
        if let Some(call) = &self.malformed {
            let message = json!(format!("Malformed function call: {call}"));
            return format!(
                ",\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":{message}"
            );
        }
        match answer.stop {
            StopKind::Natural => ",\"finishReason\":\"STOP\"".to_owned(),
            StopKind::Length | StopKind::WindowFull => {
                ",\"finishReason\":\"MAX_TOKENS\"".to_owned()
            }
            StopKind::Refusal => ",\"finishReason\":\"SAFETY\"".to_owned(),
            StopKind::Paused => {
                ",\"finishReason\":\"CONTINUATION\",\"continuationToken\":\"Y29udGludWU=\""
                    .to_owned()
            }
        }
    }

    fn response(&self, answer: &Answer, parts: &[String], end: &str) -> String {
        let content = format!("{{\"parts\":[{}],\"role\":\"model\"}}", parts.join(","));
        let candidate = format!("{{\"content\":{content}{end},\"index\":0}}");
        format!("{{\"candidates\":[{candidate}],{}}}", self.tail(answer))
    }

    fn tail(&self, answer: &Answer) -> String {
        let model = json!(self.asked.model);
        let id = sign(&[&"response".into(), &self.asked.earlier_requests.into()]);
        let id: String = id.chars().take(22).collect();
        let usage = self.usage(answer);
        format!("\"usageMetadata\":{usage},\"modelVersion\":{model},\"responseId\":\"{id}\"")
    }

    fn usage(&self, answer: &Answer) -> Value {
        let counted =
            [tokens(&self.asked.body.to_string()), 0, self.output_tokens + self.thought_tokens];
        let [input, cached, output] = answer.usage.unwrap_or(counted);
        let thoughts = self.thought_tokens.min(output);
        let mut usage = json!({
            "promptTokenCount": input,
            "candidatesTokenCount": output - thoughts,
            "totalTokenCount": input + output,
            "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": input }],
        });
        if cached > 0 {
            usage["cachedContentTokenCount"] = cached.into();
        }
        if thoughts > 0 {
            usage["thoughtsTokenCount"] = thoughts.into();
        }
        usage
    }
}

/// A text in two pieces, if it is long enough.
fn halves(text: &str) -> Vec<&str> {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    match text.split_at_checked(middle) {
        Some((first, second)) if text.len() > 16 => vec![first, second],
        _ => vec![text],
    }
}
