//! Swaps the Ethernet source and destination addresses.
//!
//! ```click
//! FromDevice(eth0) -> EtherMirror -> Queue -> ToDevice(eth0);
//! ```
//!
//! A frame too short to have both is dropped (`too_short`).

use crate::prelude::*;

drops! {
    TOO_SHORT = "too_short",
}

pub(super) struct EtherMirror;

impl Element for EtherMirror {
    const CONTRACT: Contract = Contract::new("EtherMirror", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .drops(DROPS)
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> EtherMirror {
        EtherMirror
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match packet.data_mut().first_chunk_mut::<12>() {
            Some(addresses) => {
                addresses.rotate_left(6);
                Verdict::ON
            }
            None => Verdict::drop(TOO_SHORT),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_addresses_change_places() {
        let mut bench = Bench::new(crate::CLASSES, "m :: EtherMirror -> out :: Collect");
        bench.push("m", &[&b"ddddddssssss\x08\0rest"[..], b"short"]);
        assert_eq!(bench.take("out"), [b"ssssssdddddd\x08\0rest"]);
        assert_eq!(bench.drops("m", "too_short"), 1);
    }
}
