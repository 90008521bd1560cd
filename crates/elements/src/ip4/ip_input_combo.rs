//! Processes arriving IPv4 frames as most routers do, in one element.
//!
//! ```click
//! FromDevice(null:64) -> IPInputCombo(1, INTERFACES 10.0.0.1/24) -> Discard;
//! ```
//!
//! Does what Paint, Strip(14) and CheckIPHeader do, one after the other. Bad packets leave by output 1,
//! without their Ethernet header, or are dropped under the name of their fault.
//!
//! Arguments:
//!
//! - `COLOR`: the paint, 0 to 255.
//! - `BADSRC`: bad sources.
//!
//! Keyword arguments:
//!
//! - `INTERFACES`, `GOODDST`, `CHECKSUM`, `VERBOSE`, `DETAILS`: see CheckIPHeader.

use super::Addresses;
use super::check_ip_header::{self, CheckIPHeader};
use crate::prelude::*;
use wire::ether;

const TOO_SHORT: u8 = 0;

pub(super) struct Config {
    color: u8,
    check: Arc<check_ip_header::Config>,
}

pub(super) struct IPInputCombo {
    color: u8,
    check: CheckIPHeader,
}

impl Element for IPInputCombo {
    const CONTRACT: Contract = Contract::new("IPInputCombo", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .gives(&[
            Facts::IP4.and(Facts::DST4).and(Facts::AT_NETWORK),
            Facts::NONE,
        ])
        .spoils(CheckIPHeader::CONTRACT.spoils.and(Facts::ETHER))
        .drops(CheckIPHeader::CONTRACT.drops);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let color = args.required("COLOR", "the paint");
        let listed: Option<Addresses> = args.maybe("BADSRC", "bad sources");
        Config {
            color,
            check: Arc::new(check_ip_header::Config::at_start(args, true, listed)),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPInputCombo {
        IPInputCombo {
            color: config.color,
            check: CheckIPHeader::new(&config.check, init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        packet.anno_mut().paint = self.color;
        if packet.pull(ether::LEN) {
            self.check.step(packet, cx)
        } else {
            self.check.faults.reject(TOO_SHORT)
        }
    }

    fn take(&mut self, old: IPInputCombo) {
        self.check.take(old.check);
    }

    const HANDLERS: &'static [Handler<IPInputCombo>] = &[
        Handler::sum("drops", "bad packets", |e| e.check.faults.total()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            Ok(e.check.faults.details())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    #[test]
    fn packets_are_painted_stripped_and_checked() {
        let frame = |src: &str| {
            ip4()
                .src(src)
                .dst("2.0.0.2")
                .ether("2:0:0:0:0:1", "2:0:0:0:0:2")
                .bytes()
        };
        let text = "i :: IPInputCombo(3, 1.0.0.255) -> out :: Collect; i[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push(
            "i",
            &[
                &frame("1.0.0.1"),
                &frame("1.0.0.255"),
                &frame("1.0.0.1")[..13],
            ],
        );
        let out = &bench.take_packets("out")[0];
        assert_eq!(out.bytes, frame("1.0.0.1")[14..]);
        assert_eq!((out.anno.paint, out.anno.dst4()), (3, [2, 0, 0, 2]));
        assert_eq!(bench.take("bad").len(), 2);
        assert_eq!(bench.read("i.drops"), "2");
    }
}
