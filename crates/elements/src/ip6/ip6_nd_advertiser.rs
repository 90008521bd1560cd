//! Answers neighbour solicitations for the router's addresses.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!   -> a :: IP6NDAdvertiser(2001:db8::1 fe80::1 02:00:00:00:00:01) -> Queue -> ToDevice(null:64);
//! a[1] -> Discard;
//! ```
//!
//! The input takes neighbour solicitations as IPv6 packets. Each valid solicitation (RFC 4861, 7.1.1: hop limit
//! 255, correct checksum and lengths) for one of its addresses is answered with an advertisement, which leaves
//! as an Ethernet frame by output 0 (7.2.4). The advertisement goes to the asking host, or to all nodes if the
//! host is still checking that its own address is free (RFC 4862, 5.4). The solicitation leaves by output 1,
//! for IP6NDSolicitor to learn from, or ends here (`answered`) if output 1 is not connected.
//!
//! If a solicitation does not have the host's Ethernet address, and its Ethernet header is no longer known, the
//! answer leaves by output 2, as an IPv6 packet for IP6NDSolicitor to send.
//!
//! If the Ethernet address of one of its addresses changes by a reload, its addresses are advertised to all nodes three
//! times, a second apart (7.2.6), so that neighbours learn the new Ethernet address. Addresses of proxied prefixes are
//! not.
//!
//! Arguments:
//!
//! - `ENTRY`: IPv6 addresses or prefixes, followed by their Ethernet address; any number of entries. For a
//!   prefix shorter than 128 bits the router is a proxy: its answers do not have the override flag (7.2.8).
//!
//! Keyword arguments:
//!
//! - `ANYCAST`: addresses of the router with the lengths of their prefixes, as one argument. It answers for the
//!   subnet-router anycast address of each prefix too (RFC 4291, 2.6.1), with the Ethernet address of the first
//!   entry and without the override flag (7.2.7).
//! - `ROUTER`: true if the answers have the router flag. Default true.

use super::addresses::Addresses6;
use super::nd::{self, Received};
use crate::prelude::*;
use arguments::{Arg, Kind};
use forwarding::announcement::Announcements;
use std::net::Ipv6Addr;
use wire::nd::{OVERRIDE, ROUTER, SOLICITED};
use wire::{EtherAddr, Prefix6, addr};

drops! {
    ANSWERED = "answered",
    BAD_MESSAGE = "bad_message",
    NOT_MINE = "not_mine",
}

pub(super) struct Config {
    entries: Vec<(Prefix6, EtherAddr)>,
    anycast: Vec<Ipv6Addr>,
    router: bool,
    announcements: Arc<Announcements>,
}

impl Config {
    /// Owner of an address, and true if the advertisement overrides entries in hosts' caches (override flag).
    fn find(&self, target: Ipv6Addr) -> Option<(EtherAddr, bool)> {
        // The longest prefix counts: a proxied prefix may contain the router's own address.
        let fits = self.entries.iter().filter(|e| e.0.contains(target));
        let found = fits.max_by_key(|e| e.0.len());
        let own = found.is_some_and(|e| e.0.len() == 128);
        if !own && self.anycast.contains(&target) {
            return Some((self.entries.first()?.1, false));
        }
        Some((found?.1, own))
    }

    /// The router's own addresses; for the others it is a proxy.
    fn own(&self) -> impl Iterator<Item = (Ipv6Addr, EtherAddr)> {
        let is_own = move |&(prefix, ether): &(Prefix6, EtherAddr)| {
            prefix.len() == 128 && self.find(prefix.addr()) == Some((ether, true))
        };
        let own = self.entries.iter().copied().filter(is_own);
        own.map(|(prefix, ether)| (prefix.addr(), ether))
    }

    /// True if one of the own addresses had another Ethernet address in `old`.
    fn has_moved(&self, old: &Config) -> bool {
        self.own().any(|(ip, ether)| {
            let before = old.find(ip);
            before.is_some_and(|(before, own)| own && before != ether)
        })
    }

    fn router_flag(&self) -> u8 {
        if self.router { ROUTER } else { 0 }
    }
}

/// The subnet-router anycast addresses; prefixes of 127 and 128 bits have none (RFC 6164, 5.1).
fn anycast(addresses: Option<Addresses6>) -> Vec<Ipv6Addr> {
    let each = addresses.unwrap_or_default().0.into_iter();
    let subnets = each.filter(|&(_, len)| len < 127);
    subnets
        .map(|(address, len)| Prefix6::new(address, len).addr())
        .collect()
}

pub(super) struct IP6NDAdvertiser {
    config: Arc<Config>,
    count: u64,
    no_buffer: u64,
}

fn entry(args: &mut Args, arg: &Arg, into: &mut Vec<(Prefix6, EtherAddr)>) {
    let words = arg.words();
    let Some((last, addresses)) = words.split_last().filter(|(_, a)| !a.is_empty()) else {
        let message = format!(
            "ENTRY `{}` must be IPv6 addresses, then an Ethernet one",
            arg.raw
        );
        return args.error(arg, message);
    };
    let Some(ether) = args.value("ENTRY", last, arg) else {
        return;
    };
    for word in addresses {
        // A name may stand for an address and for its network; here it is the address.
        let host = args.names().get(word, Kind::Ip6).map(str::to_owned);
        let prefix: Option<Prefix6> = args.value("ENTRY", host.as_ref().unwrap_or(word), arg);
        into.extend(prefix.map(|p| (p, ether)));
    }
}

impl IP6NDAdvertiser {
    /// Answers a solicitation, or returns the reason why not.
    fn answer(&mut self, packet: &Packet, cx: &mut Cx) -> Result<(), u8> {
        let received = nd::received(packet).ok_or(BAD_MESSAGE)?;
        let target = match received.nd.kind() {
            wire::nd::NEIGHBOR_SOLICIT => received.nd.target().ok_or(BAD_MESSAGE)?,
            _ => return Err(BAD_MESSAGE),
        };
        let (ether, overrides) = self.config.find(target).ok_or(NOT_MINE)?;
        let own = if overrides { OVERRIDE } else { 0 };
        let flags = own | self.config.router_flag();
        self.send(packet, &received, target, ether, flags, cx);
        Ok(())
    }

    fn send(
        &mut self,
        packet: &Packet,
        received: &Received,
        target: Ipv6Addr,
        ether: EtherAddr,
        flags: u8,
        cx: &mut Cx,
    ) {
        let (ip, to, flags) = if received.src.is_unspecified() {
            let all = addr::ALL_NODES;
            (all, Some(EtherAddr::multicast6(all)), flags)
        } else {
            let told = received.nd.source_ether().or_else(|| sender(packet));
            (received.src, nd::of_station(told), flags | SOLICITED)
        };
        let message = wire::nd::advert(flags, target, ether);
        let (output, answer) = match to {
            Some(to) => (0, nd::frame((ether, to), target, ip, &message)),
            None => (2, nd::packet(target, ip, &message)),
        };
        match answer {
            Some(answer) => {
                self.count += 1;
                cx.emit(output, answer);
            }
            None => self.no_buffer += 1,
        }
    }

    /// Advertises the router's own addresses to all nodes.
    fn announce(&mut self, cx: &mut Cx) {
        let (config, all) = (Arc::clone(&self.config), addr::ALL_NODES);
        for (ip, ether) in config.own() {
            let link = (ether, EtherAddr::multicast6(all));
            let message = wire::nd::advert(OVERRIDE | config.router_flag(), ip, ether);
            match nd::frame(link, ip, all, &message) {
                Some(frame) => {
                    self.count += 1;
                    cx.emit(0, frame);
                }
                None => self.no_buffer += 1,
            }
        }
    }
}

/// The station that sent the packet's frame.
fn sender(packet: &Packet) -> Option<EtherAddr> {
    let mac = packet.mac()?.get(6..12)?;
    Some(EtherAddr(*mac.first_chunk()?))
}

impl Element for IP6NDAdvertiser {
    const CONTRACT: Contract = Contract::new("IP6NDAdvertiser", manual!())
        .ports(Ports::coded(
            &["in"],
            &["out", "solicitations?", "resolve?"],
            "h/h",
        ))
        .needs(&[Facts::IP6])
        .gives(&[
            Facts::ETHER,
            Facts::IP6,
            Facts::IP6.and(Facts::DST6).and(Facts::AT_NETWORK),
        ])
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let router = args.key("ROUTER", true, "true if answers say that this is a router");
        let subnets = args.key_maybe("ANYCAST", "addresses with the lengths of their prefixes");
        let mut entries = Vec::new();
        let each = args.rest(
            "ENTRY",
            "IPv6 addresses, then an Ethernet address",
            "an entry",
        );
        if each.is_empty() {
            let help = "write the router's addresses, then its Ethernet address";
            args.error_in_whole("no entry is given", help);
        }
        for arg in each {
            entry(args, &arg, &mut entries);
        }
        Config {
            entries,
            anycast: anycast(subnets),
            router,
            announcements: Arc::new(Announcements::none()),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IP6NDAdvertiser {
        IP6NDAdvertiser {
            config: Arc::clone(config),
            count: 0,
            no_buffer: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let verdict = match self.answer(&packet, cx) {
                Ok(()) => Verdict::reject(ANSWERED, 1),
                Err(why) => Verdict::drop(why),
            };
            cx.send(packet, verdict);
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.config.announcements.set_timer(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        if self.config.announcements.claim(cx.now()) {
            self.announce(cx);
        }
        self.config.announcements.set_timer(cx);
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.announcements = if config.has_moved(old) {
            Arc::new(Announcements::at_once())
        } else {
            Arc::clone(&old.announcements)
        };
    }

    const HANDLERS: &'static [Handler<IP6NDAdvertiser>] = &[
        counter!("count", "advertisements sent", count),
        counter!(
            "no_buffer",
            "advertisements not sent because there was no free buffer",
            no_buffer
        ),
    ];
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, checksum_holds, icmp6, ip6};
    use std::time::Duration;
    use testkit::Bench;
    use wire::{EtherAddr, Ipv6, Nd, nd};

    const HOST: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);
    const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const TEXT: &str = "a :: IP6NDAdvertiser(2001:db8::1 fe80::1 02:00:00:00:00:01,
            2001:db8:5::/64 02:00:00:00:00:05) -> out :: Collect;
        a[1] -> on :: Collect; a[2] -> slow :: Collect";

    fn solicit(src: &str, dst: &str, target: &str) -> Vec<u8> {
        icmp6(src, dst, &nd::solicit(a(target), HOST))
    }

    #[test]
    fn a_host_that_asks_is_told_and_the_question_goes_on() {
        both(TEXT, |bench| {
            for (target, dst) in [
                ("2001:db8::1", "ff02::1:ff00:1"),
                ("2001:db8::1", "2001:db8::1"),
                ("fe80::1", "ff02::1:ff00:1"),
            ] {
                let question = solicit("2001:db8::9", dst, target);
                bench.push("a", &[&question]);
                let frame = bench.take("out").remove(0);
                assert_eq!(frame[..6], HOST.0);
                assert_eq!(frame[6..14], [&ROUTER[..], &[0x86, 0xdd]].concat());
                let ip = Ipv6::new_checked(&frame[14..]).unwrap();
                assert_eq!((ip.src(), ip.dst()), (a(target), a("2001:db8::9")));
                assert_eq!(ip.hop_limit(), 255);
                assert!(checksum_holds(&frame[14..]));
                let answer = Nd::new_checked(ip.payload()).unwrap();
                assert_eq!((answer.kind(), answer.target()), (136, Some(a(target))));
                assert_eq!(answer.flags(), 0xe0);
                assert_eq!(answer.target_ether(), Some(EtherAddr(ROUTER)));
                assert_eq!(bench.take("on"), [question]);
            }
        });
    }

    #[test]
    fn a_host_that_tests_its_address_is_answered_to_all_nodes_unsolicited() {
        both(TEXT, |bench| {
            let question = nd::solicit(a("fe80::1"), HOST);
            bench.push("a", &[icmp6("::", "ff02::1:ff00:1", &question[..24])]);
            let frame = bench.take("out").remove(0);
            assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
            let ip = Ipv6::new_checked(&frame[14..]).unwrap();
            assert_eq!(ip.dst(), a("ff02::1"));
            assert_eq!(Nd::new_checked(ip.payload()).unwrap().flags(), 0xa0);
        });
    }

    #[test]
    fn for_a_prefix_the_router_stands_in_without_overriding() {
        both(TEXT, |bench| {
            bench.push(
                "a",
                &[solicit("fe80::9", "ff02::1:ff00:7", "2001:db8:5::7")],
            );
            let frame = bench.take("out").remove(0);
            assert_eq!((frame[11], frame[14 + 44]), (5, 0xc0));
        });
    }

    #[test]
    fn a_name_with_a_prefix_means_the_address() {
        let text = format!(
            "AddressInfo(me 2001:db8:9::1/64); {}",
            TEXT.replace("2001:db8::1 ", "me ")
        );
        both(&text, |bench| {
            let ask = |target| solicit("fe80::9", "ff02::1:ff00:1", target);
            bench.push("a", &[ask("2001:db8:9::1"), ask("2001:db8:9::2")]);
            assert_eq!(bench.take("out").len(), 1);
            assert_eq!(bench.drops("a", "not_mine"), 1);
        });
    }

    #[test]
    fn subnet_router_anycast_addresses_are_told_without_overriding() {
        let text = TEXT.replace(
            ") -> out",
            ", ANYCAST 2001:db8::1/64 2001:db8:7::/127) -> out",
        );
        both(&text, |bench| {
            let ask = |target| solicit("fe80::9", "ff02::1:ff00:0", target);
            bench.push("a", &[ask("2001:db8::"), ask("2001:db8:7::")]);
            let frames = bench.take("out");
            assert_eq!(
                (frames.len(), frames[0][11], frames[0][14 + 44]),
                (1, 1, 0xc0)
            );
            assert_eq!(bench.drops("a", "not_mine"), 1);
        });
    }

    #[test]
    fn a_host_that_hides_its_address_is_left_to_the_solicitor() {
        both(TEXT, |bench| {
            let question = nd::solicit(a("fe80::1"), HOST);
            bench.push("a", &[icmp6("fe80::9", "fe80::1", &question[..24])]);
            let answer = bench.take_packets("slow").remove(0);
            assert_eq!(answer.anno.dst6(), a("fe80::9").octets());
            assert!(checksum_holds(&answer.bytes));
        });
    }

    #[test]
    fn messages_that_must_not_be_believed_are_dropped() {
        both(TEXT, |bench| {
            let good = solicit("fe80::9", "ff02::1:ff00:1", "fe80::1");
            let mut routed = good.clone();
            routed[7] = 254;
            let mut broken = good.clone();
            broken[50] ^= 1;
            let question = nd::solicit(a("fe80::1"), HOST);
            let mut empty_option = question;
            empty_option[25] = 0;
            let atomic = [&[58, 0, 0, 0, 0, 0, 0, 1][..], &good[40..]].concat();
            let bad = [
                ip6("fe80::9", "ff02::1:ff00:1", 44, 255, &atomic),
                routed,
                broken,
                icmp6("fe80::9", "fe80::1", &empty_option),
                icmp6("::", "ff02::1:ff00:1", &question),
                icmp6("::", "fe80::1", &question[..24]),
                icmp6("fe80::9", "fe80::1", &nd::advert(0, a("fe80::1"), HOST)),
            ];
            bench.push("a", &bad);
            for len in 0..24 {
                bench.push("a", &[icmp6("fe80::9", "fe80::1", &question[..len.max(8)])]);
            }
            assert_eq!(bench.drops("a", "bad_message"), bad.len() as u64 + 24);
            bench.push("a", &[solicit("fe80::9", "ff02::1:ff00:2", "fe80::2")]);
            assert_eq!(bench.drops("a", "not_mine"), 1);
            assert!(bench.take("out").is_empty());
        });
    }

    #[test]
    fn entries_need_addresses_of_both_kinds() {
        for (entry, said) in [
            ("", "no entry is given"),
            (
                "02:00:00:00:00:01",
                "must be IPv6 addresses, then an Ethernet one",
            ),
            ("2001:db8::1 2001:db8::2", "not `2001:db8::2`"),
            ("10.0.0.1 02:00:00:00:00:01", "not `10.0.0.1`"),
        ] {
            let text = format!("Idle -> IP6NDAdvertiser({entry}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains(said), "{errors}");
        }
    }

    #[test]
    fn another_ethernet_address_is_advertised_to_all_nodes_three_times() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let second = Duration::from_secs(1);
        let reload = |bench: &mut Bench, text: &str| {
            bench.reload(text).unwrap_or_else(|e| panic!("{e}"));
        };
        let advertised = |ip: &str| {
            let flags = nd::OVERRIDE | nd::ROUTER;
            let message = nd::advert(flags, a(ip), EtherAddr([2, 0, 0, 0, 0, 2]));
            let link = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
            [&link[..], &icmp6(ip, "ff02::1", &message)].concat()
        };
        let all = ["2001:db8::1", "fe80::1"].map(advertised);
        bench.advance(second);
        reload(&mut bench, &TEXT.replace(":00:05)", ":00:06)"));
        bench.advance(10 * second);
        assert!(bench.take("out").is_empty(), "only the proxy's has changed");
        reload(&mut bench, &TEXT.replace(":00:01,", ":00:02,"));
        for _ in 0..3 {
            bench.advance(second / 2);
            assert_eq!(bench.take("out"), all);
            bench.advance(second / 2);
        }
        bench.advance(10 * second);
        assert!(bench.take("out").is_empty());
    }

    #[test]
    fn an_address_that_is_given_twice_is_advertised_as_it_is_answered() {
        let text = "a :: IP6NDAdvertiser(fe80::1 02:00:00:00:00:01, fe80::1 02:00:00:00:00:02)
            -> out :: Collect; a[1] -> on :: Collect; a[2] -> slow :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.reload(text).unwrap_or_else(|e| panic!("{e}"));
        bench.advance(Duration::from_secs(10));
        assert!(bench.take("out").is_empty(), "nothing has changed");
        let other = text.replace(":02)", ":03)");
        bench.reload(&other).unwrap_or_else(|e| panic!("{e}"));
        bench.advance(Duration::from_millis(1));
        let ethers: Vec<u8> = bench.take("out").iter().map(|frame| frame[11]).collect();
        assert_eq!(ethers, [3]);
    }
}
