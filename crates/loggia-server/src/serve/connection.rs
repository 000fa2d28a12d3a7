//! One connection: HTTP over a clocked stream, encrypted or not, until the client goes, the time is up
//! or the server stops.
//!
//! Puts into each request what belongs to its connection, and counts the requests under way for the
//! clock. Knows no request's content.
//!
//! A connection that asks and is answered is served where the sessions run: nobody has to be woken to
//! hand its message over. One that goes on (a stream, a socket, HTTP/2) or brings much is moved to the
//! crowd, in a runtime of its own: sessions never stand behind it in a queue.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::http::header::UPGRADE;
use axum::http::{Request, Response, StatusCode, Version};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::Entrance;
use super::clock::{Clock, Clocked, Underway};
use super::handshake::{Greeted, Greeting};
use super::socket::Socket;
use crate::guard::Load;
use crate::peer::Peer;

/// Bodies beyond this take a while to read.
const LARGE: u64 = 64 * 1024;

/// What a client is given of a large answer at a time. The rest waits here, where it is counted.
const PIECE: usize = 64 * 1024;

pub(super) struct Connection {
    entrance: Arc<Entrance>,
    peer: Peer,
    clock: Arc<Clock>,
}

impl Connection {
    pub(super) fn new(entrance: Arc<Entrance>, peer: Peer) -> Arc<Self> {
        Arc::new(Self { entrance, peer, clock: Arc::default() })
    }

    /// Served where this runs, until the connection turns out to be one of those that go on, or that
    /// have to be encrypted.
    pub(super) async fn run(self: Arc<Self>, socket: Socket) {
        if self.entrance.tls.is_some() {
            self.clock.go_apart();
        }
        let mut serving: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(self.clone().greet(socket));
        let goes = poll_fn(|context| match serving.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending if self.clock.goes_apart() => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        });
        if goes.await {
            self.clock.set_apart();
            self.entrance.connections.spawn_on(serving, &self.entrance.apart);
        }
    }

    async fn greet(self: Arc<Self>, socket: Socket) {
        let Some(tls) = &self.entrance.tls else { return self.serve(socket).await };
        let Entrance { shutdown, cut, .. } = &*self.entrance;
        let greeted = tokio::select! {
            biased;
            greeted = tls.greet(socket) => greeted,
            () = cut.cancelled() => return,
            () = shutdown.graceful.cancelled() => return,
        };
        match greeted {
            Greeted::Encrypted(stream) => self.serve(*stream).await,
            Greeted::InTheClear(socket, greeting) => self.explain(socket, greeting).await,
            Greeted::Nobody => {}
        }
    }

    /// To who speaks HTTP where TLS is spoken.
    async fn explain(&self, socket: Socket, greeting: Greeting) {
        let Entrance { cut, limits, .. } = &*self.entrance;
        let mut clocked = Clocked::new(socket, self.clock.clone(), limits);
        let answering = async {
            clocked.write_all(greeting.answer()).await?;
            clocked.shutdown().await
        };
        // Whoever does not wait for it need not get it.
        let _ = cut.run_until_cancelled(answering).await;
    }

    async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let clocked = Clocked::new(stream, self.clock.clone(), &self.entrance.limits);
        let this = self.clone();
        let requests = service_fn(move |request| this.clone().answer(request));
        let http = &self.entrance.http;
        let mut serving =
            std::pin::pin!(http.serve_connection_with_upgrades(TokioIo::new(clocked), requests));
        let Entrance { shutdown, cut, .. } = &*self.entrance;
        let told = cut.run_until_cancelled(shutdown.graceful.cancelled());
        // All connections wait for the same two words. In a set of its own each looks whether they
        // were said when it is woken for them, not whenever it does anything.
        let mut told = FuturesUnordered::from_iter([told]);
        // Biased: a connection that has ended is not told anything.
        let ended = tokio::select! {
            biased;
            ended = serving.as_mut() => ended,
            Some(graceful) = told.next() => {
                if graceful.is_none() {
                    return;
                }
                serving.as_mut().graceful_shutdown();
                match cut.run_until_cancelled(serving).await {
                    Some(ended) => ended,
                    None => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "connection ended");
        }
    }

    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Answer>, Infallible> {
        let underway = self.clock.begin();
        if is_long(&request) && !self.clock.is_apart() {
            self.clock.go_apart();
            poll_fn(|_| match self.clock.is_apart() {
                true => Poll::Ready(()),
                // Polled again where it goes to.
                false => Poll::Pending,
            })
            .await;
        }
        let alone = (request.version() < Version::HTTP_2).then(|| self.clock.clone());
        let extensions = request.extensions_mut();
        extensions.insert(self.peer.clone());
        extensions.insert(self.entrance.stopping.clone());
        let load = Arc::new(Load::default());
        extensions.insert(load.clone());
        let response = self.entrance.guarded.answer(request.map(Body::new)).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.clock.leave_http();
        }
        // What has no end yet is a stream.
        if response.body().size_hint().exact().is_none() {
            self.clock.go_apart();
        }
        Ok(response.map(|body| {
            let rest = Bytes::new();
            Answer { body, rest, alone, _underway: underway, _load: load }
        }))
    }
}

/// Whether a request of HTTP/1.1 is one that others must not wait for: it leaves HTTP behind, or has
/// much to say. HTTP/2 is served apart as a whole.
fn is_long(request: &Request<Incoming>) -> bool {
    let large = request.body().size_hint().upper().is_none_or(|upper| upper > LARGE);
    request.version() != Version::HTTP_2 && (large || request.headers().contains_key(UPGRADE))
}

/// A body that counts as under way until it is sent or given up.
struct Answer {
    body: Body,
    /// What is left of a large piece of the body.
    rest: Bytes,
    /// The clock of a connection that has no other body: there it waits for the socket.
    alone: Option<Arc<Clock>>,
    _underway: Underway,
    /// What the request holds of the bytes that clients share.
    _load: Arc<Load>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(clock) = &self.alone {
            ready!(clock.poll_room(context));
        }
        if self.rest.is_empty() {
            let next = ready!(Pin::new(&mut self.body).poll_frame(context));
            let Some(Ok(frame)) = next else { return Poll::Ready(next) };
            match frame.into_data() {
                Ok(data) if data.len() > PIECE => self.rest = data,
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        // Copied: a part of it would keep all of it in memory.
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
