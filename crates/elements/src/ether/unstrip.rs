//! Restores bytes at the front of packets.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> Unstrip(14) -> Discard;
//! ```
//!
//! These are the bytes that Strip removed, unless something has overwritten them since. A packet with less room
//! before its data is dropped (`no_headroom`).
//!
//! Arguments:
//!
//! - `LENGTH`: bytes to restore.

use crate::prelude::*;

drops! {
    NO_HEADROOM = "no_headroom",
}

pub(super) struct Unstrip {
    length: usize,
}

impl Element for Unstrip {
    const CONTRACT: Contract = Contract::new("Unstrip", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        // Unstrip restores the Ethernet header. Elements that read the header check that the frame is long enough.
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.required("LENGTH", "bytes to put back")
    }

    fn new(length: &Arc<usize>, _: &Init) -> Unstrip {
        Unstrip { length: **length }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        on_if(packet.push(self.length).is_some(), NO_HEADROOM)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn stripped_bytes_are_restored() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: Strip(3) -> Unstrip(2) -> out :: Collect",
        );
        bench.push("s", &[b"abcd"]);
        assert_eq!(bench.take("out"), [b"bcd"]);
    }

    #[test]
    fn without_room_the_packet_is_dropped() {
        let mut bench = Bench::new(crate::CLASSES, "u :: Unstrip(4000) -> Discard");
        bench.push("u", &[b"abcd"]);
        assert_eq!(bench.drops("u", "no_headroom"), 1);
    }
}
