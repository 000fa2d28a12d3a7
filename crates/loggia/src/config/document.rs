//! Parses a configuration file into settings with line numbers.
//!
//! The file is untrusted: it is opened without blocking, must be a regular file of limited size,
//! and its contents are escaped in messages. A project file is opened without following links, so
//! that it cannot point to another file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use loggia_core::{Price, Rate};
use rustix::fs::{CWD, Mode, OFlags, openat};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::error::shortened;
use super::key::{self, Form, KEYS, Key, Setting};
use super::nearest::nearest;
use super::providers::UserProvider;

const MAX_BYTES: u64 = 1024 * 1024;
/// Relative to the workspace.
pub const PROJECT_FILE: &str = ".loggia/config.toml";
/// Nested tables.
const NESTED: &[&str] = &["server.clones"];
const TABLES: &[&str] = &[
    "commands",
    "approvals",
    "context",
    "limits",
    "server",
    "shell",
    "hooks",
    "tui",
    "prices",
    "providers",
    "network",
];

/// One value in a file.
#[derive(Debug)]
pub struct Entry {
    pub line: usize,
    /// The value as written.
    pub written: String,
    pub found: Result<(&'static Key, Setting), InvalidEntry>,
}

/// An invalid entry: an error in a trusted file, ignored in an untrusted one.
#[derive(Debug)]
pub struct InvalidEntry {
    pub kind: InvalidKind,
    pub error: ConfigError,
}

#[derive(Debug)]
pub enum InvalidKind {
    /// Unknown key.
    Unknown { name: String },
    /// Known key with an invalid value.
    Value,
}

impl From<ConfigError> for InvalidEntry {
    fn from(error: ConfigError) -> Self {
        Self { kind: InvalidKind::Value, error }
    }
}

impl InvalidEntry {
    /// `table` contains the key; empty for top-level keys.
    fn unknown(name: String, table: &str, path: &Path, line: usize) -> Self {
        let own_name = name.strip_prefix(&format!("{table}.")).unwrap_or(&name);
        let next = match suggest(own_name, table) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "docs/reference/configuration.md lists the keys; remove it".to_owned(),
        };
        let error = ConfigError::at(path, line, format!("there is no key `{name}`; {next}"));
        Self { kind: InvalidKind::Unknown { name }, error }
    }
}

/// The user's file may be a link, because many people keep their configuration in another place.
pub fn user_settings(path: &Path, required: bool) -> Result<Vec<Entry>, ConfigError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => settings(&read(File::from(file), path)?, path),
        Err(rustix::io::Errno::NOENT) if !required => Ok(Vec::new()),
        Err(error) => Err(ConfigError::file(path, format!("cannot be read: {error}"))),
    }
}

/// The entries of the project file, whether or not it is trusted. Empty without a file.
pub fn project_settings(workspace: &Path) -> Result<Vec<Entry>, ConfigError> {
    use rustix::io::Errno;
    let path = workspace.join(PROJECT_FILE);
    let refuse = |error: Errno| match error {
        Errno::LOOP | Errno::NOTDIR => {
            ConfigError::file(&path, "links are not followed here; put a plain file in their place")
        }
        _ => ConfigError::file(&path, format!("cannot be read: {error}")),
    };
    let below = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(CWD, workspace.join(".loggia"), below, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(refuse(error)),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(&directory, "config.toml", flags, Mode::empty()) {
        Ok(file) => settings(&read(File::from(file), &path)?, &path),
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(error) => Err(refuse(error)),
    }
}

fn read(file: File, path: &Path) -> Result<String, ConfigError> {
    let refuse = |sentence: String| ConfigError::file(path, sentence);
    let cannot = |error: std::io::Error| refuse(format!("cannot be read: {error}"));
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(refuse("is not a regular file; put a plain file in its place".into()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(format!("is larger than {MAX_BYTES} bytes; shorten it")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = line_at(error.as_bytes(), error.utf8_error().valid_up_to());
        ConfigError::at(path, line, "this is not valid UTF-8; save the file as UTF-8")
    })
}

fn line_at(text: &[u8], offset: usize) -> usize {
    text.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[derive(Default)]
struct Rates {
    input: Option<Rate>,
    output: Option<Rate>,
    cached_input: Option<Rate>,
}

/// The document being parsed: text for line numbers, path for errors.
struct Parser<'a> {
    text: &'a str,
    path: &'a Path,
    entries: Vec<Entry>,
}

fn settings(text: &str, path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = line_at(text.as_bytes(), offset);
        ConfigError::at(path, line, format!("this is not valid TOML: {}", error.message()))
    })?;
    let mut parser = Parser { text, path, entries: Vec::new() };
    for (name, value) in document.get_ref() {
        let line = parser.line(name);
        let name: &str = name.get_ref();
        match value.get_ref() {
            DeValue::Table(table) if TABLES.contains(&name) => parser.table(name, table),
            _ if TABLES.contains(&name) => {
                let error = parser.wrong(line, name, "a table of keys", value);
                parser.add(line, value.span(), Err(error.into()));
            }
            _ => parser.key(line, name, "", value),
        }
    }
    parser.entries.sort_by_key(|entry| entry.line);
    Ok(parser.entries)
}

impl Parser<'_> {
    fn line<T>(&self, spanned: &Spanned<T>) -> usize {
        line_at(self.text.as_bytes(), spanned.span().start)
    }

    fn written(&self, span: std::ops::Range<usize>) -> String {
        self.text.get(span).unwrap_or_default().to_owned()
    }

    fn add(
        &mut self,
        line: usize,
        span: std::ops::Range<usize>,
        found: Result<(&'static Key, Setting), InvalidEntry>,
    ) {
        self.entries.push(Entry { line, written: self.written(span), found });
    }

    fn table(&mut self, table: &str, keys: &DeTable<'_>) {
        for (name, value) in keys {
            let line = self.line(name);
            let full = format!("{table}.{}", name.get_ref());
            if let ("prices", DeValue::Table(rates)) = (table, value.get_ref()) {
                let found = self.price(line, name.get_ref(), rates);
                let found =
                    found.map(|setting| (&key::PRICES, setting)).map_err(InvalidEntry::from);
                self.add(line, value.span(), found);
                continue;
            }
            if table == "providers" {
                let found = self.provider(line, name.get_ref(), value);
                let found =
                    found.map(|setting| (&key::PROVIDERS, setting)).map_err(InvalidEntry::from);
                self.add(line, value.span(), found);
                continue;
            }
            match (NESTED.iter().find(|nested| **nested == full), value.get_ref()) {
                (Some(nested), DeValue::Table(keys)) => self.table(nested, keys),
                (Some(nested), _) => {
                    let error = self.wrong(line, nested, "a table of keys", value);
                    self.add(line, value.span(), Err(error.into()));
                }
                (None, _) => self.key(line, name.get_ref(), table, value),
            }
        }
    }

    fn provider(
        &self,
        line: usize,
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Setting, ConfigError> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(line, "providers", "a table for each provider", value));
        };
        let provider = UserProvider::read(name, table).map_err(|(at, why)| {
            let line = if at == 0 { line } else { line_at(self.text.as_bytes(), at) };
            ConfigError::at(self.path, line, format!("providers.{}: {why}", shortened(name)))
        })?;
        Ok(Setting::Provider { name: name.to_owned(), provider })
    }

    /// The price of a model. Numbers are read from their text, so that they are not rounded.
    fn price(&self, line: usize, model: &str, rates: &DeTable<'_>) -> Result<Setting, ConfigError> {
        let at = |line, reason: String| {
            let model = shortened(model);
            ConfigError::at(self.path, line, format!("prices.\"{model}\": {reason}"))
        };
        let mut price = Rates::default();
        for (name, value) in rates {
            let line = self.line(name);
            let place = match name.get_ref().as_ref() {
                "input" => &mut price.input,
                "output" => &mut price.output,
                "cached_input" => &mut price.cached_input,
                other => {
                    let other = shortened(other);
                    let there = "there are `input`, `output` and `cached_input`";
                    return Err(at(line, format!("there is no key `{other}`; {there}")));
                }
            };
            let text = match value.get_ref() {
                DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
                DeValue::Float(number) => number.as_str(),
                _ => {
                    return Err(at(
                        line,
                        "write the price of a million tokens, such as 3.00".into(),
                    ));
                }
            };
            *place = Some(Rate::parse(text).map_err(|why| at(line, why.to_owned()))?);
        }
        let (Some(input), Some(output)) = (price.input, price.output) else {
            return Err(at(line, "write both `input` and `output`".into()));
        };
        let price = Price { input, output, cached_input: price.cached_input };
        Ok(Setting::Price { model: model.to_owned(), price })
    }

    fn key(&mut self, line: usize, name: &str, table: &str, value: &Spanned<DeValue<'_>>) {
        let full = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
        let Some(key) = key::find(&full).filter(|_| !name.contains('.')) else {
            let unknown = InvalidEntry::unknown(shortened(&full), table, self.path, line);
            return self.add(line, value.span(), Err(unknown));
        };
        // Each item of a list is a separate entry.
        if let (true, DeValue::Array(items)) = (key.is_list(), value.get_ref()) {
            for item in items {
                let line = self.line(item);
                let text = self.text(line, key, item).map(|text| Setting::Text(text.to_owned()));
                self.checked(line, key, text, item);
            }
            return;
        }
        let setting = self.value(line, key, value);
        self.checked(line, key, setting, value);
    }

    fn checked(
        &mut self,
        line: usize,
        key: &'static Key,
        setting: Result<Setting, ConfigError>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let found = setting.and_then(|setting| {
            key.check(&setting).map_err(|reason| self.refuse(line, key, reason))?;
            Ok((key, setting))
        });
        self.add(line, value.span(), found.map_err(InvalidEntry::from));
    }

    fn value(
        &self,
        line: usize,
        key: &'static Key,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Setting, ConfigError> {
        Ok(match (key.form, value.get_ref()) {
            (Form::Text { .. } | Form::Path(..), DeValue::String(text)) => {
                Setting::Text(text.to_string())
            }
            (Form::Number(_, most), DeValue::Integer(number)) => {
                let number = u64::from_str_radix(number.as_str(), number.radix());
                Setting::Number(
                    number.map_err(|_| self.refuse(line, key, key::not_a_number(most)))?,
                )
            }
            (Form::Flag(_), DeValue::Boolean(flag)) => Setting::Flag(*flag),
            (Form::Program, DeValue::Array(items)) => {
                let word = |item| self.text(self.line(item), key, item).map(str::to_owned);
                Setting::Program(items.iter().map(word).collect::<Result<Vec<_>, _>>()?)
            }
            (form, _) => return Err(self.wrong(line, key.name, wanted(form), value)),
        })
    }

    /// A text item of a list.
    fn text<'v>(
        &self,
        line: usize,
        key: &Key,
        item: &'v Spanned<DeValue<'_>>,
    ) -> Result<&'v str, ConfigError> {
        match item.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.wrong(line, key.name, "texts in quotes", item)),
        }
    }

    fn refuse(&self, line: usize, key: &Key, reason: String) -> ConfigError {
        ConfigError::at(self.path, line, format!("{}: {reason}", key.name))
    }

    fn wrong(
        &self,
        line: usize,
        name: &str,
        wanted: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> ConfigError {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        ConfigError::at(self.path, line, format!("{name}: write {wanted} here, not {found}"))
    }
}

fn wanted(form: Form) -> &'static str {
    match form {
        Form::Text { .. } | Form::Path(..) => "a text in quotes",
        Form::List(..) | Form::Schemes | Form::Credentials | Form::Rules { .. } => {
            "a list such as [\"one\", \"two\"]"
        }
        Form::Program => "a program and its arguments as a list of texts",
        Form::Number(..) => "a whole number",
        Form::Flag(_) => "true or false",
        Form::Prices => "a table for each model",
        Form::Providers => "a table for each provider",
    }
}

/// A key with the same name in another table, or a similar name.
fn suggest(name: &str, table: &str) -> Option<String> {
    if let Some(key) = KEYS.iter().find(|key| key.last_name() == name) {
        return Some(key.name.to_owned());
    }
    if table.is_empty() {
        let names = KEYS.iter().filter(|key| !key.name.contains('.')).map(|key| key.name);
        return nearest(name, names.chain(TABLES.iter().copied()));
    }
    let own = |key: &&Key| key.name == format!("{table}.{}", key.last_name());
    let siblings = KEYS.iter().filter(own);
    nearest(name, siblings.map(Key::last_name)).map(|near| format!("{table}.{near}"))
}
