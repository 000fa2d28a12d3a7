//! Two hundred clients answer one question: one wins, and every other client learns who (P2, R10).

use std::sync::Arc;

use loggia_core::{
    ApprovalId, ChoiceId, Command, Envelope, Event, Millis, Origin, Question, Refusal, Seq, Surface,
};
use loggia_session::{SessionHandle, SubmitError};
use loggia_testkit::client;
use loggia_testkit::{Act, ScriptAgent};
use tokio::task::JoinSet;

const CLIENTS: usize = 200;
const ROUNDS: usize = 200;

/// The reply to one client in one round.
enum AnswerResult {
    Won { choice: ChoiceId },
    Lost { choice: ChoiceId, by: Origin, at: Millis },
}

/// Answers every question it sees, with its own choice, as fast as it can.
async fn answer_all(
    handle: SessionHandle,
    number: usize,
) -> (Origin, Vec<(ApprovalId, AnswerResult)>) {
    let origin = Origin::new(Surface::A2a, format!("client {number}").as_str());
    let choice = ChoiceId::from(match number % 2 {
        0 => ChoiceId::PROCEED_ONCE,
        _ => ChoiceId::CANCEL,
    });
    let mut follower = handle.follow(Seq::ZERO);
    let mut results = Vec::with_capacity(ROUNDS);
    while results.len() < ROUNDS {
        for envelope in follower.next().await.unwrap().expect("the session is open") {
            let Event::ApprovalAsked { approval, call, .. } = &envelope.event else { continue };
            // Half of the clients name the approval, half the call.
            let to = match number % 4 {
                0 | 1 => Question::Call(call.clone()),
                _ => Question::Approval(approval.clone()),
            };
            let command = Command::Answer {
                to,
                choice: choice.clone(),
                edit: None,
                digest: None,
                message: None,
            };
            let answer = loop {
                match handle.submit(command.clone(), origin.clone()).await {
                    Err(SubmitError::Busy) => tokio::task::yield_now().await,
                    other => break other,
                }
            };
            let this = match answer {
                Ok(_) => AnswerResult::Won { choice: choice.clone() },
                Err(SubmitError::Refused(Refusal::AlreadyAnswered { choice, by, at })) => {
                    AnswerResult::Lost { choice, by, at }
                }
                Err(other) => panic!("client {number} got {other:?}"),
            };
            results.push((approval.clone(), this));
        }
    }
    (origin, results)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_hundred_answers_wins_and_the_others_learn_which() {
    let script = (0..ROUNDS)
        .flat_map(|round| [Act::execute(&format!("make {round}")), Act::succeed("built")]);
    let agent = ScriptAgent::doing(script);
    let hub = client::memory_hub(agent.clone());
    let handle = client::create(&hub).await;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(answer_all(handle.clone(), number));
    }
    client::prompt(&handle, "go").await.unwrap();
    let results = clients.join_all().await;
    client::Reader::new(&handle).until_over().await;
    hub.stop().await;

    let log = client::log(&**hub.store(), handle.id()).await;
    let answers: Vec<&Arc<Envelope>> = log
        .iter()
        .filter(|envelope| matches!(envelope.event, Event::ApprovalAnswered { .. }))
        .collect();
    assert_eq!(answers.len(), ROUNDS, "one answer a round is in the log");
    let (mut winners, mut informed) = (0, 0);
    for (me, results) in &results {
        assert_eq!(results.len(), ROUNDS);
        for ((question, result), envelope) in results.iter().zip(&answers) {
            let Event::ApprovalAnswered { approval, choice: won, .. } = &envelope.event else {
                panic!("{envelope:?}");
            };
            assert_eq!(approval, question);
            match result {
                AnswerResult::Won { choice } => {
                    assert_eq!((choice, me), (won, &envelope.origin), "a false winner");
                    winners += 1;
                }
                AnswerResult::Lost { choice, by, at } => {
                    assert_ne!(by, me, "it beat itself");
                    assert_eq!((choice, by, at), (won, &envelope.origin, &envelope.at));
                    informed += 1;
                }
            }
        }
    }
    assert_eq!((winners, informed), (ROUNDS, ROUNDS * (CLIENTS - 1)));
    let permits = agent.test_log().notes().iter().filter(|note| note.starts_with("permit")).count();
    let proceeded = answers.iter().filter(|envelope| {
        matches!(&envelope.event, Event::ApprovalAnswered { choice, .. } if choice.proceeds())
    });
    assert_eq!(permits, proceeded.count(), "each approved call ran once");
}
