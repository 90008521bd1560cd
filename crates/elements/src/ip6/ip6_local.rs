//! Separates packets to the router itself from packets to forward.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!   -> l :: IP6Local(2001:db8:1::1/64 fe80::1) -> Discard;
//! l[1] -> Discard;
//! ```
//!
//! Output 1 gets the packets for the router (RFC 4291, 2.8): packets to its addresses, to the subnet-router
//! anycast address of each prefix, to the solicited-node groups of all of these, to all nodes (ff01::1,
//! ff02::1), to all routers (ff01::2, ff02::2, ff05::2), and to the groups of `GROUPS`. Packets to other groups
//! are dropped (`multicast`): the router does not forward multicast. All other packets leave by output 0.
//!
//! A link-local address belongs to one interface, so each interface has its own IP6Local, with the router's global
//! addresses and its own link-local one.
//!
//! Arguments:
//!
//! - `ADDRESS`: addresses of the router, each with its prefix length if it has one; several
//!   arguments or several in one.
//!
//! Keyword arguments:
//!
//! - `GROUPS`: further groups to listen to, as one argument.

use super::addresses::Addresses6;
use super::header_chain;
use crate::prelude::*;
use std::net::Ipv6Addr;
use wire::{Prefix6, addr};

drops! {
    TOO_SHORT = "too_short",
    MULTICAST = "multicast",
}

/// Groups that every router joins.
const ROUTER_GROUPS: [Ipv6Addr; 5] = [
    Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1),
    addr::ALL_NODES,
    Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 2),
    addr::ALL_ROUTERS,
    Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2),
];

pub(crate) struct IP6Local {
    /// Addresses for which the router receives packets, sorted.
    local_addresses: Arc<Vec<Ipv6Addr>>,
}

impl Element for IP6Local {
    const CONTRACT: Contract = Contract::new("IP6Local", manual!())
        .ports(Ports::new(&["in"], &["out", "local"]))
        .needs(&[Facts::IP6])
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    /// Addresses and groups to which the router listens, sorted.
    type Config = Vec<Ipv6Addr>;

    fn configure(args: &mut Args) -> Vec<Ipv6Addr> {
        let groups: Option<Addresses6> = args.key_maybe("GROUPS", "further groups to listen to");
        let mut mine = groups.unwrap_or_default().plain();
        mine.extend(ROUTER_GROUPS);
        let each = args.rest("ADDRESS", "IPv6 addresses", "addresses of the router");
        if each.is_empty() {
            args.error_in_whole("no address is given", "write the router's addresses");
        }
        for arg in each {
            let some: Option<Addresses6> = args.value("ADDRESS", &arg.raw, &arg);
            for (address, len) in some.unwrap_or_default().0 {
                mine.extend([address, addr::solicited_node(address)]);
                // A prefix of 127 or 128 bits has no anycast address (RFC 6164, 5.1).
                if len < 127 && !addr::is_link_local6(address) {
                    let anycast = Prefix6::new(address, len).addr();
                    mine.extend([anycast, addr::solicited_node(anycast)]);
                }
            }
        }
        mine.sort_unstable();
        mine.dedup();
        mine
    }

    fn new(mine: &Arc<Vec<Ipv6Addr>>, _: &Init) -> IP6Local {
        IP6Local {
            local_addresses: Arc::clone(mine),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<IP6Local>] = &[Handler::shared(
        "addresses",
        "addresses and groups that are listened to, one per line",
        |mine: &Vec<Ipv6Addr>, _| {
            let lines: Vec<String> = mine.iter().map(Ipv6Addr::to_string).collect();
            Ok(lines.join("\n"))
        },
    )];
}

impl Fuse for IP6Local {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let mine = &*self.local_addresses;
        #[inline(always)]
        |packet| {
            let Some(ip) = header_chain::header(packet) else {
                return Some(Verdict::drop(TOO_SHORT));
            };
            let dst = ip.dst();
            let verdict = if mine.binary_search(&dst).is_ok() {
                Verdict::out(1)
            } else if addr::is_multicast6(dst) {
                Verdict::drop(MULTICAST)
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

    const TEXT: &str = "l :: IP6Local(2001:db8:1::1/64 fe80::1, 2001:db8:2::1/127, GROUPS ff02::5)
        -> out :: Collect; l[1] -> mine :: Collect";

    fn to(destinations: &[&str]) -> Vec<Vec<u8>> {
        let each = destinations.iter();
        each.map(|d| ip6("2001:db8:9::9", d, 59, 64, b"")).collect()
    }

    #[test]
    fn the_router_hears_its_addresses_anycast_addresses_and_groups() {
        let mine = to(&[
            "2001:db8:1::1",
            "fe80::1",
            "2001:db8:2::1",
            "2001:db8:1::",
            "ff02::1",
            "ff02::2",
            "ff05::2",
            "ff02::1:ff00:1",
            "ff02::1:ff00:0",
            "ff02::5",
        ]);
        both(TEXT, |bench| {
            bench.push("l", &mine);
            assert_eq!(bench.take("mine"), mine);
            assert!(bench.take("out").is_empty());
        });
    }

    #[test]
    fn other_unicast_packets_pass_and_other_groups_are_dropped() {
        let others = to(&["2001:db8:1::2", "2001:db8:2::", "fe80::2", "fe80::"]);
        both(TEXT, |bench| {
            bench.push("l", &others);
            assert_eq!(bench.take("out"), others);
            bench.push("l", &to(&["ff02::6", "ff0e::1", "ff02::1:ff00:2"]));
            assert_eq!(bench.drops("l", "multicast"), 3);
            assert!(bench.take("mine").is_empty());
        });
    }

    #[test]
    fn addresses_are_asked_for() {
        let errors = testkit::errors(crate::CLASSES, "Idle -> l :: IP6Local; l[1] -> Discard");
        assert!(errors.contains("no address is given"), "{errors}");
        let text = "Idle -> l :: IP6Local(10.0.0.1) -> Discard; l[1] -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("not `10.0.0.1`"), "{errors}");
    }
}
