//! Sends one notification to one webhook, once.
//!
//! Follows no redirects, uses no proxy, and sends the registration's secrets to the registered address only.
//! Errors contain neither the path of the address nor a secret.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use reqwest::{Client, StatusCode};
use tokio::sync::OnceCell;

use super::record::Registration;
use super::resolver::CheckedResolver;
use super::sign::Secret;
use super::target::{AllowedPrivateHosts, Target};
use crate::guard::{NOTIFICATION_ID, NOTIFIER};

/// Bytes of a reply that are read so that the connection can be used again.
const REPLY_LIMIT: usize = 16 * 1024;

/// Bytes of a token or of credentials, and of the name of a scheme.
const LONGEST_SECRET: usize = 4_096;
const LONGEST_SCHEME: usize = 64;

const NOTIFICATION_TOKENS: [HeaderName; 2] = [
    HeaderName::from_static("x-a2a-notification-token"),
    HeaderName::from_static("a2a-notification-token"),
];

pub struct Sender {
    /// For http. Trusts no certificate, so it does not read the machine's.
    plain: OnceCell<Client>,
    /// For https. Made when it is first needed, because reading the machine's certificates is slow.
    secure: OnceCell<Client>,
    names: CheckedResolver,
    own_ports: Vec<u16>,
    private: AllowedPrivateHosts,
    time: Duration,
}

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Delivered,
    /// The webhook replied that it no longer exists.
    Gone,
    Failed {
        why: String,
        retry_after: Option<Duration>,
    },
}

fn failed(why: impl Into<String>) -> Outcome {
    Outcome::Failed { why: why.into(), retry_after: None }
}

impl Sender {
    /// `time` is the timeout of the whole attempt, from the name look-up to the reply.
    pub fn new(
        names: CheckedResolver,
        own_ports: Vec<u16>,
        private: AllowedPrivateHosts,
        time: Duration,
    ) -> Self {
        let (plain, secure) = (OnceCell::new(), OnceCell::new());
        Self { plain, secure, names, own_ports, private, time }
    }

    /// Whether a URL may be called, judged by its text.
    pub fn check(&self, url: &str, principal: &str) -> Result<(), &'static str> {
        Target::read(url, &self.own_ports, &self.private, principal).map(drop)
    }

    fn target(&self, registration: &Registration) -> Result<Target, &'static str> {
        let Registration { url, principal, .. } = registration;
        Target::read(url, &self.own_ports, &self.private, principal)
    }

    async fn client(&self, target: &Target) -> Option<&Client> {
        let secure = target.url.scheme() == "https";
        let cell = if secure { &self.secure } else { &self.plain };
        let builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(self.names.clone()))
            .user_agent(format!("{NOTIFIER}{}", env!("CARGO_PKG_VERSION")))
            .timeout(self.time)
            .connect_timeout(self.time)
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(30));
        let build = move || match secure {
            true => builder.build(),
            false => builder.tls_certs_only(None).build(),
        };
        let made = cell.get_or_try_init(|| async {
            let built = tokio::task::spawn_blocking(build).await;
            built.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        });
        match made.await {
            Ok(client) => Some(client),
            Err(error) => {
                tracing::warn!(error, "webhooks cannot be called");
                None
            }
        }
    }

    /// The target of a registration, if it may be called and its secrets can be sent.
    pub async fn admits(&self, registration: &Registration) -> Result<Target, &'static str> {
        let target = self.target(registration)?;
        self.names.admits(&target).await?;
        secret(registration)?;
        fits_headers(registration)?;
        Ok(target)
    }

    /// `id` is the same for every attempt at one notification.
    pub async fn post(&self, registration: &Registration, id: &str, body: Bytes) -> Outcome {
        let target = match self.target(registration) {
            Ok(target) => target,
            Err(why) => return failed(why),
        };
        let Some(mut headers) = headers(registration) else {
            return failed("its token or credentials cannot be sent in a header");
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        headers.insert("webhook-timestamp", HeaderValue::from(now));
        let signature = match secret(registration) {
            Ok(secret) => secret.map(|secret| secret.sign(id, now, &body)),
            Err(why) => return failed(why),
        };
        let signature = (HeaderName::from_static("webhook-signature"), signature.as_deref());
        for (name, value) in [(NOTIFICATION_ID.clone(), Some(id)), signature] {
            if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
                headers.insert(name, value);
            }
        }
        let Some(client) = self.client(&target).await else {
            return failed("this machine has no trusted certificates");
        };
        let request = client.post(target.url.clone()).headers(headers).body(body);
        // The client's own timeout does not cover a reply's body.
        match tokio::time::timeout(self.time, attempt(request)).await {
            Ok(outcome) => outcome,
            Err(_) => failed("it did not reply in time"),
        }
    }
}

async fn attempt(request: reqwest::RequestBuilder) -> Outcome {
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_timeout() => return failed("it did not reply in time"),
        Err(error) if is_about_certificate(&error) => {
            return failed("its certificate is not accepted");
        }
        Err(error) if error.is_connect() => return failed("it cannot be reached"),
        Err(_) => return failed("the connection broke"),
    };
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let mut read = 0;
    // The body does not change the outcome.
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > REPLY_LIMIT {
            break;
        }
    }
    match status {
        status if status.is_success() => Outcome::Delivered,
        StatusCode::GONE => Outcome::Gone,
        status if status.is_redirection() => failed("it redirects, which is not followed"),
        status => Outcome::Failed { why: format!("it replied {}", status.as_u16()), retry_after },
    }
}

fn is_about_certificate(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.to_string().contains("certificate") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The secret that notifications are signed with, if the client gave one.
fn secret(registration: &Registration) -> Result<Option<Secret>, &'static str> {
    let given = [&registration.token, &registration.credentials].into_iter().flatten();
    given.filter_map(|text| Secret::read(text)).next().transpose()
}

/// Whether the secrets arrive unchanged: HTTP guarantees that for visible ASCII only, and servers limit
/// the length of headers.
fn fits_headers(registration: &Registration) -> Result<(), &'static str> {
    let Registration { token, scheme, credentials, .. } = registration;
    let visible = |text: &String| {
        let letters = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        letters && text.trim() == text && text.len() <= LONGEST_SECRET
    };
    if ![token, credentials].into_iter().flatten().all(visible) {
        return Err("its token and credentials must be visible ASCII, of at most 4096 bytes");
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let word = |scheme: &String| scheme.len() <= LONGEST_SCHEME && scheme.bytes().all(letter);
    match scheme.as_ref().is_none_or(word) {
        true => Ok(()),
        false => Err("its authentication scheme must be one word, such as Bearer"),
    }
}

/// None if a secret cannot be a header. A secret that signs is not sent.
fn headers(registration: &Registration) -> Option<HeaderMap> {
    let secret = |text: &str| {
        let mut value = HeaderValue::from_bytes(text.as_bytes()).ok()?;
        value.set_sensitive(true);
        Some(value)
    };
    let sent = |text: &&String| Secret::read(text).is_none();
    let mut headers = HeaderMap::new();
    let view = registration.view();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(view.push_media_type()));
    headers.insert("a2a-version", HeaderValue::from_static(view.version()));
    if let Some(token) = registration.token.as_ref().filter(sent) {
        for name in NOTIFICATION_TOKENS {
            headers.insert(name, secret(token)?);
        }
    }
    if let Some(credentials) = registration.credentials.as_ref().filter(sent) {
        let given = registration.scheme.as_deref().filter(|scheme| !scheme.is_empty());
        let scheme = given.unwrap_or("Bearer");
        headers.insert(AUTHORIZATION, secret(&format!("{scheme} {credentials}"))?);
    }
    Some(headers)
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let until = SystemTime::from(date.timestamp());
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_may_say_when_to_try_again() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
            retry_after(&headers)
        };
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        assert_eq!(of(" 0 "), Some(Duration::ZERO));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let later = of("Tue, 31 Dec 2999 23:59:59 GMT").unwrap();
        assert!(later > Duration::from_secs(3_600));
        for nonsense in ["", "-1", "soon", "1.5"] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
