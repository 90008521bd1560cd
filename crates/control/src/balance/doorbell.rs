//! Workers ring when a ring or a queue fills, so that the balancer looks at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A doorbell, heard by the thread that waits for it first. To ring it takes no lock.
#[derive(Default)]
pub(super) struct Doorbell {
    rung: AtomicBool,
    listener: OnceLock<Thread>,
}

impl Doorbell {
    /// Rings. While nobody has heard it, that costs no more than a look.
    pub(super) fn ring(&self) {
        if self.rung.load(Ordering::Relaxed) || self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(listener) = self.listener.get() {
            listener.unpark();
        }
    }

    /// Waits until it is rung, or was since the last time; or until the time is over.
    pub(super) fn wait(&self, at_most: Duration) {
        self.listener.get_or_init(std::thread::current);
        let begin = Instant::now();
        while !self.rung.swap(false, Ordering::AcqRel) {
            let left = at_most.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const FOREVER: Duration = Duration::from_secs(3600);

    #[test]
    fn it_wakes_who_waits_and_is_heard_later_by_who_did_not() {
        let doorbell = Arc::new(Doorbell::default());
        doorbell.ring();
        doorbell.wait(FOREVER);
        doorbell.wait(Duration::ZERO);
        let (heard, hears) = channel();
        let listener = Arc::new(Doorbell::default());
        let theirs = Arc::clone(&listener);
        let waits = std::thread::spawn(move || {
            for _ in 0..100 {
                theirs.wait(FOREVER);
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
