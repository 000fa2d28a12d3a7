//! Chat Completions in five dialects.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    CallId, CallOutcome, Effort, ModelName, Output, ReplyItem, Stop, ToolDescription,
};
use loggia_fake_vendors::{Answer, Asked, FakeVendors, Fault, Pace, Say, StopKind};
use loggia_models::chat::{self, dialect};
use loggia_models::{
    Chat, Client, ClientConfig, Delta, Message, Model, ModelContext, ModelErrorKind, ModelFacts,
    PastCall, Protocol, Purpose, Reply, Secret, UserMessage, VendorModel,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Talk, model, reply};

/// The fakes, and the dialect that each speaks.
const SERVERS: [(&str, &str); 5] = [
    ("chat", "openai"),
    ("deepseek", "deepseek"),
    ("openrouter", "openrouter"),
    ("llamacpp", "llamacpp"),
    ("vllm", "vllm"),
];
const AUTH: (&str, &str) = ("authorization", "Bearer sk-test-1234567890");

fn protocol(name: &str) -> Arc<dyn Protocol> {
    Arc::new(Chat::new(dialect(name).unwrap()))
}

fn facts() -> ModelFacts {
    ModelFacts { id: "m".to_owned(), ..ModelFacts::default() }
}

fn model_of(fakes: &FakeVendors, server: &str, name: &str) -> VendorModel {
    model(server, &format!("{}/v1", fakes.url(server)), AUTH, protocol(name), facts())
}

async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeVendors {
    FakeVendors::start(Arc::new(script)).await.unwrap()
}

fn tool(name: &str) -> ToolDescription {
    ToolDescription {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
    }
}

fn talk() -> Talk {
    let mut talk = Talk::new("Be brief.", "Look at the wörk.");
    talk.request.tools = [tool("read"), tool("list")].into();
    talk
}

fn call(name: &str, arguments: &str) -> Say {
    Say::Call { tool: name.to_owned(), arguments: arguments.to_owned() }
}

/// A reply of each kind, one after the other.
fn work(asked: &Asked) -> Answer {
    Answer::says(match asked.replies() {
        0 => vec![
            Say::Thought("**Plan**\n\nI look first, größer als 🦀.".to_owned()),
            Say::Text("I read. ".to_owned()),
            call("read", r#"{"path":"b","a":1.50}"#),
            Say::Text("And I list – alles.".to_owned()),
            call("list", "{}"),
        ],
        1 => vec![
            Say::Thought(String::new()),
            Say::Redacted,
            call("read", r#"{"path":"c"}"#),
            call("read", r#"{"path":"d"}"#),
        ],
        2 => vec![call("read", r#"{"path": "#), call("list", ""), call("list", "[1]")],
        _ => vec![Say::Text("Done.".to_owned())],
    })
}

fn joined(deltas: &[Delta]) -> (String, String) {
    let (mut text, mut thoughts) = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(more) => text.push_str(more),
            Delta::Thought { subject, text } => {
                if thoughts.is_empty() && !subject.is_empty() {
                    thoughts = format!("{subject}: ");
                }
                thoughts.push_str(text);
            }
            _ => {}
        }
    }
    (text, thoughts)
}

fn calls(deltas: &[Delta]) -> Vec<(String, Result<Value, String>)> {
    let calls = deltas.iter().filter_map(|delta| match delta {
        Delta::Call { tool, input, .. } => Some((tool.clone(), input.clone())),
        _ => None,
    });
    calls.collect()
}

/// The message that the server itself says it sent.
async fn sent_by_server(fakes: &FakeVendors, server: &str, body: &Value) -> Value {
    let mut body = body.clone();
    body["stream"] = false.into();
    body.as_object_mut().unwrap().remove("stream_options");
    let request = reqwest::Client::new()
        .post(format!("{}/v1/chat/completions", fakes.url(server)))
        .header(AUTH.0, AUTH.1)
        .json(&body);
    let reply: Value = request.send().await.unwrap().json().await.unwrap();
    reply["choices"][0]["message"].clone()
}

/// The bytes of a streamed reply.
async fn raw_reply(fakes: &FakeVendors, server: &str, name: &str) -> String {
    let request = reqwest::Client::new()
        .post(format!("{}/v1/chat/completions", fakes.url(server)))
        .header(AUTH.0, AUTH.1)
        .body(body(name, &facts(), &talk()));
    request.send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn what_the_server_sent_comes_back_equal_and_in_order() {
    for (server, name) in SERVERS {
        let fakes = start(work).await;
        let model = model_of(&fakes, server, name);
        let mut talk = talk();
        let mut sent = Vec::new();
        for round in 0..4 {
            let deltas = reply(&model, talk.request.clone()).await.unwrap();
            assert_eq!(deltas.last(), Some(&Delta::Stop(Stop::Finished)), "{server}");
            let body = fakes.recorded().last().unwrap().body.clone();
            sent.push(sent_by_server(&fakes, server, &body).await);
            let (text, thoughts) = joined(&deltas);
            if round == 0 {
                assert_eq!(text, "I read. And I list – alles.", "{server}");
                let thought = "Plan: I look first, größer als 🦀.";
                assert_eq!(thoughts, if server == "chat" { "" } else { thought }, "{server}");
                let first = (
                    "read".to_owned(),
                    serde_json::from_str(r#"{"path":"b","a":1.50}"#).map_err(|_| String::new()),
                );
                assert_eq!(calls(&deltas)[0], first, "{server}");
            }
            if round == 2 {
                let inputs: Vec<_> = calls(&deltas).into_iter().map(|(_, input)| input).collect();
                let wanted = [Err(r#"{"path": "#.to_owned()), Ok(json!({})), Err("[1]".to_owned())];
                assert_eq!(inputs, wanted, "{server}");
            }
            talk.replied(&model, &deltas, "ok");
        }
        talk.say("And now?");
        reply(&model, talk.request.clone()).await.unwrap();
        assert_eq!(fakes.refusals(), Vec::<String>::new(), "{server}");

        let body = fakes.recorded().last().unwrap().body.clone();
        let back = body["messages"].as_array().unwrap().iter();
        let back: Vec<&Value> = back.filter(|message| message["role"] == "assistant").collect();
        assert_eq!(back.len(), sent.len());
        for (round, (back, sent)) in back.iter().zip(&sent).enumerate() {
            let empty = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            assert_eq!(empty(&back["content"]), empty(&sent["content"]), "{server} {round}");
            let unparsed = matches!(server, "openrouter" | "llamacpp" | "vllm") && round == 2;
            if !unparsed {
                assert_eq!(back["tool_calls"], sent["tool_calls"], "{server} {round}");
            }
            for field in dialect(name).unwrap().returns.iter().take(1) {
                let none = json!([]);
                let or_none =
                    |value: &Value| if *value == none { Value::Null } else { value.clone() };
                // No reasoning at all does not become an empty one, except where it must be there.
                if back.get(*field).is_some()
                    || !or_none(&sent[*field]).is_null() && sent[*field] != ""
                {
                    assert_eq!(or_none(&back[*field]), or_none(&sent[*field]), "{server} {round}");
                }
            }
        }
        if server == "openrouter" || server == "vllm" {
            let calls = &back[2]["tool_calls"];
            let arguments = |at: usize| calls[at]["function"]["arguments"].as_str().unwrap();
            assert_eq!(arguments(0), r#"{"invalid_arguments":"{\"path\": "}"#);
            assert_eq!((arguments(1), arguments(2)), ("{}", r#"{"invalid_arguments":"[1]"}"#));
        }
    }
}

#[tokio::test]
async fn reasoning_that_is_gone_or_moved_is_refused() {
    for (server, name, kind) in [
        ("deepseek", "deepseek", ModelErrorKind::HistoryRejected),
        ("openrouter", "openrouter", ModelErrorKind::HistoryRejected),
    ] {
        let fakes = start(work).await;
        let model = model_of(&fakes, server, name);
        let mut talk = talk();
        let deltas = reply(&model, talk.request.clone()).await.unwrap();
        talk.replied(&model, &deltas, "ok");
        if server == "openrouter" {
            let mut other = talk.request.clone();
            other.instructions = "Be long.".into();
            let error = reply(&model, other).await.unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
        }
        // A client without the dialect's quirks does not send what it must.
        let careless = model_of(&fakes, server, "openai");
        let Some(Message::Reply(last)) = talk.request.messages.last_mut() else { panic!() };
        last.items.retain(|item| item.call.is_some());
        let mut request = talk.request.clone();
        request.instructions = "".into();
        let error = reply(&careless, request).await.unwrap_err();
        match server {
            "deepseek" => assert_eq!(error.kind, kind, "{error}"),
            _ => assert!(error.message.contains("Expected `thinking`"), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_call_without_a_result_is_answered_and_a_foreign_reply_is_accepted() {
    for (server, name) in SERVERS {
        let fakes = start(|_| Answer::text("ok")).await;
        let model = model_of(&fakes, server, name);
        let mut talk = talk();
        let raw =
            r#"{"id":"call_9","type":"function","function":{"name":"read","arguments":"{}"}}"#;
        let item = ReplyItem { raw: raw.into(), call: None };
        let items = vec![item];
        let own = Reply { model: Some(model.name()), items, ..Reply::default() };
        talk.request.messages.push(Message::Reply(own));
        let past = |call: &str, input: Value| PastCall {
            call: CallId::from(call),
            tool: "read".to_owned(),
            input,
            outcome: CallOutcome::Cancelled { reason: "no".to_owned() },
        };
        let foreign = Reply {
            model: Some(ModelName("other/m".to_owned())),
            items: vec![ReplyItem { raw: "[]".into(), call: None }],
            text: "I looked.".to_owned(),
            calls: vec![
                past("0197f9a8-0000-7000-8000-000000000001", json!({ "path": "x" })),
                past("a call: ä", Value::Null),
                past("c", "no json".into()),
            ],
        };
        talk.request.messages.push(Message::Reply(foreign));
        reply(&model, talk.request.clone()).await.unwrap();
        assert_eq!(fakes.refusals(), Vec::<String>::new(), "{server}");
        let body = fakes.recorded().last().unwrap().body.clone();
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages[3]["content"], "error: this call was not run", "{server}");
        assert_eq!(messages[3]["tool_call_id"], "call_9", "{server}");
        assert_eq!(messages[4]["content"], "I looked.", "{server}");
        assert_eq!(messages.len(), 8, "{server}");
    }
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
    for (server, name) in SERVERS {
        let fakes = start(move |_| short()).await;
        let whole = reply(&model_of(&fakes, server, name), talk().request).await.unwrap();
        let length = raw_reply(&fakes, server, name).await.len();
        let fakes =
            start(move |asked| short().failing(Fault::CutAfter(asked.earlier_requests))).await;
        let model = model_of(&fakes, server, name);
        for cut in 0..length {
            let mut stream = model.stream(talk().request);
            let (mut deltas, mut failed) = (Vec::new(), None);
            while let Some(delta) = futures::StreamExt::next(&mut stream).await {
                match delta {
                    Ok(delta) => deltas.push(delta),
                    Err(error) => failed = Some(error),
                }
            }
            let failed = failed.unwrap_or_else(|| panic!("{server}: an end after {cut} bytes"));
            assert_eq!(failed.kind, ModelErrorKind::Transport, "{server} {cut}: {failed}");
            assert!(whole.starts_with(&deltas), "{server} {cut}");
        }
        let last = reply(&model, talk().request).await.unwrap();
        assert_eq!(last, whole, "{server}");
    }
}

#[tokio::test]
async fn pieces_of_one_byte_and_keep_alives_change_nothing() {
    for (server, name) in SERVERS {
        for pace in [
            Pace { piece: 1, ..Pace::default() },
            Pace { piece: 1, keep_alives: true, ..Pace::default() },
            Pace { keep_alives: true, ..Pace::default() },
        ] {
            let fakes = start(work).await;
            let whole = reply(&model_of(&fakes, server, name), talk().request).await.unwrap();
            let cut = pace.clone();
            let fakes = start(move |asked| Answer { pace: cut.clone(), ..work(asked) }).await;
            let deltas = reply(&model_of(&fakes, server, name), talk().request).await.unwrap();
            assert_eq!(deltas, whole, "{server} {pace:?}");
        }
    }
}

#[tokio::test]
async fn keep_alives_do_not_hide_a_stalled_stream() {
    for (server, name) in SERVERS {
        let fakes = start(|_| Answer::text("never")).await;
        let whole = raw_reply(&fakes, server, name).await;
        let two: usize = whole.split_inclusive("\n\n").take(2).map(str::len).sum();
        let fakes = start(move |_| Answer::text("never").failing(Fault::StallAfter(two))).await;
        let client = Client::new(ClientConfig {
            provider: server.to_owned(),
            base_url: format!("{}/v1", fakes.url(server)),
            headers: vec![(AUTH.0.to_owned(), Secret::new(AUTH.1))],
            idle: Duration::from_millis(300),
            ..ClientConfig::default()
        });
        let model = VendorModel::new(client.unwrap(), protocol(name), facts());
        let wait = tokio::time::timeout(Duration::from_secs(20), reply(&model, talk().request));
        let error = wait.await.expect("it waits forever").unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Transport, "{server}: {error}");
        assert!(error.message.contains("sent nothing"), "{server}: {error}");
    }
}

#[tokio::test]
async fn each_failure_has_its_kind_and_its_next_step() {
    use ModelErrorKind::{
        Authentication, ContextTooLong, HistoryRejected, Overloaded, QuotaSpent, RateLimited,
        Refused, UnknownModel,
    };
    let kinds = [
        ("bad_key", Authentication, "loggia keys set"),
        ("unknown_model", UnknownModel, "loggia models"),
        ("rate_limit", RateLimited, "wait"),
        ("quota", QuotaSpent, "add credit"),
        ("overloaded", Overloaded, "try again later"),
        ("too_long", ContextTooLong, "/compact"),
        ("history", HistoryRejected, "/compact"),
        ("server", Overloaded, "try again later"),
    ];
    let others = [
        ("llamacpp", "llamacpp", "too_long_500", ContextTooLong, "/compact"),
        ("chat", "openai", "filter", Refused, "phrase"),
    ];
    let each = SERVERS.into_iter().flat_map(|(server, name)| {
        kinds.map(|(error, kind, step)| (server, name, error, kind, step))
    });
    for (server, name, failure, kind, step) in each.chain(others) {
        // Also with a client that does not know the server.
        for name in [name, "generic"] {
            let fakes = start(move |_| Answer::refused(failure)).await;
            let error = reply(&model_of(&fakes, server, name), talk().request).await.unwrap_err();
            assert_eq!(error.kind, kind, "{server} {failure}: {error}");
            assert!(error.message.contains(step), "{server} {failure}: {error}");
            assert!(error.message.len() < 600, "{error}");
            assert_eq!(error.may_retry(), matches!(kind, RateLimited | Overloaded), "{error}");
        }
    }
}

#[tokio::test]
async fn the_wait_comes_from_the_header_or_the_text() {
    for (after, wanted) in [(Some(2500), 2500), (None, 1200)] {
        let refuse = Fault::Refuse { error: "rate_limit".to_owned(), retry_after_ms: after };
        let fakes = start(move |_| Answer::default().failing(refuse.clone())).await;
        let error = reply(&model_of(&fakes, "chat", "openai"), talk().request).await.unwrap_err();
        let text = Duration::from_millis(1200);
        // The text's wait is the more exact one, where both are given.
        let wanted = if after.is_some() { text } else { Duration::from_millis(wanted) };
        assert_eq!(error.retry_after, Some(wanted));
    }
    let refuse = Fault::Refuse { error: "rate_limit".to_owned(), retry_after_ms: Some(2500) };
    let fakes = start(move |_| Answer::default().failing(refuse.clone())).await;
    let error = reply(&model_of(&fakes, "deepseek", "deepseek"), talk().request).await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn an_error_in_the_stream_has_its_kind() {
    use ModelErrorKind::{ContextTooLong, Overloaded, QuotaSpent, RateLimited};
    for (server, name) in SERVERS {
        for (failure, kind) in [
            ("overloaded", Overloaded),
            ("server", Overloaded),
            ("rate_limit", RateLimited),
            ("too_long", ContextTooLong),
            ("quota", QuotaSpent),
        ] {
            let fault = Fault::ErrorAfter { events: 3, error: failure.to_owned() };
            let fakes =
                start(move |_| Answer::text("some words before").failing(fault.clone())).await;
            let mut stream = model_of(&fakes, server, name).stream(talk().request);
            let mut deltas = Vec::new();
            while let Some(delta) = futures::StreamExt::next(&mut stream).await {
                deltas.push(delta);
            }
            let error = deltas.pop().unwrap().unwrap_err();
            assert_eq!(error.kind, kind, "{server} {failure}: {error}");
            let text = deltas.iter().map(|delta| delta.as_ref().unwrap().clone());
            assert!("some words".starts_with(&joined(&text.collect::<Vec<_>>()).0));
        }
    }
}

#[tokio::test]
async fn a_reply_says_why_it_stopped_and_what_it_used() {
    for (server, name) in SERVERS {
        for (stop, wanted) in [
            (StopKind::Natural, Stop::Finished),
            (StopKind::Length, Stop::Length),
            (StopKind::Paused, Stop::Finished),
        ] {
            let fakes =
                start(move |_| Answer { stop, usage: Some([100, 60, 7]), ..Answer::text("Text") })
                    .await;
            let deltas = reply(&model_of(&fakes, server, name), talk().request).await.unwrap();
            assert_eq!(deltas.last(), Some(&Delta::Stop(wanted)), "{server}");
            let usage = deltas.iter().find_map(|delta| match delta {
                Delta::Usage(usage) => Some(*usage),
                _ => None,
            });
            let usage = usage.unwrap();
            let cached = if server == "vllm" { 0 } else { 60 };
            let found = (usage.input_tokens, usage.cached_tokens, usage.output_tokens);
            assert_eq!(found, (100, cached, 7), "{server}");
        }
        let refused = || Answer { stop: StopKind::Refusal, ..Answer::text("I cannot.") };
        let fakes = start(move |_| refused()).await;
        let model = model_of(&fakes, server, name);
        let deltas = reply(&model, talk().request).await.unwrap();
        let Some(Delta::Stop(Stop::Refused { why })) = deltas.last() else { panic!("{server}") };
        match server {
            "chat" => assert_eq!(why, "I cannot."),
            _ => assert!(why.contains("filter"), "{server}: {why}"),
        }
        // The refusal is part of the conversation.
        let mut talk = talk();
        talk.replied(&model, &deltas, "");
        talk.say("Why?");
        reply(&model, talk.request.clone()).await.unwrap();
        assert_eq!(fakes.refusals(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn usage_may_be_missing() {
    let fakes = start(|_| Answer::text("hello")).await;
    let deltas = reply(&model_of(&fakes, "vllm", "generic"), talk().request).await.unwrap();
    assert!(!deltas.iter().any(|delta| matches!(delta, Delta::Usage(_))));
    assert_eq!(deltas.last(), Some(&Delta::Stop(Stop::Finished)));
}

#[tokio::test]
async fn the_lists_of_models_say_what_the_servers_say() {
    let fakes = start(|_| Answer::text("")).await;
    for (server, name, id, window, output) in [
        ("chat", "openai", "gpt-6.1-sol", None, None),
        ("deepseek", "deepseek", "deepseek-v4-pro", None, None),
        ("openrouter", "openrouter", "anthropic/claude-opus-5-5", Some(1_000_000), Some(128_000)),
        ("llamacpp", "llamacpp", "qwen3.8-27b.gguf", Some(32_768), None),
        ("llamacpp", "generic", "qwen3.8-27b.gguf", Some(32_768), None),
        ("vllm", "vllm", "Qwen/Qwen3.8-27B", Some(131_072), None),
        ("vllm", "generic", "Qwen/Qwen3.8-27B", Some(131_072), None),
    ] {
        let client = Client::new(ClientConfig {
            provider: server.to_owned(),
            base_url: format!("{}/v1", fakes.url(server)),
            headers: vec![(AUTH.0.to_owned(), Secret::new(AUTH.1))],
            ..ClientConfig::default()
        });
        let models = client.unwrap().models(protocol(name).as_ref()).await.unwrap();
        let [facts] = &models[..] else { panic!("{models:?}") };
        assert_eq!((facts.id.as_str(), facts.window, facts.output), (id, window, output));
        if server == "openrouter" {
            assert_eq!(facts.price, Some(["4", "20", "0.2"].map(str::to_owned)));
            assert_eq!(facts.efforts.as_ref().map(Vec::len), Some(6));
        }
    }
}

#[test]
fn the_proxy_of_many_vendors_lists_each_model_once() {
    let info = |name: &str, reasons: bool| {
        json!({
            "model_name": name, "litellm_params": { "model": "x" },
            "model_info": {
                "max_input_tokens": 200_000, "max_output_tokens": 64_000,
                "input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5,
                "cache_read_input_token_cost": 3e-7, "supports_reasoning": reasons,
            },
        })
    };
    let body = json!({ "data": [info("a", true), info("a", true), info("b", false)] });
    let models = protocol("litellm").listed(&body.to_string()).unwrap();
    let names: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((models[0].window, models[0].output), (Some(200_000), Some(64_000)));
    assert_eq!(models[0].price, Some(["3", "15", "0.3"].map(str::to_owned)));
    assert_eq!(models[1].efforts, Some(Vec::new()));
    assert!(protocol("litellm").listed("{}").is_err());
}

fn body(name: &str, facts: &ModelFacts, talk: &Talk) -> String {
    let model = ModelName(format!("p/{}", facts.id));
    let context = ModelContext { name: &model, facts };
    protocol(name).request(&context, &talk.request).body
}

fn parsed(name: &str, facts: &ModelFacts, talk: &Talk) -> Value {
    serde_json::from_str(&body(name, facts, talk)).unwrap()
}

#[test]
fn every_row_of_the_table_is_json_and_has_its_own_name() {
    let mut names = Vec::new();
    for dialect in chat::ALL {
        names.push(dialect.name);
        let rows = dialect.efforts.iter().map(|(_, fields)| *fields);
        for fields in rows.chain([dialect.body, dialect.with_tools]) {
            let fields: Value = serde_json::from_str(fields).unwrap();
            assert!(fields.is_object(), "{}: {fields}", dialect.name);
        }
        for (part, _) in dialect.errors {
            assert_eq!(*part, part.to_lowercase(), "{}", dialect.name);
        }
    }
    let (all, unique) = (names.len(), names.iter().collect::<std::collections::HashSet<_>>().len());
    assert_eq!(all, unique);
    assert!(dialect("nope").is_none());
}

#[test]
fn effort_and_limits_are_asked_for_in_the_words_of_the_server() {
    let check = |name: &str, effort, wanted: Value| {
        let mut talk = Talk::new("s", "p");
        talk.request.effort = effort;
        let facts = ModelFacts { output: Some(1000), ..facts() };
        let mut found = parsed(name, &facts, &talk);
        for known in ["model", "messages", "stream", "stream_options"] {
            found.as_object_mut().unwrap().remove(known);
        }
        assert_eq!(found, wanted, "{name} {effort:?}");
    };
    let high = Some(Effort::High);
    check("generic", None, json!({ "max_tokens": 1000 }));
    check("generic", Some(Effort::None), json!({ "max_tokens": 1000, "reasoning_effort": "low" }));
    check(
        "openai",
        Some(Effort::Max),
        json!({ "max_completion_tokens": 1000, "prompt_cache_key": "session-1", "reasoning_effort": "max" }),
    );
    check(
        "azure",
        Some(Effort::Minimal),
        json!({ "max_completion_tokens": 1000, "reasoning_effort": "minimal" }),
    );
    check(
        "deepseek",
        Some(Effort::Medium),
        json!({ "max_tokens": 1000, "thinking": { "type": "enabled" }, "reasoning_effort": "high" }),
    );
    check(
        "deepseek",
        Some(Effort::None),
        json!({ "max_tokens": 1000, "thinking": { "type": "disabled" } }),
    );
    check("qwen", high, json!({ "max_tokens": 1000, "enable_thinking": true }));
    check(
        "vllm",
        Some(Effort::None),
        json!({ "max_tokens": 1000, "chat_template_kwargs": { "enable_thinking": false } }),
    );
    check(
        "llamacpp",
        high,
        json!({ "max_tokens": 1000, "chat_template_kwargs": { "enable_thinking": true, "reasoning_effort": "high" } }),
    );
    check("openrouter", Some(Effort::Max), json!({ "reasoning": { "effort": "xhigh" } }));
}

#[test]
fn what_is_known_of_a_model_limits_its_effort() {
    let check = |efforts: Option<Vec<Effort>>, wanted: Value| {
        let mut talk = Talk::new("s", "p");
        talk.request.effort = Some(Effort::Max);
        let found = parsed("azure", &ModelFacts { efforts, ..facts() }, &talk);
        assert_eq!(found["reasoning_effort"], wanted);
    };
    check(None, "max".into());
    check(Some(vec![Effort::Low, Effort::High]), "high".into());
    check(Some(Vec::new()), Value::Null);
}

#[test]
fn a_message_has_its_context_first_and_a_summary_has_no_tools() {
    let mut talk = Talk::new("sys", "one");
    talk.request.tools = [tool("read")].into();
    talk.request.messages.insert(0, Message::Summary("We met.".to_owned()));
    let content = loggia_core::Content::text("two").into();
    let with_context = UserMessage { context: Some("notes".into()), content };
    talk.request.messages.push(Message::User(with_context));
    let messages = parsed("openai", &facts(), &talk)["messages"].clone();
    assert_eq!(messages[0], json!({ "role": "developer", "content": "sys" }));
    let summary = messages[1]["content"].as_str().unwrap();
    assert!(
        summary.contains("summary of the earlier conversation") && summary.ends_with("We met.")
    );
    let parts = json!([{ "type": "text", "text": "notes" }, { "type": "text", "text": "two" }]);
    assert_eq!(messages[3], json!({ "role": "user", "content": parts }));
    let joined = parsed("deepseek", &facts(), &talk)["messages"][3]["content"].clone();
    assert_eq!(joined, "notes\n\ntwo");

    talk.request.purpose = Purpose::Summary;
    let body = parsed("generic", &facts(), &talk);
    assert_eq!(body.get("tools"), None);
    let [only] = &body["messages"].as_array().unwrap()[..] else { panic!("{body}") };
    let text = only["content"].as_str().unwrap();
    assert!(text.contains("## User\none") && text.ends_with("two"), "{text}");
}

/// A step of a conversation.
fn message(model: &'static str) -> impl Strategy<Value = Message> {
    let text = "[a-z äß\"\\\\\n]{0,12}";
    let arguments = prop_oneof![
        Just(r#"{"z":1,"a":[2.50]}"#.to_owned()),
        Just(String::new()),
        Just("{".to_owned()),
    ];
    let calls = prop::collection::vec((arguments, any::<bool>()), 0..3);
    prop_oneof![
        (text, prop::option::of(text)).prop_map(|(text, context)| {
            let content = loggia_core::Content::text(text).into();
            Message::User(UserMessage { context: context.map(Into::into), content })
        }),
        (text, calls, any::<bool>()).prop_map(move |(text, calls, own)| {
            let mut reply = Reply { text: text.clone(), ..Reply::default() };
            reply.model = Some(ModelName(if own { model } else { "other/x" }.to_owned()));
            let raw = json!({ "reasoning_content": text }).to_string().into();
            reply.items.push(ReplyItem { raw, call: None });
            let raw = json!({ "content": text }).to_string().into();
            reply.items.push(ReplyItem { raw, call: None });
            for (at, (arguments, known)) in calls.into_iter().enumerate() {
                let call = CallId::from(format!("call-{at}").as_str());
                let function = json!({ "name": "read", "arguments": arguments });
                let raw =
                    json!({ "id": format!("id{at}"), "type": "function", "function": function });
                let of = known.then(|| call.clone());
                reply.items.push(ReplyItem { raw: raw.to_string().into(), call: of });
                let output = Output::text("done");
                reply.calls.push(PastCall {
                    call,
                    tool: "read".to_owned(),
                    input: serde_json::from_str(&arguments).unwrap_or_default(),
                    outcome: CallOutcome::Succeeded { output },
                });
            }
            Message::Reply(reply)
        }),
    ]
}

proptest! {
    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(
        messages in prop::collection::vec(message("p/m"), 1..8),
    ) {
        for dialect in chat::ALL {
            let mut talk = talk();
            let mut before = body(dialect.name, &facts(), &talk);
            for message in &messages {
                talk.request.messages.push(message.clone());
                let now = body(dialect.name, &facts(), &talk);
                let start = before.strip_suffix("]}").unwrap();
                prop_assert!(now.starts_with(start), "{}\n{before}\n{now}", dialect.name);
                prop_assert_eq!(&now, &body(dialect.name, &facts(), &talk));
                before = now;
            }
        }
    }
}
