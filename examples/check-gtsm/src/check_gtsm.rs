//! Tells IPv4 packets of near neighbours from forged ones by their time to live.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> bgp :: IPClassifier(tcp port 179, -);
//! bgp[0] -> near :: CheckGTSM -> Discard; bgp[1] -> Discard;
//! ```
//!
//! A neighbour sends with a time to live of 255, and every router on the way takes one off. So a packet that comes with
//! less than 256 - HOPS was sent by somebody farther away: it leaves by output 1, and without one it is dropped (RFC
//! 5082). Put CheckGTSM before what lowers the time to live, such as DecIPTTL.
//!
//! Arguments:
//!
//! - `HOPS`: links to the farthest neighbour, 1 to 255. Default 1: neighbours are on the same link.

use engine::prelude::*;
use wire::Ipv4;

drops! {
    FAR = "far",
    NO_HEADER = "no_header",
}

pub(crate) struct CheckGtsm {
    hops: u8,
}

impl Element for CheckGtsm {
    const CONTRACT: Contract = Contract::new("CheckGTSM", manual!("check_gtsm.rs"))
        .ports(Ports::new(&["in"], &["out", "far?"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = u8;

    fn configure(args: &mut Args) -> u8 {
        args.optional_in("HOPS", 1, 1..=255, "links to the farthest neighbour")
    }

    fn new(hops: &Arc<u8>, _: &Init) -> CheckGtsm {
        CheckGtsm { hops: **hops }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Ok(ip) = Ipv4::new_checked(packet.network()) else {
            return Verdict::drop(NO_HEADER);
        };
        if 255 - ip.ttl() < self.hops {
            Verdict::ON
        } else {
            Verdict::reject(FAR, 1)
        }
    }

    const HANDLERS: &'static [Handler<CheckGtsm>] = &[
        Handler::show("hops", "see HOPS", |e| &e.hops),
        Handler::set("hops", "changes HOPS", |e, value, _| {
            e.hops = parse_in(value, 1..=255)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    #[test]
    fn packets_from_afar_leave_by_output_1_or_are_dropped_by_name() {
        let packets = [255, 254, 253, 0].map(|ttl| ip4().ttl(ttl).bytes());
        let text = "in :: CheckGTSM(2) -> near :: Collect; in[1] -> far :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("in", &packets);
        assert_eq!(
            (bench.take("near"), bench.take("far")),
            (packets[..2].to_vec(), packets[2..].to_vec())
        );

        let mut bench = Bench::new(crate::CLASSES, "in :: CheckGTSM -> near :: Collect");
        bench.push("in", &packets);
        assert_eq!((bench.take("near").len(), bench.drops("in", "far")), (1, 3));
        bench.write("in.hops", "255");
        bench.push("in", &packets);
        assert_eq!((bench.take("near").len(), bench.drops("in", "far")), (3, 4));
        assert!(bench.try_write("in.hops", "0").is_err());
    }
}
