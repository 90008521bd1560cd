//! Proves that elements' needs are met: headers checked, annotations set.

use super::title;
use super::to_do::ToDo;
use engine::element::{Class, Facts, Silent};
use engine::plan::PlanEdges;
use lang::{Diagnostic, Router};

/// Forward data-flow analysis: removes facts that do not hold on all paths until nothing changes, then compares the
/// rest with the required facts.
pub(super) fn prove(
    router: &Router,
    classes: &[&'static Class],
    edges: &PlanEdges,
    order: &[usize],
    errors: &mut Vec<Diagnostic>,
) {
    // Facts that hold at the input of an element; ALL until a path to it is known.
    let is_fed = |element| edges.to(element).next().is_some();
    let facts = |element| {
        if is_fed(element) {
            Facts::ALL
        } else {
            Facts::NONE
        }
    };
    let mut before: Vec<Facts> = (0..classes.len()).map(facts).collect();
    let after = |before: &[Facts], (element, port): (usize, usize)| {
        let class = classes[element];
        before[element]
            .without(class.spoils)
            .and(class.gives_at(port))
    };
    let mut to_do = ToDo::new(order.iter().copied(), classes.len());
    while let Some(element) = to_do.next() {
        for edge in edges.from(element) {
            let to = edge.to.0;
            let known = before[to].common(after(&before, edge.from));
            if known != before[to] {
                before[to] = known;
                to_do.add(to);
            }
        }
    }
    let live = live(classes, edges);
    for edge in edges.iter().filter(|e| live[e.from.0]) {
        let needed = classes[edge.to.0].needs_at(edge.to.1);
        let known = after(&before, edge.from);
        for (what, remedy) in needed.missing(known) {
            let (from, to) = (&router.elements[edge.from.0], &router.elements[edge.to.0]);
            let message = format!(
                "`{}` needs {what}, but `{}` brings packets without one",
                title(to),
                title(from)
            );
            errors.push(
                Diagnostic::error("needs", message)
                    .at(edge.span)
                    .help(remedy),
            );
        }
    }
}

/// Elements that packets can reach: elements downstream of a silent one are not checked.
fn live(classes: &[&'static Class], edges: &PlanEdges) -> Vec<bool> {
    let starts = |element: &usize| {
        let class = classes[*element];
        class.extension::<Silent>().is_none()
            && !class.ports.outputs.is_empty()
            && class.ports.inputs.is_empty()
    };
    let mut live = vec![false; classes.len()];
    let mut to_do: Vec<usize> = (0..classes.len()).filter(starts).collect();
    while let Some(element) = to_do.pop() {
        if !std::mem::replace(&mut live[element], true) {
            to_do.extend(edges.from(element).map(|edge| edge.to.0));
        }
    }
    live
}
