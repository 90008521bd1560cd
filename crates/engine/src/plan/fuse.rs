//! The optimiser's pass over a plan: finds where elements follow each other as a chain has them.
//!
//! A chain begins wherever its classes are connected in a row, push output to input 0, with but one
//! such row: of two outputs that both lead on, neither is the main way. Where outputs have names of their own a row
//! goes on by output 0. Of the chains that begin at an
//! element the longest counts. Rows may overlap; which one a packet takes depends on where it comes in.

use super::{Edge, PlanElement};
use crate::chain::Chain;
use crate::element::Verdict;

/// A chain at its place in a plan.
#[derive(Clone)]
pub struct Fused {
    pub(crate) chain: &'static Chain,
    /// Its elements, in order.
    pub nodes: Vec<usize>,
    /// The verdict with which a packet goes on, for each element.
    pub(crate) on: Vec<Verdict>,
}

/// Finds the chain that begins at each element, if there is one.
pub(super) fn find(
    chains: &'static [Chain],
    elements: &[PlanElement],
    edges: &[Edge],
    rank: &[usize],
) -> Vec<Fused> {
    let mut outputs: Vec<Vec<&Edge>> = vec![Vec::new(); elements.len()];
    for edge in edges.iter().filter(|e| forward(e, elements, rank)) {
        outputs[edge.from.0].push(edge);
    }
    let kinds: Vec<_> = chains.iter().map(|c| (c, (c.kinds)())).collect();
    let begins = |node: usize| {
        let fit = kinds.iter().filter_map(|(chain, kinds)| {
            let is = |node: usize, at: usize| (elements[node].class.kind)() == kinds[at];
            let mut rows = Vec::new();
            spread(&mut vec![(node, 0)], kinds.len(), &is, &outputs, &mut rows);
            let [row] = <[Vec<(usize, usize)>; 1]>::try_from(rows).ok()?;
            Some(Fused {
                chain,
                nodes: row.iter().map(|place| place.0).collect(),
                on: row
                    .iter()
                    .map(|place| Verdict::out(place.1 as u8))
                    .collect(),
            })
        });
        // Of several that are equally long the first one listed.
        fit.reduce(|best, other| match other.nodes.len() > best.nodes.len() {
            true => other,
            false => best,
        })
    };
    (0..elements.len()).filter_map(begins).collect()
}

/// Whether packets may be carried along an edge at once.
fn forward(edge: &Edge, elements: &[PlanElement], rank: &[usize]) -> bool {
    let workers = |node: usize| &elements[node].workers;
    !edge.pull
        && edge.to.1 == 0
        && edge.from.1 < usize::from(u8::MAX)
        && (edge.from.1 == 0 || elements[edge.from.0].class.ports.any_outputs())
        && rank[edge.from.0] < rank[edge.to.0]
        && workers(edge.from.0) == workers(edge.to.0)
}

/// Follows edges from the end of `row`, elements with their outputs, and collects the rows that are `len`
/// elements long.
fn spread(
    row: &mut Vec<(usize, usize)>,
    len: usize,
    is: &dyn Fn(usize, usize) -> bool,
    outputs: &[Vec<&Edge>],
    rows: &mut Vec<Vec<(usize, usize)>>,
) {
    let at = row.len() - 1;
    let node = row[at].0;
    if !is(node, at) {
        return;
    }
    if row.len() == len {
        return rows.push(row.clone());
    }
    for edge in &outputs[node] {
        row[at].1 = edge.from.1;
        row.push((edge.to.0, 0));
        spread(row, len, is, outputs, rows);
        row.pop();
    }
}
