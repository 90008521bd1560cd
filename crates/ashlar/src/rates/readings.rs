//! Differences between two readings of a router's counters.

use control::view::{CopyStats, ElementStats, PortCounter, PortStats, Stats};
use std::collections::HashMap;

/// Two readings of a router's counters, and the time between them.
pub(crate) struct Rates<'a> {
    pub(super) before: &'a Stats,
    /// Elements of the first reading, by name.
    elements_before: HashMap<&'a str, &'a ElementStats>,
    pub(crate) after: &'a Stats,
    pub(super) seconds: f64,
}

impl<'a> Rates<'a> {
    /// Rates between two readings. `None` if the router has not run for longer at the second one: it was started again.
    /// A restart is not noticed if the router has run for longer since than before.
    pub(crate) fn new(before: &'a Stats, after: &'a Stats) -> Option<Rates<'a>> {
        let time_ns = after.time_ns.checked_sub(before.time_ns)?;
        (time_ns > 0).then_some(Rates {
            before,
            elements_before: before.elements.iter().map(|e| (&*e.name, e)).collect(),
            after,
            seconds: time_ns as f64 / 1e9,
        })
    }

    /// Increase of a counter per second; 0 if the counter fell.
    pub(crate) fn rate(&self, before: u64, after: u64) -> f64 {
        after.saturating_sub(before) as f64 / self.seconds
    }

    /// Part of the time, 0 to 1, in which a worker moved packets.
    pub(crate) fn busy(&self, worker: usize) -> f64 {
        let busy_ns = |stats: &Stats| stats.workers.get(worker).map_or(0, |w| w.busy_ns);
        // A turn counts when it ends, also the part of it before the first reading.
        (self.rate(busy_ns(self.before), busy_ns(self.after)) / 1e9).min(1.0)
    }

    /// Earlier counts of an element's copy; zeros if the copy is new.
    pub(crate) fn earlier_counts(&self, element: &ElementStats, worker: usize) -> CopyStats {
        self.earlier(element, worker).cloned().unwrap_or_default()
    }

    fn earlier(&self, element: &ElementStats, worker: usize) -> Option<&'a CopyStats> {
        let old = self.elements_before.get(&*element.name);
        let old = old.filter(|old| old.class == element.class)?;
        old.copies.iter().find(|copy| copy.worker == worker)
    }

    /// Packets that an element dropped in the interval, in the order of its drop names.
    pub(crate) fn drop_counts(&self, element: &ElementStats) -> Vec<u64> {
        let mut sums = vec![0; element.drop_names.len()];
        for copy in &element.copies {
            let was = self.earlier(element, copy.worker);
            let was = was.map_or(&[][..], |was| &was.drops);
            for (at, (sum, now)) in sums.iter_mut().zip(&copy.drops).enumerate() {
                *sum += now.saturating_sub(was.get(at).copied().unwrap_or(0));
            }
        }
        sums
    }

    /// Earlier value of a port's counter; 0 if the counter is new.
    pub(crate) fn earlier_value(&self, port: &PortStats, counter: &PortCounter) -> u64 {
        let old = self.before.ports.iter().find(|p| p.name == port.name);
        let mut counters = old.into_iter().flat_map(|p| &p.counters);
        let same = counters.find(|c| c.name == counter.name && c.queue == counter.queue);
        same.map_or(0, |c| c.value)
    }

    /// True if a port's link is up, or the port is not among the router's ports.
    pub(crate) fn is_up(&self, port: &str) -> bool {
        let link = self.after.ports.iter().find(|p| p.name == port);
        link.is_none_or(|p| p.up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::view::WorkerStats;

    fn at(time_ns: u64, busy_ns: u64) -> Stats {
        Stats {
            time_ns,
            workers: vec![WorkerStats {
                busy_ns,
                ..WorkerStats::default()
            }],
            ..Stats::default()
        }
    }

    #[test]
    fn busy_rate_is_capped_at_one() {
        let busy = |busy_ns| {
            Rates::new(&at(1000, 0), &at(2000, busy_ns))
                .unwrap()
                .busy(0)
        };
        assert_eq!((busy(250), busy(1000), busy(1010)), (0.25, 1.0, 1.0));
    }

    #[test]
    fn rates_need_a_later_reading() {
        assert!(Rates::new(&at(1000, 0), &at(1000, 0)).is_none());
        assert!(Rates::new(&at(1000, 0), &at(999, 0)).is_none());
    }
}
