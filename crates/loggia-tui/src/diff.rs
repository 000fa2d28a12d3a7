//! A file change: removed and added lines, and the changed words in them.
//!
//! Computed from the file before and after, never from a given diff, so that the person sees what
//! will be done. [`draw`] renders it. Large changes are compared only roughly, and omitted lines
//! are counted.

mod draw;

use std::ops::Range;

use loggia_core::FileDiff;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};
use unicode_segmentation::UnicodeSegmentation;

use crate::safe::printable;

pub use draw::DiffOptions;

/// Unchanged lines shown around a change.
const AROUND: usize = 3;
/// Maximum number of changed lines for the shortest diff, whose cost is their product.
const FINE: usize = 4_000;
/// Maximum number of rows.
const MOST_ROWS: usize = 20_000;
/// Maximum length in bytes and number of words of a line that is compared word by word.
const LONGEST_LINE: usize = 1_000;
const MOST_WORDS: usize = 300;

/// A change, independent of the width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    path: String,
    is_new: bool,
    protected: bool,
    pub added: usize,
    pub removed: usize,
    hunks: Vec<Hunk>,
    /// Number of omitted changed lines.
    left_out: usize,
    /// Digits of the largest line number.
    digits: usize,
}

/// Adjacent changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk {
    /// Number of unchanged lines between the previous hunk and this one.
    folded: usize,
    rows: Vec<DiffRow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct DiffRow {
    side: Side,
    /// Line numbers before and after, from 1. A number that does not apply to a row is that of the
    /// next line.
    old: usize,
    new: usize,
    /// Printable.
    text: String,
    /// Byte ranges of `text` that differ from the row's counterpart.
    words: Vec<Range<usize>>,
    /// The file ends here without a line break.
    unended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Same,
    Removed,
    Added,
}

impl Diff {
    /// Whether no change was omitted.
    pub fn is_whole(&self) -> bool {
        self.left_out == 0
    }

    pub fn of(diff: &FileDiff) -> Self {
        let before: Vec<&str> =
            diff.old.as_deref().unwrap_or_default().split_inclusive('\n').collect();
        let after: Vec<&str> = diff.new.split_inclusive('\n').collect();
        let operations = operations(&before, &after);
        let count = |tag: fn(&DiffOp) -> usize| operations.iter().map(tag).sum();
        let mut made = Self {
            path: diff.path.clone(),
            is_new: diff.old.is_none(),
            protected: diff.protected,
            added: count(|operation| match operation.tag() {
                DiffTag::Equal => 0,
                DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => operation.new_range().len(),
            }),
            removed: count(|operation| match operation.tag() {
                DiffTag::Equal => 0,
                DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => operation.old_range().len(),
            }),
            hunks: Vec::new(),
            left_out: 0,
            digits: before.len().max(after.len()).max(1).to_string().len(),
        };
        made.fill(operations, &before, &after);
        made
    }

    fn fill(&mut self, operations: Vec<DiffOp>, before: &[&str], after: &[&str]) {
        let returns = shows_returns(before, after);
        let (mut end, mut rows) = (0, 0);
        for group in group_diff_ops(operations, AROUND) {
            let start = group.first().map_or(end, |operation| operation.old_range().start);
            let mut hunk = Hunk { folded: start.saturating_sub(end), rows: Vec::new() };
            for operation in &group {
                end = operation.old_range().end;
                let size = operation.old_range().len() + operation.new_range().len();
                let shown = fitting(operation, MOST_ROWS.saturating_sub(rows));
                let shown_size = shown.old_range().len() + shown.new_range().len();
                if operation.tag() != DiffTag::Equal {
                    self.left_out += size - shown_size;
                }
                rows += shown_size;
                hunk.add(&shown, before, after, returns);
            }
            if !hunk.rows.is_empty() {
                self.hunks.push(hunk);
            }
        }
    }
}

impl Hunk {
    fn add(&mut self, operation: &DiffOp, before: &[&str], after: &[&str], returns: bool) {
        let (tag, old, new) = operation.as_tag_tuple();
        let row = |side, old: usize, new: usize, line: &str| DiffRow {
            side,
            old: old + 1,
            new: new + 1,
            text: shown(line, returns && side != Side::Same),
            words: Vec::new(),
            unended: side != Side::Same && !line.ends_with('\n'),
        };
        let line = |lines: &[&str], at: usize| -> String {
            lines.get(at).copied().unwrap_or_default().to_owned()
        };
        if tag == DiffTag::Equal {
            let rows = old.zip(new);
            self.rows.extend(rows.map(|(old, new)| row(Side::Same, old, new, &line(before, old))));
            return;
        }
        let (old_start, new_start) = (old.start, new.start);
        let removed = old.map(|at| row(Side::Removed, at, new_start, &line(before, at)));
        let mut removed: Vec<DiffRow> = removed.collect();
        let added = new.map(|at| row(Side::Added, old_start, at, &line(after, at)));
        let mut added: Vec<DiffRow> = added.collect();
        for (old, new) in removed.iter_mut().zip(&mut added) {
            (old.words, new.words) = words(&old.text, &new.text);
        }
        self.rows.append(&mut removed);
        self.rows.append(&mut added);
    }
}

/// The part of the operation that fits the remaining rows.
fn fitting(operation: &DiffOp, room: usize) -> DiffOp {
    let (tag, old, new) = operation.as_tag_tuple();
    if old.len() + new.len() <= room || tag == DiffTag::Equal {
        return *operation;
    }
    let old_len = old.len().min(room / 2);
    let new_len = new.len().min(room - old_len);
    DiffOp::Replace { old_index: old.start, old_len, new_index: new.start, new_len }
}

/// The line operations in order.
fn operations(before: &[&str], after: &[&str]) -> Vec<DiffOp> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let prefix = before.iter().zip(after).take_while(same).count();
    let suffix = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
    let suffix = suffix.min(before.len().min(after.len()) - prefix);
    let (old_len, new_len) = (before.len() - prefix - suffix, after.len() - prefix - suffix);
    let old = before.get(prefix..prefix + old_len).unwrap_or_default();
    let new = after.get(prefix..prefix + new_len).unwrap_or_default();
    let equal = |old_index, new_index, len| DiffOp::Equal { old_index, new_index, len };
    let mut found = vec![equal(0, 0, prefix)];
    if old_len + new_len > FINE {
        let (old_index, new_index) = (prefix, prefix);
        found.push(DiffOp::Replace { old_index, old_len, new_index, new_len });
    } else {
        found.extend(capture_diff_slices(Algorithm::Myers, old, new).into_iter().map(
            |operation| {
                let (tag, old, new) = operation.as_tag_tuple();
                let (old_index, new_index) = (old.start + prefix, new.start + prefix);
                match tag {
                    DiffTag::Equal => equal(old_index, new_index, old.len()),
                    DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => DiffOp::Replace {
                        old_index,
                        old_len: old.len(),
                        new_index,
                        new_len: new.len(),
                    },
                }
            },
        ));
    }
    found.push(equal(before.len() - suffix, after.len() - suffix, suffix));
    found
        .retain(|operation| !operation.old_range().is_empty() || !operation.new_range().is_empty());
    found
}

/// Whether to show carriage returns at line ends: not if all lines have one.
fn shows_returns(before: &[&str], after: &[&str]) -> bool {
    let all = |lines: &[&str]| lines.iter().all(|line| line.ends_with("\r\n"));
    !(all(before) && all(after))
}

fn shown(line: &str, returns: bool) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    match line.strip_suffix('\r') {
        Some(body) if returns => format!("{}␍", printable(body)),
        Some(body) => printable(body).into_owned(),
        None => printable(line).into_owned(),
    }
}

/// The differing words of two versions of a line, unless nearly all differ.
fn words(old: &str, new: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let nothing = (Vec::new(), Vec::new());
    if old.len() > LONGEST_LINE || new.len() > LONGEST_LINE || old == new {
        return nothing;
    }
    let before: Vec<&str> = old.split_word_bounds().collect();
    let after: Vec<&str> = new.split_word_bounds().collect();
    if before.len() > MOST_WORDS || after.len() > MOST_WORDS {
        return nothing;
    }
    let (mut went, mut came) = (Vec::new(), Vec::new());
    let mut kept = 0;
    let bytes = |words: &[&str], range: Range<usize>| -> Range<usize> {
        let until = |end: usize| words.iter().take(end).map(|word| word.len()).sum();
        until(range.start)..until(range.end)
    };
    for operation in capture_diff_slices(Algorithm::Myers, &before, &after) {
        let (tag, old_range, new_range) = operation.as_tag_tuple();
        let (old_bytes, new_bytes) = (bytes(&before, old_range), bytes(&after, new_range));
        if tag == DiffTag::Equal {
            let text = old.get(old_bytes).unwrap_or_default();
            kept += text.chars().filter(|it| !it.is_whitespace()).count();
            continue;
        }
        went.extend((!old_bytes.is_empty()).then_some(old_bytes));
        came.extend((!new_bytes.is_empty()).then_some(new_bytes));
    }
    let solid = |text: &str| text.chars().filter(|it| !it.is_whitespace()).count();
    if kept * 3 < solid(old).max(solid(new)) { nothing } else { (went, came) }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
