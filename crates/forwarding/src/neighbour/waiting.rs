//! Packets that wait for neighbours, bounded.

use super::Bounds;
use engine::clock::Time;
use packet::Packet;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Waiting packets by neighbour.
pub(super) struct WaitingPackets<K> {
    pub(super) queues: HashMap<K, Line>,
    /// Neighbours in the order in which their packets began to wait. Those without packets are removed at the front, or
    /// when there are too many.
    order: VecDeque<(K, u64)>,
    /// Emptied queues, kept for reuse.
    spare: Vec<VecDeque<Packet>>,
    pub(super) packets: usize,
    pub(super) total: usize,
    pub(super) each: usize,
    pub(super) drop_divisor: usize,
    /// True if a neighbour keeps its position in the order after its packets were dropped for others.
    pub(super) keeps_order: bool,
    serial: u64,
}

pub(super) struct Line {
    packets: VecDeque<Packet>,
    since: Time,
    asked: Time,
    serial: u64,
}

impl<K: Copy + Eq + Hash> WaitingPackets<K> {
    pub(super) fn new(bounds: &Bounds, workers: usize) -> WaitingPackets<K> {
        WaitingPackets {
            queues: HashMap::new(),
            order: VecDeque::new(),
            spare: Vec::new(),
            packets: 0,
            total: bounds.packets.div_ceil(workers.max(1)).max(1),
            each: bounds.packets_each.max(1),
            drop_divisor: bounds.drop_divisor.max(1),
            keeps_order: bounds.asks_on(),
            serial: 0,
        }
    }

    /// Time since which packets wait for a neighbour, and time of the last request.
    pub(super) fn times(&self, key: K) -> Option<(Time, Time)> {
        self.queues.get(&key).map(|line| (line.since, line.asked))
    }

    pub(super) fn asked(&mut self, key: K, now: Time) {
        if let Some(line) = self.queues.get_mut(&key) {
            line.asked = now;
        }
    }

    pub(super) fn push(&mut self, key: K, packet: Packet, now: Time, mut full: impl FnMut(Packet)) {
        let line = self.queues.entry(key).or_insert_with(|| {
            self.serial += 1;
            self.order.push_back((key, self.serial));
            Line {
                packets: self.spare.pop().unwrap_or_default(),
                since: now,
                asked: now,
                serial: self.serial,
            }
        });
        line.packets.push_back(packet);
        self.packets += 1;
        if line.packets.len() > self.each {
            self.packets -= 1;
            line.packets.pop_front().map(full);
        } else if self.packets > self.total {
            let keep = (self.total - self.total / self.drop_divisor).max(1);
            self.make_room(key, keep, &mut full);
        }
        if self.order.len() > 2 * self.queues.len() + 64 {
            let live = |(key, serial): &(K, u64)| {
                self.queues.get(key).is_some_and(|l| l.serial == *serial)
            };
            self.order.retain(live);
        }
    }

    /// Drops packets that have waited longest, by neighbour, until at most `keep` remain. The last packet for `newest`
    /// is never dropped.
    fn make_room(&mut self, newest: K, keep: usize, full: &mut impl FnMut(Packet)) {
        let mut at = 0;
        while self.packets > keep
            && let Some(&(key, serial)) = self.order.get(at)
        {
            let line = self.queues.get_mut(&key);
            if let Some(line) = line.filter(|l| l.serial == serial) {
                let spared = usize::from(key == newest);
                while self.packets > keep && line.packets.len() > spared {
                    line.packets.pop_front().map(&mut *full);
                    self.packets -= 1;
                }
                if !line.packets.is_empty() || self.keeps_order {
                    at += 1;
                    continue;
                }
                self.take(key, drop);
            }
            // No packet waits for this neighbour; an entry at the front is removed, so that it is skipped only once.
            match at {
                0 => drop(self.order.pop_front()),
                _ => at += 1,
            }
        }
    }

    /// Removes all packets for a neighbour, in order.
    pub(super) fn take(&mut self, key: K, each: impl FnMut(Packet)) {
        if let Some(mut line) = self.queues.remove(&key) {
            self.packets -= line.packets.len();
            line.packets.drain(..).for_each(each);
            if self.spare.len() < 64 {
                self.spare.push(line.packets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::neighbours::Timing;

    #[test]
    fn neighbours_that_made_room_are_removed_from_the_order() {
        let bounds = Bounds {
            entries: 1000,
            packets: 16,
            packets_each: 4,
            drop_divisor: usize::MAX,
            timing: Timing::default(),
            asks: (0, 0),
        };
        let (mut waiting, mut full) = (WaitingPackets::new(&bounds, 1), 0);
        for key in 0..1000u32 {
            let packet = Packet::from_bytes(b"scan").expect("it fits");
            waiting.push(key, packet, Time(0), |_| full += 1);
            assert!(waiting.order.len() <= 16, "{}", waiting.order.len());
        }
        assert_eq!((waiting.packets, full), (16, 984));
        let mut left = Vec::new();
        (0..1000).for_each(|key| waiting.take(key, |_| left.push(key)));
        assert!(left.into_iter().eq(984..1000), "the last ones wait");
    }
}
