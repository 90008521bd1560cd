//! Tables that many workers read while one writer replaces them: no locks for the readers.
//!
//! Each worker owns a [`Reader`] and calls [`Reader::quiescent`] once per turn of its loop, when it holds no reference
//! into a table. A [`Published`] value is replaced as a whole; the old one is freed once every reader has passed such a
//! point (quiescent-state reclamation). A worker sleeps inside [`Reader::offline`] and so delays no writer.
//!
//! The compiler checks that no reference survives a quiescent point: a reference borrows the reader, and
//! `quiescent` borrows it mutably.
//!
//! ```compile_fail,E0502
//! # use sync::publish::{domain, Published};
//! let table = Published::new(domain(), 7u64);
//! let mut reader = domain().register().unwrap();
//! let seen = table.read(&reader);
//! reader.quiescent();
//! println!("{seen}");
//! ```
//!
//! # Why this is sound
//!
//! The domain counts epochs. A writer unlinks a value, then begins epoch `e`, and frees the value when
//! each reader's slot shows offline or at least `e`.
//! - *A reader that shows `e` or later* loaded the epoch (acquire) after the writer began it (release),
//!   hence after the value was unlinked: what it reads from now on is newer. What it read before that
//!   happened before it stored its slot (release), which the writer loaded (acquire) before freeing.
//! - *A reader that shows offline* stored that (release) after its last use. It may come back at any
//!   time: it then stores its slot, passes a sequentially consistent fence, and only then reads tables.
//!   The writer passes such a fence between beginning the epoch and loading the slots. One of the two
//!   fences is first: either the writer sees the reader online, and waits; or the reader sees the epoch
//!   and the unlinking, and cannot reach the value.
//!
//! A reader whose epoch has not changed stores nothing: its slot already has this value, and nothing has been
//! unlinked for that epoch since.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU64, Ordering, fence},
};

/// Maximum number of readers of the process-wide domain: more than the workers of any server.
pub const READERS_MAX: usize = 128;

/// The domain in which the workers of this process read.
pub fn domain() -> &'static Arc<Domain> {
    static DOMAIN: std::sync::OnceLock<Arc<Domain>> = std::sync::OnceLock::new();
    DOMAIN.get_or_init(|| Domain::new(READERS_MAX))
}

/// Registers a reader of the process's tables. The error is a sentence.
pub fn register() -> Result<Reader, String> {
    let reader = domain().register();
    reader.ok_or_else(|| "too many workers: no reader is left for published tables".to_owned())
}

/// Value of a reader's slot while the reader holds no references.
const OFFLINE: u64 = 0;

/// Two cache lines: processors fetch them in pairs.
#[repr(align(128))]
struct Padded<T>(T);

type Deferred = Box<dyn FnOnce() + Send>;

/// An epoch: values unlinked before it are unreachable once [`Domain::has_passed`] returns true for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// Readers, and the values that wait for them. Writers lock it, readers never do.
pub struct Domain {
    epoch: Padded<AtomicU64>,
    readers: Box<[Padded<AtomicU64>]>,
    vacant: Mutex<Vec<usize>>,
    limbo: Mutex<VecDeque<(Epoch, Deferred)>>,
}

impl Domain {
    /// A domain for up to `readers` readers at a time.
    pub fn new(readers: usize) -> Arc<Domain> {
        Arc::new(Domain {
            epoch: Padded(AtomicU64::new(OFFLINE + 1)),
            readers: (0..readers)
                .map(|_| Padded(AtomicU64::new(OFFLINE)))
                .collect(),
            vacant: Mutex::new((0..readers).rev().collect()),
            limbo: Mutex::new(VecDeque::new()),
        })
    }

    /// Adds a reader, online from now on; `None` if there are as many as the domain was made for.
    pub fn register(self: &Arc<Self>) -> Option<Reader> {
        let slot = lock(&self.vacant).pop()?;
        let mut reader = Reader {
            domain: self.clone(),
            slot,
            seen: OFFLINE,
        };
        reader.online();
        Some(reader)
    }

    /// Begins an epoch. Values unlinked before this call can be freed or reused once the epoch has passed.
    pub fn advance(&self) -> Epoch {
        // Acquire too: an epoch stands for all unlinking before it, by whichever writer.
        Epoch(self.epoch.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// True if every reader has passed a quiescent point since `epoch` began, or is offline.
    pub fn has_passed(&self, epoch: Epoch) -> bool {
        self.oldest() >= epoch
    }

    /// The latest epoch that every reader has seen.
    fn oldest(&self) -> Epoch {
        let now = self.epoch.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let seen = self.readers.iter().map(|r| r.0.load(Ordering::Acquire));
        Epoch(seen.filter(|&e| e != OFFLINE).fold(now, u64::min))
    }

    /// Runs `free` once every reader has passed a quiescent point, in a later [`Domain::reclaim`].
    pub fn defer(&self, free: impl FnOnce() + Send + 'static) {
        let mut limbo = lock(&self.limbo);
        let epoch = self.advance(); // under the lock, so that the limbo stays in order
        limbo.push_back((epoch, Box::new(free)));
    }

    /// Frees all tables that no reader can reach; returns the number of those that still wait. For writers.
    pub fn reclaim(&self) -> usize {
        let oldest = self.oldest();
        loop {
            let mut limbo = lock(&self.limbo);
            let is_due = limbo.front().is_some_and(|(epoch, _)| *epoch <= oldest);
            let due = if is_due { limbo.pop_front() } else { None };
            let waiting = limbo.len();
            drop(limbo); // what runs now may defer again
            match due {
                Some((_, free)) => free(),
                None => return waiting,
            }
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.reclaim(); // readers keep the domain alive, so there are none, and nothing has to wait
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers = self.readers.len() - lock(&self.vacant).len();
        write!(
            f,
            "Domain with {readers} readers, {} waiting",
            lock(&self.limbo).len()
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker's right to read published values. Not to be copied:
///
/// ```compile_fail,E0599
/// let reader = sync::publish::domain().register().unwrap();
/// let second = reader.clone();
/// ```
pub struct Reader {
    domain: Arc<Domain>,
    slot: usize,
    seen: u64,
}

impl Reader {
    /// Declares that this worker holds no reference into published values. Call it once per turn of the worker's loop.
    #[inline]
    pub fn quiescent(&mut self) {
        let epoch = self.domain.epoch.0.load(Ordering::Acquire);
        if epoch != self.seen {
            self.seen = epoch;
            self.domain.readers[self.slot]
                .0
                .store(epoch, Ordering::Release);
        }
    }

    /// Runs `sleep`; meanwhile no writer waits for this reader.
    pub fn offline<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a mut Reader);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.online();
            }
        }
        self.domain.readers[self.slot]
            .0
            .store(OFFLINE, Ordering::Release);
        let _back = Back(self);
        sleep()
    }

    fn online(&mut self) {
        self.seen = self.domain.epoch.0.load(Ordering::Acquire);
        self.domain.readers[self.slot]
            .0
            .store(self.seen, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.domain.readers[self.slot]
            .0
            .store(OFFLINE, Ordering::Release);
        lock(&self.domain.vacant).push(self.slot);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader {} at epoch {}", self.slot, self.seen)
    }
}

/// A value that workers read without locks and that control replaces as a whole.
pub struct Published<T: Send + Sync + 'static> {
    domain: Arc<Domain>,
    /// Pointer into the `Arc` that `current` holds.
    pointer: AtomicPtr<T>,
    current: Mutex<Arc<T>>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes the first value to the readers of `domain`.
    pub fn new(domain: &Arc<Domain>, value: T) -> Self {
        let current = Arc::new(value);
        Published {
            domain: domain.clone(),
            pointer: AtomicPtr::new(Arc::as_ptr(&current).cast_mut()),
            current: Mutex::new(current),
        }
    }

    /// The present value, until `reader` passes a quiescent point.
    ///
    /// # Panics
    ///
    /// Panics if `reader` belongs to another domain, which would not keep the value alive.
    #[inline]
    pub fn read<'r>(&'r self, reader: &'r Reader) -> &'r T {
        self.assert_domain(reader);
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the pointer is into an `Arc` that this value or the domain's limbo holds. The reader is online
        // (`offline` borrows it), and stays at its epoch while the result borrows it; the head of this file explains
        // why the limbo then keeps the value. Nobody writes to it: it is only ever shared.
        unsafe { &*pointer }
    }

    /// Access for many reads, of which each costs less than [`read`](Self::read): the domains are compared once.
    ///
    /// # Panics
    ///
    /// Panics if `reader` belongs to another domain, as [`read`](Self::read) does.
    #[inline]
    pub fn reading<'p, 'r>(&'p self, reader: &'r Reader) -> Reading<'p, 'r, T> {
        self.assert_domain(reader);
        Reading {
            published: self,
            reader: PhantomData,
        }
    }

    /// Panics if `reader` belongs to another domain.
    #[inline]
    fn assert_domain(&self, reader: &Reader) {
        assert!(
            Arc::ptr_eq(&self.domain, &reader.domain),
            "the reader is of another domain"
        );
    }

    /// Replaces the value; the old one is freed when no reader can hold it. Writers wait for each other.
    pub fn replace(&self, value: T) {
        self.update(|_| Arc::new(value));
    }

    /// Replaces the value by one computed from it, with no other writer in between.
    pub fn update(&self, make: impl FnOnce(&Arc<T>) -> Arc<T>) {
        let mut current = lock(&self.current);
        let new = make(&current);
        self.pointer
            .store(Arc::as_ptr(&new).cast_mut(), Ordering::Release);
        let old = std::mem::replace(&mut *current, new);
        self.domain.defer(move || drop(old));
        drop(current);
        self.domain.reclaim();
    }

    /// The present value, for longer use: for control, which may wait for a writer.
    pub fn snapshot(&self) -> Arc<T> {
        lock(&self.current).clone()
    }
}

/// Access to a published value for a reader of the same domain; see [`Published::reading`].
pub struct Reading<'p, 'r, T: Send + Sync + 'static> {
    published: &'p Published<T>,
    reader: PhantomData<&'r Reader>,
}

impl<T: Send + Sync + 'static> Reading<'_, '_, T> {
    /// The present value, which may be another one at each call.
    #[inline(always)]
    pub fn get(&self) -> &T {
        // SAFETY: as in `Published::read`. `Published::reading` has compared the domains, which never change. The
        // result borrows `self`, which borrows the reader: so the reader stays online and at its epoch.
        unsafe { &*self.published.pointer.load(Ordering::Acquire) }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Published").field(&*self.snapshot()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;

    struct Counted(u64, Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0 = u64::MAX;
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_old_value_waits_for_every_online_reader() {
        let domain = Domain::new(4);
        let freed = Arc::new(AtomicUsize::new(0));
        let value = Published::new(&domain, Counted(0, freed.clone()));
        let (mut a, mut b) = (domain.register().unwrap(), domain.register().unwrap());
        assert_eq!(value.read(&a).0, 0);
        value.replace(Counted(1, freed.clone()));
        assert_eq!((value.read(&a).0, value.read(&b).0), (1, 1));
        a.quiescent();
        assert_eq!((domain.reclaim(), freed.load(Ordering::Relaxed)), (1, 0));
        b.quiescent();
        assert_eq!((domain.reclaim(), freed.load(Ordering::Relaxed)), (0, 1));
        drop(value);
        assert_eq!(freed.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn sleeping_reader_delays_no_writer_and_wakes_to_the_new_value() {
        let domain = Domain::new(1);
        let value = Published::new(&domain, 1u64);
        let mut reader = domain.register().unwrap();
        let waiting = reader.offline(|| {
            value.replace(2);
            domain.reclaim()
        });
        assert_eq!(waiting, 0);
        assert_eq!(*value.read(&reader), 2);
        value.replace(3);
        assert_eq!(domain.reclaim(), 1, "awake again, it is waited for");
    }

    #[test]
    fn readers_come_and_go_up_to_the_maximum() {
        let domain = Domain::new(2);
        let (a, b) = (domain.register(), domain.register());
        assert!(a.is_some() && b.is_some() && domain.register().is_none());
        domain.defer(|| ());
        assert_eq!(domain.reclaim(), 1);
        drop((a, b));
        assert_eq!(domain.reclaim(), 0, "readers that left are not waited for");
        assert!(domain.register().is_some());
    }

    #[test]
    fn an_epoch_passes_when_all_have_seen_it() {
        let domain = Domain::new(2);
        let mut reader = domain.register().unwrap();
        let epoch = domain.advance();
        assert!(!domain.has_passed(epoch));
        let _late = domain.register().unwrap();
        reader.quiescent();
        assert!(
            domain.has_passed(epoch),
            "a reader that came later cannot hold what was unlinked before"
        );
        assert!(!domain.has_passed(domain.advance()));
    }

    #[test]
    fn freeing_a_value_may_defer_another() {
        let domain = Domain::new(1);
        let inner = domain.clone();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        domain.defer(move || {
            inner.defer(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
        });
        while domain.reclaim() > 0 {}
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn a_reader_of_another_domain_is_refused() {
        let value = Published::new(&Domain::new(1), 1u64);
        value.read(&Domain::new(1).register().unwrap());
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn a_reader_of_another_domain_is_refused_for_many_reads() {
        let value = Published::new(&Domain::new(1), 1u64);
        value.reading(&Domain::new(1).register().unwrap());
    }

    #[test]
    fn each_of_many_reads_returns_the_present_value() {
        let domain = Domain::new(1);
        let freed = Arc::new(AtomicUsize::new(0));
        let value = Published::new(&domain, Counted(0, freed.clone()));
        let mut reader = domain.register().unwrap();
        let reading = value.reading(&reader);
        let old = reading.get();
        value.replace(Counted(1, freed.clone()));
        assert_eq!((old.0, reading.get().0), (0, 1));
        assert_eq!(freed.load(Ordering::Relaxed), 0);
        reader.quiescent();
        assert_eq!((domain.reclaim(), freed.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn a_snapshot_outlives_replacement() {
        let value = Published::new(domain(), vec![1]);
        let old = value.snapshot();
        value.update(|v| Arc::new(v.iter().map(|n| n + 1).collect()));
        assert_eq!(
            (old, value.snapshot()),
            (Arc::new(vec![1]), Arc::new(vec![2]))
        );
    }

    #[test]
    fn readers_that_work_sleep_and_leave_never_see_a_freed_value() {
        let replacements = if cfg!(miri) { 60 } else { 30_000 };
        let domain = Domain::new(3);
        let freed = Arc::new(AtomicUsize::new(0));
        let value = Published::new(&domain, Counted(0, freed.clone()));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for kind in 0..3 {
                let (domain, value, done) = (&domain, &value, &done);
                scope.spawn(move || {
                    let mut reader = domain.register().unwrap();
                    let mut last = 0;
                    while !done.load(Ordering::Relaxed) {
                        let held = value.read(&reader);
                        let n = held.0;
                        thread::yield_now();
                        assert_eq!(held.0, n, "freed while held");
                        assert!(n >= last, "time runs forward");
                        last = n;
                        match kind {
                            0 => reader.quiescent(),
                            1 => reader.offline(thread::yield_now),
                            _ => {
                                drop(reader);
                                reader = domain.register().unwrap();
                            }
                        }
                    }
                });
            }
            for n in 1..=replacements {
                value.replace(Counted(n, freed.clone()));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(domain.reclaim(), 0);
        assert_eq!(freed.load(Ordering::Relaxed) as u64, replacements);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// Its drop writes to a cell that its readers read: an overlap would fail the test.
    struct Watched(UnsafeCell<u64>);

    // SAFETY: loom itself watches the accesses.
    unsafe impl Sync for Watched {}

    impl Watched {
        fn new(n: u64) -> Self {
            Watched(UnsafeCell::new(n))
        }
        fn get(&self) -> u64 {
            // SAFETY: as above.
            self.0.with(|n| unsafe { *n })
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            // SAFETY: as above.
            self.0.with_mut(|n| unsafe { *n = u64::MAX });
        }
    }

    fn check(turn: impl Fn(&mut Reader) + Copy + Send + Sync + 'static) {
        loom::model(move || {
            let domain = Domain::new(1);
            let value = Arc::new(Published::new(&domain, Watched::new(0)));
            let mut reader = domain.register().unwrap();
            let seen = value.clone();
            let worker = thread::spawn(move || {
                let mut last = 0;
                for _ in 0..2 {
                    let n = seen.read(&reader).get();
                    assert!(n <= 1 && n >= last);
                    last = n;
                    turn(&mut reader);
                }
                last = seen.read(&reader).get().max(last);
                assert!(last <= 1);
            });
            value.replace(Watched::new(1));
            domain.reclaim();
            worker.join().unwrap();
            assert_eq!(domain.reclaim(), 0);
        });
    }

    #[test]
    fn no_interleaving_frees_under_a_reader_that_passes_quiescent_points() {
        check(Reader::quiescent);
    }

    #[test]
    fn no_interleaving_frees_under_a_reader_that_sleeps_and_wakes() {
        check(|reader| reader.offline(|| ()));
    }

    #[test]
    fn no_interleaving_frees_under_a_reader_that_comes_late() {
        loom::model(|| {
            let domain = Domain::new(1);
            let value = Arc::new(Published::new(&domain, Watched::new(0)));
            let (domain2, value2) = (domain.clone(), value.clone());
            let worker = thread::spawn(move || {
                let reader = domain2.register().unwrap();
                assert!(value2.read(&reader).get() <= 1);
            });
            value.replace(Watched::new(1));
            worker.join().unwrap();
            assert_eq!(domain.reclaim(), 0);
        });
    }
}
