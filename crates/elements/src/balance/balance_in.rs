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
//! - `OUTSIDE`: true if hosts outside are on this port, for `KEY outside`. Default false.

use super::balance_out::Out;
use super::shared::{INSIDE, SPEAKER, Shared};
use super::stations::{Learnt, tick};
use super::{Peer, is_discovery, key_bits};
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
const TOLD: usize = 256;

pub(super) struct Config {
    pool: Peer,
    ether: Option<EtherAddr>,
    out: Peer,
    front: u8,
    outside: bool,
}

pub(super) struct BalanceIn {
    shared: Arc<Shared>,
    ether: Option<EtherAddr>,
    out: Option<Arc<Out>>,
    front: u8,
    outside: bool,
    /// Number of back ports, 1 at least.
    backs: u16,
    /// True if there is an output for what is no IP.
    has_rest: bool,
    /// Packets that were sent in turn.
    count: u32,
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
        Config {
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
        BalanceIn {
            shared: config.pool.shared(init),
            ether: config.ether,
            out: config.out.find(init),
            front: config.front,
            outside: config.outside,
            backs: (init.outputs as u16 - 1).max(1),
            has_rest: init.outputs > 1,
            count: init.worker as u32,
            told: Box::new([0; TOLD]),
            not_learnt: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let now = cx.now().0;
        let Some(head) = packet.data().first_chunk::<{ ether::LEN }>() else {
            return Verdict::drop(MALFORMED);
        };
        let (to, from, kind) = addresses(head);
        if self.out.is_some() && !self.has_told(from, now) {
            return Verdict::drop(SPOOFED);
        }
        let is_mine = self.ether.is_none_or(|own| own == to);
        if !is_mine && !to.is_group() {
            return Verdict::drop(OTHER);
        }
        let data = packet.data();
        let (backend, hash) = match kind {
            ether::IPV6 if self.has_rest && is_discovery(&data[ether::LEN..]) => {
                return Verdict::out(self.backs as u8);
            }
            ether::IPV4 | ether::IPV6 if to.is_group() && self.ether.is_some() => {
                (self.shared.pool.speaker(), 0)
            }
            ether::IPV4 => {
                let Some(ip) = data[ether::LEN..].first_chunk::<20>() else {
                    return Verdict::drop(MALFORMED);
                };
                let class = self.shared.class_of[usize::from(ip[1] >> 2)];
                let to = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
                match self.shared.owners4.owner(to) {
                    Some(owner) => match self.owned(owner) {
                        Ok(backend) => (backend, 0),
                        Err(verdict) => return verdict,
                    },
                    None if self.shared.in_turn => self.in_turn(class),
                    None => {
                        let bucket =
                            self.shared
                                .sorter
                                .bucket4(&data[ether::LEN..], self.outside, now);
                        let Some(bucket) = bucket else {
                            return Verdict::drop(MALFORMED);
                        };
                        (self.shared.pool.owner(class, bucket, now), bucket)
                    }
                }
            }
            ether::IPV6 => match self.six(&data[ether::LEN..], now) {
                Ok(chosen) => chosen,
                Err(verdict) => return verdict,
            },
            _ if self.has_rest => return Verdict::out(self.backs as u8),
            _ => return Verdict::drop(NOT_IP),
        };
        let number = backend;
        let Some(backend) = self.shared.backends.get(usize::from(number)) else {
            return Verdict::drop(if number == NOBODY && to.is_group() {
                OWN
            } else {
                NO_BACKEND
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

/// Destination, source and type of a header.
#[inline]
fn addresses(head: &[u8; ether::LEN]) -> (EtherAddr, EtherAddr, u16) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = *head;
    (
        EtherAddr([a, b, c, d, e, f]),
        EtherAddr([g, h, i, j, k, l]),
        u16::from_be_bytes([m, n]),
    )
}

impl BalanceIn {
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
        let class = self.shared.class_of[usize::from(dscp)];
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
    fn has_told(&mut self, station: EtherAddr, now: u64) -> bool {
        let tick = tick(now);
        // Odd, so that it is none that the list begins with.
        let entry = station.to_u64() << 16 | u64::from(tick as u16 | 1);
        match self.told[key_bits(station)] == entry {
            true => true,
            false => self.tell(station, tick, entry),
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
            _ => self.told[key_bits(station)] = entry,
        }
        true
    }
}

#[cfg(test)]
#[path = "balance_in_tests.rs"]
mod tests;
