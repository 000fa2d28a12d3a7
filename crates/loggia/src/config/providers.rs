//! `[providers.NAME]`: the user's own endpoints, and changes of the built-in providers.
//!
//! Only the user's own file may contain them, because a key is sent to the address that they name.

use loggia_models::Secret;
use loggia_models::providers::{Kind, built_in, is_loopback};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::is_always_passed;
use super::error::shortened;

const KEYS: &str =
    "`kind`, `base_url`, `key_env`, `auth`, `dialect`, `headers`, `window` and `idle_seconds`";

/// Names that are models, or confuse people with one.
const RESERVED: [&str; 3] = ["offline", "scripted", "default"];
const LONGEST_NAME: usize = 40;
const DAY: u64 = 24 * 60 * 60;

/// One table. Missing values are those of the built-in provider with this name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserProvider {
    pub kind: Option<Kind>,
    pub base_url: Option<String>,
    /// The variable with the key.
    pub key_env: Option<String>,
    /// `bearer`, or the name of the header with the key.
    pub auth: Option<String>,
    pub dialect: Option<String>,
    pub headers: Vec<(String, Secret)>,
    pub window: Option<u64>,
    pub idle_seconds: Option<u64>,
}

impl UserProvider {
    /// Reads a table. The error is a sentence with the key first.
    pub fn read(name: &str, table: &DeTable<'_>) -> Result<Self, (usize, String)> {
        check_name(name).map_err(|why| (0, why))?;
        let mut read = Self::default();
        for (key, value) in table {
            let at = key.span().start;
            read.set(key.get_ref(), value).map_err(|why| (at, why))?;
        }
        if built_in(name).is_none() && read.base_url.is_none() {
            return Err((0, "write its `base_url`, such as \"http://127.0.0.1:8000/v1\"".into()));
        }
        Ok(read)
    }

    fn set(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), String> {
        let text = || match value.get_ref() {
            DeValue::String(text) => Ok(text.trim().to_owned()),
            _ => Err(format!("{key}: write a text in quotes")),
        };
        let refuse = |why: String| format!("{key}: {why}");
        match key {
            "kind" => {
                let text = text()?;
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
                self.kind = Some(kind.ok_or_else(|| {
                    let all = Kind::ALL.map(|kind| format!("`{}`", kind.name())).join(", ");
                    refuse(format!("there is no `{}`: write one of {all}", shortened(&text)))
                })?);
            }
            "base_url" => self.base_url = Some(base_url(&text()?).map_err(refuse)?),
            "key_env" => self.key_env = Some(key_variable(&text()?).map_err(refuse)?),
            "auth" => self.auth = Some(header_name(&text()?).map_err(refuse)?),
            "dialect" => {
                let text = text()?;
                let known = loggia_models::chat::dialect(&text);
                let all = loggia_models::chat::ALL.iter().map(|known| known.name);
                let all = || all.collect::<Vec<_>>().join(", ");
                known.ok_or_else(|| {
                    refuse(format!("there is no `{}`: write one of {}", shortened(&text), all()))
                })?;
                self.dialect = Some(text);
            }
            "headers" => self.headers = headers(value).map_err(refuse)?,
            "window" => self.window = Some(number(value, 1 << 32).map_err(refuse)?),
            "idle_seconds" => self.idle_seconds = Some(number(value, DAY).map_err(refuse)?),
            other => {
                return Err(format!("there is no key `{}`; there are {KEYS}", shortened(other)));
            }
        }
        Ok(())
    }

    /// The table for people, without the values of headers.
    pub fn shown(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.kind.map(|kind| kind.name().to_owned()));
        parts.extend(self.dialect.as_ref().map(|dialect| format!("dialect {dialect}")));
        parts.extend(self.base_url.clone());
        parts.extend(self.key_env.as_ref().map(|name| format!("key in {name}")));
        parts.extend(self.auth.as_ref().map(|auth| format!("auth {auth}")));
        parts.extend(self.headers.iter().map(|(name, _)| format!("header {name}")));
        parts.extend(self.window.map(|window| format!("window {window}")));
        parts.extend(self.idle_seconds.map(|idle| format!("idle {idle} s")));
        parts.join(", ")
    }
}

pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let fits = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| plain(letter) || "-_".contains(letter))
        && name.len() <= LONGEST_NAME;
    match fits && !RESERVED.contains(&name) {
        true => Ok(()),
        false => Err("its name has lower-case letters, digits, `-` and `_`, and begins with a \
                      letter, such as `mine`"
            .to_owned()),
    }
}

/// A key goes to this address, so it is either encrypted or on this machine, unless the user says http.
fn base_url(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "`{}` is not an address: write one such as `https://gateway.example/v1`",
            shortened(text)
        )
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("the address must not contain a user or a password: use `headers`".into());
    }
    let plain = !rest.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    let fits = matches!(scheme, "http" | "https")
        && !authority.is_empty()
        && plain
        && !rest.contains(['?', '#']);
    match fits {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(wrong()),
    }
}

fn key_variable(name: &str) -> Result<String, String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let fits = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(plain);
    if !fits {
        return Err(format!("`{}` is not the name of a variable", shortened(name)));
    }
    match is_always_passed(name) {
        true => {
            Err(format!("`{name}` is passed to every command: keep the key in another variable"))
        }
        false => Ok(name.to_owned()),
    }
}

fn header_name(name: &str) -> Result<String, String> {
    let symbol = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    match !name.is_empty() && name.chars().all(symbol) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(format!("`{}` is not the name of a header", shortened(name))),
    }
}

fn headers(value: &Spanned<DeValue<'_>>) -> Result<Vec<(String, Secret)>, String> {
    const FORM: &str = "write a table of texts, such as { X-Team = \"blue\" }";
    let DeValue::Table(table) = value.get_ref() else { return Err(FORM.into()) };
    let mut headers = Vec::new();
    for (name, value) in table {
        let DeValue::String(text) = value.get_ref() else { return Err(FORM.into()) };
        if text.chars().any(|letter| letter.is_control() || !letter.is_ascii()) {
            return Err(format!(
                "the value of {} has a letter that a header cannot have",
                name.get_ref()
            ));
        }
        headers.push((header_name(name.get_ref())?, Secret::new(text.to_string())));
    }
    Ok(headers)
}

fn number(value: &Spanned<DeValue<'_>>, most: u64) -> Result<u64, String> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| super::key::not_a_number(most))
}

/// A sentence if a key would be sent unencrypted over the network.
pub fn exposed_key(name: &str, provider: &UserProvider) -> Option<String> {
    let url = provider.base_url.as_deref().filter(|url| url.starts_with("http://"))?;
    (!is_loopback(url)).then(|| {
        format!("The provider {name} is reached without encryption: its key and everything that the model reads go over the network as plain text.")
    })
}
