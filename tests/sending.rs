//! Packets that wait for a busy port, and packets with priority.

use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::plan::Plan;
use planner::Options;
use router_tests::{InMemory, plan_with, registry};
use std::sync::Arc;
use std::time::Duration;

/// Configuration in which packets of DEV0 go to the first input, and those of DEV2 to the second.
fn text(settings: &str) -> String {
    format!("FromDevice(DEV0) -> out :: ToDevice(DEV1{settings}); FromDevice(DEV2) -> [1] out;")
}

struct Stand {
    graph: Graph,
    ports: Arc<InMemory>,
    now: Time,
}

fn plan(text: &str, previous: Option<&Plan>, ports: &InMemory) -> Arc<Plan> {
    let options = Options {
        previous,
        ..Options::new(1, ports)
    };
    plan_with(registry(), text, &[], &options)
}

impl Stand {
    fn new(text: &str) -> Stand {
        let ports = Arc::new(InMemory::default());
        let plan = plan(text, None, &ports);
        let now = Time(1_000_000_000);
        let graph = single(
            &plan,
            Arc::clone(&ports) as _,
            Walker::Sweep,
            Clock::at(now),
            7,
        );
        let graph = graph.unwrap_or_else(|e| panic!("{e}"));
        Stand { graph, ports, now }
    }

    fn reload(self, text: &str) -> Stand {
        let next = plan(text, Some(self.graph.plan()), &self.ports);
        let site = self.graph.build_context(Arc::clone(&self.ports) as _);
        let graph = self.graph.swap(&next, &site);
        Stand { graph, ..self }
    }

    /// Receives frames by a port, each filled with one byte's value.
    fn come(&mut self, port: &str, values: &[u8]) {
        let frames: Vec<[u8; 60]> = values.iter().map(|&value| [value; 60]).collect();
        let far = self.ports.far(port);
        assert_eq!(
            far.inject_all(0, frames.iter().map(|f| &f[..])),
            frames.len()
        );
        self.turn();
    }

    fn turn(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        self.graph.set_time(self.now);
        self.graph.turn();
    }

    /// Packets sent in a turn in which the port takes `takes`.
    fn sent(&mut self, takes: usize) -> Vec<u8> {
        self.ports.far("DEV1").limit(512, takes);
        self.turn();
        self.collect()
    }

    /// Packets that the port has sent.
    fn collect(&self) -> Vec<u8> {
        let frames = self.ports.far("DEV1").collect();
        frames.iter().map(|sent| sent.frame[0]).collect()
    }

    /// A handler's answer as a number.
    fn number(&mut self, path: &str) -> u64 {
        let answer = self.graph.job(|cx| cx.read(path, "")).unwrap();
        answer.trim().parse().unwrap()
    }

    /// Packets that `out` has dropped, by name.
    fn drops(&self) -> Vec<(String, u64)> {
        let drops = engine::stats::drops(self.graph.plan(), self.graph.stats());
        drops.map(|(_, name, count)| (name, count)).collect()
    }
}

#[test]
fn packets_of_the_second_input_leave_first_and_in_order() {
    let mut stand = Stand::new(&text(", QUEUE 4"));
    stand.ports.far("DEV1").limit(512, 0);
    stand.come("DEV0", &[1, 2]);
    stand.come("DEV2", &[10, 11]);
    stand.come("DEV0", &[3]);
    stand.come("DEV2", &[12]);
    assert_eq!(stand.sent(2), [10, 11]);
    stand.ports.far("DEV1").limit(512, 0);
    stand.come("DEV2", &[13]);
    assert_eq!(stand.sent(512), [12, 13, 1, 2, 3]);
    stand.come("DEV2", &[14]);
    stand.come("DEV0", &[4]);
    assert_eq!(
        stand.sent(512),
        [14, 4],
        "nothing waits: they go as they come"
    );
}

#[test]
fn neither_input_takes_the_others_room() {
    let mut stand = Stand::new(&text(", QUEUE 4"));
    stand.ports.far("DEV1").limit(512, 0);
    stand.come("DEV0", &[1, 2, 3, 4, 5, 6]);
    stand.come("DEV2", &[10, 11, 12, 13, 14, 15]);
    stand.come("DEV0", &[7]);
    stand.come("DEV2", &[16]);
    assert_eq!(stand.sent(512), [10, 11, 12, 13, 1, 2, 3, 4]);
}

#[test]
fn packets_that_a_free_port_takes_need_no_room() {
    for settings in [", QUEUE 0", ", QUEUE 4", ", QUEUE 0, BURST 2"] {
        let mut stand = Stand::new(&text(settings));
        stand.come("DEV2", &[10, 11, 12, 13, 14, 15]);
        assert_eq!(stand.collect(), [10, 11, 12, 13, 14, 15], "{settings}");
    }
}

#[test]
fn queue_capacity_is_for_packets_that_a_port_refuses() {
    let mut stand = Stand::new(&text(", QUEUE 4"));
    stand.ports.far("DEV1").limit(512, 1);
    stand.come("DEV2", &[10, 11, 12, 13, 14, 15]);
    stand.come("DEV0", &[1, 2]);
    assert_eq!(stand.sent(512), [10, 11, 12, 13, 14, 1, 2]);
}

#[test]
fn only_the_first_input_waits_for_a_burst_to_fill() {
    let mut stand = Stand::new(&text(", TIMEOUT 1s"));
    stand.come("DEV0", &[1]);
    assert!(stand.collect().is_empty());
    stand.come("DEV2", &[10]);
    assert_eq!(stand.collect(), [10, 1], "what waits fills the burst");
}

#[test]
fn a_port_that_pulls_sends_what_is_pushed_first() {
    let pulls =
        "FromDevice(DEV0) -> Queue -> out :: ToDevice(DEV1, BURST 2); FromDevice(DEV2) -> [1] out;";
    let mut stand = Stand::new(pulls);
    stand.ports.far("DEV1").limit(512, 0);
    stand.come("DEV0", &[1, 2, 3]);
    stand.come("DEV2", &[10, 11, 12]);
    assert_eq!(stand.sent(512), [10, 11, 12, 1, 2, 3]);
    stand.come("DEV2", &[13]);
    assert_eq!(stand.collect(), [13]);
}

#[test]
fn waiting_packets_keep_their_order_after_a_reload() {
    let mut stand = Stand::new(&text(", QUEUE 4"));
    stand.ports.far("DEV1").limit(512, 0);
    stand.come("DEV0", &[1, 2]);
    stand.come("DEV2", &[10, 11]);
    stand = stand.reload(&text(", QUEUE 3"));
    stand.come("DEV2", &[12, 13]);
    stand.come("DEV0", &[3, 4]);
    assert_eq!(stand.sent(512), [10, 11, 12, 1, 2, 3]);
}

#[test]
fn packets_that_a_port_refuses_are_dropped_by_name_and_not_sent() {
    let pulls = "FromDevice(DEV0) -> Queue -> out :: ToDevice(DEV1); FromDevice(DEV2) -> [1] out;";
    for text in [&text(""), &text(", TIMEOUT 1us"), pulls] {
        let mut stand = Stand::new(text);
        stand.come("DEV0", &[1, 2]);
        stand.turn();
        stand.ports.far("DEV1").limit(512, 0);
        stand.come("DEV0", &[3]);
        stand.come("DEV2", &[10]);
        stand.ports.far("DEV1").limit(512, 512);
        stand.ports.far("DEV1").set_link(false);
        stand.come("DEV2", &[11]);
        stand.come("DEV0", &[4, 5]);
        stand.turn();
        stand.ports.far("DEV1").set_link(true);
        stand.come("DEV0", &[6]);
        stand.turn();
        assert_eq!(stand.collect(), [1, 2, 6], "{text}");
        assert_eq!(stand.drops(), [("refused".to_owned(), 5)], "{text}");
        let said = ["count", "byte_count", "waiting", "dropped"];
        let said = said.map(|name| stand.number(&format!("out.{name}")));
        assert_eq!(said, [3, 180, 0, 0], "{text}");
    }
}
