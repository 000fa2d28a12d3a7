//! What appends change in the tables: rows of the log, and the lists of sessions and tasks. Where they come from, a
//! journal or directly, is not known here.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::{ErrorCode, Transaction, params};

use super::chain::END_OF_RECORD;
use super::entry::{Entry, Note};
use super::tasks;

/// Bytes of a row that is made of several appends.
const LARGE: usize = 64 * 1024;

/// Writes appends into the log, and into the lists what has changed by all of them together. Returns the sessions,
/// by row, of which it did not take them.
pub fn apply<'a>(
    transaction: &Transaction<'_>,
    entries: Vec<(Entry<'a>, Note)>,
) -> Result<Vec<i64>, rusqlite::Error> {
    let taken = log(transaction, &entries)?;
    // Only the last word about a session counts, but for who made it, and for its tasks.
    let (mut last, mut places) = (Vec::<(Entry<'_>, Note)>::new(), HashMap::new());
    for (entry, mut note) in entries {
        if taken.contains(&entry.row) {
            continue;
        }
        for marked in std::mem::take(&mut note.tasks) {
            tasks::mark(transaction, entry.row, &marked.into())?;
        }
        let place = *places.entry(entry.row).or_insert(last.len());
        match last.get_mut(place) {
            Some((kept, earlier)) => {
                note.begun = note.begun.or(earlier.begun.take());
                (*kept, *earlier) = (entry, note);
            }
            None => last.push((entry, note)),
        }
    }
    last.iter().try_for_each(|(entry, note)| list(transaction, entry, note))?;
    Ok(taken)
}

/// A row of the log: the records of one append, or of several that follow each other.
struct Row<'a> {
    first: &'a Entry<'a>,
    next: u64,
    body: Cow<'a, [u8]>,
    sums: Cow<'a, [u8]>,
}

impl<'a> Row<'a> {
    fn of(entry: &'a Entry<'a>) -> Self {
        let (body, sums) = (Cow::Borrowed(entry.body), Cow::Borrowed(entry.sums));
        Self { first: entry, next: entry.first + entry.count(), body, sums }
    }

    /// False: it does not follow, or the row would be too large.
    fn takes(&mut self, entry: &Entry<'_>) -> bool {
        if entry.first != self.next || self.body.len() + entry.body.len() > LARGE {
            return false;
        }
        let body = self.body.to_mut();
        body.push(END_OF_RECORD);
        body.extend(entry.body);
        self.sums.to_mut().extend(entry.sums);
        self.next += entry.count();
        true
    }
}

/// Writes the rows, fewer than appends where a session streams. Returns the sessions in which something else stood,
/// and stays. Only its owner writes a session, so this is a fault; but a journal that cannot be settled would
/// keep everybody's appends out of the tables.
fn log(
    transaction: &Transaction<'_>,
    entries: &[(Entry<'_>, Note)],
) -> Result<Vec<i64>, rusqlite::Error> {
    let (mut rows, mut places) = (Vec::<Row<'_>>::new(), HashMap::new());
    for (entry, _) in entries.iter().filter(|(entry, _)| !entry.body.is_empty()) {
        let open = places.get(&entry.row).and_then(|place: &usize| rows.get_mut(*place));
        if !open.is_some_and(|row| row.takes(entry)) {
            places.insert(entry.row, rows.len());
            rows.push(Row::of(entry));
        }
    }
    let mut taken = Vec::new();
    for Row { first, body, sums, .. } in &rows {
        let inserted = transaction
            .prepare_cached("INSERT INTO events (session, seq, body, sum) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![first.row, first.first, body, sums]);
        if !unless_taken(inserted, first)? {
            taken.push(first.row);
        }
    }
    Ok(taken)
}

fn unless_taken(
    inserted: Result<usize, rusqlite::Error>,
    entry: &Entry<'_>,
) -> Result<bool, rusqlite::Error> {
    match inserted {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            let (row, first) = (entry.row, entry.first);
            tracing::error!(row, first, %error, "a journal holds what the log has from elsewhere");
            Ok(false)
        }
        other => other.map(|_| true),
    }
}

fn list(
    transaction: &Transaction<'_>,
    entry: &Entry<'_>,
    note: &Note,
) -> Result<(), rusqlite::Error> {
    let Note { id, epoch, begun, head, updated, .. } = note;
    let owner = begun.as_ref().and_then(|owner| serde_json::to_string(owner).ok());
    // The row is there but for a session that begins with this. Journals are settled one after the other, so
    // what one of them holds may be older than what another one held.
    let listed = transaction
        .prepare_cached(
            "INSERT INTO sessions (row, id, epoch, owner, head, sum, updated, summary)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (row) DO UPDATE SET epoch = max(epoch, excluded.epoch), head = excluded.head,
                 sum = excluded.sum, updated = excluded.updated, summary = excluded.summary
             WHERE excluded.head >= head",
        )?
        .execute(params![
            entry.row,
            id.as_str(),
            epoch,
            owner,
            head,
            entry.sum.as_slice(),
            updated,
            entry.summary
        ]);
    unless_taken(listed, entry).map(drop)
}
