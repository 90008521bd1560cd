//! Horizontal positions of places in their rows. Each row in turn moves so that its steps are as vertical as order and
//! distances allow (least squares, by pooling adjacent violators: Ayer and others, 1955).

use super::crossings::{Neighbours, neighbours};
use super::{GAP, PASS_GAP, Place, Rows, Step};

const SWEEPS: usize = 40;

/// X coordinate of the left side of each place. The leftmost place has 0.
pub(super) fn spread(rows: &Rows, places: &[Place], steps: &[Step]) -> Vec<f64> {
    let (above, below) = neighbours(places.len(), steps);
    let mut x = vec![0.0; places.len()];
    for row in rows {
        let mut left = 0.0;
        for (at, &place) in row.iter().enumerate() {
            x[place] = left;
            let next = row.get(at + 1);
            left += next.map_or(0.0, |&next| distance(&places[place], &places[next]));
        }
    }
    for sweep in 0..SWEEPS {
        let count = rows.len();
        for at in 0..count {
            let row = &rows[if sweep % 2 == 0 { at } else { count - 1 - at }];
            // At first a row follows one neighbouring row, so that changes spread from row to row; later both.
            let (up, down) = (sweep % 2 == 0, sweep % 2 == 1);
            let both = sweep >= SWEEPS / 2;
            let wish = |place: usize| {
                let (mut sum, mut weight) = (0.0, 0.0);
                for (near, asked) in [(&above, up || both), (&below, down || both)] {
                    for &(other, end, own) in near[place].iter().filter(|_| asked) {
                        let strength = step_weight(&places[place], &places[other]);
                        sum += strength * (x[other] + end - own);
                        weight += strength;
                    }
                }
                if let Some(item) = places[place].beside {
                    sum += x[item] + places[item].width / 2.0;
                    weight += 1.0;
                }
                match weight > 0.0 {
                    true => (sum / weight, weight),
                    false => (x[place], 0.01),
                }
            };
            let wishes: Vec<(f64, f64)> = row.iter().map(|&place| wish(place)).collect();
            place_row(row, places, &wishes, &mut x);
        }
    }
    for _ in 0..2 {
        straighten(rows, places, &below, &mut x);
        close(places, &mut x);
    }
    x
}

/// Makes long connections straight over as many layers as the neighbours of their places allow.
fn straighten(rows: &Rows, places: &[Place], below: &Neighbours, x: &mut [f64]) {
    let mut sides = vec![(None, None); places.len()];
    for row in rows {
        for pair in row.windows(2) {
            (sides[pair[0]].1, sides[pair[1]].0) = (Some(pair[1]), Some(pair[0]));
        }
    }
    let next = |place: usize| {
        let only = below[place].first().map(|&(other, _, _)| other);
        only.filter(|&other| places[other].passes)
    };
    let mut has_above = vec![false; places.len()];
    for place in (0..places.len()).filter(|&place| places[place].passes) {
        next(place)
            .into_iter()
            .for_each(|other| has_above[other] = true);
    }
    for start in (0..places.len()).filter(|&place| places[place].passes && !has_above[place]) {
        let chain: Vec<usize> = std::iter::successors(Some(start), |&place| next(place)).collect();
        let mut at = 0;
        while at < chain.len() {
            let (mut least, mut most, mut end) = (f64::MIN, f64::MAX, at);
            while let Some(&place) = chain.get(end) {
                let (left, right) = sides[place];
                let low = left.map_or(f64::MIN, |left| {
                    x[left] + distance(&places[left], &places[place])
                });
                let high = right.map_or(f64::MAX, |right| {
                    x[right] - distance(&places[place], &places[right])
                });
                if least.max(low) > most.min(high) {
                    break;
                }
                (least, most, end) = (least.max(low), most.min(high), end + 1);
            }
            let end = end.max(at + 1); // rounding may leave no room for a place where it is
            let mean =
                chain[at..end].iter().map(|&place| x[place]).sum::<f64>() / (end - at) as f64;
            for &place in chain[at..end].iter().filter(|_| least <= most) {
                x[place] = mean.clamp(least, most);
            }
            at = end;
        }
    }
}

/// Narrows empty vertical strips to the distance of two items, and shifts positions to begin at 0.
fn close(places: &[Place], x: &mut [f64]) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
    let mut right = f64::NEG_INFINITY;
    let mut moved = 0.0;
    for place in order {
        let left = x[place];
        if right == f64::NEG_INFINITY {
            moved = left;
        } else if left - right > GAP {
            moved += left - right - GAP;
        }
        right = right.max(left + places[place].width);
        x[place] = left - moved;
    }
}

/// Distance of the left sides of two neighbours.
fn distance(left: &Place, right: &Place) -> f64 {
    let gap = match left.passes || right.passes {
        true => PASS_GAP,
        false => GAP,
    };
    left.width + gap
}

/// Weight of a step: long connections are straight before others.
fn step_weight(one: &Place, other: &Place) -> f64 {
    match (one.passes, other.passes) {
        (true, true) => 8.0,
        (false, false) => 1.0,
        _ => 2.0,
    }
}

/// Moves a row as close to the wished positions as order and distances allow; each wish is a position and a weight.
fn place_row(row: &[usize], places: &[Place], wishes: &[(f64, f64)], x: &mut [f64]) {
    // Without the least distances, places only have to keep their order.
    let mut offsets = vec![0.0; row.len()];
    for at in 1..row.len() {
        offsets[at] = offsets[at - 1] + distance(&places[row[at - 1]], &places[row[at]]);
    }
    // Blocks of places that touch: sum of weighted wishes, weight, number.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (&(wish, weight), offset) in wishes.iter().zip(&offsets) {
        let mut block = ((wish - offset) * weight, weight, 1);
        while let Some(last) = blocks
            .last()
            .filter(|last| last.0 / last.1 >= block.0 / block.1)
        {
            block = (last.0 + block.0, last.1 + block.1, last.2 + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut at = 0;
    for (sum, weight, count) in blocks {
        for _ in 0..count {
            x[row[at]] = sum / weight + offsets[at];
            at += 1;
        }
    }
}
