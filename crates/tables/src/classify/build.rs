//! Builds [`Tree`]s: which bits to cut, which ranges to split, when to stop.

use super::{CUT, Check, END, FIELDS, LEAF, NONE, Node, Part, Rule, SPLIT, Test, Tree};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Instructions of one step down.
const STEP: f64 = 16.0;
/// Instructions of one check in a leaf.
const CHECK: f64 = 15.0;
/// Instructions that one halving of the rules is expected to take.
const HALVING: f64 = 14.0;
/// Instructions given for half as many copies of rules.
const THRIFT: f64 = 4.0;
/// Entries (rules in leaves) per rule, and beside, that a tree may have before it is given up.
const COPIES: usize = 4;
const SPARE: usize = 512;

/// What the way down tells about a key.
#[derive(Clone, Debug)]
struct Region {
    known: [u32; FIELDS],
    value: [u32; FIELDS],
    /// Ranges of masked fields, from splits.
    ranges: Vec<(u8, u32, u32, u32)>,
}

enum Answer {
    Always,
    Never,
    Open,
}

impl Region {
    /// Every key of which these single values are known.
    fn of(tests: &[Test]) -> Region {
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

    fn range(&self, field: u8, mask: u32) -> (u32, u32) {
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

    /// The tests of a rule that are open; `None` if one never holds.
    fn open(&self, tests: &[Test]) -> Option<Vec<Test>> {
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

    fn child(&self, way: Way, number: u32) -> Region {
        let mut child = self.clone();
        match way {
            Way::Cut { field, shift, bits } => {
                let field = usize::from(field);
                let mask = ((1u32 << bits) - 1) << shift;
                child.known[field] |= mask;
                child.value[field] = child.value[field] & !mask | number << shift;
            }
            Way::Split { field, mask, at } => {
                let (a, b) = self.range(field, mask);
                child.ranges.retain(|r| (r.0, r.1) != (field, mask));
                let range = if number == 0 { (a, at - 1) } else { (at, b) };
                child.ranges.push((field, mask, range.0, range.1));
            }
        }
        child
    }
}

/// A way to go on at a node.
#[derive(Clone, Copy, Debug)]
enum Way {
    Cut { field: u8, shift: u32, bits: u32 },
    Split { field: u8, mask: u32, at: u32 },
}

impl Way {
    fn children(self) -> usize {
        match self {
            Way::Cut { bits, .. } => 1 << bits,
            Way::Split { .. } => 2,
        }
    }
}

/// A rule at a node: its tests that are open, and how often it is expected to be hit.
#[derive(Clone, Debug)]
struct Entry {
    rule: u32,
    tests: Vec<Test>,
    mass: f64,
}

/// Entries are the same if what is left to do is.
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

struct Builder {
    nodes: Vec<Node>,
    checks: Vec<Check>,
    leaves: HashMap<Vec<Check>, u32>,
    entries: usize,
    budget: usize,
    /// How dear copies are.
    thrift: f64,
}

pub(super) fn build(rules: &[Rule], known: &[Test]) -> Tree {
    let region = Region::of(known);
    let all: Vec<Entry> = (0..)
        .zip(rules)
        .filter(|(_, tests)| tests.iter().all(|t| t.lo <= t.hi))
        .filter_map(|(rule, tests)| {
            Some(Entry {
                rule,
                tests: region.open(tests)?,
                mass: 1.0,
            })
        })
        .collect();
    let mut builder = Builder {
        nodes: Vec::new(),
        checks: Vec::new(),
        leaves: HashMap::new(),
        entries: 0,
        budget: usize::MAX,
        thrift: THRIFT,
    };
    let mut parts = Vec::new();
    builder.divide(all, &region, &mut parts, 0);
    parts.sort_by_key(|p: &Part| p.first);
    Tree {
        parts,
        nodes: builder.nodes,
        checks: builder.checks,
    }
}

/// How much of the key a rule's test of a field says, in bits.
fn weight(entry: &Entry, field: u8) -> u32 {
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

impl Builder {
    /// Builds one tree, or divides the rules by the field that tells most of them apart.
    fn divide(
        &mut self,
        entries: Vec<Entry>,
        region: &Region,
        parts: &mut Vec<Part>,
        depth: usize,
    ) {
        let Some(first) = entries.first().map(|e| e.rule) else {
            return;
        };
        self.entries = 0;
        self.budget = match depth {
            0..6 => entries.len() * COPIES + SPARE,
            _ => usize::MAX,
        };
        let thrift = self.thrift;
        if depth >= 6 {
            // The last resort may not fail: next to nothing is copied.
            self.thrift = 1000.0;
        }
        let before = (self.nodes.len(), self.checks.len());
        if let Some(root) = self.node(entries.clone(), region, 0) {
            parts.push(Part {
                root: self.nodes.len(),
                first,
            });
            self.nodes.push(root);
            self.thrift = thrift;
            return;
        }
        self.nodes.truncate(before.0);
        self.checks.truncate(before.1);
        self.leaves.retain(|_, at| (*at as usize) < before.1);
        // By the field that about half of the rules name.
        let named = |field: u8| entries.iter().filter(|e| weight(e, field) >= 8).count();
        let half = |n: usize| n.min(entries.len() - n);
        let field = (0..FIELDS as u8)
            .max_by_key(|&f| half(named(f)))
            .unwrap_or(0);
        let (yes, no): (Vec<_>, Vec<_>) =
            entries.iter().cloned().partition(|e| weight(e, field) >= 8);
        if yes.is_empty() || no.is_empty() {
            self.thrift *= 4.0;
            self.divide(entries, region, parts, depth + 1);
            self.thrift /= 4.0;
            return;
        }
        self.divide(yes, region, parts, depth + 1);
        self.divide(no, region, parts, depth + 1);
    }

    /// A node for these rules, in order; `None` if the budget is spent.
    fn node(&mut self, mut entries: Vec<Entry>, region: &Region, depth: usize) -> Option<Node> {
        // What stands behind a rule that always matches is never reached.
        if let Some(sure) = entries.iter().position(|e| e.tests.is_empty()) {
            entries.truncate(sure + 1);
        }
        let way = if depth < 40 {
            self.choose(&entries, region)
        } else {
            None
        };
        let Some(way) = way else {
            self.entries += entries.len();
            return (self.entries <= self.budget).then(|| self.leaf(&entries));
        };
        let count = way.children();
        self.entries += count / 8;
        let regions: Vec<Region> = (0..count as u32).map(|n| region.child(way, n)).collect();
        let groups = sort(entries, way, &regions);
        let mut children = vec![None; count];
        for (mut list, members) in groups {
            // Those of several children are built once, of what is known for all of them.
            let region = match members.as_slice() {
                [one] => &regions[*one],
                _ => region,
            };
            for entry in &mut list {
                entry.mass *= members.len() as f64;
            }
            let child = self.node(list, region, depth + 1)?;
            members.iter().for_each(|&n| children[n] = Some(child));
        }
        let children = children.into_iter().flatten();
        let next = self.nodes.len() as u32;
        self.nodes.extend(children);
        Some(match way {
            Way::Cut { field, shift, bits } => Node {
                kind: CUT,
                field,
                shift: shift as u8,
                mask: (1 << bits) - 1,
                at: 0,
                next,
            },
            Way::Split { field, mask, at } => Node {
                kind: SPLIT,
                field,
                shift: 0,
                mask,
                at,
                next,
            },
        })
    }

    fn leaf(&mut self, entries: &[Entry]) -> Node {
        let mut checks = Vec::new();
        for entry in entries {
            let mut tests = entry.tests.clone();
            // The test that tells most comes first.
            tests
                .sort_by_key(|t| u64::from(t.hi - t.lo) << 6 | u64::from(32 - t.mask.count_ones()));
            let count = tests.len();
            for (i, test) in tests.into_iter().enumerate() {
                checks.push(Check {
                    mask: test.mask,
                    lo: test.lo,
                    span: test.hi - test.lo,
                    field: test.field,
                    skip: (count - i + 1) as u8,
                });
            }
            checks.push(end(entry.rule));
        }
        if entries.last().is_none_or(|e| !e.tests.is_empty()) {
            checks.push(end(NONE));
        }
        let (pool, leaves) = (&mut self.checks, &mut self.leaves);
        let next = *leaves.entry(checks).or_insert_with_key(|checks| {
            pool.extend(checks);
            (pool.len() - checks.len()) as u32
        });
        Node {
            kind: LEAF,
            field: 0,
            shift: 0,
            mask: 0,
            at: 0,
            next,
        }
    }

    /// The best way to go on, if one is better than a leaf.
    fn choose(&self, entries: &[Entry], region: &Region) -> Option<Way> {
        let open = entries.iter().filter(|e| !e.tests.is_empty()).count();
        if open < 2 {
            return None;
        }
        let leaf = CHECK * (0.7 * entries.len() as f64 + 1.0);
        let mut best = (leaf, None);
        let tests = entries.iter().flat_map(|e| &e.tests);
        let used = tests.fold(0u32, |used, t| used | 1 << t.field);
        for field in (0..FIELDS as u8).filter(|f| used >> f & 1 != 0) {
            let tests = entries.iter().flat_map(|e| &e.tests);
            let mut asked = 0;
            let mut masks: Vec<u32> = Vec::new();
            for test in tests.filter(|t| t.field == field) {
                asked |= test.mask;
                if !masks.contains(&test.mask) && test.lo != test.hi {
                    masks.push(test.mask);
                }
            }
            asked &= !region.known[usize::from(field)];
            self.try_cuts(entries, field, asked, &mut best);
            masks.truncate(4);
            for mask in masks {
                self.try_splits(entries, region, field, mask, &mut best);
            }
        }
        best.1
    }

    /// Tries, for every number of bits, the windows whose bits tell most rules apart one by one.
    fn try_cuts(&self, entries: &[Entry], field: u8, asked: u32, best: &mut (f64, Option<Way>)) {
        let worth = bit_worth(entries, field);
        let most = (entries.len() * 4).max(2).ilog2().min(10);
        for bits in [1u32, 2, 3, 4, 6, 8, 10] {
            if bits > most {
                break;
            }
            let window = |shift: u32| ((1u32 << bits) - 1) << shift;
            let mut windows: Vec<(f64, u32)> = (0..=32 - bits)
                .filter(|&shift| asked & window(shift) == window(shift))
                .map(|shift| (worth[shift as usize..][..bits as usize].iter().sum(), shift))
                .collect();
            windows.sort_by(|a, b| b.0.total_cmp(&a.0));
            windows.truncate(3);
            for (_, shift) in windows {
                self.rate(entries, Way::Cut { field, shift, bits }, best);
            }
        }
    }

    fn try_splits(
        &self,
        entries: &[Entry],
        region: &Region,
        field: u8,
        mask: u32,
        best: &mut (f64, Option<Way>),
    ) {
        let (a, b) = region.range(field, mask);
        let tests = entries.iter().flat_map(|e| &e.tests);
        let mut ends: Vec<u32> = tests
            .filter(|t| (t.field, t.mask) == (field, mask))
            .flat_map(|t| [Some(t.lo), t.hi.checked_add(1)])
            .flatten()
            .filter(|&at| at > a && at <= b)
            .collect();
        ends.sort_unstable();
        let mut distinct = ends.clone();
        distinct.dedup();
        let picks = (1..8).filter_map(|i| ends.get(ends.len() * i / 8));
        let spread = (1..4).filter_map(|i| distinct.get(distinct.len() * i / 4));
        let mut points: Vec<u32> = picks.chain(spread).copied().collect();
        points.sort_unstable();
        points.dedup();
        for at in points {
            self.rate(entries, Way::Split { field, mask, at }, best);
        }
    }

    /// Keeps a way if it is expected to take fewer instructions than the best so far.
    fn rate(&self, entries: &[Entry], way: Way, best: &mut (f64, Option<Way>)) {
        let count = way.children();
        // Of many rules some tell enough.
        let step = entries.len() / 1000 + 1;
        let scale = step as u32;
        let mut lists = vec![(0u32, 0f64); count];
        let (mut wild, mut wild_mass) = (0u32, 0f64);
        for entry in entries.iter().step_by(step) {
            let Some(cover) = covered(entry, way) else {
                wild += scale;
                wild_mass += entry.mass;
                continue;
            };
            let mass = entry.mass / cover.len() as f64;
            for list in &mut lists[cover] {
                list.0 += scale;
                list.1 += mass;
            }
        }
        let each = wild_mass / count as f64;
        let mut total = 0.0;
        let (mut cost, mut copies) = (0.0, 0.0);
        for (n, mass) in lists {
            let n = f64::from(n + wild);
            total += mass + each;
            cost += (mass + each) * (HALVING * n.max(1.0).log2() + CHECK * 0.35 * n.min(4.0));
            copies += n;
        }
        let growth = (copies + count as f64 / 4.0) / entries.len() as f64;
        let cost = STEP + cost / total.max(1e-9) + self.thrift * growth.max(1.0).log2();
        let now = HALVING * (entries.len() as f64).log2() + CHECK * 0.35 * 4.0;
        let helps = cost < now + STEP;
        if cost < best.0 && helps {
            *best = (cost, Some(way));
        }
    }
}

/// What the rules leave to each child: children with the same rules and open tests together.
fn sort(entries: Vec<Entry>, way: Way, regions: &[Region]) -> Vec<(Vec<Entry>, Vec<usize>)> {
    let count = regions.len();
    let mut lists: Vec<Vec<Entry>> = vec![Vec::new(); count];
    for entry in &entries {
        let cover = covered(entry, way).unwrap_or(0..count);
        let opens: Vec<_> = cover
            .filter_map(|n| Some((n, regions[n].open(&entry.tests)?)))
            .collect();
        let mass = entry.mass / opens.len().max(1) as f64;
        for (n, tests) in opens {
            lists[n].push(Entry {
                rule: entry.rule,
                tests,
                mass,
            });
        }
    }
    let mut groups: HashMap<Vec<Entry>, Vec<usize>> = HashMap::new();
    for (n, list) in lists.into_iter().enumerate() {
        groups.entry(list).or_default().push(n);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, members)| members[0]);
    groups
}

/// How well each bit of a field tells rules apart: how many say 0 and how many say 1, the fewer.
fn bit_worth(entries: &[Entry], field: u8) -> [f64; 32] {
    let mut said = [[0u32; 2]; 32];
    let tests = entries.iter().flat_map(|e| &e.tests);
    for test in tests.filter(|t| t.field == field) {
        // The bits in which all values of a range agree.
        let agreed = !u32::MAX
            .checked_shr((test.lo ^ test.hi).leading_zeros())
            .unwrap_or(0);
        let mut left = test.mask & agreed;
        while left != 0 {
            let bit = left.trailing_zeros();
            said[bit as usize][(test.lo >> bit & 1) as usize] += 1;
            left &= left - 1;
        }
    }
    said.map(|[zero, one]| f64::from(zero.min(one)) + 0.05 * f64::from(zero.max(one)))
}

fn end(rule: u32) -> Check {
    Check {
        mask: 0,
        lo: rule,
        span: 0,
        field: END,
        skip: 0,
    }
}

/// Children outside of which a rule cannot match; `None` for all.
fn covered(entry: &Entry, way: Way) -> Option<Range<usize>> {
    match way {
        Way::Cut { field, shift, bits } => {
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
                // Open bits at the lower end make a range; others are rare.
                let low = open >> shift;
                let regular = low.count_ones() == low.trailing_ones();
                return regular.then(|| value..value + (1 << low.count_ones()));
            }
            // A range: known if it has all bits of the window, and one value in those above.
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
        Way::Split { field, mask, at } => {
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
