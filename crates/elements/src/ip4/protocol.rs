//! IP protocols as arguments, by number or name.

use engine::args::Names;
use engine::units::FromArg;
use wire::proto;

const NAMES: &[(&str, u8)] = &[
    ("icmp", proto::ICMP),
    ("igmp", proto::IGMP),
    ("ipip", proto::IPIP),
    ("tcp", proto::TCP),
    ("udp", proto::UDP),
    ("dccp", proto::DCCP),
    ("ip6", proto::IPV6),
    ("gre", proto::GRE),
    ("esp", proto::ESP),
    ("ah", proto::AH),
    ("icmp6", proto::ICMP6),
    ("ospf", proto::OSPF),
    ("sctp", proto::SCTP),
];

/// A protocol's number.
pub(crate) struct Protocol(pub(crate) u8);

impl FromArg for Protocol {
    const KIND: &'static str = "an IP protocol: a number from 0 to 255, or a name such as tcp";

    fn from_arg(raw: &str, names: &Names) -> Result<Protocol, String> {
        let named = NAMES.iter().find(|n| n.0 == raw);
        match named.map_or_else(|| u8::from_arg(raw, names).ok(), |n| Some(n.1)) {
            Some(number) => Ok(Protocol(number)),
            None => Err(format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Protocol {
        Protocol(0)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}
