//! Handles neighbour discovery for a balancer: for the router's addresses outside, and for the next hops inside.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01 10.255.0.11, OWN fd00:1::1);
//! out :: BalanceOut(FRONT 02:00:00:00:01:01, BACK 02:00:00:00:01:03);
//! nd :: BalanceND(lb, out, 02:00:00:00:01:01 fd00:1::1/64);
//! back :: ToDevice(null:); front :: ToDevice(null:);
//! FromDevice(eth0) -> in :: BalanceIn(lb, 02:00:00:00:01:01, OUT out) -> back;
//! in[1] -> nd -> front;
//! FromDevice(eth1) -> out -> front;
//! out[1] -> [1] nd; nd[1] -> back;
//! ```
//!
//! Inputs and outputs are the front ports in the order of BalanceOut, then the back port. All back ends have the
//! router's addresses, and one link-local address, LINK_LOCAL.
//!
//! - A solicitation from outside for an address of the router: the answer is the router's Ethernet address on this
//!   port.
//! - A back end's solicitation for a next hop: if the next hop was seen in the last half minute, the answer is
//!   immediate. Otherwise the solicitation leaves by the front port of that network (for link-local next hops: by
//!   all) as one of the router itself, and the answer is passed on to the back ends that have asked. If the Ethernet
//!   address of a next hop changes, all back ends are informed, at most once in a second for each next hop.
//! - A router advertisement of the speaker (see BalancePool) leaves by all front ports, with the router's Ethernet
//!   addresses in it. A router solicitation goes to the speaker.
//!
//! Everything else is dropped by name: `malformed` (no message of neighbour discovery, or one that cannot come from
//! the link: RFC 4861, 6.1 and 7.1), `spoofed` (from outside, with the address of a back end or of the balancer),
//! `conflict` (a station outside has an address of the router), `other_address` (unknown address), `learned` (an
//! answer without news for a back end), `stranger` (from inside, and no back end), `own` (a back end's message about
//! an address of the router), `not_here` (no front port has this network), `full` (too many next hops), `unwanted`
//! (advertisements and redirects of other routers). A message that was answered or translated ends here as
//! `answered`.
//!
//! Arguments:
//!
//! - `POOL`: the BalancePool.
//! - `OUT`: the BalanceOut.
//! - `FRONT`, for each front port: the router's Ethernet address there, and its IP addresses with prefix lengths.
//!
//! Keyword arguments:
//!
//! - `LINK_LOCAL`: default fe80::1.
//! - `CAPACITY`: maximum number of known next hops. Default 4096.

use super::Peer;
use super::nd_message::{Message, frame, rewrite};
use super::outside::Outside;
use super::port::Port;
use crate::prelude::*;
use cluster::balance::NOBODY;
use std::net::Ipv6Addr;
use wire::nd::{
    NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT, OVERRIDE, ROUTER, ROUTER_ADVERT, ROUTER_SOLICIT, SOLICITED,
};
use wire::{EtherAddr, Prefix6, addr, nd};

drops! {
    MALFORMED = "malformed",
    SPOOFED = "spoofed",
    CONFLICT = "conflict",
    OTHER_ADDRESS = "other_address",
    LEARNED = "learned",
    STRANGER = "stranger",
    OWN = "own",
    NOT_HERE = "not_here",
    FULL = "full",
    UNWANTED = "unwanted",
    ANSWERED = "answered",
}

pub(super) struct Config {
    pool: Peer,
    out: Peer,
    fronts: Vec<Port<Prefix6>>,
    link_local: Ipv6Addr,
    capacity: usize,
}

pub(super) struct BalanceNd {
    config: Arc<Config>,
    outside: Outside<Ipv6Addr>,
    made: u64,
}

impl Element for BalanceNd {
    const CONTRACT: Contract = Contract::new("BalanceND", manual!())
        .ports(Ports::coded(&["port+"], &["port+"], "h/h").apart())
        .gives(&[Facts::ETHER])
        .drops(DROPS)
        .copies(Copies::Owner)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let pool = Peer::pool(args);
        let out: String = args.required("OUT", "the BalanceOut");
        let out = Peer::named(args, &out, "BalanceOut");
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let link_local = args.key(
            "LINK_LOCAL",
            link_local,
            "the router's link-local address on all ports",
        );
        let capacity = args.capacity("CAPACITY", 4096, "next hops that are known");
        let fronts = Port::fronts(args);
        Config {
            pool,
            out,
            fronts,
            link_local,
            capacity,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> BalanceNd {
        BalanceNd {
            outside: Outside::new(&config.pool, &config.out, config.capacity, init),
            config: Arc::clone(config),
            made: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let Some(message) = Message::parse(packet.data()) else {
                cx.drop(packet, MALFORMED);
                continue;
            };
            if input < self.config.fronts.len() {
                self.heard_outside(input, packet, message, cx);
            } else {
                self.heard_inside(packet, message, cx);
            }
        }
    }

    fn take(&mut self, old: BalanceNd) {
        if old.config.fronts.len() <= self.config.fronts.len() {
            self.outside.hops.follow(old.outside.hops);
        }
    }

    const HANDLERS: &'static [Handler<BalanceNd>] = &[
        Handler::text(
            "table",
            "a line per next hop: address, Ethernet address, front port",
            |e, _| Ok(e.outside.hops.show()),
        ),
        counter!("made", "messages made", made),
    ];
}

impl Resources for BalanceNd {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        let ports = Some(config.fronts.len() + 1);
        (ports, ports)
    }
}

impl BalanceNd {
    fn is_own(&self, address: Ipv6Addr) -> bool {
        let mut fronts = self.config.fronts.iter();
        address == self.config.link_local || fronts.any(|front| front.has(address))
    }

    /// Address of the router as source of messages to `address` on a front port.
    fn own_for(&self, front: usize, address: Ipv6Addr) -> Ipv6Addr {
        self.config.fronts[front]
            .own_for(address)
            .unwrap_or(self.config.link_local)
    }

    fn heard_outside(&mut self, front: usize, packet: Packet, message: Message, cx: &mut Cx) {
        let outside = &self.outside;
        let ether = message.told.unwrap_or(message.from);
        if !ether.is_unicast() || outside.is_inside(ether) || outside.is_inside(message.from) {
            return cx.drop(packet, SPOOFED);
        }
        let speaks_of = match message.kind {
            NEIGHBOR_ADVERT => message.target,
            _ => message.src,
        };
        if self.is_own(speaks_of) {
            return cx.drop(packet, CONFLICT);
        }
        outside.hear(ether, front, cx.now());
        match message.kind {
            NEIGHBOR_SOLICIT => {
                self.learn(speaks_of, ether, front, cx);
                let port = &self.config.fronts[front];
                if !port.has(message.target) && message.target != self.config.link_local {
                    return cx.drop(packet, OTHER_ADDRESS);
                }
                let told = (port.ether, ROUTER | OVERRIDE);
                self.answer(front, told, message, packet, cx);
            }
            NEIGHBOR_ADVERT => {
                self.learn(speaks_of, ether, front, cx);
                cx.drop(packet, LEARNED);
            }
            ROUTER_SOLICIT => self.to_speaker(packet, cx),
            _ => cx.drop(packet, UNWANTED),
        }
    }

    /// Records the Ethernet address of a next hop on a front port's link, and sends it to the back ends that wait.
    fn learn(&mut self, address: Ipv6Addr, ether: EtherAddr, front: usize, cx: &mut Cx) {
        let port = &self.config.fronts[front];
        if !addr::is_link_local6(address) && !port.reaches(address) {
            return;
        }
        let own = self.own_for(front, address);
        for backend in self.outside.learn(address, ether, front, cx.now()) {
            let advert = nd::advert(SOLICITED | OVERRIDE, address, ether);
            if let Some(told) = frame((ether, backend), (address, own), &advert) {
                self.made += 1;
                cx.emit(self.config.fronts.len(), told);
            }
        }
    }

    /// Answers a neighbour solicitation: the target has the Ethernet address `ether`. The sender may still be without
    /// an address (RFC 4862, 5.4).
    fn answer(
        &mut self,
        output: usize,
        (ether, flags): (EtherAddr, u8),
        asked: Message,
        packet: Packet,
        cx: &mut Cx,
    ) {
        let (to, dst, flags) = match asked.src.is_unspecified() {
            true => (
                EtherAddr::multicast6(addr::ALL_NODES),
                addr::ALL_NODES,
                flags,
            ),
            false => (
                asked.told.unwrap_or(asked.from),
                asked.src,
                flags | SOLICITED,
            ),
        };
        let answer = frame(
            (ether, to),
            (asked.target, dst),
            &nd::advert(flags, asked.target, ether),
        );
        cx.drop(packet, ANSWERED);
        if let Some(answer) = answer {
            self.made += 1;
            cx.emit(output, answer);
        }
    }

    fn to_speaker(&self, mut packet: Packet, cx: &mut Cx) {
        let speaker = self.outside.shared.pool.speaker();
        match self.outside.shared.backends.get(usize::from(speaker)) {
            Some(backend) if speaker != NOBODY => {
                packet.data_mut()[..6].copy_from_slice(&backend.ether.0);
                packet.set_mac_here();
                cx.emit(self.config.fronts.len(), packet);
            }
            _ => cx.drop(packet, NOT_HERE),
        }
    }

    fn heard_inside(&mut self, packet: Packet, message: Message, cx: &mut Cx) {
        let Some(backend) = self.outside.shared.at(message.from) else {
            return cx.drop(packet, STRANGER);
        };
        match message.kind {
            NEIGHBOR_SOLICIT if !message.src.is_unspecified() && !self.is_own(message.target) => {
                self.solicited(backend, packet, message, cx);
            }
            ROUTER_ADVERT => self.advertise(packet, cx),
            _ => cx.drop(packet, OWN),
        }
    }

    /// Handles a back end's solicitation for a next hop.
    fn solicited(&mut self, backend: u16, packet: Packet, message: Message, cx: &mut Cx) {
        let (fronts, now, target) = (self.config.fronts.len(), cx.now(), message.target);
        if let Some(ether) = self.outside.fresh(target, now) {
            return self.answer(fronts, (ether, OVERRIDE), message, packet, cx);
        }
        let is_local = addr::is_link_local6(target);
        let all = (0..fronts).filter(|&at| is_local || self.config.fronts[at].reaches(target));
        let all: Vec<usize> = all.collect();
        let Some(&first) = all.first() else {
            return cx.drop(packet, NOT_HERE);
        };
        if !self.outside.hops.wait(target, first, backend, now) {
            return cx.drop(packet, FULL);
        }
        let group = addr::solicited_node(target);
        for front in all {
            let ether = self.config.fronts[front].ether;
            let asks = nd::solicit(target, ether);
            let addresses = (self.own_for(front, target), group);
            if let Some(asks) = frame((ether, EtherAddr::multicast6(group)), addresses, &asks) {
                self.made += 1;
                cx.emit(front, asks);
            }
        }
        cx.drop(packet, ANSWERED);
    }

    /// Sends a router advertisement by each front port, with the Ethernet address of that port.
    fn advertise(&mut self, packet: Packet, cx: &mut Cx) {
        let config = Arc::clone(&self.config);
        for (at, front) in config.fronts.iter().enumerate() {
            let Some(mut copy) = packet.copy() else {
                continue;
            };
            rewrite(copy.data_mut(), front.ether);
            copy.set_mac_here();
            self.made += 1;
            cx.emit(at, copy);
        }
        cx.drop(packet, ANSWERED);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, ip6, nd_advert, nd_solicit};
    use wire::Nd;

    const R1: &str = "2:0:0:0:0:1";
    const R2: &str = "2:0:0:0:0:2";
    const FRONT0: &str = "2:0:0:0:1:1";
    const FRONT1: &str = "2:0:0:0:1:2";
    const HOST: &str = "2:0:0:0:9:9";

    const TEXT: &str = "lb :: BalancePool(r1 2:0:0:0:0:1, r2 2:0:0:0:0:2);
        out :: BalanceOut(FRONT 2:0:0:0:1:1 2:0:0:0:1:2, BACK 2:0:0:0:1:3);
        Idle -> out -> Discard; out[1] -> Discard; out[2] -> Discard;
        nd :: BalanceND(lb, out, 2:0:0:0:1:1 fd00:1::1/64, 2:0:0:0:1:2 fd00:2::1/64, CAPACITY 3);
        Idle -> nd -> f0 :: Collect; Idle -> [1] nd [1] -> f1 :: Collect; Idle -> [2] nd [2] -> back :: Collect";

    fn bench() -> Bench {
        Bench::new(crate::with_basics(), TEXT)
    }

    /// Destination and source of a frame, the target and the Ethernet address that its message tells.
    fn said(frame: &[u8]) -> (String, String, String, String) {
        let nd = Nd::new_checked(&frame[54..]).expect("a message");
        let ether = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|b| format!("{b:x}"))
                .collect::<Vec<_>>()
                .join(":")
        };
        let told = nd.target_ether().or(nd.source_ether()).expect("an address");
        let target = nd
            .target()
            .map(|target| target.to_string())
            .unwrap_or_default();
        (
            ether(&frame[..6]),
            ether(&frame[6..12]),
            target,
            ether(&told.0),
        )
    }

    fn line(to: &str, from: &str, target: &str, told: &str) -> (String, String, String, String) {
        (to.into(), from.into(), target.into(), told.into())
    }

    #[test]
    fn outside_is_told_the_address_of_the_port() {
        let mut bench = bench();
        for target in ["fd00:1::1", "fe80::1"] {
            bench.push_at("nd", 0, &[nd_solicit(HOST, "fd00:1::9", target)]);
            let left = bench.take("f0");
            assert_eq!(said(&left[0]), line(HOST, FRONT0, target, FRONT0));
        }
        bench.push_at("nd", 0, &[nd_solicit(HOST, "fd00:1::9", "fd00:2::1")]);
        assert_eq!(bench.drops("nd", "other_address"), 1);
        assert_eq!(bench.read("nd.table"), "fd00:1::9 02:00:00:00:09:09 0\n");
    }

    #[test]
    fn a_back_end_that_asks_gets_the_answer_of_the_next_hop() {
        let mut bench = bench();
        bench.push_at("nd", 2, &[nd_solicit(R1, "fd00:2::1", "fd00:2::9")]);
        assert_eq!(
            said(&bench.take("f1")[0]),
            line("33:33:ff:0:0:9", FRONT1, "fd00:2::9", FRONT1)
        );
        bench.push_at("nd", 2, &[nd_solicit(R2, "fe80::1", "fd00:2::9")]);
        bench.push_at(
            "nd",
            1,
            &[nd_advert(HOST, "fd00:2::9", FRONT1, "fd00:2::1")],
        );
        let told: Vec<_> = bench.take("back").iter().map(|frame| said(frame)).collect();
        assert_eq!(
            told,
            [
                line(R1, HOST, "fd00:2::9", HOST),
                line(R2, HOST, "fd00:2::9", HOST)
            ]
        );
        bench.take("f1");
        bench.push_at("nd", 2, &[nd_solicit(R1, "fd00:2::1", "fd00:2::9")]);
        assert_eq!(
            (bench.take("back").len(), bench.take("f1").len()),
            (1, 0),
            "it was heard"
        );
        bench.advance(Duration::from_secs(40));
        bench.push_at("nd", 2, &[nd_solicit(R1, "fd00:2::1", "fd00:2::9")]);
        assert_eq!((bench.take("back").len(), bench.take("f1").len()), (0, 1));
    }

    #[test]
    fn link_local_next_hops_are_looked_for_at_all_ports() {
        let mut bench = bench();
        bench.push_at("nd", 2, &[nd_solicit(R1, "fe80::1", "fe80::77")]);
        assert_eq!((bench.take("f0").len(), bench.take("f1").len()), (1, 1));
        bench.push_at("nd", 0, &[nd_advert(HOST, "fe80::77", FRONT0, "fe80::1")]);
        assert_eq!(
            said(&bench.take("back")[0]),
            line(R1, HOST, "fe80::77", HOST)
        );
    }

    #[test]
    fn advertisements_of_the_router_leave_by_all_ports_with_their_addresses() {
        let mut bench = bench();
        let advert = |src: &str, ether: &str| {
            let octets = ether
                .split(':')
                .map(|octet| u8::from_str_radix(octet, 16).expect("an octet"));
            let option: Vec<u8> = [1, 1].into_iter().chain(octets).collect();
            let body = [&[0; 8][..], &option].concat();
            ip6()
                .ether(ether, "33:33:0:0:0:1")
                .src(src)
                .dst("ff02::1")
                .ttl(255)
                .icmp(134, 0, 0x4000_0708)
                .payload(body)
                .bytes()
        };
        bench.push_at("nd", 2, &[advert("fe80::1", R1)]);
        for (port, ether) in [("f0", FRONT0), ("f1", FRONT1)] {
            assert_eq!(bench.take(port), [advert("fe80::1", ether)]);
        }
        bench.push_at("nd", 0, &[advert("fe80::9", HOST)]);
        assert_eq!(bench.drops("nd", "unwanted"), 1);
        let solicits = ip6()
            .ether(HOST, "33:33:0:0:0:2")
            .src("fe80::9")
            .dst("ff02::2")
            .ttl(255)
            .icmp(133, 0, 0)
            .bytes();
        bench.push_at("nd", 0, &[solicits]);
        assert_eq!(bench.take("back")[0][..6], [2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn other_packets_are_dropped_by_name() {
        let mut bench = bench();
        let bad = |mut frame: Vec<u8>, at: usize| {
            frame[at] ^= 1;
            frame
        };
        for (input, frame, name) in [
            (0, b"short".to_vec(), "malformed"),
            (
                0,
                bad(nd_solicit(HOST, "fd00:1::9", "fd00:1::1"), 56),
                "malformed",
            ),
            (
                0,
                bad(nd_solicit(HOST, "fd00:1::9", "fd00:1::1"), 21),
                "malformed",
            ),
            (0, nd_solicit(R1, "fd00:1::9", "fd00:1::1"), "spoofed"),
            (
                0,
                nd_advert(FRONT0, "fd00:1::9", FRONT0, "fd00:1::1"),
                "spoofed",
            ),
            (
                1,
                nd_advert(HOST, "fd00:1::1", FRONT0, "fd00:2::1"),
                "conflict",
            ),
            (
                0,
                nd_advert(HOST, "fd00:1::9", FRONT0, "fd00:1::1"),
                "learned",
            ),
            (2, nd_solicit(HOST, "fd00:1::1", "fd00:1::9"), "stranger"),
            (2, nd_solicit(R1, "fd00:1::1", "fd00:1::1"), "own"),
            (2, nd_advert(R1, "fd00:1::1", HOST, "fd00:1::9"), "own"),
            (2, nd_solicit(R1, "fd00:1::1", "fd00:9::1"), "not_here"),
        ] {
            let before = bench.drops("nd", name);
            bench.push_at("nd", input, &[frame]);
            assert_eq!(bench.drops("nd", name), before + 1, "{name}");
        }
        for n in 2..8 {
            bench.push_at(
                "nd",
                2,
                &[nd_solicit(R1, "fd00:1::1", format!("fd00:1::{n}"))],
            );
        }
        assert_eq!(bench.drops("nd", "full"), 4);
    }
}
