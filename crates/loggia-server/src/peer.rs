//! The process at the other end of a connection, as the kernel reports it.
//!
//! For a loopback connection the kernel names the user and the inode of the client's socket
//! (`NETLINK_SOCK_DIAG`); `/proc` names the processes that hold this socket, and their ancestors. A
//! process below a call of Loggia is a tool and cannot act for a person (A15): Loggia is the child
//! subreaper, so orphans of its calls stay below it. Calls of other Loggias of the same user are
//! recognized the same way.
//!
//! A client on another machine, or one whose owner the kernel does not report, is
//! [`PeerIdentity::Unknown`] and needs a token. A local socket without a visible process could belong
//! to a call, so it is refused with any token: [`PeerIdentity::Hidden`], or [`PeerIdentity::Unseen`]
//! if no call of this user was running. The operator can admit the latter with a token.
//!
//! Covered: forks, orphans, new sessions, user and PID namespaces below us, inherited sockets (every
//! process that holds one is checked), processes and threads that hide their descriptors, and
//! connections whose process has closed them or exited.
//!
//! Not covered, because a look at the socket cannot show it: a tool that makes another process act
//! for it (`tmux send-keys`, `systemd-run`, cron, a port forwarder, a browser, a process that
//! accepts a passed descriptor). A sandbox would close this; `--require-token` does for tokens that
//! the tool cannot read. Nor: a socket that is passed on after the first request, when the connection
//! is judged; a process that survives a killed Loggia (its guard has to end it). Inode numbers have
//! 32 bits: a tool that hides its descriptors and opens four thousand million sockets could wait for
//! the number of a socket that another process of the user still holds.
//!
//! Over any other address than loopback the kernel's report admits no client; it is only used to
//! refuse tools that connect to the machine's outer address.
//!
//! Requests, routes and scopes are not known here.

mod ancestry;
mod inspector;
mod port_owner;
mod process;
mod socket;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::OnceCell;

pub use ancestry::{Ancestry, ancestry};
pub(crate) use inspector::Inspector;
pub use inspector::why_not_identified;
pub use port_owner::PortOwner;
pub(crate) use port_owner::owner_of_port;
pub use process::GUARD;
pub(crate) use socket::Users;

/// The process at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerIdentity {
    /// A process of our user, or of root, that no Loggia started.
    Local {
        uid: u32,
        pid: u32,
        program: String,
    },
    /// This process.
    OwnProcess {
        uid: u32,
    },
    /// Started by a call of this Loggia, or of another one of this user.
    ToolDescendant {
        uid: u32,
        pid: u32,
    },
    OtherUser {
        uid: u32,
    },
    /// On this machine, without a visible process that holds the connection. It may be a call.
    Hidden,
    /// A process of our user that is not visible, while no call of this user was running.
    Unseen {
        uid: u32,
    },
    /// Not on this machine, or of an owner that the kernel does not report.
    Unknown,
}

impl PeerIdentity {
    pub fn uid(&self) -> Option<u32> {
        match self {
            Self::Local { uid, .. }
            | Self::OwnProcess { uid }
            | Self::ToolDescendant { uid, .. }
            | Self::OtherUser { uid }
            | Self::Unseen { uid } => Some(*uid),
            Self::Hidden | Self::Unknown => None,
        }
    }

    /// The identity of a connection that does not run over loopback. It admits no client, but a tool
    /// that connects to the machine's outer address is still refused.
    fn beyond_loopback(self) -> Self {
        match self {
            Self::ToolDescendant { .. } | Self::Hidden | Self::Unseen { .. } => self,
            _ => Self::Unknown,
        }
    }
}

/// The other end of a connection; in the extensions of every request. Clones share the identity.
#[derive(Clone)]
pub struct Peer(Arc<Connection>);

struct Connection {
    addresses: ConnectionAddresses,
    /// The client's address, formatted once for all requests.
    address_text: String,
    identity: OnceCell<PeerIdentity>,
    inspector: Option<Inspector>,
}

/// The two addresses of a connection, as the server sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionAddresses {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

impl ConnectionAddresses {
    /// A socket that listens for both families reports IPv4 clients as mapped IPv6 addresses.
    pub(crate) fn new(client: SocketAddr, server: SocketAddr) -> Self {
        let plain = |end: SocketAddr| match end.ip().to_canonical() {
            IpAddr::V4(address) => SocketAddr::from((address, end.port())),
            IpAddr::V6(_) => end,
        };
        Self { client: plain(client), server: plain(server) }
    }

    fn is_loopback(&self) -> bool {
        self.client.ip().is_loopback() && self.server.ip().is_loopback()
    }
}

impl Peer {
    pub(crate) fn new(addresses: ConnectionAddresses, inspector: Inspector) -> Self {
        let (identity, inspector) = (OnceCell::new(), Some(inspector));
        Self(Arc::new(Connection {
            addresses,
            address_text: addresses.client.to_string(),
            identity,
            inspector,
        }))
    }

    /// A peer with a given identity, for routers that are called without a connection.
    pub fn known(address: SocketAddr, identity: PeerIdentity) -> Self {
        let addresses = ConnectionAddresses { client: address, server: address };
        let (identity, inspector) = (OnceCell::new_with(Some(identity)), None);
        Self(Arc::new(Connection {
            addresses,
            address_text: address.to_string(),
            identity,
            inspector,
        }))
    }

    pub(crate) fn unknown() -> Self {
        Self::known((Ipv4Addr::UNSPECIFIED, 0).into(), PeerIdentity::Unknown)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.addresses.client
    }

    pub(crate) fn address_text(&self) -> &str {
        &self.0.address_text
    }

    /// The address that the client connected to.
    pub(crate) fn server(&self) -> SocketAddr {
        self.0.addresses.server
    }

    pub fn is_loopback(&self) -> bool {
        self.0.addresses.is_loopback()
    }

    /// Looked up at the first call, which takes a few milliseconds, and then kept.
    pub async fn identity(&self) -> &PeerIdentity {
        let Connection { addresses, identity, inspector, .. } = &*self.0;
        if let Some(known) = identity.get() {
            return known;
        }
        let inspect = async || match inspector {
            Some(inspector) => {
                let found = inspector.inspect(*addresses).await;
                if addresses.is_loopback() { found } else { found.beyond_loopback() }
            }
            None => PeerIdentity::Unknown,
        };
        Box::pin(identity.get_or_init(inspect)).await
    }
}

/// The network that limits are counted for: an address of IPv4, a /64 of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
    }
}
