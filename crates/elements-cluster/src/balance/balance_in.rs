//! Sends frames from outside to the back ends of a balancer.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01, r2 02:00:00:00:00:02, OWN 10.0.1.1);
//! FromDevice(null:64) -> in :: BalanceIn(lb) -> ToDevice(null:);
//! in[1] -> Discard;
//! ```
//!
//! The destination address of an IP packet's frame becomes that of a back end; nothing else changes. BalancePool
//! defines the choice of a back end. Multicast and broadcast frames go to the back end that speaks for the router.
//!
//! The last output gets frames that carry no IP, such as ARP (see BalanceARP), and neighbour discovery (see
//! BalanceND). A priority tag (802.1Q with VLAN 0) is removed. All outputs before the last are back ports. If there
//! are several, flows are spread over them, or packets take them in turn with `ALGORITHM round-robin`. Their switch
//! must treat them as one port (static link aggregation), because it sees the addresses of stations on all.
//!
//! With OUT, BalanceIn records in BalanceOut the front port of each station. It then drops frames with the source
//! address of the balancer or of a back end (`spoofed`), so that no station outside can take their place on the
//! switch. Other drops: `other` (a frame for another station), `own` (a packet to the router itself, and no back end
//! speaks for it), `no_backend` (no back end is up), `owner_down` (see OWNS), `inside` (see INSIDE), `malformed` (no
//! IP packet), and `not_ip` if there is only one output.
//!
//! Arguments:
//!
//! - `POOL`: the BalancePool.
//! - `ETHER`: the router's address on this port; frames for others are dropped. Default: all frames are taken, as
//!   after elements that have already checked them.
//!
//! Keyword arguments:
//!
//! - `OUT`: the BalanceOut of the other direction.
//! - `FRONT`: the output of OUT that leads to this port. Default 0.
//! - `CLASS`: the class of all packets that arrive here, by its place in CLASSES of the pool from 1 on. PCPSwitch can
//!   send the frames of a VLAN priority here. Default: by the DSCP.
//! - `OUTSIDE`: true if hosts outside are on this port, for `KEY outside`. Default false.

use super::balance_out::Out;
use super::heads::Heads;
use super::key::Key;
use super::shared::{INSIDE, SPEAKER, Shared};
use super::stations::{Learnt, tick};
use super::{Head, Peer, arrived, is_discovery};
use crate::prelude::*;
use crate::sides::{Sides, Step};
use cluster::balance::{NOBODY, TURNS, Table};
use elements::ether::priority::remove_priority_tag;
use engine::element::Annotates;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use wire::{EtherAddr, ether};

drops! {
    OTHER = "other",
    OWN = "own",
    NO_BACKEND = "no_backend",
    OWNER_DOWN = "owner_down",
    INSIDE_DROP = "inside",
    MALFORMED = "malformed",
    SPOOFED = "spoofed",
    NOT_IP = "not_ip",
}

/// Stand-in for the router's own address if all frames are accepted; no host has this address.
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
    look: Look,
    sides: Sides,
    choice: Choice,
    /// For each output, true if packets must get annotations when they leave.
    annotates: Box<[bool]>,
}

/// Fast path on which most packets find their back end.
enum Choice {
    InTurn,
    ByFlow,
    /// By class, flow or load.
    ByAll,
}

/// Per-worker state of one port.
struct Look {
    /// Ethernet address of the router on this port, or [`ANY`].
    own: u64,
    out: Option<Arc<Out>>,
    front: u8,
    /// Traffic class, by DSCP.
    class_of: [u8; 64],
    outside: bool,
    /// Number of back ports, at least 1.
    backs: u16,
    /// True if the element has an output for frames that are not IP.
    has_rest: bool,
    /// Number of packets distributed round robin.
    count: u32,
    /// Back port of the next packet sent round robin.
    back: u8,
    /// Headers of IPv4 frames to the router, from senders already in OUT's table.
    heads: Heads,
    /// Headers of frames of any type, from senders already in OUT's table.
    told: Heads,
    not_learnt: u64,
}

impl Element for BalanceIn {
    const CONTRACT: Contract = Contract::new("BalanceIn", manual!())
        .ports(Ports::coded(&["in"], &["back+"], "h/h"))
        .needs(&[Facts::ETHER])
        .drops(DROPS)
        .extensions(&[&Annotates])
        .carries_super_frames()
        .ignores_annotations();

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
            outside: args.key("OUTSIDE", false, "true if hosts outside are on this port"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> BalanceIn {
        let shared = config.pool.shared(init);
        BalanceIn {
            choice: match shared.in_turn {
                _ if shared.by_load || !shared.pool.has_one_class() => Choice::ByAll,
                true => Choice::InTurn,
                false => Choice::ByFlow,
            },
            sides: Sides::new(init.outputs),
            annotates: (0..init.outputs).map(|out| init.annotates(out)).collect(),
            look: Look {
                class_of: config.class.map_or(shared.class_of, |class| [class; 64]),
                own: config.ether.map_or(ANY, EtherAddr::to_u64),
                out: config.out.find(init),
                front: config.front,
                outside: config.outside,
                backs: (init.outputs as u16 - 1).max(1),
                has_rest: init.outputs > 1,
                count: init.worker as u32,
                back: 0,
                heads: Heads::new(config.ether),
                told: Heads::new(None),
                not_learnt: 0,
            },
            shared,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let now = cx.now().0;
        let (look, shared) = (&mut self.look, &*self.shared);
        look.heads.follow(now);
        look.told.follow(now);
        let annotates = &self.annotates;
        let leave = |output, batch: &mut Batch, cx: &Cx| arrived(annotates, output, batch, cx);
        let (each, sides) = (Batch::iter_of_same_length, &mut self.sides);
        match self.choice {
            Choice::InTurn if look.backs == 1 => {
                let step = InTurn::<false>::new(look, shared, now);
                sides.part(batch, each, cx, step, leave);
            }
            Choice::InTurn => {
                let step = InTurn::<true>::new(look, shared, now);
                sides.part(batch, each, cx, step, leave);
            }
            Choice::ByFlow if look.backs == 1 && shared.sorter.key == Key::Symmetric => {
                let step = ByFlow::<true>::new(look, shared, now);
                sides.part(batch, each, cx, step, leave);
            }
            Choice::ByFlow => {
                let step = ByFlow::<false>::new(look, shared, now);
                sides.part(batch, each, cx, step, leave);
            }
            Choice::ByAll => {
                let step = |packet: &mut Packet, _: &Cx| look.pass(packet, shared, now);
                sides.part(batch, each, cx, step, leave);
            }
        }
    }

    fn take(&mut self, old: BalanceIn) {
        self.look.count = old.look.count;
    }

    const HANDLERS: &'static [Handler<BalanceIn>] = &[counter!(
        "not_learnt",
        "times that a station found no room in the table of OUT",
        look.not_learnt
    )];
}

/// Number of bytes read on the fast path: Ethernet header, and IPv4 header with ports.
const HEAD: usize = ether::LEN + 24;

/// Distributes packets round robin; `MANY` is true with several back ports.
struct InTurn<'a, const MANY: bool> {
    look: &'a mut Look,
    shared: &'a Shared,
    turns: &'a [AtomicU16; TURNS],
    now: u64,
}

impl<'a, const MANY: bool> InTurn<'a, MANY> {
    #[inline]
    fn new(look: &'a mut Look, shared: &'a Shared, now: u64) -> Self {
        InTurn {
            look,
            shared,
            turns: shared.pool.turns(0),
            now,
        }
    }
}

impl<const MANY: bool> Step for InTurn<'_, MANY> {
    #[inline(always)]
    fn fast(&mut self, packet: &mut Packet, _: &Cx) -> Option<Verdict> {
        let head = packet.data_mut().first_chunk_mut::<HEAD>()?;
        if !self.look.heads.has(head) || self.shared.owners4.is_near(block(head)) {
            return None;
        }
        let count = self.look.count;
        let backend = self.turns[count as usize % TURNS].load(Relaxed);
        let ether = self.shared.ethers.get(usize::from(backend))?;
        self.look.count = count.wrapping_add(1);
        head[..6].copy_from_slice(&ether.0);
        Some(match MANY {
            true => Verdict::out(self.look.next_back()),
            false => Verdict::ON,
        })
    }

    fn slow(&mut self, packet: &mut Packet, _: &Cx) -> Verdict {
        self.look.pass(packet, self.shared, self.now)
    }
}

/// Distributes packets by their flows; `USUAL` is true with one back port and the symmetric key.
struct ByFlow<'a, const USUAL: bool> {
    look: &'a mut Look,
    shared: &'a Shared,
    table: &'a Table,
    now: u64,
}

impl<'a, const USUAL: bool> ByFlow<'a, USUAL> {
    #[inline]
    fn new(look: &'a mut Look, shared: &'a Shared, now: u64) -> Self {
        ByFlow {
            look,
            shared,
            table: shared.pool.table(0),
            now,
        }
    }
}

impl<const USUAL: bool> Step for ByFlow<'_, USUAL> {
    #[inline(always)]
    fn fast(&mut self, packet: &mut Packet, _: &Cx) -> Option<Verdict> {
        let head = packet.data_mut().first_chunk_mut::<HEAD>()?;
        if !self.look.heads.has(head) || self.shared.owners4.is_near(block(head)) {
            return None;
        }
        let ip = head.last_chunk()?;
        let sorter = &self.shared.sorter;
        let bucket = match USUAL {
            true => sorter.symmetric4(ip)?,
            false => sorter.plain4(ip, self.look.outside)?,
        };
        let backend = self.table.settled(bucket)?;
        let ether = self.shared.ethers.get(usize::from(backend))?;
        head[..6].copy_from_slice(&ether.0);
        Some(match USUAL {
            true => Verdict::ON,
            false => Verdict::out(self.look.back_of(bucket)),
        })
    }

    fn slow(&mut self, packet: &mut Packet, _: &Cx) -> Verdict {
        self.look.pass(packet, self.shared, self.now)
    }
}

/// First two bytes of a packet's IPv4 destination.
#[inline(always)]
fn block(head: &[u8; HEAD]) -> [u8; 2] {
    const AT: usize = ether::LEN + 16;
    [head[AT], head[AT + 1]]
}

impl Look {
    /// Slow path: examines the whole frame, and writes its back end's address as destination.
    #[inline(never)] // so that the loops over a batch have their registers
    fn pass(&mut self, packet: &mut Packet, shared: &Shared, now: u64) -> Verdict {
        if packet.data().get(12..14) == Some(&ether::VLAN.to_be_bytes()) {
            remove_priority_tag(packet, 0);
        }
        let Some(bytes) = packet.data().first_chunk() else {
            return Verdict::drop(MALFORMED);
        };
        let head = Head::new(bytes);
        let is_for_router = head.to == self.own || self.own == ANY;
        if !self.told.has(bytes) {
            match self.tell(EtherAddr::from_u64(head.from), shared, now) {
                None => return Verdict::drop(SPOOFED),
                Some(true) => {
                    self.told.note(bytes);
                    if is_for_router && head.kind == ether::IPV4 {
                        self.heads.note(bytes);
                    }
                }
                Some(false) => {}
            }
        }
        let payload = &packet.data()[ether::LEN..];
        let chosen = match is_for_router && head.kind == ether::IPV4 {
            true => self.four(payload, shared, now),
            false => self.other(&head, payload, shared, now),
        };
        let (number, back) = match chosen {
            Ok(chosen) => chosen,
            Err(verdict) => return verdict,
        };
        let Some(ether) = shared.ethers.get(usize::from(number)) else {
            return Verdict::drop(match head.is_for_group() {
                true => OWN,
                false => NO_BACKEND,
            });
        };
        if shared.by_load {
            shared.pool.carry(number, packet.len() as u64);
        }
        if let Some(destination) = packet.data_mut().first_chunk_mut() {
            *destination = ether.0;
        }
        Verdict::out(back)
    }

    /// Adds a frame's sender to OUT's table. Returns true if the table contains the sender, `None` if the address is
    /// spoofed.
    fn tell(&mut self, station: EtherAddr, shared: &Shared, now: u64) -> Option<bool> {
        let Some(out) = &self.out else {
            return Some(true);
        };
        if !station.is_unicast() || shared.at(station).is_some() || out.is_own(station) {
            return None;
        }
        match out.stations.learn(station, self.front, tick(now)) {
            Learnt::Full => {
                self.not_learnt += 1;
                Some(false)
            }
            _ => Some(true),
        }
    }

    /// Back port of the next packet, round robin.
    #[inline(always)]
    fn next_back(&mut self) -> u8 {
        let back = self.back;
        self.back = match u16::from(back) + 1 == self.backs {
            true => 0,
            false => back + 1,
        };
        back
    }

    /// Back port of a bucket.
    #[inline(always)]
    fn back_of(&self, bucket: u16) -> u8 {
        ((u32::from(bucket) * u32::from(self.backs)) >> u16::BITS) as u8
    }

    /// Back end and back port of an IPv4 packet.
    #[inline]
    fn four(&mut self, packet: &[u8], shared: &Shared, now: u64) -> Result<(u16, u8), Verdict> {
        let Some(ip) = packet.first_chunk::<20>() else {
            return Err(Verdict::drop(MALFORMED));
        };
        let class = self.class_of[usize::from(ip[1] >> 2)];
        let to = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        if let Some(owner) = shared.owners4.owner(to) {
            return Ok((owned(owner, shared)?, 0));
        }
        if shared.in_turn {
            return Ok(self.in_turn(class, shared));
        }
        let bucket = shared.sorter.bucket4(packet, self.outside, now);
        let bucket = bucket.ok_or(Verdict::drop(MALFORMED))?;
        Ok((shared.pool.owner(class, bucket, now), self.back_of(bucket)))
    }

    /// Back end and back port of any frame but IPv4 frames to the router.
    fn other(
        &mut self,
        head: &Head,
        packet: &[u8],
        shared: &Shared,
        now: u64,
    ) -> Result<(u16, u8), Verdict> {
        let is_for_router = head.to == self.own || self.own == ANY;
        if !is_for_router && !head.is_for_group() {
            return Err(Verdict::drop(OTHER));
        }
        match head.kind {
            ether::IPV6 if self.has_rest && is_discovery(packet) => {
                Err(Verdict::out(self.backs as u8))
            }
            ether::IPV4 | ether::IPV6 if !is_for_router => Ok((shared.pool.speaker(), 0)),
            ether::IPV6 => self.six(packet, shared, now),
            _ if self.has_rest => Err(Verdict::out(self.backs as u8)),
            _ => Err(Verdict::drop(NOT_IP)),
        }
    }

    /// Back end and back port of the next packet, round robin.
    #[inline]
    fn in_turn(&mut self, class: u8, shared: &Shared) -> (u16, u8) {
        let count = self.count;
        self.count = count.wrapping_add(1);
        (shared.pool.turn(class, count), self.next_back())
    }

    fn six(&mut self, packet: &[u8], shared: &Shared, now: u64) -> Result<(u16, u8), Verdict> {
        let Some(ip) = packet.first_chunk::<40>() else {
            return Err(Verdict::drop(MALFORMED));
        };
        let dscp = (ip[0] << 4 | ip[1] >> 4) >> 2;
        let class = self.class_of[usize::from(dscp)];
        let mut to = [0; 16];
        to.copy_from_slice(&ip[24..40]);
        if let Some(owner) = shared.owners6.owner(u128::from_be_bytes(to)) {
            return Ok((owned(owner, shared)?, 0));
        }
        if shared.in_turn {
            return Ok(self.in_turn(class, shared));
        }
        let bucket = shared.sorter.bucket6(packet, self.outside, now);
        let bucket = bucket.ok_or(Verdict::drop(MALFORMED))?;
        Ok((shared.pool.owner(class, bucket, now), self.back_of(bucket)))
    }
}

/// Back end that receives packets to an owner's addresses. The error is the verdict if there is none.
#[cold]
fn owned(owner: u16, shared: &Shared) -> Result<u16, Verdict> {
    match owner {
        SPEAKER => match shared.pool.speaker() {
            NOBODY => Err(Verdict::drop(OWN)),
            speaker => Ok(speaker),
        },
        INSIDE => Err(Verdict::drop(INSIDE_DROP)),
        owner if shared.pool.up(owner) => Ok(owner),
        _ => Err(Verdict::drop(OWNER_DOWN)),
    }
}

#[cfg(test)]
#[path = "balance_in_tests.rs"]
mod tests;
