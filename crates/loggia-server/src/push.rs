//! The outbox: webhooks that clients registered for a task, each with a cursor of its own.
//!
//! A registration is durable before it is acknowledged, and one that comes with a message before
//! the message is accepted. Each webhook has one worker, which reads the log like any other reader
//! and sends one notification at a time; nobody waits for it. A worker ends when its task is over
//! and everything is delivered, and is started again when the task goes on.
//!
//! What must not be here: the meaning of an event, a second copy of what the log holds.

mod ask;
pub mod backoff;
pub mod courier;
mod places;
pub mod record;
pub mod resolver;
mod room;
mod sign;
pub mod target;
mod worker;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use loggia_core::{SessionId, TaskId};
use loggia_session::{Hub, HubError, StoreError};
use loggia_wire::{Condition, PushTarget, View, WireError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::OAuth;
use crate::projection::Projections;
use crate::state::hub_error;
use courier::Courier;
use places::Places;
use record::{Key, Records, Registration, Start};
use resolver::{Checked, Lookup, SystemLookup};
use room::{Promise, Promises, Turns};
use target::Private;
use worker::Worker;

/// How webhooks are called.
pub struct PushOptions {
    /// The ports of this server, which is no webhook.
    pub own_ports: Vec<u16>,
    pub lookup: Arc<dyn Lookup>,
    /// Hosts in a private network that may be called all the same, by name or address.
    pub private_hosts: Vec<String>,
    /// For one attempt.
    pub time: Duration,
    /// Between the first attempt and the second; twice as much each time.
    pub first_delay: Duration,
    pub longest_delay: Duration,
    /// A webhook that takes nothing for so long is removed.
    pub give_up: Duration,
    pub most_per_task: usize,
    /// Webhooks at work, of one principal and of all.
    pub most_per_principal: usize,
    pub most: usize,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self {
            own_ports: Vec::new(),
            lookup: Arc::new(SystemLookup),
            private_hosts: Vec::new(),
            time: Duration::from_secs(10),
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(60 * 60),
            give_up: Duration::from_secs(24 * 60 * 60),
            most_per_task: 5,
            most_per_principal: 1_024,
            most: 4_096,
        }
    }
}

/// Requests under way at a time. Webhooks that fail have places of their own, so that many of them
/// do not hold up one that works.
const FIRST_ATTEMPTS: usize = 256;
const FURTHER_ATTEMPTS: usize = 96;
/// For what is under way when the server stops.
const STOP_TIME: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Outbox {
    inner: Arc<Inner>,
}

struct Inner {
    hub: Arc<Hub>,
    projections: Arc<Projections>,
    records: Records,
    courier: Courier,
    options: PushOptions,
    first_attempts: Places,
    further_attempts: Places,
    turns: Turns,
    promises: Promises,
    /// A lock, not a task: held for a look-up.
    workers: Mutex<BTreeMap<Key, Running>>,
    started: AtomicU64,
    tasks: TaskTracker,
    /// No further notification.
    stopping: CancellationToken,
    /// Who may still be told anything.
    oauth: OnceLock<Arc<OAuth>>,
}

/// A worker as others know it.
struct Running {
    /// Tells it from a later worker of the same webhook.
    number: u64,
    principal: String,
    /// Set when there may be more to do: it looks once more before it ends.
    again: bool,
    woken: Arc<Notify>,
    cancel: CancellationToken,
    ended: CancellationToken,
}

/// Whatever ends a worker, nobody takes it for one that is still at work.
struct Leaving {
    outbox: Arc<Inner>,
    key: Key,
    number: u64,
    ended: CancellationToken,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.outbox.remove(&self.key, self.number);
        self.ended.cancel();
    }
}

/// A webhook that a client asks for.
struct Wanted {
    session: SessionId,
    task: TaskId,
    target: PushTarget,
    view: View,
    principal: String,
    start: Start,
}

impl Outbox {
    pub(crate) fn new(hub: Arc<Hub>, projections: Arc<Projections>, options: PushOptions) -> Self {
        let private = Private::new(&options.private_hosts);
        let names = Checked::new(options.lookup.clone(), private.clone());
        let inner = Inner {
            records: Records::new(hub.store().clone()),
            hub,
            projections,
            courier: Courier::new(names, options.own_ports.clone(), private, options.time),
            options,
            first_attempts: Places::new(FIRST_ATTEMPTS),
            further_attempts: Places::new(FURTHER_ATTEMPTS),
            turns: Turns::default(),
            promises: Promises::default(),
            workers: Mutex::default(),
            started: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            oauth: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Webhooks of clients that are revoked end from now on.
    pub(crate) fn ask_for_clients(&self, oauth: Arc<OAuth>) {
        // Told twice, the first time counts.
        let _ = self.inner.oauth.set(oauth);
    }

    /// Goes on where an earlier process stopped, for all sessions or for one.
    pub async fn resume(&self, only: Option<&SessionId>) -> Result<(), StoreError> {
        let inner = &self.inner;
        for registration in inner.records.all().await? {
            if only.is_some_and(|only| *only != registration.session) {
                continue;
            }
            // Registered for a message that was never accepted, or its session was deleted since.
            if inner.hub.store().locate(&registration.task).await?.is_none() {
                inner.forget(&registration.key()).await?;
                continue;
            }
            let settled = inner.records.cursor(&registration).await?.settled;
            let head = inner.hub.store().head(&registration.session).await?;
            if settled.is_none() || settled != head {
                self.start(&registration);
            }
        }
        Ok(())
    }

    /// Nothing more is begun; what is under way may end within a moment. The rest is delivered
    /// after the next start.
    pub async fn stop(&self) {
        let inner = &self.inner;
        inner.stopping.cancel();
        inner.tasks.close();
        if tokio::time::timeout(STOP_TIME, inner.tasks.wait()).await.is_err() {
            inner.workers().values().for_each(|running| running.cancel.cancel());
            inner.tasks.wait().await;
        }
    }

    /// Whether a URL may be called, as far as its text tells.
    fn check(&self, url: &str, principal: &str) -> Result<(), &'static str> {
        self.inner.courier.reads(url, principal)
    }

    /// Makes a webhook durable. Nothing is sent until it is started.
    async fn register(&self, wanted: Wanted) -> Result<Registered, WireError> {
        let inner = &self.inner;
        let Wanted { session, task, target, view, principal, start } = wanted;
        let PushTarget { id, url, token, scheme, credentials } = target;
        let config = id.unwrap_or_else(|| match view.replaces_unnamed_push() {
            true => task.to_string(),
            false => uuid::Uuid::now_v7().to_string(),
        });
        let mut registration = Registration {
            serial: uuid::Uuid::now_v7().to_string(),
            session,
            task,
            config,
            url,
            token,
            scheme,
            credentials,
            version: view.version().to_owned(),
            extension: view.extension == loggia_wire::Extension::On,
            principal,
            start,
        };
        let admitted = inner.courier.admits(&registration).await;
        admitted.map_err(|why| Condition::PushTargetRefused { why })?;
        let key = registration.key();
        // What is counted now is still true when the webhook is kept.
        let _turn = inner.turns.of(&key.task).await;
        let others = inner.records.of_task(&key.task).await.map_err(storage)?;
        let earlier = others.iter().find(|other| other.config == key.config);
        let promise = match earlier {
            Some(_) => None,
            None => Some(inner.make_room(&registration, others.len())?),
        };
        if let Some(earlier) = earlier {
            // The same webhook, set up anew: it goes on where it stands.
            inner.halt(&key).await;
            registration.serial.clone_from(&earlier.serial);
            registration.start = earlier.start;
            let mut cursor = inner.records.cursor(earlier).await.map_err(storage)?;
            if cursor.failing.take().is_some() {
                inner.records.keep_cursor(&key, &cursor).await.map_err(storage)?;
            }
        }
        inner.records.keep(&registration).await.map_err(storage)?;
        Ok(Registered { registration, promise })
    }

    fn start(&self, registration: &Registration) {
        self.inner.start(registration);
    }

    /// A message did not become a prompt: nobody will call back for it.
    async fn withdraw(&self, registered: Registered) {
        let Registered { registration, promise } = registered;
        if promise.is_some() {
            if let Err(error) = self.inner.forget(&registration.key()).await {
                tracing::warn!(%error, "a webhook of a refused message stays");
            }
        } else {
            self.start(&registration);
        }
    }

    async fn registration(&self, key: &Key) -> Result<Option<Registration>, WireError> {
        self.inner.records.registration(key).await.map_err(storage)
    }

    async fn of_task(&self, task: &TaskId) -> Result<Vec<Registration>, WireError> {
        self.inner.records.of_task(task).await.map_err(storage)
    }

    /// When it returns, nothing is sent any more.
    async fn delete(&self, key: &Key) -> Result<(), WireError> {
        self.inner.forget(key).await.map_err(storage)
    }

    /// A task goes on: the workers that ended with it begin again.
    fn wake(&self, task: &TaskId) {
        let (outbox, task) = (self.clone(), task.clone());
        let runtime = self.inner.projections.runtime().clone();
        let waking = async move {
            match outbox.inner.records.of_task(&task).await {
                Ok(registrations) => registrations.iter().for_each(|known| outbox.start(known)),
                Err(error) => tracing::warn!(%error, "webhooks of a task are not looked for"),
            }
        };
        self.inner.tasks.spawn_on(waking, &runtime);
    }

    /// Something happened to a task whose session may have been closed in between.
    fn nudge(&self, task: &TaskId) {
        let first = Key { task: task.clone(), config: String::new() };
        let mut workers = self.inner.workers();
        for (_, running) in workers.range_mut(first..).take_while(|(key, _)| key.task == *task) {
            running.again = true;
            running.woken.notify_one();
        }
    }
}

/// A webhook that is durable and not yet started.
struct Registered {
    registration: Registration,
    /// Its place among those at work, if there was none of its name before.
    promise: Option<Promise>,
}

impl Inner {
    fn workers(&self) -> MutexGuard<'_, BTreeMap<Key, Running>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, registration: &Registration) {
        let mut workers = self.workers();
        if self.stopping.is_cancelled() {
            return;
        }
        let key = registration.key();
        match workers.entry(key.clone()) {
            Entry::Occupied(mut running) => {
                let running = running.get_mut();
                running.again = true;
                running.woken.notify_one();
            }
            Entry::Vacant(place) => {
                let number = self.started.fetch_add(1, Ordering::Relaxed);
                let woken = Arc::new(Notify::new());
                let (cancel, ended) = (CancellationToken::new(), CancellationToken::new());
                let worker = Worker {
                    outbox: self.clone(),
                    key,
                    number,
                    woken: woken.clone(),
                    cancel: cancel.clone(),
                };
                let leaving = Leaving {
                    outbox: self.clone(),
                    key: worker.key.clone(),
                    number,
                    ended: ended.clone(),
                };
                let working = async move {
                    let _leaving = leaving;
                    worker.run().await;
                };
                // Workers open sessions, which must run in their own runtime.
                self.tasks.spawn_on(working, self.projections.runtime());
                let principal = registration.principal.clone();
                place.insert(Running { number, principal, again: false, woken, cancel, ended });
            }
        }
    }

    /// A worker has nothing left to do. False if there is: it has to look once more.
    fn retire(&self, key: &Key, number: u64) -> bool {
        let mut workers = self.workers();
        let own = workers.get_mut(key).filter(|running| running.number == number);
        if let Some(running) = own {
            if std::mem::take(&mut running.again) {
                return false;
            }
            workers.remove(key);
        }
        true
    }

    /// A later worker of the same webhook stays.
    fn remove(&self, key: &Key, number: u64) {
        let mut workers = self.workers();
        if workers.get(key).is_some_and(|running| running.number == number) {
            workers.remove(key);
        }
    }

    /// Ends a worker, and waits until it has.
    async fn halt(&self, key: &Key) {
        let running = self.workers().remove(key);
        if let Some(running) = running {
            running.cancel.cancel();
            running.ended.cancelled().await;
        }
    }

    /// In the task's turn: who registers under this name meanwhile is not the one who ends.
    async fn forget(&self, key: &Key) -> Result<(), StoreError> {
        let _turn = self.turns.of(&key.task).await;
        self.records.forget(key).await?;
        self.halt(key).await;
        self.records.forget_cursor(key).await
    }
}

fn storage(error: StoreError) -> WireError {
    hub_error(HubError::Store(error))
}
