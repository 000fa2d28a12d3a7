//! Frames as server-sent events: an id on every one, a comment when nothing happens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use loggia_wire::{Dialect, Id, WireError, refuse, status};

use crate::dispatch::TaskFrames;
use crate::projection::Encoded;
use crate::serve::Stopping;

/// Proxies and clients give up on a silent stream; this is well before any of them.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream of responses to one request. `held` lives as long as the stream: its place among the
/// caller's streams.
pub fn respond<H: Send + 'static>(
    around: Around,
    dialect: Dialect,
    frames: TaskFrames,
    stopping: Stopping,
    held: H,
) -> Response {
    let state = State { around, dialect, frames, stopping, over: false, _held: held };
    response(Body::from_stream(events(state)))
}

/// A stream of one response, which is in no log and so has no place to resume from.
pub fn once(around: &Around, value: &serde_json::Value) -> Response {
    let text = match around {
        Around::Rpc(id) => loggia_wire::jsonrpc::response(id, &value.to_string()),
        Around::Nothing => value.to_string(),
    };
    response(Body::from(format!("data: {text}\n\n")))
}

/// A request for a stream that failed before it began, in the form of a stream.
pub fn refusal(id: &Id, dialect: Dialect, error: &WireError) -> Response {
    response(Body::from(error_event(&Around::Rpc(id.clone()), dialect, error)))
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

/// What stands around each frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Around {
    /// A JSON-RPC response to this request.
    Rpc(Id),
    /// HTTP+JSON: a frame is an event's data.
    Nothing,
}

struct State<H> {
    around: Around,
    dialect: Dialect,
    frames: TaskFrames,
    stopping: Stopping,
    over: bool,
    _held: H,
}

fn events<H: Send + 'static>(
    state: State<H>,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    futures::stream::unfold(state, |mut state| async move {
        if state.over {
            return None;
        }
        let event = tokio::select! {
            biased; // a frame that is there goes out before the stream is ended
            frames = state.frames.next() => match frames {
                Ok(Some(frames)) => encode(&state.around, &frames),
                Ok(None) => return None,
                Err(error) => {
                    state.over = true;
                    error_event(&state.around, state.dialect, &error)
                }
            },
            () = state.stopping.told() => {
                state.over = true;
                Bytes::from_static(b": stopping\n\n")
            }
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok(event), state))
    })
}

fn encode(around: &Around, frames: &[Arc<Encoded>]) -> Bytes {
    let (before, after) = match around {
        Around::Rpc(id) => {
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.as_json()), "}")
        }
        Around::Nothing => (String::new(), ""),
    };
    let size = frames.iter().map(|frame| frame.body.len() + 64 + before.len()).sum();
    let mut out = BytesMut::with_capacity(size);
    for frame in frames {
        out.put_slice(format!("id: {}\ndata: {before}", frame.id).as_bytes());
        out.put_slice(&frame.body);
        out.put_slice(after.as_bytes());
        out.put_slice(b"\n\n");
    }
    out.freeze()
}

fn error_event(around: &Around, dialect: Dialect, error: &WireError) -> Bytes {
    Bytes::from(match around {
        Around::Rpc(id) => {
            let text = loggia_wire::jsonrpc::error_response(id, &refuse(error, dialect));
            format!("data: {text}\n\n")
        }
        Around::Nothing => format!("event: error\ndata: {}\n\n", status(error, dialect).body),
    })
}
