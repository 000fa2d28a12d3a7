//! Asks the kernel who owns the client's end of a TCP connection, over `NETLINK_SOCK_DIAG`.
//!
//! Bytes in, two numbers out; what they mean for a request is decided elsewhere. The layout is that
//! of `linux/inet_diag.h`, and has been the same since Linux 3.3.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with,
};

use super::Ends;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const REQUEST_LENGTH: u32 = 72;
/// The kernel answers at once; this only keeps a thread from waiting for ever.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the kernel knows of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub uid: u32,
    pub inode: u32,
}

/// An open line to the kernel.
pub(super) struct SocketTable {
    netlink: OwnedFd,
    sequence: u32,
}

impl SocketTable {
    pub(super) fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let netlink = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
        set_socket_timeout(&netlink, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { netlink, sequence: 0 })
    }

    /// The owner of the client's socket. Nothing if it is closed or not in this network namespace.
    pub(super) fn owner(&mut self, ends: Ends) -> io::Result<Option<Owner>> {
        self.sequence = self.sequence.wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.netlink, &request(ends, self.sequence), SendFlags::empty(), &kernel)?;
        let mut reply = [0u8; 8192];
        loop {
            let (length, _, from) = recvfrom(&self.netlink, &mut reply[..], RecvFlags::empty())?;
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            let reply = Reply(reply.get(..length).unwrap_or_default());
            let ours = reply.u32(8) == Some(self.sequence);
            if ours && from.is_some_and(|from| from.pid() == 0) {
                return Ok(reply.owner(ends));
            }
        }
    }
}

/// `nlmsghdr` and `inet_diag_req_v2`: the one socket whose own address is the client's.
fn request(ends: Ends, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_LENGTH as usize);
    bytes.extend_from_slice(&REQUEST_LENGTH.to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    let family = if ends.client.is_ipv4() { AF_INET } else { AF_INET6 };
    bytes.extend_from_slice(&[family, IPPROTO_TCP, 0, 0]);
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&ends.client.port().to_be_bytes());
    bytes.extend_from_slice(&ends.server.port().to_be_bytes());
    bytes.extend_from_slice(&address_bytes(ends.client.ip()));
    bytes.extend_from_slice(&address_bytes(ends.server.ip()));
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
    /// The kernel may answer with the listener of the same port when the connection is gone, and
    /// with no inode when nobody holds it any more; neither is an owner.
    fn owner(&self, ends: Ends) -> Option<Owner> {
        let found = self.u16(4)? == SOCK_DIAG_BY_FAMILY
            && self.end(20, 24)? == canonical(ends.client)
            && self.end(22, 40)? == canonical(ends.server);
        let owner = Owner { uid: self.u32(80)?, inode: self.u32(84)? };
        (found && owner.inode != 0).then_some(owner)
    }

    /// A client may speak version 4 through a socket of version 6.
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

/// Without scope and flow, which say nothing about loopback.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
