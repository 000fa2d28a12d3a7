//! Damaged files (R21): found, named, the good part still readable, never silently wrong.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loggia_core::{Durability, Envelope, Seq, SessionId};
use loggia_session::hub::fold;
use loggia_session::{Append, Store, StoreError};
use loggia_store::SqliteStore;
use loggia_testkit::client::{self, Reader};
use loggia_testkit::store_contract::{document, owner, step, text_event};
use loggia_testkit::{Act, ScriptAgent};
use rusqlite::Connection;
use tempfile::TempDir;

const DB: &str = "loggia.db";
const WAL: &str = "loggia.db-wal";
/// The prefix of all their names.
const FILE: &str = "loggia.";
const FILES: [&str; 3] = [DB, WAL, "loggia.db-shm"];

type Logs = Vec<(SessionId, Vec<Arc<Envelope>>)>;

fn events(session: &str, count: u64) -> Vec<Arc<Envelope>> {
    (1..=count).map(|seq| text_event(seq, &format!("{session} says {seq} é 日本"))).collect()
}

/// A log of appends of `size` events each, and a row for each of them.
async fn fill(
    store: &SqliteStore,
    session: &str,
    count: u64,
    size: usize,
) -> (SessionId, Vec<Arc<Envelope>>) {
    let (id, events) = (SessionId::from(session), events(session, count));
    let lease = store.acquire(&id, owner("test")).await.unwrap();
    for batch in events.chunks(size) {
        store.append(&lease, stream(batch)).await.unwrap();
    }
    (id, events)
}

fn stream(events: &[Arc<Envelope>]) -> Append {
    // No sync: the tests damage it themselves.
    Append { durability: Durability::Stream, ..step(events.to_vec()) }
}

/// A closed database: everything in `loggia.db`.
async fn closed() -> (TempDir, Logs) {
    closed_after(7).await
}

async fn closed_after(size: usize) -> (TempDir, Logs) {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let logs = vec![
        fill(&store, "first", 300, size).await,
        fill(&store, "second", 40, size).await,
        fill(&store, "third", 400, size).await,
    ];
    store.put(document("rule", "key", Some("value"))).await.unwrap();
    drop(store);
    assert!(!directory.path().join(WAL).exists(), "a closed database is one file");
    (directory, logs)
}

/// A database as a killed process leaves it, with nearly everything in the write-ahead log.
async fn killed() -> (TempDir, Logs) {
    let living = client::directory();
    let store = client::sqlite(living.path());
    let logs = vec![fill(&store, "first", 120, 7).await, fill(&store, "second", 40, 7).await];
    assert_eq!(store.list(10).await.unwrap().len(), 2);
    (copy(living.path()), logs)
}

fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join(DB)).unwrap()
}

/// The events before the damage, and the damage.
async fn read(store: &SqliteStore, id: &SessionId) -> (Vec<Envelope>, Result<Seq, StoreError>) {
    let mut seen = Vec::new();
    let result = fold(store, id, |envelope| seen.push(envelope.clone())).await;
    (seen, result)
}

fn is_prefix(seen: &[Envelope], original: &[Arc<Envelope>]) -> bool {
    seen.len() <= original.len() && seen.iter().zip(original).all(|(a, b)| *a == **b)
}

fn corrupt_at(error: &StoreError, id: &SessionId, seq: u64) -> bool {
    matches!(error, StoreError::Corrupt { session, seq: at, file, .. }
        if session == id && at.0 == seq && file.ends_with(DB))
}

/// Changes records behind the store's back, each a row of its own, and expects the damage to be
/// found at `seq`.
async fn check_record(change: &str, seq: u64) {
    check_row(change, 1, seq).await;
}

/// The same for rows of `size` records.
async fn check_row(change: &str, size: usize, seq: u64) {
    let (directory, logs) = closed_after(size).await;
    let (damaged, others) = logs.split_first().unwrap();
    let changed = raw(directory.path()).execute_batch(change);
    changed.unwrap_or_else(|error| panic!("{change}: {error}"));
    let store = client::sqlite(directory.path());
    let (seen, result) = read(&store, &damaged.0).await;
    let error = result.expect_err(change);
    assert!(corrupt_at(&error, &damaged.0, seq), "{change}: {error}");
    assert_eq!(seen.len() as u64, seq - 1, "{change}: the good part");
    assert!(is_prefix(&seen, &damaged.1), "{change}");
    for (id, original) in others {
        let (seen, result) = read(&store, id).await;
        assert_eq!(result, Ok(Seq(original.len() as u64)), "{change}: another session");
        assert!(is_prefix(&seen, original));
    }
    let copies: Vec<PathBuf> = std::fs::read_dir(directory.path().join("damaged"))
        .unwrap()
        .map(|copy| copy.unwrap().path())
        .collect();
    assert_eq!(copies.len(), 1, "{change}: one copy, however often it is read");
    assert!(copies[0].join(DB).metadata().unwrap().len() > 0);
    let hub = client::hub(store, ScriptAgent::idle());
    let Err(refused) = hub.open(&damaged.0).await else { panic!("{change}: it was opened") };
    let sentence = refused.to_string();
    assert!(sentence.contains(DB) && sentence.contains(&format!("event {seq}")), "{sentence}");
    assert!(hub.open(&others[0].0).await.is_ok(), "another session opens");
}

const FIRST: &str = "session = (SELECT row FROM sessions WHERE id = 'first')";

#[tokio::test]
async fn a_changed_body_is_found_at_its_place() {
    for seq in [1, 2, 150, 256, 257, 300] {
        let body = "CAST(replace(CAST(body AS TEXT), 'says', 'Says') AS BLOB)";
        check_record(
            &format!("UPDATE events SET body = {body} WHERE {FIRST} AND seq = {seq}"),
            seq,
        )
        .await;
    }
}

#[tokio::test]
async fn a_changed_sum_is_found_at_its_place() {
    for seq in [1, 200, 300] {
        check_record(
            &format!("UPDATE events SET sum = zeroblob(16) WHERE {FIRST} AND seq = {seq}"),
            seq,
        )
        .await;
    }
    check_record(&format!("UPDATE events SET sum = x'0102' WHERE {FIRST} AND seq = 9"), 9).await;
    check_record(&format!("UPDATE events SET sum = 'text' WHERE {FIRST} AND seq = 9"), 9).await;
}

#[tokio::test]
async fn a_body_of_another_kind_is_found_at_its_place() {
    for value in ["17", "'text'", "1.5", "x''", "zeroblob(100000)"] {
        check_record(&format!("UPDATE events SET body = {value} WHERE {FIRST} AND seq = 70"), 70)
            .await;
    }
}

#[tokio::test]
async fn missing_and_moved_records_are_found() {
    check_record(&format!("DELETE FROM events WHERE {FIRST} AND seq = 100"), 100).await;
    check_record(&format!("DELETE FROM events WHERE {FIRST} AND seq > 280"), 281).await;
    check_record(&format!("DELETE FROM events WHERE {FIRST}"), 1).await;
    check_record(&format!("UPDATE events SET seq = 5000 WHERE {FIRST} AND seq = 100"), 100).await;
    let taken = "SELECT body, sum FROM events WHERE session = (SELECT row FROM sessions WHERE id = 'third') AND seq = 5";
    check_record(
        &format!("UPDATE events SET (body, sum) = ({taken}) WHERE {FIRST} AND seq = 5"),
        5,
    )
    .await;
}

/// Rows of seven: 1, 8, … 295; the last holds 295 to 300.
#[tokio::test]
async fn damage_inside_a_row_is_found_at_its_record() {
    let row = |change: &str, seq: u64| {
        format!("UPDATE events SET {change} WHERE {FIRST} AND seq = {seq}")
    };
    let said = |seq: u64| {
        let body = format!("replace(CAST(body AS TEXT), 'says {seq} ', 'Says {seq} ')");
        format!("body = CAST({body} AS BLOB)")
    };
    for (first, seq) in [(1, 1), (1, 5), (8, 14), (253, 256), (253, 257), (295, 300)] {
        check_row(&row(&said(seq), first), 7, seq).await;
    }
    // The third sum of a row; a sum too few; a line too few; a line too many.
    let sum = "sum = CAST(substr(sum, 1, 32) || zeroblob(16) || substr(sum, 49) AS BLOB)";
    check_row(&row(sum, 8), 7, 10).await;
    check_row(&row("sum = substr(sum, 1, 96)", 8), 7, 14).await;
    check_row(&row("body = substr(body, 1, 300)", 8), 7, 10).await;
    check_row(&row("body = CAST(body || x'0a' AS BLOB)", 8), 7, 15).await;
    check_row(&format!("DELETE FROM events WHERE {FIRST} AND seq = 99"), 7, 99).await;
    check_row(&row("seq = 100", 99), 7, 99).await;
}

#[tokio::test]
async fn a_changed_head_is_found() {
    let head = |head: &str| format!("UPDATE sessions SET head = {head} WHERE id = 'first'");
    check_record(&head("301"), 301).await;
    check_record(&head("299"), 299).await;
    check_record(&head("256"), 256).await;
    check_record(&head("1"), 1).await;
    check_record(&head("0"), 1).await;
    check_record("UPDATE sessions SET sum = zeroblob(16) WHERE id = 'first'", 300).await;
}

#[tokio::test]
async fn a_log_cut_together_with_its_head_is_found() {
    // As if an old copy of some pages had come back: records and head agree, the sum does not.
    check_record(
        &format!(
            "DELETE FROM events WHERE {FIRST} AND seq > 200;
             UPDATE sessions SET head = 200 WHERE id = 'first'"
        ),
        200,
    )
    .await;
}

#[tokio::test]
async fn an_unreadable_head_is_damage_and_names_the_file() {
    for value in ["'many'", "-5", "1.5", "x'00'"] {
        let (directory, logs) = closed().await;
        let change = format!("UPDATE sessions SET head = {value} WHERE id = 'first'");
        raw(directory.path()).execute_batch(&change).unwrap();
        let store = client::sqlite(directory.path());
        let (seen, result) = read(&store, &logs[0].0).await;
        assert!(seen.is_empty());
        let error = result.expect_err(value);
        assert!(
            matches!(&error, StoreError::Corrupt { file, .. } | StoreError::Damaged { file, .. }
                if file.ends_with(DB)),
            "{value}: {error:?}"
        );
        assert_eq!(read(&store, &logs[1].0).await.1, Ok(Seq(40)), "another session");
    }
}

#[tokio::test]
async fn a_reader_gets_the_good_events_then_the_damage() {
    for damaged in [1, 100, 256, 257, 600] {
        let directory = client::directory();
        let agent = ScriptAgent::doing([Act::Flood(700)]);
        let hub = client::hub(client::sqlite(directory.path()), agent);
        let handle = client::create(&hub).await;
        client::prompt(&handle, "go").await.unwrap();
        Reader::new(&handle).until_over().await;
        hub.stop().await;
        let handle = hub.open(handle.id()).await.unwrap();
        // The row that holds it, from its first record on.
        let row = format!("(SELECT max(seq) FROM events WHERE seq <= {damaged})");
        let connection = raw(directory.path());
        let damaged = connection.query_row(&format!("SELECT {row}"), [], |row| row.get(0)).unwrap();
        let change = format!("UPDATE events SET body = x'00' WHERE seq = {row}");
        connection.execute_batch(&change).unwrap();
        for _ in 0..2 {
            let mut follower = handle.follow(Seq::ZERO);
            let mut seen = 0;
            let error = loop {
                match follower.next().await {
                    Ok(Some(events)) => seen += events.len() as u64,
                    Ok(None) => panic!("it ends at {seen} without a word"),
                    Err(error) => break error,
                }
            };
            assert!(corrupt_at(&error, handle.id(), damaged), "{error}");
            assert_eq!(seen, damaged - 1);
        }
    }
}

#[tokio::test]
async fn a_changed_document_is_not_handed_out() {
    let (directory, _) = closed().await;
    raw(directory.path()).execute_batch("UPDATE documents SET value = 'other'").unwrap();
    let store = client::sqlite(directory.path());
    let error = store.document("rule", "key").await.unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { file, .. } if file.ends_with(DB)), "{error}");
    assert!(error.to_string().contains("rule `key`"), "{error}");
    store.put(document("rule", "key", Some("again"))).await.unwrap();
    assert_eq!(store.document("rule", "key").await, Ok(Some("again".into())));
}

#[tokio::test]
async fn a_damaged_document_does_not_hide_its_neighbours() {
    let (directory, _) = closed().await;
    let store = client::sqlite(directory.path());
    store.put(document("rule", "key and more", Some("value"))).await.unwrap();
    drop(store);
    let change = "UPDATE documents SET value = 'other' WHERE key = 'key and more'";
    raw(directory.path()).execute_batch(change).unwrap();
    let store = client::sqlite(directory.path());
    assert_eq!(store.document("rule", "key").await, Ok(Some("value".into())));
}

/// Results of flipped bytes.
#[derive(Debug, Default)]
struct Tally {
    harmless: usize,
    at_open: usize,
    at_read: usize,
    finding: usize,
}

impl Tally {
    /// Opens a damaged copy and reads everything. Fails the test on a silently wrong fold: an
    /// event that is not the original, or missing events without a word about it.
    async fn examine(&mut self, directory: &Path, logs: &Logs, what: &str) {
        let store = match SqliteStore::open(directory) {
            Ok(store) => store,
            Err(error) => {
                assert!(error.to_string().contains(FILE), "{what}: {error} names no file");
                self.at_open += 1;
                return;
            }
        };
        let mut damaged = None;
        for (id, original) in logs {
            let (seen, result) = read(&store, id).await;
            assert!(is_prefix(&seen, original), "{what}: {id} reads something else");
            match result {
                Ok(_) if seen.len() == original.len() => {}
                Ok(_) => {
                    let named = store.findings().iter().any(|finding| finding.contains(FILE));
                    assert!(named, "{what}: {id} silently ends at {}", seen.len());
                }
                Err(StoreError::Unknown(_)) if !store.findings().is_empty() => {}
                Err(error) => {
                    assert!(error.to_string().contains(FILE), "{what}: {error} names no file");
                    if let StoreError::Corrupt { session, seq, .. } = &error {
                        assert_eq!(session, id, "{what}");
                        // A broken tree may show an event in a scan and not find it by number.
                        let next = seen.len() as u64 + 1;
                        assert!((next - 1..=next).contains(&seq.0), "{what}: {next}, {error}");
                    }
                    damaged = Some(error);
                }
            }
        }
        match damaged {
            Some(_) => {
                assert!(directory.join("damaged").exists(), "{what}: no copy was kept");
                self.at_read += 1;
            }
            None if store.findings().is_empty() => self.harmless += 1,
            None => self.finding += 1,
        }
    }

    fn total(&self) -> usize {
        self.harmless + self.at_open + self.at_read + self.finding
    }
}

/// Repeatable numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn next(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn copy(from: &Path) -> TempDir {
    let directory = client::directory();
    for file in FILES {
        if from.join(file).exists() {
            std::fs::copy(from.join(file), directory.path().join(file)).unwrap();
        }
    }
    directory
}

/// Flips one byte at each of `count` seeded offsets of a file.
async fn flip(base: &Path, file: &str, count: usize, seed: u64, logs: &Logs) -> Tally {
    let mut tally = Tally::default();
    let mut random = SeededRandom(seed);
    let original = std::fs::read(base.join(file)).unwrap();
    for _ in 0..count {
        let offset = random.next(original.len());
        let mask = u8::try_from(random.next(255) + 1).unwrap();
        let directory = copy(base);
        let mut bytes = original.clone();
        bytes[offset] ^= mask;
        std::fs::write(directory.path().join(file), bytes).unwrap();
        let what = format!("{file} byte {offset} ^ {mask:#04x}");
        tally.examine(directory.path(), logs, &what).await;
    }
    println!("{file}, {} bytes, seed {seed}: {tally:?}", original.len());
    assert_eq!(tally.total(), count);
    tally
}

#[tokio::test]
async fn two_hundred_flipped_bytes_of_the_database_never_change_a_fold() {
    let (base, logs) = closed().await;
    let tally = flip(base.path(), DB, 200, 1, &logs).await;
    assert!(tally.at_read > 50, "most of the file is log: {tally:?}");
}

#[tokio::test]
async fn two_hundred_flipped_bytes_of_the_write_ahead_log_never_change_a_fold() {
    let (base, logs) = killed().await;
    let tally = flip(base.path(), WAL, 200, 2, &logs).await;
    assert!(tally.finding > 150, "nearly all of the file is in use: {tally:?}");
}

#[tokio::test]
async fn every_byte_of_a_frame_header_is_checked() {
    let (base, logs) = killed().await;
    let original = std::fs::read(base.path().join(WAL)).unwrap();
    let frame = 24 + 4096;
    let frames = (original.len() - 32) / frame;
    let mut tally = Tally::default();
    for number in [0, frames / 2, frames - 1] {
        for offset in 0..24 {
            let directory = copy(base.path());
            let mut bytes = original.clone();
            bytes[32 + number * frame + offset] ^= 0x10;
            std::fs::write(directory.path().join(WAL), bytes).unwrap();
            let what = format!("frame {number} of {frames}, byte {offset}");
            tally.examine(directory.path(), &logs, &what).await;
        }
    }
    assert_eq!(tally.finding, 3 * 24, "{tally:?}");
}

#[tokio::test]
async fn flipped_bytes_of_the_shared_index_change_nothing() {
    let (base, logs) = killed().await;
    let tally = flip(base.path(), "loggia.db-shm", 20, 3, &logs).await;
    assert_eq!(tally.harmless, 20, "SQLite rebuilds it: {tally:?}");
}

#[tokio::test]
async fn an_undamaged_database_has_no_findings() {
    for (base, logs) in [closed().await, killed().await] {
        let mut tally = Tally::default();
        tally.examine(copy(base.path()).path(), &logs, "undamaged").await;
        assert_eq!(tally.harmless, 1, "{tally:?}");
    }
}

#[tokio::test]
async fn a_truncated_database_is_found() {
    let (base, logs) = closed().await;
    let length = base.path().join(DB).metadata().unwrap().len();
    let mut tally = Tally::default();
    let cuts = [1, 50, 99, 100, 512, 4095, 4096, 4097, length / 3, length / 2, length - 1];
    for cut in cuts {
        let directory = copy(base.path());
        File::options().write(true).open(directory.path().join(DB)).unwrap().set_len(cut).unwrap();
        tally.examine(directory.path(), &logs, &format!("cut at {cut}")).await;
    }
    // The last page may be unused; then its last byte is not missed.
    assert!(tally.harmless <= 1, "{tally:?}");
}

#[tokio::test]
async fn an_emptied_database_is_found() {
    let (base, _) = killed().await;
    for keep_log in [true, false] {
        let directory = copy(base.path());
        // The database was used before.
        drop(client::sqlite(directory.path()));
        std::fs::write(directory.path().join(DB), "").unwrap();
        if keep_log {
            std::fs::copy(base.path().join(WAL), directory.path().join(WAL)).unwrap();
        }
        let store = client::sqlite(directory.path());
        let findings = store.findings().join("\n");
        assert!(findings.contains(DB), "keep_log: {keep_log}: {findings:?}");
        if keep_log {
            let kept = std::fs::read_dir(directory.path().join("damaged")).unwrap().next();
            let kept = kept.unwrap().unwrap().path().join(WAL);
            let original = base.path().join(WAL).metadata().unwrap().len();
            assert_eq!(kept.metadata().unwrap().len(), original, "SQLite removes such a log");
        }
    }
}

#[tokio::test]
async fn a_write_ahead_log_cut_short_leaves_a_prefix() {
    // Cut anywhere, it looks like a write that a crash interrupted; what is left must still be a
    // beginning of the log.
    let (base, logs) = killed().await;
    let length = base.path().join(WAL).metadata().unwrap().len();
    for cut in [0, 1, 31, 32, 33, length / 4, length / 2, length - 4120, length - 1] {
        let directory = copy(base.path());
        let file = File::options().write(true).open(directory.path().join(WAL)).unwrap();
        file.set_len(cut).unwrap();
        drop(file);
        assert_prefixes(directory.path(), &logs, cut).await;
    }
}

async fn assert_prefixes(directory: &Path, logs: &Logs, cut: u64) {
    let store = client::sqlite(directory);
    for (id, original) in logs {
        let (seen, result) = read(&store, id).await;
        assert!(is_prefix(&seen, original), "cut at {cut}");
        match result {
            Ok(head) => assert_eq!(head.0, seen.len() as u64, "cut at {cut}"),
            Err(error) => assert_eq!(error, StoreError::Unknown(id.clone()), "cut at {cut}"),
        }
    }
}
