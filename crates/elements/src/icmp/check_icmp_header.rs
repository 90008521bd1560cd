//! Checks length and checksum of ICMP messages.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> CheckICMPHeader -> Discard;
//! ```
//!
//! Packets must be whole (see IPReassembler). Bad ones leave by output 1, or are dropped under the name
//! of their fault; so do packets of other protocols.
//!
//! Keyword arguments:
//!
//! - `VERBOSE`, `DETAILS`: taken for the sake of Click's files. Every fault is counted by name anyway.

use crate::ip4;
use crate::prelude::*;
use wire::{Icmp, icmp, proto};

const NOT_ICMP: u8 = 0;
const TOO_SHORT: u8 = 1;
const BAD_CHECKSUM: u8 = 2;

pub(super) struct CheckICMPHeader {
    drops: [u64; 3],
}

impl Element for CheckICMPHeader {
    const CLASS: &'static str = "CheckICMPHeader";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out", "bad?"]);
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["not_icmp", "too_short", "bad_checksum"];

    type Config = ();

    fn configure(args: &mut Args) {
        args.key("VERBOSE", false, "taken, and without effect");
        args.key("DETAILS", false, "taken, and without effect");
    }

    fn new(_: &Arc<()>, _: &Init) -> CheckICMPHeader {
        CheckICMPHeader { drops: [0; 3] }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match fault(packet) {
            None => Verdict::ON,
            Some(fault) => {
                self.drops[usize::from(fault)] += 1;
                Verdict::reject(fault, 1)
            }
        }
    }

    fn take(&mut self, old: CheckICMPHeader) {
        self.drops = old.drops;
    }

    const HANDLERS: &'static [Handler<CheckICMPHeader>] = &[
        Handler::sum("drops", "bad packets", |e| e.drops.iter().sum()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            let lines = e.drops.iter().zip(Self::DROPS);
            Ok(lines.map(|(n, name)| format!("{n}\t{name}\n")).collect())
        }),
    ];
}

fn fault(packet: &Packet) -> Option<u8> {
    let header_len = match ip4::header(packet) {
        Some(ip) if ip.protocol() == proto::ICMP => ip.header_len(),
        _ => return Some(NOT_ICMP),
    };
    let message = ip4::datagram(packet).get(header_len..).unwrap_or(&[]);
    if message.len() < icmp::LEN {
        Some(TOO_SHORT)
    } else if !Icmp::new_unchecked(message).verify_checksum() {
        Some(BAD_CHECKSUM)
    } else {
        None
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
