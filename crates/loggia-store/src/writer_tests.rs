//! Which groups are synced: those with a job that must survive power loss.

use std::sync::Arc;

use loggia_core::Durability::{Decision, Stream};
use loggia_session::Append;
use loggia_testkit::store_contract::{document, owner, step, texts};

use super::*;
use crate::lease::LeaseState;
use crate::schema;

fn writer(directory: &std::path::Path) -> WriterLoop {
    let path = directory.join("loggia.db");
    let mut connection = Connection::open(&path).unwrap();
    schema::migrate(&mut connection, &path).unwrap();
    let locks = Locks::open(&directory.join("loggia.lock")).unwrap();
    WriterLoop { connection, path, locks, synchronous: None }
}

/// An append that begins a session.
fn append(durability: Durability, documents: Vec<Document>) -> Job {
    let session = SessionId::from(uuid::Uuid::now_v7());
    let lease = Lease::new(session, 1, Arc::new(LeaseState::new(owner("test"))));
    let append = Append { durability, documents, ..step(texts(1, 2)) };
    let job = Box::new(AppendJob::encode(&lease, append).unwrap());
    Job::Append { job, reply: oneshot::channel().0 }
}

fn acquire() -> Job {
    let session = SessionId::from(uuid::Uuid::now_v7());
    Job::Acquire { session, owner: owner("test"), reply: oneshot::channel().0 }
}

fn put() -> Job {
    Job::Put { document: document("c", "key", Some("value")), reply: oneshot::channel().0 }
}

#[test]
fn a_group_is_synced_if_one_of_its_jobs_must_survive_power_loss() {
    const NORMAL: i64 = 1;
    const FULL: i64 = 2;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path());
    let rule = || vec![document("rule", "key", Some("value"))];
    let groups = [
        (vec![append(Stream, Vec::new()), append(Stream, Vec::new())], NORMAL),
        (vec![append(Stream, Vec::new()), append(Decision, Vec::new())], FULL),
        (vec![append(Stream, Vec::new())], NORMAL),
        (vec![append(Stream, rule())], FULL),
        (vec![acquire()], NORMAL),
        (vec![put(), acquire()], FULL),
    ];
    let mut appends = 0;
    for (number, (mut group, wanted)) in groups.into_iter().enumerate() {
        appends += group.iter().filter(|job| matches!(job, Job::Append { .. })).count();
        writer.commit(&mut group);
        let query = |text: &str| -> i64 {
            writer.connection.query_row(text, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(query("PRAGMA synchronous"), wanted, "group {number}");
        let written = "SELECT count(*) FROM sessions WHERE head = 2";
        assert_eq!(query(written), i64::try_from(appends).unwrap(), "group {number}");
    }
}
