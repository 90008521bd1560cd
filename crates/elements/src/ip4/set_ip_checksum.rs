//! Computes the checksum of IPv4 headers.
//!
//! ```click
//! FromDevice(null:64) -> MarkIPHeader(14) -> SetIPChecksum -> Discard;
//! ```
//!
//! Elements for IPv4 headers update the checksum themselves. Use this after elements that change a header's bytes
//! without updating the checksum. A packet without a whole header is dropped (`no_header`).

use crate::prelude::*;

drops! {
    NO_HEADER = "no_header",
}

pub(super) struct SetIPChecksum;

impl Element for SetIPChecksum {
    const CONTRACT: Contract = Contract::new("SetIPChecksum", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> SetIPChecksum {
        SetIPChecksum
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match super::header_mut(packet) {
            Some(mut ip) => {
                ip.fill_checksum();
                Verdict::ON
            }
            None => Verdict::drop(NO_HEADER),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::with_options;
    use testkit::Bench;

    #[test]
    fn a_wrong_checksum_becomes_right_whatever_the_header_length() {
        let good = with_options(&[1, 1, 1, 1], b"data");
        let mut bad = good.clone();
        bad[10] ^= 0x55;
        let text = "m :: MarkIPHeader -> SetIPChecksum -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("m", &[&bad, &good]);
        assert_eq!(bench.take("out"), [&good[..], &good]);
    }
}
