//! An authentication scheme: bearer tokens of a file, and tokens issued for a client's secret.
//!
//! A scheme sees the head of a request and not its connection; the authenticator judges the connection.

use axum::http::request::Parts;
use futures::future::BoxFuture;

use super::Principal;

/// The result of checking a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialCheck {
    Accepted(Principal),
    /// It was valid once. It cannot be a guess, so it does not count as a failed attempt.
    Expired,
    /// Wrong, or of another scheme: the next scheme is asked, and if none knows it the request is
    /// refused.
    Unknown,
    /// It cannot be checked now.
    Unavailable,
}

/// Must take the same time for a wrong credential as for a right one, and must not log it.
pub trait Scheme: Send + Sync {
    fn check<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, CredentialCheck>;

    /// Whether people choose its credentials, so that one could be guessed.
    fn has_guessable_credentials(&self) -> bool;
}
