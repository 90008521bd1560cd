//! Marks packets as IPv4 packets, without checking checksums or addresses.
//!
//! Sets the network header annotation and checks nothing: elements downstream must check whether the header is whole.
//! A packet that ends before the header is dropped (`too_short`).
//!
//! ```click
//! FromDevice(null:64) -> MarkIPHeader(14) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `OFFSET`: offset of the header in the packet. Default 0.

use crate::prelude::*;

drops! {
    TOO_SHORT = "too_short",
}

pub(super) struct MarkIPHeader {
    offset: usize,
}

impl Element for MarkIPHeader {
    const CONTRACT: Contract = Contract::new("MarkIPHeader", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::IP4])
        .spoils(Facts::IP6)
        .drops(DROPS);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.optional("OFFSET", 0, "where the header begins")
    }

    fn new(offset: &Arc<usize>, _: &Init) -> MarkIPHeader {
        MarkIPHeader { offset: **offset }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if packet.len() < self.offset {
            return Verdict::drop(TOO_SHORT);
        }
        packet.set_network_offset(self.offset);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    #[test]
    fn the_header_is_marked_and_kept() {
        let text = "m :: MarkIPHeader(1) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let packet = [b"x", &ip([1, 1, 1, 1], [2, 2, 2, 2], b"")[..], b"pad"].concat();
        bench.push("m", &[&packet[..], b""]);
        let out = &bench.take_packets("out")[0];
        assert_eq!((out.network_offset, &out.bytes), (1, &packet));
        assert_eq!(bench.drops("m", "too_short"), 1);
    }
}
