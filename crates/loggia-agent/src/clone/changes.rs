//! What the work has changed: the difference between the cloned commit and the files as they are.
//!
//! Found through the base, a git directory that is not the copy's: whatever a tool or a program has
//! put into the copy's own configuration is not read. Names of filters and of other programs' ways
//! to show a difference, which a repository may hold, then have no meaning.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::git::{Call, Git, Until};
use super::{CloneError, Places};

/// How long it may take.
const TIME: Duration = Duration::from_secs(120);
/// It goes into the log.
const LARGEST: usize = 1024 * 1024;
/// How much is looked at for what fits into that.
const LOOKED_AT: usize = 64 << 20;
/// Names that are said of those that are left out.
const NAMED: usize = 20;
/// What a call may say beside its work: a line for each file that was changed.
const CHATTER: usize = 16 << 20;

pub(super) struct Changes {
    pub patch: Vec<u8>,
    /// What is not in it, and why.
    pub note: Option<String>,
}

pub(super) async fn find(
    git: &Git,
    places: &Places,
    stop: &CancellationToken,
) -> Result<Changes, CloneError> {
    let until = Until { stop, deadline: Instant::now() + TIME, late: "it takes too long" };
    let Places { base, copy, .. } = places;
    let call = |arguments: &[&str]| {
        let mut call = Call::new(arguments).within(base, copy);
        // Of its own: what the agent has put into the copy's index stays there.
        call.set("GIT_INDEX_FILE", base.join("index"));
        call
    };
    let run = async |arguments: &[&str], limit: usize| {
        git.output(&call(arguments), copy, &until, limit).await
    };
    // Left by a call that was killed; nobody else uses this index.
    let _ = tokio::fs::remove_file(base.join("index.lock")).await;
    let read = run(&["read-tree", "--reset", "HEAD"], CHATTER).await?;
    if read.code != 0 {
        return Err(CloneError::failed("the cloned commit is no longer there"));
    }
    // What has a repository of its own in it is nobody's file: a name that ends like a directory's.
    let others = run(&["ls-files", "--others", "--exclude-standard", "-z"], CHATTER).await?;
    let nested: Vec<String> = others
        .bytes
        .split(|byte| *byte == 0)
        .filter(|name| name.ends_with(b"/"))
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    // The names of new files; their contents are read where they are.
    run(&["add", "--intent-to-add", "--ignore-errors", "--", ":/"], CHATTER).await?;
    // Files that are as they were need not be read again by the next turn.
    run(&["update-index", "-q", "--refresh"], CHATTER).await?;
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
    let printed = run(&differences, LOOKED_AT).await?;
    if printed.whole && printed.code != 0 {
        return Err(CloneError::failed("git could not compare the files with the cloned commit"));
    }
    Ok(fitting(&printed.bytes, printed.whole, &nested))
}

/// Whole files only, so that it can be applied: those that fit. What is left out is named in it, in
/// words before the first difference, which are no part of it, and in the note.
fn fitting(printed: &[u8], whole: bool, nested: &[String]) -> Changes {
    let mut files = files(printed);
    // The last one may be half there.
    let unread = !whole && files.pop().is_some();
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
        left_out.push(format!("{} (they do not fit into {limit} KiB)", listed(&large)));
    }
    if unread {
        left_out.push(format!("files after the first {} MiB of changes", LOOKED_AT >> 20));
    }
    if !nested.is_empty() {
        left_out.push(format!("{} (repositories of their own)", listed(nested)));
    }
    if left_out.is_empty() {
        let nothing = b"# Nothing was changed.\n".to_vec();
        return Changes { patch: if patch.is_empty() { nothing } else { patch }, note: None };
    }
    let left_out = left_out.join("; ");
    let mut words = format!("# Left out: {left_out}\n").into_bytes();
    words.append(&mut patch);
    let note = format!("changes.patch leaves out {left_out}; they are in the workspace only");
    Changes { patch: words, note: Some(note) }
}

/// The differences of single files. No line of one begins like its head.
fn files(printed: &[u8]) -> Vec<&[u8]> {
    const HEAD: &[u8] = b"diff --git ";
    let starts = |at: &usize| {
        let begins = *at == 0 || printed.get(at - 1) == Some(&b'\n');
        begins && printed.get(*at..).is_some_and(|rest| rest.starts_with(HEAD))
    };
    let lines = std::iter::once(0).chain(
        printed.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1),
    );
    let starts: Vec<usize> = lines.filter(starts).collect();
    let ends = starts.iter().skip(1).copied().chain([printed.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| printed.get(*start..end)).collect()
}

/// `diff --git a/NAME b/NAME`, on one line.
fn name(file: &[u8]) -> String {
    let head = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let names = head.trim_start_matches("diff --git ");
    // Both are the same, since nothing is renamed.
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
    fn what_fits_is_kept_and_the_rest_is_named() {
        let small = difference("a b.txt", 800);
        let all = fitting(&small, true, &[]);
        assert_eq!((all.patch, all.note), (small.clone(), None));
        assert_eq!(fitting(b"", true, &[]).patch, b"# Nothing was changed.\n");

        let large = [difference("big.bin", LARGEST + 800), small.clone()].concat();
        let kept = fitting(&large, true, &["sub/".to_owned()]);
        let words = "# Left out: big.bin (they do not fit into 1024 KiB); sub/ (repositories of their own)\n";
        assert_eq!(kept.patch, [words.as_bytes(), &small].concat());
        assert!(kept.note.unwrap().contains("big.bin"));

        // Read to its half: the last file is not there at all.
        let cut = fitting(&[small.clone(), difference("half", 80)].concat(), false, &[]);
        assert!(cut.patch.ends_with(&small), "{}", String::from_utf8_lossy(&cut.patch));
        let many: Vec<u8> =
            (0..30).flat_map(|number| difference(&format!("{number}.bin"), LARGEST + 80)).collect();
        assert!(fitting(&many, true, &[]).note.unwrap().contains("19.bin and 10 more"));
    }
}
