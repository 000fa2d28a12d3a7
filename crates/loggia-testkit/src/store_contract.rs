//! The contract of every store, as functions that take an empty store.
//!
//! [`store_contract!`](crate::store_contract) makes a test of each. It takes an expression that opens an empty store,
//! and a value that must live as long as the store.

use std::collections::HashSet;
use std::sync::Arc;

use loggia_core::{
    Durability, Envelope, Event, Level, Millis, Origin, Seq, SessionId, Summary, TaskId, TaskState,
};
use loggia_session::{Append, Document, Lease, Listing, Owner, Store, StoreError, TaskMark};
use tokio::task::JoinSet;

pub use crate::task_contract::*;

/// One test for each clause of the contract. `$open` gives `(Arc<dyn Store>, keep)`.
#[macro_export]
macro_rules! store_contract {
    ($open:expr) => {
        $crate::store_contract!(@each $open;
            appended_events_are_read
            reads_begin_after_and_end_at_the_limit
            reading_in_chunks_misses_nothing
            a_clock_that_goes_back_changes_no_order
            a_wrong_expected_head_is_refused_and_writes_nothing
            a_stale_epoch_is_refused_and_writes_nothing
            an_append_is_all_or_nothing
            documents_and_tasks_change_with_the_log
            a_lease_is_exclusive_and_released_on_drop
            a_busy_error_names_the_owner
            an_epoch_grows_with_every_owner
            a_new_session_exists_from_its_first_append
            every_new_session_has_another_id
            the_last_changed_session_is_listed_first
            a_session_without_events_is_not_listed
            an_undamaged_store_passes_its_check
            a_deleted_session_is_gone_with_its_tasks
            documents_are_put_found_by_prefix_and_removed
            documents_of_collections_do_not_mix
            a_document_is_replaced_only_if_it_is_as_expected
            the_first_session_of_a_task_keeps_it
            an_unknown_session_is_an_error
            a_large_batch_is_one_append
            text_of_all_kinds_comes_back
            a_body_of_a_mebibyte_comes_back
            fifty_sessions_append_at_once
            a_task_is_listed_as_in_its_last_mark
            a_refused_step_marks_nothing
            a_foreign_mark_does_not_move_a_task
            every_query_of_tasks_equals_a_plain_search
            pages_stay_correct_while_tasks_change
        );
    };
    (@each $open:expr; $($clause:ident)*) => {$(
        #[tokio::test]
        async fn $clause() {
            let (store, _keep) = $open;
            $crate::store_contract::$clause(store).await;
        }
    )*};
}

pub fn owner(program: &str) -> Owner {
    Owner { pid: std::process::id(), program: program.to_owned(), since: Millis(1) }
}

pub fn text_event(seq: u64, text: &str) -> Arc<Envelope> {
    Arc::new(Envelope {
        seq: Seq(seq),
        at: Millis(1_000 + i64::try_from(seq).unwrap()),
        origin: Origin::system(),
        event: Event::NoticeRaised { level: Level::Info, text: text.to_owned(), wait: None },
    })
}

pub fn texts(first: u64, count: u64) -> Vec<Arc<Envelope>> {
    (first..first + count).map(|seq| text_event(seq, &format!("event {seq}"))).collect()
}

pub fn summary(title: &str, updated: i64) -> Summary {
    Summary {
        name: None,
        title: title.to_owned(),
        workspace: "/workspace".into(),
        model: "script".into(),
        created: Millis(1),
        updated: Millis(updated),
        turns: 0,
        busy: false,
        waiting_for_answer: false,
        closed: false,
    }
}

/// An append that has only events.
pub fn step(events: Vec<Arc<Envelope>>) -> Append {
    let first = events.first().map_or(1, |first| first.seq.0);
    let updated = events.last().map_or(0, |last| last.at.0);
    Append {
        expected: Seq(first - 1),
        events,
        durability: Durability::Decision,
        summary: summary("title", updated),
        tasks: Vec::new(),
        documents: Vec::new(),
    }
}

/// A working task in a session without a principal.
pub fn mark(task: &str, updated: i64) -> TaskMark {
    let (task, updated) = (TaskId::from(task), Millis(updated));
    TaskMark { task, state: TaskState::Working, updated, principal: None }
}

pub fn document(collection: &str, key: &str, value: Option<&str>) -> Document {
    Document {
        collection: collection.to_owned(),
        key: key.to_owned(),
        value: value.map(str::to_owned),
    }
}

async fn read_all(store: &dyn Store, session: &SessionId) -> Vec<Arc<Envelope>> {
    store.read(session, Seq::ZERO, usize::MAX).await.expect("readable")
}

pub(crate) async fn acquire(store: &dyn Store, session: &SessionId) -> Lease {
    store.acquire(session, owner("contract")).await.expect("the lease is free")
}

pub async fn appended_events_are_read(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    store.append(&lease, step(texts(1, 3))).await.unwrap();
    store.append(&lease, step(texts(4, 1))).await.unwrap();
    assert_eq!(read_all(&*store, &session).await, texts(1, 4));
    assert_eq!(store.head(&session).await, Ok(Some(Seq(4))));
}

/// Small and large appends, read from the beginning and from several other places.
pub async fn reading_in_chunks_misses_nothing(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    let (mut head, mut all) = (0, Vec::new());
    for size in [1, 2, 700, 3_000, 1, 300, 40] {
        let events = texts(head + 1, size);
        store.append(&lease, step(events.clone())).await.unwrap();
        all.extend(events);
        head += size;
    }
    for after in [0, 1, 2, 3, 4, 702, 703, 704, 3_702, 3_703, head - 1, head] {
        let mut read: Vec<Arc<Envelope>> = Vec::new();
        loop {
            let more = store.read_chunk(&session, Seq(after + read.len() as u64)).await.unwrap();
            if more.is_empty() {
                break;
            }
            read.extend(more);
        }
        let rest = all.iter().skip(usize::try_from(after).unwrap());
        assert!(read.iter().eq(rest), "after {after}");
    }
    assert_eq!(store.read_chunk(&session, Seq(head + 9)).await, Ok(Vec::new()), "beyond the head");
    let unknown = SessionId::from("unknown");
    assert_eq!(store.read_chunk(&unknown, Seq::ZERO).await, Err(StoreError::Unknown(unknown)));
}

pub async fn reads_begin_after_and_end_at_the_limit(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    store.append(&lease, step(texts(1, 10))).await.unwrap();
    assert_eq!(store.read(&session, Seq(3), 4).await, Ok(texts(4, 4)));
    assert_eq!(store.read(&session, Seq(8), 100).await, Ok(texts(9, 2)));
    assert_eq!(store.read(&session, Seq(9), 1).await, Ok(texts(10, 1)));
    assert_eq!(store.read(&session, Seq(10), 5).await, Ok(Vec::new()), "at the head");
    assert_eq!(store.read(&session, Seq(99), 5).await, Ok(Vec::new()), "beyond the head");
    assert_eq!(store.read(&session, Seq(0), 0).await, Ok(Vec::new()), "nothing wanted");
}

pub async fn a_clock_that_goes_back_changes_no_order(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    let mut events = texts(1, 6);
    for (envelope, at) in events.iter_mut().zip([5_000, 86_400_000, -1, 0, i64::MAX, i64::MIN]) {
        *envelope = Arc::new(Envelope { at: Millis(at), ..(**envelope).clone() });
    }
    for event in &events {
        store.append(&lease, step(vec![event.clone()])).await.unwrap();
    }
    assert_eq!(read_all(&*store, &session).await, events);
    assert_eq!(store.list(1).await.unwrap()[0].summary.updated, Millis(i64::MIN));
}

pub async fn a_wrong_expected_head_is_refused_and_writes_nothing(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    store.append(&lease, step(texts(1, 2))).await.unwrap();
    for first in [1, 2, 4, 100] {
        let mut wrong = step(texts(first, 2));
        wrong.tasks = vec![mark("task", 1)];
        wrong.documents = vec![document("c", "k", Some("v"))];
        let expected = wrong.expected;
        let refused = store.append(&lease, wrong).await;
        let conflict = StoreError::Conflict { session: session.clone(), expected, found: Seq(2) };
        assert_eq!(refused, Err(conflict));
    }
    assert_eq!(read_all(&*store, &session).await, texts(1, 2));
    assert_eq!(store.locate(&TaskId::from("task")).await, Ok(None));
    assert_eq!(store.document("c", "k").await, Ok(None));
    store.append(&lease, step(texts(3, 1))).await.expect("the right head is still accepted");
}

pub async fn a_stale_epoch_is_refused_and_writes_nothing(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    drop(acquire(&*store, &session).await);
    let lease = acquire(&*store, &session).await;
    // The lease of an owner that was suspended while another took over: an older epoch, no guard.
    let stale = Lease::new(session.clone(), lease.epoch - 1, Arc::new(()));
    let refused = store.append(&stale, step(texts(1, 2))).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(store.head(&session).await, Ok(Some(Seq::ZERO)));
    store.append(&lease, step(texts(1, 2))).await.expect("the owner is not affected");
}

pub async fn an_append_is_all_or_nothing(store: Arc<dyn Store>) {
    let (session, other) = (SessionId::from("one"), SessionId::from("other"));
    let lease = acquire(&*store, &session).await;
    let other_lease = acquire(&*store, &other).await;
    store.append(&lease, step(texts(1, 5))).await.unwrap();
    let mut refused = step(texts(9, 50));
    refused.documents = vec![document("c", "kept", None), document("c", "new", Some("v"))];
    refused.tasks = vec![mark("a", 1), mark("b", 2)];
    refused.summary = summary("changed", 9_999);
    store.put(document("c", "kept", Some("v"))).await.unwrap();
    // Concurrently, so that a store that commits in groups has both in one group.
    let (refused, accepted) =
        tokio::join!(store.append(&lease, refused), store.append(&other_lease, step(texts(1, 5))),);
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(accepted, Ok(()), "the other session is not affected");
    assert_eq!(read_all(&*store, &session).await, texts(1, 5));
    assert_eq!(read_all(&*store, &other).await, texts(1, 5));
    assert_eq!(store.document("c", "kept").await, Ok(Some("v".into())));
    assert_eq!(store.document("c", "new").await, Ok(None));
    assert_eq!(store.locate(&TaskId::from("a")).await, Ok(None));
    let listed = store.list(10).await.unwrap();
    assert!(listed.iter().all(|listed| listed.summary.title == "title"), "{listed:?}");
}

pub async fn documents_and_tasks_change_with_the_log(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    let mut first = step(texts(1, 1));
    first.tasks = vec![mark("task", 1)];
    first.documents = vec![document("rule", "a", Some("1")), document("rule", "b", Some("2"))];
    store.append(&lease, first).await.unwrap();
    assert_eq!(store.locate(&TaskId::from("task")).await, Ok(Some(session.clone())));
    let mut second = step(texts(2, 1));
    second.documents = vec![document("rule", "a", None), document("rule", "b", Some("3"))];
    store.append(&lease, second).await.unwrap();
    assert_eq!(store.documents("rule", "").await, Ok(vec![("b".into(), "3".into())]));
}

pub async fn a_lease_is_exclusive_and_released_on_drop(store: Arc<dyn Store>) {
    let (session, other) = (SessionId::from("one"), SessionId::from("other"));
    let lease = acquire(&*store, &session).await;
    assert!(store.acquire(&session, owner("second")).await.is_err());
    let _neighbour = acquire(&*store, &other).await;
    assert!(store.acquire(&session, owner("third")).await.is_err(), "asking changes nothing");
    store.append(&lease, step(texts(1, 1))).await.expect("the owner can append");
    drop(lease);
    let lease = acquire(&*store, &session).await;
    store.append(&lease, step(texts(2, 1))).await.expect("the new owner can append");
}

pub async fn a_new_session_exists_from_its_first_append(store: Arc<dyn Store>) {
    let unused = store.begin(owner("first")).await.unwrap();
    let lease = store.begin(owner("first")).await.unwrap();
    let session = lease.session.clone();
    assert_eq!(store.list(10).await, Ok(Vec::new()));
    store.append(&lease, step(texts(1, 2))).await.unwrap();
    assert_eq!(store.head(&session).await, Ok(Some(Seq(2))));
    assert_eq!(store.list(10).await.unwrap()[0].owner, Some(owner("first")));
    let late = store.acquire(&session, owner("second")).await;
    assert!(matches!(late, Err(StoreError::Busy { .. })), "it is owned");
    store.append(&lease, step(texts(3, 1))).await.expect("the owner can append");
    let epoch = lease.epoch;
    drop((lease, unused));
    let lease = store.acquire(&session, owner("second")).await.unwrap();
    assert!(lease.epoch > epoch);
    store.append(&lease, step(texts(4, 1))).await.expect("the new owner can append");
    assert_eq!(store.list(10).await.unwrap().len(), 1, "a session without an append is not listed");
}

pub async fn every_new_session_has_another_id(store: Arc<dyn Store>) {
    let mut leases = Vec::new();
    for _ in 0..100 {
        let lease = store.begin(owner("test")).await.unwrap();
        store.append(&lease, step(texts(1, 1))).await.unwrap();
        leases.push(lease);
    }
    let ids: HashSet<_> = leases.iter().map(|lease| lease.session.clone()).collect();
    assert_eq!(ids.len(), leases.len());
    assert_eq!(store.list(1000).await.unwrap().len(), leases.len());
}

pub async fn a_busy_error_names_the_owner(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let holder = Owner { pid: 4711, program: "loggia chat".into(), since: Millis(42) };
    let _lease = store.acquire(&session, holder.clone()).await.unwrap();
    let Err(refused) = store.acquire(&session, owner("second")).await else {
        panic!("two owners of one session");
    };
    let sentence = refused.to_string();
    assert_eq!(refused, StoreError::Busy { session: session.clone(), owner: holder });
    assert!(sentence.contains("4711") && sentence.contains("loggia chat"), "{sentence}");
}

pub async fn an_epoch_grows_with_every_owner(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let mut last = 0;
    for _ in 0..5 {
        let lease = acquire(&*store, &session).await;
        assert!(lease.epoch > last, "{} after {last}", lease.epoch);
        last = lease.epoch;
    }
}

pub async fn the_last_changed_session_is_listed_first(store: Arc<dyn Store>) {
    for (name, updated) in [("a", 30), ("b", 10), ("c", 20)] {
        let lease = acquire(&*store, &SessionId::from(name)).await;
        let mut append = step(texts(1, 2));
        append.summary = summary(name, updated);
        store.append(&lease, append).await.unwrap();
    }
    let names = |listed: Vec<loggia_session::Listed>| -> Vec<String> {
        listed.iter().map(|listed| listed.session.to_string()).collect()
    };
    assert_eq!(names(store.list(10).await.unwrap()), ["a", "c", "b"]);
    assert_eq!(names(store.list(2).await.unwrap()), ["a", "c"]);
    let lease = acquire(&*store, &SessionId::from("b")).await;
    let mut append = step(texts(3, 1));
    append.summary = summary("renamed", 40);
    store.append(&lease, append).await.unwrap();
    let listed = store.list(1).await.unwrap();
    assert_eq!(listed[0].session, SessionId::from("b"));
    assert_eq!(listed[0].head, Seq(3));
    assert_eq!(listed[0].summary, summary("renamed", 40));
    assert_eq!(listed[0].owner, Some(owner("contract")));
}

pub async fn a_session_without_events_is_not_listed(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let _lease = acquire(&*store, &session).await;
    assert_eq!(store.list(10).await, Ok(Vec::new()));
    assert_eq!(store.head(&session).await, Ok(Some(Seq::ZERO)));
    assert_eq!(store.read(&session, Seq::ZERO, 10).await, Ok(Vec::new()));
}

pub async fn an_undamaged_store_passes_its_check(store: Arc<dyn Store>) {
    let lease = acquire(&*store, &SessionId::from("one")).await;
    store.append(&lease, step(texts(1, 3))).await.unwrap();
    assert_eq!(store.check().await, Ok(()));
    assert_eq!(store.findings(), [""; 0]);
    assert!(!store.location().is_empty());
    let sessions = store.list(10).await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(store.list_readable(10).await, Ok(Listing { sessions, damage: None }));
}

pub async fn a_deleted_session_is_gone_with_its_tasks(store: Arc<dyn Store>) {
    let (session, other) = (SessionId::from("one"), SessionId::from("other"));
    for session in [&session, &other] {
        let lease = acquire(&*store, session).await;
        let mut append = step(texts(1, 20));
        append.tasks = vec![mark(&format!("task of {session}"), 1)];
        store.append(&lease, append).await.unwrap();
    }
    let lease = acquire(&*store, &session).await;
    store.delete(lease).await.unwrap();
    assert_eq!(store.head(&session).await, Ok(None));
    let read = store.read(&session, Seq::ZERO, 10).await;
    assert_eq!(read, Err(StoreError::Unknown(session.clone())));
    assert_eq!(store.locate(&TaskId::from("task of one")).await, Ok(None));
    assert_eq!(store.locate(&TaskId::from("task of other")).await, Ok(Some(other.clone())));
    assert_eq!(store.list(10).await.unwrap().len(), 1);
    assert_eq!(read_all(&*store, &other).await, texts(1, 20));
    // The id may be used again, with a new log.
    let lease = acquire(&*store, &session).await;
    store.append(&lease, step(texts(1, 1))).await.unwrap();
    assert_eq!(read_all(&*store, &session).await, texts(1, 1));
}

pub async fn documents_are_put_found_by_prefix_and_removed(store: Arc<dyn Store>) {
    for key in ["b/1", "a/1", "a/2", "a", "ä/1", "%", "a_1"] {
        store.put(document("c", key, Some(&format!("value of {key}")))).await.unwrap();
    }
    let keys = |found: Vec<(String, String)>| -> Vec<String> {
        found.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(store.documents("c", "a/").await.unwrap()), ["a/1", "a/2"]);
    assert_eq!(keys(store.documents("c", "ä").await.unwrap()), ["ä/1"]);
    assert_eq!(keys(store.documents("c", "%").await.unwrap()), ["%"], "no wildcard");
    assert_eq!(keys(store.documents("c", "a_").await.unwrap()), ["a_1"], "no wildcard");
    assert_eq!(store.documents("c", "").await.unwrap().len(), 7);
    assert_eq!(store.document("c", "a").await, Ok(Some("value of a".into())));
    assert_eq!(store.document("c", "a/").await, Ok(None), "a prefix is not a key");
    store.put(document("c", "a/1", Some("other"))).await.unwrap();
    assert_eq!(store.document("c", "a/1").await, Ok(Some("other".into())));
    store.put(document("c", "a/1", None)).await.unwrap();
    store.put(document("c", "never there", None)).await.expect("removing nothing is fine");
    assert_eq!(store.document("c", "a/1").await, Ok(None));
}

pub async fn documents_of_collections_do_not_mix(store: Arc<dyn Store>) {
    store.put(document("one", "key", Some("1"))).await.unwrap();
    store.put(document("two", "key", Some("2"))).await.unwrap();
    store.put(document("one", "key", None)).await.unwrap();
    assert_eq!(store.document("two", "key").await, Ok(Some("2".into())));
    assert_eq!(store.documents("one", "").await, Ok(Vec::new()));
}

pub async fn a_document_is_replaced_only_if_it_is_as_expected(store: Arc<dyn Store>) {
    let replace = |expected: Option<&str>, value: Option<&str>| {
        store.replace(expected.map(str::to_owned), document("c", "key", value))
    };
    assert_eq!(replace(Some("1"), Some("2")).await, Ok(false), "there is none yet");
    assert_eq!(replace(None, Some("1")).await, Ok(true));
    assert_eq!(replace(None, Some("2")).await, Ok(false), "there is one now");
    assert_eq!(store.document("c", "key").await, Ok(Some("1".into())));
    // Of many callers with the same expected value, one wins.
    let tries = (0..20)
        .map(|n| store.replace(Some("1".into()), document("c", "key", Some(&n.to_string()))));
    let won: Vec<bool> =
        futures::future::join_all(tries).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    let winner = won.iter().position(|won| *won).unwrap().to_string();
    assert_eq!(store.document("c", "key").await, Ok(Some(winner.clone())));
    assert_eq!(replace(Some("1"), None).await, Ok(false), "removing is also conditional");
    assert_eq!(replace(Some(&winner), None).await, Ok(true));
    assert_eq!(store.document("c", "key").await, Ok(None));
}

pub async fn the_first_session_of_a_task_keeps_it(store: Arc<dyn Store>) {
    let task = TaskId::from("task");
    for name in ["first", "second"] {
        let lease = acquire(&*store, &SessionId::from(name)).await;
        let mut append = step(texts(1, 1));
        append.tasks = vec![mark("task", 1)];
        store.append(&lease, append).await.unwrap();
    }
    assert_eq!(store.locate(&task).await, Ok(Some(SessionId::from("first"))));
    assert_eq!(store.locate(&TaskId::from("unknown")).await, Ok(None));
}

pub async fn an_unknown_session_is_an_error(store: Arc<dyn Store>) {
    let session = SessionId::from("nobody");
    assert_eq!(store.head(&session).await, Ok(None));
    let read = store.read(&session, Seq::ZERO, 1).await;
    assert_eq!(read, Err(StoreError::Unknown(session.clone())));
    assert_eq!(store.list(10).await, Ok(Vec::new()), "reading creates nothing");
}

pub async fn a_large_batch_is_one_append(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    store.append(&lease, step(texts(1, 5_000))).await.unwrap();
    assert_eq!(store.head(&session).await, Ok(Some(Seq(5_000))));
    assert_eq!(read_all(&*store, &session).await, texts(1, 5_000));
}

pub async fn text_of_all_kinds_comes_back(store: Arc<dyn Store>) {
    let odd = [
        "",
        "naïve — 日本語 — 🦀🏳️‍🌈",
        "quote ' double \" back \\ percent % under _",
        "line\nline\r\ntab\t nul \0 bell \u{7} escape \u{1b}[31m",
        "right-to-left \u{202e}abc",
        "\u{feff}byte order mark",
        "\u{10ffff}\u{fffd}\u{e000}",
    ];
    for (number, text) in odd.iter().enumerate() {
        let session = SessionId::new(format!("session {number} {}", text.replace('\0', "")));
        let lease = acquire(&*store, &session).await;
        let mut append = step(vec![text_event(1, text), text_event(2, text)]);
        append.summary = summary(text, 1);
        append.documents = vec![document("c", &format!("{number}"), Some(text))];
        store.append(&lease, append).await.unwrap();
        let expected = vec![text_event(1, text), text_event(2, text)];
        assert_eq!(read_all(&*store, &session).await, expected);
        let found = store.document("c", &format!("{number}")).await;
        assert_eq!(found, Ok(Some((*text).to_owned())));
    }
    let listed = store.list(100).await.unwrap();
    for text in odd {
        assert!(listed.iter().any(|listed| listed.summary.title == text), "{text:?}");
    }
}

pub async fn a_body_of_a_mebibyte_comes_back(store: Arc<dyn Store>) {
    let session = SessionId::from("one");
    let lease = acquire(&*store, &session).await;
    let text = "é\u{1}".repeat(350_000);
    assert!(text.len() > 1024 * 1024);
    let events: Vec<_> = (1..=4).map(|seq| text_event(seq, &text)).collect();
    store.append(&lease, step(events.clone())).await.unwrap();
    store.append(&lease, step(texts(5, 1))).await.unwrap();
    assert!(store.read(&session, Seq::ZERO, 4).await == Ok(events), "the bodies differ");
    assert_eq!(store.read(&session, Seq(4), 1).await, Ok(texts(5, 1)));
}

pub async fn fifty_sessions_append_at_once(store: Arc<dyn Store>) {
    let mut writers = JoinSet::new();
    for number in 0..50 {
        let store = store.clone();
        writers.spawn(async move {
            let session = SessionId::new(format!("session {number}"));
            let lease = acquire(&*store, &session).await;
            for append in 0..20 {
                let mut append = step(texts(append * 3 + 1, 3));
                append.durability =
                    if number % 2 == 0 { Durability::Stream } else { Durability::Decision };
                store.append(&lease, append).await.unwrap();
            }
            session
        });
    }
    let sessions = writers.join_all().await;
    assert_eq!(sessions.len(), 50);
    for session in sessions {
        assert_eq!(read_all(&*store, &session).await, texts(1, 60));
    }
}
