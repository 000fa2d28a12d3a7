//! The order of an actor's steps, its queues, cancelling, and agents that fail.
//!
//! Time is paused: a sleep returns when all other tasks wait.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use loggia_core::{
    CallOutcome, Cancel, Command, Content, Event, Level, Mode, PromptId, Refusal, Seq, TaskChoice,
    TurnOutcome,
};
use loggia_session::{Hub, MemoryStore, SessionHandle, SubmitError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Fault, FaultyStore, Gate, ScriptAgent, TestLog};

/// Returns when all other tasks wait.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn notice(text: &str) -> Command {
    Command::Notice { level: Level::Info, text: text.to_owned() }
}

fn texts(reader: &Reader) -> Vec<String> {
    reader
        .seen()
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::TextAppended { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect()
}

fn ends(reader: &Reader) -> Vec<TurnOutcome> {
    reader
        .seen()
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::TurnEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .collect()
}

struct Stage {
    test_log: TestLog,
    store: Arc<FaultyStore>,
    hub: Hub,
    handle: SessionHandle,
}

async fn stage(mode: Mode, scripts: impl IntoIterator<Item = Vec<Act>>) -> Stage {
    let test_log = TestLog::default();
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), test_log.clone());
    let agent = ScriptAgent::new(test_log.clone(), scripts);
    let hub = client::hub(store.clone(), agent);
    let handle = client::create_in(&hub, mode).await;
    Stage { test_log, store, hub, handle }
}

#[tokio::test(start_paused = true)]
async fn durable_then_visible_then_acted_on() {
    let script = vec![
        Act::say("hello"),
        Act::execute("make"),
        Act::output("compiling"),
        Act::succeed("built"),
    ];
    let Stage { test_log, store, handle, .. } = stage(Mode::Ask, [script]).await;
    store.always(Some(Fault::Delay(Duration::from_secs(1))));
    let mut follower = handle.follow(Seq::ZERO);
    let seeing = test_log.clone();
    tokio::spawn(async move {
        while let Ok(Some(events)) = follower.next().await {
            events.iter().for_each(|envelope| seeing.note(format!("seen {}", envelope.seq)));
        }
    });
    let acked = client::prompt(&handle, "go").await.unwrap();
    test_log.note(format!("acked {}", acked.seq));
    let mut reader = Reader::new(&handle);
    let approval = reader.until_asked().await;
    let answered = client::answer(&handle, &approval, "proceed_once").await.unwrap();
    test_log.note(format!("acked {}", answered.seq));
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    settle().await;

    for envelope in reader.seen().iter().skip(1) {
        let durable = test_log.position(&format!("durable {}", envelope.seq));
        let seen = test_log.position(&format!("seen {}", envelope.seq));
        assert!(
            durable < seen,
            "event {} was seen before it was durable:\n{test_log}",
            envelope.seq
        );
        let acted = match &envelope.event {
            Event::TurnStarted { .. } => test_log.position("turn go starts"),
            Event::CallStarted { .. } => test_log.position("permit make"),
            _ => continue,
        };
        assert!(durable < acted, "event {} was acted on too early:\n{test_log}", envelope.seq);
    }
    for ack in [acked, answered] {
        let durable = test_log.position(&format!("durable {}", ack.seq));
        assert!(durable < test_log.position(&format!("acked {}", ack.seq)), "\n{test_log}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_that_hangs_is_not_visible() {
    let Stage { test_log, store, handle, .. } = stage(Mode::Ask, [vec![Act::say("hello")]]).await;
    let gate = Gate::default();
    let append = store.next(Fault::Hold(gate.clone()));
    let mut follower = handle.follow(Seq(1));
    let prompting = handle.clone();
    let prompt = tokio::spawn(async move { client::prompt(&prompting, "go").await });
    store.until_begun(append).await;
    settle().await;
    assert_eq!(handle.head(), Seq(1), "the head has not moved");
    assert!(follower.next().now_or_never().is_none(), "no reader sees it");
    assert!(!prompt.is_finished(), "the caller is not answered");
    assert!(!test_log.has("turn go starts"), "no agent runs");
    gate.open();
    assert_eq!(prompt.await.unwrap().unwrap().seq, Seq(3));
    assert_eq!(follower.next().await.unwrap().unwrap()[0].seq, Seq(2));
    test_log.until("turn go starts").await;
}

#[tokio::test(start_paused = true)]
async fn commands_are_taken_before_reports() {
    let (begin, flood) = (Gate::default(), Gate::default());
    let script = vec![
        Act::WaitFor(begin.clone()),
        Act::say("first"),
        Act::WaitFor(flood.clone()),
        Act::Flood(200),
        Act::note("flooded"),
    ];
    let Stage { test_log, store, hub, handle } = stage(Mode::Ask, [script]).await;
    client::prompt(&handle, "go").await.unwrap();
    let gate = Gate::default();
    let append = store.next(Fault::Hold(gate.clone()));
    begin.open();
    store.until_begun(append).await;
    flood.open();
    test_log.until("flooded").await;
    let cancelling = handle.clone();
    let cancel = tokio::spawn(async move { client::cancel(&cancelling).await });
    settle().await;
    gate.open();
    cancel.await.unwrap().expect("cancelled");
    settle().await;
    let mut reader = Reader::new(&handle);
    hub.stop().await;
    reader.to_end().await;
    assert_eq!(texts(&reader), ["first"], "200 reports were waiting when the cancel came");
    assert_eq!(ends(&reader), [TurnOutcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn reports_keep_their_order_and_the_end_comes_last() {
    let acts = (0..500).map(|number| Act::say(format!("{number} ")));
    let Stage { handle, .. } = stage(Mode::Ask, [acts.collect()]).await;
    client::prompt(&handle, "go").await.unwrap();
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    let expected: String = (0..500).map(|number| format!("{number} ")).collect();
    assert_eq!(texts(&reader).concat(), expected);
    assert!(texts(&reader).len() < 20, "adjacent texts become one event: {}", texts(&reader).len());
    let last = reader.seen().last().unwrap();
    assert!(matches!(last.event, Event::TurnEnded { .. }), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_inbox_is_busy_at_once() {
    let Stage { store, handle, .. } = stage(Mode::Ask, []).await;
    let gate = Gate::default();
    let append = store.next(Fault::Hold(gate.clone()));
    let submit = |text: &str| {
        let (handle, command) = (handle.clone(), notice(text));
        tokio::spawn(async move { handle.submit(command, client::origin("tester")).await })
    };
    let mut waiting = vec![submit("in hand")];
    store.until_begun(append).await;
    waiting.extend((0..64).map(|number| submit(&format!("waiting {number}"))));
    settle().await;
    let refused = handle.submit(notice("one too many"), client::origin("tester")).now_or_never();
    assert_eq!(refused, Some(Err(SubmitError::Busy)));
    // A caller that waits gets busy when its time is over, and is accepted before.
    let (short, long) = (Duration::from_millis(10), Duration::from_secs(3600));
    let patient = handle.submit_within(short, notice("too late"), client::origin("tester"));
    assert_eq!(patient.await, Err(SubmitError::Busy));
    let waiter = handle.clone();
    let patient = tokio::spawn(async move {
        waiter.submit_within(long, notice("patient"), client::origin("tester")).await
    });
    settle().await;
    gate.open();
    patient.await.unwrap().expect("accepted after a wait");
    for submitted in waiting {
        submitted.await.unwrap().expect("accepted commands are done");
    }
    let mut reader = Reader::new(&handle);
    reader.until_seq(Seq(1 + 66)).await;
    client::assert_dense(reader.seen(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_report_queue_makes_the_agent_wait() {
    let Stage { test_log, store, handle, .. } =
        stage(Mode::Ask, [vec![Act::say("first"), Act::Flood(1_000), Act::note("flooded")]]).await;
    let gate = Gate::default();
    store.at(store.begun() + 2, Fault::Hold(gate.clone()));
    client::prompt(&handle, "go").await.unwrap();
    store.until_begun(3).await;
    settle().await;
    assert!(!test_log.has("flooded"), "1,000 reports do not fit into the queue");
    gate.open();
    test_log.until("flooded").await;
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    assert_eq!(texts(&reader).len(), 1_001, "none of them is lost");
}

#[tokio::test(start_paused = true)]
async fn inspect_sees_the_durable_state() {
    let Stage { store, handle, .. } = stage(Mode::Ask, [vec![Act::WaitForCancel]]).await;
    let gate = Gate::default();
    let append = store.next(Fault::Hold(gate.clone()));
    let prompting = handle.clone();
    let prompt = tokio::spawn(async move { client::prompt(&prompting, "go").await });
    store.until_begun(append).await;
    let inspecting = handle.clone();
    let inspect = tokio::spawn(async move {
        let look = |session: &loggia_core::Session| (session.head(), session.turn().is_some());
        inspecting.inspect(look).await
    });
    settle().await;
    assert!(!inspect.is_finished(), "it waits for the current step");
    gate.open();
    assert_eq!(inspect.await.unwrap(), Ok((Seq(3), true)));
    prompt.await.unwrap().unwrap();

    let broken = store.next(Fault::Fail(loggia_session::StoreError::Io("broken".into())));
    let failing = handle.clone();
    let submitted = tokio::spawn(async move { client::prompt(&failing, "next").await });
    let unseen = handle.inspect(loggia_core::Session::head);
    let (submitted, unseen) = tokio::join!(submitted, unseen);
    assert!(submitted.unwrap().is_err());
    assert_eq!(store.begun(), broken);
    let broken = loggia_session::StoreError::Io("broken".into());
    assert_eq!(unseen, Err(SubmitError::Store(broken)), "a state that is not durable is not shown");
}

/// Cancels when `script` has written `note`, and expects one end and no report after it.
async fn check_cancel(mode: Mode, script: Vec<Act>, note: &str) -> Reader {
    let next = vec![Act::say("next")];
    let Stage { test_log, hub, handle, .. } = stage(mode, [script, next]).await;
    client::prompt(&handle, "go").await.unwrap();
    test_log.until(note).await;
    settle().await;
    client::cancel(&handle).await.expect("cancelled");
    assert_eq!(
        client::cancel(&handle).await,
        Err(Refusal::NothingToCancel.into()),
        "it is over when cancel returns"
    );
    test_log.until("turn go leaves").await;
    assert!(test_log.has("stopped"), "the agent was told:\n{test_log}");
    client::prompt(&handle, "after").await.unwrap();
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Cancelled);
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    hub.stop().await;
    reader.to_end().await;
    assert_eq!(ends(&reader), [TurnOutcome::Cancelled, TurnOutcome::Completed]);
    let late = texts(&reader).iter().any(|text| text.contains("late"));
    assert!(!late, "a late report was accepted:\n{}", client::transcript(reader.seen()));
    reader
}

fn call_ends(reader: &Reader) -> Vec<CallOutcome> {
    reader
        .seen()
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::CallEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn cancel_while_talking() {
    let script = vec![
        Act::say("early"),
        Act::note("talking"),
        Act::WaitForCancel,
        Act::say("late"),
        Act::note("not reached"),
    ];
    let reader = check_cancel(Mode::Ask, script, "talking").await;
    assert_eq!(texts(&reader), ["early", "next"]);
}

#[tokio::test(start_paused = true)]
async fn cancel_while_asking() {
    let script = vec![Act::note("asking"), Act::execute("make"), Act::say("late")];
    let reader = check_cancel(Mode::Ask, script, "asking").await;
    let reason = "cancelled by CLI:tester".to_owned();
    assert_eq!(call_ends(&reader), [CallOutcome::Cancelled { reason }]);
}

#[tokio::test(start_paused = true)]
async fn cancel_while_a_tool_runs() {
    let script = vec![
        Act::execute("make"),
        Act::output("compiling"),
        Act::note("running"),
        Act::WaitForCancel,
        Act::output("late"),
        Act::succeed("late"),
        Act::say("late"),
    ];
    let reader = check_cancel(Mode::All, script, "running").await;
    let reason = "cancelled by CLI:tester".to_owned();
    assert_eq!(call_ends(&reader), [CallOutcome::Cancelled { reason }], "the call ends once");
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_starts_when_the_previous_agent_has_stopped() {
    let gate = Gate::default();
    let first = vec![Act::note("running"), Act::WaitForCancel, Act::WaitFor(gate.clone())];
    let Stage { test_log, handle, .. } = stage(Mode::Ask, [first, vec![Act::say("second")]]).await;
    client::prompt(&handle, "one").await.unwrap();
    test_log.until("running").await;
    client::prompt(&handle, "two").await.unwrap();
    client::cancel(&handle).await.unwrap();
    settle().await;
    let started = handle.inspect(|session| session.turn().map(|turn| turn.prompt.clone())).await;
    assert_eq!(started, Ok(Some(PromptId::from("two"))), "the log has the next turn");
    assert!(!test_log.has("turn two starts"), "the old agent may still touch files");
    gate.open();
    test_log.until("turn two starts").await;
    assert!(
        test_log.position("turn one leaves") < test_log.position("turn two starts"),
        "\n{test_log}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_stop_delays_the_next_turn_by_five_seconds() {
    let first = vec![Act::note("running"), Act::WaitForCancel, Act::WaitFor(Gate::default())];
    let Stage { test_log, handle, .. } = stage(Mode::Ask, [first, vec![]]).await;
    client::prompt(&handle, "one").await.unwrap();
    test_log.until("running").await;
    client::cancel(&handle).await.unwrap();
    let cancelled = tokio::time::Instant::now();
    client::prompt(&handle, "two").await.unwrap();
    test_log.until("turn two starts").await;
    let waited = cancelled.elapsed();
    assert!((5..6).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_cancelled_before_its_agent_started_never_runs() {
    let gate = Gate::default();
    let first = vec![Act::note("running"), Act::WaitForCancel, Act::WaitFor(gate.clone())];
    let Stage { test_log, handle, .. } = stage(Mode::Ask, [first, vec![]]).await;
    client::prompt(&handle, "one").await.unwrap();
    test_log.until("running").await;
    client::prompt(&handle, "two").await.unwrap();
    client::prompt(&handle, "three").await.unwrap();
    client::cancel(&handle).await.expect("the first");
    settle().await;
    client::cancel(&handle).await.expect("the second, whose agent still waits for the first");
    gate.open();
    test_log.until("turn three leaves").await;
    assert!(!test_log.has("turn two starts"), "\n{test_log}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_agent_ends_its_turn_only() {
    let first = vec![Act::say("so far"), Act::Panic("boom".into())];
    let Stage { handle, .. } = stage(Mode::Ask, [first, vec![Act::say("fine")]]).await;
    client::prompt(&handle, "one").await.unwrap();
    let mut reader = Reader::new(&handle);
    let TurnOutcome::Failed { message, .. } = reader.until_over().await else {
        panic!("it did not fail:\n{}", client::transcript(reader.seen()));
    };
    assert!(message.contains("boom"), "{message}");
    let said = |event: &Event| matches!(event, Event::NoticeRaised { level: Level::Error, text, .. } if text.contains("boom"));
    assert!(reader.seen().iter().any(|envelope| said(&envelope.event)));
    client::prompt(&handle, "two").await.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    assert_eq!(texts(&reader), ["so far", "fine"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_tool_ends_its_call_too() {
    let first = vec![Act::execute("make"), Act::Panic("boom".into())];
    let Stage { handle, .. } = stage(Mode::All, [first, vec![]]).await;
    client::prompt(&handle, "one").await.unwrap();
    let mut reader = Reader::new(&handle);
    assert!(matches!(reader.until_over().await, TurnOutcome::Failed { .. }));
    assert_eq!(call_ends(&reader).len(), 1, "\n{}", client::transcript(reader.seen()));
    assert_eq!(handle.inspect(|session| session.turn().is_none()).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_fails_ends_its_turn_and_its_calls() {
    let scripts = [vec![Act::Fail("no model".into())], vec![Act::execute("make")], vec![]];
    let Stage { handle, .. } = stage(Mode::All, scripts).await;
    let mut reader = Reader::new(&handle);
    client::prompt(&handle, "one").await.unwrap();
    let failed = TurnOutcome::failed("no model");
    assert_eq!(reader.until_over().await, failed);
    client::prompt(&handle, "two").await.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    assert_eq!(call_ends(&reader).len(), 1, "a call that was left running ends with its turn");
}

#[tokio::test(start_paused = true)]
async fn prompts_queue_in_order_and_may_be_withdrawn() {
    let gate = Gate::default();
    let first = vec![Act::WaitFor(gate.clone())];
    let Stage { test_log, hub, handle, .. } = stage(Mode::Ask, [first, vec![]]).await;
    client::prompt(&handle, "running").await.unwrap();
    for number in 0..32 {
        client::prompt(&handle, &format!("{number}")).await.unwrap();
    }
    let refused = client::prompt(&handle, "one too many").await;
    assert_eq!(
        refused,
        Err(Refusal::QueueFull { queued: 32, bound: loggia_core::QueueBound::Prompts }.into())
    );
    let withdraw = Command::Cancel { what: Cancel::Prompt(PromptId::from("7")) };
    handle.submit(withdraw, client::origin("tester")).await.unwrap();
    client::prompt(&handle, "now there is room").await.unwrap();
    gate.open();
    test_log.until("turn now there is room leaves").await;
    settle().await;
    let mut reader = Reader::new(&handle);
    hub.stop().await;
    reader.to_end().await;
    let started: Vec<String> = reader
        .seen()
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::TurnStarted { prompt, .. } => Some(prompt.to_string()),
            _ => None,
        })
        .collect();
    let mut expected = vec!["running".to_owned()];
    expected.extend((0..32).filter(|number| *number != 7).map(|number| number.to_string()));
    expected.push("now there is room".into());
    assert_eq!(started, expected);
    assert_eq!(ends(&reader).len(), started.len());
}

#[tokio::test(start_paused = true)]
async fn a_retried_prompt_changes_nothing() {
    let Stage { hub, handle, .. } = stage(Mode::Ask, [vec![Act::say("once")]]).await;
    let first = client::prompt(&handle, "go").await.unwrap();
    let mut reader = Reader::new(&handle);
    reader.until_over().await;
    let retried = client::prompt(&handle, "go").await.unwrap();
    assert_eq!(retried.task, first.task);
    assert!(first.task.is_some());
    handle.stop().await;
    let handle = hub.open(handle.id()).await.unwrap();
    assert_eq!(client::prompt(&handle, "go").await.unwrap().task, first.task, "after reopening");
    assert_eq!(handle.head(), reader.seen().last().unwrap().seq, "nothing was appended");
    let other = Command::Prompt {
        prompt: PromptId::from("go"),
        task: TaskChoice::New,
        content: Content::text("other words, the same id"),
    };
    let retried = handle.submit(other, client::origin("somebody else")).await.unwrap();
    assert_eq!(retried.task, first.task);
}

#[tokio::test(start_paused = true)]
async fn two_answers_in_one_step_have_one_winner() {
    let script = vec![Act::execute("make"), Act::succeed("built")];
    let Stage { test_log, store, handle, .. } = stage(Mode::Ask, [script]).await;
    client::prompt(&handle, "go").await.unwrap();
    let mut reader = Reader::new(&handle);
    let approval = reader.until_asked().await;
    let gate = Gate::default();
    let append = store.next(Fault::Hold(gate.clone()));
    let noticing = handle.clone();
    let first = tokio::spawn(async move {
        noticing.submit(notice("keeps the actor busy"), client::origin("tester")).await
    });
    store.until_begun(append).await;
    let answers = ["proceed_once", "cancel"].map(|choice| {
        let (handle, approval) = (handle.clone(), approval.clone());
        tokio::spawn(async move { client::answer(&handle, &approval, choice).await })
    });
    settle().await;
    gate.open();
    first.await.unwrap().unwrap();
    let [won, lost] = answers;
    let (won, lost) = (won.await.unwrap(), lost.await.unwrap());
    assert!(won.is_ok(), "{won:?}");
    let Err(SubmitError::Refused(Refusal::AlreadyAnswered { choice, by, .. })) = lost else {
        panic!("two winners, or an uninformed loser: {lost:?}");
    };
    assert_eq!((choice.0.as_str(), by), ("proceed_once", client::origin("tester")));
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    assert!(test_log.has("permit make"));
}
