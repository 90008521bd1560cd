//! Layered graph layout, after Sugiyama. Cycles are broken, and elements get layers by their longest path from a
//! source. Long connections pass through empty places, and places in a layer are sorted so that few connections cross.

use super::Drawing;

pub(super) const GAP: f64 = 24.0;
const LAYER_GAP: f64 = 46.0;
pub(super) const HEIGHT: f64 = 36.0;
/// Width of a place that a connection only passes.
const PASS: f64 = 10.0;
const SWEEPS: usize = 12;

/// A place: an element, or a bend of a long connection.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    layer: usize,
}

/// Positions of everything in a drawing.
pub(super) struct Layout {
    /// Elements first, by number, then bends.
    pub(super) places: Vec<Place>,
    /// For each connection, its bends, in its own direction.
    pub(super) bends: Vec<Vec<usize>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Lays out a drawing; `widths` are those of its elements.
pub(super) fn layout(drawing: &Drawing, widths: &[f64]) -> Layout {
    let n = drawing.nodes.len();
    let forward = forward(drawing);
    let layers = layers(n, &forward);
    let mut places: Vec<Place> = (0..n)
        .map(|i| Place {
            x: 0.0,
            y: 0.0,
            width: widths[i],
            layer: layers[i],
        })
        .collect();
    // Each connection becomes a chain of steps between neighbouring layers.
    let mut bends = Vec::new();
    let mut steps = Vec::new();
    for (&(from, to), link) in forward.iter().zip(&drawing.links) {
        let mut way = Vec::new();
        let mut last = from;
        for layer in layers[from] + 1..layers[to] {
            places.push(Place {
                x: 0.0,
                y: 0.0,
                width: PASS,
                layer,
            });
            way.push(places.len() - 1);
            steps.push((last, places.len() - 1));
            last = places.len() - 1;
        }
        if from != to {
            steps.push((last, to));
        }
        if link.from.0 != from {
            way.reverse();
        }
        bends.push(way);
    }
    let mut rows = vec![Vec::new(); places.iter().map(|p| p.layer + 1).max().unwrap_or(0)];
    for (i, place) in places.iter().enumerate() {
        rows[place.layer].push(i);
    }
    sort_rows(&mut rows, &steps, places.len());
    let (width, height) = set_places(&mut places, &rows, &steps);
    Layout {
        places,
        bends,
        width,
        height,
    }
}

/// The connections as pairs without cycles: those that lead back are turned round.
fn forward(drawing: &Drawing) -> Vec<(usize, usize)> {
    let n = drawing.nodes.len();
    let mut next = vec![Vec::new(); n];
    let mut has_input = vec![false; n];
    for link in &drawing.links {
        next[link.from.0].push(link.to.0);
        has_input[link.to.0] = true;
    }
    // A depth-first search from the sources; a connection to an element that is being visited closes a cycle.
    let mut rank = vec![usize::MAX; n];
    let mut finished = n;
    let mut seen = vec![false; n];
    let sources = (0..n)
        .filter(|&i| !has_input[i])
        .chain((0..n).filter(|&i| has_input[i]));
    for start in sources {
        let mut walk = vec![(start, 0)];
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        while let Some((node, at)) = walk.last_mut() {
            match next[*node].get(*at) {
                Some(&to) => {
                    *at += 1;
                    if !std::mem::replace(&mut seen[to], true) {
                        walk.push((to, 0));
                    }
                }
                None => {
                    finished -= 1;
                    rank[*node] = finished;
                    walk.pop();
                }
            }
        }
    }
    let pair = |link: &super::Link| {
        let (from, to) = (link.from.0, link.to.0);
        if rank[from] <= rank[to] {
            (from, to)
        } else {
            (to, from)
        }
    };
    drawing.links.iter().map(pair).collect()
}

fn layers(n: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; n];
    // At most one round per layer; there are no cycles.
    for _ in 0..n {
        let mut changed = false;
        for &(from, to) in edges.iter().filter(|(a, b)| a != b) {
            if layers[to] <= layers[from] {
                layers[to] = layers[from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    // An element without inputs moves down to just above its first neighbour.
    for i in 0..n {
        if edges.iter().all(|e| e.1 != i || e.0 == i) {
            let below = edges
                .iter()
                .filter(|e| e.0 == i && e.1 != i)
                .map(|e| layers[e.1]);
            layers[i] = below.min().map_or(0, |l: usize| l.saturating_sub(1));
        }
    }
    layers
}

/// Sorts places by the mean position of their neighbours above, then below, several times.
fn sort_rows(rows: &mut [Vec<usize>], steps: &[(usize, usize)], n: usize) {
    let mut position = vec![0.0; n];
    let (mut above, mut below) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for &(from, to) in steps {
        below[from].push(to);
        above[to].push(from);
    }
    let note = |row: &[usize], position: &mut [f64]| {
        for (at, &i) in row.iter().enumerate() {
            position[i] = (at as f64 + 0.5) / row.len() as f64;
        }
    };
    rows.iter().for_each(|row| note(row, &mut position));
    for sweep in 0..SWEEPS {
        let neighbours = if sweep % 2 == 0 { &above } else { &below };
        let count = rows.len();
        for at in 0..count {
            let row = &mut rows[if sweep % 2 == 0 { at } else { count - 1 - at }];
            let key = |i: &usize| {
                mean(neighbours[*i].iter().map(|&j| position[j])).unwrap_or(position[*i])
            };
            row.sort_by(|a, b| key(a).total_cmp(&key(b)));
            note(row, &mut position);
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        (sum, count) = (sum + value, count + 1.0);
    }
    (count > 0.0).then(|| sum / count)
}

/// Gives coordinates: rows are packed, then pulled towards their neighbours without overlaps.
fn set_places(places: &mut [Place], rows: &[Vec<usize>], steps: &[(usize, usize)]) -> (f64, f64) {
    for (layer, row) in rows.iter().enumerate() {
        let mut x = GAP;
        for &i in row {
            places[i].x = x + places[i].width / 2.0;
            places[i].y = GAP + layer as f64 * (HEIGHT + LAYER_GAP) + HEIGHT / 2.0;
            x += places[i].width + GAP;
        }
    }
    let mut near = vec![Vec::new(); places.len()];
    for &(from, to) in steps {
        near[from].push(to);
        near[to].push(from);
    }
    for sweep in 0..SWEEPS {
        let order: Vec<usize> = match sweep % 2 {
            0 => (0..rows.len()).collect(),
            _ => (0..rows.len()).rev().collect(),
        };
        for at in order {
            let wish = |i: usize| mean(near[i].iter().map(|&j| places[j].x)).unwrap_or(places[i].x);
            let wishes: Vec<f64> = rows[at].iter().map(|&i| wish(i)).collect();
            settle(places, &rows[at], &wishes);
        }
    }
    let left = places
        .iter()
        .map(|p| p.x - p.width / 2.0)
        .fold(f64::MAX, f64::min);
    places.iter_mut().for_each(|p| p.x += GAP - left);
    let right = places
        .iter()
        .map(|p| p.x + p.width / 2.0)
        .fold(0.0, f64::max);
    let bottom = places
        .iter()
        .map(|p| p.y + HEIGHT / 2.0)
        .fold(0.0, f64::max);
    (right + GAP, bottom + GAP)
}

/// Moves a row to its wishes, keeping order and gaps: the mean of pushing from the left and from the
/// right.
fn settle(places: &mut [Place], row: &[usize], wishes: &[f64]) {
    let gap = |a: usize, b: usize| (places[a].width + places[b].width) / 2.0 + GAP;
    let (mut from_left, mut from_right) = (wishes.to_vec(), wishes.to_vec());
    for k in 1..row.len() {
        from_left[k] = from_left[k].max(from_left[k - 1] + gap(row[k - 1], row[k]));
    }
    for k in (0..row.len().saturating_sub(1)).rev() {
        from_right[k] = from_right[k].min(from_right[k + 1] - gap(row[k], row[k + 1]));
    }
    for (k, &i) in row.iter().enumerate() {
        places[i].x = (from_left[k] + from_right[k]) / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Link, Node};
    use super::*;

    fn drawing(n: usize, links: &[(usize, usize)]) -> Drawing {
        let node = |_| Node {
            name: String::new(),
            class: String::new(),
            workers: vec![0],
            queue: false,
            inputs: 1,
            outputs: 1,
        };
        let link = |&(from, to): &(usize, usize)| Link {
            from: (from, 0),
            to: (to, 0),
            pull: false,
        };
        Drawing {
            nodes: (0..n).map(node).collect(),
            links: links.iter().map(link).collect(),
            workers: 1,
        }
    }

    #[test]
    fn nothing_overlaps_and_connections_lead_down_except_back_ones() {
        let links = [
            (0, 1),
            (1, 2),
            (0, 2),
            (2, 3),
            (3, 1),
            (1, 4),
            (4, 4),
            (5, 3),
            (0, 6),
        ];
        let drawing = drawing(7, &links);
        let layout = layout(&drawing, &[80.0; 7]);
        let places = &layout.places;
        for (i, a) in places.iter().enumerate() {
            for b in &places[i + 1..] {
                let apart = (a.x - b.x).abs() >= (a.width + b.width) / 2.0 || a.y != b.y;
                assert!(apart, "{a:?} {b:?}");
            }
            assert!(a.x - a.width / 2.0 >= 0.0 && a.x + a.width / 2.0 <= layout.width);
        }
        for (from, to) in links.into_iter().filter(|l| *l != (3, 1) && l.0 != l.1) {
            assert!(places[from].y < places[to].y, "{from} -> {to}");
        }
    }

    #[test]
    fn an_empty_drawing_has_a_size() {
        let layout = layout(&drawing(0, &[]), &[]);
        assert!(layout.width.is_finite() && layout.height > 0.0);
    }
}
