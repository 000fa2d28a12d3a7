//! Several processes on one database: each sees at once what another wrote, and nothing is lost when one is
//! killed. Two stores of one directory stand for two processes; a copy of the files is what a killed one leaves.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use loggia_core::{Durability, Seq, SessionId, TaskId};
use loggia_session::{Append, Document, Lease, Store, StoreError, TaskQuery};
use loggia_store::SqliteStore;
use loggia_testkit::client;
use loggia_testkit::store_contract::{document, mark, owner, step, texts};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join("loggia.db")).unwrap()
}

fn count(connection: &Connection, table: &str) -> usize {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// The files that a process leaves if it is killed now.
fn killed(living: &Path) -> TempDir {
    let directory = client::directory();
    // Nothing is committed meanwhile: the files are those of one moment.
    let other = raw(living);
    other.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for file in std::fs::read_dir(living).unwrap().map(|file| file.unwrap()) {
        if file.file_type().unwrap().is_file() && file.file_name() != "loggia.lock" {
            std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
        }
    }
    directory
}

fn beginning(task: &str) -> Append {
    let tasks = vec![mark(task, 7)];
    Append { tasks, durability: Durability::Stream, ..step(texts(1, 3)) }
}

/// A session of three events with a task.
async fn begin(store: &SqliteStore, task: &str) -> Lease {
    let lease = store.begin(owner("here")).await.unwrap();
    store.append(&lease, beginning(task)).await.unwrap();
    lease
}

#[tokio::test]
async fn another_process_sees_a_session_as_soon_as_it_is_appended() {
    let directory = client::directory();
    let here = client::sqlite(directory.path());
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
                assert_eq!(store.locate(&TaskId::from("locate")).await, Ok(Some(id)));
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
    let there = client::sqlite(directory.path());
    for (name, ask) in ways {
        let lease = begin(&here, name).await;
        ask(there.clone(), lease.session.clone()).await;
        ask(here.clone(), lease.session.clone()).await;
    }
}

#[tokio::test]
async fn a_session_goes_from_one_process_to_another_with_all_that_was_written() {
    let directory = client::directory();
    let stores = [client::sqlite(directory.path()), client::sqlite(directory.path())];
    let session = SessionId::from("one");
    for round in 0..20 {
        let store = &stores[round as usize % 2];
        let lease = store.acquire(&session, owner("test")).await.unwrap();
        store.append(&lease, step(texts(round * 2 + 1, 1))).await.unwrap();
        store.append(&lease, step(texts(round * 2 + 2, 1))).await.unwrap();
    }
    assert_eq!(client::log(&*stores[0], &session).await, texts(1, 40));
}

#[tokio::test]
async fn a_killed_process_leaves_everything_that_was_acknowledged() {
    let living = client::directory();
    let store = client::sqlite(living.path());
    let lease = begin(&store, "one").await;
    store.append(&lease, step(texts(4, 2))).await.unwrap();
    let directory = killed(living.path());
    let next = client::sqlite(directory.path());
    assert_eq!(next.findings(), [""; 0]);
    assert_eq!(next.list(10).await.unwrap()[0].head, Seq(5));
    assert_eq!(next.locate(&TaskId::from("one")).await, Ok(Some(lease.session.clone())));
    let lease = next.acquire(&lease.session, owner("next")).await.unwrap();
    next.append(&lease, step(texts(6, 1))).await.expect("the next process can append");
    assert_eq!(client::log(&*next, &lease.session).await, texts(1, 6));
    drop((lease, next));
    let mut files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
    files.retain(|file| file.file_name() != "loggia.lock");
    assert_eq!(files.len(), 1, "a closed store is one file: {files:?}");
    assert_eq!(count(&raw(directory.path()), "events"), 3, "one row for each append");
}

/// Events, session row, task row and document of an append are one transaction: a reader sees all or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_all_of_an_append_or_nothing() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    let writing = tokio::spawn(async move {
        for seq in 1..=300 {
            let documents = vec![document("rule", "key", Some(&seq.to_string()))];
            let tasks = vec![mark("task", i64::try_from(seq).unwrap())];
            let durability = Durability::Stream;
            let append = Append { documents, tasks, ..step(texts(seq, 1)) };
            store.append(&lease, Append { durability, ..append }).await.unwrap();
        }
    });
    let reader = raw(directory.path());
    let all = "SELECT (SELECT coalesce(max(seq), 0) FROM events),
                      (SELECT max(head) FROM sessions),
                      (SELECT coalesce(max(updated), 0) FROM tasks),
                      (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM documents)";
    let mut seen = HashSet::new();
    while !writing.is_finished() {
        let found: [i64; 4] = reader
            .query_row(all, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))
            .unwrap();
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        seen.insert(found[0]);
    }
    writing.await.unwrap();
    assert!(seen.len() > 1, "the reader looked only once: {seen:?}");
}

fn rule(name: &str, value: Option<&str>) -> Document {
    document("rule", &format!("/workspace\u{1f}{name}"), value)
}

async fn rules(store: &dyn Store) -> Vec<String> {
    let found = store.documents("rule", "/workspace\u{1f}").await.unwrap();
    found.into_iter().map(|(_, value)| value).collect()
}

#[tokio::test]
async fn a_rule_that_another_process_remembers_or_forgets_takes_effect_at_once() {
    let directory = client::directory();
    let stores = [client::sqlite(directory.path()), client::sqlite(directory.path())];
    for (turn, value) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let (here, there) = (&stores[turn % 2], &stores[(turn + 1) % 2]);
        here.put(rule("one", Some(value))).await.unwrap();
        assert_eq!(rules(there.as_ref()).await, [value]);
        assert_eq!(rules(here.as_ref()).await, [value]);
    }
    let lease = stores[0].acquire(&SessionId::from("one"), owner("here")).await.unwrap();
    let documents = vec![rule("one", None)];
    stores[0].append(&lease, Append { documents, ..step(texts(1, 1)) }).await.unwrap();
    assert_eq!(rules(stores[1].as_ref()).await, [""; 0]);
}

/// New sessions of two processes, named and unnamed, never share a row, a lock or a log.
#[tokio::test]
async fn rows_of_two_processes_never_collide() {
    let directory = client::directory();
    let stores = [client::sqlite(directory.path()), client::sqlite(directory.path())];
    let (mut begun, mut leases) = (HashSet::new(), Vec::new());
    for number in 0..300 {
        let store: &Arc<_> = &stores[number % 2];
        let named = SessionId::new(format!("session {number}"));
        let lease = match number % 5 {
            0 => store.acquire(&named, owner("named")).await.unwrap(),
            _ => store.begin(owner("fresh")).await.unwrap(),
        };
        let append = Append { durability: Durability::Stream, ..step(texts(1, 1)) };
        store.append(&lease, append).await.unwrap();
        assert!(begun.insert(lease.session.clone()));
        match number % 7 {
            // Deleted sessions free their rows for new ones.
            0 => {
                begun.remove(&lease.session);
                store.delete(lease).await.unwrap();
            }
            1..4 => leases.push((number, lease)),
            _ => drop(lease),
        }
    }
    for session in &begun {
        assert_eq!(client::log(stores[0].as_ref(), session).await, texts(1, 1), "{session}");
    }
    for (number, lease) in leases {
        let other = &stores[(number + 1) % 2];
        let late = other.acquire(&lease.session, owner("late")).await;
        assert!(matches!(late, Err(StoreError::Busy { .. })), "session {number} has two owners");
        let session = lease.session.clone();
        drop(lease);
        assert!(other.acquire(&session, owner("late")).await.is_ok());
    }
}

#[tokio::test]
async fn documents_and_what_was_appended_before_are_there_together() {
    let living = client::directory();
    let store = client::sqlite(living.path());
    let lease = begin(&store, "one").await;
    let documents = vec![document("rule", "a", Some("1"))];
    store.append(&lease, Append { documents, ..step(texts(4, 1)) }).await.unwrap();
    store.append(&lease, step(texts(5, 1))).await.unwrap();
    let left = killed(living.path());
    let next = client::sqlite(left.path());
    assert_eq!(next.document("rule", "a").await, Ok(Some("1".into())));
    assert_eq!(client::log(&*next, &lease.session).await, texts(1, 5));
}

/// An operation of two processes and their readers.
#[derive(Debug, Clone)]
enum Operation {
    Append {
        process: usize,
        session: usize,
        events: u64,
        durability: Durability,
    },
    Begin {
        process: usize,
    },
    Flood {
        process: usize,
        session: usize,
    },
    Read {
        process: usize,
        session: usize,
    },
    List {
        process: usize,
    },
    Document {
        process: usize,
        session: usize,
    },
    Close {
        process: usize,
    },
    /// Kills both processes.
    Kill,
}

fn operation() -> impl Strategy<Value = Operation> {
    let (process, session) = (0..2usize, 0..4usize);
    let durability = prop_oneof![Just(Durability::Stream), Just(Durability::Decision)];
    prop_oneof![
        6 => (process.clone(), session.clone(), 1..40u64, durability)
            .prop_map(|(process, session, events, durability)| Operation::Append { process, session, events, durability }),
        3 => process.clone().prop_map(|process| Operation::Begin { process }),
        1 => (process.clone(), session.clone()).prop_map(|(process, session)| Operation::Flood { process, session }),
        2 => (process.clone(), session.clone()).prop_map(|(process, session)| Operation::Read { process, session }),
        1 => process.clone().prop_map(|process| Operation::List { process }),
        1 => (process.clone(), session).prop_map(|(process, session)| Operation::Document { process, session }),
        1 => process.prop_map(|process| Operation::Close { process }),
        1 => Just(Operation::Kill),
    ]
}

/// Two processes on one directory, and the expected content.
struct Model {
    directory: TempDir,
    stores: [Arc<SqliteStore>; 2],
    leases: [HashMap<SessionId, Lease>; 2],
    heads: HashMap<SessionId, u64>,
}

impl Model {
    fn open(directory: TempDir, heads: HashMap<SessionId, u64>) -> Self {
        let stores = [client::sqlite(directory.path()), client::sqlite(directory.path())];
        Self { directory, stores, leases: Default::default(), heads }
    }

    async fn append(&mut self, process: usize, session: usize, append: impl FnOnce(u64) -> Append) {
        let id = SessionId::new(format!("session {session}"));
        // The other process lets it go.
        self.leases[1 - process].remove(&id);
        if !self.leases[process].contains_key(&id) {
            let lease = self.stores[process].acquire(&id, owner("test")).await.unwrap();
            self.leases[process].insert(id.clone(), lease);
        }
        let head = self.heads.entry(id.clone()).or_default();
        let append = append(*head + 1);
        *head += append.events.len() as u64;
        self.stores[process].append(&self.leases[process][&id], append).await.unwrap();
    }

    async fn read(&self, process: usize, id: &SessionId) {
        let Some(head) = self.heads.get(id) else { return };
        assert_eq!(client::log(&*self.stores[process], id).await, texts(1, *head), "{id}");
    }

    async fn perform(mut self, operation: Operation) -> Self {
        match operation {
            Operation::Append { process, session, events, durability } => {
                let append = |first| Append { durability, ..step(texts(first, events)) };
                self.append(process, session, append).await;
            }
            Operation::Begin { process } => {
                let lease = begin(&self.stores[process], "task").await;
                self.heads.insert(lease.session, 3);
            }
            Operation::Flood { process, session } => {
                for _ in 0..150 {
                    let durability = Durability::Stream;
                    let append = |first| Append { durability, ..step(texts(first, 1)) };
                    self.append(process, session, append).await;
                }
            }
            Operation::Document { process, session } => {
                let documents = vec![document("rule", "key", Some("value"))];
                let append = |first| Append { documents, ..step(texts(first, 1)) };
                self.append(process, session, append).await;
            }
            Operation::Read { process, session } => {
                self.read(process, &SessionId::new(format!("session {session}"))).await;
            }
            Operation::List { process } => {
                let listed = self.stores[process].list(10_000).await.unwrap();
                let listed: HashMap<_, _> =
                    listed.into_iter().map(|one| (one.session, one.head.0)).collect();
                assert_eq!(listed, self.heads);
            }
            Operation::Close { process } => {
                self.leases[process].clear();
                let path = self.directory.path().to_owned();
                self.stores[process] = client::sqlite(&path);
            }
            Operation::Kill => {
                let left = killed(self.directory.path());
                let heads = std::mem::take(&mut self.heads);
                drop(self);
                return Self::open(left, heads);
            }
        }
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever order they write, read, close and are killed in, each reader finds each append once.
    #[test]
    fn two_processes_never_lose_or_repeat_an_append(operations in prop::collection::vec(operation(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut model = Model::open(client::directory(), HashMap::new());
            for operation in operations.into_iter().chain([Operation::List { process: 0 }, Operation::Kill]) {
                model = model.perform(operation).await;
            }
            for id in model.heads.keys() {
                model.read(1, id).await;
            }
            let findings = model.stores[0].findings();
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
}
