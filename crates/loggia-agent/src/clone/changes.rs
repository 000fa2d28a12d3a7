//! What the work has changed: the difference between the cloned commit and the files as they are.
//!
//! Found through the base, a git directory that is not the copy's: whatever a tool or a program has
//! put into the copy's own configuration is not read. Names of filters and of other programs' ways
//! to show a difference, which a repository may hold, then have no meaning.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::git::{Call, Git, Until};
use super::{CloneError, Places};

/// How long it may take.
const TIME: Duration = Duration::from_secs(120);
/// It goes into the log.
const LARGEST: usize = 1024 * 1024;

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
    let read = run(&["read-tree", "--reset", "HEAD"], 0).await?;
    if read.code != 0 {
        return Err(CloneError::failed("the cloned commit is no longer there"));
    }
    // The names of new files; their contents are read where they are.
    run(&["add", "--intent-to-add", "--ignore-errors", "--", ":/"], usize::MAX).await?;
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
    let printed = run(&differences, LARGEST).await?;
    if printed.whole && printed.code != 0 {
        return Err(CloneError::failed("git could not compare the files with the cloned commit"));
    }
    forget_index(base).await;
    Ok(match printed.whole {
        true => Changes { patch: or_nothing(printed.bytes), note: None },
        false => cut(printed.bytes),
    })
}

async fn forget_index(base: &Path) {
    // Made anew each time.
    let _ = tokio::fs::remove_file(base.join("index")).await;
}

fn or_nothing(patch: Vec<u8>) -> Vec<u8> {
    if patch.is_empty() { b"# Nothing was changed.\n".to_vec() } else { patch }
}

/// Whole files only: what is left can be applied.
fn cut(mut patch: Vec<u8>) -> Changes {
    const HEAD: &[u8] = b"\ndiff --git ";
    let end = patch.windows(HEAD.len()).rposition(|window| window == HEAD);
    patch.truncate(end.map_or(0, |end| end + 1));
    let limit = LARGEST / 1024;
    let note = format!(
        "changes.patch is cut: the changes take more than {limit} KiB; the files after the last \
         one in it are in the workspace only"
    );
    // Words before the first difference are no part of it.
    let mut whole =
        format!("# Cut: there are more changes than fit into {limit} KiB.\n").into_bytes();
    whole.append(&mut patch);
    Changes { patch: whole, note: Some(note) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_cut_between_files() {
        let patch =
            b"diff --git a/1 b/1\n+1\ndiff --git a/2 b/2\n+2\ndiff --git a/3 b/3\n+".to_vec();
        let kept = String::from_utf8(cut(patch).patch).unwrap();
        assert!(kept.starts_with("# Cut"), "{kept}");
        assert!(kept.ends_with("diff --git a/2 b/2\n+2\n"), "{kept}");
        let kept = cut(b"diff --git a/1 b/1\n+1".to_vec()).patch;
        assert_eq!(kept.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}
