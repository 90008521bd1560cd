//! Processes IPv4 options as every router on the path must: record route, timestamp, source routes.
//!
//! Put it on the output path, because the address to record is that of the interface by which the packet leaves
//! (RFC 1812, 5.2.4.3 and 5.3.13). Packets without options pass at once. Unknown options are not changed.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> g :: IPGWOptions(10.0.0.1, 10.0.1.1) -> Discard;
//! g[1] -> ICMPError(10.0.0.1, parameterproblem) -> Discard;
//! g[2] -> ICMPError(10.0.0.1, unreachable, srcroutefail) -> Discard;
//! ```
//!
//! A packet with a bad option leaves by output 1, with the place of the bad byte as an annotation. A packet
//! leaves by output 2 if its strict source route names another next hop, or if it has a source route and
//! `SOURCE_ROUTES` is false. If these outputs are not connected, such packets are dropped. IPSourceRoute
//! advances a source route to its next entry; IPGWOptions then replaces the address that this router recorded
//! in the route by the interface's address.
//!
//! Arguments:
//!
//! - `MYADDR`: address of the interface by which packets leave.
//! - `OTHERADDRS`: the router's other addresses, separated by spaces; a timestamp option may name any of them.
//!
//! Keyword arguments:
//!
//! - `SOURCE_ROUTES`: true if source-routed packets are forwarded. Default true, as RFC 1812, 5.3.13.4,
//!   requires; RFC 7126, 4.3 and 4.4, advises false.

use crate::ip4::{Addresses, PARAMETER, SOURCE_ROUTED, day_ms, options, record};
use crate::prelude::*;
use std::net::Ipv4Addr;
use wire::ipv4;
use wire::ipv4_options::{Opt, Options};

drops! {
    BAD_OPTION = "bad_option",
    SOURCE_ROUTE = "source_route",
    NO_HEADER = "no_header",
}

pub(crate) struct Config {
    me: Ipv4Addr,
    others: Vec<Ipv4Addr>,
    source_routes: bool,
}

pub(crate) struct IPGWOptions {
    config: Arc<Config>,
    drops: u64,
}

impl Element for IPGWOptions {
    const CONTRACT: Contract = Contract::new("IPGWOptions", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?", "source_route?"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .carries_super_frames();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let source_routes = args.key(
            "SOURCE_ROUTES",
            true,
            "true if source-routed packets are forwarded",
        );
        Config {
            me: args.required("MYADDR", "address of the interface by which packets leave"),
            others: args
                .maybe::<Addresses>("OTHERADDRS", "the router's other addresses")
                .unwrap_or_default()
                .0,
            source_routes,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IPGWOptions {
        IPGWOptions {
            config: Arc::clone(config),
            drops: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<IPGWOptions>] = &[counter!(
        "drops",
        "packets with options that are bad or refused",
        drops
    )];
}

impl Fuse for IPGWOptions {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        #[inline(always)]
        |packet| super::plain(packet).map(|_| Verdict::ON)
    }

    #[cold]
    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        match super::header(packet) {
            None => Verdict::drop(NO_HEADER),
            Some(ip) if ip.header_len() == ipv4::MIN_LEN => Verdict::ON,
            Some(_) => {
                let verdict = self.options(packet, cx);
                self.drops += u64::from(verdict != Verdict::ON);
                verdict
            }
        }
    }
}

impl IPGWOptions {
    /// Element with only the address of the interface.
    pub(super) fn of(me: Ipv4Addr) -> IPGWOptions {
        let config = Config {
            me,
            others: Vec::new(),
            source_routes: true,
        };
        IPGWOptions {
            config: Arc::new(config),
            drops: 0,
        }
    }

    #[cold]
    fn options(&self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let config = &*self.config;
        let next_hop = packet.anno().dst4();
        let own = usize::from(packet.cold().user[SOURCE_ROUTED]);
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        let direct = ip.dst().octets() == next_hop;
        let header = ip.header_mut();
        let refused = Options::new(header).map_while(Result::ok).any(|item| {
            match item.option {
                Opt::LooseRoute(_) => !config.source_routes,
                // RFC 791: a strict route leads directly to the next host, over a common network.
                Opt::StrictRoute(_) => !config.source_routes || !direct,
                _ => false,
            }
        });
        if refused {
            return Verdict::reject(SOURCE_ROUTE, 2);
        }
        if own != 0 && own + 4 <= header.len() {
            header[own..own + 4].copy_from_slice(&config.me.octets());
        }
        match record(header, config.me, &config.others, day_ms(cx.timestamp())) {
            Ok(changed) => {
                if changed || own != 0 {
                    options::fill_checksum(header);
                }
                Verdict::ON
            }
            Err(pointer) => {
                options::fill_checksum(header);
                packet.cold_mut().user[PARAMETER] = pointer;
                Verdict::reject(BAD_OPTION, 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{ip, with_options};
    use testkit::Bench;
    use wire::Ipv4;
    use wire::ipv4_options::{LSRR, RR, SSRR, TS};

    fn bench(more: &str) -> Bench {
        let text = format!(
            "c :: CheckIPHeader -> g :: IPGWOptions(10.0.0.1, 10.0.1.1{more}) -> out :: Collect;
             g[1] -> bad :: Collect; g[2] -> refused :: Collect"
        );
        Bench::new(crate::CLASSES, &text)
    }

    #[test]
    fn a_route_is_recorded_and_the_checksum_stays_right() {
        let mut bench = bench("");
        let packet = with_options(&[RR, 7, 4, 0, 0, 0, 0], b"data");
        bench.push("c", &[&packet[..], &ip([1, 1, 1, 1], [2, 2, 2, 2], b"")]);
        let out = bench.take("out");
        assert_eq!(out[0][20..27], [RR, 7, 8, 10, 0, 0, 1]);
        assert!(Ipv4::new_checked(&out[0]).unwrap().verify_checksum());
        assert_eq!(out[0][28..], *b"data");
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn the_time_is_that_of_the_day() {
        let mut bench = bench("");
        bench.push("c", &[with_options(&[TS, 8, 5, 0, 0, 0, 0, 0], b"")]);
        let out = bench.take("out");
        let time = u32::from_be_bytes([out[0][24], out[0][25], out[0][26], out[0][27]]);
        assert_eq!(out[0][22], 9);
        assert_eq!(time, super::day_ms(bench.graph().job(|cx| cx.wall_ns())));
    }

    #[test]
    fn a_bad_option_leaves_with_a_right_checksum() {
        let mut bench = bench("");
        bench.push("c", &[with_options(&[RR, 3, 3], b"")]);
        let bad = bench.take("bad");
        assert!(Ipv4::new_checked(&bad[0]).unwrap().verify_checksum());
        assert_eq!(bench.read("g.drops"), "1");
    }

    #[test]
    fn strict_routes_must_lead_straight_to_the_destination() {
        for (kind, gateway, refused) in [
            (SSRR, [2, 2, 2, 2], 0),
            (SSRR, [9, 9, 9, 9], 1),
            (LSRR, [9, 9, 9, 9], 0),
        ] {
            let [a, b, c, d] = gateway;
            let text = format!(
                "c :: CheckIPHeader -> SetIPAddress({a}.{b}.{c}.{d})
                 -> g :: IPGWOptions(10.0.0.1) -> out :: Collect"
            );
            let mut bench = Bench::new(crate::CLASSES, &text);
            bench.push("c", &[with_options(&[kind, 7, 8, 3, 3, 3, 3], b"")]);
            assert_eq!(bench.drops("g", "source_route"), refused);
        }
    }

    #[test]
    fn source_routes_can_be_refused() {
        let mut bench = bench(", SOURCE_ROUTES false");
        bench.push("c", &[with_options(&[LSRR, 7, 8, 3, 3, 3, 3], b"")]);
        assert_eq!(bench.take("refused").len(), 1);
    }
}
