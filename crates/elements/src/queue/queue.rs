//! Holds packets, first in, first out, until they are pulled.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> q :: Queue(100) -> Discard;
//! ```
//!
//! A Queue connects push to pull. Packets may change worker here, and in Steer: several workers may fill a Queue, and
//! one worker empties it. It then has one ring for each worker that fills it, all under one capacity, which are
//! emptied in turn. If one Queue leads to one ToDevice, every worker has its own Queue and ToDevice, each with the
//! full capacity, and packets stay on their worker.
//!
//! A packet that finds the Queue full leaves by output 1 if that is connected; otherwise it is dropped
//! (`full`). `ashlar click` reports `overflow` for the first such packet, and for the first after
//! `reset_counts`.
//!
//! A task that has found the Queue empty nine times in a row sleeps until a packet arrives. Sources that can
//! (InfiniteSource) sleep while the Queue is full. NotifierQueue does only the former, SimpleQueue neither;
//! with QuickNoteQueue the task sleeps as soon as the queue is empty.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::cross_worker::{RingEnds, Shared, held_at_most};
use super::kind::{Kind, Notifications};
use super::overflow::Overflow;
use crate::prelude::*;
use engine::notify::Notifies;
use engine::ring::has_reached;
use engine::storage::{self, Storage};
use std::collections::VecDeque;
use std::marker::PhantomData;

drops! {
    pub(super) FULL = "full",
    pub(super) RESET = "reset",
}
/// Number of empty polls before a queue notifies its puller. With fewer, a nearly empty queue would put the puller to
/// sleep and wake it again and again.
pub(super) const IDLE_POLLS_MAX: u32 = 9;

/// Kind of the plain Queue.
pub(crate) struct Plain;

impl Kind for Plain {
    const CLASS: &'static str = "Queue";
    const MANUAL: &'static str = manual!();
}

pub(crate) struct Config {
    capacity: usize,
    rings: Shared,
}

/// One worker's part of a queue: locally queued packets, and ring ends.
pub(crate) struct Queue<K = Plain> {
    kind: PhantomData<K>,
    capacity: usize,
    local: VecDeque<Packet>,
    far: Option<RingEnds>,
    /// Number of local packets that have left; wraps around.
    left: usize,
    highest: usize,
    dropped: u64,
    /// Number of consecutive empty polls.
    idle_polls: u32,
    words: Overflow,
}

impl<K: Kind> Queue<K> {
    fn length(&self) -> usize {
        self.local.len() + self.far.as_ref().map_or(0, RingEnds::length)
    }

    /// Handles packets for which the queue has no room: output 1, or a drop.
    fn overflow(&mut self, batch: &mut Batch, cx: &mut Cx) {
        self.words.log_first_drop(self.dropped, self.capacity, cx);
        self.dropped += batch.len() as u64;
        if cx.connected(1) {
            cx.emit_batch(1, batch);
        } else {
            cx.note_overflow(batch.len());
            cx.drop_batch(batch, FULL);
        }
    }

    fn set_capacity(&mut self, capacity: usize, cx: &mut Cx) {
        self.capacity = capacity;
        let mut late: Batch = self.local.drain(capacity.min(self.local.len())..).collect();
        // These packets were accepted before; as in Click, they do not count as overflow.
        cx.drop_batch(&mut late, FULL);
        self.tell_room(cx);
    }

    fn tell_room(&self, cx: &mut Cx) {
        if K::NOTIFICATIONS == Notifications::Both {
            if self.length() < self.capacity {
                cx.wake_pushers();
            } else if self.capacity > 0 {
                cx.note_full(); // a queue of capacity 0 is always full, and would never report room again
            }
        }
    }
}

impl<K: Kind> Element for Queue<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "overflow?"], "h/lh"))
        .drops(DROPS)
        .extensions(
            const {
                &[
                    &resources::of::<Self>(),
                    &storage::of::<Self>(),
                    &Notifies {
                        packets: !matches!(K::NOTIFICATIONS, Notifications::None),
                        room: matches!(K::NOTIFICATIONS, Notifications::Both),
                    },
                ]
            },
        );

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            capacity: args.optional("CAPACITY", Capacity(1000), "packets").0,
            rings: Shared::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> Queue<K> {
        Queue {
            kind: PhantomData,
            capacity: config.capacity,
            local: VecDeque::new(),
            far: RingEnds::new(&config.rings, config.capacity, init),
            left: 0,
            highest: 0,
            dropped: 0,
            idle_polls: 0,
            words: Overflow::new(K::CLASS, init),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.far.is_none() && self.local.len() > self.capacity {
            // The queue may have inherited packets from a larger one.
            self.set_capacity(self.capacity, cx);
        }
        // Rings send no notification, so a queue with rings never notifies that it is empty.
        if self.far.is_some() || !self.local.is_empty() {
            cx.wake_pullers();
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let length = self.length();
        let room = self.capacity.saturating_sub(length);
        self.highest = self.highest.max(length + batch.len().min(room));
        match &mut self.far {
            Some(far) if far.puller() != cx.worker() => {
                far.push(batch, room);
                cx.wake_worker(far.puller());
            }
            _ => self.local.extend(batch.drain_front(room)),
        }
        if !batch.is_empty() {
            self.overflow(batch, cx);
        }
        self.idle_polls = 0;
        self.tell_room(cx);
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let had = into.len();
        match &mut self.far {
            Some(far) => {
                let own = self.local.len();
                far.pull(max, &mut self.local, into);
                self.left = self.left.wrapping_add(own - self.local.len());
            }
            None => {
                let n = max.min(self.local.len());
                self.left = self.left.wrapping_add(n);
                into.extend(self.local.drain(..n));
                if K::QUICK && self.local.is_empty() {
                    cx.note_empty();
                } else if n == 0 {
                    self.idle_polls += 1;
                    if self.idle_polls >= IDLE_POLLS_MAX {
                        cx.note_empty();
                    }
                }
            }
        }
        if into.len() > had {
            self.idle_polls = 0;
            self.tell_room(cx);
        }
    }

    fn held(&self) -> usize {
        let far = self.far.as_ref().filter(|f| f.at_home());
        self.local.len() + far.map_or(0, RingEnds::length)
    }

    fn inherit(config: &mut Config, old: &Config) {
        // Rings keep their capacity; a larger one applies only to packets that stay on their worker.
        config.rings.inherit(&old.rings);
    }

    fn take(&mut self, mut old: Queue<K>) {
        self.highest = old.highest;
        self.local = std::mem::take(&mut old.local);
        // The old ring ends are released before the new ones are taken.
        drop(old);
        if let Some(far) = self.far.as_mut().filter(|far| !far.at_home()) {
            // Another worker empties the queue now: local packets move to its ring.
            let mut batch: Batch = self.local.drain(..).collect();
            far.push(&mut batch, usize::MAX);
            self.dropped += batch.len() as u64;
        }
    }

    const HANDLERS: &'static [Handler<Queue<K>>] = &[
        Handler::sum("length", "packets held now", |e| e.held() as u64),
        Handler::show("highwater_length", "most packets ever held", |e| &e.highest),
        Handler::show("capacity", "packets that may be held", |e| &e.capacity),
        Handler::argument(Handler::set(
            "capacity",
            "packets that may be held",
            |e, value, cx| {
                e.set_capacity(parse::<Capacity>(value)?.0, cx);
                Ok(())
            },
        )),
        counter!("drops", "packets that found it full", dropped),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            (e.highest, e.dropped) = (0, 0);
            Ok(())
        }),
        Handler::set("reset", "frees the packets held", |e, _, cx| {
            let mut held: Batch = e.local.drain(..).collect();
            if let Some(far) = e.far.as_mut().filter(|far| far.at_home()) {
                far.pull(usize::MAX, &mut e.local, &mut held);
            }
            cx.drop_batch(&mut held, RESET);
            e.tell_room(cx);
            Ok(())
        }),
    ];
}

impl<K: Kind> Resources for Queue<K> {
    fn memory(config: &Config) -> usize {
        held_at_most(config.capacity) * size_of::<Packet>()
    }
}

impl<K: Kind> Storage for Queue<K> {
    fn waiting(&self) -> usize {
        self.length()
    }

    fn mark(&self) -> usize {
        match self.far.as_ref().filter(|far| !far.at_home()) {
            Some(far) => far.pushed(),
            None => self.left.wrapping_add(self.local.len()),
        }
    }

    fn is_past(&self, mark: usize) -> bool {
        match self.far.as_ref().filter(|far| !far.at_home()) {
            Some(far) => far.is_past(mark),
            None => self.local.is_empty() || has_reached(self.left, mark),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_come_out_in_order_and_those_too_many_are_dropped() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "q :: Queue(2) -> u :: Unqueue -> out :: Collect",
        );
        bench.push("q", &[b"a", b"b", b"c"]);
        assert_eq!(
            (bench.read("q.length"), bench.read("q.drops")),
            ("2".into(), "1".into())
        );
        bench.run();
        assert_eq!(bench.take("out"), [b"a", b"b"]);
        assert_eq!(bench.drops("q", "full"), 1);
        assert_eq!(bench.read("q.highwater_length"), "2");
    }

    #[test]
    fn packets_beyond_capacity_leave_by_output_1() {
        let text = "q :: Queue(1) -> u :: Unqueue(ACTIVE false) -> Discard; q[1] -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("q", &[b"a", b"b", b"c"]);
        assert_eq!(bench.take("out"), [b"b", b"c"]);
        assert_eq!(bench.read("q.drops"), "2");
    }

    #[test]
    fn a_smaller_capacity_drops_the_newest_and_reset_the_rest() {
        let text = "q :: Queue(4) -> u :: Unqueue(ACTIVE false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("q", &[b"a", b"b", b"c", b"d"]);
        bench.write("q.capacity", "2");
        assert_eq!(bench.read("q.capacity"), "2");
        assert_eq!(bench.read("q.length"), "2");
        assert_eq!(
            (bench.read("q.drops"), bench.drops("q", "full")),
            ("0".into(), 2)
        );
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"a", b"b"]);
        bench.write("u.active", "false");
        bench.push("q", &[b"e"]);
        bench.write("q.reset", "");
        assert_eq!(bench.read("q.length"), "0");
        assert!(bench.try_write("q.capacity", "many").is_err());
    }

    #[test]
    fn a_queue_that_is_reloaded_keeps_the_packets_for_which_it_has_room() {
        let text = "q :: Queue(4) -> u :: Unqueue(ACTIVE false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("q", &[b"a", b"b", b"c"]);
        bench.reload(&text.replace('4', "2")).expect("it is right");
        bench.run();
        assert_eq!(
            (bench.read("q.length"), bench.drops("q", "full")),
            ("2".into(), 1)
        );
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"a", b"b"]);
    }

    #[test]
    fn a_source_that_listens_loses_nothing_to_a_full_queue() {
        let text = "i :: InfiniteSource(LIMIT 100) -> q :: Queue(3) -> u :: Unqueue(ACTIVE false)
            -> out :: Collect";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            bench.run();
            assert_eq!(bench.read("i.count"), "3");
            bench.write("u.active", "true");
            bench.run();
            assert_eq!(bench.take("out").len(), 100);
            assert_eq!(bench.read("q.drops"), "0");
        }
    }

    #[test]
    fn a_source_into_a_simple_queue_goes_on_and_loses() {
        let text = "i :: InfiniteSource(LIMIT 100) -> q :: SimpleQueue(3) -> Unqueue(ACTIVE false)
            -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        assert_eq!(bench.read("q.drops"), "97");
    }
}
