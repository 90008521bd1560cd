//! Sends frames from outside to the back ends of a balancer.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01, r2 02:00:00:00:00:02, OWN 10.0.1.1);
//! FromDevice(null:64) -> in :: BalanceIn(lb) -> ToDevice(null:);
//! in[1] -> Discard;
//! ```
//!
//! The destination address of an IP packet's frame becomes that of a back end; nothing else changes. BalancePool says
//! how a back end is chosen. Frames for groups go to the back end that speaks for the router.
//!
//! The last output gets frames that carry no IP, such as ARP (see BalanceARP), and neighbour discovery
//! (see BalanceND). All outputs before it are back ports. If
//! there are several, flows are spread over them, or packets take them in turn with `ALGORITHM round-robin`. Their
//! switch must take them for one port (static link aggregation), because it sees the addresses of stations on all.
//!
//! With OUT, BalanceIn tells BalanceOut where stations are. It then drops frames that come from an address of the
//! balancer or of a back end (`spoofed`), so that nobody outside can take their place on the switch. Other drops:
//! `other` (a frame for another station), `own` (a packet to the router itself, and no back end speaks for it),
//! `no_backend` (no back end is up), `owner_down` (see OWNS), `inside` (see INSIDE), `malformed` (no IP packet), and
//! `not_ip` if there is only one output.
//!
//! Arguments:
//!
//! - `POOL`: the BalancePool.
//! - `ETHER`: the router's address on this port; frames for others are dropped. Default: all frames are taken, as behind
//!   a graph that has looked at them already.
//!
//! Keyword arguments:
//!
//! - `OUT`: the BalanceOut on the way back.
//! - `FRONT`: the output of OUT that leads to this port. Default 0.
//! - `CLASS`: the class of all packets that come here, by its place in CLASSES of the pool from 1 on, such as for frames of a VLAN
//!   priority that PCPSwitch sends here. Default: by the DSCP.
//! - `OUTSIDE`: true if hosts outside are on this port, for `KEY outside`. Default false.

use super::balance_out::Out;
use super::lanes::Lanes;
use super::shared::{INSIDE, SPEAKER, Shared};
use super::stations::{Learnt, tick};
use super::{Head, Peer, is_discovery};
use crate::prelude::*;
use cluster::balance::NOBODY;
use wire::{EtherAddr, ether};

const OTHER: u8 = 0;
const OWN: u8 = 1;
const NO_BACKEND: u8 = 2;
const OWNER_DOWN: u8 = 3;
const INSIDE_DROP: u8 = 4;
const MALFORMED: u8 = 5;
const SPOOFED: u8 = 6;
const NOT_IP: u8 = 7;

/// Stations that a worker has told of lately. They are told of again in each tick.
const TOLD: usize = 1 << TOLD_BITS;
const TOLD_BITS: u32 = 8;
/// The router's own address where all frames are taken: no station has it.
const ANY: u64 = u64::MAX;

pub(super) struct Config {
    pool: Peer,
    ether: Option<EtherAddr>,
    out: Peer,
    front: u8,
    class: Option<u8>,
    outside: bool,
}

pub(super) struct BalanceIn {
    shared: Arc<Shared>,
    /// The router's address on this port, or [`ANY`].
    own: u64,
    out: Option<Arc<Out>>,
    front: u8,
    /// By DSCP.
    class_of: [u8; 64],
    outside: bool,
    /// Number of back ports, 1 at least.
    backs: u16,
    /// True if there is an output for what is no IP.
    has_rest: bool,
    /// Packets that were sent in turn.
    count: u32,
    /// Where there are several back ports, packets by output.
    lanes: Lanes,
    told: Box<[u64; TOLD]>,
    not_learnt: u64,
}

impl Element for BalanceIn {
    const CLASS: &'static str = "BalanceIn";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["back+"], "h/h");
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const DROPS: &'static [&'static str] = &[
        "other",
        "own",
        "no_backend",
        "owner_down",
        "inside",
        "malformed",
        "spoofed",
        "not_ip",
    ];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let pool = Peer::pool(args);
        let ether = args.maybe("ETHER", "the router's address on this port");
        let out: Option<String> = args.key_maybe("OUT", "the BalanceOut on the way back");
        let class: Option<u8> = args.key_maybe("CLASS", "the class of all packets that come here");
        let classes = pool.classes(args);
        if let Some(class) = class.filter(|class| !(1..=classes).contains(&usize::from(*class))) {
            args.error_in_whole(
                format!("there is no CLASS {class}"),
                match classes {
                    0 => "give the BalancePool CLASSES, or leave it out".to_owned(),
                    _ => format!("the BalancePool has classes 1 to {classes}"),
                },
            );
        }
        Config {
            class,
            pool,
            ether,
            out: out
                .map(|name| Peer::named(args, &name, "BalanceOut"))
                .unwrap_or_default(),
            front: args.key_in(
                "FRONT",
                0,
                0..=super::FRONTS_MAX as u8 - 1,
                "the output of OUT that leads to this port",
            ),
            outside: args.key("OUTSIDE", false, "whether hosts outside are on this port"),
        }
    }

    fn carries_super_frames(_: &Config) -> bool {
        true
    }

    fn new(config: &Arc<Config>, init: &Init) -> BalanceIn {
        let shared = config.pool.shared(init);
        BalanceIn {
            class_of: config.class.map_or(shared.class_of, |class| [class; 64]),
            shared,
            own: config.ether.map_or(ANY, EtherAddr::to_u64),
            out: config.out.find(init),
            front: config.front,
            outside: config.outside,
            backs: (init.outputs as u16 - 1).max(1),
            has_rest: init.outputs > 1,
            count: init.worker as u32,
            lanes: Lanes::new(init.outputs),
            told: Box::new([0; TOLD]),
            not_learnt: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.backs == 1 {
            return cx.sort(batch, |packet, cx| self.step(packet, cx));
        }
        for mut packet in batch.drain() {
            let verdict = self.step(&mut packet, cx);
            if let Some(reason) = verdict.reason() {
                cx.drop(packet, reason);
            } else if let Some(packet) = self.lanes.push(verdict.port(), packet) {
                cx.emit(verdict.port(), packet);
            }
        }
        self.lanes.send(batch, cx);
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let now = cx.now().0;
        let Some(head) = packet.data().first_chunk() else {
            return Verdict::drop(MALFORMED);
        };
        let head = Head::new(head);
        if self.out.is_some() && !self.has_told(head.from, now) {
            return Verdict::drop(SPOOFED);
        }
        let is_for_router = head.to == self.own || self.own == ANY;
        let chosen = match is_for_router && head.kind == ether::IPV4 {
            true => self.four(&packet.data()[ether::LEN..], now),
            false => self.other(&head, &packet.data()[ether::LEN..], now),
        };
        let (backend, hash) = match chosen {
            Ok(chosen) => chosen,
            Err(verdict) => return verdict,
        };
        let number = backend;
        let Some(backend) = self.shared.backends.get(usize::from(number)) else {
            return Verdict::drop(match head.is_for_group() {
                true => OWN,
                false => NO_BACKEND,
            });
        };
        let ether = backend.ether;
        if self.shared.by_load {
            self.shared.pool.carry(number, packet.len() as u64);
        }
        if let Some(destination) = packet.data_mut().first_chunk_mut::<6>() {
            *destination = ether.0;
        }
        match self.backs {
            1 => Verdict::ON,
            backs => Verdict::out((hash % backs) as u8),
        }
    }

    fn take(&mut self, old: BalanceIn) {
        (self.count, self.not_learnt) = (old.count, old.not_learnt);
    }

    const HANDLERS: &'static [Handler<BalanceIn>] = &[Handler::sum(
        "not_learnt",
        "times that a station found no room in the table of OUT",
        |e| e.not_learnt,
    )];
}

/// A station's place in the list of those told of.
#[inline]
fn place(station: u64) -> usize {
    (station.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - TOLD_BITS)) as usize
}

impl BalanceIn {
    /// The back end for an IPv4 packet, and a number by which its back port is chosen.
    #[inline]
    fn four(&mut self, packet: &[u8], now: u64) -> Result<(u16, u16), Verdict> {
        let Some(ip) = packet.first_chunk::<20>() else {
            return Err(Verdict::drop(MALFORMED));
        };
        let class = self.class_of[usize::from(ip[1] >> 2)];
        let to = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        if let Some(owner) = self.shared.owners4.owner(to) {
            return Ok((self.owned(owner)?, 0));
        }
        if self.shared.in_turn {
            return Ok(self.in_turn(class));
        }
        let bucket = self.shared.sorter.bucket4(packet, self.outside, now);
        let bucket = bucket.ok_or(Verdict::drop(MALFORMED))?;
        Ok((self.shared.pool.owner(class, bucket, now), bucket))
    }

    /// As [`four`](Self::four), for all other frames.
    #[inline(never)] // so that the loop over IPv4 packets has its registers
    fn other(&mut self, head: &Head, packet: &[u8], now: u64) -> Result<(u16, u16), Verdict> {
        let is_for_router = head.to == self.own || self.own == ANY;
        if !is_for_router && !head.is_for_group() {
            return Err(Verdict::drop(OTHER));
        }
        match head.kind {
            ether::IPV6 if self.has_rest && is_discovery(packet) => {
                Err(Verdict::out(self.backs as u8))
            }
            ether::IPV4 | ether::IPV6 if !is_for_router => Ok((self.shared.pool.speaker(), 0)),
            ether::IPV6 => self.six(packet, now),
            _ if self.has_rest => Err(Verdict::out(self.backs as u8)),
            _ => Err(Verdict::drop(NOT_IP)),
        }
    }

    /// The back end whose turn it is, and a number by which its back port is chosen.
    #[inline]
    fn in_turn(&mut self, class: u8) -> (u16, u16) {
        let count = self.count;
        self.count = count.wrapping_add(1);
        (self.shared.pool.turn(class, count), count as u16)
    }

    /// The back end for an address that is not anybody's.
    #[cold]
    fn owned(&self, owner: u16) -> Result<u16, Verdict> {
        match owner {
            SPEAKER => match self.shared.pool.speaker() {
                NOBODY => Err(Verdict::drop(OWN)),
                speaker => Ok(speaker),
            },
            INSIDE => Err(Verdict::drop(INSIDE_DROP)),
            owner if self.shared.pool.up(owner) => Ok(owner),
            _ => Err(Verdict::drop(OWNER_DOWN)),
        }
    }

    fn six(&mut self, packet: &[u8], now: u64) -> Result<(u16, u16), Verdict> {
        let Some(ip) = packet.first_chunk::<40>() else {
            return Err(Verdict::drop(MALFORMED));
        };
        let dscp = (ip[0] << 4 | ip[1] >> 4) >> 2;
        let class = self.class_of[usize::from(dscp)];
        let mut to = [0; 16];
        to.copy_from_slice(&ip[24..40]);
        if let Some(owner) = self.shared.owners6.owner(u128::from_be_bytes(to)) {
            return Ok((self.owned(owner)?, 0));
        }
        if self.shared.in_turn {
            return Ok(self.in_turn(class));
        }
        let bucket = self.shared.sorter.bucket6(packet, self.outside, now);
        let bucket = bucket.ok_or(Verdict::drop(MALFORMED))?;
        Ok((self.shared.pool.owner(class, bucket, now), bucket))
    }

    /// Tells the way back where a station is. False if the station pretends to be another.
    #[inline]
    fn has_told(&mut self, station: u64, now: u64) -> bool {
        let tick = tick(now);
        // Odd, so that it is none that the list begins with.
        let entry = station << 16 | u64::from(tick as u16 | 1);
        match self.told[place(station)] == entry {
            true => true,
            false => self.tell(EtherAddr::from_u64(station), tick, entry),
        }
    }

    #[cold]
    fn tell(&mut self, station: EtherAddr, tick: u32, entry: u64) -> bool {
        let Some(out) = &self.out else {
            return true;
        };
        if !station.is_unicast() || self.shared.at(station).is_some() || out.is_own(station) {
            return false;
        }
        match out.stations.learn(station, self.front, tick) {
            Learnt::Full => self.not_learnt += 1,
            _ => self.told[place(station.to_u64())] = entry,
        }
        true
    }
}

#[cfg(test)]
#[path = "balance_in_tests.rs"]
mod tests;
