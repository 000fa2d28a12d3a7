//! The front door: listens, lets connections in within limits, and closes in order.
//!
//! Any router can stand behind it, once a [`Door`] is around it; what the routes do and which
//! protocol they speak is not known here. A handler finds in the extensions of its request the
//! [`Peer`](crate::peer::Peer), the [`Principal`](crate::auth::Principal), unless the route is
//! public, and [`Stopping`], which a stream must watch.

mod clock;
mod connection;
mod door;
mod listen;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;

pub use door::{Door, Guarded, Render};
pub use listen::{Bound, Listen, ListenAddress, ServeError, bind};

use crate::peer::{Inspector, Peer};
use connection::Connection;

/// How often an HTTP/2 connection with requests under way is asked whether it is still there, and how
/// long it has to answer.
const PING: Duration = Duration::from_secs(20);

/// The limits of §2.5 that belong to connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; those beyond stay in the kernel's queue until one ends. Fewer if the
    /// process may not open as many files: the rest of it needs some, too.
    pub connections: usize,
    pub header_bytes: usize,
    /// From the first byte of a request, or from the connection, to the end of the headers.
    pub header_time: Duration,
    /// Without any request.
    pub idle_time: Duration,
    /// Without the client taking a byte of what is sent.
    pub stall_time: Duration,
    /// For what a client still sends after the last answer.
    pub linger_time: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// From the signal to stop until what is still open is cut.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            header_bytes: 32 * 1024,
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(75),
            stall_time: Duration::from_secs(30),
            linger_time: Duration::from_secs(1),
            streams: 256,
            stop_time: Duration::from_secs(10),
        }
    }
}

/// How the server is told to end.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Accept nothing more, let what runs end.
    pub graceful: CancellationToken,
    /// Cut everything: the second signal, or the only one.
    pub now: CancellationToken,
}

/// In the extensions of every request. A stream that is told ends with a frame that says so.
#[derive(Debug, Clone)]
pub struct Stopping(CancellationToken);

impl Stopping {
    pub fn is_stopping(&self) -> bool {
        self.0.is_cancelled()
    }

    pub fn told(&self) -> WaitForCancellationFuture<'_> {
        self.0.cancelled()
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections that were still open at the end of the time and were cut.
    pub cut: usize,
}

/// Serves until told to stop, then at most `stop_time` longer.
pub async fn serve(bound: Bound, door: Guarded, limits: Limits, shutdown: Shutdown) -> Stopped {
    let (inspector, inspect) = Inspector::new();
    let mut inspecting = tokio::task::JoinSet::new();
    inspecting.spawn(inspect);
    let entrance = Arc::new(Entrance {
        http: http(&limits),
        room: Arc::new(Semaphore::new(room(limits.connections))),
        connections: TaskTracker::new(),
        sockets: TaskTracker::new(),
        guarded: door,
        inspector,
        shutdown,
        cut: CancellationToken::new(),
        limits,
    });
    let mut accepting = tokio::task::JoinSet::new();
    for listener in bound.into_listeners() {
        accepting.spawn(accept(listener, entrance.clone()));
    }
    // They end by the token, and with them the listeners close.
    while accepting.join_next().await.is_some() {}
    entrance.close().await
}

/// What all connections share.
struct Entrance {
    http: auto::Builder<TokioExecutor>,
    room: Arc<Semaphore>,
    connections: TaskTracker,
    /// Lives longer than its connection's task where that left HTTP behind.
    sockets: TaskTracker,
    guarded: Guarded,
    inspector: Inspector,
    shutdown: Shutdown,
    /// Ends the connections that are left.
    cut: CancellationToken,
    limits: Limits,
}

impl Entrance {
    async fn close(&self) -> Stopped {
        self.connections.close();
        self.sockets.close();
        let patience = tokio::time::sleep(self.limits.stop_time);
        // Biased: everything has ended is the better reason to stop waiting.
        tokio::select! {
            biased;
            () = self.ended() => {}
            () = self.shutdown.now.cancelled() => {}
            () = patience => {}
        }
        let cut = self.sockets.len();
        self.cut.cancel();
        // Dropping a connection takes no time; one that left HTTP behind is its task's to drop.
        let _ = tokio::time::timeout(Duration::from_millis(500), self.ended()).await;
        Stopped { cut }
    }

    async fn ended(&self) {
        self.sockets.wait().await;
        self.connections.wait().await;
    }

    fn welcome(self: &Arc<Self>, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let (Ok(client), Ok(server)) = (stream.peer_addr(), stream.local_addr()) else { return };
        // Small frames go out at once; without it they only leave later.
        let _ = stream.set_nodelay(true);
        let ends = crate::peer::Ends { client, server };
        let peer = Peer::new(ends, self.inspector.clone());
        let connection = Connection::new(self.clone(), peer);
        let place = clock::Place { _permit: permit, _token: self.sockets.token() };
        self.connections.spawn(connection.run(stream, place));
    }
}

/// HTTP/1.1 and HTTP/2 without TLS on one port. Times are kept by our own clock: hyper's knows no
/// difference between an idle connection and a slow head, and has none before the first bytes.
fn http(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().header_read_timeout(None).max_buf_size(limits.header_bytes.max(8_192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        // A client that is gone without a word is noticed, and one behind a proxy is not cut off.
        .keep_alive_interval(Some(PING))
        .keep_alive_timeout(PING)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(256)
        // Times the streams: what one connection may hold back, 16 MiB.
        .max_send_buf_size(64 * 1024);
    builder
}

/// Leaves files to the rest of the process: the store, calls, looking at peers.
fn room(connections: usize) -> usize {
    let Ok((files, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    connections.min(files - (files / 2).min(128)).max(1)
}

async fn accept(listener: TcpListener, entrance: Arc<Entrance>) {
    let Shutdown { graceful, now } = entrance.shutdown.clone();
    let next = async || {
        let Ok(permit) = entrance.room.clone().acquire_owned().await else { return };
        let stream = next_stream(&listener).await;
        entrance.welcome(stream, permit);
    };
    // Cancel-safe: a stream that was accepted is welcomed without another await.
    while let Some(Some(())) = now.run_until_cancelled(graceful.run_until_cancelled(next())).await {
    }
}

/// The next connection, whatever it takes: out of files, the queue waits until some are free (R33).
async fn next_stream(listener: &TcpListener) -> TcpStream {
    let mut said = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client was gone before we came.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !said {
                    tracing::warn!(%error, "connections have to wait");
                    said = true;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
