//! The Responses API.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use loggia_core::{
    CallFailure, CallId, CallOutcome, Content, Effort, ModelName, Output, ReplyItem, Stop,
    ToolDescription, Usage,
};
use loggia_fake_vendors::{Answer, Asked, FakeVendors, Fault, Pace, Say, StopKind};
use loggia_models::{
    Client, ClientConfig, Delta, HttpFailure, Message, ModelContext, ModelError, ModelErrorKind,
    ModelFacts, ModelRequest, PastCall, Piece, Protocol, Purpose, Reply, Responses, Secret,
    UserMessage, VendorModel,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{self, Talk, reply};

const KEY: (&str, &str) = ("authorization", "Bearer sk-fake-1234567890abcdef");

fn facts(id: &str) -> ModelFacts {
    ModelFacts { id: id.to_owned(), ..ModelFacts::default() }
}

fn url(fakes: &FakeVendors) -> String {
    format!("{}/v1", fakes.url("openai"))
}

fn model_with(fakes: &FakeVendors, facts: ModelFacts) -> VendorModel {
    support::model("openai", &url(fakes), KEY, Arc::new(Responses), facts)
}

fn model(fakes: &FakeVendors) -> VendorModel {
    model_with(fakes, facts("fake-model"))
}

/// A fake that gives these answers in turn, and the last one again and again.
async fn fakes(answers: Vec<Answer>) -> FakeVendors {
    let script = Arc::new(move |asked: &Asked| {
        let answer = answers.get(asked.earlier_requests).or(answers.last());
        answer.cloned().unwrap_or_default()
    });
    FakeVendors::start(script).await.unwrap()
}

fn call(tool: &str, arguments: &str) -> Say {
    Say::Call { tool: tool.to_owned(), arguments: arguments.to_owned() }
}

fn tools() -> Arc<[ToolDescription]> {
    let tool = |name: &str, parameters: Value| ToolDescription {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters,
    };
    let path = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    [tool("read", path), tool("list", json!({"anyOf": [{"type": "object"}]}))].into()
}

/// The deltas of a reply with neighbours of one kind joined.
fn joined(deltas: &[Delta]) -> Vec<Delta> {
    let mut joined: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (joined.last_mut(), delta) {
            (Some(Delta::Text(whole)), Delta::Text(text)) => whole.push_str(text),
            (
                Some(Delta::Thought { subject, text: whole }),
                Delta::Thought { subject: same, text },
            ) if subject == same => whole.push_str(text),
            _ => joined.push(delta.clone()),
        }
    }
    joined
}

fn body(facts: &ModelFacts, request: &ModelRequest) -> String {
    let name = ModelName(format!("openai/{}", facts.id));
    Responses.request(&ModelContext { name: &name, facts }, request).body
}

fn parsed(facts: &ModelFacts, request: &ModelRequest) -> Value {
    serde_json::from_str(&body(facts, request)).unwrap()
}

fn raw_items(deltas: &[Delta]) -> Vec<Arc<str>> {
    let raw = deltas.iter().filter_map(|delta| match delta {
        Delta::Item(raw) | Delta::Call { item: Some(raw), .. } => Some(raw.clone()),
        _ => None,
    });
    raw.collect()
}

fn read(events: &[Value]) -> Result<Vec<Delta>, ModelError> {
    let (mut decoder, mut deltas) = (Responses.decoder(), Vec::new());
    for event in events {
        let piece = Piece { event: String::new(), data: event.to_string() };
        decoder.read(&piece, &mut deltas)?;
    }
    Ok(deltas)
}

/// The same request without streaming, so that the decoder has no part in it.
async fn output_of(fakes: &FakeVendors, body: &Value) -> Value {
    let mut body = body.clone();
    body["stream"] = json!(false);
    let client = reqwest::Client::new();
    let sent = client.post(format!("{}/responses", url(fakes))).header(KEY.0, KEY.1);
    let sent = sent.header("content-type", "application/json").body(body.to_string());
    let text = sent.send().await.unwrap().text().await.unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["output"].clone()
}

#[tokio::test]
async fn every_kind_of_reply_goes_back_as_it_came() {
    let thought = "**Look**\n\nAt it.\n\n**Then**\n\nGo überall ☀.";
    let replies = [
        vec![
            Say::Thought(thought.into()),
            Say::Text("I look. ".into()),
            call("read", "{\"path\":\"a\"}"),
        ],
        vec![
            Say::Text("One. ".into()),
            call("read", "{\"z\":1,\"a\":2.50}"),
            Say::Text("Two.".into()),
            call("list", "{}"),
        ],
        vec![Say::Redacted, call("read", "{}"), call("read", "{}")],
        vec![Say::Thought(String::new()), call("read", "{\"path\":"), call("list", "")],
        vec![Say::Redacted, call("list", "[1]"), Say::Thought("x".into()), Say::Text("☀".into())],
        vec![Say::Text("Done.".into())],
    ];
    let script = Arc::new(move |asked: &Asked| {
        Answer::says(replies.get(asked.replies()).cloned().unwrap_or_default())
    });
    let fakes = FakeVendors::start(script).await.unwrap();
    let model = model(&fakes);
    let mut talk = Talk::new("Be brief.", "Look at a.");
    talk.request.tools = tools();
    for _ in 0..6 {
        let deltas = reply(&model, talk.request.clone()).await.unwrap();
        assert!(matches!(deltas.last(), Some(Delta::Stop(Stop::Finished))), "{deltas:?}");
        let asked = fakes.recorded().last().unwrap().body.clone();
        let said = output_of(&fakes, &asked).await;
        talk.replied(&model, &deltas, "the result");
        let next = body(&facts("fake-model"), &talk.request);
        assert!(raw_items(&deltas).iter().all(|raw| next.contains(&**raw)), "not verbatim");
        let next: Value = serde_json::from_str(&next).unwrap();
        let (before, items) =
            (asked["input"].as_array().unwrap(), next["input"].as_array().unwrap());
        let said = said.as_array().unwrap();
        assert_eq!(&items[before.len()..before.len() + said.len()], &said[..]);
        let results = &items[before.len() + said.len()..];
        let calls = said.iter().filter(|item| item["type"] == "function_call");
        let calls: Vec<&Value> = calls.map(|item| &item["call_id"]).collect();
        assert_eq!(results.iter().map(|item| &item["call_id"]).collect::<Vec<_>>(), calls);
    }
    assert_eq!(fakes.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn a_reply_is_read() {
    let says = vec![
        Say::Thought("**Look**\n\nAt it.\n\n**Then**\n\nGo.".into()),
        Say::Text("I look, überall ☀. ".into()),
        call("read", "{\"path\":\"a\"}"),
        call("list", ""),
        call("list", "{\"x\":"),
        call("list", "[1]"),
    ];
    let whole = Answer { says, usage: Some([1200, 1024, 50]), ..Answer::default() };
    let pace = Pace { piece: 1, keep_alives: true, ..Pace::default() };
    let split = Answer { pace, ..whole.clone() };
    let fakes = fakes(vec![whole, split]).await;
    let model = model(&fakes);
    let mut talk = Talk::new("Be brief.", "Look at a.");
    talk.request.tools = tools();
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    assert_eq!(reply(&model, talk.request).await.unwrap(), deltas);

    let raw = raw_items(&deltas);
    let thought =
        |subject: &str, text: &str| Delta::Thought { subject: subject.into(), text: text.into() };
    let called = |tool: &str, input: Result<Value, &str>, at: usize| Delta::Call {
        tool: tool.into(),
        input: input.map_err(str::to_owned),
        item: Some(raw[at].clone()),
    };
    let wanted = [
        thought("Look", "At it."),
        thought("Then", "Go."),
        Delta::Item(raw[0].clone()),
        Delta::Text("I look, überall ☀. ".into()),
        Delta::Item(raw[1].clone()),
        called("read", Ok(json!({"path": "a"})), 2),
        called("list", Ok(json!({})), 3),
        called("list", Err("{\"x\":"), 4),
        called("list", Err("[1]"), 5),
        Delta::Usage(Usage {
            input_tokens: 1200,
            output_tokens: 50,
            thought_tokens: 8,
            cached_tokens: 1024,
            ..Usage::default()
        }),
        Delta::Stop(Stop::Finished),
    ];
    assert_eq!(joined(&deltas), wanted);
}

#[tokio::test]
async fn a_reply_that_is_cut_anywhere_is_an_error() {
    let says =
        vec![Say::Thought("**A**\n\nb ü".into()), Say::Text("c ☀".into()), call("read", "{}")];
    let answer = Answer::says(says);
    let script = |fault: Option<Fault>| {
        let answer = Answer { fault, ..answer.clone() };
        fakes(vec![answer])
    };
    let request = Talk::new("", "x").request;
    let complete = script(None).await;
    let deltas = reply(&model(&complete), request.clone()).await.unwrap();
    let client = reqwest::Client::new();
    let sent = client.post(format!("{}/responses", url(&complete))).header(KEY.0, KEY.1);
    let sent = sent.header("content-type", "application/json");
    let sent = sent.body(body(&facts("fake-model"), &request));
    let length = sent.send().await.unwrap().bytes().await.unwrap().len();

    let at = |earlier: usize| Answer { fault: Some(Fault::CutAfter(earlier)), ..answer.clone() };
    let cut = fakes((0..=length).map(at).collect()).await;
    let model = model(&cut);
    let (model, request, deltas) = (&model, &request, &deltas);
    let ended = stream::iter(0..=length).map(|_| async move {
        let mut stream = loggia_models::Model::stream(model, request.clone());
        let mut read = Vec::new();
        while let Some(delta) = stream.next().await {
            match delta {
                Ok(delta) => read.push(delta),
                Err(error) => {
                    assert_eq!(error.kind, ModelErrorKind::Transport, "{error}");
                    assert!(deltas.starts_with(&read), "{read:?}");
                    assert!(!matches!(read.last(), Some(Delta::Stop(_))));
                    return false;
                }
            }
        }
        assert_eq!(&read, deltas);
        true
    });
    let complete = ended.buffer_unordered(4).filter(|complete| std::future::ready(*complete));
    assert_eq!(complete.count().await, 1, "only the whole stream is a reply");
}

#[tokio::test]
async fn keep_alives_do_not_keep_a_stalled_stream() {
    let stalled = Answer::text("a b c").failing(Fault::StallAfter(2500));
    let fakes = fakes(vec![stalled]).await;
    let client = Client::new(ClientConfig {
        provider: "openai".to_owned(),
        base_url: url(&fakes),
        headers: vec![(KEY.0.to_owned(), Secret::new(KEY.1))],
        idle: Duration::from_millis(300),
        ..ClientConfig::default()
    });
    let model = VendorModel::new(client.unwrap(), Arc::new(Responses), facts("fake-model"));
    let request = Talk::new("", "x").request;
    let read = tokio::time::timeout(Duration::from_secs(5), reply(&model, request));
    let error = read.await.expect("the stream stalls for ever").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Transport);
    assert!(error.message.contains("sent nothing of the reply"), "{error}");
}

#[tokio::test]
async fn a_reply_says_why_it_ended() {
    let check = async |answer: Answer, wanted: Stop| {
        let fakes = fakes(vec![answer]).await;
        let deltas = reply(&model(&fakes), Talk::new("", "x").request).await.unwrap();
        assert_eq!(deltas.last(), Some(&Delta::Stop(wanted)));
    };
    let stopped = |stop: StopKind| Answer { stop, ..Answer::text("Once upon") };
    let refused = Answer { stop: StopKind::Refusal, ..Answer::default() };
    let why = "I'm sorry, but I can't help with that.".to_owned();
    check(refused, Stop::Refused { why }).await;
    check(stopped(StopKind::Length), Stop::Length).await;
    check(stopped(StopKind::Natural), Stop::Finished).await;

    let incomplete = |reason: &str| {
        let details = json!({"incomplete_details": {"reason": reason}, "usage": null});
        read(&[json!({"type": "response.incomplete", "response": details})]).unwrap()
    };
    for reason in ["content_filter", "steered"] {
        assert!(matches!(&incomplete(reason)[..], [Delta::Stop(Stop::Refused { .. })]));
    }
}

/// A refused reply and one that was cut in its reasoning or in a call do not block the conversation.
#[tokio::test]
async fn a_conversation_continues_after_an_incomplete_reply() {
    let length = |says: Vec<Say>| Answer { says, stop: StopKind::Length, ..Answer::default() };
    let answers = vec![
        length(vec![Say::Text("a".into()), Say::Thought("b".into())]),
        length(vec![Say::Thought("only".into())]),
        length(vec![Say::Thought("c".into()), call("read", "{\"pa")]),
        Answer { stop: StopKind::Refusal, ..Answer::says([Say::Redacted]) },
        Answer::text("Done."),
    ];
    let fakes = fakes(answers).await;
    let model = model(&fakes);
    let mut talk = Talk::new("", "x");
    for _ in 0..5 {
        let deltas = reply(&model, talk.request.clone()).await.unwrap();
        talk.replied(&model, &deltas, "invalid arguments");
        talk.say("Go on.");
    }
    assert_eq!(fakes.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn the_fake_refuses_a_changed_conversation() {
    let says = vec![Say::Thought("a".into()), Say::Text("b".into()), call("read", "{}")];
    let fakes = fakes(vec![Answer::says(says), Answer::text("Done.")]).await;
    let model = model(&fakes);
    let mut talk = Talk::new("Be brief.", "x");
    talk.request.tools = tools();
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "y");
    type Change = fn(&mut ModelRequest);
    let changes: [(&str, Change); 4] = [
        ("instructions", |request| request.instructions = "Be long.".into()),
        ("tools", |request| request.tools = [].into()),
        ("first message", |request| request.messages[0] = Message::User(UserMessage::text("z"))),
        ("order", |request| {
            if let Message::Reply(reply) = &mut request.messages[1] {
                reply.items.swap(0, 1);
            }
        }),
    ];
    for (what, change) in changes {
        let mut changed = talk.request.clone();
        change(&mut changed);
        let error = reply(&model, changed).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::HistoryRejected, "{what}: {error}");
    }
    // Another model gets the portable form, and one of the same name at another effort gets the items.
    let other = model_with(&fakes, facts("other-model"));
    reply(&other, talk.request.clone()).await.unwrap();
    talk.request.effort = Some(Effort::High);
    reply(&model, talk.request).await.unwrap();
}

#[tokio::test]
async fn errors_have_kinds() {
    use ModelErrorKind as Kind;
    let table = [
        ("rate_limit", Kind::RateLimited, true),
        ("quota", Kind::QuotaSpent, false),
        ("overloaded", Kind::Overloaded, true),
        ("server", Kind::Overloaded, true),
        ("bad_key", Kind::Authentication, false),
        ("unknown_model", Kind::UnknownModel, false),
        ("too_long", Kind::ContextTooLong, false),
        ("history", Kind::HistoryRejected, false),
        ("policy", Kind::Refused, false),
    ];
    for (name, kind, retries) in table {
        let in_stream = Fault::ErrorAfter { events: 6, error: name.to_owned() };
        let fakes =
            fakes(vec![Answer::refused(name), Answer::text("a b c").failing(in_stream)]).await;
        let model = model(&fakes);
        let before = reply(&model, Talk::new("", "x").request).await.unwrap_err();
        let within = reply(&model, Talk::new("", "x").request).await.unwrap_err();
        for error in [before, within] {
            assert_eq!((error.kind, error.may_retry()), (kind, retries), "{name}: {error}");
            assert!(!error.message.contains("cdef"), "{error}");
            if kind == Kind::RateLimited {
                assert_eq!(error.retry_after, Some(Duration::from_millis(1200)));
            }
        }
    }
}

#[test]
fn failures_are_read() {
    use ModelErrorKind as Kind;
    let check = |status: u16, body: &str, kind: Kind, millis: Option<u64>| {
        let failure = HttpFailure { status, body: body.to_owned(), ..HttpFailure::default() };
        let error = Responses.error(&failure);
        let wanted = (kind, millis.map(Duration::from_millis));
        assert_eq!((error.kind, error.retry_after), wanted, "{body}: {error}");
        assert!(error.message.chars().count() < 600, "{error}");
    };
    let error = |message: &str, code: Value| {
        json!({"error": {"message": message, "type": "invalid_request_error", "code": code}})
            .to_string()
    };
    check(401, "", Kind::Authentication, None);
    check(403, "<html>", Kind::Authentication, None);
    check(402, "{}", Kind::QuotaSpent, None);
    check(429, "{\"error\":\"slower\"}", Kind::RateLimited, None);
    check(429, &error("Please try again in 350ms.", Value::Null), Kind::RateLimited, Some(350));
    check(429, &error("Please try again in 1m2.5s.", Value::Null), Kind::RateLimited, Some(62500));
    check(429, &error("try again in 20 seconds", Value::Null), Kind::RateLimited, Some(20000));
    check(429, &error("try again in a moment", Value::Null), Kind::RateLimited, None);
    check(429, &error("no", json!("insufficient_quota")), Kind::QuotaSpent, None);
    check(502, "Bad Gateway", Kind::Overloaded, None);
    check(413, "", Kind::ContextTooLong, None);
    check(404, "{\"detail\":\"Not Found\"}", Kind::BadRequest, None);
    check(404, &error("x", json!("model_not_found")), Kind::UnknownModel, None);
    let gone =
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.";
    check(404, &error(gone, Value::Null), Kind::HistoryRejected, None);
    check(400, &error("maximum context length is 8192", json!(400)), Kind::ContextTooLong, None);
    check(400, &error("x", json!("image_content_policy_violation")), Kind::Refused, None);
    check(400, &error(&"long ".repeat(400), Value::Null), Kind::BadRequest, None);
}

#[test]
fn errors_in_a_stream_are_read() {
    use ModelErrorKind as Kind;
    let check = |event: Value, kind: Kind| {
        assert_eq!(read(std::slice::from_ref(&event)).unwrap_err().kind, kind, "{event}");
    };
    let failed = |code: &str| {
        let error = json!({"code": code, "message": "m"});
        json!({"type": "response.failed", "response": {"error": error}})
    };
    check(failed("cyber_policy"), Kind::Refused);
    check(failed("bio_policy"), Kind::Refused);
    check(failed("slow_down"), Kind::Overloaded);
    check(failed("something_new"), Kind::Overloaded);
    check(failed("invalid_image_url"), Kind::BadRequest);
    check(json!({"type": "response.failed"}), Kind::Overloaded);
    check(
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "m"}),
        Kind::RateLimited,
    );
    check(
        json!({"type": "error", "error": {"code": "insufficient_quota", "message": "m"}}),
        Kind::QuotaSpent,
    );
    check(json!({"error": {"message": "m", "code": 500}}), Kind::Overloaded);
    check(json!({"type": "response.output_item.done"}), Kind::Malformed);
    check(json!({"type": "response.output_text.delta", "delta": 1}), Kind::Malformed);
    check(json!("text"), Kind::Malformed);
}

#[test]
fn unknown_events_and_fields_are_kept_or_skipped() {
    let raw = "{\"z\":1,\"type\":\"message\",\"a\":{\"y\":0.10,\"b\":2},\"content\":[]}";
    let data = format!("{{\"type\":\"response.output_item.done\",\"new\":1,\"item\":{raw}}}");
    let (mut decoder, mut deltas) = (Responses.decoder(), Vec::new());
    let mut read = |event: &str, data: &str| {
        let piece = Piece { event: event.to_owned(), data: data.to_owned() };
        decoder.read(&piece, &mut deltas).unwrap()
    };
    assert!(!read("keepalive", "{\"type\":\"keepalive\",\"sequence_number\":3}"));
    assert!(!read("", "{\"type\":\"codex.rate_limits\",\"delta\":{}}"));
    assert!(!read("", "[DONE]"));
    assert!(read("", "{\"type\":\"response.new_thing.delta\",\"delta\":{}}"));
    assert!(read("", &data));
    // Some servers name the event only in its own line.
    assert!(read("response.output_text.delta", "{\"delta\":\"a\"}"));
    assert_eq!(deltas, [Delta::Item(raw.into()), Delta::Text("a".into())]);
}

#[test]
fn a_call_that_was_cut_has_no_valid_input() {
    for arguments in ["", "{}", "{\"a\":"] {
        let item = json!({
            "type": "function_call", "name": "read", "arguments": arguments, "status": "incomplete",
        });
        let deltas = read(&[json!({"type": "response.output_item.done", "item": item})]).unwrap();
        let [Delta::Call { input: Err(text), .. }] = &deltas[..] else { panic!("{deltas:?}") };
        assert_eq!(text, arguments);
    }
}

#[test]
fn the_parameters_follow_the_facts() {
    let mut request = Talk::new("Be brief.", "x").request;
    let body = parsed(&facts("new-model"), &request);
    let wanted = json!({
        "model": "new-model", "stream": true, "store": false,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "session-1",
        "reasoning": {"summary": "auto"}, "instructions": "Be brief.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}],
    });
    assert_eq!(body, wanted);

    request.tools = tools();
    let body = parsed(&facts("new-model"), &request);
    assert_eq!(body["parallel_tool_calls"], json!(true));
    let list = json!({
        "type": "function", "name": "list", "description": "Does list.", "strict": false,
        "parameters": {"type": "object", "properties": {}},
    });
    assert_eq!(body["tools"][1], list);

    request.effort = Some(Effort::Max);
    let effort = |efforts: Option<Vec<Effort>>| {
        let facts = ModelFacts { efforts, ..facts("m") };
        parsed(&facts, &request)["reasoning"]["effort"].clone()
    };
    assert_eq!(effort(None), json!("max"));
    assert_eq!(effort(Some(vec![Effort::Low, Effort::High])), json!("high"));
    assert_eq!(effort(Some(Vec::new())), Value::Null);

    let plain = ModelFacts { thinking: Some("none".to_owned()), ..facts("gpt-4.1") };
    let body = parsed(&plain, &request);
    assert_eq!((body.get("reasoning"), body.get("include")), (None, None));
}

#[tokio::test]
async fn a_model_without_reasoning_accepts_its_requests() {
    let fakes = fakes(vec![Answer::says([Say::Text("a".into()), call("read", "{}")])]).await;
    let facts = ModelFacts { thinking: Some("none".to_owned()), ..facts("gpt-4.1") };
    let model = model_with(&fakes, facts);
    let mut talk = Talk::new("", "x");
    talk.request.effort = Some(Effort::High);
    for _ in 0..2 {
        let deltas = reply(&model, talk.request.clone()).await.unwrap();
        talk.replied(&model, &deltas, "y");
    }
    assert_eq!(fakes.refusals(), Vec::<String>::new());
}

#[test]
fn messages_are_sent_in_the_vendors_form() {
    let past = |call: &str, tool: &str, outcome: CallOutcome| PastCall {
        call: CallId::from(call),
        tool: tool.to_owned(),
        input: json!({"a": 1}),
        outcome,
    };
    let done = CallOutcome::Succeeded { output: Output::text("ok") };
    let failed = CallOutcome::Failed { failure: CallFailure::new("io", "no such file") };
    let long = "é".repeat(100);
    let own = Reply {
        model: Some(ModelName("openai/m".to_owned())),
        items: vec![ReplyItem {
            raw: "{\"type\":\"function_call\",\"call_id\":\"v1\"}".into(),
            call: None,
        }],
        ..Reply::default()
    };
    let foreign = Reply {
        model: Some(ModelName("gemini/g".to_owned())),
        items: own.items.clone(),
        text: "said".to_owned(),
        calls: vec![past("c1", "read file", done), past(&long, "", failed)],
    };
    let noted =
        UserMessage { context: Some("Notes.".into()), content: Content::text("Go.").into() };
    let messages = vec![
        Message::Summary("s".into()),
        Message::User(noted),
        Message::Reply(own),
        Message::Reply(foreign),
    ];
    let request = ModelRequest { messages, ..Talk::new("", "").request };
    let body = parsed(&facts("m"), &request);
    let user = |texts: &[&str]| {
        let parts = texts.iter().map(|text| json!({"type": "input_text", "text": text}));
        json!({"type": "message", "role": "user", "content": parts.collect::<Vec<_>>()})
    };
    let cut = "é".repeat(64);
    let called = |id: &str, name: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{\"a\":1}"});
    let result = |id: &str, output: &str| json!({"type": "function_call_output", "call_id": id, "output": output});
    let wanted = json!([
        user(&["This is a summary of the earlier conversation:\n\ns"]),
        user(&["Notes.", "Go."]),
        {"type": "function_call", "call_id": "v1"},
        result("v1", "Error: this call was not run."),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "said"}]},
        called("c1", "read_file"),
        called(&cut, "unnamed"),
        result("c1", "ok"),
        result(&cut, "Error: no such file"),
    ]);
    assert_eq!(body["input"], wanted);
}

#[test]
fn a_summary_is_asked_for_with_a_transcript() {
    let mut talk = Talk::new("Be brief.", "What is it?");
    let reply = Reply { text: "A tree.".to_owned(), ..Reply::default() };
    talk.request.messages.push(Message::Reply(reply));
    talk.say("Summarize.");
    talk.request.tools = tools();
    talk.request.purpose = Purpose::Summary;
    let body = parsed(&facts("m"), &talk.request);
    assert_eq!((body.get("tools"), body.get("parallel_tool_calls")), (None, None));
    let parts = json!([
        {"type": "input_text", "text": "## User\nWhat is it?\n\n## Agent\nA tree.\n\n"},
        {"type": "input_text", "text": "Summarize."},
    ]);
    assert_eq!(body["input"], json!([{"type": "message", "role": "user", "content": parts}]));
}

#[tokio::test]
async fn the_list_has_the_models_that_write_text() {
    let fakes = fakes(Vec::new()).await;
    let client = Client::new(ClientConfig {
        base_url: url(&fakes),
        headers: vec![(KEY.0.to_owned(), Secret::new(KEY.1))],
        ..ClientConfig::default()
    });
    let listed = client.unwrap().models(&Responses).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|facts| facts.id.as_str()).collect();
    assert_eq!(ids, ["gpt-6.1-sol", "gpt-6-luna", "gpt-4.1"]);
    let listed = Responses.listed("{\"data\":[{\"id\":\"q\",\"max_model_len\":8192}]}").unwrap();
    assert_eq!(listed, [ModelFacts { window: Some(8192), ..facts("q") }]);
    assert!(Responses.listed("[]").is_err());
}

fn a_call(n: usize) -> (ReplyItem, PastCall) {
    let raw = format!("{{\"type\":\"function_call\",\"call_id\":\"v{n}\",\"arguments\":\"{{}}\"}}");
    let call = CallId::from(format!("c{n}").as_str());
    let outcome = CallOutcome::Succeeded { output: Output::text(format!("r{n}")) };
    let past = PastCall { call: call.clone(), tool: "read".into(), input: json!({}), outcome };
    (ReplyItem { raw: raw.as_str().into(), call: Some(call) }, past)
}

fn a_message() -> impl Strategy<Value = Message> {
    let thought = "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"g\"}";
    let user = (any::<String>(), any::<Option<String>>()).prop_map(|(text, context)| {
        let context = context.map(|context| context.as_str().into());
        Message::User(UserMessage { context, content: Content::text(text).into() })
    });
    let said = (any::<bool>(), any::<bool>(), any::<String>(), 0..3_usize);
    let said = said.prop_map(move |(own, thinks, text, calls)| {
        let (mut items, calls): (Vec<_>, Vec<_>) = (0..calls).map(a_call).unzip();
        items.extend(thinks.then(|| ReplyItem { raw: thought.into(), call: None }));
        let model = ModelName(if own { "openai/m" } else { "gemini/g" }.to_owned());
        Message::Reply(Reply { model: Some(model), items, text, calls })
    });
    prop_oneof![user, said]
}

proptest! {
    #[test]
    fn a_longer_conversation_begins_with_the_shorter_one(
        messages in prop::collection::vec(a_message(), 1..8),
        summary in any::<Option<String>>(),
    ) {
        let mut request = Talk::new("Be brief.", "x").request;
        request.tools = tools();
        request.messages = summary.map(Message::Summary).into_iter().collect();
        let mut before = String::new();
        for message in messages {
            request.messages.push(message);
            let now = body(&facts("m"), &request);
            prop_assert_eq!(&now, &body(&facts("m"), &request));
            prop_assert!(now.starts_with(&before), "{} is not the beginning of {}", before, now);
            let open = now.strip_suffix("]}");
            prop_assert!(open.is_some());
            before = open.unwrap_or_default().to_owned();
        }
    }
}
