//! Checksums: each covers a record and the checksum before it, so that a changed, missing or swapped record is
//! found at its position. Only the arithmetic is here.

use loggia_core::{Seq, SessionId};
use sha2::{Digest, Sha256};

pub type Sum = [u8; 16];

/// The checksum before the first record.
pub fn origin(session: &SessionId) -> Sum {
    shorten(&Sha256::digest(session.as_str().as_bytes()))
}

pub fn next(previous: &Sum, seq: Seq, body: &[u8]) -> Sum {
    let mut hash = Sha256::new();
    hash.update(previous);
    hash.update(seq.0.to_le_bytes());
    hash.update(body);
    shorten(&hash.finalize())
}

/// For a value that is not part of a chain.
pub fn of(parts: &[&[u8]]) -> Sum {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    shorten(&hash.finalize())
}

fn shorten(digest: &[u8]) -> Sum {
    let mut sum = [0; 16];
    for (slot, byte) in sum.iter_mut().zip(digest) {
        *slot = *byte;
    }
    sum
}
