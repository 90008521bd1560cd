//! Numbers of the protocols above IP (IANA "Assigned Internet Protocol Numbers").

/// IPv6 hop-by-hop options (RFC 8200, 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4.
pub const ICMP: u8 = 1;
/// IGMP.
pub const IGMP: u8 = 2;
/// IPv4 inside IP.
pub const IPIP: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// IPv6 inside IP.
pub const IPV6: u8 = 41;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 routing header (RFC 8200, 4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200, 4.5).
pub const FRAGMENT: u8 = 44;
/// GRE.
pub const GRE: u8 = 47;
/// IPsec encapsulating security payload.
pub const ESP: u8 = 50;
/// IPsec authentication header.
pub const AH: u8 = 51;
/// ICMP for IPv6.
pub const ICMP6: u8 = 58;
/// IPv6 no next header (RFC 8200, 4.7).
pub const NO_NEXT: u8 = 59;
/// IPv6 destination options (RFC 8200, 4.6).
pub const DEST_OPTS: u8 = 60;
/// OSPF.
pub const OSPF: u8 = 89;
/// PIM (RFC 7761).
pub const PIM: u8 = 103;
/// SCTP.
pub const SCTP: u8 = 132;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;

/// Names that configurations and dumps may use in place of numbers.
pub const NAMES: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", IGMP),
    ("ipip", IPIP),
    ("tcp", TCP),
    ("udp", UDP),
    ("dccp", DCCP),
    ("ip6", IPV6),
    ("ipv6", IPV6),
    ("gre", GRE),
    ("esp", ESP),
    ("ah", AH),
    ("icmp6", ICMP6),
    ("ospf", OSPF),
    ("pim", PIM),
    ("sctp", SCTP),
    ("udplite", UDP_LITE),
];

/// The number of the protocol with this name, in lower case.
pub fn named(name: &str) -> Option<u8> {
    NAMES.iter().find(|n| n.0 == name).map(|n| n.1)
}
