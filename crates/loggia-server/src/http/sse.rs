//! Frames as server-sent events: an id on every one, a comment when nothing happens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use futures::future::BoxFuture;
use loggia_wire::{Condition, Dialect, Id, WireError, legacy, refuse, sdlc, status};

use crate::auth::Tenure;
use crate::dispatch::TaskFrames;
use crate::guard::{BytePermit, SMALL, StreamPermit};
use crate::projection::Encoded;
use crate::serve::Stopping;

/// Proxies and clients give up on a silent stream; this is well before any of them.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How frames are written.
#[derive(Clone, PartialEq, Eq)]
pub enum Form {
    /// Each is a response to this request.
    Responses(Id),
    /// As they are.
    Bare,
    /// The words in them.
    Words,
    /// As they are; what goes wrong is an event of its own kind.
    Events,
}

impl Form {
    fn id(&self) -> &Id {
        match self {
            Form::Responses(id) => id,
            Form::Bare | Form::Words | Form::Events => &Id::NULL,
        }
    }

    /// Why a stream ends that should not.
    fn error(&self, dialect: Dialect, error: &WireError) -> Bytes {
        match self {
            Form::Responses(id) => error_event(id, dialect, error),
            // python-a2a's own form.
            Form::Bare | Form::Words => {
                let why = serde_json::json!({ "error": refuse(error, dialect).message });
                Bytes::from(format!("event: error\ndata: {why}\n\n"))
            }
            Form::Events => {
                let body = match dialect {
                    Dialect::Sdlc => sdlc::error(error).1,
                    _ => status(error, dialect).body,
                };
                Bytes::from(format!("event: error\ndata: {body}\n\n"))
            }
        }
    }

    /// One frame as an event's data; None where there is nothing to say.
    fn write(&self, body: &[u8], out: &mut BytesMut) -> Option<()> {
        match self {
            Form::Responses(id) => {
                let before = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.as_json());
                out.put_slice(before.as_bytes());
                out.put_slice(body);
                out.put_slice(b"}");
            }
            Form::Bare | Form::Events => out.put_slice(body),
            Form::Words => {
                let event = serde_json::from_slice(body).ok()?;
                out.put_slice(legacy::words::chunk(&event)?.to_string().as_bytes());
            }
        }
        Some(())
    }
}

/// A stream of responses to one request. `held` lives as long as the stream: its place among the
/// caller's streams.
pub fn respond(
    form: Form,
    dialect: Dialect,
    frames: TaskFrames,
    stopping: Stopping,
    tenure: Tenure,
    held: Option<StreamPermit>,
) -> Response {
    let tenure = Box::pin(tenure.over());
    let state =
        State { form, dialect, frames, stopping, tenure, over: false, held, on_its_way: None };
    response(Body::from_stream(events(state)))
}

/// A stream of one response, which is in no log and so has no place to resume from.
pub fn once(form: &Form, value: &serde_json::Value) -> Response {
    let mut out = BytesMut::from(&b"data: "[..]);
    let written = form.write(value.to_string().as_bytes(), &mut out);
    out.put_slice(b"\n\n");
    response(written.map_or_else(Body::empty, |()| Body::from(out.freeze())))
}

/// A request for a stream that failed before it began, in the form of a stream.
pub fn refusal(id: &Id, dialect: Dialect, error: &WireError) -> Response {
    response(Body::from(error_event(id, dialect, error)))
}

fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in fixed {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

struct State {
    form: Form,
    dialect: Dialect,
    frames: TaskFrames,
    stopping: Stopping,
    /// Over with the reader's credential.
    tenure: BoxFuture<'static, ()>,
    over: bool,
    held: Option<StreamPermit>,
    /// Of the frames that were given last, if they are large: they are sent when more is asked for.
    on_its_way: Option<BytePermit>,
}

impl State {
    /// Frames as they go out; large ones when there is room for them.
    async fn encode(&mut self, frames: &[Arc<Encoded>]) -> Bytes {
        let size: usize = frames.iter().map(|frame| frame.body.len()).sum();
        let counted = self.frames.counted().is_some();
        if let (true, Some(held)) = (size > SMALL && !counted, &self.held) {
            self.on_its_way = held.large(size).await;
            if self.on_its_way.is_none() {
                self.over = true;
                return self.form.error(self.dialect, &Condition::Busy.into());
            }
        }
        encode(&self.form, frames)
    }
}

fn events(state: State) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    futures::stream::unfold(state, |mut state| async move {
        if state.over {
            return None;
        }
        state.on_its_way = None;
        let event = tokio::select! {
            biased; // a frame that is there goes out before the stream is ended
            () = &mut state.tenure => {
                state.over = true;
                let error = Condition::Unauthenticated.into();
                state.form.error(state.dialect, &error)
            }
            frames = state.frames.next() => match frames {
                Ok(Some(frames)) => state.encode(&frames).await,
                Ok(None) => return None,
                Err(error) => {
                    state.over = true;
                    state.form.error(state.dialect, &error)
                }
            },
            () = state.stopping.told() => {
                state.over = true;
                let error = Condition::Restarting.into();
                state.form.error(state.dialect, &error)
            }
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok(event), state))
    })
}

fn encode(form: &Form, frames: &[Arc<Encoded>]) -> Bytes {
    let around = 96 + form.id().as_json().len();
    let size = frames.iter().map(|frame| frame.body.len() + around).sum();
    let mut out = BytesMut::with_capacity(size);
    for frame in frames {
        let before = out.len();
        out.put_slice(format!("id: {}\ndata: ", frame.id).as_bytes());
        match form.write(&frame.body, &mut out) {
            Some(()) => out.put_slice(b"\n\n"),
            None => out.truncate(before),
        }
    }
    out.freeze()
}

fn error_event(id: &Id, dialect: Dialect, error: &WireError) -> Bytes {
    let text = loggia_wire::jsonrpc::error_response(id, &refuse(error, dialect));
    Bytes::from(format!("data: {text}\n\n"))
}
