//! Dynamic packet state: packets of any bytes pass a core router, which rewrites the state.
//!
//! A record is a length and as many bytes of a packet.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use engine::packet::{Batch, Packet, pool};
use std::time::Duration;
use wire::dps;

const ROUTER: &str = "
    in :: DPSDecap -> q :: DeadlineQueue(100) -> e :: DPSEncap(LINK 8Mbps) -> u :: Unqueue -> out :: Collect;
    in[1] -> MPLSLookup(16 swap 17 10.0.0.2 0, 17 pop 10.0.0.2 0) -> q;
";

/// Feeds a router.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let mut router = Whole::new(ROUTER, &[], Walker::Sweep);
    let mut most = Duration::ZERO;
    while !choices.is_empty() {
        let len = usize::from(choices.byte());
        let bytes = choices.bytes(len);
        let state = dps::State::read(bytes);
        let hop = state.map_or(0, |state| state.hop);
        most = most.max(Duration::from_nanos(hop.into()));
        let packet = Packet::from_bytes(bytes);
        router.push("in", packet.into_iter().collect::<Batch>());
        router.settle();
    }
    let plan = router.graph().plan().clone();
    for seen in testkit::collected(&plan, "out") {
        let state = dps::State::read(&seen.bytes).expect("what is written can be read");
        assert!([0x0800, 0x86dd, 0x8847].contains(&state.payload));
        assert!(state.hop == 0 || Duration::from_nanos(state.hop.into()) <= most);
    }
    router.check();
    drop((router, plan));
    assert_eq!(pool::balance(), before, "buffers were leaked");
}
