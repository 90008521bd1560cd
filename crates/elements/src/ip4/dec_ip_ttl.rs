//! Decrements the TTL of IPv4 packets, and rejects packets whose TTL has expired.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> Discard;
//! ttl[1] -> ICMPError(10.0.0.1, timeexceeded) -> Discard;
//! ```
//!
//! A packet with a TTL of 0 or 1 leaves by output 1, unchanged, or is dropped if output 1 is not connected (RFC
//! 1812, 5.3.1). The checksum is updated incrementally (RFC 1624).
//!
//! Keyword arguments:
//!
//! - `ACTIVE`: if false, packets pass as they are. Default true.
//! - `MULTICAST`: if false, packets to multicast addresses pass as they are. Default true.

use crate::prelude::*;
use wire::addr;

drops! {
    EXPIRED = "expired",
    NO_HEADER = "no_header",
}

/// Element of the class DecIPTTL.
#[derive(Clone, Copy)]
pub struct DecIPTTL {
    active: bool,
    multicast: bool,
    drops: u64,
}

impl DecIPTTL {
    /// Element that handles all packets, including multicast.
    pub(super) const ALL: DecIPTTL = DecIPTTL {
        active: true,
        multicast: true,
        drops: 0,
    };
}

impl Element for DecIPTTL {
    const CONTRACT: Contract = Contract::new("DecIPTTL", manual!())
        .ports(Ports::new(&["in"], &["out", "expired?"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = DecIPTTL;

    fn configure(args: &mut Args) -> DecIPTTL {
        DecIPTTL {
            active: args.key("ACTIVE", true, "if false, packets pass as they are"),
            multicast: args.key(
                "MULTICAST",
                true,
                "if false, multicast packets pass as they are",
            ),
            drops: 0,
        }
    }

    fn new(config: &Arc<DecIPTTL>, _: &Init) -> DecIPTTL {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<DecIPTTL>] = &[
        counter!("drops", "packets whose TTL had expired", drops),
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::assign("active", "changes ACTIVE", |e| &mut e.active),
    ];
}

impl Fuse for DecIPTTL {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let every = self.active & self.multicast;
        #[inline(always)]
        move |packet| {
            let mut ip = super::plain_mut(packet)?;
            if !every || ip.ttl() <= 1 {
                return None;
            }
            ip.dec_ttl();
            Some(Verdict::ON)
        }
    }

    #[cold]
    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        if !self.active || !self.multicast && addr::is_multicast4(ip.dst()) {
            return Verdict::ON;
        }
        match ip.ttl() {
            0 | 1 => {
                self.drops += 1;
                Verdict::reject(EXPIRED, 1)
            }
            _ => {
                ip.dec_ttl();
                Verdict::ON
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{ip, sum};
    use testkit::Bench;
    use wire::Ipv4;

    const BOTH: &str = "c :: CheckIPHeader -> t :: DecIPTTL -> out :: Collect;
        t[1] -> late :: Collect";

    /// Every checksum that a header can have, roughly: one per identification.
    fn packet(ttl: u8, ident: u16) -> Vec<u8> {
        let mut packet = ip([10, 0, 0, 9], [10, 0, 1, 9], b"payload");
        packet[4..6].copy_from_slice(&ident.to_be_bytes());
        packet[8] = ttl;
        sum(&mut packet);
        packet
    }

    #[test]
    fn every_time_to_live_goes_down_by_one_with_the_right_checksum() {
        let mut bench = Bench::new(crate::CLASSES, BOTH);
        for ident in (0..=u16::MAX).step_by(251) {
            let packets: Vec<_> = (0..=255).map(|ttl| packet(ttl, ident)).collect();
            bench.push("c", &packets);
            assert_eq!(bench.take("late"), &packets[..2], "untouched");
            for (out, before) in bench.take("out").into_iter().zip(&packets[2..]) {
                let ip = Ipv4::new_checked(&out).unwrap();
                assert_eq!(ip.ttl(), before[8] - 1);
                assert!(ip.verify_checksum());
                assert_eq!(out, packet(before[8] - 1, ident), "nothing else changed");
            }
        }
    }

    #[test]
    fn without_a_second_output_the_late_are_dropped_by_name() {
        let text = "c :: CheckIPHeader -> t :: DecIPTTL -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &[packet(1, 0)]);
        assert_eq!(bench.drops("t", "expired"), 1);
        assert_eq!(bench.read("t.drops"), "1");
    }

    #[test]
    fn multicast_or_all_packets_can_be_exempted() {
        let mut group = ip([10, 0, 0, 9], [224, 0, 0, 251], b"");
        group[8] = 1;
        sum(&mut group);
        let text = "c :: CheckIPHeader -> t :: DecIPTTL(MULTICAST false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &[&group[..], &packet(9, 0)]);
        assert_eq!(bench.take("out"), [group, packet(8, 0)]);
        bench.write("t.active", "false");
        bench.push("c", &[packet(1, 0)]);
        assert_eq!(bench.take("out"), [packet(1, 0)]);
    }

    #[test]
    fn packets_must_have_a_checked_header() {
        let errors = testkit::errors(crate::CLASSES, "InfiniteSource -> t :: DecIPTTL -> Discard");
        assert!(errors.contains("put `CheckIPHeader`"), "{errors}");
    }
}
