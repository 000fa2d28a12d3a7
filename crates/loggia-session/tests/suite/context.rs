//! The history that a turn reads, before and after a compaction.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use loggia_core::{Event, Seq};
use loggia_session::{Agent, Turn, TurnOver};
use loggia_testkit::client::{create, memory_hub, prompt};

/// For each turn: the number of events in its history, the first of them, and the summary.
type Given = Arc<Mutex<Vec<(usize, Seq, Option<String>)>>>;

/// Compacts if its prompt says so, and otherwise records its history.
struct Reader {
    given: Given,
}

impl Agent for Reader {
    fn run(&self, turn: Turn) -> BoxFuture<'static, Result<(), TurnOver>> {
        let given = self.given.clone();
        Box::pin(async move {
            let text = turn.context().content.to_text();
            if let Some(summary) = text.strip_prefix("compact ") {
                return turn.compact(summary).await;
            }
            if let Some(summary) = text.strip_prefix("by itself ") {
                turn.compact_now(summary, loggia_core::CompactReach::EarlierTurns).await?;
                // Every reader can see the summary before it is used.
                let seen = turn.history().await?;
                let compacted = |event: &Event| matches!(event, Event::ContextCompacted { .. });
                assert!(seen.iter().any(|envelope| compacted(&envelope.event)));
                return turn.say(&turn.message(), "went on").await;
            }
            if text == "clear" {
                return turn.compact("").await;
            }
            let history = turn.history().await?;
            let first = history.first().map_or(Seq::ZERO, |envelope| envelope.seq);
            given.lock().unwrap().push((history.len(), first, turn.context().summary.clone()));
            turn.say(&turn.message(), "words").await
        })
    }
}

#[tokio::test]
async fn a_turn_after_a_compaction_reads_the_summary_and_nothing_before_it() {
    let given = Given::default();
    let hub = memory_hub(Arc::new(Reader { given: given.clone() }));
    let handle = create(&hub).await;
    let mut follower = handle.follow(Seq::ZERO);
    let mut compacted = Vec::new();
    let texts: Vec<String> = (0..12).map(|number| format!("talk {number}")).collect();
    let mut prompts: Vec<&str> = texts.iter().map(String::as_str).collect();
    prompts.extend(["compact what was", "after", "clear", "cleared"]);
    for text in prompts {
        prompt(&handle, text).await.unwrap();
        let mut ended = false;
        while !ended {
            for envelope in follower.next().await.unwrap().unwrap() {
                ended |= matches!(envelope.event, Event::TurnEnded { .. });
                if let Event::ContextCompacted { upto, .. } = envelope.event {
                    compacted.push(upto);
                }
            }
        }
    }
    let given = given.lock().unwrap();
    let (before, [after, cleared]) = (&given[..12], &given[12..]) else { panic!("{given:?}") };
    assert!(before.iter().all(|(_, first, summary)| *first == Seq(2) && summary.is_none()));
    assert!(before[11].0 > before[0].0 + 30, "every turn reads all turns before it: {before:?}");
    assert_eq!(after.2.as_deref(), Some("what was"));
    assert!(after.1 > compacted[0], "{after:?}");
    assert_eq!(cleared.2, None);
    assert!(cleared.1 > compacted[1], "{cleared:?}");
    assert_eq!(
        (after.0, cleared.0),
        (before[0].0, before[0].0),
        "as little as the first turn read"
    );
}

/// The summary does not include the turn that begins with it, even if its prompt had to wait.
#[tokio::test]
async fn a_turn_that_begins_with_a_summary_is_read_by_the_next_one() {
    let given = Given::default();
    let hub = memory_hub(Arc::new(Reader { given: given.clone() }));
    let handle = create(&hub).await;
    let mut reader = loggia_testkit::client::Reader::new(&handle);
    for text in ["one", "two", "by itself what was", "after"] {
        prompt(&handle, text).await.unwrap();
    }
    let mut began = Vec::new();
    for _ in 0..4 {
        let started = reader.until(|event| matches!(event, Event::TurnStarted { .. })).await;
        began.push(started.seq);
        assert_eq!(reader.until_over().await, loggia_core::TurnOutcome::Completed);
    }
    let compacted = reader.seen().iter().find_map(|envelope| match &envelope.event {
        Event::ContextCompacted { upto, summary, automatic: true, .. } => {
            Some((upto.next(), summary.clone()))
        }
        _ => None,
    });
    assert_eq!(compacted, Some((began[2], "what was".to_owned())));
    let given = given.lock().unwrap();
    let (_, first, summary) = given.last().unwrap();
    assert_eq!(summary.as_deref(), Some("what was"));
    assert!(*first <= began[2], "the turn itself is read: {first}");
}
