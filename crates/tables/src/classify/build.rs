//! Builds [`Tree`]s top-down: nodes, leaves, and the division of rules among trees.

use super::choose::choose;
use super::region::{Decision, Entry, Region, covered, weight};
use super::{
    Check, FIELDS, LEAF, MORE_CHECKS, NONE, Node, RANGE, RankedTree, Rule, SPLIT, Test, Tree,
    WORDS_PER_CHECK,
};
use std::collections::HashMap;

/// Number of instructions that halving the number of rule copies is worth.
const COPY_WEIGHT: f64 = 1.5;
/// Maximum number of entries (rules in leaves) per rule, and a constant on top, before a tree is abandoned.
const ENTRIES_PER_RULE_MAX: usize = 8;
const ENTRIES_SPARE: usize = 1024;

struct Builder {
    nodes: Vec<Node>,
    checks: Vec<Check>,
    leaves: HashMap<Vec<Check>, u32>,
    entries: usize,
    budget: usize,
    /// Weight of memory against time: number of instructions that halving the number of rule copies is worth.
    copy_weight: f64,
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
        copy_weight: COPY_WEIGHT,
    };
    let mut parts = Vec::new();
    builder.divide(all, &region, &mut parts, 0);
    parts.sort_by_key(|p: &RankedTree| p.first);
    Tree {
        trees: parts,
        nodes: builder.nodes,
        checks: builder.checks,
    }
}

impl Builder {
    /// Builds one tree, or divides the rules by the field with the most distinct values.
    fn divide(
        &mut self,
        entries: Vec<Entry>,
        region: &Region,
        parts: &mut Vec<RankedTree>,
        depth: usize,
    ) {
        let Some(first) = entries.first().map(|e| e.rule) else {
            return;
        };
        self.entries = 0;
        self.budget = match depth {
            0..6 => entries.len() * ENTRIES_PER_RULE_MAX + ENTRIES_SPARE,
            _ => usize::MAX,
        };
        let copy_weight = self.copy_weight;
        if depth >= 6 {
            // The last attempt must not fail: copying is made very expensive.
            self.copy_weight = 1000.0;
        }
        let before = (self.nodes.len(), self.checks.len());
        if let Some(root) = self.node(entries.clone(), region, 0) {
            parts.push(RankedTree { root, first });
            self.copy_weight = copy_weight;
            return;
        }
        self.nodes.truncate(before.0);
        self.checks.truncate(before.1);
        self.leaves.retain(|_, at| (*at as usize) < before.1);
        // Chooses the field that about half of the rules name.
        let named = |field: u8| entries.iter().filter(|e| weight(e, field) >= 8).count();
        let half = |n: usize| n.min(entries.len() - n);
        let field = (0..FIELDS as u8)
            .max_by_key(|&f| half(named(f)))
            .unwrap_or(0);
        let (yes, no): (Vec<_>, Vec<_>) =
            entries.iter().cloned().partition(|e| weight(e, field) >= 8);
        if yes.is_empty() || no.is_empty() {
            self.copy_weight *= 4.0;
            self.divide(entries, region, parts, depth + 1);
            self.copy_weight /= 4.0;
            return;
        }
        self.divide(yes, region, parts, depth + 1);
        self.divide(no, region, parts, depth + 1);
    }

    /// Builds the node for these rules, in order; `None` if the budget is exhausted.
    fn node(&mut self, mut entries: Vec<Entry>, region: &Region, depth: usize) -> Option<Node> {
        // Rules after one that always matches are never reached.
        if let Some(sure) = entries.iter().position(|e| e.tests.is_empty()) {
            entries.truncate(sure + 1);
        }
        let way = if depth < 40 {
            choose(&entries, region, self.copy_weight)
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
            // Children that share a subtree build it once, from the bits that are known for all of them.
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
            Decision::Cut { field, shift, bits } => Node {
                next,
                mask: (1 << bits) - 1,
                at: shift,
                code: field,
            },
            Decision::Split { field, mask, at } => Node {
                next,
                mask,
                at,
                code: SPLIT | field,
            },
        })
    }

    fn leaf(&mut self, entries: &[Entry]) -> Node {
        let mut checks: Vec<Check> = entries.iter().flat_map(checks_of).collect();
        if entries.last().is_none_or(|e| !e.tests.is_empty()) {
            checks.push(end(NONE));
        }
        let (pool, leaves) = (&mut self.checks, &mut self.leaves);
        let next = *leaves.entry(checks).or_insert_with_key(|checks| {
            pool.extend(checks);
            (pool.len() - checks.len()) as u32
        });
        Node {
            next,
            mask: 0,
            at: 0,
            code: LEAF,
        }
    }
}

/// Groups children by their remaining rules: children with the same rules and the same open tests share a group.
fn sort(entries: Vec<Entry>, way: Decision, regions: &[Region]) -> Vec<(Vec<Entry>, Vec<usize>)> {
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

/// Checks of a leaf for a rule. Single values of neighbouring words are checked together, and the most selective
/// check comes first.
fn checks_of(entry: &Entry) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let mut tests = entry.tests.clone();
    tests.sort_by_key(|t| t.field);
    for test in &tests {
        if test.lo != test.hi {
            checks.push(Check {
                mask: [test.mask.into(), 0],
                value: [test.lo, test.hi - test.lo].map(u64::from),
                code: RANGE | test.field,
                ..end(MORE_CHECKS)
            });
            continue;
        }
        let near = |c: &Check| (c.code..c.code + WORDS_PER_CHECK as u8).contains(&test.field);
        let at = checks.iter().position(near).unwrap_or_else(|| {
            checks.push(Check {
                code: test.field.min((FIELDS - WORDS_PER_CHECK) as u8),
                ..end(MORE_CHECKS)
            });
            checks.len() - 1
        });
        let check = &mut checks[at];
        let word = test.field - check.code;
        let (half, shift) = (usize::from(word / 2), word % 2 * 32);
        let (mask, value) = (u64::from(test.mask) << shift, u64::from(test.lo) << shift);
        if (check.value[half] ^ value) & check.mask[half] & mask != 0 {
            return Vec::new();
        }
        check.mask[half] |= mask;
        check.value[half] |= value;
    }
    let bits = |c: &Check| u64::from(c.mask[0].count_ones() + c.mask[1].count_ones());
    checks.sort_by_key(|c| match c.code {
        0..RANGE => (0, u64::MAX - bits(c)),
        _ => (1, c.value[1]),
    });
    let count = checks.len();
    for (i, check) in checks.iter_mut().enumerate() {
        check.skip = (count - i) as u8;
    }
    match checks.last_mut() {
        Some(last) => last.rule = entry.rule,
        None => checks.push(end(entry.rule)),
    }
    checks
}

/// A check that always holds.
fn end(rule: u32) -> Check {
    Check {
        mask: [0; 2],
        value: [0; 2],
        rule,
        code: 0,
        skip: 1,
    }
}
