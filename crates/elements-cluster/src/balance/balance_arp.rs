//! Handles ARP for a balancer: for the router's addresses outside, and for the next hops inside.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01 10.255.0.11, OWN 10.0.1.1);
//! out :: BalanceOut(FRONT 02:00:00:00:01:01, BACK 02:00:00:00:01:03);
//! arp :: BalanceARP(lb, out, 02:00:00:00:01:01 10.0.1.1/24, BACK 02:00:00:00:01:03 10.255.0.1/24);
//! back :: ToDevice(null:); front :: ToDevice(null:);
//! FromDevice(eth0) -> in :: BalanceIn(lb, 02:00:00:00:01:01, OUT out) -> back;
//! in[1] -> arp -> front;
//! FromDevice(eth1) -> out -> front;
//! out[1] -> [1] arp; arp[1] -> back; arp[2] -> Discard;
//! ```
//!
//! Inputs and outputs are the front ports in the order of BalanceOut, then the back port. The last output gets ARP
//! replies of back ends, for BalanceHealth.
//!
//! - A request from outside for an address of the router: the answer is the router's Ethernet address on this port.
//! - A back end's request for a next hop: if the next hop was seen in the last half minute, the answer is immediate.
//!   Otherwise the request leaves by the front port of that network, as one of the router itself, and the reply is
//!   passed on to the back ends that have asked. If the Ethernet address of a next hop changes, all back ends are
//!   informed, at most once in a second for each next hop.
//! - A back end's request for the balancer's address on the back port is answered.
//!
//! Everything else is dropped by name: `malformed`, `spoofed` (from outside, with the address of a back end or of the
//! balancer), `conflict` (a station outside has an address of the router), `other_address` (unknown address),
//! `learned` (a reply without news for a back end), `stranger` (from inside, and no back end), `own` (a back end
//! requests or announces an address of the router), `not_here` (no front port has this network), `full` (too many
//! next hops).
//!
//! Arguments:
//!
//! - `POOL`: the BalancePool.
//! - `OUT`: the BalanceOut.
//! - `FRONT`, for each front port: the router's Ethernet address there, and its IP addresses with prefix lengths.
//!
//! Keyword arguments:
//!
//! - `BACK`: the same for the back port.
//! - `PROXY`: networks for which the router also answers outside.
//! - `CAPACITY`: maximum number of known next hops. Default 4096.

use super::Peer;
use super::outside::Outside;
use super::port::Port;
use crate::prelude::*;
use std::net::Ipv4Addr;
use wire::{Arp, Ether, EtherAddr, Prefix4, arp, ether};

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
}

pub(super) struct Config {
    pool: Peer,
    out: Peer,
    fronts: Vec<Port<Prefix4>>,
    back: Port<Prefix4>,
    proxy: Vec<Prefix4>,
    capacity: usize,
}

pub(super) struct BalanceArp {
    config: Arc<Config>,
    outside: Outside<Ipv4Addr>,
    told: u64,
}

/// ARP message and the Ethernet source of its frame.
#[derive(Clone, Copy)]
struct Message {
    from: EtherAddr,
    op: u16,
    sender: (EtherAddr, Ipv4Addr),
    target: Ipv4Addr,
}

impl Message {
    fn parse(frame: &[u8]) -> Option<Message> {
        let header = Ether::new_checked(frame).ok()?;
        if header.ethertype() != ether::ARP {
            return None;
        }
        let arp = Arp::new_checked(frame.get(ether::LEN..)?).ok()?;
        Some(Message {
            from: header.src(),
            op: arp.op(),
            sender: (arp.sender_ether(), arp.sender_ip()),
            target: arp.target_ip(),
        })
    }
}

impl Element for BalanceArp {
    const CONTRACT: Contract = Contract::new("BalanceARP", manual!())
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
        let back: Option<String> = args.key_maybe(
            "BACK",
            "Ethernet address, address and network of the back port",
        );
        let proxy: Option<String> = args.key_maybe("PROXY", "networks that the router answers for");
        let capacity = args.capacity("CAPACITY", 4096, "next hops that are known");
        let mut networks = Vec::new();
        for word in proxy.iter().flat_map(|text| text.split_whitespace()) {
            match arguments::units::parse::<Prefix4>(word) {
                Ok(network) => networks.push(network),
                Err(wrong) => args.error_in_whole(
                    format!("PROXY: {wrong}"),
                    "write networks such as 203.0.113.0/24",
                ),
            }
        }
        let back = back
            .map(|text| Port::parse(args, "BACK", &text))
            .unwrap_or_default();
        let fronts = Port::fronts(args);
        Config {
            pool,
            out,
            fronts,
            back,
            proxy: networks,
            capacity,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> BalanceArp {
        BalanceArp {
            outside: Outside::new(&config.pool, &config.out, config.capacity, init),
            config: Arc::clone(config),
            told: 0,
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

    fn take(&mut self, old: BalanceArp) {
        if old.config.fronts.len() <= self.config.fronts.len() {
            self.outside.hops.follow(old.outside.hops);
        }
    }

    const HANDLERS: &'static [Handler<BalanceArp>] = &[
        Handler::text(
            "table",
            "a line per next hop: address, Ethernet address, front port",
            |e, _| Ok(e.outside.hops.show()),
        ),
        counter!("told", "replies made for back ends", told),
    ];
}

impl Resources for BalanceArp {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.fronts.len() + 1), Some(config.fronts.len() + 2))
    }
}

impl BalanceArp {
    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.config.fronts.iter().any(|front| front.has(address))
    }

    fn heard_outside(&mut self, front: usize, packet: Packet, message: Message, cx: &mut Cx) {
        let (ether, address) = message.sender;
        let outside = &self.outside;
        if !ether.is_unicast() || outside.is_inside(ether) || outside.is_inside(message.from) {
            return cx.drop(packet, SPOOFED);
        }
        if self.is_own(address) || self.config.back.reaches(address) {
            return cx.drop(packet, CONFLICT);
        }
        outside.hear(ether, front, cx.now());
        let told =
            self.config.fronts[front].reaches(address) && self.learn(address, ether, front, cx);
        let port = &self.config.fronts[front];
        let answers = port.has(message.target)
            || self
                .config
                .proxy
                .iter()
                .any(|net| net.contains(message.target));
        if message.op != arp::REQUEST || message.target == address {
            return cx.drop(
                packet,
                if told || message.op == arp::REPLY {
                    LEARNED
                } else {
                    OTHER_ADDRESS
                },
            );
        }
        if !answers {
            return cx.drop(packet, OTHER_ADDRESS);
        }
        let own = (port.ether, message.target);
        self.answer(packet, front, own, message, cx);
    }

    /// Records the Ethernet address of a next hop, and sends it to the back ends that wait; if it has changed, to all
    /// back ends. Returns true if a message was sent.
    fn learn(&mut self, address: Ipv4Addr, ether: EtherAddr, front: usize, cx: &mut Cx) -> bool {
        let own = self.config.fronts[front]
            .own_for(address)
            .unwrap_or(Ipv4Addr::UNSPECIFIED);
        let to = self.outside.learn(address, ether, front, cx.now());
        for backend in &to {
            // The next hop's Ethernet address is the frame's source, so that the switch learns the port.
            let (sender, target) = ((ether, address), (*backend, own));
            let reply = arp::frame(*backend, arp::REPLY, sender, target);
            if let Some(reply) = Packet::from_bytes(&reply) {
                self.told += 1;
                cx.emit(self.config.fronts.len(), reply);
            }
        }
        !to.is_empty()
    }

    fn heard_inside(&mut self, packet: Packet, message: Message, cx: &mut Cx) {
        let fronts = self.config.fronts.len();
        let Some(backend) = self.outside.shared.at(message.from) else {
            return cx.drop(packet, STRANGER);
        };
        if message.op == arp::REPLY && self.config.back.has(message.target) {
            return cx.emit(fronts + 1, packet);
        }
        if message.op != arp::REQUEST || self.is_own(message.target) {
            return cx.drop(packet, OWN);
        }
        let back = &self.config.back;
        if back.has(message.target) {
            let own = (back.ether, message.target);
            return self.answer(packet, fronts, own, message, cx);
        }
        let all = self.config.fronts.iter();
        let Some(front) = all.clone().position(|front| front.reaches(message.target)) else {
            return cx.drop(packet, NOT_HERE);
        };
        let now = cx.now();
        if let Some(ether) = self.outside.fresh(message.target, now) {
            return self.answer(packet, fronts, (ether, message.target), message, cx);
        }
        if !self.outside.hops.wait(message.target, front, backend, now) {
            return cx.drop(packet, FULL);
        }
        let own = self.config.fronts[front]
            .own_for(message.target)
            .unwrap_or(Ipv4Addr::UNSPECIFIED);
        self.ask(packet, front, own, message.target, cx);
    }

    /// Reuses a packet for the router's own ARP request, which leaves by a front port.
    fn ask(&self, mut packet: Packet, front: usize, own: Ipv4Addr, target: Ipv4Addr, cx: &mut Cx) {
        let ether = self.config.fronts[front].ether;
        let (sender, target) = ((ether, own), (EtherAddr::ZERO, target));
        let request = arp::frame(EtherAddr::BROADCAST, arp::REQUEST, sender, target);
        packet.data_mut()[..arp::FRAME_LEN].copy_from_slice(&request);
        packet.set_mac_here();
        cx.emit(front, packet);
    }

    /// Turns an ARP request into the reply with the addresses `own`.
    fn answer(
        &self,
        mut packet: Packet,
        output: usize,
        own: (EtherAddr, Ipv4Addr),
        asked: Message,
        cx: &mut Cx,
    ) {
        let reply = arp::frame(asked.from, arp::REPLY, own, asked.sender);
        packet.data_mut()[..arp::FRAME_LEN].copy_from_slice(&reply);
        packet.set_mac_here();
        cx.emit(output, packet);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, arp_reply, arp_request};

    const R1: &str = "2:0:0:0:0:1";
    const R2: &str = "2:0:0:0:0:2";
    const FRONT0: &str = "2:0:0:0:1:1";
    const FRONT1: &str = "2:0:0:0:1:2";
    const BACK: &str = "2:0:0:0:1:3";
    const HOST: &str = "2:0:0:0:9:9";

    const TEXT: &str = "lb :: BalancePool(r1 2:0:0:0:0:1, r2 2:0:0:0:0:2);
        out :: BalanceOut(FRONT 2:0:0:0:1:1 2:0:0:0:1:2, BACK 2:0:0:0:1:3);
        Idle -> out -> Discard; out[1] -> Discard; out[2] -> Discard;
        arp :: BalanceARP(lb, out, 2:0:0:0:1:1 10.0.1.1/24, 2:0:0:0:1:2 10.0.2.1/24,
            BACK 2:0:0:0:1:3 10.255.0.1/24, PROXY 203.0.113.0/24, CAPACITY 3);
        Idle -> arp -> f0 :: Collect; Idle -> [1] arp [1] -> f1 :: Collect;
        Idle -> [2] arp [2] -> back :: Collect; arp[3] -> health :: Collect";

    fn bench() -> Bench {
        Bench::new(crate::with_basics(), TEXT)
    }

    /// A reply in its frame.
    fn reply(of: (&str, &str), to: (&str, &str)) -> Vec<u8> {
        arp_reply(of.0, of.1, to.0, to.1)
    }

    #[test]
    fn outside_is_told_the_address_of_the_port() {
        let mut bench = bench();
        for target in ["10.0.1.1", "203.0.113.77"] {
            bench.push_at("arp", 0, &[arp_request(HOST, "10.0.1.9", target)]);
            assert_eq!(
                bench.take("f0"),
                [reply((FRONT0, target), (HOST, "10.0.1.9"))]
            );
        }
        bench.push_at(
            "arp",
            0,
            &[
                arp_request(HOST, "10.0.1.9", "10.0.2.1"),
                arp_request(HOST, "10.0.1.9", "10.0.1.7"),
            ],
        );
        assert_eq!(bench.drops("arp", "other_address"), 2);
        assert_eq!(bench.read("arp.table"), "10.0.1.9 02:00:00:00:09:09 0\n");
    }

    #[test]
    fn a_back_end_that_asks_gets_the_reply_of_the_next_hop() {
        let mut bench = bench();
        bench.push_at("arp", 2, &[arp_request(R1, "10.0.2.1", "10.0.2.9")]);
        assert_eq!(
            bench.take("f1"),
            [arp_request(FRONT1, "10.0.2.1", "10.0.2.9")]
        );
        bench.push_at("arp", 2, &[arp_request(R2, "10.255.0.12", "10.0.2.9")]);
        // The balancer requests with the router's address, whatever address the back end has used.
        assert_eq!(
            bench.take("f1"),
            [arp_request(FRONT1, "10.0.2.1", "10.0.2.9")]
        );
        bench.push_at("arp", 1, &[reply((HOST, "10.0.2.9"), (FRONT1, "10.0.2.1"))]);
        let told = [
            reply((HOST, "10.0.2.9"), (R1, "10.0.2.1")),
            reply((HOST, "10.0.2.9"), (R2, "10.0.2.1")),
        ];
        assert_eq!(bench.take("back"), told);
        // While frames of the next hop arrive, no request is sent outside.
        bench.push_at("arp", 2, &[arp_request(R1, "10.0.2.1", "10.0.2.9")]);
        assert_eq!(bench.take("back"), told[..1]);
        bench.advance(Duration::from_secs(40));
        bench.push_at("arp", 2, &[arp_request(R1, "10.0.2.1", "10.0.2.9")]);
        assert_eq!((bench.take("back").len(), bench.take("f1").len()), (0, 1));
    }

    #[test]
    fn all_back_ends_hear_of_another_address_of_a_next_hop_and_a_storm_is_held_back() {
        let mut bench = bench();
        bench.push_at("arp", 0, &[arp_request(HOST, "10.0.1.9", "10.0.1.9")]);
        assert_eq!(bench.take("back").len(), 0);
        for n in 0..100 {
            let other = format!("2:0:0:0:8:{:x}", n % 2);
            bench.push_at("arp", 0, &[arp_request(&other, "10.0.1.9", "10.0.1.9")]);
        }
        assert_eq!(bench.take("back").len(), 2, "one for each back end");
        bench.advance(Duration::from_secs(2));
        bench.push_at("arp", 0, &[arp_request(HOST, "10.0.1.9", "10.0.1.9")]);
        assert_eq!(bench.take("back").len(), 2);
    }

    #[test]
    fn a_back_end_finds_the_balancer_and_its_replies_go_on() {
        let mut bench = bench();
        bench.push_at("arp", 2, &[arp_request(R1, "10.255.0.11", "10.255.0.1")]);
        assert_eq!(
            bench.take("back"),
            [reply((BACK, "10.255.0.1"), (R1, "10.255.0.11"))]
        );
        let answer = reply((R1, "10.255.0.11"), (BACK, "10.255.0.1"));
        bench.push_at("arp", 2, std::slice::from_ref(&answer));
        assert_eq!(bench.take("health"), [answer]);
    }

    #[test]
    fn other_packets_are_dropped_by_name() {
        let mut bench = bench();
        let asks = |ether: &str, ip: &str, target: &str| arp_request(ether, ip, target);
        for (input, frame, name) in [
            (0, b"short".to_vec(), "malformed"),
            (0, asks(R1, "10.0.1.9", "10.0.1.1"), "spoofed"),
            (0, asks(FRONT1, "10.0.1.9", "10.0.1.1"), "spoofed"),
            (1, asks(HOST, "10.0.1.1", "10.0.2.1"), "conflict"),
            (1, asks(HOST, "10.255.0.11", "10.0.2.1"), "conflict"),
            (
                0,
                reply((HOST, "10.0.1.9"), (FRONT0, "10.0.1.1")),
                "learned",
            ),
            (2, asks(HOST, "10.0.1.1", "10.0.1.9"), "stranger"),
            (2, asks(R1, "10.0.1.1", "10.0.1.1"), "own"),
            (2, asks(R1, "10.0.1.1", "192.0.2.1"), "not_here"),
        ] {
            let before = bench.drops("arp", name);
            bench.push_at("arp", input, &[frame]);
            assert_eq!(bench.drops("arp", name), before + 1, "{name}");
        }
        for n in 2..8 {
            bench.push_at("arp", 2, &[asks(R1, "10.0.1.1", &format!("10.0.1.{n}"))]);
        }
        assert_eq!(bench.drops("arp", "full"), 4);
        bench.advance(Duration::from_secs(90));
        bench.push_at("arp", 2, &[asks(R1, "10.0.1.1", "10.0.1.77")]);
        assert_eq!(bench.drops("arp", "full"), 4, "old ones have made place");
    }
}
