//! Forwards source-routed packets whose route names this router.
//!
//! The destination of a source-routed packet is the next router of its route. So it arrives here as a packet to
//! the router itself. If its route goes on, the destination becomes the next address of the route, this
//! router's address replaces that address in the option, and the packet leaves by output 1, to be routed again
//! (RFC 791, 3.1; RFC 1812, 5.2.4.1). All other packets leave by output 0.
//!
//! ```click
//! rt :: Null;
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt
//!     -> s :: IPSourceRoute(10.0.0.1/24 10.0.1.1/24) -> Discard;
//! s[1] -> Discard;
//! s[2] -> ICMPError(10.0.0.1, parameterproblem) -> Discard;
//! s[3] -> ICMPError(10.0.0.1, unreachable, srcroutefail) -> Discard;
//! ```
//!
//! A packet with a bad option leaves by output 2, with the place of the bad byte as an annotation. A packet
//! that cannot be forwarded leaves by output 3: the next address of a strict route is not on an attached
//! network, an address is not that of one host, or `ALLOW` is false.
//!
//! Arguments:
//!
//! - `INTERFACES`: the router's addresses, with prefix lengths, separated by spaces.
//!
//! Keyword arguments:
//!
//! - `ALLOW`: true to forward source-routed packets. Default true; see IPGWOptions.

use crate::ip4::{Interfaces, PARAMETER, SOURCE_ROUTED, options};
use crate::prelude::*;
use std::net::Ipv4Addr;
use wire::ipv4_options::{Opt, Options, Route, slot_addr};
use wire::{addr, ipv4};

drops! {
    BAD_OPTION = "bad_option",
    SOURCE_ROUTE = "source_route",
    NO_HEADER = "no_header",
}

pub(super) struct Config {
    interfaces: Interfaces,
    allow: bool,
}

pub(super) struct IPSourceRoute {
    config: Arc<Config>,
}

/// Treatment of a packet according to its options.
enum Way {
    Here,
    On { strict: bool, route: Route },
    Bad(u8),
}

fn route_option(header: &[u8]) -> Way {
    let mut way = Way::Here;
    let mut seen = false;
    for item in Options::new(header) {
        let (strict, route, at) = match item {
            Err(bad) => return Way::Bad(bad.pointer),
            Ok(item) => match item.option {
                Opt::LooseRoute(route) => (false, route, item.at),
                Opt::StrictRoute(route) => (true, route, item.at),
                _ => continue,
            },
        };
        // A header with two source routes is invalid (RFC 1122, 3.2.1.8).
        if std::mem::replace(&mut seen, true) {
            return Way::Bad(at as u8);
        }
        if route.slot.is_some() {
            way = Way::On { strict, route };
        }
    }
    way
}

impl Element for IPSourceRoute {
    const CONTRACT: Contract = Contract::new("IPSourceRoute", manual!())
        .ports(Ports::coded(
            &["in"],
            &["out", "on?", "bad?", "refused?"],
            "a/ah",
        ))
        .needs(&[Facts::IP4])
        .gives(&[Facts::NONE, Facts::DST4, Facts::NONE, Facts::NONE])
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            allow: args.key("ALLOW", true, "true if source routes are honoured"),
            interfaces: args.required("INTERFACES", "the router's addresses, with prefix lengths"),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IPSourceRoute {
        IPSourceRoute {
            config: Arc::clone(config),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        if ip.header_len() == ipv4::MIN_LEN {
            return Verdict::ON;
        }
        let here = ip.dst();
        let header = ip.header_mut();
        let (strict, pointer_at, slot) = match route_option(header) {
            Way::On {
                strict,
                route:
                    Route {
                        pointer_at,
                        slot: Some(slot),
                    },
            } => (strict, pointer_at, slot),
            Way::Bad(pointer) => {
                packet.cold_mut().user[PARAMETER] = pointer;
                return Verdict::reject(BAD_OPTION, 2);
            }
            _ => return Verdict::ON,
        };
        let next = slot_addr(header, slot);
        if !self.may(strict, next) {
            return Verdict::reject(SOURCE_ROUTE, 3);
        }
        header[slot..slot + 4].copy_from_slice(&here.octets());
        header[pointer_at] += 4;
        header[16..20].copy_from_slice(&next.octets());
        options::fill_checksum(header);
        packet.anno_mut().set_dst4(next.octets());
        packet.cold_mut().user[SOURCE_ROUTED] = slot as u8;
        Verdict::out(1)
    }
}

impl IPSourceRoute {
    fn may(&self, strict: bool, next: Ipv4Addr) -> bool {
        let config = &*self.config;
        config.allow
            && !addr::is_martian_source4(next)
            && !config.interfaces.is_broadcast(next)
            && (!strict || config.interfaces.attached(next))
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::with_options;
    use testkit::Bench;
    use wire::Ipv4;
    use wire::ipv4_options::{LSRR, RR, SSRR};

    fn bench(more: &str) -> Bench {
        let text = format!(
            "c :: CheckIPHeader -> s :: IPSourceRoute(10.0.0.1/24 10.0.1.1/24{more}) -> here :: Collect;
             s[1] -> on :: Collect"
        );
        Bench::new(crate::CLASSES, &text)
    }

    #[test]
    fn the_next_address_becomes_the_destination() {
        let mut bench = bench("");
        bench.push("c", &[with_options(&[LSRR, 7, 4, 192, 0, 2, 7], b"data")]);
        let on = &bench.take_packets("on")[0];
        let ip = Ipv4::new_checked(&on.bytes).unwrap();
        assert_eq!(ip.dst().octets(), [192, 0, 2, 7]);
        assert_eq!(on.anno.dst4(), [192, 0, 2, 7]);
        assert_eq!(on.bytes[20..27], [LSRR, 7, 8, 2, 2, 2, 2]);
        assert!(ip.verify_checksum());
    }

    #[test]
    fn routes_that_end_here_and_packets_without_one_stay() {
        let mut bench = bench("");
        let packets = [
            with_options(&[LSRR, 7, 8, 192, 0, 2, 7], b""),
            with_options(&[RR, 7, 4, 0, 0, 0, 0], b""),
            with_options(&[], b""),
        ];
        bench.push("c", &packets);
        assert_eq!(bench.take("here"), packets);
    }

    #[test]
    fn unforwardable_packets_are_dropped_by_name() {
        let outcome = |more, options: &[u8]| {
            let mut bench = bench(more);
            bench.push("c", &[with_options(options, b"")]);
            bench.all_drops().pop().map(|d| d.1)
        };
        let refused = Some("source_route".to_owned());
        assert_eq!(outcome("", &[SSRR, 7, 4, 10, 0, 1, 7]), None);
        assert_eq!(outcome("", &[SSRR, 7, 4, 192, 0, 2, 7]), refused);
        assert_eq!(outcome("", &[LSRR, 7, 4, 224, 0, 0, 1]), refused);
        assert_eq!(outcome("", &[LSRR, 7, 4, 10, 0, 1, 255]), refused);
        assert_eq!(
            outcome(", ALLOW false", &[LSRR, 7, 4, 192, 0, 2, 7]),
            refused
        );
        let twice = [LSRR, 7, 4, 192, 0, 2, 7, LSRR, 7, 4, 192, 0, 2, 7];
        assert_eq!(outcome("", &twice), Some("bad_option".to_owned()));
        assert_eq!(
            outcome("", &[LSRR, 7, 5, 1, 1, 1, 1]),
            Some("bad_option".to_owned())
        );
    }
}
