//! Tools that only change the session: plans, artifacts, questions.

use loggia_core::{CallOutcome, Details, Edit, Event, Part, PlanStep, StepState};
use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn a_plan_is_shown_to_all_clients() {
    let mut fixture = Fixture::open().await;
    let todos = json!({ "todos": [
        { "text": "look", "state": "completed" },
        { "text": "leap", "state": "in_progress" },
    ] });
    fixture.start("write_todos", todos).await;
    let steps = fixture
        .until(|event| match event {
            Event::PlanUpdated { steps, .. } => Some(steps.clone()),
            _ => None,
        })
        .await;
    let step = |text: &str, state| PlanStep { text: text.into(), state };
    assert_eq!(steps, [step("look", StepState::Completed), step("leap", StepState::InProgress)]);
    let CallOutcome::Succeeded { output } = fixture.outcome().await else { panic!() };
    assert_eq!(output.text, "the plan has 2 steps");
}

#[tokio::test]
async fn an_artifact_is_a_text_a_file_data_or_an_address() {
    let mut fixture = Fixture::open().await;
    let output =
        fixture.succeed("publish_artifact", json!({ "name": "r.md", "text": "# hi" })).await;
    assert_eq!(output.text, "published r.md (4 bytes)");
    let artifact = output.artifact.unwrap();
    assert_eq!((artifact.id.as_str(), artifact.append, artifact.last), ("r.md", false, true));
    assert_eq!(artifact.parts, [Part::Text { text: "# hi".into() }]);

    let more = json!({ "name": "r.md", "text": "more", "append": true, "last": false });
    let artifact = fixture.succeed("publish_artifact", more).await.artifact.unwrap();
    assert_eq!((artifact.id.as_str(), artifact.append, artifact.last), ("r.md", true, false));

    fixture.put("p.png", b"\x89PNG");
    let input = json!({ "name": "picture", "path": "p.png" });
    let artifact = fixture.succeed("publish_artifact", input).await.artifact.unwrap();
    let file = Part::File {
        name: Some("picture".into()),
        media_type: Some("image/png".into()),
        base64: Some("iVBORw==".into()),
        uri: None,
    };
    assert_eq!(artifact.parts, [file]);

    let input = json!({ "name": "d", "data": { "a": [1, 2.5] } });
    let artifact = fixture.succeed("publish_artifact", input).await.artifact.unwrap();
    assert_eq!(artifact.parts, [Part::Data { data: json!({ "a": [1, 2.5] }) }]);

    let input = json!({ "name": "o.txt", "url": "https://example.org/o.txt" });
    let output = fixture.succeed("publish_artifact", input).await;
    assert_eq!(output.text, "published o.txt (an address)");
    let file = Part::File {
        name: Some("o.txt".into()),
        media_type: Some("text/plain".into()),
        base64: None,
        uri: Some("https://example.org/o.txt".into()),
    };
    assert_eq!(output.artifact.unwrap().parts, [file]);
    for url in ["file:///etc/passwd", "javascript:alert(1)", "https://", "https://a b", "x"] {
        let input = json!({ "name": "x", "url": url });
        let error = fixture.fail("publish_artifact", input).await;
        assert!(error.message.contains("`url`"), "{url}: {}", error.message);
    }

    let input = json!({ "name": "x", "path": "../secret" });
    assert_eq!(fixture.fail("publish_artifact", input).await.kind, "outside_workspace");
    fixture.put("large", vec![b'x'; 1024 * 1024 + 1]);
    let input = json!({ "name": "x", "path": "large" });
    assert_eq!(fixture.fail("publish_artifact", input).await.kind, "too_large");
}

#[tokio::test]
async fn a_question_is_answered_by_choice_or_with_text() {
    let mut fixture = Fixture::open().await;
    let input = json!({ "question": "which?", "options": ["red", "blue"] });
    for (choice, edit, answer) in
        [("option_2", None, "blue"), ("answer", Some(Edit::Text { text: "green".into() }), "green")]
    {
        fixture.start("ask_user", input.clone()).await;
        let (call, details) = fixture.question().await;
        assert!(matches!(details, Details::Question { .. }), "a question asks in every mode");
        fixture.answer(&call, choice, edit).await;
        let CallOutcome::Succeeded { output } = fixture.outcome().await else { panic!() };
        assert_eq!(output.text, answer);
    }
    fixture.start("ask_user", input).await;
    let (call, _) = fixture.question().await;
    fixture.answer(&call, "cancel", None).await;
    assert!(matches!(fixture.outcome().await, CallOutcome::Cancelled { .. }));
}
