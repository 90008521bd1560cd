//! Builds a poptrie's nodes from routes.

use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::prefix::{Prefix, bits};
use super::super::rib::{Full, Limbo, NoMemory, Writer};
use super::super::routes::{Route, Routes};
use super::arena::{Arena, NODE_MAX, WORDS_MAX};
use super::single_prefix::{SinglePrefix, single_range};
use super::{HUGE_PAGES_WORDS_MIN, NODE_BITS, PAGE, Poptrie, SLOTS, Slot};

/// Number of words that only the removal of routes may use: a removal must not fail for lack of memory.
const RESERVE: usize = WORDS_MAX / 32;
/// Below this number of routes per change, changes are applied one by one. Otherwise rebuilding all nodes takes less
/// time and leaves less memory in limbo.
const REBUILD_ROUTES_MIN: usize = 16;

/// Writer of a [`Poptrie`]: applies changes of routes.
pub struct PoptrieWriter<const N: usize> {
    fib: Arc<Poptrie<N>>,
    arena: Arena,
    limbo: Limbo,
    /// Nodes allocated by the change in progress.
    allocated: Vec<u32>,
    /// True if a node could not be allocated.
    full: bool,
    /// Number of words that must remain free.
    reserve: usize,
    /// For each page of `top`, true if it was written; `pages` is the number of written pages.
    written: Box<[bool]>,
    pages: usize,
    /// True if nodes are on huge pages.
    huge: bool,
}

impl<const N: usize> PoptrieWriter<N> {
    const TOP_BITS: u32 = Poptrie::<N>::TOP_BITS;

    /// Rebuilds and publishes all nodes below `prefix`, which has `id` where no route of `below` is longer.
    fn follow_with(
        &mut self,
        prefix: &Prefix<N>,
        id: Slot,
        below: &mut Peekable<impl Iterator<Item = Route<N>>>,
        reserve: usize,
    ) -> Result<(), Full> {
        (self.reserve, self.full) = (reserve, false);
        let waiting = self.limbo.0.len();
        let first = bits(&prefix.address(), 0, Self::TOP_BITS);
        let (one, mut many);
        let slots = match Self::TOP_BITS.checked_sub(u32::from(prefix.length())) {
            None => {
                one = [self.change(self.load_top(first), Self::TOP_BITS, prefix, id, below)];
                &one[..]
            }
            Some(bits) => {
                many = vec![id; 1 << bits];
                (first..first + many.len()).for_each(|i| self.retire(self.load_top(i)));
                self.fill(&mut many, first, 0, Self::TOP_BITS, prefix, below);
                &many[..]
            }
        };
        if self.full {
            self.limbo.0.truncate(waiting);
            let made = Limbo(std::mem::take(&mut self.allocated));
            self.release(made);
            return Err(Full);
        }
        for (at, new) in (first..).zip(slots) {
            // Words that were never written take no memory.
            if self.load_top(at) != *new {
                let page = at / PAGE;
                self.pages += usize::from(!std::mem::replace(&mut self.written[page], true));
                self.fib.top[at].store(new.0, Ordering::Release);
            }
        }
        self.fib.top_pages.store(self.pages, Ordering::Relaxed);
        self.allocated.clear();
        Ok(())
    }

    /// Computes the replacement of `slot`, which stands for the first `at` bits of `prefix`.
    fn change(
        &mut self,
        slot: Slot,
        at: u32,
        prefix: &Prefix<N>,
        id: Slot,
        below: &mut Peekable<impl Iterator<Item = Route<N>>>,
    ) -> Slot {
        let mut slots = self.slots(slot, at);
        let (index, end) = (bits(&prefix.address(), at, NODE_BITS), at + NODE_BITS);
        if u32::from(prefix.length()) > end {
            slots[index] = self.change(slots[index], end, prefix, id, below);
        } else {
            let count = 1 << (end - u32::from(prefix.length()));
            let slots = &mut slots[index..index + count];
            slots.iter().for_each(|slot| self.retire(*slot));
            slots.fill(id);
            self.fill(slots, index, at, NODE_BITS, prefix, below);
        }
        if slot.is_node() && !self.moves_down(slot, at) {
            self.limbo.0.push(slot.0);
        }
        self.node(&slots, &prefix.address(), at)
    }

    /// Writes the routes below `within` into `slots`. These are indexed by the `width` address bits from bit `at` on;
    /// the first slot has index `first`.
    fn fill(
        &mut self,
        slots: &mut [Slot],
        first: usize,
        at: u32,
        width: u32,
        within: &Prefix<N>,
        routes: &mut Peekable<impl Iterator<Item = Route<N>>>,
    ) {
        let end = at + width;
        while let Some(&(prefix, id)) = routes.peek()
            && within.covers(&prefix)
        {
            let index = bits(&prefix.address(), at, width) - first;
            let length = u32::from(prefix.length());
            if length <= end {
                slots[index..index + (1 << (end - length))].fill(Slot(u32::from(id.get())));
                routes.next();
            } else {
                let child = Prefix::new(prefix.address(), end as u8); // shorter than a route
                let mut below = [slots[index]; SLOTS];
                self.fill(&mut below, 0, end, NODE_BITS, &child, routes);
                slots[index] = self.node(&below, &child.address(), end);
            }
        }
    }

    /// The node with these slots for the bits from `at` on, below addresses that share the first `at` bits of
    /// `within`; no node if all slots are equal.
    fn node(&mut self, slots: &[Slot; SLOTS], within: &[u8; N], at: u32) -> Slot {
        let mut bitmap = 0u64;
        let mut runs = [slots[0].0; SLOTS];
        let mut last = 0;
        let mut any_node = slots[0].is_node();
        for (i, pair) in slots.windows(2).enumerate() {
            if pair[0] != pair[1] {
                bitmap |= 1 << i;
                last += 1;
                runs[last] = pair[1].0;
                any_node |= pair[1].is_node();
            }
        }
        if last == 0 {
            return slots[0];
        }
        if N > 4
            && let Some(slot) = self.alone(slots, bitmap, within, at)
        {
            return slot;
        }
        let (each, bits, tag) = match any_node || N > 4 {
            true => (2, 32, Slot::NODE | Slot::WIDE),
            false => (4, 16, Slot::NODE),
        };
        let mut words = [bitmap; NODE_MAX];
        let runs = runs[..=last].chunks(each);
        let end = 1 + runs.len();
        for (word, some) in words[1..].iter_mut().zip(runs) {
            let some = some.iter().rev();
            *word = some.fold(0, |word, run| word << bits | u64::from(*run));
        }
        self.write(tag, &words[..end])
    }

    /// Like [`Self::node`], for slots in which one prefix of at most 64 bits differs from everything around it; else
    /// `None`.
    fn alone(
        &mut self,
        slots: &[Slot; SLOTS],
        bitmap: u64,
        within: &[u8; N],
        at: u32,
    ) -> Option<Slot> {
        let (inside, outside) =
            single_range(slots, bitmap).filter(|(_, outside)| !outside.is_node())?;
        let slot = slots[inside.start];
        if slot.is_lone() && self.fib.nodes().single_prefix(slot).outside() == outside {
            return Some(slot); // the existing node serves here, too
        }
        if slot.is_node() {
            return None;
        }
        let path = bits(&Prefix::new(*within, at as u8).address(), 0, 64);
        let lone = SinglePrefix::new(path as u64, at, &inside, [slot, outside])?;
        Some(self.write(Slot::WIDE, &lone.words()))
    }

    /// Writes a node with these words. If there is no room, returns [`Slot::NONE`] and marks the writer as full.
    fn write(&mut self, tag: u32, words: &[u64]) -> Slot {
        let Some(at) = self.arena.take(words.len(), self.reserve) else {
            self.full = true;
            return Slot::NONE;
        };
        self.fib.used.store(self.arena.used(), Ordering::Relaxed);
        if self.arena.used() >= HUGE_PAGES_WORDS_MIN && !self.huge {
            self.huge = true;
            self.fib.words.advise(true);
        }
        for (place, word) in self.fib.words.first()[at..].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.allocated.push(tag | at as u32);
        Slot(tag | at as u32)
    }

    /// True if the node of `slot`, at level `at`, could be used unchanged one level below.
    fn moves_down(&self, slot: Slot, at: u32) -> bool {
        slot.is_lone()
            && self
                .fib
                .nodes()
                .single_prefix(slot)
                .is_beyond(at + NODE_BITS)
    }

    /// Values of the 64 slots below `slot`, for the bits from `at` on.
    fn slots(&self, slot: Slot, at: u32) -> [Slot; SLOTS] {
        if !slot.is_node() {
            return [slot; SLOTS];
        }
        if slot.is_lone() {
            return self.fib.nodes().single_prefix(slot).slots(slot, at);
        }
        let (word, bitmap) = (slot.word(), self.fib.nodes().word(slot.word()));
        let mut run = 0;
        std::array::from_fn(|i| {
            let slot = match slot.is_wide() {
                true => self.fib.nodes().wide(word, run),
                false => Slot(u32::from(self.fib.nodes().narrow(word, run))),
            };
            run += (bitmap >> i & 1) as usize;
            slot
        })
    }

    /// Removes a node and all nodes below it.
    fn retire(&mut self, slot: Slot) {
        if !slot.is_node() {
            return;
        }
        if slot.is_wide() {
            let runs = self.fib.nodes().run(slot.word(), SLOTS - 1);
            for run in 0..=runs {
                self.retire(self.fib.nodes().wide(slot.word(), run));
            }
        }
        self.limbo.0.push(slot.0);
    }

    fn load_top(&self, index: usize) -> Slot {
        Slot(self.fib.top[index].load(Ordering::Relaxed))
    }
}

impl<const N: usize> Writer<N, Poptrie<N>> for PoptrieWriter<N> {
    fn new() -> Result<Self, NoMemory> {
        Ok(PoptrieWriter {
            fib: Arc::new(Poptrie::new()?),
            arena: Arena::default(),
            limbo: Limbo::default(),
            allocated: Vec::new(),
            full: false,
            reserve: 0,
            written: vec![false; (1 << Self::TOP_BITS) / PAGE].into(),
            pages: 0,
            huge: false,
        })
    }

    fn fib(&self) -> &Arc<Poptrie<N>> {
        &self.fib
    }

    fn follow(&mut self, routes: &Routes<N>, prefix: &Prefix<N>) -> Result<(), Full> {
        let (route, below) = routes.around(prefix);
        if prefix.length() == 0 {
            self.fib.default.set(routes.get(prefix));
            return Ok(());
        }
        let id = Slot(route.map_or(0, |(_, id)| u32::from(id.get())));
        let is_new = route.is_some_and(|(route, _)| route == *prefix);
        let reserve = if is_new { RESERVE } else { 0 };
        self.follow_with(prefix, id, &mut below.peekable(), reserve)
    }

    fn follow_all(&mut self, routes: &Routes<N>, changed: &[Prefix<N>]) -> Result<(), Full> {
        // For few changes, reading all words of `top` would cost more than it saves.
        if changed.len() < (1 << Self::TOP_BITS) / 2048 + routes.len() / REBUILD_ROUTES_MIN {
            return changed
                .iter()
                .try_for_each(|prefix| self.follow(routes, prefix));
        }
        let mut all = routes.more_specifics(&Prefix::ALL).peekable();
        self.follow_with(&Prefix::ALL, Slot::NONE, &mut all, RESERVE)?;
        self.fib.default.set(routes.get(&Prefix::ALL));
        Ok(())
    }

    fn take_limbo(&mut self) -> Limbo {
        std::mem::take(&mut self.limbo)
    }

    fn release(&mut self, limbo: Limbo) {
        for slot in limbo.0.into_iter().map(Slot) {
            if slot.is_lone() {
                self.arena.give_back(slot.word(), SinglePrefix::WORDS);
                continue;
            }
            let runs = self.fib.nodes().run(slot.word(), SLOTS - 1) + 1;
            let each = if slot.is_wide() { 2 } else { 4 };
            self.arena.give_back(slot.word(), 1 + runs.div_ceil(each));
        }
    }

    fn memory_bytes(&self) -> usize {
        self.arena.memory_bytes() + (self.limbo.0.capacity() + self.allocated.capacity()) * 4
    }
}
