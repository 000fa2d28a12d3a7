//! A short log folded for one question.
//!
//! Most tasks of a busy server are a prompt, a reply and an end, asked for once and by nobody else.
//! Frames for many readers would cost them more than the fold itself; long logs and streams use the
//! shared [`crate::projection`]. That knows a task as it is; as it was after an event is folded here, too, however
//! long the log.

use loggia_core::{Seq, TaskId};
use loggia_session::{Events, Follower, HubError, SessionHandle};
use loggia_wire::{Projector, View, WireError};

use crate::selected::Selected;
use crate::state::{hub_error, stopped};

/// Up to here a fold from the beginning is cheaper than a projection that stays.
const SHORT: Seq = Seq(64);

pub(crate) fn is_short(handle: &SessionHandle) -> bool {
    handle.head() <= SHORT
}

/// Folds the log from its beginning, as it grows, until it is enough. Of other tasks no contents are kept.
pub(crate) async fn fold(
    handle: &SessionHandle,
    view: View,
    task: &TaskId,
    enough: impl Fn(&Projector) -> bool,
) -> Result<Projector, WireError> {
    let (session, wanted) = (handle.id().clone(), vec![task.clone()]);
    let mut selected = Selected::new(session, view, wanted, usize::MAX);
    let mut follower = handle.follow(Seq::ZERO);
    loop {
        let events = next(handle, &mut follower).await?;
        events.iter().for_each(|envelope| selected.learn(envelope));
        if enough(selected.projector()) {
            return Ok(selected.into_projector());
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
        let events = next(handle, &mut follower).await?;
        let wanted = events.iter().take_while(|envelope| envelope.seq <= seq);
        // All of it: frames go on from here.
        wanted.for_each(|envelope| projector.fold(envelope));
    }
    Ok(projector)
}

async fn next(handle: &SessionHandle, follower: &mut Follower) -> Result<Events, WireError> {
    match follower.next().await {
        Ok(Some(events)) => Ok(events),
        Ok(None) => Err(stopped(handle)),
        Err(error) => Err(hub_error(HubError::Store(error))),
    }
}
