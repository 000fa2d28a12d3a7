//! Bounds the open streams of each principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;

use super::bytes::{BytePermit, ByteShares};
use super::rejection::Rejection;
use crate::auth::Principal;

/// Open streams per principal (docs/reference/limits.md).
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    pub remote: usize,
    pub local: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { remote: 256, local: 4_096 }
    }
}

/// Counts the open streams of every principal. Clones share the counts.
#[derive(Clone, Default)]
pub struct Streams {
    limits: StreamLimits,
    /// Counts large frames that are being sent.
    replies: ByteShares,
    /// A lock, not a task: held for one look-up, and needed in `drop`.
    open: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

/// Counts one stream until it is dropped.
#[must_use = "the stream is not counted once the permit is dropped"]
pub struct StreamPermit {
    name: Arc<str>,
    open: Arc<Mutex<HashMap<Arc<str>, usize>>>,
    replies: ByteShares,
}

impl StreamPermit {
    /// A permit for large frames until they are sent; None after a timeout.
    pub(crate) async fn large(&self, bytes: usize) -> Option<BytePermit> {
        self.replies.acquire(&self.name, bytes).await
    }
}

impl Streams {
    pub fn new(limits: StreamLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    #[must_use]
    pub(crate) fn counting(mut self, replies: &ByteShares) -> Self {
        self.replies = replies.clone();
        self
    }

    /// A permit for one more stream, or 503 with a time to retry after.
    pub fn admit(&self, principal: &Principal) -> Result<StreamPermit, Rejection> {
        let limit = if principal.local { self.limits.local } else { self.limits.remote };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(principal.name.clone()).or_default();
        if *count >= limit {
            let message = "Too many streams are open: close one and try again.";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let rejection = Rejection::new(status, "too-many-streams", message);
            return Err(rejection.retry_after(Duration::from_secs(5)));
        }
        *count += 1;
        let (name, open) = (principal.name.clone(), self.open.clone());
        Ok(StreamPermit { name, open, replies: self.replies.clone() })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Scopes;

    fn principal(name: &str, local: bool) -> Principal {
        Principal { local, ..Principal::new(name).may(Scopes::CLIENT) }
    }

    #[test]
    fn each_principal_has_its_own_count() {
        let streams = Streams::new(StreamLimits { remote: 1, local: 2 });
        let (near, far) = (principal("local:1000", true), principal("token:far", false));
        let held = [streams.admit(&near), streams.admit(&near), streams.admit(&far)];
        assert!(held.iter().all(Result::is_ok));
        for principal in [&near, &far] {
            let refused = streams.clone().admit(principal).err().expect("full");
            assert_eq!((refused.status.as_u16(), refused.reason), (503, "too-many-streams"));
            assert!(refused.retry_after.is_some());
        }
        assert!(streams.admit(&principal("token:other", false)).is_ok());
        drop(held);
        assert!(streams.open.lock().unwrap().is_empty(), "unused principals are dropped");
        assert!(streams.admit(&far).is_ok());
    }
}
