//! A router on the test's own thread, with virtual time: from configuration text to packets in one line.

use engine::clock::{Clock, Time};
use engine::element::Class;
use engine::fused::FusedLoop;
use engine::graph::root::{Plain, Root};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::packet::Packet;
use engine::packet::anno::{Anno, Cold};
use engine::plan::Plan;
use engine::port::{NoPorts, PortDirectory};
use engine::prelude::{Args, Batch, Contract, Cx, Did, Element, Init, JobCx, Ports, Runs, Use};
use planner::{Options, Registry};
use std::sync::Arc;
use std::time::Duration;
use sync::Lock;

/// A packet that reached a `Collect` element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Bytes of the packet.
    pub bytes: Vec<u8>,
    /// Annotations in the packet's first cache line.
    pub anno: Anno,
    /// Annotations in the packet's second cache line.
    pub cold: Cold,
    /// Distance of the network header from the start.
    pub network_offset: usize,
    /// Free bytes before the packet's data.
    pub headroom: usize,
    /// Bucket of the packet.
    pub bucket: u16,
}

/// Element that keeps arriving packets for the test.
struct Collect(Arc<Kept>);

type Kept = Lock<Vec<Collected>>;

impl Element for Collect {
    const CONTRACT: Contract = Contract::new(
        "Collect",
        "//! Keeps what reaches it, for a test to look at.\n",
    )
    .ports(Ports::coded(&["in"], &[], "a"))
    .runs(Runs::AsTaskIfPull);

    type Config = Kept;

    fn configure(_: &mut Args) -> Kept {
        Lock::new(Vec::new())
    }

    fn new(kept: &Arc<Kept>, _: &Init) -> Collect {
        Collect(Arc::clone(kept))
    }

    fn process(&mut self, _: usize, batch: &mut Batch, _: &mut Cx) {
        let mut kept = self.0.lock();
        kept.extend(batch.drain().map(|packet| Collected {
            bytes: packet.data().to_vec(),
            anno: *packet.anno(),
            cold: *packet.cold(),
            network_offset: packet.network_offset(),
            headroom: packet.headroom(),
            bucket: packet.bucket(),
        }));
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let mut batch = cx.spare();
        let n = cx.pull(0, 32, &mut batch);
        self.process(0, &mut batch, cx);
        cx.keep_spare(batch);
        if n > 0 { Did::Work } else { cx.idle_result(0) }
    }
}

/// Packets that reached a `Collect` element on any worker since the last call, in order of arrival.
pub fn collected(plan: &Plan, element: &str) -> Vec<Collected> {
    let kept = plan.find(element).and_then(|node| {
        let config = Arc::clone(&plan.elements[node].config);
        config.downcast::<Kept>().ok()
    });
    let kept = kept.unwrap_or_else(|| panic!("there is no Collect `{element}`"));
    let mut kept = kept.lock();
    std::mem::take(&mut *kept)
}

/// Classes for tests only.
pub const TEST_CLASSES: &[Class] = &[Class::of::<Collect>()];

fn registry(lists: &[&'static [Class]]) -> Registry {
    let mut all = lists.to_vec();
    all.push(TEST_CLASSES);
    Registry::new(&all)
}

/// Makes a plan from text; the error is the output of `ashlar check`.
pub fn plan(
    lists: &[&'static [Class]],
    text: &str,
    workers: usize,
    ports: &dyn PortDirectory,
    previous: Option<&Plan>,
) -> Result<Arc<Plan>, String> {
    make(
        &registry(lists),
        text,
        Options {
            previous,
            ..Options::new(workers, ports)
        },
    )
}

/// Like [`plan`] for a first start, with fused loops.
pub fn plan_fused(
    lists: &[&'static [Class]],
    loops: &'static [FusedLoop],
    text: &str,
    workers: usize,
    ports: &dyn PortDirectory,
) -> Result<Arc<Plan>, String> {
    make(
        &registry(lists).with_fused_loops(loops),
        text,
        Options::new(workers, ports),
    )
}

fn make(registry: &Registry, text: &str, options: Options) -> Result<Arc<Plan>, String> {
    let mut map = lang::SourceMap::new();
    let file = map.add("test.click", text);
    let (router, mut errors) = lang::parse(&mut map, file, &[]);
    let (plan, more) = planner::compile(&router, registry, &options);
    errors.extend(more);
    lang::sort(&mut errors);
    match plan {
        Some(plan) if !errors.iter().any(lang::Diagnostic::is_error) => Ok(plan),
        _ => Err(lang::render_all(&errors, &map)),
    }
}

/// Errors of a configuration that should be refused. Panics if it is accepted.
pub fn errors(lists: &[&'static [Class]], text: &str) -> String {
    match plan(lists, text, 1, &NoPorts, None) {
        Ok(_) => panic!("this configuration should be refused:\n{text}"),
        Err(errors) => errors,
    }
}

/// Records output of scripts and messages, for tests.
#[derive(Default)]
struct Recorder {
    printed: Lock<String>,
    said: Lock<String>,
}

fn keep(all: &Lock<String>, text: &str) {
    let mut all = all.lock();
    all.push_str(text);
}

fn taken(all: &Lock<String>) -> String {
    std::mem::take(&mut *all.lock())
}

impl Root for Recorder {
    fn has_handler(&self, name: &str, wanted: Use) -> bool {
        Plain.has_handler(name, wanted)
    }

    fn read(&self, name: &str, argument: &str, outside: &mut JobCx) -> Result<String, String> {
        Plain.read(name, argument, outside)
    }

    fn write(&self, name: &str, value: &str, outside: &mut JobCx) -> Result<String, String> {
        Plain.write(name, value, outside)
    }

    fn print(&self, text: &str) {
        keep(&self.printed, text);
    }

    fn say(&self, line: &str) {
        keep(&self.said, line);
        keep(&self.said, "\n");
    }
}

/// A router on the calling thread with virtual time.
pub struct Bench {
    /// The router's graph; `None` only while it is being swapped.
    graph: Option<Graph>,
    lists: Vec<&'static [Class]>,
    ports: Arc<dyn PortDirectory>,
    recorder: Arc<Recorder>,
    as_click: bool,
}

impl Bench {
    /// Builds a router that moves batches. Panics with the rendered errors if the text is refused.
    pub fn new(lists: &[&'static [Class]], text: &str) -> Bench {
        Bench::with(lists, text, Walker::Sweep, Arc::new(NoPorts))
    }

    /// Builds a router that moves one packet at a time, as Click does.
    pub fn strict(lists: &[&'static [Class]], text: &str) -> Bench {
        Bench::with(lists, text, Walker::Strict, Arc::new(NoPorts))
    }

    /// Builds a router in the manner of Click's user-level driver: one packet at a time, and elements behave as in
    /// Click.
    pub fn click(lists: &[&'static [Class]], text: &str) -> Bench {
        Bench::build(lists, text, Walker::Strict, Arc::new(NoPorts), true)
    }

    /// Builds a router with a walker and ports.
    pub fn with(
        lists: &[&'static [Class]],
        text: &str,
        walker: Walker,
        ports: Arc<dyn PortDirectory>,
    ) -> Bench {
        Bench::build(lists, text, walker, ports, false)
    }

    fn build(
        lists: &[&'static [Class]],
        text: &str,
        walker: Walker,
        ports: Arc<dyn PortDirectory>,
        as_click: bool,
    ) -> Bench {
        let plan =
            Bench::plan(lists, text, (&*ports, as_click), None).unwrap_or_else(|e| panic!("{e}"));
        let graph = single(
            &plan,
            Arc::clone(&ports),
            walker,
            Clock::at(Time(1_000_000_000)),
            7,
        );
        let mut graph = graph.unwrap_or_else(|e| panic!("{e}"));
        let recorder = Arc::new(Recorder::default());
        let root: Arc<dyn Root> = recorder.clone();
        graph.set_root(root);
        Bench {
            graph: Some(graph),
            lists: lists.to_vec(),
            ports,
            recorder,
            as_click,
        }
    }

    /// A plan whose inputs may stay open: the test injects packets there.
    fn plan(
        lists: &[&'static [Class]],
        text: &str,
        (ports, as_click): (&dyn PortDirectory, bool),
        previous: Option<&Plan>,
    ) -> Result<Arc<Plan>, String> {
        make(
            &registry(lists),
            text,
            Options {
                open_inputs: true,
                as_click,
                previous,
                ..Options::new(1, ports)
            },
        )
    }

    /// The graph between two turns, as a worker sees it. It counts as having passed a quiescent point, so tables that
    /// tests have replaced need not wait for it.
    pub fn graph(&mut self) -> &mut Graph {
        let graph = self.graph.as_mut();
        let graph = graph.expect("there is a graph but within reload");
        graph.quiescent();
        graph
    }

    fn running(&self) -> &Graph {
        self.graph
            .as_ref()
            .expect("there is a graph but within reload")
    }

    fn node(&self, name: &str) -> usize {
        self.running()
            .plan()
            .find(name)
            .unwrap_or_else(|| panic!("there is no element `{name}`"))
    }

    /// Injects packets at input 0 of an element, as one batch.
    pub fn push<B: AsRef<[u8]>>(&mut self, element: &str, packets: &[B]) {
        self.push_at(element, 0, packets);
    }

    /// Injects packets at an input of an element, as one batch.
    pub fn push_at<B: AsRef<[u8]>>(&mut self, element: &str, input: usize, packets: &[B]) {
        let made = packets
            .iter()
            .map(|p| Packet::from_bytes(p.as_ref()).expect("a test's packet fits the pool"));
        self.push_packets(element, input, made.collect());
    }

    /// Injects prepared packets.
    pub fn push_packets(&mut self, element: &str, input: usize, mut batch: Batch) {
        let node = self.node(element);
        self.graph().inject(node, input, &mut batch);
    }

    /// Runs turns until nothing moves at the present time.
    pub fn run(&mut self) {
        let mut rests = 0;
        for _ in 0..1_000_000 {
            let worked = self.graph().turn();
            // An element that receives a stop request may create work.
            rests = if worked { 0 } else { rests + 1 };
            if self.graph().stopped() || rests == 2 {
                return;
            }
        }
        panic!("the router does not come to rest");
    }

    /// The value of type `T` that the router's elements share.
    pub fn router_wide<T: Default + Send + Sync + 'static>(&mut self) -> Arc<T> {
        self.running().plan().router_wide()
    }

    /// Advances time, stopping at every timer on the way.
    pub fn advance(&mut self, by: Duration) {
        self.graph().start();
        let end = self.graph().now() + by;
        loop {
            let next = self
                .graph()
                .next_timer()
                .filter(|&at| at <= end)
                .unwrap_or(end);
            let at = next.max(self.running().now());
            self.graph().set_time(at);
            self.run();
            if next >= end {
                return;
            }
        }
    }

    /// Advances time without running anything.
    pub fn oversleep(&mut self, by: Duration) {
        let at = self.graph().now() + by;
        self.graph().set_time(at);
        self.run();
    }

    /// Packets that reached a `Collect` element since the last call, in order.
    pub fn take_packets(&mut self, element: &str) -> Vec<Collected> {
        collected(self.running().plan(), element)
    }

    /// Bytes of the packets that reached a `Collect` element since the last call, in order.
    pub fn take(&mut self, element: &str) -> Vec<Vec<u8>> {
        self.take_packets(element)
            .into_iter()
            .map(|c| c.bytes)
            .collect()
    }

    /// Output of scripts since the last call.
    pub fn printed(&mut self) -> String {
        taken(&self.recorder.printed)
    }

    /// Messages for the user since the last call.
    pub fn messages(&mut self) -> String {
        taken(&self.recorder.said)
    }

    /// Reads `element.handler`; panics with the error.
    pub fn read(&mut self, path: &str) -> String {
        self.try_read(path, "")
            .unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Reads `element.handler` with an argument.
    pub fn try_read(&mut self, path: &str, argument: &str) -> Result<String, String> {
        let graph = self.graph();
        let answer = graph.job(|cx| cx.read(path, argument));
        answer.map_err(|e| e.to_string())
    }

    /// Writes `element.handler`; panics with the error.
    pub fn write(&mut self, path: &str, value: &str) {
        self.try_write(path, value)
            .unwrap_or_else(|e| panic!("{path}: {e}"));
    }

    /// Writes `element.handler`.
    pub fn try_write(&mut self, path: &str, value: &str) -> Result<String, String> {
        let graph = self.graph();
        let answer = graph.job(|cx| cx.write(path, value));
        answer.map_err(|e| e.to_string())
    }

    /// Packets that an element dropped under a name.
    pub fn drops(&self, element: &str, name: &str) -> u64 {
        let node = self.node(element);
        let names = engine::stats::drop_names(&self.running().plan().elements[node]);
        let at = names
            .iter()
            .position(|n| n == name)
            .unwrap_or_else(|| panic!("`{element}` drops under {names:?}"));
        self.running().stats()[node].drops[at]
    }

    /// Numbers of dropped packets by element and name, without zeros.
    pub fn all_drops(&self) -> Vec<(String, String, u64)> {
        let graph = self.running();
        engine::stats::drops(graph.plan(), graph.stats())
            .map(|(element, name, count)| (element.to_owned(), name, count))
            .collect()
    }

    /// Hot swap to another configuration. The error is the output of `ashlar reload`; then nothing has changed.
    pub fn reload(&mut self, text: &str) -> Result<(), String> {
        let next = Bench::plan(
            &self.lists,
            text,
            (&*self.ports, self.as_click),
            Some(self.running().plan()),
        )?;
        let site = self.running().build_context(Arc::clone(&self.ports));
        self.graph = self.graph.take().map(|graph| graph.swap(&next, &site));
        Ok(())
    }
}
