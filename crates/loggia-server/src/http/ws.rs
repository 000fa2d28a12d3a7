//! `GET /ws`: one socket, many streams. The binding is written down in `docs/protocols/websocket.md`.
//!
//! Each request is a JSON-RPC object in a text frame; answers carry its id. Besides, a client sees
//! every frame of the sessions it follows. All of it is read by cursor: a client that does not read
//! its socket holds up its own tasks and nobody else's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use loggia_core::{Seq, SessionId};
use loggia_wire::jsonrpc::{self, Rejected};
use loggia_wire::{
    Body, Call, Condition, Dialect, Extension, FrameId, Id, View, WireError, decode, dialect_of,
    refuse,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::BODY_LIMIT;
use crate::dispatch::{Reply, TaskFrames};
use crate::peer::Peer;
use crate::projection::{Encoded, Frames};
use crate::serve::Stopping;
use crate::state::{Caller, Server, Shape};

/// Frames waiting for the socket. Full: the client's own streams wait.
const OUTBOX: usize = 64;
const PING: Duration = Duration::from_secs(30);
/// Nothing heard for this long, not even a pong: the client is gone.
const SILENCE: Duration = Duration::from_secs(75);
/// A socket that takes nothing for this long is closed; its client resumes by cursor.
const STALL: Duration = Duration::from_secs(30);
/// Streams and followed sessions of one socket.
const STREAMS: usize = 256;

/// How the log looks on the socket: the extension is always on here.
const VIEW: View = View { dialect: Dialect::A2a03, extension: Extension::On };

// Close codes of RFC 6455 and its registry.
const GOING_AWAY: u16 = 1001;
const TRY_AGAIN_LATER: u16 = 1013;

pub async fn upgrade(State(server): State<Arc<Server>>, request: Request) -> Response {
    let Some(mut caller) = super::caller(&request) else {
        return axum::http::StatusCode::UNAUTHORIZED.into_response();
    };
    let query = Query::of(request.uri().query().unwrap_or_default());
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
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    let upgrade = upgrade.max_message_size(BODY_LIMIT).max_frame_size(BODY_LIMIT);
    upgrade.on_upgrade(async move |socket| {
        let _place = place;
        serve(server, caller, query, socket, stopping).await;
    })
}

/// `?after=41` or `?after=41.0`, `?session=…`, `?name=…`.
#[derive(Default)]
struct Query {
    after: Option<FrameId>,
    session: Option<SessionId>,
    name: Option<String>,
}

impl Query {
    fn of(text: &str) -> Self {
        let mut query = Self::default();
        for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "after" => query.after = cursor(value),
                "session" => query.session = Some(SessionId::from(value)),
                "name" => query.name = Some(value.chars().take(64).collect()),
                _ => {}
            }
        }
        query
    }
}

/// A sequence number means "after the whole event", a frame id "after this frame".
fn cursor(text: &str) -> Option<FrameId> {
    let whole = |seq| FrameId { seq: Seq(seq), k: u32::MAX };
    text.parse::<FrameId>().ok().or_else(|| text.parse().ok().map(whole))
}

/// What a connection owns: everything it started ends with it.
struct Connection {
    server: Arc<Server>,
    caller: Caller,
    outbox: mpsc::Sender<Utf8Bytes>,
    /// Streams by request id, and followed sessions by session id.
    running: HashMap<String, AbortOnDropHandle<()>>,
}

async fn serve(
    server: Arc<Server>,
    caller: Caller,
    query: Query,
    socket: WebSocket,
    stopping: Stopping,
) {
    let (sink, source) = socket.split();
    let (outbox, outgoing) = mpsc::channel(OUTBOX);
    let mut connection = Connection { server, caller, outbox, running: HashMap::new() };
    // Two futures of one task: an answer that waits for the socket does not keep the socket from
    // being emptied, and when either ends, the connection does.
    tokio::select! {
        () = write(sink, outgoing, stopping) => {}
        () = connection.read(source, &query) => {}
    }
}

/// Empties the outbox into the socket, and keeps the connection warm.
async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut outgoing: mpsc::Receiver<Utf8Bytes>,
    stopping: Stopping,
) {
    let mut ping = tokio::time::interval(PING);
    let (code, reason) = loop {
        let message = tokio::select! {
            Some(text) = outgoing.recv() => Message::Text(text),
            _ = ping.tick() => Message::Ping(bytes::Bytes::new()),
            () = stopping.told() => break (GOING_AWAY, "stopping"),
        };
        match tokio::time::timeout(STALL, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => break (TRY_AGAIN_LATER, "overrun: come back with ?after="),
        }
    };
    let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
    // The client may be gone already.
    let _ =
        tokio::time::timeout(Duration::from_secs(1), sink.send(Message::Close(Some(frame)))).await;
}

const NOT_TEXT: WireError = WireError::InvalidRequest("a frame must be text");

impl Connection {
    async fn read(&mut self, mut source: SplitStream<WebSocket>, query: &Query) {
        self.join(query).await;
        // A living client answers a ping at least.
        while let Ok(Some(Ok(message))) = tokio::time::timeout(SILENCE, source.next()).await {
            match message {
                Message::Text(text) => self.take(&text).await,
                Message::Binary(_) => self.refuse(Id::NULL, &NOT_TEXT).await,
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Close(_) => return,
            }
            self.running.retain(|_, task| !task.is_finished());
        }
    }

    /// From the moment it joins, a client sees the shared session, or the one it names.
    async fn join(&mut self, query: &Query) {
        let wanted = match (&query.session, &self.server.shape) {
            (Some(session), _) => session.clone(),
            (None, Shape::Shared(shared)) => shared.clone(),
            (None, Shape::Many) => return,
        };
        if let Err(error) = self.follow(&wanted, query.after).await {
            self.refuse(Id::NULL, &error).await;
        }
    }

    async fn take(&mut self, text: &str) {
        match jsonrpc::parse(text.as_bytes()) {
            Ok(Body::One(call)) => self.one(call).await,
            Ok(Body::Batch(_)) => {
                self.refuse(Id::NULL, &WireError::InvalidRequest("one object a frame, no batches"))
                    .await;
            }
            Err(Rejected { id, error, .. }) => self.refuse(id, &error).await,
        }
    }

    async fn one(&mut self, call: Call) {
        let outcome = match call.method.as_str() {
            "stream/cancel" => {
                self.running.remove(&key_of(call.params.get("id").unwrap_or(&Value::Null)));
                Ok(json!({}))
            }
            "session/follow" => self.follow_asked(&call.params).await,
            "session/unfollow" => {
                self.running
                    .remove(&session_key(call.params["contextId"].as_str().unwrap_or_default()));
                Ok(json!({}))
            }
            _ => return self.ask(call).await,
        };
        match outcome {
            Ok(value) => self.send(jsonrpc::response(&call.id, &value.to_string())).await,
            Err(error) => self.refuse(call.id, &error).await,
        }
    }

    async fn follow_asked(&mut self, params: &Value) -> Result<Value, WireError> {
        let id = params["contextId"].as_str().ok_or(Condition::UnknownContext)?;
        let after = params["after"].as_str().and_then(cursor);
        let after =
            after.or_else(|| params["after"].as_u64().and_then(|seq| cursor(&seq.to_string())));
        self.follow(&SessionId::from(id), after).await?;
        Ok(json!({ "contextId": id }))
    }

    /// Sends every frame of a session from a cursor on; without one, from now on.
    async fn follow(&mut self, id: &SessionId, after: Option<FrameId>) -> Result<(), WireError> {
        let handle = self.server.session(id, &self.caller).await?;
        let now = FrameId { seq: handle.head(), k: u32::MAX };
        let projection = self.server.projection(&handle, VIEW);
        let frames = projection.frames(after.unwrap_or(now));
        let (outbox, session) = (self.outbox.clone(), id.clone());
        self.run(session_key(id.as_str()), follow(frames, session, outbox))
    }

    fn run(
        &mut self,
        key: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), WireError> {
        if self.running.len() >= STREAMS && !self.running.contains_key(&key) {
            return Err(Condition::TooManyStreams.into());
        }
        let task = tokio::spawn(work);
        self.running.insert(key, AbortOnDropHandle::new(task));
        Ok(())
    }

    /// Any other method: answered by a task of its own, so that a long one holds up nothing.
    async fn ask(&mut self, call: Call) {
        let (server, caller, outbox) =
            (self.server.clone(), self.caller.clone(), self.outbox.clone());
        let id = call.id.clone();
        let started = self.run(format!("id {}", id.as_json()), async move {
            let dialect = dialect_of(&call.method).unwrap_or(Dialect::A2a03);
            let answer = answer(&server, &call, &caller).await;
            let text = match answer {
                Ok(Reply::Value(value)) => jsonrpc::response(&call.id, &value.to_string()),
                Ok(Reply::Frame(value)) => {
                    let text = jsonrpc::response(&call.id, &value.to_string());
                    // Closed: nobody reads any more.
                    let _ = outbox.send(text.into()).await;
                    return end(&call.id, &outbox).await;
                }
                Ok(Reply::Frames(frames)) => return stream(frames, call.id, dialect, outbox).await,
                Err(error) => jsonrpc::error_response(&call.id, &refuse(&error, dialect)),
            };
            // Closed: nobody reads any more.
            let _ = outbox.send(text.into()).await;
        });
        if let Err(error) = started {
            self.refuse(id, &error).await;
        }
    }

    async fn refuse(&mut self, id: Id, error: &WireError) {
        self.send(jsonrpc::error_response(&id, &refuse(error, Dialect::A2a03))).await;
    }

    async fn send(&mut self, text: String) {
        // Closed: nobody reads any more.
        let _ = self.outbox.send(text.into()).await;
    }
}

async fn answer(server: &Server, call: &Call, caller: &Caller) -> Result<Reply, WireError> {
    let resume = call.params.get("lastEventId").and_then(Value::as_str).and_then(cursor);
    server.ask(decode(call, Extension::On)?, caller, resume).await
}

/// The frames of one request, and the word that it is over.
async fn stream(mut frames: TaskFrames, id: Id, dialect: Dialect, outbox: mpsc::Sender<Utf8Bytes>) {
    loop {
        match frames.next().await {
            Ok(Some(batch)) => {
                for frame in batch {
                    if outbox.send(result(&id, &frame)).await.is_err() {
                        return;
                    }
                }
            }
            Ok(None) => break,
            Err(error) => {
                let text = jsonrpc::error_response(&id, &refuse(&error, dialect));
                // Closed: nobody reads any more.
                let _ = outbox.send(text.into()).await;
                break;
            }
        }
    }
    end(&id, &outbox).await;
}

async fn end(id: &Id, outbox: &mpsc::Sender<Utf8Bytes>) {
    let end = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"stream/end\",\"params\":{{\"id\":{}}}}}",
        id.as_json()
    );
    let _ = outbox.send(end.into()).await;
}

fn result(id: &Id, frame: &Encoded) -> Utf8Bytes {
    jsonrpc::response(id, &String::from_utf8_lossy(&frame.body)).into()
}

/// Every frame of a session, with its place.
async fn follow(mut frames: Frames, session: SessionId, outbox: mpsc::Sender<Utf8Bytes>) {
    let context = Value::from(session.as_str());
    while let Ok(Some(batch)) = frames.next().await {
        for frame in batch {
            let body = String::from_utf8_lossy(&frame.body);
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"session/event\",\"params\":\
                 {{\"contextId\":{context},\"seq\":{},\"id\":\"{}\",\"event\":{body}}}}}",
                frame.id.seq, frame.id
            );
            if outbox.send(text.into()).await.is_err() {
                return;
            }
        }
    }
}

fn session_key(id: &str) -> String {
    format!("session {id}")
}

fn key_of(id: &Value) -> String {
    format!("id {id}")
}
