//! A rate as an exponentially weighted moving average.

use crate::prelude::*;

/// Length of an averaging step, in nanoseconds.
const STEP: u64 = 10_000_000;
/// Weight of a step in the average.
const WEIGHT: f64 = 1.0 / 16.0;

/// Rate of events per second: exponential moving average over steps of 10 ms, with weight 1/16.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Number of the current step.
    step: u64,
    /// Number of events in the current step.
    events: u64,
    /// Average number of events per step, without the current one.
    average: f64,
}

impl Rate {
    /// Counts events at time `now`.
    #[inline]
    pub fn add(&mut self, events: u64, now: Time) {
        let step = now.0 / STEP;
        if step != self.step {
            self.begin_step(step);
        }
        self.events += events;
    }

    #[cold]
    fn begin_step(&mut self, step: u64) {
        let passed = step.saturating_sub(self.step).min(i32::MAX as u64);
        self.average += (self.events as f64 - self.average) * WEIGHT;
        self.average *= (1.0 - WEIGHT).powi(passed.saturating_sub(1) as i32);
        (self.step, self.events) = (step, 0);
    }

    /// Number of events per second at time `now`.
    pub fn per_second(&self, now: Time) -> f64 {
        let mut here = *self;
        here.add(0, now);
        here.average * (1e9 / STEP as f64)
    }

    /// Handler job that returns the rate, multiplied by `times`.
    pub fn read(self, times: f64) -> Job {
        Box::new(move |cx| {
            let text = format!("{:.3}", self.per_second(cx.now()) * times);
            Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
        })
    }
}
