//! Creates the PID namespace of a call, as root or as another user.

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
    /// Created with root's rights.
    Plain,
    /// Created inside a user namespace in which user ids stay the same.
    User,
}

/// The next child will be the first process of a new PID namespace. None if that is not permitted; then
/// nothing has changed. Works once, and only in a process with one thread.
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
    // If this fails, the call runs with the old `/proc`.
    let _ = keep_mount_right();
    Ok(Some(Namespace::User))
}

/// A user's capabilities in the new namespace end at the next exec. The first process needs one of
/// them to mount its `/proc`, so that one is passed on.
fn keep_mount_right() -> io::Result<()> {
    let held = capabilities(None)?;
    let inheritable = held.inheritable | CapabilitySet::SYS_ADMIN;
    set_capabilities(None, CapabilitySets { inheritable, ..held })?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

/// In the namespace's first process: mounts its own `/proc`, then drops all capabilities that the caller
/// did not have. Returns whether `/proc` was mounted; otherwise the call uses the old one.
pub(super) fn mount_proc() -> bool {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let nothing: Option<&str> = None;
    // Without this the mount would also appear outside the namespace.
    let private_mounts = mount(nothing, "/", nothing, private, nothing).is_ok();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let own_proc =
        private_mounts && mount(Some("proc"), "/proc", Some("proc"), flags, nothing).is_ok();
    if !geteuid().is_root() {
        drop_capabilities();
    }
    own_proc
}

fn drop_capabilities() {
    let none = CapabilitySet::empty();
    let _ = clear_ambient_capability_set();
    let _ = set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    );
}
