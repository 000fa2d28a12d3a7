//! One connection: HTTP over a stream with timeouts, encrypted or not, until the client goes, a timeout ends it or the
//! server stops.
//!
//! Adds the connection's peer to each request, and counts open requests for the timeouts. Does not read requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::ConnectionContext;
use super::handshake::{Accepted, PlainHttp};
use super::socket::Socket;
use super::timeouts::{OpenRequest, Requests, Timed};
use crate::guard::Load;
use crate::peer::Peer;

/// Large chunks of a body are handed to hyper in pieces of this size. hyper asks for the next piece when it holds less
/// than `Limits::header_bytes` (32 KiB), so it holds at most 64 KiB; the rest stays here and is counted.
const PIECE: usize = 32 * 1024;

pub(super) struct Connection {
    context: Arc<ConnectionContext>,
    peer: Peer,
    requests: Arc<Requests>,
}

impl Connection {
    pub(super) fn new(context: Arc<ConnectionContext>, peer: Peer) -> Arc<Self> {
        Arc::new(Self { context, peer, requests: Arc::default() })
    }

    pub(super) async fn run(self: Arc<Self>, socket: Socket) {
        let Some(tls) = &self.context.tls else { return self.serve(socket).await };
        let ConnectionContext { shutdown, cut, .. } = &*self.context;
        let accepted = tokio::select! {
            biased;
            accepted = tls.accept(socket) => accepted,
            () = cut.cancelled() => return,
            () = shutdown.graceful.cancelled() => return,
        };
        match accepted {
            Accepted::Encrypted(stream) => self.serve(*stream).await,
            Accepted::Plaintext(socket, http) => self.explain(socket, http).await,
            Accepted::Failed => {}
        }
    }

    /// Answers a client that speaks plain HTTP on a TLS port.
    async fn explain(&self, socket: Socket, http: PlainHttp) {
        let ConnectionContext { cut, limits, .. } = &*self.context;
        let mut stream = Timed::new(socket, self.requests.clone(), limits);
        let answering = async {
            stream.write_all(http.answer()).await?;
            stream.shutdown().await
        };
        // The client may be gone: the answer is a courtesy.
        let _ = cut.run_until_cancelled(answering).await;
    }

    async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = Timed::new(stream, self.requests.clone(), &self.context.limits);
        let this = self.clone();
        let requests = service_fn(move |request| this.clone().answer(request));
        let http = &self.context.http;
        let mut serving =
            std::pin::pin!(http.serve_connection_with_upgrades(TokioIo::new(stream), requests));
        let ConnectionContext { shutdown, cut, .. } = &*self.context;
        let told = cut.run_until_cancelled(shutdown.graceful.cancelled());
        // `FuturesUnordered` keeps the shutdown future from being polled on every wake-up of the connection.
        let mut told = FuturesUnordered::from_iter([told]);
        // Biased: a connection that has ended needs no shutdown.
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
    ) -> Result<Response<CountedBody>, Infallible> {
        let open = self.requests.begin();
        let extensions = request.extensions_mut();
        extensions.insert(self.peer.clone());
        extensions.insert(self.context.stopping.clone());
        let load = Arc::new(Load::default());
        extensions.insert(load.clone());
        let response = self.context.guarded.answer(request.map(Body::new)).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.requests.set_upgraded();
        }
        Ok(response.map(|body| CountedBody { body, rest: Bytes::new(), _open: open, _load: load }))
    }
}

/// A response body that keeps its request open until it is sent or dropped.
struct CountedBody {
    body: Body,
    /// The rest of a large chunk.
    rest: Bytes,
    _open: OpenRequest,
    /// The request's share of the bytes that clients may have in memory.
    _load: Arc<Load>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
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
        // Copied: a slice would keep the whole chunk in memory.
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
