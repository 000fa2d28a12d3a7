//! Webhooks that clients registered for a task, each with its own cursor.
//!
//! A registration is durable before it is acknowledged, and one that comes with a message before
//! the message is accepted. Each webhook has one worker, which reads the log like any other reader
//! and sends one notification at a time. A worker ends when its task is over and everything is
//! delivered, and is started again when the task continues.
//!
//! Not here: the meaning of an event, or a second copy of the log.

mod ask;
pub mod backoff;
pub mod record;
pub mod resolver;
pub mod sender;
mod sign;
mod slots;
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
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::OAuth;
use crate::projection::Projections;
use crate::state::hub_error;
use record::{Key, Records, Registration, Start};
use resolver::{CheckedResolver, Lookup, SystemLookup};
use sender::Sender;
use slots::{Slot, Slots};
use target::AllowedPrivateHosts;
use worker::Worker;

/// How webhooks are called.
pub struct PushOptions {
    /// The ports of this server, which cannot be webhooks.
    pub own_ports: Vec<u16>,
    pub lookup: Arc<dyn Lookup>,
    /// Hosts in a private network that may be called, by name or address.
    pub private_hosts: Vec<String>,
    /// The timeout of one attempt.
    pub time: Duration,
    /// Between the first attempt and the second; doubled each time.
    pub first_delay: Duration,
    pub longest_delay: Duration,
    /// A webhook that accepts nothing for this long is removed.
    pub give_up: Duration,
    pub most_per_task: usize,
    /// Active webhooks, of one principal and in all.
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

/// Requests under way at a time: to one server of a principal, of a principal, and in all. Webhooks that
/// fail have slots of their own, so that many of them do not delay one that works.
const FIRST_ATTEMPTS: [usize; 3] = [12, 128, 256];
const FURTHER_ATTEMPTS: [usize; 3] = [4, 48, 96];
/// For requests under way when the server stops.
const STOP_TIME: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

struct Inner {
    hub: Arc<Hub>,
    projections: Arc<Projections>,
    records: Records,
    sender: Sender,
    options: PushOptions,
    first_attempts: Slots<3>,
    further_attempts: Slots<3>,
    /// Active webhooks, by principal and in all.
    active: Slots<2>,
    /// Webhooks are registered and removed one at a time, so that the counts of a task hold.
    changing: Semaphore,
    /// A lock, not a task: held for a look-up.
    workers: Mutex<BTreeMap<Key, Running>>,
    started: AtomicU64,
    tasks: TaskTracker,
    /// No further notification is sent.
    stopping: CancellationToken,
    /// Knows which clients are revoked.
    oauth: OnceLock<Arc<OAuth>>,
}

/// A worker that is running.
struct Running {
    /// Distinguishes it from a later worker of the same webhook.
    number: u64,
    /// Set when there may be more to do: the worker makes one more pass before it ends.
    again: bool,
    woken: Arc<Notify>,
    cancel: CancellationToken,
    ended: CancellationToken,
}

/// Removes a worker from the table when it ends, by return, cancellation or panic.
struct Removal {
    webhooks: Arc<Inner>,
    key: Key,
    number: u64,
    ended: CancellationToken,
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.webhooks.remove(&self.key, self.number);
        self.ended.cancel();
    }
}

/// A webhook that a client requests.
struct NewWebhook {
    session: SessionId,
    task: TaskId,
    target: PushTarget,
    view: View,
    principal: String,
    start: Start,
}

impl Webhooks {
    pub(crate) fn new(hub: Arc<Hub>, projections: Arc<Projections>, options: PushOptions) -> Self {
        let private = AllowedPrivateHosts::new(&options.private_hosts);
        let names = CheckedResolver::new(options.lookup.clone(), private.clone());
        let inner = Inner {
            records: Records::new(hub.store().clone()),
            hub,
            projections,
            sender: Sender::new(names, options.own_ports.clone(), private, options.time),
            first_attempts: Slots::new(FIRST_ATTEMPTS),
            further_attempts: Slots::new(FURTHER_ATTEMPTS),
            active: Slots::new([options.most_per_principal, options.most]),
            changing: Semaphore::new(1),
            options,
            workers: Mutex::default(),
            started: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            oauth: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Ends the webhooks of clients that are revoked, from now on.
    pub(crate) fn end_with_clients(&self, oauth: Arc<OAuth>) {
        // Only the first call has an effect.
        let _ = self.inner.oauth.set(oauth);
    }

    /// Continues where an earlier process stopped, for all sessions or for one.
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
                self.start(&registration, None);
            }
        }
        Ok(())
    }

    /// Starts nothing more; requests under way have a moment to end. The rest is delivered after the
    /// next start.
    pub async fn stop(&self) {
        let inner = &self.inner;
        inner.stopping.cancel();
        inner.tasks.close();
        if tokio::time::timeout(STOP_TIME, inner.tasks.wait()).await.is_err() {
            inner.workers().values().for_each(|running| running.cancel.cancel());
            inner.tasks.wait().await;
        }
    }

    /// Whether a URL may be called, judged by its text.
    fn check(&self, url: &str, principal: &str) -> Result<(), &'static str> {
        self.inner.sender.check(url, principal)
    }

    /// Makes a webhook durable. Nothing is sent until it is started.
    async fn register(&self, new: NewWebhook) -> Result<Registered, WireError> {
        let inner = &self.inner;
        let NewWebhook { session, task, target, view, principal, start } = new;
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
        let admitted = inner.sender.admits(&registration).await;
        admitted.map_err(|why| Condition::PushTargetRefused { why })?;
        let key = registration.key();
        let _changing = inner.changing.acquire().await;
        let others = inner.records.of_task(&key.task).await.map_err(storage)?;
        let earlier = others.iter().find(|other| other.config == key.config);
        let slot = match earlier {
            Some(_) => None,
            None => Some(inner.slot_for_new(&registration, others.len())?),
        };
        if let Some(earlier) = earlier {
            // The same webhook, registered again: it continues at its cursor.
            inner.halt(&key).await;
            registration.serial.clone_from(&earlier.serial);
            registration.start = earlier.start;
            let mut cursor = inner.records.cursor(earlier).await.map_err(storage)?;
            if cursor.failing.take().is_some() {
                inner.records.keep_cursor(&key, &cursor).await.map_err(storage)?;
            }
        }
        inner.records.keep(&registration).await.map_err(storage)?;
        let replaces = earlier.is_some();
        Ok(Registered { registration, replaces, slot })
    }

    fn start_registered(&self, registered: Registered) {
        self.start(&registered.registration, registered.slot);
    }

    fn start(&self, registration: &Registration, slot: Option<Slot>) {
        self.inner.start(registration, slot);
    }

    /// For a message that did not become a prompt.
    async fn withdraw(&self, registered: Registered) {
        if registered.replaces {
            return self.start_registered(registered);
        }
        if let Err(error) = self.inner.forget(&registered.registration.key()).await {
            tracing::warn!(%error, "a webhook of a refused message stays");
        }
    }

    async fn registration(&self, key: &Key) -> Result<Option<Registration>, WireError> {
        self.inner.records.registration(key).await.map_err(storage)
    }

    async fn of_task(&self, task: &TaskId) -> Result<Vec<Registration>, WireError> {
        self.inner.records.of_task(task).await.map_err(storage)
    }

    /// When it returns, nothing more is sent.
    async fn delete(&self, key: &Key) -> Result<(), WireError> {
        self.inner.forget(key).await.map_err(storage)
    }

    /// Starts the workers of a task again that continues.
    fn restart_workers(&self, task: &TaskId) {
        let (webhooks, task) = (self.clone(), task.clone());
        let runtime = self.inner.projections.runtime().clone();
        let waking = async move {
            match webhooks.inner.records.of_task(&task).await {
                Ok(registrations) => {
                    registrations.iter().for_each(|known| webhooks.start(known, None))
                }
                Err(error) => tracing::warn!(%error, "the webhooks of a task could not be read"),
            }
        };
        self.inner.tasks.spawn_on(waking, &runtime);
    }

    /// Wakes the workers of a task whose session may have been closed meanwhile.
    fn wake_workers(&self, task: &TaskId) {
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
    /// There was one of the same name before.
    replaces: bool,
    /// Counts a new one among the active ones.
    slot: Option<Slot>,
}

impl Inner {
    fn workers(&self) -> MutexGuard<'_, BTreeMap<Key, Running>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a webhook whose task has this many others.
    fn slot_for_new(&self, new: &Registration, others: usize) -> Result<Slot, WireError> {
        let refused = |why| Condition::TooManyWebhooks { why }.into();
        if others >= self.options.most_per_task {
            return Err(refused("the task has reached its limit: delete one"));
        }
        let slot = self.active.try_acquire([&new.principal, ""]);
        slot.ok_or_else(|| refused("too many are active: try again when some tasks are over"))
    }

    /// A worker without a slot takes one if there is one: webhooks that are registered already are
    /// not refused.
    fn start(self: &Arc<Self>, registration: &Registration, slot: Option<Slot>) {
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
            Entry::Vacant(vacant) => {
                let slot = slot.or_else(|| self.active.try_acquire([&registration.principal, ""]));
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
                let removal = Removal {
                    webhooks: self.clone(),
                    key: worker.key.clone(),
                    number,
                    ended: ended.clone(),
                };
                let working = async move {
                    let _held = (slot, removal);
                    worker.run().await;
                };
                // Workers open sessions, which must run in their own runtime.
                self.tasks.spawn_on(working, self.projections.runtime());
                vacant.insert(Running { number, again: false, woken, cancel, ended });
            }
        }
    }

    /// Removes a worker that has nothing left to do. False if it has to make one more pass.
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

    /// Not while another request registers a webhook of the same name.
    async fn forget(&self, key: &Key) -> Result<(), StoreError> {
        let _changing = self.changing.acquire().await;
        self.records.forget(key).await?;
        self.halt(key).await;
        self.records.forget_cursor(key).await
    }
}

fn storage(error: StoreError) -> WireError {
    hub_error(HubError::Store(error))
}
