//! One WebSocket, whatever is spoken on it: how it is heard, when its client counts as gone, and how it is closed.
//!
//! Who takes nothing is found out by the socket below (see `serve::socket`), as for everything else.

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

use super::whole::{Arrivals, NoRoom, Unfinished, Whole};
use crate::guard::{BytePermit, SMALL};

/// A socket, after its upgrade.
pub(in crate::http) type WebSocket = WebSocketStream<Whole<TokioIo<Upgraded>>>;

// Close codes of RFC 6455 and its registry.
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const NOT_TEXT_AT_ALL: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_LARGE: u16 = 1009;
const TRY_LATER: u16 = 1013;

/// How long the last word may wait for the client.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How a socket is closed.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) enum Close {
    /// The client has closed it, and gets its answer.
    Answered,
    /// With a code and a reason.
    With(u16, &'static str),
    /// Nobody would hear it.
    Silent,
}

impl Close {
    pub(in crate::http) const STOPPING: Self = Self::With(GOING_AWAY, "stopping");
    /// Large frames wait for other readers.
    pub(in crate::http) const NO_ROOM: Self =
        Self::With(TRY_LATER, "too much is being sent to others: come back with `after`");
    pub(in crate::http) const STOPPED: Self = Self::With(GOING_AWAY, "the session stopped");
    /// The client is nobody any more.
    pub(in crate::http) const TENURE_OVER: Self =
        Self::With(POLICY, "the token is over: come back with a new one");

    pub(in crate::http) async fn say(self, sink: &mut SplitSink<WebSocket, Message>) {
        let saying = async {
            match self {
                Self::Silent => Ok(()),
                // It lies there already, behind what was sent before.
                Self::Answered => sink.flush().await,
                Self::With(code, reason) => {
                    let reason = Utf8Bytes::from_static(reason);
                    sink.send(Message::Close(Some(CloseFrame { code: code.into(), reason }))).await
                }
            }
        };
        // The client may be gone already.
        let _ = timeout(LAST_WORD, saying).await;
    }

    /// What is said to a client whose frames can not be read any further.
    fn after(error: &tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(_) => Self::With(TOO_LARGE, "larger than 10 MiB"),
            tungstenite::Error::Utf8(_) => Self::With(NOT_TEXT_AT_ALL, "text must be UTF-8"),
            tungstenite::Error::Protocol(_) => {
                Self::With(PROTOCOL_ERROR, "not the WebSocket protocol")
            }
            tungstenite::Error::Io(error)
                if error.get_ref().is_some_and(|error| error.is::<Unfinished>()) =>
            {
                Self::With(POLICY, "the message was not complete in time")
            }
            tungstenite::Error::Io(error)
                if error.get_ref().is_some_and(|error| error.is::<NoRoom>()) =>
            {
                Self::With(TRY_LATER, "too many large messages arrive at a time: try again later")
            }
            _ => Self::Silent,
        }
    }
}

/// How much of a large text is written at a time: a socket keeps as much room as its largest frame needed.
const PIECE: usize = 64 * 1024;

/// Sends one text, of several parts; a large one in several frames.
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

/// When to ask a client whether it is there: a living one answers twice before it would count as gone.
pub(in crate::http) fn pings(silence: Duration) -> Interval {
    let mut pings = interval(silence * 2 / 5);
    // While it takes what is there it is not asked, and afterwards once.
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// When a client last took what had to wait for it. Who is still busy taking can not answer a ping that stands behind
/// that, and is not gone.
pub(in crate::http) struct Taking(watch::Sender<Option<Instant>>);

impl Taking {
    pub(in crate::http) fn new() -> Self {
        Self(watch::Sender::new(Some(Instant::now())))
    }

    /// Sends. What goes at once tells nothing: a socket takes some although nobody is there.
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

/// What a client says.
pub(in crate::http) struct Hearing<'a> {
    source: SplitStream<WebSocket>,
    silence: Duration,
    taking: &'a Taking,
    arrivals: Arc<Arrivals>,
}

impl<'a> Hearing<'a> {
    pub(in crate::http) fn new(
        source: SplitStream<WebSocket>,
        silence: Duration,
        taking: &'a Taking,
        arrivals: Arc<Arrivals>,
    ) -> Self {
        Self { source, silence, taking, arrivals }
    }

    /// The next message but for a close, with what a large one counts, or how it ends. A living client answers a ping
    /// at least.
    pub(in crate::http) async fn next(&mut self) -> Result<(Message, Option<BytePermit>), Close> {
        let mut heard = Instant::now();
        loop {
            match timeout_at(heard + self.silence, self.source.next()).await {
                Ok(Some(Ok(Message::Close(_)))) => return Err(Close::Answered),
                Ok(Some(Ok(message))) => {
                    let large = !message.is_ping() && !message.is_pong() && message.len() > SMALL;
                    let permit = if large { self.arrivals.take() } else { None };
                    return Ok((message, permit));
                }
                Ok(Some(Err(error))) => return Err(Close::after(&error)),
                Ok(None) => return Err(Close::Silent),
                Err(_) => match self.taking.last() {
                    last if last > heard => heard = last,
                    _ => return Err(Close::Silent),
                },
            }
        }
    }
}
