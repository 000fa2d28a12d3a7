//! Ollama's own API.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    CallId, CallOutcome, Effort, ModelName, Output, ReplyItem, Stop, ToolDescription,
};
use loggia_fake_vendors::{Answer, Asked, FakeVendors, Fault, Pace, Say, StopKind};
use loggia_models::ollama::{SHOW_PATH, show_request, shown};
use loggia_models::{
    Client, ClientConfig, Delta, Message, Model, ModelContext, ModelErrorKind, ModelFacts, Ollama,
    PastCall, Protocol, Purpose, Reply, VendorModel,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Talk, model, reply};

const MODEL: &str = "qwen3.8:27b";

fn facts() -> ModelFacts {
    ModelFacts {
        id: MODEL.to_owned(),
        window: Some(32_768),
        thinking: Some("switch".to_owned()),
        ..ModelFacts::default()
    }
}

fn model_of(fakes: &FakeVendors) -> VendorModel {
    model("ollama", &fakes.url("ollama"), ("x-none", "none"), Arc::new(Ollama), facts())
}

async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeVendors {
    FakeVendors::start(Arc::new(script)).await.unwrap()
}

fn talk() -> Talk {
    let mut talk = Talk::new("Be brief.", "Look at the wörk.");
    let parameters = json!({ "type": "object", "properties": {} });
    let tool = |name: &str| ToolDescription {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: parameters.clone(),
    };
    talk.request.tools = [tool("read"), tool("list")].into();
    talk
}

fn call(name: &str, arguments: &str) -> Say {
    Say::Call { tool: name.to_owned(), arguments: arguments.to_owned() }
}

fn work(asked: &Asked) -> Answer {
    Answer::says(match asked.replies() {
        0 => vec![
            Say::Thought("**Plan**\nI look, größer als 🦀.".to_owned()),
            Say::Text("I read. ".to_owned()),
            call("read", r#"{"path":"b","a":1.50}"#),
            Say::Text("And I list – alles.".to_owned()),
            call("list", ""),
        ],
        1 => vec![
            Say::Thought(String::new()),
            Say::Redacted,
            call("read", r#"{"path":"c"}"#),
            call("read", r#"{"path":"d"}"#),
        ],
        _ => vec![Say::Text("Done.".to_owned())],
    })
}

/// The bytes of a reply that the fake sends to this body.
async fn raw_reply(fakes: &FakeVendors, body: &Value) -> String {
    let request = reqwest::Client::new().post(format!("{}/api/chat", fakes.url("ollama")));
    request.json(body).send().await.unwrap().text().await.unwrap()
}

/// The message in these lines, as a client of the vendor puts it together.
fn put_together(lines: &str) -> Value {
    let (mut thinking, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = &line["message"];
        thinking.push_str(message["thinking"].as_str().unwrap_or_default());
        content.push_str(message["content"].as_str().unwrap_or_default());
        calls.extend(message["tool_calls"].as_array().cloned().unwrap_or_default());
    }
    let mut message = json!({ "role": "assistant", "content": content });
    if !thinking.is_empty() {
        message["thinking"] = thinking.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

#[tokio::test]
async fn what_the_server_sent_comes_back_equal_and_in_order() {
    let fakes = start(work).await;
    let model = model_of(&fakes);
    let mut talk = talk();
    let mut sent = Vec::new();
    for _ in 0..3 {
        let deltas = reply(&model, talk.request.clone()).await.unwrap();
        assert_eq!(deltas.last(), Some(&Delta::Stop(Stop::Finished)));
        let body = fakes.recorded().last().unwrap().body.clone();
        sent.push(put_together(&raw_reply(&fakes, &body).await));
        if sent.len() == 1 {
            let thoughts = deltas.iter().filter_map(|delta| match delta {
                Delta::Thought { subject, text } => {
                    assert_eq!(subject, "Plan");
                    Some(text.as_str())
                }
                _ => None,
            });
            assert_eq!(thoughts.collect::<String>(), "I look, größer als 🦀.");
        }
        talk.replied(&model, &deltas, "ok");
    }
    talk.say("And now?");
    reply(&model, talk.request.clone()).await.unwrap();
    assert_eq!(fakes.refusals(), Vec::<String>::new());
    let body = fakes.recorded().last().unwrap().body.clone();
    let back = body["messages"].as_array().unwrap().iter();
    let back: Vec<Value> = back.filter(|message| message["role"] == "assistant").cloned().collect();
    assert_eq!(back, sent);
    assert_eq!(body["options"]["num_ctx"], 32_768);
    assert_eq!((&body["truncate"], &body["shift"]), (&json!(false), &json!(false)));
}

#[test]
fn the_order_of_arguments_survives() {
    let mut decoder = Ollama.decoder();
    let mut deltas = Vec::new();
    let item = r#"{"id":"call_1","function":{"index":0,"name":"x","arguments":{"z":1,"a":{"c":1.50,"b":2}}}}"#;
    let line = format!(r#"{{"message":{{"content":"","tool_calls":[{item}]}},"done":true}}"#);
    let piece = loggia_models::Piece { event: String::new(), data: line };
    decoder.read(&piece, &mut deltas).unwrap();
    let Delta::Call { item: Some(raw), .. } = &deltas[0] else { panic!("{deltas:?}") };
    assert_eq!(&**raw, item);
    let mut talk = Talk::new("", "p");
    let call = CallId::from("c");
    let items = vec![ReplyItem { raw: raw.clone(), call: Some(call.clone()) }];
    let own = Reply { model: Some(ModelName("p/m".to_owned())), items, ..Reply::default() };
    talk.request.messages.push(Message::Reply(own));
    let body = body(&talk);
    assert!(body.contains(item), "{body}");
    let result = r#"{"role":"tool","tool_name":"x","tool_call_id":"call_1","content":"error: this call was not run"}"#;
    assert!(body.contains(result), "{body}");
}

#[tokio::test]
async fn a_reply_that_is_cut_at_any_byte_is_an_error() {
    let short = || {
        Answer::says([
            Say::Thought("hm ü".to_owned()),
            Say::Text("Grüße".to_owned()),
            call("read", "{}"),
        ])
    };
    let fakes = start(move |_| short()).await;
    let whole = reply(&model_of(&fakes), talk().request).await.unwrap();
    let body = fakes.recorded().last().unwrap().body.clone();
    let length = raw_reply(&fakes, &body).await.len();
    let fakes = start(move |asked| short().failing(Fault::CutAfter(asked.earlier_requests))).await;
    let model = model_of(&fakes);
    // The last byte is a newline, without which the last line is complete too.
    for cut in 0..length - 1 {
        let mut stream = model.stream(talk().request);
        let (mut deltas, mut failed) = (Vec::new(), None);
        while let Some(delta) = futures::StreamExt::next(&mut stream).await {
            match delta {
                Ok(delta) => deltas.push(delta),
                Err(error) => failed = Some(error),
            }
        }
        let failed = failed.unwrap_or_else(|| panic!("an end after {cut} bytes"));
        assert_eq!(failed.kind, ModelErrorKind::Transport, "{cut}: {failed}");
        assert!(whole.starts_with(&deltas), "{cut}");
    }
    assert_eq!(reply(&model, talk().request).await.unwrap(), whole);
}

#[tokio::test]
async fn pieces_of_one_byte_and_keep_alives_change_nothing() {
    let fakes = start(work).await;
    let whole = reply(&model_of(&fakes), talk().request).await.unwrap();
    for (piece, keep_alives) in [(1, false), (1, true), (0, true)] {
        let pace = Pace { piece, keep_alives, ..Pace::default() };
        let fakes = start(move |asked| Answer { pace: pace.clone(), ..work(asked) }).await;
        assert_eq!(reply(&model_of(&fakes), talk().request).await.unwrap(), whole);
    }
}

#[tokio::test]
async fn a_stalled_stream_fails() {
    let fakes = start(|_| Answer::text("never").failing(Fault::StallAfter(0))).await;
    let client = Client::new(ClientConfig {
        provider: "ollama".to_owned(),
        base_url: fakes.url("ollama"),
        idle: Duration::from_millis(300),
        ..ClientConfig::default()
    });
    let model = VendorModel::new(client.unwrap(), Arc::new(Ollama), facts());
    let wait = tokio::time::timeout(Duration::from_secs(20), reply(&model, talk().request));
    let error = wait.await.expect("it waits forever").unwrap_err();
    assert!(error.message.contains("sent nothing"), "{error}");
}

#[tokio::test]
async fn each_failure_has_its_kind_and_its_next_step() {
    use ModelErrorKind::{
        Authentication, BadRequest, ContextTooLong, Overloaded, QuotaSpent, RateLimited,
        UnknownModel,
    };
    for (failure, kind, step) in [
        ("bad_key", Authentication, "loggia keys set"),
        ("unknown_model", UnknownModel, "ollama pull"),
        ("rate_limit", RateLimited, "wait"),
        ("quota", QuotaSpent, "add credit"),
        ("overloaded", Overloaded, "try again later"),
        ("too_long", ContextTooLong, "/compact"),
        ("tools", BadRequest, "does not support tools"),
        ("server", Overloaded, "CUDA"),
    ] {
        let fakes = start(move |_| Answer::refused(failure)).await;
        let error = reply(&model_of(&fakes), talk().request).await.unwrap_err();
        assert_eq!(error.kind, kind, "{failure}: {error}");
        assert!(error.message.contains(step), "{failure}: {error}");
    }
    for (failure, kind) in [("server", Overloaded), ("too_long", ContextTooLong)] {
        let fault = Fault::ErrorAfter { events: 1, error: failure.to_owned() };
        let fakes = start(move |_| Answer::text("words before").failing(fault.clone())).await;
        let error = reply(&model_of(&fakes), talk().request).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
    // A call that the server cannot parse.
    let fakes = start(|_| Answer::says([call("read", "{")])).await;
    let error = reply(&model_of(&fakes), talk().request).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed, "{error}");
}

#[tokio::test]
async fn a_conversation_is_never_cut_silently() {
    let fakes = start(|_| Answer::text("ok")).await;
    let mut talk = talk();
    talk.say(&"long ".repeat(40_000));
    let error = reply(&model_of(&fakes), talk.request.clone()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::ContextTooLong, "{error}");
}

#[tokio::test]
async fn a_reply_says_why_it_stopped_and_what_it_used() {
    for (stop, wanted) in [(StopKind::Natural, Stop::Finished), (StopKind::Length, Stop::Length)] {
        let fakes = start(move |_| Answer { stop, usage: Some([100, 0, 7]), ..Answer::text("x") });
        let deltas = reply(&model_of(&fakes.await), talk().request).await.unwrap();
        assert_eq!(deltas.last(), Some(&Delta::Stop(wanted)));
        let usage = deltas.iter().find_map(|delta| match delta {
            Delta::Usage(usage) => Some((usage.input_tokens, usage.output_tokens)),
            _ => None,
        });
        assert_eq!(usage, Some((100, 7)));
    }
}

#[tokio::test]
async fn the_list_and_a_models_facts_can_be_read() {
    let fakes = start(|_| Answer::text("")).await;
    let client = Client::new(ClientConfig {
        provider: "ollama".to_owned(),
        base_url: fakes.url("ollama"),
        ..ClientConfig::default()
    });
    let models = client.unwrap().models(&Ollama).await.unwrap();
    assert_eq!(models, [ModelFacts { id: MODEL.to_owned(), ..ModelFacts::default() }]);
    let url = format!("{}{SHOW_PATH}", fakes.url("ollama"));
    let answer = reqwest::Client::new().post(url).body(show_request(MODEL)).send().await.unwrap();
    let facts = shown(MODEL, &answer.text().await.unwrap()).unwrap();
    assert_eq!((facts.window, facts.thinking.as_deref()), (Some(65_536), Some("switch")));
}

fn body(talk: &Talk) -> String {
    let (model, facts) = (ModelName("p/m".to_owned()), facts());
    Ollama.request(&ModelContext { name: &model, facts: &facts }, &talk.request).body
}

#[test]
fn thinking_is_asked_for_only_of_models_that_think() {
    let check = |thinking: Option<&str>, efforts: Option<Vec<Effort>>, effort, wanted: Value| {
        let facts =
            ModelFacts { thinking: thinking.map(str::to_owned), efforts, ..ModelFacts::default() };
        let model = ModelName("p/m".to_owned());
        let mut talk = talk();
        talk.request.effort = effort;
        let context = ModelContext { name: &model, facts: &facts };
        let body: Value =
            serde_json::from_str(&Ollama.request(&context, &talk.request).body).unwrap();
        assert_eq!(body["think"], wanted, "{thinking:?} {effort:?}");
    };
    let high = Some(Effort::High);
    check(None, None, None, Value::Null);
    check(None, None, high, Value::Null);
    check(None, Some(Vec::new()), high, Value::Null);
    check(Some("switch"), None, high, true.into());
    check(Some("switch"), None, Some(Effort::None), false.into());
    let levels = vec![Effort::Low, Effort::Medium, Effort::High];
    check(Some("level"), Some(levels.clone()), Some(Effort::Max), "high".into());
    check(Some("level"), Some(levels), Some(Effort::None), "low".into());
}

#[test]
fn a_summary_has_no_tools() {
    let mut talk = talk();
    talk.say("Summarise.");
    talk.request.purpose = Purpose::Summary;
    let body: Value = serde_json::from_str(&body(&talk)).unwrap();
    assert_eq!(body.get("tools"), None);
    let text = "## User\nLook at the wörk.\n\nSummarise.";
    assert_eq!(body["messages"], json!([{ "role": "user", "content": text }]));
}

proptest! {
    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(
        steps in prop::collection::vec(("[a-z ä\"\n]{0,9}", 0..3_usize, any::<bool>()), 1..8),
    ) {
        let mut talk = talk();
        let mut before = body(&talk);
        for (text, calls, own) in steps {
            let model = if own { "p/m" } else { "other/x" };
            let mut reply = Reply {
                model: Some(ModelName(model.to_owned())),
                items: vec![ReplyItem {
                    raw: json!({ "content": text }).to_string().into(),
                    call: None,
                }],
                text: text.clone(),
                ..Reply::default()
            };
            for at in 0..calls {
                let call = CallId::from(format!("c{at}").as_str());
                let raw = r#"{"function":{"name":"read","arguments":{"z":1,"a":2}}}"#;
                reply.items.push(ReplyItem { raw: raw.into(), call: Some(call.clone()) });
                let outcome = CallOutcome::Succeeded { output: Output::text("done") };
                let input = json!({ "z": 1 });
                reply.calls.push(PastCall { call, tool: "read".to_owned(), input, outcome });
            }
            talk.request.messages.push(Message::Reply(reply));
            talk.say(&text);
            let now = body(&talk);
            prop_assert!(now.starts_with(before.strip_suffix("]}").unwrap()), "{before}\n{now}");
            before = now;
        }
    }
}
