//! Task lists: filters, pages, and sessions of other processes.

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::Served;

fn send(text: &str, at_once: bool) -> Value {
    let message = json!({ "role": "ROLE_USER", "messageId": "1", "parts": [{ "text": text }] });
    json!({ "message": message, "configuration": { "returnImmediately": at_once } })
}

fn ids(page: &Value) -> Vec<String> {
    let tasks = page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}"));
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

/// The index and the pages match the tasks.
#[tokio::test]
async fn tasks_are_found_by_state_session_and_time_in_pages() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let mut made = Vec::new();
    for number in 0..5 {
        let done = served.call("SendMessage", send(&format!("say {number}"), false)).await;
        made.push(done["result"]["task"].clone());
    }
    let asking = served.call("SendMessage", send("write x.txt: 1", false)).await;
    let asking = asking["result"]["task"].clone();
    assert_eq!(asking["status"]["state"], "TASK_STATE_INPUT_REQUIRED");

    let all = served.call("ListTasks", json!({})).await;
    assert_eq!(all["result"]["totalSize"], 6, "{all}");
    let times = |page: &Value| -> Vec<String> {
        let tasks = page["result"]["tasks"].as_array().unwrap();
        tasks.iter().map(|task| task["status"]["timestamp"].as_str().unwrap().into()).collect()
    };
    assert!(times(&all).is_sorted_by(|a, b| a >= b), "{all}");
    let open = served.call("ListTasks", json!({ "status": "TASK_STATE_INPUT_REQUIRED" })).await;
    assert_eq!(ids(&open), [asking["id"].as_str().unwrap()], "{open}");
    assert_eq!(open["result"]["totalSize"], 1);
    let own = served.call("ListTasks", json!({ "contextId": made[2]["contextId"] })).await;
    assert_eq!(ids(&own), [made[2]["id"].as_str().unwrap()]);
    let since = json!({ "statusTimestampAfter": asking["status"]["timestamp"] });
    assert_eq!(ids(&served.call("ListTasks", since).await), ids(&open));
    let nobody = served.call("ListTasks", json!({ "contextId": "unknown" })).await;
    assert_eq!((ids(&nobody), &nobody["result"]["totalSize"]), (vec![], &json!(0)));

    // The question is answered between two pages: unchanged tasks appear once.
    let first = served.call("ListTasks", json!({ "pageSize": 2 })).await;
    let mut seen = ids(&first);
    let mut answer = send("no", false);
    answer["message"]["taskId"] = asking["id"].clone();
    served.call("SendMessage", answer).await;
    let mut token = first["result"]["nextPageToken"].clone();
    while token != "" {
        let page = json!({ "pageSize": 2, "pageToken": token });
        let page = served.call("ListTasks", page).await;
        assert_eq!(page["result"]["totalSize"], 6);
        seen.extend(ids(&page));
        token = page["result"]["nextPageToken"].clone();
    }
    assert_eq!(seen, ids(&all));
    for wrong in ["x", "-", "1", "99999999999999999999-x", "é-"] {
        let refused = served.call("ListTasks", json!({ "pageToken": wrong })).await;
        assert_eq!(refused["error"]["code"], -32602, "{wrong}: {refused}");
    }
}

/// Listing opens no session, so it also shows those of other processes.
#[tokio::test]
async fn sessions_of_another_process_are_listed() {
    let machine = Machine::new();
    let here = Served::start(&machine, &["serve", "--port", "0"]);
    let there = Served::start(&machine, &["serve", "--port", "0"]);
    let running = there.call("SendMessage", send("say hello\nwait 60s", true)).await;
    let running = running["result"]["task"]["id"].as_str().unwrap().to_owned();
    let done = here.call("SendMessage", send("say here", false)).await;
    let done = done["result"]["task"]["id"].as_str().unwrap().to_owned();
    let listed = here.call("ListTasks", json!({})).await;
    assert_eq!(ids(&listed), [done, running.clone()], "{listed}");
    let working = here.call("ListTasks", json!({ "status": "TASK_STATE_WORKING" })).await;
    assert_eq!(ids(&working), std::slice::from_ref(&running));
    let cancelled = there.call("CancelTask", json!({ "id": running })).await;
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    let working = here.call("ListTasks", json!({ "status": "TASK_STATE_WORKING" })).await;
    assert_eq!(ids(&working), Vec::<String>::new());
}
