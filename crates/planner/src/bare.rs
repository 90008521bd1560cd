//! Dead-annotation elimination: receive ports skip initialising annotations that no element reads.
//!
//! Initialising annotations touches the packet's second cache line. This pass computes, by backward data-flow analysis,
//! where annotations are live, and marks each receiving device at which they are dead. Packets that are captured or
//! traced get their annotations all the same. A class that initialises annotations itself ([`Annotates`]) hides later
//! readers from the devices before it, if its packets carry no annotations from elsewhere.

use super::to_do::ToDo;
use engine::element::{Annotates, Facts};
use engine::placement::Device;
use engine::plan::{Plan, PlanEdges};
use engine::port::PortDirectory;

/// Marks the devices whose packets are received with dead annotations, and the elements downstream of them.
pub(super) fn mark(plan: &mut Plan, ports: &dyn PortDirectory) {
    let (looked_at, handled) = (looked_at(plan, ports), handled(plan));
    let Plan {
        elements, edges, ..
    } = plan;
    for (element, (looked_at, handled)) in elements.iter_mut().zip(looked_at.iter().zip(handled)) {
        let receives = element.device().is_some_and(|device| device.receives);
        element.bare = receives && !looked_at;
        element.handled = handled;
    }
    until_still(elements.len(), edges, |from, to| {
        let more = elements[from].bare && !looked_at[to];
        (
            false,
            more && !std::mem::replace(&mut elements[to].bare, true),
        )
    });
    for edge in edges.iter() {
        let (from, output) = edge.from;
        if elements[from].bare && looked_at[edge.to.0] {
            elements[from].annotated.push(output);
        }
    }
}

/// For each element, true if annotations are live at its input.
fn looked_at(plan: &Plan, ports: &dyn PortDirectory) -> Vec<bool> {
    let elements = &plan.elements;
    let devices: Vec<_> = elements.iter().map(|element| element.device()).collect();
    let kept = |device: &Device| ports.keeps_annotations(&device.name);
    let looks = elements.iter().zip(&devices).map(|(element, device)| {
        let sends = device.as_ref().filter(|device| !device.receives);
        element.class.reads_annotations || element.super_frames || sends.is_some_and(kept)
    });
    let mut looked_at: Vec<bool> = looks.collect();
    let notes = devices.iter().map(|device| {
        let receives = device.as_ref().filter(|device| device.receives);
        receives.is_some_and(|device| device.notes || kept(device))
    });
    // True for elements whose packets may already carry annotations that an earlier element has set.
    let mut noted: Vec<bool> = notes.collect();
    let annotates = |element: usize| elements[element].class.extension::<Annotates>().is_some();
    until_still(elements.len(), &plan.edges, |from, to| {
        let looks = looked_at[to] && !annotates(from);
        let before = looks && !std::mem::replace(&mut looked_at[from], true);
        let notes = noted[from] || looked_at[from];
        let behind = notes && !std::mem::replace(&mut noted[to], true);
        let looks = annotates(to) && noted[to];
        let looks = looks && !std::mem::replace(&mut looked_at[to], true);
        (before, behind | looks)
    });
    looked_at
}

/// For each element, true if a class downstream changes facts about packets.
fn handled(plan: &Plan) -> Vec<bool> {
    let changes = |element: usize| {
        let class = plan.elements[element].class;
        let gives = class.gives.iter().any(|facts| *facts != Facts::NONE);
        gives || class.spoils != Facts::NONE
    };
    let mut handled = vec![false; plan.elements.len()];
    until_still(plan.elements.len(), &plan.edges, |from, to| {
        let more = handled[to] || changes(to);
        (more && !std::mem::replace(&mut handled[from], true), false)
    });
    handled
}

/// Fixed-point iteration: calls `step` for all edges, and again for the edges of each changed element. `step` returns
/// two flags: true if it changed the element before the edge, and true if it changed the one after it.
fn until_still(
    elements: usize,
    edges: &PlanEdges,
    mut step: impl FnMut(usize, usize) -> (bool, bool),
) {
    let mut to_do = ToDo::new(0..elements, elements);
    while let Some(element) = to_do.next() {
        for edge in edges.from(element).chain(edges.to(element)) {
            let (from, to) = (edge.from.0, edge.to.0);
            let (before, behind) = step(from, to);
            if before {
                to_do.add(from);
            }
            if behind {
                to_do.add(to);
            }
        }
    }
}
