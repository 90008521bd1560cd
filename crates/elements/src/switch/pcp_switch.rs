//! Sends frames to outputs by their IEEE 802.1p priority.
//!
//! ```click
//! FromDevice(null:64) -> p :: PCPSwitch;
//! p[0] -> Queue -> [0] prio :: PrioSched -> ToDevice(null:);   // voice, and what keeps the network together
//! p[1] -> Queue -> [1] prio;
//! p[2] -> Queue -> [2] prio;
//! ```
//!
//! A frame's priority is the priority code point of its outer 802.1Q or 802.1ad tag. Outputs are traffic
//! classes, the highest first, as PrioSched needs them. With 2 to 8 outputs, priorities are mapped as IEEE
//! 802.1Q-2018, 8.6.6, recommends for this number of classes: priority 1, background, is below 0, best effort.
//!
//! Keyword arguments:
//!
//! - `MAP`: outputs for the priorities 0 to 7, separated by spaces, instead of the recommended ones. Frames for an
//!   output that is not connected are dropped (`no_output`).
//! - `UNTAGGED`: priority of frames without a tag. Default 0.
//! - `ANNO`: if true, the priority is taken from the VLAN_TCI annotation, in which `FromDevice(eth0.10)` and
//!   VLANDecap keep the tag, and not from the frame. Default false.

use crate::prelude::*;
use wire::ether::{QINQ, VLAN};

drops! {
    NO_OUTPUT = "no_output",
}
/// The two addresses before a tag.
const ADDRESSES: usize = 12;
/// IEEE 802.1Q-2018, table 8-5: traffic classes of the priorities 0 to 7, 0 the lowest, for 1 to 8 classes. Taken from
/// sources that quote it, not from the standard: NXP's GenAVB/TSN stack (qos.c, `Table 8-5, no SR Class`) and, by
/// traffic types, Linux' net/core/ieee8021q_helpers.c agree.
const RECOMMENDED: [[u8; 8]; 8] = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0, 0, 0, 0, 1, 1, 2, 2],
    [0, 0, 1, 1, 2, 2, 3, 3],
    [0, 0, 1, 1, 2, 2, 3, 4],
    [1, 0, 2, 2, 3, 3, 4, 5],
    [1, 0, 2, 3, 4, 4, 5, 6],
    [1, 0, 2, 3, 4, 5, 6, 7],
];

pub(super) struct Config {
    map: Option<[u8; 8]>,
    untagged: u8,
    anno: bool,
}

pub(super) struct PcpSwitch {
    /// Outputs of the priorities.
    map: [u8; 8],
    outputs: usize,
    untagged: u8,
    anno: bool,
}

impl Element for PcpSwitch {
    const CONTRACT: Contract = Contract::new("PCPSwitch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .needs(&[Facts::ETHER])
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let map: Option<String> =
            args.key_maybe("MAP", "outputs for the priorities 0 to 7, with spaces");
        let map = map.and_then(|text| {
            let map = parse(&text);
            if map.is_none() {
                args.error_in_whole(
                    format!("MAP must be eight outputs, not `{text}`"),
                    "give an output for each priority from 0 to 7, such as \"2 2 1 1 0 0 0 0\"",
                );
            }
            map
        });
        let doc = "priority of frames without a tag, 0 to 7";
        let untagged = args.key_in("UNTAGGED", 0, 0..=7, doc);
        let anno = args.key("ANNO", false, "true to use the VLAN_TCI annotation");
        Config {
            map,
            untagged,
            anno,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> PcpSwitch {
        let classes = init.outputs.clamp(1, 8);
        let recommended = || RECOMMENDED[classes - 1].map(|class| classes as u8 - 1 - class);
        PcpSwitch {
            map: config.map.unwrap_or_else(recommended),
            outputs: init.outputs,
            untagged: config.untagged,
            anno: config.anno,
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let priority = match self.anno {
            true => packet.vlan_tci().to_be_bytes()[0] >> 5,
            false => priority(packet.data()).unwrap_or(self.untagged),
        };
        let output = self.map[usize::from(priority & 7)];
        match usize::from(output) < self.outputs {
            true => Verdict::out(output),
            false => Verdict::drop(NO_OUTPUT),
        }
    }

    const HANDLERS: &'static [Handler<PcpSwitch>] = &[
        Handler::text("map", "outputs of the priorities 0 to 7", |e, _| {
            Ok(e.map.map(|output| output.to_string()).join(" "))
        }),
        Handler::set(
            "map",
            "changes the outputs of the priorities",
            |e, value, _| {
                e.map = parse(value).ok_or("must be eight outputs, such as 2 2 1 1 0 0 0 0")?;
                Ok(())
            },
        ),
    ];
}

/// The priority of a frame's outer tag, if it has one.
#[inline]
fn priority(frame: &[u8]) -> Option<u8> {
    let tag = frame.get(ADDRESSES..ADDRESSES + 4)?;
    let tagged = [VLAN, QINQ].contains(&u16::from_be_bytes([tag[0], tag[1]]));
    tagged.then_some(tag[2] >> 5)
}

fn parse(text: &str) -> Option<[u8; 8]> {
    let outputs: Option<Vec<u8>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
    outputs?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, errors};

    fn frame(priority: u8) -> Vec<u8> {
        let mut frame = b"ddddddssssss\x81\0".to_vec();
        frame.extend([priority << 5, 7, 8, 0, priority]);
        frame
    }

    /// Outputs of the priorities 0 to 7 and of a frame without a tag.
    fn outputs(switch: &str, count: usize) -> Vec<usize> {
        let mut text = format!("s :: {switch}");
        for n in 0..count {
            text += &format!("; s[{n}] -> o{n} :: Collect");
        }
        let mut bench = Bench::new(crate::CLASSES, &text);
        let mut frames: Vec<Vec<u8>> = (0..8).map(frame).collect();
        frames.push(b"ddddddssssss\x08\0\x08".to_vec());
        bench.push("s", &frames);
        let mut found = vec![usize::MAX; 9];
        for n in 0..count {
            for got in bench.take(&format!("o{n}")) {
                found[usize::from(*got.last().expect("a frame"))] = n;
            }
        }
        found
    }

    #[test]
    fn priorities_are_mapped_to_as_many_classes_as_there_are_outputs_the_highest_first() {
        assert_eq!(outputs("PCPSwitch", 1), [0; 9]);
        assert_eq!(outputs("PCPSwitch", 2), [1, 1, 1, 1, 0, 0, 0, 0, 1]);
        assert_eq!(outputs("PCPSwitch", 4), [3, 3, 2, 2, 1, 1, 0, 0, 3]);
        assert_eq!(outputs("PCPSwitch", 8), [6, 7, 5, 4, 3, 2, 1, 0, 6]);
        assert_eq!(outputs("PCPSwitch(UNTAGGED 5)", 8)[8], 2, "as priority 5");
    }

    #[test]
    fn every_number_of_classes_keeps_the_order_of_priorities() {
        // Background, best effort, then increasing.
        for map in super::RECOMMENDED {
            let order = [1, 0, 2, 3, 4, 5, 6, 7].map(|priority: usize| map[priority]);
            assert!(order.is_sorted(), "{map:?}");
        }
        for (n, map) in super::RECOMMENDED.iter().enumerate() {
            let classes: std::collections::BTreeSet<u8> = map.iter().copied().collect();
            assert_eq!(classes.len(), n + 1, "{map:?}: every class is used");
        }
    }

    #[test]
    fn a_map_of_ones_own_may_name_outputs_that_are_missing_and_be_changed() {
        let text = "s :: PCPSwitch(MAP \"0 0 0 0 0 0 1 3\") -> a :: Collect; s[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[frame(5), frame(6), frame(7)]);
        assert_eq!((bench.take("a").len(), bench.take("b").len()), (1, 1));
        assert_eq!(bench.drops("s", "no_output"), 1);
        assert_eq!(bench.read("s.map"), "0 0 0 0 0 0 1 3");
        bench.write("s.map", "1 1 1 1 1 1 1 1");
        bench.push("s", &[frame(7)]);
        assert_eq!(bench.take("b").len(), 1);
    }

    #[test]
    fn the_annotation_counts_where_it_is_asked_for() {
        let text = "in :: SetVLANAnno(VLAN_ID 7, VLAN_PCP 6) -> s :: PCPSwitch(ANNO true)
            -> a :: Collect; s[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("in", &[frame(0)]);
        assert_eq!((bench.take("a").len(), bench.take("b").len()), (1, 0));
    }

    #[test]
    fn a_wrong_map_or_priority_is_refused() {
        for (config, what) in [
            ("MAP \"0 1\"", "eight outputs"),
            ("MAP \"0 0 0 0 0 0 0 x\"", "eight outputs"),
            ("UNTAGGED 8", "between 0 and 7"),
        ] {
            let text = format!("Idle -> PCPSwitch({config}) -> Discard");
            assert!(errors(crate::CLASSES, &text).contains(what), "{config}");
        }
    }
}
