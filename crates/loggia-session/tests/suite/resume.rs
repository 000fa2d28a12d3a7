//! A session whose owner died: no acknowledged event is lost, nothing runs twice, and an open question keeps its id.
//!
//! A runtime that is shut down with all its tasks stands for a process that dies. Its store is never closed. Dropping the
//! tasks releases the lock, as the kernel does.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    ApprovalId, CallFailure, CallOutcome, Event, Mode, PromptId, SessionId, TaskState, TurnOutcome,
};
use loggia_session::{Hub, SessionHandle, SubmitError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Fault, FaultyStore, Gate, ScriptAgent};

/// Runs `work` in a runtime of its own, which is shut down when `work` is done.
async fn crash_after<T, W>(
    directory: &Path,
    agent: Arc<ScriptAgent>,
    work: impl FnOnce(Arc<Hub>) -> W + Send + 'static,
) -> T
where
    T: Send + 'static,
    W: Future<Output = T> + Send,
{
    let directory = directory.to_owned();
    let died = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let hub = Arc::new(client::hub(client::sqlite(&directory), agent));
        let result = runtime.block_on(work(hub.clone()));
        std::mem::forget(hub);
        runtime.shutdown_timeout(Duration::from_secs(10));
        result
    });
    died.await.unwrap()
}

fn asking() -> Vec<Act> {
    vec![Act::say("may I?"), Act::execute("make"), Act::output("compiling"), Act::succeed("built")]
}

/// A session with an open question, left behind by a dead process.
async fn left_asking(directory: &Path) -> (SessionId, ApprovalId) {
    crash_after(directory, ScriptAgent::doing(asking()), |hub| async move {
        let handle = client::create(&hub).await;
        client::prompt(&handle, "go").await.unwrap();
        let approval = Reader::new(&handle).until_asked().await;
        (handle.id().clone(), approval)
    })
    .await
}

async fn open_question(handle: &SessionHandle) -> Option<ApprovalId> {
    let look = |session: &loggia_core::Session| {
        session.open_approvals().next().map(|(_, approval)| approval.id.clone())
    };
    handle.inspect(look).await.unwrap()
}

#[tokio::test]
async fn an_open_question_is_open_again_with_the_same_id() {
    let directory = client::directory();
    let (id, approval) = left_asking(directory.path()).await;
    let agent = ScriptAgent::doing(asking());
    let hub = client::hub(client::sqlite(directory.path()), agent.clone());
    let before = client::log(&**hub.store(), &id).await;
    let handle = hub.open(&id).await.expect("the dead owner's lease is free");
    assert_eq!(open_question(&handle).await, Some(approval.clone()));
    assert_eq!(client::log(&**hub.store(), &id).await[..before.len()], before[..]);

    client::answer(&handle, &approval, "proceed_once").await.unwrap();
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    let count = |fits: &dyn Fn(&Event) -> bool| {
        reader.seen().iter().filter(|envelope| fits(&envelope.event)).count()
    };
    assert_eq!(count(&|event| matches!(event, Event::ApprovalAsked { .. })), 1);
    assert_eq!(count(&|event| matches!(event, Event::CallStarted { .. })), 1);
    assert_eq!(count(&|event| matches!(event, Event::CallProposed { .. })), 1);
    assert!(agent.test_log().has("permit make"), "\n{}", agent.test_log());
}

/// Answers before or after the new agent asks for the verdict.
async fn check_answer(before: bool, choice: &str, note: &str) {
    let directory = client::directory();
    let (id, approval) = left_asking(directory.path()).await;
    let gate = Gate::default();
    let mut script = vec![Act::WaitFor(gate.clone())];
    script.extend(asking());
    let agent = ScriptAgent::doing(script);
    let hub = client::hub(client::sqlite(directory.path()), agent.clone());
    let handle = hub.open(&id).await.unwrap();
    let mut reader = Reader::after(&handle, handle.head());
    if !before {
        gate.open();
        reader.until(|event| matches!(event, Event::TextAppended { .. })).await;
        // The proposal follows the text in the same queue, so the next step contains it.
        open_question(&handle).await;
    }
    client::answer(&handle, &approval, choice).await.unwrap();
    gate.open();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    assert!(agent.test_log().has(note), "{before} {choice}:\n{}", agent.test_log());
    let again = client::answer(&handle, &approval, "proceed_always").await;
    assert!(matches!(again, Err(SubmitError::Refused(_))), "{again:?}");
}

#[tokio::test]
async fn an_answer_before_the_agent_is_back_is_kept_for_it() {
    check_answer(true, "proceed_once", "permit make").await;
    check_answer(true, "cancel", "refused make").await;
}

#[tokio::test]
async fn an_answer_after_the_agent_is_back_reaches_it() {
    check_answer(false, "proceed_once", "permit make").await;
    check_answer(false, "cancel", "refused make").await;
}

/// The answer and the agent's request for the verdict arrive while the actor is busy, and are then taken in one step.
async fn check_answer_meanwhile(choice: &str, note: &str) {
    let directory = client::directory();
    let (id, approval) = left_asking(directory.path()).await;
    let (asks, stored) = (Gate::default(), Gate::default());
    let script = [vec![Act::WaitFor(asks.clone()), Act::note("asks")], asking()].concat();
    let agent = ScriptAgent::doing(script);
    let store = FaultyStore::new(client::sqlite(directory.path()), agent.test_log().clone());
    let hub = client::hub(store.clone(), agent.clone());
    let handle = hub.open(&id).await.unwrap();
    let mut reader = Reader::after(&handle, handle.head());
    let busy = store.next(Fault::Hold(stored.clone()));
    let waiting = client::prompt(&handle, "later");
    let answered = client::answer(&handle, &approval, choice);
    let meanwhile = async {
        store.until_begun(busy).await;
        asks.open();
        // On one thread, the agent runs to its next wait before this task sees the note.
        agent.test_log().until("asks").await;
        stored.open();
    };
    let (waiting, answered, ()) = tokio::join!(
        waiting,
        async {
            store.until_begun(busy).await;
            answered.await
        },
        meanwhile
    );
    waiting.unwrap();
    answered.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed, "\n{}", agent.test_log());
    assert!(agent.test_log().has(note), "{choice}:\n{}", agent.test_log());
}

#[tokio::test]
async fn an_answer_in_the_step_in_which_the_agent_comes_back_reaches_it() {
    check_answer_meanwhile("proceed_once", "permit make").await;
    check_answer_meanwhile("cancel", "refused make").await;
}

#[tokio::test]
async fn a_question_stays_open_over_many_crashes() {
    let directory = client::directory();
    let (id, approval) = left_asking(directory.path()).await;
    for _ in 0..3 {
        let session = id.clone();
        let agent = ScriptAgent::doing(asking());
        let again = crash_after(directory.path(), agent, |hub| async move {
            let handle = hub.open(&session).await.unwrap();
            open_question(&handle).await
        });
        assert_eq!(again.await, Some(approval.clone()));
    }
    let hub = client::hub(client::sqlite(directory.path()), ScriptAgent::doing(asking()));
    let handle = hub.open(&id).await.unwrap();
    client::cancel(&handle).await.expect("it can be cancelled as well");
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Cancelled);
}

#[tokio::test]
async fn a_call_that_was_running_is_interrupted_and_not_run_again() {
    let directory = client::directory();
    let script = vec![Act::execute("make"), Act::note("running"), Act::WaitForCancel];
    let agent = ScriptAgent::doing(script);
    let test_log = agent.test_log().clone();
    let (id, task) = crash_after(directory.path(), agent, |hub| async move {
        let handle = client::create_in(&hub, Mode::All).await;
        let ack = client::prompt(&handle, "go").await.unwrap();
        client::prompt(&handle, "waiting").await.unwrap();
        test_log.until("running").await;
        (handle.id().clone(), ack.task.unwrap())
    })
    .await;
    let agent = ScriptAgent::doing([Act::say("next")]);
    let hub = client::hub(client::sqlite(directory.path()), agent.clone());
    let handle = hub.open(&id).await.unwrap();
    let mut reader = Reader::new(&handle);
    let ended = reader.until(|event| matches!(event, Event::CallEnded { .. })).await;
    let Event::CallEnded { outcome, .. } = &ended.event else { panic!("{ended:?}") };
    assert_eq!(*outcome, CallOutcome::Failed { failure: CallFailure::interrupted() });
    assert_eq!(reader.until_over().await, TurnOutcome::Interrupted);
    assert_eq!(reader.until_over().await, TurnOutcome::Completed, "the queued prompt");
    let notes = agent.test_log().notes();
    assert_eq!(notes, ["turn waiting starts", "turn waiting leaves"]);
    let state = handle.inspect(move |session| session.task_state(&task)).await;
    assert_eq!(state, Ok(Some(TaskState::Failed)));
}

#[tokio::test]
async fn a_call_that_was_approved_but_not_started_is_interrupted_too() {
    // The permit is made after `CallStarted` is durable, so the log does not say whether the call ran.
    let directory = client::directory();
    let (id, approval) = left_asking(directory.path()).await;
    let session = id.clone();
    let agent = ScriptAgent::doing([Act::WaitFor(Gate::default())]);
    crash_after(directory.path(), agent, |hub| async move {
        let handle = hub.open(&session).await.unwrap();
        client::answer(&handle, &approval, "proceed_once").await.unwrap();
    })
    .await;
    let agent = ScriptAgent::doing(asking());
    let hub = client::hub(client::sqlite(directory.path()), agent.clone());
    let handle = hub.open(&id).await.unwrap();
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Interrupted);
    assert_eq!(agent.test_log().notes(), [""; 0], "nothing runs");
}

#[tokio::test]
async fn a_prompt_that_is_retried_with_the_next_owner_is_recognised() {
    let directory = client::directory();
    let gate = Gate::default();
    let agent = ScriptAgent::doing([Act::WaitFor(gate)]);
    let (id, first, second) = crash_after(directory.path(), agent, |hub| async move {
        let handle = client::create(&hub).await;
        let first = client::prompt(&handle, "running").await.unwrap();
        let second = client::prompt(&handle, "queued").await.unwrap();
        (handle.id().clone(), first.task, second.task)
    })
    .await;
    let hub = client::hub(client::sqlite(directory.path()), ScriptAgent::idle());
    let handle = hub.open(&id).await.unwrap();
    assert_eq!(client::prompt(&handle, "running").await.unwrap().task, first);
    assert_eq!(client::prompt(&handle, "queued").await.unwrap().task, second);
    let mut reader = Reader::new(&handle);
    assert_eq!(reader.until_over().await, TurnOutcome::Interrupted);
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    let accepted: Vec<PromptId> = reader
        .seen()
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::PromptAccepted { prompt, .. } => Some(prompt.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(accepted, [PromptId::from("running"), PromptId::from("queued")]);
}

#[tokio::test]
async fn the_state_after_reopening_is_the_state_before() {
    let directory = client::directory();
    let agent = ScriptAgent::doing(asking());
    let (id, before) = crash_after(directory.path(), agent, |hub| async move {
        let handle = client::create(&hub).await;
        client::prompt(&handle, "go").await.unwrap();
        client::prompt(&handle, "queued").await.unwrap();
        Reader::new(&handle).until_asked().await;
        let before = handle.inspect(loggia_core::Session::clone).await.unwrap();
        (handle.id().clone(), before)
    })
    .await;
    let agent = ScriptAgent::doing([Act::WaitForCancel]);
    let hub = client::hub(client::sqlite(directory.path()), agent);
    let handle = hub.open(&id).await.unwrap();
    let after = handle.inspect(loggia_core::Session::clone).await.unwrap();
    assert_eq!(after, before);
    let listed = hub.list(1).await.unwrap();
    assert!(listed[0].summary.busy && listed[0].summary.waiting_for_answer, "{listed:?}");
}
