//! Access to sessions: from a name or a task to a session that the caller may see. Every lookup of every route ends here,
//! and so does the creation of sessions.
//!
//! Another client's session looks exactly like one that does not exist, and takes the same work: the store gets the same
//! queries, and a session is opened only for its owner. The ids of a client's named sessions contain the client's suffix, so
//! a name is free whether or not another client uses it. The local user sees all sessions and gets plain ids. The scopes
//! of requests are checked by `required_scopes`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::{Command, Level, Origin, Refusal, Seq, Session, SessionId, TaskId, Workspace};
use loggia_session::{HubError, NewSession, SessionHandle, StoreError, SubmitError, hub};
use loggia_wire::{AgentSettings, Condition, Violation, WireError, context};
use sha2::{Digest, Sha256};

use crate::auth::is_local_user;
use crate::requested_settings::WorkspaceChoice;
use crate::state::{Caller, ServedSessions, Server, hub_error, submit_error};

/// Session names that one error lists.
const MOST_NAMED: usize = 8;

/// The owners of recently used sessions, which saves a read of the store. Only a hint: the session confirms it.
#[derive(Default)]
pub(crate) struct RecentOwners {
    owners: Mutex<HashMap<SessionId, Arc<str>>>,
}

impl RecentOwners {
    /// Cleared when it is full.
    const MOST: usize = 4_096;

    fn is_owner(&self, session: &SessionId, principal: &Arc<str>) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(session) == Some(principal)
    }

    fn note(&self, session: &SessionId, principal: &Arc<str>) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= Self::MOST {
            owners.clear();
        }
        owners.insert(session.clone(), principal.clone());
    }
}

impl Server {
    /// An existing session, if the caller may see it.
    pub(crate) async fn session(
        &self,
        id: &SessionId,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        match &self.sessions {
            ServedSessions::Shared(shared) if shared == id => Ok(self.open(id).await?),
            ServedSessions::Shared(_) => Err(Condition::UnknownContext.into()),
            ServedSessions::Many if caller.principal.scopes.admin => {
                match self.resolve_name_for_admin(id).await? {
                    Some(id) => self.own(&id, caller).await,
                    None => Err(Condition::UnknownContext.into()),
                }
            }
            ServedSessions::Many => match self.own(id, caller).await {
                // The client's own session of this name has its suffix.
                Err(WireError::Condition(Condition::UnknownContext)) => {
                    self.own(&own_id(id, caller), caller).await
                }
                found => found,
            },
        }
    }

    /// The session with exactly this id, if it is the caller's.
    async fn own(&self, id: &SessionId, caller: &Caller) -> Result<SessionHandle, WireError> {
        let principal = &caller.principal;
        let known = principal.scopes.admin || self.recent_owners.is_owner(id, &principal.name);
        // Checked before opening, which takes longer than finding nothing. Only the owner learns that a session is busy,
        // damaged or held by another process.
        if !known && !self.is_owner_by_log(id, caller).await? {
            return Err(Condition::UnknownContext.into());
        }
        let opened = self.open_if_own(id, caller).await?;
        let handle = opened.ok_or(Condition::UnknownContext)?;
        if !principal.scopes.admin {
            self.recent_owners.note(id, &principal.name);
        }
        Ok(handle)
    }

    async fn open_if_own(
        &self,
        id: &SessionId,
        caller: &Caller,
    ) -> Result<Option<SessionHandle>, WireError> {
        let handle = self.open(id).await?;
        let name = caller.principal.name.clone();
        let is_owner = move |session: &Session| {
            let owner = session.opened().and_then(|opened| opened.principal.as_ref());
            owner.is_some_and(|owner| *owner == name)
        };
        let mine = handle.inspect(is_owner).await.map_err(submit_error)?;
        Ok((mine || caller.principal.scopes.admin).then_some(handle))
    }

    /// Checks the owner without opening the session: one read, whether or not the session exists.
    async fn is_owner_by_log(&self, id: &SessionId, caller: &Caller) -> Result<bool, WireError> {
        match self.hub.store().read(id, Seq::ZERO, 1).await {
            Ok(events) => {
                let owner = events.first().and_then(|first| first.origin.principal.as_ref());
                Ok(owner == Some(&caller.principal.name))
            }
            Err(StoreError::Unknown(_) | StoreError::Corrupt { .. }) => Ok(false),
            // The store cannot be read at all.
            Err(error) => Err(hub_error(HubError::Store(error))),
        }
    }

    /// The id of the session that the caller means by a name.
    pub(crate) async fn named_by(
        &self,
        name: &SessionId,
        caller: &Caller,
    ) -> Result<SessionId, WireError> {
        if caller.principal.scopes.admin {
            return Ok(self.resolve_name_for_admin(name).await?.unwrap_or_else(|| name.clone()));
        }
        let own = own_id(name, caller);
        Ok(if self.is_unknown(&own).await? { name.clone() } else { own })
    }

    /// Whether a name is one of this session's names.
    pub(crate) async fn is_name_of(
        &self,
        name: &SessionId,
        session: &SessionId,
        caller: &Caller,
    ) -> Result<bool, WireError> {
        if name == session || name.as_str() == context::shown(session) {
            return Ok(true);
        }
        let admin = self.serves_many_sessions() && caller.principal.scopes.admin;
        Ok(admin && self.resolve_name_for_admin(name).await?.as_ref() == Some(session))
    }

    /// The session that an admin means: admins see the names of all clients. For a name that several clients use, the
    /// error lists the full names.
    async fn resolve_name_for_admin(
        &self,
        name: &SessionId,
    ) -> Result<Option<SessionId>, WireError> {
        let store = |error| hub_error(HubError::Store(error));
        let shown = SessionId::from(context::shown(name));
        let listed = self.hub.store().list(usize::MAX).await.map_err(store)?;
        let mut found = Vec::new();
        for id in listed.into_iter().map(|listed| listed.session) {
            let named = id == *name || context::shown(&id) == name.as_str();
            if named || (id == shown && self.full_name(&id).await.map_err(store)? == *name) {
                found.push(id);
            }
        }
        if found.len() < 2 {
            return Ok(found.pop());
        }
        let mut names = Vec::new();
        for id in found.iter().take(MOST_NAMED) {
            names.push(self.full_name(id).await.map_err(store)?.to_string());
        }
        names.sort();
        let why =
            format!("is the name of several clients' sessions; use one of: {}", names.join(", "));
        Err(WireError::Invalid(Violation { field: "contextId".to_owned(), why }))
    }

    /// The unique name of a session: its id, with its owner's suffix if it has none.
    async fn full_name(&self, id: &SessionId) -> Result<SessionId, StoreError> {
        if context::has_suffix(id) {
            return Ok(id.clone());
        }
        let first = self.hub.store().read(id, Seq::ZERO, 1).await?;
        let owner = first.first().and_then(|first| first.origin.principal.as_deref());
        Ok(context::with_suffix(id, suffix_of(owner.unwrap_or_default())))
    }

    /// The session of a task, if the caller may see it.
    pub(crate) async fn session_of(
        &self,
        task: &TaskId,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let found = self.hub.locate(task).await.map_err(hub_error)?;
        let Some(id) = found else {
            if self.serves_many_sessions() {
                // The same work as for another client's task.
                self.is_owner_by_log(&task.as_str().into(), caller).await?;
            }
            return Err(Condition::TaskNotFound.into());
        };
        // By id, not by name: the caller may have another session of this name.
        let session = match &self.sessions {
            ServedSessions::Shared(_) => self.session(&id, caller).await,
            ServedSessions::Many => self.own(&id, caller).await,
        };
        session.map_err(|error| match error {
            WireError::Condition(Condition::UnknownContext) => Condition::TaskNotFound.into(),
            other => other,
        })
    }

    /// The session of a new task, created if needed.
    pub(crate) async fn session_for(
        &self,
        wanted: Option<&SessionId>,
        settings: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let existing = match (&self.sessions, wanted) {
            (ServedSessions::Shared(shared), None) => {
                Some(Box::pin(self.session(shared, caller)).await?)
            }
            (ServedSessions::Shared(_), Some(id)) => {
                Some(Box::pin(self.session(id, caller)).await?)
            }
            (ServedSessions::Many, None) => None,
            (ServedSessions::Many, Some(id)) => match Box::pin(self.session(id, caller)).await {
                Ok(handle) => Some(handle),
                // The first message may name its context.
                Err(WireError::Condition(Condition::UnknownContext)) => None,
                Err(error) => return Err(error),
            },
        };
        match existing {
            Some(handle) => {
                Box::pin(self.apply_to_existing(&handle, settings, caller)).await?;
                Ok(handle)
            }
            None => self.create(wanted, settings, caller).await,
        }
    }

    /// Whether no session of this id was opened yet.
    async fn is_unknown(&self, id: &SessionId) -> Result<bool, WireError> {
        let head = self.hub.store().head(id).await;
        match head.map_err(|error| hub_error(HubError::Store(error)))? {
            None => Ok(true),
            Some(_) => {
                let handle = match self.open(id).await {
                    // Another process has it.
                    Err(WireError::Condition(Condition::HeldElsewhere)) => return Ok(false),
                    opened => opened?,
                };
                let opened = handle.inspect(|session| session.opened().is_some()).await;
                Ok(!opened.map_err(submit_error)?)
            }
        }
    }

    async fn create(
        &self,
        wanted: Option<&SessionId>,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let choice = self.workspace_choice(asked)?;
        let mut settings = self.defaults.settings.clone();
        if let WorkspaceChoice::Directory(path) = &choice {
            let rules = hub::project_rules(self.hub.store().as_ref(), path).await;
            settings.rules.extend(rules.map_err(|error| hub_error(HubError::Store(error)))?);
        }
        let notices = self.configure(&mut settings, asked, caller)?;
        let agent = self.defaults.agent.clone();
        let name = match (wanted, &choice) {
            (Some(name), _) => NewName::Given(name.clone()),
            // The directory of a clone is named after the session's id.
            (None, WorkspaceChoice::Clone(..)) => NewName::Made(uuid::Uuid::now_v7().into()),
            // Opened in one append with its first message, which follows.
            (None, WorkspaceChoice::Directory(path)) => {
                let workspace = Workspace::Local { path: path.clone() };
                let new = NewSession { workspace, settings, agent };
                let begun = self.hub.begin(new, caller.origin.clone());
                let handle = self.in_session_runtime(begun).await.map_err(hub_error)?;
                self.set_up(&handle, notices, asked, caller).await?;
                return Ok(handle);
            }
        };
        let new = |id: &SessionId| -> Result<NewSession, WireError> {
            let (settings, agent) = (settings.clone(), agent.clone());
            Ok(NewSession { workspace: choice.workspace(id)?, settings, agent })
        };
        match Box::pin(self.create_named(&name, new, caller)).await? {
            Created::Now(handle) => {
                self.set_up(&handle, notices, asked, caller).await?;
                Ok(handle)
            }
            Created::Before(handle) => {
                Box::pin(self.apply_to_existing(&handle, asked, caller)).await?;
                Ok(handle)
            }
        }
    }

    /// Completes a new session before its first message.
    async fn set_up(
        &self,
        handle: &SessionHandle,
        notices: Vec<String>,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<(), WireError> {
        add_notices(handle, notices).await?;
        match asked {
            Some(asked) => Box::pin(self.lower_mode(handle, asked, caller)).await,
            None => Ok(()),
        }
    }

    /// Creates a session under the client's name for it, with the client's suffix. The local user's has no suffix, unless
    /// the plain id is taken.
    async fn create_named(
        &self,
        name: &NewName,
        new: impl Fn(&SessionId) -> Result<NewSession, WireError>,
        caller: &Caller,
    ) -> Result<Created, WireError> {
        let (name, plain) = match name {
            NewName::Given(name) => (name, is_local_user(&caller.principal.name)),
            NewName::Made(name) => (name, true),
        };
        let plain = (plain && !context::has_suffix(name)).then(|| name.clone());
        for id in plain.into_iter().chain([own_id(name, caller)]) {
            if self.is_unknown(&id).await? {
                let created =
                    self.hub.create_named(Some(id.clone()), new(&id)?, caller.origin.clone());
                match self.in_session_runtime(created).await {
                    Ok(handle) => return Ok(Created::Now(handle)),
                    // Another first message of this context came at the same time and opened it.
                    Err(HubError::Submit(SubmitError::Refused(Refusal::AlreadyOpen))) => {}
                    Err(error) => return Err(hub_error(error)),
                }
            }
            match self.own(&id, caller).await {
                Err(WireError::Condition(Condition::UnknownContext)) => {}
                found => return found.map(Created::Before),
            }
        }
        Err(Condition::Busy.into())
    }
}

/// The name of a new session.
enum NewName {
    /// Chosen by its client. Another client may have chosen the same.
    Given(SessionId),
    /// Made by the server, and unique.
    Made(SessionId),
}

enum Created {
    Now(SessionHandle),
    /// By another message, at the same time.
    Before(SessionHandle),
}

/// Adds a notice to the session for each setting that was not applied.
async fn add_notices(handle: &SessionHandle, notices: Vec<String>) -> Result<(), WireError> {
    for text in notices {
        let notice = Command::Notice { level: Level::Warning, text };
        Box::pin(handle.submit(notice, Origin::system())).await.map_err(submit_error)?;
    }
    Ok(())
}

/// The id of the caller's session of this name.
fn own_id(name: &SessionId, caller: &Caller) -> SessionId {
    context::with_suffix(name, suffix_of(&caller.principal.name))
}

/// Distinguishes the sessions of different principals that have the same name.
fn suffix_of(principal: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(principal.as_bytes()).into();
    digest.iter().take(8).fold(0, |suffix, byte| suffix << 8 | u64::from(*byte))
}
