//! Lock-free use of a device by workers, from whom it can still be taken away when a card is unplugged.
//!
//! A worker marks itself as inside before it uses a queue, and as outside afterwards. The thread that takes the device
//! away shuts the door and waits until no worker is inside. Either the worker sees the shut door, or the other thread
//! sees the worker inside. For this each needs a barrier between its write and its read. Workers go in and out for
//! every burst, so theirs is only for the compiler: when the door shuts, the kernel makes all threads of the process
//! pass a barrier.

use super::sys::Device;
use crate::sys;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, compiler_fence};
use sync::Lock;

/// Value in place of a device number: the device must not be used.
const SHUT: u32 = u32::MAX;

/// True if a worker is inside; on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Inside(AtomicBool);

/// Access to a device while it is present.
pub(super) struct Door {
    device: AtomicU32,
    visitors: Lock<Vec<Arc<Inside>>>,
}

/// The right of one queue to use the device, by one thread at a time.
pub(super) struct Visitor {
    door: Arc<Door>,
    inside: Arc<Inside>,
}

impl Door {
    /// Access to a present device.
    pub(super) fn to(device: Device) -> Door {
        Door {
            device: AtomicU32::new(device.number().into()),
            visitors: Lock::default(),
        }
    }

    pub(super) fn visitor(self: &Arc<Door>) -> Visitor {
        let inside = Arc::new(Inside::default());
        let mut visitors = self.visitors.lock();
        visitors.push(Arc::clone(&inside));
        Visitor {
            door: Arc::clone(self),
            inside,
        }
    }

    /// Gives access to a device, which runs.
    pub(super) fn open(&self, device: Device) {
        self.device.store(device.number().into(), Release);
    }

    /// Revokes access: when this returns, no worker uses the device, and none will. Returns false, with access
    /// unchanged, if this kernel lacks the barrier.
    pub(super) fn shut(&self) -> bool {
        let before = self.device.swap(SHUT, SeqCst);
        if !sys::barrier_on_all_threads() {
            self.device.store(before, Release);
            return false;
        }
        let visitors = self.visitors.lock();
        for inside in visitors.iter() {
            // The wait lasts at most one burst.
            while inside.0.load(Acquire) {
                std::thread::yield_now();
            }
        }
        true
    }
}

impl Visitor {
    /// Uses the device, if it is present.
    #[inline]
    pub(super) fn visit<T>(&self, what: impl FnOnce(Device) -> T) -> Option<T> {
        self.inside.0.store(true, Relaxed);
        compiler_fence(SeqCst);
        let number = self.door.device.load(Acquire);
        let done = u16::try_from(number).ok().map(|n| what(Device::of(n)));
        self.inside.0.store(false, Release);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn no_worker_is_inside_once_the_door_is_shut() {
        let door = Arc::new(Door::to(Device::of(7)));
        // State of the device: 1 while it may be used.
        let (device, wrong) = (AtomicUsize::new(1), AtomicUsize::new(0));
        let (visits, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for visitor in [door.visitor(), door.visitor()] {
                let (device, wrong, visits, ends) = (&device, &wrong, &visits, &ends);
                scope.spawn(move || {
                    while !ends.load(Relaxed) {
                        let used = visitor.visit(|number| {
                            assert_eq!(number, Device::of(7));
                            for _ in 0..20 {
                                wrong.fetch_add(1 - device.load(Relaxed), Relaxed);
                            }
                        });
                        visits.fetch_add(usize::from(used.is_some()), Relaxed);
                    }
                });
            }
            for _ in 0..200 {
                let before = visits.load(Relaxed);
                while visits.load(Relaxed) < before + 10 {
                    std::thread::yield_now();
                }
                assert!(door.shut(), "this kernel has membarrier");
                device.store(0, SeqCst);
                std::thread::yield_now();
                device.store(1, SeqCst);
                door.open(Device::of(7));
            }
            ends.store(true, Relaxed);
        });
        assert_eq!(wrong.into_inner(), 0);
    }
}
