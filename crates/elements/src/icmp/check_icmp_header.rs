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
//! - `VERBOSE`: true if every bad packet is reported on the standard error stream. Default false; Click's
//!   driver then reports the first.
//! - `DETAILS`: accepted for compatibility with Click: faults are always counted by kind.

use crate::ip4::check_upper::{BAD_CHECKSUM, BAD_LENGTH, Upper};
use crate::ip4::faults::Wording;
use crate::manual;
use wire::{Icmp, Ipv4, icmp, ipv4, proto};

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
    fn fault(_: &Ipv4<&[u8]>, payload: &[u8], _: usize, as_click: bool) -> Option<u8> {
        if payload.len() < icmp::LEN || as_click && !has_usual_length(payload) {
            Some(BAD_LENGTH)
        } else {
            (!Icmp::new_unchecked(payload).verify_checksum()).then_some(BAD_CHECKSUM)
        }
    }
}

/// True if a message has the usual length of its type. An error quotes a header and 8 bytes of payload; timestamp and
/// information messages have no data. `ashlar run` accepts other lengths, since the quoted packet may have been
/// shorter.
fn has_usual_length(message: &[u8]) -> bool {
    match message[0] {
        kind if icmp::is_error(kind) => message.len() >= icmp::LEN + ipv4::MIN_LEN + 8,
        icmp::TIMESTAMP | icmp::TIMESTAMP_REPLY => message.len() == icmp::LEN + 12,
        icmp::INFORMATION | icmp::INFORMATION_REPLY => message.len() == icmp::LEN,
        _ => true,
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

    #[test]
    fn clicks_driver_knows_how_long_messages_are() {
        let message = |kind: u8, length: usize| {
            let mut message = vec![0; length];
            message[0] = kind;
            Icmp::new_unchecked(&mut message[..]).fill_checksum();
            edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &message), |ip| {
                ip.set_protocol(proto::ICMP);
            })
        };
        for (make, dropped) in [
            (Bench::click as fn(_, &str) -> Bench, "4"),
            (Bench::new, "0"),
        ] {
            let text = "c :: CheckIPHeader -> i :: CheckICMPHeader -> out :: Collect";
            let mut bench = make(crate::CLASSES, text);
            for (kind, length) in [(11, 36), (13, 20), (15, 8), (8, 9)] {
                bench.push("c", &[&message(kind, length)]);
            }
            for (kind, length) in [(3, 35), (14, 24), (14, 16), (16, 12)] {
                bench.push("c", &[&message(kind, length)]);
            }
            assert_eq!(bench.read("i.drops"), dropped);
        }
    }
}
