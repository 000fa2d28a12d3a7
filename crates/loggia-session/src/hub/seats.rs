//! Which sessions are open in this process, who holds them, and which of them may be closed.
//!
//! An open session costs memory and a lease, so one that nobody uses is closed: its writer stops,
//! its log stays, and the next who asks opens it again. *Idle* is a session without an open turn
//! and without waiting prompts that nobody outside the hub holds a handle or a follower of.
//!
//! Nobody is ever given a session that is about to close. Handles are given out under the same
//! lock under which the writer decides to leave, and the writer leaves only while no [`Hold`]
//! exists and nothing waits in its inbox: a command on its way always has a handle behind it.
//!
//! Nothing here looks around from time to time. The writer says when it comes to rest, the last
//! hold says when it is let go, and a writer that is idle sleeps until its time has come.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use loggia_core::SessionId;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::handle::{Line, SessionHandle};

/// When a session that nobody uses is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// After so much time in which nobody used it.
    pub after: Duration,
    /// At once where there are more of them: the one that was used longest ago first.
    pub most: usize,
}

impl Default for Idle {
    fn default() -> Self {
        Self { after: Duration::from_secs(60), most: 512 }
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
    /// The idle sessions, the one that was used longest ago first.
    idle: BTreeMap<u64, SessionId>,
    turns: u64,
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

/// One opening of a session. `bell` wakes its writer, and tells this opening from the next.
struct Seat {
    line: Line,
    bell: Arc<Notify>,
    hold: Weak<Hold>,
    /// The writer has nothing to do.
    resting: bool,
    idle: Option<Waiting>,
    /// The writer will look at the time without being woken.
    armed: bool,
}

#[derive(Clone, Copy)]
struct Waiting {
    place: u64,
    until: Instant,
}

/// Somebody outside the hub uses the session. Shared by all clones of their handles.
pub(crate) struct Hold {
    seats: Weak<Seats>,
    session: SessionId,
    bell: Arc<Notify>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(seats) = self.seats.upgrade() {
            seats.let_go(&self.session, &self.bell);
        }
    }
}

/// What somebody finds who wants a session.
pub(crate) enum Claim {
    Open(SessionHandle),
    /// It stops, or is closing; free once this is gone.
    Leaving(Line),
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

/// What a writer that looks at the time finds.
enum Due {
    Leave,
    /// Not yet, or not at all.
    At(Option<Instant>),
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

    pub fn is_absent(&self, session: &SessionId) -> bool {
        let table = self.table();
        let seat = table.entries.get(session).and_then(|entry| entry.seat.as_ref());
        seat.is_none_or(|seat| seat.line.is_gone())
    }

    /// Makes a new opening known. Its writer may begin after this, not before.
    pub fn sit(self: &Arc<Self>, line: Line, presence: &Presence) -> SessionHandle {
        let mut seat = Seat {
            line,
            bell: presence.bell.clone(),
            hold: Weak::new(),
            resting: false,
            idle: None,
            armed: false,
        };
        let mut table = self.table();
        let Table { entries, idle, .. } = &mut *table;
        let handle = seat.take(Arc::downgrade(self), idle);
        entries.entry(presence.session.clone()).or_default().seat = Some(seat);
        handle
    }

    /// Takes a session out, for whoever wants to stop it.
    pub fn remove(&self, session: &SessionId) -> Option<Line> {
        let mut table = self.table();
        let seat = table.entries.get_mut(session)?.seat.take()?;
        if let Some(waiting) = seat.idle {
            table.idle.remove(&waiting.place);
        }
        Some(seat.line)
    }

    pub fn remove_all(&self) -> Vec<Line> {
        let mut table = self.table();
        table.idle.clear();
        table.entries.drain().filter_map(|(_, entry)| entry.seat).map(|seat| seat.line).collect()
    }

    /// How many sessions are open here.
    pub fn count(&self) -> usize {
        self.table().entries.values().filter(|entry| entry.seat.is_some()).count()
    }

    /// The last hold was let go, unless somebody has taken a new one since.
    fn let_go(&self, session: &SessionId, bell: &Arc<Notify>) {
        let mut table = self.table();
        if table.lie_down(session, bell, self.limits).is_none() {
            return;
        }
        if let Some(seat) = table.seat(session, bell)
            && !std::mem::replace(&mut seat.armed, true)
        {
            seat.bell.notify_one();
        }
    }

    /// The writer has come to rest, or has something to do. Until when it may stay, if it is idle.
    fn rest(&self, session: &SessionId, bell: &Arc<Notify>, resting: bool) -> Option<Instant> {
        let mut table = self.table();
        let seat = table.seat(session, bell)?;
        seat.resting = resting;
        let until = match resting {
            true => table.lie_down(session, bell, self.limits),
            false => {
                table.get_up(session, bell);
                None
            }
        };
        table.seat(session, bell)?.armed = until.is_some();
        until
    }

    /// The writer's time may have come. `close` closes its inbox, unless something waits there.
    fn due(&self, session: &SessionId, bell: &Arc<Notify>, close: impl FnOnce() -> bool) -> Due {
        let mut table = self.table();
        let Some(seat) = table.seat(session, bell) else { return Due::At(None) };
        let idle = seat.idle.filter(|_| seat.resting && seat.hold.strong_count() == 0);
        seat.armed = idle.is_some();
        let Some(waiting) = idle else { return Due::At(None) };
        if Instant::now() < waiting.until || !close() {
            return Due::At(Some(waiting.until));
        }
        table.get_up(session, bell);
        Due::Leave
    }

    /// The writer is gone. Whoever opens the session next has a seat of their own.
    fn leave(&self, session: &SessionId, bell: &Arc<Notify>) {
        let mut table = self.table();
        table.get_up(session, bell);
        if table.seat(session, bell).is_none() {
            return;
        }
        if let Some(entry) = table.entries.get_mut(session) {
            entry.seat = None;
            if Arc::strong_count(&entry.door) == 1 {
                table.entries.remove(session);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn seat(&mut self, session: &SessionId, bell: &Arc<Notify>) -> Option<&mut Seat> {
        let seat = self.entries.get_mut(session)?.seat.as_mut();
        seat.filter(|seat| Arc::ptr_eq(&seat.bell, bell))
    }

    /// Puts a session among the idle ones if it is one, and sends the first of too many away.
    fn lie_down(
        &mut self,
        session: &SessionId,
        bell: &Arc<Notify>,
        limits: Idle,
    ) -> Option<Instant> {
        let place = self.turns + 1;
        let seat = self.seat(session, bell)?;
        let used = seat.hold.strong_count() > 0 || !seat.resting || seat.line.is_stopped();
        if used || seat.idle.is_some() {
            return seat.idle.map(|waiting| waiting.until);
        }
        seat.idle = Some(Waiting { place, until: Instant::now() + limits.after });
        self.turns = place;
        self.idle.insert(place, session.clone());
        while self.idle.len() > limits.most {
            let Some((_, first)) = self.idle.pop_first() else { break };
            let seat = self.entries.get_mut(&first).and_then(|entry| entry.seat.as_mut());
            if let Some(seat) = seat
                && let Some(waiting) = &mut seat.idle
            {
                waiting.until = Instant::now();
                seat.bell.notify_one();
            }
        }
        self.seat(session, bell)?.idle.map(|waiting| waiting.until)
    }

    fn get_up(&mut self, session: &SessionId, bell: &Arc<Notify>) {
        let waiting = self.seat(session, bell).and_then(|seat| seat.idle.take());
        if let Some(waiting) = waiting {
            self.idle.remove(&waiting.place);
        }
    }
}

impl Seat {
    /// A handle for somebody outside, which keeps the session from being idle.
    fn take(&mut self, seats: Weak<Seats>, idle: &mut BTreeMap<u64, SessionId>) -> SessionHandle {
        if let Some(waiting) = self.idle.take() {
            idle.remove(&waiting.place);
        }
        let hold = self.hold.upgrade().unwrap_or_else(|| {
            let (session, bell) = (self.line.id.clone(), self.bell.clone());
            Arc::new(Hold { seats, session, bell })
        });
        self.hold = Arc::downgrade(&hold);
        SessionHandle { line: self.line.clone(), hold }
    }
}

/// The writer's side of its seat. Dropped after everything else the writer has, it gives the seat
/// up.
pub(crate) struct Presence {
    seats: Weak<Seats>,
    session: SessionId,
    bell: Arc<Notify>,
    resting: bool,
    until: Option<Instant>,
}

impl Presence {
    pub fn new(seats: &Arc<Seats>, session: SessionId) -> Self {
        let seats = Arc::downgrade(seats);
        Self { seats, session, bell: Arc::default(), resting: false, until: None }
    }

    /// Says whether there is anything to do.
    pub fn rest(&mut self, resting: bool) {
        if self.resting != resting {
            self.resting = resting;
            let seats = self.seats.upgrade();
            self.until = seats.and_then(|seats| seats.rest(&self.session, &self.bell, resting));
        }
    }

    /// Waits until it is time to look whether to leave.
    pub async fn due(&self) {
        match self.until {
            None => self.bell.notified().await,
            Some(until) => tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = self.bell.notified() => {}
            },
        }
    }

    /// Whether the session is to be closed now. `close` closes the inbox, unless something waits
    /// there; it is called while nobody can be given a handle.
    pub fn leaves(&mut self, close: impl FnOnce() -> bool) -> bool {
        let Some(seats) = self.seats.upgrade() else { return false };
        match seats.due(&self.session, &self.bell, close) {
            Due::Leave => true,
            Due::At(until) => {
                self.until = until;
                false
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(seats) = self.seats.upgrade() {
            seats.leave(&self.session, &self.bell);
        }
    }
}
