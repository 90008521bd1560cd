//! Prepends Ethernet headers to IP packets; it finds the neighbours' Ethernet addresses by ARP (RFC 826).
//!
//! ```click
//! FromDevice(eth0)
//!     -> c :: Classifier(12/0806 20/0001, 12/0806, 12/0800, -);
//! c[0] -> ARPResponder(192.0.2.1 02:00:00:00:00:01) -> q :: Queue -> ToDevice(eth0);
//! c[1] -> [1]arpq :: ARPQuerier(192.0.2.1/24, 02:00:00:00:00:01) -> q;
//! c[2] -> Strip(14) -> CheckIPHeader -> arpq;
//! c[3] -> Discard;
//! ```
//!
//! A packet of input 0 goes to the neighbour in its destination annotation. While the neighbour's Ethernet address is
//! unknown, packets for it wait, and an ARP query is sent by output 1, or by output 0 if output 1 is not connected.
//! If too many packets wait, the oldest are dropped (`full`). Packets leave in order.
//!
//! If output 2 is connected, one worker sends at most one query per second (RFC 1122, 2.3.2.1) for a neighbour, and
//! three in all. Then the packets that wait for it leave by output 2, where an ICMP error can be made (RFC 1812,
//! 3.3.2). Otherwise the element sends queries as Click's ARPQuerier does: when there is a packet for the neighbour,
//! first ten queries at least 0.1 seconds apart, then one every 2 seconds. Packets then wait until the entry is
//! removed from the table (`unresolved`).
//!
//! Input 1 takes ARP frames. A reply to a query makes or updates an entry. Any other ARP frame from a known neighbour
//! updates its entry, and a request for our address makes an entry. Frames that claim our own address for another
//! station are counted (`conflicts`). All replies must come to this input; other ARP frames may.
//!
//! Packets to 0.0.0.0 are dropped (`no_address`); those to 255.255.255.255 and to the network's broadcast
//! address go to all stations, those to a multicast group to its Ethernet group (RFC 1112, 6.4). All workers
//! share the table. It survives a reload, unless our Ethernet address changes: then all neighbours are queried
//! again, and our address is announced (RFC 5227, 2.3), three times a second apart, so that neighbours learn the new
//! Ethernet address. (`ashlar click` announces nothing, as Click.)
//!
//! Arguments:
//!
//! - `IP`: our address, with the length of the network's prefix, or a name (AddressInfo).
//! - `ETH`: our Ethernet address; may be left out if the name stands for one too.
//! - `TABLE`: name of an ARPTable to use. The arguments from here to `TIMEOUT` are then those of the ARPTable,
//!   and output 2 gets no packets.
//! - `CAPACITY`: maximum number of waiting packets. Default 2048; 0 = 1048576.
//! - `ENTRY_CAPACITY`: neighbours in the table; 0 = 65536. Default 4096.
//! - `ENTRY_PACKET_CAPACITY`: maximum number of packets that wait for one neighbour, on each worker; 0 = no separate
//!   limit. Default 0.
//! - `CAPACITY_SLIM_FACTOR`: when too many packets wait, one of this number is dropped. Default 2.
//! - `QUERY_RATE`: maximum number of unknown neighbours queried per second, a fifth of them at once; 0 = no limit.
//!   Packets for more are dropped (`rate_limited`), first those of hosts that cause many queries (RFC 6583). Default
//!   1000.
//! - `TIMEOUT`: time for which an entry is kept without an answer; 0 = for ever. Default 5 minutes.
//! - `POLL_TIMEOUT`: age at which an entry in use is queried again; 0 = never. Default 1 minute.
//! - `BROADCAST`: another IP address that means all stations.
//! - `BROADCAST_POLL`: true if queries by `POLL_TIMEOUT` are broadcast instead of sent to the neighbour alone.
//!   Default false.

use super::arp_table::{self, ArpTable};
use super::own_address::Station;
use super::table::{self, QueryPolicy};
use crate::ip4;
use crate::peer;
use crate::prelude::*;
use forwarding::announcement::Announcements;
use forwarding::neighbour::{Event, Face, Link, Resolution, Resolver};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::{Arp, EtherAddr, Prefix4, addr, arp, ether, ipv4};

drops! {
    NO_ADDRESS = "no_address",
    UNRESOLVED = "unresolved",
    FULL = "full",
    TABLE_FULL = "table_full",
    NO_HEADROOM = "no_headroom",
    BAD_ARP = "bad_arp",
    LEARNED = "learned",
    RATE_LIMITED = "rate_limited",
}

const OUT: usize = 0;
const QUERIES: usize = 1;
const UNREACHABLE: usize = 2;

pub(super) struct Config {
    /// Our address, which a handler can set, and the one in the configuration.
    ip: AtomicU32,
    configured_ip: Ipv4Addr,
    net: Option<Prefix4>,
    ether: EtherAddr,
    broadcast: Option<Ipv4Addr>,
    broadcast_poll: bool,
    own_link: Arc<Link<u32>>,
    /// `None` as in Click, which announces nothing.
    announcements: Option<Arc<Announcements>>,
    /// Full name of the ARPTable that replaces `own_link`, and its link once resolved.
    table: Option<String>,
    named: OnceLock<Arc<Link<u32>>>,
}

impl Config {
    fn link(&self) -> &Arc<Link<u32>> {
        self.named.get().unwrap_or(&self.own_link)
    }

    /// Resolves the ARPTable that the configuration names, if any.
    fn find(&self, init: &Init) {
        let named = self.table.as_ref();
        if let Some(table) = named.and_then(|name| init.shared_by::<arp_table::Config>(name)) {
            self.named.get_or_init(|| Arc::clone(&table.link));
        }
    }

    fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.ip.load(Relaxed))
    }

    /// Ethernet group address of a broadcast or multicast destination; `None` for unicast.
    fn group(&self, ip: Ipv4Addr) -> Option<EtherAddr> {
        if addr::is_multicast4(ip) {
            Some(EtherAddr::multicast4(ip))
        } else if addr::is_limited_broadcast(ip) || self.broadcast == Some(ip) {
            Some(EtherAddr::BROADCAST)
        } else {
            None
        }
    }

    /// True if an address may belong to a neighbour on the link.
    fn on_link(&self, ip: Ipv4Addr) -> bool {
        self.net.is_none_or(|net| net.contains(ip))
            && !addr::is_martian_source4(ip)
            && self.broadcast != Some(ip)
    }
}

/// Port of an ARPQuerier to its link, by the element's full name.
pub fn face(init: &Init, name: &str) -> Option<Face<u32>> {
    let config = init.shared_by::<Config>(name)?;
    config.find(init);
    Some(Face::new(config.link(), config.ether))
}

/// State for sending on one worker: frames, queries, and discarded packets.
struct Sender {
    config: Arc<Config>,
    queries: u64,
    drops: u64,
    no_buffer: u64,
    /// Timestamp and VLAN of the packet that triggers a query; the query gets the same.
    cause: (u64, u16),
    /// Ethernet header for the most recently used neighbour.
    header: [u8; ether::LEN],
}

impl Sender {
    fn act(&mut self, event: Event<u32>, cx: &mut Cx) {
        match event {
            Event::Ready(mac, mut packet) => {
                if packet.push_mac(&self.header(mac)) {
                    cx.emit(OUT, packet);
                } else {
                    self.drop(packet, NO_HEADROOM, cx);
                }
            }
            Event::Ask(ip, to) => self.ask(Ipv4Addr::from(ip), to, cx),
            Event::Failed(packet) => self.give_up(packet, cx),
            Event::Full(packet) => self.drop(packet, FULL, cx),
        }
    }

    /// Ethernet header for a neighbour.
    fn header(&self, mac: EtherAddr) -> [u8; ether::LEN] {
        ether::header(mac, self.config.ether, ether::IPV4)
    }

    /// Sends a query to a neighbour at its known address, or to all stations. A query for our own address is an
    /// announcement.
    fn ask(&mut self, ip: Ipv4Addr, to: Option<EtherAddr>, cx: &mut Cx) {
        match self.query(ip, to) {
            Some(query) => {
                self.queries += 1;
                cx.emit(if cx.connected(QUERIES) { QUERIES } else { OUT }, query);
            }
            None => self.no_buffer += 1,
        }
    }

    fn query(&self, ip: Ipv4Addr, to: Option<EtherAddr>) -> Option<Packet> {
        let (mac, us) = (self.config.ether, self.config.ip());
        let to = to.filter(|_| !self.config.broadcast_poll);
        let to = to.unwrap_or(EtherAddr::BROADCAST);
        // The query asks for the target's Ethernet address: zero also by unicast, as in Click and Linux.
        let target = (EtherAddr::ZERO, ip);
        let frame = arp::frame(to, arp::REQUEST, (mac, us), target);
        let mut packet = Packet::from_bytes(&frame)?;
        packet.set_mac_here();
        let (timestamp, vlan) = self.cause;
        packet.set_vlan_tci(vlan);
        if timestamp != 0 {
            packet.cold_mut().timestamp = timestamp;
        }
        Some(packet)
    }

    /// Handles a packet whose neighbour does not answer.
    fn give_up(&mut self, mut packet: Packet, cx: &mut Cx) {
        // Output 2 guarantees valid IP packets, but input 0 does not require them.
        if cx.connected(UNREACHABLE) && ipv4::check(packet.data()).is_ok() {
            packet.set_network_offset(0);
            cx.emit(UNREACHABLE, packet);
        } else {
            self.drop(packet, UNRESOLVED, cx);
        }
    }

    fn drop(&mut self, packet: Packet, reason: u8, cx: &mut Cx) {
        self.drops += 1;
        cx.drop(packet, reason);
    }
}

pub(super) struct ArpQuerier {
    resolver: Resolver<u32>,
    sender: Sender,
    responses: u64,
    conflicts: u64,
}

/// State for sending a batch of packets.
struct Sending<'a, 'c> {
    resolver: &'a mut Resolver<u32>,
    sender: &'a mut Sender,
    cx: &'a mut Cx<'c>,
    /// Next hop for which the sender's header was made, since packets of a batch often share their next hop. Initially
    /// a value that is no address.
    last_next_hop: u64,
}

// Pseudo-verdicts of packets that wait or are discarded; their ports have no meaning.
const WAIT: Verdict = Verdict::out(QUERIES as u8);
const GIVE_UP: Verdict = Verdict::out(UNREACHABLE as u8);

impl Sending<'_, '_> {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> Verdict {
        let bytes = packet.anno().dst4();
        if u64::from(u32::from_ne_bytes(bytes)) != self.last_next_hop
            && let Err(verdict) = self.turn_to(bytes, packet)
        {
            return verdict;
        }
        match packet.push_mac(&self.sender.header) {
            true => Verdict::ON,
            false => Verdict::drop(NO_HEADROOM),
        }
    }

    /// Resolves the next hop of a packet, and prepares its Ethernet header. The error is the packet's verdict.
    #[inline(never)]
    fn turn_to(&mut self, bytes: [u8; 4], packet: &Packet) -> Result<(), Verdict> {
        let key = u32::from_be_bytes(bytes);
        if key == 0 {
            return Err(Verdict::drop(NO_ADDRESS));
        }
        let (sender, cx) = (&mut *self.sender, &mut *self.cx);
        let found = match sender.config.group(Ipv4Addr::from(key)) {
            Some(mac) => Resolution::Known(mac),
            None => {
                sender.cause = (packet.cold().timestamp, packet.vlan_tci());
                let now = cx.now();
                let source = || ip4::header(packet).map_or(0, |ip| ip.src().to_bits().into());
                self.resolver
                    .find(key, source, now, &mut |event| sender.act(event, cx))
            }
        };
        match found {
            Resolution::Known(mac) => {
                (self.last_next_hop, sender.header) =
                    (u32::from_ne_bytes(bytes).into(), sender.header(mac));
            }
            Resolution::Wait => return Err(WAIT),
            Resolution::Unreachable => return Err(GIVE_UP),
            Resolution::TableFull => return Err(Verdict::drop(TABLE_FULL)),
            Resolution::TooMany => return Err(Verdict::drop(RATE_LIMITED)),
        }
        Ok(())
    }

    /// Handles a packet that is not sent as a frame.
    fn hold_or_drop(&mut self, packet: Packet, verdict: Verdict) {
        let (sender, cx) = (&mut *self.sender, &mut *self.cx);
        match verdict.reason() {
            Some(reason) => sender.drop(packet, reason, cx),
            None if verdict == WAIT => {
                let (key, now) = (u32::from_be_bytes(packet.anno().dst4()), cx.now());
                cx.each_segment(packet, |packet, cx| {
                    self.resolver
                        .hold(key, packet, now, &mut |event| sender.act(event, cx));
                });
            }
            None => sender.give_up(packet, cx),
        }
    }
}

impl ArpQuerier {
    fn send(&mut self, batch: &mut Batch, cx: &mut Cx) {
        let ArpQuerier {
            resolver, sender, ..
        } = self;
        resolver.catch_up(&mut |event| sender.act(event, cx));
        let mut sending = Sending {
            resolver,
            sender,
            cx,
            last_next_hop: u64::MAX,
        };
        batch.split(
            &mut sending,
            |packet, sending| sending.step(packet),
            |packet, verdict, sending| sending.hold_or_drop(packet, verdict),
        );
    }

    /// Processes an ARP frame. Returns false for any other frame.
    fn process_arp(&mut self, frame: &[u8], cx: &mut Cx) -> bool {
        let is_arp = frame.get(12..14) == Some(&ether::ARP.to_be_bytes());
        let Some(Ok(heard)) = frame.get(ether::LEN..).map(Arp::new_checked) else {
            return false;
        };
        let (op, mac, ip) = (heard.op(), heard.sender_ether(), heard.sender_ip());
        if !is_arp || !matches!(op, arp::REQUEST | arp::REPLY) || !mac.is_unicast() {
            return false;
        }
        let ArpQuerier {
            resolver, sender, ..
        } = self;
        let (now, config) = (cx.now(), Arc::clone(&sender.config));
        self.responses += u64::from(op == arp::REPLY);
        if ip == config.ip() {
            self.conflicts += u64::from(mac != config.ether);
            return true;
        }
        if ip.is_unspecified() {
            return true; // a probe: the address is not its yet (RFC 5227, 2.1.1)
        }
        let (key, to_us) = (ip.to_bits(), heard.target_ip() == config.ip());
        let mut act = |event| sender.act(event, cx);
        if op == arp::REPLY && to_us {
            resolver.answered(key, mac, now, &mut act);
        } else {
            let make = op == arp::REQUEST && to_us && config.on_link(ip);
            resolver.learn(key, mac, make, now, &mut act);
        }
        true
    }
}

impl Element for ArpQuerier {
    const CONTRACT: Contract = Contract::new("ARPQuerier", manual!())
        .ports(Ports::coded(
            &["ip", "arp"],
            &["out", "queries?", "unreachable?"],
            "h/h",
        ))
        .needs(&[Facts::DST4, Facts::ETHER])
        .gives(&[
            Facts::ETHER,
            Facts::ETHER,
            Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4),
        ])
        // Frames and packets share this output, so facts about one kind do not hold for the other.
        .spoils(Facts::ALL)
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()])
        .carries_super_frames();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let us: Station = args.required("IP", "our address, with the network's prefix length");
        let ether: Option<EtherAddr> = args.maybe("ETH", "our Ethernet address");
        let doc = "an ARPTable to use";
        let table = peer::named(args, ("TABLE", doc), &[ArpTable::CONTRACT.name], "ARPTable");
        let poll = args.key(
            "POLL_TIMEOUT",
            Duration::from_secs(60),
            "age at which it is queried again",
        );
        let manner = match args.outputs() > UNREACHABLE {
            true => QueryPolicy::ThreeTimes,
            false => QueryPolicy::Unlimited,
        };
        let bounds = table::bounds(args, manner, poll);
        let broadcast = args.key_maybe("BROADCAST", "address of all stations");
        let broadcast_poll = args.key("BROADCAST_POLL", false, "true to ask again by broadcast");
        if ether.or(us.ether).is_none() {
            args.error_in_whole(
                "our Ethernet address is missing",
                "give it behind IP, or a name that stands for both",
            );
        }
        Config {
            ip: AtomicU32::new(us.ip.to_bits()),
            configured_ip: us.ip,
            net: us.net,
            ether: ether.or(us.ether).unwrap_or_default(),
            broadcast: broadcast.or(us.net.and_then(Prefix4::broadcast)),
            broadcast_poll,
            own_link: Arc::new(Link::new(bounds, crate::secret(cfg!(test)))),
            announcements: (!args.as_click).then(|| Arc::new(Announcements::none())),
            table,
            named: OnceLock::new(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> ArpQuerier {
        config.find(init);
        config.link().set_now(init.now);
        ArpQuerier {
            resolver: Resolver::new(config.link(), init.workers),
            sender: Sender {
                config: Arc::clone(config),
                queries: 0,
                drops: 0,
                no_buffer: 0,
                cause: (0, 0),
                header: [0; ether::LEN],
            },
            responses: 0,
            conflicts: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        if input == 0 {
            self.send(batch, cx);
        } else {
            for packet in batch.drain() {
                if self.process_arp(packet.data(), cx) {
                    cx.drop(packet, LEARNED);
                } else {
                    self.sender.drop(packet, BAD_ARP, cx);
                }
            }
        }
        if let Some(at) = self.resolver.arm(cx.now()) {
            cx.set_timer(at);
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if let Some(announcements) = &self.sender.config.announcements {
            announcements.set_timer(cx);
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        let sender = &mut self.sender;
        sender.cause = (0, 0);
        if let Some(announcements) = sender.config.announcements.clone() {
            let ip = sender.config.ip();
            if announcements.claim(cx.now()) && !addr::is_martian_source4(ip) {
                sender.ask(ip, None, cx);
            }
            announcements.set_timer(cx);
        }
        let next = self
            .resolver
            .tick(cx.now(), &mut |event| sender.act(event, cx));
        if let Some(at) = next {
            cx.set_timer(at);
        }
    }

    fn held(&self) -> usize {
        self.resolver.held()
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.own_link = Link::inherit(&config.own_link, &old.own_link);
        if config.configured_ip == old.configured_ip {
            config.ip.store(old.ip.load(Relaxed), Relaxed);
        }
        config.announcements = if config.ether == old.ether {
            old.announcements.clone()
        } else {
            let begin = |_| Arc::new(Announcements::at_once());
            config.announcements.take().map(begin)
        };
    }

    fn take(&mut self, old: ArpQuerier) {
        let config = &self.sender.config;
        if config.ether != old.sender.config.ether {
            // The interface has changed: new queries find the neighbours there.
            config.own_link.clear(false);
        }
        self.resolver.take(old.resolver);
    }

    const HANDLERS: &'static [Handler<ArpQuerier>] = &[
        Handler::shared(
            "table",
            "a line per neighbour: address, whether it is known, Ethernet address, age in seconds",
            |config: &Config, _| Ok(table::show(config.link())),
        ),
        Handler::shared(
            "entries",
            "neighbours in the table",
            |config: &Config, _| Ok(config.link().table().len().to_string()),
        ),
        Handler::shared("count", "neighbours in the table", |config: &Config, _| {
            Ok(config.link().table().len().to_string())
        }),
        Handler::shared("ipaddr", "our address", |config: &Config, _| {
            Ok(config.ip().to_string())
        }),
        Handler::action("ipaddr", "changes our address", |config: &Config, value| {
            let ip: Ipv4Addr = arguments::units::parse(value)?;
            config.ip.store(ip.to_bits(), Relaxed);
            Ok(String::new())
        }),
        Handler::shared(
            "broadcast",
            "the address of all stations",
            |config: &Config, _| Ok(config.broadcast.unwrap_or(Ipv4Addr::BROADCAST).to_string()),
        ),
        Handler::text(
            "stats",
            "packets dropped and queries sent, as text",
            |e, _| {
                let Sender { drops, queries, .. } = e.sender;
                Ok(format!(
                    "{drops} packets killed\n{queries} ARP queries sent\n"
                ))
            },
        ),
        Handler::sum("length", "packets that wait", |e| e.held() as u64),
        counter!("drops", "packets dropped", sender.drops),
        counter!(
            "queries",
            "queries sent, announcements included",
            sender.queries
        ),
        counter!("responses", "replies received", responses),
        counter!("conflicts", "frames that claim our address", conflicts),
        counter!(
            "no_buffer",
            "queries not sent, there was no free buffer",
            sender.no_buffer
        ),
        Handler::action(
            "insert",
            "`IP ETH`: makes an entry",
            |config: &Config, value| table::insert(config.link(), value),
        ),
        Handler::action(
            "delete",
            "`IP`: removes an entry",
            |config: &Config, value| table::delete(config.link(), value),
        ),
        Handler::action("clear", "removes all entries", |config: &Config, _| {
            table::clear(config.link())
        }),
    ];
}

impl Resources for ArpQuerier {
    fn memory(config: &Config) -> usize {
        config.own_link.memory()
    }
}

#[cfg(test)]
#[path = "arp_querier_tests.rs"]
mod tests;
