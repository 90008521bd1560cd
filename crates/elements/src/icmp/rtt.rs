//! Round-trip times of pings.

use std::time::Duration;

/// Statistics of round-trip times.
#[derive(Clone, Copy, Default)]
pub(super) struct RttStats {
    count: u32,
    min: Duration,
    max: Duration,
    sum: Duration,
}

impl RttStats {
    pub(super) fn add(&mut self, trip: Duration) {
        self.min = match self.count {
            0 => trip,
            _ => self.min.min(trip),
        };
        self.max = self.max.max(trip);
        self.sum += trip;
        self.count += 1;
    }

    /// Number of round trips.
    pub(super) fn count(&self) -> u64 {
        self.count.into()
    }

    pub(super) fn min(&self) -> Duration {
        self.min
    }

    pub(super) fn max(&self) -> Duration {
        self.max
    }

    pub(super) fn average(&self) -> Duration {
        self.sum.checked_div(self.count).unwrap_or_default()
    }

    /// The last line of ping's summary.
    pub(super) fn summary(&self) -> String {
        let [least, average, most] = [self.min, self.average(), self.max].map(milliseconds);
        format!("rtt min/avg/max = {least}/{average}/{most} ms")
    }
}

/// Text form of a time in milliseconds, to the microsecond.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_millis(), time.as_micros() % 1000)
}

/// Text form of a time in seconds, to the microsecond.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.6}", time.as_secs_f64())
}
