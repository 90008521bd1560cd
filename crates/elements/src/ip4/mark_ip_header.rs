//! Marks packets as IPv4 packets, without checking checksums or addresses.
//!
//! The network header annotation is set. Only what no element behind could do without is looked at:
//! the header must be there, and its length fields must stay inside the packet. Others are dropped.
//!
//! ```click
//! FromDevice(null:64) -> MarkIPHeader(14) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `OFFSET`: where the header begins. Default 0.

use crate::prelude::*;
use wire::Ipv4;

const NO_HEADER: u8 = 0;

pub(super) struct MarkIPHeader {
    offset: usize,
}

impl Element for MarkIPHeader {
    const CLASS: &'static str = "MarkIPHeader";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const GIVES: &'static [Facts] = &[Facts::IP4];
    const SPOILS: Facts = Facts::IP6;
    const DROPS: &'static [&'static str] = &["no_header"];

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.optional("OFFSET", 0, "where the header begins")
    }

    fn new(offset: &Arc<usize>, _: &Init) -> MarkIPHeader {
        MarkIPHeader { offset: **offset }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        if Ipv4::new_checked(bytes).is_err() {
            return Verdict::drop(NO_HEADER);
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
        bench.push("m", &[&packet[..], b"too short for a header"]);
        let out = &bench.take_packets("out")[0];
        assert_eq!((out.network_offset, &out.bytes), (1, &packet));
        assert_eq!(bench.drops("m", "no_header"), 1);
    }
}
