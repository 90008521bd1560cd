//! A bounded ring with one pusher and one popper: the only way by which packets change their worker.
//!
//! [`ring`] makes two ends: items are pushed at the [`Tail`] and popped at the [`Head`], as in Click's Queue. Each
//! end belongs to one worker at a time and can be moved, never copied or shared. A burst costs one release store. It
//! reads the other end's index only if the cached copy does not suffice, so the ends exchange a cache line at most
//! once per burst.
//!
//! # Why this is sound
//!
//! `tail` counts all items ever pushed and `head` all items ever popped (both wrap). The slots between `head` and
//! `tail` are initialised and belong to the popper; all others belong to the pusher.
//! - The pusher alone stores `tail`, after it has written the slots (release); the popper loads it
//!   (acquire) before it reads them.
//! - The popper alone stores `head`, after it has moved the contents out (release); the pusher loads
//!   it (acquire) before it writes there again.
//!
//! A cached index is never ahead of the true one, so it errs towards "full" or "empty", never towards a slot of the
//! other side. The limit only concerns the pusher's behaviour: soundness depends on the number of slots alone.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;

use primitives::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// Types whose values may cross from one core to another through a ring.
///
/// Any `Send` type may, wrapped in [`Plain`] or [`Box`]. Packets are not `Send`; they may cross only through a ring,
/// because it hands over a packet completely and keeps no part of it.
///
/// # Safety
///
/// A value of the type that is moved into a ring on one thread can be used and dropped on another.
pub unsafe trait Transfer {}

macro_rules! transfer {
    ($($t:ty),*) => { $(
        // SAFETY: plain numbers are `Send`.
        unsafe impl Transfer for $t {}
    )* };
}
transfer!((), bool, u8, u16, u32, u64, u128, usize);

// SAFETY: such a box is `Send`.
unsafe impl<T: Send + ?Sized> Transfer for Box<T> {}
// SAFETY: a vector owns its contents, and each of them may cross.
unsafe impl<T: Transfer> Transfer for Vec<T> {}
// SAFETY: a pair owns both parts, and both may cross.
unsafe impl<A: Transfer, B: Transfer> Transfer for (A, B) {}

/// Carries any `Send` value through a ring without a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain<T: Send>(pub T);

// SAFETY: the content is `Send`.
unsafe impl<T: Send> Transfer for Plain<T> {}

/// Makes a ring that holds up to `capacity` items (at least one), all allocated now.
pub fn ring<T: Transfer>(capacity: usize) -> (Tail<T>, Head<T>) {
    let capacity = capacity.max(1);
    let ends = Arc::new(Ends {
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
        limit: AtomicUsize::new(capacity),
        capacity,
    });
    let slots = (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
    let store = Arc::new(Store {
        slots: slots.collect(),
        ends: ends.clone(),
    });
    let tail = Tail {
        store: store.clone(),
        level: Level(ends.clone()),
        tail: 0,
        head_seen: 0,
    };
    let head = Head {
        store,
        level: Level(ends),
        head: 0,
        tail_seen: 0,
    };
    (tail, head)
}

/// Two cache lines: processors fetch them in pairs.
#[repr(align(128))]
struct Padded<T>(T);

struct Ends {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    limit: AtomicUsize,
    capacity: usize,
}

struct Store<T> {
    /// Slots of the ring; their number is a power of two.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    ends: Arc<Ends>,
}

impl<T> Store<T> {
    #[inline]
    fn slot(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[index & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Store<T> {
    fn drop(&mut self) {
        let mut head = self.ends.head.0.load(Ordering::Acquire);
        let tail = self.ends.tail.0.load(Ordering::Acquire);
        while head != tail {
            // SAFETY: both ends are gone, and slots from head to tail are initialised.
            self.slot(head)
                .with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// Fill level of a ring. It can be copied and kept anywhere; the numbers may be slightly outdated.
#[derive(Clone)]
pub struct Level(Arc<Ends>);

impl Level {
    /// Number of items in the ring, approximately.
    pub fn len(&self) -> usize {
        // The order matters: the head never passes a tail that was read after it.
        let head = self.0.head.0.load(Ordering::Acquire);
        let tail = self.0.tail.0.load(Ordering::Relaxed);
        tail.wrapping_sub(head).min(self.0.capacity)
    }

    /// True if the ring was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of items ever pushed; it wraps.
    pub fn pushed(&self) -> usize {
        self.0.tail.0.load(Ordering::Acquire)
    }

    /// True if all items have been popped that were pushed before [`pushed`](Self::pushed) returned this value.
    pub fn is_past(&self, pushed: usize) -> bool {
        has_reached(self.0.head.0.load(Ordering::Acquire), pushed)
    }

    /// Capacity of the ring in items.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Number of items that the ring accepts now.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Sets the number of items that the ring accepts, at most its capacity. Items inside stay inside.
    pub fn set_limit(&self, items: usize) {
        self.0
            .limit
            .store(items.min(self.0.capacity), Ordering::Relaxed);
    }
}

/// True if a wrapping counter has reached a mark that is not far away.
#[inline]
pub fn has_reached(count: usize, mark: usize) -> bool {
    count.wrapping_sub(mark) <= usize::MAX / 2
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.len(), self.limit())
    }
}

/// The end where items are pushed.
///
/// The worker that pushes owns this end; a copy or a shared use does not compile:
///
/// ```compile_fail,E0599
/// let (tail, _head) = sync::ring::ring::<u64>(8);
/// let second = tail.clone();
/// ```
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: T) {}
/// let (tail, _head) = sync::ring::ring::<u64>(8);
/// shared(tail);
/// ```
pub struct Tail<T: Transfer> {
    store: Arc<Store<T>>,
    level: Level,
    tail: usize,
    head_seen: usize,
}

// SAFETY: the items may cross threads (`Transfer`), there is one tail, and its indices move with it.
unsafe impl<T: Transfer> Send for Tail<T> {}

impl<T: Transfer> Tail<T> {
    /// Number of free slots. Reads the other end's index only if fewer than `wanted` seem to be free.
    #[inline]
    fn space(&mut self, wanted: usize) -> usize {
        let limit = self.level.limit();
        let space = limit.saturating_sub(self.tail.wrapping_sub(self.head_seen));
        if space >= wanted {
            return space;
        }
        self.head_seen = self.level.0.head.0.load(Ordering::Acquire);
        limit.saturating_sub(self.tail.wrapping_sub(self.head_seen))
    }

    /// Moves items from the front of `items` into the ring, as many as fit; returns their number.
    #[inline]
    pub fn push_burst(&mut self, items: &mut Vec<T>) -> usize {
        let n = self.space(items.len()).min(items.len());
        self.write(items.drain(..n))
    }

    /// Moves up to `wanted` items out of `items` into the ring, as many as fit; returns their number. Items that do
    /// not fit stay in `items`.
    #[inline]
    pub fn push_from(&mut self, wanted: usize, items: &mut impl Iterator<Item = T>) -> usize {
        let n = self.space(wanted).min(wanted);
        self.write(items.take(n))
    }

    /// True if the ring has room for one item.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.space(1) > 0
    }

    /// Pushes one item, or gives it back if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.space(1) == 0 {
            return Err(item);
        }
        self.write(std::iter::once(item));
        Ok(())
    }

    /// Writes items, no more than `space` allowed, and publishes them.
    #[inline]
    fn write(&mut self, items: impl Iterator<Item = T>) -> usize {
        let mut tail = self.tail;
        for item in items {
            // SAFETY: `space` has shown that this slot belongs to the pusher, and its old content was moved out.
            self.store
                .slot(tail)
                .with_mut(|slot| unsafe { (*slot).write(item) });
            tail = tail.wrapping_add(1);
        }
        let n = tail.wrapping_sub(self.tail);
        if n != 0 {
            self.tail = tail;
            self.level.0.tail.0.store(tail, Ordering::Release);
        }
        n
    }

    /// True if the ring holds at least `items` items. Reads the other end's index only if the cached one allows that
    /// many items.
    #[inline]
    pub fn holds_at_least(&mut self, items: usize) -> bool {
        if self.tail.wrapping_sub(self.head_seen) < items {
            return false;
        }
        self.head_seen = self.level.0.head.0.load(Ordering::Acquire);
        self.tail.wrapping_sub(self.head_seen) >= items
    }

    /// Fill level of the ring.
    pub fn level(&self) -> &Level {
        &self.level
    }

    /// Number of items; the popper may be removing some.
    pub fn len(&self) -> usize {
        self.level.len()
    }

    /// True if nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.level.is_empty()
    }

    /// Number of items that the ring was made for.
    pub fn capacity(&self) -> usize {
        self.level.capacity()
    }

    /// Sets the number of items that the ring accepts, at most its capacity. Items inside stay inside.
    pub fn set_limit(&self, items: usize) {
        self.level.set_limit(items);
    }
}

/// The end where items are popped.
///
/// The worker that pops owns this end; a copy or a shared use does not compile:
///
/// ```compile_fail,E0599
/// let (_tail, head) = sync::ring::ring::<u64>(8);
/// let second = head.clone();
/// ```
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: T) {}
/// let (_tail, head) = sync::ring::ring::<u64>(8);
/// shared(head);
/// ```
/// Only [`Transfer`] types can be sent through a ring:
///
/// ```compile_fail,E0277
/// let ring = sync::ring::ring::<std::rc::Rc<u64>>(8);
/// ```
pub struct Head<T: Transfer> {
    store: Arc<Store<T>>,
    level: Level,
    head: usize,
    tail_seen: usize,
}

// SAFETY: the items may cross threads (`Transfer`), there is one head, and its indices move with it.
unsafe impl<T: Transfer> Send for Head<T> {}

impl<T: Transfer> Head<T> {
    /// Number of items that can be popped now. Reads the other end's index only if fewer than `wanted` seem to be
    /// there.
    #[inline]
    fn ready(&mut self, wanted: usize) -> usize {
        if self.tail_seen.wrapping_sub(self.head) < wanted {
            self.tail_seen = self.level.0.tail.0.load(Ordering::Acquire);
        }
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Moves up to `max` items to the end of `into`, oldest first; returns their number.
    #[inline]
    pub fn pop_burst(&mut self, max: usize, into: &mut Vec<T>) -> usize {
        let n = self.ready(max).min(max);
        into.reserve(n);
        self.pop_each(n, |item| into.push(item))
    }

    /// Passes up to `max` items to `to`, oldest first; returns their number.
    #[inline]
    pub fn pop_each(&mut self, max: usize, mut to: impl FnMut(T)) -> usize {
        let n = self.ready(max).min(max);
        if n != 0 {
            let mut taken = PoppedBurst { end: self, n: 0 };
            while taken.n < n {
                let slot = taken.end.store.slot(taken.end.head.wrapping_add(taken.n));
                // SAFETY: `ready` has shown that this slot is initialised and belongs to the popper. Counting it
                // first ensures that it is read only once, even if `to` unwinds.
                let item = slot.with_mut(|slot| unsafe { (*slot).assume_init_read() });
                taken.n += 1;
                to(item);
            }
        }
        n
    }

    /// The oldest item, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let mut item = None;
        self.pop_each(1, |i| item = Some(i));
        item
    }

    /// Fill level of the ring.
    pub fn level(&self) -> &Level {
        &self.level
    }

    /// Number of items; the pusher may be adding some.
    pub fn len(&self) -> usize {
        self.level.len()
    }

    /// True if nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.level.is_empty()
    }

    /// Number of items that the ring was made for.
    pub fn capacity(&self) -> usize {
        self.level.capacity()
    }

    /// Sets the number of items that the ring accepts, at most its capacity. Items inside stay inside.
    pub fn set_limit(&self, items: usize) {
        self.level.set_limit(items);
    }
}

/// Returns the slots of a burst to the pusher when the burst ends, even by a panic.
struct PoppedBurst<'a, T: Transfer> {
    end: &'a mut Head<T>,
    n: usize,
}

impl<T: Transfer> Drop for PoppedBurst<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.end.head = self.end.head.wrapping_add(self.n);
        self.end
            .level
            .0
            .head
            .0
            .store(self.end.head, Ordering::Release);
    }
}

/// The standard library's types, or loom's when the model checker runs.
mod primitives {
    #[cfg(loom)]
    pub(super) use loom::{
        cell::UnsafeCell,
        sync::Arc,
        sync::atomic::{AtomicUsize, Ordering},
    };
    #[cfg(not(loom))]
    pub(super) use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    /// A cell with the same interface as loom's `UnsafeCell`.
    #[cfg(not(loom))]
    pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        pub(super) fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    /// The slots are loom's cells: a pusher and a popper in one slot at once would fail the test.
    #[test]
    fn every_interleaving_keeps_order_and_loses_nothing() {
        loom::model(|| {
            let (mut tail, mut head) = ring::<Box<u64>>(2);
            let pusher = thread::spawn(move || {
                let mut items: Vec<_> = (0..4).map(Box::new).collect();
                while !items.is_empty() {
                    if tail.push_burst(&mut items) == 0 {
                        thread::yield_now();
                    }
                }
            });
            let mut out = Vec::new();
            while out.len() < 4 {
                if head.pop_burst(3, &mut out) == 0 {
                    thread::yield_now();
                }
            }
            assert!(out.iter().map(|i| **i).eq(0..4));
            pusher.join().unwrap();
        });
    }

    #[test]
    fn an_end_that_goes_early_leaves_the_rest_to_be_freed() {
        loom::model(|| {
            let (mut tail, mut head) = ring::<Box<u64>>(2);
            let pusher =
                thread::spawn(move || tail.push_burst(&mut vec![Box::new(1), Box::new(2)]));
            let first = head.pop();
            assert!(first.is_none_or(|i| *i == 1));
            drop(head);
            assert_eq!(pusher.join().unwrap(), 2);
        });
    }

    #[test]
    fn a_level_never_shows_more_than_the_capacity() {
        loom::model(|| {
            let (mut tail, mut head) = ring::<u64>(1);
            let level = tail.level().clone();
            let watcher = thread::spawn(move || assert!(level.len() <= 1));
            let pusher = thread::spawn(move || tail.push(1).and_then(|()| tail.push(2)).is_ok());
            head.pop();
            pusher.join().unwrap();
            watcher.join().unwrap();
        });
    }
}
