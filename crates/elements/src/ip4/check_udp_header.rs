//! Checks lengths and checksum of UDP datagrams.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> CheckUDPHeader -> Discard;
//! ```
//!
//! Packets must be whole (see IPReassembler). Bad ones leave by output 1, or are dropped under the name
//! of their fault; so do packets of other protocols. A checksum of 0 says that there is none (RFC 768).
//!
//! Keyword arguments:
//!
//! - `VERBOSE`, `DETAILS`: taken for the sake of Click's files. Every fault is counted by name anyway.

use crate::ip4;
use crate::prelude::*;
use wire::{Udp, proto};

const NOT_UDP: u8 = 0;
const BAD_LENGTH: u8 = 1;
const BAD_CHECKSUM: u8 = 2;

pub(super) struct CheckUDPHeader {
    drops: [u64; 3],
}

impl Element for CheckUDPHeader {
    const CLASS: &'static str = "CheckUDPHeader";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out", "bad?"]);
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["not_udp", "bad_length", "bad_checksum"];

    type Config = ();

    fn configure(args: &mut Args) {
        args.key("VERBOSE", false, "taken, and without effect");
        args.key("DETAILS", false, "taken, and without effect");
    }

    fn new(_: &Arc<()>, _: &Init) -> CheckUDPHeader {
        CheckUDPHeader { drops: [0; 3] }
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

    fn take(&mut self, old: CheckUDPHeader) {
        self.drops = old.drops;
    }

    const HANDLERS: &'static [Handler<CheckUDPHeader>] = &[
        Handler::sum("drops", "bad packets", |e| e.drops.iter().sum()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            let names = ["not UDP", "bad packet length", "bad UDP checksum"];
            let lines = e.drops.iter().zip(names);
            Ok(lines.map(|(n, name)| format!("{n}\t{name}\n")).collect())
        }),
    ];
}

fn fault(packet: &Packet) -> Option<u8> {
    let Some(ip) = ip4::header(packet).filter(|ip| ip.protocol() == proto::UDP) else {
        return Some(NOT_UDP);
    };
    let (datagram, _) = super::segment(packet, &ip);
    match Udp::new_checked(datagram) {
        Ok(udp) => {
            let right = udp.checksum() == 0 || udp.verify_checksum(ip.pseudo(udp.len()));
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
