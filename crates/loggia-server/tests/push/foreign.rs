//! A task or session of another client looks like one that does not exist: the same answer for the same work, in the
//! same time. Work is counted in questions to the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loggia_core::SessionId;
use loggia_server::dispatch::Reply;
use loggia_session::{MemoryStore, Store};
use loggia_testkit::{Act, FaultyStore, ScriptAgent, TestLog};
use serde_json::{Value, json};

use crate::stage::{Stage, options, send1, send03};

const ANN: &str = "client:ann~1";
const BOB: &str = "client:bob~2";
const NONE: &str = "0199d3a0-0000-7000-8000-000000000000";

fn in_context(text: &str, context: &str) -> Value {
    let mut params = send1(text, Value::Null);
    params["message"]["contextId"] = json!(context);
    params
}

async fn task(stage: &Stage, who: &str, params: Value) -> Value {
    match stage.ask(who, "SendMessage", params).await {
        Ok(Reply::Value(value)) => value["task"].clone(),
        Ok(Reply::Frame(_) | Reply::Frames(_)) => panic!("it streams"),
        Err(error) => panic!("{error}"),
    }
}

fn store() -> Arc<FaultyStore> {
    FaultyStore::new(Arc::new(MemoryStore::default()), TestLog::default())
}

fn over(store: &Arc<FaultyStore>) -> Stage {
    let store: Arc<dyn Store> = store.clone();
    Stage::with(store, ScriptAgent::doing([Act::say("x")]), options())
}

/// Asks about a task in every way there is.
fn questions_about(task: &str) -> Vec<(&'static str, Value)> {
    let mut goes_on = send1("more", Value::Null);
    goes_on["message"]["taskId"] = json!(task);
    let mut goes_on_03 = send03("more", Value::Null);
    goes_on_03["message"]["taskId"] = json!(task);
    let webhook = json!({ "url": "https://192.0.2.9/" });
    vec![
        ("GetTask", json!({ "id": task })),
        ("tasks/get", json!({ "id": task })),
        ("CancelTask", json!({ "id": task })),
        ("tasks/cancel", json!({ "id": task })),
        ("SubscribeToTask", json!({ "id": task })),
        ("tasks/resubscribe", json!({ "id": task })),
        ("SendMessage", goes_on),
        ("message/send", goes_on_03),
        ("ListTaskPushNotificationConfigs", json!({ "taskId": task })),
        ("GetTaskPushNotificationConfig", json!({ "taskId": task, "id": "c" })),
        ("DeleteTaskPushNotificationConfig", json!({ "taskId": task, "id": "c" })),
        (
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": task, "pushNotificationConfig": webhook }),
        ),
    ]
}

#[tokio::test]
async fn a_task_of_another_client_takes_as_long_as_none() {
    let store = store();
    let first = over(&store);
    let anns = task(&first, ANN, send1("go", Value::Null)).await["id"].clone();
    let anns = anns.as_str().unwrap();
    first.stop().await;
    // Closed, then open because its owner has just looked at it.
    let stage = over(&store);
    for state in ["closed", "open"] {
        let pairs = questions_about(anns).into_iter().zip(questions_about(NONE));
        for ((method, about_anns), (_, about_none)) in pairs {
            store.calls();
            let none = stage.ask(BOB, method, about_none).await.err().unwrap();
            let for_none = store.calls();
            let refused = stage.ask(BOB, method, about_anns).await.err().unwrap();
            let for_anns = store.calls();
            let plain = |error: &Value| error.to_string().replace(anns, NONE);
            assert_eq!(plain(&refused), plain(&none), "{state} {method}");
            assert_eq!(for_anns, for_none, "{state} {method}");
            assert!(!for_none.is_empty(), "{state} {method}");
        }
        assert!(stage.ask(ANN, "GetTask", json!({ "id": anns })).await.is_ok());
    }
}

/// The id of a session is shown in places (`/about`) and must not tell about other clients.
#[tokio::test]
async fn a_name_that_another_client_has_looks_like_a_free_one() {
    let store = store();
    let stage = over(&store);
    let first = task(&stage, ANN, in_context("go", "build")).await;
    let mut asked = Vec::new();
    let mut ids = Vec::new();
    for context in ["build", "other"] {
        store.calls();
        let begun = task(&stage, BOB, in_context("go", context)).await;
        assert_eq!(begun["contextId"], context);
        asked.push(store.calls());
        let id = begun["id"].as_str().unwrap().into();
        ids.push(stage.store.locate(&id).await.unwrap().unwrap());
    }
    assert_eq!(asked[0], asked[1]);
    let mark = |id: &SessionId| id.as_str().split_once('@').map(|(_, mark)| mark.to_owned());
    assert!(mark(&ids[0]).is_some(), "{ids:?}");
    assert_eq!(mark(&ids[0]), mark(&ids[1]), "{ids:?}");
    let anns = stage.store.locate(&first["id"].as_str().unwrap().into()).await.unwrap().unwrap();
    assert!(mark(&anns).is_some_and(|anns| Some(anns) != mark(&ids[0])), "{anns}");
    // Each client finds its own again.
    for (who, wanted) in [(ANN, &anns), (BOB, &ids[0])] {
        let again = task(&stage, who, in_context("more", "build")).await;
        let id = again["id"].as_str().unwrap().into();
        assert_eq!(stage.store.locate(&id).await.unwrap().as_ref(), Some(wanted));
    }
}

/// A session of an earlier version has the plain name: only its owner finds it.
#[tokio::test]
async fn a_session_with_a_plain_name_stays_its_owners() {
    let store = store();
    let stage = over(&store);
    let locals = task(&stage, "local:0", in_context("go", "build")).await;
    let id = locals["id"].as_str().unwrap().into();
    assert_eq!(stage.store.locate(&id).await.unwrap(), Some("build".into()), "the person's own");
    let bobs = task(&stage, BOB, in_context("go", "build")).await;
    let bobs = stage.store.locate(&bobs["id"].as_str().unwrap().into()).await.unwrap().unwrap();
    assert!(bobs.as_str().starts_with("build@"), "{bobs}");
    let again = task(&stage, "local:0", in_context("more", "build")).await;
    let id = again["id"].as_str().unwrap().into();
    assert_eq!(stage.store.locate(&id).await.unwrap(), Some("build".into()));
}

/// Both answers wait for the same moment, so their times do not tell which of the two it was.
#[tokio::test]
async fn a_task_of_another_client_takes_the_time_that_none_takes() {
    const FLOOR: Duration = Duration::from_millis(5);
    let stage = over(&store());
    let anns = task(&stage, ANN, send1("go", Value::Null)).await["id"].clone();
    let questions = questions_about(anns.as_str().unwrap()).into_iter().zip(questions_about(NONE));
    for ((method, about_anns), (_, about_none)) in questions {
        let time = async |params: &Value| {
            let started = Instant::now();
            assert!(stage.ask(BOB, method, params.clone()).await.is_err());
            started.elapsed()
        };
        let (mut foreign, mut missing) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            foreign.push(time(&about_anns).await);
            missing.push(time(&about_none).await);
        }
        foreign.sort_unstable();
        missing.sort_unstable();
        assert!(foreign[0] >= FLOOR && missing[0] >= FLOOR, "{method}: {foreign:?} {missing:?}");
        let overlap = foreign[0] <= missing[19] && missing[0] <= foreign[19];
        assert!(overlap, "{method}: {foreign:?} {missing:?}");
    }
}
