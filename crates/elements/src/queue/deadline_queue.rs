//! Holds packets until they are pulled; the packet with the earliest deadline leaves first.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> q :: DeadlineQueue(1000, BINS 1024, WIDTH 1ms) -> Discard;
//! ```
//!
//! The deadline is an annotation in the nanoseconds of the router's clock, which FlowTable sets. Packets without a
//! deadline leave when no packet with one waits, first in, first out.
//!
//! Packets are sorted into bins, each for the deadlines of a time `WIDTH`. So the cost of a packet does not grow with
//! the queue, and a packet is at most `WIDTH` later than in exact order: count this for each hop. `BINS` times
//! `WIDTH` is the reach; the deadlines of waiting packets should differ by less. A packet beyond it goes into the
//! last bin within reach (`beyond` counts it). With `EXACT` the order is exact, and the cost grows with the number of
//! waiting packets.
//!
//! A packet that finds the queue full leaves by output 1 if that is connected; otherwise it is dropped (`full`). If
//! it has a deadline, the last packet without one is removed in its place. With `DROP_LATE`, a packet whose deadline
//! has passed is dropped (`late`) when it is pulled; otherwise it leaves, and the handler `late` counts it.
//!
//! All workers share one order: one of them has the queue and the task that pulls from it. Packets of other workers
//! cross over to it, through queues that `ashlar plan` shows. MDSDeadlineQueue has an order for each worker.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.
//!
//! Keyword arguments:
//!
//! - `BINS`: number of bins, made a power of two, 64 to 1048576. Default 1024.
//! - `WIDTH`: time of a bin. Default 1ms.
//! - `EXACT`: true if the order is exact. Default false.
//! - `DROP_LATE`: true if late packets are dropped. Default false.
//! - `SLACK`: a packet is late so long after its deadline. Default: `WIDTH`, or 0 with `EXACT`; the time of a packet on
//!   the link should be added, for what is being sent is not interrupted.

use super::cross_worker::{RingEnds, Shared};
use super::overflow::Overflow;
use super::queue::IDLE_POLLS_MAX;
use crate::prelude::*;
use arguments::units;
use engine::notify::Notifies;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;
use tables::order::{BINS_MAX, BinSort, Sorted};

drops! {
    FULL = "full",
    RESET = "reset",
    LATE = "late",
}

/// A class of queues that sort by deadlines.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Number of orders: one in all (`Owner`), or one for each worker that takes packets out (`PerCore`).
    const COPIES: Copies;
}

/// Kind with one order for all workers.
pub(crate) struct Single;

impl Kind for Single {
    const CLASS: &'static str = "DeadlineQueue";
    const MANUAL: &'static str = manual!();
    const COPIES: Copies = Copies::Owner;
}

pub(crate) struct Config {
    rings: Shared,
    capacity: usize,
    bins: usize,
    width: u64,
    exact: bool,
    drop_late: bool,
    slack: u64,
}

/// Order of packets with a deadline.
enum Order {
    Bins(BinSort<Packet>),
    Exact(Sorted<Packet>),
}

impl Order {
    fn new(config: &Config) -> Order {
        match config.exact {
            true => Order::Exact(Sorted::new()),
            false => Order::Bins(BinSort::new(config.bins, config.width)),
        }
    }

    #[inline]
    fn push(&mut self, deadline: u64, packet: Packet) {
        match self {
            Order::Bins(bins) => bins.push(deadline, packet),
            Order::Exact(heap) => heap.push(deadline, packet),
        }
    }

    /// Removes up to `limit` packets. Returns their number.
    #[inline]
    fn pop_each(&mut self, limit: usize, take: impl FnMut(Packet)) -> usize {
        match self {
            Order::Bins(bins) => bins.pop_each(limit, take),
            Order::Exact(heap) => (0..limit).map_while(|_| heap.pop()).map(take).count(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Order::Bins(bins) => bins.len(),
            Order::Exact(heap) => heap.len(),
        }
    }

    fn overflowed(&self) -> u64 {
        match self {
            Order::Bins(bins) => bins.overflowed(),
            Order::Exact(_) => 0,
        }
    }
}

pub(crate) struct DeadlineQueue<K = Single> {
    kind: PhantomData<K>,
    config: Arc<Config>,
    capacity: usize,
    order: Order,
    /// Packets without a deadline, first in, first out.
    without_deadline: VecDeque<Packet>,
    /// Rings of packets from workers that have no order of their own.
    far: Option<RingEnds>,
    highest: usize,
    dropped: u64,
    late: u64,
    /// Counter value inherited from replaced queues.
    beyond_before: u64,
    idle_polls: u32,
    words: Overflow,
}

impl<K: Kind> DeadlineQueue<K> {
    fn length(&self) -> usize {
        self.order.len()
            + self.without_deadline.len()
            + self.far.as_ref().map_or(0, RingEnds::length)
    }

    /// Sorts up to `limit` packets that other workers have sent to this one.
    #[inline]
    fn sort_received(&mut self, limit: usize) {
        if let Some(far) = self.far.as_mut().filter(|far| far.at_home()) {
            let mut arrived = Batch::new();
            far.pull(limit, &mut VecDeque::new(), &mut arrived);
            arrived.drain().for_each(|packet| self.put(packet));
        }
    }

    #[inline]
    fn put(&mut self, packet: Packet) {
        match packet.cold().deadline() {
            0 => self.without_deadline.push_back(packet),
            deadline => self.order.push(deadline, packet),
        }
    }

    /// Removes all packets in the order of their departure.
    fn drain(&mut self) -> Batch {
        self.sort_received(usize::MAX);
        let mut all = Batch::new();
        self.order.pop_each(usize::MAX, |packet| all.push(packet));
        all.extend(self.without_deadline.drain(..));
        all
    }

    /// Makes room for packets with a deadline by removing the latest packets without one; these are then in the batch.
    #[cold]
    fn make_room(&mut self, batch: &mut Batch) {
        let mut late = Batch::new();
        for packet in batch.drain() {
            let instead = match packet.cold().deadline() {
                0 => None,
                _ => self.without_deadline.pop_back(),
            };
            match instead {
                Some(last) => {
                    self.put(packet);
                    late.push(last);
                }
                None => late.push(packet),
            }
        }
        batch.append(&mut late);
    }

    fn tell_room(&self, cx: &mut Cx) {
        if self.length() < self.capacity {
            cx.wake_pushers();
        } else {
            cx.note_full();
        }
    }

    fn set_capacity(&mut self, capacity: usize, cx: &mut Cx) {
        self.capacity = capacity;
        if self.length() > capacity {
            let mut held = self.drain();
            held.drain_front(capacity)
                .for_each(|packet| self.put(packet));
            // These packets were accepted before: as in Queue, they do not count as packets that found the queue full.
            cx.drop_batch(&mut held, FULL);
        }
        self.tell_room(cx);
    }
}

impl<K: Kind> Element for DeadlineQueue<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "overflow?"], "h/lh"))
        .drops(DROPS)
        .copies(K::COPIES)
        .extensions(
            const {
                &[
                    &resources::of::<Self>(),
                    &Notifies {
                        packets: true,
                        room: true,
                    },
                ]
            },
        );

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let capacity = args.optional("CAPACITY", Capacity(1000), "packets").0;
        let bins: usize = args.key("BINS", 1024, "number of bins");
        let width = args.key("WIDTH", Duration::from_millis(1), "time of a bin");
        let exact = args.key("EXACT", false, "true if the order is exact");
        let drop_late = args.key("DROP_LATE", false, "true if late packets are dropped");
        let slack: Option<Duration> =
            args.key_maybe("SLACK", "time after its deadline at which a packet is late");
        if !(64..=BINS_MAX).contains(&bins) {
            args.error_in_whole(
                format!("BINS must be between 64 and {BINS_MAX}, not {bins}"),
                "leave it out for 1024; a wider WIDTH reaches further with as many",
            );
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let width = nanoseconds(width);
        let slack = slack.map_or(if exact { 0 } else { width }, nanoseconds);
        if width == 0 {
            args.error_in_whole(
                "WIDTH must be at least 1ns",
                "a bin should hold a few packets: 1ms is the default; EXACT true does without bins",
            );
        }
        Config {
            rings: Shared::default(),
            capacity,
            bins,
            width,
            exact,
            drop_late,
            slack,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> DeadlineQueue<K> {
        DeadlineQueue {
            kind: PhantomData,
            config: Arc::clone(config),
            capacity: config.capacity,
            order: Order::new(config),
            without_deadline: VecDeque::new(),
            far: RingEnds::new(&config.rings, config.capacity, init),
            highest: 0,
            dropped: 0,
            late: 0,
            beyond_before: 0,
            idle_polls: 0,
            words: Overflow::new(Self::CONTRACT.name, init),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        // Rings send no notification, so a queue with rings never notifies that it is empty.
        if self.far.is_some() || self.length() > 0 {
            cx.wake_pullers();
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let length = self.length();
        let room = self.capacity.saturating_sub(length);
        self.highest = self.highest.max(length + batch.len().min(room));
        let is_here = match self.far.as_mut().filter(|far| !far.at_home()) {
            Some(far) => {
                far.push(batch, room);
                cx.wake_worker(far.puller());
                false
            }
            None => {
                for packet in batch.drain_front(room) {
                    self.put(packet);
                }
                true
            }
        };
        if !batch.is_empty() {
            if is_here {
                self.make_room(batch);
            }
            self.words.log_first_drop(self.dropped, self.capacity, cx);
            self.dropped += batch.len() as u64;
            if cx.connected(1) {
                cx.emit_batch(1, batch);
            } else {
                cx.note_overflow(batch.len());
                cx.drop_batch(batch, FULL);
            }
        }
        self.idle_polls = 0;
        self.tell_room(cx);
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        // The rest stays in the rings, which are full then, so that its senders drop.
        let sorted = self.order.len() + self.without_deadline.len();
        self.sort_received(self.capacity.saturating_sub(sorted));
        let (now, had) = (cx.now().0, into.len());
        let Config {
            slack, drop_late, ..
        } = *self.config;
        loop {
            let wanted = max - (into.len() - had);
            let popped = self.order.pop_each(wanted, |packet| {
                let late = packet.cold().deadline().saturating_add(slack) < now;
                self.late += u64::from(late);
                if late && drop_late {
                    cx.drop(packet, LATE);
                } else {
                    into.push(packet);
                }
            });
            // Dropped packets are replaced by others, up to the requested number.
            if popped == 0 || !drop_late {
                break;
            }
        }
        let wanted = max - (into.len() - had);
        into.extend(
            self.without_deadline
                .drain(..wanted.min(self.without_deadline.len())),
        );
        if into.len() > had {
            self.idle_polls = 0;
            self.tell_room(cx);
        } else if self.far.is_none() {
            self.idle_polls += 1;
            if self.idle_polls >= IDLE_POLLS_MAX {
                cx.note_empty();
            }
        }
    }

    fn held(&self) -> usize {
        let far = self.far.as_ref().filter(|far| far.at_home());
        self.order.len() + self.without_deadline.len() + far.map_or(0, RingEnds::length)
    }

    fn inherit(config: &mut Config, old: &Config) {
        // Rings keep their capacity; a larger one applies only to packets that stay on their worker.
        config.rings.inherit(&old.rings);
    }

    fn take(&mut self, mut old: DeadlineQueue<K>) {
        self.highest = old.highest;
        self.beyond_before = old.beyond_before + old.order.overflowed();
        // The old ring ends are released before the new ones are taken. Packets in rings stay there.
        if self.far.is_some() {
            old.far = None;
        }
        let mut held = old.drain();
        drop(old);
        match self.far.as_mut().filter(|far| !far.at_home()) {
            Some(far) => {
                // Another worker has the order now.
                far.push(&mut held, usize::MAX);
                self.dropped += held.len() as u64;
            }
            None => held.drain().for_each(|packet| self.put(packet)),
        }
    }

    const HANDLERS: &'static [Handler<DeadlineQueue<K>>] = &[
        Handler::sum("length", "packets held now", |e| e.held() as u64),
        Handler::text("highwater_length", "most packets ever held", |e, _| {
            Ok(e.highest.to_string())
        }),
        Handler::text("capacity", "packets that may be held", |e, _| {
            Ok(e.capacity.to_string())
        }),
        Handler::set("capacity", "packets that may be held", |e, value, cx| {
            e.set_capacity(units::parse::<Capacity>(value)?.0, cx);
            Ok(())
        }),
        counter!("drops", "packets that found it full", dropped),
        counter!("late", "packets that were late when they could leave", late),
        Handler::sum(
            "beyond",
            "packets whose deadline lay out of the bins' reach",
            |e| e.beyond_before + e.order.overflowed(),
        ),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            (e.highest, e.dropped, e.late) = (0, 0, 0);
            Ok(())
        }),
        Handler::set("reset", "frees the packets held", |e, _, cx| {
            let mut held = e.drain();
            cx.drop_batch(&mut held, RESET);
            e.tell_room(cx);
            Ok(())
        }),
    ];
}

impl<K: Kind> Resources for DeadlineQueue<K> {
    fn memory(config: &Config) -> usize {
        super::cross_worker::held_at_most(config.capacity) * 3 * size_of::<Packet>()
    }

    fn memory_each(config: &Config) -> usize {
        // Worst case for each bin: the bin itself, and a block with a single used slot.
        if config.exact {
            0
        } else {
            config.bins * 2 * (16 + 64)
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::{Batch, Packet};
    use std::time::Duration;
    use testkit::Bench;

    /// Packets with these names and deadlines, in ms.
    fn packets(all: &[(&str, u64)]) -> Batch {
        let made = all.iter().map(|(name, ms)| {
            let mut packet = Packet::from_bytes(name.as_bytes()).unwrap();
            packet.cold_mut().set_deadline(ms * 1_000_000);
            packet
        });
        made.collect()
    }

    const TEXT: &str = "q :: DeadlineQueue(5) -> u :: Unqueue(ACTIVE false) -> out :: Collect";
    const SOME: [(&str, u64); 5] = [("d", 1500), ("e", 0), ("b", 1100), ("a", 1050), ("c", 1100)];

    #[test]
    fn packets_leave_by_deadline_and_those_without_one_at_the_end() {
        for options in ["5", "5, EXACT true", "5, BINS 64, WIDTH 50ms"] {
            let text = TEXT.replace('5', options);
            for make in [Bench::new, Bench::strict] {
                let mut bench = make(crate::CLASSES, &text);
                bench.push_packets("q", 0, packets(&SOME));
                bench.push_packets("q", 0, packets(&[("f", 0)]));
                assert_eq!(bench.drops("q", "full"), 1);
                assert_eq!(bench.read("q.length"), "5");
                bench.write("u.active", "true");
                bench.run();
                assert_eq!(bench.take("out").concat(), b"abcde");
                assert_eq!(bench.read("q.highwater_length"), "5");
            }
        }
    }

    #[test]
    fn a_full_queue_lets_packets_without_a_deadline_go_for_those_with_one() {
        let mut bench = Bench::new(crate::CLASSES, &TEXT.replace('5', "3"));
        bench.push_packets("q", 0, packets(&[("x", 0), ("y", 0), ("b", 1200)]));
        bench.push_packets("q", 0, packets(&[("z", 0), ("a", 1100)]));
        assert_eq!(
            (bench.read("q.drops").as_str(), bench.drops("q", "full")),
            ("2", 2)
        );
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out").concat(), b"abx");
    }

    #[test]
    fn late_packets_are_counted_or_dropped() {
        for (options, left) in [
            ("5", &b"abc"[..]),
            ("5, DROP_LATE true", b"bc"),
            ("5, DROP_LATE true, SLACK 20ms", b"bc"),
        ] {
            let mut bench = Bench::new(crate::CLASSES, &TEXT.replace('5', options));
            bench.push_packets("q", 0, packets(&[("b", 1100), ("a", 1020), ("c", 0)]));
            bench.advance(Duration::from_millis(50));
            bench.write("u.active", "true");
            bench.run();
            assert_eq!(bench.take("out").concat(), left);
            assert_eq!(bench.read("q.late"), "1");
            assert_eq!(bench.drops("q", "late"), 3 - left.len() as u64);
        }
    }

    #[test]
    fn a_reload_keeps_the_packets_and_sorts_them_again() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        bench.push_packets("q", 0, packets(&SOME));
        let text = TEXT.replace('5', "7, EXACT true");
        assert_eq!(bench.reload(&text), Ok(()));
        bench.push_packets("q", 0, packets(&[("B", 1075), ("E", 0)]));
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out").concat(), b"aBbcdeE");
    }

    #[test]
    fn a_smaller_capacity_keeps_the_packets_that_would_leave_first() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        bench.push_packets("q", 0, packets(&SOME));
        bench.write("q.capacity", "2");
        assert_eq!(
            (bench.read("q.drops").as_str(), bench.drops("q", "full")),
            ("0", 3)
        );
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out").concat(), b"ab");
        bench.write("u.active", "false");
        bench.push_packets("q", 0, packets(&SOME));
        bench.write("q.reset", "");
        assert_eq!(
            (bench.read("q.length").as_str(), bench.drops("q", "reset")),
            ("0", 2)
        );
        assert!(bench.try_write("q.capacity", "many").is_err());
    }

    #[test]
    fn a_source_that_listens_loses_nothing_to_a_full_queue() {
        let text = "i :: InfiniteSource(LIMIT 100) -> q :: DeadlineQueue(3)
            -> u :: Unqueue(ACTIVE false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        assert_eq!(bench.read("i.count"), "3");
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out").len(), 100);
        assert_eq!(bench.read("q.drops"), "0");
    }

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        for (text, wrong) in [
            ("DeadlineQueue(BINS 1)", "BINS must be between 64"),
            ("DeadlineQueue(WIDTH 0)", "WIDTH must be at least"),
        ] {
            let text = format!("InfiniteSource -> {text} -> Discard");
            assert!(testkit::errors(crate::CLASSES, &text).contains(wrong));
        }
    }
}
