//! Registered clients: who may ask for tokens, and what for. Documents of the store, so that a server
//! that runs sees every change with its next request, whoever made it.
//!
//! A name may be given again once its client is revoked, and whoever gets it is somebody else: what a
//! client owns, it owns by an id of its own that is never given twice. Whatever is done to a client
//! gives it a new serial, and a token names the serial it was made
//! for: a new secret or no client any more, and the old tokens are worth nothing. A change is
//! made only if nobody else made one since it was looked at, so two processes at once cannot
//! undo each other's.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use loggia_core::Millis;
use loggia_core::origin::PRINCIPAL_SEPARATOR;
use loggia_session::{Document, Principals, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::scope::{Grant, Scopes};
use super::secret::{NoChance, Secret, SecretHash, serial as fresh_serial};
use crate::time::now;

const CLIENTS: &str = "oauth-clients";
/// What the names of principals begin with that are clients.
const PREFIX: &str = "client:";
/// More would be something else than people's agents.
const MOST_CLIENTS: usize = 1_024;
/// How often a change is tried again that another one came before.
const ATTEMPTS: usize = 8;
/// Devices of one name.
const MOST_ALIKE: usize = 64;
/// Of a device's own name, so much is kept.
const LONGEST_DEVICE: usize = 40;

/// The sample that is printed in a public guide: never a real client.
pub const SAMPLE: (&str, &str) = ("a2a-claude-client-123", "verysecretclientkey");

/// Somebody registered. Has no `Debug`: it holds what is kept of a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Client {
    /// Also the `client_id`. May be given to another once this one is revoked.
    pub name: String,
    /// What no other client ever has, whatever its name. None for clients from before there were such
    /// ids: each of them is the first of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    pub scopes: Scopes,
    #[serde(default)]
    pub grant: Grant,
    pub serial: String,
    pub created: Millis,
    /// When the secret was made.
    pub changed: Millis,
    /// When it is no client any more, by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    pub(super) secret: SecretHash,
}

impl Client {
    /// Who owns what this client makes: its name, and what is its own for ever.
    pub fn principal(&self) -> String {
        let Self { name, id, .. } = self;
        match id {
            Some(id) => format!("{PREFIX}{name}{PRINCIPAL_SEPARATOR}{id}"),
            None => format!("{PREFIX}{name}"),
        }
    }

    /// One that is in no store, and the only one of its name.
    pub(super) fn built_in(name: &str, serial: &str, secret: SecretHash) -> Self {
        let (name, serial, scopes) = (name.to_owned(), serial.to_owned(), Scopes::REGISTERED);
        let (id, grant, created, until) = (None, Grant::None, now(), None);
        Self { name, id, scopes, grant, serial, created, changed: created, until, secret }
    }

    fn fresh(name: &str, scopes: Scopes, secret: SecretHash) -> Result<Self, NoChance> {
        let (name, id, serial) = (name.to_owned(), Some(fresh_serial()?), fresh_serial()?);
        let (grant, created, until) = (Grant::None, now(), None);
        Ok(Self { name, id, scopes, grant, serial, created, changed: created, until, secret })
    }

    fn is_over(&self, at: Millis) -> bool {
        self.until.is_some_and(|until| until <= at)
    }
}

/// Why a client was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("a client's name has 1 to 64 letters, digits, `-`, `_` or `.`")]
    Name,
    #[error("`{0}` is the sample of a public guide: choose another name")]
    Sample(String),
    #[error("there is a client `{0}` already: choose another name, or `loggia clients rotate {0}`")]
    Taken(String),
    #[error("there is no client `{0}`: see `loggia clients list`")]
    Unknown(String),
    #[error("a client without any scope could do nothing: give it one, such as `--scope read`")]
    NoScope,
    #[error("there are {MOST_CLIENTS} clients already: revoke some first")]
    TooMany,
    #[error("others change this client all the time: try again")]
    Contended,
    #[error(transparent)]
    NoChance(#[from] NoChance),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The name of the client that a principal is or was, if it is one.
pub(super) fn name_in(principal: &str) -> Option<&str> {
    principal.strip_prefix(PREFIX)?.split(PRINCIPAL_SEPARATOR).next()
}

/// What `client_id` may be.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= 64 && text.bytes().all(plain)
}

/// All registered clients.
#[derive(Clone)]
pub struct Clients {
    store: Arc<dyn Store>,
}

impl Clients {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Registers a client; its secret is known to nobody but who gets it from here.
    pub async fn add(
        &self,
        name: &str,
        scopes: Scopes,
        grant: Grant,
    ) -> Result<Secret, ClientError> {
        if !is_name(name) {
            return Err(ClientError::Name);
        }
        if name == SAMPLE.0 {
            return Err(ClientError::Sample(name.to_owned()));
        }
        if scopes.is_empty() {
            return Err(ClientError::NoScope);
        }
        self.make_room().await?;
        let (secret, hash) = fresh_secret().await?;
        let client = Client { grant, ..Client::fresh(name, scopes, hash)? };
        match self.store.replace(None, document(&client.name, Some(&client))?).await? {
            true => Ok(secret),
            false => Err(ClientError::Taken(client.name)),
        }
    }

    /// Registers a device under its own name, or one close to it that is free.
    pub(super) async fn add_device(
        &self,
        device: &str,
        scopes: Scopes,
        until: Millis,
    ) -> Result<(Client, Secret), ClientError> {
        self.make_room().await?;
        let (secret, hash) = fresh_secret().await?;
        for number in 1..=MOST_ALIKE {
            let name = match number {
                1 => device_name(device),
                _ => format!("{}-{number}", device_name(device)),
            };
            if name == SAMPLE.0 {
                continue;
            }
            let client = Client::fresh(&name, scopes, hash.clone())?;
            let client = Client { until: Some(until), ..client };
            if self.store.replace(None, document(&name, Some(&client))?).await? {
                return Ok((client, secret));
            }
        }
        Err(ClientError::Taken(device_name(device)))
    }

    /// Those whose time is over leave their names and their places.
    async fn make_room(&self) -> Result<(), ClientError> {
        let at = now();
        for (name, text) in self.store.documents(CLIENTS, "").await? {
            if read(&text).is_some_and(|client| client.is_over(at)) {
                // Somebody else was here.
                let _ = self.store.replace(Some(text), document(&name, None)?).await?;
            }
        }
        match self.list().await?.len() >= MOST_CLIENTS {
            true => Err(ClientError::TooMany),
            false => Ok(()),
        }
    }

    /// A new secret; the old one and every token made with it end here.
    pub async fn rotate(&self, name: &str) -> Result<Secret, ClientError> {
        let (secret, hash) = fresh_secret().await?;
        let serial = fresh_serial()?;
        let renew = |client: Client| {
            let (serial, secret) = (serial.clone(), hash.clone());
            Some(Client { serial, secret, changed: now(), ..client })
        };
        self.change(name, renew).await?;
        Ok(secret)
    }

    /// Its secret and its tokens end here. What it did stays.
    pub async fn revoke(&self, name: &str) -> Result<(), ClientError> {
        self.change(name, |_| None).await
    }

    async fn change(
        &self,
        name: &str,
        to: impl Fn(Client) -> Option<Client>,
    ) -> Result<(), ClientError> {
        for _ in 0..ATTEMPTS {
            let text = self.store.document(CLIENTS, name).await?;
            let found = text.as_deref().and_then(current);
            let client = found.ok_or_else(|| ClientError::Unknown(name.to_owned()))?;
            let changed = document(name, to(client).as_ref())?;
            if self.store.replace(text, changed).await? {
                return Ok(());
            }
        }
        Err(ClientError::Contended)
    }

    pub async fn find(&self, name: &str) -> Result<Option<Client>, StoreError> {
        let text = self.store.document(CLIENTS, name).await?;
        Ok(text.as_deref().and_then(current))
    }

    /// By name.
    pub async fn list(&self) -> Result<Vec<Client>, StoreError> {
        let documents = self.store.documents(CLIENTS, "").await?;
        Ok(documents.iter().filter_map(|(_, text)| current(text)).collect())
    }
}

impl Principals for Clients {
    fn knows<'a>(&'a self, principal: &'a str) -> BoxFuture<'a, bool> {
        let known = async move {
            let Some(name) = name_in(principal) else { return true };
            let found = self.find(name).await.ok().flatten();
            found.is_some_and(|client| client.principal() == principal)
        };
        known.boxed()
    }
}

/// What a device calls itself, as far as that can be a client's name.
fn device_name(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let words = text.split(|letter| !plain(letter)).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(LONGEST_DEVICE).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

/// Hashing takes a moment: not on the runtime's threads.
async fn fresh_secret() -> Result<(Secret, SecretHash), ClientError> {
    let secret = Secret::fresh()?;
    let hashed = tokio::task::spawn_blocking(move || {
        let hash = SecretHash::of(&secret)?;
        Ok((secret, hash))
    });
    hashed.await.unwrap_or_else(|error| Err(ClientError::Store(StoreError::Io(error.to_string()))))
}

fn document(name: &str, client: Option<&Client>) -> Result<Document, StoreError> {
    let value = client.map(serde_json::to_string).transpose();
    let value = value.map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(Document { collection: CLIENTS.to_owned(), key: name.to_owned(), value })
}

/// A client that still is one.
fn current(text: &str) -> Option<Client> {
    read(text).filter(|client| !client.is_over(now()))
}

/// None for what another version wrote in another form: it opens nothing here.
fn read(text: &str) -> Option<Client> {
    serde_json::from_str(text)
        .inspect_err(|error| {
            tracing::warn!(line = error.line(), column = error.column(), "a client is unreadable");
        })
        .ok()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
