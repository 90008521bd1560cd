//! Notifiers: who may sleep because no packets wait, or because there is no room, and who wakes them.
//!
//! A *packets* notifier (`Element::NOTIFIES`) says whether packets may be pulled from an element; a
//! *room* notifier (`Element::NOTIFIES_ROOM`) whether it takes more. Each has one bit per worker, set and
//! cleared by its element. A pull input's [`Signal`] is the set of notifiers found by going up pull
//! connections, through elements that do not notify: it is active while one of them is. A push output's
//! signal is found by going down push connections. Where a path ends in an element that says nothing,
//! or whose queue another worker fills or empties, the signal is always active: then one must poll.
//!
//! A notifier that itself pulls (DelayShaper) hears those above it: when they become active, so does it.

use crate::class::Class;
use crate::element::Flow;
use crate::plan::{Edge, Plan};

/// When packets may wait behind a pull input, or room behind a push output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Always active: somebody there says nothing.
    pub busy: bool,
    /// Elements, one of which must be active.
    pub notifiers: Vec<usize>,
}

/// The bits of one worker's notifiers, by element.
pub(crate) struct Notes {
    pub(crate) packets: Vec<bool>,
    pub(crate) room: Vec<bool>,
}

impl Notes {
    pub(crate) fn new(elements: usize) -> Notes {
        Notes {
            packets: vec![false; elements],
            room: vec![true; elements],
        }
    }
}

impl Signal {
    /// Whether a signal with these bits is active; a port without one always is.
    #[inline]
    pub(crate) fn active(this: Option<&Signal>, bits: &[bool]) -> bool {
        this.is_none_or(|signal| signal.busy || signal.notifiers.iter().any(|&n| bits[n]))
    }

    fn add(&mut self, notifier: usize) {
        if !self.notifiers.contains(&notifier) {
            self.notifiers.push(notifier);
        }
    }
}

/// Finds every port's signal, and who listens to which notifier. Needs the workers of all elements.
pub(crate) fn connect(plan: &mut Plan) {
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

/// The notifiers of a class: an extension for [`Element::EXTENSIONS`](crate::element::Element::EXTENSIONS).
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifies {
    /// Whether its elements say when packets may be pulled from them, by [`Cx::wake_pullers`](crate::Cx::wake_pullers), and when
    /// not, by [`Cx::note_empty`](crate::Cx::note_empty). At the start there are none.
    pub packets: bool,
    /// Whether they say when they take no more packets, by [`Cx::note_full`](crate::Cx::note_full), and when they do again, by
    /// [`Cx::wake_pushers`](crate::Cx::wake_pushers). At the start they do.
    pub room: bool,
}

impl Notifies {
    /// Of packets only.
    pub const PACKETS: Notifies = Notifies {
        packets: true,
        room: false,
    };

    pub(crate) fn of(class: &Class) -> Notifies {
        class.extension().copied().unwrap_or_default()
    }
}

/// Pull outputs of a class that are nothing but a pull input, as pairs of output and input: who pulls the output pulls the
/// input, past the element. So a detour may lead from an element to itself. An extension.
pub struct PullWires(pub &'static [(usize, usize)]);

/// A direction of search.
struct Way {
    pull: bool,
    near: fn(&Edge) -> (usize, usize),
    far: fn(&Edge) -> usize,
    notifies: fn(&Class) -> bool,
    /// Ports by which the search goes on, as "is pull".
    ports: fn(&Plan, usize) -> &[bool],
}

const UP: Way = Way {
    pull: true,
    near: |e| e.to,
    far: |e| e.from.0,
    notifies: |c| Notifies::of(c).packets,
    ports: |plan, i| &plan.elements[i].inputs,
};

const DOWN: Way = Way {
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

fn search(plan: &Plan, way: &Way, element: usize, port: usize) -> Signal {
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
