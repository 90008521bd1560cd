//! Who listens to whom: which elements want to know when packets wait in an element, or when it has room.

use engine::plan::Plan;
use engine::search::{DOWN, UP, search};

/// Finds every port's signal, and who listens to which notifier. Needs the workers of all elements.
pub(super) fn connect(plan: &mut Plan) {
    for i in 0..plan.elements.len() {
        let (inputs, outputs) = (&plan.elements[i].inputs, &plan.elements[i].outputs);
        let signals = (0..inputs.len()).map(|p| search(plan, &UP, i, p)).collect();
        let rooms = (0..outputs.len())
            .map(|p| search(plan, &DOWN, i, p))
            .collect();
        plan.elements[i].signals = signals;
        plan.elements[i].rooms = rooms;
    }
    for i in 0..plan.elements.len() {
        for signal in plan.elements[i].signals.clone() {
            for n in signal.notifiers {
                add(&mut plan.elements[n].listeners, i);
            }
        }
        for signal in plan.elements[i].rooms.clone() {
            for n in signal.notifiers {
                add(&mut plan.elements[n].fillers, i);
            }
        }
    }
}

fn add(to: &mut Vec<usize>, element: usize) {
    if !to.contains(&element) {
        to.push(element);
    }
}
