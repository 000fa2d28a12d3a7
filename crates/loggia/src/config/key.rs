//! The table of configuration keys: the name of each, its form, and the field that it sets.
//!
//! Files, the order of sources and trust are handled elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use loggia_core::shell::CommandPattern;
use loggia_core::{Effort, Matcher, Mode, OnTimeout, Price, Rule, RuleId, RuleLifetime, Seconds};
use serde_json::{Value, json};

use super::clones;
use super::environment::may_be_passed;
use super::error::shortened;
use super::providers::UserProvider;
use super::{Config, Keys, ThemeChoice};

/// One value for a key. Each item of a list is one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    Text(String),
    Number(u64),
    Flag(bool),
    Program(Vec<String>),
    Price { model: String, price: Price },
    Provider { name: String, provider: UserProvider },
}

type Field<T> = fn(&mut Config) -> &mut T;
type Read<T> = fn(&str) -> Result<T, String>;

/// How a value is written, and where it is stored.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    Text {
        set: fn(&mut Config, &str) -> Result<(), String>,
        get: fn(&Config) -> Option<String>,
    },
    /// An absolute path, with an example for the error.
    Path(Field<Option<PathBuf>>, &'static str),
    Number(NumberField, u64),
    Flag(Field<bool>),
    /// A list of different texts.
    List(Field<Vec<String>>, Read<String>),
    /// URL schemes of repositories.
    Schemes,
    /// Files with credentials, by host.
    Credentials,
    /// Patterns of allowed or denied commands.
    Rules {
        allow: bool,
    },
    /// A program and its arguments, which replace an earlier one as a whole.
    Program,
    /// A table for each model.
    Prices,
    /// A table for each provider of models.
    Providers,
}

/// The field of a number, which is at least 1.
#[derive(Debug, Clone, Copy)]
pub enum NumberField {
    Small(Field<u32>),
    Large(Field<u64>),
    Seconds(Field<Duration>),
}

impl NumberField {
    fn get(self, config: &mut Config) -> u64 {
        match self {
            NumberField::Small(field) => u64::from(*field(config)),
            NumberField::Large(field) => *field(config),
            NumberField::Seconds(field) => field(config).as_secs(),
        }
    }

    fn set(self, config: &mut Config, number: u64) {
        match self {
            NumberField::Small(field) => *field(config) = u32::try_from(number).unwrap_or(u32::MAX),
            NumberField::Large(field) => *field(config) = number,
            NumberField::Seconds(field) => *field(config) = Duration::from_secs(number),
        }
    }
}

#[derive(Debug)]
pub struct Key {
    /// The path of the key: `limits.replies`.
    pub name: &'static str,
    pub form: Form,
    /// For a text: whether the second configuration only restricts the first.
    restricts: fn(&Config, &Config) -> bool,
}

const fn key(name: &'static str, form: Form) -> Key {
    Key { name, form, restricts: |_, _| false }
}

const fn number(name: &'static str, most: u64, field: Field<u64>) -> Key {
    key(name, Form::Number(NumberField::Large(field), most))
}

const DAY: u64 = 24 * 60 * 60;
const YEAR: u64 = 366 * DAY;
const MANY: u64 = 1 << 20;
const SMALL: u64 = u32::MAX as u64;

/// It weakens the check of local processes, so a project cannot set it, trusted or not.
pub const ALLOW_HIDDEN_PEERS: &str = "server.allow_hidden_peers";

pub const KEYS: &[Key] = &[
    key("model", Form::Text { set: set_model, get: |config| Some(config.model.clone()) }),
    key("effort", Form::Text { set: set_effort, get: effort }),
    PROVIDERS,
    key(CA_FILE, Form::Path(|c| &mut c.ca_file, "/etc/ssl/ca.pem")),
    Key {
        restricts: |before, after| after.mode.permissiveness() < before.mode.permissiveness(),
        ..key("mode", Form::Text { set: set_mode, get: |config| named(config.mode.name()) })
    },
    key("commands.allow", Form::Rules { allow: true }),
    key("commands.deny", Form::Rules { allow: false }),
    Key {
        restricts: |before, after| {
            before.approvals.timeout.is_none_or(|before| after.approvals.timeout < Some(before))
        },
        ..key("approvals.timeout", Form::Text { set: set_timeout, get: timeout })
    },
    Key {
        restricts: |before, after| after.approvals.on_timeout > before.approvals.on_timeout,
        ..key("approvals.on_timeout", Form::Text { set: set_on_timeout, get: on_timeout })
    },
    key("context.compact_at", Form::Text { set: set_compact_at, get: compact_at }),
    key("limits.replies", Form::Number(NumberField::Small(|c| &mut c.limits.replies), SMALL)),
    key("limits.calls", Form::Number(NumberField::Small(|c| &mut c.limits.calls), SMALL)),
    number("limits.text_bytes", 1 << 40, |c| &mut c.limits.text_bytes),
    number("limits.turn_seconds", YEAR, |c| &mut c.limits.turn_seconds),
    number("limits.call_seconds", YEAR, |c| &mut c.limits.call_seconds),
    number("server.connections", MANY, |c| &mut c.server.connections),
    number("server.streams", MANY, |c| &mut c.server.streams),
    number("server.remote_streams", MANY, |c| &mut c.server.remote_streams),
    number("server.stall_seconds", DAY, |c| &mut c.server.stall_seconds),
    number("server.idle_seconds", DAY, |c| &mut c.server.idle_seconds),
    key("server.streaming", Form::Flag(|c| &mut c.offers.streaming)),
    key("server.push", Form::Flag(|c| &mut c.offers.push)),
    key("server.extended_card", Form::Flag(|c| &mut c.offers.extended_card)),
    key(ALLOW_HIDDEN_PEERS, Form::Flag(|c| &mut c.allow_hidden_peers)),
    key("server.tls_cert", Form::Path(|c| &mut c.tls.certificate, "/etc/loggia/server.pem")),
    key("server.tls_key", Form::Path(|c| &mut c.tls.key, "/etc/loggia/server.pem")),
    key("server.clones.directory", Form::Path(|c| &mut c.clones.directory, "/srv/clones")),
    key("server.clones.schemes", Form::Schemes),
    key("server.clones.hosts", Form::List(|c| &mut c.clones.sources.hosts, clones::host)),
    key(
        "server.clones.private_hosts",
        Form::List(|c| &mut c.clones.sources.private_hosts, clones::host),
    ),
    key("server.clones.credentials", Form::Credentials),
    key("server.clones.ca_file", Form::Path(|c| &mut c.clones.ca_file, "/etc/loggia/ca.pem")),
    key("server.clones.keep", Form::Text { set: clones::set_keep, get: clones::keep }),
    number("server.clones.count", MANY, |c| &mut c.clones.limits.count),
    key(
        "server.clones.seconds",
        Form::Number(NumberField::Seconds(|c| &mut c.clones.limits.time), DAY),
    ),
    number("server.clones.bytes", 1 << 50, |c| &mut c.clones.limits.bytes),
    number("server.clones.files", 1 << 30, |c| &mut c.clones.limits.files),
    number("server.clones.total_bytes", 1 << 50, |c| &mut c.clones.limits.total_bytes),
    key(
        "server.clones.stall_seconds",
        Form::Number(NumberField::Seconds(|c| &mut c.clones.limits.stall_time), DAY),
    ),
    number(STALL_BYTES, 1 << 50, |c| &mut c.clones.limits.stall_bytes),
    key("server.webhook_hosts", Form::List(|c| &mut c.webhook_hosts, webhook_host)),
    key("shell.program", Form::Path(|c| &mut c.shell, "/bin/bash")),
    key("shell.pass_env", Form::List(|c| &mut c.pass_env, variable)),
    key("hooks.prompt_submit", Form::Program),
    number("hooks.seconds", 60 * 60, |c| &mut c.hooks.seconds),
    key("tui.keys", Form::Text { set: set_keys, get: |config| named(config.keys.name()) }),
    key("prices.currency", Form::Text { set: set_currency, get: currency }),
    PRICES,
    key("tui.theme", Form::Text { set: set_theme, get: |config| named(config.theme.name()) }),
];

/// Certificates that vendors are checked with. A project could redirect a key with it.
const CA_FILE: &str = "network.ca_file";

/// The more a remote has to send, the less is allowed: a smaller number does not restrict.
const STALL_BYTES: &str = "server.clones.stall_bytes";

/// The tables `[prices.NAME]`.
pub const PRICES: Key = key("prices", Form::Prices);

/// The tables `[providers.NAME]`.
pub const PROVIDERS: Key = key("providers", Form::Providers);

/// Environment variables that do not set a key.
pub const OTHER_VARIABLES: &[&str] = &["LOGGIA_HOME", "LOGGIA_CONFIG", "LOGGIA_LOG"];

pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// `LOGGIA_LIMITS_REPLIES` for `limits.replies`. Commands may contain any separator, so a variable
    /// cannot list them.
    pub fn variable(&self) -> Option<String> {
        match self.form {
            Form::Rules { .. } | Form::Program | Form::Prices | Form::Providers => None,
            _ => Some(format!("LOGGIA_{}", self.name.replace('.', "_").to_ascii_uppercase())),
        }
    }

    /// Whether a project may never set this, trusted or not: a key would go where the project says, or a
    /// check of other processes would be weaker.
    pub fn is_users_only(&self, setting: &Setting) -> bool {
        match self.name {
            ALLOW_HIDDEN_PEERS => *setting == Setting::Flag(true),
            CA_FILE => true,
            _ => matches!(self.form, Form::Providers),
        }
    }

    /// The name inside its table.
    pub fn last_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether the key has exactly one value, which has an origin even if it is built in.
    pub fn is_scalar(&self) -> bool {
        use Form::{Flag, Number, Path, Text};
        matches!(self.form, Text { .. } | Path(..) | Number(..) | Flag(_))
    }

    /// Whether the key has any number of texts as values.
    pub fn is_list(&self) -> bool {
        use Form::{Credentials, List, Rules, Schemes};
        matches!(self.form, List(..) | Schemes | Credentials | Rules { .. })
    }

    /// Reads the text of a variable or flag. Items of a list are separated by commas.
    pub fn read_text(&self, text: &str) -> Result<Vec<Setting>, String> {
        let settings = match self.form {
            Form::Number(_, most) => {
                let number = text.trim().parse().map_err(|_| not_a_number(most))?;
                vec![Setting::Number(number)]
            }
            Form::Flag(_) => {
                let flag = text.trim().parse().map_err(|_| "write `true` or `false`")?;
                vec![Setting::Flag(flag)]
            }
            Form::List(..) | Form::Schemes | Form::Credentials | Form::Rules { .. } => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(|item| Setting::Text(item.to_owned())).collect()
            }
            Form::Program => vec![Setting::Program(vec![text.to_owned()])],
            Form::Text { .. } | Form::Path(..) => vec![Setting::Text(text.to_owned())],
            Form::Prices | Form::Providers => return Err("it is written in a file".into()),
        };
        settings.iter().try_for_each(|setting| self.check(setting))?;
        Ok(settings)
    }

    /// Whether the value is valid.
    pub fn check(&self, setting: &Setting) -> Result<(), String> {
        self.apply(&mut Config::default(), setting).map(drop)
    }

    /// Stores the value. Returns the name of its origin; None if a list contains it already.
    pub fn apply(&self, config: &mut Config, setting: &Setting) -> Result<Option<String>, String> {
        let element = |name: &str| Some(format!("{}.{name}", self.name));
        match (self.form, setting) {
            (Form::Text { set, .. }, Setting::Text(text)) => set(config, text)?,
            (Form::Path(field, example), Setting::Text(text)) => {
                *field(config) = Some(absolute_path(text, example)?);
            }
            (Form::Number(field, most), Setting::Number(number)) => {
                if !(1..=most).contains(number) {
                    return Err(not_a_number(most));
                }
                field.set(config, *number);
            }
            (Form::Flag(field), Setting::Flag(flag)) => *field(config) = *flag,
            (Form::List(field, read), Setting::Text(text)) => {
                let item = read(text)?;
                let list = field(config);
                let is_new = !list.contains(&item);
                if is_new {
                    list.push(item.clone());
                }
                return Ok(element(&item).filter(|_| is_new));
            }
            (Form::Schemes, Setting::Text(text)) => {
                let scheme = clones::scheme(text)?;
                let schemes = &mut config.clones.sources.schemes;
                if !schemes.contains(&scheme) {
                    schemes.push(scheme);
                }
                return Ok(element(scheme.name()));
            }
            (Form::Credentials, Setting::Text(text)) => {
                let (host, file) = clones::credentials(text)?;
                let name = element(&host);
                config.clones.credentials.retain(|(known, _)| *known != host);
                config.clones.credentials.push((host, file));
                return Ok(name);
            }
            (Form::Rules { allow }, Setting::Text(text)) => {
                return Ok(Some(add_rule(&mut config.rules, pattern(text, allow)?, allow)));
            }
            (Form::Program, Setting::Program(words)) => {
                config.hooks.prompt_submit = Some(program(words)?);
            }
            (Form::Prices, Setting::Price { model, price }) => {
                config.prices.models.insert(model.clone(), price.clone());
                return Ok(element(model));
            }
            (Form::Providers, Setting::Provider { name, provider }) => {
                config.providers.insert(name.clone(), provider.clone());
                return Ok(element(name));
            }
            (_, _) => return Err("this key has another kind of value".into()),
        }
        Ok(Some(self.name.to_owned()))
    }

    /// The values of this key, each with the name of its origin.
    pub fn values(&self, config: &mut Config) -> Vec<(String, Value)> {
        let element = |name: &str, value: Value| (format!("{}.{name}", self.name), value);
        let single = match self.form {
            Form::Text { get, .. } => get(config).map(Value::String),
            Form::Path(field, _) => {
                field(config).as_ref().map(|path| json!(path.to_string_lossy()))
            }
            Form::Number(field, _) => Some(json!(field.get(config))),
            Form::Flag(field) => Some(json!(*field(config))),
            Form::Program => config.hooks.prompt_submit.as_ref().map(|words| json!(words)),
            Form::List(field, _) => {
                return field(config).iter().map(|item| element(item, json!(item))).collect();
            }
            Form::Schemes => {
                let names = config.clones.sources.schemes.iter().map(|scheme| scheme.name());
                return names.map(|name| element(name, json!(name))).collect();
            }
            Form::Credentials => {
                let shown =
                    |host: &str, file: &PathBuf| json!(format!("{host}={}", file.display()));
                let files = config.clones.credentials.iter();
                return files.map(|(host, file)| element(host, shown(host, file))).collect();
            }
            Form::Rules { allow } => {
                let rules = config.rules.iter().filter(|rule| rule.allow == allow);
                return rules.filter_map(rule_value).collect();
            }
            Form::Prices => {
                let models = config.prices.models.iter();
                return models.map(|(model, price)| element(model, shown(model, price))).collect();
            }
            Form::Providers => {
                let all = config.providers.iter();
                let shown =
                    |name: &str, of: &UserProvider| json!(format!("{name}: {}", of.shown()));
                return all.map(|(name, of)| element(name, shown(name, of))).collect();
            }
        };
        single.into_iter().map(|value| (self.name.to_owned(), value)).collect()
    }

    /// Whether the value only restricts the configuration.
    ///
    /// Neither this nor [`Key::is_already`] may copy a list: a project file can contain a hundred
    /// thousand items.
    pub fn restricts(&self, config: &mut Config, setting: &Setting) -> bool {
        match (self.form, setting) {
            (Form::Rules { allow }, _) => !allow,
            (Form::Number(field, _), Setting::Number(number)) => {
                self.name != STALL_BYTES && *number < field.get(config)
            }
            (Form::Flag(_), Setting::Flag(flag)) => !flag,
            (Form::Text { .. }, _) => {
                let changed = self.with(config, setting);
                (self.restricts)(config, &changed)
            }
            (_, _) => false,
        }
    }

    /// Whether the value changes nothing.
    pub fn is_already(&self, config: &mut Config, setting: &Setting) -> bool {
        match (self.form, setting) {
            (Form::Text { get, .. }, _) => get(config) == get(&self.with(config, setting)),
            (Form::Path(field, _), Setting::Text(text)) => {
                field(config).as_ref().is_some_and(|path| path.as_os_str() == text.as_str())
            }
            (Form::Number(field, _), Setting::Number(number)) => *number == field.get(config),
            (Form::Flag(field), Setting::Flag(flag)) => *flag == *field(config),
            (Form::List(field, read), Setting::Text(text)) => {
                read(text).is_ok_and(|item| field(config).contains(&item))
            }
            (Form::Schemes, Setting::Text(text)) => {
                let schemes = &config.clones.sources.schemes;
                clones::scheme(text).is_ok_and(|scheme| schemes.contains(&scheme))
            }
            (Form::Credentials, Setting::Text(text)) => {
                let known = &config.clones.credentials;
                clones::credentials(text).is_ok_and(|one| known.contains(&one))
            }
            (Form::Rules { allow }, Setting::Text(text)) => {
                let matcher = pattern(text, allow).map(Matcher::Command);
                let is_same =
                    |rule: &Rule| rule.allow == allow && Ok(&rule.matcher) == matcher.as_ref();
                config.rules.iter().any(is_same)
            }
            (Form::Program, Setting::Program(words)) => {
                config.hooks.prompt_submit.as_ref() == Some(words)
            }
            (Form::Prices, Setting::Price { model, price }) => {
                config.prices.models.get(model) == Some(price)
            }
            (Form::Providers, Setting::Provider { name, provider }) => {
                config.providers.get(name) == Some(provider)
            }
            (_, _) => false,
        }
    }

    /// A copy of the scalar settings with this value applied.
    fn with(&self, config: &mut Config, setting: &Setting) -> Config {
        let rules = std::mem::take(&mut config.rules);
        let mut changed = config.clone();
        config.rules = rules;
        // An invalid value changes nothing.
        let _ = self.apply(&mut changed, setting);
        changed
    }
}

fn add_rule(rules: &mut Vec<Rule>, pattern: CommandPattern, allow: bool) -> String {
    let id = format!("config-{}", rules.len() + 1);
    rules.push(Rule {
        id: RuleId::new(id.as_str()),
        matcher: Matcher::Command(pattern),
        allow,
        scope: RuleLifetime::Configured,
        directory: None,
        principal: None,
    });
    id
}

fn rule_value(rule: &Rule) -> Option<(String, Value)> {
    let Matcher::Command(pattern) = &rule.matcher else { return None };
    Some((rule.id.as_str().to_owned(), json!(pattern.to_string())))
}

fn shown(model: &str, price: &Price) -> Value {
    let cached = price.cached_input.map(|rate| format!(", {rate} cached")).unwrap_or_default();
    json!(format!("{model}: {} in, {} out{cached}", price.input, price.output))
}

pub fn not_a_number(most: u64) -> String {
    format!("write a whole number from 1 to {most}")
}

fn named(name: &str) -> Option<String> {
    Some(name.to_owned())
}

/// The choice with this name. `what` completes "there …".
fn choice<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
    text: &str,
    what: &str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name(*one) == text.trim());
    found.ok_or_else(|| {
        let mut names: Vec<String> = all.iter().map(|one| format!("`{}`", name(*one))).collect();
        let last = names.pop().unwrap_or_default();
        let what = what.replace("{}", &shortened(text));
        format!("there {what}: write {} or {last}", names.join(", "))
    })
}

pub fn absolute_path(text: &str, example: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_absolute() && !text.contains(char::is_control) {
        true => Ok(path),
        false => {
            let text = shortened(text);
            Err(format!("`{text}` is not a full path: write one, such as `{example}`"))
        }
    }
}

fn set_model(config: &mut Config, text: &str) -> Result<(), String> {
    match text.trim() {
        "" => return Err("write the name of a model, such as `offline`".into()),
        name => config.model = name.to_owned(),
    }
    Ok(())
}

fn set_effort(config: &mut Config, text: &str) -> Result<(), String> {
    config.effort = Some(choice(&Effort::ALL, Effort::name, text, "is no effort `{}`")?);
    Ok(())
}

fn effort(config: &Config) -> Option<String> {
    config.effort.map(|effort| effort.name().to_owned())
}

fn set_mode(config: &mut Config, text: &str) -> Result<(), String> {
    let all = [Mode::Ask, Mode::Edits, Mode::All, Mode::Plan];
    config.mode = choice(&all, Mode::name, text, "is no mode `{}`")?;
    Ok(())
}

fn set_timeout(config: &mut Config, text: &str) -> Result<(), String> {
    const LONGEST: Seconds = Seconds(YEAR);
    let read = text.trim().parse().ok();
    let read = read.filter(|read| (Seconds(1)..=LONGEST).contains(read));
    let read = read.ok_or_else(|| {
        let text = shortened(text);
        format!(
            "`{text}` is not a valid duration: write a number and one of s, m, h and d, such as `10m`, \
             from `1s` to `{LONGEST}`"
        )
    })?;
    config.approvals.timeout = Some(read);
    Ok(())
}

fn timeout(config: &Config) -> Option<String> {
    config.approvals.timeout.map(|timeout| timeout.to_string())
}

fn set_on_timeout(config: &mut Config, text: &str) -> Result<(), String> {
    config.approvals.on_timeout = choice(&OnTimeout::ALL, OnTimeout::name, text, "is no `{}`")?;
    Ok(())
}

fn on_timeout(config: &Config) -> Option<String> {
    named(config.approvals.on_timeout.name())
}

fn set_compact_at(config: &mut Config, text: &str) -> Result<(), String> {
    let number = match text.trim() {
        "off" => Some(0),
        text => text.strip_suffix('%').unwrap_or(text).parse().ok(),
    };
    config.compact_at = number.filter(|number| *number <= 100).ok_or_else(|| {
        let text = shortened(text);
        format!("`{text}` is not a valid share: write one from `1%` to `100%`, or `off`")
    })?;
    Ok(())
}

fn compact_at(config: &Config) -> Option<String> {
    Some(match config.compact_at {
        0 => "off".to_owned(),
        percent => format!("{percent}%"),
    })
}

fn set_keys(config: &mut Config, text: &str) -> Result<(), String> {
    config.keys = choice(&Keys::ALL, Keys::name, text, "are no `{}` keys")?;
    Ok(())
}

fn set_theme(config: &mut Config, text: &str) -> Result<(), String> {
    config.theme = choice(&ThemeChoice::ALL, ThemeChoice::name, text, "is no theme `{}`")?;
    Ok(())
}

/// A sign or short name that follows an amount.
fn set_currency(config: &mut Config, text: &str) -> Result<(), String> {
    let text = text.trim();
    let plain = |letter: char| !letter.is_control() && !letter.is_ascii_digit();
    if text.is_empty() || text.chars().count() > 8 || !text.chars().all(plain) {
        return Err("write the sign or the short name of a currency, such as `USD`".into());
    }
    config.prices.currency = text.to_owned();
    Ok(())
}

fn currency(config: &Config) -> Option<String> {
    Some(config.prices.currency.clone()).filter(|currency| !currency.is_empty())
}

fn pattern(text: &str, allow: bool) -> Result<CommandPattern, String> {
    let (parsed, hint) = match allow {
        true => (
            loggia_shell::parse_pattern(text),
            "write one plain command such as `git status`, or `cargo test *` for any further words",
        ),
        false => (
            loggia_shell::parse_denied_pattern(text),
            "write the words of one command, such as `sudo *`",
        ),
    };
    parsed.map_err(|reason| format!("`{}` cannot be a rule: {reason}; {hint}", shortened(text)))
}

fn program(words: &[String]) -> Result<Vec<String>, String> {
    let Some(program) = words.first().filter(|program| !program.is_empty()) else {
        return Err(
            "write a program and its arguments, such as [\"/usr/bin/check\", \"-v\"]".into()
        );
    };
    // A relative path depends on the current directory, so a project could supply the program.
    if program.contains('/') && !program.starts_with('/') {
        let program = shortened(program);
        return Err(format!("`{program}` is not a full path: write one, or a name on `PATH`"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err("a zero byte cannot be passed to a program; take it out".into());
    }
    Ok(words.to_vec())
}

/// A host name or address without port, as in a URL but without brackets.
fn webhook_host(text: &str) -> Result<String, String> {
    let host = text.to_ascii_lowercase();
    let name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(name);
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) if is_name => Ok(host),
        Err(_) => {
            let text = shortened(text);
            Err(format!(
                "`{text}` is not a valid host: write a name or an address, such as `hooks.lan`"
            ))
        }
    }
}

fn variable(name: &str) -> Result<String, String> {
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let starts_well = !name.starts_with(|first: char| first.is_ascii_digit());
    if name.is_empty() || !starts_well || !name.chars().all(plain) {
        let name = shortened(name);
        return Err(format!("`{name}` is not the name of a variable: write each name in full"));
    }
    if !may_be_passed(name) {
        return Err(format!(
            "`{name}` is never passed to commands: it holds the key of a model, would run code in \
             each of them, or is Loggia's own; take it off the list"
        ));
    }
    Ok(name.to_owned())
}
