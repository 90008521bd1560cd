//! Reprogramming of ports after buckets have changed worker, once the buckets stay with their owners.
//!
//! Until then their packets arrive by queues of other workers, which hand them to the owner. Packets wait during each
//! reprogramming, so it is delayed until no bucket has changed owner for a while.

use super::driver::{State, Workers};
use engine::clock::Time;
use engine::plan::Plan;
use std::collections::BTreeMap;
use std::time::Duration;
use steer::{Misdelivered, port_tables};
use tracing::warn;

/// Time without changes before ports are reprogrammed.
const REPROGRAM_DELAY: Duration = Duration::from_millis(500);
/// Interval of further attempts to program a port that has failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum delay before a port is reprogrammed, despite further changes.
const REPROGRAM_DELAY_MAX: Duration = Duration::from_secs(5);

/// Buckets of a port whose packets arrive at other workers than the owners.
#[derive(PartialEq)]
pub(super) struct MisdeliveredBuckets {
    /// Name of the receiving element.
    pub(super) element: String,
    pub(super) misdelivered: Vec<Misdelivered>,
}

/// State of ports with misdelivered buckets.
#[derive(Default)]
pub(super) struct Following {
    pub(super) observed: Vec<MisdeliveredBuckets>,
    /// Time at which the first bucket was misdelivered.
    since: Time,
    /// Earliest time of the next attempt.
    next: Time,
    /// Ports that could not be programmed, and the time before which they are not tried again.
    retry_at: BTreeMap<String, Time>,
    /// Number of buckets for which ports were reprogrammed.
    pub(super) followed: u64,
}

impl Following {
    /// Observes the misdelivered buckets of all ports.
    pub(super) fn observe(&mut self, plan: &Plan, now: Time) {
        let found = port_tables(plan).into_iter().filter_map(|(node, port)| {
            let misdelivered = port.misdelivered();
            let element = plan.elements[node].name.clone();
            (!misdelivered.is_empty()).then_some(MisdeliveredBuckets {
                element,
                misdelivered,
            })
        });
        self.handle_observed(found.collect(), now);
    }

    fn handle_observed(&mut self, found: Vec<MisdeliveredBuckets>, now: Time) {
        if self.observed.is_empty() {
            self.since = now;
        }
        if found != self.observed {
            // Each change delays the attempt, by `REPROGRAM_DELAY_MAX` at most.
            self.next = (now + REPROGRAM_DELAY).min(self.since + REPROGRAM_DELAY_MAX);
            self.observed = found;
        }
    }
}

impl State {
    /// Reprograms ports, if the delay is over or `at_once` is true.
    pub(super) fn follow(&mut self, router: &impl Workers, at_once: bool) {
        let now = router.now();
        if self.following.observed.is_empty() || now < self.following.next && !at_once {
            return;
        }
        self.following.retry_at.retain(|_, until| now < *until);
        for lost in std::mem::take(&mut self.following.observed) {
            let element = lost.element;
            if self.following.retry_at.contains_key(&element) && !at_once {
                continue;
            }
            let buckets: Vec<u16> = lost.misdelivered.iter().map(|one| one.bucket).collect();
            match router.follow(&element, Some(&buckets)) {
                Ok(followed) => {
                    self.following.followed += followed.buckets as u64;
                    if followed.buckets > 0 {
                        self.log(router.now(), format!("{element}: {followed}"));
                    }
                }
                Err(e) => {
                    warn!(element, "the port does not follow: {e}");
                    let text = format!("{element}: the port does not follow: {e}");
                    self.log(router.now(), text);
                    let until = router.now() + RETRY_INTERVAL;
                    self.following.retry_at.insert(element, until);
                }
            }
        }
        // Buckets that are left are observed again later.
        self.following.observe(&router.plan(), router.now());
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
    use steer::{FollowResult, MoveResult, Moves};

    const MS: Duration = Duration::from_millis(1);

    fn lost(element: &str, bucket: u16) -> MisdeliveredBuckets {
        MisdeliveredBuckets {
            element: element.to_owned(),
            misdelivered: vec![Misdelivered {
                bucket,
                entry: bucket.into(),
                owner: 1,
                from: (0, 0),
                to: 1,
            }],
        }
    }

    /// Workers with a port that cannot be reprogrammed.
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
        fn move_buckets(&self, _: &str, _: &[u16], _: usize) -> Result<MoveResult, AskError> {
            unreachable!("only ports follow")
        }

        fn move_queue(&self, _: &str, _: usize, _: usize) -> Result<bool, AskError> {
            unreachable!("only ports follow")
        }

        fn follow(&self, element: &str, _: Option<&[u16]>) -> Result<FollowResult, AskError> {
            self.told.borrow_mut().push(element.to_owned());
            match element {
                "refuses" => Err(AskError::Refused("no room".to_owned())),
                _ => Ok(FollowResult {
                    buckets: 1,
                    ..FollowResult::default()
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
            state.following.handle_observed(both, workers.now());
            state.following.next = workers.now();
            state.follow(&workers, at_once);
            std::mem::take(&mut *workers.told.borrow_mut())
        };
        let later = Duration::from_secs(60);
        assert_eq!(told(later, false), ["refuses", "takes"]);
        assert_eq!(told(later + RETRY_INTERVAL - MS, false), ["takes"]);
        assert_eq!(told(later + RETRY_INTERVAL, false), ["refuses", "takes"]);
        assert_eq!(
            told(later + RETRY_INTERVAL + MS, true),
            ["refuses", "takes"]
        );
        assert_eq!(state.following.followed, 4);
    }

    #[test]
    fn changes_postpone_following_up_to_a_limit() {
        let mut following = Following::default();
        let begin = Time(0) + REPROGRAM_DELAY_MAX;
        following.handle_observed(vec![lost("a", 0)], begin);
        assert_eq!(following.next, begin + REPROGRAM_DELAY);
        following.handle_observed(vec![lost("a", 0)], begin + REPROGRAM_DELAY / 2);
        assert_eq!(
            following.next,
            begin + REPROGRAM_DELAY,
            "nothing has changed"
        );
        let mut now = begin;
        for bucket in 1..60 {
            now = now + 100 * MS;
            following.handle_observed(vec![lost("a", bucket)], now);
        }
        assert_eq!(following.next, begin + REPROGRAM_DELAY_MAX);
    }
}
