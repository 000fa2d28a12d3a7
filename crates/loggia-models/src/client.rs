//! Sends requests to a vendor and reads the stream of the reply. The only module that uses the network.
//!
//! The idle time-out counts what the vendor says of the reply: pings and comments keep a stalled stream
//! open, and do not count. The end of the response before the end of the reply is an error.

mod secret;

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use loggia_core::ModelName;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

pub use secret::Secret;

use crate::Model;
use crate::error::{ModelError, ModelErrorKind};
use crate::framing::Splitter;
use crate::protocol::{
    Decoder, HttpFailure, HttpRequest, ModelContext, ModelFacts, Piece, Protocol,
};
use crate::request::{Delta, ModelRequest};

/// Bytes of a failed response that are read.
const FAILURE_LIMIT: usize = 64 * 1024;
/// Bytes of a list of models.
const LIST_LIMIT: usize = 16 * 1024 * 1024;
const CONNECT_TIME: Duration = Duration::from_secs(30);
/// For the list of models.
const LIST_TIME: Duration = Duration::from_secs(15);

/// How a provider is reached.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    /// The provider's name in Loggia: `anthropic`.
    pub provider: String,
    /// Without the part that the protocol appends.
    pub base_url: String,
    /// Names and values: the key and the user's own headers.
    pub headers: Vec<(String, Secret)>,
    /// The URL of a proxy for every request, and the hosts that are reached without it.
    pub proxy: Option<Secret>,
    pub no_proxy: Option<String>,
    /// Certificates (PEM) that replace those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The longest time without a sign of the reply.
    pub idle: Duration,
}

/// A connection to one provider. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    provider: Arc<str>,
    base_url: Arc<str>,
    http: reqwest::Client,
    headers: HeaderMap,
    secrets: Arc<[Secret]>,
    idle: Duration,
}

impl Client {
    /// Blocks while the system's certificates are read. The error is a sentence about the configuration.
    pub fn new(config: ClientConfig) -> Result<Self, String> {
        let ClientConfig { provider, base_url, headers, proxy, no_proxy, authorities, idle } =
            config;
        let base_url = base_url.trim_end_matches('/').to_owned();
        let url = reqwest::Url::parse(&base_url)
            .map_err(|error| format!("`{base_url}` is not an address ({error})"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{base_url}` does not begin with http:// or https://"));
        }
        let mut secrets = Vec::new();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let header = HeaderName::try_from(&name)
                .map_err(|_| format!("`{name}` is not the name of a header"))?;
            let mut text = HeaderValue::from_str(value.expose()).map_err(|_| {
                format!("the value of the header {name} has a character that is not allowed")
            })?;
            text.set_sensitive(true);
            map.append(header, text);
            secrets.push(value);
        }
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIME)
            .pool_idle_timeout(Duration::from_secs(90))
            .tcp_nodelay(true)
            .user_agent(concat!("loggia/", env!("CARGO_PKG_VERSION")));
        if let Some(proxy) = proxy {
            let without = no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
            let proxied = reqwest::Proxy::all(proxy.expose())
                .map_err(|_| "the address of the proxy is not valid".to_owned())?;
            builder = builder.proxy(proxied.no_proxy(without));
            secrets.push(proxy);
        }
        if let Some(pem) = authorities {
            let found = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| format!("the CA file cannot be read: {error}"))?;
            if found.is_empty() {
                return Err("the CA file has no certificate; it must be PEM".to_owned());
            }
            builder = builder.tls_certs_only(found);
        } else if url.scheme() == "http" {
            // Reading the system's certificates takes time, and nothing needs them.
            builder = builder.tls_certs_only(None);
        }
        let http = builder.build().map_err(|error| format!("no client can be made: {error}"))?;
        Ok(Self {
            provider: provider.into(),
            base_url: base_url.into(),
            http,
            headers: map,
            secrets: secrets.into(),
            idle,
        })
    }

    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The models that the provider lists.
    pub async fn models(&self, protocol: &dyn Protocol) -> Result<Vec<ModelFacts>, ModelError> {
        let Some(path) = protocol.list() else { return Ok(Vec::new()) };
        let mut request = self.http.get(self.url(path));
        for (name, value) in protocol.list_headers() {
            request = request.header(name, value);
        }
        let request = request.headers(self.headers.clone());
        let response = request.timeout(LIST_TIME).send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.failed(protocol, response).await);
        }
        let body = read_start(response, LIST_LIMIT).await.map_err(|error| self.broken(&error))?;
        protocol.listed(&body).map_err(|why| {
            let why = format!("{} sent a list of models that cannot be read: {why}", self.provider);
            ModelError::new(ModelErrorKind::Malformed, self.clean(&why))
        })
    }

    /// Posts JSON and returns the body of the answer.
    pub async fn ask(
        &self,
        protocol: &dyn Protocol,
        path: &str,
        body: String,
    ) -> Result<String, ModelError> {
        let request = self.http.post(self.url(path)).headers(self.headers.clone()).body(body);
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/json");
        let response = request.timeout(LIST_TIME).send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        match response.status().is_success() {
            true => read_start(response, LIST_LIMIT).await.map_err(|error| self.broken(&error)),
            false => Err(self.failed(protocol, response).await),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    async fn open(
        &self,
        protocol: &dyn Protocol,
        request: HttpRequest,
    ) -> Result<reqwest::Response, ModelError> {
        let mut sent = self
            .http
            .post(self.url(&request.path))
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .header(reqwest::header::ACCEPT, "text/event-stream, application/json");
        for (name, value) in request.headers {
            sent = sent.header(name, value);
        }
        // The user's own headers come last, and replace ours.
        let sent = sent.headers(self.headers.clone()).body(request.body).send();
        let response = tokio::time::timeout(self.idle, sent).await;
        let response = response.map_err(|_| self.stalled())?;
        let response = response.map_err(|error| self.unreachable(&error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.failed(protocol, response).await),
        }
    }

    async fn failed(&self, protocol: &dyn Protocol, response: reqwest::Response) -> ModelError {
        let status = response.status().as_u16();
        let headers = response.headers();
        let (retry_after, should_retry) = (retry_after(headers), should_retry(headers));
        let body = read_start(response, FAILURE_LIMIT).await.unwrap_or_default();
        let failure = HttpFailure { status, retry_after, should_retry, body: self.clean(&body) };
        let mut error = protocol.error(&failure);
        error.message = self.clean(&error.message);
        error.retry_after = error.retry_after.or(failure.retry_after);
        error.should_retry = error.should_retry.or(failure.should_retry);
        error
    }

    fn unreachable(&self, error: &reqwest::Error) -> ModelError {
        let why =
            format!("{} cannot be reached at {}: {}", self.provider, self.base_url, cause(error));
        ModelError::new(ModelErrorKind::Transport, self.clean(&why))
    }

    fn broken(&self, error: &reqwest::Error) -> ModelError {
        let why = format!("the connection to {} broke: {}", self.provider, cause(error));
        ModelError::new(ModelErrorKind::Transport, self.clean(&why))
    }

    fn stalled(&self) -> ModelError {
        let (provider, idle) = (&self.provider, self.idle.as_secs());
        let why = format!("{provider} sent nothing of the reply for {idle} s");
        ModelError::new(ModelErrorKind::Transport, why)
    }

    fn cut_off(&self) -> ModelError {
        let why = format!("the reply of {} was cut off", self.provider);
        ModelError::new(ModelErrorKind::Transport, why)
    }

    /// A vendor's text without secrets: vendors repeat parts of the key.
    fn clean(&self, text: &str) -> String {
        secret::clean(text, &self.secrets)
    }
}

/// A model of a vendor.
#[derive(Clone)]
pub struct VendorModel {
    name: ModelName,
    facts: Arc<ModelFacts>,
    protocol: Arc<dyn Protocol>,
    client: Client,
}

impl VendorModel {
    pub fn new(client: Client, protocol: Arc<dyn Protocol>, facts: ModelFacts) -> Self {
        let name = ModelName(format!("{}/{}", client.provider(), facts.id));
        Self { name, facts: Arc::new(facts), protocol, client }
    }

    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }
}

impl Model for VendorModel {
    fn name(&self) -> ModelName {
        self.name.clone()
    }

    fn window(&self) -> Option<u64> {
        self.facts.window
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        let context = ModelContext { name: &self.name, facts: &self.facts };
        let sent = self.protocol.request(&context, &request);
        let reading = Reading {
            client: self.client.clone(),
            protocol: self.protocol.clone(),
            state: State::Unsent(sent),
            deltas: VecDeque::new(),
        };
        stream::unfold(reading, Reading::next).boxed()
    }
}

struct Reading {
    client: Client,
    protocol: Arc<dyn Protocol>,
    state: State,
    /// Deltas that were read and not passed on.
    deltas: VecDeque<Delta>,
}

enum State {
    Unsent(HttpRequest),
    Open(Box<Open>),
    /// Deltas that were read before the error are passed on first.
    Failed(ModelError),
    Over,
}

struct Open {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    splitter: Splitter,
    decoder: Box<dyn Decoder>,
    /// When the vendor last said something of the reply.
    progress: Instant,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<Delta, ModelError>, Self)> {
        loop {
            if let Some(delta) = self.deltas.pop_front() {
                if matches!(delta, Delta::Stop(_)) {
                    self.deltas.clear();
                    self.state = State::Over;
                }
                return Some((Ok(delta), self));
            }
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Unsent(request) => {
                    match self.client.open(self.protocol.as_ref(), request).await {
                        Ok(response) => State::Open(Box::new(Open {
                            bytes: response.bytes_stream().boxed(),
                            splitter: Splitter::new(self.protocol.framing()),
                            decoder: self.protocol.decoder(),
                            progress: Instant::now(),
                        })),
                        Err(error) => State::Failed(error),
                    }
                }
                State::Open(open) => self.read(open).await,
                State::Failed(mut error) => {
                    error.message = self.client.clean(&error.message);
                    return Some((Err(error), self));
                }
                State::Over => return None,
            };
        }
    }

    /// Reads the next bytes.
    async fn read(&mut self, mut open: Box<Open>) -> State {
        let deadline = open.progress + self.client.idle;
        let Ok(read) = tokio::time::timeout_at(deadline, open.bytes.next()).await else {
            return State::Failed(self.client.stalled());
        };
        let mut pieces = Vec::new();
        let ended = read.is_none();
        let split = match read {
            Some(Ok(bytes)) => open.splitter.push(&bytes, &mut pieces),
            Some(Err(error)) => return State::Failed(self.client.broken(&error)),
            None => open.splitter.finish(&mut pieces),
        };
        let mut deltas = Vec::new();
        let decoded: Result<(), ModelError> = pieces.iter().try_for_each(|piece: &Piece| {
            if open.decoder.read(piece, &mut deltas)? {
                open.progress = Instant::now();
            }
            Ok(())
        });
        self.deltas.extend(deltas);
        match (split, decoded) {
            // The end of the response cuts a last line without its newline, which then cannot be read.
            (_, Err(error)) if !ended || error.kind != ModelErrorKind::Malformed => {
                State::Failed(error)
            }
            (Err(error), _) if !ended => {
                let why =
                    format!("{} sent a stream that cannot be read: {error}", self.client.provider);
                State::Failed(ModelError::new(ModelErrorKind::Malformed, why))
            }
            _ if ended => State::Failed(self.client.cut_off()),
            _ => State::Open(open),
        }
    }
}

/// The beginning of a body, as text.
async fn read_start(response: reqwest::Response, limit: usize) -> reqwest::Result<String> {
    let mut bytes = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(piece) = bytes.next().await {
        let piece = piece?;
        let room = limit.saturating_sub(body.len());
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if body.len() >= limit {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Milliseconds, seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let millis = header(headers, "retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    let seconds = header(headers, "retry-after").and_then(|text| text.parse::<f64>().ok());
    let wait = millis.map(|millis| millis / 1000.0).or(seconds);
    wait.and_then(|wait| Duration::try_from_secs_f64(wait).ok())
}

fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match header(headers, "x-should-retry")? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The innermost reason: `Connection refused (os error 111)`.
fn cause(error: &reqwest::Error) -> String {
    let mut last: &dyn Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
