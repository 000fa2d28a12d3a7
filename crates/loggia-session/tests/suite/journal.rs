//! The tables are some appends behind the journals, and nobody can tell. Two stores of one directory are to
//! each other what two processes are; a copy of the files is what a killed one leaves.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loggia_core::{Durability, Seq, SessionId, TaskId};
use loggia_session::{Append, Lease, SqliteStore, Store, StoreError, TaskQuery};
use loggia_testkit::client;
use loggia_testkit::store_contract::{document, mark, owner, step, text_event, texts};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

const JOURNAL: &str = "loggia.journal-1";

fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join("loggia.db")).unwrap()
}

fn count(connection: &Connection, table: &str) -> usize {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn journals(directory: &Path) -> usize {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
    files.filter(|name| name.to_string_lossy().starts_with("loggia.journal-")).count()
}

/// What is left of a process that is killed now.
fn killed(living: &Path) -> TempDir {
    let directory = client::directory();
    // Nobody writes to the tables meanwhile: the files are those of one moment.
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
    for (number, (name, ask)) in ways.into_iter().enumerate() {
        let lease = begin(&here, name).await;
        assert_eq!(count(&raw, "sessions"), number, "{name}: behind");
        ask(client::sqlite(directory.path()), lease.session.clone()).await;
        assert_eq!(count(&raw, "sessions"), number + 1, "{name}: by the other one");
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
        // Given back while the append may not have been seen by anybody.
        store.append(&lease, step(texts(round * 2 + 2, 1))).await.unwrap();
    }
    assert_eq!(client::log(&*stores[0], &session).await, texts(1, 40));
}

#[tokio::test]
async fn the_tables_learn_by_themselves() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    for number in 0..400 {
        begin(&store, &format!("{number}")).await;
    }
    let raw = raw(directory.path());
    let learned = async {
        while count(&raw, "sessions") < 400 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), learned).await.expect("they learn when it rests");
}

/// What was written without a pause is in the tables when the writer has rested, and the journal is used again.
#[tokio::test]
async fn a_journal_begins_anew_when_the_tables_have_learned_it() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let lease = begin(&store, "one").await;
    let text = "x".repeat(30_000);
    let append =
        |seq| Append { durability: Durability::Stream, ..step(vec![text_event(seq, &text)]) };
    for seq in 4..=300 {
        store.append(&lease, append(seq)).await.unwrap();
    }
    let raw = raw(directory.path());
    let place =
        || -> u64 { raw.query_row("SELECT place FROM journals", [], |row| row.get(0)).unwrap() };
    let learned = async {
        while place() < 297 * 30_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), learned).await.expect("they learn when it rests");
    for seq in 301..=400 {
        store.append(&lease, append(seq)).await.unwrap();
    }
    assert!(place() < 4_000_000, "{} bytes of another generation", place());
    let left = killed(directory.path());
    let next = client::sqlite(left.path());
    assert_eq!(next.findings(), [""; 0]);
    assert_eq!(client::log(&*next, &lease.session).await.len(), 400);
}

#[tokio::test]
async fn a_journal_is_used_again() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    let text = "x".repeat(30_000);
    for seq in 1..=1_000 {
        let mut append = step(vec![text_event(seq, &text)]);
        append.durability = Durability::Stream;
        store.append(&lease, append).await.unwrap();
        if seq % 20 == 0 {
            assert_eq!(store.head(&session).await.unwrap(), Some(Seq(seq)));
        }
    }
    let length = directory.path().join(JOURNAL).metadata().unwrap().len();
    assert!(length < 8 << 20, "30 MB went through {length} bytes");
    // What stands behind its new end is old, and read by nobody.
    let left = killed(directory.path());
    let next = client::sqlite(left.path());
    assert_eq!(next.findings(), [""; 0]);
    assert_eq!(client::log(&*next, &session).await.len(), 1_000);
}

#[tokio::test]
async fn what_the_first_append_needs_may_be_there_before_it() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    store.prepare();
    store.put(document("any", "a", Some("1"))).await.expect("behind it in the queue");
    let room = directory.path().join(JOURNAL).metadata().expect("a journal").len();
    assert!(room >= 512 * 1024, "{room} bytes");
    let left = killed(directory.path());
    assert_eq!(client::sqlite(left.path()).findings(), [""; 0], "an empty one is nothing to tell");
    assert_eq!(journals(left.path()), 0);

    let lease = begin(&store, "one").await;
    store.prepare();
    store.append(&lease, step(texts(4, 2))).await.unwrap();
    let after = directory.path().join(JOURNAL).metadata().unwrap().len();
    assert_eq!(
        (journals(directory.path()), after),
        (1, room),
        "the same one, which was long enough"
    );
    assert_eq!(client::log(&*store, &lease.session).await, texts(1, 5));
    drop((lease, store));
    assert_eq!(journals(directory.path()), 0);
}

/// Nobody has asked for anything yet who could be told.
#[tokio::test]
async fn what_could_not_be_prepared_is_said_to_the_first_who_appends() {
    let directory = client::directory();
    std::os::unix::fs::symlink("/dev/full", directory.path().join(JOURNAL)).unwrap();
    let store = client::sqlite(directory.path());
    store.prepare();
    let lease = store.begin(owner("test")).await.unwrap();
    let refused = store.append(&lease, step(texts(1, 2))).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Full { file } if file.ends_with(JOURNAL)), "{refused}");
    std::fs::remove_file(directory.path().join(JOURNAL)).unwrap();
    let lease = begin(&store, "one").await;
    assert_eq!(client::log(&*store, &lease.session).await, texts(1, 3));
}

#[tokio::test]
async fn what_a_killed_process_left_is_taken_over_by_the_next() {
    let living = client::directory();
    let store = client::sqlite(living.path());
    let lease = begin(&store, "one").await;
    store.append(&lease, step(texts(4, 2))).await.unwrap();
    let directory = killed(living.path());
    assert_eq!(count(&raw(directory.path()), "events"), 0);
    let next = client::sqlite(directory.path());
    assert_eq!(next.findings(), [""; 0]);
    assert_eq!(journals(directory.path()), 0, "it is in the tables");
    assert_eq!(next.list(10).await.unwrap()[0].head, Seq(5));
    let lease = next.acquire(&lease.session, owner("next")).await.unwrap();
    next.append(&lease, step(texts(6, 1))).await.expect("it goes on from there");
    assert_eq!(client::log(&*next, &lease.session).await, texts(1, 6));
    assert_eq!(journals(directory.path()), 1);
    drop((lease, next));
    assert_eq!(journals(directory.path()), 0, "a store that is closed leaves one file");
    assert_eq!(count(&raw(directory.path()), "events"), 2, "what was left, and the one after it");
}

/// What streams is one event an append. A row for each would make a long log slow to read.
#[tokio::test]
async fn appends_that_follow_each_other_share_rows() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let sessions = ["one", "two"].map(SessionId::from);
    let mut leases = Vec::new();
    for session in &sessions {
        leases.push(store.acquire(session, owner("test")).await.unwrap());
    }
    // By turns, and of a size that fills rows.
    for seq in 1..=60 {
        for lease in &leases {
            let long = vec![text_event(seq, &"x".repeat(4_000))];
            let append = Append { durability: Durability::Stream, ..step(long) };
            store.append(lease, append).await.unwrap();
        }
    }
    for session in &sessions {
        let log = client::log(&*store, session).await;
        client::assert_dense(&log, 1);
        assert_eq!(log.len(), 60);
        for after in [0, 1, 14, 15, 16, 59] {
            let read = store.read(session, Seq(after), 3).await.unwrap();
            assert_eq!(read.first(), log.get(after as usize), "after {after}");
        }
    }
    let rows = count(&raw(directory.path()), "events");
    assert!((8..=12).contains(&rows), "240 KB of each of two sessions are in {rows} rows");
}

/// Power went: what was not synced in the database is lost, the journal is not.
#[tokio::test]
async fn a_session_whose_row_was_lost_is_made_by_its_journal() {
    let living = client::directory();
    let store = client::sqlite(living.path());
    // So that there is a journal.
    let _other = begin(&store, "other").await;
    let before = killed(living.path());
    let session = SessionId::from("named");
    let lease = store.acquire(&session, owner("here")).await.unwrap();
    store.append(&lease, step(texts(1, 2))).await.unwrap();
    std::fs::copy(living.path().join(JOURNAL), before.path().join(JOURNAL)).unwrap();
    let next = client::sqlite(before.path());
    assert_eq!(next.findings(), [""; 0]);
    assert_eq!(client::log(&*next, &session).await, texts(1, 2));
    let lease = next.acquire(&session, owner("next")).await.unwrap();
    next.append(&lease, step(texts(3, 1))).await.unwrap();
}

/// Power went, and took what the database had not synced. The journals are settled one after the other, and not in
/// the order in which a session went from one process to the other.
#[tokio::test]
async fn journals_of_two_processes_make_one_log_in_any_order() {
    let living = client::directory();
    let (first, second) = (client::sqlite(living.path()), client::sqlite(living.path()));
    // So that there are two journals.
    let _others = (begin(&first, "first").await, begin(&second, "second").await);
    let before = killed(living.path());
    let session = SessionId::from("one");
    for (store, seq) in [(&second, 1), (&first, 2), (&second, 3), (&first, 4)] {
        let lease = store.acquire(&session, owner("test")).await.unwrap();
        let tasks = vec![mark("task", 1)];
        store.append(&lease, Append { tasks, ..step(texts(seq, 1)) }).await.unwrap();
    }
    for file in [JOURNAL, "loggia.journal-2"] {
        std::fs::copy(living.path().join(file), before.path().join(file)).unwrap();
    }
    let next = client::sqlite(before.path());
    assert_eq!(next.findings(), [""; 0]);
    assert_eq!(client::log(&*next, &session).await, texts(1, 4));
    let lease = next.acquire(&session, owner("next")).await.unwrap();
    next.append(&lease, step(texts(5, 1))).await.unwrap();
    assert_eq!(client::log(&*next, &session).await, texts(1, 5));
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_keeps_nobody_from_the_others() {
    let living = client::directory();
    let (first, second) = (client::sqlite(living.path()), client::sqlite(living.path()));
    let (_lost, good) = (begin(&first, "first").await, begin(&second, "second").await);
    let left = killed(living.path());
    let unreadable = left.path().join(JOURNAL);
    std::fs::remove_file(&unreadable).unwrap();
    std::fs::create_dir(&unreadable).unwrap();
    for _ in 0..2 {
        let next = client::sqlite(left.path());
        let findings = next.findings().join("\n");
        assert!(findings.contains(JOURNAL) && findings.contains("cannot be read"), "{findings}");
        assert_eq!(client::log(&*next, &good.session).await, texts(1, 3));
        assert_eq!(next.list(10).await.unwrap().len(), 2, "one of them from the tables");
        let lease = begin(&next, "goes on").await;
        next.delete(lease).await.unwrap();
        // It may hold the end of any session that is known.
        let Err(refused) = next.acquire(&good.session, owner("next")).await else {
            panic!("it goes on without knowing where it ends");
        };
        assert!(refused.to_string().contains(JOURNAL), "{refused}");
    }
    std::fs::remove_dir(&unreadable).unwrap();
    let next = client::sqlite(left.path());
    let lease = next.acquire(&good.session, owner("next")).await.expect("it is given up");
    next.append(&lease, step(texts(4, 1))).await.unwrap();
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

/// A disk that takes nothing: said, with the file; afterwards everything goes on.
#[tokio::test]
async fn a_journal_that_cannot_be_written_is_said_and_begun_anew() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.path().join(JOURNAL)).unwrap();
    let refused = store.append(&lease, step(texts(1, 2))).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Full { file } if file.ends_with(JOURNAL)), "{refused}");
    std::fs::remove_file(directory.path().join(JOURNAL)).unwrap();
    let again = store.append(&lease, step(texts(1, 2))).await.unwrap_err();
    assert!(again.to_string().contains("must be opened again"), "{again}");
    drop(lease);
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    store.append(&lease, step(texts(1, 2))).await.unwrap();
    assert_eq!(client::log(&*store, &session).await, texts(1, 2));
    assert_eq!(count(&raw(directory.path()), "journals"), 1, "the one that failed is given up");
}

/// What two processes and their readers do, in some order.
#[derive(Debug, Clone)]
enum Deed {
    Append {
        process: usize,
        session: usize,
        events: u64,
        durability: Durability,
    },
    Begin {
        process: usize,
    },
    Prepare {
        process: usize,
    },
    /// So many that the tables learn by themselves.
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
    /// Both, as `kill -9` would.
    Kill,
}

fn deed() -> impl Strategy<Value = Deed> {
    let (process, session) = (0..2usize, 0..4usize);
    let durability = prop_oneof![Just(Durability::Stream), Just(Durability::Decision)];
    prop_oneof![
        6 => (process.clone(), session.clone(), 1..40u64, durability)
            .prop_map(|(process, session, events, durability)| Deed::Append { process, session, events, durability }),
        3 => process.clone().prop_map(|process| Deed::Begin { process }),
        1 => (process.clone(), session.clone()).prop_map(|(process, session)| Deed::Flood { process, session }),
        2 => (process.clone(), session.clone()).prop_map(|(process, session)| Deed::Read { process, session }),
        1 => process.clone().prop_map(|process| Deed::List { process }),
        1 => (process.clone(), session).prop_map(|(process, session)| Deed::Document { process, session }),
        1 => process.clone().prop_map(|process| Deed::Prepare { process }),
        1 => process.prop_map(|process| Deed::Close { process }),
        1 => Just(Deed::Kill),
    ]
}

/// Two processes on one directory, and what must be in it.
struct World {
    directory: TempDir,
    stores: [Arc<SqliteStore>; 2],
    leases: [HashMap<SessionId, Lease>; 2],
    heads: HashMap<SessionId, u64>,
}

impl World {
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

    async fn go_on(mut self, deed: Deed) -> Self {
        match deed {
            Deed::Append { process, session, events, durability } => {
                let append = |first| Append { durability, ..step(texts(first, events)) };
                self.append(process, session, append).await;
            }
            Deed::Begin { process } => {
                let lease = begin(&self.stores[process], "task").await;
                self.heads.insert(lease.session, 3);
            }
            Deed::Prepare { process } => self.stores[process].prepare(),
            Deed::Flood { process, session } => {
                for _ in 0..150 {
                    let durability = Durability::Stream;
                    let append = |first| Append { durability, ..step(texts(first, 1)) };
                    self.append(process, session, append).await;
                }
            }
            Deed::Document { process, session } => {
                let documents = vec![document("rule", "key", Some("value"))];
                let append = |first| Append { documents, ..step(texts(first, 1)) };
                self.append(process, session, append).await;
            }
            Deed::Read { process, session } => {
                self.read(process, &SessionId::new(format!("session {session}"))).await;
            }
            Deed::List { process } => {
                let listed = self.stores[process].list(10_000).await.unwrap();
                let listed: HashMap<_, _> =
                    listed.into_iter().map(|one| (one.session, one.head.0)).collect();
                assert_eq!(listed, self.heads);
            }
            Deed::Close { process } => {
                self.leases[process].clear();
                let path = self.directory.path().to_owned();
                self.stores[process] = client::sqlite(&path);
            }
            Deed::Kill => {
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

    /// Whoever writes, reads, closes or is killed when: everybody finds everything, once.
    #[test]
    fn two_processes_never_lose_or_repeat_an_append(deeds in prop::collection::vec(deed(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::open(client::directory(), HashMap::new());
            for deed in deeds.into_iter().chain([Deed::List { process: 0 }, Deed::Kill]) {
                world = world.go_on(deed).await;
            }
            for id in world.heads.keys() {
                world.read(1, id).await;
            }
            let findings = world.stores[0].findings();
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
}
