//! Wake-ups of the balancer: workers ring when a ring or a queue fills, so that it checks the load at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// A doorbell. It wakes the thread that first checked it. Ringing takes no lock.
#[derive(Default)]
pub(super) struct Doorbell {
    pending: AtomicBool,
    listener: OnceLock<Thread>,
}

impl Doorbell {
    /// Rings the doorbell. While it is pending, the call costs one load.
    pub(super) fn ring(&self) {
        if self.pending.load(Ordering::Relaxed) || self.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(listener) = self.listener.get() {
            listener.unpark();
        }
    }

    /// True if the doorbell is pending.
    pub(super) fn is_rung(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// True if the doorbell was rung since the last call. Later rings wake the calling thread.
    pub(super) fn was_rung(&self) -> bool {
        self.listener.get_or_init(std::thread::current);
        self.pending.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn doorbell_wakes_a_waiter_and_stays_pending_without_one() {
        let doorbell = Arc::new(Doorbell::default());
        doorbell.ring();
        assert!(doorbell.was_rung() && !doorbell.was_rung());
        let (heard, hears) = channel();
        let listener = Arc::new(Doorbell::default());
        let theirs = Arc::clone(&listener);
        let waits = std::thread::spawn(move || {
            for _ in 0..100 {
                while !theirs.was_rung() {
                    std::thread::park_timeout(Duration::from_secs(3600));
                }
                heard.send(()).expect("somebody listens");
            }
        });
        for _ in 0..100 {
            listener.ring();
            let heard = hears.recv_timeout(Duration::from_secs(60));
            heard.expect("it was heard");
        }
        waits.join().expect("it ends");
    }
}
