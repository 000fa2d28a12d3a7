//! A longer conversation begins with the bytes of the shorter one, and the vendor accepts every step.

use loggia_core::{CallId, CallOutcome, Effort, ModelName, Output, ReplyItem};
use loggia_fake_vendors::{Answer, Say, StopKind};
use loggia_models::{
    Anthropic, Message, ModelContext, ModelRequest, PastCall, Protocol, Reply, UserMessage,
};
use proptest::prelude::*;
use serde_json::json;

use super::{OPUS, answering, facts, opus, talk};
use crate::support::reply;

fn message() -> impl Strategy<Value = Message> {
    let user = (any::<Option<bool>>(), ".{0,6}").prop_map(|(context, text)| {
        let context = context.map(|_| "Today is Monday.".into());
        Message::User(UserMessage { context, ..UserMessage::text(text) })
    });
    let call = (0..4u8, any::<bool>());
    let parts = (any::<bool>(), "[ a-z]{0,4}", proptest::collection::vec(call, 0..3));
    let said = parts.prop_map(|(own, text, calls)| {
        let model = if own { "anthropic/m" } else { "openai/m" };
        let thought = json!({ "type": "thinking", "thinking": "", "signature": "s" }).to_string();
        let mut items = vec![ReplyItem { raw: thought.into(), call: None }];
        let raw = json!({ "type": "text", "text": text }).to_string();
        items.push(ReplyItem { raw: raw.into(), call: None });
        let mut past = Vec::new();
        for (id, answered) in calls {
            let call = CallId::from(format!("c{id}").as_str());
            let raw =
                format!(r#"{{"type":"tool_use","id":"t{id}","name":"x","input":{{"b":1,"a":2}}}}"#);
            items.push(ReplyItem { raw: raw.into(), call: Some(call.clone()) });
            if answered {
                let outcome = CallOutcome::Succeeded { output: Output::text("ok") };
                past.push(PastCall { call, tool: "x".into(), input: json!({}), outcome });
            }
        }
        Message::Reply(Reply { model: Some(ModelName(model.into())), items, text, calls: past })
    });
    prop_oneof![user, said]
}

fn bytes(request: &ModelRequest) -> String {
    let (name, facts) = (ModelName("anthropic/m".into()), facts("m", "adaptive"));
    let context = ModelContext { name: &name, facts: &facts };
    Anthropic::vendor().request(&context, request).body
}

/// From the system prompt on: effort may change.
fn fixed(body: &str) -> &str {
    let (_, fixed) = body.split_once(r#""system":"#).unwrap();
    fixed.strip_suffix("]}").unwrap()
}

fn said() -> impl Strategy<Value = Say> {
    prop_oneof![
        "[ a-zü*\n]{0,20}".prop_map(Say::Thought),
        Just(Say::Redacted),
        "[ a-zü\n]{0,20}".prop_map(Say::Text),
        Just(r#"{"b":1.50,"a":[{}]}"#).prop_map(call),
        Just("{\"a\":").prop_map(call),
        Just("").prop_map(call),
    ]
}

fn call(arguments: &str) -> Say {
    Say::Call { tool: "run_shell".into(), arguments: arguments.into() }
}

proptest! {
    #[test]
    fn a_sent_message_never_changes(
        messages in proptest::collection::vec(message(), 1..8),
        efforts in proptest::collection::vec(proptest::option::of(0..7usize), 8),
    ) {
        let mut request = talk("go").request;
        let mut before = bytes(&request);
        for (message, effort) in messages.into_iter().zip(efforts) {
            request.messages.push(message);
            request.effort = effort.map(|effort| Effort::ALL[effort]);
            let body = bytes(&request);
            prop_assert_eq!(&body, &bytes(&request));
            prop_assert!(fixed(&body).starts_with(fixed(&before)), "{}\n{}", before, body);
            before = body;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_vendor_accepts_every_step(
        says in proptest::collection::vec(proptest::collection::vec(said(), 0..6), 1..6),
        prompts in proptest::collection::vec(any::<bool>(), 6),
        cut in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stop = if cut { StopKind::Length } else { StopKind::Natural };
            let answers = says.into_iter().map(|says| Answer { stop, ..Answer::says(says) });
            let answers: Vec<Answer> = answers.collect();
            let steps = answers.len();
            let fakes = answering(answers).await;
            let model = opus(&fakes);
            let mut talk = talk("go");
            for (_, prompt) in (0..steps).zip(prompts) {
                let deltas = reply(&model, talk.request.clone()).await.unwrap();
                talk.replied(&model, &deltas, "done");
                let Some(Message::Reply(last)) = talk.request.messages.last() else { panic!() };
                if prompt || last.calls.is_empty() {
                    talk.say("next");
                }
            }
            reply(&model, talk.request.clone()).await.unwrap();
            assert_eq!(fakes.refusals(), [""; 0]);
        });
    }
}

/// `OPUS` binds its thoughts to the conversation; a model of the fake that does not would prove little.
#[tokio::test]
async fn thoughts_are_bound() {
    let fakes =
        answering(vec![Answer::says([Say::Thought("hm".into()), Say::Text("ok".into())])]).await;
    let model = opus(&fakes);
    let mut talk = talk("go");
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "");
    talk.request.messages.insert(0, Message::Summary("before".into()));
    talk.say("next");
    let error = reply(&model, talk.request).await.unwrap_err();
    assert!(error.message.contains("signature"), "{OPUS}: {error}");
}
