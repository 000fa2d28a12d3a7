//! Looks for damage in SQLite's write-ahead log before SQLite reads it.
//!
//! SQLite silently ends the log at the first frame whose checksum is wrong. After a crash that is right:
//! an unfinished write looks like that. After damage it means that everything committed behind the
//! damaged frame is gone, and the user must be told. The format is documented by SQLite ("WAL-mode file
//! format"). Nothing is repaired here.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::files::WRITE_AHEAD_LOG;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// A database has a header of 100 bytes. SQLite treats a shorter file as a new database and removes the
/// write-ahead log beside it.
const DATABASE_HEADER: u64 = 100;

/// A sentence about the damage, if a committed transaction may be lost by it.
pub fn examine(database: &Path) -> Option<String> {
    let path = database.with_file_name(WRITE_AHEAD_LOG);
    let length = |path: &Path| path.metadata().ok().map(|metadata| metadata.len());
    match (length(database), length(&path)) {
        (None, None | Some(0)) => return None,
        (None | Some(..DATABASE_HEADER), _) => {
            return Some(format!("{} is empty: its sessions are lost", database.display()));
        }
        (Some(_), _) => {}
    }
    let mut reader = BufReader::new(File::open(&path).ok()?);
    let mut header = [0; HEADER];
    reader.read_exact(&mut header).ok()?; // shorter than its header: nothing was committed
    let magic = word(&header, 0);
    let damaged = |what: String| Some(format!("{} is damaged {what}", path.display()));
    if magic & !1 != 0x377f_0682 {
        return damaged("at its beginning: what was not yet in loggia.db is lost".into());
    }
    let big_endian = magic & 1 == 1;
    let mut sum = checksum((0, 0), header.get(..24)?, big_endian);
    if sum != (word(&header, 24), word(&header, 28)) {
        return damaged("at its beginning: what was not yet in loggia.db is lost".into());
    }
    let page =
        usize::try_from(word(&header, 8)).ok().filter(|size| (512..=65536).contains(size))?;
    let salts = header.get(16..24)?.to_vec();
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut number = 0u64;
    let mut broken = None;
    while reader.read_exact(&mut frame).is_ok() {
        number += 1;
        sum = checksum(sum, frame.get(..8)?, big_endian);
        sum = checksum(sum, frame.get(FRAME_HEADER..)?, big_endian);
        let continues = sum == (word(&frame, 16), word(&frame, 20));
        match frame.get(8..16)? == salts {
            true if broken.is_none() && !continues => broken = Some(number),
            true => {}
            // The checksums continue, so only the salts were changed.
            false if broken.is_none() && continues => broken = Some(number),
            false => break, // left over from before the last checkpoint
        }
        let commits = word(&frame, 4) != 0;
        if let (Some(first), true) = (broken, commits) {
            return damaged(format!("at frame {first}: what was written after it is lost"));
        }
    }
    None
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_be_bytes)
}

fn checksum((mut a, mut b): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let (first, second) = pair.split_at(4);
        let read = |four: &[u8]| {
            let four = four.try_into().unwrap_or([0; 4]);
            if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        a = a.wrapping_add(read(first)).wrapping_add(b);
        b = b.wrapping_add(read(second)).wrapping_add(a);
    }
    (a, b)
}
