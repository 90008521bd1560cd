//! Checks lengths and checksum of TCP segments.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> CheckTCPHeader -> Discard;
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
use wire::{Tcp, proto};

const NOT_TCP: u8 = 0;
const BAD_LENGTH: u8 = 1;
const BAD_CHECKSUM: u8 = 2;

pub(super) struct CheckTCPHeader {
    drops: [u64; 3],
}

impl Element for CheckTCPHeader {
    const CLASS: &'static str = "CheckTCPHeader";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out", "bad?"]);
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["not_tcp", "bad_length", "bad_checksum"];

    type Config = ();

    fn configure(args: &mut Args) {
        args.key("VERBOSE", false, "taken, and without effect");
        args.key("DETAILS", false, "taken, and without effect");
    }

    fn new(_: &Arc<()>, _: &Init) -> CheckTCPHeader {
        CheckTCPHeader { drops: [0; 3] }
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

    fn take(&mut self, old: CheckTCPHeader) {
        self.drops = old.drops;
    }

    const HANDLERS: &'static [Handler<CheckTCPHeader>] = &[
        Handler::sum("drops", "bad packets", |e| e.drops.iter().sum()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            let names = ["not TCP", "bad packet length", "bad TCP checksum"];
            let lines = e.drops.iter().zip(names);
            Ok(lines.map(|(n, name)| format!("{n}\t{name}\n")).collect())
        }),
    ];
}

fn fault(packet: &Packet) -> Option<u8> {
    let Some(ip) = ip4::header(packet).filter(|ip| ip.protocol() == proto::TCP) else {
        return Some(NOT_TCP);
    };
    let (segment, length) = super::segment(packet, &ip);
    match Tcp::new_checked(segment) {
        Ok(tcp) if segment.len() == length => {
            let right = tcp.verify_checksum(ip.pseudo(length));
            (!right).then_some(BAD_CHECKSUM)
        }
        _ => Some(BAD_LENGTH),
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
