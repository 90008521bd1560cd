//! Checks lengths and checksum of UDP datagrams.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> CheckUDPHeader -> Discard;
//! ```
//!
//! Packets must be whole (see IPReassembler). Bad packets leave by output 1, or are dropped under the name of
//! their fault; so do packets of other protocols. A checksum of 0 means that there is none (RFC 768).
//!
//! Keyword arguments:
//!
//! - `VERBOSE`: true if every bad packet is reported on the standard error stream. Default false; Click's
//!   driver then reports the first.
//! - `DETAILS`: accepted for compatibility with Click: faults are always counted by kind.

use super::check_upper::{BAD_CHECKSUM, BAD_LENGTH, Upper};
use super::faults::Wording;
use crate::manual;
use wire::{Ipv4, Udp, proto};

pub(crate) struct CheckUDPHeader;

impl Upper for CheckUDPHeader {
    const CLASS: &'static str = "CheckUDPHeader";
    const MANUAL: &'static str = manual!();
    const PROTOCOL: u8 = proto::UDP;
    const DROPS: &'static [&'static str] = &["not_udp", "bad_length", "bad_checksum"];
    const WORDING: &'static Wording<3> = &Wording {
        header: "UDP",
        faults: ["not UDP", "bad packet length", "bad UDP checksum"],
        lines: &["not UDP", "bad packet length", "bad UDP checksum"],
    };

    #[inline]
    fn fault(ip: &Ipv4<&[u8]>, payload: &[u8], _: usize, _: bool) -> Option<u8> {
        match Udp::new_checked(payload) {
            Ok(udp) => {
                let right = udp.checksum() == 0 || udp.verify_checksum(ip.pseudo(udp.len()));
                (!right).then_some(BAD_CHECKSUM)
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
    fn datagrams_are_judged_by_length_and_checksum() {
        let good = ip4().udp(1, 2).payload("data").bytes();
        let unsummed = ip4().udp(1, 2).payload("data").no_udp_checksum().bytes();
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        let tcp = ip4().tcp(1, 2).payload("data").bytes();
        let text =
            "m :: MarkIPHeader -> u :: CheckUDPHeader -> out :: Collect; u[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let bad = [
            changed(30, b'D'),
            changed(25, 7),
            changed(25, 13),
            good[..25].to_vec(),
            tcp,
        ];
        bench.push("m", &[&good, &unsummed]);
        bench.push("m", &bad);
        assert_eq!(bench.take("out"), [good, unsummed]);
        assert_eq!(bench.take("bad"), bad);
        assert_eq!(
            bench.read("u.drop_details"),
            "1\tnot UDP\n3\tbad packet length\n1\tbad UDP checksum\n"
        );
    }
}
