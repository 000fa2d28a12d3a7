//! Tests the storage: database, free space, permissions.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use loggia_session::StoreError;
use rustix::fs::{statfs, statvfs};

use super::Check;
use crate::compose::open_store;

const LITTLE_SPACE: u64 = 256 * 1024 * 1024;

pub async fn checks(data: &Path) -> Vec<Check> {
    let mut checks = database(data).await;
    checks.push(space(data));
    checks.push(file_system(data));
    checks.push(permissions(data));
    checks
}

async fn database(data: &Path) -> Vec<Check> {
    let directory = data.to_owned();
    let opened = tokio::task::spawn_blocking(move || open_store(&directory)).await;
    let store = match opened {
        Ok(Ok(store)) => store,
        Ok(Err(error)) => return vec![damaged(&error)],
        Err(error) => return vec![damaged(&StoreError::Io(error.to_string()))],
    };
    let location = store.location();
    let mut checks = vec![match store.check().await {
        Ok(()) => {
            Check::works("database", format!("{location} opens, and its check finds nothing"))
        }
        Err(error) => damaged(&error),
    }];
    checks.extend(store.findings().iter().map(|finding| {
        Check::limited("database", finding, "The sessions it names can be shown and exported.")
    }));
    checks
}

fn damaged(error: &StoreError) -> Check {
    let next = match error {
        StoreError::Full { .. } => "Free some space; nothing is lost.",
        _ => "Keep a copy of the file; LOGGIA_HOME=/another/directory starts with an empty one.",
    };
    Check::broken("database", error.to_string(), next)
}

fn space(data: &Path) -> Check {
    match statvfs(data) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let text = format!("{} free", size(free));
            if free < LITTLE_SPACE {
                let next = "Free some: without space no turn can start.";
                Check::limited("space", text, next)
            } else {
                Check::works("space", text)
            }
        }
        Err(error) => Check::limited("space", format!("cannot be measured: {error}"), ""),
    }
}

pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1 << 10, "KiB"));
    format!("{:.1} {name}", bytes as f64 / unit as f64)
}

fn file_system(data: &Path) -> Check {
    let found = match statfs(data) {
        Ok(found) => found,
        Err(error) => return Check::limited("file system", format!("not known: {error}"), ""),
    };
    match kind(found.f_type as u64) {
        Some((name, StorageKind::Local)) => Check::works("file system", name),
        Some((name, StorageKind::Memory)) => Check::limited(
            "file system",
            format!("{name}: it is in memory, so sessions are lost on a reboot"),
            "Set LOGGIA_HOME to a directory on a disk.",
        ),
        Some((name, StorageKind::Network)) => Check::limited(
            "file system",
            format!("{name}: locks and the write-ahead log need a local disk"),
            "Set LOGGIA_HOME to a directory on a local disk.",
        ),
        None => Check::works("file system", format!("kind {:#x}", found.f_type)),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum StorageKind {
    Local,
    Memory,
    Network,
}

/// Magic numbers of file systems, from `linux/magic.h` and their own headers.
pub fn kind(magic: u64) -> Option<(&'static str, StorageKind)> {
    // The field may be a signed 32-bit number.
    Some(match magic & 0xffff_ffff {
        0xef53 => ("ext2/3/4", StorageKind::Local),
        0x5846_5342 => ("xfs", StorageKind::Local),
        0x9123_683e => ("btrfs", StorageKind::Local),
        0x2fc1_2fc1 => ("zfs", StorageKind::Local),
        0xf2f5_2010 => ("f2fs", StorageKind::Local),
        0xca45_1a4e => ("bcachefs", StorageKind::Local),
        0x794c_7630 => ("overlay", StorageKind::Local),
        0x0102_1994 => ("tmpfs", StorageKind::Memory),
        0x8584_58f6 => ("ramfs", StorageKind::Memory),
        0x6969 => ("NFS", StorageKind::Network),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => ("SMB", StorageKind::Network),
        0x0102_1997 => ("9p", StorageKind::Network),
        0x00c3_6400 => ("Ceph", StorageKind::Network),
        0x5346_414f => ("AFS", StorageKind::Network),
        0x6573_5546 => ("FUSE", StorageKind::Network),
        0x6a65_6a63 => ("virtiofs", StorageKind::Network),
        _ => return None,
    })
}

fn permissions(data: &Path) -> Check {
    let next = || format!("Run: chmod 700 {}", data.display());
    match std::fs::metadata(data) {
        Ok(found) if found.mode() & 0o077 == 0 => {
            Check::works("privacy", format!("only you may enter {}", data.display()))
        }
        Ok(found) => Check::limited(
            "privacy",
            format!("others may enter {} (mode {:o})", data.display(), found.mode() & 0o777),
            &next(),
        ),
        Err(error) => Check::broken("privacy", format!("{}: {error}", data.display()), ""),
    }
}
