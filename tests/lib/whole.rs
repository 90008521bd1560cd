//! A whole router on in-memory ports and virtual time, on the caller's thread.

use crate::books::{Account, Books, Law};
use control::{Compiled, Source};
use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::handler::Use;
use engine::plan::Plan;
use engine::port::{OpenPort, Port, PortDirectory, PortInfo, PortRequest};
use planner::{Options, Registry};
use ports::Directory;
use ports::memory::Memory;
use router::Router;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Registry of Ashlar's classes and those of tests.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> =
        LazyLock::new(|| classes::registry().with_classes(&[testkit::TEST_CLASSES]));
    &REGISTRY
}

/// A file of the folder of ready configurations.
pub fn conf(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conf");
    folder.join(name)
}

/// Ports within the process: a device of any name is in memory, but `PORT.ID` is a VLAN.
#[derive(Default)]
pub struct InMemory(Directory);

impl InMemory {
    fn inside(name: &str) -> String {
        format!("mem:{name}")
    }

    /// The far end of a device.
    pub fn far(&self, name: &str) -> Memory {
        self.0.memory(name)
    }
}

impl PortDirectory for InMemory {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        if name.contains('.') && !name.contains(':') {
            return Err("a VLAN is no device of its own".to_owned());
        }
        self.0.probe(&InMemory::inside(name))
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        self.0.open(&InMemory::inside(name), request)
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        self.0.get(&InMemory::inside(name))
    }

    fn names(&self) -> Vec<String> {
        let names = self.0.names().into_iter();
        names
            .map(|n| n.trim_start_matches("mem:").to_owned())
            .collect()
    }

    fn close(&self, name: &str) {
        self.0.close(&InMemory::inside(name));
    }
}

/// A text with definitions as on the command line. Libraries that it requires are looked up beside `path`.
fn source(text: &str, path: Option<PathBuf>, definitions: &[(&str, &str)]) -> Source {
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    Source {
        name: "test.click".to_owned(),
        path,
        text: text.into(),
        definitions: definitions.iter().map(own).collect(),
        ..Source::default()
    }
}

/// Reads and plans a text, with definitions as on the command line.
pub(crate) fn read(
    registry: &Registry,
    text: &str,
    definitions: &[(&str, &str)],
    options: &Options,
) -> Compiled {
    control::compile(&source(text, None, definitions), registry, options)
}

/// A text's plan, with definitions as on the command line. Panics with the mistakes if it is refused.
pub fn plan(
    text: &str,
    definitions: &[(&str, &str)],
    workers: usize,
    ports: &dyn PortDirectory,
    previous: Option<&Plan>,
) -> Arc<Plan> {
    let options = Options {
        previous,
        ..Options::new(workers, ports)
    };
    plan_with(registry(), text, definitions, &options)
}

/// Like [`plan`], with other classes or options.
pub fn plan_with(
    registry: &Registry,
    text: &str,
    definitions: &[(&str, &str)],
    options: &Options,
) -> Arc<Plan> {
    plan_source(registry, &source(text, None, definitions), options)
}

/// A source's plan. Panics with the mistakes if it is refused.
fn plan_source(registry: &Registry, source: &Source, options: &Options) -> Arc<Plan> {
    let compiled = control::compile(source, registry, options);
    let text = compiled.text();
    compiled.plan.unwrap_or_else(|| panic!("{text}"))
}

/// Runs a plan on threads that sleep and wake as those of `ashlar run`.
pub fn run(plan: &Arc<Plan>, ports: Arc<dyn PortDirectory>) -> Router {
    let router = Router::start(plan, ports, &ports::waiter::of_worker, 1);
    router.unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a text on threads, with the ports of a new process.
pub fn start(text: &str, workers: usize) -> (Router, Arc<Directory>) {
    let ports = Arc::new(Directory::new());
    let plan = plan(text, &[], workers, &*ports, None);
    (run(&plan, Arc::clone(&ports) as _), ports)
}

/// The configuration of the project's router.
pub fn router_text() -> String {
    let file = conf("ip-router.click");
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Handlers of the project's router, and the values written to them: each device has half of the address space.
const ROUTES: [(&str, &str); 8] = [
    ("rt4.add", "0.0.0.0/0 10.0.2.254 2"),
    ("rt4.add", "10.0.0.0/8 10.0.1.254 1"),
    ("rt6.add", "::/0 fd00:2::254 2"),
    ("rt6.add", "2001:db8:1::/48 fd00:1::254 1"),
    ("i0/arp.insert", "10.0.1.254 02:00:00:00:01:00"),
    ("i1/arp.insert", "10.0.2.254 02:00:00:00:01:01"),
    ("i0/nd6.insert", "fd00:1::254 02:00:00:00:01:00"),
    ("i1/nd6.insert", "fd00:2::254 02:00:00:00:01:01"),
];

/// A router, the far ends of its ports, and a count of injected packets.
pub struct Whole {
    graph: Graph,
    ports: Arc<InMemory>,
    /// Far ends by name of the device.
    far: Vec<Memory>,
    /// Far ends of the devices that the router receives from.
    receives: Vec<Memory>,
    let_in: Vec<u64>,
    injected: u64,
    sent: u64,
}

impl Whole {
    /// Builds a router; `definitions` are as on the command line. Panics with the mistakes if the
    /// text is refused.
    pub fn new(text: &str, definitions: &[(&str, &str)], walker: Walker) -> Whole {
        Whole::with_ports(text, definitions, walker, |_| ())
    }

    /// Like [`new`](Self::new), after `prepare` has seen the ports.
    pub fn with_ports(
        text: &str,
        definitions: &[(&str, &str)],
        walker: Walker,
        prepare: impl FnOnce(&InMemory),
    ) -> Whole {
        Whole::of_source(&source(text, None, definitions), walker, prepare)
    }

    /// Like [`new`](Self::new), for a text that stands in a file of the folder of ready configurations, or could:
    /// libraries are looked up beside it.
    pub fn of_file(file: &Path, text: &str, definitions: &[(&str, &str)], walker: Walker) -> Whole {
        let source = source(text, Some(file.to_owned()), definitions);
        Whole::of_source(&source, walker, |_| ())
    }

    fn of_source(source: &Source, walker: Walker, prepare: impl FnOnce(&InMemory)) -> Whole {
        let ports = Arc::new(InMemory::default());
        prepare(&ports);
        let options = Options {
            open_inputs: true,
            ..Options::new(1, &*ports)
        };
        let plan = plan_source(registry(), source, &options);
        let mut devices: Vec<_> = plan.devices.iter().collect();
        devices.sort_by_key(|d| &d.name);
        let far = devices.iter().map(|d| ports.far(&d.name)).collect();
        let receives = devices.iter().filter(|d| d.request.rx_queues > 0);
        let receives = receives.map(|d| ports.far(&d.name)).collect();
        let clock = Clock::at(Time(1_000_000_000));
        let graph = single(&plan, Arc::clone(&ports) as _, walker, clock, 7);
        let graph = graph.unwrap_or_else(|e| panic!("{e}"));
        let let_in = vec![0; plan.elements.len()];
        let mut whole = Whole {
            graph,
            ports,
            far,
            receives,
            let_in,
            injected: 0,
            sent: 0,
        };
        whole.settle();
        whole
    }

    /// The project's router, with routes for all addresses and permanent gateways.
    pub fn router(walker: Walker) -> Whole {
        let mut router = Whole::new(&router_text(), &[], walker);
        for (path, value) in ROUTES {
            router.handler(path, value);
        }
        router
    }

    /// The router after its configuration was replaced by another with the same elements and devices, or with further
    /// elements after them.
    pub fn reload(mut self, text: &str, definitions: &[(&str, &str)]) -> Whole {
        let options = Options {
            previous: Some(self.graph.plan()),
            open_inputs: true,
            ..Options::new(1, &*self.ports)
        };
        let plan = plan_with(registry(), text, definitions, &options);
        let site = self.graph.build_context(Arc::clone(&self.ports) as _);
        self.let_in.resize(plan.elements.len(), 0);
        self.graph = self.graph.swap(&plan, &site);
        self.settle();
        self
    }

    /// The value of type `T` that the router's elements share.
    pub fn router_wide<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.graph.plan().router_wide()
    }

    /// Runs a handler, as `ashlar set` and `show` do. Panics if it is refused.
    pub fn handler(&mut self, path: &str, value: &str) -> String {
        self.try_handler(path, value)
            .unwrap_or_else(|e| panic!("{path} {value}: {e}"))
    }

    /// Like [`handler`](Self::handler).
    ///
    /// # Errors
    /// Runs a handler; the error is the text of the refusal.
    pub fn try_handler(&mut self, path: &str, value: &str) -> Result<String, String> {
        let done = self.graph.job(|cx| {
            let found = cx.find(path, Use::Write);
            match found {
                Ok(_) => cx.write(path, value),
                Err(_) => cx.read(path, value),
            }
        });
        done.map_err(|e| e.to_string())
    }

    /// The graph.
    pub fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Gives frames to a device that the router receives from, numbered by name, modulo the number of devices. It
    /// gives as many as the ring takes before the router runs; none without such devices.
    pub fn receive<'a>(&mut self, device: usize, frames: impl IntoIterator<Item = &'a [u8]>) {
        if !self.receives.is_empty() {
            let far = &self.receives[device % self.receives.len()];
            self.injected += far.inject_all(0, frames) as u64;
        }
    }

    /// Like [`receive`](Self::receive), for a super-frame: see [`Memory::inject_super_frame`].
    pub fn receive_super_frame(&mut self, device: usize, frame: &[u8], segment: u16) {
        let far = &self.receives[device % self.receives.len()];
        self.injected += u64::from(far.inject_super_frame(0, frame, segment));
    }

    /// The far end of a device, numbered by name.
    pub fn far(&self, device: usize) -> Memory {
        self.far[device].clone()
    }

    /// Frames given to devices so far.
    pub fn injected(&self) -> u64 {
        self.injected
    }

    /// Injects packets at an element's input 0, not by a port.
    pub fn push(&mut self, element: &str, mut batch: engine::packet::Batch) {
        let node = self.graph.plan().find(element);
        let node = node.unwrap_or_else(|| panic!("there is no element `{element}`"));
        self.let_in[node] += batch.len() as u64;
        self.graph.inject(node, 0, &mut batch);
    }

    /// Runs turns until nothing more happens at this time.
    pub fn settle(&mut self) {
        // A worker calls this between turns: no test waits until this one frees what it has replaced.
        self.graph.quiescent();
        let mut still = 0;
        for _ in 0..1_000_000 {
            still = if self.graph.turn() { 0 } else { still + 1 };
            if still == 2 || self.graph.stopped() {
                return;
            }
        }
        panic!("the router does not come to rest");
    }

    /// Advances the time, stopping at every timer.
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

    /// Frames that a device, numbered by name, has sent since the last call, in order.
    pub fn sent(&mut self, device: usize) -> Vec<Vec<u8>> {
        let sent = self.far[device].collect();
        self.sent += sent.len() as u64;
        sent.into_iter().map(|sent| sent.frame).collect()
    }

    /// Frames that devices have sent so far.
    pub fn sent_so_far(&mut self) -> u64 {
        for device in 0..self.far.len() {
            self.sent(device);
        }
        self.sent
    }

    /// Checks the packet accounts of every element and of devices: injected packets have come in, and packets that
    /// elements sent have left. Returns the accounts.
    #[track_caller]
    pub fn check(&mut self) -> Books {
        let books = self.books();
        books.check();
        let of_class = |name: &'static str| {
            let accounts = books.accounts.iter();
            accounts.filter(move |a| a.class.starts_with(name) && a.class.ends_with("Device"))
        };
        let trading = || books.accounts.iter().filter(|a| a.law == Law::Trades);
        let came: u64 = of_class("From").map(|a| a.left + a.dropped()).sum();
        let came = came + trading().map(|a| a.made).sum::<u64>();
        let refused = self.far.iter().flat_map(|far| far.counters());
        let refused: u64 = refused.filter(|c| c.0 == "too_long").map(|c| c.2).sum();
        assert_eq!(came + refused, self.injected, "what devices were handed");
        let ended: u64 = of_class("To").map(Account::ended).sum();
        let ended = ended + trading().map(|a| a.sent).sum::<u64>();
        assert_eq!(ended, self.sent_so_far(), "what devices sent");
        books
    }

    /// The books now.
    pub fn books(&self) -> Books {
        Books::of(&self.graph, &self.let_in)
    }
}
