//! Burst limit of a router beside others: how many packets its tasks take at a time.
//!
//! Other routers wait while a burst is processed, so bursts of expensive packets are made smaller until a round takes
//! [`TURN_NS`]. But a round also has a cost that does not depend on its packets: with many routers, each one's
//! instructions and tables are no longer in the processor's caches when its turn comes. Where this fixed cost
//! dominates, smaller bursts lose throughput and save little time. So a change of the limit is a trial: the next
//! round tells which part of the time depends on the number of packets, and the limit stays where the packets cost
//! about as much as the rest. Rounds then take at most about twice their fixed cost, or `TURN_NS`.

use super::{BURST_MAX, TURN_NS};

/// Number of rounds without a trial after a trial of larger bursts failed, or if no change of the limit makes sense.
const ROUNDS_BETWEEN_TRIALS: u32 = 32;

/// One round of a router: the mean of a turn.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Number of packets that the router's tasks moved.
    packets: u64,
    time_ns: u64,
}

/// A change of the limit. The next round shows its effect.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The last round before the change.
    before: Round,
    /// The limit before the change.
    limit: u32,
    /// True if bursts were made larger.
    grows: bool,
}

/// The burst limit of a router, and what is known about the cost of its rounds.
#[derive(Clone, Debug)]
pub(super) struct BurstLimit {
    limit: u32,
    /// Number of packets that the router's tasks had moved at the end of its last turn; `None` before the first.
    moved: Option<u64>,
    trial: Option<Trial>,
    /// True if smaller bursts were tried and did not pay, so that larger ones are tried next.
    shrinking_failed: bool,
    /// Number of rounds until the next trial.
    pause: u32,
    /// Duration of the round that `pause` and `shrinking_failed` are based on, in nanoseconds. Both are ignored in
    /// rounds that take more than twice as long.
    usual_ns: u64,
}

impl BurstLimit {
    /// The limit of a new router, whose packets may be expensive.
    pub(super) fn new() -> BurstLimit {
        BurstLimit {
            limit: 1,
            moved: None,
            trial: None,
            shrinking_failed: false,
            pause: 0,
            usual_ns: 0,
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

    /// Adapts the limit after a turn of `rounds` rounds. The router's tasks have moved `moved` packets in all turns so
    /// far.
    #[inline]
    pub(super) fn note_turn(&mut self, moved: u64, rounds: u32, turn_ns: u64) {
        let before = self.moved.replace(moved);
        let rounds = u64::from(rounds.max(1));
        // A reload that removes elements makes the number smaller.
        let packets = moved.saturating_sub(before.unwrap_or(moved));
        self.note(Round {
            packets: packets.div_ceil(rounds),
            time_ns: turn_ns / rounds,
        });
    }

    /// Adapts the limit after a round.
    fn note(&mut self, round: Round) {
        if round.packets == 0 {
            return;
        }
        if let Some(trial) = self.trial.take() {
            self.judge(trial, round);
        } else if round.time_ns < TURN_NS / 2 {
            self.limit = (2 * self.limit).min(BURST_MAX);
            (self.shrinking_failed, self.pause) = (false, 0);
        } else if self.pause > 0 && round.time_ns <= 2 * self.usual_ns {
            self.pause -= 1;
        } else {
            self.try_another(round);
        }
    }

    /// Ends a trial: keeps the limit, or undoes the change.
    fn judge(&mut self, trial: Trial, after: Round) {
        let (small, large) = if trial.before.packets < after.packets {
            (trial.before, after)
        } else {
            (after, trial.before)
        };
        let packets = large.packets - small.packets;
        // True if most of the larger round's time depends on its packets.
        let saved_ns = large.time_ns.saturating_sub(small.time_ns);
        let smaller_is_better = 2 * saved_ns * large.packets > large.time_ns * packets;
        // If as many packets as before were waiting, or fewer took longer, the rounds cannot be compared.
        let unknown = packets == 0 || small.time_ns > large.time_ns + large.time_ns / 4;
        if unknown || smaller_is_better != trial.grows {
            self.shrinking_failed = false;
            if after.time_ns >= TURN_NS / 2 {
                self.try_another(after);
            }
            return;
        }
        self.limit = trial.limit;
        self.usual_ns = trial.before.time_ns;
        self.shrinking_failed = !trial.grows;
        if trial.grows {
            self.pause = ROUNDS_BETWEEN_TRIALS;
        }
    }

    /// Changes the limit as a trial, if a change makes sense.
    fn try_another(&mut self, round: Round) {
        let before = self.limit;
        let shrinking_failed = self.shrinking_failed && round.time_ns <= 2 * self.usual_ns;
        let grows = round.time_ns <= TURN_NS || shrinking_failed || self.limit == 1;
        if !grows {
            let used = u64::from(self.limit).min(round.packets);
            self.limit = (used * TURN_NS / round.time_ns).max(1) as u32;
        } else if round.packets >= u64::from(self.limit) && self.limit < BURST_MAX {
            self.limit = (2 * self.limit).min(BURST_MAX);
        } else {
            self.pause = ROUNDS_BETWEEN_TRIALS;
            self.usual_ns = round.time_ns;
            self.shrinking_failed = false;
            return;
        }
        self.trial = Some(Trial {
            before: round,
            limit: before,
            grows,
        });
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
            let time_ns = fixed + packets * packet;
            limit.note(Round { packets, time_ns });
            if number >= 1_000 {
                limits.push(limit.get());
                times += time_ns;
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
            let time_ns = packets * 1_000_000;
            limit.note(Round { packets, time_ns });
        }
        assert_eq!(limit.get(), 1);
        let (after, _) = settle(limit, 9_000, 20);
        assert!(after >= 64, "{after}");
    }

    #[test]
    fn bursts_shrink_at_once_when_packets_become_expensive() {
        for round in 1..200 {
            // Cheap packets with a fixed cost; the time of the change differs, so it meets trials and pauses.
            let mut limit = BurstLimit::none();
            let mut time_of_expensive = 0;
            for number in 0..round + 20 {
                let packets = u64::from(limit.get().min(64));
                let expensive = number >= round;
                let time_ns = 9_000 + packets * if expensive { 100_000 } else { 50 };
                time_of_expensive += if expensive { time_ns } else { 0 };
                limit.note(Round { packets, time_ns });
            }
            // Two bursts before the change shows, then bursts of one packet, and a trial with two.
            let bound = 2 * 64 * 100_000 + 30 * 109_000;
            assert!(time_of_expensive <= bound, "{round}: {time_of_expensive}");
        }
    }

    #[test]
    fn bursts_keep_their_limit_after_the_first_turn_and_after_a_reload() {
        let mut limit = BurstLimit::none();
        // The packets of the first turn are not known.
        limit.note_turn(1_000_000, 1, 1_000_000);
        limit.note_turn(5, 1, 1_000_000);
        assert_eq!(limit.get(), BURST_MAX);
        // 20 packets in two rounds of 50 us each.
        limit.note_turn(25, 2, 100_000);
        assert_eq!(limit.get(), 1);
    }

    #[test]
    fn bursts_keep_their_limit_after_rounds_without_packets() {
        let mut limit = BurstLimit::none();
        let (packets, time_ns) = (0, 1_000_000);
        limit.note(Round { packets, time_ns });
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
            let time_ns = 6_000 + 50 * packets + taken_away;
            limit.note(Round { packets, time_ns });
        }
        assert!(packets_moved >= 10_000 * 40, "{packets_moved}");
    }
}
