//! Makes the PID namespace of a call, as root or as anybody.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, set_capabilities,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// Made with root's rights.
    Plain,
    /// Made inside a user namespace in which everybody keeps their own id.
    User,
}

/// The next child will be the first process of a new PID namespace; None where that is not
/// permitted and nothing has changed. Works once, and only while the process has one thread.
pub(super) fn enter() -> io::Result<Option<Namespace>> {
    let inner = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    if geteuid().is_root() && unshare(inner).is_ok() {
        return Ok(Some(Namespace::Plain));
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if unshare(inner | CloneFlags::CLONE_NEWUSER).is_err() {
        return Ok(None);
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    // Without it the call runs all the same, with the old `/proc`.
    let _ = keep_mount_right();
    Ok(Some(Namespace::User))
}

/// An ordinary user's rights in the new namespace end at the next exec, but the first process has
/// to mount its `/proc`: this one right is handed on.
fn keep_mount_right() -> io::Result<()> {
    let held = capabilities(None)?;
    let inheritable = held.inheritable | CapabilitySet::SYS_ADMIN;
    set_capabilities(None, CapabilitySets { inheritable, ..held })?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

/// In the namespace's first process: its own `/proc`, then no more rights than the caller had.
/// Returns whether `/proc` is its own; where it can not be, the call goes on with the old one.
pub(super) fn settle() -> bool {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let nothing: Option<&str> = None;
    // Without this the mount would appear outside as well; then better no mount.
    let apart = mount(nothing, "/", nothing, private, nothing).is_ok();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let own_proc = apart && mount(Some("proc"), "/proc", Some("proc"), flags, nothing).is_ok();
    if !geteuid().is_root() {
        drop_rights();
    }
    own_proc
}

fn drop_rights() {
    let none = CapabilitySet::empty();
    let _ = clear_ambient_capability_set();
    let _ = set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    );
}
