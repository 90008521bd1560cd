//! Layers of items: finds back edges, and each item's distance from a source.

use super::{Border, End, Item};

pub(super) struct Ranked {
    /// Position of each item in a topological order of the connections that are not reversed.
    pub(super) ranks: Vec<usize>,
    /// True for each back edge, including loops at one item.
    pub(super) reversed: Vec<bool>,
    pub(super) layers: Vec<usize>,
}

pub(super) fn rank(items: &[Item], connections: &[(End, End)]) -> Ranked {
    let pairs: Vec<(usize, usize)> = connections.iter().map(|(a, b)| (a.0, b.0)).collect();
    let onwards = pairs.iter().filter(|(_, to)| !items[*to].begins);
    let ranks = ranks(items.len(), onwards);
    let turned: Vec<bool> = pairs.iter().map(|&(a, b)| ranks[a] >= ranks[b]).collect();
    let forward: Vec<(usize, usize)> = pairs
        .iter()
        .zip(&turned)
        .map(|(&(a, b), &turned)| if turned { (b, a) } else { (a, b) })
        .filter(|(a, b)| a != b)
        .collect();
    let layers = layers(items, &forward, &ranks);
    Ranked {
        ranks,
        reversed: turned,
        layers,
    }
}

/// Ranks by a depth-first search from the sources: a connection to an item that is being visited closes a cycle.
fn ranks<'a>(n: usize, pairs: impl Iterator<Item = &'a (usize, usize)>) -> Vec<usize> {
    let mut next = vec![Vec::new(); n];
    let mut has_input = vec![false; n];
    for &(from, to) in pairs {
        next[from].push(to);
        has_input[to] = true;
    }
    let (mut ranks, mut finished) = (vec![0; n], n);
    let mut seen = vec![false; n];
    // An item that is visited later has a lower rank, so the last source is first here.
    let (sources, others): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| !has_input[i]);
    for start in sources.into_iter().rev().chain(others) {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut walk = vec![(start, 0)];
        while let Some((item, at)) = walk.last_mut() {
            match next[*item].get(*at) {
                Some(&to) => {
                    *at += 1;
                    if !std::mem::replace(&mut seen[to], true) {
                        walk.push((to, 0));
                    }
                }
                None => {
                    finished -= 1;
                    ranks[*item] = finished;
                    walk.pop();
                }
            }
        }
    }
    ranks
}

/// Layers by the longest way from a source. Then items with more connections on one side move towards that side.
fn layers(items: &[Item], forward: &[(usize, usize)], ranks: &[usize]) -> Vec<usize> {
    let n = items.len();
    let (mut above, mut below) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for &(a, b) in forward {
        above[b].push(a);
        below[a].push(b);
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&item| ranks[item]);
    let is_at = |item: usize, border: Border| items[item].border == Some(border);
    let first = usize::from((0..n).any(|item| is_at(item, Border::Top)));
    let mut layers = vec![0; n];
    for &item in &order {
        let least = if is_at(item, Border::Top) { 0 } else { first };
        layers[item] = above[item]
            .iter()
            .map(|&other| layers[other] + 1)
            .fold(least, usize::max);
    }
    let inner = (0..n).filter(|&item| !is_at(item, Border::Bottom));
    let last = inner.map(|item| layers[item] + 1).fold(first, usize::max);
    for item in (0..n).filter(|&item| is_at(item, Border::Bottom)) {
        layers[item] = layers[item].max(last);
    }
    let deepest = layers.iter().copied().max().unwrap_or(0);
    for round in 0..4 {
        if round % 2 == 0 {
            order.reverse();
        }
        for &item in order.iter().filter(|&&item| items[item].border.is_none()) {
            let highest = above[item].iter().map(|&a| layers[a] + 1).max();
            let lowest = below[item].iter().map(|&b| layers[b] - 1).min();
            if below[item].len() > above[item].len() {
                layers[item] = lowest.unwrap_or(deepest);
            } else if above[item].len() > below[item].len() {
                layers[item] = highest.unwrap_or(first);
            }
        }
    }
    // All gates at the lower border are in one layer.
    for item in (0..n).filter(|&item| is_at(item, Border::Bottom)) {
        layers[item] = deepest;
    }
    layers
}
