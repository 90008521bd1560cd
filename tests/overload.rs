//! Effects of a router's neighbours, in simulated time. The worker's scheduler, the shared port and the routers are
//! the real ones; time passes only where a packet has a cost. Packets arrive while others are processed, and those
//! without room in the port are lost, as on a card (VR5, Figures 17 and 18 of Virtual Routers).

use engine::clock::{Clock, Time};
use engine::element::Class;
use engine::graph::peers::Peers;
use engine::graph::root::Plain;
use engine::graph::{BuildContext, Walker};
use engine::packet::Packet;
use engine::plan::Plan;
use engine::prelude::{Args, Contract, Cx, Element, Init, Ports, Verdict};
use engine::publish;
use engine::wake::Wakers;
use ports::Directory;
use ports::memory::Memory;
use ports::shared_port::{ShareOf, SharedPorts};
use router::worker::share::{AHEAD, IN_LINE, Share};
use router::worker::{AddedRouter, Progress, Routers};
use router_tests::shared::{self, count, frame, number, vlan};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Cost in nanoseconds of reading a header, of a router's work on a packet, and of a turn without a packet.
const LOOK: u64 = 4;
const WORK: u64 = 96;
const TURN: u64 = 40;
/// Upper limit for a turn of the worker with packets, in nanoseconds.
const BUSY_TURN: u64 = 8_000;
/// Maximum number of frames that wait in the port.
const RING: usize = 1024;
/// Simulated time of a run, and when measuring begins.
const END: u64 = 5_000_000;
const BEGIN: u64 = 1_000_000;
const RED: u16 = 100;
const BLUE: u16 = 200;

/// Packets that arrive for one router.
struct Flow {
    vlan: u16,
    /// Port of the flow.
    wire: Memory,
    /// Nanoseconds from one to the next.
    gap: f64,
    /// Arrival times, in nanoseconds.
    arrivals: Vec<u64>,
    lost_in_port: u64,
}

/// Sources of packets.
struct World(Vec<Flow>);

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

impl World {
    /// Makes all packets until now arrive. Returns the time of the next packet.
    fn arrive(&mut self, now: u64) -> u64 {
        let due = |flow: &Flow| (flow.arrivals.len() as f64 * flow.gap) as u64;
        loop {
            let next = self.0.iter_mut().min_by_key(|flow| due(flow));
            let flow = next.expect("there are flows");
            let at = due(flow);
            if at > now {
                return at;
            }
            let frame = frame(flow.vlan, flow.arrivals.len() as u32);
            flow.lost_in_port += u64::from(!flow.wire.inject(0, &frame) && at >= BEGIN);
            flow.arrivals.push(at);
        }
    }
}

/// Element that costs this number of nanoseconds per packet, during which others arrive.
struct Cost(u64);

impl Element for Cost {
    const CONTRACT: Contract = Contract::new("Cost", "")
        .ports(Ports::new(&["in"], &["out"]))
        .ignores_annotations();

    type Config = u64;

    fn configure(args: &mut Args) -> u64 {
        args.required("NS", "what a packet costs")
    }

    fn new(cost: &Arc<u64>, _: &Init) -> Cost {
        Cost(**cost)
    }

    fn step(&mut self, _: &mut Packet, cx: &mut Cx) -> Verdict {
        cx.block(Duration::from_nanos(self.0));
        let now = cx.now();
        WORLD.with_borrow_mut(|world| world.as_mut().map(|world| world.arrive(now.0)));
        Verdict::ON
    }
}

static CLASSES: &[Class] = &[Class::of::<Cost>()];

/// A router on the simulated worker.
struct On {
    number: u64,
    plan: Arc<Plan>,
    ports: Arc<Directory>,
}

/// A worker in simulated time.
struct Simulated {
    clock: Clock,
    wakers: Arc<Wakers>,
    directory: Directory,
    routers: Routers,
    count: u64,
}

impl Simulated {
    fn new(shares: Vec<ShareOf>) -> Simulated {
        let shared_ports = SharedPorts::new(1);
        shared_ports.commit(&shared::port(shares));
        let wakers = Arc::new(Wakers::none(1));
        let reader = publish::register().expect("there is room for a reader");
        Simulated {
            clock: Clock::at(Time(0)),
            directory: Directory::new().with_shared_ports(Arc::new(shared_ports)),
            routers: Routers::new(reader, 0, Arc::clone(&wakers)),
            wakers,
            count: 0,
        }
    }

    fn plan(ports: &Directory, text: &str, previous: Option<&Plan>) -> Arc<Plan> {
        let classes: Vec<_> = classes::all().iter().copied().chain([CLASSES]).collect();
        let plan = testkit::plan(&classes, text, 1, ports, previous);
        plan.unwrap_or_else(|e| panic!("{e}"))
    }

    fn add(&mut self, name: &str, text: &str, tickets: u32, priority: u8) -> On {
        let ports = Arc::new(self.directory.of_router(name, None));
        let plan = Simulated::plan(&ports, text, None);
        plan.open_devices(&*ports).expect("its ports open");
        self.count += 1;
        let site = BuildContext {
            worker: 0,
            walker: Walker::Sweep,
            clock: self.clock.clone(),
            ports: Arc::clone(&ports) as _,
            wakers: Arc::new(self.wakers.for_router(self.count)),
            seed: 1.into(),
            root: Arc::new(Plain),
            peers: Peers::new(1),
        };
        let arrival = AddedRouter {
            router: self.count,
            plan: Arc::clone(&plan),
            site,
            share: Share {
                tickets,
                priority,
                ..Share::default()
            },
            progress: Arc::new(Progress::default()),
        };
        self.routers.change(|routers| routers.add(arrival));
        On {
            number: self.count,
            plan,
            ports,
        }
    }

    /// Runs while these ports get a packet at each interval, in nanoseconds. Calls `each` before each turn.
    fn run(
        &mut self,
        flows: [(u16, &Memory, f64); 2],
        mut each: impl FnMut(&mut Routers, Time),
    ) -> Seen {
        let wires = [flows[0].1, flows[1].1];
        wires.iter().for_each(|wire| wire.limit(RING, usize::MAX));
        let flow = |(vlan, wire, gap): (u16, &Memory, f64)| Flow {
            vlan,
            wire: wire.clone(),
            gap,
            arrivals: Vec::new(),
            lost_in_port: 0,
        };
        WORLD.set(Some(World(flows.map(flow).into())));
        let (mut seen, mut last) = (Seen::default(), (0, false));
        while self.clock.now().0 < END {
            let now = self.clock.now();
            let next = WORLD.with_borrow_mut(|world| world.as_mut().map(|w| w.arrive(now.0)));
            each(&mut self.routers, now);
            let worked = self.routers.turn(&self.clock, now, last);
            let mut end = self.clock.now();
            if end == now {
                let idle = now + Duration::from_nanos(TURN);
                end = if worked {
                    idle
                } else {
                    idle.max(Time(next.unwrap_or(0)))
                };
                self.clock.set(end);
            }
            last = (end.since(now).as_nanos() as u64, worked);
            let sent = wires.map(Memory::collect).into_iter().flatten();
            WORLD.with_borrow(|world| {
                let flows = &world.as_ref().expect("it was made").0;
                for sent in sent.filter(|_| now.0 >= BEGIN) {
                    let at = usize::from(vlan(&sent.frame) != flows[0].vlan);
                    let arrival = flows[at].arrivals[number(&sent.frame) as usize];
                    seen.delays[at].push(end.0 - arrival);
                }
            });
        }
        seen.delays
            .iter_mut()
            .for_each(|delays| delays.sort_unstable());
        let world = WORLD.take().expect("it was made");
        seen.lost_in_port = world.0[0].lost_in_port;
        seen
    }
}

/// Observations of a run.
#[derive(Default)]
struct Seen {
    /// Delays of the packets of red and of blue in nanoseconds, sorted.
    delays: [Vec<u64>; 2],
    /// Red's packets that had no room in the port.
    lost_in_port: u64,
}

impl Seen {
    /// 95th percentile of the delays of red's packets.
    fn p95(&self) -> u64 {
        let red = &self.delays[0];
        red[red.len() * 95 / 100]
    }

    /// Forwarded packets, relative to the worker's capacity without the reading of headers.
    fn parts(&self) -> [f64; 2] {
        let part = |delays: &Vec<u64>| (delays.len() as u64 * WORK) as f64 / (END - BEGIN) as f64;
        [part(&self.delays[0]), part(&self.delays[1])]
    }
}

/// Kind of device that divides a port among routers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scheme {
    /// By its router, with this priority.
    Software(u8),
    /// By hardware queues: each router has its own, here a port.
    Hardware,
}

impl Scheme {
    /// Name for programs that read the table.
    fn name(self) -> &'static str {
        match self {
            Scheme::Software(IN_LINE) => "inline",
            Scheme::Software(_) => "queues",
            Scheme::Hardware => "hardware",
        }
    }
}

/// A router with this cost per packet.
fn forwards(port: &str, cost: u64) -> String {
    format!("FromDevice({port}) -> Cost({cost}) -> ToDevice({port})")
}

/// Two routers with two tickets and one, offered 40 and 60 % of `offered` times the worker's capacity.
fn two_to_one(scheme: Scheme, offered: f64) -> [f64; 2] {
    let shares = [("red", RED), ("blue", BLUE)].map(|(name, vlan)| ShareOf {
        queue: 512,
        ..shared::share(name, vlan)
    });
    let mut worker = Simulated::new(shares.into());
    let devices = match scheme {
        Scheme::Software(_) => ["wan", "wan"],
        Scheme::Hardware => ["mem:r", "mem:b"],
    };
    let port = match scheme {
        Scheme::Software(priority) => Some(worker.add("wan", &looks(), 1, priority)),
        Scheme::Hardware => None,
    };
    let red = worker.add("red", &forwards(devices[0], WORK), 2, 0);
    let blue = worker.add("blue", &forwards(devices[1], WORK), 1, 0);
    let wires = match &port {
        Some(port) => [port.ports.memory("x"), port.ports.memory("x")],
        None => [red.ports.memory("r"), blue.ports.memory("b")],
    };
    let gap = |part: f64| WORK as f64 / (part * offered);
    let flows = [(RED, &wires[0], gap(0.4)), (BLUE, &wires[1], gap(0.6))];
    worker.run(flows, |_, _| ()).parts()
}

/// The port's router.
fn looks() -> String {
    let look = format!("-> Cost({LOOK}) -> ToDevice(shares");
    shared::PORT.replace("-> ToDevice(shares", &look)
}

/// Greatest deviation of the two from the ideal, over loads from half to three times the worker's capacity. Adds a
/// line to the table for each, which eval/routers/run reads: scheme, load, both rates, and both ideal rates.
fn error(scheme: Scheme, table: &mut String) -> f64 {
    let each = [0.5, 0.9, 1.1, 1.5, 2.0, 3.0].map(|offered| {
        let looks = match scheme {
            Scheme::Software(_) => offered * LOOK as f64 / WORK as f64,
            Scheme::Hardware => 0.0,
        };
        let (high, low, can) = (0.4 * offered, 0.6 * offered, 1.0 - looks);
        let its = high.min((can * 2.0 / 3.0).max(can - low));
        let ideal = [its, low.min(can - its)];
        let is = two_to_one(scheme, offered);
        let _ = writeln!(
            table,
            "shares {} {offered} {:.4} {:.4} {:.4} {:.4}",
            scheme.name(),
            is[0],
            is[1],
            ideal[0],
            ideal[1]
        );
        let errors = is.iter().zip(ideal).map(|(is, ideal)| (is - ideal).abs());
        errors.fold(0.0, f64::max)
    });
    each.into_iter().fold(0.0, f64::max)
}

#[test]
fn queues_hold_two_to_one_whatever_is_offered_and_a_port_in_line_does_not() {
    let mut table = String::new();
    let schemes = [AHEAD, IN_LINE].map(Scheme::Software);
    let [queues, inline, hardware] =
        [schemes[0], schemes[1], Scheme::Hardware].map(|scheme| error(scheme, &mut table));
    print!("{table}");
    assert!(queues <= 0.01, "{queues}");
    assert!(hardware <= 0.01, "{hardware}");
    // Forwarded packets follow the offered ones, as in the paper.
    assert!(inline > 0.2, "{inline}");
    let [high, low] = two_to_one(Scheme::Software(IN_LINE), 3.0);
    assert!((high / low - 2.0 / 3.0).abs() < 0.02, "{high} {low}");
}

/// Observations of red at 30 % of the worker's capacity, while blue runs `graph` and gets a packet at each interval.
fn beside(graph: &str, gap: f64, each: impl FnMut(&mut Routers, &On, Time)) -> Seen {
    let mut each = each;
    let shares = vec![shared::share("red", RED), shared::share("blue", BLUE)];
    let mut worker = Simulated::new(shares);
    let port = worker.add("wan", &looks(), 1, AHEAD);
    let red = worker.add("red", &forwards("wan", WORK), 1, 0);
    let blue = worker.add("blue", graph, 1, 0);
    let wire = port.ports.memory("x");
    let flows = [(RED, &wire, WORK as f64 / 0.3), (BLUE, &wire, gap)];
    let seen = worker.run(flows, |routers, now| each(routers, &blue, now));
    assert_eq!(
        (seen.lost_in_port, count(&red.ports, "wan", "rx_full")),
        (0, 0),
        "{graph}"
    );
    seen
}

#[test]
fn a_neighbours_overload_costs_neither_packets_nor_more_than_turns() {
    // Its share is half of the worker; then ten times that.
    let (fair, ten) = (2.0 * WORK as f64, 0.2 * WORK as f64);
    let alone = beside(&forwards("wan", WORK), 1e9, |_, _, _| ());
    let unknown = "FromDevice(wan) -> Cost(96) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.0.0.9) -> q :: \
         ARPQuerier(10.0.0.1, 02:00:00:00:00:05) -> ToDevice(wan); Idle -> [1] q";
    let neighbours = [
        ("within its share", forwards("wan", WORK), fair),
        (
            "all that red leaves",
            forwards("wan", WORK),
            WORK as f64 / 0.75,
        ),
        (
            "ten times its share of small packets",
            forwards("wan", WORK),
            ten,
        ),
        (
            "20,000 cycles a packet, of 2.5 GHz",
            forwards("wan", 8_000),
            ten,
        ),
        ("unknown neighbours", unknown.to_owned(), ten),
    ];
    for (what, graph, gap) in neighbours {
        let seen = beside(&graph, gap, |_, _, _| ());
        println!("{what}: parts {:.3?}, p95 {} ns", seen.parts(), seen.p95());
        let (is, ought) = (seen.delays[0].len(), alone.delays[0].len());
        // Packets under way at the end are no loss.
        assert!(is.abs_diff(ought) <= 64, "{what}: {is} of {ought}");
        // A packet waits for a turn of the neighbour and of the port, and for the packets before it.
        assert!(seen.p95() <= 2 * BUSY_TURN, "{what}: {}", seen.p95());
    }
}

#[test]
fn a_neighbours_reloads_in_a_loop_cost_no_packet() {
    let texts = ["", "Idle -> Discard;"].map(|more| more.to_owned() + &forwards("wan", WORK));
    let (mut next, mut reloads) = (BEGIN, 0);
    let seen = beside(&texts[0], 0.2 * WORK as f64, |routers, blue, now| {
        if now.0 >= next {
            next += 50_000;
            reloads += 1;
            let plan = Simulated::plan(&blue.ports, &texts[reloads % 2], Some(&blue.plan));
            routers.change(|routers| routers.with_router(blue.number, |local| local.swap(&plan)));
        }
    });
    assert!(reloads > 70, "{reloads}");
    assert!((seen.parts()[0] - 0.3).abs() < 0.002, "{:?}", seen.parts());
    assert!(seen.p95() <= 2 * BUSY_TURN, "{}", seen.p95());
}
