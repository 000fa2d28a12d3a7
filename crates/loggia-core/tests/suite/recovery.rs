//! The table of `session/recover.rs` as a law: wherever a log was cut, opening it again leaves nothing
//! running, loses no question and no prompt, and keeps every other law.

use loggia_core::{
    CallFailure, CallOutcome, CallState, Envelope, Event, FreshIds, Millis, Origin, PromptId,
    Session, TurnOutcome,
};
use proptest::prelude::*;

use super::generate::histories;
use super::laws::config;
use super::witness::Witness;

/// The state that recovery must preserve.
#[derive(Debug, PartialEq)]
struct Kept {
    approvals: Vec<(loggia_core::CallId, loggia_core::OpenApproval)>,
    queue: Vec<PromptId>,
}

fn kept(session: &Session) -> Kept {
    Kept {
        approvals: session
            .open_approvals()
            .map(|(call, open)| (call.id.clone(), open.clone()))
            .collect(),
        queue: session.queue().map(|queued| queued.prompt.clone()).collect(),
    }
}

fn recover(session: &mut Session, witness: &mut Witness, seed: u64) -> Result<Vec<Event>, String> {
    let at = Millis(1_767_300_000_000);
    let events = session.recover(&FreshIds::new(seed, at));
    for event in &events {
        let seq = session.head().next();
        let envelope = Envelope { seq, at, origin: Origin::system(), event: event.clone() };
        witness.read(&envelope)?;
        session.apply(&envelope);
    }
    Ok(events)
}

fn started(events: &[Event]) -> Option<&PromptId> {
    events.iter().find_map(|event| match event {
        Event::TurnStarted { prompt, .. } => Some(prompt),
        _ => None,
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_prefix_of_every_log_recovers_by_the_crash_table(world in histories()) {
        let mut session = Session::default();
        let mut witness = Witness::default();
        for cut in 0..=world.log.len() {
            let (mut after, mut watching) = (session.clone(), witness.clone());
            let running = witness.running_calls();
            let events =
                recover(&mut after, &mut watching, 1).map_err(TestCaseError::fail)?;

            let calls = after.turn().map_or(&[][..], |turn| &turn.calls);
            prop_assert!(calls.iter().all(|call| call.state == CallState::Asked));
            for call in running {
                let failure = CallFailure::interrupted();
                let ended = watching.calls[&call].ended.clone();
                prop_assert_eq!(ended, Some(CallOutcome::Failed { failure }), "{}", call);
            }

            let (before, now) = (kept(&session), kept(&after));
            prop_assert_eq!(&now.approvals, &before.approvals);
            let asked = !before.approvals.is_empty();
            match started(&events) {
                None => {
                    prop_assert_eq!(&now.queue, &before.queue);
                    prop_assert!(asked || now.queue.is_empty(), "prompts wait for nothing");
                    prop_assert_eq!(after.turn().is_some(), asked);
                }
                Some(prompt) => {
                    prop_assert!(!asked, "a turn starts beside one that waits for an answer");
                    prop_assert_eq!(prompt, &before.queue[0]);
                    prop_assert_eq!(&now.queue[..], &before.queue[1..]);
                }
            }

            // A second recovery adds nothing, unless the first one started the next turn: then it is
            // a crash in a turn without output.
            let turn = after.turn().map(|turn| turn.id.clone());
            let again = recover(&mut after, &mut watching, 2).map_err(TestCaseError::fail)?;
            match (started(&events), turn) {
                (Some(_), Some(turn)) => {
                    let ended = Event::TurnEnded { turn, outcome: TurnOutcome::Interrupted };
                    prop_assert_eq!(again.first(), Some(&ended));
                    prop_assert_eq!(started(&again), now.queue.first());
                    prop_assert_eq!(again.len(), 1 + usize::from(!now.queue.is_empty()));
                }
                (_, _) => prop_assert_eq!(again, Vec::new()),
            }

            // After any number of crashes nothing is left to recover, and no prompt is lost.
            for seed in 3..100 {
                if recover(&mut after, &mut watching, seed)
                    .map_err(TestCaseError::fail)?
                    .is_empty()
                {
                    break;
                }
            }
            prop_assert_eq!(after.recover(&FreshIds::new(100, Millis(0))), Vec::new());
            prop_assert_eq!(&kept(&after).approvals, &before.approvals);

            if let Some(envelope) = world.log.get(cut) {
                session.apply(envelope);
                witness.read(envelope).map_err(TestCaseError::fail)?;
            }
        }
    }
}
