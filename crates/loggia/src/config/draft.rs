//! The values while the layers are laid over each other, and what a layer may not say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use loggia_agent::CompactAt;
use loggia_core::shell::CommandPattern;
use loggia_core::{Limits, Matcher, Mode, Prices, Rule, RuleId, Scope};

use super::clones::{CloneLimit, ClonesConfig};
use super::error::shortened;
use super::key::{Form, KEYS, Key, Limit, OTHER_VARIABLES, Offer, Setting, TlsPart};
use super::nearest::nearest;
use super::{
    ApprovalsConfig, Config, Environment, Hooks, KeptBack, Keys, Loaded, Offers, Origin,
    ServerLimits, ThemeChoice, TlsConfig,
};
use crate::style::one_line;

const BUILT_IN_MODEL: &str = "offline";
const BUILT_IN_HOOK_SECONDS: u64 = 30;
/// Keys that one notice names; a hostile file does not get to fill the screen.
const MOST_NAMED: usize = 12;

pub struct Draft {
    config: Config,
    origins: BTreeMap<String, Origin>,
    notices: Vec<String>,
    kept_back: Option<Vec<KeptBack>>,
}

impl Draft {
    pub fn built_in() -> Self {
        let scalars = KEYS
            .iter()
            .filter(|key| !matches!(key.form, Form::List(_) | Form::Program(_) | Form::Prices));
        Self {
            config: Config {
                model: BUILT_IN_MODEL.to_owned(),
                mode: Mode::default(),
                rules: Vec::new(),
                limits: Limits::default(),
                approvals: ApprovalsConfig::default(),
                compact_at: CompactAt::default().percent,
                server: ServerLimits::default(),
                tls: TlsConfig::default(),
                token_file: None,
                clones: ClonesConfig::default(),
                webhook_hosts: Vec::new(),
                offers: Offers::default(),
                pass_env: Vec::new(),
                shell: None,
                hooks: Hooks { prompt_submit: None, seconds: BUILT_IN_HOOK_SECONDS },
                keys: Keys::default(),
                prices: Prices::default(),
                theme: ThemeChoice::default(),
            },
            origins: scalars.map(|key| (key.name.to_owned(), Origin::BuiltIn)).collect(),
            notices: Vec::new(),
            kept_back: Some(Vec::new()),
        }
    }

    pub fn finish(self) -> Loaded {
        let Self { config, origins, notices, kept_back } = self;
        Loaded { config, origins, notices, kept_back }
    }

    pub fn put(&mut self, key: &Key, setting: Setting, origin: Origin) {
        let config = &mut self.config;
        let name = match setting {
            Setting::Model(model) => {
                config.model = model;
                key.name.to_owned()
            }
            Setting::Mode(mode) => {
                config.mode = mode;
                key.name.to_owned()
            }
            Setting::Timeout(after) => {
                config.approvals.timeout = Some(after);
                key.name.to_owned()
            }
            Setting::OnTimeout(then) => {
                config.approvals.on_timeout = then;
                key.name.to_owned()
            }
            Setting::CompactAt(percent) => {
                config.compact_at = percent;
                key.name.to_owned()
            }
            Setting::Shell(path) => {
                config.shell = Some(path);
                key.name.to_owned()
            }
            Setting::Limit(limit, value) => {
                set_limit(config, limit, value);
                key.name.to_owned()
            }
            Setting::Offer(offer, flag) => {
                *offered(&mut config.offers, offer) = flag;
                key.name.to_owned()
            }
            Setting::PromptHook(words) => {
                config.hooks.prompt_submit = Some(words);
                key.name.to_owned()
            }
            Setting::Keys(keys) => {
                config.keys = keys;
                key.name.to_owned()
            }
            Setting::Tls(part, path) => {
                *tls_part(&mut config.tls, part) = Some(path);
                key.name.to_owned()
            }
            Setting::Currency(currency) => {
                config.prices.currency = currency;
                key.name.to_owned()
            }
            Setting::Price { model, price } => {
                let name = format!("{}.{model}", key.name);
                config.prices.models.insert(model, price);
                name
            }
            Setting::Theme(theme) => {
                config.theme = theme;
                key.name.to_owned()
            }
            Setting::Rule { pattern, allow } => add_rule(&mut config.rules, pattern, allow),
            Setting::Clones(setting) => match config.clones.put(setting) {
                None => key.name.to_owned(),
                Some(element) => format!("{}.{element}", key.name),
            },
            Setting::WebhookHost(host) => {
                let name = format!("{}.{host}", key.name);
                if config.webhook_hosts.contains(&host) {
                    return;
                }
                config.webhook_hosts.push(host);
                name
            }
            Setting::PassEnvironment(variable) => {
                let name = format!("{}.{variable}", key.name);
                if config.pass_env.contains(&variable) {
                    return;
                }
                config.pass_env.push(variable);
                name
            }
        };
        self.origins.insert(name, origin);
    }

    /// True when the setting only takes freedom away from what holds so far.
    pub fn restricts(&self, setting: &Setting) -> bool {
        match setting {
            Setting::Rule { allow, .. } => !allow,
            Setting::Mode(mode) => mode.freedom() < self.config.mode.freedom(),
            Setting::Timeout(after) => {
                self.config.approvals.timeout.is_none_or(|before| *after < before)
            }
            Setting::OnTimeout(then) => *then > self.config.approvals.on_timeout,
            // The more a remote has to send, the less is allowed.
            Setting::Limit(Limit::Clones(CloneLimit::StallBytes), _) => false,
            Setting::Limit(limit, value) => *value < limit_of(&self.config, *limit),
            Setting::Offer(_, flag) => !flag,
            Setting::Model(_)
            | Setting::CompactAt(_)
            | Setting::Shell(_)
            | Setting::PassEnvironment(_)
            | Setting::WebhookHost(_)
            | Setting::PromptHook(_)
            | Setting::Tls(..)
            | Setting::Keys(_)
            | Setting::Currency(_)
            | Setting::Price { .. }
            | Setting::Theme(_)
            | Setting::Clones(_) => false,
        }
    }

    /// True when the setting says what holds anyway: nothing to apply, nothing to complain about.
    pub fn is_already(&self, setting: &Setting) -> bool {
        match setting {
            Setting::Model(model) => *model == self.config.model,
            Setting::Mode(mode) => *mode == self.config.mode,
            Setting::Timeout(after) => Some(*after) == self.config.approvals.timeout,
            Setting::CompactAt(percent) => *percent == self.config.compact_at,
            Setting::OnTimeout(then) => *then == self.config.approvals.on_timeout,
            Setting::Limit(limit, value) => *value == limit_of(&self.config, *limit),
            Setting::Offer(offer, flag) => {
                *offered(&mut self.config.offers.clone(), *offer) == *flag
            }
            Setting::Shell(path) => Some(path) == self.config.shell.as_ref(),
            Setting::PassEnvironment(name) => self.config.pass_env.contains(name),
            Setting::Keys(keys) => *keys == self.config.keys,
            Setting::Tls(part, path) => {
                tls_part(&mut self.config.tls.clone(), *part).as_ref() == Some(path)
            }
            Setting::Currency(currency) => *currency == self.config.prices.currency,
            Setting::Price { model, price } => self.config.prices.models.get(model) == Some(price),
            Setting::Theme(theme) => *theme == self.config.theme,
            Setting::Clones(setting) => self.config.clones.is_already(setting),
            Setting::WebhookHost(host) => self.config.webhook_hosts.contains(host),
            Setting::PromptHook(words) => Some(words) == self.config.hooks.prompt_submit.as_ref(),
            Setting::Rule { pattern, allow } => self.config.rules.iter().any(|rule| {
                rule.allow == *allow && rule.matcher == Matcher::Command(pattern.clone())
            }),
        }
    }

    pub fn note_untrusted(
        &mut self,
        path: &Path,
        need_trust: Vec<KeptBack>,
        unknown: Vec<(String, Origin)>,
        wrong: Vec<String>,
    ) {
        let at = |line| Origin::File { path: path.to_owned(), line };
        let named = need_trust.iter().map(|kept| (kept.key.to_owned(), at(kept.line)));
        if let Some(keys) = listed(named.collect()) {
            self.note(format!(
                "Ignored, because this directory is not trusted: {keys}. Read the file, then run \
                 `loggia trust` to let it apply."
            ));
        }
        let understood = unknown.is_empty() && wrong.is_empty();
        self.kept_back = understood.then_some(need_trust);
        if let Some(keys) = listed(unknown) {
            self.note(format!("Ignored, because there are no such keys: {keys}."));
        }
        let more = wrong.len().saturating_sub(MOST_NAMED);
        for sentence in wrong.into_iter().take(MOST_NAMED) {
            self.note(format!("Ignored, because its value cannot be used: {sentence}"));
        }
        if more > 0 {
            self.note(format!("Ignored, because their values cannot be used: {more} more."));
        }
    }

    /// A name that is nearly one of Loggia's is a typing mistake; any other is somebody else's.
    pub fn note_misspelled(&mut self, environment: &Environment) {
        let known: Vec<String> = KEYS
            .iter()
            .filter_map(Key::variable)
            .chain(OTHER_VARIABLES.iter().map(|name| (*name).to_owned()))
            .collect();
        let ours = environment.names().filter(|name| name.starts_with("LOGGIA_"));
        for name in ours.filter(|name| !known.iter().any(|known| known == name)) {
            if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
                self.notices.push(one_line(&format!(
                    "The environment variable {name} means nothing to Loggia; did you mean {near}?"
                )));
            }
        }
    }

    fn note(&mut self, sentence: String) {
        self.notices.push(one_line(&sentence));
    }
}

fn add_rule(rules: &mut Vec<Rule>, pattern: CommandPattern, allow: bool) -> String {
    let id = format!("config-{}", rules.len() + 1);
    rules.push(Rule {
        id: RuleId::new(id.as_str()),
        matcher: Matcher::Command(pattern),
        allow,
        scope: Scope::Configured,
        directory: None,
        principal: None,
    });
    id
}

fn offered(offers: &mut Offers, offer: Offer) -> &mut bool {
    match offer {
        Offer::Streaming => &mut offers.streaming,
        Offer::Push => &mut offers.push,
        Offer::ExtendedCard => &mut offers.extended_card,
    }
}

fn tls_part(tls: &mut TlsConfig, part: TlsPart) -> &mut Option<PathBuf> {
    match part {
        TlsPart::Certificate => &mut tls.certificate,
        TlsPart::Key => &mut tls.key,
    }
}

fn limit_of(config: &Config, limit: Limit) -> u64 {
    let Config { limits, server, .. } = config;
    match limit {
        Limit::HookSeconds => config.hooks.seconds,
        Limit::Replies => limits.replies.into(),
        Limit::Calls => limits.calls.into(),
        Limit::TextBytes => limits.text_bytes,
        Limit::TurnSeconds => limits.turn_seconds,
        Limit::CallSeconds => limits.call_seconds,
        Limit::Connections => server.connections,
        Limit::Streams => server.streams,
        Limit::RemoteStreams => server.remote_streams,
        Limit::StallSeconds => server.stall_seconds,
        Limit::IdleSeconds => server.idle_seconds,
        Limit::Clones(limit) => config.clones.limit(limit),
    }
}

fn set_limit(config: &mut Config, limit: Limit, value: u64) {
    // Reading a limit has checked that it fits.
    let small = u32::try_from(value).unwrap_or(u32::MAX);
    let Config { limits, server, hooks, clones, .. } = config;
    match limit {
        Limit::Clones(limit) => clones.set_limit(limit, value),
        Limit::HookSeconds => hooks.seconds = value,
        Limit::Replies => limits.replies = small,
        Limit::Calls => limits.calls = small,
        Limit::TextBytes => limits.text_bytes = value,
        Limit::TurnSeconds => limits.turn_seconds = value,
        Limit::CallSeconds => limits.call_seconds = value,
        Limit::Connections => server.connections = value,
        Limit::Streams => server.streams = value,
        Limit::RemoteStreams => server.remote_streams = value,
        Limit::StallSeconds => server.stall_seconds = value,
        Limit::IdleSeconds => server.idle_seconds = value,
    }
}

/// "`model` (FILE:1), `commands.allow` (FILE:4)"; each key once, at its first line.
fn listed(mut keys: Vec<(String, Origin)>) -> Option<String> {
    keys.dedup_by(|later, first| later.0 == first.0);
    let more = keys.len().saturating_sub(MOST_NAMED);
    let mut named: Vec<String> = keys
        .iter()
        .take(MOST_NAMED)
        .map(|(name, origin)| format!("`{}` ({origin})", shortened(name)))
        .collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    (!named.is_empty()).then(|| named.join(", "))
}
