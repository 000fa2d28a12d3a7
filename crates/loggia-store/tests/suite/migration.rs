//! Databases that an older version wrote, with its journals (`tests/fixtures`): migrated once, without loss.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use loggia_core::{Envelope, Seq, SessionId};
use loggia_session::{Store, StoreError, TaskQuery};
use loggia_store::SqliteStore;
use loggia_testkit::client;
use loggia_testkit::store_contract::{owner, step, texts};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

const JOURNALS: [&str; 2] = ["loggia.journal-1", "loggia.journal-2"];

/// A store as the older version left it, and what that version read from it.
fn recorded(name: &str) -> (TempDir, Value) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let (directory, mut expected) = (client::directory(), Value::Null);
    for file in std::fs::read_dir(fixture).unwrap().map(|file| file.unwrap().path()) {
        let mut content = Vec::new();
        GzDecoder::new(File::open(&file).unwrap()).read_to_end(&mut content).unwrap();
        match file.file_stem().unwrap().to_str().unwrap() {
            "expected.json" => expected = serde_json::from_slice(&content).unwrap(),
            name => std::fs::write(directory.path().join(name), content).unwrap(),
        }
    }
    (directory, expected)
}

fn journals(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.to_str().unwrap().contains("loggia.journal-")).collect()
}

fn version(directory: &Path) -> i64 {
    let raw = Connection::open(directory.join("loggia.db")).unwrap();
    raw.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn logs(expected: &Value) -> Vec<(SessionId, Vec<Envelope>)> {
    let logs = expected["logs"].as_object().unwrap().iter();
    let log = |log: &Value| serde_json::from_value(log.clone()).unwrap();
    logs.map(|(session, events)| (SessionId::from(session.as_str()), log(events))).collect()
}

async fn log(store: &SqliteStore, session: &SessionId) -> Vec<Envelope> {
    client::log(store, session).await.iter().map(|envelope| (**envelope).clone()).collect()
}

/// Everything that the older version read is read, and nothing else.
async fn check(store: &SqliteStore, expected: &Value) {
    for (session, events) in logs(expected) {
        assert!(!events.is_empty());
        assert_eq!(log(store, &session).await, events, "{session}");
    }
    let sessions = expected["sessions"].as_array().unwrap();
    let listed = store.list(100).await.unwrap();
    assert_eq!(listed.len(), sessions.len());
    for session in sessions {
        let id = SessionId::from(session["id"].as_str().unwrap());
        let listed = listed.iter().find(|listed| listed.session == id).expect("listed");
        assert_eq!(serde_json::to_value(&listed.summary).unwrap(), session["summary"]);
        assert_eq!(serde_json::to_value(&listed.owner).unwrap(), session["owner"]);
        assert_eq!(listed.head, Seq(session["head"].as_u64().unwrap()));
    }
    let tasks = expected["tasks"].as_array().unwrap();
    let page = store.tasks(TaskQuery { limit: 100, ..TaskQuery::default() }).await.unwrap();
    assert_eq!(page.total as usize, tasks.len());
    for task in tasks {
        let id = task["task"].as_str().unwrap();
        let found = page.tasks.iter().find(|found| found.position.task.as_str() == id).expect(id);
        assert_eq!(serde_json::to_value(found.state).unwrap(), task["state"], "{id}");
        assert_eq!(found.position.updated.0, task["updated"].as_i64().unwrap(), "{id}");
        assert_eq!(found.session.as_str(), task["session"].as_str().unwrap(), "{id}");
    }
    for document in expected["documents"].as_array().unwrap() {
        let text = |field: &str| document[field].as_str().unwrap();
        let found = store.document(text("collection"), text("key")).await.unwrap();
        assert_eq!(found.as_deref(), Some(text("value")));
    }
}

#[tokio::test]
async fn a_store_that_was_closed_is_migrated() {
    let (directory, expected) = recorded("format5-clean");
    for _ in 0..2 {
        let store = client::sqlite(directory.path());
        assert_eq!(store.findings(), [""; 0]);
        check(&store, &expected).await;
    }
    assert_eq!(version(directory.path()), 6);
}

#[tokio::test]
async fn a_store_whose_processes_were_killed_is_migrated_without_loss() {
    let (directory, expected) = recorded("format5-killed");
    let (before, _) = recorded("format5-killed");
    let raw = Connection::open(before.path().join("loggia.db")).unwrap();
    let in_tables: usize =
        raw.query_row("SELECT coalesce(sum(head), 0) FROM sessions", [], |row| row.get(0)).unwrap();
    let all: usize = logs(&expected).iter().map(|(_, events)| events.len()).sum();
    assert!(0 < in_tables && in_tables < all, "{in_tables} of {all}: the rest is in journals");

    let store = client::sqlite(directory.path());
    assert_eq!(store.findings(), [""; 0]);
    check(&store, &expected).await;
    assert_eq!(journals(directory.path()), [""; 0].map(PathBuf::from));
    // A new owner can append to every session.
    for (session, events) in logs(&expected) {
        let epoch = expected["sessions"].as_array().unwrap().iter().find_map(|listed| {
            (listed["id"] == session.as_str()).then(|| listed["epoch"].as_u64().unwrap())
        });
        let lease = store.acquire(&session, owner("next")).await.unwrap();
        assert_eq!(Some(lease.epoch - 1), epoch);
        store.append(&lease, step(texts(events.len() as u64 + 1, 2))).await.unwrap();
        assert_eq!(log(&store, &session).await.len(), events.len() + 2);
    }
    let lease = store.begin(owner("next")).await.unwrap();
    store.append(&lease, step(texts(1, 1))).await.unwrap();
    assert_eq!(store.check().await, Ok(()));
    drop((store, lease));
    assert_eq!(version(directory.path()), 6);
    assert_eq!(client::sqlite(directory.path()).findings(), [""; 0]);
}

/// A kill between the commit and the removal of the files.
#[tokio::test]
async fn a_journal_that_was_migrated_and_not_removed_is_not_applied_again() {
    let (directory, expected) = recorded("format5-killed");
    let left: Vec<_> =
        JOURNALS.map(|name| std::fs::read(directory.path().join(name)).unwrap()).into();
    drop(client::sqlite(directory.path()));
    for (name, content) in JOURNALS.iter().zip(left) {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let store = client::sqlite(directory.path());
    assert_eq!(store.findings(), [""; 0]);
    check(&store, &expected).await;
    assert_eq!(journals(directory.path()).len(), 0);
}

/// Opens a store with a changed journal. Fails the test on an event that was never written. Returns whether a finding
/// names the journal, and how many events are missing.
async fn examine(directory: &Path, expected: &Value, name: &str, what: &str) -> (bool, usize) {
    let store = SqliteStore::open(directory).unwrap_or_else(|error| panic!("{what}: {error}"));
    let named = store.findings().iter().any(|finding| finding.contains(name));
    let mut missing = 0;
    for (session, events) in logs(expected) {
        let found = match store.head(&session).await.unwrap() {
            Some(_) => log(&store, &session).await,
            None => Vec::new(),
        };
        assert!(events.starts_with(&found), "{what}: {session} reads something else");
        missing += events.len() - found.len();
    }
    assert_eq!(named, directory.join(format!("{name}-damaged")).exists(), "{what}");
    assert!(!directory.join(name).exists(), "{what}: the journal is still there");
    (named, missing)
}

/// Where the blocks of a journal begin, and where the last one ends.
fn blocks(journal: &[u8]) -> (Vec<usize>, usize) {
    let places: Vec<usize> = journal
        .windows(8)
        .enumerate()
        .filter(|(_, bytes)| bytes == b"loggia\x01\n")
        .map(|(at, _)| at)
        .collect();
    let last = *places.last().unwrap();
    let length = u64::from_le_bytes(journal[last + 32..last + 40].try_into().unwrap());
    (places, last + 44 + usize::try_from(length).unwrap())
}

#[tokio::test]
async fn a_journal_torn_at_its_end_loses_only_what_is_torn() {
    let (base, expected) = recorded("format5-killed");
    for name in JOURNALS {
        let journal = std::fs::read(base.path().join(name)).unwrap();
        let (places, end) = blocks(&journal);
        let last = *places.last().unwrap();
        let content = String::from_utf8_lossy(&journal[last..end]).into_owned();
        let in_last = content.matches("\"seq\":").count();
        for cut in [last, last + 1, last + 31, last + 40, last + 44, (last + end) / 2, end - 1, end]
        {
            for zeroed in [false, true] {
                let (directory, _) = recorded("format5-killed");
                let mut torn = journal[..cut].to_vec();
                // A file is filled with zeros ahead, or ends where writing stopped.
                torn.resize(if zeroed { journal.len() } else { cut }, 0);
                std::fs::write(directory.path().join(name), torn).unwrap();
                let what = format!("{name} torn at {cut}, zeroed: {zeroed}");
                let (named, missing) = examine(directory.path(), &expected, name, &what).await;
                assert!(missing <= in_last, "{what}: {missing} of {in_last} events");
                // With less than this the end of the file looks like one that was never written to.
                assert!(missing == 0 || named || cut < last + 32, "{what}: no finding");
                assert!(!named || (last + 1..end).contains(&cut), "{what}: a finding");
            }
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_of_a_journal_is_found_and_named() {
    let (base, expected) = recorded("format5-killed");
    let mut found = 0;
    for name in JOURNALS {
        let journal = std::fs::read(base.path().join(name)).unwrap();
        let (_, end) = blocks(&journal);
        for number in 0..60 {
            let (directory, _) = recorded("format5-killed");
            let offset = (number * 7919 + 13) % end;
            let mut changed = journal.clone();
            changed[offset] ^= 1 << (number % 8);
            std::fs::write(directory.path().join(name), &changed).unwrap();
            let what = format!("{name} byte {offset}");
            let (named, missing) = examine(directory.path(), &expected, name, &what).await;
            assert!(missing == 0 || named, "{what}: {missing} events are missing");
            if named {
                let kept = std::fs::read(directory.path().join(format!("{name}-damaged"))).unwrap();
                assert!(kept == changed, "{what}: it is kept as it was");
                found += 1;
            }
        }
    }
    // The tables have the beginning of a journal already; flips in it do no harm.
    assert!(found > 60, "only {found} of 120 flips were found");
}

#[tokio::test]
async fn a_missing_journal_is_named() {
    let (directory, _) = recorded("format5-killed");
    std::fs::remove_file(directory.path().join(JOURNALS[1])).unwrap();
    let store = client::sqlite(directory.path());
    let findings = store.findings().join("\n");
    assert!(findings.contains(JOURNALS[1]) && findings.contains("missing"), "{findings}");
    assert!(!findings.contains(JOURNALS[0]), "{findings}");
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_stops_the_migration_until_it_can() {
    let (directory, expected) = recorded("format5-killed");
    let (journal, elsewhere) = (directory.path().join(JOURNALS[0]), directory.path().join("x"));
    std::fs::rename(&journal, &elsewhere).unwrap();
    std::fs::create_dir(&journal).unwrap();
    for _ in 0..2 {
        let Err(error) = SqliteStore::open(directory.path()) else { panic!("it was opened") };
        assert!(error.to_string().contains(JOURNALS[0]), "{error}");
        assert_eq!(version(directory.path()), 5);
        assert_eq!(journals(directory.path()).len(), 2, "nothing is removed");
    }
    std::fs::remove_dir(&journal).unwrap();
    std::fs::rename(&elsewhere, &journal).unwrap();
    check(&client::sqlite(directory.path()), &expected).await;
}

/// A process of the older version holds the first byte of the lock file for as long as it lives.
#[tokio::test]
async fn a_store_that_an_older_process_has_open_is_not_migrated() {
    let (directory, expected) = recorded("format5-killed");
    let lock = File::options().read(true).open(directory.path().join("loggia.lock")).unwrap();
    let region =
        libc::flock { l_type: libc::F_RDLCK as i16, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
    fcntl(&lock, FcntlArg::F_OFD_SETLK(&region)).unwrap();
    let Err(error) = SqliteStore::open(directory.path()) else { panic!("it was opened") };
    let StoreError::Io(sentence) = error else { panic!("{error:?}") };
    assert!(sentence.contains("loggia.db has format 5"), "{sentence}");
    assert!(sentence.contains("a process of an older Loggia; stop that process"), "{sentence}");
    assert_eq!((version(directory.path()), journals(directory.path()).len()), (5, 2));
    // Appends of the older process until its end are migrated too.
    let journal = File::options().write(true).open(directory.path().join(JOURNALS[1])).unwrap();
    let bytes = std::fs::read(directory.path().join(JOURNALS[1])).unwrap();
    let (places, end) = blocks(&bytes);
    let last = &bytes[*places.last().unwrap()..end];
    journal.write_all_at(last, *places.last().unwrap() as u64).unwrap();
    drop(lock);
    check(&client::sqlite(directory.path()), &expected).await;
}

/// Two processes of this version start on an older store at once: one migrates, the other waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_processes_that_start_at_once_one_migrates() {
    for _ in 0..5 {
        let (directory, expected) = recorded("format5-killed");
        let opening = (0..4).map(|_| {
            let path = directory.path().to_owned();
            tokio::task::spawn_blocking(move || SqliteStore::open(&path))
        });
        for opened in futures::future::join_all(opening).await {
            let store = opened.unwrap().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(store.findings(), [""; 0]);
            check(&store, &expected).await;
        }
    }
}
