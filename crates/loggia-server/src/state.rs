//! What the server knows: the hub, which sessions it serves, and what it allows.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use loggia_core::{
    AgentName, Command, CustomCommands, Level, Millis, Origin, Refusal, Repository, SessionId,
    Settings, Workspace,
};
use loggia_session::{Hub, HubError, NewSession, SessionHandle, StoreError, SubmitError, hub};
use loggia_wire::sdlc::types::Tool;
use loggia_wire::{AgentSettings, Asked, CardFacts, Condition, View, WireError};

use tokio::runtime::Handle;

use crate::auth::{OAuth, Principal};
use crate::clones::ClonePolicy;
use crate::dispatch::{is_stream, out_of_scope};
use crate::guard::{ByteShares, Load, StreamLimits, StreamPermit, Streams};
use crate::hook::PromptHook;
use crate::owned::{Created, NewName, Used};
use crate::presence::Presence;
use crate::projection::{Projection, Reading};
use crate::push::Outbox;
use crate::time::now;

/// Projections that stay warm although nobody reads them, for as long as their session is open.
const WARM: usize = 256;

/// What they hold in memory at most, when another one begins.
const WARM_BYTES: usize = 64 * 1024 * 1024;

/// What each client may hold, and how long a silent one is kept.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    pub streams: StreamLimits,
    /// A WebSocket that is not heard of for this long, not even by a pong, is closed.
    pub silence: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self { streams: StreamLimits::default(), silence: Duration::from_secs(75) }
    }
}

pub struct Server {
    pub(crate) hub: Arc<Hub>,
    pub(crate) shape: Shape,
    pub(crate) defaults: Defaults,
    pub(crate) facts: CardFacts,
    /// Since when the card reads as it does.
    pub(crate) started: Millis,
    pub(crate) streams: Streams,
    pub(crate) limits: ClientLimits,
    /// Bytes of large requests that are read, and of large replies that are made and sent.
    pub(crate) bodies: ByteShares,
    pub(crate) replies: ByteShares,
    pub(crate) presence: Presence,
    pub(crate) hook: Option<Arc<dyn PromptHook>>,
    pub(crate) push: Option<Outbox>,
    pub(crate) oauth: Option<Arc<OAuth>>,
    /// None: there are none.
    pub(crate) commands: Option<CommandSource>,
    /// None: nothing is cloned here.
    clones: Option<ClonePolicy>,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) used: Used,
    /// Where sessions and projections run, whichever request starts them. Not where connections
    /// are served: when an event wakes a thousand readers, the writer of the next one must not
    /// stand behind them in a queue.
    home: Handle,
}

/// The commands from files that count in a workspace. Blocks.
pub type CommandSource = Arc<dyn Fn(&Path) -> CustomCommands + Send + Sync>;

/// Which sessions are served.
pub enum Shape {
    /// The one session of this process; a message without a context is its next turn.
    Shared(SessionId),
    /// A message without a context opens a new session.
    Many,
}

/// How new sessions begin, and what clients may ask for beyond that.
pub struct Defaults {
    pub settings: Settings,
    pub workspace: PathBuf,
    /// Directories below which a client may choose its workspace.
    pub roots: Vec<PathBuf>,
    /// Places in them that are no client's: Loggia's own. Free of links, like the roots.
    pub walls: Vec<PathBuf>,
    pub agent: AgentName,
    /// The tools there are.
    pub tools: Vec<Tool>,
    /// Whether a client may switch approvals off for its session.
    pub auto_execute: bool,
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Principal,
    pub origin: Origin,
    /// What its request holds of the bytes that clients share.
    pub load: Arc<Load>,
}

impl Caller {
    pub fn new(principal: Principal, origin: Origin) -> Self {
        Self { principal, origin, load: Arc::default() }
    }

    /// The same caller with another request.
    pub(crate) fn again(&self) -> Self {
        Self { load: Arc::default(), ..self.clone() }
    }
}

/// Where the projections that somebody reads are found.
pub(crate) struct Shelf {
    /// Where projections run: with the sessions.
    home: Handle,
    /// A lock, not a task: held for a look-up.
    projections: Mutex<Projections>,
}

#[derive(Default)]
struct Projections {
    /// Those of a session together: their readers are one crowd.
    known: HashMap<SessionId, Vec<(View, Weak<Projection>)>>,
    warm: VecDeque<Arc<Projection>>,
}

impl Projections {
    fn keep(&mut self, fresh: Arc<Projection>) {
        let before = self.warm.len();
        self.warm.retain(|projection| !projection.is_stopped());
        let mut bytes: usize = self.warm.iter().map(|projection| projection.weight()).sum();
        while self.warm.len() >= WARM || bytes > WARM_BYTES {
            let Some(oldest) = self.warm.pop_front() else { break };
            bytes -= oldest.weight().min(bytes);
        }
        if self.warm.len() < before {
            self.known.retain(|_, views| {
                views.retain(|(_, projection)| projection.strong_count() > 0);
                !views.is_empty()
            });
        }
        self.warm.push_back(fresh);
    }

    fn find(&self, id: &SessionId, view: View) -> Option<Arc<Projection>> {
        let mut views = self.known.get(id)?.iter();
        views.find(|(of, _)| *of == view).and_then(|(_, projection)| projection.upgrade())
    }
}

impl Shelf {
    pub(crate) fn projection(&self, handle: &SessionHandle, view: View) -> Reading {
        let mut projections = self.projections.lock().unwrap_or_else(PoisonError::into_inner);
        let known = projections.find(handle.id(), view);
        if let Some(known) = known.filter(|known| known.serves(handle)) {
            return Reading::new(known, handle.clone());
        }
        let views = projections.known.entry(handle.id().clone()).or_default();
        let beside = views.iter().find_map(|(_, projection)| projection.upgrade());
        let pacer = beside.map(|beside| beside.pacer().clone()).unwrap_or_default();
        let entered = self.home.enter();
        let fresh = Projection::start(handle, view, pacer);
        drop(entered);
        views.retain(|(of, _)| *of != view);
        views.push((view, Arc::downgrade(&fresh)));
        projections.keep(fresh.clone());
        Reading::new(fresh, handle.clone())
    }

    /// The frames of a session that somebody reads already, or has read lately.
    pub(crate) fn warm_projection(&self, id: &SessionId, view: View) -> Option<Arc<Projection>> {
        let projections = self.projections.lock().unwrap_or_else(PoisonError::into_inner);
        let known = projections.find(id, view);
        known.filter(|known| !known.is_stopped())
    }
}

impl Server {
    /// Called inside the runtime that sessions are to run in.
    pub fn new(hub: Arc<Hub>, shape: Shape, defaults: Defaults, facts: CardFacts) -> Self {
        let limits = ClientLimits::default();
        let replies = ByteShares::default();
        let home = Handle::current();
        let shelf = Shelf { home: home.clone(), projections: Mutex::default() };
        Self {
            hub,
            shape,
            defaults,
            facts,
            started: now(),
            streams: Streams::new(limits.streams).counting(&replies),
            limits,
            bodies: ByteShares::default(),
            replies,
            presence: Presence::default(),
            hook: None,
            push: None,
            oauth: None,
            commands: None,
            clones: None,
            shelf: Arc::new(shelf),
            used: Used::default(),
            home,
        }
    }

    #[must_use]
    pub fn limiting(mut self, limits: ClientLimits) -> Self {
        self.streams = Streams::new(limits.streams).counting(&self.replies);
        self.limits = limits;
        self
    }

    /// Gives tokens for the secrets of registered clients, and says so on the card.
    #[must_use]
    pub fn with_oauth(mut self, oauth: Arc<OAuth>) -> Self {
        if let Some(outbox) = &self.push {
            outbox.ask_for_clients(oauth.clone());
        }
        self.oauth = Some(oauth);
        self
    }

    /// The same server, which also lists and runs commands from files.
    #[must_use]
    pub fn commanded(mut self, commands: CommandSource) -> Self {
        self.commands = Some(commands);
        self
    }

    /// The same server, on which sessions may work in copies of repositories.
    #[must_use]
    pub fn cloning(mut self, clones: ClonePolicy) -> Self {
        self.clones = Some(clones);
        self
    }

    /// Who is connected.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Those of the connected clients that the caller may know of: where sessions are many, only
    /// its own.
    pub(crate) fn seen_by(&self, caller: &Caller, mut present: Vec<Origin>) -> Vec<Origin> {
        if let (Shape::Many, false) = (&self.shape, caller.principal.scopes.admin) {
            present.retain(|origin| origin.principal.as_ref() == Some(&caller.principal.name));
        }
        present
    }

    /// The shared frames of a session, started if nobody reads them yet.
    pub(crate) fn projection(&self, handle: &SessionHandle, view: View) -> Reading {
        self.shelf.projection(handle, view)
    }

    /// The frames of a session that somebody reads already, or has read lately.
    pub(crate) fn warm_projection(&self, id: &SessionId, view: View) -> Option<Arc<Projection>> {
        self.shelf.warm_projection(id, view)
    }

    pub(crate) async fn open(&self, id: &SessionId) -> Result<SessionHandle, WireError> {
        self.at_home(self.hub.open(id)).await.map_err(hub_error)
    }

    /// The same future; what it spawns is spawned at home.
    pub(crate) async fn at_home<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            let _entered = self.home.enter();
            future.as_mut().poll(context)
        })
        .await
    }

    /// The session a new task goes to.
    pub(crate) async fn session_for(
        &self,
        wanted: Option<&SessionId>,
        settings: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let existing = match (&self.shape, wanted) {
            (Shape::Shared(shared), None) => Some(Box::pin(self.session(shared, caller)).await?),
            (Shape::Shared(_), Some(id)) => Some(Box::pin(self.session(id, caller)).await?),
            (Shape::Many, None) => None,
            (Shape::Many, Some(id)) => match Box::pin(self.session(id, caller)).await {
                Ok(handle) => Some(handle),
                // A context may be named by its first message.
                Err(WireError::Condition(Condition::UnknownContext)) => None,
                Err(error) => return Err(error),
            },
        };
        match existing {
            Some(handle) => {
                Box::pin(self.fit(&handle, settings, caller)).await?;
                Ok(handle)
            }
            None => self.create(wanted, settings, caller).await,
        }
    }

    /// A place among the caller's streams, where the answer would be one. Taken before anything is
    /// done: what is refused has not happened.
    pub(crate) fn place_for(
        &self,
        asked: &Asked,
        caller: &Caller,
    ) -> Result<Option<StreamPermit>, WireError> {
        if !is_stream(&asked.intent) {
            return Ok(None);
        }
        let place = self.streams.admit(&caller.principal);
        place.map(Some).map_err(|_| Condition::TooManyStreams.into())
    }

    /// Whether a message may open a session.
    pub(crate) fn is_many(&self) -> bool {
        matches!(self.shape, Shape::Many)
    }

    /// Nobody has opened it; somebody may be about to.
    pub(crate) async fn is_unknown(&self, id: &SessionId) -> Result<bool, WireError> {
        let head = self.hub.store().head(id).await;
        match head.map_err(|error| hub_error(HubError::Store(error)))? {
            None => Ok(true),
            Some(_) => {
                let handle = match self.open(id).await {
                    // Somebody has, then; who it is may not be for the caller to know.
                    Err(WireError::Condition(Condition::HeldElsewhere)) => return Ok(false),
                    opened => opened?,
                };
                let opened = handle.inspect(|session| session.opened().is_some()).await;
                Ok(!opened.map_err(submit_error)?)
            }
        }
    }

    pub(crate) async fn same_workspace(
        &self,
        handle: &SessionHandle,
        settings: Option<&AgentSettings>,
    ) -> Result<(), WireError> {
        if let Some(repository) = self.repository(settings)? {
            let of = |session: &loggia_core::Session| {
                session.opened().and_then(|opened| opened.workspace.repository().cloned())
            };
            let same = handle.inspect(of).await.map_err(submit_error)? == Some(repository);
            return if same { Ok(()) } else { Err(Condition::WorkspaceDiffers.into()) };
        }
        let Some(path) = settings.and_then(|settings| settings.workspace_path.as_deref()) else {
            return Ok(());
        };
        let at = handle
            .inspect(|session| session.opened().map(|opened| opened.workspace.path().to_owned()))
            .await
            .map_err(submit_error)?;
        let same = at.is_some_and(|at| {
            Path::new(path).canonicalize().is_ok_and(|path| path == Path::new(&at))
        });
        if same { Ok(()) } else { Err(Condition::WorkspaceDiffers.into()) }
    }

    async fn create(
        &self,
        wanted: Option<&SessionId>,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let site = self.site(asked)?;
        let mut settings = self.defaults.settings.clone();
        if let Site::Here(path) = &site {
            let rules = hub::project_rules(self.hub.store().as_ref(), path).await;
            settings.rules.extend(rules.map_err(|error| hub_error(HubError::Store(error)))?);
        }
        let notices = self.configure(&mut settings, asked, caller)?;
        let agent = self.defaults.agent.clone();
        let name = match (wanted, &site) {
            (Some(name), _) => NewName::Given(name.clone()),
            // A copy lies where its session's id says.
            (None, Site::CopyOf(..)) => NewName::Made(uuid::Uuid::now_v7().into()),
            // Opened together with its first message, which follows.
            (None, Site::Here(path)) => {
                let workspace = Workspace::Local { path: path.clone() };
                let new = NewSession { workspace, settings, agent };
                let begun = self.hub.begin(new, caller.origin.clone());
                let handle = self.at_home(begun).await.map_err(hub_error)?;
                told(&handle, notices).await?;
                return Ok(handle);
            }
        };
        let new = |id: &SessionId| -> Result<NewSession, WireError> {
            let (settings, agent) = (settings.clone(), agent.clone());
            Ok(NewSession { workspace: site.workspace(id)?, settings, agent })
        };
        match Box::pin(self.create_named(&name, new, caller)).await? {
            Created::Now(handle) => {
                told(&handle, notices).await?;
                Ok(handle)
            }
            Created::Before(handle) => {
                Box::pin(self.fit(&handle, asked, caller)).await?;
                Ok(handle)
            }
        }
    }

    /// Where a new session is to work.
    fn site(&self, asked: Option<&AgentSettings>) -> Result<Site<'_>, WireError> {
        match (self.repository(asked)?, &self.clones) {
            (Some(repository), Some(clones)) => Ok(Site::CopyOf(repository, clones)),
            (Some(_), None) | (None, _) => Ok(Site::Here(self.workspace(asked)?)),
        }
    }

    /// The directory that a new session would work in; None for a copy of a repository.
    pub(crate) fn place_of(
        &self,
        asked: Option<&AgentSettings>,
    ) -> Result<Option<PathBuf>, WireError> {
        Ok(match self.site(asked)? {
            Site::Here(path) => Some(path.into()),
            Site::CopyOf(..) => None,
        })
    }

    /// The repository that a client asks for, if it may be cloned.
    fn repository(&self, asked: Option<&AgentSettings>) -> Result<Option<Repository>, WireError> {
        let Some(asked) = asked else { return Ok(None) };
        let Some(repository) = &asked.repository else { return Ok(None) };
        let refused = |why| WireError::from(Condition::WorkspaceRefused { why });
        if asked.workspace_path.is_some() {
            return Err(refused("it is a directory or a repository, not both"));
        }
        let clones = self.clones.as_ref().ok_or(refused("nothing is cloned here"))?;
        clones.admit(repository, &asked.repository_fields, &self.defaults).map(Some)
    }
}

/// Where a session works.
enum Site<'a> {
    Here(String),
    CopyOf(Repository, &'a ClonePolicy),
}

impl Site<'_> {
    fn workspace(&self, session: &SessionId) -> Result<Workspace, WireError> {
        match self {
            Site::Here(path) => Ok(Workspace::Local { path: path.clone() }),
            Site::CopyOf(repository, clones) => clones.place(session, repository.clone()),
        }
    }
}

/// What a client wished for and did not get is said in its session.
async fn told(handle: &SessionHandle, notices: Vec<String>) -> Result<(), WireError> {
    for text in notices {
        let notice = Command::Notice { level: Level::Warning, text };
        Box::pin(handle.submit(notice, Origin::system())).await.map_err(submit_error)?;
    }
    Ok(())
}

/// A session that stopped while something of it was waited for.
pub(crate) fn stopped(handle: &SessionHandle) -> WireError {
    match handle.failure() {
        Some(error) => hub_error(HubError::Store(error.clone())),
        None => Condition::Restarting.into(),
    }
}

pub(crate) fn submit_error(error: SubmitError) -> WireError {
    match error {
        SubmitError::Refused(Refusal::MayNotAnswer) => out_of_scope("approve"),
        SubmitError::Refused(refusal) => refusal.into(),
        SubmitError::Busy => Condition::Busy.into(),
        SubmitError::Stopped => Condition::Restarting.into(),
        SubmitError::Store(error) => hub_error(HubError::Store(error)),
    }
}

pub(crate) fn hub_error(error: HubError) -> WireError {
    match error {
        HubError::Submit(error) => submit_error(error),
        HubError::Store(StoreError::Unknown(_)) => Condition::UnknownContext.into(),
        HubError::Store(StoreError::Busy { .. }) => Condition::HeldElsewhere.into(),
        HubError::Store(StoreError::Locked { .. }) => Condition::Busy.into(),
        HubError::Store(StoreError::Conflict { .. }) => Condition::Restarting.into(),
        HubError::Store(error @ StoreError::Full { .. }) => {
            tracing::error!(%error, "storage");
            Condition::StorageFull.into()
        }
        HubError::Store(error @ (StoreError::Corrupt { .. } | StoreError::Damaged { .. })) => {
            tracing::error!(%error, "storage");
            Condition::StorageDamaged.into()
        }
        HubError::Store(error @ (StoreError::Newer { .. } | StoreError::Io(_))) => {
            tracing::error!(%error, "storage");
            Condition::Storage.into()
        }
    }
}
