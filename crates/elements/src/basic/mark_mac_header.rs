//! Sets the MAC header annotation.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> MarkMACHeader(0, 14) -> Discard;
//! ```
//!
//! A packet that ends before `OFFSET`, or inside the header, is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `OFFSET`: offset of the header in the packet. Default 0.
//! - `LENGTH`: bytes of the header; the network header annotation is set to the place behind it. 0 = leave that
//!   annotation as it is. Default 0.

use crate::prelude::*;

drops! {
    TOO_SHORT = "too_short",
}

#[derive(Clone, Copy)]
pub(super) struct MarkMacHeader {
    offset: usize,
    length: usize,
}

impl Element for MarkMacHeader {
    const CONTRACT: Contract = Contract::new("MarkMACHeader", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        // The network header annotation may lead elsewhere now.
        .spoils(Facts::IP4.and(Facts::IP6))
        .drops(DROPS);

    type Config = MarkMacHeader;

    fn configure(args: &mut Args) -> MarkMacHeader {
        MarkMacHeader {
            offset: args.optional("OFFSET", 0, "where the header begins"),
            length: args.optional("LENGTH", 0, "bytes of the header; 0 = not known"),
        }
    }

    fn new(config: &Arc<MarkMacHeader>, _: &Init) -> MarkMacHeader {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let behind = self.offset.saturating_add(self.length);
        if packet.len() < behind {
            return Verdict::drop(TOO_SHORT);
        }
        packet.set_mac_offset(self.offset);
        if self.length > 0 {
            packet.set_network_offset(behind);
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_header_and_what_follows_it_are_marked() {
        let text = "m :: MarkMACHeader(1, 2) -> Strip(1) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("m", &[&b"abcdef"[..], b"ab"]);
        let out = &bench.take_packets("out")[0];
        assert_eq!((out.network_offset, &out.bytes[..]), (2, &b"bcdef"[..]));
        assert_eq!(usize::from(out.anno.mac), out.headroom);
        assert_eq!(bench.drops("m", "too_short"), 1);
    }
}
