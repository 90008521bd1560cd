//! Ports that feed overflowing outputs are polled less, and the other ports do not suffer (VR7).

use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use planner::Options;
use router_tests::{InMemory, plan_with, registry};
use std::sync::Arc;
use std::time::Duration;

/// A port with its own output. Frames that begin with 2 go to an output that another port shares.
const ROUTER: &str = "a :: FromDevice(DEV0, BURST 64) -> k :: Classifier(0/01, -);
    k[0] -> slow :: ToDevice(DEV1, QUEUE 64); k[1] -> fast :: ToDevice(DEV2);
    b :: FromDevice(DEV3, BURST 64) -> fast;";

/// Length of a turn of the worker, in which the ports bring and take packets.
const STEP: Duration = Duration::from_micros(200);
/// Packets that the slow output takes in a step.
const TAKES: usize = 8;

struct Stand {
    graph: Graph,
    ports: Arc<InMemory>,
    now: Time,
    /// Packets sent, by output.
    sent: [usize; 2],
}

impl Stand {
    fn new(text: &str) -> Stand {
        let ports = Arc::new(InMemory::default());
        let options = Options::new(1, &*ports);
        let plan = plan_with(registry(), text, &[], &options);
        let now = Time(1_000_000_000);
        let clock = Clock::at(now);
        let graph = single(&plan, Arc::clone(&ports) as _, Walker::Sweep, clock, 7);
        ports.far("DEV0").limit(512, 0);
        ports.far("DEV1").limit(0, TAKES);
        Stand {
            graph: graph.unwrap_or_else(|e| panic!("{e}")),
            ports,
            now,
            sent: [0, 0],
        }
    }

    /// Runs for `time`. At every step packets arrive that begin with these bytes, by the first port and the other.
    fn run(&mut self, time: Duration, first: &[u8], other: &[u8]) {
        let until = self.now + time;
        while self.now < until {
            self.now = self.now + STEP;
            for (port, bytes) in [("DEV0", first), ("DEV3", other)] {
                let frames: Vec<[u8; 60]> = bytes.iter().map(|&b| [b; 60]).collect();
                let far = self.ports.far(port);
                far.inject_all(0, frames.iter().map(|f| &f[..]));
            }
            self.graph.set_time(self.now);
            self.graph.turn();
            for (sent, port) in self.sent.iter_mut().zip(["DEV1", "DEV2"]) {
                *sent += self.ports.far(port).collect().len();
            }
        }
    }

    fn read(&mut self, path: &str) -> u64 {
        let plan = Arc::clone(self.graph.plan());
        let (element, handler) = path.split_once('.').expect("element and handler");
        let node = plan.find(element).expect("it is there");
        let handlers = (plan.elements[node].class.handlers)();
        let readable = |h: &engine::handler::HandlerInfo| h.name == handler && h.access.readable();
        let at = handlers.iter().position(readable).expect("it has it");
        let text = self.graph.read(node, at, "").expect("it is here");
        text.ok().and_then(|t| t.parse().ok()).expect("a number")
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_port_that_only_feeds_an_output_that_overflows_is_polled_less_and_the_others_as_before() {
    let mut stand = Stand::new(ROUTER);
    stand.run(SECOND, &[1; 40], &[2; 10]);
    assert_eq!(stand.read("a.rests"), 0, "it takes a second to be sure");
    let (received, sent) = (stand.read("a.count"), stand.sent);
    assert!(received > 195_000, "{received}");
    stand.run(SECOND, &[1; 40], &[2; 10]);
    stand.sent = [0, 0];
    let received = stand.read("a.count");
    stand.run(SECOND, &[1; 40], &[2; 10]);
    let received = stand.read("a.count") - received;
    let slow = 5000 * TAKES as u64;
    assert!(
        (slow..slow * 5 / 4).contains(&received),
        "{received} received, {slow} can be sent"
    );
    assert_eq!(stand.sent, [slow as usize, 50_000], "before: {sent:?}");
    assert!(stand.ports.far("DEV0").waiting(0) > 0);
    // When the load has ended, it is polled as before.
    stand.run(SECOND * 2, &[1], &[]);
    assert_eq!(stand.read("a.rest"), 0);
}

#[test]
fn a_port_that_also_feeds_another_output_is_polled_as_before_and_that_one_loses_nothing() {
    let mut stand = Stand::new(ROUTER);
    let mut mixed = [1; 40];
    mixed[7] = 2;
    stand.run(SECOND * 3, &mixed, &[2; 10]);
    assert_eq!(stand.read("a.rests"), 0);
    assert_eq!(stand.sent[1], 15_000 * 11);
    assert_eq!(stand.read("a.count"), 15_000 * 40);
}

#[test]
fn ports_with_a_queue_each_before_a_fair_output_receive_what_it_sends_for_them() {
    let text =
        "a :: FromDevice(DEV0, BURST 64) -> qa :: Queue(64) -> [0] r :: RoundRobinSched -> ToDevice(DEV1);
        b :: FromDevice(DEV3, BURST 64) -> qb :: Queue(64) -> [1] r;";
    let mut stand = Stand::new(text);
    stand.ports.far("DEV3").limit(512, 0);
    stand.run(SECOND * 2, &[1; 60], &[2; 20]);
    let before = [stand.read("a.count"), stand.read("b.count")];
    stand.run(SECOND, &[1; 60], &[2; 20]);
    for (port, before) in ["a.count", "b.count"].into_iter().zip(before) {
        let received = stand.read(port) - before;
        let share = 5000 * TAKES as u64 / 2;
        assert!(
            (share * 9 / 10..share * 5 / 4).contains(&received),
            "{port}: {received}, {share} can be sent"
        );
    }
}

#[test]
fn port_with_yielding_off_does_not_yield() {
    let text = ROUTER.replacen("DEV0", "DEV0, YIELD false", 1);
    let mut stand = Stand::new(&text);
    stand.run(SECOND * 2, &[1; 40], &[]);
    assert_eq!((stand.read("a.rests"), stand.read("a.count")), (0, 400_000));
}
