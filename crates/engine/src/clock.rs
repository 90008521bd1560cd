//! Time as the engine sees it: nanoseconds on one monotonic scale, read once per turn of a worker.
//!
//! Time is an input. A worker reads the real clock; tests and `--simtime` set a virtual one, which
//! jumps to the next timer when nothing is due.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment: nanoseconds since the process started (or since 0 on a virtual clock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Time that has passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(
            self.0
                .saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

/// A source of time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's monotonic clock (the time-stamp counter where it is reliable).
    Real(quanta::Clock),
    /// The system's clock, possibly at another speed.
    Warped(Warp),
    /// A virtual clock, advanced only by [`set`](Clock::set); its clones show the same time.
    Virtual(Arc<AtomicU64>),
}

/// Mapping from the machine's time to a clock's time.
#[derive(Clone, Debug)]
pub struct Warp {
    /// Time at which the speed was set.
    since: Instant,
    /// Time of the clock when the speed was set.
    shown: Time,
    speed: f64,
    /// Nanoseconds from the Unix epoch to the clock's zero.
    epoch: u64,
}

/// Start of the process: value of the cycle counter, and nanoseconds since the Unix epoch.
fn origin() -> (u64, u64) {
    static ORIGIN: OnceLock<(u64, u64)> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        (
            quanta::Clock::new().raw(),
            u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        )
    })
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Clock {
        origin();
        Clock::Real(quanta::Clock::new())
    }

    /// The machine's clock, read by system calls. It costs more to read than the cycle counter, but nothing to make:
    /// the cycle counter must be calibrated first, which takes milliseconds.
    pub fn plain() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Clock::Warped(Warp {
            since: Instant::now(),
            shown: Time(0),
            speed: 1.0,
            epoch: u64::try_from(wall.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX),
        })
    }

    /// A virtual clock that shows this time.
    pub fn at(now: Time) -> Clock {
        Clock::Virtual(Arc::new(AtomicU64::new(now.0)))
    }

    /// Sets a virtual clock to this time; returns false if the clock is not virtual.
    pub fn set(&self, now: Time) -> bool {
        match self {
            Clock::Virtual(time) => {
                time.store(now.0, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Clock::Real(clock) => Time(clock.delta_as_nanos(origin().0, clock.raw())),
            Clock::Warped(warp) => {
                let passed = warp.since.elapsed();
                match warp.speed {
                    1.0 => warp.shown + passed,
                    speed => warp.shown + passed.mul_f64(speed),
                }
            }
            Clock::Virtual(now) => Time(now.load(Ordering::Relaxed)),
        }
    }

    /// Speed relative to the machine's clock; 0 for a virtual clock.
    pub fn speed(&self) -> f64 {
        match self {
            Clock::Real(_) => 1.0,
            Clock::Warped(warp) => warp.speed,
            Clock::Virtual(_) => 0.0,
        }
    }

    /// Changes the speed, 0.001 to 1000; the time shown continues from now. A virtual clock stays virtual.
    pub fn set_speed(&mut self, speed: f64) {
        let (shown, epoch) = (self.now(), self.wall_ns(Time(0)));
        if let Clock::Virtual(_) = self {
            return;
        }
        *self = Clock::Warped(Warp {
            since: Instant::now(),
            shown,
            speed: speed.clamp(0.001, 1000.0),
            epoch,
        });
    }

    /// Nanoseconds since the Unix epoch at a time of this clock. Times of a virtual clock already count from the Unix
    /// epoch.
    pub fn wall_ns(&self, now: Time) -> u64 {
        match self {
            Clock::Real(_) => wall_ns(now),
            Clock::Warped(warp) => warp.epoch.saturating_add(now.0),
            Clock::Virtual(_) => now.0,
        }
    }

    /// The cycle counter, for accounting; 0 on a virtual or warped clock.
    #[inline]
    pub fn cycles(&self) -> u64 {
        match self {
            Clock::Real(clock) => clock.raw(),
            Clock::Warped(_) | Clock::Virtual(_) => 0,
        }
    }

    /// Number of cycles that pass between two readings of the cycle counter in a row: the least of many.
    pub fn reading_cycles(&self) -> u64 {
        static LEAST: OnceLock<u64> = OnceLock::new();
        let Clock::Real(clock) = self else {
            return 0;
        };
        *LEAST.get_or_init(|| {
            let pair = |_| {
                let first = clock.raw();
                clock.raw().wrapping_sub(first)
            };
            (0..1_000).map(pair).min().unwrap_or(0)
        })
    }
}

/// Nanoseconds since the Unix epoch at a time of the real clock.
pub fn wall_ns(now: Time) -> u64 {
    origin().1.saturating_add(now.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warped_clock_goes_on_from_where_it_was() {
        let mut clock = Clock::plain();
        let wall = clock.wall_ns(Time(0));
        clock.set_speed(1000.0);
        let before = clock.now();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        assert!(clock.now().since(before) >= Duration::from_secs(1));
        let fast = clock.now();
        clock.set_speed(1.0);
        assert!(clock.now() >= fast);
        assert_eq!(clock.wall_ns(Time(0)), wall);
    }

    #[test]
    fn a_virtual_clock_has_no_speed() {
        let mut clock = Clock::at(Time(5));
        clock.set_speed(2.0);
        assert_eq!((clock.now(), clock.speed()), (Time(5), 0.0));
        assert!(clock.clone().set(Time(7)), "clones are one clock");
        assert_eq!(clock.now(), Time(7));
        assert!(!Clock::plain().set(Time(7)));
    }
}
