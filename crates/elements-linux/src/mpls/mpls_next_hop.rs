//! Separates packets behind MPLSLookup by their next hop: an IPv4 address, which ARP finds, or an IPv6 address.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> mpls :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 pop 10.0.1.2 0)
//!     -> MPLSNextHop -> arp :: ARPQuerier(10.0.1.1, 02:00:00:00:00:01) -> MPLSEtherType -> Discard;
//! Idle -> [1] arp;
//! ```
//!
//! MPLSLookup writes the gateway of an entry into the destination annotation. Packets with an IPv4 gateway leave by
//! output 0. Packets with an IPv6 gateway leave by output 1, or are dropped (`ip6_gateway`) if output 1 is not
//! connected. A packet whose entry names no gateway is dropped (`no_gateway`). The packet below the labels may be IPv4
//! or IPv6 in all cases.

use crate::prelude::*;

drops! {
    NO_GATEWAY = "no_gateway",
    IP6_GATEWAY = "ip6_gateway",
}

pub(super) struct MplsNextHop;

impl Element for MplsNextHop {
    const CONTRACT: Contract = Contract::new("MPLSNextHop", manual!())
        .ports(Ports::new(&["in"], &["ip4", "ip6?"]))
        .gives(&[Facts::DST4, Facts::DST6])
        .drops(DROPS);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> MplsNextHop {
        MplsNextHop
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let anno = packet.anno();
        if anno.via6().is_some() {
            return Verdict::reject(IP6_GATEWAY, 1);
        }
        if anno.dst4() == [0; 4] {
            return Verdict::drop(NO_GATEWAY);
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6, labelled};

    const TABLE: &str =
        "m :: MPLSLookup(100 swap 200 10.0.0.2 0, 101 pop 10.0.0.3 0, 102 swap 202 0,
        103 swap 203 fe80::9 0, 104 pop fe80::9 0) -> n :: MPLSNextHop -> four :: Collect;";

    #[test]
    fn gateways_are_told_apart_by_family() {
        let mut bench = Bench::new(
            crate::with_basics(),
            &format!("{TABLE} n[1] -> six :: Collect"),
        );
        let of = |label| labelled(&[(label, 0, 9)], &ip6().bytes());
        bench.push("m", &[100, 101, 102, 103, 104].map(of));
        let next4 = bench.take_packets("four");
        let next4: Vec<_> = next4.iter().map(|packet| packet.anno.dst4()).collect();
        assert_eq!(next4, [[10, 0, 0, 2], [10, 0, 0, 3]]);
        let next6 = bench.take_packets("six");
        assert_eq!(next6.len(), 2);
        assert!(next6.iter().all(|p| p.anno.dst6()[..2] == [0xfe, 0x80]));
        assert_eq!(bench.drops("n", "no_gateway"), 1);
    }

    #[test]
    fn ipv6_gateways_are_dropped_without_an_output() {
        let mut bench = Bench::new(crate::with_basics(), TABLE);
        bench.push("m", &[labelled(&[(103, 0, 9)], &ip4().bytes())]);
        assert_eq!(bench.drops("n", "ip6_gateway"), 1);
    }
}
