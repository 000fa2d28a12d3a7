//! The process that listens on a port, for an error message. No decision depends on it.

use std::collections::HashSet;
use std::fs;

use super::process::Processes;

/// A listening process that this user can see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOwner {
    pub pid: u32,
    pub program: String,
}

/// `TCP_LISTEN` as `/proc/net/tcp` writes it.
const LISTENING: &str = "0A";

pub(crate) fn owner_of_port(port: u16) -> Option<PortOwner> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let wanted: HashSet<u32> = lines.filter_map(|line| listening_inode(line, port)).collect();
    let processes = Processes::read();
    let holders = processes.holders(&wanted, std::process::id());
    let holder = holders.values().flatten().next()?;
    // Processes choose their names, and this one is printed to a terminal.
    let program = holder.program.escape_debug().collect();
    Some(PortOwner { pid: holder.pid, program })
}

/// The columns are: number, local address, remote address, state, …, and the inode as the tenth.
fn listening_inode(line: &str, port: u16) -> Option<u32> {
    let mut columns = line.split_ascii_whitespace().skip(1);
    let (_, digits) = columns.next()?.rsplit_once(':')?;
    let state = columns.nth(1)?;
    let inode = columns.nth(5)?.parse().ok()?;
    let same = u16::from_str_radix(digits, 16) == Ok(port);
    (same && state == LISTENING).then_some(inode)
}
