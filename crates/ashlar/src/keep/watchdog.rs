//! The watchdog: a program must send keep-alive messages in time.

use std::process::Command;
use std::time::{Duration, Instant};

/// Number of checks within the program's time limit.
const CHECKS_PER_LIMIT: u32 = 4;

/// Watchdog that counts checks, not time: while the machine is suspended, neither the program nor the checks run.
pub(super) struct Watchdog {
    limit: Duration,
    /// Time of the next check.
    next: Instant,
    /// Number of checks since the last keep-alive message of the program.
    missed_checks: u32,
}

impl Watchdog {
    /// A watchdog for a program that must send keep-alive messages at intervals below `limit`; zero for no limit.
    pub(super) fn new(limit: Duration) -> Watchdog {
        Watchdog {
            limit,
            next: Instant::now(),
            missed_checks: 0,
        }
    }

    fn check_interval(&self) -> Option<Duration> {
        (!self.limit.is_zero()).then(|| self.limit / CHECKS_PER_LIMIT)
    }

    /// Passes the time limit to a program, in its environment.
    pub(super) fn pass_to(&self, program: &mut Command) {
        // The variable may be for the watchdog of this process itself.
        program.env_remove("WATCHDOG_PID");
        match self.limit.as_micros() {
            0 => program.env_remove("WATCHDOG_USEC"),
            limit => program.env("WATCHDOG_USEC", limit.to_string()),
        };
    }

    /// Restarts the watchdog's timer after a keep-alive message of the program.
    pub(super) fn restart(&mut self) {
        self.missed_checks = 0;
        self.next = Instant::now() + self.check_interval().unwrap_or_default();
    }

    /// Time until the next check.
    pub(super) fn next_check(&self) -> Option<Duration> {
        let remaining = self.next.saturating_duration_since(Instant::now());
        // The next check is not earlier than due: before the program is ready, there is none.
        self.check_interval()
            .map(|step| if remaining.is_zero() { step } else { remaining })
    }

    /// Checks the program if a check is due; returns true if the program hangs.
    pub(super) fn is_hung(&mut self) -> bool {
        let (Some(step), now) = (self.check_interval(), Instant::now()) else {
            return false;
        };
        if now < self.next {
            return false;
        }
        self.next = now + step;
        self.missed_checks += 1;
        if self.missed_checks < CHECKS_PER_LIMIT {
            return false;
        }
        self.missed_checks = 0;
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
            dog.is_hung()
        };
        (0..looks).fold(false, |barked, _| barked | look(dog))
    }

    #[test]
    fn silence_is_noticed_after_its_time_and_not_before() {
        let mut dog = Watchdog::new(Duration::from_secs(4000));
        dog.restart();
        assert!(!dog.is_hung() && dog.next_check() > Some(Duration::from_secs(900)));
        assert!(!barks(&mut dog, CHECKS_PER_LIMIT - 1));
        dog.restart();
        assert!(!barks(&mut dog, CHECKS_PER_LIMIT - 1));
        assert!(barks(&mut dog, 1));
        // The next program has its full time.
        assert!(!barks(&mut dog, CHECKS_PER_LIMIT - 1));
    }

    #[test]
    fn disabled_watchdog_never_reports_a_hang() {
        let mut dog = Watchdog::new(Duration::ZERO);
        assert!(!barks(&mut dog, 100) && dog.next_check().is_none());
    }
}
