//! Feeds frames to a whole router in bursts, and checks its packet accounts.

use crate::{Books, Whole};
use std::time::Duration;

/// Frames that go in before the router runs.
const BURST: usize = 256;

/// Feeds frames in bursts, to one device after the other, and advances the time now and then.
pub struct Feeder {
    router: Whole,
    burst: Vec<Vec<u8>>,
    bursts: usize,
}

impl Feeder {
    /// Feeds a router.
    pub fn new(router: Whole) -> Feeder {
        Feeder {
            router,
            burst: Vec::new(),
            bursts: 0,
        }
    }

    /// Adds a frame to the next burst.
    pub fn feed(&mut self, frame: &[u8]) {
        self.burst.push(frame.to_vec());
        if self.burst.len() == BURST {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let frames = self.burst.iter().map(Vec::as_slice);
        self.router.receive(self.bursts, frames);
        self.burst.clear();
        self.router.settle();
        self.bursts += 1;
        if self.bursts.is_multiple_of(8) {
            self.router.advance(Duration::from_millis(300));
        }
        // Only the number of sent frames is kept.
        self.router.sent_so_far();
    }

    /// Lets timers expire, checks the accounts and prints them. Then it checks that the accounts know all buffers in
    /// use, and that none is left. `before` is the thread's balance of buffers before the router was made.
    #[track_caller]
    pub fn finish(mut self, before: isize, look: impl FnOnce(&mut Whole, &Books)) {
        self.flush();
        self.router.check();
        self.router.advance(Duration::from_secs(60));
        let books = self.router.check();
        let in_use = engine::packet::pool::balance() - before;
        assert_eq!(
            i64::try_from(books.held()),
            Ok(in_use as i64),
            "buffers in use"
        );
        look(&mut self.router, &books);
        drop(self.router);
        assert_eq!(
            engine::packet::pool::balance(),
            before,
            "buffers were leaked"
        );
    }
}

/// Feeds a frame truncated to every length, and the whole frame.
pub fn every_length(frame: &[u8], feeder: &mut Feeder) {
    (0..=frame.len()).for_each(|len| feeder.feed(&frame[..len]));
}
