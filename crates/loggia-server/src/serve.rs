//! The front door: listens, lets connections in within limits, and closes in order.
//!
//! Any router can stand behind it, once a [`Door`] is around it; what the routes do and which
//! protocol they speak is not known here. A handler finds in the extensions of its request the
//! [`Peer`](crate::peer::Peer), the [`Principal`](crate::auth::Principal), unless the route is
//! public, and [`Stopping`], which a stream must watch.

mod clock;
mod connection;
mod crowd;
mod door;
mod handshake;
mod listen;
mod socket;
mod tls;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;

pub use door::{Door, Guarded, Render};
pub use listen::{Bound, Listen, ListenAddress, ServeError, bind};
pub use tls::{Tls, TlsError, TlsFiles};

use crate::peer::{Inspector, Peer, Users};
use connection::Connection;
use crowd::{Crowd, Origin};
use handshake::Handshakes;
use socket::{Place, Socket};

/// How often an HTTP/2 connection with requests under way is asked whether it is still there, and how
/// long it has to answer.
const PING: Duration = Duration::from_secs(20);

/// The limits of §2.5 that belong to connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; those beyond stay in the kernel's queue until one ends. Fewer if the
    /// process may not open as many files: the rest of it needs some, too.
    pub connections: usize,
    /// From the connection to the end of the TLS handshake.
    pub handshake_time: Duration,
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

impl Limits {
    /// Connections that one other machine, or one other user of this one, may hold: an eighth of all.
    fn connections_of_one(&self) -> usize {
        (self.connections / 8).max(32)
    }

    /// TLS handshakes under way at a time: a quarter of all connections, so that no machine alone can
    /// fill them. Further ones wait, within their time.
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
pub struct Stopping(Arc<CancellationToken>);

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

/// Serves until told to stop, then at most `stop_time` longer. Connections that go on are served in
/// a runtime of their own, all others in this one.
pub async fn serve(
    bound: Bound,
    door: Guarded,
    limits: Limits,
    shutdown: Shutdown,
    apart: Handle,
) -> Stopped {
    let (inspector, inspect) = Inspector::new();
    let mut inspecting = tokio::task::JoinSet::new();
    inspecting.spawn(inspect);
    let (listeners, tls) = bound.into_parts();
    let entrance = Arc::new(Entrance {
        tls: tls.map(|tls| Handshakes::new(&tls, limits.handshakes(), limits.handshake_time)),
        crowd: Crowd::new(limits.connections_of_one()),
        users: Users::default(),
        http: http(&limits, Apart(apart.clone())),
        apart,
        room: Arc::new(Semaphore::new(room(limits.connections))),
        connections: TaskTracker::new(),
        sockets: TaskTracker::new(),
        guarded: door,
        inspector,
        stopping: Stopping(Arc::new(shutdown.graceful.clone())),
        shutdown,
        cut: CancellationToken::new(),
        limits,
    });
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener, entrance.clone()));
    }
    // They end by the token, and with them the listeners close.
    while accepting.join_next().await.is_some() {}
    entrance.close().await
}

/// What all connections share.
struct Entrance {
    /// None: in the clear.
    tls: Option<Handshakes>,
    crowd: Crowd,
    users: Users,
    http: auto::Builder<Apart>,
    /// Where connections that go on are served.
    apart: Handle,
    room: Arc<Semaphore>,
    connections: TaskTracker,
    /// Lives longer than its connection's task where that left HTTP behind.
    sockets: TaskTracker,
    guarded: Guarded,
    inspector: Inspector,
    shutdown: Shutdown,
    /// As every request gets it.
    stopping: Stopping,
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
        let peer = Peer::new(crate::peer::Ends::new(client, server), self.inspector.clone());
        let origin = match peer.is_loopback() {
            true => Origin::local(self.users.of(&peer)),
            false => Some(Origin::machine(peer.address().ip())),
        };
        let counted = match origin.map(|origin| self.crowd.enter(origin)) {
            // It has as many as one machine or one user gets.
            Some(None) => return,
            counted => counted.flatten(),
        };
        let place = Place { _permit: permit, _token: self.sockets.token(), _counted: counted };
        let socket = Socket::new(stream, self.limits.stall_time, place);
        self.connections.spawn(Connection::new(self.clone(), peer).run(socket));
    }
}

/// Runs the streams of HTTP/2 connections.
#[derive(Clone)]
struct Apart(Handle);

impl<F> hyper::rt::Executor<F> for Apart
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

/// HTTP/1.1 and HTTP/2 on one port, with or without TLS, told apart by their first bytes. Times are
/// kept by our own clock: hyper's knows no difference between an idle connection and a slow head, and
/// has none before the first bytes.
fn http(limits: &Limits, apart: Apart) -> auto::Builder<Apart> {
    let mut builder = auto::Builder::new(apart);
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
