//! Time per packet of a translator that holds many flows, between ports in memory, without any driver:
//!
//! ```text
//! cargo run --release -p router-tests --example flow_turns
//! ```
//!
//! Beside it is the time without a translator. Packets of flows drawn at random come in bursts of 32. What the ports in
//! memory cost is in all figures.
#![allow(clippy::print_stdout)]

use engine::graph::Walker;
use router_tests::Whole;
use std::time::{Duration, Instant};
use testkit::ip4;

const BURST: usize = 32;
const ROUND: usize = 1024;
const PACKETS: u32 = 2_000_000;

/// A frame of flow `n`.
fn frame(n: u32) -> Vec<u8> {
    let src = std::net::Ipv4Addr::from(0x0a00_0000 + n);
    let packet = ip4().src(src).dst("20.0.0.1").udp(1000, 2000);
    let packet = packet.payload_len(18);
    packet
        .ether("02:00:00:00:00:08", "02:00:00:00:00:01")
        .bytes()
}

/// Sends a frame of each flow, and returns the time that the router took.
fn send(router: &mut Whole, flows: impl Iterator<Item = u32>) -> Duration {
    let frames: Vec<_> = flows.map(frame).collect();
    let mut taken = Duration::ZERO;
    for burst in frames.chunks(BURST) {
        router.receive(0, burst.iter().map(Vec::as_slice));
        let begin = Instant::now();
        router.settle();
        taken += begin.elapsed();
        assert_eq!(router.sent(1).len(), burst.len(), "no packet is lost");
    }
    taken
}

/// Time per packet of a router that holds `flows` flows, from which packets are drawn.
fn measure(router: &mut Whole, flows: u32) -> f64 {
    let mut state = 1u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % u64::from(flows)) as u32
    };
    let mut taken = Duration::ZERO;
    for _ in 0..PACKETS as usize / ROUND {
        let drawn: Vec<u32> = (0..ROUND).map(|_| draw()).collect();
        taken += send(router, drawn.into_iter());
    }
    taken.as_nanos() as f64 / f64::from(PACKETS)
}

/// A router with `element` behind its header check.
fn router(element: &str) -> Whole {
    let text = format!(
        "FromDevice($DEV0) -> Strip(14) -> CheckIPHeader -> flows :: {element}
            -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice($DEV1);"
    );
    let devices = [("DEV0", "mem:0"), ("DEV1", "mem:1")];
    Whole::new(&text, &devices, Walker::Sweep)
}

fn main() {
    println!("flows     Null ns  IPRewriter ns");
    for flows in [1_000, 10_000, 100_000, 1_000_000u32] {
        let none = measure(&mut router("Null"), flows);
        let mut rewriter = router("IPRewriter(keep 0 0)");
        for first in (0..flows).step_by(ROUND) {
            send(&mut rewriter, first..flows.min(first + ROUND as u32));
        }
        let rewritten = measure(&mut rewriter, flows);
        println!("{flows:<9} {none:>7.1} {rewritten:>14.1}");
    }
}
