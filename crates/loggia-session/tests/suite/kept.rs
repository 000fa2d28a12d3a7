//! Remembered rules are kept in memory, and are still those of the database, whoever changes them.
//! Two stores of one directory are to each other what two processes are.

use std::collections::HashSet;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use loggia_core::SessionId;
use loggia_session::{Document, Store};
use loggia_testkit::client;
use loggia_testkit::store_contract::{owner, step, texts};
use rusqlite::Connection;

const RULES: &str = "rule";

fn rule(name: &str, value: Option<&str>) -> Document {
    let (collection, key) = (RULES.to_owned(), format!("/workspace\u{1f}{name}"));
    Document { collection, key, value: value.map(str::to_owned) }
}

async fn rules(store: &dyn Store) -> Vec<String> {
    let found = store.documents(RULES, "/workspace\u{1f}").await.unwrap();
    found.into_iter().map(|(_, value)| value).collect()
}

#[tokio::test]
async fn what_another_process_remembers_or_forgets_counts_at_once() {
    let directory = client::directory();
    let stores = [client::sqlite(directory.path()), client::sqlite(directory.path())];
    for store in &stores {
        assert_eq!(rules(store.as_ref()).await, [""; 0]);
    }
    // By turns, so that each of them has kept what the other then changes.
    for (turn, value) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let (here, there) = (&stores[turn % 2], &stores[(turn + 1) % 2]);
        here.put(rule("one", Some(value))).await.unwrap();
        assert_eq!(rules(there.as_ref()).await, [value]);
        assert_eq!(rules(here.as_ref()).await, [value]);
    }
    stores[1].put(rule("one", None)).await.unwrap();
    assert_eq!(rules(stores[0].as_ref()).await, [""; 0]);
}

#[tokio::test]
async fn what_a_step_of_a_session_remembers_counts_with_it() {
    let directory = client::directory();
    let (here, there) = (client::sqlite(directory.path()), client::sqlite(directory.path()));
    let lease = here.acquire(&SessionId::from("one"), owner("here")).await.unwrap();
    for (seq, value) in [(1, Some("yes")), (2, None)] {
        assert_eq!(rules(there.as_ref()).await.is_empty(), value.is_some());
        let mut append = step(texts(seq, 1));
        append.documents = vec![rule("one", value)];
        here.append(&lease, append).await.unwrap();
    }
    for store in [&here, &there] {
        assert_eq!(rules(store.as_ref()).await, [""; 0]);
    }
}

#[tokio::test]
async fn a_change_that_was_never_finished_leaves_everybody_with_the_database() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    store.put(rule("one", Some("a"))).await.unwrap();
    assert_eq!(rules(store.as_ref()).await, ["a"]);
    // Dead between its commit and its new mark.
    let lock = std::fs::File::options().write(true).open(directory.path().join("loggia.lock"));
    lock.unwrap().write_all_at(&[1], 0).unwrap();
    let raw = Connection::open(directory.path().join("loggia.db")).unwrap();
    assert_eq!(raw.execute("DELETE FROM documents", []).unwrap(), 1);
    assert_eq!(rules(store.as_ref()).await, [""; 0]);
    store.put(rule("two", Some("b"))).await.unwrap();
    assert_eq!(rules(store.as_ref()).await, ["b"]);
    // Nobody but Loggia says that it changes something: from here on it is kept again.
    assert_eq!(raw.execute("DELETE FROM documents", []).unwrap(), 1);
    assert_eq!(rules(store.as_ref()).await, ["b"]);
}

#[tokio::test]
async fn rows_of_two_processes_and_of_named_sessions_never_meet() {
    let directory = client::directory();
    let stores = [client::sqlite(directory.path()), client::sqlite(directory.path())];
    let mut begun = HashSet::new();
    for number in 0..1_200 {
        let store: &Arc<_> = &stores[number % 2];
        let named = SessionId::new(format!("session {number}"));
        // Given back at once: what keeps the rows apart is not that somebody still has them.
        let lease = match number % 5 {
            0 => store.acquire(&named, owner("named")).await.unwrap(),
            _ => store.begin(owner("fresh")).await.unwrap(),
        };
        if number % 7 == 0 {
            store.append(&lease, step(texts(1, 1))).await.unwrap();
            begun.insert(lease.session.clone());
        }
    }
    for session in begun {
        assert_eq!(client::log(stores[0].as_ref(), &session).await, texts(1, 1), "{session}");
    }
}
