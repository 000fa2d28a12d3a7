//! Listens, accepts connections within limits, and shuts down in order.
//!
//! Serves any router that is wrapped in an [`Admission`], and knows nothing of its routes and protocols. The extensions of each
//! request hold the [`Peer`](crate::peer::Peer), the [`Principal`](crate::auth::Principal) unless the route is public,
//! and [`Stopping`], which a stream must watch.

mod admission;
mod connection;
mod handshake;
mod listen;
mod per_host_limit;
mod socket;
mod timeouts;
mod tls;

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

pub use admission::{Admission, Guarded, Render};
pub use listen::{Bound, Listen, ListenAddress, ServeError, bind};
pub use tls::{Tls, TlsError, TlsFiles};

use crate::peer::{Inspector, Peer, Users};
use connection::Connection;
use handshake::Handshakes;
use per_host_limit::{ConnectionSource, PerHostLimit};
use socket::{Socket, SocketPermits};

/// How often an HTTP/2 connection with open requests is pinged, and how long it has to answer.
const PING: Duration = Duration::from_secs(20);

/// The limits of connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time. More wait in the kernel's queue until one ends. The number is lower if the process may
    /// not open as many files.
    pub connections: usize,
    /// From the connection to the end of the TLS handshake.
    pub handshake_time: Duration,
    pub header_bytes: usize,
    /// From the first byte of a request, or from the connection, to the end of the headers.
    pub header_time: Duration,
    /// A connection without a request.
    pub idle_time: Duration,
    /// A client that reads none of the bytes sent to it.
    pub stall_time: Duration,
    /// How long bytes are still read after the last answer.
    pub linger_time: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// From the signal to stop until open connections are cut.
    pub stop_time: Duration,
}

impl Limits {
    /// Connections of one other machine, or one other user of this machine: an eighth of all.
    fn connections_of_one(&self) -> usize {
        (self.connections / 8).max(32)
    }

    /// TLS handshakes at a time: a quarter of all connections, so that one machine cannot take all of them. More wait,
    /// within their timeout.
    fn handshakes(&self) -> usize {
        (self.connections / 4).max(64)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            handshake_time: Duration::from_secs(10),
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

/// Signals to stop the server.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Accept no more connections, let open requests end.
    pub graceful: CancellationToken,
    /// Cut all connections: the second signal, or the only one.
    pub now: CancellationToken,
}

/// In the extensions of every request. A stream ends after a request to stop, with a frame that says so.
#[derive(Debug, Clone)]
pub struct Stopping(Arc<CancellationToken>);

impl Stopping {
    pub fn is_stopping(&self) -> bool {
        self.0.is_cancelled()
    }

    pub fn requested(&self) -> WaitForCancellationFuture<'_> {
        self.0.cancelled()
    }
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections that were still open after `stop_time` and were cut.
    pub cut: usize,
}

/// Serves until told to stop, then at most `stop_time` longer. Connections run in the runtime that polls this future. It
/// should not be the one of the sessions: an event wakes every follower, and the writer of the next event must not queue
/// behind a thousand of them.
pub async fn serve(bound: Bound, guarded: Guarded, limits: Limits, shutdown: Shutdown) -> Stopped {
    let (inspector, inspect) = Inspector::new();
    let mut inspecting = tokio::task::JoinSet::new();
    inspecting.spawn(inspect);
    let (listeners, tls) = bound.into_parts();
    let context = Arc::new(ConnectionContext {
        tls: tls.map(|tls| Handshakes::new(&tls, limits.handshakes(), limits.handshake_time)),
        per_host: PerHostLimit::new(limits.connections_of_one()),
        users: Users::default(),
        http: http(&limits),
        free: Arc::new(Semaphore::new(connection_limit(limits.connections))),
        connections: TaskTracker::new(),
        sockets: TaskTracker::new(),
        guarded,
        inspector,
        stopping: Stopping(Arc::new(shutdown.graceful.clone())),
        shutdown,
        cut: CancellationToken::new(),
        limits,
    });
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener, context.clone()));
    }
    // The accept loops end by the token and drop their listeners.
    while accepting.join_next().await.is_some() {}
    context.close().await
}

/// Shared by all connections.
struct ConnectionContext {
    /// None: plaintext.
    tls: Option<Handshakes>,
    per_host: PerHostLimit,
    users: Users,
    http: auto::Builder<TokioExecutor>,
    free: Arc<Semaphore>,
    connections: TaskTracker,
    /// Outlives the task of a connection that was upgraded.
    sockets: TaskTracker,
    guarded: Guarded,
    inspector: Inspector,
    shutdown: Shutdown,
    /// A copy goes into every request.
    stopping: Stopping,
    /// Cuts the connections that are left.
    cut: CancellationToken,
    limits: Limits,
}

impl ConnectionContext {
    async fn close(&self) -> Stopped {
        self.connections.close();
        self.sockets.close();
        let stop_deadline = tokio::time::sleep(self.limits.stop_time);
        // Biased: prefer an orderly end over a cut.
        tokio::select! {
            biased;
            () = self.ended() => {}
            () = self.shutdown.now.cancelled() => {}
            () = stop_deadline => {}
        }
        let cut = self.sockets.len();
        self.cut.cancel();
        // Dropping a connection is immediate; an upgraded one is dropped by its own task.
        let _ = tokio::time::timeout(Duration::from_millis(500), self.ended()).await;
        Stopped { cut }
    }

    async fn ended(&self) {
        self.sockets.wait().await;
        self.connections.wait().await;
    }

    fn start(self: &Arc<Self>, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let (Ok(client), Ok(server)) = (stream.peer_addr(), stream.local_addr()) else { return };
        // Small frames go out at once; a failure only delays them.
        let _ = stream.set_nodelay(true);
        let peer = Peer::new(
            crate::peer::ConnectionAddresses::new(client, server),
            self.inspector.clone(),
        );
        let source = match peer.is_loopback() {
            true => ConnectionSource::local(self.users.of(&peer)),
            false => Some(ConnectionSource::machine(peer.address().ip())),
        };
        let host = match source.map(|source| self.per_host.acquire(source)) {
            Some(None) => return,
            host => host.flatten(),
        };
        let permits = SocketPermits { _permit: permit, _token: self.sockets.token(), _host: host };
        let socket = Socket::new(stream, self.limits.stall_time, permits);
        self.connections.spawn(Connection::new(self.clone(), peer).run(socket));
    }
}

/// HTTP/1.1 and HTTP/2 on one port, with or without TLS, told apart by their first bytes. For timeouts see [`timeouts`].
fn http(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().header_read_timeout(None).max_buf_size(limits.header_bytes.max(8_192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        // Notices clients that vanished, and keeps proxies from closing a quiet connection.
        .keep_alive_interval(Some(PING))
        .keep_alive_timeout(PING)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(256)
        // Times `streams`: 16 MiB per connection.
        .max_send_buf_size(64 * 1024);
    builder
}

/// Leaves some files to the rest of the process: the store, tool calls, peer lookups.
fn connection_limit(connections: usize) -> usize {
    let Ok((files, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    connections.min(files - (files / 2).min(128)).max(1)
}

async fn accept(listener: TcpListener, context: Arc<ConnectionContext>) {
    let Shutdown { graceful, now } = context.shutdown.clone();
    let next = async || {
        let Ok(permit) = context.free.clone().acquire_owned().await else { return };
        let stream = next_stream(&listener).await;
        context.start(stream, permit);
    };
    // Cancel-safe: nothing is awaited between accepting a stream and starting its connection.
    while let Some(Some(())) = now.run_until_cancelled(graceful.run_until_cancelled(next())).await {
    }
}

/// Waits for the next connection. Without free files, connections wait in the kernel's queue (R33).
async fn next_stream(listener: &TcpListener) -> TcpStream {
    let mut logged = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client left before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !logged {
                    tracing::warn!(%error, "cannot accept connections");
                    logged = true;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
