//! Ports follow buckets that have changed worker, once these stay where they are.
//!
//! Until then their packets come by the queues of other workers and cross to their owner. Each time that a port follows, packets wait
//! for a moment; so it is done when nothing has changed for a while.

use super::driver::{State, Workers};
use engine::clock::Time;
use engine::plan::Plan;
use engine::steer::{Astray, port_tables};
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::warn;

/// How long nothing must have changed.
const QUIET: Duration = Duration::from_millis(500);
/// Time until a port that did not follow is told again.
const AGAIN: Duration = Duration::from_secs(10);
/// A port follows after this time, though there is no quiet.
const PATIENCE: Duration = Duration::from_secs(5);

/// Buckets of a port that come by queues of other workers than their owners.
#[derive(PartialEq)]
pub(super) struct Lost {
    /// The receiver.
    pub(super) element: String,
    pub(super) astray: Vec<Astray>,
}

/// What is known of ports that are to follow.
#[derive(Default)]
pub(super) struct Following {
    pub(super) lost: Vec<Lost>,
    /// Since when some bucket is astray.
    since: Time,
    /// Not before.
    next: Time,
    /// Ports that did not follow, and until when they are not told again.
    refused: BTreeMap<String, Time>,
    /// Buckets that ports have followed.
    pub(super) followed: u64,
}

impl Following {
    /// Sees how it is.
    pub(super) fn look(&mut self, plan: &Plan, now: Time) {
        let found = port_tables(plan).into_iter().filter_map(|(node, port)| {
            let astray = port.astray();
            let element = plan.elements[node].name.clone();
            (!astray.is_empty()).then_some(Lost { element, astray })
        });
        let found: Vec<Lost> = found.collect();
        if self.lost.is_empty() {
            self.since = now;
        }
        if found != self.lost {
            // What changes all the time puts it off, but not for ever.
            self.next = (now + QUIET).min(self.since + PATIENCE);
            self.lost = found;
        }
    }
}

impl State {
    /// Has ports follow, if it is time for it or `at_once` says so.
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
            match router.follow(&element, &buckets) {
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
        // What is left is looked at again after a while.
        self.following.look(&router.plan(), router.now());
    }
}
