//! A reply comes back in the next request as it was sent.

use loggia_core::{Stop, Usage};
use loggia_fake_vendors::{Answer, Pace, Say, StopKind};
use loggia_models::{Anthropic, Delta, ModelContext, Protocol};
use serde_json::json;

use super::{OPUS, answering, facts, opus, read, talk, whole};
use crate::support::reply;

fn call(arguments: &str) -> Say {
    Say::Call { tool: "run_shell".to_owned(), arguments: arguments.to_owned() }
}

fn everything() -> Answer {
    Answer::says([
        Say::Thought("**Look around**\n\nFirst the fïles, then the tests.".to_owned()),
        Say::Redacted,
        Say::Thought(String::new()),
        Say::Text("I run two commands: ".to_owned()),
        call(r#"{"z":1,"command":"ls ü","a":2.50}"#),
        Say::Text("\n\n".to_owned()),
        Say::Thought("And the other one.".to_owned()),
        call(r#"{"command":"pwd"}"#),
        call("{\"command\":\"un"),
        call("[1]"),
        call(""),
    ])
}

#[tokio::test]
async fn a_reply_with_everything_comes_back_unchanged() {
    let fakes = answering(vec![everything(), Answer::text("Done.")]).await;
    let model = opus(&fakes);
    let mut talk = talk("go");
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "ok");
    reply(&model, talk.request.clone()).await.unwrap();
    talk.say("and now?");
    reply(&model, talk.request.clone()).await.unwrap();

    let recorded = fakes.recorded();
    assert_eq!(fakes.refusals(), [""; 0]);
    // The fake answers the first request in the same way again, without a stream.
    let fakes = answering(vec![everything()]).await;
    let sent = whole(&fakes, &recorded[0].body).await;
    assert_eq!(sent.as_array().unwrap().len(), 11);
    for later in &recorded[1..] {
        assert_eq!(later.body["messages"][1]["content"], sent);
        assert_eq!(later.body["messages"][0], recorded[0].body["messages"][0]);
    }
    let results = recorded[1].body["messages"][2]["content"].as_array().unwrap();
    let calls: Vec<_> =
        sent.as_array().unwrap().iter().filter(|item| item["type"] == "tool_use").collect();
    assert_eq!(results.len(), 5);
    for (result, call) in results.iter().zip(calls) {
        let wanted = json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "ok" });
        assert_eq!(*result, wanted);
    }
    let facts = facts(OPUS, "adaptive");
    let name = loggia_models::Model::name(&model);
    let context = ModelContext { name: &name, facts: &facts };
    let body = Anthropic::vendor().request(&context, &talk.request).body;
    assert!(body.contains(r#""input":{"z":1,"command":"ls ü","a":2.50}"#), "{body}");
}

#[tokio::test]
async fn a_reply_is_read_in_order() {
    let fakes = answering(vec![Answer { usage: Some([100, 80, 9]), ..everything() }]).await;
    let deltas = reply(&opus(&fakes), talk("go").request).await.unwrap();
    let mut said = String::new();
    for delta in &deltas {
        match delta {
            Delta::Text(text) => said.push_str(text),
            Delta::Thought { subject, text } => said.push_str(&format!("<{subject}:{text}>")),
            Delta::Item(_) => said.push('.'),
            Delta::Call { input, .. } => said.push_str(&format!("[{input:?}]")),
            Delta::Usage(_) | Delta::Stop(_) => {}
        }
    }
    // Parts of a text are joined here, as the turn loop joins them.
    let said = said.replace("><Look around:", "").replace("><:", "");
    let wanted = concat!(
        "<Look around:First the fïles, then the tests.>...I run two commands: .",
        r#"[Ok(Object {"a": Number(2.50), "command": String("ls ü"), "z": Number(1)})]"#,
        "\n\n.<:And the other one.>.",
        r#"[Ok(Object {"command": String("pwd")})]"#,
        r#"[Err("{\"command\":\"un")][Err("[1]")][Ok(Object {})]"#,
    );
    assert_eq!(said, wanted);
    let [.., Delta::Usage(usage), Delta::Stop(Stop::Finished)] = deltas.as_slice() else {
        panic!("{deltas:?}");
    };
    let Usage { input_tokens, output_tokens, cached_tokens, thought_tokens, .. } = *usage;
    assert_eq!((input_tokens, output_tokens, cached_tokens, thought_tokens), (100, 9, 80, 9));
}

#[tokio::test]
async fn what_is_written_to_the_cache_is_input() {
    let fakes = answering(vec![Answer::text("ok")]).await;
    let deltas = reply(&opus(&fakes), talk(&"word ".repeat(400)).request).await.unwrap();
    let usage = deltas.iter().find_map(|delta| match delta {
        Delta::Usage(usage) => Some(*usage),
        _ => None,
    });
    assert!(usage.unwrap().input_tokens > 400, "{usage:?}");
}

#[tokio::test]
async fn small_pieces_and_pings_change_nothing() {
    let fakes = answering(vec![everything()]).await;
    let wanted = reply(&opus(&fakes), talk("go").request).await.unwrap();
    for pace in [
        Pace { piece: 1, ..Pace::default() },
        Pace { piece: 7, keep_alives: true, ..Pace::default() },
    ] {
        let fakes = answering(vec![Answer { pace, ..everything() }]).await;
        assert_eq!(reply(&opus(&fakes), talk("go").request).await.unwrap(), wanted);
    }
}

#[tokio::test]
async fn every_reason_for_a_stop_is_told_apart() {
    let refused = Stop::Refused { why: "This request may enable harm to computers.".to_owned() };
    for (kind, wanted) in [
        (StopKind::Natural, Stop::Finished),
        (StopKind::Length, Stop::Length),
        (StopKind::Paused, Stop::Paused),
        (StopKind::WindowFull, Stop::WindowFull),
        (StopKind::Refusal, refused),
    ] {
        let answer = Answer { stop: kind, ..Answer::text("So") };
        let fakes = answering(vec![answer]).await;
        let deltas = reply(&opus(&fakes), talk("go").request).await.unwrap();
        assert_eq!(deltas.last(), Some(&Delta::Stop(wanted)));
    }
}

#[tokio::test]
async fn a_paused_reply_is_sent_back_as_it_is() {
    let paused = Answer { stop: StopKind::Paused, ..everything() };
    let text = Answer { says: vec![Say::Text("I search.".into())], ..paused };
    let fakes = answering(vec![text.clone(), Answer::text("Found.")]).await;
    let model = opus(&fakes);
    let mut talk = talk("go");
    let deltas = reply(&model, talk.request.clone()).await.unwrap();
    talk.replied(&model, &deltas, "");
    reply(&model, talk.request).await.unwrap();
    assert_eq!(fakes.refusals(), [""; 0]);
    let recorded = fakes.recorded();
    let fakes = answering(vec![text]).await;
    let content = whole(&fakes, &recorded[0].body).await;
    assert_eq!(recorded[1].body["messages"][1], json!({ "role": "assistant", "content": content }));
}

/// The vendor sends these, and refuses them in a request.
#[tokio::test]
async fn what_the_vendor_refuses_is_left_out() {
    for says in [
        vec![Say::Thought("hm".into())],
        vec![Say::Text("ok".into()), Say::Thought("hm".into()), Say::Redacted],
        vec![Say::Thought("hm".into()), Say::Text(String::new()), call("{}")],
        vec![Say::Thought("hm".into()), Say::Text("\n\n".into()), call("{}")],
        vec![Say::Text(" ".into())],
    ] {
        let fakes = answering(vec![Answer::says(says), Answer::text("ok")]).await;
        let model = opus(&fakes);
        let mut talk = talk("go");
        let deltas = reply(&model, talk.request.clone()).await.unwrap();
        talk.replied(&model, &deltas, "done");
        talk.say("next");
        let (_, error) = read(&model, talk.request).await;
        assert_eq!(error, None);
    }
}

#[test]
fn fields_and_events_that_are_not_known_survive_or_are_skipped() {
    let piece = |data: serde_json::Value| loggia_models::Piece {
        event: data["type"].as_str().unwrap().to_owned(),
        data: data.to_string(),
    };
    let mut decoder = Anthropic::gateway().decoder();
    let mut deltas = Vec::new();
    let start = |index: u64, block: serde_json::Value| {
        piece(json!({ "type": "content_block_start", "index": index, "content_block": block }))
    };
    let delta = |index: u64, delta: serde_json::Value| {
        piece(json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    };
    let stop = |index: u64| piece(json!({ "type": "content_block_stop", "index": index }));
    let unknown = loggia_models::Piece { event: "news".into(), data: "not JSON".into() };
    let done = loggia_models::Piece { event: String::new(), data: "[DONE]".into() };
    for piece in [unknown, done, piece(json!({ "type": "ping" }))] {
        assert!(!decoder.read(&piece, &mut deltas).unwrap());
    }
    for piece in [
        start(
            0,
            json!({ "type": "thinking", "thinking": "a", "signature": "s", "extra": { "k": [1] } }),
        ),
        delta(0, json!({ "type": "thinking_delta", "thinking": "b" })),
        delta(0, json!({ "type": "signature_delta", "signature": "t" })),
        delta(0, json!({ "type": "signature_delta", "signature": "u" })),
        delta(0, json!({ "type": "later_delta", "what": 1 })),
        stop(0),
        start(1, json!({ "type": "later_block", "value": { "b": 1, "a": null } })),
        stop(1),
        start(2, json!({ "type": "text", "text": "x" })),
        delta(2, json!({ "type": "citations_delta", "citation": { "n": 1 } })),
        stop(2),
        start(3, json!({ "type": "tool_use", "id": "i", "name": "t", "input": { "k": 1 } })),
        piece(json!({ "type": "message_stop" })),
    ] {
        assert!(decoder.read(&piece, &mut deltas).unwrap());
    }
    let raw = |delta: &Delta| match delta {
        Delta::Item(raw) | Delta::Call { item: Some(raw), .. } => serde_json::from_str(raw).ok(),
        _ => None,
    };
    let items: Vec<serde_json::Value> = deltas.iter().filter_map(raw).collect();
    assert_eq!(
        items,
        [
            json!({ "type": "thinking", "thinking": "ab", "signature": "stu", "extra": { "k": [1] } }),
            json!({ "type": "later_block", "value": { "b": 1, "a": null } }),
            json!({ "type": "text", "text": "x", "citations": [{ "n": 1 }] }),
            json!({ "type": "tool_use", "id": "i", "name": "t", "input": { "k": 1 } }),
        ]
    );
}
