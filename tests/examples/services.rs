//! Cost of the services of `conf/services` on one core, and a check of their guarantees: `cargo run --release -p
//! router-tests --example services`.
//!
//! Each service runs between ports in memory, in simulated time, and only its turns are timed: bursts of 256 packets of
//! two flows, which go to either port. The least of many bursts counts. `binsort/fifo` is the rate of match_prefix_sort
//! divided by its rate with a Queue in place of each DeadlineQueue. `swap/route` is the rate of a label-switching
//! router divided by that of an IP router. `late` counts packets later than guaranteed, over five hops at full load:
//! with all kinds of order, and with flows known everywhere or at the edge only. `late-fifo` is the same with first-in,
//! first-out queues. It prints `services NAME VALUE` lines.
#![allow(clippy::print_stdout)]

use engine::graph::Walker;
use router_tests::{Hops, Known, Whole, conf};
use std::time::{Duration, Instant};
use testkit::ip4;
use wire::dps;
use wire::mpls::Entry;

const BURST: usize = 256;
const ROUNDS: usize = 4000;
const DEVICES: &[(&str, &str)] = &[
    ("DEV0", "port0"),
    ("DEV1", "port1"),
    ("DEV2", "port2"),
    // So that no packet waits for the link.
    ("LINK", "100Gbps"),
];

/// The flows that each service is told of, by handler.
const MATCH: &[(&str, &str)] = &[
    ("flows", "10.0.0.1 1 10.1.0.1 9 udp PORT 0"),
    ("flows", "10.0.0.1 1 10.2.0.1 9 udp PORT 1"),
];
const MATCH_TWO: &[(&str, &str)] = &[
    ("flows1", "10.0.0.1 1 10.1.0.1 9 udp"),
    ("flows2", "10.0.0.1 1 10.2.0.1 9 udp"),
];
const LABEL: &[(&str, &str)] = &[("flows", "100 PORT 0"), ("flows", "101 PORT 1")];
const CLASS: &[(&str, &str)] = &[("flows1", "46"), ("flows2", "10")];

/// A router of labels, and of nothing else: null_prefix_fifo with the label table in the place of routes.
const SWAP: &str = "
    FromDevice(port0) -> Classifier(12/8847) -> Strip(14)
        -> next :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 swap 201 10.0.2.2 1);
    next[0] -> Queue(1000) -> MPLSEtherEncap(port1:eth, 02:00:00:00:01:02) -> ToDevice(port1);
    next[1] -> Queue(1000) -> MPLSEtherEncap(port2:eth, 02:00:00:00:02:02) -> ToDevice(port2);";

/// Headers in front of a packet.
#[derive(Clone, Copy)]
struct Front {
    state: bool,
    labels: Option<[u32; 2]>,
}

impl Front {
    fn of(service: &str) -> Front {
        Front {
            state: service.starts_with("null") && service.ends_with("sort"),
            labels: match service {
                "null_look_fifo" | "null_look_sort" => Some([16, 17]),
                "tag_look_fifo" | "tag_look_sort" | "swap" => Some([100, 101]),
                _ => None,
            },
        }
    }

    fn frame(self, output: usize) -> Vec<u8> {
        let kind: u16 = if self.labels.is_some() {
            0x8847
        } else {
            0x0800
        };
        let mut frame = vec![2; 12];
        if self.state {
            let mut bytes = [0; dps::LEN];
            let state = dps::State {
                payload: kind,
                hop: 7_000_000,
                lead: 3_000_000,
            };
            state.write(&mut bytes);
            frame.extend(dps::ETHERTYPE.to_be_bytes());
            frame.extend(bytes);
        } else {
            frame.extend(kind.to_be_bytes());
        }
        if let Some(labels) = self.labels {
            let entry = Entry {
                label: labels[output],
                exp: 5,
                bottom: true,
                ttl: 64,
            };
            frame.extend(entry.word().to_be_bytes());
        }
        let packet = ip4()
            .src("10.0.0.1")
            .dst(format!("10.{}.0.1", output + 1))
            .tos([46 << 2, 10 << 2][output])
            .udp(1, 9)
            .payload([0; 18]);
        frame.extend(packet.bytes());
        frame
    }
}

fn text(service: &str) -> String {
    let file = conf(&format!("services/{service}.click"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// A service that runs.
struct Running {
    router: Whole,
    frames: Vec<Vec<u8>>,
    least: Duration,
}

impl Running {
    fn new(front: Front, text: &str, flows: &[(&str, &str)], sorts: bool) -> Running {
        let mut router = Whole::new(text, DEVICES, Walker::Sweep);
        for (element, flow) in flows {
            // More than comes, so that nothing is taken out.
            let wants = if sorts {
                " RATE 40Gbps BURST 1000000 PACKET 1500"
            } else {
                ""
            };
            router.handler(&format!("{element}.add"), &format!("{flow}{wants}"));
        }
        Running {
            router,
            frames: (0..BURST).map(|n| front.frame(n % 2)).collect(),
            least: Duration::MAX,
        }
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
    let all: [(&str, &[(&str, &str)]); 12] = [
        ("null_prefix_fifo", &[]),
        ("null_prefix_sort", &[]),
        ("null_look_fifo", &[]),
        ("null_look_sort", &[]),
        ("tag_prefix_fifo", CLASS),
        ("tag_prefix_sort", CLASS),
        ("tag_look_fifo", LABEL),
        ("tag_look_sort", LABEL),
        ("match_prefix_fifo", MATCH_TWO),
        ("match_prefix_sort", MATCH_TWO),
        ("match_look_fifo", MATCH),
        ("match_look_sort", MATCH),
    ];
    let mut running: Vec<_> = all
        .into_iter()
        .map(|(name, flows)| {
            let sorts = name.ends_with("sort");
            (
                name,
                Running::new(Front::of(name), &text(name), flows, sorts),
            )
        })
        .collect();
    let sorted = text("match_prefix_sort");
    let unsorted = sorted.replace("DeadlineQueue(1000, WIDTH $WIDTH)", "Queue(1000)");
    assert_ne!(sorted, unsorted, "it has a DeadlineQueue");
    let unsorted = Running::new(Front::of(""), &unsorted, MATCH_TWO, true);
    running.push(("unsorted", unsorted));
    let swap = Running::new(Front::of("swap"), SWAP, &[], false);
    running.push(("swap", swap));
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
    let swap = time("null_prefix_fifo") / time("swap");
    println!("services swap/route {swap:.3}");
    let all = [Known::Everywhere, Known::AtTheEdge];
    let of = |queue, bin| all.map(|known| late(known, queue, bin)).iter().sum::<u64>();
    println!("services late-fifo {}", of("Queue(9000)", "0"));
    let exact = of("DeadlineQueue(9000, EXACT true)", "0");
    let bins = of("DeadlineQueue(9000, WIDTH 1ms)", "1ms");
    println!("services late {}", exact + bins);
}
