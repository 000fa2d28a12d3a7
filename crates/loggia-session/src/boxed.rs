//! Futures that are made where they stay.

use std::pin::Pin;

/// The same as `Box::pin(make())`, with the room had first. Had last, the future is made elsewhere and
/// moved there whole, and it may be kilobytes of which only what it was given is used yet.
#[inline]
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let room = Box::new_uninit();
    Box::into_pin(Box::write(room, make()))
}
