//! A conversation that fills its model's window is compacted automatically when a turn begins.
//!
//! The window has 1000 tokens: 80 percent are about 3200 bytes.

use loggia_core::{Cancel, Command, Event, Level, Mode, Seq, TurnOutcome};

use crate::talk::{Talk, origin};

/// The script of the model: long replies, a call, or short replies.
fn script(summary: &str) -> String {
    let long = "word ".repeat(400);
    format!(
        r#"script
window = 1000
{summary}
[[rule]]
prompt = "long"
steps = [{{text="{long}"}}]
[[rule]]
prompt = "look"
steps = [{{call="read_file", input={{path="big.txt"}}}}, {{text="seen"}}]
[[rule]]
regex = "^(go on|and on|short)$"
steps = [{{text="short"}}]
"#
    )
}

/// A rule for the request for a summary.
fn summary(steps: &str) -> String {
    format!("[[rule]]\ncontains = \"Summarise the conversation\"\nsteps = [{steps}]\n")
}

async fn talk(summary: &str) -> Talk {
    Talk::with(Mode::All, &script(summary), None).await
}

/// Every compaction: the last event that it replaces, the summary, and whether it was automatic.
async fn compactions(talk: &Talk) -> Vec<(Seq, String, bool)> {
    let log = talk.log().await;
    let compaction = |event: Event| match event {
        Event::ContextCompacted { upto, summary, automatic, .. } => {
            Some((upto, summary, automatic))
        }
        _ => None,
    };
    log.into_iter().filter_map(compaction).collect()
}

async fn notices(talk: &Talk, wanted: Level) -> Vec<String> {
    let log = talk.log().await;
    let notice = |event: Event| match event {
        Event::NoticeRaised { level, text, .. } if level == wanted => Some(text),
        _ => None,
    };
    log.into_iter().filter_map(notice).collect()
}

#[tokio::test]
async fn a_turn_that_does_not_fit_begins_with_a_summary() {
    let mut talk = talk("").await;
    talk.say("long").await;
    talk.say("long").await;
    assert_eq!(compactions(&talk).await, [], "half of the window is not too much");
    assert_eq!(talk.say("go on").await, "short", "the turn itself says nothing of it");
    let [(upto, summary, true)] = &compactions(&talk).await[..] else { panic!("not once") };
    let log = talk.log().await;
    let begun = &log[usize::try_from(upto.0).unwrap()];
    assert!(matches!(begun, Event::TurnStarted { .. }), "up to the turn that runs: {begun:?}");
    assert_eq!(summary.matches("- Asked: long").count(), 2, "{summary}");
    assert!(!summary.contains("go on"), "{summary}");
    let told = notices(&talk, Level::Info).await;
    let wanted = format!(
        "Compacted automatically. A summary of {} bytes now replaces 2 turns (4008 bytes).",
        summary.len()
    );
    assert_eq!(told, [wanted]);

    // After a restart the model gets the same: the summary, and the turns since.
    talk.restart().await;
    assert_eq!(talk.say("and on").await, "short");
    let said = talk.say("/compact").await;
    assert!(said.contains("now replaces 2 turns"), "{said}");
    for (part, count) in [("Asked: long", 2), ("Asked: go on", 1), ("Asked: and on", 1)] {
        assert_eq!(said.matches(part).count(), count, "{part}: {said}");
    }
    let automatic = compactions(&talk).await.into_iter().filter(|(_, _, automatic)| *automatic);
    assert_eq!(automatic.count(), 1, "not twice for the same");
}

/// A queued prompt runs after the summary and is not part of it.
#[tokio::test]
async fn queued_prompts_are_not_lost() {
    let mut talk = talk("").await;
    for text in ["long", "long", "go on", "and on"] {
        talk.prompt(text).await;
    }
    for wanted in ["word", "word", "short", "short"] {
        assert!(talk.end().await.said.starts_with(wanted));
    }
    let compactions = compactions(&talk).await;
    assert_eq!(compactions.len(), 1);
    assert!(!compactions[0].1.contains("Asked: go on"), "{compactions:?}");
    let stats = talk.say("/stats").await;
    assert!(stats.contains("(earlier turns: 2, a summary before them)"), "{stats}");
}

#[tokio::test]
async fn if_the_summary_fails_the_turn_continues() {
    let fails = summary("{text=\"half of\"}, {error=\"no\", kind=\"refused\"}");
    let mut talk = talk(&fails).await;
    talk.say("long").await;
    talk.say("long").await;
    assert_eq!(talk.say("go on").await, "short");
    assert_eq!(compactions(&talk).await, []);
    let told = notices(&talk, Level::Warning).await;
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("and nothing was summarised: no."), "{told:?}");
}

#[tokio::test]
async fn a_turn_cancelled_during_the_summary_changes_nothing() {
    let mut talk = talk(&summary("{text=\"half of\"}, {delay=\"60m\"}")).await;
    talk.say("long").await;
    talk.say("long").await;
    talk.prompt("go on").await;
    let cancel = Command::Cancel { what: Cancel::Turn };
    talk.handle.submit(cancel, origin()).await.unwrap();
    assert_eq!(talk.end().await.outcome, TurnOutcome::Cancelled);
    assert_eq!(compactions(&talk).await, []);
}

/// A summary larger than the window is not summarised again.
#[tokio::test]
async fn a_large_summary_does_not_cause_another_one() {
    let large = summary(&format!("{{text=\"{}\"}}", "sum ".repeat(2_000)));
    let mut talk = talk(&large).await;
    talk.say("long").await;
    talk.say("long").await;
    for _ in 0..6 {
        assert_eq!(talk.say("go on").await, "short");
    }
    assert_eq!(compactions(&talk).await.len(), 1);
}

/// A turn larger than the window is still summarised, with shorter results.
#[tokio::test]
async fn a_turn_larger_than_the_window_is_summarised_too() {
    let mut talk = talk("").await;
    talk.put("w/big.txt", &"line of a big file\n".repeat(600));
    assert_eq!(talk.say("look").await, "seen");
    assert_eq!(talk.say("go on").await, "short");
    let compactions = compactions(&talk).await;
    assert_eq!(compactions.len(), 1);
    assert!(compactions[0].1.contains("Did: read_file big.txt, done"), "{compactions:?}");
}

/// If the model's window is unknown, nothing is compacted.
#[tokio::test]
async fn without_a_window_nothing_is_compacted() {
    let mut talk = Talk::open(Mode::All).await;
    let long = format!("say {}", "word ".repeat(4_000));
    for _ in 0..4 {
        talk.say(&long).await;
    }
    assert_eq!(compactions(&talk).await, []);
    assert_eq!(notices(&talk, Level::Info).await, [""; 0]);
}
