//! Known bits of a key at a node of a tree, and the tests that remain there.

use super::{FIELDS, Test};
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Bits and ranges of a key that the path from the root determines.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) known: [u32; FIELDS],
    value: [u32; FIELDS],
    /// Known ranges of masked fields, from splits.
    ranges: Vec<(u8, u32, u32, u32)>,
}

enum Answer {
    Always,
    Never,
    Open,
}

impl Region {
    /// Region of all keys with these single values.
    pub(super) fn of(tests: &[Test]) -> Region {
        let mut region = Region {
            known: [0; FIELDS],
            value: [0; FIELDS],
            ranges: Vec::new(),
        };
        for test in tests.iter().filter(|t| t.lo == t.hi) {
            let field = usize::from(test.field);
            region.known[field] |= test.mask;
            region.value[field] |= test.lo;
        }
        region
    }

    pub(super) fn range(&self, field: u8, mask: u32) -> (u32, u32) {
        let same = self.ranges.iter().find(|r| (r.0, r.1) == (field, mask));
        same.map_or((0, mask), |r| (r.2, r.3))
    }

    fn answer(&self, test: &Test) -> Answer {
        let field = usize::from(test.field);
        let (known, value) = (self.known[field], self.value[field]);
        if test.lo == test.hi && (value ^ test.lo) & known & test.mask != 0 {
            return Answer::Never;
        }
        let (a, b) = self.range(test.field, test.mask);
        let least = (value & test.mask).max(a);
        let most = ((value | !known) & test.mask).min(b);
        if most < test.lo || least > test.hi {
            Answer::Never
        } else if least >= test.lo && most <= test.hi {
            Answer::Always
        } else {
            Answer::Open
        }
    }

    /// The tests of a rule that are still undecided; `None` if one of them can never hold.
    pub(super) fn open(&self, tests: &[Test]) -> Option<Vec<Test>> {
        let mut open = Vec::new();
        for test in tests {
            match self.answer(test) {
                Answer::Always => {}
                Answer::Never => return None,
                Answer::Open => open.push(*test),
            }
        }
        Some(open)
    }

    pub(super) fn child(&self, way: Decision, number: u32) -> Region {
        let mut child = self.clone();
        match way {
            Decision::Cut { field, shift, bits } => {
                let field = usize::from(field);
                let mask = ((1u32 << bits) - 1) << shift;
                child.known[field] |= mask;
                child.value[field] = child.value[field] & !mask | number << shift;
            }
            Decision::Split { field, mask, at } => {
                let (a, b) = self.range(field, mask);
                child.ranges.retain(|r| (r.0, r.1) != (field, mask));
                let range = if number == 0 { (a, at - 1) } else { (at, b) };
                child.ranges.push((field, mask, range.0, range.1));
            }
        }
        child
    }
}

/// A decision at a node: how the search continues.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    Cut { field: u8, shift: u32, bits: u32 },
    Split { field: u8, mask: u32, at: u32 },
}

impl Decision {
    pub(super) fn children(self) -> usize {
        match self {
            Decision::Cut { bits, .. } => 1 << bits,
            Decision::Split { .. } => 2,
        }
    }
}

/// A rule at a node: its undecided tests, and its expected frequency of hits.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) rule: u32,
    pub(super) tests: Vec<Test>,
    pub(super) mass: f64,
}

/// Entries are equal if the same tests of the same rule remain.
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.rule == other.rule && self.tests == other.tests
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rule.hash(state);
        self.tests.len().hash(state);
    }
}

/// Number of bits of a field that a rule's tests fix.
pub(super) fn weight(entry: &Entry, field: u8) -> u32 {
    let tests = entry.tests.iter().filter(|t| t.field == field);
    tests
        .map(|t| {
            t.mask.count_ones()
                - (t.hi - t.lo)
                    .checked_add(1)
                    .map_or(32, u32::ilog2)
                    .min(t.mask.count_ones())
        })
        .sum()
}

/// Range of children in which a rule can match; `None`: all children.
pub(super) fn covered(entry: &Entry, way: Decision) -> Option<Range<usize>> {
    match way {
        Decision::Cut { field, shift, bits } => {
            let window = ((1u32 << bits) - 1) << shift;
            let of = |t: &&Test| t.field == field && t.mask & window != 0;
            let test = entry
                .tests
                .iter()
                .filter(of)
                .max_by_key(|t| (t.lo == t.hi, (t.mask & window).count_ones()))?;
            if test.lo == test.hi {
                let open = !test.mask & window;
                let value = ((test.lo & window) >> shift) as usize;
                // Open bits at the lower end form a range; other cases are rare.
                let low = open >> shift;
                let regular = low.count_ones() == low.trailing_ones();
                return regular.then(|| value..value + (1 << low.count_ones()));
            }
            // A range is usable if it has all bits of the window, and its values agree in all bits above.
            if test.mask & window != window {
                return None;
            }
            let above = test.mask >> shift >> bits;
            if above != 0 && (test.lo >> shift >> bits) != (test.hi >> shift >> bits) {
                return None;
            }
            let (lo, hi) = ((test.lo & window) >> shift, (test.hi & window) >> shift);
            Some(lo as usize..hi as usize + 1)
        }
        Decision::Split { field, mask, at } => {
            let same = |t: &&Test| (t.field, t.mask) == (field, mask);
            let test = entry.tests.iter().find(same)?;
            if test.hi < at {
                Some(0..1)
            } else if test.lo >= at {
                Some(1..2)
            } else {
                None
            }
        }
    }
}
