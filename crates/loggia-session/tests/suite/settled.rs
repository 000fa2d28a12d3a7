//! Waiting for an outcome: told once, when the task is over or asks, with everything in the log.
//!
//! Time is paused: a sleep returns when everybody else is waiting for something.

use std::time::Duration;

use loggia_core::{Command, Content, Mode, PromptId, Refusal, TaskChoice, TaskId, TaskState};
use loggia_session::{Ack, SessionHandle, SubmitError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Gate, ScriptAgent};
use tokio::task::JoinHandle;

fn waiting(handle: &SessionHandle, text: &str) -> JoinHandle<Result<Ack, SubmitError>> {
    let (handle, prompt) = (handle.clone(), PromptId::from(text));
    let (task, content) = (TaskChoice::New, Content::text(text));
    let command = Command::Prompt { prompt, task, content };
    tokio::spawn(async move {
        handle.submit_until_settled(Duration::ZERO, command, client::origin("waits")).await
    })
}

async fn state(handle: &SessionHandle, task: &TaskId) -> Option<TaskState> {
    let task = task.clone();
    handle.inspect(move |session| session.task_state(&task)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_when_the_task_asks_and_when_it_is_over() {
    let gate = Gate::default();
    let acts =
        [Act::say("one"), Act::WaitFor(gate.clone()), Act::execute("make"), Act::succeed("")];
    let hub = client::memory_hub(ScriptAgent::doing(acts));
    let handle = client::create_in(&hub, Mode::Ask).await;
    let first = waiting(&handle, "first");
    let mut reader = Reader::new(&handle);
    reader.until(|event| matches!(event, loggia_core::Event::TextAppended { .. })).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!first.is_finished(), "the task still works");
    gate.open();
    let told = first.await.unwrap().unwrap();
    assert_eq!(state(&handle, &told.task.unwrap()).await, Some(TaskState::InputRequired));
    // The next prompt waits behind the question, and its client with it.
    let second = waiting(&handle, "second");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!second.is_finished());
    client::cancel(&handle).await.unwrap();
    let told = second.await.unwrap().unwrap();
    let after = state(&handle, &told.task.unwrap()).await.unwrap();
    assert!(after.is_over() || after == TaskState::InputRequired, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_nothing_is_over_when_its_client_is_told() {
    let hub = client::memory_hub(ScriptAgent::doing([Act::say("one"), Act::say("two")]));
    let handle = client::create(&hub).await;
    for number in 0..3 {
        let told = waiting(&handle, &format!("prompt {number}")).await.unwrap().unwrap();
        assert!(told.seq <= handle.head());
        assert_eq!(state(&handle, &told.task.unwrap()).await, Some(TaskState::Completed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_and_the_end_of_the_session_are_told_at_once() {
    let hub = client::memory_hub(ScriptAgent::doing([Act::WaitForCancel]));
    let handle = client::create(&hub).await;
    let first = waiting(&handle, "first");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let unknown = Command::Prompt {
        prompt: PromptId::from("other"),
        task: TaskChoice::Continue(TaskId::from("nobody's")),
        content: Content::text("other"),
    };
    let origin = client::origin("waits");
    let refused = handle.submit_until_settled(Duration::ZERO, unknown, origin).await;
    assert!(matches!(refused, Err(SubmitError::Refused(Refusal::UnknownTask))), "{refused:?}");
    assert!(!first.is_finished());
    handle.stop().await;
    assert_eq!(first.await.unwrap(), Err(SubmitError::Stopped));
}
