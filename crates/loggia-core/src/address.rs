//! Which network addresses are public. Code that connects to an address from a client or a
//! configuration checks it here first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Serves instance metadata on one cloud, in a public range.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Whether the address is global unicast and not a tunnel to another address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    // The special-purpose registry of RFC 6890 with its updates, multicast, and reserved ranges.
    const NOT_PUBLIC: &[(Ipv4Addr, u32)] = &[
        (Ipv4Addr::new(0, 0, 0, 0), 8),
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 0, 0, 0), 24),
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        (Ipv4Addr::new(192, 31, 196, 0), 24),
        (Ipv4Addr::new(192, 52, 193, 0), 24),
        (Ipv4Addr::new(192, 88, 99, 0), 24),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(192, 175, 48, 0), 24),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        (Ipv4Addr::new(224, 0, 0, 0), 4),
        (Ipv4Addr::new(240, 0, 0, 0), 4),
        (WIRE_SERVER, 32),
    ];
    let within = |(network, bits): &(Ipv4Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    !NOT_PUBLIC.iter().any(within)
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let network = |network: Ipv6Addr, bits: u32| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
    };
    // Every other address is local, multicast, reserved, or stands for a version 4 address: mapped,
    // or translated (64:ff9b::/96 and 64:ff9b:1::/48).
    let global = network(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
    // Global ranges that are not public: tunnels that carry a version 4 address (Teredo, 6to4), other
    // protocol assignments, documentation.
    let carries = network(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23)
        || network(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
    let documentation = network(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32)
        || network(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20);
    global && !carries && !documentation
}
