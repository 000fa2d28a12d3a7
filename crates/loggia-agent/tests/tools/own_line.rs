//! A person's own command line, as the agent that people use runs it.

use loggia_core::{Authority, CallOutcome, Event, Mode, TurnOutcome};

use crate::stage::{Stage, processes};

/// What happened up to the end of the turn.
async fn turn(stage: &mut Stage) -> Vec<Event> {
    stage.wait_for(|event| matches!(event, Event::TurnEnded { .. })).await;
    std::mem::take(&mut stage.seen)
}

fn outcomes(events: &[Event]) -> Vec<&CallOutcome> {
    let ended = events.iter().filter_map(|event| match event {
        Event::CallEnded { outcome, .. } => Some(outcome),
        _ => None,
    });
    ended.collect()
}

/// Even in plan mode, without a question, on the authority of the prompt that it is; and the model of
/// a later turn reads the line and what it printed.
#[tokio::test]
async fn it_runs_as_it_stands_and_the_model_reads_it_later() {
    let mut stage = Stage::native(Mode::Plan).await;
    stage.types("echo it is $((40 + 2))").await;
    let events = turn(&mut stage).await;
    let authority = events.iter().find_map(|event| match event {
        Event::CallStarted { authority, .. } => Some(authority),
        _ => None,
    });
    let prompt = events.iter().find_map(|event| match event {
        Event::PromptAccepted { prompt, shell: true, .. } => Some(prompt.clone()),
        _ => None,
    });
    assert_eq!(authority, Some(&Authority::Typed { prompt: prompt.unwrap() }));
    let printed = events
        .iter()
        .any(|event| matches!(event, Event::CallOutput { text, .. } if text == "it is 42\n"));
    assert!(printed, "{events:#?}");
    assert!(!events.iter().any(|event| matches!(event, Event::TextAppended { .. })));
    let [CallOutcome::Succeeded { output }] = outcomes(&events)[..] else { panic!("{events:#?}") };
    assert_eq!(output.text, "it is 42\n");

    stage.prompt("/compact").await;
    let summary = stage
        .until(|event| match event {
            Event::ContextCompacted { summary, .. } => Some(summary.clone()),
            _ => None,
        })
        .await;
    assert!(summary.contains("Asked: !echo it is $((40 + 2))"), "{summary}");
    assert!(summary.contains("Did: run_shell_command echo it is $((40 + 2)), done"), "{summary}");
}

#[tokio::test]
async fn a_line_that_fails_is_told_and_the_turn_goes_well() {
    let mut stage = Stage::native(Mode::Ask).await;
    stage.types("echo no; exit 3").await;
    let events = turn(&mut stage).await;
    let [CallOutcome::Failed { failure }] = outcomes(&events)[..] else { panic!("{events:#?}") };
    assert_eq!((failure.code, failure.message.as_str()), (Some(3), "no\nexit status 3"));
    let ended = events.last();
    assert!(matches!(ended, Some(Event::TurnEnded { outcome: TurnOutcome::Completed, .. })));
}

#[tokio::test]
async fn cancelling_the_turn_ends_it_with_everything_it_started() {
    let mut stage = Stage::native(Mode::Ask).await;
    let mark = format!("98{}", std::process::id());
    stage.types(&format!("sleep {mark} & echo ready; wait")).await;
    stage.wait_for(|event| matches!(event, Event::CallOutput { .. })).await;
    assert!(processes(&format!("sleep {mark} &")).next().is_some());
    stage.cancel().await;
    let events = turn(&mut stage).await;
    let [CallOutcome::Cancelled { .. }] = outcomes(&events)[..] else { panic!("{events:#?}") };
    // The next line runs only when nothing of the last one is left.
    stage.types("true").await;
    turn(&mut stage).await;
    assert_eq!(processes(&mark).next(), None);
}

#[tokio::test]
async fn what_the_shell_cannot_take_is_said() {
    let mut stage = Stage::native(Mode::Ask).await;
    for (line, wanted) in [(" ".to_owned(), "empty"), ("x".repeat(200_000), "bytes")] {
        stage.types(&line).await;
        let events = turn(&mut stage).await;
        let [CallOutcome::Failed { failure }] = outcomes(&events)[..] else {
            panic!("{events:#?}")
        };
        assert!(failure.message.contains(wanted), "{failure:?}");
    }
}

/// What a client of a protocol says is for the model, whatever it begins with.
#[tokio::test]
async fn a_prompt_that_begins_with_the_mark_runs_nothing() {
    let mut stage = Stage::native(Mode::All).await;
    stage.prompt("!touch made").await;
    let events = turn(&mut stage).await;
    assert!(outcomes(&events).is_empty(), "{events:#?}");
    assert!(!stage.root().join("made").exists());
}
