//! The agent card: public, and extended for authorized clients.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::Served;

const SETUP: &str = "urn:loggia:a2a:setup:v1";
const OF_03: &str = "agent/getAuthenticatedExtendedCard";
const OF_1: &str = "GetExtendedAgentCard";

fn setup(card: &Value) -> &Value {
    let extensions = card["capabilities"]["extensions"].as_array().unwrap();
    let found = extensions.iter().find(|extension| extension["uri"] == SETUP);
    &found.expect("the set-up is on the card")["params"]
}

fn skills(card: &Value) -> Vec<&str> {
    card["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_extended_card_of_a_shared_session() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--approve", "edits"]);
    let public = served.get("/.well-known/agent-card.json").await;
    assert_eq!(public["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(public["capabilities"]["extendedAgentCard"], true);
    let work = machine.work().canonicalize().unwrap();
    let work = work.to_str().unwrap();
    assert!(!public.to_string().contains(work), "where it works is not public");
    assert_eq!(skills(&public), ["code_generation"]);
    let session = machine.sessions().remove(0);
    let expected =
        json!({ "contextId": session, "workspace": work, "mode": "edits", "model": "offline" });
    let v1 = served.call(OF_1, json!({})).await["result"].take();
    assert_eq!(setup(&v1), &expected);
    assert!(v1["url"].is_null() && v1["supportedInterfaces"].is_array(), "pure 1.0: {v1}");
    let v03 = served.call(OF_03, Value::Null).await["result"].take();
    assert_eq!(setup(&v03), &expected);
    assert!(v03["supportedInterfaces"].is_null() && v03["url"].is_string(), "pure 0.3: {v03}");
    for card in [&v1, &v03] {
        for tool in ["read_file", "write_file", "run_shell_command", "publish_artifact"] {
            assert!(skills(card).contains(&tool), "{tool}: {card}");
        }
    }
}

#[tokio::test]
async fn the_extended_card_of_many_sessions_names_none() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "say hi" }] });
    let sent = served.call("SendMessage", json!({ "message": message })).await;
    let context = sent["result"]["task"]["contextId"].as_str().unwrap().to_owned();
    let card = served.call(OF_1, json!({})).await["result"].take();
    let work = machine.work().canonicalize().unwrap();
    let work = work.to_str().unwrap();
    let expected = json!({ "workspace": work, "roots": [work], "mode": "ask", "model": "offline" });
    assert_eq!(setup(&card), &expected);
    assert!(!card.to_string().contains(&context), "{card}");
}

#[tokio::test]
async fn unknown_clients_get_the_public_card_only() {
    let machine = Machine::new();
    let file = machine.home().with_file_name("tokens");
    std::fs::write(&file, "ada:0123456789abcdef0123\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.to_str().unwrap();
    let served = Served::shared(&machine, &["--token-file", file, "--require-token"]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": OF_1 });
    for request in [served.post(&body), served.post(&body).bearer_auth("wrong-wrong-wrong-wrong")] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401);
        let text = answer.text().await.unwrap();
        assert!(!text.contains(SETUP) && !text.contains("run_shell_command"), "{text}");
    }
    let known = served.post(&body).bearer_auth("0123456789abcdef0123").send().await.unwrap();
    let known: Value = known.json().await.unwrap();
    assert_eq!(setup(&known["result"])["mode"], "ask");
}

#[tokio::test]
async fn a_card_can_be_kept_and_asked_for_again() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let url = format!("{}.well-known/agent-card.json", served.url());
    let client = reqwest::Client::new();
    let first = client.get(&url).send().await.unwrap();
    let header = |name: &str| first.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("cache-control"), "public, max-age=300");
    assert_eq!(header("vary"), "A2A-Version");
    let since = header("last-modified");
    assert!(since.ends_with(" GMT") && since.len() == "Wed, 28 Oct 2026 10:30:00 GMT".len());
    let again = client.get(&url).header("If-None-Match", header("etag")).send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["last-modified"].to_str().unwrap(), since);
}
