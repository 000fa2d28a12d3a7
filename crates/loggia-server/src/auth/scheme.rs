//! One way of proving who one is. Bearer tokens are the first; OAuth joins as another.
//!
//! A scheme sees the head of a request and nothing of the connection: what a connection is worth
//! without a credential is the authenticator's rule.

use axum::http::request::Parts;
use futures::future::BoxFuture;

use super::Principal;

/// Must cost the same for a wrong credential as for a right one, and must not log it.
pub trait Scheme: Send + Sync {
    /// Whose credential this is. Nothing if it is wrong, expired or of another kind: the next scheme
    /// is asked, and where none knows it the request is refused.
    fn judge<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Option<Principal>>;
}
