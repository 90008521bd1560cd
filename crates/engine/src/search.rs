//! Searches along connections for the elements whose notifiers count, and for queues.

use crate::class::Class;
use crate::notify::{Notifies, PullWires, Signal};
use crate::plan::{Edge, Plan};
use crate::ports::Flow;

/// A direction of search.
pub struct Way {
    pull: bool,
    near: fn(&Edge) -> (usize, usize),
    far: fn(&Edge) -> usize,
    notifies: fn(&Class) -> bool,
    /// Ports by which the search goes on, as "is pull".
    ports: fn(&Plan, usize) -> &[bool],
}

/// Up pull connections, for packets.
pub const UP: Way = Way {
    pull: true,
    near: |e| e.to,
    far: |e| e.from.0,
    notifies: |c| Notifies::of(c).packets,
    ports: |plan, i| &plan.elements[i].inputs,
};

/// Down push connections, for room.
pub const DOWN: Way = Way {
    pull: false,
    near: |e| e.from,
    far: |e| e.to.0,
    notifies: |c| Notifies::of(c).room,
    ports: |plan, i| &plan.elements[i].outputs,
};

/// The queues nearest to an element: up its pull inputs if it has some, else down its push outputs.
pub(crate) fn nearest_queues(plan: &Plan, element: usize) -> Vec<usize> {
    let queue =
        |c: &Class| c.ports.input_flow(0) == Flow::Push && c.ports.output_flow(0) == Flow::Pull;
    let pulls = plan.elements[element].input_pull();
    let way = Way {
        notifies: queue,
        ..if pulls { UP } else { DOWN }
    };
    let ports = 0..(way.ports)(plan, element).len();
    let found = ports.flat_map(|p| search(plan, &way, element, p).notifiers);
    let mut queues: Vec<usize> = found.collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

/// Which notifiers say whether packets wait behind a pull input, or whether there is room behind a push output. A port that
/// pulls or pushes at its own will is busy.
pub fn search(plan: &Plan, way: &Way, element: usize, port: usize) -> Signal {
    let mut signal = Signal::default();
    if (way.ports)(plan, element)[port] != way.pull {
        signal.busy = true;
        return signal;
    }
    let mut to_do = vec![(element, port)];
    let mut next = 0;
    while let Some(&at) = to_do.get(next) {
        next += 1;
        let edges = plan.edges.iter().filter(|e| e.pull == way.pull);
        let mut edges = edges.filter(|e| (way.near)(e) == at).peekable();
        // An output that leads nowhere takes everything; an input gets nothing from there.
        signal.busy |= !way.pull && edges.peek().is_none();
        for edge in edges {
            let far = (way.far)(edge);
            let there = &plan.elements[far];
            if (way.notifies)(there.class) {
                // A queue that other workers fill or empty cannot tell us in time.
                signal.busy |= !there.pushers.iter().all(|w| there.pullers.contains(w));
                signal.add(far);
                continue;
            }
            let wires = there.class.extension::<PullWires>().filter(|_| way.pull);
            let mut wires = wires.into_iter().flat_map(|wires| wires.0);
            let wire = wires.find(|wire| wire.0 == edge.from.1);
            let ports = (way.ports)(plan, far).iter().enumerate();
            let on: Vec<usize> = ports
                .filter(|(p, pull)| **pull == way.pull && wire.is_none_or(|wire| wire.1 == *p))
                .map(|(p, _)| p)
                .collect();
            signal.busy |= on.is_empty();
            for place in on.into_iter().map(|p| (far, p)) {
                if !to_do.contains(&place) {
                    to_do.push(place);
                }
            }
        }
    }
    signal
}
