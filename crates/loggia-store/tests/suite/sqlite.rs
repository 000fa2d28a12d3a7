//! Properties of the SQLite store alone: files, modes, versions, locks, groups.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loggia_core::{Durability, Seq, SessionId};
use loggia_session::{Store, StoreError};
use loggia_store::SqliteStore;
use loggia_testkit::client::{self, Reader};
use loggia_testkit::store_contract::{document, owner, step, summary, text_event, texts};
use loggia_testkit::{Act, ScriptAgent};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join("loggia.db")).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_thousand_events_survive_reopening() {
    let directory = client::directory();
    let session = SessionId::from("one");
    {
        let store = client::sqlite(directory.path());
        let lease = store.acquire(&session, owner("first")).await.unwrap();
        for first in (1..=1_000).step_by(10) {
            let mut append = step(texts(first, 10));
            append.durability = Durability::Stream;
            store.append(&lease, append).await.unwrap();
        }
    }
    let store = client::sqlite(directory.path());
    assert_eq!(store.findings(), [""; 0]);
    assert_eq!(client::log(&*store, &session).await, texts(1, 1_000));
    let lease = store.acquire(&session, owner("second")).await.unwrap();
    store.append(&lease, step(texts(1_001, 1))).await.unwrap();
    assert_eq!(store.check().await, Ok(()));
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    let parent = client::directory();
    let directory = parent.path().join("state/loggia");
    let store = SqliteStore::open(&directory).unwrap();
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    store.append(&lease, step(texts(1, 2))).await.unwrap();
    raw(&directory).execute("UPDATE events SET body = x'00' WHERE seq = 1", []).unwrap();
    assert!(store.read(&session, Seq::ZERO, 10).await.is_err());
    for private in [&directory, &parent.path().join("state"), &directory.join("damaged")] {
        assert_eq!(mode(private), 0o700, "{}", private.display());
    }
    let copies = std::fs::read_dir(directory.join("damaged")).unwrap().map(|copy| copy.unwrap());
    let copies: Vec<_> = copies.map(|copy| copy.path()).collect();
    assert_eq!(copies.len(), 1);
    assert_eq!(mode(&copies[0]), 0o700);
    let mut files = 0;
    for directory in [&directory, &copies[0]] {
        for file in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_file() {
                assert_eq!(mode(&file), 0o600, "{}", file.display());
                files += 1;
            }
        }
    }
    assert_eq!(files, 4 + 2, "loggia.db, -wal, -shm, lock; a copy of the first two");
}

#[tokio::test]
async fn a_newer_format_is_refused_in_a_sentence_and_left_alone() {
    let directory = client::directory();
    drop(client::sqlite(directory.path()));
    raw(directory.path()).pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(directory.path().join("loggia.db")).unwrap();
    let Err(error) = SqliteStore::open(directory.path()) else { panic!("it was opened") };
    let file = directory.path().join("loggia.db").display().to_string();
    let sentence = format!("{file} was written by a newer Loggia (format 99, this one knows 6)");
    assert_eq!(error.to_string(), sentence);
    assert_eq!(error, StoreError::Newer { file, found: 99, known: 6 });
    assert!(std::fs::read(directory.path().join("loggia.db")).unwrap() == before);
}

/// A database of the first format, in which a row was one record.
fn first_format(directory: &Path, session: &str, count: u64) {
    let connection = raw(directory);
    connection.execute_batch(include_str!("../../migrations/0001_sessions.sql")).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let shorten = |digest: &[u8]| digest[..16].to_vec();
    let mut sum = shorten(&Sha256::digest(session.as_bytes()));
    for event in texts(1, count) {
        let (seq, body) = (event.seq.0, serde_json::to_vec(&*event).unwrap());
        let linked = [&sum[..], &seq.to_le_bytes(), &body].concat();
        sum = shorten(&Sha256::digest(linked));
        let insert = "INSERT INTO events (session, seq, body, sum) VALUES (7, ?1, ?2, ?3)";
        connection.execute(insert, (seq, body, &sum)).unwrap();
    }
    let insert = "INSERT INTO sessions (row, id, head, sum, epoch) VALUES (7, ?1, ?2, ?3, 3)";
    connection.execute(insert, (session, count, &sum)).unwrap();
    let task = "INSERT INTO tasks VALUES ('task', 7, 'local:1', 'completed', 5)";
    connection.execute(task, []).unwrap();
}

#[tokio::test]
async fn a_database_of_the_first_format_is_migrated() {
    let directory = client::directory();
    first_format(directory.path(), "one", 600);
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    assert_eq!(client::log(&*store, &session).await, texts(1, 600));
    assert_eq!(store.locate(&"task".into()).await, Ok(Some(session.clone())));
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    assert_eq!(lease.epoch, 4);
    store.append(&lease, step(texts(601, 5))).await.unwrap();
    assert_eq!(client::log(&*store, &session).await, texts(1, 605));
    for after in [0, 1, 599, 600, 601, 603, 605] {
        let read = store.read(&session, Seq(after), 3).await.unwrap();
        assert_eq!(read, texts(after + 1, 3.min(605 - after)), "after {after}");
    }
    assert_eq!(store.check().await, Ok(()));
}

/// Long events come a few at a time, short ones many: a reader keeps little in memory in both cases.
#[tokio::test]
async fn a_long_read_is_returned_in_pieces() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let (session, mut head) = (SessionId::from("one"), 0);
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    for (count, length) in [(10, 40_000), (2_000, 10), (10, 40_000)] {
        for _ in 0..count {
            head += 1;
            let text = "x".repeat(length);
            store.append(&lease, step(vec![text_event(head, &text)])).await.unwrap();
        }
    }
    let mut pieces = Vec::new();
    let mut after = Seq::ZERO;
    while let Some(last) = store.read_chunk(&session, after).await.unwrap().last() {
        pieces.push(last.seq.0 - after.0);
        after = last.seq;
    }
    assert_eq!(after, Seq(2_020));
    assert!(pieces.len() < 12, "{pieces:?}");
    assert!(pieces.first() <= Some(&5) && pieces.last() <= Some(&5), "{pieces:?}");
    assert!(pieces.iter().any(|piece| *piece > 300), "{pieces:?}");
}

/// A database of the fourth format, whose process was killed before its lists contained a session.
fn fourth_format(directory: &Path, session: &str) {
    let connection = raw(directory);
    for step in [
        include_str!("../../migrations/0001_sessions.sql"),
        include_str!("../../migrations/0002_steps.sql"),
        include_str!("../../migrations/0003_second_look.sql"),
        include_str!("../../migrations/0004_notes.sql"),
    ] {
        connection.execute_batch(step).unwrap();
    }
    connection.pragma_update(None, "user_version", 4).unwrap();
    let shorten = |digest: &[u8]| digest[..16].to_vec();
    let mut sum = shorten(&Sha256::digest(session.as_bytes()));
    for event in texts(1, 2) {
        let (seq, body) = (event.seq.0, serde_json::to_vec(&*event).unwrap());
        sum = shorten(&Sha256::digest([&sum[..], &seq.to_le_bytes(), &body].concat()));
        let insert = "INSERT INTO events (session, seq, body, sum) VALUES (7, ?1, ?2, ?3)";
        connection.execute(insert, (seq, body, &sum)).unwrap();
    }
    for (head, begun) in [(1, true), (2, false)] {
        let mut note = serde_json::json!({
            "id": session, "head": head, "updated": 9,
            "summary": serde_json::to_string(&summary("title", 9)).unwrap(),
            "tasks": [{"task": "task", "state": "working", "updated": 5}],
        });
        if begun {
            note["begun"] = serde_json::json!([1, owner("killed")]);
        }
        let note = [&sum[..], note.to_string().as_bytes()].concat();
        let mut own = Sha256::new();
        for part in [&7i64.to_le_bytes()[..], &note] {
            own.update(part.len().to_le_bytes());
            own.update(part);
        }
        let body = [&shorten(&own.finalize())[..], &note].concat();
        connection.execute("INSERT INTO notes (session, body) VALUES (7, ?1)", [body]).unwrap();
    }
}

#[tokio::test]
async fn a_database_of_the_fourth_format_is_migrated() {
    let directory = client::directory();
    fourth_format(directory.path(), "one");
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    assert_eq!(client::log(&*store, &session).await, texts(1, 2));
    assert_eq!(store.locate(&"task".into()).await, Ok(Some(session.clone())));
    let listed = store.list(10).await.unwrap();
    assert_eq!((listed[0].head, listed[0].owner.clone()), (Seq(2), Some(owner("killed"))));
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    assert_eq!(lease.epoch, 2);
    store.append(&lease, step(texts(3, 1))).await.unwrap();
    assert_eq!(client::log(&*store, &session).await, texts(1, 3));
}

#[tokio::test]
async fn a_damaged_note_of_the_fourth_format_is_reported() {
    let directory = client::directory();
    fourth_format(directory.path(), "one");
    let change =
        "UPDATE notes SET body = CAST(substr(body, 1, 40) || 'x' || substr(body, 42) AS BLOB)
                  WHERE place = 2";
    raw(directory.path()).execute_batch(change).unwrap();
    let store = client::sqlite(directory.path());
    assert!(store.findings()[0].contains("1 damaged notes"), "{:?}", store.findings());
    assert!(client::sqlite(directory.path()).findings().is_empty(), "once");
}

#[tokio::test]
async fn a_second_store_is_told_who_has_the_session() {
    let directory = client::directory();
    let (first, second) = (client::sqlite(directory.path()), client::sqlite(directory.path()));
    let session = SessionId::from("one");
    let lease = first.acquire(&session, owner("loggia chat")).await.unwrap();
    first.append(&lease, step(texts(1, 3))).await.unwrap();
    let Err(busy) = second.acquire(&session, owner("loggia serve")).await else {
        panic!("two owners of one session");
    };
    let sentence = format!("session one is in use by process {} (loggia chat)", std::process::id());
    assert_eq!(busy.to_string(), sentence);
    assert_eq!(client::log(&*second, &session).await, texts(1, 3), "reading needs no lease");
    let other = SessionId::from("other");
    assert!(second.acquire(&other, owner("loggia serve")).await.is_ok(), "other sessions are free");

    drop(lease);
    let lease = second.acquire(&session, owner("loggia serve")).await.unwrap();
    second.append(&lease, step(texts(4, 1))).await.unwrap();
    let Err(busy) = first.acquire(&session, owner("loggia chat")).await else {
        panic!("two owners of one session");
    };
    assert!(busy.to_string().contains("loggia serve"), "{busy}");
    drop(second);
    drop(lease);
    assert_eq!(client::log(&*first, &session).await, texts(1, 4));
}

#[tokio::test]
async fn a_session_has_no_new_owner_until_it_is_deleted() {
    let directory = client::directory();
    let (first, second) = (client::sqlite(directory.path()), client::sqlite(directory.path()));
    let session = SessionId::from("one");
    let lease = first.acquire(&session, owner("first")).await.unwrap();
    first.append(&lease, step(texts(1, 3))).await.unwrap();
    let deleting = first.delete(lease);
    let early = second.acquire(&session, owner("second")).await;
    assert!(matches!(early, Err(StoreError::Busy { .. })), "what is being removed was given away");
    deleting.await.unwrap();
    let lease = second.acquire(&session, owner("second")).await.unwrap();
    second.append(&lease, step(texts(1, 1))).await.expect("a new session under the same id");
}

#[tokio::test]
async fn closing_one_store_leaves_the_other_its_locks() {
    let directory = client::directory();
    let first = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = first.acquire(&session, owner("first")).await.unwrap();
    first.append(&lease, step(texts(1, 3))).await.unwrap();
    // Closing any descriptor of a file drops all POSIX locks of the process on it, SQLite's too.
    // Then another process that closes the database takes itself for the last one and removes the
    // write-ahead log that this one still uses.
    drop(client::sqlite(directory.path()));
    assert_shared_lock(directory.path());
    raw(directory.path()).execute("UPDATE events SET body = x'00' WHERE seq = 1", []).unwrap();
    assert!(first.read(&session, Seq::ZERO, 10).await.is_err());
    assert!(directory.path().join("damaged").exists());
    assert_shared_lock(directory.path());
    first.append(&lease, step(texts(4, 1))).await.unwrap();
}

/// Fails the test unless some connection of this process holds its shared lock on the database.
fn assert_shared_lock(directory: &Path) {
    use std::os::unix::fs::MetadataExt;
    let inode = directory.join("loggia.db").metadata().unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let suffix = format!(":{inode} ");
    let held = locks.lines().any(|line| line.contains(&suffix) && line.contains("POSIX"));
    assert!(held, "SQLite's lock on inode {inode} is gone:\n{locks}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_waits_while_another_program_writes() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    let other = raw(directory.path());
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let store_ = store.clone();
    let append = tokio::spawn(async move {
        let result = store_.append(&lease, step(texts(1, 3))).await;
        (result, Instant::now())
    });
    // The lock is held for a while on purpose; there is nothing to wait for.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(store.head(&session).await, Ok(Some(Seq::ZERO)), "reading does not wait");
    let released = Instant::now();
    other.execute_batch("COMMIT").unwrap();
    let (result, appended) = append.await.unwrap();
    assert_eq!(result, Ok(()));
    assert!(appended > released, "it was appended while the database was locked");
    assert_eq!(client::log(&*store, &session).await, texts(1, 3));
}

#[tokio::test]
async fn a_lock_held_too_long_is_an_error_and_loses_nothing() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    let fresh = store.begin(owner("test")).await.unwrap();
    store.append(&lease, step(texts(1, 1))).await.unwrap();
    let other = raw(directory.path());
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let started = Instant::now();
    let refused = StoreError::Locked { file: store.path().display().to_string() };
    let (second, first) = tokio::join!(
        store.append(&lease, step(texts(2, 1))),
        store.append(&fresh, step(texts(1, 1)))
    );
    let waited = started.elapsed();
    assert_eq!((second, first), (Err(refused.clone()), Err(refused)));
    assert!(waited >= Duration::from_secs(5), "it gave up after {waited:?}");
    assert!(waited < Duration::from_secs(16), "it waited for {waited:?}");
    assert_eq!(store.list(10).await.unwrap()[0].head, Seq(1), "lists are read meanwhile");
    other.execute_batch("ROLLBACK").unwrap();

    assert_eq!(store.head(&session).await, Ok(Some(Seq(1))));
    store.append(&lease, step(texts(2, 1))).await.expect("it goes on");
    store.append(&fresh, step(texts(1, 1))).await.expect("a session can begin later");
    assert_eq!(client::log(&*store, &session).await, texts(1, 2));
    assert_eq!(client::log(&*store, &fresh.session).await, texts(1, 1));
}

/// A session that cannot be opened says why, and can be opened later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_opened_again_when_another_program_lets_go_of_the_database() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let hub = client::hub(store.clone(), ScriptAgent::doing([Act::say("done")]));
    let handle = client::create(&hub).await;
    client::prompt(&handle, "before").await.unwrap();
    let mut reader = Reader::new(&handle);
    reader.until_over().await;
    hub.stop().await;
    let other = raw(directory.path());
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let Err(refused) = hub.open(handle.id()).await else { panic!("it was opened") };
    assert!(refused.to_string().contains("locked"), "{refused}");
    other.execute_batch("ROLLBACK").unwrap();
    let handle = hub.open(handle.id()).await.expect("the hub opens it again");
    client::prompt(&handle, "after").await.unwrap();
    let mut reader = Reader::after(&handle, reader.seen().last().unwrap().seq);
    reader.until_over().await;
    client::assert_dense(&client::log(&*store, handle.id()).await, 1);
}

/// Transactions in the write-ahead log, which must not have been copied into the database yet.
fn commits(directory: &Path) -> usize {
    let log = std::fs::read(directory.join("loggia.db-wal")).unwrap();
    let frames = log[32..].chunks_exact(24 + 4096);
    // The last frame of a transaction says how many pages the database has after it.
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_append_together_are_written_together() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let mut leases = Vec::new();
    for number in 0..50 {
        let session = SessionId::new(format!("session {number}"));
        leases.push(store.acquire(&session, owner("test")).await.unwrap());
    }
    // While another program holds the lock, all appends queue up.
    let before = commits(directory.path());
    let other = raw(directory.path());
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut appends = JoinSet::new();
    let mut queued = Vec::new();
    for lease in leases {
        let store = store.clone();
        let (sent, was_sent) = tokio::sync::oneshot::channel();
        queued.push(was_sent);
        appends.spawn(async move {
            let mut append = std::pin::pin!(store.append(&lease, step(texts(1, 2))));
            // One poll puts the append into the writer's queue.
            assert!(futures::poll!(&mut append).is_pending());
            sent.send(()).unwrap();
            append.await.unwrap();
            lease.session
        });
    }
    for sent in queued {
        sent.await.unwrap();
    }
    other.execute_batch("ROLLBACK").unwrap();
    let sessions = appends.join_all().await;
    let committed = commits(directory.path()) - before;
    assert!((1..=2).contains(&committed), "50 appends took {committed} commits");
    for session in sessions {
        assert_eq!(client::log(&*store, &session).await, texts(1, 2));
    }
}

#[tokio::test]
async fn a_refused_append_does_not_fail_the_others_of_its_group() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let (a, b) = (SessionId::from("a"), SessionId::from("b"));
    let lease_a = store.acquire(&a, owner("test")).await.unwrap();
    let lease_b = store.acquire(&b, owner("test")).await.unwrap();
    let (wrong, right) = tokio::join!(
        store.append(&lease_a, step(texts(7, 1))),
        store.append(&lease_b, step(texts(1, 1))),
    );
    assert!(matches!(wrong, Err(StoreError::Conflict { .. })));
    assert_eq!(right, Ok(()));
    assert_eq!(store.head(&a).await, Ok(Some(Seq::ZERO)));
}

/// Writes several times as much as the write-ahead log may hold.
async fn flood(store: &SqliteStore, session: &SessionId) {
    let lease = store.acquire(session, owner("test")).await.unwrap();
    let text = "x".repeat(63 * 1024);
    for seq in 1..=1_200 {
        let mut append = step(vec![text_event(seq, &text)]);
        append.durability = if seq % 8 == 0 { Durability::Decision } else { Durability::Stream };
        store.append(&lease, append).await.unwrap();
    }
}

fn length(directory: &Path, name: &str) -> u64 {
    directory.join(name).metadata().unwrap().len()
}

#[tokio::test]
async fn the_write_ahead_log_is_copied_and_reused() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    flood(&store, &session).await;
    let (database, log) =
        (length(directory.path(), "loggia.db"), length(directory.path(), "loggia.db-wal"));
    // 75 MB were written. SQLite copies the log when it has 1,000 pages of 4 KiB.
    assert!(log < 10 << 20, "the log has {log} bytes");
    assert!(database > 40 << 20, "the database has {database} bytes");
    assert_eq!(store.check().await, Ok(()));
    assert_eq!(client::log(&*store, &session).await.len(), 1_200);
}

/// Writing without a pause must not keep the write-ahead log from being copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_ahead_log_is_reused_under_writes_without_a_pause() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let mut puts = JoinSet::new();
    for writer in 0..4 {
        let store = store.clone();
        puts.spawn(async move {
            for number in 0..1_500 {
                // Another text each time: SQLite leaves a page alone that would stay the same.
                let text = ["a", "b", "c"][number % 3].repeat(20_000);
                let key = format!("{writer} {}", number % 20);
                store.put(document("c", &key, Some(&text))).await.unwrap();
            }
        });
    }
    puts.join_all().await;
    let log = length(directory.path(), "loggia.db-wal");
    assert!(log < 10 << 20, "the log has {log} bytes");
    assert_eq!(store.check().await, Ok(()));
}

#[tokio::test]
async fn a_log_that_a_reader_held_back_is_copied_when_it_lets_go() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let reader = raw(directory.path());
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    flood(&store, &SessionId::from("one")).await;
    let held = length(directory.path(), "loggia.db-wal");
    assert!(held > 60 << 20, "nothing may be left out of it while it is read: {held} bytes");
    reader.execute_batch("COMMIT").unwrap();
    let lease = store.acquire(&SessionId::from("two"), owner("test")).await.unwrap();
    for seq in 1.. {
        store.append(&lease, step(texts(seq, 1))).await.unwrap();
        if length(directory.path(), "loggia.db") > 60 << 20 {
            break;
        }
    }
    flood(&store, &SessionId::from("three")).await;
    let grown = length(directory.path(), "loggia.db-wal") - held;
    assert!(grown < 40 << 20, "it grew by {grown} bytes although no reader was left");
    assert_eq!(store.check().await, Ok(()));
}

#[tokio::test]
async fn readers_and_the_writer_do_not_wait_for_each_other() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    store.append(&lease, step(texts(1, 10))).await.unwrap();
    let reader = raw(directory.path());
    let count = |reader: &Connection| -> i64 {
        reader.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
    };
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader), 1, "one append");
    store.append(&lease, step(vec![text_event(11, "while somebody reads")])).await.unwrap();
    assert_eq!(store.head(&session).await, Ok(Some(Seq(11))));
    assert_eq!(count(&reader), 1, "a reader keeps the moment it began at");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&reader), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_closed_in_the_middle_of_appends_keeps_all_that_returned() {
    let directory = client::directory();
    let session = SessionId::from("one");
    let store = client::sqlite(directory.path());
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    let (count, mut counted) = tokio::sync::watch::channel(0);
    let writing = tokio::spawn(async move {
        for seq in 1.. {
            let mut append = step(texts(seq, 1));
            append.durability = Durability::Stream;
            if store.append(&lease, append).await.is_err() {
                break;
            }
            count.send_replace(seq);
        }
    });
    counted.wait_for(|count| *count > 200).await.unwrap();
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    let returned = *counted.borrow();
    let store = client::sqlite(directory.path());
    let log = client::log(&*store, &session).await;
    assert!(log.len() as u64 >= returned, "{} of {returned}", log.len());
    assert_eq!(log, texts(1, log.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_share_a_few_connections() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let session = SessionId::from("one");
    let lease = store.acquire(&session, owner("test")).await.unwrap();
    store.append(&lease, step(texts(1, 2_000))).await.unwrap();
    let mut readers = JoinSet::new();
    for after in 0..400 {
        let (store, session) = (store.clone(), session.clone());
        readers.spawn(async move { store.read(&session, Seq(after), 256).await.unwrap().len() });
    }
    let (path, done) =
        (store.path().to_owned(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let watching = done.clone();
    let most = std::thread::spawn(move || {
        let mut most = 0;
        while !watching.load(std::sync::atomic::Ordering::Relaxed) {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let open = open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path));
            most = most.max(open.count());
        }
        most
    });
    let read = readers.join_all().await;
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(read.iter().all(|read| *read == 256));
    let most = most.join().unwrap();
    assert!(most <= 8, "{most} connections for 400 readers");
}
