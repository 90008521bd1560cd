//! Ports as arguments: a number, or the name of a service.

use crate::units::FromArg;
use crate::{Kind as Name, Names};
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

/// Number of a port: PortInfo's names come before the well-known ones, and these before those of the machine.
pub fn port(word: &str, protocol: Option<u8>, names: &Names) -> Option<u16> {
    let kinds: &[Name] = match protocol {
        Some(proto::TCP) => &[Name::TcpPort],
        Some(proto::UDP) => &[Name::UdpPort],
        _ => &[Name::TcpPort, Name::UdpPort],
    };
    let own = |names: &Names| kinds.iter().find_map(|&k| names.get(word, k)?.parse().ok());
    own(names)
        .or_else(|| well_known(word))
        .or_else(|| own(services()))
}

fn well_known(name: &str) -> Option<u16> {
    PORTS.iter().find(|port| port.0 == name).map(|port| port.1)
}

/// The ports that the machine has names for; none if it has no list of them.
fn services() -> &'static Names {
    static SERVICES: LazyLock<Names> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/etc/services").unwrap_or_default();
        let mut names = Names::default();
        text.lines().for_each(|line| names.insert_port_entry(line));
        names
    });
    &SERVICES
}

/// A port of TCP or UDP, by the protocol's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port<const PROTOCOL: u8>(pub u16);

impl<const PROTOCOL: u8> FromArg for Port<PROTOCOL> {
    const KIND: &'static str = "a port: a number from 0 to 65535, or a name such as domain";

    fn from_arg(raw: &str, names: &Names) -> Result<Port<PROTOCOL>, String> {
        match raw.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)) {
            true => u16::from_arg(raw, names).map(Port),
            false => port(raw, Some(PROTOCOL), names)
                .map(Port)
                .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Port<PROTOCOL> {
        Port(0)
    }

    fn unparse(&self) -> String {
        self.0.to_string()
    }
}
