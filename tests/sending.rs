//! What waits for a busy port, and what goes before it.

use engine::clock::{Clock, Time};
use engine::graph::{Graph, Walker};
use engine::plan::Options;
use engine::router::single;
use router_tests::{InMemory, plan_with, registry};
use std::sync::Arc;
use std::time::Duration;

const TEXT: &str =
    "FromDevice(DEV0) -> out :: ToDevice(DEV1, QUEUE 4); FromDevice(DEV2) -> [1] out;";

struct Stand {
    graph: Graph,
    ports: Arc<InMemory>,
    now: Time,
}

impl Stand {
    fn new() -> Stand {
        let ports = Arc::new(InMemory::default());
        let plan = plan_with(registry(), TEXT, &[], &Options::new(1, &*ports));
        let now = Time(1_000_000_000);
        let graph = single(
            &plan,
            Arc::clone(&ports) as _,
            Walker::Sweep,
            Clock::Virtual(now),
            7,
        );
        let graph = graph.unwrap_or_else(|e| panic!("{e}"));
        Stand { graph, ports, now }
    }

    /// Frames of one byte's value each come by a port.
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

    /// What the port sends in a turn in which it takes so many.
    fn sent(&mut self, takes: usize) -> Vec<u8> {
        self.ports.far("DEV1").limit(512, takes);
        self.turn();
        let frames = self.ports.far("DEV1").collect();
        frames.iter().map(|sent| sent.frame[0]).collect()
    }
}

#[test]
fn what_comes_by_the_second_input_goes_first_and_in_order() {
    let mut stand = Stand::new();
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
    let mut stand = Stand::new();
    stand.ports.far("DEV1").limit(512, 0);
    stand.come("DEV0", &[1, 2, 3, 4, 5, 6]);
    stand.come("DEV2", &[10, 11, 12, 13, 14, 15]);
    stand.come("DEV0", &[7]);
    stand.come("DEV2", &[16]);
    assert_eq!(stand.sent(512), [10, 11, 12, 13, 1, 2, 3, 4]);
}
