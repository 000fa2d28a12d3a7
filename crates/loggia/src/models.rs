//! The providers of models as this environment and configuration describe them.

use std::collections::BTreeMap;
use std::time::Duration;

use loggia_core::{Price, Prices, Rate};
use loggia_models::providers::{
    BEARER, BUILT_IN, BuiltIn, Kind, ProviderConfig, built_in, catalog, is_loopback,
};
use loggia_models::{Providers, ProvidersConfig, Secret};

use crate::config::key_file::StoredKeys;
use crate::config::providers::UserProvider;
use crate::config::{Config, Environment, Paths};

/// The unit of the shipped prices, as a person may write it.
const DOLLARS: [&str; 2] = ["USD", "$"];

/// A key, and where it was found.
#[derive(Debug, Clone)]
pub struct FoundKey {
    pub secret: Secret,
    pub origin: KeyOrigin,
    /// The header for it.
    auth: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    Variable(String),
    /// `keys.toml`.
    File,
}

impl KeyOrigin {
    pub fn describe(&self) -> String {
        match self {
            KeyOrigin::Variable(name) => format!("environment {name}"),
            KeyOrigin::File => "keys.toml".to_owned(),
        }
    }
}

/// The variables that may hold a provider's key, each with its header.
fn key_variables(name: &str, user: Option<&UserProvider>) -> Vec<(String, String)> {
    let kind = user.and_then(|user| user.kind).or(built_in(name).map(|known| known.kind));
    let header = kind.unwrap_or(Kind::Chat).auth().to_owned();
    if let Some(variable) = user.and_then(|user| user.key_env.clone()) {
        return vec![(variable, header)];
    }
    let known = built_in(name).map(|known| known.key_variables).unwrap_or_default();
    known.iter().map(|(name, auth)| ((*name).to_owned(), (*auth).to_owned())).collect()
}

pub fn find_key(
    name: &str,
    user: Option<&UserProvider>,
    environment: &Environment,
    stored: &StoredKeys,
) -> Option<FoundKey> {
    let variables = key_variables(name, user);
    let mut set = variables.iter().filter_map(|(variable, auth)| {
        let secret = Secret::new(environment.get(variable)?.trim());
        Some(FoundKey { secret, origin: KeyOrigin::Variable(variable.clone()), auth: auth.clone() })
    });
    let auth = variables.first().map_or(BEARER.to_owned(), |(_, auth)| auth.clone());
    set.next().or_else(|| {
        let secret = stored.get(name)?.clone();
        Some(FoundKey { secret, origin: KeyOrigin::File, auth })
    })
}

/// The model of a person who has a key and chose no model, and the key's origin.
pub fn default_model(
    users: &BTreeMap<String, UserProvider>,
    environment: &Environment,
    stored: &StoredKeys,
) -> Option<(String, KeyOrigin)> {
    BUILT_IN.iter().find_map(|known| {
        let model = known.default_model?;
        let key = find_key(known.name, users.get(known.name), environment, stored)?;
        Some((format!("{}/{model}", known.name), key.origin))
    })
}

pub fn providers(config: &Config, environment: &Environment, paths: &Paths) -> Providers {
    let names = BUILT_IN.iter().map(|known| known.name.to_owned());
    let own = config.providers.keys().filter(|name| built_in(name).is_none()).cloned();
    let one = |name: String| provider(&name, config, environment);
    let ca_file = config.ca_file.clone();
    let ca_file = ca_file.or_else(|| environment.get_os("SSL_CERT_FILE").map(Into::into));
    Providers::new(ProvidersConfig {
        providers: names.chain(own).map(one).collect(),
        no_proxy: either(environment, "NO_PROXY").map(str::to_owned),
        ca_file,
        cache: Some(paths.state.join("models")),
    })
}

fn provider(name: &str, config: &Config, environment: &Environment) -> ProviderConfig {
    let (user, known) = (config.providers.get(name), built_in(name));
    let key = find_key(name, user, environment, &config.stored_keys);
    let default = UserProvider::default();
    let user_said = user.unwrap_or(&default);
    // Loggia's own configuration is more specific than a variable that other programs read too.
    let base_url = user_said.base_url.clone().or_else(|| {
        let known = known?;
        let named = known.url_variable.and_then(|variable| environment.get(variable));
        named.map(|value| known.url(value)).or(known.base_url.map(str::to_owned))
    });
    let auth = user_said.auth.clone();
    let auth = auth.or_else(|| key.as_ref().map(|key| key.auth.clone()));
    let dialect = user_said.dialect.as_deref().or(known.map(|known| known.dialect));
    // The user's own server may need no key.
    let needs_key = match (user_said.key_env.is_some(), known) {
        (true, _) => true,
        (false, Some(known)) => known.needs_key,
        (false, None) => false,
    };
    let mut headers = user_said.headers.clone();
    headers.extend(known.into_iter().flat_map(|known| extra_headers(known, environment)));
    ProviderConfig {
        name: name.to_owned(),
        kind: user_said.kind.or(known.map(|known| known.kind)),
        dialect: dialect.unwrap_or("generic").to_owned(),
        url_variable: known.and_then(|known| known.url_variable).map(str::to_owned),
        key: key.map(|key| key.secret),
        auth: auth.unwrap_or_else(|| BEARER.to_owned()),
        key_variables: key_variables(name, user).into_iter().map(|(name, _)| name).collect(),
        needs_key,
        headers,
        window: user_said.window,
        idle: user_said.idle_seconds.map(Duration::from_secs),
        proxy: base_url.as_deref().and_then(|url| proxy(url, environment)),
        base_url,
    }
}

/// Headers of the vendor's own variables. A line that is not a header is left out.
fn extra_headers(known: &BuiltIn, environment: &Environment) -> Vec<(String, Secret)> {
    let single = known.header_variables.iter().filter_map(|(variable, header)| {
        Some(((*header).to_owned(), Secret::new(environment.get(variable)?)))
    });
    let lines = known.headers_variable.and_then(|variable| environment.get(variable));
    let lines = lines.unwrap_or_default().lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), Secret::new(value.trim())))
    });
    single.chain(lines).collect()
}

/// A variable that is written in capitals or not.
fn either<'e>(environment: &'e Environment, name: &str) -> Option<&'e str> {
    environment.get(&name.to_ascii_lowercase()).or_else(|| environment.get(name))
}

/// The proxy for an address. A server on this machine is never reached through one.
fn proxy(url: &str, environment: &Environment) -> Option<Secret> {
    if is_loopback(url) {
        return None;
    }
    let of_scheme = if url.starts_with("https:") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let named = either(environment, of_scheme).or_else(|| either(environment, "ALL_PROXY"))?;
    let named = named.trim();
    let with_scheme = if named.contains("://") { "" } else { "http://" };
    Some(Secret::new(format!("{with_scheme}{named}")))
}

/// The configured prices, and behind them the shipped ones, which are in dollars.
pub fn prices(configured: &Prices) -> Prices {
    let currency = configured.currency.as_str();
    let unset = currency.is_empty() && configured.models.is_empty();
    if !unset && !DOLLARS.contains(&currency) {
        return configured.clone();
    }
    let shipped = catalog::prices().filter_map(|(name, [input, output, cached])| {
        let rate = |text: &str| Rate::parse(text).ok();
        let (input, output) = (rate(input)?, rate(output)?);
        Some((name, Price { input, output, cached_input: rate(cached) }))
    });
    let mut models: BTreeMap<String, Price> = shipped.collect();
    models.extend(configured.models.clone());
    let currency = if unset { "USD" } else { currency };
    Prices { currency: currency.to_owned(), models }
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
