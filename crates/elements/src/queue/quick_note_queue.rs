//! Holds packets, first in, first out; tasks that pull from it sleep as soon as it is empty.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> q :: QuickNoteQueue(100) -> Discard;
//! ```
//!
//! Works like Queue, but a task that pulls from it sleeps as soon as it has taken the last packet. For a queue that
//! stays empty this saves useless polls; for a queue that holds about one packet it means more sleeping and
//! waking.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::kind::Kind;
use super::queue::Queue;
use crate::manual;

/// Names the class.
pub(crate) struct Is;

pub(crate) type QuickNoteQueue = Queue<Is>;

impl Kind for Is {
    const CLASS: &'static str = "QuickNoteQueue";
    const MANUAL: &'static str = manual!();
    const QUICK: bool = true;
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    /// Number of polls by the puller after the last packet was taken.
    fn looks(class: &str) -> usize {
        let text = format!("q :: {class} -> u :: Unqueue -> out :: Collect");
        let mut bench = Bench::strict(crate::CLASSES, &text);
        bench.push("q", &[b"a"]);
        while bench.take("out").is_empty() {
            bench.graph().run_next_task();
        }
        let mut looks = 0;
        while bench.read("u.scheduled") == "true" {
            bench.graph().run_next_task();
            looks += 1;
        }
        looks
    }

    #[test]
    fn puller_sleeps_once_the_last_packet_is_taken() {
        assert_eq!((looks("Queue"), looks("QuickNoteQueue")), (9, 1));
        let mut bench = Bench::new(
            crate::CLASSES,
            "q :: QuickNoteQueue(2) -> Unqueue -> out :: Collect",
        );
        for _ in 0..2 {
            bench.push("q", &[b"a", b"b", b"c"]);
            bench.run();
            assert_eq!(bench.take("out").len(), 2);
        }
        assert_eq!(bench.read("q.drops"), "2");
    }
}
