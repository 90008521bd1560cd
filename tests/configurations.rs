//! The ready configurations of `conf/`, each run on packets.

use engine::graph::Walker;
use router_tests::{Whole, conf};

fn text(name: &str) -> String {
    std::fs::read_to_string(conf(name)).unwrap_or_else(|e| panic!("conf/{name}: {e}"))
}

const DEVICES: &[(&str, &str)] = &[("DEV0", "mem:0"), ("DEV1", "mem:1")];

#[test]
fn forward_passes_every_frame_both_ways_as_it_is() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut router = Whole::new(&text("forward.click"), DEVICES, walker);
        let frames = testkit::traffic::mix(1, 500);
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        for (from, to) in [(0, 1), (1, 0)] {
            router.receive(from, frames.iter().copied());
            router.settle();
            assert_eq!(router.sent(to), frames);
            assert!(router.sent(from).is_empty());
        }
        router.books().check();
    }
}
