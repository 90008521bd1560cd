//! Passes the frames that a station with a given Ethernet address would receive.
//!
//! ```click
//! FromDevice(eth0) -> HostEtherFilter(02:00:00:00:00:01) -> Discard;
//! ```
//!
//! Sets the packet type annotation (host, broadcast, multicast, other host) by the destination address. A priority
//! tag (802.1Q with VLAN 0) is removed and kept in the VLAN_TCI annotation: a station takes such a frame like one
//! without a tag. `ashlar click` leaves the tag in the frame, as Click does. Frames that it refuses leave by output
//! 1, or are dropped (`own`, `other`). A frame too short to have a header is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `ETHER`: the station's address.
//! - `DROP_OWN`: true to refuse frames that come from this address. Default false.
//! - `DROP_OTHER`: true to refuse frames to other stations. Default true.
//! - `OFFSET`: offset of the Ethernet header, in bytes. Default 0.

use super::priority::take_priority_tag;
use crate::prelude::*;
use engine::packet::anno::PacketType;
use wire::ether::Words;
use wire::{Ether, EtherAddr, ether};

drops! {
    OWN = "own",
    OTHER = "other",
    TOO_SHORT = "too_short",
}
const FILTERED: u8 = 1;

#[derive(Clone, Copy)]
pub(crate) struct HostEtherFilter {
    ether: EtherAddr,
    /// Station in the form of [`ether::destination`].
    station: u64,
    drop_own: bool,
    drop_other: bool,
    keeps_priority: bool,
    offset: usize,
}

impl Element for HostEtherFilter {
    const CONTRACT: Contract = Contract::new("HostEtherFilter", manual!())
        .ports(Ports::new(&["in"], &["out", "filtered?"]))
        .drops(DROPS)
        .carries_super_frames();

    type Config = HostEtherFilter;

    fn configure(args: &mut Args) -> HostEtherFilter {
        let ether = args.required("ETHER", "the station's address");
        HostEtherFilter {
            ether,
            station: ether::destination(ether),
            drop_own: args.optional(
                "DROP_OWN",
                false,
                "true to refuse packets that it sent itself",
            ),
            drop_other: args.optional("DROP_OTHER", true, "true to refuse packets for others"),
            keeps_priority: false,
            offset: args.key("OFFSET", 0, "where the header starts"),
        }
    }

    fn new(config: &Arc<HostEtherFilter>, init: &Init) -> HostEtherFilter {
        HostEtherFilter {
            keeps_priority: init.as_click(),
            ..**config
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl Fuse for HostEtherFilter {
    /// A frame to the station.
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (offset, station, drop_own) = (self.offset, self.station, self.drop_own);
        #[inline(always)]
        move |packet| {
            let header = packet
                .data()
                .get(offset..)?
                .first_chunk::<{ ether::LEN }>()?;
            let tagged = header[12..] == ether::VLAN.to_be_bytes();
            if drop_own || tagged || Words::of(header).destination() != station {
                return None;
            }
            packet.anno_mut().packet_type = PacketType::Host;
            Some(Verdict::ON)
        }
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if !self.keeps_priority {
            take_priority_tag(packet, self.offset);
        }
        let Some(Ok(frame)) = packet.data().get(self.offset..).map(Ether::new_checked) else {
            return Verdict::drop(TOO_SHORT);
        };
        let dst = frame.dst();
        let own = self.drop_own && frame.src() == self.ether;
        let packet_type = if dst == self.ether {
            PacketType::Host
        } else if dst.is_broadcast() {
            PacketType::Broadcast
        } else if dst.is_group() {
            PacketType::Multicast
        } else {
            PacketType::OtherHost
        };
        packet.anno_mut().packet_type = packet_type;
        if own {
            Verdict::reject(OWN, FILTERED)
        } else if packet_type == PacketType::OtherHost && self.drop_other {
            Verdict::reject(OTHER, FILTERED)
        } else {
            Verdict::ON
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::anno::PacketType::*;
    use testkit::Bench;

    const ME: &str = "02:00:00:00:00:01";

    fn frame(dst: &str, src: &str) -> Vec<u8> {
        testkit::ip4().ether(src, dst).bytes()
    }

    #[test]
    fn frames_are_sorted_by_their_destination() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("f :: HostEtherFilter({ME}) -> out :: Collect; f[1] -> Discard"),
        );
        let other = "02:00:00:00:00:02";
        let to = [ME, "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", other];
        bench.push("f", &to.map(|dst| frame(dst, other)));
        let types = bench.take_packets("out");
        let types: Vec<_> = types.iter().map(|p| p.anno.packet_type).collect();
        assert_eq!(types, [Host, Broadcast, Multicast]);
        assert!(bench.all_drops().is_empty());
    }

    #[test]
    fn refused_frames_are_dropped_by_name() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("f :: HostEtherFilter({ME}, true, OFFSET 1) -> out :: Collect"),
        );
        let behind_a_byte = |dst, src| [vec![0], frame(dst, src)].concat();
        bench.push(
            "f",
            &[
                behind_a_byte("ff:ff:ff:ff:ff:ff", ME),
                behind_a_byte("02:00:00:00:00:02", "02:00:00:00:00:03"),
                vec![0; 14],
                vec![],
            ],
        );
        assert_eq!(bench.take("out"), [b""; 0]);
        assert_eq!((bench.drops("f", "own"), bench.drops("f", "other")), (1, 1));
        assert_eq!(bench.drops("f", "too_short"), 2);
    }

    #[test]
    fn a_priority_tag_is_removed_and_no_other_tag() {
        let text = format!("f :: HostEtherFilter({ME}) -> out :: Collect");
        let other = "02:00:00:00:00:02";
        let mut bench = Bench::new(crate::CLASSES, &text);
        let to = [ME, "ff:ff:ff:ff:ff:ff"];
        let tagged = |vlan: u16| to.map(|dst| testkit::ip4().ether(other, dst).vlan(vlan).bytes());
        bench.push("f", &tagged(0));
        bench.push("f", &tagged(1));
        let seen = bench.take_packets("out");
        let bytes: Vec<_> = seen.iter().map(|p| p.bytes.clone()).collect();
        assert_eq!(bytes[..2], to.map(|dst| frame(dst, other)));
        assert_eq!(bytes[2..], tagged(1));
        let types: Vec<_> = seen.iter().map(|p| p.anno.packet_type).collect();
        assert_eq!(types, [Host, Broadcast, Host, Broadcast]);
        // Too short for a tag.
        bench.push("f", &[&tagged(0)[0][..17]]);
        assert_eq!(bench.take("out"), [&tagged(0)[0][..17]]);
        // The tag of a frame to another station is ignored.
        bench.push("f", &[testkit::ip4().ether(ME, other).vlan(0).bytes()]);
        assert_eq!(bench.drops("f", "other"), 1);
    }

    #[test]
    fn a_promiscuous_filter_lets_all_pass() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("f :: HostEtherFilter({ME}, DROP_OTHER false) -> out :: Collect"),
        );
        bench.push("f", &[frame("02:00:00:00:00:02", ME)]);
        assert_eq!(bench.take_packets("out")[0].anno.packet_type, OtherHost);
    }
}
