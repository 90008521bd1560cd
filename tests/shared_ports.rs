//! Routers that share a port: each gets its own packets, whatever arrives for its neighbours and whatever these do. A
//! router without work is not polled.

use ports::Directory;
use ports::memory::Memory;
use ports::shared_port::{LinkOf, ShareOf, SharedPorts, SharingSpec};
use router::worker::share::{AHEAD, IN_LINE, Share};
use router::{Router, Workers};
use router_tests::shared::{PORT, count, frame, number, port, share, vlan};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);
const BACK: &str = "FromDevice(wan) -> c :: Counter -> ToDevice(wan)";

/// A process of one worker with a shared port.
struct Process {
    workers: Arc<Workers>,
    directory: Directory,
}

impl Process {
    fn new(sharing: &SharingSpec) -> Process {
        let shared_ports = SharedPorts::new(1);
        shared_ports.commit(sharing);
        Process {
            workers: Workers::start(1, &ports::waiter::of_worker).expect("threads start"),
            directory: Directory::new().with_shared_ports(Arc::new(shared_ports)),
        }
    }

    fn add(&self, name: &str, text: &str, priority: u8) -> (Router, Arc<Directory>) {
        let ports = Arc::new(self.directory.of_router(name, None));
        let plan = testkit::plan(classes::all(), text, 1, &*ports, None);
        let plan = plan.unwrap_or_else(|e| panic!("{e}"));
        let share = Share {
            priority,
            ..Share::default()
        };
        let router = Router::start_on(&self.workers, &plan, Arc::clone(&ports) as _, share, 1);
        (router.unwrap_or_else(|e| panic!("{e}")), ports)
    }
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// Sends red's frames one by one, each among many of blue's, and waits until each returns. Calls `between` before
/// each.
fn red_among_blue(wire: &Memory, rounds: u32, blue: u32, mut between: impl FnMut(u32)) -> u64 {
    let mut sent = 0;
    for round in 0..rounds {
        between(round);
        let frames = (0..blue).map(|n| frame(200, n));
        let frames: Vec<_> = frames.chain([frame(100, round)]).collect();
        let taken = wire.inject_all(0, frames.iter().map(|frame| &**frame));
        assert_eq!(taken, frames.len(), "there is room");
        sent += u64::from(blue);
        let mut came = false;
        wait("red's frame comes back", || {
            for sent in wire.collect() {
                if vlan(&sent.frame) == 100 {
                    assert!(!came && number(&sent.frame) == round, "in order, and once");
                    came = true;
                }
            }
            came
        });
    }
    sent
}

/// Possible actions of a neighbour on its packets.
fn neighbours() -> [(&'static str, String); 3] {
    let burns = "-> Null ".repeat(300);
    [
        ("sends them back", BACK.to_owned()),
        ("burns cycles", format!("FromDevice(wan) {burns} -> c :: Counter -> Discard")),
        (
            "knows no neighbour",
            "FromDevice(wan) -> c :: Counter -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.0.0.9) -> q :: \
             ARPQuerier(10.0.0.1, 02:00:00:00:00:05) -> ToDevice(wan); Idle -> [1] q"
                .to_owned(),
        ),
    ]
}

#[test]
fn a_neighbours_overload_costs_no_packet_inside_a_share() {
    for (what, graph) in neighbours() {
        // The share has less room than a burst needs.
        let small = ShareOf {
            queue: 16,
            ..share("blue", 200)
        };
        let process = Process::new(&port(vec![share("red", 100), small]));
        let (_port, ports) = process.add("wan", PORT, AHEAD);
        let (red, _) = process.add("red", BACK, 0);
        let (blue, blue_ports) = process.add("blue", &graph, 0);
        let wire = ports.memory("x");
        let sent = red_among_blue(&wire, 50, 1000, |_| ());
        assert_eq!(red.read("c.count", "").as_deref(), Ok("50"), "{what}");
        // Packets for the neighbour were processed, or dropped under a name.
        let had = || -> u64 {
            blue.read("c.count", "")
                .expect("it answers")
                .parse()
                .expect("a number")
        };
        let lost = || count(&blue_ports, "wan", "rx_full");
        wait(what, || had() + lost() == sent);
        assert!(lost() > 0, "{what}: it is overloaded");
        assert_eq!(count(&ports, "shares:wan", "unknown"), 0);
    }
}

#[test]
fn reloads_in_a_loop_and_routers_that_come_and_go_are_not_noticed() {
    let process = Process::new(&port(vec![share("red", 100), share("blue", 200)]));
    let (_port, ports) = process.add("wan", PORT, AHEAD);
    let (red, _) = process.add("red", BACK, 0);
    let mut blue = Some(process.add("blue", BACK, 0));
    let wire = ports.memory("x");
    red_among_blue(&wire, 100, 50, |round| {
        if round % 10 == 9 {
            blue = None;
            blue = Some(process.add("blue", BACK, 0));
        }
        let (router, ports) = blue.as_ref().expect("it is there");
        let text = ["", "Idle -> Discard;"][round as usize % 2].to_owned() + BACK;
        let running = router.plan();
        let next = testkit::plan(classes::all(), &text, 1, &**ports, Some(&running));
        let next = next.unwrap_or_else(|e| panic!("{e}"));
        router.reload(&next).expect("it is reloaded");
    });
    assert_eq!(red.read("c.count", "").as_deref(), Ok("100"));
}

#[test]
fn route_flaps_of_one_router_do_not_affect_another() {
    let process = Process::new(&port(vec![share("red", 100), share("blue", 200)]));
    let (_port, ports) = process.add("wan", PORT, AHEAD);
    let (red, _) = process.add("red", BACK, 0);
    let text = "FromDevice(wan) -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup(0/0 0, 10.9.0.0/16 1) -> c :: \
         Counter -> Discard; rt[1] -> Discard";
    let (blue, _) = process.add("blue", text, 0);
    red_among_blue(&ports.memory("x"), 100, 50, |round| {
        for n in 0..20 {
            let route = format!("10.{n}.{round}.0/24");
            blue.write("rt.add", &format!("{route} 1"))
                .expect("there is room");
            if n % 2 == round % 2 {
                blue.write("rt.remove", &route).expect("it is there");
            }
        }
    });
    assert_eq!(red.read("c.count", "").as_deref(), Ok("100"));
    let table = blue.read("rt.table", "").expect("it answers");
    assert_eq!(
        table.lines().count(),
        2 + 100 * 10,
        "every second one stays"
    );
}

#[test]
fn inline_port_serves_routers_in_order_of_arrival() {
    let process = Process::new(&port(vec![share("red", 100), share("blue", 200)]));
    let (_port, ports) = process.add("wan", PORT, IN_LINE);
    let (_red, _) = process.add("red", BACK, 0);
    let (_blue, blue_ports) = process.add("blue", BACK, 0);
    let wire = ports.memory("x");
    // Only one burst waits: the queues never overflow.
    red_among_blue(&wire, 100, 60, |_| ());
    assert_eq!(count(&blue_ports, "wan", "rx_full"), 0);
}

#[test]
fn idle_routers_are_not_polled() {
    let names: Vec<String> = (0..1000).map(|n| format!("r{n}")).collect();
    let shares = names.iter().zip(1..);
    let process = Process::new(&port(
        shares.map(|(name, vlan)| share(name, vlan)).collect(),
    ));
    let (_port, ports) = process.add("wan", PORT, AHEAD);
    let all: Vec<_> = names
        .iter()
        .map(|name| process.add(name, BACK, 0))
        .collect();
    let runs = |router: &Router| -> u64 {
        let tasks = router.task_stats().expect("it answers");
        tasks.iter().flatten().map(|(_, stats)| stats.runs).sum()
    };
    let idle = &all[7].0;
    let before = (runs(idle), Instant::now());
    let wire = ports.memory("x");
    let turns = || {
        process
            .workers
            .times(0)
            .turns
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    let begin = turns();
    for n in 0..2000 {
        assert!(wire.inject(0, &frame(501, n)));
        let came = wire.collect_at_least(1, LONG);
        assert_eq!((came.len(), vlan(&came[0].frame)), (1, 501));
    }
    let ran = runs(idle) - before.0;
    // The router is polled when packets arrive, and ten times a second in any case.
    let at_most = 20 + 20 * before.1.elapsed().as_millis() as u64 / 100;
    assert!(ran <= at_most, "{ran} runs, {at_most} at most");
    assert!(turns() - begin > 2000, "while the worker turned");
    assert_eq!(all[500].0.read("c.count", "").as_deref(), Ok("2000"));
    // Each router responds as soon as a packet arrives.
    for vlan in 1..=1000 {
        assert!(wire.inject(0, &frame(vlan, 0)));
        assert_eq!(wire.collect_at_least(1, LONG).len(), 1, "VLAN {vlan}");
    }
}

#[test]
fn frames_in_a_loop_of_links_end_and_are_counted() {
    let routers = ["red", "blue"].map(str::to_owned);
    let link = |name: &str| LinkOf {
        name: name.to_owned(),
        routers: routers.clone(),
        queue: 64,
    };
    let process = Process::new(&SharingSpec {
        ports: Vec::new(),
        links: vec![link("a"), link("b")],
    });
    let (_blue, blue_ports) = process.add("blue", "FromDevice(a) -> ToDevice(b)", 0);
    let red = "out :: ToDevice(a); FromDevice(b) -> out; FromDevice(mem:x) -> out";
    let (_red, ports) = process.add("red", red, 0);
    let wire = ports.memory("x");
    for n in 0..10 {
        assert!(wire.inject(0, &frame(1, n)));
    }
    let lost = || {
        let each = [&ports, &blue_ports].map(|p| count(p, "a", "loop") + count(p, "b", "loop"));
        each.iter().sum::<u64>()
    };
    // Each end counts what it sends.
    wait("the loop ends", || lost() == 10);
}
