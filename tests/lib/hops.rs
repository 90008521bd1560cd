//! Five hops in simulated time. Their links are as full as admission allows, with the worst traffic that flows may
//! send.
//!
//! Each hop is a FlowTable, a queue and a link. In a core-stateless network only the first FlowTable knows the flows
//! over all hops, and their packets carry the rest. Ten flows that need little delay and a hundred others go over all
//! hops. 2340 others cross each hop, and packets of no flow come at line rate. All flows send as late and as much at
//! once as their buckets allow, at the same moments. Then they send at random, and one of them exceeds its declared
//! traffic.

use crate::Whole;
use engine::graph::Walker;
use engine::packet::Packet;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Rng, ip4};
use wire::dps;

/// Routers, and links, on the path.
pub const HOPS: usize = 5;
/// 200 Mbit/s.
const LINK: u64 = 25_000_000;
const MTU: u64 = 1500;
const CROSSING: u32 = 2340;
/// Flows over all hops that need little delay.
pub const TIGHT: u32 = 10;
const LONG: u32 = 100;
/// Bytes of a flow's packets; a burst is two packets.
const PACKET: usize = 200;

/// The flow that exceeds its declared traffic.
const GREEDY: u32 = TIGHT + LONG - 1;

/// Routers that know the flows over all hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Every router.
    Everywhere,
    /// The first one.
    AtTheEdge,
}

impl Known {
    /// Bytes that routers add to a packet.
    fn added(self) -> usize {
        match self {
            Known::Everywhere => 0,
            Known::AtTheEdge => dps::LEN,
        }
    }

    /// The routers' configuration; `queue` defines the order of packets.
    fn text(self, queue: &str, bin: &str) -> String {
        let added = self.added();
        let hop = |hop: usize| {
            let police = hop == 1 || self == Known::AtTheEdge;
            let (write, read, next) = match self {
                Known::Everywhere => (String::new(), "", "f"),
                Known::AtTheEdge => (
                    format!(
                        "-> e{hop} :: DPSEncap(LINK {LINK}Bps, BIN {bin}, MTU {}, OVERHEAD {added})",
                        MTU as usize - added
                    ),
                    "-> DPSDecap",
                    "q",
                ),
            };
            format!(
                "f{hop} :: FlowTable(LINK {LINK}Bps, BIN {bin}, CAPACITY 4096, K 16, POLICE {police},
                    MTU {}, OVERHEAD {added}) -> q{hop} :: {queue}
                    {write} -> LinkUnqueue(0, {LINK}Bps) {read} -> c{hop} :: Classifier(16/0a01, -);
                 c{hop}[1] -> Discard; c{hop}[0] -> {};",
                MTU as usize - added,
                match hop {
                    HOPS => "out".to_owned(),
                    _ => format!("{next}{}", hop + 1),
                }
            )
        };
        let hops: String = (1..=HOPS).rev().map(hop).collect();
        format!("out :: Collect; {hops}")
    }
}

/// A flow's source port and destination: those in 10.1 go over all hops.
fn ends(hop: usize, flow: u32) -> (String, u16) {
    let net = if hop == 0 { 1 } else { 1 + hop };
    (format!("10.{net}.0.1"), flow as u16)
}

fn line(hop: usize, flow: u32, wants: &str) -> String {
    let (dst, port) = ends(hop, flow);
    let burst = 2 * PACKET;
    format!("10.0.0.1 {port} {dst} 9 udp RATE 80kbps BURST {burst} PACKET {PACKET} {wants}\n")
}

/// Packets that arrived at the end of a flow over all hops.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The longest delay, in nanoseconds.
    pub longest: u64,
    /// The shortest delay, in nanoseconds.
    pub shortest: u64,
    /// Packets that came.
    pub packets: u64,
    /// Packets later than guaranteed.
    pub late: u64,
}

impl Default for Arrived {
    fn default() -> Arrived {
        Arrived {
            longest: 0,
            shortest: u64::MAX,
            packets: 0,
            late: 0,
        }
    }
}

/// Guarantees of admission for a flow over all hops, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// Maximum delay.
    pub delay: u64,
    /// Maximum difference between two delays.
    pub jitter: u64,
}

impl Promise {
    /// Reads the answer `reserved BANDWIDTH bound TIME jitter TIME`.
    fn parse(answer: &str) -> Promise {
        let time = |name: &str| {
            let (_, rest) = answer.split_once(name).expect("the answer names it");
            let ms = rest.split_whitespace().next().expect("a time behind it");
            let ms: f64 = ms.trim_end_matches("ms").parse().expect("a time");
            (ms * 1e6).ceil() as u64
        };
        Promise {
            delay: time(" bound "),
            jitter: time(" jitter "),
        }
    }
}

/// The hops, with all flows set up.
pub struct Hops {
    /// The router that contains all hops.
    pub router: Whole,
    known: Known,
    /// Promises to the flows over all hops.
    pub promises: BTreeMap<u32, Promise>,
}

impl Hops {
    /// Sets all flows up, and checks that no more is admitted. Each hop orders packets by `queue`, whose bins are
    /// `bin` wide.
    pub fn new(known: Known, queue: &str, bin: &str) -> Hops {
        let mut router = Whole::new(&known.text(queue, bin), &[], Walker::Sweep);
        let mut promises = BTreeMap::new();
        for hop in 1..=HOPS {
            let long = if hop == 1 || known == Known::Everywhere {
                TIGHT + LONG
            } else {
                0
            };
            for flow in 0..long {
                let wants = match flow {
                    0..TIGHT => format!("HOPS {HOPS} DELAY 30ms"),
                    _ => format!("HOPS {HOPS}"),
                };
                let answer = router.handler(&format!("f{hop}.add"), &line(0, flow, &wants));
                promises.insert(flow, Promise::parse(&answer));
            }
            let all: String = (0..CROSSING).map(|flow| line(hop, flow, "")).collect();
            router.handler(&format!("f{hop}.add"), &all);
            if long == 0 {
                continue;
            }
            // The link has less than a hundredth of its rate left.
            let more = line(hop, CROSSING, "RESERVE 1700kbps");
            let refused = router.try_handler(&format!("f{hop}.add"), &more);
            assert!(refused.unwrap_err().contains("not reserved"));
        }
        Hops {
            router,
            known,
            promises,
        }
    }

    /// A packet of a flow, with its sending time.
    fn packet(&mut self, hop: usize, flow: u32, len: usize) -> Packet {
        let (dst, port) = ends(hop, flow);
        let mut payload = vec![0; len - 28 - self.known.added()];
        payload[..8].copy_from_slice(&self.router.graph().now().0.to_be_bytes());
        payload[8..12].copy_from_slice(&flow.to_be_bytes());
        let bytes = ip4()
            .src("10.0.0.1")
            .dst(dst)
            .udp(port, 9)
            .payload(payload)
            .bytes();
        let mut packet = Packet::from_bytes(&bytes).expect("a buffer");
        packet.set_network_offset(0);
        packet
    }

    fn send(&mut self, hop: usize, flow: u32, packets: usize) {
        let batch = (0..packets)
            .map(|_| self.packet(hop, flow, PACKET))
            .collect();
        self.router.push(&format!("f{}", hop.max(1)), batch);
    }

    /// Packets of no flow: slightly more than each link can send in a millisecond.
    fn flood(&mut self) {
        for hop in 1..=HOPS {
            let packets = (LINK / 1000 / MTU) as usize + 2;
            let batch = (0..packets)
                .map(|_| self.packet(hop, 60_000, MTU as usize))
                .collect();
            self.router.push(&format!("f{hop}"), batch);
        }
    }

    /// Runs the traffic. Returns the arrivals of each flow over all hops.
    pub fn run(&mut self) -> BTreeMap<u32, Arrived> {
        let mut rng = Rng::seed(1);
        // A bucket is full again after 40 ms.
        for ms in 0..160 {
            self.flood();
            let all_at_once = ms % 40 == 0 && ms < 120;
            for hop in 0..=HOPS {
                let flows = if hop == 0 { TIGHT + LONG } else { CROSSING };
                for flow in 0..flows {
                    match () {
                        () if hop == 0 && flow == GREEDY => self.send(hop, flow, 3),
                        () if all_at_once => self.send(hop, flow, 2),
                        () if ms >= 120 && rng.below(40) == 0 => self.send(hop, flow, 1),
                        () => {}
                    }
                }
            }
            self.router.settle(); // links that are free take a packet now
            self.router.advance(Duration::from_millis(1));
        }
        self.router.advance(Duration::from_millis(500));
        let plan = self.router.graph().plan().clone();
        let mut all: BTreeMap<u32, Arrived> = BTreeMap::new();
        for seen in testkit::collected(&plan, "out") {
            let sent = u64::from_be_bytes(seen.bytes[28..36].try_into().expect("8 bytes"));
            let flow = u32::from_be_bytes(seen.bytes[36..40].try_into().expect("4 bytes"));
            let delay = seen.cold.timestamp - sent;
            let arrived = all.entry(flow).or_default();
            arrived.longest = arrived.longest.max(delay);
            arrived.shortest = arrived.shortest.min(delay);
            arrived.packets += 1;
            let promise = self.promises.get(&flow);
            arrived.late += u64::from(promise.is_some_and(|promise| delay > promise.delay));
        }
        self.router.check();
        all
    }
}
