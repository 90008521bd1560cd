//! Burst limit of a router beside others: how many packets its tasks take at a time.
//!
//! Other routers wait while a burst is processed, so bursts of expensive packets are made smaller until a round takes
//! [`TURN_NS`]. But a round also has a cost that does not depend on its packets: with many routers, each one's
//! instructions and tables are no longer in the processor's caches when its turn comes. Where this fixed cost
//! dominates, smaller bursts lose throughput and save little time. So a change of the limit is a trial: the next
//! round tells which part of the time depends on the number of packets, and the limit stays where the packets cost
//! about as much as the rest. Rounds then take at most about twice their fixed cost, or `TURN_NS`.

use super::{BURST_MAX, TURN_NS};

/// Number of rounds between a trial that was undone and the next trial.
const ROUNDS_BETWEEN_TRIALS: u32 = 32;

/// One round of a router: the mean of its last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// Number of packets that its tasks moved.
    pub(super) packets: u64,
    /// Duration in nanoseconds.
    pub(super) time: u64,
}

/// The burst limit of a router, and what is known about the cost of its rounds.
#[derive(Clone, Debug)]
pub(super) struct BurstLimit {
    limit: u32,
    /// The last round before the limit was changed as a trial.
    trial: Option<Round>,
    /// True if the next trial makes bursts larger.
    grows: bool,
    /// Number of rounds until the next trial.
    pause: u32,
}

impl BurstLimit {
    /// The limit of a new router, whose packets may be expensive.
    pub(super) fn new() -> BurstLimit {
        BurstLimit {
            limit: 1,
            trial: None,
            grows: true,
            pause: 0,
        }
    }

    /// No limit, for a router that is alone.
    pub(super) fn none() -> BurstLimit {
        BurstLimit {
            limit: BURST_MAX,
            ..BurstLimit::new()
        }
    }

    /// Maximum number of packets of a burst.
    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.limit
    }

    /// Adapts the limit after a round.
    #[inline]
    pub(super) fn note(&mut self, round: Round) {
        if round.packets == 0 {
            return;
        }
        if let Some(before) = self.trial.take() {
            self.judge(before, round);
        } else if round.time < TURN_NS / 2 {
            self.limit = (2 * self.limit).min(BURST_MAX);
        } else {
            self.try_another(round);
        }
    }

    /// Ends a trial: keeps the limit, or undoes the change.
    fn judge(&mut self, before: Round, after: Round) {
        let (small, large) = match before.packets < after.packets {
            true => (before, after),
            false => (after, before),
        };
        let packets = large.packets - small.packets;
        if packets == 0 {
            // As many packets as before were waiting: nothing is known.
            return;
        }
        // True if most of the larger round's time depends on its packets.
        let time = large.time.saturating_sub(small.time);
        let smaller_is_better = 2 * time * large.packets > large.time * packets;
        if smaller_is_better == self.grows {
            self.limit = match self.grows {
                true => (self.limit / 2).max(1),
                false => (2 * self.limit).min(BURST_MAX),
            };
            self.grows = !self.grows;
            self.pause = ROUNDS_BETWEEN_TRIALS;
        }
    }

    /// Changes the limit as a trial, if a change in this direction makes sense and no trial was undone just now.
    fn try_another(&mut self, round: Round) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let full = round.packets >= u64::from(self.limit);
        let long = round.time > TURN_NS;
        self.grows = match (full, long) {
            (false, false) => return,
            (true, false) => true,
            (false, true) => false,
            (true, true) => self.grows || self.limit == 1,
        };
        self.trial = Some(round);
        self.limit = match self.grows {
            true => (2 * self.limit).min(BURST_MAX),
            false => {
                let used = u64::from(self.limit).min(round.packets);
                (used * TURN_NS / round.time).max(used / 2).max(1) as u32
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Median of the limits after 1,000 rounds, and the mean of their rounds, if 64 packets are always waiting, and a
    /// round costs `fixed` and `packet` for each packet.
    fn settle(mut limit: BurstLimit, fixed: u64, packet: u64) -> (u32, u64) {
        let (mut limits, mut times) = (Vec::new(), 0);
        for number in 0..2_000 {
            let packets = u64::from(limit.get().min(64));
            let time = fixed + packets * packet;
            limit.note(Round { packets, time });
            if number >= 1_000 {
                limits.push(limit.get());
                times += time;
            }
        }
        limits.sort_unstable();
        (limits[limits.len() / 2], times / 1_000)
    }

    #[test]
    fn bursts_fit_into_a_turn_if_packets_cost_most() {
        for start in [BurstLimit::new, BurstLimit::none] {
            for packet in [150, 200, 400, 1_000, 3_000] {
                let (limit, time) = settle(start(), 0, packet);
                let fits = (TURN_NS / packet) as u32;
                assert!(
                    (fits / 2..=fits.max(1)).contains(&limit),
                    "{packet}: {limit}"
                );
                assert!(time <= TURN_NS + TURN_NS / 8, "{packet}: {time}");
            }
            // A packet that takes longer than a turn is alone.
            assert_eq!(settle(start(), 0, 8_000).0, 1);
            assert_eq!(settle(start(), 100, 1_000_000).0, 1);
            // Cheap packets are not limited.
            assert_eq!(settle(start(), 0, 50).0, BURST_MAX);
        }
    }

    #[test]
    fn bursts_grow_until_their_packets_cost_as_much_as_a_fixed_cost() {
        for start in [BurstLimit::new, BurstLimit::none] {
            for (fixed, packet) in [(8_100, 50), (10_000, 100), (20_000, 500), (100_000, 200)] {
                let (limit, time) = settle(start(), fixed, packet);
                let even = (fixed / packet).min(64) as u32;
                assert!(limit >= even / 2, "{fixed}, {packet}: {limit}");
                assert!(time <= 9 * fixed / 4, "{fixed}, {packet}: {time}");
            }
        }
    }

    #[test]
    fn bursts_recover_when_a_costly_time_is_over() {
        let mut limit = BurstLimit::none();
        for _ in 0..100 {
            let packets = u64::from(limit.get().min(64));
            let time = packets * 1_000_000;
            limit.note(Round { packets, time });
        }
        assert_eq!(limit.get(), 1);
        let (after, _) = settle(limit, 9_000, 20);
        assert!(after >= 64, "{after}");
    }

    #[test]
    fn bursts_keep_their_limit_after_rounds_without_packets() {
        let mut limit = BurstLimit::none();
        let (packets, time) = (0, 1_000_000);
        limit.note(Round { packets, time });
        assert_eq!(limit.get(), BURST_MAX);
    }

    #[test]
    fn bursts_recover_from_rounds_in_which_the_core_was_taken_away() {
        // Every 50th round takes a millisecond longer.
        let mut limit = BurstLimit::none();
        let mut packets_moved = 0;
        for number in 0..10_000 {
            let packets = u64::from(limit.get().min(64));
            packets_moved += packets;
            let taken_away = if number % 50 == 0 { 1_000_000 } else { 0 };
            let time = 6_000 + 50 * packets + taken_away;
            limit.note(Round { packets, time });
        }
        assert!(packets_moved >= 10_000 * 40, "{packets_moved}");
    }
}
