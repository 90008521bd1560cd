//! Copies an address from the packet to the destination annotation.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> GetIP6Address(24) -> Discard;
//! ```
//!
//! A packet that is too short to have the address is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `OFFSET`: offset of the 16 bytes from the start of the packet; 24 is an IPv6 header's destination.

use crate::prelude::*;

pub(super) struct GetIP6Address {
    offset: usize,
}

impl Element for GetIP6Address {
    const CONTRACT: Contract = Contract::new("GetIP6Address", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::DST6])
        .spoils(Facts::DST4)
        .drops(&["too_short"]);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.required("OFFSET", "place of the address in the packet")
    }

    fn new(offset: &Arc<usize>, _: &Init) -> GetIP6Address {
        GetIP6Address { offset: **offset }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let behind = packet.data().get(self.offset..).unwrap_or(&[]);
        let Some(&address) = behind.first_chunk() else {
            return Verdict::drop(0);
        };
        packet.anno_mut().set_dst6(address);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, ip6};

    #[test]
    fn the_address_at_the_offset_becomes_the_destination() {
        both("g :: GetIP6Address(24) -> out :: Collect", |bench| {
            let packet = ip6("fe80::1", "2001:db8::2", 59, 64, b"");
            bench.push("g", &[&packet[..], &packet[..39]]);
            let out = bench.take_packets("out");
            assert_eq!(out.len(), 1);
            assert_eq!(out[0].anno.dst6(), a("2001:db8::2").octets());
            assert_eq!(bench.drops("g", "too_short"), 1);
        });
    }
}
