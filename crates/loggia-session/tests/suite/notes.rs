//! The lists of sessions and tasks are a few appends behind the log, and nobody can tell. Two stores of
//! one directory are to each other what two processes are.

use std::path::Path;
use std::sync::Arc;

use loggia_core::{Durability, Seq, SessionId, TaskId};
use loggia_session::{Append, Lease, SqliteStore, Store, StoreError, TaskQuery};
use loggia_testkit::client;
use loggia_testkit::store_contract::{mark, owner, step, texts};
use rusqlite::Connection;

/// Sessions that begin before the lists learn of them, by themselves.
const MANY: usize = 128;

fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join("loggia.db")).unwrap()
}

fn count(connection: &Connection, table: &str) -> usize {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn beginning(task: &str) -> Append {
    let tasks = vec![mark(task, 7)];
    Append { tasks, durability: Durability::Stream, ..step(texts(1, 3)) }
}

/// A session of three events with a task of the same name.
async fn begin(store: &SqliteStore, name: &str) -> Lease {
    let lease = store.begin(&SessionId::from(name), owner("here")).await.unwrap();
    store.append(&lease, beginning(name)).await.unwrap();
    lease
}

#[tokio::test]
async fn every_way_to_ask_knows_what_another_process_just_began() {
    let directory = client::directory();
    let here = client::sqlite(directory.path());
    let raw = raw(directory.path());
    type Ask = fn(Arc<SqliteStore>, SessionId) -> futures::future::BoxFuture<'static, ()>;
    let ways: [(&str, Ask); 6] = [
        ("read", |store, id| {
            Box::pin(async move { assert_eq!(client::log(&*store, &id).await, texts(1, 3)) })
        }),
        ("head", |store, id| {
            Box::pin(async move { assert_eq!(store.head(&id).await, Ok(Some(Seq(3)))) })
        }),
        ("locate", |store, id| {
            Box::pin(async move {
                let task = TaskId::from(id.as_str());
                assert_eq!(store.locate(&task).await, Ok(Some(id)));
            })
        }),
        ("tasks", |store, id| {
            Box::pin(async move {
                let query =
                    TaskQuery { limit: 1, session: Some(id.clone()), ..TaskQuery::default() };
                assert_eq!(store.tasks(query).await.unwrap().tasks[0].session, id);
            })
        }),
        ("list", |store, id| {
            Box::pin(async move {
                let listed = store.list(10).await.unwrap();
                assert!(listed.iter().any(|one| one.session == id && one.head == Seq(3)));
            })
        }),
        ("acquire", |store, id| {
            Box::pin(async move {
                let late = store.acquire(&id, owner("there")).await;
                assert!(
                    matches!(late, Err(StoreError::Busy { owner, .. }) if owner.program == "here")
                );
            })
        }),
    ];
    for (name, ask) in ways {
        let _lease = begin(&here, name).await;
        assert_eq!(count(&raw, "notes"), 1, "{name}: behind");
        ask(client::sqlite(directory.path()), SessionId::from(name)).await;
        ask(here.clone(), SessionId::from(name)).await;
    }
}

#[tokio::test]
async fn the_lists_learn_many_sessions_at_once() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let raw = raw(directory.path());
    let mut leases = Vec::new();
    for number in 1..MANY {
        leases.push(begin(&store, &format!("session {number}")).await);
    }
    assert_eq!((count(&raw, "notes"), count(&raw, "sessions")), (MANY - 1, 0));
    leases.push(begin(&store, "one more").await);
    assert_eq!(
        (count(&raw, "notes"), count(&raw, "sessions"), count(&raw, "tasks")),
        (0, MANY, MANY)
    );
}

/// A log that goes on is read by its own number, without anybody having to write first.
#[tokio::test]
async fn a_reader_of_a_known_session_lets_nobody_learn() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("here")).await.unwrap();
    let raw = raw(directory.path());
    for seq in 1..=20 {
        store.append(&lease, step(texts(seq, 1))).await.unwrap();
        assert_eq!(store.head(&session).await, Ok(Some(Seq(seq))));
        assert_eq!(client::log(&*store, &session).await, texts(1, seq));
    }
    assert_eq!(count(&raw, "notes"), 20);
    let known: u64 = raw.query_row("SELECT head FROM sessions", [], |row| row.get(0)).unwrap();
    assert_eq!(known, 0);
}

#[tokio::test]
async fn what_a_killed_process_left_is_learned_by_the_next() {
    let living = client::directory();
    let store = client::sqlite(living.path());
    let lease = begin(&store, "one").await;
    store.append(&lease, step(texts(4, 2))).await.unwrap();
    let directory = client::directory();
    for file in ["loggia.db", "loggia.db-wal", "loggia.db-shm"] {
        std::fs::copy(living.path().join(file), directory.path().join(file)).unwrap();
    }
    assert_eq!(count(&raw(directory.path()), "notes"), 2);
    let next = client::sqlite(directory.path());
    assert_eq!(next.list(10).await.unwrap()[0].head, Seq(5));
    let lease = next.acquire(&SessionId::from("one"), owner("next")).await.unwrap();
    next.append(&lease, step(texts(6, 1))).await.expect("it goes on from there");
    assert_eq!(client::log(&*next, &lease.session).await, texts(1, 6));
    drop((lease, next));
    let left = raw(directory.path());
    assert_eq!(count(&left, "notes"), 0, "a store that is closed leaves nothing to learn");
}

/// Whoever asks is told; who writes under a lease is not kept from it.
#[tokio::test]
async fn a_note_that_was_changed_is_damage() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let lease = begin(&store, "one").await;
    let change =
        "UPDATE notes SET body = CAST(substr(body, 1, 40) || 'x' || substr(body, 42) AS BLOB)";
    raw(directory.path()).execute_batch(change).unwrap();
    let damage = store.list(10).await.unwrap_err();
    assert!(matches!(&damage, StoreError::Damaged { file, .. } if file.ends_with("loggia.db")));
    assert!(damage.to_string().contains("a note for the lists"), "{damage}");
    store.append(&lease, step(texts(4, 1))).await.expect("the log itself is whole");
}
