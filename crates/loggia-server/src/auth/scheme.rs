//! One way of proving who one is: bearer tokens from a file, and tokens that were given for a client's
//! secret.
//!
//! A scheme sees the head of a request and nothing of the connection: what a connection is worth
//! without a credential is the authenticator's rule.

use axum::http::request::Parts;
use futures::future::BoxFuture;

use super::Principal;

/// What a credential is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    Somebody(Principal),
    /// It was right once: nobody guesses those, so it does not count as an attempt.
    Over,
    /// Wrong, or of another kind: the next scheme is asked, and where none knows it the request is
    /// refused.
    Nobody,
    /// It cannot be told now.
    Unavailable,
}

/// Must cost the same for a wrong credential as for a right one, and must not log it.
pub trait Scheme: Send + Sync {
    fn judge<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Judged>;

    /// Whether people choose its credentials, so that trying for long enough could hit on one.
    fn is_chosen(&self) -> bool;
}
