//! Removes bytes from the front of packets.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> Discard;
//! ```
//!
//! A packet that is shorter is dropped (`too_short`). After Strip, Ashlar no longer knows the offsets of the headers.
//! So check the network header after Strip, or use StripToNetworkHeader, which uses the network header annotation.
//!
//! Arguments:
//!
//! - `LENGTH`: bytes to remove.

use crate::prelude::*;

drops! {
    TOO_SHORT = "too_short",
}

/// Element of the class Strip.
pub struct Strip {
    length: usize,
}

impl Element for Strip {
    const CONTRACT: Contract = Contract::new("Strip", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        // The proof does not know the number of bytes. So it knows neither the offset of a checked header now, nor
        // whether the header still exists.
        .spoils(
            Facts::ETHER
                .and(Facts::AT_NETWORK)
                .and(Facts::IP4)
                .and(Facts::IP6),
        )
        .drops(DROPS)
        // A super-frame without its IP header cannot be cut.
        .carries_super_frames_if(|config| *config_of::<Self>(config) <= wire::ether::LEN)
        .ignores_annotations();

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.required("LENGTH", "bytes to remove")
    }

    fn new(length: &Arc<usize>, _: &Init) -> Strip {
        Strip { length: **length }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl Fuse for Strip {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let length = self.length;
        #[inline(always)]
        move |packet| Some(on_if(packet.pull(length), TOO_SHORT))
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_front_goes_and_short_packets_are_dropped() {
        let mut bench = Bench::new(crate::CLASSES, "s :: Strip(2) -> out :: Collect");
        bench.push("s", &[&b"abcd"[..], b"ab", b"a"]);
        assert_eq!(bench.take("out"), [&b"cd"[..], b""]);
        assert_eq!(bench.drops("s", "too_short"), 1);
    }

    #[test]
    fn a_frame_without_its_header_is_no_frame() {
        let errors = testkit::errors(
            crate::CLASSES,
            "InfiniteSource -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
                -> Strip(14) -> EtherMirror -> Discard",
        );
        assert!(
            errors.contains("an Ethernet header at the start"),
            "{errors}"
        );
    }
}
