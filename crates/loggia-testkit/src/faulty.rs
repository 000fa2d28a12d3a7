//! A store that fails where a test plans it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use loggia_core::{Envelope, Seq, SessionId, TaskId};
use loggia_session::{
    Append, Document, Lease, Listing, Owner, Store, StoreError, TaskPage, TaskQuery,
};
use tokio::sync::watch;

use crate::test_log::{Gate, TIMEOUT, TestLog};

/// The fault of one append.
#[derive(Clone)]
pub enum Fault {
    /// Nothing is written.
    Fail(StoreError),
    /// Everything is written, and the caller gets an error.
    FailAfter(StoreError),
    /// Nothing is written, as if another process had taken the session over.
    LoseLease,
    /// Written at once; returns after a while.
    Delay(Duration),
    /// Written at once; returns when the gate is open.
    Hold(Gate),
    Panic,
}

/// Passes everything to another store, except where a fault is planned.
///
/// Notes `durable <seq>` for each event when its append returns.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    planned: Mutex<HashMap<u64, Fault>>,
    always: Mutex<Option<Fault>>,
    refused_acquires: Mutex<VecDeque<StoreError>>,
    /// The number of appends that have begun.
    begun: watch::Sender<u64>,
    reads: AtomicUsize,
    /// The names of the methods that were called.
    calls: Mutex<Vec<&'static str>>,
    test_log: TestLog,
}

impl FaultyStore {
    pub fn new(inner: Arc<dyn Store>, test_log: TestLog) -> Arc<Self> {
        Arc::new(Self {
            inner,
            planned: Mutex::default(),
            always: Mutex::default(),
            refused_acquires: Mutex::default(),
            begun: watch::Sender::new(0),
            reads: AtomicUsize::new(0),
            calls: Mutex::default(),
            test_log,
        })
    }

    /// Plans a fault for the n-th append, counted from 1.
    pub fn at(&self, append: u64, fault: Fault) {
        self.planned.lock().unwrap().insert(append, fault);
    }

    /// Plans a fault for the next append, and returns its number.
    pub fn next(&self, fault: Fault) -> u64 {
        let append = self.begun() + 1;
        self.at(append, fault);
        append
    }

    /// Sets the fault of every append that has none planned. None: they succeed.
    pub fn always(&self, fault: Option<Fault>) {
        *self.always.lock().unwrap() = fault;
    }

    /// Refuses the next `acquire`.
    pub fn refuse_acquire(&self, error: StoreError) {
        self.refused_acquires.lock().unwrap().push_back(error);
    }

    pub fn begun(&self) -> u64 {
        *self.begun.borrow()
    }

    /// How often events were read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// The methods that were called since this was last called, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn called(&self, method: &'static str) {
        self.calls.lock().unwrap().push(method);
    }

    /// Waits until the n-th append has begun.
    pub async fn until_begun(&self, append: u64) {
        let mut begun = self.begun.subscribe();
        let there = begun.wait_for(|begun| *begun >= append);
        let came = tokio::time::timeout(TIMEOUT, there).await.is_ok();
        assert!(came, "append {append} did not begin, {} did", self.begun());
    }

    fn fault(&self, append: u64) -> Option<Fault> {
        let planned = self.planned.lock().unwrap().remove(&append);
        planned.or_else(|| self.always.lock().unwrap().clone())
    }
}

impl Store for FaultyStore {
    fn begin(&self, owner: Owner) -> BoxFuture<'_, Result<Lease, StoreError>> {
        match self.refused_acquires.lock().unwrap().is_empty() {
            true => self.inner.begin(owner),
            false => self.acquire(&SessionId::from("refused"), owner),
        }
    }

    fn append(&self, lease: &Lease, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut number = 0;
        self.begun.send_modify(|begun| {
            *begun += 1;
            number = *begun;
        });
        let fault = self.fault(number);
        let (session, expected) = (lease.session.clone(), append.expected);
        let events: Vec<Seq> = append.events.iter().map(|envelope| envelope.seq).collect();
        let work = match fault {
            Some(Fault::Fail(_) | Fault::LoseLease | Fault::Panic) => None,
            _ => Some(self.inner.append(lease, append)),
        };
        Box::pin(async move {
            let written = match work {
                Some(work) => work.await,
                None => Ok(()),
            };
            let result = match fault {
                None => written,
                Some(Fault::Fail(error) | Fault::FailAfter(error)) => Err(error),
                Some(Fault::LoseLease) => {
                    Err(StoreError::Conflict { session, expected, found: expected })
                }
                Some(Fault::Delay(time)) => {
                    tokio::time::sleep(time).await;
                    written
                }
                Some(Fault::Hold(gate)) => {
                    gate.passed().await;
                    written
                }
                Some(Fault::Panic) => panic!("the store panics in append {number}, as planned"),
            };
            if result.is_ok() {
                events.iter().for_each(|seq| self.test_log.note(format!("durable {seq}")));
            }
            result
        })
    }

    fn acquire(
        &self,
        session: &SessionId,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Lease, StoreError>> {
        self.called("acquire");
        let refused = self.refused_acquires.lock().unwrap().pop_front();
        match refused {
            // Later: other callers of this session must be waiting by then.
            Some(error) => Box::pin(async move {
                tokio::task::yield_now().await;
                Err(error)
            }),
            None => self.inner.acquire(session, owner),
        }
    }

    fn read(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        self.called("read");
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(session, after, limit)
    }

    fn head(&self, session: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        self.called("head");
        self.inner.head(session)
    }

    fn locate(&self, task: &TaskId) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        self.called("locate");
        self.inner.locate(task)
    }

    fn tasks(&self, query: TaskQuery) -> BoxFuture<'_, Result<TaskPage, StoreError>> {
        self.called("tasks");
        self.inner.tasks(query)
    }

    fn list_readable(&self, limit: usize) -> BoxFuture<'_, Result<Listing, StoreError>> {
        self.called("list");
        self.inner.list_readable(limit)
    }

    fn delete(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.delete(lease)
    }

    fn document(
        &self,
        collection: &str,
        key: &str,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        self.inner.document(collection, key)
    }

    fn documents(
        &self,
        collection: &str,
        prefix: &str,
    ) -> BoxFuture<'_, Result<Vec<(String, String)>, StoreError>> {
        self.inner.documents(collection, prefix)
    }

    fn replace(
        &self,
        expected: Option<String>,
        document: Document,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.replace(expected, document)
    }

    fn put(&self, document: Document) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.put(document)
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn findings(&self) -> &[String] {
        self.inner.findings()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.check()
    }
}
