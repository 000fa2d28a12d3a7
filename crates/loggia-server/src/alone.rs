//! A short log folded for one question.
//!
//! Most tasks of a busy server are a prompt, a reply and an end, asked for once and by nobody else.
//! Frames for many readers would cost them more than the fold itself; long logs and streams use the
//! shared [`crate::projection`].

use loggia_core::Seq;
use loggia_session::SessionHandle;
use loggia_wire::{Condition, Projector, View, WireError};

/// Up to here a fold from the beginning is cheaper than a projection that stays.
const SHORT: Seq = Seq(64);

pub(crate) fn is_short(handle: &SessionHandle) -> bool {
    handle.head() <= SHORT
}

/// Folds the log from its beginning, as it grows, until it is enough.
pub(crate) async fn fold(
    handle: &SessionHandle,
    view: View,
    enough: impl Fn(&Projector) -> bool,
) -> Result<Projector, WireError> {
    let mut projector = Projector::new(handle.id().clone(), view);
    let mut follower = handle.follow(Seq::ZERO);
    loop {
        match follower.next().await {
            Ok(Some(events)) => events.iter().for_each(|envelope| projector.learn(envelope)),
            Ok(None) => return Err(Condition::Restarting.into()),
            Err(error) => {
                tracing::error!(%error, "a log cannot be read");
                return Err(Condition::Storage.into());
            }
        }
        if enough(&projector) {
            return Ok(projector);
        }
    }
}
