//! Proves on the graph what elements need: headers checked, annotations set.

use super::title;
use engine::element::{Class, Facts, Silent};
use engine::plan::Edge;
use lang::{Diagnostic, Router};

/// Spreads facts from sources until nothing changes, then compares them with what is needed.
pub(super) fn prove(
    router: &Router,
    classes: &[&'static Class],
    edges: &[Edge],
    order: &[usize],
    errors: &mut Vec<Diagnostic>,
) {
    let mut into: Vec<Vec<&Edge>> = vec![Vec::new(); classes.len()];
    let mut fed = vec![false; classes.len()];
    for edge in edges {
        into[edge.to.0].push(edge);
        fed[edge.to.0] = true;
    }
    // Facts of an element's packets before it; ALL until a path is known.
    let mut before: Vec<Facts> = fed
        .iter()
        .map(|&fed| if fed { Facts::ALL } else { Facts::NONE })
        .collect();
    let after = |before: &[Facts], (element, port): (usize, usize)| {
        let class = classes[element];
        before[element].without(class.spoils).and(class.gives(port))
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &element in order {
            let known = into[element]
                .iter()
                .map(|e| after(&before, e.from))
                .reduce(Facts::common);
            if let Some(known) = known
                && known != before[element]
            {
                before[element] = known;
                changed = true;
            }
        }
    }
    let live = live(classes, edges);
    for edge in edges.iter().filter(|e| live[e.from.0]) {
        let needed = classes[edge.to.0].needs(edge.to.1);
        let known = after(&before, edge.from);
        for (what, remedy) in needed.without(known).words() {
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

/// Elements that packets can reach: nothing is asked of elements behind a silent one.
fn live(classes: &[&'static Class], edges: &[Edge]) -> Vec<bool> {
    let mut live: Vec<bool> = classes
        .iter()
        .map(|c| {
            c.extension::<Silent>().is_none()
                && !c.ports.outputs.is_empty()
                && c.ports.inputs.is_empty()
        })
        .collect();
    let mut changed = true;
    while changed {
        changed = false;
        for edge in edges {
            if live[edge.from.0] && !live[edge.to.0] {
                live[edge.to.0] = true;
                changed = true;
            }
        }
    }
    live
}
