//! Health, planned changes and failures of a simulated router.

use super::boxes::Balancer;
use super::{ALARM_GRACE_NS, Change, Event, Failure, Fault, Loss, Open, Order, Simulation, Target};
use crate::balance::{BUCKETS, Change as HealthChange, Ended, Intent};

impl Simulation {
    /// Processes a balancer's discovery that a back end failed or works again.
    pub(super) fn changed(&mut self, at: u16, part: u16, change: HealthChange) {
        let is_up = change == HealthChange::Up;
        self.balancers[usize::from(at)]
            .pool
            .set_up(part, is_up, self.now);
        if is_up {
            return;
        }
        let mut has_reason = false;
        for failure in &self.config.failures {
            let lasts =
                (failure.from..failure.until.saturating_add(ALARM_GRACE_NS)).contains(&self.now);
            let hits = match failure.what {
                Target::Backend(other) => other == part,
                Target::Balancer(other) => other == at,
                Target::Switch => true,
            };
            has_reason |= lasts && hits;
        }
        self.report.false_alarms += u64::from(!has_reason);
        self.record_detection(at, |open| open.of == part);
    }

    /// Records which balancers have stopped sending to a failed back end.
    pub(super) fn record_detection(&mut self, at: u16, fits: impl Fn(&Open) -> bool) {
        for open in self.open.iter_mut().filter(|open| fits(open)) {
            open.noticed[usize::from(at)] = true;
            let loss = &mut self.report.losses[open.loss];
            if open.noticed.iter().all(|noticed| *noticed)
                && loss.detection.is_none()
                && self.now < open.until
            {
                loss.detection = Some(self.now - open.from);
                loss.sent = self.report.packets_in - open.sent;
            }
        }
    }

    pub(super) fn sweep(&mut self, at: u16) {
        if self.now < self.config.end() {
            let next = self.now + (self.config.settings.idle / 4).max(100_000);
            self.events.add(next, Event::Sweep(at));
        }
        let balancer = &self.balancers[usize::from(at)];
        let health = &balancer.worker.health;
        if health.has_failure(Fault::Crash) || health.hung_until() > self.now {
            return;
        }
        if let Some(Ended::Forced(buckets)) = balancer.pool.sweep(self.now) {
            self.report.forced += buckets as u64;
        }
    }

    pub(super) fn change(&mut self, change: Change) {
        let of = usize::from(change.of);
        match change.order {
            Order::Drain => self.intents[of] = Intent::Drained,
            Order::Use => self.intents[of] = Intent::Used,
            Order::Weight(weight) => self.weights[of] = weight,
        }
        for balancer in &self.balancers {
            match change.order {
                Order::Weight(weight) => balancer.pool.set_weight(change.of, weight, None),
                _ => balancer.pool.intend(change.of, self.intents[of], None),
            }
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        let Failure {
            what,
            how,
            from,
            until,
        } = failure;
        match what {
            Target::Backend(of) => {
                self.backends[usize::from(of)]
                    .health
                    .fail(how, self.now, until);
                if matches!(how, Fault::Crash | Fault::OneWay) {
                    self.open_loss(of, failure);
                }
            }
            Target::Balancer(of) => {
                self.balancers[usize::from(of)]
                    .worker
                    .health
                    .fail(how, from, until);
                if how == Fault::Crash {
                    self.record_detection(of, |_| true);
                }
            }
            Target::Switch => self.switch.health.fail(how, self.now, until),
        }
    }

    pub(super) fn open_loss(&mut self, part: u16, failure: Failure) {
        let buckets = |one: &Balancer| one.pool.states()[usize::from(part)].buckets.0;
        let owned = self.balancers.iter().map(buckets).max().unwrap_or(0);
        self.report.losses.push(Loss {
            failure,
            share: owned as f64 / BUCKETS as f64,
            detection: None,
            lost: 0,
            sent: 0,
        });
        let is_out =
            |one: &Balancer| !one.pool.up(part) || one.worker.health.has_failure(Fault::Crash);
        self.open.push(Open {
            loss: self.report.losses.len() - 1,
            of: part,
            from: failure.from,
            until: failure.until,
            sent: self.report.packets_in,
            noticed: self.balancers.iter().map(is_out).collect(),
        });
    }

    pub(super) fn end_failure(&mut self, failure: Failure) {
        match failure.what {
            Target::Backend(of) => {
                _ = self.backends[usize::from(of)]
                    .health
                    .end_failure(failure.how)
            }
            Target::Balancer(of) => {
                let balancer = &mut self.balancers[usize::from(of)];
                if balancer.worker.health.end_failure(failure.how) && failure.how == Fault::Crash {
                    balancer.restart(&self.config, &self.weights);
                    for (at, intent) in (0..).zip(&self.intents) {
                        if *intent == Intent::Drained {
                            balancer.pool.intend(at, *intent, None);
                        }
                    }
                }
            }
            Target::Switch => {
                if self.switch.health.end_failure(failure.how) {
                    self.switch.restart();
                }
            }
        }
    }
}
