//! Removes Ethernet headers, with their IEEE 802.1Q tag if there is one.
//!
//! ```click
//! FromDevice(eth0) -> StripEtherVLANHeader -> Discard;
//! ```
//!
//! The VLAN_TCI annotation is set to the tag, or to `NATIVE_VLAN` if there is no tag. A frame shorter than its
//! header is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `NATIVE_VLAN`: VLAN identifier of frames without a tag. If it is negative, such frames leave by output 1,
//!   or are dropped (`untagged`). Default 0.

use crate::prelude::*;
use wire::{ether, vlan};

drops! {
    TOO_SHORT = "too_short",
    UNTAGGED = "untagged",
}
const OTHERS: u8 = 1;

pub(super) struct StripEtherVlanHeader {
    native: Option<u16>,
}

impl Element for StripEtherVlanHeader {
    const CONTRACT: Contract = Contract::new("StripEtherVLANHeader", manual!())
        .ports(Ports::new(&["in"], &["out", "untagged?"]))
        .needs(&[Facts::ETHER])
        // Strip makes header positions unknown, and so does this class. Also, a frame without a tag keeps its header.
        .spoils(
            Facts::ETHER
                .and(Facts::AT_NETWORK)
                .and(Facts::IP4)
                .and(Facts::IP6),
        )
        .drops(DROPS);

    type Config = Option<u16>;

    fn configure(args: &mut Args) -> Option<u16> {
        let doc = "identifier of frames without a tag";
        let native = args.optional_in("NATIVE_VLAN", 0, i32::MIN..=4095, doc);
        u16::try_from(native).ok()
    }

    fn new(native: &Arc<Option<u16>>, _: &Init) -> StripEtherVlanHeader {
        StripEtherVlanHeader { native: **native }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let data = packet.data();
        let tagged = data.get(12..14) == Some(&ether::VLAN.to_be_bytes());
        let (tci, len) = match (data.get(14..16), self.native) {
            (Some(tci), _) if tagged => {
                (u16::from_be_bytes([tci[0], tci[1]]), ether::LEN + vlan::LEN)
            }
            (_, Some(native)) => (native, ether::LEN),
            (_, None) => return Verdict::reject(UNTAGGED, OTHERS),
        };
        if !packet.pull(len) {
            return Verdict::drop(TOO_SHORT);
        }
        packet.set_vlan_tci(tci);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, TAGGED};
    use testkit::Bench;

    #[test]
    fn headers_go_and_the_tag_is_noted() {
        let text = "s :: StripEtherVLANHeader(5)
            -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO) -> Strip(14) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[TAGGED, PLAIN, &TAGGED[..17], &PLAIN[..13]]);
        assert_eq!(
            bench.take("out"),
            [b"\x20\x07\x08\0rest", b"\x00\x05\x08\0rest"]
        );
        assert_eq!(bench.drops("s", "too_short"), 2);
    }

    #[test]
    fn without_a_native_vlan_untagged_frames_leave_as_they_are() {
        let text = "s :: StripEtherVLANHeader(-1) -> out :: Collect; s[1] -> plain :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[TAGGED, PLAIN]);
        assert_eq!(bench.take("out"), [b"rest"]);
        assert_eq!(bench.take("plain"), [PLAIN]);
        testkit::errors(
            crate::CLASSES,
            "Idle -> EtherMirror -> StripEtherVLANHeader(4096) -> Discard",
        );
    }
}
