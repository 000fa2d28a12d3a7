//! An append as it stands in a sheet of the journal: what becomes a row of the log, and what the lists of
//! sessions and tasks have to know of it.

use loggia_core::{Millis, SessionId, TaskId, TaskState};
use serde::{Deserialize, Serialize};

use crate::index::TaskMark;
use crate::ports::Owner;
use crate::store::checksum::Sum;

/// How an append left its session.
#[derive(Serialize, Deserialize)]
pub struct Note {
    pub id: SessionId,
    pub epoch: u64,
    /// Who made the session with this append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Owner>,
    pub head: u64,
    pub updated: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Marked>,
}

#[derive(Serialize, Deserialize)]
pub struct Marked {
    task: TaskId,
    state: TaskState,
    updated: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

impl From<TaskMark> for Marked {
    fn from(mark: TaskMark) -> Self {
        let TaskMark { task, state, updated, principal } = mark;
        Self { task, state, updated: updated.0, principal }
    }
}

impl From<Marked> for TaskMark {
    fn from(marked: Marked) -> Self {
        let Marked { task, state, updated, principal } = marked;
        Self { task, state, updated: Millis(updated), principal }
    }
}

pub struct Entry<'a> {
    pub row: i64,
    /// The number of the first record, and the sum of the session's last one.
    pub first: u64,
    pub sum: Sum,
    /// A [`Note`] as JSON, and the session's summary as it is kept.
    pub note: &'a [u8],
    pub summary: &'a str,
    /// The records and their sums; both empty if there is none.
    pub body: &'a [u8],
    pub sums: &'a [u8],
}

impl<'a> Entry<'a> {
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.row.to_le_bytes());
        to.extend(self.first.to_le_bytes());
        to.extend(self.sum);
        for part in [self.note, self.summary.as_bytes(), self.body, self.sums] {
            to.extend((part.len() as u64).to_le_bytes());
            to.extend(part);
        }
    }

    /// How many records it has.
    pub fn count(&self) -> u64 {
        (self.sums.len() / size_of::<Sum>()) as u64
    }

    /// The first one of `from`, which is then at the next.
    pub fn read(from: &mut &'a [u8]) -> Option<Self> {
        let (row, first) = (i64::from_le_bytes(*array(from)?), u64::from_le_bytes(*array(from)?));
        let sum = *array(from)?;
        let (note, summary) = (part(from)?, part(from)?);
        let summary = std::str::from_utf8(summary).ok()?;
        Some(Self { row, first, sum, note, summary, body: part(from)?, sums: part(from)? })
    }
}

fn array<'a, const N: usize>(from: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (array, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(array)
}

fn part<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u64::from_le_bytes(*array(from)?)).ok()?;
    let (part, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Entries stand side by side, and what is cut off anywhere is none.
        #[test]
        fn what_is_written_is_read(parts in prop::collection::vec(any::<(i64, u64, Vec<u8>, String)>(), 0..4)) {
            let entry = |(row, first, bytes, text): &(i64, u64, Vec<u8>, String)| {
                let mut written = Vec::new();
                let (sum, sums) = ([7; 16], bytes.as_slice());
                let entry = Entry { row: *row, first: *first, sum, note: bytes, summary: text, body: text.as_bytes(), sums };
                entry.write(&mut written);
                written
            };
            let written: Vec<u8> = parts.iter().flat_map(entry).collect();
            let mut rest = written.as_slice();
            for (row, first, bytes, text) in &parts {
                let length = rest.len();
                let read = Entry::read(&mut rest).unwrap();
                prop_assert_eq!((read.row, read.first, read.note, read.sums), (*row, *first, bytes.as_slice(), bytes.as_slice()));
                prop_assert_eq!((read.summary, read.body, read.sum), (text.as_str(), text.as_bytes(), [7; 16]));
                let taken = length - rest.len();
                let start = written.len() - length;
                for end in 0..taken {
                    prop_assert!(Entry::read(&mut &written[start..start + end]).is_none());
                }
            }
            prop_assert!(rest.is_empty());
        }
    }
}
