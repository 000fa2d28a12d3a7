//! Gemini: requests and replies against the fake, which enforces the rules of Gemini 3.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loggia_core::{
    CallFailure, CallId, CallOutcome, Effort, ModelName, Output, ReplyItem, Stop, ToolDescription,
    Usage,
};
use loggia_fake_vendors::{Answer, FakeVendors, Fault, Pace, Say, StopKind};
use loggia_models::{
    Client, ClientConfig, Delta, Gemini, HttpFailure, Message, Model, ModelContext, ModelErrorKind,
    ModelFacts, ModelRequest, PastCall, Piece, Protocol, Purpose, Reply, Secret, UserMessage,
    VendorModel,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{self, Talk, reply};

const NEW: &str = "gemini-3.8-flash";
const OLD: &str = "gemini-2.5-flash";

/// A fake that gives these answers, one after the other, and then the last one again.
async fn fake(answers: Vec<Answer>) -> FakeVendors {
    let script = move |asked: &loggia_fake_vendors::Asked| {
        answers.get(asked.earlier_requests).or(answers.last()).cloned().unwrap_or_default()
    };
    FakeVendors::start(Arc::new(script)).await.unwrap()
}

fn facts(id: &str) -> ModelFacts {
    ModelFacts { id: id.to_owned(), ..ModelFacts::default() }
}

fn model(fakes: &FakeVendors, id: &str) -> VendorModel {
    let header = ("x-goog-api-key", "AIza-test-key");
    support::model("gemini", &fakes.url("gemini"), header, Arc::new(Gemini), facts(id))
}

fn thought(text: &str) -> Say {
    Say::Thought(text.to_owned())
}

fn text(text: &str) -> Say {
    Say::Text(text.to_owned())
}

fn call(tool: &str, arguments: &str) -> Say {
    Say::Call { tool: tool.to_owned(), arguments: arguments.to_owned() }
}

fn talk() -> Talk {
    let mut talk = Talk::new("Be brief.", "What is the weather?");
    talk.request.tools = [ToolDescription {
        name: "get_weather".to_owned(),
        description: "The weather of a city.".to_owned(),
        parameters: json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "city": { "$ref": "#/$defs/City" },
                "days": { "type": "array" },
            },
            "required": ["city"],
            "$defs": { "City": { "type": "string" } },
        }),
    }]
    .into();
    talk
}

/// The text of a stream of the same reply, read without the client.
async fn raw_stream(answer: Answer, id: &str, body: &Value) -> String {
    let fakes = fake(vec![answer]).await;
    let url = format!("{}/v1beta/models/{id}:streamGenerateContent?alt=sse", fakes.url("gemini"));
    let client = reqwest::Client::builder().no_proxy().tls_certs_only(None).build().unwrap();
    let sent = client.post(url).header("x-goog-api-key", "AIza").json(body).send().await;
    sent.unwrap().text().await.unwrap()
}

/// The parts of a stream that the vendor wants back.
fn parts_of(stream: &str) -> Vec<Value> {
    let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.map(|data| serde_json::from_str::<Value>(data).unwrap());
    let parts = events.flat_map(|event| {
        event["candidates"][0]["content"]["parts"].as_array().cloned().unwrap_or_default()
    });
    let is_signed = |part: &Value| part.get("thoughtSignature").is_some();
    let wanted = |part: &Value| {
        is_signed(part) || part["thought"] != true && part.get("text") != Some(&"".into())
    };
    parts.filter(wanted).collect()
}

fn says(reply: &[Delta]) -> String {
    let text = |delta: &Delta| match delta {
        Delta::Text(text) => Some(text.clone()),
        _ => None,
    };
    reply.iter().filter_map(text).collect()
}

#[tokio::test]
async fn a_reply_comes_back_as_it_was_sent() {
    let replies = [
        vec![thought("**Looking**\n\nI look."), call("get_weather", r#"{"z":1.0,"city":"Rom"}"#)],
        vec![Say::Redacted, call("get_weather", "{}")],
        vec![thought(""), text("Let me look."), call("get_weather", "")],
        vec![
            text("First. "),
            call("get_weather", "{}"),
            text("Second. "),
            call("get_weather", "{}"),
        ],
        vec![call("get_weather", r#"{"city":"Rom"}"#), call("get_weather", r#"{"city":"Bonn"}"#)],
        vec![thought("**Done**"), text("It is sunny in Rome, and 25 degrees warm.")],
        vec![text("Yes.")],
    ];
    for id in [NEW, OLD] {
        for says in &replies {
            let answer = Answer::says(says.clone());
            let fakes = fake(vec![answer.clone(), Answer::text("Done.")]).await;
            let model = model(&fakes, id);
            let mut talk = talk();
            let first = reply(&model, talk.request.clone()).await.unwrap();
            assert_eq!(first.last(), Some(&Delta::Stop(Stop::Finished)));
            talk.replied(&model, &first, "sunny");
            if !answer.calls() {
                talk.say("And tomorrow?");
            }
            let second = reply(&model, talk.request.clone()).await;
            assert!(second.is_ok(), "{id} {says:?}: {:?}", fakes.refusals());
            let recorded = fakes.recorded();
            let mut sent = parts_of(&raw_stream(answer.clone(), id, &recorded[0].body).await);
            let mut back = recorded[1].body["contents"][1]["parts"].as_array().unwrap().clone();
            if id == OLD {
                // These calls have no id, and get one.
                for part in sent.iter_mut().chain(&mut back) {
                    part.get_mut("functionCall").map(|call| call["id"].take());
                }
            }
            assert_eq!(back, sent, "{id} {says:?}");
            let before = recorded[0].body["contents"].as_array().unwrap();
            assert!(recorded[1].body["contents"].as_array().unwrap().starts_with(before));
        }
    }
}

#[test]
fn parts_keep_their_text() {
    let parts = [
        r#"{"text":"a","future":{"z":1.0,"a":1e3}}"#,
        r#"{"thoughtSignature":"c2ln","functionCall":{"name":"t","args":{"b":1,"a":12345678901234567890.10},"id":"x1"}}"#,
        r#"{"text":"","thoughtSignature":"c2lnMg=="}"#,
        r#"{"newKind":{"b":1,"a":2}}"#,
    ];
    let mut decoder = Gemini.decoder();
    let mut deltas = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let end = if index == 3 { r#","finishReason":"STOP""# } else { "" };
        let data =
            format!(r#"{{"unknown":1,"candidates":[{{"content":{{"parts":[{part}]}}{end}}}]}}"#);
        assert!(decoder.read(&Piece { event: String::new(), data }, &mut deltas).unwrap());
    }
    let fakes = Named(ModelName("gemini/x".to_owned()));
    let mut talk = Talk::new("", "go");
    talk.replied(&fakes, &deltas, "done");
    let body = body(&talk.request, &facts("x"));
    assert!(body.contains(&format!("[{}]", parts.join(","))), "{body}");
}

struct Named(ModelName);

impl Model for Named {
    fn name(&self) -> ModelName {
        self.0.clone()
    }

    fn stream(
        &self,
        _request: ModelRequest,
    ) -> futures::stream::BoxStream<'static, Result<Delta, loggia_models::ModelError>> {
        futures::stream::empty().boxed()
    }
}

fn body(request: &ModelRequest, facts: &ModelFacts) -> String {
    let name = ModelName("gemini/x".to_owned());
    Gemini.request(&ModelContext { name: &name, facts }, request).body
}

fn past(call: &str, outcome: CallOutcome, input: Value) -> PastCall {
    PastCall { call: CallId::from(call), tool: "get_weather".to_owned(), input, outcome }
}

fn failed(message: &str) -> CallOutcome {
    CallOutcome::Failed { failure: CallFailure::new("failed", message) }
}

#[tokio::test]
async fn replies_of_another_model_are_accepted() {
    let fakes = fake(vec![Answer::text("Done.")]).await;
    let model = model(&fakes, NEW);
    let mut talk = talk();
    let cancelled = CallOutcome::Cancelled { reason: "stopped".to_owned() };
    let item = |raw: &str| ReplyItem { raw: raw.into(), call: None };
    talk.request.messages.push(Message::Reply(Reply {
        model: Some(ModelName("anthropic/claude".to_owned())),
        items: vec![item(r#"{"type":"thinking","signature":"foreign"}"#)],
        text: "I look.".to_owned(),
        calls: vec![
            past("c1", CallOutcome::Succeeded { output: Output::text("sunny") }, json!({"b": 1})),
            past("c2", failed("no such city"), json!("not an object")),
            past("c3", cancelled, Value::Null),
        ],
    }));
    talk.say("Go on.");
    let deltas = reply(&model, talk.request.clone()).await;
    assert!(deltas.is_ok(), "{:?}", fakes.refusals());
    let contents = fakes.recorded()[0].body["contents"].clone();
    let call = |id: &str, args: Value| {
        json!({
            "functionCall": { "id": id, "name": "get_weather", "args": args },
            "thoughtSignature": "skip_thought_signature_validator",
        })
    };
    let input = json!({ "input": "not an object" });
    let calls = [call("c1", json!({ "b": 1 })), call("c2", input), call("c3", json!({}))];
    assert_eq!(contents[1]["role"], "model");
    assert_eq!(contents[1]["parts"][0], json!({ "text": "I look." }));
    assert_eq!(contents[1]["parts"].as_array().unwrap()[1..], calls);
    let result = |id: &str, response: Value| {
        let fields = json!({ "id": id, "name": "get_weather", "response": response });
        json!({ "functionResponse": fields })
    };
    let results = json!([
        result("c1", json!({ "output": "sunny" })),
        result("c2", json!({ "error": "no such city" })),
        result("c3", json!({ "error": "stopped" })),
    ]);
    assert_eq!(contents[2], json!({ "role": "user", "parts": results }));
}

#[tokio::test]
async fn a_call_that_was_not_run_and_arguments_that_are_no_object_are_sent_back() {
    let fakes = fake(vec![Answer::text("Done.")]).await;
    let model = model(&fakes, OLD);
    let mut talk = talk();
    let item = |raw: &str| ReplyItem { raw: raw.into(), call: None };
    talk.request.messages.push(Message::Reply(Reply {
        model: Some(model.name()),
        items: vec![
            item(r#"{"functionCall":{"name":"get_weather","args":[1]}}"#),
            item(r#"{"functionCall":{"name":"get_weather","id":"x"}}"#),
        ],
        ..Reply::default()
    }));
    assert!(reply(&model, talk.request).await.is_ok(), "{:?}", fakes.refusals());
    let contents = fakes.recorded()[0].body["contents"].clone();
    assert_eq!(
        contents[1]["parts"][0]["functionCall"],
        json!({ "name": "get_weather", "args": { "input": [1] }, "id": "call-1-0" }),
    );
    let not_run = json!({ "error": "The call was not run." });
    for (index, id) in ["call-1-0", "x"].into_iter().enumerate() {
        let result = json!({ "id": id, "name": "get_weather", "response": not_run });
        assert_eq!(contents[2]["parts"][index]["functionResponse"], result);
    }
}

#[tokio::test]
async fn a_changed_beginning_is_refused() {
    let calls = Answer::says([thought("I look."), call("get_weather", "{}")]);
    for change in 0..4 {
        let fakes = fake(vec![calls.clone(), Answer::text("Done.")]).await;
        let model = model(&fakes, NEW);
        let mut talk = talk();
        let first = reply(&model, talk.request.clone()).await.unwrap();
        talk.replied(&model, &first, "sunny");
        match (change, &mut talk.request) {
            (0, request) => request.messages[0] = Message::User(UserMessage::text("other")),
            (1, request) => request.instructions = "Be long.".into(),
            (2, request) => request.tools = [].into(),
            (_, request) => {
                let Some(Message::Reply(reply)) = request.messages.last_mut() else { panic!() };
                let raw = reply.items[0].raw.replace(r#""args":{}"#, r#""args":{"city":"Rom"}"#);
                assert_ne!(*raw, *reply.items[0].raw);
                reply.items[0].raw = raw.into();
            }
        }
        let error = reply(&model, talk.request).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::HistoryRejected, "{change}: {error}");
        assert!(!error.may_retry());
    }
}

#[tokio::test]
async fn deltas_say_what_the_reply_says() {
    let answer = Answer {
        usage: Some([1000, 600, 50]),
        ..Answer::says([
            thought("**Looking**\n\nI look."),
            text("Ok."),
            call("get_weather", r#"{"city":"Rom"}"#),
        ])
    };
    let fakes = fake(vec![answer]).await;
    let deltas = reply(&model(&fakes, NEW), talk().request).await.unwrap();
    let shown: Vec<&Delta> =
        deltas.iter().filter(|delta| !matches!(delta, Delta::Item(_))).collect();
    let [thought, text, Delta::Call { tool, input, item }, usage, stop] = shown[..] else {
        panic!("{shown:?}");
    };
    let told = Delta::Thought { subject: "Looking".to_owned(), text: "I look.".to_owned() };
    assert_eq!(*thought, told);
    assert_eq!(*text, Delta::Text("Ok.".to_owned()));
    assert_eq!((tool.as_str(), input), ("get_weather", &Ok(json!({ "city": "Rom" }))));
    assert!(item.is_some());
    let counted = Usage {
        input_tokens: 1000,
        cached_tokens: 600,
        output_tokens: 50,
        thought_tokens: 5,
        ..Usage::default()
    };
    assert_eq!(*usage, Delta::Usage(counted));
    assert_eq!(*stop, Delta::Stop(Stop::Finished));
}

#[tokio::test]
async fn endings() {
    let stopped = |stop, says: Vec<Say>| Answer { stop, ..Answer::says(says) };
    let check =
        async |answer: Answer| reply(&model(&fake(vec![answer]).await, NEW), talk().request).await;
    for (stop, says) in [
        (StopKind::Length, vec![text("It is")]),
        (StopKind::Length, vec![]),
        (StopKind::Paused, vec![text("It is")]),
    ] {
        let deltas = check(stopped(stop, says)).await.unwrap();
        assert_eq!(deltas.last(), Some(&Delta::Stop(Stop::Length)));
    }
    for (says, reason) in [(vec![], "PROHIBITED_CONTENT"), (vec![text("It is")], "SAFETY")] {
        let deltas = check(stopped(StopKind::Refusal, says)).await.unwrap();
        let Some(Delta::Stop(Stop::Refused { why })) = deltas.last() else { panic!("{deltas:?}") };
        assert!(why.contains(reason), "{why}");
    }
    for says in [
        vec![],
        vec![thought("I look.")],
        vec![text(" \n")],
        vec![call("get_weather", "{\"city\":")],
        vec![text("Ok."), call("get_weather", "[1]")],
    ] {
        let error = check(Answer::says(says.clone())).await.unwrap_err();
        assert_eq!(
            (error.kind, error.should_retry),
            (ModelErrorKind::Malformed, Some(true)),
            "{says:?}"
        );
    }
}

#[tokio::test]
async fn errors_have_kinds() {
    use ModelErrorKind::{
        Authentication, ContextTooLong, HistoryRejected, Overloaded, QuotaSpent, RateLimited,
        UnknownModel,
    };
    for (name, delay, kind, may_retry) in [
        ("rate_limit", Some(1200), RateLimited, true),
        ("rate_limit", None, RateLimited, true),
        ("quota", Some(9000), QuotaSpent, false),
        ("overloaded", None, Overloaded, true),
        ("server", None, Overloaded, true),
        ("bad_key", None, Authentication, false),
        ("unknown_model", None, UnknownModel, false),
        ("too_long", None, ContextTooLong, false),
        ("history", None, HistoryRejected, false),
    ] {
        let fault = Fault::Refuse { error: name.to_owned(), retry_after_ms: delay };
        let fakes = fake(vec![Answer::default().failing(fault)]).await;
        let error = reply(&model(&fakes, NEW), talk().request).await.unwrap_err();
        assert_eq!((error.kind, error.may_retry()), (kind, may_retry), "{name}: {error}");
        let wanted = delay.filter(|_| may_retry).map(Duration::from_millis);
        assert_eq!(error.retry_after, wanted, "{name}");
        // The same in the middle of a stream.
        let fault = Fault::ErrorAfter { events: 1, error: name.to_owned() };
        let fakes = fake(vec![Answer::text("It is sunny in Rome.").failing(fault)]).await;
        let model = model(&fakes, NEW);
        let mut stream = model.stream(talk().request);
        let first = stream.next().await.unwrap().unwrap();
        assert_eq!(first, Delta::Text("It is sunn".to_owned()));
        let rest: Vec<_> = stream.collect().await;
        let Some(Err(error)) = rest.last() else { panic!("{rest:?}") };
        assert_eq!(error.kind, kind, "{name}: {error}");
    }
}

#[test]
fn error_bodies_are_read() {
    use ModelErrorKind::{
        Authentication, BadRequest, ContextTooLong, HistoryRejected, Overloaded, QuotaSpent,
        RateLimited, UnknownModel,
    };
    let check = |status: u16, body: &str, kind: ModelErrorKind, wait: Option<u64>| {
        let failure = HttpFailure { status, body: body.to_owned(), ..HttpFailure::default() };
        let error = Gemini.error(&failure);
        assert_eq!(error.kind, kind, "{body}: {error}");
        assert_eq!(error.retry_after, wait.map(Duration::from_millis), "{body}");
        assert!(error.message.chars().count() < 700 && !error.message.contains('\n'));
    };
    let error = |status: &str, message: &str| {
        json!({ "error": { "code": 1, "status": status, "message": message } }).to_string()
    };
    let again = "Please retry in 36.5s.";
    check(429, &error("RESOURCE_EXHAUSTED", again), RateLimited, Some(36_500));
    check(
        429,
        &format!("[{}]", error("RESOURCE_EXHAUSTED", "retry in 350ms")),
        RateLimited,
        Some(350),
    );
    check(
        429,
        &error("RESOURCE_EXHAUSTED", "Quota exceeded, limit: 0, model: x"),
        QuotaSpent,
        None,
    );
    check(
        429,
        &error("RESOURCE_EXHAUSTED", "Quota exceeded, limit: 05, model: x"),
        RateLimited,
        None,
    );
    check(429, "busy", RateLimited, None);
    check(
        400,
        &error("INVALID_ARGUMENT", "API key expired. Please renew the API key."),
        Authentication,
        None,
    );
    check(403, &error("PERMISSION_DENIED", "denied"), Authentication, None);
    check(401, "", Authentication, None);
    check(404, "<html>Not found</html>", UnknownModel, None);
    check(
        400,
        &error("INVALID_ARGUMENT", "Request contains an invalid argument."),
        BadRequest,
        None,
    );
    check(400, &error("FAILED_PRECONDITION", "User location is not supported."), BadRequest, None);
    check(
        400,
        &error("INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
        ContextTooLong,
        None,
    );
    check(
        400,
        &error(
            "INVALID_ARGUMENT",
            "Function call is missing a thought_signature in functionCall parts.",
        ),
        HistoryRejected,
        None,
    );
    check(502, &"long ".repeat(1000), Overloaded, None);
    check(504, &error("DEADLINE_EXCEEDED", "late"), Overloaded, None);
}

/// A reply of every kind of part, with characters of several bytes.
fn various() -> Answer {
    Answer::says([
        thought("**Grüße**\n\nÜberlegen 🌍."),
        text("Grüße aus Köln 🌍, ein schöner Ort."),
        call("get_weather", r#"{"city":"Köln"}"#),
        call("get_weather", r#"{"city":"Århus"}"#),
    ])
}

#[tokio::test]
async fn a_reply_that_is_cut_fails_at_every_byte() {
    let fakes = fake(vec![various()]).await;
    let whole = reply(&model(&fakes, NEW), talk().request).await.unwrap();
    let stream = raw_stream(various(), NEW, &fakes.recorded()[0].body).await;
    assert!(stream.ends_with("\r\n\r\n"));
    // A carriage return is the end of a line too, so the last newline is not needed.
    let enough = stream.len() - 1;
    let script = move |asked: &loggia_fake_vendors::Asked| {
        various().failing(Fault::CutAfter(asked.earlier_requests))
    };
    let fakes = FakeVendors::start(Arc::new(script)).await.unwrap();
    let model = model(&fakes, NEW);
    for cut in 0..=stream.len() {
        let read: Vec<_> = model.stream(talk().request).collect().await;
        let deltas: Vec<Delta> = read.iter().filter_map(|read| read.clone().ok()).collect();
        assert!(is_beginning(&deltas, &whole), "{cut}: {deltas:?}");
        let ended = deltas.iter().any(|delta| matches!(delta, Delta::Stop(_)));
        let failed = matches!(read.last(), Some(Err(_)));
        assert_eq!((ended, failed), (cut >= enough, cut < enough), "{cut}");
    }
}

/// Whether the deltas are the first ones of a reply. The ids of calls differ from request to request.
fn is_beginning(deltas: &[Delta], whole: &[Delta]) -> bool {
    let plain = |delta: &Delta| match delta {
        Delta::Call { tool, input, .. } => {
            Delta::Call { tool: tool.clone(), input: input.clone(), item: None }
        }
        other => other.clone(),
    };
    deltas.len() <= whole.len()
        && deltas.iter().zip(whole).all(|(delta, wanted)| plain(delta) == plain(wanted))
}

#[tokio::test]
async fn the_size_of_pieces_does_not_matter() {
    let whole = reply(&model(&fake(vec![various()]).await, NEW), talk().request).await.unwrap();
    for pace in [
        Pace { piece: 1, ..Pace::default() },
        Pace { piece: 7, ..Pace::default() },
        Pace { keep_alives: true, ..Pace::default() },
    ] {
        let fakes = fake(vec![Answer { pace, ..various() }]).await;
        assert_eq!(reply(&model(&fakes, NEW), talk().request).await.unwrap(), whole);
    }
}

#[tokio::test]
async fn a_stalled_reply_fails_although_keep_alives_come() {
    let fakes = fake(vec![various()]).await;
    reply(&model(&fakes, NEW), talk().request).await.unwrap();
    let stream = raw_stream(various(), NEW, &fakes.recorded()[0].body).await;
    let two_events: usize = stream.split_inclusive("\r\n\r\n").take(2).map(str::len).sum();
    let fakes = fake(vec![various().failing(Fault::StallAfter(two_events))]).await;
    let client = Client::new(ClientConfig {
        provider: "gemini".to_owned(),
        base_url: fakes.url("gemini"),
        headers: vec![("x-goog-api-key".to_owned(), Secret::new("AIza-test"))],
        idle: Duration::from_millis(300),
        ..ClientConfig::default()
    });
    let model = VendorModel::new(client.unwrap(), Arc::new(Gemini), facts(NEW));
    let read: Vec<_> = model.stream(talk().request).collect().await;
    assert!(read.len() > 1, "{read:?}");
    let Some(Err(error)) = read.last() else { panic!("{read:?}") };
    assert_eq!(error.kind, ModelErrorKind::Transport);
}

#[tokio::test]
async fn every_effort_is_accepted_by_every_model() {
    let fakes = fake(vec![Answer::text("Ok.")]).await;
    let models = [
        "gemini-4-argon",
        "gemini-3.8-flash",
        "gemini-3.1-pro-preview",
        "gemini-3-pro-preview",
        "gemini-3-flash-preview",
        "gemini-2.5-pro",
        "gemini-2.5-flash",
        "gemini-2.5-flash-lite",
        "gemini-2.0-flash",
        "gemma-4-27b-it",
    ];
    let efforts = [None].into_iter().chain(Effort::ALL.map(Some));
    for (id, effort) in models.iter().flat_map(|id| efforts.clone().map(move |effort| (id, effort)))
    {
        let mut request = talk().request;
        request.effort = effort;
        let deltas = reply(&model(&fakes, id), request).await;
        assert!(deltas.is_ok(), "{id} {effort:?}: {:?}", fakes.refusals());
    }
    let check = |facts: ModelFacts, effort: Option<Effort>, wanted: Value| {
        let request = ModelRequest { effort, ..talk().request };
        let body: Value = serde_json::from_str(&body(&request, &facts)).unwrap();
        assert_eq!(body["generationConfig"], wanted, "{facts:?}");
    };
    let config = |thinking: Value| json!({ "thinkingConfig": thinking });
    check(facts("x"), Some(Effort::High), Value::Null);
    check(facts(NEW), None, config(json!({ "includeThoughts": true })));
    check(
        facts(NEW),
        Some(Effort::Max),
        config(json!({ "includeThoughts": true, "thinkingLevel": "HIGH" })),
    );
    check(
        ModelFacts { thinking: Some("budget".to_owned()), ..facts("x-flash") },
        Some(Effort::Medium),
        config(json!({ "includeThoughts": true, "thinkingBudget": 8192 })),
    );
    check(facts(OLD), Some(Effort::None), config(json!({ "thinkingBudget": 0 })));
    let none = ModelFacts { efforts: Some(Vec::new()), output: Some(8192), ..facts(NEW) };
    check(none, Some(Effort::High), json!({ "maxOutputTokens": 8192 }));
    // A higher one would begin a reply over several requests.
    let long = ModelFacts { efforts: Some(Vec::new()), output: Some(1_048_576), ..facts(NEW) };
    check(long, None, json!({ "maxOutputTokens": 65_536 }));
}

#[tokio::test]
async fn models_are_listed() {
    let fakes = fake(Vec::new()).await;
    let client = Client::new(ClientConfig {
        provider: "gemini".to_owned(),
        base_url: fakes.url("gemini"),
        headers: vec![("x-goog-api-key".to_owned(), Secret::new("AIza-test"))],
        idle: Duration::from_secs(5),
        ..ClientConfig::default()
    });
    let models = client.unwrap().models(&Gemini).await.unwrap();
    let found = |id: &str| models.iter().find(|model| model.id == id).unwrap().clone();
    let new = found(NEW);
    assert_eq!((new.window, new.output), (Some(1_048_576), Some(65_536)));
    assert_eq!(new.thinking.as_deref(), Some("level"));
    assert_eq!(new.efforts, Some(vec![Effort::Low, Effort::Medium, Effort::High]));
    assert_eq!(found(OLD).thinking.as_deref(), Some("budget"));
    assert_eq!(found("gemini-2.0-flash").efforts, Some(Vec::new()));
    assert!(!models.iter().any(|model| model.id.contains("embedding")));
}

#[tokio::test]
async fn a_summary_is_asked_for_in_one_message_without_tools() {
    let fakes = fake(vec![Answer::text("Ok.")]).await;
    let model = model(&fakes, NEW);
    let mut talk = talk();
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "");
    talk.say("Summarise.");
    let request = ModelRequest { purpose: Purpose::Summary, ..talk.request };
    assert_eq!(says(&reply(&model, request).await.unwrap()), "Ok.");
    let body = &fakes.recorded()[1].body;
    assert_eq!(body.get("tools"), None);
    assert_eq!(
        body["contents"],
        json!([{ "role": "user", "parts": [
            { "text": "## User\nWhat is the weather?\n\n## Agent\nOk.\n\n" },
            { "text": "Summarise." },
        ] }]),
    );
}

#[tokio::test]
async fn an_unusual_name_of_a_model_is_a_path() {
    for (id, path) in [
        ("models-x", "/v1beta/models/models-x:streamGenerateContent?alt=sse"),
        ("tunedModels/mine", "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse"),
        ("a b?c", "/v1beta/models/a%20b%3Fc:streamGenerateContent?alt=sse"),
    ] {
        let (name, facts) = (ModelName(id.to_owned()), facts(id));
        let model = ModelContext { name: &name, facts: &facts };
        assert_eq!(Gemini.request(&model, &talk().request).path, path);
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let user =
        (proptest::option::of("[a-z ]{0,8}"), "[a-zé\"]{0,8}").prop_map(|(context, text)| {
            let context = context.map(|context| context.as_str().into());
            Message::User(UserMessage { context, ..UserMessage::text(text) })
        });
    let item = prop_oneof![
        Just(r#"{"text":"x","b":1,"a":2}"#),
        Just(r#"{"text":"","thoughtSignature":"s"}"#),
        Just(
            r#"{"functionCall":{"name":"t","args":{"b":1,"a":2},"id":"i"},"thoughtSignature":"s"}"#
        ),
        Just(r#"{"functionCall":{"name":"t"}}"#),
        Just(r#"{"functionCall":{"name":"t","args":"x"}}"#),
        Just("damaged"),
    ];
    let reply =
        (any::<bool>(), proptest::collection::vec((item, any::<bool>()), 0..5), "[a-z]{0,4}");
    let reply = reply.prop_map(|(own, items, text)| {
        let name = if own { "gemini/x" } else { "gemini/y" };
        let mut reply = Reply { model: Some(ModelName(name.to_owned())), text, ..Reply::default() };
        for (place, (raw, known)) in items.into_iter().enumerate() {
            let id = format!("c{place}");
            let call = (known && raw.contains("functionCall")).then(|| CallId::from(id.as_str()));
            if call.is_some() {
                reply.calls.push(past(&id, failed("no"), json!({ "b": place })));
            }
            reply.items.push(ReplyItem { raw: raw.into(), call });
        }
        Message::Reply(reply)
    });
    prop_oneof![user, reply]
}

proptest! {
    #[test]
    fn a_longer_conversation_begins_with_the_shorter(
        summary in proptest::option::of("[a-z]{0,8}"),
        messages in proptest::collection::vec(any_message(), 1..8),
        efforts in any::<bool>(),
    ) {
        let summary = summary.map(Message::Summary);
        let messages: Vec<Message> = summary.into_iter().chain(messages).collect();
        let facts = facts(if efforts { NEW } else { OLD });
        let body_of = |count: usize| {
            let request = ModelRequest { messages: messages[..count].to_vec(), ..talk().request };
            let whole = body(&request, &facts);
            prop_assert_eq!(&whole, &body(&request, &facts));
            Ok(whole)
        };
        for count in 1..messages.len() {
            let (short, long) = (body_of(count)?, body_of(count + 1)?);
            let short = short.strip_suffix("]}").unwrap();
            prop_assert!(long.starts_with(short), "{}\n{}", short, long);
        }
    }
}
