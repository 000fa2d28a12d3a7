//! Every key that can be configured: its name, what it holds and how its text is read.
//!
//! What must not be here: files, layers, and which layer may say what.

use std::path::PathBuf;

use loggia_core::shell::CommandPattern;
use loggia_core::{Mode, OnTimeout, Price, Seconds};

use super::clones::{self, CloneLimit, CloneSetting};
use super::environment::may_be_passed;
use super::error::shortened;
use super::{Keys, ThemeChoice};

/// One thing said about one key. A list says several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    Model(String),
    Mode(Mode),
    Timeout(Seconds),
    OnTimeout(OnTimeout),
    CompactAt(u8),
    Rule { pattern: CommandPattern, allow: bool },
    Limit(Limit, u64),
    Offer(Offer, bool),
    Shell(PathBuf),
    PassEnvironment(String),
    PromptHook(Vec<String>),
    Keys(Keys),
    Theme(ThemeChoice),
    Clones(CloneSetting),
    WebhookHost(String),
    Tls(TlsPart, PathBuf),
    Currency(String),
    Price { model: String, price: Price },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPart {
    Certificate,
    Key,
}

/// What a server may leave out: neither its card nor its answers know it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Streaming,
    Push,
    ExtendedCard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Replies,
    Calls,
    TextBytes,
    TurnSeconds,
    CallSeconds,
    HookSeconds,
    Connections,
    Streams,
    RemoteStreams,
    StallSeconds,
    IdleSeconds,
    Clones(CloneLimit),
}

impl Limit {
    fn most(self) -> u64 {
        match self {
            Limit::Replies | Limit::Calls => u64::from(u32::MAX),
            Limit::TextBytes => 1 << 40,
            Limit::TurnSeconds | Limit::CallSeconds => 366 * 24 * 60 * 60,
            Limit::HookSeconds => 60 * 60,
            Limit::Connections | Limit::Streams | Limit::RemoteStreams => 1 << 20,
            Limit::StallSeconds | Limit::IdleSeconds => 24 * 60 * 60,
            Limit::Clones(limit) => limit.most(),
        }
    }
}

type ReadText = fn(&str) -> Result<Setting, String>;
type ReadWords = fn(Vec<String>) -> Result<Setting, String>;

#[derive(Debug, Clone, Copy)]
pub enum Form {
    Text(ReadText),
    /// Each of the texts is a setting of its own.
    List(ReadText),
    /// A program and its arguments: one setting, which replaces an earlier one whole.
    Program(ReadWords),
    Number(Limit),
    Flag(Offer),
    /// A table for each model.
    Prices,
}

#[derive(Debug)]
pub struct Key {
    /// The path of the key: `limits.replies`.
    pub name: &'static str,
    pub form: Form,
    /// Commands hold every separator there is, so a variable cannot list them.
    has_variable: bool,
}

const fn key(name: &'static str, form: Form) -> Key {
    Key { name, form, has_variable: true }
}

pub const KEYS: &[Key] = &[
    key("model", Form::Text(read_model)),
    key("mode", Form::Text(read_mode)),
    Key { name: "commands.allow", form: Form::List(read_allowed), has_variable: false },
    Key { name: "commands.deny", form: Form::List(read_denied), has_variable: false },
    key("approvals.timeout", Form::Text(read_timeout)),
    key("approvals.on_timeout", Form::Text(read_on_timeout)),
    key("context.compact_at", Form::Text(read_compact_at)),
    key("limits.replies", Form::Number(Limit::Replies)),
    key("limits.calls", Form::Number(Limit::Calls)),
    key("limits.text_bytes", Form::Number(Limit::TextBytes)),
    key("limits.turn_seconds", Form::Number(Limit::TurnSeconds)),
    key("limits.call_seconds", Form::Number(Limit::CallSeconds)),
    key("server.connections", Form::Number(Limit::Connections)),
    key("server.streams", Form::Number(Limit::Streams)),
    key("server.remote_streams", Form::Number(Limit::RemoteStreams)),
    key("server.stall_seconds", Form::Number(Limit::StallSeconds)),
    key("server.idle_seconds", Form::Number(Limit::IdleSeconds)),
    key("server.tls_cert", Form::Text(|text| read_tls(TlsPart::Certificate, text))),
    key("server.tls_key", Form::Text(|text| read_tls(TlsPart::Key, text))),
    key("server.clones.directory", Form::Text(clones::read_directory)),
    key("server.clones.schemes", Form::List(clones::read_scheme)),
    key("server.clones.hosts", Form::List(clones::read_host)),
    key("server.clones.private_hosts", Form::List(clones::read_private_host)),
    key("server.clones.credentials", Form::List(clones::read_credentials)),
    key("server.clones.ca_file", Form::Text(clones::read_ca_file)),
    key("server.clones.keep", Form::Text(clones::read_keep)),
    key("server.clones.count", Form::Number(Limit::Clones(CloneLimit::Count))),
    key("server.clones.seconds", Form::Number(Limit::Clones(CloneLimit::Seconds))),
    key("server.clones.bytes", Form::Number(Limit::Clones(CloneLimit::Bytes))),
    key("server.clones.files", Form::Number(Limit::Clones(CloneLimit::Files))),
    key("server.clones.total_bytes", Form::Number(Limit::Clones(CloneLimit::TotalBytes))),
    key("server.clones.stall_seconds", Form::Number(Limit::Clones(CloneLimit::StallSeconds))),
    key("server.clones.stall_bytes", Form::Number(Limit::Clones(CloneLimit::StallBytes))),
    key("server.webhook_hosts", Form::List(read_webhook_host)),
    key("server.streaming", Form::Flag(Offer::Streaming)),
    key("server.push", Form::Flag(Offer::Push)),
    key("server.extended_card", Form::Flag(Offer::ExtendedCard)),
    key("shell.program", Form::Text(read_program)),
    key("shell.pass_env", Form::List(read_variable)),
    Key { name: "hooks.prompt_submit", form: Form::Program(read_hook), has_variable: false },
    key("hooks.seconds", Form::Number(Limit::HookSeconds)),
    key("tui.keys", Form::Text(read_keys)),
    key("tui.theme", Form::Text(read_theme)),
    key("prices.currency", Form::Text(read_currency)),
    PRICES,
];

/// What stands in `[prices.NAME]`.
pub const PRICES: Key = Key { name: "prices", form: Form::Prices, has_variable: false };

/// Variables that are no keys.
pub const OTHER_VARIABLES: &[&str] = &["LOGGIA_HOME", "LOGGIA_CONFIG", "LOGGIA_LOG"];

pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// `LOGGIA_LIMITS_REPLIES` for `limits.replies`.
    pub fn variable(&self) -> Option<String> {
        let name = || format!("LOGGIA_{}", self.name.replace('.', "_").to_ascii_uppercase());
        self.has_variable.then(name)
    }

    /// The name inside its table.
    pub fn last_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Reads the text of a variable or flag; a list is separated by commas there.
    pub fn read_text(&self, text: &str) -> Result<Vec<Setting>, String> {
        match self.form {
            Form::Text(read) => Ok(vec![read(text)?]),
            Form::List(read) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(read).collect()
            }
            Form::Program(read) => Ok(vec![read(vec![text.to_owned()])?]),
            Form::Number(limit) => {
                let number = text.trim().parse();
                Ok(vec![limited(limit, number.map_err(|_| not_a_number(limit))?)?])
            }
            Form::Flag(offer) => match text.trim() {
                "true" => Ok(vec![Setting::Offer(offer, true)]),
                "false" => Ok(vec![Setting::Offer(offer, false)]),
                _ => Err("write `true` or `false`".into()),
            },
            Form::Prices => Err("prices are written in a file".into()),
        }
    }
}

pub fn limited(limit: Limit, number: u64) -> Result<Setting, String> {
    if (1..=limit.most()).contains(&number) {
        Ok(Setting::Limit(limit, number))
    } else {
        Err(not_a_number(limit))
    }
}

pub fn not_a_number(limit: Limit) -> String {
    format!("write a whole number from 1 to {}", limit.most())
}

fn read_model(text: &str) -> Result<Setting, String> {
    match text.trim() {
        "" => Err("write the name of a model, such as `offline`".into()),
        name => Ok(Setting::Model(name.to_owned())),
    }
}

fn read_mode(text: &str) -> Result<Setting, String> {
    let mode = [Mode::Ask, Mode::Edits, Mode::All, Mode::Plan]
        .into_iter()
        .find(|mode| mode.name() == text.trim())
        .ok_or_else(|| {
            let text = shortened(text);
            format!("there is no mode `{text}`: write `ask`, `edits`, `all` or `plan`")
        })?;
    Ok(Setting::Mode(mode))
}

/// At most a year, like the other lengths of time.
const LONGEST_TIMEOUT: Seconds = Seconds(366 * 24 * 60 * 60);

fn read_timeout(text: &str) -> Result<Setting, String> {
    let read = text.trim().parse().ok();
    let read = read.filter(|read| (Seconds(1)..=LONGEST_TIMEOUT).contains(read));
    read.map(Setting::Timeout).ok_or_else(|| {
        let text = shortened(text);
        format!(
            "`{text}` is no length of time: write a number and one of s, m, h and d, such as `10m`, \
             from `1s` to `{LONGEST_TIMEOUT}`"
        )
    })
}

fn read_on_timeout(text: &str) -> Result<Setting, String> {
    let then = OnTimeout::ALL.into_iter().find(|then| then.name() == text.trim());
    then.map(Setting::OnTimeout).ok_or_else(|| {
        format!("there is no `{}`: write `wait`, `deny` or `cancel`", shortened(text))
    })
}

fn read_compact_at(text: &str) -> Result<Setting, String> {
    let number = match text.trim() {
        "off" => Some(0),
        text => text.strip_suffix('%').unwrap_or(text).parse().ok(),
    };
    number.filter(|number| *number <= 100).map(Setting::CompactAt).ok_or_else(|| {
        let text = shortened(text);
        format!("`{text}` is no share: write one from `1%` to `100%`, or `off`")
    })
}

fn read_keys(text: &str) -> Result<Setting, String> {
    let keys = Keys::ALL.into_iter().find(|keys| keys.name() == text.trim()).ok_or_else(|| {
        format!("there are no `{}` keys: write `plain` or `vim`", shortened(text))
    })?;
    Ok(Setting::Keys(keys))
}

/// A sign or a word behind an amount.
fn read_currency(text: &str) -> Result<Setting, String> {
    let text = text.trim();
    let plain = |letter: char| !letter.is_control() && !letter.is_ascii_digit();
    match !text.is_empty() && text.chars().count() <= 8 && text.chars().all(plain) {
        true => Ok(Setting::Currency(text.to_owned())),
        false => Err("write the sign or the short name of a currency, such as `USD`".into()),
    }
}

fn read_theme(text: &str) -> Result<Setting, String> {
    let theme = ThemeChoice::ALL.into_iter().find(|theme| theme.name() == text.trim());
    let theme = theme.ok_or_else(|| {
        format!("there is no theme `{}`: write `auto`, `light` or `dark`", shortened(text))
    })?;
    Ok(Setting::Theme(theme))
}

fn read_allowed(text: &str) -> Result<Setting, String> {
    let pattern = loggia_shell::parse_pattern(text).map_err(|reason| {
        format!(
            "`{}` cannot be a rule: {reason}; write one plain command such as `git status`, or \
             `cargo test *` for any further words",
            shortened(text)
        )
    })?;
    Ok(Setting::Rule { pattern, allow: true })
}

fn read_denied(text: &str) -> Result<Setting, String> {
    let pattern = loggia_shell::parse_denied_pattern(text).map_err(|reason| {
        format!(
            "`{}` cannot be a rule: {reason}; write the words of one command, such as `sudo *`",
            shortened(text)
        )
    })?;
    Ok(Setting::Rule { pattern, allow: false })
}

fn read_program(text: &str) -> Result<Setting, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        Ok(Setting::Shell(path))
    } else {
        let text = shortened(text);
        Err(format!("`{text}` is not a full path: write one, such as `/bin/bash`"))
    }
}

fn read_tls(part: TlsPart, text: &str) -> Result<Setting, String> {
    let path = PathBuf::from(text);
    match path.is_absolute() {
        true => Ok(Setting::Tls(part, path)),
        false => {
            let text = shortened(text);
            Err(format!("`{text}` is not a full path: write one, such as `/etc/loggia/server.pem`"))
        }
    }
}

fn read_hook(words: Vec<String>) -> Result<Setting, String> {
    let Some(program) = words.first().filter(|program| !program.is_empty()) else {
        return Err(
            "write a program and its arguments, such as [\"/usr/bin/check\", \"-v\"]".into()
        );
    };
    // From where it would be looked up depends on where Loggia works: a project could bring its own.
    if program.contains('/') && !program.starts_with('/') {
        let program = shortened(program);
        return Err(format!("`{program}` is not a full path: write one, or a name on `PATH`"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err("a zero byte cannot be passed to a program; take it out".into());
    }
    Ok(Setting::PromptHook(words))
}

/// A name or an address, whole: what stands in a URL, without brackets and port.
fn read_webhook_host(text: &str) -> Result<Setting, String> {
    let host = text.to_ascii_lowercase();
    let name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(name);
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => Ok(Setting::WebhookHost(address.to_string())),
        Err(_) if is_name => Ok(Setting::WebhookHost(host)),
        Err(_) => {
            let text = shortened(text);
            Err(format!("`{text}` is no host: write a name or an address, such as `hooks.lan`"))
        }
    }
}

fn read_variable(name: &str) -> Result<Setting, String> {
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let starts_well = !name.starts_with(|first: char| first.is_ascii_digit());
    if name.is_empty() || !starts_well || !name.chars().all(plain) {
        let name = shortened(name);
        return Err(format!("`{name}` is not the name of a variable: write each name in full"));
    }
    if !may_be_passed(name) {
        return Err(format!(
            "`{name}` is never passed to commands: it would run code in each of them, or is \
             Loggia's own; take it off the list"
        ));
    }
    Ok(Setting::PassEnvironment(name.to_owned()))
}
