//! The optimiser's pass over a plan: finds where elements follow each other as a chain has them.
//!
//! A chain begins wherever its classes are connected in a row, push output to input 0, with but one
//! such row: of two outputs that both lead on, neither is the main way. Where outputs have names of their own a row
//! goes on by output 0. Elements that only count ([`Element::COUNTS`](crate::element::Element::COUNTS)) may stand between them. Of
//! the chains that begin at an element the longest counts. Rows may overlap; which one a packet takes depends on where it comes in.

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
    /// Those between them that only count: the place in the row that each stands behind, and which it is. In order.
    pub counters: Vec<(usize, usize)>,
}

impl Fused {
    /// All that run together, in order.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        let places = self.nodes.iter().enumerate();
        places.flat_map(|(place, &node)| {
            let behind = self.counters.iter().filter(move |c| c.0 == place);
            std::iter::once(node).chain(behind.map(|counter| counter.1))
        })
    }
}

/// An element on the way along a row.
#[derive(Clone, Copy)]
struct Step {
    node: usize,
    /// By which it is left.
    output: usize,
    counts: bool,
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
            let is = |step: Step, at: usize| (elements[step.node].class.kind)() == kinds[at];
            let counts = |node: usize| elements[node].class.counts;
            let mut rows = Vec::new();
            let first = Step {
                node,
                output: 0,
                counts: false,
            };
            let mut row = vec![first];
            spread(&mut row, kinds.len(), &is, &counts, &outputs, &mut rows);
            let [row] = <[Vec<Step>; 1]>::try_from(rows).ok()?;
            let mut fused = Fused {
                chain,
                nodes: Vec::new(),
                on: Vec::new(),
                counters: Vec::new(),
            };
            for step in row {
                if step.counts {
                    fused.counters.push((fused.nodes.len() - 1, step.node));
                } else {
                    fused.nodes.push(step.node);
                    fused.on.push(Verdict::out(step.output as u8));
                }
            }
            Some(fused)
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

/// Follows edges from the end of `row` and collects the rows that have `len` elements, not counting those that only count.
fn spread(
    row: &mut Vec<Step>,
    len: usize,
    is: &dyn Fn(Step, usize) -> bool,
    counts: &dyn Fn(usize) -> bool,
    outputs: &[Vec<&Edge>],
    rows: &mut Vec<Vec<Step>>,
) {
    let last = row.len() - 1;
    let places = row.iter().filter(|step| !step.counts).count();
    if !row[last].counts {
        if !is(row[last], places - 1) {
            return;
        }
        if places == len {
            return rows.push(row.clone());
        }
    }
    for edge in &outputs[row[last].node] {
        row[last].output = edge.from.1;
        row.push(Step {
            node: edge.to.0,
            output: 0,
            counts: counts(edge.to.0),
        });
        spread(row, len, is, counts, outputs, rows);
        row.pop();
    }
}
