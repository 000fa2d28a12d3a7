//! Upgrades a request to a WebSocket. axum checks the headers; the socket is ours, because axum's has no timeout for a
//! message.

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

use super::message_timeout::{MessagePermits, MessageTimeout};
use super::socket::WebSocket;
use crate::http::BODY_LIMIT;

/// Small: every socket has both buffers, and they never shrink.
const READ_BUFFER: usize = 1024;
const WRITE_BUFFER: usize = 4 * 1024;

/// A request for a WebSocket.
pub(super) struct Upgrade {
    pending: OnUpgrade,
    key: HeaderValue,
    /// The client asks for the subprotocol of `attach`.
    pub(super) attaches: bool,
}

impl Upgrade {
    /// Fails with the response to send.
    pub(super) async fn of(parts: &mut Parts) -> Result<Self, Response> {
        // Cloned, because axum's extractor removes it.
        let pending = parts.extensions.get::<OnUpgrade>().cloned();
        let upgrade = WebSocketUpgrade::from_request_parts(parts, &()).await;
        let upgrade = upgrade.map_err(IntoResponse::into_response)?;
        let attaches = upgrade.protocols([SUBPROTOCOL]).selected_protocol().is_some();
        match (pending, parts.headers.remove(header::SEC_WEBSOCKET_KEY)) {
            (Some(pending), Some(key)) => Ok(Self { pending, key, attaches }),
            _ => Err(StatusCode::BAD_REQUEST.into_response()),
        }
    }

    /// Serves the socket after the answer is sent. A message may take `time` to arrive.
    pub(super) fn answer<F>(
        self,
        time: Duration,
        permits: Arc<MessagePermits>,
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
            let stream = MessageTimeout::new(TokioIo::new(upgraded), time, permits);
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
