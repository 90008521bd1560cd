//! Pass for super-frames: finds the connections that may carry them, and the ports that need not segment them.
//!
//! A port delivers super-frames if all elements on some path from it to another port process them
//! (`Contract::carries_super_frames`). On other paths they are segmented before the first element that does not.

use super::to_do::ToDo;
use engine::plan::{Plan, PlanElement};
use engine::port::PortDirectory;

/// Marks sources that may deliver super-frames, and all elements that super-frames may reach.
pub(super) fn mark(plan: &mut Plan, ports: &dyn PortDirectory) {
    let leads = leads(plan);
    let brings = |element: &PlanElement| {
        let device = element.device().filter(|device| device.receives);
        let info = device.and_then(|device| ports.probe(&device.name).ok());
        info.is_some_and(|info| info.super_frames)
    };
    let count = plan.elements.len();
    let sources = (0..count).filter(|&source| {
        let mut next = plan.edges.from(source).filter(|edge| !edge.pull);
        next.any(|edge| leads[edge.to.0]) && brings(&plan.elements[source])
    });
    let sources: Vec<usize> = sources.collect();
    for &source in &sources {
        plan.elements[source].super_frames = true;
    }
    let mut to_do = ToDo::new(sources.into_iter(), count);
    while let Some(from) = to_do.next() {
        for edge in plan.edges.from(from).filter(|edge| !edge.pull) {
            let to = &mut plan.elements[edge.to.0];
            if !std::mem::replace(&mut to.super_frames, true) && to.carries_super_frames() {
                to_do.add(edge.to.0);
            }
        }
    }
}

/// For each element, true if a super-frame can reach a port from it through elements that process super-frames.
fn leads(plan: &Plan) -> Vec<bool> {
    let elements = &plan.elements;
    let carries = |element: usize| elements[element].carries_super_frames();
    let sends = |&element: &usize| {
        let device = elements[element].device();
        carries(element) && device.is_some_and(|device| !device.receives)
    };
    let ends: Vec<usize> = (0..elements.len()).filter(sends).collect();
    let mut leads = vec![false; elements.len()];
    for &end in &ends {
        leads[end] = true;
    }
    let mut to_do = ToDo::new(ends.into_iter(), elements.len());
    while let Some(to) = to_do.next() {
        for edge in plan.edges.to(to).filter(|edge| !edge.pull) {
            let from = edge.from.0;
            if carries(from) && !std::mem::replace(&mut leads[from], true) {
                to_do.add(from);
            }
        }
    }
    leads
}
