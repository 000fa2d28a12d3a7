//! `GET /ws`: many requests and streams on one socket, as `docs/protocols/websocket.md` specifies.
//!
//! Each request is a JSON-RPC object in a text message; answers carry its id. A client also gets every frame of the sessions
//! that it follows. Frames are read by cursor: a client that does not read its socket delays only its own streams.

mod key;
pub(super) mod message_timeout;
pub(super) mod socket;
mod upgrade;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use loggia_core::{Seq, SessionId, Surface};
use loggia_session::SessionHandle;
use loggia_wire::jsonrpc::{self, Rejected};
use loggia_wire::{
    Body, Call, CallContext, Condition, Extension, FrameId, Id, View, Violation, WireError,
    decode_call, is_served_version, streams,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_util::task::AbortOnDropHandle;

use self::key::Key;
use self::message_timeout::MessagePermits;
use self::socket::{Close, MessageReader, WebSocket, WriteProgress};
use self::upgrade::Upgrade;
use crate::auth::Scope;
use crate::dispatch::{Reply, TaskFrames};
use crate::guard::{BytePermit, Load, SMALL};
use crate::not_found::padded;
use crate::peer::Peer;
use crate::projection::{EncodedFrame, Frames};
use crate::required_scopes::out_of_scope;
use crate::serve::Stopping;
use crate::state::{Caller, ServedSessions, Server, stopped};

/// Batches waiting for the socket. When full, the client's streams wait.
const OUTBOX: usize = 8;
/// Streams and followed sessions of one socket.
const STREAMS: usize = 256;

pub async fn upgrade(State(server): State<Arc<Server>>, request: Request) -> Response {
    let Some(mut caller) = super::caller(&request) else {
        return axum::http::StatusCode::UNAUTHORIZED.into_response();
    };
    let mut query = Query::of(request.uri().query().unwrap_or_default());
    query.version = super::rpc::asked_version(request.headers(), request.uri());
    if !is_served_version(query.version.as_deref()) {
        let view = View::of_header(query.version.as_deref());
        return bad_request(&WireError::VersionNotSupported, view);
    }
    if query.invalid_after {
        return bad_request(&invalid_cursor("after"), View::WEBSOCKET);
    }
    if let (Some(name), Some(peer)) = (&query.name, request.extensions().get::<Peer>()) {
        caller.origin.client = super::client(name, peer).as_str().into();
    }
    let Some(stopping) = request.extensions().get::<Stopping>().cloned() else {
        return axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let permit = match server.streams.admit(&caller.principal) {
        Ok(permit) => permit,
        Err(rejection) => return rejection.into_response(),
    };
    let (mut parts, _) = request.into_parts();
    let upgrade = match Upgrade::of(&mut parts).await {
        Ok(upgrade) => upgrade,
        Err(refused) => return refused,
    };
    let attaches = upgrade.attaches;
    // The cursor is taken before the upgrade, so that the client misses no event while the socket is set up.
    if !attaches
        && caller.principal.scopes.read
        && query.after.is_none()
        && let Some(id) = query.wanted(&server)
        && let Ok(handle) = padded(server.session(&id, &caller)).await
    {
        query.start = follow_start(&server, &handle, &caller).await;
    }
    let time = server.limits.silence;
    let permits = MessagePermits::new(server.bodies.clone(), caller.principal.name.clone());
    upgrade.answer(time, permits.clone(), async move |socket| {
        let _permit = permit;
        if attaches {
            // Boxed, or every socket would be as large.
            return Box::pin(attach_to(server, caller, query, socket, permits, stopping)).await;
        }
        serve(server, caller, query, socket, permits, stopping).await;
    })
}

async fn attach_to(
    server: Arc<Server>,
    mut caller: Caller,
    query: Query,
    socket: WebSocket,
    permits: Arc<MessagePermits>,
    stopping: Stopping,
) {
    caller.origin.surface = Surface::Tui;
    let session = match query.wanted(&server) {
        _ if !caller.principal.scopes.read => Err(out_of_scope(Scope::Read)),
        Some(id) => padded(server.session(&id, &caller)).await,
        None => Err(no_session()),
    };
    let after = query.after.map_or(Seq::ZERO, |after| after.seq);
    let socket = (socket, permits);
    super::attach::serve(server, caller, session, after, socket, stopping).await;
}

/// `?after=41` or `?after=41.0`, `?session=…`, `?name=…`.
#[derive(Default)]
struct Query {
    after: Option<FrameId>,
    /// `after` cannot be read.
    invalid_after: bool,
    session: Option<SessionId>,
    name: Option<String>,
    /// From the header or `?A2A-Version=`. None: any version.
    version: Option<String>,
    /// Where a client without `after` starts, taken before its upgrade.
    start: Option<FollowStart>,
}

/// The cursor of a client that follows a session from now on, and its first texts: the open question.
#[derive(Clone)]
struct FollowStart {
    texts: Texts,
    after: FrameId,
}

/// None if the session has stopped.
async fn follow_start(
    server: &Server,
    handle: &SessionHandle,
    caller: &Caller,
) -> Option<FollowStart> {
    let reader = server.projections.reader(handle, caller.reads(View::WEBSOCKET));
    if !reader.reach(handle.head()).await {
        return None;
    }
    let (frames, after) = reader.joining();
    let texts = frames.into_iter().map(|frame| text(frame.notification)).collect();
    Some(FollowStart { texts, after })
}

impl Query {
    fn of(text: &str) -> Self {
        let mut query = Self::default();
        let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        for (name, value) in pairs {
            match name {
                "after" => match cursor(&decoded(value)) {
                    Some(after) => query.after = Some(after),
                    None => query.invalid_after = true,
                },
                "session" => query.session = Some(SessionId::from(decoded(value).as_str())),
                "name" => query.name = Some(decoded(value).chars().take(64).collect()),
                _ => {}
            }
        }
        query
    }

    /// The named session, or the shared one.
    fn wanted(&self, server: &Server) -> Option<SessionId> {
        match (&self.session, &server.sessions) {
            (Some(session), _) => Some(session.clone()),
            (None, ServedSessions::Shared(shared)) => Some(shared.clone()),
            (None, ServedSessions::Many) => None,
        }
    }
}

const IN_USE: &str = "this id is in use: its request is not over yet";

/// Refuses the upgrade with an error: there is no request yet that it could answer.
fn bad_request(error: &WireError, view: View) -> Response {
    let body = jsonrpc::error_response(&Id::NULL, &view.refuse(error));
    let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
    (axum::http::StatusCode::BAD_REQUEST, json, body).into_response()
}

fn no_session() -> WireError {
    let why = "is missing: this server has many, name one (`loggia attach URL --session ID`)";
    WireError::Invalid(Violation { field: "session".to_owned(), why: why.to_owned() })
}

fn no_stream(why: &str) -> WireError {
    WireError::Invalid(Violation { field: "params.id".to_owned(), why: why.to_owned() })
}

fn invalid_cursor(field: &str) -> WireError {
    let why =
        "is not a position in a session: use a sequence number or the id of an event".to_owned();
    WireError::Invalid(Violation { field: field.to_owned(), why })
}

fn decoded(value: &str) -> String {
    super::token::decode(value).unwrap_or_else(|| value.to_owned())
}

/// A sequence number means "after the whole event", a frame id "after this frame".
fn cursor(text: &str) -> Option<FrameId> {
    let whole = |seq| FrameId { seq: Seq(seq), k: u32::MAX };
    // Only digits and a point: `parse` would accept a sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    text.parse::<FrameId>().ok().or_else(|| text.parse().ok().map(whole))
}

/// All texts of one batch of frames.
type Texts = Vec<Text>;

/// A text in parts, so that shared frames are not copied.
type Text = Vec<Bytes>;

fn text(text: impl Into<Utf8Bytes>) -> Text {
    vec![text.into().into()]
}

/// Texts for the socket.
struct Batch {
    texts: Texts,
    permits: SendPermits,
    /// Signalled when large texts are sent.
    sent: Option<oneshot::Sender<()>>,
}

/// The permits of texts until they are sent: their own, or their request's.
type SendPermits = (Option<Arc<BytePermit>>, Option<Arc<Load>>);

/// The socket is closed.
struct Closed;

#[derive(Clone)]
struct Outbox(mpsc::Sender<Batch>);

impl Outbox {
    /// Queues texts. Waits until large ones are sent, so that a reader has only one batch of them in memory.
    async fn send(&self, texts: Texts, permits: SendPermits) -> Result<(), Closed> {
        let size: usize = texts.iter().flatten().map(Bytes::len).sum();
        let (sent, waiting) =
            if size > SMALL { Some(oneshot::channel()).unzip() } else { (None, None) };
        self.0.send(Batch { texts, permits, sent }).await.map_err(|_| Closed)?;
        match waiting {
            Some(waiting) => waiting.await.map_err(|_| Closed),
            None => Ok(()),
        }
    }

    /// Queues one small text.
    async fn send_small(&self, small: String) {
        // Fails if the socket is closed.
        let _ = self.send(vec![text(small)], (None, None)).await;
    }
}

/// A connection and its tasks, which end with it.
struct Connection {
    server: Arc<Server>,
    caller: Caller,
    query: Arc<Query>,
    outbox: Outbox,
    /// Requests and followed sessions.
    running: HashMap<Key, Running>,
    left: u64,
}

/// A task of the connection.
struct Running {
    task: AbortOnDropHandle<()>,
    /// Dropped before the last frame is queued.
    open: Weak<()>,
    /// A stream that the client may cancel.
    stream: Option<Stream>,
}

struct Stream {
    id: Id,
    /// Its end was queued.
    ended: Arc<AtomicBool>,
}

impl Running {
    fn is_open(&self) -> bool {
        self.open.strong_count() > 0
    }

    /// After this returns, no more frames of it are queued.
    async fn stop(self) {
        self.task.abort();
        // Cancelled, or already over.
        let _ = self.task.await;
    }
}

async fn serve(
    server: Arc<Server>,
    caller: Caller,
    query: Query,
    socket: WebSocket,
    permits: Arc<MessagePermits>,
    stopping: Stopping,
) {
    let _present = server.presence.join(&caller.origin);
    let (mut sink, source) = socket.split();
    let (outbox, outgoing) = mpsc::channel(OUTBOX);
    let outbox = Outbox(outbox);
    let silence = server.limits.silence;
    let query = Arc::new(query);
    let lifetime = caller.principal.lifetime.clone();
    let mut connection =
        Connection { server, caller, query, outbox, running: HashMap::new(), left: 0 };
    let progress = WriteProgress::new();
    let reader = MessageReader::new(source, silence, &progress, permits);
    // Concurrent: an answer that waits for the socket must not stop the writing.
    let close = tokio::select! {
        close = write(&mut sink, outgoing, stopping, silence, &progress) => close,
        close = connection.read(reader) => close,
        () = lifetime.ended() => Close::CREDENTIAL_EXPIRED,
    };
    close.send(&mut sink).await;
}

/// Writes the outbox to the socket, and sends pings.
async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    mut outgoing: mpsc::Receiver<Batch>,
    stopping: Stopping,
    silence: Duration,
    progress: &WriteProgress,
) -> Close {
    let mut ping = socket::pings(silence);
    loop {
        let batch = tokio::select! {
            Some(batch) = outgoing.recv() => Some(batch),
            _ = ping.tick() => None,
            () = stopping.requested() => return Close::STOPPING,
        };
        // Fails if the client is gone or has not read for too long.
        if progress.during(send(sink, batch, &mut outgoing)).await.is_err() {
            return Close::Silent;
        }
    }
}

/// Sends a batch, or a ping, and the batches that are queued already, in as few writes as possible.
async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    mut batch: Option<Batch>,
    outgoing: &mut mpsc::Receiver<Batch>,
) -> Result<(), tungstenite::Error> {
    if batch.is_none() {
        sink.feed(Message::Ping(bytes::Bytes::new())).await?;
    }
    for _ in 0..OUTBOX {
        let Some(Batch { texts, permits, sent }) = batch.or_else(|| outgoing.try_recv().ok())
        else {
            break;
        };
        for text in texts {
            socket::feed(sink, &text).await?;
        }
        if let Some(sent) = sent {
            sink.flush().await?;
            drop(permits);
            // The sender may be gone.
            let _ = sent.send(());
        }
        batch = None;
    }
    sink.flush().await
}

const NOT_TEXT: WireError = WireError::InvalidRequest("a message must be text");

impl Connection {
    async fn read(&mut self, mut reader: MessageReader<'_>) -> Close {
        // Boxed: an idle socket should be small.
        Box::pin(self.join()).await;
        loop {
            let (message, permit) = match reader.next().await {
                Ok(read) => read,
                Err(close) => return close,
            };
            match message {
                Message::Text(_) if !self.caller.principal.lifetime.is_valid().await => {
                    return Close::CREDENTIAL_EXPIRED;
                }
                Message::Text(text) => Box::pin(self.take(&text, permit)).await,
                Message::Binary(_) => self.refuse(Id::NULL, &NOT_TEXT).await,
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Follows the shared session, or the one that the client names.
    async fn join(&mut self) {
        let query = self.query.clone();
        let Some(wanted) = query.wanted(&self.server) else { return };
        if let Err(error) = self.follow(&wanted, query.after, query.start.clone()).await {
            self.refuse(Id::NULL, &error).await;
        }
    }

    async fn take(&mut self, text: &str, permit: Option<BytePermit>) {
        self.remove_finished().await;
        match jsonrpc::parse(text.as_bytes(), self.query.version.as_deref()) {
            Ok(Body::One(call)) => self.one(call, text.len(), permit).await,
            Ok(Body::Batch(_)) => {
                self.refuse(
                    Id::NULL,
                    &WireError::InvalidRequest("send one object per message, no batches"),
                )
                .await;
            }
            Err(Rejected { id, error, .. }) => self.refuse(id, &error).await,
        }
    }

    async fn one(&mut self, call: Call, bytes: usize, permit: Option<BytePermit>) {
        let outcome = match call.method.as_str() {
            "stream/cancel" => self.cancel(&call.params).await,
            "session/follow" => self.follow_asked(&call.params).await,
            "session/unfollow" => {
                let id = call.params["contextId"].as_str().unwrap_or_default();
                self.stop(&Key::session(id)).await;
                Ok(json!({}))
            }
            _ => return self.ask(call, bytes, permit).await,
        };
        match outcome {
            Ok(value) => self.send(jsonrpc::response(&call.id, &value.to_string())).await,
            Err(error) => self.refuse(call.id, &error).await,
        }
    }

    /// Ends a stream. Its end is sent before the answer to this request, and nothing after it.
    async fn cancel(&mut self, params: &Value) -> Result<Value, WireError> {
        let id = params.get("id").ok_or_else(|| no_stream("is missing"))?;
        let key = Key::named(id);
        let stream = match self.running.get_mut(&key) {
            Some(running) if running.is_open() => running.stream.take(),
            _ => return Err(no_stream("names no open stream")),
        };
        let stream = stream.ok_or_else(|| no_stream("names a request that is not a stream"))?;
        self.stop(&key).await;
        if !stream.ended.load(Ordering::Relaxed) {
            end(&stream.id, &self.outbox).await;
        }
        Ok(json!({}))
    }

    async fn stop(&mut self, key: &Key) {
        if let Some(running) = self.running.remove(key) {
            running.stop().await;
        }
    }

    /// Removes tasks that are over. At the limit, it also waits for those that only have their last frame to queue: the
    /// client may know already that they are over.
    async fn remove_finished(&mut self) {
        self.running.retain(|_, running| !running.task.is_finished());
        if self.running.len() < STREAMS {
            return;
        }
        let ending = self.running.extract_if(|_, running| !running.is_open());
        let ending: Vec<Running> = ending.map(|(_, running)| running).collect();
        for running in ending {
            let _ = running.task.await;
        }
    }

    async fn follow_asked(&mut self, params: &Value) -> Result<Value, WireError> {
        let id = params["contextId"].as_str().ok_or(Condition::UnknownContext)?;
        let after = match &params["after"] {
            Value::Null => None,
            Value::String(text) => {
                Some(cursor(text).ok_or_else(|| invalid_cursor("params.after"))?)
            }
            other => {
                Some(cursor(&other.to_string()).ok_or_else(|| invalid_cursor("params.after"))?)
            }
        };
        self.follow(&SessionId::from(id), after, None).await?;
        Ok(json!({ "contextId": id }))
    }

    /// Sends every frame of a session after a cursor. Without one: the open question, then every frame from now on.
    async fn follow(
        &mut self,
        id: &SessionId,
        after: Option<FrameId>,
        start: Option<FollowStart>,
    ) -> Result<(), WireError> {
        if !self.caller.principal.scopes.read {
            return Err(out_of_scope(Scope::Read));
        }
        let handle = padded(self.server.session(id, &self.caller)).await?;
        let now = FrameId { seq: handle.head(), k: u32::MAX };
        if after.is_some_and(|after| after.seq > now.seq) {
            let why = format!("is after the end of this session, which is at {}", now.seq);
            return Err(WireError::Invalid(Violation { field: "after".to_owned(), why }));
        }
        let view = self.caller.reads(View::WEBSOCKET);
        let reader = self.server.projections.reader(&handle, view);
        let start = match (after, start) {
            (Some(after), _) => FollowStart { texts: Vec::new(), after },
            (None, Some(start)) => start,
            (None, None) => follow_start(&self.server, &handle, &self.caller)
                .await
                .ok_or(Condition::Restarting)?,
        };
        let mut frames = reader.frames(start.after);
        frames.count(&self.server.replies, &self.caller.principal.name);
        let (outbox, session) = (self.outbox.clone(), id.clone());
        let (key, open) = (Key::session(id.as_str()), Arc::new(()));
        let still = Arc::downgrade(&open);
        // Following again replaces the earlier cursor.
        self.stop(&key).await;
        self.run(key, follow(start.texts, frames, session, outbox, open))?.open = still;
        Ok(())
    }

    fn run(
        &mut self,
        key: Key,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<&mut Running, WireError> {
        if self.running.len() >= STREAMS {
            return Err(Condition::TooManyStreams.into());
        }
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        let running = Running { task, open: Weak::new(), stream: None };
        Ok(self.running.entry(key).insert_entry(running).into_mut())
    }

    /// Answers any other method in its own task, so that a long one delays no other.
    async fn ask(&mut self, call: Call, bytes: usize, permit: Option<BytePermit>) {
        let (server, caller, outbox) =
            (self.server.clone(), self.caller.again(), self.outbox.clone());
        let (id, query) = (call.id.clone(), self.query.clone());
        let key = Key::request(&id);
        if self.running.get(&key).is_some_and(Running::is_open) {
            return self.refuse(id, &WireError::InvalidRequest(IN_USE)).await;
        }
        if permit.is_some() {
            caller.load.hold_body(permit);
        // Waits here, so that nothing more is read from this socket meanwhile.
        } else if let Err(error) = self.server.count_body(bytes, &caller).await {
            return self.refuse(id, &error).await;
        }
        if let Some(leaving) = self.running.remove(&key) {
            self.left += 1;
            self.running.insert(Key::Leaving(self.left), leaving);
        }
        let (open, ended) = (Arc::new(()), Arc::new(AtomicBool::new(false)));
        let still = Arc::downgrade(&open);
        let streams = streams(&call.method, query.version.as_deref());
        let stream = streams.then(|| Stream { id: id.clone(), ended: ended.clone() });
        let streaming = stream.is_some();
        let started = self.run(key, async move {
            let version = query.version.as_deref();
            let view = View::of_call(&call.method, version);
            let response = match answer(&server, &call, version, &caller).await {
                Ok(Reply::Value(value) | Reply::Frame(value)) => {
                    Some(jsonrpc::response(&call.id, &value.to_string()))
                }
                Ok(Reply::Frames(frames)) => {
                    send_stream(frames, &call.id, view, &outbox).await;
                    None
                }
                Err(error) => Some(jsonrpc::error_response(&call.id, &view.refuse(&error))),
            };
            let send = async |response: Option<String>| {
                if let Some(response) = response {
                    let permits = (None, Some(caller.load.clone()));
                    // Fails if the socket is closed.
                    let _ = outbox.send(vec![text(response)], permits).await;
                }
            };
            // The id is free before the last frame is queued: a client that has that frame may use the id again.
            if streaming {
                send(response).await;
                drop(open);
                end(&call.id, &outbox).await;
                ended.store(true, Ordering::Relaxed);
            } else {
                drop(open);
                send(response).await;
            }
        });
        match started {
            Ok(running) => (running.open, running.stream) = (still, stream),
            Err(error) => {
                self.refuse(id.clone(), &error).await;
                if streaming {
                    end(&id, &self.outbox).await;
                }
            }
        }
    }

    async fn refuse(&mut self, id: Id, error: &WireError) {
        self.send(jsonrpc::error_response(&id, &View::WEBSOCKET.refuse(error))).await;
    }

    async fn send(&mut self, text: String) {
        self.outbox.send_small(text).await;
    }
}

async fn answer(
    server: &Server,
    call: &Call,
    version: Option<&str>,
    caller: &Caller,
) -> Result<Reply, WireError> {
    let context = CallContext {
        version,
        extension: Extension::On,
        tenant: server.facts.tenant.as_deref(),
        owner: &caller.principal.name,
    };
    let asked = decode_call(call, context)?;
    let resume = call.params.get("lastEventId").and_then(Value::as_str).and_then(cursor);
    server.ask(asked, caller, resume).await
}

/// Sends the frames of one request.
async fn send_stream(mut frames: TaskFrames, id: &Id, view: View, outbox: &Outbox) {
    loop {
        match frames.next().await {
            Ok(Some(batch)) => {
                let texts = batch.iter().map(|frame| result(id, frame)).collect();
                if outbox.send(texts, (frames.permit(), None)).await.is_err() {
                    return;
                }
            }
            Ok(None) => break,
            Err(error) => {
                let text = jsonrpc::error_response(id, &view.refuse(&error));
                outbox.send_small(text).await;
                break;
            }
        }
    }
}

/// Sends the end of a stream.
async fn end(id: &Id, outbox: &Outbox) {
    let end = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"stream/end\",\"params\":{{\"id\":{}}}}}",
        id.as_json()
    );
    outbox.send_small(end).await;
}

fn result(id: &Id, frame: &EncodedFrame) -> Text {
    if frame.body.len() <= SMALL {
        return text(jsonrpc::response(id, &String::from_utf8_lossy(&frame.body)));
    }
    let mut before = jsonrpc::response(id, "").into_bytes();
    let after = before.pop().into_iter().collect::<Vec<u8>>();
    vec![before.into(), frame.body.clone(), after.into()]
}

/// Sends every frame of a session, then its end.
async fn follow(
    first: Texts,
    mut frames: Frames,
    session: SessionId,
    outbox: Outbox,
    open: Arc<()>,
) {
    if !first.is_empty() && outbox.send(first, (None, None)).await.is_err() {
        return;
    }
    while let Ok(Some(batch)) = frames.next().await {
        let texts = batch.iter().map(|frame| text(frame.notification.clone())).collect();
        if outbox.send(texts, (frames.permit(), None)).await.is_err() {
            return;
        }
    }
    let mut end = json!({
        "jsonrpc": "2.0",
        "method": "session/end",
        "params": { "contextId": session.as_str(), "after": written_cursor(frames.cursor()) },
    });
    if frames.is_over_limit() {
        end["params"]["error"] = json!(View::WEBSOCKET.refuse(&Condition::Busy.into()));
    } else if frames.handle().failure().is_some() {
        end["params"]["error"] = json!(View::WEBSOCKET.refuse(&stopped(frames.handle())));
    }
    drop(open);
    outbox.send_small(end.to_string()).await;
}

/// As [`cursor`] reads it.
fn written_cursor(id: FrameId) -> String {
    if id.k == u32::MAX { id.seq.to_string() } else { id.to_string() }
}
