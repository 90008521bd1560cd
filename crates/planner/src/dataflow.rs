//! Data-flow analysis: derives from the contracts of classes what holds for packets at each element.
//!
//! One fixed point finds all of it. Each element starts with the best case; a step propagates the states at both ends
//! of one connection, forward and backward. Steps only remove facts and set flags, so the iteration ends.
//!
//! - **Facts** go forward: those that hold on all paths are known, and are compared with the needs of elements.
//! - **Annotations** go backward: they are live at an element if it reads them, or an element downstream does. Receive
//!   ports skip initialising dead annotations, which are in the packet's second cache line. Packets that are captured
//!   or traced get them all the same. A class that initialises annotations itself ([`Annotates`]) hides later readers
//!   from the devices before it, if its packets carry no annotations from elsewhere.
//! - **Super-frames** go forward where a path of elements that process them leads to a port. Everywhere else they are
//!   segmented before the first element that does not process them.

use super::title;
use super::to_do::ToDo;
use engine::element::{Annotates, Facts, Silent};
use engine::placement::Device;
use engine::plan::{Edge, Plan, PlanElement};
use engine::port::PortDirectory;
use lang::{Diagnostic, Router};
use std::cell::OnceCell;

/// Knowledge about packets at the inputs of an element. Steps only remove facts and set flags.
#[derive(Clone, Copy, PartialEq)]
struct State {
    /// Facts that hold on all paths to the element.
    facts: Facts,
    /// True if a source sends packets that reach the element.
    reached: bool,
    /// True if a class downstream changes facts.
    handled: bool,
    /// True if annotations are live.
    reads: bool,
    /// True if packets may carry annotations that an earlier element has set.
    annotated: bool,
    /// True if a super-frame can reach a port from here through elements that process super-frames.
    leads: bool,
    /// True if the element receives super-frames from its device.
    delivers: bool,
    /// True if packets may be super-frames.
    super_frames: bool,
}

/// Properties of an element on which steps depend, beside its contract.
struct Properties {
    annotates: bool,
    changes_facts: bool,
    carries: bool,
    device: Option<Device>,
    /// True if the element's device delivers super-frames. The port is queried only if a path leads to another port.
    brings: OnceCell<bool>,
}

impl Properties {
    fn receives(&self) -> Option<&Device> {
        self.device.as_ref().filter(|device| device.receives)
    }

    fn sends(&self) -> Option<&Device> {
        self.device.as_ref().filter(|device| !device.receives)
    }
}

/// Result of the analysis of a plan.
pub(super) struct DataFlow<'p> {
    ports: Option<&'p dyn PortDirectory>,
    properties: Vec<Properties>,
    states: Vec<State>,
}

impl<'p> DataFlow<'p> {
    /// Analyses a plan. Without `ports` devices are unknown: then only facts are valid.
    pub(super) fn new(plan: &Plan, ports: Option<&'p dyn PortDirectory>) -> DataFlow<'p> {
        let properties = plan.elements.iter().map(|element| Properties {
            annotates: element.class.extension::<Annotates>().is_some(),
            changes_facts: element.class.spoils != Facts::NONE
                || element
                    .class
                    .gives
                    .iter()
                    .any(|gives| *gives != Facts::NONE),
            carries: !plan.as_click && element.carries_super_frames(),
            device: element.device(),
            brings: OnceCell::new(),
        });
        let mut flow = DataFlow {
            ports,
            properties: properties.collect(),
            states: Vec::new(),
        };
        flow.states = (0..plan.elements.len())
            .map(|element| flow.start(plan, element))
            .collect();
        flow.solve(plan);
        flow
    }

    /// Initial state of an element, from its class and its device alone.
    fn start(&self, plan: &Plan, number: usize) -> State {
        let (element, properties) = (&plan.elements[number], &self.properties[number]);
        let ports = element.class.ports;
        let keeps = |device: &Device| {
            self.ports
                .is_some_and(|p| p.keeps_annotations(&device.name))
        };
        let (receives, sends) = (properties.receives(), properties.sends());
        State {
            facts: match plan.edges.to(number).next() {
                Some(_) => Facts::ALL,
                None => Facts::NONE,
            },
            reached: ports.inputs.is_empty()
                && !ports.outputs.is_empty()
                && element.class.extension::<Silent>().is_none(),
            handled: false,
            reads: element.class.reads_annotations || sends.is_some_and(keeps),
            annotated: receives.is_some_and(|device| device.notes || keeps(device)),
            leads: sends.is_some() && properties.carries,
            delivers: false,
            super_frames: false,
        }
    }

    /// Repeats steps until none changes a state.
    fn solve(&mut self, plan: &Plan) {
        let mut to_do = ToDo::new(plan.order.iter().copied(), plan.elements.len());
        while let Some(element) = to_do.next() {
            for edge in plan.edges.from(element).chain(plan.edges.to(element)) {
                let (from, to) = (edge.from.0, edge.to.0);
                let after = self.forward(plan, edge);
                if std::mem::replace(&mut self.states[to], after) != after {
                    to_do.add(to);
                }
                let before = self.backward(edge);
                if std::mem::replace(&mut self.states[from], before) != before {
                    to_do.add(from);
                }
            }
        }
    }

    /// Facts about packets on a connection.
    fn facts(&self, plan: &Plan, edge: &Edge) -> Facts {
        let (element, output) = edge.from;
        let class = plan.elements[element].class;
        let facts = self.states[element].facts.without(class.spoils);
        facts.and(class.gives_at(output))
    }

    /// State of the element after a connection, computed from the state of the element before it.
    fn forward(&self, plan: &Plan, edge: &Edge) -> State {
        let (from, mut to) = (self.states[edge.from.0], self.states[edge.to.0]);
        to.facts = to.facts.common(self.facts(plan, edge));
        to.reached |= from.reached;
        to.annotated |= from.annotated || from.reads;
        let carried = from.super_frames && self.properties[edge.from.0].carries;
        to.super_frames |= !edge.pull && (from.delivers || carried);
        // Segmenting a super-frame reads annotations.
        to.reads |= to.super_frames || to.annotated && self.properties[edge.to.0].annotates;
        to
    }

    /// State of the element before a connection, computed from the state of the element after it.
    fn backward(&self, edge: &Edge) -> State {
        let (mut from, to) = (self.states[edge.from.0], self.states[edge.to.0]);
        let properties = &self.properties[edge.from.0];
        from.handled |= to.handled || self.properties[edge.to.0].changes_facts;
        from.leads |= !edge.pull && to.leads && properties.carries;
        from.delivers |= !edge.pull && to.leads && self.brings(properties);
        from.super_frames |= from.delivers;
        from.reads |= from.super_frames || to.reads && !properties.annotates;
        from
    }

    /// True if the element's device delivers super-frames.
    fn brings(&self, properties: &Properties) -> bool {
        let probe = || {
            let device = properties.receives();
            let info = device.and_then(|device| self.ports?.probe(&device.name).ok());
            info.is_some_and(|info| info.super_frames)
        };
        *properties.brings.get_or_init(probe)
    }

    /// Reports needs that are not met, at connections that packets can reach.
    pub(super) fn prove(&self, plan: &Plan, router: &Router, errors: &mut Vec<Diagnostic>) {
        for edge in plan.edges.iter().filter(|e| self.states[e.from.0].reached) {
            let needed = plan.elements[edge.to.0].class.needs_at(edge.to.1);
            for (what, remedy) in needed.missing(self.facts(plan, edge)) {
                let (from, to) = (&router.elements[edge.from.0], &router.elements[edge.to.0]);
                let message = format!(
                    "`{}` needs {what}, but `{}` brings packets without one",
                    title(to),
                    title(from)
                );
                let error = Diagnostic::error("needs", message).at(edge.span);
                errors.push(error.help(remedy));
            }
        }
    }

    /// Marks elements that super-frames and packets without annotations may reach.
    pub(super) fn mark(&self, plan: &mut Plan) {
        let Plan {
            elements, edges, ..
        } = plan;
        let mut work = Vec::new();
        for (number, state) in self.states.iter().enumerate() {
            let element: &mut PlanElement = &mut elements[number];
            element.super_frames = state.super_frames;
            element.handled = state.handled;
            element.bare = !state.reads && self.properties[number].receives().is_some();
            if element.bare {
                work.push(number);
            }
        }
        while let Some(from) = work.pop() {
            for to in edges.from(from).map(|edge| edge.to.0) {
                if !self.states[to].reads && !std::mem::replace(&mut elements[to].bare, true) {
                    work.push(to);
                }
            }
        }
        for edge in edges.iter() {
            let (from, output) = edge.from;
            if elements[from].bare && self.states[edge.to.0].reads {
                elements[from].annotated.push(output);
            }
        }
    }
}
