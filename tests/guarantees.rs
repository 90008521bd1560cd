//! Guaranteed service over five hops in simulated time: the bounds that admission promises hold against any traffic
//! (see tests/lib/hops.rs).

use router_tests::{HOPS, Hops, Known, TIGHT};

/// Minimum number of packets that a flow over all hops has sent: six at the common moments.
const SENT: u64 = 6;

fn no_packet_is_late(known: Known, queue: &str, bin: &str) {
    let mut hops = Hops::new(known, queue, bin);
    let arrived = hops.run();
    for (flow, promise) in &hops.promises {
        let seen = arrived[flow];
        assert!(
            seen.late == 0
                && seen.longest <= promise.delay
                && seen.longest - seen.shortest <= promise.jitter,
            "flow {flow}: {seen:?}, and {promise:?}"
        );
        assert!(seen.packets >= SENT, "flow {flow} has lost packets");
    }
    for hop in 1..=HOPS {
        assert_eq!(hops.router.handler(&format!("q{hop}.late"), ""), "0");
        assert_eq!(
            hops.router.handler(&format!("q{hop}.beyond"), "").trim(),
            "0"
        );
        if known == Known::AtTheEdge {
            assert_eq!(hops.router.handler(&format!("e{hop}.late"), ""), "0");
        }
    }
}

const EXACT: &str = "DeadlineQueue(9000, EXACT true, SLACK 60us)";
const BINS: &str = "DeadlineQueue(9000, WIDTH 1ms, SLACK 1060us)";

#[test]
fn no_packet_is_later_than_its_bound_in_exact_order() {
    no_packet_is_late(Known::Everywhere, EXACT, "0");
}

#[test]
fn no_packet_is_later_than_its_bound_with_bins() {
    no_packet_is_late(Known::Everywhere, BINS, "1ms");
}

#[test]
fn no_packet_is_later_than_its_bound_where_the_core_knows_no_flow() {
    no_packet_is_late(Known::AtTheEdge, EXACT, "0");
}

#[test]
fn no_packet_is_later_than_its_bound_where_the_core_knows_no_flow_with_bins() {
    no_packet_is_late(Known::AtTheEdge, BINS, "1ms");
}

#[test]
fn first_in_first_out_breaks_the_same_promises() {
    for known in [Known::Everywhere, Known::AtTheEdge] {
        let mut hops = Hops::new(known, "Queue(9000)", "0");
        let arrived = hops.run();
        let kept = |flow: &u32| {
            let seen = arrived.get(flow);
            seen.is_some_and(|seen| seen.late == 0 && seen.packets >= SENT)
        };
        assert!(
            (0..TIGHT).all(|flow| !kept(&flow)),
            "each of the flows that need it is late"
        );
    }
}
