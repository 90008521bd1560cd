//! Removes VXLAN headers (RFC 7348, 5) and passes the Ethernet frames of one VXLAN network.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> c :: IPClassifier(unfrag and dst udp port 4789)
//!     -> CheckUDPHeader
//!     -> StripIPHeader -> Strip(8)
//!     -> VXLANDecap(7)
//!     -> ToDevice(null:);
//! ```
//!
//! Packets must begin with the VXLAN header. StripIPHeader and Strip remove the IP header, with any options, and the
//! UDP header. A packet is dropped if it has no whole Ethernet header (`too_short`), if the flag for a valid VNI is
//! not set (`bad_header`), or if it belongs to another network (`other_network`). Reserved bits are ignored.
//!
//! Arguments:
//!
//! - `VNI`: number of the network, 0 to 16777215.

use super::vxlan::{LEN, VALID, vni};
use crate::prelude::*;
use wire::ether;

drops! {
    TOO_SHORT = "too_short",
    BAD_HEADER = "bad_header",
    OTHER_NETWORK = "other_network",
}

pub(super) struct VxlanDecap {
    vni: u32,
}

impl Element for VxlanDecap {
    const CONTRACT: Contract = Contract::new("VXLANDecap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK.and(Facts::IP4).and(Facts::IP6))
        .drops(DROPS)
        .ignores_annotations();

    type Config = u32;

    fn configure(args: &mut Args) -> u32 {
        vni(args)
    }

    fn new(vni: &Arc<u32>, _: &Init) -> VxlanDecap {
        VxlanDecap { vni: **vni }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(&[flags, _, _, _, a, b, c, _]) = packet.data().first_chunk::<LEN>() else {
            return Verdict::drop(TOO_SHORT);
        };
        if flags & VALID == 0 {
            return Verdict::drop(BAD_HEADER);
        }
        if u32::from_be_bytes([0, a, b, c]) != self.vni {
            return Verdict::drop(OTHER_NETWORK);
        }
        if packet.len() < LEN + ether::LEN || !packet.pull(LEN) {
            return Verdict::drop(TOO_SHORT);
        }
        packet.set_mac_here();
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::PLAIN;
    use testkit::Bench;

    #[test]
    fn a_decapsulated_packet_equals_the_original() {
        let text = "e :: VXLANEncap(7) -> d :: VXLANDecap(7) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("e", &[PLAIN]);
        let packet = &bench.take_packets("out")[0];
        assert_eq!(packet.bytes, PLAIN);
    }

    #[test]
    fn other_networks_and_non_vxlan_packets_are_dropped_by_name() {
        let mut bench = Bench::new(crate::CLASSES, "d :: VXLANDecap(7) -> out :: Collect");
        let with = |header: [u8; 8], frame: &[u8]| [&header, frame].concat();
        let good = [0xff, 1, 2, 3, 0, 0, 7, 9];
        let (other, none) = ([8, 0, 0, 0, 0, 1, 7, 0], [0xf7, 0, 0, 0, 0, 0, 7, 0]);
        let packets = [
            with(good, PLAIN),
            with(other, PLAIN),
            with(none, PLAIN),
            with(good, &PLAIN[..13]),
            good[..7].to_vec(),
        ];
        bench.push("d", &packets);
        assert_eq!(bench.take("out"), [PLAIN], "reserved bits do not count");
        let drops = ["other_network", "bad_header", "too_short"].map(|name| bench.drops("d", name));
        assert_eq!(drops, [1, 1, 2]);
    }
}
