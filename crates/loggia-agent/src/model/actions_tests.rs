//! Runs a model against outcomes given as text, without a runtime, and records its actions in a compact
//! form that tests compare.

use loggia_core::{CallFailure, CallId, CallOutcome, Output};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::model::{ModelRequest, PastCall, Purpose, Stop, UserMessage};

/// Asks `model` until a reply has no calls. Every call ends with the next of `outcomes`:
/// `failed: …`, `cancelled: …`, or the output of a call that succeeded.
pub fn run(model: impl Fn(&ModelRequest) -> Actions, prompt: &str, outcomes: &[&str]) -> String {
    let earlier = Reply {
        text: "earlier".to_owned(),
        calls: vec![past_call("x", "y", "z")],
        ..Reply::default()
    };
    let mut request = ModelRequest {
        purpose: Purpose::Turn,
        instructions: "".into(),
        effort: None,
        cache_key: "".into(),
        messages: vec![
            Message::User(UserMessage::text("an earlier prompt")),
            Message::Reply(earlier),
            Message::User(UserMessage::text(prompt)),
        ],
        tools: [].into(),
    };
    let mut outcomes = outcomes.iter();
    let mut replies = Vec::new();
    loop {
        let actions = until_end(model(&request));
        replies.push(written(&actions));
        let reply = reply_of(&actions, &mut outcomes);
        if reply.calls.is_empty() {
            return replies.join("---\n");
        }
        request.messages.push(Message::Reply(reply));
    }
}

/// The actions that [`stream`] would perform.
fn until_end(actions: Actions) -> Vec<Action> {
    let mut performed = Vec::new();
    for action in actions {
        let ends = match &action {
            Action::Emit(delta) => matches!(delta, Delta::Stop(_)),
            Action::Wait(_) => false,
            Action::Fail(_) | Action::Cut | Action::Panic(_) => true,
        };
        performed.push(action);
        if ends {
            break;
        }
    }
    performed
}

fn reply_of<'a>(actions: &[Action], outcomes: &mut impl Iterator<Item = &'a &'a str>) -> Reply {
    let mut reply = Reply::default();
    for action in actions {
        match action {
            Action::Emit(Delta::Text(text)) => reply.text.push_str(text),
            Action::Emit(Delta::Call { tool, input, .. }) => {
                let outcome = outcomes.next().expect("an outcome for every call");
                let mut call = past_call(tool, "", outcome);
                call.input = input.clone().unwrap_or_else(Value::String);
                reply.calls.push(call);
            }
            _ => {}
        }
    }
    reply
}

fn past_call(tool: &str, input: &str, outcome: &str) -> PastCall {
    let outcome = if let Some(message) = outcome.strip_prefix("failed: ") {
        CallOutcome::Failed { failure: CallFailure::new("test", message) }
    } else if let Some(reason) = outcome.strip_prefix("cancelled: ") {
        CallOutcome::Cancelled { reason: reason.to_owned() }
    } else {
        CallOutcome::Succeeded { output: Output::text(outcome) }
    };
    let call = CallId::from("call");
    PastCall { call, tool: tool.to_owned(), input: Value::String(input.to_owned()), outcome }
}

/// One line per action. Adjacent texts share a line, separated by `|`.
pub fn written(actions: &[Action]) -> String {
    let mut lines = String::new();
    let mut in_text = false;
    for action in actions {
        if let Action::Emit(Delta::Text(text)) = action {
            lines.push_str(if in_text { "|" } else { "text " });
            lines.push_str(&text.replace('\n', "\\n"));
            in_text = true;
            continue;
        }
        if std::mem::take(&mut in_text) {
            lines.push('\n');
        }
        lines.push_str(&line(action));
        lines.push('\n');
    }
    if in_text {
        lines.push('\n');
    }
    lines
}

fn line(action: &Action) -> String {
    match action {
        Action::Emit(Delta::Text(text)) => format!("text {text}"),
        Action::Emit(Delta::Thought { subject, text }) => format!("thought [{subject}] {text}"),
        Action::Emit(Delta::Call { tool, input: Ok(input), .. }) => format!("call {tool} {input}"),
        Action::Emit(Delta::Call { tool, input: Err(text), .. }) => format!("call {tool} !{text}"),
        Action::Emit(Delta::Usage(usage)) => format!(
            "usage {} {} {} {}",
            usage.input_tokens, usage.output_tokens, usage.thought_tokens, usage.cached_tokens
        ),
        Action::Emit(Delta::Item(item)) => format!("item {item}"),
        Action::Emit(Delta::Stop(_)) => "stop".to_owned(),
        Action::Wait(duration) => format!("wait {duration:?}"),
        Action::Fail(error) => {
            let retry = error.retry_after.map(|wait| format!(" (after {wait:?})"));
            format!("fail {:?}: {}{}", error.kind, error.message, retry.unwrap_or_default())
        }
        Action::Cut => "cut".to_owned(),
        Action::Panic(message) => format!("panic {message}"),
    }
}

#[test]
fn durations() {
    let cases = [
        ("300ms", "300ms"),
        ("5s", "5s"),
        ("2m", "120s"),
        (" 1 s ", "1s"),
        ("60m", "3600s"),
        ("61m", "`61m` is longer than the 60m a wait may last"),
        ("99999999999999999m", "`99999999999999999m` is longer than the 60m a wait may last"),
        (
            "99999999999999999999s",
            "`99999999999999999999s` is not a duration such as 300ms, 5s or 2m",
        ),
        ("soon", "`soon` is not a duration such as 300ms, 5s or 2m"),
        ("5", "`5` is not a duration such as 300ms, 5s or 2m"),
        ("5h", "`5h` is not a duration such as 300ms, 5s or 2m"),
        ("-5s", "`-5s` is not a duration such as 300ms, 5s or 2m"),
        ("1.5s", "`1.5s` is not a duration such as 300ms, 5s or 2m"),
        ("", "`` is not a duration such as 300ms, 5s or 2m"),
    ];
    for (text, expected) in cases {
        let found = duration(text).map_or_else(|why| why, |duration| format!("{duration:?}"));
        assert_eq!(found, expected, "{text:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_where_its_reply_ends() {
    let text = || Action::Emit(Delta::Text("a".to_owned()));
    let stop = || Action::Emit(Delta::Stop(Stop::Finished));
    let error = || Action::Fail(ModelError::new(crate::model::ModelErrorKind::Refused, "no"));
    let wait = || Action::Wait(Duration::from_millis(1));
    let cases = [
        (vec![text(), wait(), stop(), text()], "text a\nstop\n"),
        (vec![error(), text()], "fail Refused: no\n"),
        (vec![text(), Action::Cut, text()], "text a\n"),
        (vec![wait()], ""),
    ];
    for (actions, expected) in cases {
        let found = stream(Box::new(actions.into_iter()));
        let found = found.map(|found| found.map_or_else(Action::Fail, Action::Emit));
        assert_eq!(written(&found.collect::<Vec<_>>().await), expected);
    }
}

#[tokio::test]
async fn a_long_reply_yields_to_other_tasks() {
    let endless = std::iter::repeat_with(|| Action::Emit(Delta::Text("x".to_owned())));
    let drained = stream(Box::new(endless)).for_each(|_| std::future::ready(()));
    let stopped = tokio::time::timeout(Duration::from_millis(20), drained).await;
    assert!(stopped.is_err(), "an endless stream was read to its end");
}

proptest! {
    #[test]
    fn words_lose_nothing(text in ".{0,3000}") {
        let found: Vec<String> = words(text.clone()).collect();
        prop_assert!(found.iter().all(|word| !word.is_empty() && word.len() <= PIECE_BYTES));
        prop_assert_eq!(found.concat(), text);
    }

    #[test]
    fn chunks_lose_nothing(text in ".{0,30}", size in 1_usize..9) {
        let found: Vec<String> = chunks(text.clone(), size).collect();
        prop_assert!(found.iter().all(|piece| (1..=size).contains(&piece.chars().count())));
        prop_assert_eq!(found.len(), text.chars().count().div_ceil(size));
        prop_assert_eq!(found.concat(), text);
    }

    #[test]
    fn a_clip_is_a_prefix(text in ".{0,40}", limit in 0_usize..50) {
        let (front, left_out) = clip(&text, limit);
        prop_assert!(front.len() <= limit && text.starts_with(front));
        prop_assert_eq!(front.len() + left_out, text.len());
    }
}
