//! Traffic matrix: the rate from each input to each output.

use super::rng::SimRng;
use crate::address::NodeId;
use crate::map::Map;

/// A traffic matrix by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// Each input sends equally to every other output.
    Uniform,
    /// Each input sends all its traffic to one output, and no two inputs to the same one.
    Permutation,
    /// Each other input sends a quarter of its traffic to one common output, and spreads the rest evenly. With more
    /// than five ports the common output is overloaded; with fewer than five, the other outputs are.
    HotSpot,
    /// All inputs send all their traffic to one output.
    Incast,
    /// A weighted mean of random permutations (Birkhoff): no output gets more than its rate, and no input sends more.
    Random,
    /// The worst case for a link: each input sends its quota, R/N, to its neighbour, and the rest of its traffic to
    /// the node after that. So quota, phase 1 and phase 2 meet on the link to the neighbour.
    Adverse,
}

impl Matrix {
    /// All matrices, with their names.
    pub const ALL: [(Matrix, &'static str); 6] = [
        (Matrix::Uniform, "uniform"),
        (Matrix::Permutation, "permutation"),
        (Matrix::HotSpot, "hotspot"),
        (Matrix::Incast, "incast"),
        (Matrix::Random, "random"),
        (Matrix::Adverse, "adverse"),
    ];

    /// Name of the matrix.
    pub fn name(self) -> &'static str {
        let named = Matrix::ALL.iter().find(|(matrix, _)| *matrix == self);
        named.map_or("", |(_, name)| name)
    }

    /// For each of `ports` inputs, its outputs with their shares of the input's rate. An input's shares add up to at
    /// most 1.
    pub fn rows(self, ports: usize, chance: &mut SimRng) -> Vec<Vec<(usize, f64)>> {
        let others = |from: usize| (0..ports).filter(move |&to| to != from);
        let each = |row: &dyn Fn(usize) -> Vec<(usize, f64)>| (0..ports).map(row).collect();
        let part = 1.0 / (ports.max(2) - 1) as f64;
        match self {
            _ if ports < 2 => vec![Vec::new(); ports],
            Matrix::Uniform => each(&|from| others(from).map(|to| (to, part)).collect()),
            Matrix::Permutation => {
                let to = derangement(ports, chance);
                each(&|from| vec![(to[from], 1.0)])
            }
            Matrix::Incast => each(&|from| match from {
                0 => Vec::new(),
                _ => vec![(0, 1.0)],
            }),
            Matrix::HotSpot => each(&|from| {
                let rest = others(from).filter(|&to| to != 0);
                let count = rest.clone().count().max(1) as f64;
                let hot = if from == 0 { 0.0 } else { 0.25 };
                let rest = rest.map(|to| (to, (1.0 - hot) / count));
                rest.chain((hot > 0.0).then_some((0, hot))).collect()
            }),
            Matrix::Random => mean_of_derangements(ports, chance),
            Matrix::Adverse => {
                let quota = 1.0 / ports as f64;
                each(&|from| match ports {
                    2 => vec![(1 - from, 1.0)],
                    _ => vec![
                        ((from + 1) % ports, quota),
                        ((from + 2) % ports, 1.0 - quota),
                    ],
                })
            }
        }
    }
}

/// A random cyclic permutation (Sattolo's algorithm): no element keeps its place.
fn derangement(n: usize, chance: &mut SimRng) -> Vec<usize> {
    let mut to: Vec<usize> = (0..n).collect();
    for at in (1..n).rev() {
        to.swap(at, chance.below(at as u64) as usize);
    }
    to
}

fn mean_of_derangements(n: usize, chance: &mut SimRng) -> Vec<Vec<(usize, f64)>> {
    let count = n.min(6);
    let weights: Vec<f64> = (0..count).map(|_| 0.05 + chance.unit()).collect();
    let sum: f64 = weights.iter().sum();
    let mut rows = vec![Vec::new(); n];
    for weight in weights {
        let to = derangement(n, chance);
        for (row, to) in rows.iter_mut().zip(to) {
            let row: &mut Vec<(usize, f64)> = row;
            match row.iter_mut().find(|(known, _)| *known == to) {
                Some((_, part)) => *part += weight / sum,
                None => row.push((to, weight / sum)),
            }
        }
    }
    rows
}

/// Nodes with external ports, in order; they are the rows and columns of a matrix.
pub(super) fn ports(map: &Map) -> Vec<NodeId> {
    let nodes = map.nodes.iter().enumerate();
    nodes
        .filter(|(_, node)| node.rate > 0.0)
        .map(|(number, _)| number as NodeId)
        .collect()
}

#[cfg(test)]
impl Matrix {
    /// True if no output gets more than its rate.
    pub(super) fn is_admissible(self) -> bool {
        !matches!(self, Matrix::HotSpot | Matrix::Incast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_input_sends_more_than_its_rate_and_admissible_outputs_get_no_more() {
        for (matrix, name) in Matrix::ALL {
            for n in [2, 3, 4, 7, 64] {
                let rows = matrix.rows(n, &mut SimRng::new(3));
                let mut to = vec![0.0; n];
                for (from, row) in rows.iter().enumerate() {
                    assert!(row.iter().map(|(_, part)| part).sum::<f64>() < 1.000_001);
                    for &(output, part) in row {
                        assert!(output != from && part > 0.0, "{name} {n}");
                        to[output] += part;
                    }
                }
                let most = to.into_iter().fold(0.0, f64::max);
                assert!(
                    !matrix.is_admissible() || most < 1.000_001,
                    "{name} {n}: {most}"
                );
                assert!(
                    matrix != Matrix::Incast || n < 3 || most > 1.5,
                    "{name} {n}"
                );
            }
        }
    }
}
