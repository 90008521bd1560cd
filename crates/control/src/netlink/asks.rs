//! Questions for neighbours: from workers to the kernel, not more than it can bear.
//!
//! A scan of addresses makes a question of each. The kernel keeps an entry for every address that it asks
//! for, some seconds each, and refuses new neighbours when it has too many (1024 unless somebody raises
//! `gc_thresh3`). So each interface has its own rate for neighbours that nobody knows; those that are known
//! and have only to be confirmed have another, and do not suffer.

use std::collections::HashMap;
use tables::tokens::Tokens;

/// Unknown neighbours that are asked for a second and interface: in the three seconds for which the kernel
/// tries, they take three quarters of its entries.
const UNKNOWN_RATE: u64 = 256;
/// Known ones.
const KNOWN_RATE: u64 = 4096;

/// The rates of all interfaces.
#[derive(Default)]
pub(super) struct Limits(HashMap<u16, [Tokens; 2]>);

impl Limits {
    /// Whether one more may be asked about on an interface at `now` (ns).
    pub(super) fn allow(&mut self, interface: u16, known: bool, now: u64) -> bool {
        let new = || [UNKNOWN_RATE, KNOWN_RATE].map(|rate| Tokens::new(rate, rate));
        let tokens = &mut self.0.entry(interface).or_insert_with(new)[usize::from(known)];
        tokens.refill(now);
        tokens.remove_if(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_scan_takes_its_own_rate_and_nobody_elses() {
        let mut limits = Limits::default();
        let mut ask = |interface, known, now| limits.allow(interface, known, now);
        let scan = (0..5 * SECOND).step_by(100_000);
        let asked = scan.filter(|now| ask(3, false, SECOND + now)).count();
        assert!((1500..=1540).contains(&asked), "{asked}");
        assert!(ask(4, false, 6 * SECOND), "another interface");
        assert!(ask(3, true, 6 * SECOND), "a neighbour that is known");
    }
}
