//! One worker's copy of the running graph, and its two walkers.
//!
//! Elements lie in an arena and are named by small numbers. The *sweep* walker follows a batch along output 0 without
//! moving its packets. Packets for other outputs wait in the inbox of the input that they reach; inboxes are emptied in
//! topological order. The *strict* walker moves one packet at a time, depth first, as Click does. An element has always
//! returned before its outputs are walked, so neither walker re-enters an element, and cycles are legal.

pub mod call;
mod cx;
mod driving;
mod edges;
mod extensions;
mod init;
mod node;
mod overflow;
pub mod peers;
mod reconfigure;
pub mod root;
mod schedule;
mod single;
pub mod standard;
mod swap;
mod walk;

use crate::class::Class;
use crate::clock::{Clock, Time};
use crate::contract::Runs;
use crate::notify::NotifierBits;
use crate::packet::Verdict;
use crate::packet::{Batch, Packet};
use crate::plan::{PlacedLoop, Plan};
use crate::port::PortDirectory;
use crate::publish::Reader;
use crate::random::{Random, Seed};
use crate::shared::Shared;
use crate::stats::NodeStats;
use crate::tap::Taps;
use crate::wake::Wakers;
pub use call::Job;
use call::{Deferred, JobCx};
pub use cx::Cx;
use edges::Edges;
pub(crate) use edges::Target;
pub(crate) use extensions::Leaver;
pub use extensions::{
    CountsOfClass, DriverOfClass, DynamicOfClass, ExternalOfClass, LoopCode, OverflowLosses,
    StorageOfClass,
};
pub use init::Init;
use node::make;
pub(crate) use node::{Node, NodeMaker};
pub(crate) use overflow::Overflows;
use peers::{Inbox, Peers};
use root::Root;
pub(crate) use schedule::{Schedule, Task, TaskState, wake};
pub use single::{single, single_at};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
pub(crate) use walk::{descend, follow, follow_from};

/// Walker that moves packets through the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walker {
    /// Batches, for speed.
    Sweep,
    /// One packet at a time, depth first, in Click's order.
    Strict,
}

/// Elements of one worker; `None` while one is running, or if it has no copy here.
pub(crate) type Nodes = Vec<Option<Box<dyn Node>>>;

/// Puts back an element that was taken out to run.
#[inline(always)]
pub(crate) fn put_back(nodes: &mut Nodes, node: usize, element: Box<dyn Node>) {
    // The slot is empty while its element runs. So the returned `None` needs no drop.
    std::mem::forget(nodes[node].replace(element));
}

/// State of the graph that running elements may use: everything except the elements themselves.
pub(crate) struct Core {
    pub(crate) plan: Arc<Plan>,
    /// Configuration strings that handlers have changed, by node.
    pub(crate) texts: HashMap<usize, String>,
    pub(crate) worker: usize,
    pub(crate) now: Time,
    pub(crate) clock: Clock,
    pub(crate) walker: Walker,
    pub(crate) edges: Edges,
    /// Packets that wait at an input, by [`Target::inbox`].
    pub(crate) inboxes: Vec<Batch>,
    /// Nodes with a packet in an inbox, by topological rank.
    pub(crate) ready: Ready,
    /// The strict walker's packets that have not reached their elements, the next one last.
    pub(crate) stack: Vec<(Target, Packet)>,
    pub(crate) stats: Vec<NodeStats>,
    /// For each node, the fused loop that begins there; none on a strict graph. A loop is taken out while it runs.
    pub(crate) loops: Vec<Option<Box<LoopHere>>>,
    /// Number of cycles spent on packets that moved on within the current run of a task: see [`Cx::run_to_completion`].
    pub(crate) completed: u64,
    /// Output by which the packets in the running element's batch leave: see [`Cx::go_by`].
    pub(crate) batch_output: usize,
    /// Number of further runs that a task may make in this turn if it is the only one.
    pub(crate) extra_runs: u32,
    /// Number of rounds that the last turn used.
    pub(crate) used: u32,
    /// Burst limit: maximum number of packets that a task takes at a time.
    pub(crate) burst: usize,
    /// Number of runs of a task that the current measured run represents; 0 if the run is not measured.
    pub(crate) weight: u64,
    /// Number of cycles that a reading of the cycle counter takes.
    reading_cycles: u64,
    /// Number of cycles of all readings so far.
    cycles_of_readings: u64,
    pub(crate) spare: Vec<Batch>,
    /// Buffer for the verdicts of a whole batch.
    pub(crate) verdicts: Vec<Verdict>,
    /// Buffer for the packets that leave a fused loop early.
    pub(crate) leavers: Vec<Leaver>,
    pub(crate) overflows: Overflows,
    timers: BinaryHeap<Reverse<(Time, u32)>>,
    timer_at: Vec<Option<Time>>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) schedule: Schedule,
    pub(crate) notes: NotifierBits,
    pub(crate) taps: Taps,
    pub(crate) random: Random,
    pub(crate) reader: Reader,
    pub(crate) wakers: Arc<Wakers>,
    shared: Shared,
    /// Elements whose `start` has not been called yet.
    pub(crate) fresh: Vec<usize>,
    /// Number of requests to stop that have not been handled yet.
    pub(crate) stops: u32,
    /// True if the driver has something to do before the next task.
    pub(crate) interrupt: bool,
    /// True if the router is to end.
    pub(crate) stopping: bool,
    /// The element that decides when the router ends.
    driver: Option<usize>,
    /// True if sources are paused, so that packets under way can arrive before a hot swap.
    paused: bool,
    /// Maximum number of packets that elements may hold, and a flag that is true while they hold as many.
    held_limit: Option<usize>,
    full: bool,
    /// Number of back-pressures that are in force: the total, and by node.
    pub(crate) back_pressures: usize,
    pub(crate) pressures: Vec<usize>,
    /// Number of elements that are running: more than one while an element pulls from another.
    pub(crate) running: usize,
    /// Number of nested jobs that are running.
    pub(crate) depth: usize,
    /// Jobs that wait until no element is running, each with the element that deferred it.
    pub(crate) deferred: Vec<(usize, Deferred)>,
    /// Handler service for names without an element.
    pub(crate) root: Arc<dyn Root>,
    pub(crate) peers: Arc<Peers>,
    /// Calls from other workers.
    pub(crate) inbox: Option<Inbox>,
}

/// A set of ranks: the first 64 in one word, all others in a second set.
#[derive(Default)]
pub(crate) struct Ready(u64, Vec<u64>);

impl Ready {
    fn with_ranks(n: usize) -> Ready {
        Ready(0, vec![0; n.saturating_sub(64).div_ceil(64)])
    }

    #[inline]
    pub(crate) fn insert(&mut self, rank: usize) {
        match rank.checked_sub(64) {
            None => self.0 |= 1 << rank,
            Some(rank) => self.1[rank / 64] |= 1 << (rank % 64),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == 0 && (self.1.is_empty() || self.1.iter().all(|&word| word == 0))
    }

    #[inline]
    fn take_first(&mut self) -> Option<usize> {
        let (word, before) = match self.0 {
            0 => {
                let i = self.1.iter().position(|&word| word != 0)?;
                (&mut self.1[i], 64 * (i + 1))
            }
            _ => (&mut self.0, 0),
        };
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(before + bit as usize)
    }
}

/// One worker's copy of a router.
pub struct Graph {
    pub(crate) nodes: Nodes,
    pub(crate) core: Core,
    /// Batch that the sweep walker has taken out of an inbox; empty between walks.
    moving: Batch,
}

/// A fused loop, and the inboxes of its elements after the first.
pub(crate) struct LoopHere {
    placed: PlacedLoop,
    code: &'static LoopCode,
    /// Counting elements of the loop.
    counters: Vec<(usize, &'static CountsOfClass)>,
    inboxes: Vec<usize>,
}

/// Parameters with which a worker builds its graph.
#[derive(Clone)]
pub struct BuildContext {
    /// This worker.
    pub worker: usize,
    /// Walker of the graph.
    pub walker: Walker,
    /// Clock of the graph.
    pub clock: Clock,
    /// Open ports.
    pub ports: Arc<dyn PortDirectory>,
    /// Wakes other workers.
    pub wakers: Arc<Wakers>,
    /// Seed of the graph's random numbers.
    pub seed: Seed,
    /// Handler service of this router.
    pub root: Arc<dyn Root>,
    /// Calls to elements of other workers.
    pub peers: Arc<Peers>,
}

impl Graph {
    /// Builds a worker's copy of the graph of `plan`. The plan was checked, so this cannot fail.
    pub fn build(plan: &Arc<Plan>, site: &BuildContext, reader: Reader) -> Graph {
        Graph::build_with(plan, site, reader, Shared::default())
    }

    /// Like [`build`](Self::build), with the shared state of the previous graph's elements.
    fn build_with(plan: &Arc<Plan>, site: &BuildContext, reader: Reader, shared: Shared) -> Graph {
        let n = plan.elements.len();
        let mut nodes: Nodes = Vec::with_capacity(n);
        let mut tasks = Vec::new();
        for (index, element) in plan.elements.iter().enumerate() {
            if !element.workers.contains(&site.worker) {
                nodes.push(None);
                continue;
            }
            nodes.push(Some(make(plan, index, site, &shared)));
            if element.runs != Runs::OnPackets {
                tasks.push(Task::new(index));
            }
        }
        let (edges, inboxes) = Edges::of(plan);
        let mut core = Core {
            texts: HashMap::new(),
            worker: site.worker,
            now: site.clock.now(),
            clock: site.clock.clone(),
            walker: site.walker,
            edges,
            inboxes: (0..inboxes).map(|_| Batch::new()).collect(),
            ready: Ready::with_ranks(n),
            stack: Vec::new(),
            stats: plan.elements.iter().map(NodeStats::of).collect(),
            loops: (0..n).map(|_| None).collect(),
            completed: 0,
            batch_output: 0,
            weight: 1,
            reading_cycles: site.clock.reading_cycles(),
            cycles_of_readings: 0,
            spare: Vec::new(),
            verdicts: Vec::new(),
            leavers: Vec::new(),
            overflows: Overflows::default(),
            timers: BinaryHeap::new(),
            timer_at: vec![None; n],
            tasks,
            schedule: Schedule::default(),
            notes: NotifierBits::new(n),
            taps: Taps::new(Arc::clone(plan)),
            random: Random::new(site.seed, site.worker),
            reader,
            wakers: Arc::clone(&site.wakers),
            shared,
            fresh: (0..n).filter(|&node| nodes[node].is_some()).collect(),
            extra_runs: 0,
            used: 0,
            burst: usize::MAX,
            stops: 0,
            interrupt: false,
            stopping: false,
            driver: plan.elements.iter().position(|e| {
                let driver = e.class.extension::<DriverOfClass>();
                driver.is_some_and(|driver| (driver.drives)(&e.config))
            }),
            paused: false,
            held_limit: None,
            full: false,
            back_pressures: 0,
            pressures: vec![0; n],
            running: 0,
            depth: 0,
            deferred: Vec::new(),
            root: Arc::clone(&site.root),
            peers: Arc::clone(&site.peers),
            inbox: site.peers.inbox(site.worker),
            plan: Arc::clone(plan),
        };
        if site.walker == Walker::Sweep {
            for placed in &plan.loops {
                let first = placed.nodes[0];
                if nodes[first].is_some()
                    && let Some(code) = placed.code.code.downcast_ref()
                {
                    let behind = placed.all().skip(1);
                    let class = |node: usize| plan.elements[node].class.extension();
                    let counters = placed.counters.iter();
                    core.loops[first] = Some(Box::new(LoopHere {
                        placed: placed.clone(),
                        code,
                        counters: counters
                            .filter_map(|&(_, node)| Some((node, class(node)?)))
                            .collect(),
                        inboxes: behind.map(|n| core.edges.inbox(n, 0)).collect(),
                    }));
                }
            }
        }
        Graph {
            nodes,
            core,
            moving: Batch::new(),
        }
    }

    /// Number of the worker that runs this graph.
    pub fn worker(&self) -> usize {
        self.core.worker
    }

    /// The plan that this graph runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.core.plan
    }

    /// The parameters of this graph, for building its successor.
    pub fn build_context(&self, ports: Arc<dyn PortDirectory>) -> BuildContext {
        self.core.build_context(ports)
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The time that elements see.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// Replaces the router's handler service.
    pub fn set_root(&mut self, root: Arc<dyn Root>) {
        self.core.root = root;
    }

    /// Sets the clock of a graph with virtual time.
    pub fn set_time(&mut self, now: Time) {
        if !self.core.clock.set(now) {
            self.core.clock = Clock::at(now);
        }
        self.core.now = now;
    }

    /// Stops sources, or lets them run again.
    pub fn pause(&mut self, paused: bool) {
        self.core.paused = paused;
    }

    /// True if nothing is left to do: a source has ended, no source will make packets again, and no element holds
    /// packets. If an element drives the router, it alone decides.
    pub fn finished(&mut self) -> bool {
        if self.core.driver.is_some() {
            return false;
        }
        let plan = Arc::clone(&self.core.plan);
        let is_source = |node: usize| plan.elements[node].inputs.is_empty();
        let tasks = &self.core.tasks;
        tasks.iter().any(|t| t.state == TaskState::Ended)
            && !tasks
                .iter()
                .any(|t| t.state == TaskState::Ready && is_source(t.node))
            && !(0..plan.elements.len()).any(|n| self.core.timer_at[n].is_some() && is_source(n))
            && self.held() == 0
    }

    /// Like [`finished`](Self::finished), for one of several workers: a worker without sources is done when its
    /// elements hold no packets.
    pub fn may_have_finished(&mut self) -> bool {
        if self.core.driver.is_some() {
            return false;
        }
        let sources = self
            .core
            .tasks
            .iter()
            .any(|t| self.core.plan.elements[t.node].inputs.is_empty());
        if sources {
            self.finished()
        } else {
            self.held() == 0
        }
    }

    /// Number of packets that elements of this worker hold.
    pub fn held(&self) -> usize {
        self.nodes
            .iter()
            .flatten()
            .map(|element| element.held())
            .sum()
    }

    /// Number of packets that one element holds on this worker.
    pub fn held_by(&self, node: usize) -> usize {
        self.nodes[node]
            .as_ref()
            .map_or(0, |element| element.held())
    }

    /// Descriptors that become readable when there is work. The flag is true if some task must be polled
    /// nevertheless.
    pub fn wait_fds(&self) -> (Vec<std::os::fd::RawFd>, bool) {
        let mut fds = Vec::new();
        let mut poll = false;
        for task in self
            .core
            .tasks
            .iter()
            .filter(|t| t.state == TaskState::Ready)
        {
            let class: Option<&ExternalOfClass> =
                self.core.plan.elements[task.node].class.extension();
            if let (Some(element), Some(class)) = (&self.nodes[task.node], class) {
                (class.wait_fds)(element.element(), &mut fds);
                poll |= (class.must_poll)(element.element());
            }
        }
        (fds, poll)
    }

    /// Descriptors, possibly none, that wake a router which is not polled. `None` if a task must be polled.
    pub fn may_be_idle(&self) -> Option<Vec<std::os::fd::RawFd>> {
        let says = |class: &'static Class| class.extension::<ExternalOfClass>().is_some();
        let mut ready = self.core.tasks.iter().filter(|t| t.is_ready());
        let all_say = ready.all(|task| says(self.core.plan.elements[task.node].class));
        let (fds, must_poll) = self.wait_fds();
        (all_say && !must_poll && self.core.fresh.is_empty()).then_some(fds)
    }

    #[inline(always)] // for the packet loop; the other calls are few
    pub(crate) fn with_node<R>(
        &mut self,
        node: usize,
        run: impl FnOnce(&mut dyn Node, &mut Cx) -> R,
    ) -> Option<R> {
        let mut element = self.nodes[node].take()?;
        self.core.running += 1;
        let result = run(
            &mut *element,
            &mut Cx {
                nodes: &mut self.nodes,
                core: &mut self.core,
                this: node,
            },
        );
        self.core.running -= 1;
        put_back(&mut self.nodes, node, element);
        Some(result)
    }

    /// The class of an element.
    pub fn class_of(&self, node: usize) -> Option<&'static Class> {
        self.core
            .plan
            .elements
            .get(node)
            .map(|element| element.class)
    }

    /// This worker's copy of an element, for an extension of its class; `None` if there is no copy here.
    pub fn element(&self, node: usize) -> Option<&dyn Any> {
        Some(self.nodes.get(node)?.as_ref()?.element())
    }

    /// Mutable form of [`element`](Self::element).
    pub fn element_mut(&mut self, node: usize) -> Option<&mut dyn Any> {
        Some(self.nodes.get_mut(node)?.as_mut()?.element_mut())
    }

    /// Runs `work` on this worker's copy of an element. Packets that it sends wait until [`move_on`](Self::move_on).
    pub fn with_element<R>(
        &mut self,
        node: usize,
        work: impl FnOnce(&mut dyn Any, &mut Cx) -> R,
    ) -> Option<R> {
        self.with_node(node, |element, cx| work(element.element_mut(), cx))
    }

    /// Moves sent packets until all have reached an element that keeps them.
    pub fn move_on(&mut self) {
        self.walk();
    }

    /// Runs a job on the graph from outside its elements; packets that it sends then move on.
    pub fn job<R>(&mut self, work: impl FnOnce(&mut JobCx) -> R) -> R {
        let result = work(&mut JobCx {
            nodes: &mut self.nodes,
            core: &mut self.core,
            element: None,
        });
        self.walk();
        result
    }

    /// Reads a handler of this worker's copy that calls no other handler; `None` if there is no copy here.
    pub fn read(
        &self,
        node: usize,
        handler: usize,
        argument: &str,
    ) -> Option<Result<String, String>> {
        Some(self.nodes[node].as_ref()?.read(handler, argument))
    }

    /// Writes a handler of this worker's copy; `None` if there is no copy here.
    pub fn write(
        &mut self,
        node: usize,
        handler: usize,
        value: &str,
    ) -> Option<Result<(), String>> {
        let info = (self.core.plan.elements[node].class.handlers)()[handler];
        self.nodes[node].as_ref()?;
        let result = self.job(|cx| cx.write_own(node, handler, info, value));
        Some(result.map(|_| ()).map_err(|e| e.to_string()))
    }

    /// Counters of every element's copy on this worker.
    pub fn stats(&self) -> &[NodeStats] {
        &self.core.stats
    }

    /// The taps, mutable.
    pub fn taps(&mut self) -> &mut Taps {
        &mut self.core.taps
    }

    /// Passes a quiescent point: this worker holds no reference to a published value.
    pub fn quiescent(&mut self) {
        self.core.reader.quiescent();
    }

    /// The reader of published tables; it goes off line while the worker sleeps.
    pub fn reader_mut(&mut self) -> &mut Reader {
        &mut self.core.reader
    }
}

impl Core {
    fn build_context(&self, ports: Arc<dyn PortDirectory>) -> BuildContext {
        BuildContext {
            worker: self.worker,
            walker: self.walker,
            clock: self.clock.clone(),
            ports,
            wakers: Arc::clone(&self.wakers),
            seed: Seed::Kernel, // the graph that replaces it continues the sequence
            root: Arc::clone(&self.root),
            peers: Arc::clone(&self.peers),
        }
    }

    pub(crate) fn random(&mut self) -> u32 {
        self.random.next()
    }

    /// True if an element has a copy on this worker, including one that is running.
    pub(crate) fn is_here(&self, node: usize) -> bool {
        self.plan.elements[node].workers.contains(&self.worker)
    }
}
