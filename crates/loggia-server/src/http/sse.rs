//! Frames as server-sent events: an id on each, and a comment when nothing happens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use futures::future::BoxFuture;
use loggia_wire::{Condition, Id, View, WireError, legacy};

use crate::auth::CredentialLifetime;
use crate::dispatch::TaskFrames;
use crate::guard::{BytePermit, SMALL, StreamPermit};
use crate::projection::EncodedFrame;
use crate::serve::Stopping;

/// Well before proxies and clients give up on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How frames are written.
#[derive(Clone, PartialEq, Eq)]
pub enum EventFormat {
    /// Each is a response to this request.
    Responses(Id),
    /// Without an envelope; errors as python-a2a writes them.
    Bare,
    /// Only the text; errors as python-a2a writes them.
    Text,
    /// Without an envelope; errors in the protocol's own form.
    Events,
}

impl EventFormat {
    fn id(&self) -> &Id {
        match self {
            EventFormat::Responses(id) => id,
            EventFormat::Bare | EventFormat::Text | EventFormat::Events => &Id::NULL,
        }
    }

    /// The last event of a stream that fails.
    fn error(&self, view: View, error: &WireError) -> Bytes {
        let data = match self {
            EventFormat::Responses(id) => return error_event(id, view, error),
            EventFormat::Bare | EventFormat::Text => {
                serde_json::json!({ "error": view.refuse(error).message })
            }
            EventFormat::Events => view.stream_error(error),
        };
        Bytes::from(format!("event: error\ndata: {data}\n\n"))
    }

    /// One frame as an event's data; None for a frame without text in a text stream.
    fn write(&self, body: &[u8], out: &mut BytesMut) -> Option<()> {
        match self {
            EventFormat::Responses(id) => {
                let before = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.as_json());
                out.put_slice(before.as_bytes());
                out.put_slice(body);
                out.put_slice(b"}");
            }
            EventFormat::Bare | EventFormat::Events => out.put_slice(body),
            EventFormat::Text => {
                let event = serde_json::from_slice(body).ok()?;
                out.put_slice(legacy::words::chunk(&event)?.to_string().as_bytes());
            }
        }
        Some(())
    }
}

/// A stream of frames, which holds the caller's permit until it ends.
pub fn respond(
    format: EventFormat,
    view: View,
    frames: TaskFrames,
    stopping: Stopping,
    lifetime: CredentialLifetime,
    permit: Option<StreamPermit>,
) -> Response {
    let lifetime = Box::pin(lifetime.ended());
    let (over, sending) = (false, None);
    let state = State { format, view, frames, stopping, lifetime, over, permit, sending };
    response(Body::from_stream(events(state)))
}

/// A stream of one frame that is not in a log, so it has no id to resume from.
pub fn once(format: &EventFormat, value: &serde_json::Value) -> Response {
    let mut out = BytesMut::from(&b"data: "[..]);
    let written = format.write(value.to_string().as_bytes(), &mut out);
    out.put_slice(b"\n\n");
    response(written.map_or_else(Body::empty, |()| Body::from(out.freeze())))
}

/// A stream of one error.
pub fn refusal(id: &Id, view: View, error: &WireError) -> Response {
    response(Body::from(error_event(id, view, error)))
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
    format: EventFormat,
    view: View,
    frames: TaskFrames,
    stopping: Stopping,
    /// Ready when the reader's credential expires.
    lifetime: BoxFuture<'static, ()>,
    over: bool,
    permit: Option<StreamPermit>,
    /// For the last frames, if they are large. They are sent when the next ones are asked for.
    sending: Option<BytePermit>,
}

impl State {
    /// Encodes frames; waits until large ones can be counted.
    async fn encode(&mut self, frames: &[Arc<EncodedFrame>]) -> Bytes {
        let size: usize = frames.iter().map(|frame| frame.body.len()).sum();
        let counted = self.frames.permit().is_some();
        if let (true, Some(permit)) = (size > SMALL && !counted, &self.permit) {
            self.sending = permit.large(size).await;
            if self.sending.is_none() {
                self.over = true;
                return self.format.error(self.view, &Condition::Busy.into());
            }
        }
        encode(&self.format, frames)
    }
}

fn events(state: State) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    futures::stream::unfold(state, |mut state| async move {
        if state.over {
            return None;
        }
        state.sending = None;
        let event = tokio::select! {
            biased; // frames that are ready go out before the stream is ended
            () = &mut state.lifetime => {
                state.over = true;
                let error = Condition::Unauthenticated.into();
                state.format.error(state.view, &error)
            }
            frames = state.frames.next() => match frames {
                Ok(Some(frames)) => state.encode(&frames).await,
                Ok(None) => return None,
                Err(error) => {
                    state.over = true;
                    state.format.error(state.view, &error)
                }
            },
            () = state.stopping.requested() => {
                state.over = true;
                let error = Condition::Restarting.into();
                state.format.error(state.view, &error)
            }
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok(event), state))
    })
}

fn encode(format: &EventFormat, frames: &[Arc<EncodedFrame>]) -> Bytes {
    let around = 96 + format.id().as_json().len();
    let size = frames.iter().map(|frame| frame.body.len() + around).sum();
    let mut out = BytesMut::with_capacity(size);
    for frame in frames {
        let before = out.len();
        out.put_slice(format!("id: {}\ndata: ", frame.id).as_bytes());
        match format.write(&frame.body, &mut out) {
            Some(()) => out.put_slice(b"\n\n"),
            None => out.truncate(before),
        }
    }
    out.freeze()
}

fn error_event(id: &Id, view: View, error: &WireError) -> Bytes {
    let text = loggia_wire::jsonrpc::error_response(id, &view.refuse(error));
    Bytes::from(format!("data: {text}\n\n"))
}
