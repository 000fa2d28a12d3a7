//! What a client calls its task, and what we call it: a digest of the client's word and of who the
//! client is. Found again after a restart without being remembered anywhere, and the same word of
//! somebody else is another task.

use loggia_core::{SessionId, TaskId};
use sha2::{Digest, Sha256};

pub fn task(owner: &str, word: &str) -> TaskId {
    TaskId::from(digest("task", owner, word))
}

/// The session of a word that no session of ours has as its own name.
pub fn session(owner: &str, word: &str) -> SessionId {
    SessionId::from(digest("session", owner, word))
}

/// The lengths stand in front, so that no two different pairs are the same bytes.
fn digest(kind: &str, owner: &str, word: &str) -> uuid::Uuid {
    let mut hash = Sha256::new();
    for text in ["loggia tasks", kind, owner, word] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let mut bytes = [0u8; 16];
    for (slot, byte) in bytes.iter_mut().zip(hash.finalize()) {
        *slot = byte;
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
