//! The beginning of an encrypted connection: who speaks TLS, who speaks HTTP in the clear, and who
//! says nothing.
//!
//! Nothing is set aside for a client before its first byte; then it takes one of a limited number of
//! handshakes, and all of it has one time. What is spoken afterwards is not known here.

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

/// What HTTP/1.1 is told.
const USE_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/json\r\ncontent-length: 116\r\nconnection: close\r\n\r\n\
    {\"error\":{\"code\":400,\"message\":\"This port speaks TLS: use https:// (wss:// for WebSockets).\",\
    \"reason\":\"tls-needed\"}}";

/// The same for HTTP/2: empty settings, then GOAWAY (no stream was begun, INADEQUATE_SECURITY) with the
/// sentence as its debug text.
const GO_AWAY: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x28\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c\
    This port speaks TLS: use https.";

pub(super) struct Handshakes {
    acceptor: TlsAcceptor,
    room: Arc<Semaphore>,
    time: Duration,
}

/// What a connection began with.
pub(super) enum Greeted {
    Encrypted(Box<TlsStream<Socket>>),
    InTheClear(Socket, Greeting),
    /// Silence, noise, or a handshake that failed.
    Nobody,
}

/// How somebody began who does not speak TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    Http1,
    Http2,
}

impl Greeting {
    /// Methods begin with letters; anything else is not HTTP.
    fn of(opening: &[u8]) -> Option<Self> {
        match opening {
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
        Self { acceptor: tls.acceptor(), room: Arc::new(Semaphore::new(most)), time }
    }

    pub(super) async fn greet(&self, socket: Socket) -> Greeted {
        timeout(self.time, self.begin(socket)).await.unwrap_or(Greeted::Nobody)
    }

    async fn begin(&self, socket: Socket) -> Greeted {
        let mut opening = [0; 4];
        let read = socket.opening(&mut opening).await.unwrap_or(0);
        let opening = opening.get(..read).unwrap_or_default();
        if opening.first() != Some(&HANDSHAKE) {
            return match Greeting::of(opening) {
                Some(greeting) => Greeted::InTheClear(socket, greeting),
                None => Greeted::Nobody,
            };
        }
        let Ok(_place) = self.room.acquire().await else { return Greeted::Nobody };
        match self.acceptor.accept(socket).await {
            Ok(stream) => Greeted::Encrypted(Box::new(stream)),
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                Greeted::Nobody
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_are_as_long_as_they_say() {
        let text = std::str::from_utf8(USE_HTTPS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["reason"], "tls-needed");
        let length = usize::from(GO_AWAY[11]);
        assert_eq!(GO_AWAY.len(), 9 + 9 + length, "two frames");
    }
}
