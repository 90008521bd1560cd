//! Controlled delay (CoDel, RFC 8289): decides which packets to drop so that a queue does not stay long.

/// Parameters of CoDel; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelParameters {
    /// Acceptable waiting time of packets.
    pub target: u64,
    /// Time for which packets may wait longer than `target` before one is dropped.
    pub interval: u64,
}

impl CodelParameters {
    /// Time of the next drop after the `count`th drop at `time`.
    fn next(&self, time: u64, count: u32) -> u64 {
        time.saturating_add((self.interval as f64 / f64::from(count.max(1)).sqrt()) as u64)
    }
}

/// The state variables of RFC 8289, 5.3; times in nanoseconds, 0 = none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codel {
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// True if the last packet was dropped, so that `drop_next` counts from that drop.
    dropped: bool,
}

impl Codel {
    /// True if a packet that waited less than the target would not change the state.
    pub fn is_quiet(&self) -> bool {
        self.first_above == 0 && !self.dropping
    }

    /// Records that the queue was found empty.
    pub fn empty(&mut self) {
        self.first_above = 0;
        self.dropping = false;
    }

    /// True if the packet that leaves the queue at `now`, after waiting for `sojourn` nanoseconds, must be dropped.
    /// `last` is true if the queue is empty after it. After a drop the next packet leaves at once.
    pub fn drops(&mut self, aim: &CodelParameters, now: u64, sojourn: u64, last: bool) -> bool {
        let mut harms = false;
        if sojourn < aim.target || last {
            self.first_above = 0;
        } else if self.first_above == 0 {
            self.first_above = now.saturating_add(aim.interval);
        } else {
            harms = now >= self.first_above;
        }
        let after_drop = std::mem::take(&mut self.dropped);
        if !harms {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            // Starts with the recent drop rate, which has controlled the queue.
            let more = self.count.saturating_sub(self.last_count);
            let recent = now.saturating_sub(self.drop_next) < 16 * aim.interval;
            self.count = if more > 1 && recent { more } else { 1 };
            self.last_count = self.count;
            self.drop_next = aim.next(now, self.count);
            self.dropping = true;
            return true;
        }
        if after_drop {
            self.drop_next = aim.next(self.drop_next, self.count);
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.dropped = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const AIM: CodelParameters = CodelParameters {
        target: 5 * MS,
        interval: 100 * MS,
    };

    /// Times of drops in milliseconds, if one packet leaves every millisecond and `sojourn` gives its waiting time.
    fn drops(sojourn: impl Fn(u64) -> u64, end: u64) -> Vec<u64> {
        let mut codel = Codel::default();
        let times = 1..end;
        times
            .filter(|ms| codel.drops(&AIM, ms * MS, sojourn(*ms) * MS, false))
            .collect()
    }

    #[test]
    fn drops_come_at_decreasing_intervals_after_an_interval_above_the_target() {
        assert_eq!(drops(|_| 4, 1000), []);
        let times = drops(|_| 6, 600);
        // 101, then 100/sqrt(1), /sqrt(2), /sqrt(3) ... later
        assert_eq!(times[..4], [101, 201, 272, 330]);
        // A packet that waited less than the target ends the dropping.
        assert_eq!(drops(|ms| if ms % 90 == 0 { 0 } else { 6 }, 1000), []);
    }

    #[test]
    fn drop_rate_continues_after_a_short_pause() {
        let pause = |ms| if (600..650).contains(&ms) { 0 } else { 6 };
        let times = drops(pause, 900);
        let again: Vec<u64> = times.iter().copied().filter(|ms| *ms > 650).collect();
        assert_eq!(again[0], 750);
        assert!(again[1] - again[0] < 50, "{again:?}");
    }

    #[test]
    fn the_last_packet_is_never_dropped() {
        let mut codel = Codel::default();
        assert!((1..1000).all(|ms| !codel.drops(&AIM, ms * MS, 50 * MS, true)));
        assert!(codel.is_quiet());
    }
}
