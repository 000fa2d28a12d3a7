//! Whose session it is: from a caller's name or task to a session, and to nothing that is somebody
//! else's. Every look-up of every route ends here.
//!
//! Where sessions are many, what belongs to another principal is answered exactly like what does not
//! exist, with the same work: the store is asked the same questions, and no session is opened for a
//! caller that does not own it. A name that another has taken is as free as any: the session of a
//! client always has an id with the client's mark, whether or not somebody else has the name. The
//! person at this machine sees all sessions anyway, and gets plain ids. Which scope an intent needs
//! is not known here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::{Refusal, Seq, Session, SessionId, TaskId};
use loggia_session::{HubError, NewSession, SessionHandle, StoreError, SubmitError};
use loggia_wire::{Condition, Violation, WireError, context};
use sha2::{Digest, Sha256};

use crate::auth::is_local_user;
use crate::state::{Caller, Server, Shape, hub_error, submit_error};

/// Names of one answer.
const MOST_NAMED: usize = 8;

/// Sessions that their owners have used lately: the store need not be asked again whose they are.
/// Only a hint, which is confirmed in the session. It changes nothing for anybody else.
#[derive(Default)]
pub(crate) struct Used {
    /// A lock, not a task: held for a look-up.
    owners: Mutex<HashMap<SessionId, Arc<str>>>,
}

impl Used {
    /// When it is full, it begins again.
    const MOST: usize = 4_096;

    fn is_by(&self, session: &SessionId, principal: &Arc<str>) -> bool {
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
    /// An existing session, if the caller may see it. Whoever may not cannot tell it from none.
    pub(crate) async fn session(
        &self,
        id: &SessionId,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        match &self.shape {
            Shape::Shared(shared) if shared == id => Ok(self.open(id).await?),
            Shape::Shared(_) => Err(Condition::UnknownContext.into()),
            Shape::Many if caller.principal.scopes.admin => match self.meant(id).await? {
                Some(id) => self.own(&id, caller).await,
                None => Err(Condition::UnknownContext.into()),
            },
            Shape::Many => match self.own(id, caller).await {
                // A client's own has a mark.
                Err(WireError::Condition(Condition::UnknownContext)) => {
                    self.own(&apart(id, caller), caller).await
                }
                found => found,
            },
        }
    }

    /// The session of exactly this id, if it is the caller's.
    async fn own(&self, id: &SessionId, caller: &Caller) -> Result<SessionHandle, WireError> {
        let principal = &caller.principal;
        let known = principal.scopes.admin || self.used.is_by(id, &principal.name);
        // Before it is opened: opening takes longer than finding nothing. That another process has
        // it, or that it is busy or damaged, is for its owner to know.
        if !known && !self.is_owner_by_log(id, caller).await? {
            return Err(Condition::UnknownContext.into());
        }
        let opened = self.open_if_own(id, caller).await?;
        let handle = opened.ok_or(Condition::UnknownContext)?;
        if !principal.scopes.admin {
            self.used.note(id, &principal.name);
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
        let look = move |session: &Session| {
            let owner = session.opened().and_then(|opened| opened.principal.as_ref());
            owner.is_some_and(|owner| *owner == name)
        };
        let mine = handle.inspect(look).await.map_err(submit_error)?;
        Ok((mine || caller.principal.scopes.admin).then_some(handle))
    }

    /// The same without opening it: one read, whether or not there is such a session.
    async fn is_owner_by_log(&self, id: &SessionId, caller: &Caller) -> Result<bool, WireError> {
        match self.hub.store().read(id, Seq::ZERO, 1).await {
            Ok(events) => {
                let owner = events.first().and_then(|first| first.origin.principal.as_ref());
                Ok(owner == Some(&caller.principal.name))
            }
            Err(StoreError::Unknown(_) | StoreError::Corrupt { .. }) => Ok(false),
            // Nothing can be read now, whosever it is.
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
            return Ok(self.meant(name).await?.unwrap_or_else(|| name.clone()));
        }
        let own = apart(name, caller);
        Ok(if self.is_unknown(&own).await? { name.clone() } else { own })
    }

    /// Whether a name that came together with a task is one of its session.
    pub(crate) async fn is_name_of(
        &self,
        name: &SessionId,
        session: &SessionId,
        caller: &Caller,
    ) -> Result<bool, WireError> {
        if name == session || name.as_str() == context::shown(session) {
            return Ok(true);
        }
        let admin = self.is_many() && caller.principal.scopes.admin;
        Ok(admin && self.meant(name).await?.as_ref() == Some(session))
    }

    /// The session that an admin means, to whom the names of all clients are shown. One that several
    /// clients gave means none of theirs: the answer is what to call each of them.
    async fn meant(&self, name: &SessionId) -> Result<Option<SessionId>, WireError> {
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
        let why = format!("is what several clients call theirs; name one: {}", names.join(", "));
        Err(WireError::Invalid(Violation { field: "contextId".to_owned(), why }))
    }

    /// What nobody else's session is called: its id, with its owner's mark where it has none.
    async fn full_name(&self, id: &SessionId) -> Result<SessionId, StoreError> {
        if context::is_apart(id) {
            return Ok(id.clone());
        }
        let first = self.hub.store().read(id, Seq::ZERO, 1).await?;
        let owner = first.first().and_then(|first| first.origin.principal.as_deref());
        Ok(context::apart(id, mark(owner.unwrap_or_default())))
    }

    /// The session of a task, if the caller may see it.
    pub(crate) async fn session_of(
        &self,
        task: &TaskId,
        caller: &Caller,
    ) -> Result<SessionHandle, WireError> {
        let found = self.hub.locate(task).await.map_err(hub_error)?;
        let Some(id) = found else {
            if self.is_many() {
                // As much work as for the task of another client.
                self.is_owner_by_log(&task.as_str().into(), caller).await?;
            }
            return Err(Condition::TaskNotFound.into());
        };
        // This very session: the caller's own of the same name would be another one.
        let session = match &self.shape {
            Shape::Shared(_) => self.session(&id, caller).await,
            Shape::Many => self.own(&id, caller).await,
        };
        session.map_err(|error| match error {
            WireError::Condition(Condition::UnknownContext) => Condition::TaskNotFound.into(),
            other => other,
        })
    }

    /// Under the name that the client gives, with its mark; the person at this machine without one,
    /// unless the plain id is taken.
    pub(crate) async fn create_named(
        &self,
        name: &NewName,
        new: impl Fn(&SessionId) -> Result<NewSession, WireError>,
        caller: &Caller,
    ) -> Result<Created, WireError> {
        let (name, plain) = match name {
            NewName::Given(name) => (name, is_local_user(&caller.principal.name)),
            NewName::Made(name) => (name, true),
        };
        let plain = (plain && !context::is_apart(name)).then(|| name.clone());
        for id in plain.into_iter().chain([apart(name, caller)]) {
            if self.is_unknown(&id).await? {
                let created =
                    self.hub.create_named(Some(id.clone()), new(&id)?, caller.origin.clone());
                match self.at_home(created).await {
                    Ok(handle) => return Ok(Created::Now(handle)),
                    // Two first messages of one context at once: the other one opened it.
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

/// What a new session is to be called.
pub(crate) enum NewName {
    /// By its client. Another may have chosen the same.
    Given(SessionId),
    /// By us; there is no other of this name.
    Made(SessionId),
}

/// A session that a message was to open.
pub(crate) enum Created {
    Now(SessionHandle),
    /// By another message, at the same time.
    Before(SessionHandle),
}

/// The id of the caller's session of this name, where the name itself is somebody else's.
fn apart(name: &SessionId, caller: &Caller) -> SessionId {
    context::apart(name, mark(&caller.principal.name))
}

/// What tells one principal's sessions from another's of the same name.
fn mark(principal: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(principal.as_bytes()).into();
    digest.iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}
