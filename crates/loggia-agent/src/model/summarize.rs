//! Summarizes a conversation without a language model: prompts, calls and replies of each turn, cut short.
//! The same conversation always gives the same text, and the text is limited.
//!
//! Shortens by length only, and says so.

use loggia_core::CallOutcome;
use serde_json::Value;

use super::actions::{clip, start};
use super::{Message, PastCall, Reply};

/// The first line. Removed from a summary that is summarized again.
const HEADING: &str =
    "Taken from the log without a language model: what was asked, done and said, cut short.\n";
/// Bytes of the whole text. The oldest turns are left out first.
const LIMIT: usize = 16 * 1024;
/// Bytes of one prompt or reply.
const TEXT_BYTES: usize = 400;
/// Calls of one reply that are listed.
const CALLS: usize = 12;

/// The last message requests the summary and is not part of it.
pub fn summarize(messages: &[Message]) -> String {
    let mut turns: Vec<String> = Vec::new();
    let conversation = messages.split_last().map_or(&[][..], |(_, before)| before);
    for message in conversation {
        match message {
            Message::Summary(summary) => {
                let body = summary.strip_prefix(HEADING).unwrap_or(summary).trim();
                turns.extend(
                    body.split("\n- ")
                        .map(|turn| format!("- {}", turn.strip_prefix("- ").unwrap_or(turn))),
                );
            }
            Message::User(user) => {
                turns.push(format!("- Asked: {}", shortened(&user.content.to_text())));
            }
            Message::Reply(reply) => {
                let text = describe(reply);
                match turns.last_mut() {
                    Some(turn) => turn.push_str(&text),
                    None => turns.push(text),
                }
            }
        }
    }
    let mut room = LIMIT - HEADING.len() - 64;
    let kept = turns.iter().rev().take_while(|turn| {
        let fits = turn.len() < room;
        room = room.saturating_sub(turn.len() + 1);
        fits
    });
    let left_out = turns.len() - kept.count();
    let kept = turns.iter().skip(left_out).cloned().collect::<Vec<_>>().join("\n");
    match left_out {
        0 => format!("{HEADING}{kept}"),
        _ => format!("{HEADING}- {left_out} older entries are left out.\n{kept}"),
    }
}

fn describe(reply: &Reply) -> String {
    let mut text = String::new();
    for call in reply.calls.iter().take(CALLS) {
        text.push_str(&format!("\n  Did: {}", describe_call(call)));
    }
    let more = reply.calls.len().saturating_sub(CALLS);
    if more > 0 {
        text.push_str(&format!("\n  Did: {more} more calls"));
    }
    if !reply.text.trim().is_empty() {
        text.push_str(&format!("\n  Said: {}", shortened(&reply.text)));
    }
    text
}

fn describe_call(call: &PastCall) -> String {
    let about = ["path", "command", "pattern", "name", "question"];
    let about = about.iter().find_map(|name| call.input.get(*name).and_then(Value::as_str));
    let about = about.map_or(String::new(), |text| format!(" {}", start(text)));
    let outcome = match &call.outcome {
        CallOutcome::Succeeded { .. } => "done".to_owned(),
        CallOutcome::Failed { failure } => format!("failed: {}", start(&failure.message)),
        CallOutcome::Cancelled { reason } => format!("not done: {}", start(reason)),
    };
    format!("{}{about}, {outcome}", call.tool)
}

/// The beginning of a text on one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match clip(&line, TEXT_BYTES) {
        (front, 0) => front.to_owned(),
        (front, _) => format!("{front}…"),
    }
}

#[cfg(test)]
mod tests {
    use loggia_core::{CallFailure, Output};

    use crate::model::UserMessage;
    use serde_json::json;

    use super::*;

    fn asked(text: &str) -> Message {
        Message::User(UserMessage::text(text))
    }

    fn call(tool: &str, input: Value, outcome: CallOutcome) -> PastCall {
        PastCall { call: "c".into(), tool: tool.into(), input, outcome }
    }

    fn conversation() -> Vec<Message> {
        let wrote = CallOutcome::Succeeded { output: Output::text("wrote a.txt") };
        let failed =
            CallOutcome::Failed { failure: CallFailure::new("exit", "exit status 1\nmore") };
        vec![
            asked("write a.txt: hi\nrun make"),
            Message::Reply(Reply {
                text: "I write\n\nand  run.".into(),
                calls: vec![
                    call("write_file", json!({ "path": "a.txt" }), wrote),
                    call("run_shell_command", json!({ "command": "make" }), failed),
                ],
                ..Reply::default()
            }),
            Message::Reply(Reply {
                text: "It failed.".into(),
                calls: Vec::new(),
                ..Reply::default()
            }),
            asked("the request for a summary"),
        ]
    }

    #[test]
    fn the_summary_lists_prompts_calls_and_replies() {
        let expected = "\
- Asked: write a.txt: hi run make
  Did: write_file a.txt, done
  Did: run_shell_command make, failed: exit status 1…
  Said: I write and run.
  Said: It failed.";
        assert_eq!(summarize(&conversation()), format!("{HEADING}{expected}"));
    }

    #[test]
    fn a_summary_of_a_summary_continues_it() {
        let first = summarize(&conversation());
        let again = [Message::Summary(first.clone()), asked("say more"), asked("the request")];
        assert_eq!(summarize(&again), format!("{first}\n- Asked: say more"));
        assert_eq!(summarize(&[Message::Summary(first.clone()), asked("the request")]), first);
    }

    #[test]
    fn repeated_summaries_stay_within_the_limit() {
        let mut summary = String::new();
        for round in 0..400 {
            let text = format!("{round} {}", "wörter ".repeat(200));
            let said = Reply { text: text.clone(), calls: Vec::new(), ..Reply::default() };
            let messages =
                [Message::Summary(summary), asked(&text), Message::Reply(said), asked("sum up")];
            summary = summarize(&messages);
            assert!(summary.len() <= LIMIT, "{}", summary.len());
            assert!(summary.contains(&format!("- Asked: {round} ")), "the newest is kept");
        }
        assert!(summary.contains("older entries are left out"), "{summary}");
    }
}
