//! Keys of flows: a tag in the packet, or addresses, ports and protocol.

use arguments::Names;
use arguments::units::FromArg;
use engine::packet::Packet;
use std::net::IpAddr;
use tables::exact::Key;
use wire::mpls::{Entry, LABEL_MAX};
use wire::{FlowKey, Ipv4, Ipv6, flow::Flow, ipv4, ipv6, proto};

/// Maximum value of an annotation as a flow key.
const ANNO_MAX: u32 = (1 << 20) - 1;

/// Kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// Addresses, ports and protocol of an IP packet.
    Match,
    /// The outermost MPLS label, with which the data begins.
    Label,
    /// IPv6 flow label.
    FlowLabel,
    /// DSCP of an IP packet.
    Dscp,
    /// VLAN identifier of the removed tag.
    Vlan,
    /// AGGREGATE annotation.
    Anno,
}

const NAMES: [(&str, KeyKind); 6] = [
    ("match", KeyKind::Match),
    ("label", KeyKind::Label),
    ("flow_label", KeyKind::FlowLabel),
    ("dscp", KeyKind::Dscp),
    ("vlan", KeyKind::Vlan),
    ("anno", KeyKind::Anno),
];

impl FromArg for KeyKind {
    const KIND: &'static str = "match, label, flow_label, dscp, vlan or anno";

    fn from_arg(raw: &str, _: &Names) -> Result<KeyKind, String> {
        let by = NAMES.iter().find(|(name, _)| *name == raw);
        by.map(|(_, by)| *by)
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> KeyKind {
        KeyKind::Match
    }

    fn unparse(&self) -> String {
        let name = NAMES.iter().find(|(_, by)| by == self);
        name.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

/// Key of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Tag(u32),
    Key(Key),
}

impl KeyKind {
    /// Maximum tag; `None` for keys that are five-tuples.
    pub(super) fn tag_max(self) -> Option<u32> {
        match self {
            KeyKind::Match => None,
            KeyKind::Label | KeyKind::FlowLabel => Some(LABEL_MAX),
            KeyKind::Dscp => Some(63),
            KeyKind::Vlan => Some(4095),
            KeyKind::Anno => Some(ANNO_MAX),
        }
    }

    /// Tag of a packet; `None` if the packet has none.
    #[inline]
    pub(super) fn tag(self, packet: &Packet) -> Option<u32> {
        match self {
            KeyKind::Match => None,
            KeyKind::Label => Entry::read(packet.data(), 0).map(|entry| entry.label),
            KeyKind::FlowLabel => {
                let header = packet.network().first_chunk::<{ ipv6::LEN }>()?;
                (header[0] >> 4 == 6).then(|| Ipv6::new_unchecked(header).flow_label())
            }
            KeyKind::Dscp => {
                let bytes = packet.network();
                match bytes.first()? >> 4 {
                    4 => {
                        Some(Ipv4::new_unchecked(bytes.first_chunk::<{ ipv4::MIN_LEN }>()?).dscp())
                    }
                    6 => Some(Ipv6::new_unchecked(bytes.first_chunk::<{ ipv6::LEN }>()?).dscp()),
                    _ => None,
                }
                .map(u32::from)
            }
            KeyKind::Vlan => Some(u32::from(packet.vlan_tci() & 0xfff)),
            KeyKind::Anno => Some(packet.cold().aggregate()),
        }
    }

    /// Parses a flow key: a tag, or `SADDR SPORT DADDR DPORT PROTOCOL`. Returns the key and the remaining words.
    pub(super) fn parse<'w>(self, words: &'w [&'w str]) -> Result<(Id, &'w [&'w str]), String> {
        if let Some(most) = self.tag_max() {
            let [tag, rest @ ..] = words else {
                return Err(format!("a flow is given by a number up to {most}"));
            };
            let number = tag.parse().ok().filter(|&tag: &u32| tag <= most);
            let number = number
                .ok_or_else(|| format!("a flow is given by a number up to {most}, not `{tag}`"))?;
            return Ok((Id::Tag(number), rest));
        }
        let form = "a flow is written SADDR SPORT DADDR DPORT PROTOCOL, such as 10.0.0.1 1000 10.0.0.2 53 udp";
        let [src, src_port, dst, dst_port, protocol, rest @ ..] = words else {
            return Err(form.to_owned());
        };
        let address = |text: &str| {
            text.parse::<IpAddr>()
                .map_err(|_| format!("`{text}` is no address: {form}"))
        };
        let port = |text: &str| {
            text.parse::<u16>()
                .map_err(|_| format!("`{text}` is no port: {form}"))
        };
        let known = proto::NAMES.iter().find(|(name, _)| name == protocol);
        let protocol = match known {
            Some((_, number)) => *number,
            None => protocol
                .parse()
                .map_err(|_| format!("`{protocol}` is no protocol: {form}"))?,
        };
        let (src_port, dst_port) = (port(src_port)?, port(dst_port)?);
        let key = match (address(src)?, address(dst)?) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => FlowKey::V4(Flow {
                src,
                dst,
                src_port,
                dst_port,
                protocol,
            }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => FlowKey::V6(Flow {
                src,
                dst,
                src_port,
                dst_port,
                protocol,
            }),
            _ => return Err("both addresses must be of one IP version".to_owned()),
        };
        Ok((Id::Key(of_flow(&key)), rest))
    }
}

/// Table key of a five-tuple; an IPv4 flow takes two words.
#[inline]
pub(super) fn of_flow(flow: &FlowKey) -> Key {
    let tail = |src: u16, dst: u16, protocol: u8, version: u64| {
        version << 48 | u64::from(src) << 32 | u64::from(dst) << 16 | u64::from(protocol)
    };
    match flow {
        FlowKey::V4(f) => {
            let addresses = u64::from(f.src.to_bits()) << 32 | u64::from(f.dst.to_bits());
            [
                addresses,
                tail(f.src_port, f.dst_port, f.protocol, 4),
                0,
                0,
                0,
                0,
            ]
        }
        FlowKey::V6(f) => {
            let (src, dst) = (f.src.to_bits(), f.dst.to_bits());
            let tail = tail(f.src_port, f.dst_port, f.protocol, 6);
            [
                (src >> 64) as u64,
                src as u64,
                (dst >> 64) as u64,
                dst as u64,
                tail,
                0,
            ]
        }
    }
}

impl Id {
    /// Text form of the key.
    pub(super) fn show(&self) -> String {
        let key = match self {
            Id::Tag(tag) => return tag.to_string(),
            Id::Key(key) => key,
        };
        let is_four = key[2..] == [0; 4];
        let tail = if is_four { key[1] } else { key[4] };
        let (src, dst): (IpAddr, IpAddr) = match is_four {
            true => (
                std::net::Ipv4Addr::from_bits((key[0] >> 32) as u32).into(),
                std::net::Ipv4Addr::from_bits(key[0] as u32).into(),
            ),
            false => {
                let address = |high: u64, low: u64| {
                    std::net::Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()
                };
                (address(key[0], key[1]), address(key[2], key[3]))
            }
        };
        let name = proto::NAMES
            .iter()
            .find(|(_, number)| *number == tail as u8);
        let protocol =
            name.map_or_else(|| (tail as u8).to_string(), |(name, _)| (*name).to_owned());
        let port = |shift: u32| (tail >> shift) as u16;
        format!("{src} {} {dst} {} {protocol}", port(32), port(16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_shown_as_they_are_written() {
        for text in [
            "10.0.0.1 1000 10.0.0.2 53 udp",
            "10.0.0.1 0 10.0.0.2 0 253",
            "2001:db8::1 1 2001:db8::2 65535 tcp",
            "::1 0 :: 0 59",
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            let (id, rest) = KeyKind::Match.parse(&words).unwrap();
            assert_eq!((id.show().as_str(), rest.len()), (text, 0));
        }
        let (id, rest) = KeyKind::Dscp.parse(&["46", "RATE"]).unwrap();
        assert_eq!((id.show().as_str(), rest), ("46", &["RATE"][..]));
    }

    #[test]
    fn mistakes_are_named() {
        for (by, text, wrong) in [
            (KeyKind::Match, "10.0.0.1", "a flow is written"),
            (KeyKind::Match, "10.0.0.1 1 ::1 2 udp", "one IP version"),
            (KeyKind::Match, "x 1 10.0.0.1 2 udp", "`x` is no address"),
            (
                KeyKind::Match,
                "10.0.0.1 70000 10.0.0.1 2 udp",
                "`70000` is no port",
            ),
            (
                KeyKind::Match,
                "10.0.0.1 7 10.0.0.1 2 what",
                "`what` is no protocol",
            ),
            (KeyKind::Dscp, "64", "a number up to 63"),
            (KeyKind::Label, "", "a number up to 1048575"),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert!(by.parse(&words).unwrap_err().contains(wrong), "{text}");
        }
    }
}
