//! The server under test: a few routes behind the real guard, controlled by its standard input.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use loggia_server::auth::{AuthOptions, Authenticator, Principal, TokenFile};
use loggia_server::guard::{Guard, GuardOptions, HostPort, Rejection, read_body};
use loggia_server::serve::{
    Admission, Bound, Guarded, Limits, Listen, Shutdown, Stopping, Tls, TlsFiles, bind, serve,
};
use serde_json::{Value, json};

use crate::stage::Setup;

struct TestServer {
    port: u16,
    body_time: Duration,
}

/// Reads a [`Setup`], serves, and stops on the line `stop` or `now`, or at the end of its input.
pub fn main() {
    let mut line = String::new();
    // There is no input when it is run as a test.
    if std::io::stdin().read_line(&mut line).unwrap() == 0 {
        return;
    }
    let setup: Setup = serde_json::from_str(&line).unwrap();
    nix::sys::prctl::set_child_subreaper(setup.subreaper).unwrap();
    if let Some(files) = setup.files {
        let resource = nix::sys::resource::Resource::RLIMIT_NOFILE;
        nix::sys::resource::setrlimit(resource, files, files).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let tls = setup.tls.as_ref().map(|(certificate, key)| {
        let files = TlsFiles { certificate: certificate.into(), key: key.into() };
        Tls::load(files).unwrap()
    });
    let listen = Listen {
        address: setup.listen.parse().unwrap(),
        port: setup.port,
        authenticated: setup.require_token,
        tls: tls.clone(),
    };
    let bound = match bind(listen) {
        Ok(bound) => bound,
        Err(error) => return say(&format!("refused {error}")),
    };
    let port = bound.port();
    let wasted: Vec<_> =
        (0..setup.wasted).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let shutdown = Shutdown::default();
    let guarded = protected_router(&bound, &setup);
    let serving = runtime.spawn(serve(bound, guarded, limits(&setup), shutdown.clone()));
    say(&format!("ready {port}"));
    if let Some(tls) = tls {
        runtime.spawn(tls.watch(|changed| match changed {
            Ok(news) => say(&format!("exchanged {news}")),
            Err(error) => say(&format!("kept {error}")),
        }));
    }
    // The thread may wait for a line for ever; the process ends without it.
    std::thread::spawn(move || stop_on_command(&shutdown));
    let stopped = runtime.block_on(serving).unwrap();
    say(&format!("stopped {}", stopped.cut));
    drop(wasted);
}

fn stop_on_command(shutdown: &Shutdown) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "stop" => shutdown.graceful.cancel(),
            "now" => shutdown.now.cancel(),
            other => panic!("{other}"),
        }
    }
    shutdown.graceful.cancel();
    shutdown.now.cancel();
}

fn say(line: &str) {
    println!("test server: {line}");
    std::io::stdout().flush().unwrap();
}

fn limits(setup: &Setup) -> Limits {
    Limits {
        connections: setup.connections,
        handshake_time: Duration::from_millis(setup.handshake_millis),
        header_time: Duration::from_millis(setup.header_millis),
        idle_time: Duration::from_millis(setup.idle_millis),
        stall_time: Duration::from_millis(setup.stall_millis),
        stop_time: Duration::from_millis(setup.stop_millis),
        ..Limits::default()
    }
}

fn protected_router(bound: &Bound, setup: &Setup) -> Guarded {
    let parse = |text: &String| HostPort::parse(text).unwrap();
    let options = GuardOptions {
        allowed_hosts: setup.allowed_hosts.iter().map(parse).collect(),
        allowed_origins: setup.allowed_origins.clone(),
        encrypted: setup.tls.is_some(),
        ..GuardOptions::default()
    };
    let guard = Guard::new(bound.addresses(), options);
    let mut authenticator = Authenticator::new(AuthOptions {
        public: vec!["/healthz".to_owned(), "/.well-known/agent-card.json".to_owned()],
        require_token: setup.require_token,
        allow_hidden_peers: setup.allow_hidden_peers,
        ..AuthOptions::default()
    });
    if let Some(tokens) = &setup.tokens {
        authenticator = authenticator.with(TokenFile::read(tokens.as_ref()).unwrap());
    }
    let server =
        TestServer { port: bound.port(), body_time: Duration::from_millis(setup.body_millis) };
    Admission::new(guard, authenticator).rendering(render).protect(router(server))
}

/// As the JSON-RPC layer does it.
fn render(rejection: &Rejection, request: &Parts) -> Option<Response> {
    let reason = json!({"reason": rejection.reason});
    let error = json!({"code": -32600, "message": rejection.message, "data": reason});
    let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
    (request.uri.path() == "/rpc").then(|| rejection.respond(body))
}

fn router(server: TestServer) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/.well-known/agent-card.json", get(async || Json(json!({"name": "test server"}))))
        .route("/whoami", get(whoami))
        .route("/echo", post(length))
        .route("/rpc", post(length))
        .route("/events", get(events))
        .route("/stubborn", get(stubborn))
        .route("/flood", get(flood))
        .route("/ws", get(upgrade))
        .route("/run", post(run))
        .route("/self", get(ask_ourselves))
        .with_state(Arc::new(server))
}

async fn whoami(Extension(principal): Extension<Principal>) -> Json<Value> {
    let scopes = principal.scopes;
    let scopes = [scopes.read, scopes.prompt, scopes.approve, scopes.admin];
    Json(json!({"name": principal.name, "scopes": scopes}))
}

async fn length(
    State(server): State<Arc<TestServer>>,
    request: Request,
) -> Result<String, Rejection> {
    let body = read_body(request.into_body(), 10 << 20, server.body_time).await?;
    Ok(body.len().to_string())
}

/// One event at once, and a last one when the server stops.
async fn events(Extension(stopping): Extension<Stopping>) -> Response {
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from("data: first\n\n"))]);
    let last = futures::stream::once(async move {
        stopping.requested().await;
        Ok(Bytes::from(": stopping\n\n"))
    });
    let body = Body::from_stream(futures::StreamExt::chain(first, last));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// A stream that ignores the stop.
async fn stubborn() -> Body {
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from("here\n"))]);
    Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
}

/// More than any buffer holds.
async fn flood() -> Body {
    let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
    Body::from_stream(futures::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone())))
}

async fn upgrade(socket: WebSocketUpgrade, Extension(stopping): Extension<Stopping>) -> Response {
    socket.on_upgrade(move |socket| echo(socket, stopping))
}

async fn echo(mut socket: WebSocket, stopping: Stopping) {
    loop {
        let received = tokio::select! {
            received = socket.recv() => received,
            () = stopping.requested() => {
                let frame = CloseFrame { code: 1001, reason: "stopping".into() };
                let _ = socket.send(Message::Close(Some(frame))).await;
                return;
            }
        };
        match received {
            Some(Ok(message @ Message::Text(_))) => socket.send(message).await.unwrap(),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}

/// A call, as Loggia would start one.
async fn run(State(server): State<Arc<TestServer>>, Json(asked): Json<Value>) -> Vec<u8> {
    let script = asked["script"].as_str().unwrap().to_owned();
    let running = tokio::task::spawn_blocking(move || {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script]).stderr(std::process::Stdio::inherit());
        bash.env("PORT", server.port.to_string()).env("SERVER", std::process::id().to_string());
        // Waits until the last process that holds its standard output has exited, orphans included.
        bash.output().unwrap().stdout
    });
    running.await.unwrap()
}

/// The answer to a request of the server to itself.
async fn ask_ourselves(State(server): State<Arc<TestServer>>) -> String {
    let asking = tokio::task::spawn_blocking(move || {
        let mut stream = crate::stage::connect(server.port);
        let host = format!("Host: 127.0.0.1:{}", server.port);
        write!(stream, "GET /whoami HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n").unwrap();
        let reply = crate::stage::Reply::read(&mut stream);
        format!("{} {}", reply.status, reply.reason())
    });
    asking.await.unwrap()
}
