//! An append, encoded by its caller to save time on the one writer thread: the records as they are stored, and the
//! new values of the session and task rows. [`crate::jobs`] writes them.

use std::sync::Arc;

use loggia_core::{Durability, Envelope, Millis, Seq, SessionId};
use loggia_session::{Append, Document, Lease, StoreError, TaskMark};

use crate::chain::END_OF_RECORD;
use crate::checksum::{self, Sum};
use crate::lease::LeaseState;

pub struct AppendJob {
    pub session: SessionId,
    pub epoch: u64,
    /// Keeps the session locked until the append is performed. None for a lease of another kind of store.
    pub lease: Option<Arc<LeaseState>>,
    pub expected: Seq,
    pub records: Records,
    pub summary: String,
    pub updated: Millis,
    pub tasks: Vec<TaskMark>,
    pub documents: Vec<Document>,
    durability: Durability,
}

impl AppendJob {
    pub fn encode(lease: &Lease, append: Append) -> Result<Self, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Io(error.to_string());
        let Append { expected, events, durability, summary, tasks, documents } = append;
        Ok(Self {
            session: lease.session.clone(),
            epoch: lease.epoch,
            lease: lease.guard().downcast().ok(),
            expected,
            records: Records::encode(&events).map_err(encode)?,
            updated: summary.updated,
            summary: serde_json::to_string(&summary).map_err(encode)?,
            tasks,
            documents,
            durability,
        })
    }

    /// Documents (remembered rules) must survive power loss whatever the events are.
    pub fn durability(&self) -> Durability {
        if self.documents.is_empty() { self.durability } else { Durability::Decision }
    }
}

/// The records of an append as they are stored: one line each.
pub struct Records {
    body: Vec<u8>,
    /// The number of each record, and where its line ends.
    ends: Vec<(Seq, usize)>,
}

impl Records {
    fn encode(events: &[Arc<Envelope>]) -> Result<Self, serde_json::Error> {
        let (mut body, mut ends) = (Vec::with_capacity(2048), Vec::with_capacity(events.len()));
        for envelope in events {
            if !body.is_empty() {
                body.push(END_OF_RECORD);
            }
            serde_json::to_writer(&mut body, envelope.as_ref())?;
            ends.push((envelope.seq, body.len()));
        }
        Ok(Self { body, ends })
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The number of the last record.
    pub fn head(&self) -> Option<Seq> {
        self.ends.last().map(|(seq, _)| *seq)
    }

    /// The checksums of the records, chained to `before`, and the last of them.
    pub fn chain(&self, before: Sum) -> (Vec<u8>, Sum) {
        let mut sums = Vec::with_capacity(self.ends.len() * size_of::<Sum>());
        let mut last = before;
        for (seq, record) in self.iter() {
            last = checksum::next(&last, seq, record);
            sums.extend(last);
        }
        (sums, last)
    }

    fn iter(&self) -> impl Iterator<Item = (Seq, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(seq, end)| {
            let line = self.body.get(start..*end).unwrap_or_default();
            start = end + 1;
            (*seq, line)
        })
    }
}
