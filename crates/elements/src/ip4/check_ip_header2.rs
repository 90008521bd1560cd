//! Checks IPv4 headers, but not their checksums.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader2 -> Discard;
//! ```
//!
//! Works like CheckIPHeader with another default: `CHECKSUM` is false. Other arguments, outputs and handlers are the
//! same.

use super::check_ip_header::{CheckIPHeader, Config};
use crate::prelude::*;

pub(crate) struct CheckIPHeader2(CheckIPHeader);

impl Element for CheckIPHeader2 {
    const CONTRACT: Contract = Contract::new("CheckIPHeader2", manual!())
        .ports(CheckIPHeader::CONTRACT.ports)
        .gives(CheckIPHeader::CONTRACT.gives)
        .spoils(CheckIPHeader::CONTRACT.spoils)
        .drops(CheckIPHeader::CONTRACT.drops)
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::behind_offset(args, false)
    }

    fn new(config: &Arc<Config>, init: &Init) -> CheckIPHeader2 {
        CheckIPHeader2(CheckIPHeader::new(config, init))
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn take(&mut self, old: CheckIPHeader2) {
        self.0.take(old.0);
    }

    const HANDLERS: &'static [Handler<CheckIPHeader2>] = &[
        Handler::sum("drops", "bad packets", |e| e.0.faults.total()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            Ok(e.0.faults.details())
        }),
    ];
}

impl Fuse for CheckIPHeader2 {
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        self.0.fast(cx)
    }

    #[inline]
    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        self.0.slow(packet, cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    #[test]
    fn checksums_are_not_looked_at_and_the_rest_is() {
        let mut packet = ip([1, 1, 1, 1], [2, 2, 2, 2], b"data");
        packet[10] ^= 1;
        let text =
            "c :: CheckIPHeader2 -> out :: Collect; d :: CheckIPHeader2(CHECKSUM true) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &[&packet, &packet[..19]]);
        bench.push("d", &[&packet]);
        assert_eq!(bench.take("out"), [packet]);
        assert_eq!(
            (bench.read("c.drops"), bench.read("d.drops")),
            ("1".into(), "1".into())
        );
    }
}
