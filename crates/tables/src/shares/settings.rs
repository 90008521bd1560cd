//! Settings, counts and errors of a hierarchy of shares, and the quantum and ceiling of a node.

use crate::codel::CodelParameters;
use std::collections::HashMap;

/// Time is counted in 1/16 ns.
pub(super) const TICKS: u64 = 16;
/// Fractional bits of the time per byte.
const FRACTION_BITS: u32 = 16;
const SECOND: u64 = 1_000_000_000;

/// Greatest ratio between the rates of siblings: in a round the greatest sends this many times as much as the least.
pub const RATIO_MAX: u64 = 1000;
/// Maximum number of queues of all subscribers together, which takes one GiB.
pub const QUEUES_MAX: usize = 1 << 23;
/// Maximum number of ceilings: nodes with the same rate and the same ceiling share one.
pub const CEILINGS_MAX: usize = 1 << 16;
/// Maximum number of packets.
pub const CAPACITY_MAX: usize = 1 << 28;

/// Settings of the whole hierarchy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rate of the link in bytes a second; `None` if the link itself pulls packets at its rate.
    pub link: Option<u64>,
    /// Length of the longest packet in bytes.
    pub mtu: u32,
    /// Time in nanoseconds for which an idle node may catch up above its ceiling; at least the duration of a turn.
    pub burst: u64,
    /// Maximum number of packets in all queues.
    pub capacity: usize,
    /// Maximum number of packets in a queue.
    pub limit: usize,
    /// CoDel's parameters for all queues; `None` for no CoDel.
    pub codel: Option<CodelParameters>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            link: None,
            mtu: 1500,
            burst: 2_000_000,
            capacity: 1 << 16,
            limit: 1000,
            codel: None,
        }
    }
}

/// Share of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Weight relative to its siblings': their rates in bytes a second, if these add up to no more than the parent's.
    pub rate: u64,
    /// Maximum rate, in bytes per second; `None`: no ceiling.
    pub ceiling: Option<u64>,
}

/// Error: rates of siblings differ too much or are 0, or there are too many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The rates of the groups are 0 or differ too much.
    Groups,
    /// The rates of the subscribers of this group are 0 or differ too much.
    Subscribers(usize),
    /// The rates of the classes are 0 or differ too much.
    Classes,
    /// There are too many different ceilings.
    Ceilings,
    /// There are more than [`QUEUES_MAX`] queues.
    Queues,
}

/// Reason why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The queue is full.
    Queue,
    /// Memory is short: the queue is as long as the room left for all others.
    Memory,
}

/// Counters of a queue, or sums over the queues of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of packets that were sent.
    pub packets: u64,
    /// Number of bytes that were sent.
    pub bytes: u64,
    /// Number of waiting packets.
    pub held: u64,
    /// Number of packets dropped for lack of room.
    pub full: u64,
    /// Number of packets that CoDel dropped.
    pub delay: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.held += other.held;
        self.full += other.full;
        self.delay += other.delay;
    }
}

/// A ceiling: ticks per byte, with [`FRACTION_BITS`] fractional bits, and ticks of the burst.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ceiling {
    byte: u64,
    burst: u64,
}

impl Ceiling {
    const NONE: Ceiling = Ceiling { byte: 0, burst: 0 };

    /// Makes a ceiling. Its burst is at least one turn of the node, because a smaller burst would hold the node below
    /// its share.
    fn new(rate: u64, burst: u64, quantum: u32, mtu: u32) -> Ceiling {
        let byte = ((TICKS * SECOND) << FRACTION_BITS) / rate.max(1);
        let turn = byte.saturating_mul(u64::from(quantum) + u64::from(mtu)) >> FRACTION_BITS;
        let burst = burst.saturating_mul(TICKS).max(turn);
        Ceiling { byte, burst }
    }

    /// Time of the next packet, after `bytes` were sent at `now`.
    #[inline]
    pub(super) fn charge(self, due: u64, now: u64, bytes: u32) -> u64 {
        let time = self.byte.saturating_mul(bytes.into()) >> FRACTION_BITS;
        due.max(now.saturating_sub(self.burst)).saturating_add(time)
    }
}

/// All distinct ceilings.
pub(super) struct Ceilings {
    pub(super) all: Vec<Ceiling>,
    known: HashMap<Ceiling, u16>,
}

impl Ceilings {
    pub(super) fn new() -> Ceilings {
        Ceilings {
            all: vec![Ceiling::NONE],
            known: HashMap::new(),
        }
    }

    /// Index of a ceiling, which is added if it is new; `None` if there are too many.
    pub(super) fn number(
        &mut self,
        settings: &Settings,
        rate: Option<u64>,
        quantum: u32,
    ) -> Option<u16> {
        let Some(rate) = rate else { return Some(0) };
        let ceiling = Ceiling::new(rate, settings.burst, quantum, settings.mtu);
        if let Some(number) = self.known.get(&ceiling) {
            return Some(*number);
        }
        let number = u16::try_from(self.all.len()).ok()?;
        self.all.push(ceiling);
        self.known.insert(ceiling, number);
        Some(number)
    }
}

/// The quantum of each sibling, such that the lowest rate gets one packet; `None` if the rates differ too much.
pub(super) fn quanta(rates: &[u64], mtu: u32) -> Option<Vec<u32>> {
    let least = rates.iter().copied().min().unwrap_or(1);
    let quantum = |&rate: &u64| {
        let even = least > 0 && rate / least <= RATIO_MAX;
        even.then(|| (u128::from(rate) * u128::from(mtu) / u128::from(least)) as u32)
    };
    rates.iter().map(quantum).collect()
}
