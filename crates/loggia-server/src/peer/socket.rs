//! Asks the kernel for the owner of the client's end of a TCP connection, over `NETLINK_SOCK_DIAG`.
//!
//! One request and one reply in the layout of `linux/inet_diag.h`, which has not changed since Linux 3.3.
//! Crates for netlink would add more code than the sixty lines that they replace.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with,
};

use super::{ConnectionAddresses, Peer};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const REQUEST_LENGTH: u32 = 72;
const TCP_ESTABLISHED: u8 = 1;
/// The kernel answers at once. Keeps a thread from waiting for ever.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The client's end of a connection, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientEnd {
    Held(Owner),
    /// On this machine, but no longer held by a process.
    Closed,
    /// Not in this network namespace: on another machine, or gone.
    Missing,
}

/// The owner of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub uid: u32,
    pub inode: u32,
}

/// An open netlink socket.
pub(super) struct SocketTable {
    netlink: OwnedFd,
    sequence: u32,
}

impl SocketTable {
    pub(super) fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let netlink = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
        set_socket_timeout(&netlink, Timeout::Recv, Some(REPLY_TIMEOUT))?;
        Ok(Self { netlink, sequence: 0 })
    }

    /// The client's end of a connection.
    pub(super) fn client(&mut self, addresses: ConnectionAddresses) -> io::Result<ClientEnd> {
        let found = self.ask(addresses, |reply| reply.owner(addresses))?;
        Ok(match found {
            Some(owner) if owner.inode != 0 => ClientEnd::Held(owner),
            Some(_) => ClientEnd::Closed,
            None => ClientEnd::Missing,
        })
    }

    /// Whether our own end of the connection is still open for both sides.
    pub(super) fn is_established(&mut self, addresses: ConnectionAddresses) -> io::Result<bool> {
        let ours = ConnectionAddresses { client: addresses.server, server: addresses.client };
        let state = self.ask(ours, |reply| reply.owner(ours).and(reply.state()))?;
        Ok(state == Some(TCP_ESTABLISHED))
    }

    fn ask<T>(
        &mut self,
        addresses: ConnectionAddresses,
        read: impl Fn(&Reply<'_>) -> Option<T>,
    ) -> io::Result<Option<T>> {
        self.sequence = self.sequence.wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.netlink, &request(addresses, self.sequence), SendFlags::empty(), &kernel)?;
        let mut reply = [0u8; 8192];
        loop {
            let (length, _, from) = recvfrom(&self.netlink, &mut reply[..], RecvFlags::empty())?;
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            let reply = Reply(reply.get(..length).unwrap_or_default());
            let ours = reply.u32(8) == Some(self.sequence);
            if ours && from.is_some_and(|from| from.pid() == 0) {
                return Ok(read(&reply));
            }
        }
    }
}

/// Looks up the users of loopback connections as soon as they are accepted.
#[derive(Default)]
pub(crate) struct Users {
    /// A lock, not a task: the kernel answers within the call, in microseconds.
    table: Mutex<Option<SocketTable>>,
}

impl Users {
    /// None if the kernel does not report it, or the other end is gone.
    pub(crate) fn of(&self, peer: &Peer) -> Option<u32> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.is_none() {
            *table = SocketTable::open().ok();
        }
        match table.as_mut()?.client(peer.0.addresses) {
            Ok(ClientEnd::Held(owner)) => Some(owner.uid),
            Ok(ClientEnd::Closed | ClientEnd::Missing) => None,
            Err(_) => {
                *table = None;
                None
            }
        }
    }
}

/// `nlmsghdr` and `inet_diag_req_v2` for the client's socket.
fn request(addresses: ConnectionAddresses, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_LENGTH as usize);
    bytes.extend_from_slice(&REQUEST_LENGTH.to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    let family = if addresses.client.is_ipv4() { AF_INET } else { AF_INET6 };
    bytes.extend_from_slice(&[family, IPPROTO_TCP, 0, 0]);
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&addresses.client.port().to_be_bytes());
    bytes.extend_from_slice(&addresses.server.port().to_be_bytes());
    bytes.extend_from_slice(&address_bytes(addresses.client.ip()));
    bytes.extend_from_slice(&address_bytes(addresses.server.ip()));
    // Any interface, and no cookie.
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

/// `nlmsghdr` and `inet_diag_msg`.
struct Reply<'a>(&'a [u8]);

impl Reply<'_> {
    /// If the connection is gone, the kernel may answer with the listener of the same port, which is not
    /// accepted. The inode is 0 if no process holds the socket.
    fn owner(&self, addresses: ConnectionAddresses) -> Option<Owner> {
        let found = self.u16(4)? == SOCK_DIAG_BY_FAMILY
            && self.end(20, 24)? == canonical(addresses.client)
            && self.end(22, 40)? == canonical(addresses.server);
        let owner = Owner { uid: self.u32(80)?, inode: self.u32(84)? };
        found.then_some(owner)
    }

    fn state(&self) -> Option<u8> {
        self.0.get(17).copied()
    }

    /// A client may use IPv4 through a socket of IPv6.
    fn end(&self, port: usize, address: usize) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.bytes(port)?);
        let bytes: [u8; 16] = self.bytes(address)?;
        let address = match *self.0.get(16)? {
            AF_INET => IpAddr::from(self.bytes::<4>(address)?),
            AF_INET6 => Ipv6Addr::from(bytes).to_canonical(),
            _ => return None,
        };
        Some(SocketAddr::new(address, port))
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_ne_bytes)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }
}

/// Without scope and flow, which have no meaning for loopback.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
