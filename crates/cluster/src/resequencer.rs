//! Restores the order of packets that crossed the cluster by different paths.
//!
//! The input node numbers the packets of each stream; a stream is all packets with one tag, computed from the flow's
//! hash. The output node holds a packet back until all earlier packets of its stream have left, for a bounded time and
//! in a bounded buffer. RB10 mentions such a buffer without a design. While paths differ in delay by less than the
//! waiting time, no packet is reordered.

use crate::address::NodeId;
use std::collections::VecDeque;

/// Streams of one input node: tags of 16 bits.
const TAGS: usize = 1 << 16;
/// Number of an input node's workers with streams of their own.
pub const WORKERS: usize = TAGS / CHUNK;
/// Number of streams of one worker of an input node.
const CHUNK: usize = 1 << TAG_BITS;
/// Number of bits of a tag that come from the flow's hash; the others are the worker's number.
const TAG_BITS: u32 = 12;
/// Number of packets that the first packet of a stream may have overtaken.
const OVERTAKEN_MAX: u16 = 8192;
/// Lag, in packets, beyond which a packet belongs to another run of its input node.
const LAG_MAX: u16 = 4096;
const NONE: u32 = u32::MAX;

/// Numbers the packets of one worker of an input node.
#[derive(Clone, Debug)]
pub struct Numbers {
    worker: u16,
    /// Next numbers by output node, made when the first packet goes there.
    next: Vec<Option<Box<[u16; CHUNK]>>>,
    seed: u16,
}

impl Numbers {
    /// Numbers for a worker below [`WORKERS`]. `seed` should differ from start to start: packets that continue the
    /// numbers from before a restart would count as late.
    pub fn new(worker: usize, seed: u16) -> Numbers {
        Numbers {
            worker: (worker as u16) << TAG_BITS,
            next: Vec::new(),
            seed,
        }
    }

    /// The tag of a packet's flow, and its number.
    #[inline]
    pub fn number(&mut self, to: NodeId, flow_hash: u32) -> (u16, u16) {
        let flow = flow_hash as usize % CHUNK;
        let to = usize::from(to);
        if self.next.len() <= to {
            self.next.resize(to + 1, None);
        }
        let seed = self.seed;
        let chunk = self.next[to].get_or_insert_with(|| Box::new([seed; CHUNK]));
        let number = chunk[flow];
        chunk[flow] = number.wrapping_add(1);
        (self.worker | flow as u16, number)
    }
}

/// Bounds of a resequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum time in nanoseconds that a packet waits for earlier ones.
    pub wait: u64,
    /// Number of packets that wait at a time.
    pub capacity: usize,
}

/// Counts of packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of packets that were emitted at once, as the next of their stream.
    pub in_order: u64,
    /// Number of packets that waited for earlier ones of their stream.
    pub held: u64,
    /// Number of packets that arrived after their sequence number had been skipped.
    pub late: u64,
    /// Sequence numbers that were skipped: their packets did not arrive in time, or too many packets waited.
    pub missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    known: bool,
    next: u16,
    head: u32,
    tail: u32,
}

const FRESH: Stream = Stream {
    known: false,
    next: 0,
    head: NONE,
    tail: NONE,
};

#[derive(Debug)]
struct Slot<T> {
    /// The packet; `None` in a free slot.
    item: Option<T>,
    number: u16,
    after: u32,
    /// Generation of the slot: it changes each time the slot is used again.
    generation: u32,
}

/// Holds packets of type `T` back until those before them have left.
#[derive(Debug)]
pub struct Resequencer<T> {
    bounds: Bounds,
    /// Streams by input node and worker, made when the first packet comes.
    streams: Vec<Option<Box<[Stream; CHUNK]>>>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Waiting packets in the order of arrival: deadline, slot and its generation, stream.
    waits: VecDeque<(u64, u32, u32, usize)>,
    held: usize,
    counts: Counts,
}

impl<T> Resequencer<T> {
    /// Creates an empty resequencer.
    pub fn new(bounds: Bounds) -> Resequencer<T> {
        Resequencer {
            bounds,
            streams: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            waits: VecDeque::new(),
            held: 0,
            counts: Counts::default(),
        }
    }

    /// Takes a packet from an input node, with the flow and number that [`Numbers::number`] returned there. Calls `out`
    /// with each packet that may leave, in order.
    pub fn take(
        &mut self,
        now: u64,
        input: NodeId,
        (flow, number): (u16, u16),
        item: T,
        out: &mut impl FnMut(T),
    ) {
        let at = usize::from(input) * TAGS + usize::from(flow);
        let stream = self.stream(at);
        if !stream.known {
            // The first packet of a stream may have overtaken others: it waits for up to OVERTAKEN earlier numbers.
            stream.known = true;
            stream.next = number.wrapping_sub(OVERTAKEN_MAX);
        }
        let ahead = number.wrapping_sub(stream.next);
        if ahead == 0 {
            self.counts.in_order += 1;
            self.stream(at).next = number.wrapping_add(1);
            out(item);
            return self.release(at, None, out);
        }
        if ahead > u16::MAX / 2 {
            if ahead.wrapping_neg() > LAG_MAX {
                // The number is far too old, so the input node has restarted numbering.
                self.flush(at, out);
                self.stream(at).next = number.wrapping_add(1);
            }
            self.counts.late += 1;
            return out(item);
        }
        if self.held >= self.bounds.capacity {
            // The buffer is full: the stream that needs room releases its packets now.
            self.flush(at, out);
            let stream = self.stream(at);
            let ahead = number.wrapping_sub(stream.next);
            if ahead <= u16::MAX / 2 {
                stream.next = number.wrapping_add(1);
                self.counts.missed += missing_count(ahead);
            }
            return out(item);
        }
        match self.hold(now, at, number, item) {
            Ok(()) => self.counts.held += 1,
            Err(twin) => {
                self.counts.late += 1;
                out(twin);
            }
        }
    }

    /// Emits packets that have waited long enough.
    pub fn tick(&mut self, now: u64, out: &mut impl FnMut(T)) {
        while let Some(&(deadline, slot, generation, at)) = self.waits.front() {
            let entry = &self.slots[slot as usize];
            let left = entry.item.is_none() || entry.generation != generation;
            if !left && deadline > now {
                return;
            }
            self.waits.pop_front();
            if !left {
                self.release(at, Some(entry.number), out);
            }
        }
    }

    /// The bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Sets new bounds, for packets that arrive from now on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Earliest time at which [`tick`](Self::tick) may have something to do.
    pub fn due(&self) -> Option<u64> {
        self.waits.front().map(|wait| wait.0)
    }

    /// Number of packets that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Counts of packets by outcome.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn stream(&mut self, at: usize) -> &mut Stream {
        let chunk = at / CHUNK;
        if self.streams.len() <= chunk {
            self.streams.resize_with(chunk + 1, || None);
        }
        let chunk = self.streams[chunk].get_or_insert_with(|| Box::new([FRESH; CHUNK]));
        &mut chunk[at % CHUNK]
    }

    /// Inserts a packet into its stream's waiting packets. A duplicate number is given back.
    fn hold(&mut self, now: u64, at: usize, number: u16, item: T) -> Result<(), T> {
        let Stream {
            next, head, tail, ..
        } = *self.stream(at);
        let ahead = |slot: &Slot<T>| slot.number.wrapping_sub(next);
        let mine = number.wrapping_sub(next);
        // A packet usually belongs at the end.
        let mut before = match tail {
            NONE => NONE,
            last if ahead(&self.slots[last as usize]) <= mine => last,
            _ => NONE,
        };
        if before == NONE {
            let mut other = head;
            while other != NONE && ahead(&self.slots[other as usize]) <= mine {
                before = other;
                other = self.slots[other as usize].after;
            }
        }
        if before != NONE && self.slots[before as usize].number == number {
            return Err(item);
        }
        let after = match before {
            NONE => head,
            before => self.slots[before as usize].after,
        };
        let slot = self.slot(item, number, after);
        match before {
            NONE => self.stream(at).head = slot,
            before => self.slots[before as usize].after = slot,
        }
        if after == NONE {
            self.stream(at).tail = slot;
        }
        let generation = self.slots[slot as usize].generation;
        let deadline = now.saturating_add(self.bounds.wait);
        self.waits.push_back((deadline, slot, generation, at));
        self.held += 1;
        Ok(())
    }

    fn slot(&mut self, item: T, number: u16, after: u32) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                item: None,
                number: 0,
                after: NONE,
                generation: 0,
            });
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.item = Some(item);
        entry.generation = entry.generation.wrapping_add(1);
        (entry.number, entry.after) = (number, after);
        slot
    }

    /// Releases the next packets of a stream. First it releases all packets up to a number, with gaps.
    fn release(&mut self, at: usize, up_to: Option<u16>, out: &mut impl FnMut(T)) {
        let mut forced = up_to.is_some();
        loop {
            let Stream { next, head, .. } = *self.stream(at);
            if head == NONE {
                return;
            }
            let entry = &mut self.slots[head as usize];
            if entry.number != next && !forced {
                return;
            }
            forced &= up_to != Some(entry.number);
            let (number, after, item) = (entry.number, entry.after, entry.item.take());
            self.free.push(head);
            self.held -= 1;
            self.counts.missed += missing_count(number.wrapping_sub(next));
            let stream = self.stream(at);
            stream.next = number.wrapping_add(1);
            stream.head = after;
            if after == NONE {
                stream.tail = NONE;
            }
            item.into_iter().for_each(&mut *out);
        }
    }

    /// Releases all waiting packets of a stream.
    fn flush(&mut self, at: usize, out: &mut impl FnMut(T)) {
        let tail = self.stream(at).tail;
        if tail != NONE {
            let last = self.slots[tail as usize].number;
            self.release(at, Some(last), out);
        }
    }
}

/// Number of packets missing before one that is `ahead` numbers ahead; 0 if the beginning of the stream was not
/// received.
fn missing_count(ahead: u16) -> u64 {
    u64::from(if ahead < OVERTAKEN_MAX / 2 { ahead } else { 0 })
}

#[cfg(test)]
#[path = "resequencer_tests.rs"]
mod tests;
