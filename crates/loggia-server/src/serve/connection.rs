//! One connection: HTTP over a clocked socket, until the client goes, the time is up or the server
//! stops.
//!
//! Puts into each request what belongs to its connection, and counts the requests under way for the
//! clock. Knows no request's content.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::http::{Request, Response, StatusCode, Version};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::ServiceExt;

use super::clock::{Clock, Clocked, Place, Underway};
use super::{Entrance, Stopping};
use crate::peer::Peer;

pub(super) struct Connection {
    entrance: Arc<Entrance>,
    peer: Peer,
    clock: Arc<Clock>,
}

impl Connection {
    pub(super) fn new(entrance: Arc<Entrance>, peer: Peer) -> Arc<Self> {
        Arc::new(Self { entrance, peer, clock: Arc::default() })
    }

    pub(super) async fn run(self: Arc<Self>, stream: TcpStream, place: Place) {
        let clocked = Clocked::new(stream, self.clock.clone(), &self.entrance.limits, place);
        let this = self.clone();
        let requests = service_fn(move |request| this.clone().answer(request));
        let http = &self.entrance.http;
        let mut serving =
            std::pin::pin!(http.serve_connection_with_upgrades(TokioIo::new(clocked), requests));
        let Entrance { shutdown, cut, .. } = &*self.entrance;
        // Biased: a connection that has ended is not told anything.
        let ended = tokio::select! {
            biased;
            ended = serving.as_mut() => ended,
            () = cut.cancelled() => return,
            () = shutdown.graceful.cancelled() => {
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
        let alone = (request.version() < Version::HTTP_2).then(|| self.clock.clone());
        let extensions = request.extensions_mut();
        extensions.insert(self.peer.clone());
        extensions.insert(Stopping(self.entrance.shutdown.graceful.clone()));
        let response = self.entrance.guarded.router().oneshot(request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.clock.leave_http();
        }
        Ok(response.map(|body| Answer { body, alone, _underway: underway }))
    }
}

/// A body that counts as under way until it is sent or given up.
struct Answer {
    body: Body,
    /// The clock of a connection that has no other body: there it waits for the socket.
    alone: Option<Arc<Clock>>,
    _underway: Underway,
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
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
