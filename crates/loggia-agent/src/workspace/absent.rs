//! Names that a directory does not have, remembered for as long as it stays as it was.
//!
//! Whatever appears in a directory changes its change time, which nobody can set. Two changes in one
//! tick of the clock have the same time, so a look counts for later only where the last change was
//! longer ago than a tick; and only on file systems that are known to keep that time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, fstat, fstatfs, statat};

/// Longer than a tick of any of [`EXACT`]: some of them keep whole seconds.
const LONG_TICK: Duration = Duration::from_secs(2);
/// The same where a time has parts of a second: then the kernel's clock ticks, every ten milliseconds or more often.
const TICK: Duration = Duration::from_millis(50);

/// ext2 to ext4, XFS, btrfs, tmpfs, f2fs, overlay, ZFS: local, and directories keep their time there.
const EXACT: [i64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1];

type Names = &'static [&'static str];

pub(super) struct Absent {
    exact: bool,
    /// None of these was there when the directory had last changed then. A lock, not a task: held to
    /// look at it.
    known: Mutex<Option<(Names, Duration)>>,
}

impl Absent {
    pub fn of(directory: impl AsFd) -> Self {
        let exact = fstatfs(directory).is_ok_and(|system| EXACT.contains(&system.f_type));
        Self { exact, known: Mutex::default() }
    }

    /// Whether the directory has none of these entries, whatever they are.
    pub fn are(&self, directory: BorrowedFd<'_>, names: Names) -> bool {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.are_at(directory, names, now)
    }

    fn are_at(
        &self,
        directory: BorrowedFd<'_>,
        names: Names,
        now: impl FnOnce() -> Duration,
    ) -> bool {
        // Before the look, and the clock, too: what appears after it has another time.
        let changed = self.exact.then(|| changed(directory)).flatten();
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if changed.is_some() && *lock() == changed.map(|at| (names, at)) {
            return true;
        }
        let past = |at: &Duration| now().checked_sub(*at).is_some_and(|since| since > tick(*at));
        let past = changed.filter(past);
        let there = |name: &&str| statat(directory, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let absent = !names.iter().any(there);
        *lock() = past.filter(|_| absent).map(|at| (names, at));
        absent
    }
}

fn tick(changed: Duration) -> Duration {
    if changed.subsec_nanos() == 0 { LONG_TICK } else { TICK }
}

/// When the directory last changed, since 1970.
fn changed(directory: BorrowedFd<'_>) -> Option<Duration> {
    let stat = fstat(directory).ok()?;
    let seconds = u64::try_from(stat.st_ctime).ok()?;
    Some(Duration::new(seconds, u32::try_from(stat.st_ctime_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const NAMES: Names = &["a", "b"];

    #[test]
    fn what_appears_is_seen_whatever_was_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let open = File::open(directory.path()).unwrap();
        let absent = Absent { exact: true, known: Mutex::default() };
        let at = || changed(open.as_fd()).unwrap();
        let are = |now: Duration| absent.are_at(open.as_fd(), NAMES, || now);
        let known = || *absent.known.lock().unwrap();
        let first = at();

        // A change in the same tick could not be told from this one.
        assert!(are(first) && known().is_none());
        assert!(are(first + TICK) && known().is_none());
        let later = first + 2 * LONG_TICK;
        assert!(are(later) && known() == Some((NAMES, first)));
        assert!(are(first), "remembered, whatever the clock says");

        for n in 0.. {
            File::create(directory.path().join(format!("other-{n}"))).unwrap();
            if at() != first {
                break;
            }
        }
        File::create(directory.path().join("b")).unwrap();
        assert!(!are(at() + 2 * LONG_TICK) && known().is_none());
        std::fs::remove_file(directory.path().join("b")).unwrap();
        assert!(are(at() + 2 * LONG_TICK) && known() == Some((NAMES, at())));
    }

    #[test]
    fn a_clock_of_whole_seconds_ticks_for_longer() {
        assert_eq!(tick(Duration::from_secs(7)), LONG_TICK);
        assert_eq!(tick(Duration::new(7, 1)), TICK);
    }

    #[test]
    fn nothing_is_remembered_where_directories_do_not_keep_their_time() {
        let directory = tempfile::tempdir().unwrap();
        let open = File::open(directory.path()).unwrap();
        let absent = Absent { exact: false, known: Mutex::default() };
        assert!(absent.are_at(open.as_fd(), NAMES, || Duration::MAX));
        assert!(absent.known.lock().unwrap().is_none());
    }
}
