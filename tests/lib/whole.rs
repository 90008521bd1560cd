//! A whole router on in-memory ports and virtual time, on the caller's thread.

use crate::books::Books;
use engine::clock::{Clock, Time};
use engine::graph::{Graph, Walker};
use engine::plan::{self, Options, Plan, Registry};
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};
use engine::router::single;
use ports::Directory;
use ports::memory::{Memory, Sent};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// All of Ashlar's classes and those that only tests have.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut all = elements::CLASSES.to_vec();
        all.push(testkit::TEST_CLASSES);
        Registry::new(&all)
    });
    &REGISTRY
}

/// A file of the folder of ready configurations.
pub fn conf(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conf");
    folder.join(name)
}

/// Ports of a process that may open nothing outside it: only `mem:` and `null:`.
struct InMemory(Directory);

impl InMemory {
    fn allow(name: &str) -> Result<(), String> {
        match name.starts_with("mem:") || name.starts_with("null:") {
            true => Ok(()),
            false => Err(format!("there is no device `{name}` in this test")),
        }
    }
}

impl PortDirectory for InMemory {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        InMemory::allow(name)?;
        self.0.probe(name)
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        InMemory::allow(name)?;
        self.0.open(name, request)
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        self.0.get(name)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn close(&self, name: &str) {
        self.0.close(name);
    }
}

/// What reading a configuration gave.
pub(crate) struct Planned {
    pub(crate) map: lang::SourceMap,
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) mistakes: Vec<lang::Diagnostic>,
}

/// Reads and plans a text, with definitions as on the command line.
pub(crate) fn read(
    text: &str,
    definitions: &[(&str, &str)],
    workers: usize,
    open_inputs: bool,
    ports: &dyn PortDirectory,
) -> Planned {
    let mut map = lang::SourceMap::new();
    let file = map.add("test.click", text);
    let definitions: Vec<(String, String)> = definitions
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let (router, mut mistakes) = lang::parse(&mut map, file, &definitions);
    let options = Options {
        workers,
        ports,
        devices_must_exist: true,
        open_inputs,
        previous: None,
    };
    let (plan, more) = plan::make(&router, registry(), &options);
    mistakes.extend(more);
    lang::sort(&mut mistakes);
    let refused = mistakes.iter().any(lang::Diagnostic::is_error);
    Planned {
        map,
        plan: plan.filter(|_| !refused),
        mistakes,
    }
}

/// Ports that a test may open.
pub(crate) fn in_memory() -> Arc<dyn PortDirectory> {
    Arc::new(InMemory(Directory::new()))
}

/// The configuration of the project's router, with its two devices named `mem:0` and `mem:1`.
///
/// Until the file is there, a small graph with a queue, copies and paint stands in.
pub fn router_text() -> String {
    std::fs::read_to_string(conf("ip-router.click")).unwrap_or_else(|_| SMALL.to_owned())
}

const SMALL: &str = "
    define($DEV0 mem:0, $DEV1 mem:1);
    FromDevice($DEV0) -> c0 :: Counter -> t :: Tee(2) -> Paint(1) -> q :: Queue(64)
        -> u :: Unqueue -> ToDevice($DEV1);
    t[1] -> Null -> q2 :: Queue(16) -> ToDevice(null:);
    FromDevice($DEV1) -> Counter -> Paint(2) -> Discard;
";

/// A router, the far ends of its ports, and what was let in.
pub struct Whole {
    graph: Graph,
    far: Vec<Memory>,
    let_in: Vec<u64>,
    injected: u64,
}

impl Whole {
    /// Builds a router whose devices are `mem:0` and so on; `definitions` are as on the command
    /// line. Panics with the mistakes if the text is refused.
    pub fn new(text: &str, definitions: &[(&str, &str)], walker: Walker) -> Whole {
        let directory = Directory::new();
        let far = (0..4).map(|i| directory.memory(&i.to_string())).collect();
        let ports: Arc<dyn PortDirectory> = Arc::new(InMemory(directory));
        let read = read(text, definitions, 1, true, &*ports);
        let Some(plan) = read.plan else {
            panic!("{}", lang::render_all(&read.mistakes, &read.map));
        };
        let clock = Clock::Virtual(Time(1_000_000_000));
        let graph = single(&plan, ports, walker, clock, 7).unwrap_or_else(|e| panic!("{e}"));
        let let_in = vec![0; plan.elements.len()];
        let mut whole = Whole {
            graph,
            far,
            let_in,
            injected: 0,
        };
        whole.settle();
        whole
    }

    /// The project's router on two in-memory ports.
    pub fn router(walker: Walker) -> Whole {
        let devices = [("DEV0", "mem:0"), ("DEV1", "mem:1")];
        Whole::new(&router_text(), &devices, walker)
    }

    /// The graph.
    pub fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Hands frames to a port, as many as its ring takes before the router runs.
    pub fn receive<'a>(&mut self, port: usize, frames: impl IntoIterator<Item = &'a [u8]>) {
        self.injected += self.far[port].inject_all(0, frames) as u64;
    }

    /// Frames that ports were handed so far.
    pub fn injected(&self) -> u64 {
        self.injected
    }

    /// Lets packets in at an element's input 0, not by a port.
    pub fn push(&mut self, element: &str, mut batch: engine::packet::Batch) {
        let node = self.graph.plan().find(element);
        let node = node.unwrap_or_else(|| panic!("there is no element `{element}`"));
        self.let_in[node] += batch.len() as u64;
        self.graph.inject(node, 0, &mut batch);
    }

    /// Takes turns until nothing moves at this time.
    pub fn settle(&mut self) {
        let mut still = 0;
        for _ in 0..1_000_000 {
            still = if self.graph.turn() { 0 } else { still + 1 };
            if still == 2 || self.graph.stopped() {
                return;
            }
        }
        panic!("the router does not come to rest");
    }

    /// Lets time pass, stopping at every timer on the way.
    pub fn advance(&mut self, by: Duration) {
        let end = self.graph.now() + by;
        loop {
            let next = self.graph.next_timer().filter(|&at| at <= end);
            let at = next.unwrap_or(end).max(self.graph.now());
            self.graph.set_time(at);
            self.settle();
            if next.is_none() {
                return;
            }
        }
    }

    /// Frames that a port has sent since the last look, in order.
    pub fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        let sent = self.far[port].collect().into_iter();
        sent.map(|Sent { frame, .. }| frame).collect()
    }

    /// The books now.
    pub fn books(&self) -> Books {
        Books::of(&self.graph, &self.let_in)
    }
}
