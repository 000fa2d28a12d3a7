//! The changes in a clone: the diff between the cloned commit and the current files.
//!
//! Uses the base, a git directory outside the clone, so the clone's configuration, which a tool may have
//! changed, is not read. Filters and external diff programs that the repository names have no effect.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::git::{Call, Git, Until};
use super::{CloneError, ClonePaths};

const TIME: Duration = Duration::from_secs(120);
/// Bytes of a patch. It is stored in the log.
const LARGEST: usize = 1024 * 1024;
/// Bytes of the diff that are read.
const DIFF_BYTES: usize = 64 << 20;
/// Names of left-out files that are listed.
const NAMED: usize = 20;
/// Bytes of a call's other output, such as a line for each changed file.
const OTHER_OUTPUT: usize = 16 << 20;

pub(super) struct Changes {
    pub patch: Vec<u8>,
    /// The files that are left out, and why.
    pub note: Option<String>,
}

pub(super) async fn find(
    git: &Git,
    paths: &ClonePaths,
    stop: &CancellationToken,
) -> Result<Changes, CloneError> {
    let until =
        Until { stop, deadline: Instant::now() + TIME, timeout_message: "it takes too long" };
    let ClonePaths { base, clone, .. } = paths;
    let call = |arguments: &[&str]| {
        let mut call = Call::new(arguments).within(base, clone);
        // A separate index: the agent may have staged files in the clone's index.
        call.set("GIT_INDEX_FILE", base.join("index"));
        call
    };
    let run = async |arguments: &[&str], limit: usize| {
        git.output(&call(arguments), clone, &until, limit).await
    };
    // May be left by a call that was killed. No other process uses this index.
    let _ = tokio::fs::remove_file(base.join("index.lock")).await;
    let read = run(&["read-tree", "--reset", "HEAD"], OTHER_OUTPUT).await?;
    if read.code != 0 {
        return Err(CloneError::failed("the cloned commit no longer exists"));
    }
    // Git lists a nested repository as a name that ends in a slash.
    let others = run(&["ls-files", "--others", "--exclude-standard", "-z"], OTHER_OUTPUT).await?;
    let nested: Vec<String> = others
        .bytes
        .split(|byte| *byte == 0)
        .filter(|name| name.ends_with(b"/"))
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    // Makes new files part of the diff without storing their contents.
    run(&["add", "--intent-to-add", "--ignore-errors", "--", ":/"], OTHER_OUTPUT).await?;
    // Lets the next turn skip unchanged files.
    run(&["update-index", "-q", "--refresh"], OTHER_OUTPUT).await?;
    let differences = [
        "diff",
        "--binary",
        "--full-index",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-renames",
        "--ignore-submodules=all",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "HEAD",
        "--",
    ];
    let output = run(&differences, DIFF_BYTES).await?;
    if output.complete && output.code != 0 {
        return Err(CloneError::failed("git could not compare the files with the cloned commit"));
    }
    Ok(limited(&output.bytes, output.complete, &nested))
}

/// A patch with the files that fit. It contains whole files only, so that it can be applied. Left-out
/// files are named in a comment before the first diff and in the note.
fn limited(diff: &[u8], complete: bool, nested: &[String]) -> Changes {
    let mut files = files(diff);
    // The last one may be incomplete.
    let unread = !complete && files.pop().is_some();
    let (mut patch, mut large) = (Vec::new(), Vec::new());
    for file in files {
        match patch.len() + file.len() <= LARGEST {
            true => patch.extend_from_slice(file),
            false => large.push(name(file)),
        }
    }
    let limit = LARGEST / 1024;
    let mut left_out = Vec::new();
    if !large.is_empty() {
        left_out.push(format!("{} (larger than the limit of {limit} KiB)", listed(&large)));
    }
    if unread {
        left_out.push(format!("files after the first {} MiB of changes", DIFF_BYTES >> 20));
    }
    if !nested.is_empty() {
        left_out.push(format!("{} (nested repositories)", listed(nested)));
    }
    if left_out.is_empty() {
        let unchanged = b"# Nothing was changed.\n".to_vec();
        return Changes { patch: if patch.is_empty() { unchanged } else { patch }, note: None };
    }
    let left_out = left_out.join("; ");
    let mut commented = format!("# Left out: {left_out}\n").into_bytes();
    commented.append(&mut patch);
    let note = format!("changes.patch leaves out {left_out}; they are in the workspace only");
    Changes { patch: commented, note: Some(note) }
}

/// Splits a diff by file. No other line begins like the header of a file.
fn files(diff: &[u8]) -> Vec<&[u8]> {
    const HEAD: &[u8] = b"diff --git ";
    let starts = |at: &usize| {
        let begins = *at == 0 || diff.get(at - 1) == Some(&b'\n');
        begins && diff.get(*at..).is_some_and(|rest| rest.starts_with(HEAD))
    };
    let lines = std::iter::once(0)
        .chain(diff.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1));
    let starts: Vec<usize> = lines.filter(starts).collect();
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| diff.get(*start..end)).collect()
}

/// `diff --git a/NAME b/NAME`, on one line.
fn name(file: &[u8]) -> String {
    let head = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let names = head.trim_start_matches("diff --git ");
    // Both names are the same, because renames are not detected.
    let half = names.len() / 2;
    let first = names.get(..half).unwrap_or(names);
    first.trim_matches('"').trim_start_matches("a/").to_owned()
}

fn listed(names: &[String]) -> String {
    let plain = |name: &String| name.chars().filter(|letter| !letter.is_control()).collect();
    let shown: Vec<String> = names.iter().take(NAMED).map(plain).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(name: &str, size: usize) -> Vec<u8> {
        let line = "+".to_owned() + &"x".repeat(78) + "\n";
        format!("diff --git a/{name} b/{name}\n{}", line.repeat(size / 80)).into_bytes()
    }

    #[test]
    fn files_that_fit_are_kept_and_the_others_named() {
        let small = difference("a b.txt", 800);
        let all = limited(&small, true, &[]);
        assert_eq!((all.patch, all.note), (small.clone(), None));
        assert_eq!(limited(b"", true, &[]).patch, b"# Nothing was changed.\n");

        let large = [difference("big.bin", LARGEST + 800), small.clone()].concat();
        let kept = limited(&large, true, &["sub/".to_owned()]);
        let words =
            "# Left out: big.bin (larger than the limit of 1024 KiB); sub/ (nested repositories)\n";
        assert_eq!(kept.patch, [words.as_bytes(), &small].concat());
        assert!(kept.note.unwrap().contains("big.bin"));

        // The diff was cut: the last file is left out.
        let cut = limited(&[small.clone(), difference("half", 80)].concat(), false, &[]);
        assert!(cut.patch.ends_with(&small), "{}", String::from_utf8_lossy(&cut.patch));
        let many: Vec<u8> =
            (0..30).flat_map(|number| difference(&format!("{number}.bin"), LARGEST + 80)).collect();
        assert!(limited(&many, true, &[]).note.unwrap().contains("19.bin and 10 more"));
    }
}
