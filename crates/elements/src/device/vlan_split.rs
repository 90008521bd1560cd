//! Splits Ethernet frames by VLAN, and removes the tag.
//!
//! ```click
//! FromDevice(null:64) -> v :: VLANSplit(10, 20) -> Discard;
//! v[1] -> Discard;
//! v[2] -> Discard;
//! ```
//!
//! Output 1 gets the frames of the first VLAN, output 2 those of the second, and so on. Their outer tag is removed and
//! kept in the VLAN_TCI annotation. Frames without a tag, with only a priority tag (VLAN 0), or of other VLANs leave
//! unchanged by output 0. `FromDevice(eth0.10)` uses this class to receive.
//!
//! Arguments: the VLANs, each from 1 to 4094, all different. `10` is that of an 802.1Q tag (0x8100), `s10` that of an
//! 802.1ad tag (0x88a8).

use crate::prelude::*;
use wire::vlan::{self, Tag};

/// Length of both Ethernet addresses, in bytes.
const ADDRESSES: usize = 12;

pub(super) struct Config {
    /// Output of each VLAN, for 802.1Q and for 802.1ad; 0 for none.
    outputs: Box<[[u8; 4096]; 2]>,
    count: usize,
}

impl Config {
    fn output(&mut self, tag: Tag) -> &mut u8 {
        &mut self.outputs[usize::from(tag.is_service())][usize::from(tag.id)]
    }
}

pub(super) struct VlanSplit(Arc<Config>);

impl Element for VlanSplit {
    const CONTRACT: Contract = Contract::new("VLANSplit", manual!())
        .ports(Ports::coded(&["in"], &["other?", "vlan*"], "h/h"))
        .needs(&[Facts::ETHER])
        .gives(&[Facts::ETHER])
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mut config = Config {
            outputs: Box::new([[0; 4096]; 2]),
            count: 0,
        };
        for arg in args.rest(
            "VLAN",
            "numbers from 1 to 4094, behind an s for 802.1ad",
            "the VLANs, in the order of outputs from 1 on",
        ) {
            let Some(tag) = args.value::<Tag>("VLAN", &arg.raw, &arg) else {
                continue;
            };
            if *config.output(tag) != 0 {
                args.error(&arg, format!("VLAN {tag} is named twice"));
            } else if config.count == 254 {
                args.error(&arg, "more than 254 VLANs");
            } else {
                config.count += 1;
                *config.output(tag) = config.count as u8;
            }
        }
        config
    }

    fn new(config: &Arc<Config>, _: &Init) -> VlanSplit {
        VlanSplit(Arc::clone(config))
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(tag) = Tag::at(packet.data(), ADDRESSES) else {
            return Verdict::ON;
        };
        let output = self.0.outputs[usize::from(tag.is_service())][usize::from(tag.id)];
        if output != 0 {
            let Some(tci) = vlan::pop(packet.data_mut()) else {
                return Verdict::ON;
            };
            let pulled = packet.pull(vlan::LEN);
            debug_assert!(pulled, "the frame has a tag");
            packet.set_mac_here();
            packet.set_vlan_tci(tci);
        }
        Verdict::out(output)
    }
}

impl Resources for VlanSplit {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, Some(config.count + 1))
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    const GRAPH: &str = "v :: VLANSplit(10, s20) -> none :: Collect; v[1] -> ten :: Collect; v[2] -> twenty :: Collect";

    fn frame(tpid: u16, id: u16) -> Vec<u8> {
        let mut frame = vec![0xaa; 12];
        frame.extend(tpid.to_be_bytes());
        frame.extend((0x6000 | id).to_be_bytes());
        frame.extend(*b"\x08\x00data");
        frame
    }

    #[test]
    fn frames_leave_by_vlan_without_their_tag() {
        let mut bench = Bench::new(crate::CLASSES, GRAPH);
        bench.push(
            "v",
            &[
                frame(0x8100, 10),
                frame(0x88a8, 20),
                frame(0x8100, 30),
                frame(0x0800, 10),
                // The same number with another Ethertype is another VLAN.
                frame(0x88a8, 10),
                frame(0x8100, 20),
            ],
        );
        let mut bare = vec![0xaa; 12];
        bare.extend(*b"\x08\x00data");
        assert_eq!(bench.take("ten"), [bare.clone()]);
        let twenty = bench.take_packets("twenty");
        assert_eq!(twenty[0].bytes, bare);
        let others = [(0x8100, 30), (0x0800, 10), (0x88a8, 10), (0x8100, 20)];
        assert_eq!(bench.take("none"), others.map(|(tpid, id)| frame(tpid, id)));
    }

    #[test]
    fn short_frames_pass_unchanged() {
        let mut bench = Bench::new(crate::CLASSES, GRAPH);
        let whole = frame(0x8100, 10);
        let cut: Vec<&[u8]> = (0..18).map(|n| &whole[..n]).collect();
        bench.push("v", &cut);
        assert_eq!(bench.take("none"), cut);
    }

    #[test]
    fn vlans_out_of_range_or_named_twice_are_refused() {
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> VLANSplit(10, s10, 0, 10) -> Discard",
        );
        assert!(
            errors.contains("not `0`") && errors.contains("VLAN 10 is named twice"),
            "{errors}"
        );
    }
}
