//! The task of a client's task id: a digest of that id and of the client's name. It needs no table, also
//! after a restart, and the same id of another client is another task.

use loggia_core::{SessionId, TaskId};
use sha2::{Digest, Sha256};

pub fn task(owner: &str, sent_id: &str) -> TaskId {
    TaskId::from(digest("task", owner, sent_id))
}

/// The session of a client's session name that is no session id.
pub fn session(owner: &str, sent_id: &str) -> SessionId {
    SessionId::from(digest("session", owner, sent_id))
}

/// Each text has its length first, so that no two different pairs have the same bytes.
fn digest(kind: &str, owner: &str, sent_id: &str) -> uuid::Uuid {
    let mut hash = Sha256::new();
    for text in ["loggia tasks", kind, owner, sent_id] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let mut bytes = [0u8; 16];
    for (slot, byte) in bytes.iter_mut().zip(hash.finalize()) {
        *slot = byte;
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
