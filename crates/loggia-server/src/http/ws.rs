//! `GET /ws`: one socket, many streams. The binding is written down in `docs/protocols/websocket.md`.
//!
//! Each request is a JSON-RPC object in a text frame; answers carry its id. Besides, a client sees
//! every frame of the sessions it follows. All of it is read by cursor: a client that does not read
//! its socket holds up its own tasks and nobody else's.

mod key;
pub(super) mod line;
mod upgrade;
pub(super) mod whole;

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
    Body, Call, Condition, Dialect, Extension, FrameId, Id, View, Violation, WireError,
    answered_in, check_call_version, check_tenant, check_version, decode, refuse, streams,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_util::task::AbortOnDropHandle;

use self::key::Key;
use self::line::{Close, Hearing, Taking, WebSocket};
use self::upgrade::Upgrade;
use self::whole::Arrivals;
use crate::dispatch::{Reply, TaskFrames, out_of_scope};
use crate::guard::{BytePermit, Load, SMALL};
use crate::peer::Peer;
use crate::projection::{Encoded, Frames};
use crate::serve::Stopping;
use crate::state::{Caller, Server, Shape, stopped};

/// Batches waiting for the socket. Full: the client's own streams wait.
const OUTBOX: usize = 8;
/// Streams and followed sessions of one socket.
const STREAMS: usize = 256;

/// How the log looks on the socket: the extension is always on here.
const VIEW: View = View { dialect: Dialect::A2a03, extension: Extension::On };

pub async fn upgrade(State(server): State<Arc<Server>>, request: Request) -> Response {
    let Some(mut caller) = super::caller(&request) else {
        return axum::http::StatusCode::UNAUTHORIZED.into_response();
    };
    let mut query = Query::of(request.uri().query().unwrap_or_default());
    query.version = super::rpc::asked_version(request.headers(), request.uri());
    if !DIALECTS.iter().any(|dialect| query.speaks(*dialect).is_ok()) {
        return bad_request(&WireError::VersionNotSupported, Dialect::A2a1);
    }
    if query.lost {
        return bad_request(&no_place("after"), Dialect::A2a03);
    }
    if let (Some(name), Some(peer)) = (&query.name, request.extensions().get::<Peer>()) {
        caller.origin.client = super::client(name, peer).as_str().into();
    }
    let Some(stopping) = request.extensions().get::<Stopping>().cloned() else {
        return axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let place = match server.streams.admit(&caller.principal) {
        Ok(place) => place,
        Err(rejection) => return rejection.into_response(),
    };
    let (mut parts, _) = request.into_parts();
    let upgrade = match Upgrade::of(&mut parts).await {
        Ok(upgrade) => upgrade,
        Err(refused) => return refused,
    };
    let attaches = upgrade.attaches;
    // A client joins with its upgrade: what happens while the socket is set up is for it as well.
    if !attaches
        && caller.principal.scopes.read
        && query.after.is_none()
        && let Some(id) = query.wanted(&server)
        && let Ok(handle) = server.session(&id, &caller).await
    {
        query.joined = joined(&server, &handle).await;
    }
    let time = server.limits.silence;
    let arrivals = Arrivals::new(server.bodies.clone(), caller.principal.name.clone());
    upgrade.answer(time, arrivals.clone(), async move |socket| {
        let _place = place;
        if attaches {
            return Box::pin(attach_to(server, caller, query, socket, arrivals, stopping)).await;
        }
        serve(server, caller, query, socket, arrivals, stopping).await;
    })
}

/// On the heap, because every socket would be as large.
async fn attach_to(
    server: Arc<Server>,
    mut caller: Caller,
    query: Query,
    socket: WebSocket,
    arrivals: Arc<Arrivals>,
    stopping: Stopping,
) {
    caller.origin.surface = Surface::Tui;
    let session = match query.wanted(&server) {
        _ if !caller.principal.scopes.read => Err(out_of_scope("read")),
        Some(id) => server.session(&id, &caller).await,
        None => Err(no_session()),
    };
    let after = query.after.map_or(Seq::ZERO, |after| after.seq);
    let line = (socket, arrivals);
    super::attach::serve(server, caller, session, after, line, stopping).await;
}

/// `?after=41` or `?after=41.0`, `?session=…`, `?name=…`.
#[derive(Default)]
struct Query {
    after: Option<FrameId>,
    /// `after` is there and says nothing: what would be missed is not known.
    lost: bool,
    session: Option<SessionId>,
    name: Option<String>,
    /// What the header, or `?A2A-Version=`, says that will be spoken here; None: either.
    version: Option<String>,
    /// Where a client that names no place begins, taken with its upgrade.
    joined: Option<Joined>,
}

/// The place of a client that follows a session from now on, and what it is told first: the open question.
#[derive(Clone)]
struct Joined {
    told: Texts,
    after: FrameId,
}

/// None: the session has stopped.
async fn joined(server: &Server, handle: &SessionHandle) -> Option<Joined> {
    let projection = server.projection(handle, VIEW);
    if !projection.reach(handle.head()).await {
        return None;
    }
    let (frames, after) = projection.joining();
    Some(Joined { told: frames.into_iter().map(|frame| text(frame.followed)).collect(), after })
}

impl Query {
    fn speaks(&self, dialect: Dialect) -> Result<(), WireError> {
        check_version(self.version.as_deref(), dialect)
    }

    fn of(text: &str) -> Self {
        let mut query = Self::default();
        let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        for (name, value) in pairs {
            match name {
                "after" => match cursor(&spelled(value)) {
                    Some(after) => query.after = Some(after),
                    None => query.lost = true,
                },
                "session" => query.session = Some(SessionId::from(spelled(value).as_str())),
                "name" => query.name = Some(spelled(value).chars().take(64).collect()),
                _ => {}
            }
        }
        query
    }

    /// The session that is named, or the one that is shared.
    fn wanted(&self, server: &Server) -> Option<SessionId> {
        match (&self.session, &server.shape) {
            (Some(session), _) => Some(session.clone()),
            (None, Shape::Shared(shared)) => Some(shared.clone()),
            (None, Shape::Many) => None,
        }
    }
}

const IN_USE: &str = "this id is in use: its request is not over yet";
const DIALECTS: [Dialect; 2] = [Dialect::A2a1, Dialect::A2a03];

/// There is no request yet that an error could answer, so the upgrade is refused with one.
fn bad_request(error: &WireError, dialect: Dialect) -> Response {
    let object = refuse(error, dialect);
    let body = jsonrpc::error_response(&Id::NULL, &object);
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

fn no_place(field: &str) -> WireError {
    let why = "is no place in a session: a number, or the id of an event".to_owned();
    WireError::Invalid(Violation { field: field.to_owned(), why })
}

/// As it was before it became part of an address.
fn spelled(value: &str) -> String {
    super::token::decode(value).unwrap_or_else(|| value.to_owned())
}

/// A sequence number means "after the whole event", a frame id "after this frame".
fn cursor(text: &str) -> Option<FrameId> {
    let whole = |seq| FrameId { seq: Seq(seq), k: u32::MAX };
    // Digits and a point: a sign and a blank are no part of a place.
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    text.parse::<FrameId>().ok().or_else(|| text.parse().ok().map(whole))
}

/// What goes out in one piece: all that a reader found.
type Texts = Vec<Text>;

/// A text in parts: what lies in memory for others already is not copied.
type Text = Vec<Bytes>;

fn text(text: impl Into<Utf8Bytes>) -> Text {
    vec![text.into().into()]
}

/// Texts on their way to the socket.
struct Batch {
    texts: Texts,
    counted: Counted,
    /// Told when the socket has taken them, if they are large.
    sent: Option<oneshot::Sender<()>>,
}

/// What texts count until they are sent, by themselves or with their request.
type Counted = (Option<Arc<BytePermit>>, Option<Arc<Load>>);

/// Nobody reads any more.
struct Closed;

#[derive(Clone)]
struct Outbox(mpsc::Sender<Batch>);

impl Outbox {
    /// Hands texts over. Large ones are waited for, so that a reader keeps those of one time only.
    async fn send(&self, texts: Texts, counted: Counted) -> Result<(), Closed> {
        let size: usize = texts.iter().flatten().map(Bytes::len).sum();
        let (sent, waiting) =
            if size > SMALL { Some(oneshot::channel()).unzip() } else { (None, None) };
        self.0.send(Batch { texts, counted, sent }).await.map_err(|_| Closed)?;
        match waiting {
            Some(waiting) => waiting.await.map_err(|_| Closed),
            None => Ok(()),
        }
    }

    /// One text that is small.
    async fn say(&self, words: String) {
        // Closed: nobody reads any more.
        let _ = self.send(vec![text(words)], (None, None)).await;
    }
}

/// What a connection owns: everything it started ends with it.
struct Connection {
    server: Arc<Server>,
    caller: Caller,
    query: Arc<Query>,
    outbox: Outbox,
    /// Requests, and followed sessions.
    running: HashMap<Key, Work>,
    left: u64,
}

/// What is done for a client beside all else.
struct Work {
    task: AbortOnDropHandle<()>,
    /// Gone when there is one more frame to come at most.
    open: Weak<()>,
    /// Where it is a stream that a client may cancel.
    stream: Option<Stream>,
}

struct Stream {
    id: Id,
    /// Its end was handed over.
    ended: Arc<AtomicBool>,
}

impl Work {
    fn is_open(&self) -> bool {
        self.open.strong_count() > 0
    }

    /// When this returns, nothing of it comes any more.
    async fn stop(self) {
        self.task.abort();
        // Cancelled, or over before that.
        let _ = self.task.await;
    }
}

async fn serve(
    server: Arc<Server>,
    caller: Caller,
    query: Query,
    socket: WebSocket,
    arrivals: Arc<Arrivals>,
    stopping: Stopping,
) {
    let _present = server.presence.join(&caller.origin);
    let (mut sink, source) = socket.split();
    let (outbox, outgoing) = mpsc::channel(OUTBOX);
    let outbox = Outbox(outbox);
    let silence = server.limits.silence;
    let query = Arc::new(query);
    let tenure = caller.principal.tenure.clone();
    let mut connection =
        Connection { server, caller, query, outbox, running: HashMap::new(), left: 0 };
    let taking = Taking::new();
    let hearing = Hearing::new(source, silence, &taking, arrivals);
    // Two futures of one task: an answer that waits for the socket does not keep the socket from
    // being emptied, and when either ends, the connection does.
    let close = tokio::select! {
        close = write(&mut sink, outgoing, stopping, silence, &taking) => close,
        close = connection.read(hearing) => close,
        () = tenure.over() => Close::TENURE_OVER,
    };
    close.say(&mut sink).await;
}

/// Empties the outbox into the socket, and keeps the connection warm.
async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    mut outgoing: mpsc::Receiver<Batch>,
    stopping: Stopping,
    silence: Duration,
    taking: &Taking,
) -> Close {
    let mut ping = line::pings(silence);
    loop {
        let batch = tokio::select! {
            Some(batch) = outgoing.recv() => Some(batch),
            _ = ping.tick() => None,
            () = stopping.told() => return Close::STOPPING,
        };
        // It is gone, or has taken nothing for too long.
        if taking.during(send(sink, batch, &mut outgoing)).await.is_err() {
            return Close::Silent;
        }
    }
}

/// Some texts, or else a ping, and what waits already, in as few writes as the socket takes.
async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    mut batch: Option<Batch>,
    outgoing: &mut mpsc::Receiver<Batch>,
) -> Result<(), tungstenite::Error> {
    if batch.is_none() {
        sink.feed(Message::Ping(bytes::Bytes::new())).await?;
    }
    for _ in 0..OUTBOX {
        let Some(Batch { texts, counted, sent }) = batch.or_else(|| outgoing.try_recv().ok())
        else {
            break;
        };
        for text in texts {
            line::feed(sink, &text).await?;
        }
        if let Some(sent) = sent {
            sink.flush().await?;
            drop(counted);
            // Who handed it over may be gone.
            let _ = sent.send(());
        }
        batch = None;
    }
    sink.flush().await
}

const NOT_TEXT: WireError = WireError::InvalidRequest("a frame must be text");

impl Connection {
    async fn read(&mut self, mut hearing: Hearing<'_>) -> Close {
        // Both on the heap, and only while they last: most of the time a socket waits.
        Box::pin(self.join()).await;
        loop {
            let (message, counted) = match hearing.next().await {
                Ok(heard) => heard,
                Err(close) => return close,
            };
            match message {
                // Who was taken back is heard no more, however soon after.
                Message::Text(_) if !self.caller.principal.tenure.holds().await => {
                    return Close::TENURE_OVER;
                }
                Message::Text(text) => Box::pin(self.take(&text, counted)).await,
                Message::Binary(_) => self.refuse(Id::NULL, &NOT_TEXT).await,
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
            }
        }
    }

    /// From the moment it joins, a client sees the shared session, or the one it names.
    async fn join(&mut self) {
        let query = self.query.clone();
        let Some(wanted) = query.wanted(&self.server) else { return };
        if let Err(error) = self.follow(&wanted, query.after, query.joined.clone()).await {
            self.refuse(Id::NULL, &error).await;
        }
    }

    async fn take(&mut self, text: &str, counted: Option<BytePermit>) {
        self.make_room().await;
        match jsonrpc::parse(text.as_bytes()) {
            Ok(Body::One(call)) => self.one(call, text.len(), counted).await,
            Ok(Body::Batch(_)) => {
                self.refuse(Id::NULL, &WireError::InvalidRequest("one object a frame, no batches"))
                    .await;
            }
            Err(Rejected { id, error, .. }) => self.refuse(id, &error).await,
        }
    }

    async fn one(&mut self, call: Call, bytes: usize, counted: Option<BytePermit>) {
        let outcome = match call.method.as_str() {
            "stream/cancel" => self.cancel(&call.params).await,
            "session/follow" => self.follow_asked(&call.params).await,
            "session/unfollow" => {
                let id = call.params["contextId"].as_str().unwrap_or_default();
                self.stop(&Key::session(id)).await;
                Ok(json!({}))
            }
            _ => return self.ask(call, bytes, counted).await,
        };
        match outcome {
            Ok(value) => self.send(jsonrpc::response(&call.id, &value.to_string())).await,
            Err(error) => self.refuse(call.id, &error).await,
        }
    }

    /// Ends a stream, which gets its end before the answer to this: nothing of it comes afterwards.
    async fn cancel(&mut self, params: &Value) -> Result<Value, WireError> {
        let id = params.get("id").ok_or_else(|| no_stream("is missing"))?;
        let key = Key::named(id);
        let stream = match self.running.get_mut(&key) {
            Some(work) if work.is_open() => work.stream.take(),
            _ => return Err(no_stream("names no stream: it is over, or never was")),
        };
        let stream = stream.ok_or_else(|| no_stream("names a request that has one answer"))?;
        self.stop(&key).await;
        if !stream.ended.load(Ordering::Relaxed) {
            end(&stream.id, &self.outbox).await;
        }
        Ok(json!({}))
    }

    async fn stop(&mut self, key: &Key) {
        if let Some(work) = self.running.remove(key) {
            work.stop().await;
        }
    }

    /// What is over gives up its place. Where none is free, who has but a last frame to hand over is waited for: its
    /// client may know already that it is over.
    async fn make_room(&mut self) {
        self.running.retain(|_, work| !work.task.is_finished());
        if self.running.len() < STREAMS {
            return;
        }
        let over: Vec<Work> =
            self.running.extract_if(|_, work| !work.is_open()).map(|(_, work)| work).collect();
        for work in over {
            // It has no other result.
            let _ = work.task.await;
        }
    }

    async fn follow_asked(&mut self, params: &Value) -> Result<Value, WireError> {
        let id = params["contextId"].as_str().ok_or(Condition::UnknownContext)?;
        let after = match &params["after"] {
            Value::Null => None,
            Value::String(text) => Some(cursor(text).ok_or_else(|| no_place("params.after"))?),
            other => Some(cursor(&other.to_string()).ok_or_else(|| no_place("params.after"))?),
        };
        self.follow(&SessionId::from(id), after, None).await?;
        Ok(json!({ "contextId": id }))
    }

    /// Sends every frame of a session from a cursor on; without one, the open question and every frame from now on.
    async fn follow(
        &mut self,
        id: &SessionId,
        after: Option<FrameId>,
        joined: Option<Joined>,
    ) -> Result<(), WireError> {
        if !self.caller.principal.scopes.read {
            return Err(out_of_scope("read"));
        }
        let handle = self.server.session(id, &self.caller).await?;
        let now = FrameId { seq: handle.head(), k: u32::MAX };
        if after.is_some_and(|after| after.seq > now.seq) {
            let why = format!("is behind the end of this session, which is at {}", now.seq);
            return Err(WireError::Invalid(Violation { field: "after".to_owned(), why }));
        }
        let projection = self.server.projection(&handle, VIEW);
        let begins = match (after, joined) {
            (Some(after), _) => Joined { told: Vec::new(), after },
            (None, Some(joined)) => joined,
            (None, None) => {
                self::joined(&self.server, &handle).await.ok_or(Condition::Restarting)?
            }
        };
        let mut frames = projection.frames(begins.after);
        frames.count(&self.server.replies, &self.caller.principal.name);
        let (outbox, session) = (self.outbox.clone(), id.clone());
        let (key, open) = (Key::session(id.as_str()), Arc::new(()));
        let still = Arc::downgrade(&open);
        // Who follows it anew gets nothing more of the old way.
        self.stop(&key).await;
        self.run(key, follow(begins.told, frames, session, outbox, open))?.open = still;
        Ok(())
    }

    fn run(
        &mut self,
        key: Key,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<&mut Work, WireError> {
        if self.running.len() >= STREAMS {
            return Err(Condition::TooManyStreams.into());
        }
        let task = AbortOnDropHandle::new(tokio::spawn(work));
        let work = Work { task, open: Weak::new(), stream: None };
        Ok(self.running.entry(key).insert_entry(work).into_mut())
    }

    /// Any other method: answered by a task of its own, so that a long one holds up nothing.
    async fn ask(&mut self, call: Call, bytes: usize, counted: Option<BytePermit>) {
        let (server, caller, outbox) =
            (self.server.clone(), self.caller.again(), self.outbox.clone());
        let (id, query) = (call.id.clone(), self.query.clone());
        let key = Key::request(&id);
        if self.running.get(&key).is_some_and(Work::is_open) {
            return self.refuse(id, &WireError::InvalidRequest(IN_USE)).await;
        }
        if counted.is_some() {
            caller.load.hold_body(counted);
        // Waited for here: nothing more is read from this socket meanwhile.
        } else if let Err(error) = self.server.count_body(bytes, &caller).await {
            return self.refuse(id, &error).await;
        }
        if let Some(leaving) = self.running.remove(&key) {
            self.left += 1;
            self.running.insert(Key::Leaving(self.left), leaving);
        }
        let (open, ended) = (Arc::new(()), Arc::new(AtomicBool::new(false)));
        let still = Arc::downgrade(&open);
        let stream = streams(&call.method).then(|| Stream { id: id.clone(), ended: ended.clone() });
        let streaming = stream.is_some();
        let started = self.run(key, async move {
            let dialect = answered_in(&call.method, query.version.as_deref());
            let answer = match check_call_version(query.version.as_deref(), &call) {
                Ok(()) => answer(&server, &call, dialect, &caller).await,
                Err(error) => Err(error),
            };
            let text = match answer {
                Ok(Reply::Value(value) | Reply::Frame(value)) => {
                    Some(jsonrpc::response(&call.id, &value.to_string()))
                }
                Ok(Reply::Written(text)) => Some(jsonrpc::response(&call.id, &text)),
                Ok(Reply::Frames(frames)) => {
                    stream_of(frames, &call.id, dialect, &outbox).await;
                    None
                }
                Err(error) => Some(jsonrpc::error_response(&call.id, &refuse(&error, dialect))),
            };
            let say = async |text: Option<String>| {
                if let Some(words) = text {
                    // Closed: nobody reads any more.
                    let _ = outbox
                        .send(vec![self::text(words)], (None, Some(caller.load.clone())))
                        .await;
                }
            };
            // The id is let go before the last frame is handed over: who has that may use it again.
            if streaming {
                say(text).await;
                drop(open);
                end(&call.id, &outbox).await;
                ended.store(true, Ordering::Relaxed);
            } else {
                drop(open);
                say(text).await;
            }
        });
        match started {
            Ok(work) => (work.open, work.stream) = (still, stream),
            Err(error) => {
                self.refuse(id.clone(), &error).await;
                if streaming {
                    end(&id, &self.outbox).await;
                }
            }
        }
    }

    async fn refuse(&mut self, id: Id, error: &WireError) {
        self.send(jsonrpc::error_response(&id, &refuse(error, Dialect::A2a03))).await;
    }

    async fn send(&mut self, text: String) {
        self.outbox.say(text).await;
    }
}

async fn answer(
    server: &Server,
    call: &Call,
    dialect: Dialect,
    caller: &Caller,
) -> Result<Reply, WireError> {
    check_tenant(server.facts.tenant.as_deref(), dialect, &call.params)?;
    let resume = call.params.get("lastEventId").and_then(Value::as_str).and_then(cursor);
    server.ask(decode(call, Extension::On)?, caller, resume).await
}

/// The frames of one request.
async fn stream_of(mut frames: TaskFrames, id: &Id, dialect: Dialect, outbox: &Outbox) {
    loop {
        match frames.next().await {
            Ok(Some(batch)) => {
                let texts = batch.iter().map(|frame| result(id, frame)).collect();
                if outbox.send(texts, (frames.counted(), None)).await.is_err() {
                    return;
                }
            }
            Ok(None) => break,
            Err(error) => {
                let text = jsonrpc::error_response(id, &refuse(&error, dialect));
                outbox.say(text).await;
                break;
            }
        }
    }
}

/// The last word of a stream.
async fn end(id: &Id, outbox: &Outbox) {
    let end = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"stream/end\",\"params\":{{\"id\":{}}}}}",
        id.as_json()
    );
    outbox.say(end).await;
}

fn result(id: &Id, frame: &Encoded) -> Text {
    if frame.body.len() <= SMALL {
        return text(jsonrpc::response(id, &String::from_utf8_lossy(&frame.body)));
    }
    let mut before = jsonrpc::response(id, "").into_bytes();
    let after = before.pop().into_iter().collect::<Vec<u8>>();
    vec![before.into(), frame.body.clone(), after.into()]
}

/// Every frame of a session, with its place; and the word that no more will come.
async fn follow(
    told: Texts,
    mut frames: Frames,
    session: SessionId,
    outbox: Outbox,
    open: Arc<()>,
) {
    if !told.is_empty() && outbox.send(told, (None, None)).await.is_err() {
        return;
    }
    while let Ok(Some(batch)) = frames.next().await {
        let texts = batch.iter().map(|frame| text(frame.followed.clone())).collect();
        if outbox.send(texts, (frames.counted(), None)).await.is_err() {
            return;
        }
    }
    let mut end = json!({
        "jsonrpc": "2.0",
        "method": "session/end",
        "params": { "contextId": session.as_str(), "after": place(frames.cursor()) },
    });
    if frames.is_crowded() {
        end["params"]["error"] = json!(refuse(&Condition::Busy.into(), Dialect::A2a03));
    } else if frames.projection().handle().failure().is_some() {
        let why = refuse(&stopped(frames.projection().handle()), Dialect::A2a03);
        end["params"]["error"] = json!(why);
    }
    drop(open);
    outbox.say(end.to_string()).await;
}

/// As [`cursor`] reads it.
fn place(id: FrameId) -> String {
    if id.k == u32::MAX { id.seq.to_string() } else { id.to_string() }
}
