//! Prepends Ethernet headers to IPv6 packets; it finds the neighbours' Ethernet addresses by Neighbour Discovery (RFC
//! 4861).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!   -> nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01) -> Queue -> ToDevice(null:64);
//! Idle -> [1] nd;
//! nd[1] -> ICMP6Error(2001:db8::1, unreachable, address) -> Discard;
//! ```
//!
//! Input 0 takes IPv6 packets. They leave as frames for the neighbour in their destination annotation; packets
//! to a group go to the group's Ethernet address (RFC 2464, 7). While an Ethernet address is unknown, packets
//! wait and neighbour solicitations are sent (RFC 4861, 7.2.2). If no neighbour answers, the waiting packets
//! leave by output 1, to be answered with "address unreachable", or are dropped (`unreachable`). If a known
//! address is used more than `REACHABLE` after its last confirmation, it is confirmed again by unicast
//! solicitations (7.3); packets do not wait for this.
//!
//! Input 1 takes the Neighbour Discovery messages of the link, as IPv6 packets: advertisements, and solicitations and
//! router messages, whose senders it learns. It accepts messages by RFC 4861, 7.1 and 7.2.5. All of them end here
//! (`learned`, or `bad_message`).
//!
//! Arguments:
//!
//! - `IP6`: the router's link-local address on this link.
//! - `ETHER`: its Ethernet address.
//!
//! Keyword arguments:
//!
//! - `ENTRIES`: permanent neighbours: IPv6 and Ethernet addresses in turn, as one argument.
//! - `CAPACITY`: neighbours in the table. Default 8192.
//! - `QUERY_RATE`: maximum number of unknown neighbours solicited per second, a fifth of them at once; 0 = no limit.
//!   Packets for more are dropped (`rate_limited`), first those of networks (/64) that cause many solicitations (RFC
//!   6583). Default 1000.
//! - `WAITING`: packets that wait, over all workers. Default 2048.
//! - `WAITING_EACH`: packets that wait for one neighbour, on one worker. Default 64, as for ARP.
//! - `REACHABLE`: time for which a confirmation is valid. Default 30s.
//! - `RETRY`: time between solicitations. Default 1s.
//! - `TRIES`: solicitations before a neighbour counts as unreachable. Default 3.
//! - `IDLE`: time for which an unused neighbour is remembered. Default 20 min.

use super::nd::{self, Received};
use super::network;
use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use forwarding::neighbour::{self, Bounds, Event, Link, Resolution, Resolver};
use std::net::Ipv6Addr;
use std::time::Duration;
use tables::neighbours::{State, Timing};
use wire::{EtherAddr, addr};

drops! {
    UNREACHABLE = "unreachable",
    TABLE_FULL = "table_full",
    WAITING_FULL = "waiting_full",
    LEARNED = "learned",
    BAD_MESSAGE = "bad_message",
    NO_HEADROOM = "no_headroom",
    NO_ADDRESS = "no_address",
    RATE_LIMITED = "rate_limited",
}
/// Pseudo-verdict: the packet waits.
const WAIT: Verdict = Verdict::out(254);

type Key6 = [u8; 16];

/// Neighbours with configured Ethernet addresses, which never expire.
struct Entries(Vec<(Ipv6Addr, EtherAddr)>);

impl FromArg for Entries {
    const KIND: &'static str = "IPv6 and Ethernet addresses in turn";
    const LIST: bool = true;

    fn from_arg(raw: &str, names: &Names) -> Result<Entries, String> {
        let text = lang::args::unquote(raw);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (pairs, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(format!("must be {}: one is missing", Self::KIND));
        }
        let pair = |&[ip, ether]: &[&str; 2]| {
            Ok((
                Ipv6Addr::from_arg(ip, names)?,
                EtherAddr::from_arg(ether, names)?,
            ))
        };
        pairs
            .iter()
            .map(pair)
            .collect::<Result<_, _>>()
            .map(Entries)
    }

    fn stand_in() -> Entries {
        Entries(Vec::new())
    }

    fn unparse(&self) -> String {
        let pair = |(ip, ether): &(Ipv6Addr, EtherAddr)| format!("{ip} {ether}");
        self.0.iter().map(pair).collect::<Vec<_>>().join(" ")
    }
}

pub(super) struct Config {
    face: Face,
    entries: Entries,
    link: Arc<Link<Key6>>,
}

/// An IP6NDSolicitor's place on its link, by its full name.
pub fn face(init: &Init, name: &str) -> Option<neighbour::Face<Key6>> {
    let config = init.shared_by::<Config>(name)?;
    Some(neighbour::Face::new(&config.link, config.face.ether))
}

/// The router on this link.
#[derive(Clone, Copy)]
struct Face {
    ip: Ipv6Addr,
    ether: EtherAddr,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    queries: u64,
    responses: u64,
    no_buffer: u64,
}

pub(super) struct IP6NDSolicitor {
    face: Face,
    link: Arc<Link<Key6>>,
    resolver: Resolver<Key6>,
    counts: Counts,
}

/// Context of `Batch::split`.
struct Hands<'a, 'b> {
    element: &'a mut IP6NDSolicitor,
    cx: &'a mut Cx<'b>,
}

impl Face {
    /// Carries out an event of the resolver.
    fn act(self, event: Event<Key6>, counts: &mut Counts, cx: &mut Cx) {
        match event {
            Event::Ready(mac, mut packet) => {
                let put = nd::encapsulate(&mut packet, self.ether, mac);
                cx.send(packet, on_if(put, NO_HEADROOM));
            }
            Event::Ask(key, known) => self.ask(key.into(), known, counts, cx),
            Event::Failed(packet) => cx.send(packet, Verdict::reject(UNREACHABLE, 1)),
            Event::Full(packet) => cx.drop(packet, WAITING_FULL),
        }
    }

    /// Sends a solicitation: to all that may have the address, or to its last known owner.
    fn ask(self, target: Ipv6Addr, known: Option<EtherAddr>, counts: &mut Counts, cx: &mut Cx) {
        let group = addr::solicited_node(target);
        let (ether, ip) = match known {
            Some(mac) => (mac, target),
            None => (EtherAddr::multicast6(group), group),
        };
        let message = wire::nd::solicit(target, self.ether);
        match nd::frame((self.ether, ether), self.ip, ip, &message) {
            Some(frame) => {
                counts.queries += 1;
                cx.emit(0, frame);
            }
            None => counts.no_buffer += 1,
        }
    }
}

impl IP6NDSolicitor {
    /// Puts a packet in a frame, or says that it has to wait.
    #[inline]
    fn deliver(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let key = packet.anno().dst6();
        let dst = Ipv6Addr::from(key);
        let mac = if addr::is_multicast6(dst) {
            EtherAddr::multicast6(dst)
        } else if dst.is_unspecified() {
            return Verdict::drop(NO_ADDRESS);
        } else {
            let (face, counts, now) = (self.face, &mut self.counts, cx.now());
            let out = &mut |event| face.act(event, counts, cx);
            match self.resolver.find(key, || network(packet), now, out) {
                Resolution::Known(mac) => mac,
                Resolution::Wait => return WAIT,
                Resolution::Unreachable => return Verdict::reject(UNREACHABLE, 1),
                Resolution::TableFull => return Verdict::drop(TABLE_FULL),
                Resolution::TooMany => return Verdict::drop(RATE_LIMITED),
            }
        };
        match nd::encapsulate(packet, self.face.ether, mac) {
            true => Verdict::ON,
            false => Verdict::drop(NO_HEADROOM),
        }
    }

    fn deliver_all(&mut self, batch: &mut Batch, cx: &mut Cx) {
        let (face, counts) = (self.face, &mut self.counts);
        self.resolver
            .catch_up(&mut |event| face.act(event, counts, cx));
        batch.split(
            &mut Hands { element: self, cx },
            |packet, hands| hands.element.deliver(packet, hands.cx),
            |packet, verdict, hands| match verdict {
                WAIT => hands.element.hold(packet, hands.cx),
                other => hands.cx.send(packet, other),
            },
        );
    }

    fn hold(&mut self, packet: Packet, cx: &mut Cx) {
        let (face, counts, now) = (self.face, &mut self.counts, cx.now());
        let key = packet.anno().dst6();
        cx.each_segment(packet, |packet, cx| {
            let out = &mut |event| face.act(event, counts, cx);
            self.resolver.hold(key, packet, now, out);
        });
    }

    /// Learns from a message of the link.
    fn listen(&mut self, packet: Packet, cx: &mut Cx) {
        let Some(received) = nd::received(&packet) else {
            return cx.drop(packet, BAD_MESSAGE);
        };
        self.counts.responses += 1;
        match received.nd.kind() {
            wire::nd::NEIGHBOR_ADVERT => self.advertised(&received, cx),
            _ => {
                let sender = nd::of_station(received.nd.source_ether());
                if let Some(mac) = sender.filter(|_| !received.src.is_unspecified()) {
                    self.learn(received.src.octets(), mac, true, cx);
                }
            }
        }
        cx.drop(packet, LEARNED);
    }

    /// The table of RFC 4861, 7.2.5 and appendix C.
    fn advertised(&mut self, received: &Received, cx: &mut Cx) {
        let Some(target) = received.nd.target() else {
            return;
        };
        let key = target.octets();
        let Some((known, state)) = self.link.table().address(key) else {
            return;
        };
        let flags = received.nd.flags();
        let solicited = flags & wire::nd::SOLICITED != 0;
        let told = received.nd.target_ether();
        let mac = match (state, told) {
            (State::Incomplete, None) => return,
            (_, None) => known,
            (_, Some(mac)) if !mac.is_unicast() => return,
            (_, Some(mac)) => mac,
        };
        let other = state != State::Incomplete && mac != known;
        if other && flags & wire::nd::OVERRIDE == 0 {
            // Another worker that writes this entry now has equally new data.
            let _ = self.link.table().report_conflict(key);
        } else if solicited {
            let (face, counts, now) = (self.face, &mut self.counts, cx.now());
            let out = &mut |event| face.act(event, counts, cx);
            self.resolver.answered(key, mac, now, out);
        } else {
            self.learn(key, mac, false, cx);
        }
    }

    fn learn(&mut self, key: Key6, mac: EtherAddr, make: bool, cx: &mut Cx) {
        let (face, counts, now) = (self.face, &mut self.counts, cx.now());
        let out = &mut |event| face.act(event, counts, cx);
        self.resolver.learn(key, mac, make, now, out);
    }

    fn tick(&mut self, cx: &mut Cx) {
        let (face, counts, now) = (self.face, &mut self.counts, cx.now());
        let next = self
            .resolver
            .tick(now, &mut |event| face.act(event, counts, cx));
        if let Some(at) = next {
            cx.set_timer(at);
        }
    }
}

fn timing(args: &mut Args) -> Timing {
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let seconds = Duration::from_secs;
    Timing {
        reachable: nanos(args.key(
            "REACHABLE",
            seconds(30),
            "time for which a confirmation is valid",
        )),
        retry: nanos(args.key("RETRY", seconds(1), "time between solicitations")),
        idle: nanos(args.key(
            "IDLE",
            seconds(1200),
            "time for which an unused one is remembered",
        )),
        tries: args.key("TRIES", 3, "solicitations before giving up"),
        ..Timing::default()
    }
}

impl Element for IP6NDSolicitor {
    const CONTRACT: Contract = Contract::new("IP6NDSolicitor", manual!())
        .ports(Ports::coded(
            &["in", "messages"],
            &["out", "unreachable?"],
            "h/h",
        ))
        .needs(&[Facts::IP6.and(Facts::DST6), Facts::IP6])
        .gives(&[Facts::ETHER, Facts::IP6.and(Facts::DST6)])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()])
        .carries_super_frames();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let face = Face {
            ip: args.required("IP6", "the router's link-local address"),
            ether: args.required("ETHER", "the router's Ethernet address"),
        };
        let entries: Option<Entries> = args.key_maybe("ENTRIES", "permanent neighbours");
        let bounds = Bounds {
            entries: args.capacity("CAPACITY", 8192, "neighbours in the table"),
            packets: args.capacity("WAITING", 2048, "packets that wait, over all workers"),
            packets_each: args.capacity("WAITING_EACH", 64, "packets that wait for one neighbour"),
            drop_divisor: usize::MAX,
            timing: timing(args),
            asks: neighbour::asks(args),
        };
        Config {
            face,
            entries: entries.unwrap_or_else(Entries::stand_in),
            link: Arc::new(Link::new(bounds, crate::secret(cfg!(test)))),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IP6NDSolicitor {
        for (ip, ether) in &config.entries.0 {
            // If the table is too small for all, the rest are solicited again.
            let _ = config.link.table().set_permanent(ip.octets(), *ether, 0);
        }
        IP6NDSolicitor {
            face: config.face,
            link: Arc::clone(&config.link),
            resolver: Resolver::new(&config.link, init.workers),
            counts: Counts::default(),
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        if input == 0 {
            self.deliver_all(batch, cx);
        } else {
            for packet in batch.drain() {
                self.listen(packet, cx);
            }
        }
        self.tick(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.tick(cx);
    }

    fn held(&self) -> usize {
        self.resolver.held()
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.link = Link::inherit(&config.link, &old.link);
    }

    fn take(&mut self, old: IP6NDSolicitor) {
        if self.face.ether != old.face.ether {
            // The interface has changed: solicitations find the neighbours there.
            self.link.clear(false);
        }
        self.resolver.take(old.resolver);
        self.counts = old.counts;
    }

    const HANDLERS: &'static [Handler<IP6NDSolicitor>] = &[
        Handler::shared(
            "table",
            "neighbours, one per line: address, Ethernet address, state, seconds since confirmed",
            |config: &Config, _| Ok(table(config)),
        ),
        Handler::shared("count", "neighbours in the table", |config: &Config, _| {
            Ok(config.link.table().len().to_string())
        }),
        Handler::action(
            "insert",
            "an IPv6 and an Ethernet address: adds a permanent neighbour",
            insert,
        ),
        Handler::action("delete", "an IPv6 address: forgets this neighbour", delete),
        Handler::action(
            "clear",
            "forgets all neighbours, with `all` also permanent ones",
            |config: &Config, value| {
                config.link.clear(value.trim() == "all");
                Ok(String::new())
            },
        ),
        Handler::sum("length", "packets that wait", |e| e.resolver.held() as u64),
        Handler::sum("queries", "solicitations sent", |e| e.counts.queries),
        Handler::sum("responses", "messages accepted", |e| e.counts.responses),
        Handler::sum(
            "no_buffer",
            "solicitations not sent because there was no free buffer",
            |e| e.counts.no_buffer,
        ),
    ];
}

impl Resources for IP6NDSolicitor {
    fn memory(config: &Config) -> usize {
        config.link.memory()
    }
}

fn table(config: &Config) -> String {
    let mut all = config.link.entries();
    all.sort_by_key(|(key, ..)| *key);
    let line = |(key, neighbour, age): &(Key6, tables::neighbours::Neighbour, Duration)| {
        let ip = Ipv6Addr::from(*key);
        let mac = neighbour.known().map_or("-".to_owned(), |m| m.to_string());
        let state = format!("{:?}", neighbour.state).to_lowercase();
        format!("{ip} {mac} {state} {}\n", age.as_secs())
    };
    all.iter().map(line).collect()
}

fn insert(config: &Config, value: &str) -> Result<String, String> {
    let Entries(entries) = arguments::units::parse(value)?;
    for (ip, ether) in entries {
        let table = config.link.table();
        table
            .set_permanent(ip.octets(), ether, 0)
            .map_err(|why| format!("no room for {ip}: {why:?}"))?;
    }
    Ok(String::new())
}

fn delete(config: &Config, value: &str) -> Result<String, String> {
    let ip: Ipv6Addr = arguments::units::parse(value)?;
    match config.link.table().remove(ip.octets()) {
        Ok(true) => Ok(String::new()),
        Ok(false) => Err(format!("{ip} is not in the table")),
        Err(why) => Err(format!("{ip} cannot be removed now: {why:?}")),
    }
}

#[cfg(test)]
mod tests;
