//! Listeners of notifiers: elements to wake when packets wait in an element, or when it has room.

use engine::plan::Plan;
use engine::search::{DOWNSTREAM, UPSTREAM, signals};

/// Computes the signal of every port, and the listeners of each notifier. All elements must already be placed on
/// workers.
pub(super) fn connect(plan: &mut Plan) {
    let (up, down) = (signals(plan, &UPSTREAM), signals(plan, &DOWNSTREAM));
    for (i, (signals, rooms)) in up.into_iter().zip(down).enumerate() {
        for &n in signals.iter().flat_map(|signal| &signal.notifiers) {
            add(&mut plan.elements[n].listeners, i);
        }
        for &n in rooms.iter().flat_map(|signal| &signal.notifiers) {
            add(&mut plan.elements[n].fillers, i);
        }
        plan.elements[i].signals = signals;
        plan.elements[i].room_signals = rooms;
    }
}

/// Adds an element unless it is the last one already; equal elements are added in succession.
fn add(to: &mut Vec<usize>, element: usize) {
    if to.last() != Some(&element) {
        to.push(element);
    }
}
