//! Passes only packets that a router may forward to another link.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> f :: CheckIP6Forward -> Discard;
//! f[1] -> ICMP6Error(2001:db8::1, unreachable, scope) -> Discard;
//! ```
//!
//! A packet from a link-local address to one of wider scope leaves by output 1, to be answered with Destination
//! Unreachable, beyond scope (RFC 4291, 2.5.6; RFC 4443, 3.1); it is dropped (`scope`) if output 1 is not
//! connected. Packets are dropped if they go to a link-local address (`link_local`) or to a group
//! (`multicast`), if they come from the unspecified address (`unspecified`; RFC 4291, 2.5.2), or if the
//! link-layer destination is a group or another station (`not_to_router`).

use super::header_chain;
use crate::prelude::*;
use engine::packet::anno::PacketType;
use wire::addr;

drops! {
    TOO_SHORT = "too_short",
    SCOPE = "scope",
    LINK_LOCAL = "link_local",
    MULTICAST = "multicast",
    UNSPECIFIED = "unspecified",
    NOT_TO_ROUTER = "not_to_router",
}

/// Element of the class CheckIP6Forward.
pub struct CheckIP6Forward;

impl Element for CheckIP6Forward {
    const CONTRACT: Contract = Contract::new("CheckIP6Forward", manual!())
        .ports(Ports::new(&["in"], &["out", "scope?"]))
        .needs(&[Facts::IP6])
        .drops(DROPS)
        .carries_super_frames();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> CheckIP6Forward {
        CheckIP6Forward
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl Fuse for CheckIP6Forward {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        #[inline(always)]
        |packet| {
            let Some(ip) = header_chain::header(packet) else {
                return Some(Verdict::drop(TOO_SHORT));
            };
            let (src, dst) = (ip.src(), ip.dst());
            let verdict = if addr::is_multicast6(dst) {
                Verdict::drop(MULTICAST)
            } else if packet.anno().packet_type != PacketType::Host {
                Verdict::drop(NOT_TO_ROUTER)
            } else if src.is_unspecified() {
                Verdict::drop(UNSPECIFIED)
            } else if addr::is_link_local6(dst) {
                Verdict::drop(LINK_LOCAL)
            } else if addr::is_link_local6(src) {
                Verdict::reject(SCOPE, 1)
            } else {
                Verdict::ON
            };
            Some(verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both, ip6};
    use engine::packet::anno::PacketType;
    use engine::packet::{Batch, Packet};

    #[test]
    fn only_what_may_leave_the_link_goes_on() {
        both("f :: CheckIP6Forward -> out :: Collect", |bench| {
            for (src, dst, name) in [
                ("fe80::1", "2001:db8::2", "scope"),
                ("febf::1", "2001:db8::2", "scope"),
                ("2001:db8::1", "fe80::2", "link_local"),
                ("fe80::1", "fe80::2", "link_local"),
                ("2001:db8::1", "ff0e::1", "multicast"),
                ("::", "2001:db8::2", "unspecified"),
            ] {
                let before = bench.drops("f", name);
                bench.push("f", &[ip6(src, dst, 59, 64, b"")]);
                assert_eq!(bench.drops("f", name), before + 1, "{src} {dst}");
            }
            let good = [
                ip6("2001:db8::1", "2001:db8::2", 59, 64, b""),
                ip6("fec0::1", "2001:db8::2", 59, 64, b""),
                ip6("fd00::1", "2001:db8::2", 59, 64, b""),
            ];
            bench.push("f", &good);
            assert_eq!(bench.take("out"), good);
        });
    }

    #[test]
    fn frames_to_other_stations_are_not_forwarded() {
        both("f :: CheckIP6Forward -> out :: Collect", |bench| {
            for kind in [
                PacketType::Broadcast,
                PacketType::Multicast,
                PacketType::OtherHost,
            ] {
                let bytes = ip6("2001:db8::1", "2001:db8::2", 59, 64, b"");
                let mut packet = Packet::from_bytes(&bytes).unwrap();
                packet.anno_mut().packet_type = kind;
                let mut batch = Batch::new();
                batch.push(packet);
                bench.push_packets("f", 0, batch);
            }
            assert_eq!(bench.drops("f", "not_to_router"), 3);
        });
    }
}
