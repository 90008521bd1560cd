//! Ports follow buckets that have changed worker, once these stay where they are.
//!
//! Until then their packets come by the queues of other workers and cross to their owner. Each time that a port follows, packets wait
//! for a moment; so it is done when nothing has changed for a while.

use super::driver::{PARTS, SHORTEST, State, WAIT, Workers};
use super::moves::at_a_time;
use engine::clock::Time;
use engine::plan::Plan;
use engine::steer::{Astray, Table, port_tables};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// How long nothing must have changed.
const QUIET: Duration = Duration::from_millis(500);
/// Time until a port that did not follow is told again.
const AGAIN: Duration = Duration::from_secs(10);

/// Buckets of a port that come by queues of other workers than their owners.
pub(super) struct Lost {
    /// The receiver.
    pub(super) element: String,
    pub(super) astray: Vec<Astray>,
    table: Arc<Table>,
    /// What the table had counted when this came to be so.
    loads: Vec<u64>,
}

/// What is known of ports that are to follow.
pub(super) struct Following {
    pub(super) lost: Vec<Lost>,
    /// Since when it is as it is.
    since: Time,
    /// Not before.
    next: Time,
    /// How long packets had to wait the last time.
    wait: Duration,
    /// Buckets that ports have followed.
    pub(super) followed: u64,
}

impl Default for Following {
    fn default() -> Following {
        Following {
            lost: Vec::new(),
            since: Time::default(),
            next: Time::default(),
            wait: WAIT,
            followed: 0,
        }
    }
}

impl Following {
    /// Sees how it is.
    pub(super) fn look(&mut self, plan: &Plan, now: Time) {
        let found = port_tables(plan).into_iter().filter_map(|(node, port)| {
            let astray = port.astray();
            let table = port.table().filter(|_| !astray.is_empty())?;
            Some(Lost {
                element: plan.elements[node].name.clone(),
                table: Arc::clone(table),
                loads: table.loads(),
                astray,
            })
        });
        let found: Vec<Lost> = found.collect();
        let key = |lost: &Lost| (lost.element.clone(), lost.astray.clone());
        let same = found.iter().map(key).eq(self.lost.iter().map(key));
        if !same {
            (self.lost, self.since, self.next) = (found, now, now + QUIET);
        }
    }

    /// Buckets that follow at a time, by receiver: what comes for them must have room to wait.
    fn parts(&self, now: Time) -> Vec<(String, Vec<u16>)> {
        let seconds = now.since(self.since).as_secs_f64();
        let mut parts = Vec::new();
        for lost in &self.lost {
            let now = lost.table.loads();
            let rate = |one: &Astray| {
                let at = usize::from(one.bucket);
                now[at].saturating_sub(lost.loads[at]) as f64 / seconds
            };
            let least = (lost.table.buckets() / PARTS).max(1);
            let mut astray = lost.astray.clone();
            astray.sort_by_key(|one| (one.owner, one.entry));
            let mut left = &astray[..];
            while !left.is_empty() {
                let n = at_a_time(left.iter().map(rate), self.wait * 2, least).min(left.len());
                let (part, others) = left.split_at(n);
                left = others;
                let buckets = part.iter().map(|one| one.bucket).collect();
                parts.push((lost.element.clone(), buckets));
            }
        }
        parts
    }
}

impl State {
    /// Has ports follow, if it is time for it or `at_once` says so.
    pub(super) fn follow(&mut self, router: &impl Workers, at_once: bool) {
        let now = router.now();
        if self.following.lost.is_empty() || now < self.following.next && !at_once {
            return;
        }
        for (element, buckets) in self.following.parts(now) {
            match router.follow(&element, &buckets) {
                Ok(followed) => {
                    self.following.wait = followed.longest.max(SHORTEST);
                    self.following.followed += followed.buckets as u64;
                    if followed.buckets > 0 {
                        self.say(router.now(), format!("{element}: {followed}"));
                    }
                }
                Err(e) => {
                    warn!(element, "the port does not follow: {e}");
                    self.say(
                        router.now(),
                        format!("{element}: the port does not follow: {e}"),
                    );
                    self.following.look(&router.plan(), router.now());
                    self.following.next = router.now() + AGAIN;
                    return;
                }
            }
        }
        self.following.look(&router.plan(), router.now());
    }
}
