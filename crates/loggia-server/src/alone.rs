//! A short log folded for one question.
//!
//! Most tasks of a busy server are a prompt, a reply and an end, asked for once and by nobody else.
//! Frames for many readers would cost them more than the fold itself; long logs and streams use the
//! shared [`crate::projection`]. That knows a task as it is; as it was after an event is folded here, too, however
//! long the log.

use loggia_core::Seq;
use loggia_session::{Events, Follower, SessionHandle};
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
        let events = next(&mut follower).await?;
        events.iter().for_each(|envelope| projector.learn(envelope));
        if enough(&projector) {
            return Ok(projector);
        }
    }
}

/// Folds the log from its beginning up to an event, and no further.
pub(crate) async fn fold_to(
    handle: &SessionHandle,
    view: View,
    seq: Seq,
) -> Result<Projector, WireError> {
    let mut projector = Projector::new(handle.id().clone(), view);
    let mut follower = handle.follow(Seq::ZERO);
    while projector.head() < seq {
        let events = next(&mut follower).await?;
        let wanted = events.iter().take_while(|envelope| envelope.seq <= seq);
        // All of it: frames go on from here.
        wanted.for_each(|envelope| projector.fold(envelope));
    }
    Ok(projector)
}

async fn next(follower: &mut Follower) -> Result<Events, WireError> {
    match follower.next().await {
        Ok(Some(events)) => Ok(events),
        Ok(None) => Err(Condition::Restarting.into()),
        Err(error) => {
            tracing::error!(%error, "a log cannot be read");
            Err(Condition::Storage.into())
        }
    }
}
