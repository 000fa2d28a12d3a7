//! The laws L1–L8 of a session's log (docs/contributing/promises.md), for arbitrary histories. L7 is about
//! protocols and is tested in `loggia-wire`.

use std::cell::RefCell;
use std::collections::HashMap;

use loggia_core::session::{
    QUEUE_LIMIT, QUEUE_OTHERS, QUEUE_SHARE, QUEUE_SHARE_BYTES, READY_LIMIT, RECENT, RECENT_TURNS,
    SUMMARY_LIMIT,
};
use loggia_core::{
    Amendment, Authority, CallId, ChoiceId, Command, Content, Envelope, Event, Level, Millis, Mode,
    Origin, Part, Question, QueueBound, Refusal, Seq, Session, Surface, TaskChoice, Tasks,
    Transcript,
};
use loggia_shell::Parser;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use serde_json::json;

use super::generate::{World, client, histories, moves, open, settings, texts};
use super::witness::Witness;

/// Histories that once broke a law are tried first.
pub fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("tests/regressions.txt");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

pub fn fold<'a>(log: impl IntoIterator<Item = &'a Envelope>) -> Session {
    let mut session = Session::default();
    for envelope in log {
        session.apply(envelope);
    }
    session
}

fn transcript<'a>(log: impl IntoIterator<Item = &'a Envelope>) -> Transcript {
    let mut transcript = Transcript::default();
    for envelope in log {
        transcript.apply(envelope);
    }
    transcript
}

fn tasks<'a>(log: impl IntoIterator<Item = &'a Envelope>) -> Tasks {
    let mut tasks = Tasks::default();
    for envelope in log {
        tasks.apply(envelope);
    }
    tasks
}

/// The envelope after a round trip through its JSON on disk.
pub fn stored(envelope: &Envelope) -> Envelope {
    serde_json::from_str(&serde_json::to_string(envelope).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn l1_replaying_the_log_equals_the_live_state(world in histories()) {
        prop_assert_eq!(&fold(&world.log), &world.session);
        for envelope in &world.log {
            prop_assert_eq!(&stored(envelope), envelope);
        }
        let reread: Vec<Envelope> = world.log.iter().map(stored).collect();
        prop_assert_eq!(&fold(&reread), &world.session);
        prop_assert_eq!(transcript(&reread), transcript(&world.log));
        prop_assert_eq!(tasks(&reread), tasks(&world.log));
    }

    #[test]
    fn l1_replaying_equals_the_live_state_after_every_single_step(
        moves in prop::collection::vec(moves(), 0..60),
    ) {
        let mut world = World::default();
        let mut replayed = Session::default();
        world.submit(client(0), open(settings(Mode::Ask, Vec::new()))).unwrap();
        let mut read = 0;
        for moved in &moves {
            let _ = world.make(moved);
            for envelope in &world.log[read..] {
                replayed.apply(&stored(envelope));
            }
            read = world.log.len();
            prop_assert_eq!(&replayed, &world.session);
        }
    }

    #[test]
    fn l2_l3_l4_one_answer_per_approval_one_turn_at_a_time_every_call_ends_in_its_turn(
        world in histories(),
    ) {
        let witness = Witness::of(&world.log).map_err(TestCaseError::fail)?;
        let open = world.session.turn().map(|turn| turn.id.clone());
        prop_assert_eq!(witness.turn.as_ref().map(|turn| turn.id.clone()), open);
        let asked: Vec<_> =
            world.session.open_approvals().map(|(_, open)| open.id.clone()).collect();
        prop_assert_eq!(witness.open_approvals().cloned().collect::<Vec<_>>(), asked);
        let queued: Vec<_> = world.session.queue().map(|queued| queued.prompt.clone()).collect();
        prop_assert_eq!(witness.waiting_prompts().cloned().collect::<Vec<_>>(), &queued[..]);
        prop_assert!(queued.is_empty() || witness.turn.is_some(), "prompts wait for nothing");
    }

    /// A decision takes `&self`, so it cannot change the state. A refused command must also be refused
    /// each time it is repeated.
    #[test]
    fn l5_a_refused_command_appends_nothing(world in histories()) {
        let mut replay = World::default();
        for taken in &world.steps {
            let before = (replay.session.clone(), replay.log.len());
            let first = replay.session.decide(&taken.stamped, &Parser);
            prop_assert_eq!(&replay.session.decide(&taken.stamped, &Parser), &first);
            prop_assert_eq!(&replay.session, &before.0);
            match (&taken.outcome, first) {
                (Ok(range), Ok(events)) => {
                    prop_assert_eq!(range.len(), events.len());
                    for event in events {
                        replay.append(taken.stamped.at, taken.stamped.origin.clone(), event);
                    }
                }
                (Err(expected), Err(refusal)) => {
                    prop_assert_eq!(expected, &refusal);
                    prop_assert!(!refusal.to_string().is_empty());
                    prop_assert_eq!(replay.log.len(), before.1);
                }
                (expected, other) => prop_assert!(false, "{expected:?} became {other:?}"),
            }
        }
        prop_assert_eq!(&replay.log, &world.log);
    }

    /// Coalescing changes sequence numbers. So the original is folded with the number (and, for "last
    /// updated", the time) of the piece that each event became part of. Then the states must be equal.
    #[test]
    fn l6_folding_a_coalesced_log_equals_folding_the_original(
        world in histories(),
        batches in prop::collection::vec(1..12usize, 1..20),
        limit in prop_oneof![Just(64 * 1024), 0..40usize],
    ) {
        let (coalesced, positions) = coalesce(&world.log, &batches, limit);
        let moved: Vec<Envelope> = world
            .log
            .iter()
            .zip(&positions)
            .map(|(envelope, position)| {
                Envelope { seq: coalesced[*position].seq, ..envelope.clone() }
            })
            .collect();
        prop_assert_eq!(transcript(&coalesced), transcript(&moved));
        let timed: Vec<Envelope> = moved
            .iter()
            .zip(&positions)
            .map(|(envelope, position)| Envelope { at: coalesced[*position].at, ..envelope.clone() })
            .collect();
        prop_assert_eq!(fold(&coalesced), fold(&timed));
        prop_assert_eq!(tasks(&coalesced), tasks(&timed));
        Witness::of(&coalesced).map_err(TestCaseError::fail)?;

        let said = |log: &[Envelope]| -> String { log.iter().filter_map(words).collect() };
        prop_assert_eq!(said(&coalesced), said(&world.log));
        prop_assert_eq!(skips(&coalesced), skips(&world.log));
        for envelope in &coalesced {
            let bytes = words(envelope).map_or(0, str::len);
            let whole = world.log.iter().any(|original| original.event == envelope.event);
            prop_assert!(whole || bytes <= limit, "{bytes} bytes were put together");
        }
    }

    #[test]
    fn l8_a_retried_prompt_changes_nothing(world in histories(), text in texts(), by in 0..4u8) {
        prop_assume!(!world.session.is_closed());
        let mut world = world;
        for prompt in world.prompts.clone() {
            let task = world.session.task_of(&prompt).cloned();
            let command = Command::Prompt {
                prompt: prompt.clone(),
                task: TaskChoice::New,
                content: Content::text(text.clone()),
            };
            let stamped = world.stamp(client(by), command);
            prop_assert_eq!(world.session.decide(&stamped, &Parser), Ok(Vec::new()));
            prop_assert_eq!(world.session.task_of(&prompt).cloned(), task);
        }
    }

    #[test]
    fn l8_a_retried_answer_changes_nothing_and_a_late_answer_gets_the_first(world in histories()) {
        prop_assume!(!world.session.is_closed());
        let mut world = world;
        let witness = Witness::of(&world.log).map_err(TestCaseError::fail)?;
        for (approval, asked) in &witness.approvals {
            let Some(won) = &asked.answer else { continue };
            let both = Question::Both { approval: approval.clone(), call: asked.call.clone() };
            for to in [Question::Approval(approval.clone()), Question::Call(asked.call.clone()), both] {
                let answer = |choice: &str, edit| Command::Answer {
                    to: to.clone(),
                    choice: choice.into(),
                    edit,
                    digest: None, message: None };
                let lost = Err(Refusal::AlreadyAnswered {
                    choice: won.choice.clone(),
                    by: won.by.clone(),
                    at: won.at,
                });
                let again = answer(&won.choice.0, won.edit.clone());
                let retry = world.stamp(won.by.clone(), again.clone());
                prop_assert_eq!(world.session.decide(&retry, &Parser), Ok(Vec::new()));
                let late = world.stamp(Origin::new(Surface::Sdlc, "somebody else"), again);
                prop_assert_eq!(&world.session.decide(&late, &Parser), &lost);
                let other = answer("another choice", won.edit.clone());
                let changed = world.stamp(won.by.clone(), other);
                prop_assert_eq!(&world.session.decide(&changed, &Parser), &lost);
            }
        }
    }

    /// An answer that names two questions answers neither.
    #[test]
    fn names_of_two_questions_answer_none(world in histories()) {
        prop_assume!(!world.session.is_closed());
        let mut world = world;
        let witness = Witness::of(&world.log).map_err(TestCaseError::fail)?;
        let asked: Vec<_> = witness.approvals.iter().map(|(id, asked)| (id.clone(), asked.call.clone())).collect();
        for (approval, _) in &asked {
            for (_, call) in asked.iter().filter(|(other, _)| other != approval) {
                let to = Question::Both { approval: approval.clone(), call: call.clone() };
                let choice = ChoiceId::PROCEED_ONCE.into();
                let answer = Command::Answer { to, choice, edit: None, digest: None, message: None };
                let stamped = world.stamp(Origin::new(Surface::Sdlc, "somebody"), answer);
                let refused = world.session.decide(&stamped, &Parser).unwrap_err();
                prop_assert!(matches!(refused, Refusal::MixedQuestion | Refusal::UnknownQuestion), "{}", refused);
            }
        }
    }

    /// The context of a turn begins with the oldest of the recent turns, and never with one that a
    /// compaction replaced.
    #[test]
    fn the_context_begins_after_the_last_compaction(world in histories()) {
        let mut session = Session::default();
        let mut witness = Witness::default();
        let mut compacted = None;
        for envelope in &world.log {
            session.apply(envelope);
            witness.read(envelope).map_err(TestCaseError::fail)?;
            if let Event::ContextCompacted { upto, summary, automatic, .. } = &envelope.event {
                let began = session.turn().map(|turn| turn.started);
                let kept = if *automatic { began } else { Some(envelope.seq) };
                prop_assert_eq!(Some(upto.next()), kept);
                compacted = Some((*upto, summary.clone()));
            }
            prop_assert_eq!(session.name(), witness.name.as_deref());
            prop_assert_eq!(session.summary().name, witness.name.clone());
            let known = session.compacted().map(|it| (it.upto, it.summary.clone()));
            prop_assert_eq!(&known, &compacted);
            let recent = witness.read_turns.len().saturating_sub(RECENT_TURNS);
            let first = witness.read_turns.get(recent).map(|(accepted, _)| *accepted);
            let upto = compacted.as_ref().map_or(Seq::ZERO, |(upto, _)| *upto);
            prop_assert_eq!(session.recent_from(), first.unwrap_or(upto));
        }
    }

    /// The numbers of `/stats` equal a count over the log.
    #[test]
    fn the_numbers_are_a_count_of_the_log(world in histories()) {
        let count = |of: &dyn Fn(&Event) -> bool| {
            world.log.iter().filter(|envelope| of(&envelope.event)).count() as u64
        };
        let stats = world.session.stats();
        prop_assert_eq!(stats.turns, count(&|event| matches!(event, Event::TurnStarted { .. })));
        prop_assert_eq!(stats.calls, count(&|event| matches!(event, Event::CallProposed { .. })));
        let ended = stats.calls_succeeded + stats.calls_failed + stats.calls_cancelled;
        prop_assert_eq!(ended, count(&|event| matches!(event, Event::CallEnded { .. })));
        prop_assert_eq!(stats.questions, count(&|event| matches!(event, Event::ApprovalAsked { .. })));
        let compacted = |event: &Event| matches!(event, Event::ContextCompacted { .. });
        prop_assert_eq!(stats.compactions, count(&compacted));
    }

    #[test]
    fn unknown_events_are_ignored_at_every_position(
        world in histories(),
        positions in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let line = json!({
            "seq": 0, "at": 0, "origin": { "surface": "system", "client": "loggia" },
            "event": { "type": "some_future_event", "turn": "t", "fields": [1, { "deep": null }] },
        });
        let unknown: Envelope = serde_json::from_value(line).unwrap();
        prop_assert_eq!(&unknown.event, &Event::Unknown);
        let mut mixed: Vec<Option<&Envelope>> = world.log.iter().map(Some).collect();
        for position in positions {
            mixed.insert(position.index(mixed.len() + 1), None);
        }
        // As in L6, both sides use the same sequence numbers. Both also get the same last event, because
        // the head and the last time are those of the log.
        let numbered: Vec<(bool, Envelope)> = mixed
            .iter()
            .zip(1..)
            .map(|(it, seq)| {
                (it.is_some(), Envelope { seq: Seq(seq), ..it.unwrap_or(&unknown).clone() })
            })
            .collect();
        let last = Envelope {
            seq: Seq(numbered.len() as u64 + 1),
            at: Millis(0),
            origin: Origin::system(),
            event: Event::NoticeRaised { level: Level::Info, text: "the end".into(), wait: None },
        };
        let all: Vec<&Envelope> = numbered.iter().map(|(_, it)| it).chain([&last]).collect();
        let known: Vec<&Envelope> =
            numbered.iter().filter(|(known, _)| *known).map(|(_, it)| it).chain([&last]).collect();
        prop_assert_eq!(fold(all.iter().copied()), fold(known.iter().copied()));
        prop_assert_eq!(tasks(all.iter().copied()), tasks(known.iter().copied()));
        prop_assert_eq!(transcript(all), transcript(known));
    }

    #[test]
    fn the_task_state_equals_that_of_the_witness(world in histories()) {
        let mut session = Session::default();
        let mut witness = Witness::default();
        let mut tasks = Tasks::default();
        for envelope in &world.log {
            session.apply(envelope);
            tasks.apply(envelope);
            witness.read(envelope).map_err(TestCaseError::fail)?;
            for task in world.tasks.iter().chain([&"no-task".into()]) {
                let state = witness.task_state(task);
                prop_assert_eq!(session.task_state(task), state);
                prop_assert_eq!(tasks.get(task).map(|view| view.state), state);
            }
            let running = witness.turn.as_ref().map(|turn| &turn.task);
            prop_assert_eq!(tasks.running(), running);
            prop_assert_eq!(session.turn().map(|turn| &turn.task), running);
        }
    }
}

/// The log as a writer with these batch sizes would have written it, and for each original event the
/// index of its envelope in that log.
fn coalesce(log: &[Envelope], batches: &[usize], limit: usize) -> (Vec<Envelope>, Vec<usize>) {
    let mut sizes = batches.iter().cycle();
    let mut left = 0;
    let mut coalesced: Vec<Envelope> = Vec::new();
    let mut positions = Vec::new();
    for envelope in log {
        let starts = left == 0;
        if starts {
            left = *sizes.next().unwrap();
        }
        left -= 1;
        let joined = !starts
            && coalesced.last_mut().is_some_and(|last| {
                last.origin == envelope.origin && last.event.absorb(&envelope.event, limit)
            });
        if !joined {
            let seq = Seq(coalesced.len() as u64 + 1);
            coalesced.push(Envelope { seq, ..envelope.clone() });
        }
        positions.push(coalesced.len() - 1);
    }
    (coalesced, positions)
}

fn words(envelope: &Envelope) -> Option<&str> {
    match &envelope.event {
        Event::TextAppended { text, .. }
        | Event::ThoughtAppended { text, .. }
        | Event::CallOutput { text, .. } => Some(text),
        _ => None,
    }
}

/// The bytes left out of each call's output, and their position.
fn skips(log: &[Envelope]) -> Vec<(CallId, usize, u64)> {
    let mut printed: HashMap<&CallId, usize> = HashMap::new();
    let mut skips = Vec::new();
    for envelope in log {
        if let Event::CallOutput { call, text, skipped } = &envelope.event {
            let before = printed.entry(call).or_default();
            if *skipped > 0 {
                skips.push((call.clone(), *before, *skipped));
            }
            *before += text.len();
        }
    }
    skips
}

/// Without this check, every law above could hold because nothing happens.
#[test]
fn the_generator_reaches_deep_states() {
    #[derive(Debug, Default)]
    struct Reached {
        approvals_at_once: usize,
        calls_at_once: usize,
        queued: usize,
        events: usize,
        answered: usize,
        edited: usize,
        late: usize,
        withdrawn: usize,
        retried: usize,
        closed: usize,
        stale: usize,
        duplicate: usize,
        coalesced: usize,
        compacted: usize,
        revoked: usize,
        typed: usize,
    }
    let reached = RefCell::new(Reached::default());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    );
    runner
        .run(&histories(), |world| {
            let mut reached = reached.borrow_mut();
            let mut session = Session::default();
            for envelope in &world.log {
                session.apply(envelope);
                let calls = session.turn().map_or(0, |turn| turn.calls.len());
                reached.calls_at_once = reached.calls_at_once.max(calls);
                reached.approvals_at_once =
                    reached.approvals_at_once.max(session.open_approvals().count());
                reached.queued = reached.queued.max(session.queue().len());
                reached.compacted +=
                    usize::from(matches!(envelope.event, Event::ContextCompacted { .. }));
                let revoked = |event: &Event| {
                    matches!(event, Event::PolicyAmended { amendment: Amendment::Revoked { .. } })
                };
                reached.revoked += usize::from(revoked(&envelope.event));
                let typed = |event: &Event| {
                    matches!(event, Event::CallStarted { authority: Authority::Typed { .. }, .. })
                };
                reached.typed += usize::from(typed(&envelope.event));
                if let Event::ApprovalAnswered { edit, .. } = &envelope.event {
                    reached.answered += 1;
                    reached.edited += usize::from(edit.is_some());
                }
            }
            reached.events = reached.events.max(world.log.len());
            reached.closed += usize::from(world.session.is_closed());
            reached.coalesced += world.log.len() - coalesce(&world.log, &[1000], 64).0.len();
            for taken in &world.steps {
                match (&taken.stamped.command, &taken.outcome) {
                    (_, Err(Refusal::AlreadyAnswered { .. })) => reached.late += 1,
                    (_, Err(Refusal::Withdrawn { .. })) => reached.withdrawn += 1,
                    (_, Err(Refusal::StaleTurn)) => reached.stale += 1,
                    (_, Err(Refusal::DuplicateCall)) => reached.duplicate += 1,
                    (Command::Prompt { .. }, Ok(range)) if range.is_empty() => {
                        reached.retried += 1;
                    }
                    _ => {}
                }
            }
            Ok(())
        })
        .unwrap();
    let reached = reached.into_inner();
    let deep = reached.approvals_at_once >= 4
        && reached.calls_at_once >= 6
        && reached.queued >= 5
        && reached.events >= 60
        && reached.closed >= 10
        && [
            reached.answered,
            reached.edited,
            reached.late,
            reached.withdrawn,
            reached.retried,
            reached.stale,
            reached.duplicate,
            reached.coalesced,
            reached.compacted,
            reached.revoked,
            reached.typed,
        ]
        .iter()
        .all(|count| *count >= 50);
    assert!(deep, "{reached:#?}");
}

fn opened() -> World {
    let mut world = World::default();
    world.submit(client(0), open(settings(Mode::Ask, Vec::new()))).unwrap();
    world
}

fn prompt(id: &str) -> Command {
    Command::Prompt { prompt: id.into(), task: TaskChoice::New, content: Content::text(id) }
}

#[test]
fn the_queue_is_bounded_and_a_retry_is_welcome_even_when_it_is_full() {
    let mut world = opened();
    for number in 0..=QUEUE_LIMIT {
        world.submit(client(0), prompt(&format!("prompt-{number}"))).unwrap();
    }
    let refused = world.submit(client(1), prompt("one too many"));
    assert_eq!(
        refused,
        Err(Refusal::QueueFull { queued: QUEUE_LIMIT, bound: QueueBound::Prompts })
    );
    let retried = world.submit(client(0), prompt("prompt-7"));
    assert!(retried.is_ok_and(|range| range.is_empty()));
}

/// Clients have shares of the queue, in prompts and in bytes; the rest is reserved for the owner of the session.
#[test]
fn clients_have_shares_of_the_queue_and_the_rest_is_for_the_owner() {
    let by = |name: &str| Origin { principal: Some(name.into()), ..client(1) };
    let full = |queued, bound| Err(Refusal::QueueFull { queued, bound });
    let mut world = opened();
    world.submit(client(0), prompt("running")).unwrap();
    let mut fill = |name: &str, most: usize| {
        for number in 0..most {
            world.submit(by(name), prompt(&format!("{name}-{number}"))).unwrap();
        }
        world.submit(by(name), prompt("one too many")).map(drop)
    };
    assert_eq!(fill("ann", QUEUE_SHARE), full(QUEUE_SHARE, QueueBound::Share));
    let left = QUEUE_OTHERS - QUEUE_SHARE;
    assert_eq!(fill("bob", left), full(QUEUE_OTHERS, QueueBound::Prompts));
    for number in QUEUE_OTHERS..QUEUE_LIMIT {
        world.submit(client(0), prompt(&format!("own-{number}"))).unwrap();
    }

    let mut world = opened();
    world.submit(client(0), prompt("running")).unwrap();
    let large = |id: &str| Command::Prompt {
        prompt: id.into(),
        task: TaskChoice::New,
        content: Content::text("x".repeat(QUEUE_SHARE_BYTES * 5 / 8)),
    };
    world.submit(by("ann"), large("ann-1")).unwrap();
    let refused = world.submit(by("ann"), large("ann-2")).map(drop);
    assert_eq!(refused, full(1, QueueBound::ShareBytes));
    world.submit(by("bob"), large("bob-1")).unwrap();
    assert_eq!(world.submit(by("cy"), large("cy-1")).map(drop), full(2, QueueBound::Bytes));
    world.submit(client(0), large("own-1")).unwrap();
    world.submit(client(0), large("own-2")).unwrap();
    assert_eq!(world.submit(client(0), large("own-3")).map(drop), full(4, QueueBound::Bytes));
}

#[test]
fn the_last_thousand_prompts_are_remembered_for_retries() {
    let mut world = opened();
    for number in 0..RECENT {
        world.submit(client(0), prompt(&format!("prompt-{number}"))).unwrap();
        let turn = world.session.turn().unwrap().id.clone();
        let report = loggia_core::Report::Finish { outcome: loggia_core::TurnOutcome::Completed };
        world.submit(Origin::agent(), Command::Report { turn, report }).unwrap();
    }
    let first = world.submit(client(0), prompt("prompt-0"));
    assert!(first.is_ok_and(|range| range.is_empty()), "the first of {RECENT} is forgotten");
}

#[test]
fn a_summary_is_bounded() {
    let mut world = opened();
    world.submit(client(0), prompt("prompt")).unwrap();
    let turn = world.session.turn().unwrap().id.clone();
    let report = loggia_core::Report::Compact {
        summary: "ä".repeat(SUMMARY_LIMIT),
        reach: loggia_core::CompactReach::Everything,
    };
    world.submit(Origin::agent(), Command::Report { turn, report }).unwrap();
    assert_eq!(world.session.compacted().unwrap().summary.len(), SUMMARY_LIMIT);
}

/// The JSON parser stops at 128 levels, so deeper data must not get into the log.
#[test]
fn data_of_a_hundred_levels_survives_the_log() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let mut world = opened();
    let content = Content { parts: vec![Part::Data { data: deep.clone() }], ..Content::default() };
    let prompt = Command::Prompt { prompt: "deep".into(), task: TaskChoice::New, content };
    world.submit(client(0), prompt).unwrap();
    for envelope in &world.log {
        assert_eq!(&stored(envelope), envelope);
    }
}

/// An opened task without a message is submitted and keeps its id. If there are too many, the oldest one
/// is closed. A closed one can still be used.
#[test]
fn a_task_can_be_opened_before_its_first_message() {
    let mut world = opened();
    let open = |world: &mut World, task: &str| {
        let profile = Some("a-profile".to_owned());
        world.submit(client(0), Command::OpenTask { task: task.into(), profile })
    };
    let state = |world: &World, task: &str| world.session.task_state(&task.into());
    let (submitted, canceled) =
        (Some(loggia_core::TaskState::Submitted), Some(loggia_core::TaskState::Canceled));
    open(&mut world, "first").unwrap();
    assert_eq!(open(&mut world, "first"), Err(Refusal::TaskExists));
    assert_eq!(state(&world, "first"), submitted);
    assert_eq!(world.session.profile_of(&"first".into()), Some("a-profile"));
    for number in 1..READY_LIMIT {
        open(&mut world, &format!("ready-{number}")).unwrap();
    }
    assert_eq!(state(&world, "first"), submitted);
    open(&mut world, "one-more").unwrap();
    assert_eq!(state(&world, "first"), canceled);
    // With its first message it is an ordinary task.
    let prompt = |task: TaskChoice| {
        let content = Content { profile: Some("another".into()), ..Content::text("go") };
        Command::Prompt { prompt: "p".into(), task, content }
    };
    let over = world.submit(client(0), prompt(TaskChoice::Continue("first".into())));
    assert_eq!(over, Err(Refusal::TaskOver));
    world.submit(client(0), prompt(TaskChoice::Reopen("first".into()))).unwrap();
    assert_eq!(state(&world, "first"), Some(loggia_core::TaskState::Working));
    assert_eq!(world.session.profile_of(&"first".into()), Some("a-profile"));
    // A client can close an opened task, once.
    let cancel = || Command::Cancel { what: loggia_core::Cancel::Task("one-more".into()) };
    world.submit(client(0), cancel()).unwrap();
    assert_eq!(state(&world, "one-more"), canceled);
    assert_eq!(world.submit(client(0), cancel()), Err(Refusal::NothingToCancel));
}
