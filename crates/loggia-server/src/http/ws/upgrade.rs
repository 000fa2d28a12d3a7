//! How a request becomes a socket. The headers are read by axum; the socket is not its own, because that lets a message
//! take for ever.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use loggia_wire::attach::SUBPROTOCOL;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::line::WebSocket;
use super::whole::{Arrivals, Whole};
use crate::http::BODY_LIMIT;

/// A thousand sockets have a thousand of each, which never shrink; most clients say little, and get
/// as much at a time as they can read in a moment.
const READ_BUFFER: usize = 1024;
const WRITE_BUFFER: usize = 4 * 1024;
/// A request that may become a socket.
pub(super) struct Upgrade {
    pending: OnUpgrade,
    key: HeaderValue,
    /// The client wants the log itself.
    pub(super) attaches: bool,
}

impl Upgrade {
    /// Or what is wrong with it.
    pub(super) async fn of(parts: &mut Parts) -> Result<Self, Response> {
        // Who reads the headers takes it out.
        let pending = parts.extensions.get::<OnUpgrade>().cloned();
        let upgrade = WebSocketUpgrade::from_request_parts(parts, &()).await;
        let upgrade = upgrade.map_err(IntoResponse::into_response)?;
        let attaches = upgrade.protocols([SUBPROTOCOL]).selected_protocol().is_some();
        match (pending, parts.headers.remove(header::SEC_WEBSOCKET_KEY)) {
            (Some(pending), Some(key)) => Ok(Self { pending, key, attaches }),
            _ => Err(StatusCode::BAD_REQUEST.into_response()),
        }
    }

    /// Serves the socket when the answer is sent. `time` is what a message may take to arrive; large ones
    /// are counted.
    pub(super) fn answer<F>(
        self,
        time: Duration,
        arrivals: Arc<Arrivals>,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { pending, key, attaches } = self;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(BODY_LIMIT))
            .max_frame_size(Some(BODY_LIMIT));
        tokio::spawn(async move {
            // The client may be gone already.
            let Ok(upgraded) = pending.await else { return };
            let stream = Whole::new(TokioIo::new(upgraded), time, arrivals);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
            serve(socket).await;
        });
        let headers = [
            (header::CONNECTION, "upgrade"),
            (header::UPGRADE, "websocket"),
            (header::SEC_WEBSOCKET_ACCEPT, &derive_accept_key(key.as_bytes())),
        ];
        let mut response =
            (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response();
        if attaches {
            let protocol = HeaderValue::from_static(SUBPROTOCOL);
            response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}
