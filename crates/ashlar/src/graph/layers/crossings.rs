//! Order of the places in each layer, to reduce crossings: the barycentre method, upwards and downwards in turn, then
//! swaps of adjacent places.

use super::{GAP, Place, Rows, Step};

const SWEEPS: usize = 16;

/// Neighbours of each place: the place there, its end's distance from the left, and that of the own end.
pub(super) type Neighbours = Vec<Vec<(usize, f64, f64)>>;

/// Neighbours in the layer above, and in the layer below.
pub(super) fn neighbours(places: usize, steps: &[Step]) -> (Neighbours, Neighbours) {
    let (mut above, mut below) = (vec![Vec::new(); places], vec![Vec::new(); places]);
    for step in steps {
        below[step.above.0].push((step.below.0, step.below.1, step.above.1));
        above[step.below.0].push((step.above.0, step.above.1, step.below.1));
    }
    (above, below)
}

pub(super) fn sort(rows: &mut Rows, places: &[Place], steps: &[Step]) {
    let (above, below) = neighbours(places.len(), steps);
    let mut x = vec![0.0; places.len()];
    rows.iter().for_each(|row| pack(row, places, &mut x));
    let mut best = (crossings(rows, places.len(), &below), rows.clone());
    for sweep in 0..SWEEPS {
        let (down, count) = (sweep % 2 == 0, rows.len());
        let near = if down { &above } else { &below };
        for at in 0..count {
            let row = &mut rows[if down { at } else { count - 1 - at }];
            let key = |place: usize| {
                let ends = near[place]
                    .iter()
                    .map(|&(other, end, own)| x[other] + end - own);
                let beside = places[place]
                    .beside
                    .map(|item| x[item] + places[item].width);
                mean(ends.chain(beside)).unwrap_or(x[place])
            };
            let mut keyed: Vec<(f64, usize)> =
                row.iter().map(|&place| (key(place), place)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *row = keyed.into_iter().map(|(_, place)| place).collect();
            pack(row, places, &mut x);
        }
        swap(rows, places.len(), &above, &below);
        rows.iter().for_each(|row| pack(row, places, &mut x));
        let crossing = crossings(rows, places.len(), &below);
        if crossing < best.0 {
            best = (crossing, rows.clone());
        }
    }
    *rows = best.1;
}

/// Positions of a row's places: packed one after the other around a common centre.
fn pack(row: &[usize], places: &[Place], x: &mut [f64]) {
    let whole: f64 = row.iter().map(|&place| places[place].width + GAP).sum();
    let mut left = -whole / 2.0;
    for &place in row {
        x[place] = left;
        left += places[place].width + GAP;
    }
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        (sum, count) = (sum + value, count + 1.0);
    }
    (count > 0.0).then(|| sum / count)
}

/// Position of each place in its row.
fn positions(rows: &Rows, places: usize) -> Vec<usize> {
    let mut positions = vec![0; places];
    for row in rows {
        row.iter()
            .enumerate()
            .for_each(|(at, &place)| positions[place] = at);
    }
    positions
}

/// Number of pairs of steps that cross.
fn crossings(rows: &Rows, places: usize, below: &Neighbours) -> usize {
    let positions = positions(rows, places);
    let mut crossings = 0;
    for row in rows {
        // Ends above in order: each end below crosses those before it that lie further right.
        let mut passed: Vec<(usize, f64)> = Vec::new();
        for &place in row {
            // Steps from one port do not cross, so they are in the order of their ends below.
            let mut ends: Vec<(f64, (usize, f64))> = below[place]
                .iter()
                .map(|&(other, end, own)| (own, (positions[other], end)))
                .collect();
            ends.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
            for (_, end) in ends {
                let after = passed.partition_point(|before| *before <= end);
                crossings += passed.len() - after;
                passed.insert(after, end);
            }
        }
    }
    crossings
}

/// Swaps neighbours in their rows while that removes crossings.
fn swap(rows: &mut Rows, places: usize, above: &Neighbours, below: &Neighbours) {
    let mut positions = positions(rows, places);
    for _ in 0..4 {
        let mut better = false;
        for row in rows.iter_mut() {
            for at in 1..row.len() {
                let (left, right) = (row[at - 1], row[at]);
                let cost = |a: usize, b: usize| {
                    crossings_between(&above[a], &above[b], &positions)
                        + crossings_between(&below[a], &below[b], &positions)
                };
                if cost(right, left) < cost(left, right) {
                    row.swap(at - 1, at);
                    (positions[left], positions[right]) = (at, at - 1);
                    better = true;
                }
            }
        }
        if !better {
            return;
        }
    }
}

/// Number of crossings between the steps of a place and those of one to its right.
fn crossings_between(
    left: &[(usize, f64, f64)],
    right: &[(usize, f64, f64)],
    positions: &[usize],
) -> usize {
    let end = |&(place, end, _): &(usize, f64, f64)| (positions[place], end);
    left.iter()
        .map(|a| right.iter().filter(|b| end(b) < end(a)).count())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn crossings_are_those_of_each_pair_of_steps() {
        let mut rng = Rng::seed(9);
        for _ in 0..100 {
            let (upper, lower) = (rng.range(1..8), rng.range(1..8));
            let rows: Rows = vec![(0..upper).collect(), (upper..upper + lower).collect()];
            let end = |rng: &mut Rng| rng.range(0..3) as f64;
            let steps: Vec<Step> = (0..rng.range(0..20))
                .map(|_| Step {
                    above: (rng.range(0..upper), end(&mut rng)),
                    below: (rng.range(upper..upper + lower), end(&mut rng)),
                })
                .collect();
            let cross = |a: &Step, b: &Step| a.above < b.above && a.below > b.below;
            let pairs = steps.iter().flat_map(|a| steps.iter().map(move |b| (a, b)));
            let naive = pairs.filter(|(a, b)| cross(a, b)).count();
            let (_, below) = neighbours(upper + lower, &steps);
            assert_eq!(crossings(&rows, upper + lower, &below), naive);
        }
    }
}
