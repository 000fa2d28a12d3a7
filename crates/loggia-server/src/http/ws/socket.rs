//! One WebSocket of any subprotocol: reading messages, detecting a client that is gone, and closing.
//!
//! A client that does not read is noticed by the TCP socket (see `serve::socket`), as on all connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::poll_immediate;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::message_timeout::{MessagePermits, MessageTimeout, TooManyBytes, Unfinished};
use crate::guard::{BytePermit, SMALL};

pub(in crate::http) type WebSocket = WebSocketStream<MessageTimeout<TokioIo<Upgraded>>>;

// Close codes of RFC 6455 and its registry.
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const INVALID_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_LARGE: u16 = 1009;
const TRY_LATER: u16 = 1013;

/// How long the close frame may wait for the client.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How a socket is closed.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) enum Close {
    /// Answer the client's close frame.
    Answer,
    /// With a code and a reason.
    With(u16, &'static str),
    /// Without a close frame: the client is gone.
    Silent,
}

impl Close {
    pub(in crate::http) const STOPPING: Self = Self::With(GOING_AWAY, "stopping");
    /// Large events could not be counted in time.
    pub(in crate::http) const BUSY: Self =
        Self::With(TRY_LATER, "too many large events are being sent: reconnect with `after`");
    pub(in crate::http) const STOPPED: Self = Self::With(GOING_AWAY, "the session stopped");
    pub(in crate::http) const CREDENTIAL_EXPIRED: Self =
        Self::With(POLICY, "the token has expired: reconnect with a new one");

    pub(in crate::http) async fn send(self, sink: &mut SplitSink<WebSocket, Message>) {
        let sending = async {
            match self {
                Self::Silent => Ok(()),
                // tungstenite has queued the answer.
                Self::Answer => sink.flush().await,
                Self::With(code, reason) => {
                    let reason = Utf8Bytes::from_static(reason);
                    sink.send(Message::Close(Some(CloseFrame { code: code.into(), reason }))).await
                }
            }
        };
        // The client may be gone already.
        let _ = timeout(CLOSE_TIMEOUT, sending).await;
    }

    /// The close for a client whose frames cannot be read.
    fn after(error: &tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(_) => Self::With(TOO_LARGE, "larger than 10 MiB"),
            tungstenite::Error::Utf8(_) => Self::With(INVALID_TEXT, "text must be UTF-8"),
            tungstenite::Error::Protocol(_) => {
                Self::With(PROTOCOL_ERROR, "not the WebSocket protocol")
            }
            tungstenite::Error::Io(error)
                if error.get_ref().is_some_and(|error| error.is::<Unfinished>()) =>
            {
                Self::With(POLICY, "the message was not complete in time")
            }
            tungstenite::Error::Io(error)
                if error.get_ref().is_some_and(|error| error.is::<TooManyBytes>()) =>
            {
                Self::With(TRY_LATER, "too many large messages arrive at a time: try again later")
            }
            _ => Self::Silent,
        }
    }
}

/// The size of a frame of a large text: tungstenite keeps a buffer as large as the largest frame.
const PIECE: usize = 64 * 1024;

/// Queues one text, given in parts; a large one becomes several frames.
pub(in crate::http) async fn feed(
    sink: &mut SplitSink<WebSocket, Message>,
    parts: &[Bytes],
) -> Result<(), tungstenite::Error> {
    let (mut kind, mut left) = (Data::Text, parts.iter().map(Bytes::len).sum::<usize>());
    for part in parts {
        let mut part = part.clone();
        while !part.is_empty() {
            let piece = part.split_to(part.len().min(PIECE));
            left -= piece.len();
            let frame = Frame::message(piece, OpCode::Data(kind), left == 0);
            sink.feed(Message::Frame(frame)).await?;
            kind = Data::Continue;
        }
    }
    Ok(())
}

/// The times of pings. A live client answers two of them before its silence ends the connection.
pub(in crate::http) fn pings(silence: Duration) -> Interval {
    let mut pings = interval(silence * 2 / 5);
    // No pings while a write waits, and one afterwards.
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// When a client last read bytes that had to wait for it. A client that still reads cannot answer a ping that is queued
/// behind them, and is not gone.
pub(in crate::http) struct WriteProgress(watch::Sender<Option<Instant>>);

impl WriteProgress {
    pub(in crate::http) fn new() -> Self {
        Self(watch::Sender::new(Some(Instant::now())))
    }

    /// Sends. A write that completes at once proves nothing: the kernel buffers bytes for a client that is gone.
    pub(in crate::http) async fn during<T>(&self, sending: impl Future<Output = T>) -> T {
        let mut sending = std::pin::pin!(sending);
        if let Some(sent) = poll_immediate(&mut sending).await {
            return sent;
        }
        self.0.send_replace(None);
        let sent = sending.await;
        self.0.send_replace(Some(Instant::now()));
        sent
    }

    fn last(&self) -> Instant {
        self.0.borrow().unwrap_or_else(Instant::now)
    }
}

/// Reads the messages of a client.
pub(in crate::http) struct MessageReader<'a> {
    source: SplitStream<WebSocket>,
    silence: Duration,
    progress: &'a WriteProgress,
    permits: Arc<MessagePermits>,
}

impl<'a> MessageReader<'a> {
    pub(in crate::http) fn new(
        source: SplitStream<WebSocket>,
        silence: Duration,
        progress: &'a WriteProgress,
        permits: Arc<MessagePermits>,
    ) -> Self {
        Self { source, silence, progress, permits }
    }

    /// The next message with its permit if it is large, or how to close the socket. A live client at least answers pings.
    pub(in crate::http) async fn next(&mut self) -> Result<(Message, Option<BytePermit>), Close> {
        let mut last_heard = Instant::now();
        loop {
            match timeout_at(last_heard + self.silence, self.source.next()).await {
                Ok(Some(Ok(Message::Close(_)))) => return Err(Close::Answer),
                Ok(Some(Ok(message))) => {
                    let large = !message.is_ping() && !message.is_pong() && message.len() > SMALL;
                    let permit = if large { self.permits.take() } else { None };
                    return Ok((message, permit));
                }
                Ok(Some(Err(error))) => return Err(Close::after(&error)),
                Ok(None) => return Err(Close::Silent),
                Err(_) => match self.progress.last() {
                    last if last > last_heard => last_heard = last,
                    _ => return Err(Close::Silent),
                },
            }
        }
    }
}
