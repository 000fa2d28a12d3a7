//! The body of a request. `input` comes last and only grows at its end, so the body of a longer
//! conversation begins with the bytes of the shorter one.

use loggia_core::{CallId, CallOutcome, Effort, ReplyItem, ToolDescription};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::{NO_REASONING, schema};
use crate::protocol::{ModelContext, ModelFacts};
use crate::request::{Message, ModelRequest, PastCall, Purpose, Reply, UserMessage, transcript};

/// The longest `prompt_cache_key` and `call_id` that the API accepts, in characters.
const ID_LIMIT: usize = 64;
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";
const SUMMARY: &str = "This is a summary of the earlier conversation:\n\n";
const NOT_RUN: &str = "Error: this call was not run.";

/// The order of the fields is the order of the bytes.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    prompt_cache_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    summary: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    /// As the vendor sent it.
    Raw(&'a RawValue),
    Built(Built<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Built<'a> {
    Message { role: &'static str, content: Vec<Part<'a>> },
    FunctionCall { call_id: String, name: String, arguments: String },
    FunctionCallOutput { call_id: Cow<'a, str>, output: Cow<'a, str> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str },
}

pub fn body(model: &ModelContext<'_>, request: &ModelRequest) -> String {
    let reasoning = reasoning(model.facts, request.effort);
    let (tools, input) = match request.purpose {
        Purpose::Turn => {
            let input = request.messages.iter().flat_map(|message| items(model, message));
            (request.tools.iter().map(tool).collect(), input.collect())
        }
        Purpose::Summary => (Vec::new(), vec![summary_request(&request.messages)]),
    };
    let body = Body {
        model: &model.facts.id,
        stream: true,
        store: false,
        include: reasoning.iter().map(|_| ENCRYPTED_REASONING).collect(),
        prompt_cache_key: request.cache_key.chars().take(ID_LIMIT).collect(),
        reasoning,
        instructions: &request.instructions,
        parallel_tool_calls: (!tools.is_empty()).then_some(true),
        tools,
        input,
    };
    // Writing text, numbers and valid JSON to a string does not fail.
    serde_json::to_string(&body).unwrap_or_default()
}

/// Unknown models are taken for models that reason: all newer ones do.
fn reasoning(facts: &ModelFacts, effort: Option<Effort>) -> Option<Reasoning> {
    if facts.thinking.as_deref() == Some(NO_REASONING) {
        return None;
    }
    let effort = effort.and_then(|wanted| match &facts.efforts {
        None => Some(wanted),
        Some(offered) => nearest(wanted, offered),
    });
    Some(Reasoning { effort, summary: "auto" })
}

fn nearest(wanted: Effort, offered: &[Effort]) -> Option<Effort> {
    let distance = |effort: &Effort| (*effort as i32 - wanted as i32).abs();
    offered.iter().copied().min_by_key(distance)
}

fn tool(tool: &ToolDescription) -> Tool<'_> {
    Tool {
        r#type: "function",
        name: &tool.name,
        description: &tool.description,
        parameters: schema::accepted(&tool.parameters),
        strict: false,
    }
}

fn items<'a>(model: &ModelContext<'_>, message: &'a Message) -> Vec<Item<'a>> {
    match message {
        Message::Summary(summary) => vec![user([format!("{SUMMARY}{summary}").into()])],
        Message::User(UserMessage { context, content }) => {
            let context = context.as_deref().map(Cow::Borrowed);
            vec![user(context.into_iter().chain([content.shown().into()]))]
        }
        Message::Reply(reply) => reply
            .items_of(model.name)
            .and_then(|items| verbatim(reply, items))
            .unwrap_or_else(|| portable(reply)),
    }
}

fn user<'a>(texts: impl IntoIterator<Item = Cow<'a, str>>) -> Item<'a> {
    let content = texts.into_iter().map(|text| Part::InputText { text }).collect();
    Item::Built(Built::Message { role: "user", content })
}

fn summary_request(messages: &[Message]) -> Item<'_> {
    let (last, earlier) =
        messages.split_last().map_or((None, messages), |(last, earlier)| (Some(last), earlier));
    let asked = match last {
        Some(Message::User(user)) => user.content.shown(),
        Some(other) => transcript(std::slice::from_ref(other)),
        None => String::new(),
    };
    user([transcript(earlier).into(), asked.into()])
}

/// The part of an item that matters here.
#[derive(Deserialize)]
struct Known<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    call_id: Cow<'a, str>,
}

/// The reply as the vendor sent it, and then the results of its calls. None if an item cannot be read.
fn verbatim<'a>(reply: &'a Reply, items: &'a [ReplyItem]) -> Option<Vec<Item<'a>>> {
    let known: Vec<Known<'_>> =
        items.iter().map(|item| serde_json::from_str(&item.raw).ok()).collect::<Option<_>>()?;
    // A reply that was cut at its length can end with reasoning. The API refuses reasoning that nothing
    // follows.
    let end =
        known.iter().rposition(|known| known.r#type != "reasoning").map_or(0, |last| last + 1);
    let mut sent = Vec::new();
    for item in items.iter().take(end) {
        sent.push(Item::Raw(serde_json::from_str(&item.raw).ok()?));
    }
    let calls = items.iter().zip(known).filter(|(_, known)| known.r#type == "function_call");
    sent.extend(calls.map(|(item, known)| {
        let past = item.call.as_ref().and_then(|call| reply.past_call(call));
        output(known.call_id, past)
    }));
    Some(sent)
}

/// The reply of another model: its text, its calls and their results.
fn portable(reply: &Reply) -> Vec<Item<'_>> {
    let mut sent = Vec::new();
    if !reply.text.trim().is_empty() {
        let content = vec![Part::OutputText { text: &reply.text }];
        sent.push(Item::Built(Built::Message { role: "assistant", content }));
    }
    sent.extend(reply.calls.iter().map(|past| {
        Item::Built(Built::FunctionCall {
            call_id: call_id(&past.call),
            name: safe_name(&past.tool),
            arguments: past.input.to_string(),
        })
    }));
    sent.extend(reply.calls.iter().map(|past| output(call_id(&past.call).into(), Some(past))));
    sent
}

fn call_id(call: &CallId) -> String {
    call.as_str().chars().take(ID_LIMIT).collect()
}

/// Another model may have called a tool by a name that this API does not accept.
fn safe_name(name: &str) -> String {
    let is_safe = |symbol: char| symbol.is_ascii_alphanumeric() || matches!(symbol, '_' | '-');
    let safe = name.chars().take(ID_LIMIT).map(|symbol| if is_safe(symbol) { symbol } else { '_' });
    let safe: String = safe.collect();
    if safe.is_empty() { "unnamed".to_owned() } else { safe }
}

/// The format has no mark for a failure, so the text says it.
fn output<'a>(call_id: Cow<'a, str>, past: Option<&'a PastCall>) -> Item<'a> {
    let output = match past.map(|past| &past.outcome) {
        Some(CallOutcome::Succeeded { output }) => output.text.as_str().into(),
        Some(failed) => format!("Error: {}", failed.summary()).into(),
        None => NOT_RUN.into(),
    };
    Item::Built(Built::FunctionCallOutput { call_id, output })
}
