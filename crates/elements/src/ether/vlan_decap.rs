//! Removes the outer IEEE 802.1Q tag of Ethernet frames, if there is one.
//!
//! ```click
//! FromDevice(eth0) -> VLANDecap -> Discard;
//! ```
//!
//! Keyword arguments:
//!
//! - `ANNO`: true to set the VLAN_TCI annotation: to the tag, or to 0 if there is none. Default true.
//! - `ETHERTYPE`: the tag's Ethertype. Default 0x8100; 0x88a8 for 802.1ad.

use crate::prelude::*;
use wire::{ether, vlan};

#[derive(Clone, Copy)]
pub(super) struct VlanDecap {
    anno: bool,
    ethertype: [u8; 2],
}

impl Element for VlanDecap {
    const CONTRACT: Contract = Contract::new("VLANDecap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER]);

    type Config = VlanDecap;

    fn configure(args: &mut Args) -> VlanDecap {
        let ethertype: u16 = args.key("ETHERTYPE", ether::VLAN, "the tag's Ethertype");
        VlanDecap {
            anno: args.key("ANNO", true, "true to note the tag"),
            ethertype: ethertype.to_be_bytes(),
        }
    }

    fn new(config: &Arc<VlanDecap>, _: &Init) -> VlanDecap {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let mut tci = 0;
        if packet.data().get(12..14) == Some(&self.ethertype)
            && let Some(found) = vlan::pop(packet.data_mut())
            && packet.pull(vlan::LEN)
        {
            tci = found;
            packet.set_mac_here();
        }
        if self.anno {
            packet.set_vlan_tci(tci);
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, TAGGED};
    use testkit::Bench;

    #[test]
    fn tags_go_and_untagged_and_cut_frames_stay() {
        let mut bench = Bench::new(crate::CLASSES, "v :: VLANDecap -> out :: Collect");
        bench.push("v", &[TAGGED, PLAIN, &TAGGED[..17], b"x"]);
        assert_eq!(bench.take("out"), [PLAIN, PLAIN, &TAGGED[..17], b"x"]);
    }

    #[test]
    fn the_tag_is_noted() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "v :: VLANDecap -> VLANEncap(ANNO) -> out :: Collect",
        );
        bench.push("v", &[TAGGED, PLAIN]);
        assert_eq!(bench.take("out"), [TAGGED, PLAIN], "0 is the native VLAN");
    }
}
