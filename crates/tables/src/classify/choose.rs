//! Choice of the bits to cut and the ranges to split.

use super::FIELDS;
use super::region::{Decision, Entry, Region, covered};

/// Number of instructions of one step from a node to its child.
const STEP_INSTRUCTIONS: f64 = 15.0;
/// Number of instructions of one check in a leaf.
const CHECK_INSTRUCTIONS: f64 = 14.0;
/// Estimated number of instructions to halve the number of remaining rules.
const HALVING_INSTRUCTIONS: f64 = 20.0;
/// The best decision so far, with its expected number of instructions.
type Best = (f64, Option<Decision>);

/// The best cut or split at a node; `None` if a leaf is cheaper.
pub(super) fn choose(entries: &[Entry], region: &Region, copy_weight: f64) -> Option<Decision> {
    let open = entries.iter().filter(|e| !e.tests.is_empty()).count();
    if open < 2 {
        return None;
    }
    let leaf = CHECK_INSTRUCTIONS * (0.7 * entries.len() as f64 + 1.0);
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
        try_cuts(entries, field, asked, copy_weight, &mut best);
        masks.truncate(4);
        for mask in masks {
            try_splits(entries, region, (field, mask), copy_weight, &mut best);
        }
    }
    best.1
}

/// For every number of bits, tries the windows whose bits individually distinguish most rules.
fn try_cuts(entries: &[Entry], field: u8, asked: u32, copy_weight: f64, best: &mut Best) {
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
            rate(
                entries,
                Decision::Cut { field, shift, bits },
                copy_weight,
                best,
            );
        }
    }
}

fn try_splits(
    entries: &[Entry],
    region: &Region,
    (field, mask): (u8, u32),
    copy_weight: f64,
    best: &mut Best,
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
        rate(
            entries,
            Decision::Split { field, mask, at },
            copy_weight,
            best,
        );
    }
}

/// Keeps a decision if its expected number of instructions is less than that of the best so far.
fn rate(entries: &[Entry], way: Decision, copy_weight: f64, best: &mut Best) {
    let count = way.children();
    // For many rules, a sample suffices.
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
        cost += (mass + each)
            * (HALVING_INSTRUCTIONS * n.max(1.0).log2() + CHECK_INSTRUCTIONS * 0.35 * n.min(4.0));
        copies += n;
    }
    let growth = (copies + count as f64 / 4.0) / entries.len() as f64;
    let cost = STEP_INSTRUCTIONS + cost / total.max(1e-9) + copy_weight * growth.max(1.0).log2();
    let now =
        HALVING_INSTRUCTIONS * (entries.len() as f64).log2() + CHECK_INSTRUCTIONS * 0.35 * 4.0;
    let helps = cost < now + STEP_INSTRUCTIONS;
    if cost < best.0 && helps {
        *best = (cost, Some(way));
    }
}

/// Selectivity of each bit of a field: the smaller of the numbers of rules that require 0 and that require 1, plus a
/// little for the larger.
fn bit_worth(entries: &[Entry], field: u8) -> [f64; 32] {
    let mut said = [[0u32; 2]; 32];
    let tests = entries.iter().flat_map(|e| &e.tests);
    for test in tests.filter(|t| t.field == field) {
        // Bits that are equal in all values of a range.
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
