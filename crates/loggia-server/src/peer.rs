//! Who is at the other end of a connection, by the kernel's word and not by the client's.
//!
//! For a loopback connection the kernel names the user and the inode of the client's socket
//! (`NETLINK_SOCK_DIAG`); `/proc` names the processes that hold this socket, and their ancestors. A
//! process that Loggia started, at whatever distance, is a tool and speaks for nobody (A15): Loggia
//! is the child subreaper, so whatever its calls leave behind stays below it. This holds also for
//! what another Loggia of the same user started.
//!
//! Never a guess: what can not be found out is [`PeerIdentity::Unknown`], and needs a token, unless
//! a call could be behind it: that is [`PeerIdentity::Hidden`], and no token helps.
//!
//! Covered: forks, orphans, new sessions, and user and PID namespaces below us; a socket that is
//! inherited, because every process that holds it counts. A process of our user that hides its
//! descriptors (not dumpable, threads with tables of their own) is hidden while any call runs.
//! Descriptors can be moved while they are read, so a second search would prove nothing: only that
//! no call runs does. A connection whose process has closed it or exited is hidden as well.
//!
//! Not covered, because no look at a socket can tell: a tool that makes somebody else's process
//! speak for it (`tmux send-keys`, `systemd-run`, cron, a port forwarder, a browser that was told
//! to; passing the descriptor to a willing process is the same thing). Only the sandbox closes
//! this, or `--require-token`. Nor a socket handed on after its connection was judged: that is done
//! once, at the first request. Nor a survivor of a Loggia that was killed; its guard has to end it.
//! Inode numbers have 32 bits: a tool that hides its descriptors and opens four thousand million
//! sockets can wait for the number of a socket that another process of the user still holds.
//!
//! Over any other address than loopback nobody is let in by the kernel's word; it only still refuses
//! a tool that goes around by the machine's own outer address.
//!
//! No request, route or scope is known here.

mod ancestry;
mod holder;
mod inspector;
mod process;
mod socket;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::OnceCell;

pub use ancestry::{Ancestry, ancestry};
pub use holder::Holder;
pub(crate) use holder::holder_of_port;
pub(crate) use inspector::Inspector;
pub use inspector::obstacle;
pub use process::GUARD;
pub(crate) use socket::Users;

/// What is known of the process at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerIdentity {
    /// A process of our user, or of root, that no Loggia started.
    Local {
        uid: u32,
        pid: u32,
        program: String,
    },
    /// This very process.
    Ourselves {
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
    /// On this machine, but no process is seen that holds the connection, and a call could.
    Hidden,
    /// Not on this machine, or its owner can not be found.
    Unknown,
}

impl PeerIdentity {
    pub fn uid(&self) -> Option<u32> {
        match self {
            Self::Local { uid, .. }
            | Self::Ourselves { uid }
            | Self::ToolDescendant { uid, .. }
            | Self::OtherUser { uid } => Some(*uid),
            Self::Hidden | Self::Unknown => None,
        }
    }

    /// What it is worth where the connection does not run over loopback: nobody is let in for it. A
    /// tool is still told by it, so that it gains nothing by taking the machine's other address.
    fn beyond_loopback(self) -> Self {
        match self {
            Self::ToolDescendant { .. } | Self::Hidden => self,
            _ => Self::Unknown,
        }
    }
}

/// One connection's other end; in the extensions of every request. Clones share what was found out.
#[derive(Clone)]
pub struct Peer(Arc<Other>);

struct Other {
    ends: Ends,
    /// The client's address, written down once and not for every request.
    written: String,
    identity: OnceCell<PeerIdentity>,
    inspector: Option<Inspector>,
}

/// The two addresses of a connection, as the server sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

impl Ends {
    /// A socket that listens for both families shows version 4 as version 6.
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
    pub(crate) fn new(ends: Ends, inspector: Inspector) -> Self {
        let (identity, inspector) = (OnceCell::new(), Some(inspector));
        Self(Arc::new(Other { ends, written: ends.client.to_string(), identity, inspector }))
    }

    /// A peer that is already known, for routers that are called without a connection.
    pub fn known(address: SocketAddr, identity: PeerIdentity) -> Self {
        let ends = Ends { client: address, server: address };
        let (identity, inspector) = (OnceCell::new_with(Some(identity)), None);
        Self(Arc::new(Other { ends, written: address.to_string(), identity, inspector }))
    }

    pub(crate) fn nobody() -> Self {
        Self::known((Ipv4Addr::UNSPECIFIED, 0).into(), PeerIdentity::Unknown)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.ends.client
    }

    /// The same as text.
    pub(crate) fn written_address(&self) -> &str {
        &self.0.written
    }

    /// Where it was that the client came to.
    pub(crate) fn server(&self) -> SocketAddr {
        self.0.ends.server
    }

    pub fn is_loopback(&self) -> bool {
        self.0.ends.is_loopback()
    }

    /// Found out at the first call, which takes a few milliseconds; then remembered.
    pub async fn identity(&self) -> &PeerIdentity {
        let Other { ends, identity, inspector, .. } = &*self.0;
        if let Some(known) = identity.get() {
            return known;
        }
        let find = async || match inspector {
            Some(inspector) => {
                let found = inspector.inspect(*ends).await;
                if ends.is_loopback() { found } else { found.beyond_loopback() }
            }
            None => PeerIdentity::Unknown,
        };
        Box::pin(identity.get_or_init(find)).await
    }
}

/// What counts as one place on the network: a household has a whole /64 to choose from.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
    }
}
