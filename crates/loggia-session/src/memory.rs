//! A store in memory for tests. It passes the same contract as the store on disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use loggia_core::{Envelope, Seq, SessionId, Summary, TaskId};

use crate::index::{ListedTask, TaskMark, TaskPage, TaskPosition, TaskQuery};
use crate::ports::{Append, Document, Lease, Listed, Listing, Owner, Store, StoreError};

#[derive(Clone, Default)]
pub struct MemoryStore {
    /// A lock, not a task: every operation is a few map accesses and never waits.
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SessionId, Record>,
    tasks: HashMap<TaskId, (SessionId, TaskMark)>,
    documents: BTreeMap<(String, String), String>,
}

#[derive(Default)]
struct Record {
    epoch: u64,
    owner: Option<Owner>,
    held: bool,
    events: Vec<Arc<Envelope>>,
    summary: Option<Summary>,
}

/// Frees the session when the lease is dropped.
struct LeaseGuard {
    inner: Arc<Mutex<Inner>>,
    session: SessionId,
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if let Some(record) = lock(&self.inner).sessions.get_mut(&self.session) {
            record.held = false;
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    futures::future::ready(value).boxed()
}

impl Inner {
    fn append(&mut self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        let session = lease.session.clone();
        let Some(record) = self.sessions.get_mut(&session) else {
            return Err(StoreError::Unknown(session));
        };
        let found = Seq(record.events.len() as u64);
        if record.epoch != lease.epoch || found != append.expected {
            return Err(StoreError::Conflict { session, expected: append.expected, found });
        }
        record.events.extend(append.events);
        record.summary = Some(append.summary);
        for mark in append.tasks {
            let known = self.tasks.entry(mark.task.clone());
            let known = known.or_insert_with(|| (session.clone(), mark.clone()));
            if known.0 == session {
                known.1 = mark;
            }
        }
        for document in append.documents {
            self.put(document);
        }
        Ok(())
    }

    fn put(&mut self, document: Document) {
        let key = (document.collection, document.key);
        match document.value {
            Some(value) => self.documents.insert(key, value),
            None => self.documents.remove(&key),
        };
    }
}

impl Store for MemoryStore {
    fn acquire(
        &self,
        session: &SessionId,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let mut inner = lock(&self.inner);
        let record = inner.sessions.entry(session.clone()).or_default();
        if let (true, Some(owner)) = (record.held, record.owner.clone()) {
            return ready(Err(StoreError::Busy { session: session.clone(), owner }));
        }
        record.held = true;
        record.owner = Some(owner);
        record.epoch += 1;
        let guard = LeaseGuard { inner: self.inner.clone(), session: session.clone() };
        ready(Ok(Lease::new(session.clone(), record.epoch, Arc::new(guard))))
    }

    fn append(&self, lease: &Lease, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(lock(&self.inner).append(lease, append))
    }

    fn read(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        let inner = lock(&self.inner);
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        ready(match inner.sessions.get(session) {
            Some(record) => Ok(record.events.iter().skip(skip).take(limit).cloned().collect()),
            None => Err(StoreError::Unknown(session.clone())),
        })
    }

    fn head(&self, session: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        let inner = lock(&self.inner);
        ready(Ok(inner.sessions.get(session).map(|record| Seq(record.events.len() as u64))))
    }

    fn locate(&self, task: &TaskId) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let inner = lock(&self.inner);
        ready(Ok(inner.tasks.get(task).map(|(session, _)| session.clone())))
    }

    fn tasks(&self, query: TaskQuery) -> BoxFuture<'_, Result<TaskPage, StoreError>> {
        let inner = lock(&self.inner);
        let admitted = inner.tasks.values().filter(|(session, mark)| {
            query.session.as_ref().is_none_or(|wanted| wanted == session)
                && query.principal.as_ref().is_none_or(|is| mark.principal.as_ref() == Some(is))
                && query.state.is_none_or(|wanted| wanted == mark.state)
                && query.since.is_none_or(|since| mark.updated >= since)
        });
        let tasks: Vec<ListedTask> = admitted
            .map(|(session, mark)| ListedTask {
                position: TaskPosition { updated: mark.updated, task: mark.task.clone() },
                session: session.clone(),
                state: mark.state,
            })
            .collect();
        let total = tasks.len() as u64;
        let after = |task: &ListedTask| query.after.as_ref().is_none_or(|at| task.position < *at);
        let rest = tasks.into_iter().filter(after).collect();
        ready(Ok(TaskPage::of(rest, total, query.limit)))
    }

    fn list_readable(&self, limit: usize) -> BoxFuture<'_, Result<Listing, StoreError>> {
        let inner = lock(&self.inner);
        let mut sessions: Vec<Listed> = inner
            .sessions
            .iter()
            .filter_map(|(session, record)| {
                Some(Listed {
                    session: session.clone(),
                    head: Seq(record.events.len() as u64),
                    summary: record.summary.clone()?,
                    owner: record.owner.clone(),
                })
            })
            .collect();
        sessions.sort_by(|a, b| {
            b.summary.updated.cmp(&a.summary.updated).then_with(|| b.session.cmp(&a.session))
        });
        sessions.truncate(limit);
        ready(Ok(Listing { sessions, damage: None }))
    }

    fn delete(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut inner = lock(&self.inner);
        inner.sessions.remove(&lease.session);
        inner.tasks.retain(|_, (session, _)| *session != lease.session);
        drop(inner);
        ready(Ok(()))
    }

    fn document(
        &self,
        collection: &str,
        key: &str,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let key = (collection.to_owned(), key.to_owned());
        ready(Ok(lock(&self.inner).documents.get(&key).cloned()))
    }

    fn documents(
        &self,
        collection: &str,
        prefix: &str,
    ) -> BoxFuture<'_, Result<Vec<(String, String)>, StoreError>> {
        let inner = lock(&self.inner);
        let found = inner
            .documents
            .iter()
            .filter(|((found, key), _)| found == collection && key.starts_with(prefix))
            .map(|((_, key), value)| (key.clone(), value.clone()));
        ready(Ok(found.collect()))
    }

    fn put(&self, document: Document) -> BoxFuture<'_, Result<(), StoreError>> {
        lock(&self.inner).put(document);
        ready(Ok(()))
    }

    fn replace(
        &self,
        expected: Option<String>,
        document: Document,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut inner = lock(&self.inner);
        let key = (document.collection.clone(), document.key.clone());
        let fits = inner.documents.get(&key) == expected.as_ref();
        if fits {
            inner.put(document);
        }
        ready(Ok(fits))
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }

    fn findings(&self) -> &[String] {
        &[]
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(()))
    }
}
