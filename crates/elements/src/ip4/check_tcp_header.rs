//! Checks lengths and checksum of TCP segments.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> CheckTCPHeader -> Discard;
//! ```
//!
//! Packets must be whole (see IPReassembler). Bad packets leave by output 1, or are dropped under the name of
//! their fault; so do packets of other protocols.
//!
//! Keyword arguments:
//!
//! - `VERBOSE`: true if every bad packet is reported on the standard error stream. Default false; Click's
//!   driver then reports the first.
//! - `DETAILS`: accepted for compatibility with Click: faults are always counted by kind.

use super::check_upper::{BAD_CHECKSUM, BAD_LENGTH, Upper};
use super::faults::Wording;
use crate::manual;
use wire::{Ipv4, Tcp, proto};

pub(crate) struct CheckTCPHeader;

impl Upper for CheckTCPHeader {
    const CLASS: &'static str = "CheckTCPHeader";
    const MANUAL: &'static str = manual!();
    const PROTOCOL: u8 = proto::TCP;
    const DROPS: &'static [&'static str] = &["not_tcp", "bad_length", "bad_checksum"];
    const WORDING: &'static Wording<3> = &Wording {
        header: "TCP",
        faults: ["not TCP", "bad packet length", "bad TCP checksum"],
        lines: &["not TCP", "bad packet length", "bad TCP checksum"],
    };

    #[inline]
    fn fault(ip: &Ipv4<&[u8]>, payload: &[u8], length: usize, _: bool) -> Option<u8> {
        match Tcp::new_checked(payload) {
            Ok(tcp) if payload.len() == length => {
                (!tcp.verify_checksum(ip.pseudo(length))).then_some(BAD_CHECKSUM)
            }
            _ => Some(BAD_LENGTH),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;
    use testkit::ip4;

    #[test]
    fn segments_are_judged_by_lengths_and_checksum() {
        let good = ip4().tcp(1, 2).payload("data").bytes();
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        let udp = ip4().udp(1, 2).payload("data").bytes();
        let text =
            "m :: MarkIPHeader -> t :: CheckTCPHeader -> out :: Collect; t[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let bad = [
            changed(40, b'D'),
            changed(32, 0x40),
            changed(32, 0xf0),
            good[..43].to_vec(),
            good[..30].to_vec(),
            udp,
        ];
        bench.push("m", &[&good]);
        bench.push("m", &bad);
        assert_eq!(bench.take("out"), [good]);
        assert_eq!(bench.take("bad"), bad);
        assert_eq!(bench.read("t.drops"), "6");
        assert_eq!(
            bench.read("t.drop_details"),
            "1\tnot TCP\n4\tbad packet length\n1\tbad TCP checksum\n"
        );
    }
}
