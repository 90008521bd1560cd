//! Holds packets, first in, first out, until somebody asks for them.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> q :: Queue(100) -> Discard;
//! ```
//!
//! A Queue joins push to pull. It is the only place where packets may change worker: filled by
//! several workers and emptied by one, it is one ring per filling worker under one capacity, emptied
//! in turn. Where one queue leads to one sender, every worker has a Queue and a sender of its own,
//! each with the full capacity, and packets stay on their core. A packet that finds the Queue full is
//! dropped (`full`).
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use crate::prelude::*;
use engine::port::Slot;
use engine::ring::{Head, Level, Tail, ring};
use std::collections::VecDeque;
use std::sync::OnceLock;

const FULL: usize = 0;
/// Packets taken from one worker's ring before the next one has its turn.
const TURN: usize = 32;

/// One ring per worker that fills from afar; ends wait here for their owners.
struct Rings {
    tails: Vec<Slot<Tail<Packet>>>,
    heads: Vec<Slot<Head<Packet>>>,
    levels: Vec<Level>,
}

pub(super) struct Config {
    capacity: usize,
    rings: OnceLock<Arc<Rings>>,
}

impl Config {
    /// Rings are made when the first copy is built and a worker fills from afar.
    fn rings(&self, workers: usize) -> &Arc<Rings> {
        self.rings.get_or_init(|| {
            let mut rings = Rings {
                tails: Vec::new(),
                heads: Vec::new(),
                levels: Vec::new(),
            };
            for _ in 0..workers {
                let (tail, head) = ring(self.capacity.max(1));
                rings.levels.push(head.level().clone());
                rings.tails.push(Slot::new(tail));
                rings.heads.push(Slot::new(head));
            }
            Arc::new(rings)
        })
    }
}

/// One worker's part: the packets that it put in itself, and its ends of rings.
pub(super) struct Queue {
    capacity: usize,
    local: VecDeque<Packet>,
    far: Option<Far>,
    highest: usize,
    dropped: u64,
}

/// Ends of rings to and from other workers.
struct Far {
    worker: usize,
    puller: usize,
    rings: Arc<Rings>,
    tail: Option<Tail<Packet>>,
    /// Workers that fill from afar, with their rings' heads once those are here.
    heads: Vec<(usize, Option<Head<Packet>>)>,
    /// Whose turn it is: 0 = our own packets, then `heads`.
    turn: usize,
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some(tail) = self.tail.take() {
            self.rings.tails[self.worker].give(tail);
        }
        for (worker, head) in &mut self.heads {
            if let Some(head) = head.take() {
                self.rings.heads[*worker].give(head);
            }
        }
    }
}

impl Far {
    fn new(config: &Config, init: &Init) -> Option<Far> {
        let &[puller] = init.pullers else { return None };
        let away: Vec<usize> = init
            .pushers
            .iter()
            .copied()
            .filter(|&w| w != puller)
            .collect();
        let known = config.rings.get();
        if away.is_empty() && known.is_none() {
            return None;
        }
        let rings = Arc::clone(config.rings(init.workers));
        let heads = if init.worker == puller {
            (0..init.workers).map(|w| (w, None)).collect()
        } else {
            Vec::new()
        };
        Some(Far {
            worker: init.worker,
            puller,
            rings,
            tail: None,
            heads,
            turn: 0,
        })
    }

    fn length(&self) -> usize {
        self.rings.levels.iter().map(Level::len).sum()
    }

    /// Moves packets from `batch` into the ring to the puller; what does not fit stays.
    fn push(&mut self, batch: &mut Batch, room: usize) {
        if self.tail.is_none() {
            self.tail = self.rings.tails[self.worker].take();
        }
        if let Some(tail) = &mut self.tail {
            let wanted = batch.len().min(room);
            let fits = wanted.min(tail.capacity() - tail.len());
            let mut packets = batch.drain_front(fits);
            tail.push_from(fits, &mut packets);
        }
    }

    /// Takes up to `max` packets from the rings and from our own, a turn from each.
    fn pull(&mut self, max: usize, local: &mut VecDeque<Packet>, into: &mut Batch) {
        let mut left = max;
        let mut empty = 0;
        while left > 0 && empty <= self.heads.len() {
            let n = left.min(TURN);
            let got = if self.turn == 0 {
                let n = n.min(local.len());
                into.extend(local.drain(..n));
                n
            } else {
                let (worker, head) = &mut self.heads[self.turn - 1];
                if head.is_none() {
                    *head = self.rings.heads[*worker].take();
                }
                head.as_mut()
                    .map_or(0, |head| head.pop_each(n, |p| into.push(p)))
            };
            left -= got;
            empty = if got == 0 { empty + 1 } else { 0 };
            self.turn = (self.turn + 1) % (self.heads.len() + 1);
        }
    }
}

impl Element for Queue {
    const CLASS: &'static str = "Queue";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out"], "h/l");
    const DROPS: &'static [&'static str] = &["full"];
    const NOTIFIES: bool = true;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            capacity: args.optional("CAPACITY", 1000, "packets"),
            rings: OnceLock::new(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> Queue {
        Queue {
            capacity: config.capacity,
            local: VecDeque::new(),
            far: Far::new(config, init),
            highest: 0,
            dropped: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let length = self.local.len() + self.far.as_ref().map_or(0, Far::length);
        let room = self.capacity.saturating_sub(length);
        self.highest = self.highest.max(length + batch.len().min(room));
        match &mut self.far {
            Some(far) if far.puller != cx.worker() => {
                far.push(batch, room);
                cx.wake_worker(far.puller);
            }
            _ => self.local.extend(batch.drain_front(room)),
        }
        self.dropped += batch.len() as u64;
        cx.drop_batch(batch, FULL);
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, _: &mut Cx) {
        match &mut self.far {
            Some(far) => far.pull(max, &mut self.local, into),
            None => {
                let n = max.min(self.local.len());
                into.extend(self.local.drain(..n));
            }
        }
    }

    fn held(&self) -> usize {
        let far = self.far.as_ref().filter(|f| f.puller == f.worker);
        self.local.len() + far.map_or(0, Far::length)
    }

    fn inherit(config: &mut Config, old: &Config) {
        // Rings hold what they were made for; a larger capacity counts for packets that stay on
        // their worker.
        if let Some(rings) = old.rings.get() {
            config.rings = OnceLock::from(Arc::clone(rings));
        }
    }

    fn take(&mut self, mut old: Queue) {
        (self.highest, self.dropped) = (old.highest, old.dropped);
        self.local = std::mem::take(&mut old.local);
        // The old ends of rings go home before the new ones are looked for.
        drop(old);
        if let Some(far) = self.far.as_mut().filter(|far| far.puller != far.worker) {
            // Another worker pulls now: what was ours to give goes to its ring.
            let mut batch: Batch = self.local.drain(..).collect();
            far.push(&mut batch, usize::MAX);
            self.dropped += batch.len() as u64;
        }
    }

    const HANDLERS: &'static [Handler<Queue>] = &[
        Handler::sum("length", "packets held now", |e| e.held() as u64),
        Handler::text("capacity", "packets that may be held", |e, _| {
            Ok(e.capacity.to_string())
        }),
        Handler::text("highwater_length", "most packets ever held", |e, _| {
            Ok(e.highest.to_string())
        }),
        Handler::sum("drops", "packets that found it full", |e| e.dropped),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            (e.highest, e.dropped) = (0, 0);
            Ok(())
        }),
        Handler::set("reset", "frees the packets held", |e, _, _| {
            e.local.clear();
            Ok(())
        }),
    ];
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
}
