//! What a request holds.

use loggia_core::{CallFailure, CallId, CallOutcome, Content, Effort, Part, ReplyItem};
use loggia_fake_vendors::{Answer, Say};
use loggia_models::{
    Anthropic, Message, Model, ModelContext, ModelFacts, ModelRequest, PastCall, Protocol, Purpose,
    Reply, UserMessage,
};
use serde_json::{Value, json};

use super::{OPUS, answering, facts, model, opus, read, talk};
use crate::support::reply;

fn body(facts: &ModelFacts, request: &ModelRequest) -> Value {
    let name = loggia_core::ModelName("anthropic/m".to_owned());
    let context = ModelContext { name: &name, facts };
    serde_json::from_str(&Anthropic::vendor().request(&context, request).body).unwrap()
}

#[test]
fn facts_decide_on_thinking_effort_and_limits() {
    let none = ModelFacts::default();
    let small = ModelFacts { window: Some(4000), ..ModelFacts::default() };
    let adaptive = facts("m", "adaptive");
    let may_be_off = ModelFacts {
        efforts: Some(vec![Effort::None, Effort::Low, Effort::High]),
        ..adaptive.clone()
    };
    let budget = ModelFacts { efforts: Some(Effort::ALL.to_vec()), ..facts("m", "budget") };
    let tight = ModelFacts { output: Some(1500), ..budget.clone() };
    let shown = json!({ "type": "adaptive", "display": "summarized" });
    let enabled = |tokens: u64| json!({ "type": "enabled", "budget_tokens": tokens, "display": "summarized" });
    let (high, low) = (Some(Effort::High), Some(Effort::Low));
    for (facts, wanted, limit, thinking, effort) in [
        (&none, high, 16_000, Value::Null, Value::Null),
        (&small, None, 2000, Value::Null, Value::Null),
        (&adaptive, None, 64_000, shown.clone(), Value::Null),
        (&adaptive, high, 64_000, shown.clone(), json!("high")),
        (&adaptive, Some(Effort::Max), 64_000, shown.clone(), json!("high")),
        (&adaptive, Some(Effort::None), 64_000, shown.clone(), json!("low")),
        (&may_be_off, Some(Effort::None), 64_000, json!({ "type": "disabled" }), Value::Null),
        (&may_be_off, Some(Effort::Minimal), 64_000, shown.clone(), json!("low")),
        (&budget, None, 64_000, enabled(8192), Value::Null),
        (&budget, low, 64_000, enabled(4096), Value::Null),
        (&budget, Some(Effort::None), 64_000, Value::Null, Value::Null),
        (&tight, high, 1500, Value::Null, Value::Null),
        (
            &facts("m", "between_tools"),
            low,
            64_000,
            json!({ "type": "between_tools" }),
            json!("low"),
        ),
        (&facts("m", "none"), None, 64_000, Value::Null, Value::Null),
    ] {
        let mut request = talk("go").request;
        request.effort = wanted;
        let body = body(facts, &request);
        let found = (&body["max_tokens"], &body["thinking"], &body["output_config"]["effort"]);
        assert_eq!(found, (&json!(limit), &thinking, &effort), "{facts:?} {wanted:?}");
    }
}

#[tokio::test]
async fn every_kind_of_model_accepts_its_requests() {
    let fakes = answering(vec![Answer::text("ok")]).await;
    let client = super::client(&fakes, std::time::Duration::from_secs(5));
    for facts in client.models(&Anthropic::vendor()).await.unwrap() {
        for effort in [None].into_iter().chain(Effort::ALL.map(Some)) {
            let mut request = talk("go").request;
            request.effort = effort;
            let (_, error) = read(&model(&fakes, facts.clone()), request).await;
            assert_eq!(error, None, "{facts:?} {effort:?}");
        }
    }
}

#[test]
fn headers_follow_the_kind_of_endpoint() {
    let request = talk("go").request;
    let (name, facts) = (loggia_core::ModelName("a/b".to_owned()), facts(OPUS, "adaptive"));
    let context = ModelContext { name: &name, facts: &facts };
    for (protocol, version) in
        [(Anthropic::vendor(), "2026-10-21"), (Anthropic::gateway(), "2023-06-01")]
    {
        let sent = protocol.request(&context, &request);
        assert_eq!(sent.path, "/v1/messages");
        assert_eq!(sent.headers, [("anthropic-version", version.to_owned())]);
    }
}

#[test]
fn a_message_of_the_user_is_its_context_and_its_content() {
    let file = Part::File {
        name: Some("a.png".into()),
        media_type: Some("image/png".into()),
        base64: Some("AA==".into()),
        uri: None,
    };
    let parts = vec![Part::Text { text: "look".into() }, file];
    let mut request = talk("").request;
    request.messages = vec![
        Message::Summary("They built a house.".into()),
        Message::User(UserMessage {
            context: Some("Today is Monday.".into()),
            content: Content { parts, ..Content::default() }.into(),
        }),
        Message::User(UserMessage::text(" ")),
    ];
    let body = body(&facts("m", "adaptive"), &request);
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": [text(
                "This is a summary of the earlier conversation, which it replaces:\n\nThey built a house."
            )] },
            { "role": "user", "content": [text("Today is Monday."), text("look\n[file a.png, image/png]")] },
            { "role": "user", "content": [text("(no text)")] },
        ])
    );
    let marker = json!({ "type": "ephemeral" });
    assert_eq!(body["cache_control"], marker);
    assert_eq!(
        body["system"],
        json!([{ "type": "text", "text": "Be short.", "cache_control": marker }])
    );
}

#[test]
fn a_summary_is_asked_for_in_one_message_without_tools() {
    let mut talk = talk("build it");
    talk.say("Summarise.");
    talk.request.purpose = Purpose::Summary;
    let body = body(&facts("m", "adaptive"), &talk.request);
    assert_eq!(
        body["messages"],
        json!([{ "role": "user", "content": [
        { "type": "text", "text": "## User\nbuild it\n\n" },
        { "type": "text", "text": "Summarise." },
    ] }])
    );
    assert_eq!((&body["tools"], &body["cache_control"]), (&Value::Null, &Value::Null));
}

#[test]
fn schemas_fit_the_rules_of_the_vendor() {
    let mut request = talk("go").request;
    let mut tool = request.tools[0].clone();
    tool.parameters = json!({
        "properties": { "a": { "type": "string" } }, "required": ["a"],
        "oneOf": [{ "properties": { "a": {}, "b": { "type": "number" } } }, { "required": ["c"] }],
    });
    request.tools = [tool].into();
    let body = body(&facts("m", "adaptive"), &request);
    assert_eq!(
        body["tools"][0]["input_schema"],
        json!({
            "type": "object", "required": ["a"],
            "properties": { "a": { "type": "string" }, "b": { "type": "number" } },
        })
    );
}

fn past(call: &str, input: Value, outcome: CallOutcome) -> PastCall {
    PastCall { call: CallId::from(call), tool: "run_shell".into(), input, outcome }
}

fn failed(message: &str) -> CallOutcome {
    CallOutcome::Failed { failure: CallFailure::new("failed", message) }
}

/// A reply of another model says the same without items.
#[tokio::test]
async fn a_reply_of_another_model_is_sent_as_text_and_calls() {
    let fakes = answering(vec![Answer::text("ok")]).await;
    let foreign = Reply {
        model: Some(loggia_core::ModelName("openai/gpt".into())),
        items: vec![ReplyItem { raw: r#"{"type":"reasoning"}"#.into(), call: None }],
        text: "I look.".into(),
        calls: vec![
            past("a/1", json!({ "command": "ls" }), failed("no such file")),
            past("a_1", Value::Null, CallOutcome::Cancelled { reason: String::new() }),
            past("b", json!("{bro"), failed("the arguments are not JSON")),
        ],
    };
    let mut talk = talk("go");
    talk.request.messages.push(Message::Reply(foreign));
    talk.request.messages.push(Message::Reply(Reply::default()));
    for kind in [facts(OPUS, "adaptive"), facts("claude-sonnet-4-5", "budget")] {
        let (_, error) = read(&model(&fakes, kind), talk.request.clone()).await;
        assert_eq!(error, None);
    }
    let messages = &fakes.recorded()[0].body["messages"];
    let call = |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "run_shell", "input": input });
    assert_eq!(
        messages[1],
        json!({ "role": "assistant", "content": [
        { "type": "text", "text": "I look." },
        call("call_a_2f_1", json!({ "command": "ls" })),
        call("call_a_5f_1", json!({})),
        call("call_b", json!({ "INVALID_JSON": "{bro" })),
    ] })
    );
    let result = |id: &str, text: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true });
    assert_eq!(
        messages[2],
        json!({ "role": "user", "content": [
        result("call_a_2f_1", "no such file"), result("call_a_5f_1", "The call failed."),
        result("call_b", "the arguments are not JSON"),
    ] })
    );
    assert_eq!(messages.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_call_that_was_not_run_is_answered() {
    let call = Say::call("run_shell", &json!({ "command": "ls" }));
    let fakes = answering(vec![Answer::says([call.clone(), call]), Answer::text("ok")]).await;
    let model = opus(&fakes);
    let mut talk = talk("go");
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "done");
    let Some(Message::Reply(last)) = talk.request.messages.last_mut() else { panic!() };
    last.calls.remove(1);
    reply(&model, talk.request).await.unwrap();
    let results = &fakes.recorded()[1].body["messages"][2]["content"];
    assert_eq!(results[0]["content"], "done");
    assert_eq!(
        (&results[1]["content"], &results[1]["is_error"]),
        (&json!("This call was not run."), &json!(true))
    );
}

/// The fake refuses what the vendor refuses, so that the other tests mean something.
#[tokio::test]
async fn a_changed_beginning_is_refused() {
    let says = [Say::Thought("hm".into()), Say::call("run_shell", &json!({}))];
    let fakes = answering(vec![Answer::says(says), Answer::text("ok")]).await;
    let model = opus(&fakes);
    let mut talk = talk("go");
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "done");
    let changed = |change: &dyn Fn(&mut ModelRequest)| {
        let mut request = talk.request.clone();
        change(&mut request);
        request
    };
    let own = |request: &mut ModelRequest, change: &dyn Fn(&mut Vec<ReplyItem>)| {
        let Some(Message::Reply(last)) = request.messages.last_mut() else { panic!() };
        change(&mut last.items);
    };
    for (request, what) in [
        (changed(&|request| request.instructions = "Be long.".into()), "`system`"),
        (changed(&|request| request.tools = [].into()), "`tools`"),
        (
            changed(&|request| request.messages[0] = Message::User(UserMessage::text("no"))),
            "`messages`",
        ),
        (
            changed(&|request| {
                own(request, &|items| items[0].raw = items[0].raw.replace("hm", "ha").into())
            }),
            "Invalid `signature`",
        ),
        (
            changed(&|request| own(request, &|items| items.insert(0, items[0].clone()))),
            "`messages`",
        ),
    ] {
        let error = reply(&model, request).await.unwrap_err();
        assert_eq!(error.kind, loggia_models::ModelErrorKind::HistoryRejected, "{what}");
        assert!(error.message.contains(what) || fakes.refusals().last().unwrap().contains(what));
    }
    assert!(model.window().is_some());
    reply(&model, talk.request.clone()).await.unwrap();
}
