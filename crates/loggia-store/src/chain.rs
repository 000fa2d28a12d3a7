//! The chain of checksums over the records of a log: each record is verified before it is decoded. [`crate::read`]
//! chooses the rows.

use std::path::Path;
use std::sync::Arc;

use loggia_core::{Envelope, Seq, SessionId};
use loggia_session::StoreError;

use crate::checksum::{self, Sum};

/// Separates the records of an append. Records are JSON on one line, so they do not contain it.
pub const END_OF_RECORD: u8 = b'\n';

const SIZE: usize = size_of::<Sum>();

/// The extent of a log according to its row in the table of sessions.
pub struct Extent<'a> {
    pub session: &'a SessionId,
    pub path: &'a Path,
    pub head: Seq,
    pub sum: &'a [u8],
}

impl Extent<'_> {
    fn corrupt(&self, seq: Seq, detail: &str) -> StoreError {
        StoreError::Corrupt {
            session: self.session.clone(),
            seq,
            file: self.path.display().to_string(),
            detail: detail.to_owned(),
        }
    }
}

/// One row: consecutive records, one line each, and their checksums.
pub struct Row<'a> {
    pub first: Seq,
    pub body: &'a [u8],
    pub sums: &'a [u8],
}

impl<'a> Row<'a> {
    fn sum(&self, seq: Seq) -> Option<Sum> {
        let index = usize::try_from(seq.0.checked_sub(self.first.0)?).ok()?;
        let sums = self.sums.get(index.checked_mul(SIZE)?..)?;
        sums.first_chunk().copied()
    }

    /// The records from `seq` on. A damaged row may have fewer; the chain finds that.
    fn records(&self, seq: Seq) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let skip = usize::try_from(seq.0.saturating_sub(self.first.0)).unwrap_or(usize::MAX);
        let start = match skip.checked_sub(1) {
            Some(ends) => {
                memchr::memchr_iter(END_OF_RECORD, self.body).nth(ends).map(|end| end + 1)
            }
            None => Some(0),
        };
        let lines = Lines(start.and_then(|start| self.body.get(start..)));
        let sums = self.sums.get(skip.saturating_mul(SIZE)..).unwrap_or_default();
        lines.zip(sums.chunks(SIZE).chain(std::iter::repeat(&[][..])))
    }
}

/// The rest of a body; None after its last line.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let (line, rest) = match memchr::memchr(END_OF_RECORD, rest) {
            Some(end) => (rest.get(..end)?, rest.get(end + 1..)),
            None => (rest, None),
        };
        self.0 = rest;
        Some(line)
    }
}

/// A read that goes from `after` to its last record.
pub struct Chain<'a> {
    extent: Extent<'a>,
    after: Seq,
    last: Seq,
    /// The checksum of the record before the next one. None until the record at `after` was read.
    previous: Option<Sum>,
    good: Vec<Arc<Envelope>>,
    bytes: usize,
}

impl<'a> Chain<'a> {
    /// For up to `wanted` records after `after`.
    pub fn new(extent: Extent<'a>, after: Seq, wanted: u64) -> Self {
        let wanted = extent.head.0.saturating_sub(after.0).min(wanted);
        let (last, good) = (Seq(after.0 + wanted), Vec::new());
        Self { extent, after, last, previous: None, good, bytes: 0 }
    }

    /// The last record that is wanted.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Good records so far, and their size in the file.
    pub fn found(&self) -> (usize, usize) {
        (self.good.len(), self.bytes)
    }

    /// Every wanted record was read.
    pub fn is_whole(&self) -> bool {
        self.previous.is_some() && self.next() > self.last
    }

    fn next(&self) -> Seq {
        Seq(self.after.0 + self.good.len() as u64).next()
    }

    /// Takes the wanted records of a row. Rows come in order, the one with the record at `after` first.
    pub fn take(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let mut previous = match self.previous {
            Some(sum) => sum,
            None => self.begin(row.sum(self.after))?,
        };
        let next = self.next();
        if row.first > next {
            return Err(self.missing(next));
        }
        for (body, sum) in row.records(next) {
            let seq = self.next();
            if seq > self.last {
                break;
            }
            let envelope = self.check(&mut previous, seq, body, sum)?;
            self.good.push(Arc::new(envelope));
            self.bytes += body.len();
            self.previous = Some(previous);
        }
        Ok(())
    }

    /// The checksum that the first record is chained to.
    fn begin(&mut self, at_after: Option<Sum>) -> Result<Sum, StoreError> {
        let sum = match self.after {
            Seq::ZERO => checksum::origin(self.extent.session),
            after => at_after.ok_or_else(|| self.missing(after))?,
        };
        if self.after == self.extent.head && sum.as_slice() != self.extent.sum {
            return Err(self.not_the_last(self.after.max(Seq(1))));
        }
        self.previous = Some(sum);
        Ok(sum)
    }

    fn check(
        &self,
        previous: &mut Sum,
        seq: Seq,
        body: &[u8],
        expected: &[u8],
    ) -> Result<Envelope, StoreError> {
        let sum = checksum::next(previous, seq, body);
        if sum.as_slice() != expected {
            return Err(self.extent.corrupt(seq, "its checksum does not match its content"));
        }
        let decoded =
            std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str(text).ok());
        let Some(envelope) = decoded else {
            return Err(self.extent.corrupt(seq, "its content cannot be read"));
        };
        if seq == self.extent.head && sum.as_slice() != self.extent.sum {
            return Err(self.not_the_last(seq));
        }
        *previous = sum;
        Ok(envelope)
    }

    /// The records, when no row is left or no more is needed. Records before damage are good: they are returned, and
    /// the next read reports the damage.
    pub fn end(
        mut self,
        result: Result<(), StoreError>,
        enough: bool,
    ) -> Result<Vec<Arc<Envelope>>, StoreError> {
        let result = result.and_then(|()| match self.previous {
            // No row was found, not even the one with the record at `after`.
            None => self.begin(None).map(drop),
            Some(_) => Ok(()),
        });
        let result = result.and_then(|()| match enough || self.is_whole() {
            true => Ok(()),
            false => Err(self.missing(self.next())),
        });
        match result {
            Err(error) if self.good.is_empty() => Err(error),
            _ => Ok(self.good),
        }
    }

    fn missing(&self, seq: Seq) -> StoreError {
        self.extent.corrupt(seq, "its record is missing")
    }

    fn not_the_last(&self, seq: Seq) -> StoreError {
        self.extent.corrupt(seq, "it is not the last event that was written")
    }
}
