//! The bytes of one request: its body as it is read, and its reply before it is made. Where they are counted, and what
//! happens when there is no room, is in [`crate::guard`].

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use loggia_wire::{Condition, WireError};

use crate::guard::{Rejection, Room, SMALL, read_body, read_growing_body};
use crate::http::{BODY_LIMIT, BODY_TIME};
use crate::state::{Caller, Server};

impl Server {
    /// The body of a request. A large one waits until there is room for it.
    pub(crate) async fn read_body(&self, body: Body, caller: &Caller) -> Result<Bytes, Rejection> {
        let exact = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        if exact.is_some_and(|size| size <= SMALL) {
            return read_body(body, BODY_LIMIT, BODY_TIME).await;
        }
        let room = Room { bodies: &self.bodies, principal: &caller.principal.name };
        let (bytes, permit) = read_growing_body(body, BODY_LIMIT, BODY_TIME, room).await?;
        caller.load.hold_body(permit);
        Ok(bytes)
    }

    /// The same for a message that is in memory already.
    pub(crate) async fn count_body(&self, bytes: usize, caller: &Caller) -> Result<(), WireError> {
        if bytes <= SMALL {
            return Ok(());
        }
        let permit = self.bodies.acquire(&caller.principal.name, bytes).await;
        caller.load.hold_body(Some(permit.ok_or(Condition::Busy)?));
        Ok(())
    }

    /// Whether there is room for a reply of this weight without waiting. It is held until the reply is sent.
    pub(crate) fn count_reply_now(&self, bytes: usize, caller: &Caller) -> bool {
        if bytes <= SMALL {
            return true;
        }
        let permit = self.replies.try_acquire(&caller.principal.name, bytes);
        permit.map(|permit| caller.load.hold_reply(permit)).is_some()
    }

    /// Waits for room for a reply of this weight. It is held until the reply is sent.
    pub(crate) async fn count_reply(&self, bytes: usize, caller: &Caller) -> Result<(), WireError> {
        if bytes <= SMALL {
            return Ok(());
        }
        let permit = self.replies.acquire(&caller.principal.name, bytes).await;
        caller.load.hold_reply(permit.ok_or(Condition::Busy)?);
        Ok(())
    }
}
