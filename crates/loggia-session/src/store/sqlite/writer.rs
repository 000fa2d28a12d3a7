//! The one thread that writes: takes what is waiting, writes it together, answers everybody. Appends go
//! into the journal, everything else into the tables.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use loggia_core::{Durability, SessionId};
use rusqlite::Transaction;
use tokio::sync::{mpsc, oneshot};

use super::BUSY_TIMEOUT;
use super::append::{AppendJob, Held};
use super::direct::Direct;
use super::journal;
use super::kept::{self, Changing};
use super::lease::{FreshRows, Locks};
use super::pen::Pen;
use super::tables::{Beside, Tables};
use crate::ports::{Document, Lease, Owner, StoreError};

/// Jobs that may wait. Full: the session's writer waits, and with it its agent.
const INBOX: usize = 1024;
/// Jobs committed together at most.
const GROUP: usize = 256;

pub type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub enum Job {
    /// A new owner of a session, which is made if nobody knows it. Locked here, by the thread that
    /// also records it: one way to the writer and one commit, not two.
    Acquire {
        session: SessionId,
        owner: Owner,
        reply: Reply<Lease>,
    },
    Append {
        job: Box<AppendJob>,
        reply: Reply<()>,
    },
    Delete {
        /// Held until it is done: nobody else may write what is being removed.
        lease: Lease,
        reply: Reply<()>,
    },
    Put {
        document: Document,
        reply: Reply<()>,
    },
    Replace {
        expected: Option<String>,
        document: Document,
        reply: Reply<bool>,
    },
    /// Appends are to come: what the first one would wait for is made before it.
    Prepare,
}

/// Where sessions find their row and its lock.
pub struct Places {
    pub locks: Locks,
    pub rows: Arc<FreshRows>,
}

pub struct Writer {
    /// None only while dropping.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(tables: Arc<Tables>, path: &Path, places: Places) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(INBOX);
        let beside = Beside::start(tables.clone())?;
        let file = path.display().to_string();
        let desk = Desk { tables, beside, file, places, pen: Pen::default() };
        let thread = std::thread::Builder::new()
            .name("loggia-store".into())
            .spawn(move || run(desk, inbox))
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub async fn send(&self, job: Job) -> Result<(), StoreError> {
        let stopped = || StoreError::Io("the database writer has stopped".into());
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(job).await.map_err(|_| stopped())
    }

    /// If there is too much to do for it, there are appends already.
    pub fn prepare(&self) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.try_send(Job::Prepare);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It finishes what it was given, then closes the file in order.
            let _ = thread.join();
        }
    }
}

fn run(mut desk: Desk, mut inbox: mpsc::Receiver<Job>) {
    let mut group = Vec::with_capacity(GROUP);
    while let Some(first) = inbox.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(next) = inbox.try_recv()
        {
            group.push(next);
        }
        desk.work(&mut group);
    }
    desk.close();
}

/// Where the thread works.
struct Desk {
    tables: Arc<Tables>,
    beside: Beside,
    /// The database for sentences.
    file: String,
    places: Places,
    pen: Pen,
}

impl Desk {
    /// Does a group of jobs in their order, those beside each other together.
    fn work(&mut self, group: &mut Vec<Job>) {
        let (mut direct, mut ready) = (Vec::new(), None);
        for job in group.drain(..) {
            match job {
                Job::Append { job, reply } if let Some(held) = job.journaled() => {
                    self.commit(&mut direct);
                    // Once for a group: each in it would wait for the same lock, one after the other.
                    if self.pen.own().is_none() && ready == Some(Ok(())) {
                        ready = None; // what was written in between failed
                    }
                    let ready = ready.get_or_insert_with(|| self.make_ready()).clone();
                    match ready.and_then(|()| self.pen.enter(&job, &held)) {
                        Ok(()) => self.pen.promise(held, reply),
                        // Whoever asked may have gone.
                        Err(error) => drop(reply.send(Err(error))),
                    }
                }
                Job::Prepare if self.pen.slot().is_some() => {}
                // An error is for whoever appends, and meets it again.
                Job::Prepare => drop(self.make_ready().map(|()| self.pen.make_room())),
                other => {
                    self.pen.write(&self.tables);
                    direct.push(other);
                }
            }
        }
        self.commit(&mut direct);
        self.pen.write(&self.tables);
        if self.pen.is_worth_settling() || self.tables.are_worth_copying() {
            self.beside.ask();
        }
    }

    /// So that the journal takes more.
    fn make_ready(&mut self) -> Result<(), StoreError> {
        if !self.pen.is_due(&self.tables) {
            return Ok(());
        }
        self.tables.catch_up()?;
        let (tables, pen, locks) = (&self.tables, &mut self.pen, &self.places.locks);
        let (journals, generation, own) =
            (&tables.journals, journal::fresh_generation(), pen.own());
        let (open, abandoned) = (pen.slot(), pen.abandoned());
        let begin = |transaction: &Transaction<'_>| {
            let settling = match journals.settle(transaction, own, None)? {
                Ok(settling) => settling,
                Err(error) => return Ok(Err(error)),
            };
            if let Some(slot) = abandoned {
                if let Err(error) = settling.of_slot(slot) {
                    return Ok(Err(error));
                }
                journals.end(transaction, slot)?;
            }
            let fresh = match open {
                Some(_) => None,
                None => match journals.take_slot(transaction, locks, generation)? {
                    Ok(fresh) => Some(fresh),
                    Err(error) => return Ok(Err(error)),
                },
            };
            if let Some(slot) = open.or(fresh.as_ref().map(|(slot, ..)| *slot)) {
                journals.begin(transaction, slot, &generation)?;
            }
            Ok(Ok(fresh))
        };
        let begun = |fresh| {
            let guard = pen.forget_abandoned();
            if let Some(slot) = abandoned {
                let _ = std::fs::remove_file(journals.path(slot));
            }
            drop(guard);
            pen.begin(generation, fresh);
            tables.set_own(pen.own());
        };
        tables.transact(Durability::Decision, BUSY_TIMEOUT, begin, begun)
    }

    /// Leaves nothing beside the database; the next one settles what is left if this fails. Who has no journal
    /// has no reason to wait for whoever writes now.
    fn close(&mut self) {
        let Some(own) = self.pen.own() else { return };
        let tables = &self.tables;
        let _ = tables.catch_up(); // the rest is said below
        let end = |transaction: &Transaction<'_>| {
            let settled = tables.journals.settle(transaction, Some(own), None)?;
            if settled.is_ok() {
                tables.journals.end(transaction, own.slot)?;
            }
            Ok(settled)
        };
        let ended =
            tables.transact(Durability::Decision, BUSY_TIMEOUT, end, |_| tables.set_own(None));
        let guard = self.pen.put_down();
        if ended.is_ok() {
            let _ = std::fs::remove_file(tables.journals.path(own.slot));
        }
        drop(guard); // after the file: the next one in this slot makes its own
    }

    /// Commits jobs in one transaction, and answers them. A job that is refused (a lost lease) writes nothing
    /// and leaves the others alone; an error of the database fails them all.
    fn commit(&mut self, group: &mut Vec<Job>) {
        if group.is_empty() {
            return;
        }
        let changing =
            group.iter().any(kept::changes_kept).then(|| Changing::begin(&self.places.locks));
        let changing = match changing.transpose() {
            Ok(changing) => changing,
            Err(error) => return fail(group, &error),
        };
        // What changes the log or the lists must find them up to date.
        let settles = !group.iter().all(|job| matches!(job, Job::Put { .. } | Job::Replace { .. }));
        if settles {
            self.tables.note_asked();
            if let Err(error) = self.tables.catch_up() {
                return fail(group, &error);
            }
        }
        let (mut changed, mut results) = (Vec::new(), Vec::with_capacity(group.len()));
        let work = |transaction: &Transaction<'_>| {
            let task = Direct {
                transaction,
                file: &self.file,
                places: &self.places,
                journals: &self.tables.journals,
                own: self.pen.own(),
            };
            if settles && let Err(error) = task.settle()? {
                return Ok(Err(error));
            }
            for job in group.iter() {
                results.push(task.perform(job, &mut changed)?);
            }
            Ok(Ok(()))
        };
        // Synced, whatever it is: what is in a journal later must not be there without it, after a power cut
        // either, also where a session has another owner by then, with another journal.
        let worked = self.tables.transact(Durability::Decision, BUSY_TIMEOUT, work, |()| ());
        // Before the answers: whoever has one finds everybody reading anew.
        drop(changing);
        match worked {
            Ok(()) => {
                drop(changed); // whoever is told may let go of a session, and find it free
                group.drain(..).zip(results).for_each(|(job, result)| answer(job, result));
            }
            Err(error) => {
                changed.iter().for_each(|held: &Arc<Held>| held.lose());
                fail(group, &error);
            }
        }
    }
}

fn fail(group: &mut Vec<Job>, error: &StoreError) {
    for job in group.drain(..) {
        answer(job, Err(error.clone()));
    }
}

/// What a job found out; only the reply's own kind is looked at.
pub enum Done {
    Lease(Lease),
    Replaced(bool),
    Nothing,
}

fn answer(job: Job, result: Result<Done, StoreError>) {
    // Whoever asked may have gone; the work is done all the same.
    match job {
        Job::Acquire { reply, .. } => {
            let _ = reply.send(result.and_then(|done| match done {
                Done::Lease(lease) => Ok(lease),
                Done::Replaced(_) | Done::Nothing => {
                    Err(StoreError::Io("no lease was made".into()))
                }
            }));
        }
        Job::Replace { reply, .. } => {
            let _ = reply.send(result.map(|done| matches!(done, Done::Replaced(true))));
        }
        Job::Delete { lease, reply } => {
            drop(lease);
            let _ = reply.send(result.map(|_| ()));
        }
        Job::Append { reply, .. } | Job::Put { reply, .. } => {
            let _ = reply.send(result.map(|_| ()));
        }
        Job::Prepare => {}
    }
}
