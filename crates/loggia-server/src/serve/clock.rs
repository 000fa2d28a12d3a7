//! A stream that keeps time: heads that do not arrive, connections that do nothing. And one that
//! closes politely, so that the last answer is not lost.
//!
//! Works below HTTP and above TLS, on bytes and on the count of requests under way, so it holds for
//! HTTP/1.1 and HTTP/2. Clients that take nothing are noticed on the socket itself (see `socket`). How
//! long a body may take is not known here (see `guard::read_body`), nor how often a WebSocket must be
//! heard of.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::Limits;

/// What a client gets whose head took too long, if nothing was sent to it before.
const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-type: application/json\r\ncontent-length: 119\r\nconnection: close\r\n\r\n\
    {\"error\":{\"code\":408,\"message\":\"The headers did not arrive in time: send them at once.\",\
    \"reason\":\"headers-too-slow\"}}";

/// How much is read away before a connection is closed, at most.
const LINGER_BYTES: usize = 128 << 20;

/// What requests tell the socket below them.
#[derive(Default)]
pub(super) struct Clock {
    begun: AtomicU64,
    ended: AtomicU64,
    left_http: AtomicBool,
    goes_apart: AtomicBool,
    is_apart: AtomicBool,
    /// The client does not take what is there already.
    full: AtomicBool,
    /// Whoever has more for it.
    room: AtomicWaker,
}

/// A request that is not yet answered to the end.
pub(super) struct Underway(Arc<Clock>);

impl Clock {
    pub(super) fn begin(self: &Arc<Self>) -> Underway {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Underway(self.clone())
    }

    /// Ready when the socket has taken what was written to it. For one body at a time, as HTTP/1.1
    /// has them: more is put together for a client when there is room for it, and lies around
    /// nowhere until then.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if self.full.load(Ordering::Acquire) {
            self.room.register(context.waker());
            if self.full.load(Ordering::Acquire) {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    fn set_full(&self, full: bool) {
        if self.full.swap(full, Ordering::AcqRel) && !full {
            self.room.wake();
        }
    }

    /// From now on the protocol keeps its own time.
    pub(super) fn leave_http(&self) {
        self.left_http.store(true, Ordering::Relaxed);
    }

    /// The connection is one of those that go on, and is to be served with them.
    pub(super) fn go_apart(&self) {
        self.goes_apart.store(true, Ordering::Relaxed);
    }

    pub(super) fn goes_apart(&self) -> bool {
        self.goes_apart.load(Ordering::Relaxed)
    }

    /// It is served there from now on.
    pub(super) fn set_apart(&self) {
        self.is_apart.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_apart(&self) -> bool {
        self.is_apart.load(Ordering::Relaxed)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the socket waits for, and since which request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Head(u64),
    Request(u64),
    Answer,
}

pub(super) struct Clocked<S> {
    stream: S,
    clock: Arc<Clock>,
    head_time: Duration,
    idle_time: Duration,
    linger_time: Duration,
    /// Runs out at the deadline or before it: a deadline that moves on with every request would
    /// otherwise cost each of them a place in the runtime's list.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    /// What the deadline is for.
    armed: Option<Waiting>,
    /// The first bytes, to tell HTTP/2.
    opening: Vec<u8>,
    /// How many requests had begun when a byte came that belonged to none of them.
    fragment: Option<u64>,
    wrote: bool,
    lingering: Option<Pin<Box<Sleep>>>,
    read_away: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Clocked<S> {
    pub(super) fn new(stream: S, clock: Arc<Clock>, limits: &Limits) -> Self {
        let deadline = Instant::now() + limits.header_time;
        Self {
            stream,
            clock,
            head_time: limits.header_time,
            idle_time: limits.idle_time,
            linger_time: limits.linger_time,
            timer: Box::pin(sleep_until(deadline)),
            deadline,
            armed: Some(Waiting::Head(0)),
            opening: Vec::new(),
            fragment: None,
            wrote: false,
            lingering: None,
            read_away: 0,
        }
    }

    fn waiting(&self) -> Waiting {
        let ended = self.clock.ended.load(Ordering::Relaxed);
        let begun = self.clock.begun.load(Ordering::Relaxed);
        if begun != ended || self.clock.left_http.load(Ordering::Relaxed) {
            return Waiting::Answer;
        }
        // On HTTP/2 bytes between requests are pings and windows.
        let head = begun == 0 || (self.fragment == Some(begun) && !self.is_http2());
        if head { Waiting::Head(begun) } else { Waiting::Request(begun) }
    }

    fn is_http2(&self) -> bool {
        self.opening == b"PRI "
    }

    fn note(&mut self, bytes: &[u8]) {
        let missing = 4usize.saturating_sub(self.opening.len());
        self.opening.extend(bytes.iter().take(missing));
        self.fragment = Some(self.clock.begun.load(Ordering::Relaxed));
        if self.is_http2() {
            self.clock.go_apart();
        }
    }

    /// Ready when the time for what is waited for is over.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        match waiting {
            // The end of the input: a proper close.
            Waiting::Request(_) | Waiting::Answer => Poll::Ready(Ok(())),
            Waiting::Head(_) => {
                if !self.wrote && !self.opening.is_empty() && !self.is_http2() {
                    // One write; whoever is this slow need not get it.
                    let _ = Pin::new(&mut self.stream).poll_write(context, TOO_SLOW);
                    let _ = Pin::new(&mut self.stream).poll_flush(context);
                }
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// What is written is on its way, or the client does not take it yet.
    fn written<T>(&mut self, written: Poll<T>) -> Poll<T> {
        self.wrote = true;
        self.clock.set_full(written.is_pending());
        written
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Clocked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Pending => this.poll_time(context),
            ready => {
                let fresh = buffer.filled().get(before..).unwrap_or_default();
                if !fresh.is_empty() && this.waiting() != Waiting::Answer {
                    this.note(fresh);
                }
                ready
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Clocked<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    /// Closes our side, then reads away for a moment what the client still sends: closing with
    /// unread bytes would reset the connection and could take the answer with it.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let time = this.linger_time;
        let lingering = this.lingering.get_or_insert_with(|| Box::pin(sleep(time)));
        let mut away = [0u8; 16 * 1024];
        loop {
            if lingering.as_mut().poll(context).is_ready() || this.read_away > LINGER_BYTES {
                return Poll::Ready(Ok(()));
            }
            let mut away = ReadBuf::new(&mut away);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut away)) {
                Ok(()) if !away.filled().is_empty() => this.read_away += away.filled().len(),
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
