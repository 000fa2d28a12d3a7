//! OAuth 2.0: issues a token for a client's secret or for a one-time code, and a principal for a token.
//!
//! The form of requests and answers is in `http::token`; `required_scopes` checks scopes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use futures::FutureExt;
use futures::future::BoxFuture;
use loggia_core::Millis;
use loggia_session::{Principals, Store, StoreError};

use super::access_token::{self, Fault, NewToken};
use super::client::{Client, Clients, SAMPLE, is_name, name_in};
use super::credential_lifetime::{ActiveCredentials, Credential, CredentialLifetime};
use super::keys::{KeyError, Keys};
use super::limiter::{Limiter, Source};
use super::pairing::{Code, Pairing, PairingError, RedeemError};
use super::scheme::{CredentialCheck, Scheme};
use super::scope::Scopes;
use super::secret::{Checker, NoRandomness, Secret, SecretHash, TooManyChecks, serial};
use super::{Principal, bearer};
use crate::peer::PeerIdentity;
use crate::time::now;

/// Wrong secrets without a delay: from one source, and for one client from all sources.
const FREE_BY_SOURCE: u32 = 5;
const FREE_BY_CLIENT: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// How old the cached answer may be whether there are clients.
const FRESH: Duration = Duration::from_secs(1);
/// Sources that are remembered because a client sent the right secret from there.
const MOST_PROVEN: usize = 1_024;

/// How long a device that used a code stays registered.
const DEVICE_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// Whether the published sample client is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleClient {
    Off,
    /// For local processes of this user.
    On,
}

/// Issues and checks tokens, and slows down guessing.
pub struct OAuth {
    clients: Clients,
    keys: Arc<Keys>,
    checker: Checker,
    sample: Option<Client>,
    active: Arc<ActiveCredentials>,
    pairing: Pairing,
    by_source: Limiter,
    by_client: Limiter,
    /// A lock, not a task: held for a look-up.
    proven: Mutex<HashSet<(Source, String)>>,
    /// A lock, not a task: held to copy the cached answer.
    in_use: Mutex<Option<(Instant, bool)>>,
}

/// A request for a token.
pub struct TokenRequest {
    pub client: String,
    pub secret: Secret,
    /// None: all scopes of the client.
    pub scopes: Option<Scopes>,
}

pub struct Issued {
    pub token: String,
    pub life: Duration,
}

/// A request of a new device with a code.
pub struct PairingRequest<'a> {
    pub code: &'a str,
    /// The device's name for itself.
    pub device: &'a str,
    /// None: all scopes of the code.
    pub scopes: Option<Scopes>,
}

/// A device that was registered with a code.
pub struct Paired {
    pub issued: Issued,
    pub client: Client,
    pub secret: Secret,
}

/// Why no token is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// No such client, or a wrong secret: the answer does not say which.
    Client,
    /// No such code, or no longer: the answer does not say which.
    Code,
    /// More scopes than the client or the code has.
    Scope,
    Wait(Duration),
    TooManyChecks,
    Storage,
}

/// Why tokens cannot be issued or checked.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OAuth {
    /// Hashes the sample's secret if that is on: call it off the runtime's threads.
    pub fn new(store: Arc<dyn Store>, sample: SampleClient) -> Result<Self, OAuthError> {
        let clients = Clients::new(store.clone());
        let sample = match sample {
            SampleClient::Off => None,
            SampleClient::On => Some(sample_client()?),
        };
        let extra = sample.as_ref().map(|client| (client.name.clone(), client.serial.clone()));
        let keys = Arc::new(Keys::new(store.clone()));
        Ok(Self {
            pairing: Pairing::here(store)?,
            active: Arc::new(ActiveCredentials::new(clients.clone(), keys.clone(), extra)),
            clients,
            keys,
            checker: Checker::new()?,
            sample,
            by_source: Limiter::new(FREE_BY_SOURCE, WINDOW),
            by_client: Limiter::new(FREE_BY_CLIENT, WINDOW),
            proven: Mutex::default(),
            in_use: Mutex::default(),
        })
    }

    /// Whether there is any client.
    pub async fn has_clients(&self) -> Result<bool, StoreError> {
        Ok(self.sample.is_some() || !self.clients.list().await?.is_empty())
    }

    /// The same from a cache, because the question needs no authentication.
    pub(crate) async fn is_in_use(&self) -> bool {
        let known = *self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, in_use)) = known.filter(|(read, _)| read.elapsed() < FRESH) {
            return in_use;
        }
        let in_use = self.has_clients().await.unwrap_or_else(|error| {
            tracing::error!(%error, "the clients cannot be read");
            known.is_some_and(|(_, in_use)| in_use)
        });
        let known = Some((Instant::now(), in_use));
        *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = known;
        in_use
    }

    /// False if this principal is a client that was revoked.
    pub(crate) async fn still_knows(&self, principal: &str) -> Result<bool, StoreError> {
        let Some(name) = name_in(principal) else { return Ok(true) };
        Ok(self.find(name).await?.is_some_and(|client| client.principal() == principal))
    }

    /// The limiter is asked before the secret is checked.
    pub async fn issue(
        &self,
        asked: TokenRequest,
        source: Source,
        identity: &PeerIdentity,
    ) -> Result<Issued, Denied> {
        self.may_try(&asked.client, &source, Instant::now()).map_err(Denied::Wait)?;
        let client = self.find(&asked.client).await.map_err(storage)?;
        let client = client.filter(|client| may_be(client, identity));
        let kept = client.as_ref().map(|client| client.secret.clone());
        let fits = self.checker.fits(kept, asked.secret).await;
        let Some(client) = client.filter(|_| fits == Ok(true)) else {
            return Err(match fits {
                Err(TooManyChecks) => Denied::TooManyChecks,
                Ok(_) => {
                    self.failed(asked.client, source, Instant::now());
                    Denied::Client
                }
            });
        };
        self.succeeded(&client.name, source);
        let scopes = asked.scopes.unwrap_or(client.scopes);
        if !client.scopes.covers(&scopes) || scopes.is_empty() {
            return Err(Denied::Scope);
        }
        self.sign(client, scopes).await
    }

    /// A one-time code for this server.
    pub async fn offer(&self, scopes: Scopes) -> Result<Code, PairingError> {
        self.pairing.offer(scopes, now()).await
    }

    /// Invalidates the code that was offered last.
    pub async fn withdraw(&self) -> Result<(), PairingError> {
        self.pairing.withdraw().await
    }

    /// Registers a device that has a code. The limiter is asked first.
    pub async fn redeem(&self, new: PairingRequest<'_>, source: Source) -> Result<Paired, Denied> {
        self.by_source.check(&source, Instant::now()).map_err(Denied::Wait)?;
        let at = now();
        let scopes = match self.pairing.redeem(new.code, new.scopes, at).await {
            Ok(scopes) => scopes,
            Err(RedeemError::Wrong) => {
                self.by_source.fail(source, Instant::now());
                return Err(Denied::Code);
            }
            Err(RedeemError::Scope) => return Err(Denied::Scope),
            Err(RedeemError::Contended) => return Err(Denied::TooManyChecks),
            Err(RedeemError::Store(error)) => return Err(storage(error)),
        };
        let life = i64::try_from(DEVICE_LIFE.as_millis()).unwrap_or(0);
        let until = Millis(at.0.saturating_add(life));
        let added = self.clients.add_device(new.device, scopes, until).await;
        let (client, secret) = added.map_err(storage)?;
        tracing::info!(client = client.name, %scopes, "a device was paired with a code");
        let issued = self.sign(client.clone(), scopes).await?;
        Ok(Paired { issued, client, secret })
    }

    async fn sign(&self, client: Client, scopes: Scopes) -> Result<Issued, Denied> {
        let ring = self.keys.current().await.map_err(storage)?;
        let token_id = serial().map_err(storage)?;
        let new_token =
            NewToken { client: client.name, client_serial: client.serial, scopes, token_id };
        let token = access_token::sign(&ring, new_token, now()).ok_or(Denied::Storage)?;
        Ok(Issued { token, life: access_token::LIFETIME })
    }

    async fn find(&self, name: &str) -> Result<Option<Client>, StoreError> {
        match &self.sample {
            Some(sample) if sample.name == name => Ok(Some(sample.clone())),
            Some(_) | None if is_name(name) => self.clients.find(name).await,
            Some(_) | None => Ok(None),
        }
    }

    /// Checks the limits of the source and of the client. At a source from which it has sent the right
    /// secret before, only a client's own failures count, so that others cannot lock it out.
    fn may_try(&self, client: &str, source: &Source, at: Instant) -> Result<(), Duration> {
        let known = (source.clone(), client.to_owned());
        if self.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(&known) {
            return self.by_source.check(&Source::known(source, client), at);
        }
        self.by_source.check(source, at)?;
        match is_name(client) {
            true => self.by_client.check(&Source::Client(client.to_owned()), at),
            false => Ok(()),
        }
    }

    fn failed(&self, client: String, source: Source, at: Instant) {
        let known = (source.clone(), client.clone());
        if self.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(&known) {
            self.by_source.fail(Source::known(&source, &client), at);
        }
        if is_name(&client) {
            self.by_client.fail(Source::Client(client), at);
        }
        self.by_source.fail(source, at);
    }

    fn succeeded(&self, client: &str, source: Source) {
        let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.len() >= MOST_PROVEN {
            proven.clear();
        }
        proven.insert((source, client.to_owned()));
    }

    async fn principal(&self, request: &Parts) -> CredentialCheck {
        let Some(text) = bearer(request) else { return CredentialCheck::Unknown };
        let Some(key) = access_token::key_of(text) else { return CredentialCheck::Unknown };
        let looked = async {
            let ring = self.keys.ring_with_key(key).await?;
            let at = now();
            let claims = match access_token::verify(&ring, text, at) {
                Ok(claims) => claims,
                Err(Fault::NotOurs) => return Ok(CredentialCheck::Unknown),
                Err(Fault::NotNow) => return Ok(CredentialCheck::Expired),
            };
            let client = self.find(&claims.sub).await?;
            let same = |client: &Client| client.serial == claims.client_serial;
            let Some(client) = client.filter(same) else { return Ok(CredentialCheck::Expired) };
            let (remaining, active) = (claims.remaining(at), self.active.clone());
            let owner = client.principal();
            let key = key.to_owned();
            let credential = Credential { client: client.name, serial: client.serial, key };
            let lifetime = CredentialLifetime::of(credential, remaining, active);
            let principal = Principal::new(owner)
                .may(claims.scope.and(&client.scopes))
                .granted(client.grant)
                .during(lifetime);
            Ok::<_, OAuthError>(CredentialCheck::Accepted(principal))
        };
        looked.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a token cannot be checked");
            CredentialCheck::Unavailable
        })
    }
}

impl Principals for OAuth {
    fn knows<'a>(&'a self, principal: &'a str) -> BoxFuture<'a, bool> {
        async move { self.still_knows(principal).await.unwrap_or(false) }.boxed()
    }
}

impl Scheme for Arc<OAuth> {
    fn check<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, CredentialCheck> {
        self.principal(request).boxed()
    }

    /// Tokens are signed.
    fn has_guessable_credentials(&self) -> bool {
        false
    }
}

/// The sample's secret is public, so it is accepted from the user's own processes only.
fn may_be(client: &Client, identity: &PeerIdentity) -> bool {
    let own = matches!(identity, PeerIdentity::Local { .. } | PeerIdentity::OwnProcess { .. });
    client.name != SAMPLE.0 || own
}

fn sample_client() -> Result<Client, NoRandomness> {
    let (name, secret) = SAMPLE;
    let secret = SecretHash::of(&Secret::new(secret.to_owned()))?;
    // The same serial in every process, so that its tokens survive a restart.
    Ok(Client::built_in(name, "sample", secret))
}

fn storage(error: impl std::fmt::Display) -> Denied {
    tracing::error!(%error, "no token can be issued");
    Denied::Storage
}

#[cfg(test)]
#[path = "oauth_tests.rs"]
mod tests;
