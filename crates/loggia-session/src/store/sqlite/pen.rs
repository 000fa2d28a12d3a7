//! What the writer writes its journal with: the appends that are to be written next, and the file.

use std::sync::Arc;

use loggia_core::Durability;

use super::append::{AppendJob, Held};
use super::io;
use super::journal::{Frame, Generation, Journal};
use super::lease::{Guard, Locks};
use super::settle::{self, Journals, Own};
use super::tables::Tables;
use super::writer::Reply;
use crate::ports::StoreError;

/// Appends after which the tables learn them.
const MANY: usize = 128;
/// Bytes after which a journal begins anew: it must be in the tables by then, for good.
const LONG: u64 = 4 * 1024 * 1024;

#[derive(Default)]
pub struct Pen {
    open: Option<Open>,
    frame: Frame,
    entered: Vec<(Arc<Held>, Reply<()>)>,
    durability: Option<Durability>,
}

struct Open {
    slot: i64,
    guard: Guard,
    journal: Journal,
    appends: usize,
}

impl Pen {
    /// The journal as whoever settles must find it.
    pub fn own(&self) -> Option<Own> {
        self.open.as_ref().map(|open| Own { slot: open.slot, end: open.journal.end() })
    }

    /// Whether there is enough for the tables to learn since they were last told.
    pub fn is_worth_settling(&mut self) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| open.appends >= MANY) else {
            return false;
        };
        open.appends = 0;
        true
    }

    /// Whether the journal has to begin anew before more is written; there may be none yet.
    pub fn is_due(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.journal.end() >= LONG)
    }

    /// The slot whose journal is to begin with this generation. It does with [`Self::begin`].
    pub fn slot(
        &self,
        locks: &Locks,
        journals: &Journals,
        generation: Generation,
    ) -> Result<(i64, Option<(Guard, Journal)>), StoreError> {
        if let Some(open) = &self.open {
            return Ok((open.slot, None));
        }
        let (slot, guard) = settle::take_slot(locks)?;
        let path = journals.path(slot);
        let journal = Journal::open(&path, generation).map_err(|error| io(&path, &error))?;
        Ok((slot, Some((guard, journal))))
    }

    pub fn begin(&mut self, slot: i64, fresh: Option<(Guard, Journal)>, generation: Generation) {
        match (fresh, &mut self.open) {
            (Some((guard, journal)), open) => {
                *open = Some(Open { slot, guard, journal, appends: 0 });
            }
            (None, Some(open)) => {
                open.journal.begin_anew(generation);
                open.appends = 0;
            }
            (None, None) => {}
        }
    }

    /// The slot is given back with its lock.
    pub fn put_down(&mut self) -> Option<Guard> {
        self.open.take().map(|open| open.guard)
    }

    /// Adds an append to the next frame, or says why it may not be.
    pub fn enter(&mut self, job: &AppendJob, held: &Held) -> Result<(), StoreError> {
        job.enter(held, self.frame.content())?;
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
                let written = open.journal.write(&mut self.frame, durability);
                written.map_err(|error| io(&tables.journals.path(open.slot), &error))
            }
            None => Err(StoreError::Io("there is no journal".into())),
        };
        if written.is_err() {
            // What is in the file is found out by whoever settles it; another one is begun.
            self.open = None;
            self.frame = Frame::default();
        }
        // Before the answers: whoever has one may ask for what was written.
        tables.set_own(self.own());
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
