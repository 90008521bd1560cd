//! Report of a run.

use super::config::Failure;
use crate::simulate::counters::{Histogram, Reordering};

/// Reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The balancer was dead.
    BalancerDown,
    /// The balancer's queue was full.
    BalancerFull,
    /// No back end was up.
    NoBackend,
    /// The queue of a back port was full.
    BackPortFull,
    /// The switch was dead.
    SwitchDown,
    /// The back end was dead.
    BackendDown,
    /// The back end's queue was full.
    BackendFull,
    /// Lost on the back end's cable.
    Cable,
    /// The queue of a front port was full.
    FrontPortFull,
    /// A copy for another station, which the box or host ignored.
    Other,
    /// The switch had no other port for the frame.
    NoPort,
}

impl Drop {
    /// All reasons, with their names.
    pub const ALL: [(Drop, &'static str); 11] = [
        (Drop::BalancerDown, "balancer_down"),
        (Drop::BalancerFull, "balancer_full"),
        (Drop::NoBackend, "no_backend"),
        (Drop::BackPortFull, "back_port_full"),
        (Drop::SwitchDown, "switch_down"),
        (Drop::BackendDown, "backend_down"),
        (Drop::BackendFull, "backend_full"),
        (Drop::Cable, "cable"),
        (Drop::FrontPortFull, "front_port_full"),
        (Drop::Other, "other"),
        (Drop::NoPort, "no_port"),
    ];
}

/// Effect of a back end's failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// The failure.
    pub failure: Failure,
    /// The back end's part of all buckets when it failed.
    pub share: f64,
    /// Nanoseconds until the last balancer took the back end out; `None` if a balancer never did.
    pub detection: Option<u64>,
    /// Number of packets that the failure lost.
    pub lost: u64,
    /// Number of packets that all hosts sent until the last balancer took the back end out.
    pub sent: u64,
}

impl Loss {
    /// Expected number of lost packets: packets sent until detection, times the back end's share.
    pub fn expected(&self) -> f64 {
        self.share * self.sent as f64
    }
}

/// Report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Nanoseconds that were measured.
    pub time: u64,
    /// Number of packets sent by hosts.
    pub packets_in: u64,
    /// Number of packets that reached their hosts.
    pub packets_out: u64,
    /// Copies made for unknown addresses.
    pub copies: u64,
    /// Number of packets that reached their host a second time.
    pub doubled: u64,
    /// Drops by [`Drop`].
    pub drops: [u64; Drop::ALL.len()],
    /// Number of packets sent in the time that was measured.
    pub offered: u64,
    /// Number of packets that reached their hosts in the time that was measured.
    pub carried: u64,
    /// Packets of each back end in the time that was measured.
    pub backends: Vec<u64>,
    /// Order of packets within each direction of a flow.
    pub reordering: Reordering,
    /// Number of packets that went to another back end than the previous packet of the flow's other direction.
    pub apart: u64,
    /// Number of buckets that moved at a deadline though they were not idle.
    pub forced: u64,
    /// Nanoseconds from host to host.
    pub latency: Histogram,
    /// Failures of back ends that lost packets or could have.
    pub losses: Vec<Loss>,
    /// Number of false alarms: a balancer took out a back end though nothing had failed.
    pub false_alarms: u64,
    /// True if all balancers had the same table at the end.
    pub agreed: bool,
}

impl Report {
    pub(super) fn drop(&mut self, why: Drop) {
        self.drops[why as usize] += 1;
    }

    /// Number of packets dropped for a reason.
    pub fn dropped(&self, why: Drop) -> u64 {
        self.drops[why as usize]
    }

    /// True if every packet and copy is accounted for: it reached its host or was dropped under a name.
    pub fn balances(&self) -> bool {
        self.packets_in + self.copies
            == self.packets_out + self.doubled + self.drops.iter().sum::<u64>()
    }

    /// Number of lost packets: drops, except copies that other stations ignored.
    pub fn lost(&self) -> u64 {
        self.packets_in - self.packets_out
    }

    /// Greatest relative deviation of a back end's packets from its share by weight.
    pub fn share_error(&self, weights: &[u16]) -> f64 {
        let all: u64 = self.backends.iter().sum();
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let error = |(packets, weight): (&u64, &u16)| {
            let share = all as f64 * f64::from(*weight) / sum;
            (*packets as f64 - share).abs() / share.max(1.0)
        };
        let each = self.backends.iter().zip(weights).map(error);
        each.fold(0.0, f64::max)
    }
}
