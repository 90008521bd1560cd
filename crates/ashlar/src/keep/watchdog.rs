//! The watchdog: a program must say often enough that it lives.

use std::process::Command;
use std::time::{Duration, Instant};

/// Number of checks within the program's time limit.
const LOOKS: u32 = 4;

/// Watchdog that counts checks, not time: if the machine is suspended for a while, so is the program.
pub(super) struct Watchdog {
    limit: Duration,
    /// Time of the next check.
    next: Instant,
    /// Number of checks since the last keep-alive message of the program.
    silent: u32,
}

impl Watchdog {
    /// A watchdog for a program that must not be silent for `limit`; zero for no limit.
    pub(super) fn new(limit: Duration) -> Watchdog {
        Watchdog {
            limit,
            next: Instant::now(),
            silent: 0,
        }
    }

    fn step(&self) -> Option<Duration> {
        (!self.limit.is_zero()).then(|| self.limit / LOOKS)
    }

    /// Passes the time limit to a program, in its environment.
    pub(super) fn tell(&self, program: &mut Command) {
        // The variable may be for the watchdog of this process itself.
        program.env_remove("WATCHDOG_PID");
        match self.limit.as_micros() {
            0 => program.env_remove("WATCHDOG_USEC"),
            limit => program.env("WATCHDOG_USEC", limit.to_string()),
        };
    }

    /// Restarts the watchdog's timer after a keep-alive message of the program.
    pub(super) fn heard(&mut self) {
        self.silent = 0;
        self.next = Instant::now() + self.step().unwrap_or_default();
    }

    /// Time to wait for the program until the next check.
    pub(super) fn pause(&self) -> Option<Duration> {
        let left = self.next.saturating_duration_since(Instant::now());
        // The next check is not earlier than due: before the program is ready, there is none.
        self.step()
            .map(|step| if left.is_zero() { step } else { left })
    }

    /// Checks the program if a check is due; returns true if the program hangs.
    pub(super) fn barks(&mut self) -> bool {
        let (Some(step), now) = (self.step(), Instant::now()) else {
            return false;
        };
        if now < self.next {
            return false;
        }
        self.next = now + step;
        self.silent += 1;
        if self.silent < LOOKS {
            return false;
        }
        self.silent = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates `looks` due checks, one after the other.
    fn barks(dog: &mut Watchdog, looks: u32) -> bool {
        let look = |dog: &mut Watchdog| {
            dog.next = Instant::now();
            dog.barks()
        };
        (0..looks).fold(false, |barked, _| barked | look(dog))
    }

    #[test]
    fn silence_is_noticed_after_its_time_and_not_before() {
        let mut dog = Watchdog::new(Duration::from_secs(4000));
        dog.heard();
        assert!(!dog.barks() && dog.pause() > Some(Duration::from_secs(900)));
        assert!(!barks(&mut dog, LOOKS - 1));
        dog.heard();
        assert!(!barks(&mut dog, LOOKS - 1));
        assert!(barks(&mut dog, 1));
        // The next program has its full time.
        assert!(!barks(&mut dog, LOOKS - 1));
    }

    #[test]
    fn disabled_watchdog_never_reports_a_hang() {
        let mut dog = Watchdog::new(Duration::ZERO);
        assert!(!barks(&mut dog, 100) && dog.pause().is_none());
    }
}
