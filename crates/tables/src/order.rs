//! Priority queues: the item of lowest rank leaves first, either approximately, by bins and at constant cost, or
//! exactly.
//!
//! [`BinSort`] divides ranks into bins of equal width, each first in, first out; a hierarchical bitmap finds the first
//! bin that is not empty. An item may leave too early or too late by less than a bin's width, if the ranks in the queue
//! span no more than all bins. Source: B. Hardekopf et al., "Impact of Network Protocols on Programmable Router
//! Architectures", 2003, section 5. [`Sorted`] is a heap: exact, at a cost that grows with the number of items. In
//! both, items of equal rank leave in the order of arrival. [`MultiQueue`] consists of several `BinSort`s, for several
//! threads.

mod multi_queue;

pub use multi_queue::{Choice, Chooser, Locks, MultiQueue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of bins in a word of a bitmap.
const WORD: usize = 64;
/// Index that means no entry.
const NONE: u32 = u32::MAX;
/// Maximum number of bins.
pub const BINS_MAX: usize = 1 << 20;

/// Hierarchical bitmap of the bins that hold items: one bit per bin, and on each higher level one bit per non-zero
/// word.
struct Bitmap {
    levels: Vec<Box<[u64]>>,
}

impl Bitmap {
    fn new(bits: usize) -> Bitmap {
        let mut levels = Vec::new();
        let mut words = bits.div_ceil(WORD);
        levels.push(vec![0; words].into());
        while words > 1 {
            words = words.div_ceil(WORD);
            levels.push(vec![0; words].into());
        }
        Bitmap { levels }
    }

    #[inline]
    fn set(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            let had = *word;
            *word |= 1 << (at % WORD);
            if had != 0 {
                return; // higher levels have the bit already
            }
            at /= WORD;
        }
    }

    #[inline]
    fn clear(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            *word &= !(1 << (at % WORD));
            if *word != 0 {
                return;
            }
            at /= WORD;
        }
    }

    /// The first set bit from this index on.
    #[inline]
    fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / WORD)? & u64::MAX << (at % WORD);
            if word != 0 {
                at = at / WORD * WORD + word.trailing_zeros() as usize;
                // Goes down along the first set bit of each word.
                return Some(self.levels[..height].iter().rev().fold(at, |at, level| {
                    at * WORD + level[at].trailing_zeros() as usize
                }));
            }
            at = at / WORD + 1;
        }
        None
    }
}

/// Number of items in a block; a block of words fills a cache line.
const BLOCK_ITEMS: usize = 7;

/// Consecutive items of a bin, so that items that wait long are read by whole cache lines.
#[repr(align(64))]
struct Block<T> {
    items: [Option<T>; BLOCK_ITEMS],
    /// Next block of the bin; for a free block, the next free one.
    next: u32,
}

/// A list of blocks.
#[derive(Clone, Copy)]
struct Bin {
    head: u32,
    tail: u32,
    /// Index of the first item, in the first block.
    from: u8,
    /// Index after the last item in the last block.
    to: u8,
}

const EMPTY: Bin = Bin {
    head: NONE,
    tail: NONE,
    from: 0,
    to: BLOCK_ITEMS as u8,
};

/// Priority queue whose order is exact to within a bin's width.
///
/// The bins form a ring that begins at the lowest rank in the queue, so no clock is needed. A rank beyond the bins
/// goes into the last bin.
pub struct BinSort<T> {
    width: u64,
    bins: Box<[Bin]>,
    used: Bitmap,
    blocks: Vec<Block<T>>,
    free: u32,
    len: usize,
    /// Number of the first used bin. Numbers do not wrap around the ring.
    first: u64,
    /// Number of the last bin that holds items.
    last_bin: u64,
    /// Number of items whose rank was beyond the bins.
    overflowed: u64,
}

impl<T> BinSort<T> {
    /// An empty queue. The width is at least 1; the number of bins is rounded to a power of two, from 64 to
    /// [`BINS_MAX`].
    pub fn new(bins: usize, width: u64) -> BinSort<T> {
        let bins = bins.clamp(WORD, BINS_MAX).next_power_of_two();
        BinSort {
            width: width.max(1),
            bins: vec![EMPTY; bins].into(),
            used: Bitmap::new(bins),
            blocks: Vec::new(),
            free: NONE,
            len: 0,
            first: 0,
            last_bin: 0,
            overflowed: 0,
        }
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.bins.len()
    }

    /// Width of a bin, in ranks.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of items whose rank was beyond the bins.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Memory of the structure now, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let words: usize = self.used.levels.iter().map(|level| level.len()).sum();
        size_of_val(&*self.bins) + words * 8 + self.blocks.capacity() * size_of::<Block<T>>()
    }

    #[inline]
    fn slot(&self, bin: u64) -> usize {
        bin as usize & (self.bins.len() - 1)
    }

    /// The bin for a rank, such that all used bins stay within the ring.
    #[inline]
    fn bin_of(&mut self, rank: u64) -> u64 {
        let bin = rank / self.width;
        if self.len == 0 {
            (self.first, self.last_bin) = (bin, bin);
            return bin;
        }
        let reach = self.bins.len() as u64 - 1;
        if bin >= self.first && bin - self.first <= reach {
            self.last_bin = self.last_bin.max(bin);
            return bin;
        }
        self.place_far(bin, reach)
    }

    #[cold]
    fn place_far(&mut self, bin: u64, reach: u64) -> u64 {
        if let Some(first) = self.find() {
            self.first = first; // the first bin may have lagged behind
        }
        let lowest = self.last_bin.saturating_sub(reach);
        let highest = self.first.saturating_add(reach);
        let within = bin.clamp(lowest, highest);
        self.overflowed += u64::from(within != bin);
        self.first = self.first.min(within);
        self.last_bin = self.last_bin.max(within);
        within
    }

    /// The first bin that holds items.
    #[inline]
    fn find(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let from = self.slot(self.first);
        let slot = self.used.next(from).or_else(|| self.used.next(0))?;
        let ahead = slot.wrapping_sub(from) & (self.bins.len() - 1);
        Some(self.first + ahead as u64)
    }

    /// A free block.
    #[inline]
    fn take_block(&mut self) -> u32 {
        match self.blocks.get(self.free as usize) {
            Some(block) => std::mem::replace(&mut self.free, block.next),
            None => {
                self.blocks.push(Block {
                    items: [const { None }; BLOCK_ITEMS],
                    next: NONE,
                });
                self.blocks.len() as u32 - 1
            }
        }
    }

    /// Enqueues an item.
    #[inline]
    pub fn push(&mut self, rank: u64, item: T) {
        let place = self.bin_of(rank);
        let slot = self.slot(place);
        let mut bin = self.bins[slot];
        if usize::from(bin.to) == BLOCK_ITEMS {
            let block = self.take_block();
            match self.blocks.get_mut(bin.tail as usize) {
                Some(tail) => tail.next = block,
                None => {
                    bin.head = block;
                    self.used.set(slot);
                }
            }
            (bin.tail, bin.to) = (block, 0);
        }
        self.blocks[bin.tail as usize].items[usize::from(bin.to)] = Some(item);
        bin.to += 1;
        self.bins[slot] = bin;
        self.len += 1;
    }

    /// Dequeues the oldest item of the first non-empty bin.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let mut popped = None;
        self.pop_each(1, |item| popped = Some(item));
        popped
    }

    /// Dequeues up to `limit` items, in the order of [`pop`](Self::pop). Returns their number.
    #[inline]
    pub fn pop_each(&mut self, limit: usize, mut take: impl FnMut(T)) -> usize {
        let mut left = limit.min(self.len);
        let popped = left;
        while left > 0
            && let Some(first) = self.find()
        {
            self.first = first;
            let slot = self.slot(first);
            let mut bin = self.bins[slot];
            // Takes a block at a time: the bin is found once for all items that it provides.
            while left > 0
                && let Some(block) = self.blocks.get_mut(bin.head as usize)
            {
                let last = bin.head == bin.tail;
                let (from, end) = (
                    usize::from(bin.from),
                    if last { bin.to } else { BLOCK_ITEMS as u8 },
                );
                let items = &mut block.items[from..usize::from(end)];
                let count = items.len().min(left);
                items[..count]
                    .iter_mut()
                    .filter_map(Option::take)
                    .for_each(&mut take);
                left -= count;
                self.len -= count;
                bin.from += count as u8;
                if bin.from == end {
                    let next = std::mem::replace(&mut block.next, self.free);
                    self.free = bin.head;
                    (bin.head, bin.from) = (next, 0);
                    if last {
                        bin = EMPTY;
                        self.used.clear(slot);
                    }
                }
            }
            self.bins[slot] = bin;
        }
        popped - left
    }

    /// The item that [`pop`](Self::pop) would return.
    pub fn first(&self) -> Option<&T> {
        let bin = self.bins[self.slot(self.find()?)];
        let block = self.blocks.get(bin.head as usize)?;
        block.items[usize::from(bin.from)].as_ref()
    }
}

struct Entry<T> {
    key: Reverse<(u64, u64)>,
    item: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Priority queue with exact order.
pub struct Sorted<T> {
    heap: BinaryHeap<Entry<T>>,
    /// Sequence number of the next item, which keeps items of equal rank in order.
    next: u64,
}

impl<T> Default for Sorted<T> {
    fn default() -> Sorted<T> {
        Sorted {
            heap: BinaryHeap::new(),
            next: 0,
        }
    }
}

impl<T> Sorted<T> {
    /// An empty queue.
    pub fn new() -> Sorted<T> {
        Sorted::default()
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Enqueues an item.
    #[inline]
    pub fn push(&mut self, rank: u64, item: T) {
        let key = Reverse((rank, self.next));
        self.next += 1;
        self.heap.push(Entry { key, item });
    }

    /// Dequeues the item of the lowest rank.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|entry| entry.item)
    }

    /// The item that [`pop`](Self::pop) would return.
    pub fn first(&self) -> Option<&T> {
        self.heap.peek().map(|entry| &entry.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Random;

    /// Reference model: a list with linear search on removal.
    #[derive(Default)]
    struct Naive(Vec<(u64, u64)>);

    impl Naive {
        fn pop(&mut self, width: u64) -> Option<u64> {
            let first = self.0.iter().map(|(rank, _)| rank / width).min()?;
            let at = self.0.iter().position(|(rank, _)| rank / width == first)?;
            Some(self.0.remove(at).1)
        }
    }

    #[test]
    fn both_queues_agree_with_a_searched_list() {
        for (seed, width, bins) in [(1, 1, 64), (2, 7, 64), (3, 1000, 1024), (4, 3, 5000)] {
            let mut random = Random::new(seed);
            let (mut binned, mut sorted) = (BinSort::new(bins, width), Sorted::new());
            let (mut naive, mut exact) = (Naive::default(), Naive::default());
            // Ranks advance, and sometimes go back a little, as times do; they never leave the range of the bins.
            let reach = binned.bins() as u64 * width / 3;
            let mut now = random.below(1 << 40);
            for n in 0..20_000u64 {
                if random.below(100) < 82 + n / 5000 * 2 {
                    let rank = now + random.below(reach);
                    binned.push(rank, n);
                    sorted.push(rank, n);
                    naive.0.push((rank, n));
                    exact.0.push((rank, n));
                } else {
                    assert_eq!(binned.first().copied(), {
                        let copy = naive.0.clone();
                        Naive(copy).pop(width)
                    });
                    // Dequeues one item, or a few together.
                    let most = random.below(12).max(1) as usize;
                    let mut popped = Vec::new();
                    let count = binned.pop_each(most, |n| popped.push(n));
                    assert_eq!(count, popped.len());
                    let wanted: Vec<u64> = (0..most).map_while(|_| naive.pop(width)).collect();
                    assert_eq!(popped, wanted);
                    for _ in 0..count {
                        assert_eq!(sorted.pop(), exact.pop(1));
                    }
                    let oldest = naive.0.iter().map(|(rank, _)| *rank).min();
                    now = oldest.unwrap_or(now + random.below(2 * reach)).max(now);
                }
                assert_eq!((binned.len(), sorted.len()), (naive.0.len(), exact.0.len()));
            }
            assert_eq!(binned.overflowed(), 0);
            while let Some(n) = naive.pop(width) {
                assert_eq!((binned.pop(), sorted.pop()), (Some(n), exact.pop(1)));
            }
            assert!(binned.is_empty() && sorted.is_empty() && binned.pop().is_none());
        }
    }

    #[test]
    fn an_item_leaves_at_most_a_bin_out_of_order() {
        let (mut queue, mut random) = (BinSort::new(1024, 100), Random::new(9));
        for _ in 0..5000 {
            let rank = random.below(1024 * 100);
            queue.push(rank, rank);
        }
        let mut highest = 0;
        while let Some(rank) = queue.pop() {
            assert!(rank + 100 > highest, "{rank} after {highest}");
            highest = highest.max(rank);
        }
    }

    #[test]
    fn ranks_beyond_the_bins_go_to_the_last_bin_and_are_counted() {
        let mut queue = BinSort::new(64, 10);
        queue.push(6400, 'c');
        queue.push(u64::MAX, 'e'); // to bin 703
        queue.push(7000, 'd');
        queue.push(6399, 'b'); // would be out of the ring with bin 703 in use: to bin 640
        assert_eq!(queue.overflowed(), 2);
        let order: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, "cbde");
        queue.push(u64::MAX, 'z'); // empty: the ring starts anywhere
        queue.push(0, 'a');
        queue.push(u64::MAX, 'y');
        assert_eq!(queue.overflowed(), 3);
        assert_eq!(
            std::iter::from_fn(|| queue.pop()).collect::<String>(),
            "azy"
        );
    }

    #[test]
    fn lower_ranks_come_first_also_if_they_come_later() {
        let mut queue = BinSort::new(64, 10);
        queue.push(500, 'b');
        queue.push(20, 'a');
        queue.push(649, 'c');
        assert_eq!((queue.overflowed(), queue.first()), (0, Some(&'a')));
        assert_eq!(
            std::iter::from_fn(|| queue.pop()).collect::<String>(),
            "abc"
        );
    }

    #[test]
    fn the_bitmap_finds_the_first_bit_at_every_height() {
        let mut random = Random::new(5);
        for bits in [64, 128, 4096, 8192, 1 << 18] {
            let (mut bitmap, mut model) = (Bitmap::new(bits), std::collections::BTreeSet::new());
            for _ in 0..2000 {
                let at = random.below(bits as u64) as usize;
                if random.below(2) == 0 {
                    bitmap.set(at);
                    model.insert(at);
                } else if let Some(&at) = model.range(at..).next() {
                    bitmap.clear(at);
                    model.remove(&at);
                }
                let from = random.below(bits as u64) as usize;
                assert_eq!(bitmap.next(from), model.range(from..).next().copied());
            }
        }
    }
}
