//! The start of a connection on a TLS port: a handshake, plain HTTP, or nothing.
//!
//! A client takes one of a limited number of handshake slots with its first byte, not before. One timeout covers all of
//! it. Knows nothing of the protocol inside TLS.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::socket::Socket;
use super::tls::Tls;

/// The first byte of every TLS connection: a record of the kind *handshake*.
const HANDSHAKE: u8 = 22;

/// Sent to a plain HTTP/1.1 client.
const USE_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/json\r\ncontent-length: 116\r\nconnection: close\r\n\r\n\
    {\"error\":{\"code\":400,\"message\":\"This port speaks TLS: use https:// (wss:// for WebSockets).\",\
    \"reason\":\"tls-needed\"}}";

/// Sent to a plain HTTP/2 client: empty settings, then GOAWAY (no stream, INADEQUATE_SECURITY) with the sentence as its
/// debug text.
const GO_AWAY: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x28\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c\
    This port speaks TLS: use https.";

pub(super) struct Handshakes {
    acceptor: TlsAcceptor,
    slots: Arc<Semaphore>,
    time: Duration,
}

pub(super) enum Accepted {
    Encrypted(Box<TlsStream<Socket>>),
    Plaintext(Socket, PlainHttp),
    /// No bytes in time, bytes of no known protocol, or a failed handshake.
    Failed,
}

/// The HTTP version of a client that does not speak TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainHttp {
    Http1,
    Http2,
}

impl PlainHttp {
    /// An HTTP/1.1 request begins with a letter.
    fn of(first: &[u8]) -> Option<Self> {
        match first {
            b"PRI " => Some(Self::Http2),
            [first, ..] if first.is_ascii_alphabetic() => Some(Self::Http1),
            _ => None,
        }
    }

    pub(super) fn answer(self) -> &'static [u8] {
        match self {
            Self::Http1 => USE_HTTPS,
            Self::Http2 => GO_AWAY,
        }
    }
}

impl Handshakes {
    pub(super) fn new(tls: &Tls, most: usize, time: Duration) -> Self {
        Self { acceptor: tls.acceptor(), slots: Arc::new(Semaphore::new(most)), time }
    }

    pub(super) async fn accept(&self, socket: Socket) -> Accepted {
        timeout(self.time, self.handshake(socket)).await.unwrap_or(Accepted::Failed)
    }

    async fn handshake(&self, socket: Socket) -> Accepted {
        let mut first = [0; 4];
        let read = socket.peek(&mut first).await.unwrap_or(0);
        let first = first.get(..read).unwrap_or_default();
        if first.first() != Some(&HANDSHAKE) {
            return match PlainHttp::of(first) {
                Some(http) => Accepted::Plaintext(socket, http),
                None => Accepted::Failed,
            };
        }
        let Ok(_slot) = self.slots.acquire().await else { return Accepted::Failed };
        match self.acceptor.accept(socket).await {
            Ok(stream) => Accepted::Encrypted(Box::new(stream)),
            Err(error) => {
                tracing::debug!(%error, "TLS handshake failed");
                Accepted::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_declare_their_length() {
        let text = std::str::from_utf8(USE_HTTPS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["reason"], "tls-needed");
        let length = usize::from(GO_AWAY[11]);
        assert_eq!(GO_AWAY.len(), 9 + 9 + length, "two frames");
    }
}
