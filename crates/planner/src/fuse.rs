//! Pass for fused loops: finds sequences of elements that are connected as a fused loop requires.
//!
//! A fused loop begins wherever its classes are connected in sequence, push output to input 0, by exactly one path: if
//! two outputs lead to the next class, neither is the main path. If outputs have names of their own, a loop continues
//! by output 0. Elements that only count ([`Counts`](crate::fused::Counts)) may stand between. Of several loops that
//! begin at an element, the longest is used. Loops may overlap; the loop that runs depends on the element at which a
//! packet arrives.

use engine::element::Verdict;
use engine::fused::{CountsOfClass, FusedLoop};
use engine::plan::{Edge, PlacedLoop, PlanEdges, PlanElement};

/// Maximum number of counting elements in a loop. Longer chains are not searched, because every loop before a chain
/// would walk the chain again.
const COUNTERS_MAX: usize = 16;

/// An element on the path of a loop.
#[derive(Clone, Copy)]
struct Step {
    node: usize,
    /// Output that leads to the next element of the path.
    output: usize,
    counts: bool,
}

/// Finds the fused loop that begins at each element, if there is one.
pub(super) fn find(
    loops: &'static [FusedLoop],
    elements: &[PlanElement],
    edges: &PlanEdges,
    rank: &[usize],
) -> Vec<PlacedLoop> {
    let mut outputs: Vec<Vec<&Edge>> = vec![Vec::new(); elements.len()];
    for edge in edges.iter().filter(|e| forward(e, elements, rank)) {
        outputs[edge.from.0].push(edge);
    }
    let kinds: Vec<_> = loops.iter().map(|c| (c, (c.kinds)())).collect();
    let begins = |node: usize| {
        let fit = kinds.iter().filter_map(|(code, kinds)| {
            // An element within a loop cannot segment super-frames at its input.
            let is = |step: Step, at: usize| {
                let element = &elements[step.node];
                (element.class.kind)() == kinds[at] && !element.cuts()
            };
            let counts = |node: usize| {
                let counts: Option<&CountsOfClass> = elements[node].class.extension();
                counts.is_some() && !elements[node].cuts()
            };
            let mut paths = Vec::new();
            let first = Step {
                node,
                output: 0,
                counts: false,
            };
            let mut path = vec![first];
            extend_path(&mut path, kinds.len(), &is, &counts, &outputs, &mut paths);
            let [path] = <[Vec<Step>; 1]>::try_from(paths).ok()?;
            let mut placed = PlacedLoop {
                code,
                nodes: Vec::new(),
                on: Vec::new(),
                counters: Vec::new(),
            };
            for step in path {
                if step.counts {
                    let behind = placed.nodes.len() - 1;
                    placed.counters.push((behind, step.node));
                } else {
                    placed.nodes.push(step.node);
                    placed.on.push(Verdict::out(step.output as u8));
                }
            }
            Some(placed)
        });
        // Among loops of equal length, take the first one listed.
        fit.reduce(|best, other| match other.nodes.len() > best.nodes.len() {
            true => other,
            false => best,
        })
    };
    (0..elements.len()).filter_map(begins).collect()
}

/// True if packets may be passed along an edge immediately, within the loop.
fn forward(edge: &Edge, elements: &[PlanElement], rank: &[usize]) -> bool {
    let workers = |node: usize| &elements[node].workers;
    !edge.pull
        && edge.to.1 == 0
        && edge.from.1 < usize::from(u8::MAX)
        && (edge.from.1 == 0 || elements[edge.from.0].class.ports.any_outputs())
        && rank[edge.from.0] < rank[edge.to.0]
        && workers(edge.from.0) == workers(edge.to.0)
}

/// Extends the path `way` along edges, and collects paths of `len` elements; elements that only count are not
/// included in `len`.
fn extend_path(
    way: &mut Vec<Step>,
    len: usize,
    is: &dyn Fn(Step, usize) -> bool,
    counts: &dyn Fn(usize) -> bool,
    outputs: &[Vec<&Edge>],
    ways: &mut Vec<Vec<Step>>,
) {
    let last = way.len() - 1;
    let places = way.iter().filter(|step| !step.counts).count();
    if ways.len() > 1 || way.len() > places + COUNTERS_MAX {
        return;
    }
    if !way[last].counts {
        if !is(way[last], places - 1) {
            return;
        }
        if places == len {
            return ways.push(way.clone());
        }
    }
    for edge in &outputs[way[last].node] {
        way[last].output = edge.from.1;
        way.push(Step {
            node: edge.to.0,
            output: 0,
            counts: counts(edge.to.0),
        });
        extend_path(way, len, is, counts, outputs, ways);
        way.pop();
    }
}
