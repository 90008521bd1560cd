//! Look-up of addresses.

use std::sync::atomic::{AtomicU32, Ordering};

use super::arena::Words;
use super::single_prefix::SinglePrefix;
use super::{BURST, NODE_BITS, Poptrie, Slot};
use crate::fib::prefix::{Address, bits};
use crate::prefetch;

/// Pointers to the memory that a look-up reads, held by value so that they stay in registers. Through [`Poptrie`],
/// which holds atomics, the compiler would reload them after every word.
#[derive(Clone, Copy)]
pub(super) struct Nodes<'a, const N: usize> {
    pub(super) top: &'a [AtomicU32],
    pub(super) words: &'a Words,
}

impl<const N: usize> Nodes<'_, N> {
    #[inline(always)]
    pub(super) fn word(self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn top(self, address: &[u8; N]) -> Slot {
        let index = bits(address, 0, Poptrie::<N>::TOP_BITS);
        Slot(self.top[index].load(Ordering::Acquire))
    }

    /// Index of slot `index`'s run in the node at `word`: the number of earlier slots that differ from the next one.
    #[inline(always)]
    pub(super) fn run(self, word: usize, index: usize) -> usize {
        let before = (1u64 << (index as u32 % 64)) - 1;
        (self.word(word) & before).count_ones() as usize
    }

    #[inline(always)]
    pub(super) fn narrow(self, word: usize, run: usize) -> u16 {
        (self.word(word + 1 + run / 4) >> (run % 4 * 16)) as u16
    }

    #[inline(always)]
    pub(super) fn wide(self, word: usize, run: usize) -> Slot {
        Slot((self.word(word + 1 + run / 2) >> (run % 2 * 32)) as u32)
    }

    #[inline(always)]
    pub(super) fn single_prefix(self, slot: Slot) -> SinglePrefix {
        SinglePrefix::of_words([self.word(slot.word()), self.word(slot.word() + 1)])
    }

    #[inline(always)]
    pub(super) fn fetch_top(self, address: &[u8; N]) {
        prefetch::line(&self.top[bits(address, 0, Poptrie::<N>::TOP_BITS)]);
    }

    #[inline(always)]
    fn fetch(self, slot: Slot) {
        prefetch::line(&self.words[slot.word()]);
    }

    /// Descends from `slot`, which is for the bits from `at` on. Returns the id of the longest prefix except the
    /// default route, or 0.
    #[inline(always)]
    pub(super) fn descend(self, address: &[u8; N], mut slot: Slot, mut at: u32) -> u16 {
        while slot.is_node() && at < N as u32 * 8 {
            if N > 4 && slot.is_lone() {
                return self.single_prefix(slot).id(bits(address, 0, 64) as u64);
            }
            let (word, index) = (slot.word(), bits(address, at, NODE_BITS));
            let run = self.run(word, index);
            if !slot.is_wide() {
                return self.narrow(word, run);
            }
            slot = self.wide(word, run);
            at += NODE_BITS;
        }
        slot.id()
    }

    /// Looks up at most [`BURST`] IPv4 addresses, most of which need one node.
    #[inline(always)]
    pub(super) fn burst_short<A: Address<N>>(self, addresses: &[A], ids: &mut [u16]) {
        let mut slots = [Slot::NONE; BURST];
        // Issues the first loads of all addresses before any second load, so that none waits for another.
        for (slot, address) in slots.iter_mut().zip(addresses) {
            *slot = self.top(&address.octets());
            self.fetch(*slot);
        }
        for ((slot, address), id) in slots.iter().zip(addresses).zip(ids) {
            *id = self.leaf(&address.octets(), *slot);
        }
    }

    /// Like [`Nodes::descend`] from `top` on, without a branch for addresses that need at most one node.
    #[inline(always)]
    fn leaf(self, address: &[u8; N], slot: Slot) -> u16 {
        if slot.is_wide() {
            return self.descend(address, slot, Poptrie::<N>::TOP_BITS);
        }
        // If there is no node, this reads an unrelated word, and the result is ignored.
        let index = bits(address, Poptrie::<N>::TOP_BITS, NODE_BITS);
        let found = self.narrow(slot.word(), self.run(slot.word(), index));
        if slot.is_node() { found } else { slot.id() }
    }

    /// Looks up at most [`BURST`] IPv6 addresses: all of them level by level, and lone prefixes last. So no branch
    /// depends on the content of a word.
    #[inline(always)]
    pub(super) fn burst_long<A: Address<N>>(self, addresses: &[A], ids: &mut [u16]) {
        let (mut keys, mut slots) = ([0u64; BURST], [Slot::NONE; BURST]);
        // For each address, a bit: set if its search has reached a wide node.
        let mut open = 0u64;
        for (i, (address, (key, slot))) in (addresses.iter())
            .zip(keys.iter_mut().zip(&mut slots))
            .enumerate()
        {
            *key = bits(&address.octets(), 0, 64) as u64;
            *slot = self.top(&address.octets());
            self.fetch(*slot);
            open |= slot.wide_bit() << i;
        }
        let mut at = Poptrie::<N>::TOP_BITS;
        while open != 0 && at + NODE_BITS <= 64 {
            let mut rest = std::mem::take(&mut open);
            while rest != 0 {
                let i = rest.trailing_zeros() as usize % BURST;
                let index = keys[i] << at >> (64 - NODE_BITS);
                let word = slots[i].word();
                slots[i] = self.wide(word, self.run(word, index as usize));
                self.fetch(slots[i]);
                open |= slots[i].wide_bit() << i;
                rest &= rest - 1;
            }
            at += NODE_BITS;
        }
        while let Some(address) = addresses.get(open.trailing_zeros() as usize) {
            let slot = &mut slots[open.trailing_zeros() as usize % BURST];
            *slot = Slot(u32::from(self.descend(&address.octets(), *slot, at)));
            open &= open - 1;
        }
        let mut lone = 0u64;
        for (i, (slot, id)) in slots.iter().zip(ids.iter_mut()).enumerate() {
            *id = slot.id();
            lone |= slot.lone_bit() << i;
        }
        while let Some(id) = ids.get_mut(lone.trailing_zeros() as usize) {
            let i = lone.trailing_zeros() as usize % BURST;
            *id = self.single_prefix(slots[i]).id(keys[i]);
            lone &= lone - 1;
        }
    }
}
