//! Which sessions are open in this process, who holds them, and which of them may be closed.
//!
//! An open session costs memory and a lease, so one that nobody uses is closed: its writer stops,
//! its log stays, and the next who asks opens it again. *Idle* is a session without an open turn
//! and without waiting prompts that nobody outside the hub holds a handle or a follower of.
//!
//! Nobody is ever given a session that is about to close. Handles are given out under the same
//! lock under which it is decided that a session is closed, and it is only closed while its writer
//! rests and no [`Hold`] exists: a command on its way always has a handle behind it.
//!
//! A writer that comes to rest and the last hold that is let go say so, and whoever says it closes
//! those that are too many. For the others' time there is one sleeper for all of them, which ends
//! when nobody is idle.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use loggia_core::{Seq, SessionId};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::actor::Actor;
use crate::actor::bed::Bed;
use crate::handle::{Line, SessionHandle};
use crate::ports::StoreError;

/// When a session that nobody uses is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// After so much time in which nobody used it.
    pub after: Duration,
    /// At once where there are more of them: the one that was used longest ago first.
    pub most: usize,
    /// The same for those whose log is [`SHORT`]. They are opened again in a moment, and what they hold
    /// is better given to the next session while the processor still has it at hand.
    pub most_short: usize,
}

/// Events of a log that is read in a moment.
const SHORT: Seq = Seq(64);

impl Default for Idle {
    fn default() -> Self {
        Self { after: Duration::from_secs(60), most: 512, most_short: 8 }
    }
}

pub(crate) struct Seats {
    limits: Idle,
    /// A lock, not a task: held for a few look-ups, never across an await.
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<SessionId, Entry>,
    idle: Row,
    turns: u64,
    /// Somebody sleeps until the first of them has had its time.
    slept_for: bool,
    /// Sessions that stopped because their log could not grow, until they are opened again.
    failed: HashMap<SessionId, StoreError>,
}

/// Failures that are remembered. Beyond, a turn is told to be interrupted, without the reason.
const FAILURES: usize = 1024;

/// The idle sessions, those with a short log apart.
#[derive(Default)]
struct Row {
    short: BTreeMap<u64, SessionId>,
    long: BTreeMap<u64, SessionId>,
}

impl Row {
    fn side(&mut self, short: bool) -> &mut BTreeMap<u64, SessionId> {
        if short { &mut self.short } else { &mut self.long }
    }

    fn remove(&mut self, waiting: Waiting) {
        self.side(waiting.short).remove(&waiting.place);
    }

    /// The one that was used longest ago.
    fn first(&self) -> Option<&SessionId> {
        let (short, long) = (self.short.first_key_value(), self.long.first_key_value());
        let first = short.into_iter().chain(long).min_by_key(|(place, _)| **place);
        first.map(|(_, session)| session)
    }

    fn pop_first(&mut self) -> Option<SessionId> {
        let place =
            |side: &BTreeMap<u64, SessionId>| side.first_key_value().map(|(place, _)| *place);
        let short = match (place(&self.short), place(&self.long)) {
            (Some(short), Some(long)) => short < long,
            (short, _) => short.is_some(),
        };
        self.side(short).pop_first().map(|(_, session)| session)
    }

    /// One that is too many.
    fn pop_excess(&mut self, limits: Idle) -> Option<SessionId> {
        let short = self.short.len() > limits.most_short;
        let excess = short || self.short.len() + self.long.len() > limits.most;
        match short {
            true => self.short.pop_first().map(|(_, session)| session),
            false => excess.then(|| self.pop_first())?,
        }
    }
}

struct Entry {
    /// One place: two openers of one session wait for one opening.
    door: Arc<Semaphore>,
    seat: Option<Seat>,
}

impl Default for Entry {
    fn default() -> Self {
        Self { door: Arc::new(Semaphore::new(1)), seat: None }
    }
}

/// One opening of a session. Its bed tells it from the next.
struct Seat {
    line: Arc<Line>,
    hold: Weak<Hold>,
    idle: Option<Waiting>,
}

#[derive(Clone, Copy)]
struct Waiting {
    place: u64,
    until: Instant,
    short: bool,
}

/// Where one opening of a session is known.
#[derive(Clone)]
pub(crate) struct Place {
    seats: Weak<Seats>,
    session: SessionId,
    bed: Weak<Bed>,
}

impl Place {
    /// The writer rests, or the last hold is gone: perhaps nobody uses the session any more.
    pub fn is_resting(&self) {
        if let Some(seats) = self.seats.upgrade() {
            seats.lie_down(&self.session, &self.bed);
        }
    }
}

impl Place {
    /// The session stops, because its log cannot grow.
    pub fn failed(&self, error: &StoreError) {
        let Some(seats) = self.seats.upgrade() else { return };
        let mut table = seats.table();
        if table.failed.len() < FAILURES {
            table.failed.insert(self.session.clone(), error.clone());
        }
    }
}

/// Somebody outside the hub uses the session. Shared by all clones of their handles.
pub(crate) struct Hold {
    place: Place,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.place.is_resting();
    }
}

/// What somebody finds who wants a session.
pub(crate) enum Claim {
    Open(SessionHandle),
    /// It stops, or is closing; free once this is gone.
    Leaving(Arc<Line>),
    Absent(Door),
}

/// The right to wait for, and then to do, the opening of a session.
pub(crate) struct Door {
    seats: Weak<Seats>,
    session: SessionId,
    door: Arc<Semaphore>,
}

impl Door {
    /// None: the door is closed, which it never is.
    pub async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        self.door.acquire().await.ok()
    }
}

impl Drop for Door {
    /// Also when the opener was cancelled: an entry without a session is of use to those who wait.
    fn drop(&mut self) {
        let Some(seats) = self.seats.upgrade() else { return };
        let mut table = seats.table();
        // The entry's own and this one.
        let last = |entry: &Entry| {
            entry.seat.is_none()
                && Arc::ptr_eq(&entry.door, &self.door)
                && Arc::strong_count(&self.door) == 2
        };
        if table.entries.get(&self.session).is_some_and(last) {
            table.entries.remove(&self.session);
        }
    }
}

impl Seats {
    pub fn new(limits: Idle) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default() })
    }

    /// The session if it is open, or the right to open it.
    pub fn claim(self: &Arc<Self>, session: &SessionId) -> Claim {
        let mut table = self.table();
        let Table { entries, idle, .. } = &mut *table;
        let entry = entries.entry(session.clone()).or_default();
        match &mut entry.seat {
            Some(seat) if !seat.line.is_stopped() => {
                Claim::Open(seat.take(Arc::downgrade(self), idle))
            }
            Some(seat) if !seat.line.is_gone() => Claim::Leaving(seat.line.clone()),
            Some(_) | None => {
                entry.seat = None;
                let (seats, session) = (Arc::downgrade(self), session.clone());
                Claim::Absent(Door { seats, session, door: entry.door.clone() })
            }
        }
    }

    /// Why the last opening of a session in this process stopped, if its log could not grow.
    pub fn failure_of(&self, session: &SessionId) -> Option<StoreError> {
        self.table().failed.get(session).cloned()
    }

    pub fn forget_failure(&self, session: &SessionId) {
        self.table().failed.remove(session);
    }

    pub fn is_absent(&self, session: &SessionId) -> bool {
        let table = self.table();
        let seat = table.entries.get(session).and_then(|entry| entry.seat.as_ref());
        seat.is_none_or(|seat| seat.line.is_gone())
    }

    /// Makes a new opening known. Its writer may begin after this, not before.
    pub fn sit(self: &Arc<Self>, line: Line) -> SessionHandle {
        let session = line.id.clone();
        let mut seat = Seat { line: Arc::new(line), hold: Weak::new(), idle: None };
        let mut table = self.table();
        let Table { entries, idle, .. } = &mut *table;
        let handle = seat.take(Arc::downgrade(self), idle);
        entries.entry(session).or_default().seat = Some(seat);
        handle
    }

    /// Takes a session out, for whoever wants to stop it.
    pub fn remove(&self, session: &SessionId) -> Option<Arc<Line>> {
        let mut table = self.table();
        let seat = table.entries.get_mut(session)?.seat.take()?;
        if let Some(waiting) = seat.idle {
            table.idle.remove(waiting);
        }
        Some(seat.line)
    }

    pub fn remove_all(&self) -> Vec<Arc<Line>> {
        let mut table = self.table();
        table.idle = Row::default();
        table.entries.drain().filter_map(|(_, entry)| entry.seat).map(|seat| seat.line).collect()
    }

    /// How many sessions are open here.
    pub fn count(&self) -> usize {
        self.table().entries.values().filter(|entry| entry.seat.is_some()).count()
    }

    /// Puts a session among the idle ones if it is one, and closes the first of too many.
    fn lie_down(self: &Arc<Self>, session: &SessionId, bed: &Weak<Bed>) {
        let mut table = self.table();
        let place = table.turns + 1;
        let Some(seat) = table.seat(session, bed) else { return };
        let used = seat.hold.strong_count() > 0 || seat.line.is_stopped();
        if used || seat.idle.is_some() || !seat.line.bed.is_taken() {
            return;
        }
        let (until, short) = (Instant::now() + self.limits.after, seat.line.log.head() <= SHORT);
        seat.idle = Some(Waiting { place, until, short });
        let home = seat.line.bed.home().clone();
        table.turns = place;
        table.idle.side(short).insert(place, session.clone());
        let mut closing = Vec::new();
        while let Some(excess) = table.idle.pop_excess(self.limits) {
            closing.extend(table.shut(&excess));
        }
        if table.idle.first().is_some() && !std::mem::replace(&mut table.slept_for, true) {
            home.spawn(sleep_for(Arc::downgrade(self)));
        }
        // Not under the lock: each gives its seat up by itself.
        drop(table);
        closing.into_iter().for_each(|writer| writer.close(&home));
    }

    /// Closes the idle sessions whose time has come. When to look again, if any are left.
    fn wake_up(&self, home: &Handle) -> Option<Instant> {
        let mut table = self.table();
        let mut closing = Vec::new();
        let next = loop {
            let first = table.idle.first();
            let seat = first.and_then(|first| table.entries.get(first)?.seat.as_ref());
            let until = seat.and_then(|seat| seat.idle).map(|waiting| waiting.until);
            match until {
                Some(until) if Instant::now() < until => break Some(until),
                _ => match table.idle.pop_first() {
                    Some(first) => closing.extend(table.shut(&first)),
                    None => break None,
                },
            }
        };
        table.slept_for = next.is_some();
        drop(table);
        closing.into_iter().for_each(|writer| writer.close(home));
        next
    }

    /// The writer is gone. Whoever opens the session next has a seat of their own.
    fn leave(&self, session: &SessionId, bed: &Weak<Bed>) {
        let mut table = self.table();
        let Table { entries, idle, .. } = &mut *table;
        let hash_map::Entry::Occupied(mut entry) = entries.entry(session.clone()) else { return };
        let Some(seat) = entry.get_mut().seat.take_if(|seat| seat.is_of(bed)) else { return };
        if let Some(waiting) = seat.idle {
            idle.remove(waiting);
        }
        if Arc::strong_count(&entry.get().door) == 1 {
            entry.remove();
        }
        // Not under the lock: with it may go what is left of the session.
        drop(table);
        drop(seat);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until nobody is idle, or the hub is gone.
async fn sleep_for(seats: Weak<Seats>) {
    let home = Handle::current();
    while let Some(until) = seats.upgrade().and_then(|seats| seats.wake_up(&home)) {
        tokio::time::sleep_until(until).await;
    }
}

impl Table {
    fn seat(&mut self, session: &SessionId, bed: &Weak<Bed>) -> Option<&mut Seat> {
        let seat = self.entries.get_mut(session)?.seat.as_mut();
        seat.filter(|seat| seat.is_of(bed))
    }

    /// The writer of a session that was idle, which nobody can reach any more.
    fn shut(&mut self, session: &SessionId) -> Option<Box<Actor>> {
        let seat = self.entries.get_mut(session)?.seat.as_mut()?;
        seat.idle = None;
        let mut writer = seat.line.bed.take()?;
        writer.shut();
        Some(writer)
    }
}

impl Seat {
    fn is_of(&self, bed: &Weak<Bed>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.line.bed), bed.as_ptr())
    }

    /// A handle for somebody outside, which keeps the session from being idle.
    fn take(&mut self, seats: Weak<Seats>, idle: &mut Row) -> SessionHandle {
        if let Some(waiting) = self.idle.take() {
            idle.remove(waiting);
        }
        let hold = self.hold.upgrade().unwrap_or_else(|| {
            let (session, bed) = (self.line.id.clone(), Arc::downgrade(&self.line.bed));
            Arc::new(Hold { place: Place { seats, session, bed } })
        });
        self.hold = Arc::downgrade(&hold);
        SessionHandle { line: self.line.clone(), hold }
    }
}

/// The writer's side of its seat. Dropped after everything else the writer has, it gives the seat
/// up.
pub(crate) struct Presence {
    place: Place,
}

impl Presence {
    pub fn new(seats: &Arc<Seats>, session: SessionId, bed: &Arc<Bed>) -> Self {
        let (seats, bed) = (Arc::downgrade(seats), Arc::downgrade(bed));
        Self { place: Place { seats, session, bed } }
    }

    pub fn place(&self) -> Place {
        self.place.clone()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let Place { seats, session, bed } = &self.place;
        if let Some(seats) = seats.upgrade() {
            seats.leave(session, bed);
        }
    }
}
