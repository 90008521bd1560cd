//! Translation of a rule into rte_flow's items: headers from the outside in, each with a mask of the compared bytes.

use engine::port::Match;
use std::net::IpAddr;
use wire::{FlowKey, proto};

/// Length in bytes of the largest header, IPv6's.
pub(super) const HEADER_BYTES_MAX: usize = 40;

/// A header of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ether,
    Vlan,
    Ipv4,
    Ipv6,
    Tcp,
    Udp,
    Sctp,
}

/// A header in wire format, and a mask of the bits that must match. A VLAN header begins with its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) spec: [u8; HEADER_BYTES_MAX],
    pub(super) mask: [u8; HEADER_BYTES_MAX],
}

impl Item {
    /// Any header of this kind.
    fn any(kind: Kind) -> Item {
        Item {
            kind,
            spec: [0; HEADER_BYTES_MAX],
            mask: [0; HEADER_BYTES_MAX],
        }
    }

    /// Adds bytes to match at an offset.
    fn with(self, at: usize, bytes: &[u8]) -> Item {
        self.with_bits(at, bytes, &[0xff; HEADER_BYTES_MAX][..bytes.len()])
    }

    /// Adds bytes to match at an offset, under a mask.
    fn with_bits(mut self, at: usize, bytes: &[u8], bits: &[u8]) -> Item {
        for (i, (byte, bit)) in bytes.iter().zip(bits).enumerate() {
            (self.spec[at + i], self.mask[at + i]) = (byte & bit, *bit);
        }
        self
    }

    /// True if all headers of the kind fit.
    pub(super) fn is_any(&self) -> bool {
        self.mask == [0; HEADER_BYTES_MAX]
    }
}

/// Headers of a rule's packets, and its rank: if a packet matches two rules, the one with the lower rank counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) items: Vec<Item>,
    pub(super) rank: u32,
}

/// The pattern of a rule; the error says why there is none.
pub(super) fn of(rule: &Match) -> Result<Pattern, String> {
    match rule {
        Match::Flow(flow) => of_flow(flow).map(|items| Pattern { items, rank: 0 }),
        Match::Station { address, vlan } => Ok(of_station(address.as_ref(), *vlan)),
        Match::Prefix { address, len, .. } if *len > bits(address) => {
            Err(format!("{address} has no {len} bits"))
        }
        Match::Prefix {
            address,
            len,
            is_source,
        } => Ok(Pattern {
            items: vec![Item::any(Kind::Ether), of_prefix(address, *len, *is_source)],
            rank: u32::from(bits(address) - len),
        }),
    }
}

fn of_flow(flow: &FlowKey) -> Result<Vec<Item>, String> {
    let (ip, protocol_at, protocol, ports) = match flow {
        FlowKey::V4(f) => {
            let ip = Item::any(Kind::Ipv4).with(12, &f.src.octets());
            let ip = ip.with(16, &f.dst.octets());
            (ip, 9, f.protocol, [f.src_port, f.dst_port])
        }
        FlowKey::V6(f) => {
            let ip = Item::any(Kind::Ipv6).with(8, &f.src.octets());
            let ip = ip.with(24, &f.dst.octets());
            (ip, 6, f.protocol, [f.src_port, f.dst_port])
        }
    };
    let above = match protocol {
        proto::TCP => Some(Kind::Tcp),
        proto::UDP => Some(Kind::Udp),
        proto::SCTP => Some(Kind::Sctp),
        _ => None,
    };
    match (above, ports) {
        (Some(_), [0, 0]) => Err("ports 0 stand for fragments, which have no ports".into()),
        // The outer header already names the protocol; drivers refuse a second mention.
        (Some(kind), [src, dst]) => {
            let above = Item::any(kind).with(0, &src.to_be_bytes());
            let above = above.with(2, &dst.to_be_bytes());
            Ok(vec![Item::any(Kind::Ether), ip, above])
        }
        (None, [0, 0]) => Ok(vec![
            Item::any(Kind::Ether),
            ip.with(protocol_at, &[protocol]),
        ]),
        (None, _) => Err(format!("rte_flow knows no ports of protocol {protocol}")),
    }
}

/// Rules for an address and a VLAN go before those for an address, and these before those for a VLAN.
fn of_station(address: Option<&[u8; 6]>, vlan: Option<u16>) -> Pattern {
    let ether = Item::any(Kind::Ether);
    let mut items = vec![match address {
        Some(address) => ether.with(0, address),
        None => ether,
    }];
    if let Some(id) = vlan {
        // Twelve bits of the tag; others are priority.
        items.push(Item::any(Kind::Vlan).with_bits(0, &id.to_be_bytes(), &[0x0f, 0xff]));
    }
    let rank = match (address, vlan) {
        (Some(_), Some(_)) => 0,
        (Some(_), None) => 1,
        (None, _) => 2,
    };
    Pattern { items, rank }
}

fn bits(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn of_prefix(address: &IpAddr, len: u8, is_source: bool) -> Item {
    let bits: Vec<u8> = (0..bits(address) / 8)
        .map(|byte| !(0xffu16 >> len.saturating_sub(8 * byte).min(8)) as u8)
        .collect();
    match address {
        IpAddr::V4(ip) => {
            let at = if is_source { 12 } else { 16 };
            Item::any(Kind::Ipv4).with_bits(at, &ip.octets(), &bits)
        }
        IpAddr::V6(ip) => {
            let at = if is_source { 8 } else { 24 };
            Item::any(Kind::Ipv6).with_bits(at, &ip.octets(), &bits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::flow::Flow;

    fn flow(protocol: u8, src_port: u16, dst_port: u16) -> Match {
        Match::Flow(FlowKey::V4(Flow {
            src: [10, 0, 0, 1].into(),
            dst: [192, 0, 2, 1].into(),
            src_port,
            dst_port,
            protocol,
        }))
    }

    fn kinds(rule: &Match) -> Vec<Kind> {
        let items = of(rule).expect("rte_flow can say it").items;
        items.iter().map(|item| item.kind).collect()
    }

    /// True if a frame's headers match a rule's pattern under its mask.
    fn fits(rule: &Match, headers: &[&[u8]]) -> bool {
        let items = of(rule).expect("rte_flow can say it").items;
        assert_eq!(items.len(), headers.len());
        items.iter().zip(headers).all(|(item, header)| {
            let each = item.spec.iter().zip(&item.mask).enumerate();
            let mut each = each.filter(|(_, (_, mask))| **mask != 0);
            each.all(|(i, (spec, mask))| header[i] & mask == *spec)
        })
    }

    #[test]
    fn a_flow_is_addresses_and_ports_where_the_wire_has_them() {
        let frame = testkit::ip4().src("10.0.0.1").dst("192.0.2.1");
        let frame = |dst_port| frame.clone().udp(1000, dst_port).bytes();
        let rule = flow(proto::UDP, 1000, 53);
        assert_eq!(kinds(&rule), [Kind::Ether, Kind::Ipv4, Kind::Udp]);
        let fits_it = |packet: &[u8]| fits(&rule, &[&[7; 14], packet, &packet[20..]]);
        assert!(fits_it(&frame(53)));
        assert!(!fits_it(&frame(54)));
        let other = testkit::ip4()
            .src("10.0.0.2")
            .dst("192.0.2.1")
            .udp(1000, 53);
        assert!(!fits_it(&other.bytes()));
        assert!(of(&rule).expect("it is UDP").items[0].is_any());
    }

    #[test]
    fn a_flow_of_ipv6_lies_at_the_places_of_ipv6() {
        let rule = Match::Flow(FlowKey::V6(Flow {
            src: "2001:db8::1".parse().expect("an address"),
            dst: "2001:db8::2".parse().expect("an address"),
            src_port: 9,
            dst_port: 80,
            protocol: proto::TCP,
        }));
        assert_eq!(kinds(&rule), [Kind::Ether, Kind::Ipv6, Kind::Tcp]);
        let packet = |src| {
            let packet = testkit::ip6().src(src).dst("2001:db8::2");
            packet.tcp(9, 80).bytes()
        };
        for (src, is_it) in [("2001:db8::1", true), ("2001:db8::3", false)] {
            let packet = packet(src);
            assert_eq!(fits(&rule, &[&[7; 14], &packet, &packet[40..]]), is_it);
        }
    }

    #[test]
    fn protocols_without_ports_are_named_and_matches_beyond_rte_flow_are_refused() {
        let icmp = of(&flow(proto::ICMP, 0, 0)).expect("it has no ports");
        assert_eq!(icmp.items.len(), 2);
        assert_eq!((icmp.items[1].spec[9], icmp.items[1].mask[9]), (1, 0xff));
        let refused = |rule| of(&rule).expect_err("it cannot be said");
        assert!(refused(flow(proto::UDP, 0, 0)).contains("fragments"));
        assert!(refused(flow(proto::DCCP, 1, 2)).contains("protocol 33"));
    }

    #[test]
    fn more_specific_rule_is_matched_first() {
        let station = |address, vlan| Match::Station { address, vlan };
        let (mac, id) = (Some([2, 0, 0, 0, 0, 1]), Some(0x123));
        let both = of(&station(mac, id)).expect("it can be said");
        assert_eq!(both.items[0].spec[..6], [2, 0, 0, 0, 0, 1]);
        assert_eq!(
            both.items[0].mask[..8],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]
        );
        assert_eq!(both.items[1].kind, Kind::Vlan);
        assert_eq!((both.items[1].spec[0], both.items[1].spec[1]), (0x01, 0x23));
        assert_eq!((both.items[1].mask[0], both.items[1].mask[1]), (0x0f, 0xff));
        let rank = |rule| of(&rule).expect("it can be said").rank;
        let ranks = [station(mac, id), station(mac, None), station(None, id)].map(rank);
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert_eq!(kinds(&station(mac, None)), [Kind::Ether]);
    }

    #[test]
    fn of_a_prefix_its_first_bits_count() {
        let prefix = |address: &str, len, is_source| Match::Prefix {
            address: address.parse().expect("an address"),
            len,
            is_source,
        };
        let four = of(&prefix("10.1.2.3", 13, false)).expect("it can be said");
        assert_eq!(four.items[1].spec[16..20], [10, 0, 0, 0]);
        assert_eq!(four.items[1].mask[16..20], [0xff, 0xf8, 0, 0]);
        let six = of(&prefix("2001:db8::", 32, true)).expect("it can be said");
        assert_eq!(six.items[1].mask[8..14], [0xff, 0xff, 0xff, 0xff, 0, 0]);
        assert!(four.rank < of(&prefix("10.0.0.0", 8, false)).expect("so can this").rank);
        assert!(of(&prefix("10.0.0.0", 33, false)).is_err());
        let all = of(&prefix("0.0.0.0", 0, false)).expect("it can be said");
        assert!(all.items[1].is_any());
    }
}
