//! Classification of a shared port's frames by router: by VLAN tags first, then by label, tunnel or destination.

use rustc_hash::FxHashMap;
use std::net::IpAddr;
use wire::vlan::{self, Tag};
use wire::{ether, ext, proto, tunnel};

/// Selector of a router's frames among the frames with its VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// All frames that match no other router's share.
    Remaining,
    /// Frames to this Ethernet address.
    Mac([u8; 6]),
    /// Frames with this outermost MPLS label.
    Label(u32),
    /// Packets of a tunnel.
    Tunnel(Tunnel),
}

/// A tunnel, selected by its packets' outer headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// Kind of tunnel.
    pub kind: Kind,
    /// Required destination; `None` for any.
    pub to: Option<IpAddr>,
    /// Required GRE key or VXLAN network; `None` for any.
    pub key: Option<u32>,
}

/// A kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// GRE.
    Gre,
    /// IP in IP, of both versions.
    Ipip,
    /// VXLAN.
    Vxlan,
}

/// Ethertypes of MPLS: unicast, and the former multicast.
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// GRE: there is a checksum, a key.
const GRE_CHECKSUM: u8 = 0x80;
const GRE_KEY: u8 = 0x20;
const VXLAN_HAS_NETWORK: u8 = 0x08;

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// Frames with the same tags.
#[derive(Default)]
struct Segment {
    /// Router that gets all remaining frames.
    default_router: Option<u32>,
    macs: FxHashMap<[u8; 6], u32>,
    labels: FxHashMap<u32, u32>,
    tunnels: FxHashMap<Tunnel, u32>,
    /// Routers that get broadcast and multicast frames.
    all: Vec<u32>,
}

/// Table from frames to routers; routers are numbered as they were [added](Table::add).
pub(super) struct Table {
    segments: Vec<Segment>,
    /// Segment of untagged frames, including frames with VLAN 0.
    untagged: Option<u32>,
    /// For each VLAN of 802.1Q and of 802.1ad: its segment number plus 1.
    single: [Option<Box<[u32; 4096]>>; 2],
    double: FxHashMap<(Tag, Tag), u32>,
}

/// Destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination<'a> {
    /// One router.
    To(u32),
    /// Several routers, which get a copy each.
    ToAll(&'a [u32]),
    /// The frame is for no router.
    NoRouter,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            segments: Vec::new(),
            untagged: None,
            single: [None, None],
            double: FxHashMap::default(),
        }
    }

    /// Assigns to a router the frames with these tags (none to two) that `by` selects.
    pub(super) fn add(&mut self, number: u32, tags: &[Tag], by: &[Selector], broadcast: bool) {
        let next = self.segments.len() as u32;
        let at = match *tags {
            [] => *self.untagged.get_or_insert(next),
            [tag] => {
                let single = &mut self.single[usize::from(tag.is_service())];
                let single = single.get_or_insert_with(|| Box::new([0; 4096]));
                let at = &mut single[usize::from(tag.id & 0xfff)];
                if *at == 0 {
                    *at = next + 1;
                }
                *at - 1
            }
            [outer, inner, ..] => *self.double.entry((outer, inner)).or_insert(next),
        };
        if at == next {
            self.segments.push(Segment::default());
        }
        let segment = &mut self.segments[at as usize];
        for by in by {
            match *by {
                Selector::Remaining => segment.default_router = Some(number),
                Selector::Mac(mac) => _ = segment.macs.insert(mac, number),
                Selector::Label(label) => _ = segment.labels.insert(label, number),
                Selector::Tunnel(tunnel) => _ = segment.tunnels.insert(tunnel, number),
            }
        }
        if broadcast {
            segment.all.push(number);
        }
    }

    /// Destination of a frame.
    #[inline]
    pub(super) fn find(&self, frame: &[u8]) -> Destination<'_> {
        let Some((segment, behind)) = self.segment(frame) else {
            return Destination::NoRouter;
        };
        if frame[0] & 1 != 0 {
            return Destination::ToAll(&segment.all);
        }
        let found = match segment.labels.is_empty() && segment.tunnels.is_empty() {
            true => None,
            false => segment.router_by_label_or_tunnel(frame, behind),
        };
        let found = found.or_else(|| match segment.macs.is_empty() {
            true => None,
            false => segment.macs.get(frame.first_chunk::<6>()?).copied(),
        });
        match found.or(segment.default_router) {
            Some(number) => Destination::To(number),
            None => Destination::NoRouter,
        }
    }

    /// The segment of a frame, and the offset of the Ethertype after its tags.
    #[inline]
    fn segment(&self, frame: &[u8]) -> Option<(&Segment, usize)> {
        frame.get(..ether::LEN)?;
        let mut at = (self.untagged, 12);
        let some = self.single.iter().any(Option::is_some) || !self.double.is_empty();
        if some && let Some(outer) = Tag::at(frame, 12) {
            let inner = || {
                let tags = (outer, Tag::at(frame, 12 + vlan::LEN)?);
                self.double.get(&tags).copied()
            };
            let single = &self.single[usize::from(outer.is_service())];
            let one = single
                .as_ref()
                .map_or(0, |single| single[usize::from(outer.id)]);
            at = match (self.double.is_empty(), one) {
                (false, _) if let Some(segment) = inner() => (Some(segment), 20),
                // VLAN 0 is a priority without a VLAN.
                (_, 0) if outer.id == 0 => (self.untagged, 12),
                (_, 0) => (None, 12),
                (_, one) => (Some(one - 1), 16),
            };
        }
        Some((&self.segments[at.0? as usize], at.1))
    }
}

impl Segment {
    /// Router for a frame by its label or its tunnel; the Ethertype lies at `at`.
    #[inline(never)]
    fn router_by_label_or_tunnel(&self, frame: &[u8], at: usize) -> Option<u32> {
        let (ethertype, packet) = (be16(frame.get(at..at + 2)?, 0), &frame[at + 2..]);
        if MPLS.contains(&ethertype) {
            let label = be32(packet.get(..4)?, 0) >> 12;
            return self.labels.get(&label).copied();
        }
        let (to, protocol, inner): (IpAddr, u8, &[u8]) = match ethertype {
            ether::IPV4 => {
                let head = packet.first_chunk::<20>()?;
                let to = <[u8; 4]>::try_from(&head[16..20]).ok()?;
                // Only the first fragment holds the transport header.
                let first = be16(head, 6) & 0x1fff == 0;
                let inner = packet.get(usize::from(head[0] & 15) * 4..)?;
                (to.into(), head[9], if first { inner } else { &[] })
            }
            ether::IPV6 => {
                let to = <[u8; 16]>::try_from(packet.get(24..40)?).ok()?;
                let upper = ext::walk(packet).ok()?;
                let inner = packet.get(upper.offset..)?;
                let inner = if upper.has_upper_header() { inner } else { &[] };
                (to.into(), upper.protocol, inner)
            }
            _ => return None,
        };
        let (kind, key) = match protocol {
            proto::GRE => {
                let flags = *inner.first()?;
                let at = if flags & GRE_CHECKSUM != 0 { 8 } else { 4 };
                let key = (flags & GRE_KEY != 0).then(|| inner.get(at..at + 4));
                (Kind::Gre, key.flatten().map(|key| be32(key, 0)))
            }
            proto::IPIP | proto::IPV6 => (Kind::Ipip, None),
            proto::UDP if be16(inner.get(2..4)?, 0) == tunnel::VXLAN_PORT => {
                let head = inner.get(8..16)?;
                (head[0] & VXLAN_HAS_NETWORK != 0)
                    .then(|| (Kind::Vxlan, Some(be32(head, 4) >> 8)))?
            }
            _ => return None,
        };
        // More specific rules come first.
        let ways = [(Some(to), key), (Some(to), None), (None, key), (None, None)];
        let mut tunnels = ways.iter().map(|&(to, key)| Tunnel { kind, to, key });
        tunnels.find_map(|tunnel| self.tunnels.get(&tunnel).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [u8; 6] = [2, 0, 0, 0, 0, 7];

    /// A frame to a station with these tags and what follows.
    fn frame(to: [u8; 6], tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let tags: Vec<Tag> = tags.iter().map(|&tag| tag.into()).collect();
        tagged(to, &tags, ethertype, packet)
    }

    /// The same, with tags of both kinds.
    fn tagged(to: [u8; 6], tags: &[Tag], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = [&to[..], &[2, 9, 9, 9, 9, 9]].concat();
        for tag in tags {
            frame.extend(tag.ethertype.to_be_bytes());
            frame.extend(tag.id.to_be_bytes());
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    /// An IPv4 packet to 192.0.2.1.
    fn ip4(protocol: u8, inner: &[u8]) -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1,
        ];
        packet.extend(inner);
        packet
    }

    #[test]
    fn tags_are_matched_first_and_more_tags_win() {
        let mut table = Table::new();
        table.add(0, &[], &[Selector::Remaining], true);
        table.add(1, &[100.into()], &[Selector::Remaining], true);
        table.add(2, &[100.into(), 7.into()], &[Selector::Remaining], true);
        table.add(3, &[200.into()], &[Selector::Mac(HERE)], true);
        let to = |tags: &[u16]| table.find(&frame(HERE, tags, ether::IPV4, &[])).number();
        assert_eq!(to(&[]), Some(0));
        assert_eq!(to(&[0x2000]), Some(0), "a priority alone");
        assert_eq!(to(&[100]), Some(1));
        assert_eq!(to(&[0xe064]), Some(1), "its priority does not count");
        assert_eq!(to(&[100, 8]), Some(1));
        assert_eq!(to(&[100, 7]), Some(2));
        assert_eq!(to(&[200]), Some(3));
        assert_eq!(to(&[300]), None);
        let stranger = frame([2, 1, 1, 1, 1, 1], &[200], ether::IPV4, &[]);
        assert_eq!(table.find(&stranger), Destination::NoRouter);
    }

    #[test]
    fn vlans_of_802_1q_and_of_802_1ad_are_different_ones() {
        let mut table = Table::new();
        let tag = |text: &str| text.parse::<Tag>().expect("a VLAN");
        let all = [
            &["100"][..],
            &["s100"],
            &["s100", "7"],
            &["100", "7"],
            &["s200"],
        ];
        for (number, tags) in all.iter().enumerate() {
            let tags: Vec<Tag> = tags.iter().map(|t| tag(t)).collect();
            table.add(number as u32, &tags, &[Selector::Remaining], true);
        }
        let to = |tags: &[&str]| {
            let tags: Vec<Tag> = tags.iter().map(|t| tag(t)).collect();
            table.find(&tagged(HERE, &tags, ether::IPV4, &[])).number()
        };
        for (number, tags) in all.iter().enumerate() {
            assert_eq!(to(tags), Some(number as u32));
        }
        assert_eq!(
            (to(&["200"]), to(&["s100", "s7"]), to(&["s7"])),
            (None, Some(1), None)
        );
    }

    impl Destination<'_> {
        fn number(self) -> Option<u32> {
            match self {
                Destination::To(number) => Some(number),
                _ => None,
            }
        }
    }

    #[test]
    fn there_may_be_more_segments_than_vlans() {
        let mut table = Table::new();
        for n in 0..65_535u32 {
            table.add(
                n,
                &[((n >> 12) as u16 + 1).into(), (n as u16 & 0xfff).into()],
                &[Selector::Remaining],
                true,
            );
        }
        table.add(65_535, &[100.into()], &[Selector::Remaining], true);
        let to = |tags: &[u16]| table.find(&frame(HERE, tags, ether::IPV4, &[])).number();
        assert_eq!(
            (to(&[100]), to(&[1, 5]), to(&[1])),
            (Some(65_535), Some(5), None)
        );
    }

    #[test]
    fn broadcast_goes_to_all_of_the_segment_that_want_it() {
        let mut table = Table::new();
        table.add(0, &[], &[Selector::Mac(HERE)], true);
        table.add(1, &[], &[Selector::Remaining], false);
        table.add(2, &[], &[Selector::Label(5)], true);
        table.add(3, &[9.into()], &[Selector::Remaining], true);
        for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 5], [0x33, 0x33, 0, 0, 0, 1]] {
            assert_eq!(
                table.find(&frame(to, &[], 0x806, &[])),
                Destination::ToAll(&[0, 2])
            );
            assert_eq!(
                table.find(&frame(to, &[9], 0x806, &[])),
                Destination::ToAll(&[3])
            );
            assert_eq!(
                table.find(&frame(to, &[8], 0x806, &[])),
                Destination::NoRouter
            );
        }
    }

    #[test]
    fn labels_and_tunnels_are_told_apart() {
        let mut table = Table::new();
        let to = Some(IpAddr::from([192, 0, 2, 1]));
        let tunnel = |kind, to, key| Selector::Tunnel(Tunnel { kind, to, key });
        let all = [
            Selector::Label(100),
            Selector::Label(200),
            tunnel(Kind::Gre, to, Some(7)),
            tunnel(Kind::Gre, to, None),
            tunnel(Kind::Ipip, None, None),
            tunnel(Kind::Vxlan, None, Some(77)),
            Selector::Remaining,
        ];
        for (number, by) in all.into_iter().enumerate() {
            table.add(number as u32, &[], &[by], false);
        }
        let goes = |ethertype, packet: &[u8]| {
            let frame = frame(HERE, &[], ethertype, packet);
            // A frame truncated to any length has some destination, and nothing panics.
            (0..frame.len()).for_each(|n| _ = table.find(&frame[..n]));
            table.find(&frame).number()
        };
        assert_eq!(goes(0x8847, &[0, 6, 0x41, 64]), Some(0));
        assert_eq!(goes(0x8847, &[0, 12, 0x81, 64]), Some(1));
        assert_eq!(goes(0x8847, &[0, 0, 0x01, 64]), Some(6));
        let v4 = |protocol, inner: &[u8]| goes(ether::IPV4, &ip4(protocol, inner));
        assert_eq!(v4(proto::GRE, &[0x20, 0, 8, 0, 0, 0, 0, 7]), Some(2));
        assert_eq!(
            v4(proto::GRE, &[0xa0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 7]),
            Some(2)
        );
        assert_eq!(v4(proto::GRE, &[0x20, 0, 8, 0, 0, 0, 0, 8]), Some(3));
        assert_eq!(v4(proto::GRE, &[0, 0, 8, 0]), Some(3));
        assert_eq!(v4(proto::IPIP, &[0x45; 20]), Some(4));
        let vxlan = |network: u8| [0, 9, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, network, 0];
        assert_eq!(v4(proto::UDP, &vxlan(77)), Some(5));
        assert_eq!(v4(proto::UDP, &vxlan(78)), Some(6));
        assert_eq!(v4(proto::TCP, &[0; 20]), Some(6));
        let mut ip6 = [0; 40];
        (ip6[0], ip6[6]) = (0x60, proto::GRE);
        assert_eq!(
            goes(ether::IPV6, &[&ip6[..], &[0, 0, 8, 0]].concat()),
            Some(6)
        );
        ip6[6] = proto::IPIP;
        assert_eq!(
            goes(ether::IPV6, &[&ip6[..], &[0x45; 20]].concat()),
            Some(4)
        );
    }
}
