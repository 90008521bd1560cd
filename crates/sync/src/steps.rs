//! Steps that several workers take together, without a leader.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// A sequence of steps. Each is taken once by each of some workers, after all workers have taken the steps before.
///
/// A worker increments a common counter when it has taken a step. It can do so only when the counter shows that the
/// earlier steps are over, so one counter suffices. All increments form one release sequence: a worker that finds a
/// step open sees all writes of the earlier steps.
pub struct Steps {
    taken: AtomicUsize,
    /// For each step, the counter value at which it may begin.
    before: Vec<usize>,
}

impl Steps {
    /// Makes a sequence of steps; `hands` has the number of workers that take each step.
    pub fn new(hands: impl IntoIterator<Item = usize>) -> Steps {
        let mut before = vec![0];
        for hands in hands {
            before.push(before[before.len() - 1] + hands);
        }
        Steps {
            taken: AtomicUsize::new(0),
            before,
        }
    }

    /// True if all steps before this one have been taken.
    pub fn is_open(&self, step: usize) -> bool {
        let before = self.before.get(step);
        before.is_some_and(|&before| self.taken.load(Ordering::Acquire) >= before)
    }

    /// Counts a step that the caller has taken; the step must have been open.
    pub fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_open_when_all_have_taken_those_before() {
        let steps = Steps::new([2, 1]);
        let open = || [0, 1, 2, 3].map(|step| steps.is_open(step));
        assert_eq!(open(), [true, false, false, false]);
        steps.taken();
        assert_eq!(open(), [true, false, false, false]);
        steps.taken();
        assert_eq!(open(), [true, true, false, false]);
        steps.taken();
        assert_eq!(open(), [true, true, true, false]);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Cells with relaxed accesses: a thread may read old values unless the writer's store happens before its load.
    #[derive(Default)]
    struct Cells(AtomicUsize, AtomicUsize, AtomicUsize);

    /// Two workers write a cell each; then one of them stores the sum, which the other reads.
    #[test]
    fn worker_at_an_open_step_sees_all_earlier_writes() {
        loom::model(|| {
            let all = Arc::new((Steps::new([2, 1]), Cells::default()));
            let wait = |steps: &Steps, step| {
                while !steps.is_open(step) {
                    thread::yield_now();
                }
            };
            let other = Arc::clone(&all);
            let second = thread::spawn(move || {
                let (steps, Cells(_, part, sum)) = &*other;
                part.store(2, Ordering::Relaxed);
                steps.taken();
                wait(steps, 2);
                assert_eq!(sum.load(Ordering::Relaxed), 3);
            });
            let (steps, Cells(part, others, sum)) = &*all;
            part.store(1, Ordering::Relaxed);
            steps.taken();
            wait(steps, 1);
            let found = part.load(Ordering::Relaxed) + others.load(Ordering::Relaxed);
            sum.store(found, Ordering::Relaxed);
            steps.taken();
            second.join().unwrap();
        });
    }
}
