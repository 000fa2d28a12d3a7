//! Time limits of a connection that hyper does not have, and a close that does not lose the last answer.
//!
//! hyper has one timeout for HTTP/1.1: it covers an idle connection and a slow head alike, starts after the first bytes,
//! and does not exist for HTTP/2. Here a head has `header_time`, and a connection without a request has `idle_time`.
//!
//! [`Timed`] sits below HTTP and above TLS: it sees bytes and the number of open requests. A client that does not read is
//! noticed by the socket below (`socket`), a slow body by `guard::read_body`, a silent WebSocket by its own handler.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::Limits;

/// Sent to a client whose head took too long, if nothing was sent before.
const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-type: application/json\r\ncontent-length: 119\r\nconnection: close\r\n\r\n\
    {\"error\":{\"code\":408,\"message\":\"The headers did not arrive in time: send them at once.\",\
    \"reason\":\"headers-too-slow\"}}";

/// Bytes that are read and dropped before a connection is closed, at most.
const LINGER_BYTES: usize = 128 << 20;

/// The requests of one connection, as far as its timeouts depend on them.
#[derive(Default)]
pub(super) struct Requests {
    begun: AtomicU64,
    ended: AtomicU64,
    upgraded: AtomicBool,
}

/// Counts a request as open until its answer is sent or dropped.
pub(super) struct OpenRequest(Arc<Requests>);

impl Requests {
    pub(super) fn begin(self: &Arc<Self>) -> OpenRequest {
        self.begun.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.clone())
    }

    /// Switches the timeouts off: the protocol after the upgrade has its own.
    pub(super) fn set_upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the connection waits for. The number is the count of requests so far: each request restarts the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Head(u64),
    Request(u64),
    Answer,
}

pub(super) struct Timed<S> {
    stream: S,
    requests: Arc<Requests>,
    head_time: Duration,
    idle_time: Duration,
    linger_time: Duration,
    /// Fires at the deadline or earlier. Resetting it for every request would cost each of them an entry in the
    /// runtime's timer list.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    /// The wait that the deadline belongs to.
    armed: Option<Waiting>,
    /// The first bytes, which tell HTTP/2 from HTTP/1.1.
    first_bytes: Vec<u8>,
    /// The count of requests when the last byte between requests arrived.
    head_begun: Option<u64>,
    wrote: bool,
    lingering: Option<Pin<Box<Sleep>>>,
    dropped_bytes: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Timed<S> {
    pub(super) fn new(stream: S, requests: Arc<Requests>, limits: &Limits) -> Self {
        let deadline = Instant::now() + limits.header_time;
        Self {
            stream,
            requests,
            head_time: limits.header_time,
            idle_time: limits.idle_time,
            linger_time: limits.linger_time,
            timer: Box::pin(sleep_until(deadline)),
            deadline,
            armed: Some(Waiting::Head(0)),
            first_bytes: Vec::new(),
            head_begun: None,
            wrote: false,
            lingering: None,
            dropped_bytes: 0,
        }
    }

    fn waiting(&self) -> Waiting {
        let ended = self.requests.ended.load(Ordering::Relaxed);
        let begun = self.requests.begun.load(Ordering::Relaxed);
        if begun != ended || self.requests.upgraded.load(Ordering::Relaxed) {
            return Waiting::Answer;
        }
        // On HTTP/2, bytes between requests are pings and window updates.
        let head = begun == 0 || (self.head_begun == Some(begun) && !self.is_http2());
        if head { Waiting::Head(begun) } else { Waiting::Request(begun) }
    }

    fn is_http2(&self) -> bool {
        self.first_bytes == b"PRI "
    }

    fn note_bytes(&mut self, bytes: &[u8]) {
        let missing = 4usize.saturating_sub(self.first_bytes.len());
        self.first_bytes.extend(bytes.iter().take(missing));
        self.head_begun = Some(self.requests.begun.load(Ordering::Relaxed));
    }

    /// Ready when the time is up: the end of input for an idle connection, an error for a slow head.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waiting = self.waiting();
        let time = match waiting {
            Waiting::Answer => return Poll::Pending,
            Waiting::Head(_) => self.head_time,
            Waiting::Request(_) => self.idle_time,
        };
        if self.armed != Some(waiting) {
            self.deadline = Instant::now() + time;
            self.armed = Some(waiting);
            if self.deadline < self.timer.deadline() {
                self.timer.as_mut().reset(self.deadline);
            }
        }
        ready!(self.timer.as_mut().poll(context));
        while self.timer.deadline() < self.deadline {
            self.timer.as_mut().reset(self.deadline);
            ready!(self.timer.as_mut().poll(context));
        }
        if !matches!(waiting, Waiting::Head(_)) {
            return Poll::Ready(Ok(()));
        }
        if !self.wrote && !self.first_bytes.is_empty() && !self.is_http2() {
            // One attempt: the answer is a courtesy.
            let _ = Pin::new(&mut self.stream).poll_write(context, TOO_SLOW);
            let _ = Pin::new(&mut self.stream).poll_flush(context);
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_pending() {
            return this.poll_timeout(context);
        }
        let new = buffer.filled().get(before..).unwrap_or_default();
        if !new.is_empty() && this.waiting() != Waiting::Answer {
            this.note_bytes(new);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.wrote = true;
        Pin::new(&mut this.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.wrote = true;
        Pin::new(&mut this.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    /// Closes our side, then reads and drops for a short time what the client still sends. Closing a socket with unread
    /// bytes resets the connection, and the client may lose the answer.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let time = this.linger_time;
        let lingering = this.lingering.get_or_insert_with(|| Box::pin(sleep(time)));
        let mut dropped = [0u8; 16 * 1024];
        loop {
            if lingering.as_mut().poll(context).is_ready() || this.dropped_bytes > LINGER_BYTES {
                return Poll::Ready(Ok(()));
            }
            let mut dropped = ReadBuf::new(&mut dropped);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut dropped)) {
                Ok(()) if !dropped.filled().is_empty() => {
                    this.dropped_bytes += dropped.filled().len();
                }
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
