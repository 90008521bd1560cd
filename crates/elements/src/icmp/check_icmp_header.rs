//! Checks length and checksum of ICMP messages.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> CheckICMPHeader -> Discard;
//! ```
//!
//! Packets must be whole (see IPReassembler). Bad packets leave by output 1, or are dropped under the name of
//! their fault; so do packets of other protocols.
//!
//! Keyword arguments:
//!
//! - `VERBOSE`: whether every bad packet is reported on the standard error stream. Default false; Click's
//!   driver then reports the first.
//! - `DETAILS`: accepted for compatibility with Click: faults are always counted by kind.

use crate::ip4::check_upper::{BAD_CHECKSUM, BAD_LENGTH, Upper};
use crate::ip4::faults::Wording;
use crate::manual::manual;
use wire::{Icmp, Ipv4, icmp, proto};

pub(crate) struct CheckICMPHeader;

impl Upper for CheckICMPHeader {
    const CLASS: &'static str = "CheckICMPHeader";
    const MANUAL: &'static str = manual!();
    const PROTOCOL: u8 = proto::ICMP;
    const DROPS: &'static [&'static str] = &["not_icmp", "too_short", "bad_checksum"];
    const WORDING: &'static Wording<3> = &Wording {
        header: "ICMP",
        faults: ["not ICMP", "bad packet length", "bad ICMP checksum"],
        lines: &["not ICMP", "bad packet length", "bad ICMP checksum"],
    };

    #[inline]
    fn fault(_: &Ipv4<&[u8]>, payload: &[u8], _: usize) -> Option<u8> {
        if payload.len() < icmp::LEN {
            Some(BAD_LENGTH)
        } else {
            (!Icmp::new_unchecked(payload).verify_checksum()).then_some(BAD_CHECKSUM)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip};
    use testkit::Bench;
    use wire::{Icmp, proto};

    #[test]
    fn messages_are_judged_by_length_and_checksum() {
        let mut message = b"\x08\x00\x00\x00ididdata".to_vec();
        Icmp::new_unchecked(&mut message[..]).fill_checksum();
        let icmp = |bytes: &[u8]| {
            edited(ip([1, 1, 1, 1], [2, 2, 2, 2], bytes), |ip| {
                ip.set_protocol(proto::ICMP);
            })
        };
        let good = icmp(&message);
        let mut bad = good.clone();
        bad[30] ^= 1;
        let text = "c :: CheckIPHeader -> i :: CheckICMPHeader -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let udp = ip([1, 1, 1, 1], [2, 2, 2, 2], &message);
        bench.push("c", &[&good, &bad, &icmp(&message[..7]), &udp]);
        assert_eq!(bench.take("out"), [good]);
        assert_eq!(bench.drops("i", "bad_checksum"), 1);
        assert_eq!(bench.drops("i", "too_short"), 1);
        assert_eq!(bench.drops("i", "not_icmp"), 1);
        assert_eq!(bench.read("i.drops"), "3");
    }
}
