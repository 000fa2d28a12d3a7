//! What the writer writes its journal with: the appends that are to be written next, and the file.

use std::sync::Arc;

use loggia_core::Durability;

use super::append::{AppendJob, Held};
use super::io;
use super::journal::{Generation, Journal, Sheet};
use super::lease::Guard;
use super::settle::Own;
use super::tables::Tables;
use super::writer::Reply;
use crate::ports::StoreError;

/// Appends after which the tables are told that there are some, and bytes.
const MANY: usize = 128;
const MUCH: u64 = 512 * 1024;
/// Bytes after which a journal begins anew where the tables know almost all of it: for that they must have it for
/// good, and everybody waits.
const LONG: u64 = 4 * 1024 * 1024;
/// Bytes after which it begins anew in any case.
pub const LONGEST: u64 = 64 * 1024 * 1024;

#[derive(Default)]
pub struct Pen {
    open: Option<Open>,
    sheet: Sheet,
    entered: Vec<(Arc<Held>, Reply<()>)>,
    durability: Option<Durability>,
    /// The slot of a journal that could not be written: what is in it must be in the tables before there is another.
    abandoned: Option<(i64, Guard)>,
}

struct Open {
    slot: i64,
    guard: Guard,
    journal: Journal,
    /// Since the tables were told: appends, and from where.
    appends: usize,
    told: u64,
}

impl Pen {
    /// The journal as whoever settles must find it.
    pub fn own(&self) -> Option<Own> {
        self.open.as_ref().map(|open| {
            let (generation, end) = (open.journal.generation(), open.journal.end());
            Own { slot: open.slot, generation, end }
        })
    }

    /// Whether there is enough for the tables to learn since they were last told.
    pub fn is_worth_settling(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        let end = open.journal.end();
        let is_worth = open.appends >= MANY || end.saturating_sub(open.told) >= MUCH;
        if is_worth {
            (open.appends, open.told) = (0, end);
        }
        is_worth
    }

    /// For many appends that are to come. Without the room for them the first ones may fit all the same.
    pub fn make_room(&mut self) {
        if let Some(open) = &mut self.open {
            let _ = open.journal.make_room(MUCH);
        }
    }

    /// Whether the journal has to begin anew before more is written; there may be none yet.
    pub fn is_due(&self, tables: &Tables) -> bool {
        self.open.as_ref().is_none_or(|open| match open.journal.end() {
            ..LONG => false,
            LONG..LONGEST => !tables.are_far_behind(),
            LONGEST.. => true,
        })
    }

    /// The slot of the journal that is open.
    pub fn slot(&self) -> Option<i64> {
        self.open.as_ref().map(|open| open.slot)
    }

    /// The slot of a journal that was given up.
    pub fn abandoned(&self) -> Option<i64> {
        self.abandoned.as_ref().map(|(slot, _)| *slot)
    }

    /// It is in the tables. Its lock is to be held until its file is gone.
    pub fn forget_abandoned(&mut self) -> Option<Guard> {
        self.abandoned.take().map(|(_, guard)| guard)
    }

    /// The database knows that a journal of this generation begins now: another one, or the one that is open.
    pub fn begin(&mut self, generation: Generation, fresh: Option<(i64, Guard, Journal)>) {
        if let Some((slot, guard, journal)) = fresh {
            self.open = Some(Open { slot, guard, journal, appends: 0, told: 0 });
        } else if let Some(open) = &mut self.open {
            open.journal.begin_anew(generation);
            (open.appends, open.told) = (0, 0);
        }
    }

    /// The slot is given back with its lock.
    pub fn put_down(&mut self) -> Option<Guard> {
        self.open.take().map(|open| open.guard)
    }

    /// Adds an append to the next sheet, or says why it may not be.
    pub fn enter(&mut self, job: &AppendJob, held: &Held) -> Result<(), StoreError> {
        job.enter(held, self.sheet.content())?;
        self.durability = self.durability.max(Some(job.durability));
        Ok(())
    }

    /// Who is told when it is written.
    pub fn promise(&mut self, held: Arc<Held>, reply: Reply<()>) {
        self.entered.push((held, reply));
    }

    /// Writes what was entered, and answers.
    pub fn write(&mut self, tables: &Tables) {
        let Some(durability) = self.durability.take() else { return };
        let written = match &mut self.open {
            Some(open) => {
                open.appends += self.entered.len();
                let written = open.journal.write(&mut self.sheet, durability);
                written.map_err(|error| io(&tables.journals.path(open.slot), &error))
            }
            None => Err(StoreError::Io("there is no journal".into())),
        };
        // Before the answers: whoever has one may ask for what was written. After an error what is in the file is
        // found out by whoever settles it, and another one is begun.
        tables.set_own(self.own().filter(|_| written.is_ok()));
        if written.is_err() {
            let given_up = self.open.take().map(|open| (open.slot, open.guard));
            self.abandoned = given_up.or(self.abandoned.take());
            self.sheet = Sheet::default();
        }
        for (held, reply) in self.entered.drain(..) {
            if written.is_err() {
                held.lose();
            }
            // Whoever is told may let go of the session, and find it free.
            drop(held);
            let _ = reply.send(written.clone());
        }
    }
}
