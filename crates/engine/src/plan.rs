//! A plan: a fully decided router, from which each worker builds its graph. It is plain data; the crate `planner`
//! makes it.

use crate::class::{Attached, Class};
use crate::contract::{AnyConfig, Copies, Runs};
use crate::notify::Signal;
use crate::packet::Verdict;
use crate::placement::{Device, Placement, ResourcesOfClass};
use crate::port::{PortDirectory, PortRequest};
use arguments::Names;
use arguments::router_wide::RouterWide;
use arguments::text_file::Seen;
use lang::Span;
use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

/// See [`PlanElement::named_elements`].
pub type NamedElements = Option<Vec<usize>>;

/// Extension: a pass of the planner for plans that use its class. It runs once, after elements have been placed on
/// workers, and records its results in elements ([`PlanElement::split`], [`PlanElement::attached`]).
pub struct Pass(pub fn(&mut Plan));

/// An element of a plan.
pub struct PlanElement {
    /// Name.
    pub name: String,
    /// Class.
    pub class: &'static Class,
    /// Configuration as text.
    pub text: String,
    /// Configuration, parsed.
    pub config: AnyConfig,
    /// Other elements that the configuration names, if parsing looked at them. The parsed configuration may then
    /// change although the element's own text does not.
    pub named_elements: NamedElements,
    /// Files that the configuration names, in the state in which they were read.
    pub files: Vec<Seen>,
    /// Position of the element's declaration.
    pub span: Span,
    /// True if each input is pull.
    pub inputs: Vec<bool>,
    /// True if each output is pull.
    pub outputs: Vec<bool>,
    /// Occasions on which the element runs: as a task, or on packets.
    pub runs: Runs,
    /// Workers with a copy, ascending.
    pub workers: Vec<usize>,
    /// The worker that the element's task belongs to.
    pub task_worker: usize,
    /// Workers that push into the element.
    pub pushers: Vec<usize>,
    /// Workers that pull from the element, or run its task.
    pub pullers: Vec<usize>,
    /// True if packets without annotations may reach the element; for a receiving element, if it delivers such packets.
    /// See `Contract::ignores_annotations`.
    pub bare: bool,
    /// True if a class downstream changes facts about packets.
    pub facts_change: bool,
    /// Outputs that lead to a reader of annotations, of an element whose packets may come without annotations: the
    /// element must initialise them there. See `Annotates`.
    pub annotated: Vec<usize>,
    /// True if packets that reach the element may be super-frames; for a receiving element, packets that it receives.
    pub super_frames: bool,
    /// Number of the element's group, if a pass has split the state of an element with one owner ([`Copies::Owner`]).
    /// Each worker then owns the part of the state that its packets need. Elements with the same number are split
    /// alike.
    pub split: Option<usize>,
    /// Values that planner passes have attached for the element and for themselves.
    pub attached: Attached,
    /// Queues of the element's device, for each of `workers`.
    pub queues: Vec<Vec<usize>>,
    /// For each input, the signal for packets that wait upstream.
    pub signals: Vec<Signal>,
    /// For each output, the signal for room downstream.
    pub room_signals: Vec<Signal>,
    /// Elements to wake when packets wait at an input of this element.
    pub listeners: Vec<usize>,
    /// Elements to wake when there is room downstream of an output of this element.
    pub fillers: Vec<usize>,
}

impl PlanElement {
    /// True if the element processes super-frames like other packets.
    pub fn carries_super_frames(&self) -> bool {
        (self.class.carries_super_frames)(&self.config)
    }

    /// True if super-frames must be segmented before they enter the element.
    pub fn cuts(&self) -> bool {
        self.super_frames && !self.inputs.is_empty() && !self.carries_super_frames()
    }

    /// True if input 0 is pull.
    pub fn input_pull(&self) -> bool {
        self.inputs.first().copied().unwrap_or(false)
    }

    /// True if output 0 is pull.
    pub fn output_pull(&self) -> bool {
        self.outputs.first().copied().unwrap_or(false)
    }

    /// Placement requests of its configuration.
    pub fn placement(&self) -> Placement {
        let resources = self.resources();
        resources.map_or_else(Placement::default, |class| (class.placement)(&self.config))
    }

    fn resources(&self) -> Option<&'static ResourcesOfClass> {
        self.class.extension()
    }

    /// The device that the element receives from or sends to.
    pub fn device(&self) -> Option<Device> {
        self.placement().device
    }

    /// Memory of the element's copies, shared and separate, in bytes.
    pub fn memory(&self) -> usize {
        let Some(class) = self.resources() else {
            return 0;
        };
        let copies = (class.memory_each)(&self.config).saturating_mul(self.workers.len());
        copies.saturating_add((class.memory)(&self.config))
    }

    /// Device queues of the copy on `worker`.
    pub fn queues_of(&self, worker: usize) -> &[usize] {
        let at = self.workers.iter().position(|&w| w == worker);
        at.and_then(|i| self.queues.get(i))
            .map_or(&[], Vec::as_slice)
    }

    /// True if the element has one owner among several workers: it cannot be copied.
    pub fn has_single_owner(&self) -> bool {
        self.class.copies == Copies::One
    }

    /// True if a hot swap may keep a running copy of `before` as a copy of this element.
    pub(crate) fn same_as(&self, before: &PlanElement) -> bool {
        Arc::ptr_eq(&self.config, &before.config)
            && self.inputs == before.inputs
            && self.outputs == before.outputs
            && self.runs == before.runs
            && self.pushers == before.pushers
            && self.pullers == before.pullers
            && self.queues == before.queues
            && self.bare == before.bare
            && self.facts_change == before.facts_change
            && self.annotated == before.annotated
            && self.super_frames == before.super_frames
            && self.split == before.split
    }
}

/// A connection between two elements, as (element, port).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Element and output port.
    pub from: (usize, usize),
    /// Element and input port.
    pub to: (usize, usize),
    /// True if the input pulls.
    pub pull: bool,
    /// Position of the connection in the file.
    pub span: Span,
}

/// Edges of a plan sorted by the ports at one end, then by position in the file. So the edges of an element are found
/// without a search.
#[derive(Clone, Debug, Default)]
struct ByEnd {
    /// Numbers of edges.
    order: Vec<usize>,
    /// Start of each element's edges in `order`; one entry more than there are elements.
    first: Vec<usize>,
}

impl ByEnd {
    fn new(elements: usize, edges: &[Edge], end: fn(&Edge) -> (usize, usize)) -> ByEnd {
        let mut order: Vec<usize> = (0..edges.len()).collect();
        order.sort_by_key(|&edge| end(&edges[edge]));
        let first = (0..=elements).map(|e| order.partition_point(|&edge| end(&edges[edge]).0 < e));
        ByEnd {
            first: first.collect(),
            order,
        }
    }

    fn of(&self, element: usize) -> &[usize] {
        &self.order[self.first[element]..self.first[element + 1]]
    }

    fn of_port(
        &self,
        (element, port): (usize, usize),
        port_of: impl Fn(usize) -> usize,
    ) -> &[usize] {
        let all = self.of(element);
        let begin = all.partition_point(|&edge| port_of(edge) < port);
        let len = all[begin..].partition_point(|&edge| port_of(edge) == port);
        &all[begin..begin + len]
    }
}

/// The connections of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanEdges {
    all: Vec<Edge>,
    by_output: ByEnd,
    by_input: ByEnd,
}

impl PlanEdges {
    /// Connections `all` between this number of elements.
    pub fn new(elements: usize, all: Vec<Edge>) -> PlanEdges {
        PlanEdges {
            by_output: ByEnd::new(elements, &all, |e| e.from),
            by_input: ByEnd::new(elements, &all, |e| e.to),
            all,
        }
    }

    /// Edges from an element.
    pub fn from(&self, element: usize) -> impl Iterator<Item = &Edge> {
        self.by_output.of(element).iter().map(|&e| &self.all[e])
    }

    /// Edges to an element.
    pub fn edges_to(&self, element: usize) -> impl Iterator<Item = &Edge> {
        self.by_input.of(element).iter().map(|&e| &self.all[e])
    }

    /// Edges from an output.
    pub fn from_port(&self, output: (usize, usize)) -> impl Iterator<Item = &Edge> {
        let port = |e: usize| self.all[e].from.1;
        let found = self.by_output.of_port(output, port).iter();
        found.map(|&e| &self.all[e])
    }

    /// Edges to an input.
    pub fn to_port(&self, input: (usize, usize)) -> impl Iterator<Item = &Edge> {
        let port = |e: usize| self.all[e].to.1;
        let found = self.by_input.of_port(input, port).iter();
        found.map(|&e| &self.all[e])
    }
}

impl Deref for PlanEdges {
    type Target = [Edge];

    fn deref(&self) -> &[Edge] {
        &self.all
    }
}

impl<'p> IntoIterator for &'p PlanEdges {
    type Item = &'p Edge;
    type IntoIter = std::slice::Iter<'p, Edge>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

/// A device, and the plan's request to its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanDevice {
    /// The port's name.
    pub name: String,
    /// Port to open, with its settings.
    pub request: PortRequest,
}

/// A plan: a router that can be built.
pub struct Plan {
    /// Elements, in the order of declaration.
    pub elements: Vec<PlanElement>,
    /// Connections.
    pub edges: PlanEdges,
    /// Number of workers.
    pub workers: usize,
    /// True if the router is to run in the manner of Click's user-level driver.
    pub as_click: bool,
    /// Devices to open.
    pub devices: Vec<PlanDevice>,
    /// Elements in topological order of push edges.
    pub order: Vec<usize>,
    /// Index of each element in `order`.
    pub rank: Vec<usize>,
    /// Fused loops.
    pub loops: Vec<PlacedLoop>,
    /// Numbers of elements by name.
    pub by_name: HashMap<String, usize>,
    /// Names that stand for addresses.
    pub names: Names,
    /// Devices whose own addresses are among the names.
    pub addressed: Vec<String>,
    /// Router-wide state.
    pub router_wide: RouterWide,
}

impl Plan {
    /// Calls a handler of an element. Its value may use the same names as the element's arguments.
    pub fn call<R>(&self, node: usize, handler: impl FnOnce() -> R) -> R {
        arguments::with_names(self.names.seen_by(&self.elements[node].name), handler)
    }

    /// Runs a handler on state that the workers share.
    pub fn control(&self, node: usize, handler: usize, value: &str) -> Result<String, String> {
        let element = &self.elements[node];
        self.call(node, || {
            (element.class.control)(&element.config, handler, value)
        })
    }

    /// Names of receiving elements whose device delivers packets without annotations.
    pub fn bare_sources(&self) -> impl Iterator<Item = &str> {
        let bare = |e: &&PlanElement| e.bare && e.inputs.is_empty();
        self.elements.iter().filter(bare).map(|e| e.name.as_str())
    }

    /// Names of receiving elements whose device may deliver super-frames.
    pub fn whole_sources(&self) -> impl Iterator<Item = &str> {
        let whole = |e: &&PlanElement| e.super_frames && e.inputs.is_empty();
        self.elements.iter().filter(whole).map(|e| e.name.as_str())
    }

    /// Elements that hand each packet to one of several workers ([`Placement::gathers`]): name, workers that bring
    /// packets, workers that receive them.
    pub fn gathering(&self) -> impl Iterator<Item = (&str, &[usize], &[usize])> {
        let each = self.elements.iter().enumerate();
        each.filter_map(|(i, e)| {
            if !e.placement().gathers {
                return None;
            }
            let next = self.edges.from(i).next()?.to.0;
            let owners = self.elements[next].workers.as_slice();
            let stays = e.pushers.len() == 1 && e.pushers == owners;
            (!stays).then_some((e.name.as_str(), e.pushers.as_slice(), owners))
        })
    }

    /// Queues in which packets change worker: name, workers that fill it, and the worker that empties it.
    pub fn crossings(&self) -> Vec<(&str, Vec<usize>, usize)> {
        let crosses = self
            .elements
            .iter()
            .filter(|e| e.outputs.contains(&true) && e.pullers.len() == 1);
        crosses
            .filter_map(|e| {
                let to = e.pullers[0];
                let from: Vec<usize> = e.pushers.iter().copied().filter(|&w| w != to).collect();
                (!from.is_empty()).then_some((e.name.as_str(), from, to))
            })
            .collect()
    }

    /// The value of type `T` that all elements share which request it by
    /// [`Args::router_wide`](arguments::Args::router_wide). Plans that replace this one keep the value.
    pub fn router_wide<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.router_wide.get()
    }

    /// The same value, if an element of this or an earlier plan has requested it.
    pub fn find_router_wide<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.router_wide.find()
    }

    /// An element's number.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Opens the files and resources that configurations name (`Resources::initialize`), except those that `running`
    /// already uses. Returns the elements that failed, each with a sentence.
    pub fn initialize(&self, running: Option<&Plan>) -> Vec<(usize, String)> {
        let address = |config: &AnyConfig| Arc::as_ptr(config).cast::<()>();
        let known = running.into_iter().flat_map(|plan| &plan.elements);
        let known: HashSet<_> = known.map(|e| address(&e.config)).collect();
        let kept = |config: &AnyConfig| known.contains(&address(config));
        let each = self.elements.iter().enumerate();
        let fresh = each.filter(|(_, element)| !kept(&element.config));
        fresh
            .filter_map(|(i, e)| Some((i, (e.resources()?.initialize)(&e.config).err()?)))
            .collect()
    }

    /// Opens the devices that are not open yet. The error is a sentence for people.
    pub fn open_devices(&self, ports: &dyn PortDirectory) -> Result<(), String> {
        let mut each = self.devices.iter();
        each.try_for_each(|device| ports.open(&device.name, &device.request).map(|_| ()))
    }

    /// Like [`initialize`](Self::initialize), with all failures in one text.
    pub fn must_initialize(&self, running: Option<&Plan>) -> Result<(), String> {
        let failed = self.initialize(running);
        if failed.is_empty() {
            return Ok(());
        }
        let lines = failed.into_iter().map(|(i, why)| {
            let element = &self.elements[i];
            format!("in `{} :: {}`: {why}", element.name, element.class.name)
        });
        Err(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// A fused loop for elements of these classes, connected in sequence; see `fused`.
#[derive(Clone, Copy)]
pub struct FusedLoop {
    /// The element types.
    pub kinds: fn() -> Vec<TypeId>,
    /// Code of the loop, for the graph.
    pub(crate) code: &'static (dyn Any + Send + Sync),
}

/// A fused loop at its place in a plan.
#[derive(Clone)]
pub struct PlacedLoop {
    /// The fused loop.
    pub code: &'static FusedLoop,
    /// Elements of the loop, in order.
    pub nodes: Vec<usize>,
    /// For each element, the verdict with which a packet stays in the loop.
    pub on: Vec<Verdict>,
    /// Counting elements between the loop's elements, in order: each with the index of the loop element that it
    /// follows.
    pub counters: Vec<(usize, usize)>,
}

impl PlacedLoop {
    /// All elements that run in the loop, in order, including counting elements.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        let places = self.nodes.iter().enumerate();
        places.flat_map(|(place, &node)| {
            let behind = self.counters.iter().filter(move |c| c.0 == place);
            std::iter::once(node).chain(behind.map(|counter| counter.1))
        })
    }
}
