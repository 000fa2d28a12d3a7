//! The projections that are read now or were read lately, found by session and view.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use loggia_core::SessionId;
use loggia_session::SessionHandle;
use loggia_wire::View;
use tokio::runtime::Handle;

use super::{Projection, ProjectionReader};

/// Projections that are kept without a reader, as long as their session is open.
const IDLE_PROJECTIONS: usize = 256;

/// Bytes of the kept projections, measured when another one is added.
const IDLE_BYTES: usize = 64 * 1024 * 1024;

pub(crate) struct Projections {
    /// Projections run where sessions run.
    runtime: Handle,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    all: HashMap<(SessionId, View), Weak<Projection>>,
    /// Keeps the newest ones alive, the oldest first.
    recent: VecDeque<Arc<Projection>>,
}

impl Cache {
    fn find(&self, session: &SessionId, view: View) -> Option<Arc<Projection>> {
        let found = self.all.get(&(session.clone(), view))?.upgrade();
        found.filter(|projection| !projection.is_stopped())
    }

    fn insert(&mut self, new: Arc<Projection>) {
        self.recent.retain(|projection| !projection.is_stopped());
        let mut bytes: usize = self.recent.iter().map(|projection| projection.weight()).sum();
        while self.recent.len() >= IDLE_PROJECTIONS || bytes > IDLE_BYTES {
            let Some(oldest) = self.recent.pop_front() else { break };
            bytes = bytes.saturating_sub(oldest.weight());
        }
        if self.all.len() >= 2 * self.recent.len() + IDLE_PROJECTIONS {
            self.all.retain(|_, projection| projection.strong_count() > 0);
        }
        self.all.insert((new.session.clone(), new.view), Arc::downgrade(&new));
        self.recent.push_back(new);
    }
}

impl Projections {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, cache: Mutex::default() }
    }

    /// The runtime in which sessions and projections run.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// A reader of the session's projection, which is started if there is none.
    pub(crate) fn reader(&self, handle: &SessionHandle, view: View) -> ProjectionReader {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cache.find(handle.id(), view).filter(|known| known.epoch == handle.epoch());
        let projection = known.unwrap_or_else(|| {
            let _entered = self.runtime.enter();
            let new = Projection::start(handle, view);
            cache.insert(new.clone());
            new
        });
        ProjectionReader::new(projection, handle.clone())
    }

    /// The projection of a session, if there is one. Does not open the session.
    pub(crate) fn existing(&self, session: &SessionId, view: View) -> Option<Arc<Projection>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).find(session, view)
    }
}
