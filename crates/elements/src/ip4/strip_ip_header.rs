//! Removes the IPv4 header at the network header annotation, and everything before it.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> StripIPHeader -> Discard;
//! ```
//!
//! The annotation stays, so that UnstripIPHeader can restore the header. A packet without a whole header is
//! dropped (`no_header`).

use crate::prelude::*;

drops! {
    NO_HEADER = "no_header",
}

pub(super) struct StripIPHeader;

impl Element for StripIPHeader {
    const CONTRACT: Contract = Contract::new("StripIPHeader", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .spoils(Facts::ETHER.and(Facts::AT_NETWORK).and(Facts::IP4))
        .drops(DROPS)
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> StripIPHeader {
        StripIPHeader
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let behind = super::header(packet).map(|ip| packet.network_offset() + ip.header_len());
        match behind {
            Some(length) if packet.pull(length) => Verdict::ON,
            _ => Verdict::drop(NO_HEADER),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::with_options;
    use testkit::Bench;

    #[test]
    fn the_header_goes_with_its_options_and_comes_back() {
        let packet = with_options(&[1, 1, 1, 1], b"payload");
        let text = "m :: MarkIPHeader(2) -> StripIPHeader -> t :: Tee -> out :: Collect;
            t[1] -> Strip(3) -> UnstripIPHeader -> CheckIPHeader -> UnstripIPHeader -> back :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("m", &[[b"LL", &packet[..]].concat()]);
        assert_eq!(bench.take("out"), [b"payload"]);
        assert_eq!(bench.take("back"), [packet]);
    }
}
