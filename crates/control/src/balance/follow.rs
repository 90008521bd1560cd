//! Ports follow buckets that have changed worker, once these stay where they are.
//!
//! Until then their packets come by the queues of other workers and cross to their owner. Each time that a port
//! follows, packets wait for a moment; so it is done when nothing has changed for a while.

use super::driver::{State, Workers};
use engine::clock::Time;
use engine::plan::Plan;
use std::collections::BTreeMap;
use std::time::Duration;
use steer::{Astray, port_tables};
use tracing::warn;

/// Time without changes before ports are reprogrammed.
const QUIET: Duration = Duration::from_millis(500);
/// Interval of further attempts to program a port that has failed.
const AGAIN: Duration = Duration::from_secs(10);
/// Maximum delay before a port is reprogrammed, despite further changes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Buckets that a port delivers to other workers than their owners.
#[derive(PartialEq)]
pub(super) struct Lost {
    /// Name of the receiving element.
    pub(super) element: String,
    pub(super) astray: Vec<Astray>,
}

/// State of ports with misdelivered buckets.
#[derive(Default)]
pub(super) struct Following {
    pub(super) lost: Vec<Lost>,
    /// Time at which the first bucket was misdelivered.
    since: Time,
    /// Earliest time of the next attempt.
    next: Time,
    /// Ports that could not be programmed, and the time before which they are not tried again.
    refused: BTreeMap<String, Time>,
    /// Number of buckets for which ports were reprogrammed.
    pub(super) followed: u64,
}

impl Following {
    /// Observes the misdelivered buckets of all ports.
    pub(super) fn look(&mut self, plan: &Plan, now: Time) {
        let found = port_tables(plan).into_iter().filter_map(|(node, port)| {
            let astray = port.astray();
            let element = plan.elements[node].name.clone();
            (!astray.is_empty()).then_some(Lost { element, astray })
        });
        self.see(found.collect(), now);
    }

    fn see(&mut self, found: Vec<Lost>, now: Time) {
        if self.lost.is_empty() {
            self.since = now;
        }
        if found != self.lost {
            // Each change delays the attempt, by PATIENCE at most.
            self.next = (now + QUIET).min(self.since + PATIENCE);
            self.lost = found;
        }
    }
}

impl State {
    /// Reprograms ports, if their time has come or `at_once` is true.
    pub(super) fn follow(&mut self, router: &impl Workers, at_once: bool) {
        let now = router.now();
        if self.following.lost.is_empty() || now < self.following.next && !at_once {
            return;
        }
        self.following.refused.retain(|_, until| now < *until);
        for lost in std::mem::take(&mut self.following.lost) {
            let element = lost.element;
            if self.following.refused.contains_key(&element) && !at_once {
                continue;
            }
            let buckets: Vec<u16> = lost.astray.iter().map(|one| one.bucket).collect();
            match router.follow(&element, Some(&buckets)) {
                Ok(followed) => {
                    self.following.followed += followed.buckets as u64;
                    if followed.buckets > 0 {
                        self.say(router.now(), format!("{element}: {followed}"));
                    }
                }
                Err(e) => {
                    warn!(element, "the port does not follow: {e}");
                    let text = format!("{element}: the port does not follow: {e}");
                    self.say(router.now(), text);
                    let until = router.now() + AGAIN;
                    self.following.refused.insert(element, until);
                }
            }
        }
        // Buckets that are left are observed again later.
        self.following.look(&router.plan(), router.now());
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::Balance;
    use super::super::settings::Settings;
    use super::*;
    use engine::handler::AskError;
    use planner::Options;
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;
    use steer::{Followed, Moved, Moves};

    const MS: Duration = Duration::from_millis(1);

    fn lost(element: &str, bucket: u16) -> Lost {
        Lost {
            element: element.to_owned(),
            astray: vec![Astray {
                bucket,
                entry: bucket.into(),
                owner: 1,
                from: (0, 0),
                to: 1,
            }],
        }
    }

    /// Workers with a port that refuses to follow.
    struct Ports {
        plan: Arc<Plan>,
        now: Cell<Time>,
        told: RefCell<Vec<String>>,
    }

    impl Workers for Ports {
        fn plan(&self) -> Arc<Plan> {
            Arc::clone(&self.plan)
        }

        fn count(&self) -> usize {
            2
        }

        fn now(&self) -> Time {
            self.now.get()
        }

        fn busy(&self, _: usize) -> u64 {
            0
        }
    }

    impl Moves for Ports {
        fn move_buckets(&self, _: &str, _: &[u16], _: usize) -> Result<Moved, AskError> {
            unreachable!("only ports follow")
        }

        fn move_queue(&self, _: &str, _: usize, _: usize) -> Result<bool, AskError> {
            unreachable!("only ports follow")
        }

        fn follow(&self, element: &str, _: Option<&[u16]>) -> Result<Followed, AskError> {
            self.told.borrow_mut().push(element.to_owned());
            match element {
                "refuses" => Err(AskError::Refused("no room".to_owned())),
                _ => Ok(Followed {
                    buckets: 1,
                    ..Followed::default()
                }),
            }
        }
    }

    #[test]
    fn a_port_that_refuses_is_told_again_later_and_holds_up_no_other() {
        let ports = ports::Directory::new();
        let source = crate::description::source::Source {
            text: "Idle -> Discard;".into(),
            ..crate::description::source::Source::default()
        };
        let options = Options::new(1, &ports);
        let compiled = crate::compile::compile(&source, &classes::registry(), &options);
        let workers = Ports {
            plan: compiled.plan.expect("it is right"),
            now: Cell::default(),
            told: RefCell::default(),
        };
        let balance = Balance::new(Settings::default());
        let mut state = balance.lock();
        let mut told = |at: Duration, at_once: bool| {
            workers.now.set(Time(0) + at);
            let both = vec![lost("refuses", 0), lost("takes", 1)];
            state.following.see(both, workers.now());
            state.following.next = workers.now();
            state.follow(&workers, at_once);
            std::mem::take(&mut *workers.told.borrow_mut())
        };
        let later = Duration::from_secs(60);
        assert_eq!(told(later, false), ["refuses", "takes"]);
        assert_eq!(told(later + AGAIN - MS, false), ["takes"]);
        assert_eq!(told(later + AGAIN, false), ["refuses", "takes"]);
        assert_eq!(told(later + AGAIN + MS, true), ["refuses", "takes"]);
        assert_eq!(state.following.followed, 4);
    }

    #[test]
    fn changes_postpone_following_up_to_a_limit() {
        let mut following = Following::default();
        let begin = Time(0) + PATIENCE;
        following.see(vec![lost("a", 0)], begin);
        assert_eq!(following.next, begin + QUIET);
        following.see(vec![lost("a", 0)], begin + QUIET / 2);
        assert_eq!(following.next, begin + QUIET, "nothing has changed");
        let mut now = begin;
        for bucket in 1..60 {
            now = now + 100 * MS;
            following.see(vec![lost("a", bucket)], now);
        }
        assert_eq!(following.next, begin + PATIENCE);
    }
}
