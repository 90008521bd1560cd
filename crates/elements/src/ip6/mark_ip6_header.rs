//! Marks packets as IPv6 packets, without checking their headers.
//!
//! ```click
//! FromDevice(null:64) -> MarkIP6Header(14) -> Discard;
//! ```
//!
//! Sets the network header annotation. A packet too short for a header is dropped (`too_short`); nothing
//! else is checked. Use CheckIP6Header for packets from the network.
//!
//! Arguments:
//!
//! - `OFFSET`: bytes before the header. Default 0.

use crate::prelude::*;
use wire::ipv6;

pub(super) struct MarkIP6Header {
    offset: usize,
}

impl Element for MarkIP6Header {
    const CONTRACT: Contract = Contract::new("MarkIP6Header", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::IP6])
        .spoils(Facts::IP4)
        .drops(&["too_short"]);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.optional("OFFSET", 0, "bytes before the header")
    }

    fn new(offset: &Arc<usize>, _: &Init) -> MarkIP6Header {
        MarkIP6Header { offset: **offset }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if packet.len() < self.offset.saturating_add(ipv6::LEN) {
            return Verdict::drop(0);
        }
        packet.set_network_offset(self.offset);
        packet.set_transport_offset(self.offset + ipv6::LEN);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::both;

    #[test]
    fn the_header_is_marked_where_the_offset_says() {
        both("m :: MarkIP6Header(14) -> out :: Collect", |bench| {
            bench.push("m", &[[0; 53].to_vec(), [0; 54].to_vec()]);
            let out = bench.take_packets("out");
            assert_eq!((out.len(), out[0].network_offset), (1, 14));
            assert_eq!(bench.drops("m", "too_short"), 1);
        });
    }
}
