//! Inserts an IEEE 802.1Q tag into Ethernet frames.
//!
//! ```click
//! FromDevice(eth0) -> VLANEncap(VLAN_ID 7) -> Discard;
//! ```
//!
//! A frame without a whole Ethernet header is dropped (`too_short`), and so is a frame without room before its
//! data (`no_headroom`).
//!
//! Arguments:
//!
//! - `VLAN_TCI`: the whole tag control information; `ANNO` takes each packet's annotation.
//! - `VLAN_PCP`: the priority, 0 to 7. Default 0.
//! - `VLAN_ID`: the VLAN identifier, instead of `VLAN_TCI`.
//! - `NATIVE_VLAN`: frames with this VLAN identifier stay untagged; -1 = all get a tag. Default 0.
//! - `ETHERTYPE`: the tag's Ethertype. Default 0x8100; 0x88a8 for 802.1ad.

use super::tci::{Tci, arguments};
use crate::prelude::*;
use wire::{ether, vlan};

drops! {
    TOO_SHORT = "too_short",
    NO_HEADROOM = "no_headroom",
}

#[derive(Clone, Copy)]
pub(super) struct VlanEncap {
    tci: Tci,
    native: i32,
    ethertype: u16,
}

impl Element for VlanEncap {
    const CONTRACT: Contract = Contract::new("VLANEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .drops(DROPS);

    type Config = VlanEncap;

    fn configure(args: &mut Args) -> VlanEncap {
        VlanEncap {
            tci: arguments(args),
            native: args.key("NATIVE_VLAN", 0, "identifier that stays untagged"),
            ethertype: args.key("ETHERTYPE", ether::VLAN, "the tag's Ethertype"),
        }
    }

    fn new(config: &Arc<VlanEncap>, _: &Init) -> VlanEncap {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let tci = self.tci.of(packet);
        if packet.len() < ether::LEN {
            return Verdict::drop(TOO_SHORT);
        }
        if i32::from(tci & 0xfff) == self.native {
            return Verdict::ON;
        }
        if packet.push(vlan::LEN).is_none() || !vlan::push(packet.data_mut(), self.ethertype, tci) {
            return Verdict::drop(NO_HEADROOM);
        }
        packet.set_mac_here();
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, TAGGED};
    use engine::packet::Packet;
    use testkit::Bench;

    #[test]
    fn the_tag_stands_behind_the_addresses() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "v :: VLANEncap(VLAN_ID 7, VLAN_PCP 1) -> out :: Collect",
        );
        bench.push("v", &[PLAIN, b"short"]);
        assert_eq!(bench.take("out"), [TAGGED]);
        assert_eq!(bench.drops("v", "too_short"), 1);
    }

    #[test]
    fn the_annotation_can_give_the_tag_and_the_native_vlan_has_none() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "v :: VLANEncap(ANNO, NATIVE_VLAN 3, ETHERTYPE 0x88a8) -> out :: Collect",
        );
        let packet = |tci| {
            let mut packet = Packet::from_bytes(PLAIN).expect("it fits");
            packet.set_vlan_tci(tci);
            packet
        };
        bench.push_packets("v", 0, [packet(9), packet(3)].into_iter().collect());
        assert_eq!(
            bench.take("out"),
            [&b"ddddddssssss\x88\xa8\0\x09\x08\0rest"[..], PLAIN]
        );
    }

    #[test]
    fn a_decapsulated_packet_equals_the_original() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "v :: VLANEncap(VLAN_ID 7) -> VLANDecap -> out :: Collect",
        );
        bench.push("v", &[PLAIN]);
        assert_eq!(bench.take("out"), [PLAIN]);
    }
}
