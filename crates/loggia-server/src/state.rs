//! The server's state: the hub, which sessions it serves, what it allows, and the bytes of requests and replies it counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use loggia_core::{AgentName, CustomCommands, Millis, Origin, Refusal, SessionId, Settings};
use loggia_session::{Hub, HubError, SessionHandle, StoreError, SubmitError};
use loggia_wire::sdlc::types::Tool;
use loggia_wire::{CardFacts, Condition, DecodedRequest, View, WireError};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::access::RecentOwners;
use crate::auth::{OAuth, Principal, Scope};
use crate::clones::ClonePolicy;
use crate::guard::{
    BodyShare, ByteShares, Load, Rejection, SMALL, StreamLimits, StreamPermit, Streams, read_body,
    read_growing_body,
};
use crate::hook::PromptHook;
use crate::http::{BODY_LIMIT, BODY_TIME};
use crate::presence::Presence;
use crate::projection::Projections;
use crate::push::Webhooks;
use crate::required_scopes::out_of_scope;
use crate::time::now;

/// The streams of each client, and how long a silent client is kept.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    pub streams: StreamLimits,
    /// A WebSocket that sends nothing for this long, not even a pong, is closed.
    pub silence: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self { streams: StreamLimits::default(), silence: Duration::from_secs(75) }
    }
}

pub struct Server {
    pub(crate) hub: Arc<Hub>,
    pub(crate) sessions: ServedSessions,
    pub(crate) defaults: Defaults,
    pub(crate) facts: CardFacts,
    /// The time of the card's last change.
    pub(crate) started: Millis,
    pub(crate) streams: Streams,
    pub(crate) limits: ClientLimits,
    /// Bytes of large request bodies in memory.
    pub(crate) bodies: ByteShares,
    /// Bytes of large replies in memory.
    pub(crate) replies: ByteShares,
    pub(crate) presence: Presence,
    pub(crate) hook: Option<Arc<dyn PromptHook>>,
    pub(crate) push: Option<Webhooks>,
    pub(crate) oauth: Option<Arc<OAuth>>,
    /// None: no commands from files.
    pub(crate) commands: Option<CommandSource>,
    /// None: repositories are not cloned.
    pub(crate) clones: Option<ClonePolicy>,
    pub(crate) projections: Arc<Projections>,
    pub(crate) recent_owners: RecentOwners,
}

/// Finds the commands from files that apply in a workspace. Blocks.
pub type CommandSource = Arc<dyn Fn(&Path) -> CustomCommands + Send + Sync>;

/// Whether a client may have the model with this name, or why not. Blocks on the file system.
pub type ModelCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Which sessions are served.
pub enum ServedSessions {
    /// The one session of this process. A message without a context is its next prompt.
    Shared(SessionId),
    /// A message without a context opens a new session.
    Many,
}

/// The settings of new sessions, and what clients may change.
pub struct Defaults {
    pub settings: Settings,
    pub workspace: PathBuf,
    /// Directories below which a client may choose its workspace.
    pub roots: Vec<PathBuf>,
    /// Loggia's own directories below the roots, closed to clients. Canonical, like the roots.
    pub reserved_dirs: Vec<PathBuf>,
    pub agent: AgentName,
    /// All tools.
    pub tools: Vec<Tool>,
    /// Whether a client may turn approvals off for its session.
    pub auto_execute: bool,
    pub model_check: ModelCheck,
}

/// The client that makes a request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Principal,
    pub origin: Origin,
    /// The request's share of the bytes that clients may have in memory.
    pub load: Arc<Load>,
    /// When the first look-up for the request began, if that was before its dispatch.
    pub(crate) started: Option<Instant>,
}

impl Caller {
    pub fn new(principal: Principal, origin: Origin) -> Self {
        Self { principal, origin, load: Arc::default(), started: None }
    }

    /// The view of a client of this caller.
    pub(crate) fn reads(&self, view: View) -> View {
        view.read_by(self.origin.guest().is_some())
    }

    /// The same caller with another request.
    pub(crate) fn again(&self) -> Self {
        Self { load: Arc::default(), started: None, ..self.clone() }
    }
}

impl Server {
    /// Sessions and projections will run in the current runtime.
    pub fn new(
        hub: Arc<Hub>,
        sessions: ServedSessions,
        defaults: Defaults,
        facts: CardFacts,
    ) -> Self {
        let limits = ClientLimits::default();
        let replies = ByteShares::default();
        Self {
            hub,
            sessions,
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
            projections: Arc::new(Projections::new(Handle::current())),
            recent_owners: RecentOwners::default(),
        }
    }

    #[must_use]
    pub fn with_limits(mut self, limits: ClientLimits) -> Self {
        self.streams = Streams::new(limits.streams).counting(&self.replies);
        self.limits = limits;
        self
    }

    /// Issues tokens to registered clients, and announces it on the card.
    #[must_use]
    pub fn with_oauth(mut self, oauth: Arc<OAuth>) -> Self {
        if let Some(webhooks) = &self.push {
            webhooks.end_with_clients(oauth.clone());
        }
        self.oauth = Some(oauth);
        self
    }

    /// Lists and runs commands from files.
    #[must_use]
    pub fn with_commands(mut self, commands: CommandSource) -> Self {
        self.commands = Some(commands);
        self
    }

    /// Lets sessions work in clones of repositories.
    #[must_use]
    pub fn with_clones(mut self, clones: ClonePolicy) -> Self {
        self.clones = Some(clones);
        self
    }

    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// The connected clients that the caller may see: only its own, unless the session is shared.
    pub(crate) fn seen_by(&self, caller: &Caller, mut present: Vec<Origin>) -> Vec<Origin> {
        if let (ServedSessions::Many, false) = (&self.sessions, caller.principal.scopes.admin) {
            present.retain(|origin| origin.principal.as_ref() == Some(&caller.principal.name));
        }
        present
    }

    pub(crate) async fn open(&self, id: &SessionId) -> Result<SessionHandle, WireError> {
        self.in_session_runtime(self.hub.open(id)).await.map_err(hub_error)
    }

    /// Polls the future here, but spawns its tasks in the runtime of the sessions.
    pub(crate) async fn in_session_runtime<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            let _entered = self.projections.runtime().enter();
            future.as_mut().poll(context)
        })
        .await
    }

    /// A permit for the stream, if the answer is one. Taken before the request is carried out: a refused request has no
    /// effect.
    pub(crate) fn stream_permit(
        &self,
        asked: &DecodedRequest,
        caller: &Caller,
    ) -> Result<Option<StreamPermit>, WireError> {
        if !asked.is_stream() {
            return Ok(None);
        }
        let permit = self.streams.admit(&caller.principal);
        permit.map(Some).map_err(|_| Condition::TooManyStreams.into())
    }

    /// Whether a message may open a session.
    pub(crate) fn serves_many_sessions(&self) -> bool {
        matches!(self.sessions, ServedSessions::Many)
    }

    /// Reads the body of a request. A large one waits until its bytes can be counted.
    pub(crate) async fn read_body(&self, body: Body, caller: &Caller) -> Result<Bytes, Rejection> {
        let exact = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        if exact.is_some_and(|size| size <= SMALL) {
            return read_body(body, BODY_LIMIT, BODY_TIME).await;
        }
        let share = BodyShare { bodies: &self.bodies, principal: &caller.principal.name };
        let (bytes, permit) = read_growing_body(body, BODY_LIMIT, BODY_TIME, share).await?;
        caller.load.hold_body(permit);
        Ok(bytes)
    }

    /// Counts a message that is in memory already.
    pub(crate) async fn count_body(&self, bytes: usize, caller: &Caller) -> Result<(), WireError> {
        if bytes > SMALL {
            let permit = self.bodies.acquire(&caller.principal.name, bytes).await;
            caller.load.hold_body(Some(permit.ok_or(Condition::Busy)?));
        }
        Ok(())
    }

    /// Counts a reply of this weight until it is sent. Waits while too many bytes are counted.
    pub(crate) async fn count_reply(&self, bytes: usize, caller: &Caller) -> Result<(), WireError> {
        if bytes > SMALL {
            let permit = self.replies.acquire(&caller.principal.name, bytes).await;
            caller.load.hold_reply(permit.ok_or(Condition::Busy)?);
        }
        Ok(())
    }
}

/// Why a session stopped while a request waited for it.
pub(crate) fn stopped(handle: &SessionHandle) -> WireError {
    match handle.failure() {
        Some(error) => hub_error(HubError::Store(error.clone())),
        None => Condition::Restarting.into(),
    }
}

pub(crate) fn submit_error(error: SubmitError) -> WireError {
    match error {
        SubmitError::Refused(Refusal::MayNotAnswer) => out_of_scope(Scope::Approve),
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
