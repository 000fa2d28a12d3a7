//! Journals as format 5 wrote them, made by hand for what the recorded ones do not hold.

use rusqlite::Connection;

use super::*;
use crate::schema::STEPS;

const GENERATION: Generation = [9; 16];

/// An append of one event to the session `one` in row 1, which leaves its task in a state.
fn append(seq: u64, state: &str) -> Vec<u8> {
    let note = serde_json::json!({
        "id": "one", "epoch": seq, "head": seq, "updated": seq,
        "tasks": [{ "task": "task", "state": state, "updated": 5 }],
    });
    let mut bytes = Vec::new();
    bytes.extend(1i64.to_le_bytes());
    bytes.extend(seq.to_le_bytes());
    bytes.extend([u8::try_from(seq).unwrap(); 16]);
    let body = format!("event {seq}");
    for part in [note.to_string().as_bytes(), b"{}", body.as_bytes(), &[7; 16]] {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

fn block(offset: usize, content: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(MAGIC);
    header.extend(GENERATION);
    header.extend((offset as u64).to_le_bytes());
    header.extend((content.len() as u64).to_le_bytes());
    let sum = crc32fast::hash(&[&header[..], &[0; 4], content].concat());
    [&header[..], &sum.to_le_bytes(), content].concat()
}

/// A database of format 5 with journals that hold these appends, each a block.
fn database(journals: &[&[Vec<u8>]]) -> (tempfile::TempDir, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let connection = Connection::open(directory.path().join("loggia.db")).unwrap();
    STEPS[..5].iter().for_each(|step| connection.execute_batch(step).unwrap());
    for (slot, appends) in journals.iter().enumerate() {
        let mut bytes = Vec::new();
        for append in *appends {
            bytes.extend(block(bytes.len(), append));
        }
        std::fs::write(directory.path().join(format!("{NAME}{slot}")), bytes).unwrap();
        let insert = "INSERT INTO journals (slot, generation, place) VALUES (?1, ?2, 0)";
        connection.execute(insert, params![slot, GENERATION]).unwrap();
    }
    (directory, connection)
}

/// A session went from one process to another and back, and after a power cut none of it was in the tables.
#[test]
fn journals_of_two_processes_are_one_log() {
    let first = [append(2, "working"), append(4, "completed")];
    let second = [append(1, "submitted"), append(3, "input-required")];
    for journals in [[&first[..], &second[..]], [&second[..], &first[..]]] {
        let (directory, mut connection) = database(&journals);
        let path = directory.path().join("loggia.db");
        let transaction = connection.transaction().unwrap();
        assert_eq!(apply(&transaction, &path), Ok(Vec::new()));
        transaction.commit().unwrap();
        let one =
            |query: &str| -> String { connection.query_row(query, [], |row| row.get(0)).unwrap() };
        assert_eq!(
            one("SELECT group_concat(seq || body) FROM (SELECT * FROM events ORDER BY seq)"),
            "1event 1,2event 2,3event 3,4event 4"
        );
        assert_eq!(
            one("SELECT head || ' ' || epoch || ' ' || hex(sum) FROM sessions"),
            format!("4 4 {}", "04".repeat(16))
        );
        assert_eq!(one("SELECT state FROM tasks"), "completed");
    }
}

#[test]
fn an_append_that_the_tables_have_already_is_named_and_left_out() {
    let (directory, mut connection) = database(&[&[append(1, "working"), append(2, "completed")]]);
    let insert = "INSERT INTO events (session, seq, body, sum) VALUES (1, 1, 'other', x'00')";
    connection.execute(insert, []).unwrap();
    let transaction = connection.transaction().unwrap();
    let findings = apply(&transaction, &directory.path().join("loggia.db")).unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].contains("event 1 of session one twice"), "{findings:?}");
    let count: i64 =
        transaction.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}

/// A block of another generation is old content of the file, not damage.
#[test]
fn what_is_left_of_an_earlier_generation_is_ignored() {
    let (directory, mut connection) = database(&[&[append(1, "working")]]);
    let path = directory.path().join(format!("{NAME}0"));
    let mut bytes = std::fs::read(&path).unwrap();
    let mut old = block(bytes.len(), &append(2, "completed"));
    old[8..24].fill(3);
    bytes.extend(old);
    std::fs::write(&path, bytes).unwrap();
    let transaction = connection.transaction().unwrap();
    assert_eq!(apply(&transaction, &directory.path().join("loggia.db")), Ok(Vec::new()));
    drop(transaction);
    remove(&directory.path().join("loggia.db"));
    assert!(!path.exists());
}
