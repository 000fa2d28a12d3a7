//! An append: its records as they stand in the file, the chain of their sums, and its note for the lists.
//!
//! What the session's last append left is known to the lease under which this one is made, so that
//! nothing has to be looked up: while the lease lives, nobody else writes the session.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use loggia_core::{Durability, Envelope, Seq, SessionId};
use rusqlite::{OptionalExtension, Transaction, params};

use super::lease::Guard;
use super::notes::{self, Note};
use super::read;
use crate::ports::{Append, Document, Lease, Owner, StoreError};
use crate::store::checksum::{self, Sum};

/// What the store keeps of a lease. An append looks at it inside of its transaction. If the lease is
/// there, nobody else has the session, and whoever takes it later, in any process, does so in a
/// transaction of their own, behind this one.
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

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, known: Known) -> Known {
        let mut place = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, known)
    }
}

/// Takes back what leases were told of appends that were not committed after all.
#[derive(Default)]
pub struct Undo(Vec<(Weak<Held>, Known)>);

impl Undo {
    pub fn all(self) {
        for (held, known) in self.0.into_iter().rev() {
            if let Some(held) = held.upgrade() {
                held.set(known);
            }
        }
    }
}

/// An append with its records encoded by the caller, so that the one writer only writes.
pub struct AppendJob {
    row: i64,
    epoch: u64,
    /// Gone with the lease, and never there for one that this store did not give.
    held: Weak<Held>,
    expected: Seq,
    records: Records,
    pub durability: Durability,
    note: Note,
    pub documents: Vec<Document>,
}

impl AppendJob {
    pub fn encode(lease: &Lease, append: Append) -> Result<Self, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Io(error.to_string());
        let Append { expected, events, durability, summary, tasks, documents } = append;
        let records = Records::encode(&events).map_err(encode)?;
        let note = Note {
            id: lease.session.clone(),
            begun: None,
            head: records.head().unwrap_or(expected).0,
            updated: summary.updated.0,
            summary: serde_json::to_string(&summary).map_err(encode)?,
            tasks: tasks.into_iter().map(Into::into).collect(),
        };
        let held = lease.guard.clone().downcast().map(|held| Arc::downgrade(&held));
        let held = held.unwrap_or_default();
        let (row, epoch) = (lease.row, lease.epoch);
        Ok(Self { row, epoch, held, expected, records, durability, note, documents })
    }

    /// Writes the append into a transaction, or says why it may not be.
    pub fn write(
        &mut self,
        transaction: &Transaction<'_>,
        file: &str,
        undo: &mut Undo,
    ) -> Result<Result<(), StoreError>, rusqlite::Error> {
        let held = self.held.upgrade();
        let known = held.as_deref().map(Held::known);
        let last = match known {
            Some(Known::Ends(last)) => Ok(last),
            Some(Known::Begins(owner)) => self.begin(owner, transaction)?,
            None => self.looked_up(transaction, file)?,
        };
        let last = match last {
            Ok(last) => last,
            Err(refused) => return Ok(Err(refused)),
        };
        if last.head != self.expected {
            return Ok(Err(self.conflict(last.head)));
        }
        let chained = Chained::new(last, &self.records);
        if let Some((first, _)) = self.records.ends.first() {
            transaction
                .prepare_cached(
                    "INSERT INTO events (session, seq, body, sum) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![self.row, first.0, self.records.body, chained.sums])?;
        }
        notes::leave(transaction, self.row, &chained.last.sum, &self.note)?;
        if let Some(held) = held {
            undo.0.push((self.held.clone(), held.set(Known::Ends(chained.last))));
        }
        Ok(Ok(()))
    }

    /// For a session that is made by this append, which nobody may have made before.
    fn begin(
        &mut self,
        owner: Owner,
        transaction: &Transaction<'_>,
    ) -> Result<Result<Last, StoreError>, rusqlite::Error> {
        let known: Option<u64> = transaction
            .prepare_cached("SELECT head FROM sessions WHERE id = ?1")?
            .query_row([self.note.id.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(head) = known {
            return Ok(Err(self.conflict(Seq(head))));
        }
        self.note.begun = Some((self.epoch, owner));
        Ok(Ok(Last { head: Seq::ZERO, sum: checksum::origin(&self.note.id) }))
    }

    /// For a lease that knows nothing: what the lists say, once they know everything.
    fn looked_up(
        &self,
        transaction: &Transaction<'_>,
        file: &str,
    ) -> Result<Result<Last, StoreError>, rusqlite::Error> {
        if let Err(damage) = notes::learn(transaction, file)? {
            return Ok(Err(damage));
        }
        let session = &self.note.id;
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
        let (session, expected) = (self.note.id.clone(), self.expected);
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
                body.push(read::END_OF_RECORD);
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
