//! A stream of bytes on which every message of the WebSocket protocol has to be complete in time, whatever else comes in
//! between. Sees where frames begin and end, and nothing of what is in them.
//!
//! Large messages are counted while they arrive, and their frames are handed on in pieces: who reads them keeps as much
//! room as the largest frame needed, for as long as the socket is there.

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

/// What is read at once.
const READ: usize = 1024;

/// Frames that are larger are handed on in pieces of this size, a multiple of the mask's.
const PIECE: usize = 32 * 1024;

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
        if this.frames.hand_on(buffer) {
            return Poll::Ready(Ok(()));
        }
        if let Some(waiting) = &mut this.waiting {
            let room = ready!(waiting.as_mut().poll(context));
            this.waiting = None;
            this.permit = Some(room.ok_or_else(|| io::Error::other(NoRoom))?);
        }
        this.read_on();
        let read = loop {
            let mut space = [0; READ];
            let mut bytes = ReadBuf::new(&mut space);
            let read = Pin::new(&mut this.stream).poll_read(context, &mut bytes);
            this.note(bytes.filled());
            // The beginning of a frame is handed on when all of it is there.
            if this.frames.hand_on(buffer) || read.is_pending() || bytes.filled().is_empty() {
                break read;
            }
        };
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
    /// What is here of how the frame begins.
    head: Vec<u8>,
    /// What is left of the piece in which a large frame is handed on.
    piece: Option<usize>,
    /// What is to be handed on, and how much of it was.
    out: Vec<u8>,
    given: usize,
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
            if self.part != Part::Content {
                self.head.push(byte);
            }
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
                    let here = self.piece.map_or(here, |piece| here.min(piece));
                    let (content, after) = bytes.split_at(here);
                    rest = after;
                    self.out.extend_from_slice(content);
                    self.length -= u64::try_from(here).unwrap_or(self.length);
                    self.piece = self.piece.map(|piece| piece - here);
                    if self.piece == Some(0) && self.length > 0 {
                        self.begin_piece(0);
                    }
                }
            }
            bytes = rest;
            if self.part == Part::Content && !self.head.is_empty() && self.piece.is_none() {
                self.begin();
            }
            if self.part == Part::Content && self.length == 0 {
                self.part = Part::Kind;
                self.piece = None;
                self.head.clear();
                self.continues = if self.control { self.continues } else { !self.last };
                rested |= !self.continues;
            }
        }
        rested
    }

    /// All of how a frame begins is here.
    fn begin(&mut self) {
        let large = PIECE as u64 + 1..=BODY_LIMIT as u64;
        if self.control || !large.contains(&self.length) {
            self.out.append(&mut self.head);
        } else {
            self.begin_piece(self.head.first().map_or(0, |kind| kind & 0x7f));
        }
    }

    /// The next piece of a large frame is a frame by itself.
    fn begin_piece(&mut self, kind: u8) {
        let length = usize::try_from(self.length).unwrap_or(PIECE).min(PIECE);
        let last = self.last && self.length == length as u64;
        let masked = if self.masked { 0x80 } else { 0 };
        self.out.push(kind | if last { 0x80 } else { 0 });
        match u8::try_from(length) {
            Ok(short @ 0..126) => self.out.push(masked | short),
            _ => {
                self.out.push(masked | 126);
                self.out.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
            }
        }
        if let (true, Some(mask)) = (self.masked, self.head.last_chunk::<4>()) {
            self.out.extend(mask);
        }
        self.piece = Some(length);
    }

    /// Whether there was something to hand on.
    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let left = self.out.get(self.given..).unwrap_or_default();
        let here = left.get(..left.len().min(buffer.remaining())).unwrap_or_default();
        buffer.put_slice(here);
        self.given += here.len();
        let some = !here.is_empty();
        if self.given == self.out.len() {
            // Idle sockets keep nothing.
            (self.out, self.given) = (Vec::new(), 0);
        }
        some
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
            // Handed on in pieces, it is the same.
            let mut whole = Frames::default();
            let out = std::mem::take(&mut frames.out);
            assert_eq!(
                out.len(),
                bytes.len() + 2 * 8 - 6,
                "one frame became three, in steps of {step}"
            );
            let ended = out.iter().filter(|byte| whole.take(std::slice::from_ref(byte))).count();
            assert_eq!(ended, messages.len(), "in steps of {step}");
            assert!(!whole.are_under_way());
            assert_eq!(whole.out, out, "no piece is too large");
        }
    }
}
