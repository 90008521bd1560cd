//! Names that IP patterns know: ports, protocols, TCP flags, ICMP types.

use super::ip_primitive::Family;
use arguments::Names;
use std::sync::LazyLock;
use wire::proto;

/// Well-known ports.
const PORTS: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("www", 80),
    ("http", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("snmptrap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("imap3", 220),
    ("https", 443),
    ("rip", 520),
    ("route", 520),
    ("imaps", 993),
    ("pop3s", 995),
];

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

pub(super) fn port(name: &str) -> Option<u16> {
    find(PORTS, name)
}

/// The ports that the machine has names for; none if it has no list of them.
pub(super) fn services() -> &'static Names {
    static SERVICES: LazyLock<Names> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/etc/services").unwrap_or_default();
        let mut names = Names::default();
        text.lines().for_each(|line| names.insert_port_entry(line));
        names
    });
    &SERVICES
}

pub(super) fn protocol(name: &str) -> Option<u8> {
    proto::named(name)
}

pub(super) fn tcp_flag(name: &str) -> Option<u8> {
    find(TCP_FLAGS, name)
}

pub(super) fn icmp_type(name: &str, family: Family) -> Option<u8> {
    match family {
        Family::V4 => crate::icmp::names::type_number(name),
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
