//! Data-flow analysis: derives properties of the packets at each element from the contracts of classes.
//!
//! All properties are computed as one fixed point. Each element starts with the best case; a step propagates the states
//! at both ends of one connection, forward and backward. Steps only remove facts and set flags, so the iteration ends.
//!
//! - **Facts** go forward. Facts that hold on all paths to an element are compared with the element's needs.
//! - **Annotations** go backward: they are live at an element if it reads them, or an element downstream does. Receive
//!   ports skip initialising dead annotations, which are in the packet's second cache line. Captured or traced packets
//!   always have initialised annotations. A class that initialises annotations itself ([`Annotates`]) hides later
//!   readers from the devices before it, if its packets carry no annotations from elsewhere.
//! - **Super-frames** go forward where a path of elements that process them leads to a port. Everywhere else they are
//!   segmented before the first element that does not process them.

use super::title;
use super::work_list::WorkList;
use engine::element::{Annotates, Facts, Silent};
use engine::placement::Device;
use engine::plan::{Edge, Plan, PlanElement};
use engine::port::PortDirectory;
use lang::{Diagnostic, Router};
use std::cell::OnceCell;

/// Properties of packets at the inputs of an element. Steps only remove facts and set flags.
#[derive(Clone, Copy, PartialEq)]
struct State {
    /// Facts that hold on all paths to the element.
    facts: Facts,
    /// True if a source sends packets that reach the element.
    is_reached: bool,
    /// True if a class downstream changes facts.
    facts_change: bool,
    /// True if annotations are live.
    annotations_live: bool,
    /// True if packets may carry annotations that an earlier element has set.
    annotated: bool,
    /// True if a super-frame can reach a port from here through elements that process super-frames.
    leads_to_port: bool,
    /// True if the element receives super-frames from its device.
    delivers: bool,
    /// True if packets may be super-frames.
    super_frames: bool,
}

/// Properties of an element on which steps depend, beside its contract.
struct Properties {
    annotates: bool,
    changes_facts: bool,
    carries_super_frames: bool,
    device: Option<Device>,
    /// True if the element's device delivers super-frames. The port is queried only if a path leads to another port.
    delivers_super_frames: OnceCell<bool>,
}

impl Properties {
    fn receives(&self) -> Option<&Device> {
        self.device.as_ref().filter(|device| device.receives)
    }

    fn tx_device(&self) -> Option<&Device> {
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
            carries_super_frames: !plan.as_click && element.carries_super_frames(),
            device: element.device(),
            delivers_super_frames: OnceCell::new(),
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
        let (receives, sends) = (properties.receives(), properties.tx_device());
        State {
            facts: match plan.edges.edges_to(number).next() {
                Some(_) => Facts::ALL,
                None => Facts::NONE,
            },
            is_reached: ports.inputs.is_empty()
                && !ports.outputs.is_empty()
                && element.class.extension::<Silent>().is_none(),
            facts_change: false,
            annotations_live: element.class.reads_annotations || sends.is_some_and(keeps),
            annotated: receives.is_some_and(|device| device.notes || keeps(device)),
            leads_to_port: sends.is_some() && properties.carries_super_frames,
            delivers: false,
            super_frames: false,
        }
    }

    /// Repeats steps until none changes a state.
    fn solve(&mut self, plan: &Plan) {
        let mut to_do = WorkList::new(plan.order.iter().copied(), plan.elements.len());
        while let Some(element) = to_do.next() {
            for edge in plan.edges.from(element).chain(plan.edges.edges_to(element)) {
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
        to.is_reached |= from.is_reached;
        to.annotated |= from.annotated || from.annotations_live;
        let carried = from.super_frames && self.properties[edge.from.0].carries_super_frames;
        to.super_frames |= !edge.pull && (from.delivers || carried);
        // Segmenting a super-frame reads annotations.
        to.annotations_live |=
            to.super_frames || to.annotated && self.properties[edge.to.0].annotates;
        to
    }

    /// State of the element before a connection, computed from the state of the element after it.
    fn backward(&self, edge: &Edge) -> State {
        let (mut from, to) = (self.states[edge.from.0], self.states[edge.to.0]);
        let properties = &self.properties[edge.from.0];
        from.facts_change |= to.facts_change || self.properties[edge.to.0].changes_facts;
        from.leads_to_port |= !edge.pull && to.leads_to_port && properties.carries_super_frames;
        from.delivers |= !edge.pull && to.leads_to_port && self.delivers_super_frames(properties);
        from.super_frames |= from.delivers;
        from.annotations_live |= from.super_frames || to.annotations_live && !properties.annotates;
        from
    }

    /// True if the element's device delivers super-frames.
    fn delivers_super_frames(&self, properties: &Properties) -> bool {
        let probe = || {
            let device = properties.receives();
            let info = device.and_then(|device| self.ports?.probe(&device.name).ok());
            info.is_some_and(|info| info.super_frames)
        };
        *properties.delivers_super_frames.get_or_init(probe)
    }

    /// Reports needs that are not met, at connections that packets can reach.
    pub(super) fn prove(&self, plan: &Plan, router: &Router, errors: &mut Vec<Diagnostic>) {
        for edge in plan
            .edges
            .iter()
            .filter(|e| self.states[e.from.0].is_reached)
        {
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
            element.facts_change = state.facts_change;
            element.bare = !state.annotations_live && self.properties[number].receives().is_some();
            if element.bare {
                work.push(number);
            }
        }
        while let Some(from) = work.pop() {
            for to in edges.from(from).map(|edge| edge.to.0) {
                if !self.states[to].annotations_live
                    && !std::mem::replace(&mut elements[to].bare, true)
                {
                    work.push(to);
                }
            }
        }
        for edge in edges.iter() {
            let (from, output) = edge.from;
            if elements[from].bare && self.states[edge.to.0].annotations_live {
                elements[from].annotated.push(output);
            }
        }
    }
}
