//! The optimiser's pass for annotations: finds devices behind which nothing looks at any.
//!
//! What a port notes on each packet costs a cache line that otherwise nobody may touch. Packets that are
//! captured or traced get their annotations all the same. A class that gives packets annotations itself
//! ([`Annotates`]) hides who looks behind it from the devices before it,
//! if all that comes to it is as it came from a device that notes nothing of its own.

use engine::element::{Annotates, Facts};
use engine::placement::Device;
use engine::plan::{Edge, Plan};
use engine::port::PortDirectory;

/// Marks sources whose packets meet no element that may look at annotations, and what is behind them.
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
    until_still(edges, |from, to| {
        let more = elements[from].bare && !looked_at[to];
        more && !std::mem::replace(&mut elements[to].bare, true)
    });
    for edge in &*edges {
        let (from, output) = edge.from;
        if elements[from].bare && looked_at[edge.to.0] {
            elements[from].annotated.push(output);
        }
    }
}

/// For each element, whether packets that come to it need annotations.
fn looked_at(plan: &Plan, ports: &dyn PortDirectory) -> Vec<bool> {
    let elements = &plan.elements;
    let devices: Vec<_> = elements.iter().map(|element| element.device()).collect();
    let kept = |device: &Device| ports.keeps_annotations(&device.name);
    let looks = elements.iter().zip(&devices).map(|(element, device)| {
        let sends = device.as_ref().filter(|device| !device.receives);
        element.class.reads_annotations || sends.is_some_and(kept)
    });
    let mut looked_at: Vec<bool> = looks.collect();
    let notes = devices.iter().map(|device| {
        let receives = device.as_ref().filter(|device| device.receives);
        receives.is_some_and(|device| device.notes || kept(device))
    });
    // Whose packets may have annotations that somebody before has noted.
    let mut noted: Vec<bool> = notes.collect();
    let annotates = |element: usize| elements[element].class.extension::<Annotates>().is_some();
    until_still(&plan.edges, |from, to| {
        let looks = looked_at[to] && !annotates(from);
        let mut changed = looks && !std::mem::replace(&mut looked_at[from], true);
        let notes = noted[from] || looked_at[from];
        changed |= notes && !std::mem::replace(&mut noted[to], true);
        let looks = annotates(to) && noted[to];
        changed | (looks && !std::mem::replace(&mut looked_at[to], true))
    });
    looked_at
}

/// For each element, whether a class behind it changes what is known of packets.
fn handled(plan: &Plan) -> Vec<bool> {
    let changes = |element: usize| {
        let class = plan.elements[element].class;
        let gives = class.gives.iter().any(|facts| *facts != Facts::NONE);
        gives || class.spoils != Facts::NONE
    };
    let mut handled = vec![false; plan.elements.len()];
    until_still(&plan.edges, |from, to| {
        let more = handled[to] || changes(to);
        more && !std::mem::replace(&mut handled[from], true)
    });
    handled
}

/// Goes along all edges, from element to element, until `step` changes nothing any more.
fn until_still(edges: &[Edge], mut step: impl FnMut(usize, usize) -> bool) {
    let mut once = || {
        let each = edges.iter().map(|edge| (edge.from.0, edge.to.0));
        each.fold(false, |changed, (from, to)| step(from, to) | changed)
    };
    while once() {}
}
