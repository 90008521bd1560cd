//! Graph searches for the notifiers that determine a port's signal, and for queues.

use crate::class::Class;
use crate::notify::{Notifies, PullWires, Signal};
use crate::plan::{Edge, Plan, PlanEdges};
use crate::ports::Flow;
use std::collections::HashSet;

type EachEdge<'e> = &'e mut dyn FnMut(&Edge);

/// A direction of search.
pub struct Direction {
    pull: bool,
    /// Edges at a port, each with its other end.
    at: fn(&PlanEdges, (usize, usize), EachEdge<'_>),
    far: fn(&Edge) -> usize,
    notifies: fn(&Class) -> bool,
    /// For each port of an element, true if it is a pull port.
    ports: fn(&Plan, usize) -> &[bool],
}

/// Upstream along pull connections, for packets.
pub const UPSTREAM: Direction = Direction {
    pull: true,
    at: |edges, input, each| edges.to_port(input).for_each(each),
    far: |e| e.from.0,
    notifies: |c| Notifies::of(c).packets,
    ports: |plan, i| &plan.elements[i].inputs,
};

/// Downstream along push connections, for room.
pub const DOWNSTREAM: Direction = Direction {
    pull: false,
    at: |edges, output, each| edges.from_port(output).for_each(each),
    far: |e| e.to.0,
    notifies: |c| Notifies::of(c).room,
    ports: |plan, i| &plan.elements[i].outputs,
};

/// Budget of notifiers and steps for all searches of a plan. A graph in which every port has thousands of notifiers
/// would need more memory than packets do; signals beyond the budget are always active.
const STEPS_MAX: usize = 4 << 20;

/// The queues nearest to an element: upstream of its pull inputs if it has some, else downstream of its push outputs.
pub(crate) fn nearest_queues(plan: &Plan, element: usize) -> Vec<usize> {
    let queue =
        |c: &Class| c.ports.input_flow(0) == Flow::Push && c.ports.output_flow(0) == Flow::Pull;
    let pulls = plan.elements[element].input_pull();
    let direction = Direction {
        notifies: queue,
        ..if pulls { UPSTREAM } else { DOWNSTREAM }
    };
    let ports = 0..(direction.ports)(plan, element).len();
    let found = ports.flat_map(|p| search(plan, &direction, element, p).notifiers);
    let mut queues: Vec<usize> = found.collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

/// For each port of each element, the set of notifiers for packets upstream of a pull input, or for room downstream of
/// a push output. A port whose neighbour pulls or pushes without notifying has a signal that is always active.
pub fn signals(plan: &Plan, direction: &Direction) -> Vec<Vec<Signal>> {
    let ports = |i: usize| (direction.ports)(plan, i).len();
    let mut found: Vec<Vec<Option<Signal>>> = (0..plan.elements.len())
        .map(|i| vec![None; ports(i)])
        .collect();
    let mut steps = 0;
    for element in 0..plan.elements.len() {
        for port in 0..ports(element) {
            // All ports along a chain have the same signal, which is computed once.
            let (mut chain, mut visited) = (Vec::new(), HashSet::new());
            let mut at = (element, port);
            let signal = loop {
                if let Some(known) = &found[at.0][at.1] {
                    break known.clone();
                }
                if !visited.insert(at) {
                    break Signal::default();
                }
                chain.push(at);
                match neighbours(plan, direction, at) {
                    Neighbours { own, on } if own == Signal::default() && on.len() == 1 => {
                        at = on[0]
                    }
                    neighbours => break search_from(plan, direction, neighbours, &mut steps),
                }
            };
            for (element, port) in chain {
                steps += 1 + signal.notifiers.len();
                let signal = match steps > STEPS_MAX {
                    true => busy(),
                    false => signal.clone(),
                };
                found[element][port] = Some(signal);
            }
        }
    }
    let all = |ports: Vec<Option<Signal>>| ports.into_iter().flatten().collect();
    found.into_iter().map(all).collect()
}

/// Like [`signals`], for one port.
fn search(plan: &Plan, direction: &Direction, element: usize, port: usize) -> Signal {
    search_from(
        plan,
        direction,
        neighbours(plan, direction, (element, port)),
        &mut 0,
    )
}

fn busy() -> Signal {
    Signal {
        busy: true,
        notifiers: Vec::new(),
    }
}

/// Direct neighbours of a port: notifiers, and ports at which the search continues.
struct Neighbours {
    own: Signal,
    on: Vec<(usize, usize)>,
}

fn neighbours(plan: &Plan, direction: &Direction, at: (usize, usize)) -> Neighbours {
    let (mut own, mut on) = (Signal::default(), Vec::new());
    if (direction.ports)(plan, at.0)[at.1] != direction.pull {
        return Neighbours { own: busy(), on };
    }
    let mut any = false;
    (direction.at)(&plan.edges, at, &mut |edge| {
        if edge.pull != direction.pull {
            return;
        }
        any = true;
        let far = (direction.far)(edge);
        let there = &plan.elements[far];
        if (direction.notifies)(there.class) {
            // A queue that other workers fill or empty cannot notify in time.
            own.busy |= !there.pushers.iter().all(|w| there.pullers.contains(w));
            own.notifiers.push(far);
            return;
        }
        let wires = there
            .class
            .extension::<PullWires>()
            .filter(|_| direction.pull);
        let mut wires = wires.into_iter().flat_map(|wires| wires.0);
        let wire = wires.find(|wire| wire.0 == edge.from.1);
        let ports = (direction.ports)(plan, far).iter().enumerate();
        let ports =
            ports.filter(|(p, pull)| **pull == direction.pull && wire.is_none_or(|w| w.1 == *p));
        let before = on.len();
        on.extend(ports.map(|(p, _)| (far, p)));
        own.busy |= on.len() == before;
    });
    // An unconnected output accepts all packets; an unconnected input gets none.
    own.busy |= !direction.pull && !any;
    Neighbours { own, on }
}

/// Continues the search from the direct neighbours of a port.
fn search_from(plan: &Plan, direction: &Direction, first: Neighbours, steps: &mut usize) -> Signal {
    let Neighbours {
        own: mut signal,
        on: mut to_do,
    } = first;
    let mut known = HashSet::new();
    signal.notifiers.retain(|&n| known.insert(n));
    let mut seen: HashSet<(usize, usize)> = to_do.iter().copied().collect();
    while let Some(at) = to_do.pop() {
        let more = neighbours(plan, direction, at);
        *steps += 1 + more.on.len() + more.own.notifiers.len();
        if *steps > STEPS_MAX {
            return busy();
        }
        signal.busy |= more.own.busy;
        let new = more.own.notifiers.into_iter();
        signal.notifiers.extend(new.filter(|&n| known.insert(n)));
        let new = more.on.into_iter();
        to_do.extend(new.filter(|&at| seen.insert(at)));
    }
    signal
}
