//! Registered clients: documents of the store, so that a running server sees a change of another process
//! with its next request.
//!
//! A name can be used again after its client was revoked. Ownership is therefore bound to an id that is
//! never reused. Each change gives the client a new serial, and a token contains the serial that it was
//! issued for, so a new secret or a revocation ends the old tokens. A change is a compare-and-swap, so two
//! processes cannot undo each other's.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use loggia_core::Millis;
use loggia_core::origin::PRINCIPAL_SEPARATOR;
use loggia_session::{Document, Principals, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::scope::{Grant, Scopes};
use super::secret::{NoRandomness, Secret, SecretHash, serial as fresh_serial};
use crate::time::now;

const CLIENTS: &str = "oauth-clients";
/// The prefix of clients' principals.
const PREFIX: &str = "client:";
const MOST_CLIENTS: usize = 1_024;
/// How often a change is retried after a concurrent one.
const ATTEMPTS: usize = 8;
/// Devices of the same name.
const MOST_ALIKE: usize = 64;
/// Characters of a device's name that are kept.
const LONGEST_DEVICE: usize = 40;

/// The sample of a public guide. It can never be registered.
pub const SAMPLE: (&str, &str) = ("a2a-claude-client-123", "verysecretclientkey");

/// A registered client. Has no `Debug`, because it holds the hash of a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Client {
    /// Also the `client_id`. Can be used again after this client is revoked.
    pub name: String,
    /// Never reused. None for clients of versions without ids: each of them is the first of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    pub scopes: Scopes,
    #[serde(default)]
    pub grant: Grant,
    pub serial: String,
    pub created: Millis,
    /// When the secret was generated.
    pub changed: Millis,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    pub(super) secret: SecretHash,
}

impl Client {
    /// The owner of what this client creates: its name and its id.
    pub fn principal(&self) -> String {
        let Self { name, id, .. } = self;
        match id {
            Some(id) => format!("{PREFIX}{name}{PRINCIPAL_SEPARATOR}{id}"),
            None => format!("{PREFIX}{name}"),
        }
    }

    /// A client that is not in the store.
    pub(super) fn built_in(name: &str, serial: &str, secret: SecretHash) -> Self {
        let (name, serial, scopes) = (name.to_owned(), serial.to_owned(), Scopes::REGISTERED);
        let (id, grant, created, until) = (None, Grant::None, now(), None);
        Self { name, id, scopes, grant, serial, created, changed: created, until, secret }
    }

    fn fresh(name: &str, scopes: Scopes, secret: SecretHash) -> Result<Self, NoRandomness> {
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
    #[error("another process is changing this client: try again")]
    Contended,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The client's name in a principal, if it is a client's.
pub(super) fn name_in(principal: &str) -> Option<&str> {
    principal.strip_prefix(PREFIX)?.split(PRINCIPAL_SEPARATOR).next()
}

/// Whether this can be a `client_id`.
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

    /// Registers a client. Its secret is returned here and stored nowhere.
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
        self.remove_expired_clients().await?;
        let (secret, hash) = fresh_secret().await?;
        let client = Client { grant, ..Client::fresh(name, scopes, hash)? };
        match self.store.replace(None, document(&client.name, Some(&client))?).await? {
            true => Ok(secret),
            false => Err(ClientError::Taken(client.name)),
        }
    }

    /// Registers a device under its own name, or that name with a number.
    pub(super) async fn add_device(
        &self,
        device: &str,
        scopes: Scopes,
        until: Millis,
    ) -> Result<(Client, Secret), ClientError> {
        self.remove_expired_clients().await?;
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

    /// Removes expired clients, and fails if there are too many left.
    async fn remove_expired_clients(&self) -> Result<(), ClientError> {
        let at = now();
        for (name, text) in self.store.documents(CLIENTS, "").await? {
            if read(&text).is_some_and(|client| client.is_over(at)) {
                // False if another process changed it first.
                let _ = self.store.replace(Some(text), document(&name, None)?).await?;
            }
        }
        match self.list().await?.len() >= MOST_CLIENTS {
            true => Err(ClientError::TooMany),
            false => Ok(()),
        }
    }

    /// Generates a new secret; the old one and its tokens become invalid.
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

    /// Invalidates its secret and its tokens. Its sessions stay.
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

/// The device's own name, without characters that a client's name cannot have.
fn device_name(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let words = text.split(|letter| !plain(letter)).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(LONGEST_DEVICE).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

/// Hashes on a blocking thread.
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

/// None if it has expired.
fn current(text: &str) -> Option<Client> {
    read(text).filter(|client| !client.is_over(now()))
}

/// None for the form of another version: such a client is not admitted.
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
