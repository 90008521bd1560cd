//! Cost of the services of `conf/services` on one core, and a check of their guarantees: `cargo run --release -p
//! router-tests --example services`.
//!
//! Each service runs between ports in memory, in simulated time, and only its turns are timed: bursts of 256 packets of
//! two flows, which go to two ports. The least of many bursts counts. `binsort/fifo` is the rate of match_prefix_sort
//! divided by its rate with a Queue in place of each DeadlineQueue. `swap/route` is the rate of a router of labels
//! divided by that of a router of prefixes, both without ARP and ICMP. `late` counts packets later than guaranteed,
//! over five hops at full load: with all kinds of order, and with flows known everywhere or at the edge only.
//! `late-fifo` is the same with first-in, first-out queues. It prints `services NAME VALUE` lines.
#![allow(clippy::print_stdout)]

use engine::graph::Walker;
use router_tests::services::{PORTS, SERVICES, Service, host4, host6, mac};
use router_tests::{Hops, Known, Whole};
use std::time::{Duration, Instant};
use testkit::{ip4, labelled};
use wire::{EtherAddr, ether};

const BURST: usize = 256;
const ROUNDS: usize = 4000;
/// So that no packet waits for the link.
const FAST: &[(&str, &str)] = &[("LINK", "100Gbps")];

/// A router of labels, and one of prefixes, and nothing else.
const SWAP: &str = "
    FromDevice(port0) -> Classifier(12/8847) -> Strip(14)
        -> next :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 swap 201 10.0.2.2 1);
    next[0] -> Queue(1000) -> MPLSEtherEncap(port1:eth, 02:00:00:00:01:02) -> ToDevice(port1);
    next[1] -> Queue(1000) -> MPLSEtherEncap(port2:eth, 02:00:00:00:02:02) -> ToDevice(port2);";
const ROUTE: &str = "
    FromDevice(port0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
        -> next :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1);
    next[0] -> DecIPTTL -> Queue(1000) -> EtherEncap(0x0800, port1:eth, 02:00:00:00:01:02) -> ToDevice(port1);
    next[1] -> DecIPTTL -> Queue(1000) -> EtherEncap(0x0800, port2:eth, 02:00:00:00:02:02) -> ToDevice(port2);";

/// The packet to a port.
fn packet(to: usize) -> Vec<u8> {
    let packet = ip4().src(host4(0)).dst(host4(to)).tos(46 << 2).udp(1, 9);
    packet.payload([0; 18]).bytes()
}

/// Frames of two flows, to ports 1 and 2.
fn frames(frame: impl Fn(usize, &[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..BURST)
        .map(|n| 1 + n % 2)
        .map(|to| frame(to, &packet(to)))
        .collect()
}

/// A service that runs.
struct Running {
    router: Whole,
    frames: Vec<Vec<u8>>,
    least: Duration,
}

impl Running {
    fn new(router: Whole, frames: Vec<Vec<u8>>) -> Running {
        Running {
            router,
            frames,
            least: Duration::MAX,
        }
    }

    /// A service, or `text` in its place, with its flows and neighbours.
    fn service(service: &Service, text: &str) -> Running {
        let definitions = if service.sorts() { FAST } else { &[] };
        let mut router = service.router(text, definitions, Walker::Sweep);
        for port in 0..PORTS {
            router.handler(
                &format!("i{port}/arp.insert"),
                &format!("{} {}", host4(port), mac(port)),
            );
            router.handler(
                &format!("i{port}/nd6.insert"),
                &format!("{} {}", host6(port), mac(port)),
            );
        }
        // More than comes, so that nothing is taken out.
        let wants = match service.sorts() {
            true => " RATE 40Gbps BURST 1000000 PACKET 1500",
            false => "",
        };
        let flows = [1, 2].map(|to| service.flows(0, to)).concat();
        for (table, flow) in flows {
            router.handler(&format!("{table}.add"), &format!("{flow}{wants}"));
        }
        Running::new(
            router,
            frames(|to, packet| service.frame(to, packet, 7_000_000)),
        )
    }

    fn burst(&mut self) {
        let frames = self.frames.iter().map(Vec::as_slice);
        self.router.receive(0, frames);
        let begin = Instant::now();
        self.router.settle();
        self.least = self.least.min(begin.elapsed());
        self.router.advance(Duration::from_millis(1));
        let sent: usize = (1..=2).map(|output| self.router.sent(output).len()).sum();
        assert_eq!(sent, BURST, "all packets leave");
    }

    /// Nanoseconds for a packet.
    fn time(&self) -> f64 {
        self.least.as_secs_f64() * 1e9 / BURST as f64
    }
}

/// The services and what they are compared with.
fn services() -> Vec<(&'static str, Running)> {
    let mut running: Vec<_> = SERVICES
        .iter()
        .map(|service| (service.name, Running::service(service, &service.text())))
        .collect();
    let sorted = SERVICES
        .iter()
        .find(|service| service.name == "match_prefix_sort");
    let sorted = sorted.expect("it is one of them");
    let unsorted = sorted
        .text()
        .replace("DeadlineQueue(1000, WIDTH $WIDTH)", "Queue(1000)");
    assert_ne!(sorted.text(), unsorted, "it has a DeadlineQueue");
    running.push(("unsorted", Running::service(sorted, &unsorted)));
    let plain = |text| Whole::new(text, &[], Walker::Sweep);
    let header = |kind| ether::header(EtherAddr([2; 6]), EtherAddr([2; 6]), kind);
    let swapped = |to: usize, packet: &[u8]| {
        let packet = labelled(&[(99 + to as u32, 5, 64)], packet);
        [&header(ether::MPLS)[..], &packet].concat()
    };
    let routed = |_, packet: &[u8]| [&header(ether::IPV4)[..], packet].concat();
    running.push(("swap", Running::new(plain(SWAP), frames(swapped))));
    running.push(("route", Running::new(plain(ROUTE), frames(routed))));
    running
}

/// Packets that came later than was promised.
fn late(known: Known, queue: &str, bin: &str) -> u64 {
    let arrived = Hops::new(known, queue, bin).run();
    arrived.values().map(|arrived| arrived.late).sum()
}

fn main() {
    let mut running = services();
    for _ in 0..ROUNDS {
        // In turns, so that what else the machine does meets all of them.
        for (_, running) in &mut running {
            running.burst();
        }
    }
    for (name, running) in &running {
        println!("services {name}-ns {:.1}", running.time());
    }
    let time = |wanted: &str| {
        let found = running.iter().find(|(name, _)| *name == wanted);
        found.map_or(f64::NAN, |(_, running)| running.time())
    };
    let order = time("unsorted") / time("match_prefix_sort");
    println!("services binsort/fifo {order:.3}");
    let swap = time("route") / time("swap");
    println!("services swap/route {swap:.3}");
    let all = [Known::Everywhere, Known::AtTheEdge];
    let of = |queue, bin| all.map(|known| late(known, queue, bin)).iter().sum::<u64>();
    println!("services late-fifo {}", of("Queue(9000)", "0"));
    let exact = of("DeadlineQueue(9000, EXACT true)", "0");
    let bins = of("DeadlineQueue(9000, WIDTH 1ms)", "1ms");
    println!("services late {}", exact + bins);
}
