//! Limits on WebSocket messages that are not complete: each has a timeout, whatever else the client sends meanwhile, and the
//! bytes of a large one are counted while it arrives.
//!
//! tungstenite returns complete messages and does not tell whether one has begun, so [`MessageTimeout`] watches the bytes
//! below it: where messages begin and end, by tungstenite's own [`FrameHeader`]. Everything else of RFC 6455, such as
//! masks, texts, errors and the close handshake, is left to tungstenite. Its `FrameSocket` is no replacement: it returns
//! complete frames, which may be as large as a message, and does not join them.
//!
//! [`MessageTimeout`] passes large frames on as several small ones, because tungstenite keeps a buffer as large as the
//! largest frame for as long as the socket is open.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::guard::{BytePermit, ByteShares, SMALL};
use crate::http::BODY_LIMIT;

/// If the reader pauses for longer than this, the pause does not count against the client.
const READER_PAUSE: Duration = Duration::from_secs(1);

const READ_SIZE: usize = 1024;

/// Larger frames are passed on in pieces of this size, a multiple of the mask's.
const PIECE: u64 = 32 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the message was not complete in time")]
pub(super) struct Unfinished;

#[derive(Debug, thiserror::Error)]
#[error("too many large messages are in memory")]
pub(super) struct TooManyBytes;

/// Counts the large messages of one socket while they arrive.
pub(in crate::http) struct MessagePermits {
    bodies: ByteShares,
    principal: Arc<str>,
    /// Of the message that is complete, until its reader takes it.
    complete: Mutex<Option<BytePermit>>,
}

impl MessagePermits {
    pub(in crate::http) fn new(bodies: ByteShares, principal: Arc<str>) -> Arc<Self> {
        Arc::new(Self { bodies, principal, complete: Mutex::default() })
    }

    /// The permit of the last message, if it is large.
    pub(super) fn take(&self) -> Option<BytePermit> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, permit: BytePermit) {
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }

    fn acquire(self: Arc<Self>, bytes: usize) -> BoxFuture<'static, Option<BytePermit>> {
        Box::pin(async move { self.bodies.acquire(&self.principal, bytes).await })
    }
}

pub(in crate::http) struct MessageTimeout<S> {
    stream: S,
    limit: Duration,
    frames: Frames,
    /// While a message is incomplete.
    timer: Option<Pin<Box<Sleep>>>,
    /// When bytes were last passed on: until the next read, the client is not waited for.
    passed_on: Option<Instant>,
    permits: Arc<MessagePermits>,
    /// Of the incomplete message, if it is large.
    permit: Option<BytePermit>,
    /// Until the permit is there, nothing more is read.
    acquiring: Option<BoxFuture<'static, Option<BytePermit>>>,
}

impl<S> MessageTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration, permits: Arc<MessagePermits>) -> Self {
        let (timer, passed_on, permit, acquiring) = (None, None, None, None);
        let frames = Frames::default();
        Self { stream, limit, frames, timer, passed_on, permits, permit, acquiring }
    }

    /// Adds a long pause of the reader to the deadline.
    fn extend_deadline(&mut self) {
        if let (Some(since), Some(timer)) = (self.passed_on.take(), &mut self.timer)
            && since.elapsed() >= READER_PAUSE
        {
            let deadline = timer.deadline() + since.elapsed();
            timer.as_mut().reset(deadline);
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        let completed = self.frames.scan(bytes);
        if !self.frames.are_incomplete() {
            self.timer = None;
        } else if completed || self.timer.is_none() {
            self.timer = Some(Box::pin(sleep(self.limit)));
        }
        if completed && let Some(permit) = self.permit.take() {
            self.permits.put(permit);
        }
        let message = self.frames.message;
        if self.permit.is_none() && self.frames.are_incomplete() && message > SMALL {
            // The size of a message in several frames is not known before its last frame.
            let most = if self.frames.is_last { message } else { BODY_LIMIT };
            self.acquiring = Some(self.permits.clone().acquire(most.min(BODY_LIMIT)));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MessageTimeout<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.frames.pass_on(buffer) {
            return Poll::Ready(Ok(()));
        }
        if let Some(acquiring) = &mut this.acquiring {
            let permit = ready!(acquiring.as_mut().poll(context));
            this.acquiring = None;
            this.permit = Some(permit.ok_or_else(|| io::Error::other(TooManyBytes))?);
        }
        this.extend_deadline();
        let read = loop {
            let mut space = [0; READ_SIZE];
            let mut bytes = ReadBuf::new(&mut space);
            let read = Pin::new(&mut this.stream).poll_read(context, &mut bytes);
            this.note(bytes.filled());
            // A frame header is passed on when all of it is there.
            if this.frames.pass_on(buffer) || read.is_pending() || bytes.filled().is_empty() {
                break read;
            }
        };
        // Checked also when bytes came: an endless sequence of frames is not a message.
        if let Some(timer) = &mut this.timer
            && timer.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::Error::other(Unfinished)));
        }
        if this.timer.is_some() && read.is_ready() {
            this.passed_on = Some(Instant::now());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MessageTimeout<S> {
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

/// Where messages begin and end in the bytes of a client.
#[derive(Default)]
struct Frames {
    /// The bytes of a header that is not complete.
    head: Vec<u8>,
    current: Option<Current>,
    /// The size of the message's frames so far.
    message: usize,
    /// Whether the current frame is the last one of its message.
    is_last: bool,
    /// A message has begun, and its last frame has not ended.
    is_open: bool,
    /// These bytes are not frames. tungstenite reports the error.
    is_broken: bool,
    /// Bytes to pass on, and how many of them were.
    out: Vec<u8>,
    passed: usize,
}

struct Current {
    header: FrameHeader,
    /// Bytes that are missing of the frame, and of the piece in which it is passed on.
    missing: u64,
    piece: u64,
}

impl Frames {
    fn are_incomplete(&self) -> bool {
        self.is_open || self.current.is_some() || !self.head.is_empty()
    }

    /// Whether a message, or a control frame between messages, became complete in these bytes.
    fn scan(&mut self, mut bytes: &[u8]) -> bool {
        let mut completed = false;
        while !bytes.is_empty() && !self.is_broken {
            bytes = match &mut self.current {
                None => self.scan_header(bytes),
                Some(current) => {
                    let here = usize::try_from(current.piece).unwrap_or(usize::MAX);
                    let (here, rest) = bytes.split_at(here.min(bytes.len()));
                    self.out.extend_from_slice(here);
                    current.piece -= here.len() as u64;
                    current.missing -= here.len() as u64;
                    rest
                }
            };
            completed |= self.end_piece();
        }
        self.out.extend_from_slice(bytes);
        completed
    }

    fn scan_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some((byte, rest)) = bytes.split_first() else { return bytes };
        self.head.push(*byte);
        match FrameHeader::parse(&mut Cursor::new(&self.head)) {
            Ok(None) => {}
            Ok(Some((header, length))) => {
                self.head.clear();
                self.begin_frame(header, length);
            }
            Err(_) => {
                self.is_broken = true;
                self.out.append(&mut self.head);
            }
        }
        rest
    }

    fn begin_frame(&mut self, header: FrameHeader, length: u64) {
        self.is_last = header.is_final;
        if let OpCode::Data(_) = header.opcode {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            self.message = if self.is_open { self.message.saturating_add(length) } else { length };
        }
        self.begin_piece(header, length);
    }

    /// Passes on a header for the next piece of a frame. Control frames are small, and tungstenite rejects frames above the
    /// limit by their header.
    fn begin_piece(&mut self, header: FrameHeader, missing: u64) {
        let piece = if missing > BODY_LIMIT as u64 { missing } else { missing.min(PIECE) };
        let is_final = header.is_final && piece == missing;
        // Writing to a vector cannot fail.
        let _ = FrameHeader { is_final, ..header.clone() }.format(piece, &mut self.out);
        self.current = Some(Current { header, missing, piece });
    }

    /// Ends the current piece if all of it is there. Whether that completed a message or a control frame between messages.
    fn end_piece(&mut self) -> bool {
        let Some(Current { mut header, missing, .. }) =
            self.current.take_if(|current| current.piece == 0)
        else {
            return false;
        };
        if missing > 0 {
            header.opcode = OpCode::Data(Data::Continue);
            self.begin_piece(header, missing);
            return false;
        }
        if let OpCode::Data(_) = header.opcode {
            self.is_open = !header.is_final;
        }
        !self.is_open
    }

    /// Whether there were bytes to pass on.
    fn pass_on(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let left = self.out.get(self.passed..).unwrap_or_default();
        let here = left.get(..left.len().min(buffer.remaining())).unwrap_or_default();
        buffer.put_slice(here);
        self.passed += here.len();
        let some = !here.is_empty();
        if self.passed == self.out.len() {
            // An idle socket keeps no buffer.
            (self.out, self.passed) = (Vec::new(), 0);
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{advance, timeout};

    use super::*;

    const TIME: Duration = Duration::from_secs(75);

    /// Pauses of the reader do not count against the client.
    #[tokio::test(start_paused = true)]
    async fn only_the_client_has_a_deadline() {
        let (mut client, server) = duplex(1 << 10);
        let mut server = MessageTimeout::new(
            server,
            TIME,
            MessagePermits::new(ByteShares::default(), "ann".into()),
        );
        let mut piece = [0; 10];
        let message = frame(0x81, 100);
        client.write_all(&message[..50]).await.unwrap();
        server.read_exact(&mut piece).await.unwrap();
        // The reader pauses: the client keeps all of its time.
        advance(TIME * 2).await;
        server.read_exact(&mut piece).await.unwrap();
        assert!(timeout(TIME / 2, server.read_exact(&mut [0; 100])).await.is_err(), "it may come");
        client.write_all(&message[50..]).await.unwrap();
        server.read_exact(&mut [0; 56]).await.unwrap();
        // No deadline between messages; inside of one, the limit.
        assert!(timeout(TIME * 2, server.read(&mut piece)).await.is_err());
        client.write_all(&[0x01]).await.unwrap();
        let begun = Instant::now();
        let error = server.read(&mut piece).await.unwrap_err();
        assert!(error.get_ref().unwrap().is::<Unfinished>(), "{error}");
        assert!(begun.elapsed() >= TIME && begun.elapsed() < TIME * 2, "{:?}", begun.elapsed());
    }

    /// A message of endless fragments times out, however fast they come.
    #[tokio::test(start_paused = true)]
    async fn endless_fragments_time_out() {
        let (mut client, server) = duplex(1 << 10);
        let mut server = MessageTimeout::new(
            server,
            TIME,
            MessagePermits::new(ByteShares::default(), "ann".into()),
        );
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

    /// Wherever the bytes are cut, a message is incomplete exactly between its ends.
    #[test]
    fn message_ends_are_found() {
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
                let completed = frames.scan(piece);
                let passed = ends.iter().any(|end| (place + 1..=place + piece.len()).contains(end));
                place += piece.len();
                assert_eq!(completed, passed, "at {place} in steps of {step}");
                assert_eq!(frames.are_incomplete(), !ends.contains(&place), "at {place} by {step}");
            }
            // Passed on in pieces, the messages are the same.
            let mut whole = Frames::default();
            let out = std::mem::take(&mut frames.out);
            assert_eq!(
                out.len(),
                bytes.len() + 2 * 8 - 6,
                "one frame became three, in steps of {step}"
            );
            let ended = out.iter().filter(|byte| whole.scan(std::slice::from_ref(byte))).count();
            assert_eq!(ended, messages.len(), "in steps of {step}");
            assert!(!whole.are_incomplete());
            assert_eq!(whole.out, out, "no piece is too large");
        }
    }
}
