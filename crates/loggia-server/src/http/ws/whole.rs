//! A stream of bytes on which every message of the WebSocket protocol has to be complete in time, whatever else comes in
//! between. Sees where frames begin and end, and nothing of what is in them.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::guard::{BytePermit, ByteShares, SMALL};
use crate::http::BODY_LIMIT;

/// Who asks for more only after this long was busy with something else.
const A_WHILE: Duration = Duration::from_secs(1);

/// A message took too long.
#[derive(Debug, thiserror::Error)]
#[error("the message was not complete in time")]
pub(super) struct Unfinished;

/// There was no room for a large message for too long.
#[derive(Debug, thiserror::Error)]
#[error("there is no room for a large message")]
pub(super) struct NoRoom;

/// Where the large messages of one socket are counted while they arrive.
pub(in crate::http) struct Arrivals {
    bodies: ByteShares,
    principal: Arc<str>,
    /// Of the message that is complete, until its reader takes it. A lock, not a task: held to put it in or to take it out.
    complete: Mutex<Option<BytePermit>>,
}

impl Arrivals {
    pub(in crate::http) fn new(bodies: ByteShares, principal: Arc<str>) -> Arc<Self> {
        Arc::new(Self { bodies, principal, complete: Mutex::default() })
    }

    /// What the message counts that was read last, if it is large.
    pub(super) fn take(&self) -> Option<BytePermit> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, permit: BytePermit) {
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }

    fn wait(self: Arc<Self>, bytes: usize) -> BoxFuture<'static, Option<BytePermit>> {
        Box::pin(async move { self.bodies.acquire(&self.principal, bytes).await })
    }
}

pub(in crate::http) struct Whole<S> {
    stream: S,
    limit: Duration,
    frames: Frames,
    /// While a message is under way.
    timer: Option<Pin<Box<Sleep>>>,
    /// Since when it is not the client that is waited for, but who reads.
    handed_over: Option<Instant>,
    arrivals: Arc<Arrivals>,
    /// Of the message that is under way, if it is large.
    permit: Option<BytePermit>,
    /// Until there is room for it nothing more is read.
    waiting: Option<BoxFuture<'static, Option<BytePermit>>>,
}

impl<S> Whole<S> {
    pub(super) fn new(stream: S, limit: Duration, arrivals: Arc<Arrivals>) -> Self {
        let (timer, handed_over, permit, waiting) = (None, None, None, None);
        let frames = Frames::default();
        Self { stream, limit, frames, timer, handed_over, arrivals, permit, waiting }
    }

    /// The time in which nobody has read is not the client's.
    fn read_on(&mut self) {
        if let (Some(since), Some(timer)) = (self.handed_over.take(), &mut self.timer)
            && since.elapsed() >= A_WHILE
        {
            let deadline = timer.deadline() + since.elapsed();
            timer.as_mut().reset(deadline);
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        let rested = self.frames.take(bytes);
        if !self.frames.are_under_way() {
            self.timer = None;
        } else if rested || self.timer.is_none() {
            self.timer = Some(Box::pin(sleep(self.limit)));
        }
        if rested && let Some(permit) = self.permit.take() {
            self.arrivals.put(permit);
        }
        if self.permit.is_none() && self.frames.are_under_way() && self.frames.message > SMALL {
            // How large a message in several frames becomes is not known yet.
            let most = if self.frames.last { self.frames.message } else { BODY_LIMIT };
            self.waiting = Some(self.arrivals.clone().wait(most.min(BODY_LIMIT)));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Whole<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(waiting) = &mut this.waiting {
            let room = ready!(waiting.as_mut().poll(context));
            this.waiting = None;
            this.permit = Some(room.ok_or_else(|| io::Error::other(NoRoom))?);
        }
        this.read_on();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_ready() {
            this.note(buffer.filled().get(before..).unwrap_or_default());
        }
        // Looked at also when something came: pieces without end are no message.
        if let Some(timer) = &mut this.timer
            && timer.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::Error::other(Unfinished)));
        }
        if this.timer.is_some() && read.is_ready() {
            this.handed_over = Some(Instant::now());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Whole<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The frames of RFC 6455 §5.2, as far as it takes to see where a message ends.
#[derive(Default)]
struct Frames {
    part: Part,
    last: bool,
    control: bool,
    masked: bool,
    /// Of the content, as far as it is known, and not yet here.
    length: u64,
    /// What the frames of the message hold that have begun.
    message: usize,
    /// A message has begun whose last frame has not.
    continues: bool,
}

/// What comes next, and how many bytes of it.
#[derive(Default, PartialEq, Eq)]
enum Part {
    #[default]
    Kind,
    ShortLength,
    LongLength(u8),
    Mask(u8),
    Content,
}

impl Frames {
    fn are_under_way(&self) -> bool {
        self.continues || self.part != Part::Kind
    }

    /// Whether a message, or a frame between two of them, was complete somewhere in these bytes.
    fn take(&mut self, mut bytes: &[u8]) -> bool {
        let mut rested = false;
        while let Some((&byte, mut rest)) = bytes.split_first() {
            match self.part {
                Part::Kind => {
                    (self.last, self.control) = (byte & 0x80 != 0, byte & 0x08 != 0);
                    self.part = Part::ShortLength;
                }
                Part::ShortLength => {
                    self.masked = byte & 0x80 != 0;
                    self.length = 0;
                    self.part = match byte & 0x7f {
                        126 => Part::LongLength(2),
                        127 => Part::LongLength(8),
                        short => {
                            self.length = short.into();
                            self.after_length()
                        }
                    };
                }
                Part::LongLength(left) => {
                    self.length = self.length << 8 | u64::from(byte);
                    self.part =
                        if left > 1 { Part::LongLength(left - 1) } else { self.after_length() };
                }
                Part::Mask(left) => {
                    self.part = if left > 1 { Part::Mask(left - 1) } else { Part::Content };
                }
                Part::Content => {
                    let here = bytes.len().min(usize::try_from(self.length).unwrap_or(usize::MAX));
                    rest = bytes.get(here..).unwrap_or_default();
                    self.length -= u64::try_from(here).unwrap_or(self.length);
                }
            }
            bytes = rest;
            if self.part == Part::Content && self.length == 0 {
                self.part = Part::Kind;
                self.continues = if self.control { self.continues } else { !self.last };
                rested |= !self.continues;
            }
        }
        rested
    }

    /// The length of a frame is known.
    fn after_length(&mut self) -> Part {
        if !self.control {
            let length = usize::try_from(self.length).unwrap_or(usize::MAX);
            self.message =
                if self.continues { self.message.saturating_add(length) } else { length };
        }
        if self.masked { Part::Mask(4) } else { Part::Content }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{advance, timeout};

    use super::*;

    const TIME: Duration = Duration::from_secs(75);

    /// A message has as long as it takes to read it, and no longer than its time to come.
    #[tokio::test(start_paused = true)]
    async fn only_the_client_is_hurried() {
        let (mut client, server) = duplex(1 << 10);
        let mut server =
            Whole::new(server, TIME, Arrivals::new(ByteShares::default(), "ann".into()));
        let mut piece = [0; 10];
        let message = frame(0x81, 100);
        client.write_all(&message[..50]).await.unwrap();
        server.read_exact(&mut piece).await.unwrap();
        // Whoever reads has something else to do; then there is still all the time.
        advance(TIME * 2).await;
        server.read_exact(&mut piece).await.unwrap();
        assert!(timeout(TIME / 2, server.read_exact(&mut [0; 100])).await.is_err(), "it may come");
        client.write_all(&message[50..]).await.unwrap();
        server.read_exact(&mut [0; 56]).await.unwrap();
        // Between messages nothing is waited for; in one that stays away, for its time.
        assert!(timeout(TIME * 2, server.read(&mut piece)).await.is_err());
        client.write_all(&[0x01]).await.unwrap();
        let begun = Instant::now();
        server.read_exact(&mut piece[..1]).await.unwrap();
        let error = server.read(&mut piece).await.unwrap_err();
        assert!(error.get_ref().unwrap().is::<Unfinished>(), "{error}");
        assert!(begun.elapsed() >= TIME && begun.elapsed() < TIME * 2, "{:?}", begun.elapsed());
    }

    /// Pieces without end are no message, however fast they come.
    #[tokio::test(start_paused = true)]
    async fn pieces_without_end_have_their_time() {
        let (mut client, server) = duplex(1 << 10);
        let mut server =
            Whole::new(server, TIME, Arrivals::new(ByteShares::default(), "ann".into()));
        let piece = frame(0x00, 0);
        client.write_all(&frame(0x01, 0)).await.unwrap();
        let mut pieces = 0;
        let read = loop {
            client.write_all(&piece).await.unwrap();
            advance(Duration::from_millis(900)).await;
            match server.read(&mut [0; 64]).await {
                Ok(_) => pieces += 1,
                Err(error) => break error,
            }
        };
        assert!(read.get_ref().unwrap().is::<Unfinished>(), "{read}");
        assert!((80..90).contains(&pieces), "{pieces}");
    }

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let head = match length {
            0..126 => vec![kind, 0x80 | u8::try_from(length).unwrap()],
            126..65_536 => {
                [&[kind, 0xfe][..], &u16::try_from(length).unwrap().to_be_bytes()].concat()
            }
            _ => [&[kind, 0xff][..], &u64::try_from(length).unwrap().to_be_bytes()].concat(),
        };
        [head, vec![1, 2, 3, 4], vec![0x81; length]].concat()
    }

    /// Cut anywhere, a message is under way exactly between its ends.
    #[test]
    fn it_is_known_where_messages_end() {
        let (text, first, more, last, pong) = (0x81, 0x01, 0x00, 0x80, 0x8a);
        let messages: &[&[(u8, usize)]] = &[
            &[(text, 0)],
            &[(text, 5)],
            &[(pong, 0)],
            &[(pong, 125)],
            &[(text, 125)],
            &[(text, 126)],
            &[(text, 300)],
            &[(text, 70_000)],
            &[(first, 0), (last, 0)],
            &[(first, 3), (more, 0), (pong, 2), (more, 200), (pong, 0), (last, 7)],
            &[(text, 1)],
        ];
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for message in messages {
            bytes.extend(message.iter().flat_map(|(kind, length)| frame(*kind, *length)));
            ends.push(bytes.len());
        }
        for step in [1, 2, 3, 7, 100, 1_000, bytes.len()] {
            let (mut frames, mut place) = (Frames::default(), 0);
            for piece in bytes.chunks(step) {
                let rested = frames.take(piece);
                let passed = ends.iter().any(|end| (place + 1..=place + piece.len()).contains(end));
                place += piece.len();
                assert_eq!(rested, passed, "at {place} in steps of {step}");
                assert_eq!(frames.are_under_way(), !ends.contains(&place), "at {place} by {step}");
            }
        }
    }
}
