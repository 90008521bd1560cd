//! Names in IP patterns: protocols, TCP flags, ICMP types.

use super::family::Family;
use wire::proto;

/// Flags by their bit in byte 13 of the TCP header.
const TCP_FLAGS: &[(&str, u8)] = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|e| e.0 == name).map(|e| e.1)
}

pub(crate) fn protocol(name: &str) -> Option<u8> {
    proto::named(name)
}

pub(crate) fn tcp_flag(name: &str) -> Option<u8> {
    find(TCP_FLAGS, name)
}

pub(crate) fn icmp_type(name: &str, family: Family) -> Option<u8> {
    match family {
        Family::V4 => arguments::icmp::type_number(name),
        Family::V6 => find(ICMP6_TYPES, name),
    }
}

/// Types of ICMPv6; errors have ICMP6Error's names (RFC 4443, RFC 4861, RFC 3810).
const ICMP6_TYPES: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packettoobig", 2),
    ("timeexceeded", 3),
    ("parameterproblem", 4),
    ("echo", 128),
    ("echo-reply", 129),
    ("mldquery", 130),
    ("mldreport", 131),
    ("mlddone", 132),
    ("routersolicit", 133),
    ("routeradvert", 134),
    ("neighboursolicit", 135),
    ("neighbouradvert", 136),
    ("redirect", 137),
    ("mldreport2", 143),
];
