//! The HTTP server: records requests, asks the script, and sends a reply at its pace and with its fault.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::script::{Answer, Asked, Fault, Script};
use crate::vendor::{self, HttpCall, Response, Route, Vendor};

const BODY_LIMIT: usize = 64 * 1024 * 1024;
const KEEP_ALIVE: Duration = Duration::from_millis(50);

/// A request and how it was answered.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub vendor: String,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// The status of the response.
    pub status: u16,
    /// Why a check refused it.
    pub refusal: Option<String>,
    pub at: Instant,
}

/// A running server. It stops when this is dropped.
pub struct FakeVendors {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    vendors: Vec<Box<dyn Vendor>>,
    script: Script,
    /// Requests in the order of their arrival. A lock, because handlers run at the same time.
    recorded: Mutex<Vec<Recorded>>,
    /// When the last byte of a reply was handed to the socket, by request.
    asked: Mutex<usize>,
}

impl FakeVendors {
    /// Listens on a free port of the loopback interface.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::start_on(0, script).await
    }

    pub async fn start_on(port: u16, script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            vendors: vendor::all(),
            script,
            recorded: Mutex::default(),
            asked: Mutex::default(),
        });
        let app = Router::new()
            .fallback(serve)
            .layer(DefaultBodyLimit::disable())
            .with_state(shared.clone());
        let serving = tokio::spawn(async move {
            // The server runs until it is dropped.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, shared, serving })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The base URL of a vendor: `http://127.0.0.1:4711/anthropic`.
    pub fn url(&self, vendor: &str) -> String {
        format!("http://{}/{vendor}", self.address)
    }

    /// All requests so far.
    pub fn recorded(&self) -> Vec<Recorded> {
        lock(&self.shared.recorded).clone()
    }

    /// The requests that a check refused: a client that keeps the vendor's rules has none.
    pub fn refusals(&self) -> Vec<String> {
        self.recorded().into_iter().filter_map(|recorded| recorded.refusal).collect()
    }
}

impl Drop for FakeVendors {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> axum::response::Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, BODY_LIMIT).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = parts.uri.path().trim_start_matches('/');
    let (name, path) = path.split_once('/').unwrap_or((path, ""));
    let headers = parts.headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let call = HttpCall {
        method: parts.method.as_str().to_owned(),
        path: format!("/{path}"),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body,
    };
    let mut recorded = Recorded {
        vendor: name.to_owned(),
        method: call.method.clone(),
        path: call.path.clone(),
        headers: call.headers.clone(),
        body: call.body.clone(),
        status: 200,
        refusal: None,
        at: Instant::now(),
    };
    let Some(vendor) = shared.vendors.iter().position(|vendor| vendor.name() == name) else {
        recorded.status = 404;
        lock(&shared.recorded).push(recorded);
        return respond(Response::new(404, Value::Null));
    };
    let routed = shared.vendors.get(vendor).map(|vendor| vendor.route(&call));
    let asked = match routed {
        Some(Route::Reply(asked)) => asked,
        Some(Route::Now(response)) => {
            recorded.status = response.status;
            if response.status >= 400 {
                recorded.refusal = Some(format!("{name} {}: {}", call.path, response.body));
            }
            lock(&shared.recorded).push(recorded);
            return respond(response);
        }
        None => return respond(Response::new(404, Value::Null)),
    };
    let earlier_requests = {
        let mut count = lock(&shared.asked);
        *count += 1;
        *count - 1
    };
    let asked = Asked { earlier_requests, ..asked };
    let answer = (shared.script)(&asked);
    let Some(vendor_of) = shared.vendors.get(vendor) else {
        return respond(Response::new(404, Value::Null));
    };
    if let Some(Fault::Refuse { error, retry_after_ms }) = &answer.fault {
        let response = vendor_of.error(error, *retry_after_ms);
        recorded.status = response.status;
        lock(&shared.recorded).push(recorded);
        return respond(response);
    }
    lock(&shared.recorded).push(recorded);
    if !asked.stream {
        return respond(Response::new(200, vendor_of.whole(&asked, &answer)));
    }
    let pieces = pieces(vendor_of.as_ref(), &asked, &answer);
    let body = Body::from_stream(paced(pieces, &answer, vendor_of.keep_alive()));
    let built = axum::response::Response::builder()
        .status(200)
        .header("content-type", vendor_of.media_type())
        .body(body);
    built.unwrap_or_default()
}

fn respond(response: Response) -> axum::response::Response {
    let mut builder = axum::response::Response::builder()
        .status(response.status)
        .header("content-type", "application/json");
    for (name, value) in response.headers {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(response.body.to_string())).unwrap_or_default()
}

/// The pieces of a body in the order in which they are sent, with the fault applied.
fn pieces(vendor: &dyn Vendor, asked: &Asked, answer: &Answer) -> Vec<Bytes> {
    let mut events = vendor.events(asked, answer);
    if let Some(Fault::ErrorAfter { events: kept, error }) = &answer.fault {
        events.truncate(*kept);
        events.push(vendor.error_event(error));
    }
    if answer.pace.keep_alives {
        events = events.into_iter().flat_map(|event| [vendor.keep_alive(), event]).collect();
    }
    let cut = match answer.fault {
        Some(Fault::CutAfter(bytes) | Fault::StallAfter(bytes)) => bytes,
        _ => usize::MAX,
    };
    if answer.pace.piece == 0 && cut == usize::MAX {
        return events.into_iter().map(Bytes::from).collect();
    }
    let mut whole = events.concat().into_bytes();
    whole.truncate(cut);
    let size = match answer.pace.piece {
        0 => whole.len().max(1),
        size => size,
    };
    whole.chunks(size).map(Bytes::copy_from_slice).collect()
}

fn paced(
    pieces: Vec<Bytes>,
    answer: &Answer,
    keep_alive: String,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + use<> {
    let pause = answer.pace.pause();
    let sent = stream::iter(pieces).then(move |piece| async move {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        Ok(piece)
    });
    let stalls = matches!(answer.fault, Some(Fault::StallAfter(_)));
    let rest = stream::unfold(keep_alive, move |keep_alive| async move {
        if !stalls {
            return None;
        }
        tokio::time::sleep(KEEP_ALIVE).await;
        Some((Ok(Bytes::from(keep_alive.clone())), keep_alive))
    });
    sent.chain(rest)
}
