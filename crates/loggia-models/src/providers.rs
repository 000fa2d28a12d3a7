//! The providers of one configuration: opens models by their full name, and lists them.
//!
//! A name is `PROVIDER/MODEL`. Unknown models can be opened too: a table, the provider's list and the
//! configuration only add facts.
//!
//! Not here: the environment, configuration files, where a key is kept.

mod built_in;
mod cache;
pub mod catalog;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt};

pub use built_in::{BEARER, BUILT_IN, BuiltIn, built_in, secret_variables};
use cache::CachedList;

use crate::anthropic::Anthropic;
use crate::chat::{self, Chat};
use crate::client::{Client, ClientConfig, Secret, VendorModel};
use crate::error::{ModelError, ModelErrorKind};
use crate::gemini::Gemini;
use crate::ollama::{self, Ollama};
use crate::openai::Responses;
use crate::protocol::{ModelFacts, Protocol};

/// The longest time without a sign of a reply.
pub const IDLE: Duration = Duration::from_secs(300);
/// The same for servers on this machine, which may have to load a model.
pub const LOCAL_IDLE: Duration = Duration::from_secs(1800);
/// A model whose facts are not known waits so long for the provider's list before its first request.
const FACTS_TIME: Duration = Duration::from_secs(5);
/// A server on this machine that does not answer within this time is not offered.
const PROBE_TIME: Duration = Duration::from_millis(150);
/// Models of a local server that are described one by one.
const DESCRIBED: usize = 64;
const AT_ONCE: usize = 8;

/// The API of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Anthropic,
    Openai,
    Gemini,
    Ollama,
    Chat,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Kind::Anthropic, Kind::Openai, Kind::Gemini, Kind::Ollama, Kind::Chat];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Anthropic => "anthropic",
            Kind::Openai => "openai",
            Kind::Gemini => "gemini",
            Kind::Ollama => "ollama",
            Kind::Chat => "chat",
        }
    }

    /// The header that its key is sent in.
    pub fn auth(self) -> &'static str {
        match self {
            Kind::Anthropic => "x-api-key",
            Kind::Gemini => "x-goog-api-key",
            Kind::Openai | Kind::Ollama | Kind::Chat => BEARER,
        }
    }
}

/// How one provider is reached.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {
    pub name: String,
    pub kind: Option<Kind>,
    /// Of Chat Completions; empty for the others.
    pub dialect: String,
    pub base_url: Option<String>,
    /// The variable that would name the address, for the error.
    pub url_variable: Option<String>,
    pub key: Option<Secret>,
    /// [`BEARER`], or the name of a header.
    pub auth: String,
    /// The variables that may hold the key, for the error.
    pub key_variables: Vec<String>,
    pub needs_key: bool,
    pub headers: Vec<(String, Secret)>,
    pub window: Option<u64>,
    pub idle: Option<Duration>,
    pub proxy: Option<Secret>,
}

#[derive(Debug, Clone, Default)]
pub struct ProvidersConfig {
    pub providers: Vec<ProviderConfig>,
    /// Hosts that are reached without the proxy.
    pub no_proxy: Option<String>,
    /// A file with the certificates (PEM) that replace those of the system.
    pub ca_file: Option<PathBuf>,
    /// Where lists of models are kept for a day.
    pub cache: Option<PathBuf>,
}

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Providers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    config: ProvidersConfig,
    clients: Mutex<BTreeMap<String, Client>>,
    lists: Mutex<BTreeMap<String, CachedList>>,
    /// By the full name of the model.
    facts: Mutex<BTreeMap<String, ModelFacts>>,
}

/// Where a list comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSource {
    Provider,
    /// What the provider said within the last day.
    Cache,
    /// The shipped table.
    Table,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub models: Vec<ModelFacts>,
    pub source: ListSource,
    /// Why the provider was not asked, or did not answer.
    pub problem: Option<ModelError>,
}

/// Whether a list that is already there may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    OfToday,
    Now,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(kind: ModelErrorKind, message: String) -> ModelError {
    ModelError::new(kind, message)
}

impl ProviderConfig {
    fn kind(&self) -> Kind {
        self.kind.unwrap_or(Kind::Chat)
    }

    pub fn has_key(&self) -> bool {
        self.key.is_some() || !self.needs_key
    }

    /// Whether the server is on this machine. Its list changes whenever the user loads a model.
    pub fn is_local(&self) -> bool {
        self.base_url.as_deref().is_some_and(is_loopback)
    }

    /// The vendor in the shipped table. Servers of other people's models are not in it.
    fn vendor(&self) -> Option<&str> {
        match (built_in(&self.name), self.kind()) {
            (Some(built_in), _) => Some(built_in.name),
            (None, kind @ (Kind::Anthropic | Kind::Openai | Kind::Gemini)) => Some(kind.name()),
            (None, Kind::Ollama | Kind::Chat) => None,
        }
    }

    fn protocol(&self) -> Result<Arc<dyn Protocol>, ModelError> {
        Ok(match self.kind() {
            Kind::Anthropic => Arc::new(self.anthropic()),
            Kind::Openai => Arc::new(Responses),
            Kind::Gemini => Arc::new(Gemini),
            Kind::Ollama => Arc::new(Ollama),
            Kind::Chat => {
                let dialect = chat::dialect(&self.dialect).ok_or_else(|| {
                    let names: Vec<&str> = chat::ALL.iter().map(|known| known.name).collect();
                    let why = format!("there is no dialect `{}`", self.dialect);
                    self.misconfigured(&format!("{why}: write one of {}", names.join(", ")))
                })?;
                Arc::new(Chat::new(dialect))
            }
        })
    }

    /// Gateways know only the first version of the API.
    fn anthropic(&self) -> Anthropic {
        let vendors = built_in("anthropic").and_then(|built_in| built_in.base_url);
        match self.base_url.as_deref() == vendors {
            true => Anthropic::vendor(),
            false => Anthropic::gateway(),
        }
    }

    fn misconfigured(&self, why: &str) -> ModelError {
        let name = &self.name;
        refused(ModelErrorKind::BadRequest, format!("the provider {name} cannot be used: {why}"))
    }

    fn address(&self) -> Result<&str, ModelError> {
        self.base_url.as_deref().ok_or_else(|| {
            let variable = match &self.url_variable {
                Some(variable) => format!("set {variable}, or "),
                None => String::new(),
            };
            let name = &self.name;
            self.misconfigured(&format!(
                "its address is not known: {variable}write `base_url` in [providers.{name}] of your \
                 config.toml"
            ))
        })
    }

    fn check_key(&self) -> Result<(), ModelError> {
        if self.has_key() {
            return Ok(());
        }
        let name = &self.name;
        let set = match self.key_variables.first() {
            Some(variable) => format!("set {variable} or run `loggia keys set {name}`"),
            None => format!("run `loggia keys set {name}`"),
        };
        let why = format!("there is no key for {name}: {set}");
        Err(refused(ModelErrorKind::Authentication, why))
    }

    fn headers(&self) -> Vec<(String, Secret)> {
        let key = self.key.iter().map(|key| match self.auth.as_str() {
            BEARER => ("authorization".to_owned(), Secret::new(format!("Bearer {}", key.expose()))),
            header => (header.to_owned(), key.clone()),
        });
        key.chain(self.headers.iter().cloned()).collect()
    }
}

/// Whether the host of a URL is this machine.
pub fn is_loopback(url: &str) -> bool {
    let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let Some(host) = host else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Providers {
    pub fn new(config: ProvidersConfig) -> Self {
        Self { shared: Arc::new(Shared { config, ..Shared::default() }) }
    }

    /// All providers, built-in ones first.
    pub fn all(&self) -> &[ProviderConfig] {
        &self.shared.config.providers
    }

    pub fn get(&self, provider: &str) -> Option<&ProviderConfig> {
        self.all().iter().find(|known| known.name == provider)
    }

    /// The provider and the model in a full name.
    fn parts<'n>(&self, name: &'n str) -> Result<(&ProviderConfig, &'n str), ModelError> {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let known = self.get(provider).ok_or_else(|| self.unknown(name))?;
        if model.trim().is_empty() {
            let why = format!(
                "`{name}` names no model: write `{provider}/MODEL`; `loggia models {provider}` lists them"
            );
            return Err(refused(ModelErrorKind::UnknownModel, why));
        }
        Ok((known, model))
    }

    fn unknown(&self, name: &str) -> ModelError {
        let near = self.nearest(name);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        let shown: String = name.chars().take(80).collect();
        let why = format!(
            "there is no model `{shown}`{near}{} `loggia models` lists the models, as PROVIDER/MODEL",
            if near.is_empty() { ":" } else { "" }
        );
        refused(ModelErrorKind::UnknownModel, why)
    }

    /// The known name that is most like this one.
    fn nearest(&self, name: &str) -> Option<String> {
        const FARTHEST: usize = 3;
        let wanted: String = name.chars().take(80).flat_map(char::to_lowercase).collect();
        let (provider, model) = wanted.split_once('/').unwrap_or((&wanted, ""));
        let of_table = self.all().iter().flat_map(|known| {
            let models = known.vendor().map(catalog::models).unwrap_or_default();
            models.into_iter().map(|facts| format!("{}/{}", known.name, facts.id))
        });
        let of_table = of_table.map(|full| {
            let own = full.split_once('/').map_or(full.as_str(), |(_, model)| model);
            let distance = strsim::osa_distance(&wanted, &full);
            (distance.min(strsim::osa_distance(&wanted, own)), full)
        });
        let providers = self.all().iter().filter(|_| !model.is_empty()).map(|known| {
            (strsim::osa_distance(provider, &known.name), format!("{}/{model}", known.name))
        });
        let names = ["offline"].into_iter().map(str::to_owned);
        let names = names.map(|name| (strsim::osa_distance(&wanted, &name), name));
        let (mistakes, name) = of_table.chain(providers).chain(names).min()?;
        (mistakes <= FARTHEST && mistakes < wanted.len().div_ceil(2)).then_some(name)
    }

    /// Whether the model can be asked: its provider is known and has a key. No I/O.
    pub fn check(&self, name: &str) -> Result<(), ModelError> {
        let (provider, _) = self.parts(name)?;
        provider.address()?;
        provider.protocol()?;
        provider.check_key()
    }

    /// Opens a model by its full name. The model may be unknown.
    pub async fn open(&self, name: &str) -> Result<VendorModel, ModelError> {
        let (provider, id) = self.parts(name)?;
        provider.check_key()?;
        let protocol = provider.protocol()?;
        let client = self.client(provider).await?;
        let facts = self.facts(provider, &client, protocol.as_ref(), id).await;
        let window = provider.window.or(facts.window);
        Ok(VendorModel::new(client, protocol, ModelFacts { window, ..facts }))
    }

    /// The connection to a provider. The first one reads the certificates.
    async fn client(&self, provider: &ProviderConfig) -> Result<Client, ModelError> {
        let known = lock(&self.shared.clients).get(&provider.name).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let base_url = provider.address()?.to_owned();
        if reqwest::Url::parse(&base_url).is_ok_and(|url| {
            !url.username().is_empty() || url.password().is_some() || url.query().is_some()
        }) {
            let why = "its address must not contain a name, a password or a query: use `headers`";
            return Err(provider.misconfigured(why));
        }
        let idle = match provider.is_local() {
            true => LOCAL_IDLE,
            false => IDLE,
        };
        let config = ClientConfig {
            provider: provider.name.clone(),
            base_url,
            headers: provider.headers(),
            proxy: provider.proxy.clone(),
            no_proxy: self.shared.config.no_proxy.clone(),
            authorities: None,
            idle: provider.idle.unwrap_or(idle),
        };
        let ca_file = self.shared.config.ca_file.clone();
        let made = tokio::task::spawn_blocking(move || {
            let authorities = ca_file.map(|file| {
                std::fs::read(&file)
                    .map_err(|error| format!("{} cannot be read: {error}", file.display()))
            });
            Client::new(ClientConfig { authorities: authorities.transpose()?, ..config })
        });
        let made = made.await.unwrap_or_else(|error| Err(error.to_string()));
        let client = made.map_err(|why| provider.misconfigured(&why))?;
        lock(&self.shared.clients).insert(provider.name.clone(), client.clone());
        Ok(client)
    }

    /// What is known of a model. The provider is asked only if nothing else says anything.
    async fn facts(
        &self,
        provider: &ProviderConfig,
        client: &Client,
        protocol: &dyn Protocol,
        id: &str,
    ) -> ModelFacts {
        let name = format!("{}/{id}", provider.name);
        let known = lock(&self.shared.facts).get(&name).cloned();
        if let Some(known) = known {
            return known;
        }
        let listed = self.cached(provider).await.and_then(|list| find(list.models, id));
        let listed = listed.map(|facts| catalog::completed(provider.vendor(), facts));
        let known = listed.or_else(|| catalog::model(provider.vendor()?, id));
        let found = match known {
            Some(known) => Some(known),
            None => {
                let asked = self.ask_about(provider, client, protocol, id);
                tokio::time::timeout(FACTS_TIME, asked).await.ok().flatten()
            }
        };
        let Some(found) = found else {
            return ModelFacts { id: id.to_owned(), ..ModelFacts::default() };
        };
        lock(&self.shared.facts).insert(name, found.clone());
        found
    }

    /// What the provider says of a model. A provider that does not answer now is asked again for the next
    /// turn.
    async fn ask_about(
        &self,
        provider: &ProviderConfig,
        client: &Client,
        protocol: &dyn Protocol,
        id: &str,
    ) -> Option<ModelFacts> {
        if provider.kind() == Kind::Ollama {
            return describe(client, protocol, id).await;
        }
        let models = self.ask_list(provider, client, protocol).await.ok()?;
        let unlisted = || ModelFacts { id: id.to_owned(), ..ModelFacts::default() };
        Some(find(models, id).unwrap_or_else(unlisted))
    }

    /// The models that a provider offers: as it lists them, or from the shipped table.
    pub async fn list(&self, provider: &str, freshness: Freshness) -> Result<Listed, ModelError> {
        let Some(provider) = self.get(provider) else {
            return Err(self.unknown_provider(provider));
        };
        let vendor = provider.vendor();
        let completed = |models: Vec<ModelFacts>| {
            models.into_iter().map(|facts| catalog::completed(vendor, facts)).collect()
        };
        let cached = match freshness {
            Freshness::OfToday => self.cached(provider).await,
            Freshness::Now => None,
        };
        if let Some(list) = cached {
            let (models, source) = (completed(list.models), ListSource::Cache);
            return Ok(Listed { models, source, problem: None });
        }
        let asked = async {
            provider.check_key()?;
            let protocol = provider.protocol()?;
            let client = self.client(provider).await?;
            self.ask_list(provider, &client, protocol.as_ref()).await
        };
        Ok(match asked.await {
            Ok(models) => {
                let (models, source) = (completed(models), ListSource::Provider);
                Listed { models, source, problem: None }
            }
            Err(error) => Listed {
                models: vendor.map(catalog::models).unwrap_or_default(),
                source: ListSource::Table,
                problem: Some(error),
            },
        })
    }

    fn unknown_provider(&self, name: &str) -> ModelError {
        let names: Vec<&str> = self.all().iter().map(|known| known.name.as_str()).collect();
        let near = names.iter().min_by_key(|known| strsim::osa_distance(name, known));
        let near = near.filter(|known| strsim::osa_distance(name, known) <= 2);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        let why = format!("there is no provider `{name}`{near} There are {}", names.join(", "));
        refused(ModelErrorKind::UnknownModel, why.replacen("` There", "`: there", 1))
    }

    /// A list of today, from memory or disk.
    async fn cached(&self, provider: &ProviderConfig) -> Option<CachedList> {
        if provider.is_local() {
            return None;
        }
        let base_url = provider.base_url.clone()?;
        let known = lock(&self.shared.lists).get(&provider.name).cloned();
        if let Some(list) = known.filter(CachedList::is_fresh) {
            return Some(list);
        }
        let (directory, name) = (self.shared.config.cache.clone()?, provider.name.clone());
        let read = tokio::task::spawn_blocking(move || cache::read(&directory, &name, &base_url));
        let list = read.await.ok().flatten()?;
        lock(&self.shared.lists).insert(provider.name.clone(), list.clone());
        Some(list)
    }

    async fn ask_list(
        &self,
        provider: &ProviderConfig,
        client: &Client,
        protocol: &dyn Protocol,
    ) -> Result<Vec<ModelFacts>, ModelError> {
        let mut models = client.models(protocol).await?;
        if provider.kind() == Kind::Ollama {
            let named = models.into_iter().take(DESCRIBED);
            let described: Vec<_> = named
                .map(|facts| async { describe(client, protocol, &facts.id).await.unwrap_or(facts) })
                .collect();
            models = stream::iter(described).buffered(AT_ONCE).collect().await;
        }
        models.sort_by(|one, other| one.id.cmp(&other.id));
        models.dedup_by(|one, other| one.id == other.id);
        if let (false, Some(base_url)) = (provider.is_local(), &provider.base_url) {
            let list = CachedList::new(base_url, models.clone());
            lock(&self.shared.lists).insert(provider.name.clone(), list.clone());
            if let Some(directory) = self.shared.config.cache.clone() {
                let name = provider.name.clone();
                let write = move || cache::write(&directory, &name, &list);
                let _ = tokio::task::spawn_blocking(write).await;
            }
        }
        Ok(models)
    }

    /// The models of a provider in the shipped table.
    pub fn shipped(&self, provider: &str) -> Vec<ModelFacts> {
        let vendor = self.get(provider).and_then(ProviderConfig::vendor);
        vendor.map(catalog::models).unwrap_or_default()
    }

    /// The names of servers on this machine that answer now, each with the full name of one model.
    pub async fn local_servers(&self) -> Vec<(String, String)> {
        let local = ["ollama", "llamacpp"].into_iter().filter_map(|name| self.get(name));
        let asked =
            local.filter(|provider| provider.is_local()).map(|provider| self.probe(provider));
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn probe(&self, provider: &ProviderConfig) -> Option<(String, String)> {
        let listed = async {
            let protocol = provider.protocol().ok()?;
            let client = self.client(provider).await.ok()?;
            client.models(protocol.as_ref()).await.ok()
        };
        let models = tokio::time::timeout(PROBE_TIME, listed).await.ok().flatten()?;
        let first = models.into_iter().next()?;
        Some((provider.name.clone(), format!("{}/{}", provider.name, first.id)))
    }
}

fn find(models: Vec<ModelFacts>, id: &str) -> Option<ModelFacts> {
    models.into_iter().find(|facts| facts.id == id)
}

async fn describe(client: &Client, protocol: &dyn Protocol, id: &str) -> Option<ModelFacts> {
    let body = client.ask(protocol, ollama::SHOW_PATH, ollama::show_request(id)).await.ok()?;
    ollama::shown(id, &body).ok()
}
