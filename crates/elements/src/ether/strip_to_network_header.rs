//! Removes the bytes before the network header.
//!
//! ```click
//! FromDevice(eth0) -> CheckIPHeader(OFFSET 14) -> StripToNetworkHeader -> Discard;
//! ```
//!
//! The packet then starts with its network header, also if the header had been stripped before. A packet
//! without network header annotation is dropped (`no_network_header`).

use crate::prelude::*;

drops! {
    NO_NETWORK_HEADER = "no_network_header",
}

pub(super) struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    const CONTRACT: Contract = Contract::new("StripToNetworkHeader", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::AT_NETWORK])
        .spoils(Facts::ETHER)
        .drops(DROPS);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> StripToNetworkHeader {
        StripToNetworkHeader
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let place = usize::from(packet.anno().network);
        let moved = match place.checked_sub(packet.headroom()) {
            _ if place == 0 => false,
            Some(before) => packet.pull(before),
            None => packet.push(packet.headroom() - place).is_some(),
        };
        on_if(moved, NO_NETWORK_HEADER)
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use testkit::Bench;

    fn marked(offset: usize, strip: usize) -> Packet {
        let mut packet = Packet::from_bytes(b"abcdef").expect("it fits");
        packet.set_network_offset(offset);
        assert!(packet.pull(strip));
        packet
    }

    #[test]
    fn the_packet_starts_at_its_network_header_wherever_it_started() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: StripToNetworkHeader -> out :: Collect",
        );
        let packets = [marked(2, 0), marked(2, 2), marked(2, 4), marked(6, 0)];
        bench.push_packets("s", 0, packets.into_iter().collect());
        bench.push("s", &[b"none"]);
        assert_eq!(bench.take("out"), [&b"cdef"[..], b"cdef", b"cdef", b""]);
        assert_eq!(bench.drops("s", "no_network_header"), 1);
    }

    #[test]
    fn a_header_place_behind_the_end_is_no_header() {
        let mut bench = Bench::new(crate::CLASSES, "s :: StripToNetworkHeader -> Discard");
        bench.push_packets("s", 0, [marked(7, 0)].into_iter().collect());
        assert_eq!(bench.drops("s", "no_network_header"), 1);
    }
}
