//! Identifies the peers of many connections at a time: one read of `/proc` answers every question
//! that was asked before it began, so a thousand clients that connect at once cost a few reads.
//!
//! A task with a bounded queue; when the queue is full, connections wait. The work is blocking and
//! runs off the runtime's threads. The rule for each connection is [`ProcSnapshot::classify`].

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, UdpSocket};

use tokio::sync::{mpsc, oneshot};

use super::process::{GUARD, Process, Processes};
use super::socket::{ClientEnd, Owner, SocketTable};
use super::{ConnectionAddresses, PeerIdentity};

const QUEUE: usize = 256;

struct Question {
    addresses: ConnectionAddresses,
    answer: oneshot::Sender<PeerIdentity>,
}

/// Sends questions to the task, which ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Inspector {
    questions: mpsc::Sender<Question>,
}

impl Inspector {
    /// The inspector, and the task for its owner to run.
    pub(crate) fn new() -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (questions, inbox) = mpsc::channel(QUEUE);
        (Self { questions }, run(inbox))
    }

    pub(super) async fn inspect(&self, addresses: ConnectionAddresses) -> PeerIdentity {
        let (answer, answered) = oneshot::channel();
        match self.questions.send(Question { addresses, answer }).await {
            Ok(()) => answered.await.unwrap_or(PeerIdentity::Unknown),
            Err(_) => PeerIdentity::Unknown,
        }
    }
}

async fn run(mut inbox: mpsc::Receiver<Question>) {
    let mut batch = Vec::with_capacity(QUEUE);
    while inbox.recv_many(&mut batch, QUEUE).await > 0 {
        let addresses: Vec<ConnectionAddresses> =
            batch.iter().map(|question| question.addresses).collect();
        let identities = tokio::task::spawn_blocking(move || identify(&addresses)).await;
        let identities = identities.unwrap_or_default();
        let unknown = std::iter::repeat(PeerIdentity::Unknown);
        for (question, identity) in batch.drain(..).zip(identities.into_iter().chain(unknown)) {
            // The receiver is gone if the client has hung up meanwhile.
            let _ = question.answer.send(identity);
        }
    }
}

/// The facts about this process that peers are compared with.
struct OwnProcess {
    process: Process,
    ancestors: HashSet<u32>,
    uid: u32,
    /// Without this, orphans of calls leave our tree and cannot be recognized.
    keeps_orphans: bool,
    /// False in a user namespace, where one uid can stand for many users.
    users_are_distinct: bool,
}

impl OwnProcess {
    fn read() -> Option<Self> {
        let process = Process::read(std::process::id())?;
        let ancestors = process.ancestors()?.into_iter().map(|ancestor| ancestor.pid).collect();
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let whole = ["0", "0", "4294967295"];
        Some(Self {
            process,
            ancestors,
            uid: rustix::process::geteuid().as_raw(),
            keeps_orphans: nix::sys::prctl::get_child_subreaper().unwrap_or(false),
            users_are_distinct: map.split_ascii_whitespace().eq(whole),
        })
    }

    /// Whether processes of this user can act for the person.
    fn trusts(&self, uid: u32) -> bool {
        uid == self.uid || uid == 0
    }

    /// In a user namespace the kernel reports all unmapped users as this uid.
    fn is_unmapped(&self, uid: u32) -> bool {
        if self.users_are_distinct {
            return false;
        }
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
        overflow.trim().parse().unwrap_or(65_534) == uid
    }
}

/// Why local clients cannot be identified here and need a token, for a notice at the start.
pub fn why_not_identified() -> Option<&'static str> {
    let Some(us) = OwnProcess::read() else {
        return Some("/proc does not show this process: local clients need a token");
    };
    if SocketTable::open().is_err() {
        return Some(
            "the kernel does not report the owners of sockets: local clients need a token",
        );
    }
    let orphans = "this process is not the subreaper of its calls: local clients need a token";
    (!us.keeps_orphans).then_some(orphans)
}

fn identify(batch: &[ConnectionAddresses]) -> Vec<PeerIdentity> {
    let (Some(us), Ok(mut table)) = (OwnProcess::read(), SocketTable::open()) else {
        return Vec::new();
    };
    let mut client = |addresses: &ConnectionAddresses| table.client(*addresses).ok();
    let clients: Vec<Option<ClientEnd>> = batch.iter().map(&mut client).collect();
    // For other users the socket's uid is enough, so they cannot make us search.
    let searched = |client: &Option<ClientEnd>| match client {
        Some(ClientEnd::Held(owner)) if us.trusts(owner.uid) => Some(owner.inode),
        _ => None,
    };
    let wanted: HashSet<u32> = clients.iter().filter_map(searched).collect();
    let processes = if wanted.is_empty() { None } else { Some(Processes::read()) };
    let holders = processes.as_ref().map(|all| all.holders(&wanted, us.process.pid));
    let holders = holders.unwrap_or_default();
    let mut snapshot = ProcSnapshot { us: &us, holders: &holders, table: &mut table };
    let each = batch.iter().zip(clients);
    each.map(|(addresses, client)| {
        client.map_or(PeerIdentity::Unknown, |found| snapshot.classify(*addresses, found))
    })
    .collect()
}

/// One read of `/proc`, for a batch of connections.
struct ProcSnapshot<'a> {
    us: &'a OwnProcess,
    holders: &'a HashMap<u32, Vec<&'a Process>>,
    table: &'a mut SocketTable,
}

impl ProcSnapshot<'_> {
    fn classify(&mut self, addresses: ConnectionAddresses, client: ClientEnd) -> PeerIdentity {
        match client {
            ClientEnd::Held(owner) => self.classify_owner(addresses, owner),
            // A command may send its request and exit before it is inspected.
            ClientEnd::Closed => PeerIdentity::Hidden,
            ClientEnd::Missing if is_own_address(addresses.client.ip()) => {
                // If a local client had closed its end, ours would not be established. So the client
                // is on another machine: some forward to loopback.
                match self.table.is_established(addresses) {
                    Ok(true) => PeerIdentity::Unknown,
                    Ok(false) | Err(_) => PeerIdentity::Hidden,
                }
            }
            ClientEnd::Missing => PeerIdentity::Unknown,
        }
    }

    fn classify_owner(&mut self, addresses: ConnectionAddresses, owner: Owner) -> PeerIdentity {
        let (us, Owner { uid, inode }) = (self.us, owner);
        if us.is_unmapped(uid) {
            return PeerIdentity::Unknown;
        }
        if !us.trusts(uid) {
            return PeerIdentity::OtherUser { uid };
        }
        let mut identity = None;
        for holder in self.holders.get(&inode).map(Vec::as_slice).unwrap_or_default() {
            let pid = holder.pid;
            let found = match is_tool(holder, us) {
                Some(true) => return PeerIdentity::ToolDescendant { uid, pid },
                None => return PeerIdentity::Hidden,
                Some(false) if pid == us.process.pid => PeerIdentity::OwnProcess { uid },
                Some(false) if us.keeps_orphans => {
                    PeerIdentity::Local { uid, pid, program: holder.program.clone() }
                }
                Some(false) => PeerIdentity::Unknown,
            };
            identity = Some(found);
        }
        identity.unwrap_or_else(|| match uid == us.uid {
            true if self.call_may_hold(addresses, owner) => PeerIdentity::Hidden,
            true => PeerIdentity::Unseen { uid },
            // An ordinary user cannot see the descriptors of root's processes.
            false => PeerIdentity::Unknown,
        })
    }

    /// Whether a call of our user could hold a socket whose holder was not found. It could not if no
    /// such call runs and the socket is still held after that was read. Descriptors can be moved while
    /// they are read, so a second search for the holder would prove nothing.
    fn call_may_hold(&mut self, addresses: ConnectionAddresses, owner: Owner) -> bool {
        let us = self.us;
        let is_loggia = |process: &Process| {
            process.pid == us.process.pid
                || process.program == us.process.program && !us.ancestors.contains(&process.pid)
        };
        Processes::read().any_call(us.uid, is_loggia)
            || self.table.client(addresses).ok() != Some(ClientEnd::Held(owner))
    }
}

/// Whether this is an address of this machine.
fn is_own_address(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Whether a call started this process: a call of ours, or of another Loggia that is not our own
/// ancestor. None if its parents changed while they were read.
fn is_tool(holder: &Process, us: &OwnProcess) -> Option<bool> {
    if holder.pid == us.process.pid {
        return Some(false);
    }
    let ancestors = holder.ancestors()?;
    let below_us = |ancestor: &Process| ancestor.pid == us.process.pid;
    let below_another = |ancestor: &Process| {
        let like_us = ancestor.program == us.process.program || ancestor.program == GUARD;
        like_us && !us.ancestors.contains(&ancestor.pid)
    };
    Some(ancestors.iter().any(|ancestor| below_us(ancestor) || below_another(ancestor)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::net::sockopt::set_socket_linger;

    use super::*;

    /// A command could send its request and exit before it is inspected.
    #[test]
    fn a_connection_that_was_closed_is_hidden() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for reset in [false, true] {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, address) = listener.accept().unwrap();
            let addresses = ConnectionAddresses::new(address, server.local_addr().unwrap());
            let uid = rustix::process::geteuid().as_raw();
            assert_eq!(identify(&[addresses]), [PeerIdentity::OwnProcess { uid }]);
            if reset {
                set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
            }
            drop(client);
            assert_eq!(identify(&[addresses]), [PeerIdentity::Hidden], "{reset}");
        }
    }

    #[test]
    fn another_machine_is_unknown() {
        let addresses = ConnectionAddresses::new(
            "192.0.2.7:1234".parse().unwrap(),
            "192.0.2.1:80".parse().unwrap(),
        );
        assert_eq!(identify(&[addresses]), [PeerIdentity::Unknown]);
    }
}
