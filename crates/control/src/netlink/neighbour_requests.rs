//! Requests for neighbours, from workers to the kernel, at a limited rate.
//!
//! A scan causes a request for each address. The kernel keeps an entry for some seconds for every requested address,
//! and refuses new neighbours when it has too many (`gc_thresh3`, 1024 by default). So each interface has its own rate
//! for unknown neighbours, by the room in the kernel's table. Known neighbours that only need confirmation have a
//! separate rate, so a scan does not delay them.

use std::collections::HashMap;
use tables::tokens::Tokens;

/// Divisor for the share of the kernel's neighbour table that may be requested per second and interface. The kernel
/// tries each neighbour for three seconds, so unknown neighbours take up to three quarters of the table.
const TABLE_SHARE_DIVISOR: u64 = 4;
/// Assumed size of the kernel's neighbour table, in entries, until the kernel reports it.
const TABLE_ENTRIES_DEFAULT: u32 = 1024;
/// Maximum rate of requests for known neighbours, per second and interface.
const KNOWN_RATE: u64 = 4096;

/// Rate limits of all interfaces.
pub(super) struct Limits {
    unknown: u64,
    interfaces: HashMap<u16, [Tokens; 2]>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            unknown: u64::from(TABLE_ENTRIES_DEFAULT) / TABLE_SHARE_DIVISOR,
            interfaces: HashMap::new(),
        }
    }
}

impl Limits {
    /// Sets the size of the kernel's neighbour table, in entries.
    pub(super) fn set_places(&mut self, places: u32) {
        let unknown = (u64::from(places) / TABLE_SHARE_DIVISOR).max(1);
        if unknown != self.unknown {
            self.unknown = unknown;
            self.interfaces.clear();
        }
    }

    /// True if the rate limit allows one more request on an interface at `now`, in nanoseconds.
    pub(super) fn allow(&mut self, interface: u16, known: bool, now: u64) -> bool {
        let rates = [self.unknown, KNOWN_RATE];
        let new = || rates.map(|rate| Tokens::new(rate, rate));
        let tokens = self.interfaces.entry(interface).or_insert_with(new);
        let tokens = &mut tokens[usize::from(known)];
        tokens.refill(now);
        tokens.remove_if(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_scan_uses_only_its_own_rate() {
        let mut limits = Limits::default();
        let mut ask = |interface, known, now| limits.allow(interface, known, now);
        let scan = (0..5 * SECOND).step_by(100_000);
        let asked = scan.filter(|now| ask(3, false, SECOND + now)).count();
        assert!((1500..=1540).contains(&asked), "{asked}");
        assert!(ask(4, false, 6 * SECOND), "another interface");
        assert!(ask(3, true, 6 * SECOND), "a neighbour that is known");
        // A kernel with room for the neighbours of a large exchange accepts requests for as many.
        limits.set_places(8192);
        let asked = (0..SECOND / 2).step_by(100_000);
        let asked = asked.filter(|now| limits.allow(3, false, 7 * SECOND + now));
        assert!((3060..=3080).contains(&asked.count()));
    }
}
