//! An append: its records as they stand in the file, the chain of their sums, and what the lists have to know.
//!
//! What the session's last append left is known to the lease under which this one is made, so that
//! nothing has to be looked up: while the lease lives, nobody else writes the session.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use loggia_core::{Durability, Envelope, Seq, SessionId};
use rusqlite::{OptionalExtension, Transaction, params};

use super::apply::apply;
use super::chain::END_OF_RECORD;
use super::entry::{Entry, Note};
use super::lease::Guard;
use crate::ports::{Append, Document, Lease, Owner, StoreError};
use crate::store::checksum::{self, Sum};

/// What the store keeps of a lease. Whoever appends has it in their hands until the append is written: as
/// long as it is there, the lock is, and nobody else has the session, in any process. Who takes it later looks
/// at what was written after the lock is theirs.
pub struct Held {
    _lock: Guard,
    /// A lock, not a task: the writer's own, for a look and a change.
    known: Mutex<Known>,
}

/// What a lease knows of its session.
#[derive(Clone)]
enum Known {
    /// The first append makes it, for this owner.
    Begins(Owner),
    Ends(Last),
    /// An append failed, and may be there all the same.
    Lost,
}

/// The end of a session's log.
#[derive(Clone, Copy)]
pub struct Last {
    pub head: Seq,
    pub sum: Sum,
}

impl Held {
    pub fn existing(lock: Guard, last: Last) -> Self {
        Self { _lock: lock, known: Mutex::new(Known::Ends(last)) }
    }

    pub fn begun(lock: Guard, owner: Owner) -> Self {
        Self { _lock: lock, known: Mutex::new(Known::Begins(owner)) }
    }

    /// Nothing can be appended under this lease any more; the next one finds out what there is.
    pub fn lose(&self) {
        self.set(Known::Lost);
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

/// An append with its records encoded by the caller, so that the one writer only writes.
pub struct AppendJob {
    session: SessionId,
    row: i64,
    epoch: u64,
    /// Gone with the lease, and never there for one that another kind of store gave.
    held: Weak<Held>,
    expected: Seq,
    records: Records,
    pub durability: Durability,
    note: Vec<u8>,
    summary: String,
    pub documents: Vec<Document>,
}

impl AppendJob {
    pub fn encode(lease: &Lease, append: Append) -> Result<Self, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Io(error.to_string());
        let Append { expected, events, durability, summary, tasks, documents } = append;
        let records = Records::encode(&events).map_err(encode)?;
        let held = lease.guard.clone().downcast::<Held>().ok();
        let begun = held.as_deref().and_then(|held| match held.known() {
            Known::Begins(owner) => Some(owner),
            Known::Ends(_) | Known::Lost => None,
        });
        let (session, row, epoch) = (lease.session.clone(), lease.row, lease.epoch);
        let note = Note {
            id: session.clone(),
            epoch,
            begun,
            head: records.head().unwrap_or(expected).0,
            updated: summary.updated.0,
            tasks: tasks.into_iter().map(Into::into).collect(),
        };
        let note = serde_json::to_vec(&note).map_err(encode)?;
        let summary = serde_json::to_string(&summary).map_err(encode)?;
        let held = held.as_ref().map(Arc::downgrade).unwrap_or_default();
        Ok(Self {
            session,
            row,
            epoch,
            held,
            expected,
            records,
            durability,
            note,
            summary,
            documents,
        })
    }

    /// The lease, if the append can go into a journal: that knows nothing of documents, and of a lease
    /// only what the lease itself knows.
    pub fn journaled(&self) -> Option<Arc<Held>> {
        self.documents.is_empty().then(|| self.held.upgrade()).flatten()
    }

    /// Adds it to what is written next, or says why it may not be.
    pub fn enter(&self, held: &Held, to: &mut Vec<u8>) -> Result<(), StoreError> {
        let chained = Chained::new(self.follows(held)?, &self.records);
        self.entry(&chained).write(to);
        held.set(Known::Ends(chained.last));
        Ok(())
    }

    /// Writes it into the tables, which must be up to date, or says why it may not be.
    pub fn write(
        &self,
        transaction: &Transaction<'_>,
        file: &str,
    ) -> Result<Result<Option<Arc<Held>>, StoreError>, rusqlite::Error> {
        let held = self.held.upgrade();
        let last = match held.as_deref() {
            Some(held) => self.follows(held),
            None => self.looked_up(transaction, file)?,
        };
        let last = match last {
            Ok(last) if last.head == self.expected => last,
            Ok(last) => return Ok(Err(self.conflict(last.head))),
            Err(refused) => return Ok(Err(refused)),
        };
        let chained = Chained::new(last, &self.records);
        let note = serde_json::from_slice(&self.note)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        if !apply(transaction, vec![(self.entry(&chained), note)])?.is_empty() {
            return Ok(Err(self.conflict(last.head)));
        }
        if let Some(held) = held.as_deref() {
            held.set(Known::Ends(chained.last));
        }
        Ok(Ok(held))
    }

    fn entry<'a>(&'a self, chained: &'a Chained) -> Entry<'a> {
        Entry {
            row: self.row,
            first: self.expected.next().0,
            sum: chained.last.sum,
            note: &self.note,
            summary: &self.summary,
            body: &self.records.body,
            sums: &chained.sums,
        }
    }

    /// The end of the log as the lease knows it, if the append goes on from there.
    fn follows(&self, held: &Held) -> Result<Last, StoreError> {
        let last = match held.known() {
            Known::Ends(last) => last,
            Known::Begins(_) => Last { head: Seq::ZERO, sum: checksum::origin(&self.session) },
            Known::Lost => {
                let session = &self.session;
                let sentence = format!("session {session} must be opened again: its log failed");
                return Err(StoreError::Io(sentence));
            }
        };
        if last.head == self.expected { Ok(last) } else { Err(self.conflict(last.head)) }
    }

    /// For a lease that knows nothing: what the lists say.
    fn looked_up(
        &self,
        transaction: &Transaction<'_>,
        file: &str,
    ) -> Result<Result<Last, StoreError>, rusqlite::Error> {
        let session = &self.session;
        let state: Option<(u64, u64, Vec<u8>)> = transaction
            .prepare_cached("SELECT epoch, head, sum FROM sessions WHERE row = ?1 AND id = ?2")?
            .query_row(params![self.row, session.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        Ok(match state {
            None => Err(StoreError::Unknown(session.clone())),
            Some((epoch, head, _)) if epoch != self.epoch => Err(self.conflict(Seq(head))),
            Some((_, head, sum)) => Last::read(session, Seq(head), sum, file),
        })
    }

    fn conflict(&self, found: Seq) -> StoreError {
        let (session, expected) = (self.session.clone(), self.expected);
        StoreError::Conflict { session, expected, found }
    }
}

impl Last {
    pub fn read(
        session: &SessionId,
        head: Seq,
        sum: Vec<u8>,
        file: &str,
    ) -> Result<Self, StoreError> {
        let sum = Sum::try_from(sum).map_err(|_| StoreError::Corrupt {
            session: session.clone(),
            seq: head,
            file: file.to_owned(),
            detail: "the sum of its last event is not readable".into(),
        })?;
        Ok(Self { head, sum })
    }
}

/// The records of an append as they stand in the file: a line each.
struct Records {
    body: Vec<u8>,
    /// The number of each, and where its line ends.
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

    fn head(&self) -> Option<Seq> {
        self.ends.last().map(|(seq, _)| *seq)
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

/// The records of an append as links of the session's chain.
struct Chained {
    sums: Vec<u8>,
    last: Last,
}

impl Chained {
    fn new(before: Last, records: &Records) -> Self {
        let sums = Vec::with_capacity(records.ends.len() * size_of::<Sum>());
        let mut chained = Self { sums, last: before };
        for (seq, record) in records.iter() {
            let sum = checksum::next(&chained.last.sum, seq, record);
            chained.last = Last { head: seq, sum };
            chained.sums.extend(sum);
        }
        chained
    }
}
