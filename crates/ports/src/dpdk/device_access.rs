//! Lock-free use of a device by workers, which can be revoked when a card is unplugged.
//!
//! A worker marks itself as in use before it uses a queue, and as out of use afterwards. The thread that removes the
//! device revokes access and waits until no worker is marked. Either the worker sees the revocation, or the other
//! thread sees the mark. This requires a memory barrier between each side's write and read. Workers enter and
//! leave for every burst, so their barrier is for the compiler only: on revocation, the kernel makes all threads of the
//! process pass a barrier.

use super::sys::Device;
use crate::sys;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, compiler_fence};
use sync::Lock;

/// Value in place of a device number: the device must not be used.
const REVOKED: u32 = u32::MAX;

/// True if a worker uses the device; on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct InUse(AtomicBool);

/// Access to a device while it is present.
pub(super) struct DeviceAccess {
    device: AtomicU32,
    queues: Lock<Vec<Arc<InUse>>>,
}

/// The right of one queue to use the device, by one thread at a time.
pub(super) struct QueueAccess {
    access: Arc<DeviceAccess>,
    in_use: Arc<InUse>,
}

impl DeviceAccess {
    /// Access to a present device.
    pub(super) fn to(device: Device) -> DeviceAccess {
        DeviceAccess {
            device: AtomicU32::new(device.number().into()),
            queues: Lock::default(),
        }
    }

    pub(super) fn queue_access(self: &Arc<DeviceAccess>) -> QueueAccess {
        let in_use = Arc::new(InUse::default());
        let mut queues = self.queues.lock();
        queues.push(Arc::clone(&in_use));
        QueueAccess {
            access: Arc::clone(self),
            in_use,
        }
    }

    /// Gives access to a device, which runs.
    pub(super) fn open(&self, device: Device) {
        self.device.store(device.number().into(), Release);
    }

    /// Revokes access: when this returns, no worker uses the device, and none will. Returns false, with access
    /// unchanged, if this kernel lacks the barrier.
    pub(super) fn revoke(&self) -> bool {
        let before = self.device.swap(REVOKED, SeqCst);
        if !sys::barrier_on_all_threads() {
            self.device.store(before, Release);
            return false;
        }
        let queues = self.queues.lock();
        for in_use in queues.iter() {
            // The wait lasts at most one burst.
            while in_use.0.load(Acquire) {
                std::thread::yield_now();
            }
        }
        true
    }
}

impl QueueAccess {
    /// Uses the device, if it is present.
    #[inline]
    pub(super) fn with_device<T>(&self, job: impl FnOnce(Device) -> T) -> Option<T> {
        self.in_use.0.store(true, Relaxed);
        compiler_fence(SeqCst);
        let number = self.access.device.load(Acquire);
        let done = u16::try_from(number).ok().map(|n| job(Device::of(n)));
        self.in_use.0.store(false, Release);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn revoke_waits_until_no_worker_uses_the_device() {
        let access = Arc::new(DeviceAccess::to(Device::of(7)));
        // State of the device: 1 while it may be used.
        let (device, wrong) = (AtomicUsize::new(1), AtomicUsize::new(0));
        let (visits, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for queue in [access.queue_access(), access.queue_access()] {
                let (device, wrong, visits, ends) = (&device, &wrong, &visits, &ends);
                scope.spawn(move || {
                    while !ends.load(Relaxed) {
                        let used = queue.with_device(|number| {
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
                assert!(access.revoke(), "this kernel has membarrier");
                device.store(0, SeqCst);
                std::thread::yield_now();
                device.store(1, SeqCst);
                access.open(Device::of(7));
            }
            ends.store(true, Relaxed);
        });
        assert_eq!(wrong.into_inner(), 0);
    }
}
