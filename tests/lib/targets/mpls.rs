//! Label stacks: packets of any bytes through a label table in both modes, and the errors about them.
//!
//! A record is a length and as many bytes of a packet.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use engine::packet::{Batch, Packet, pool};
use wire::{Icmp, Ipv4, mpls};

const ROUTER: &str = "
    in :: Tee;
    in[0] -> uniform :: MPLSLookup(ENTRIES, EXPIRED 2, NOLABEL 3);
    in[1] -> pipe :: MPLSLookup(ENTRIES, MODE pipe, EXPIRED 2, NOLABEL 3);
    labelled, ip, errors4, errors6, frames :: Collect;
    uniform[0], pipe[0] -> t :: Tee -> labelled; t[1] -> MPLSEtherEncap(2:0:0:0:0:1, 2:0:0:0:0:2) -> frames;
    uniform[1], pipe[1] -> ip;
    uniform[2], uniform[3], pipe[2], pipe[3] -> p :: MPLSPayload
        -> ICMPError(10.9.9.9, timeexceeded, MPLS true, RATE 0) -> errors4;
    p[1] -> ICMP6Error(2001:db8::9, timeexceeded, MPLS true, RATE 0) -> errors6;
    p[2] -> Discard;
";
const ENTRIES: &str = "0 pop 1, 2 pop 1, 16 swap 17 10.0.0.2 0, 17 swap 300/200/100 10.0.0.2 0, \
    18 pop 1, 19 pop 10.0.0.2 0,
    20 swap 16 10.0.0.2 0 | swap 17 fe80::1 0 | pop 1";

/// Feeds a router.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let mut router = Whole::new(&ROUTER.replace("ENTRIES", ENTRIES), &[], Walker::Sweep);
    while !choices.is_empty() {
        let len = usize::from(choices.byte());
        let packet = Packet::from_bytes(choices.bytes(len));
        router.push("in", packet.into_iter().collect::<Batch>());
        router.settle();
    }
    let plan = router.graph().plan().clone();
    for seen in testkit::collected(&plan, "labelled") {
        if seen.network_offset > 0 {
            assert_eq!(mpls::stack_len(&seen.bytes), Ok(seen.network_offset));
        }
    }
    for seen in testkit::collected(&plan, "errors4") {
        let ip = Ipv4::new_checked(&seen.bytes).expect("an error is a whole packet");
        assert!(ip.verify_checksum() && ip.total_len() <= 576);
        assert!(Icmp::new_checked(ip.payload()).is_ok_and(|icmp| icmp.verify_checksum()));
    }
    for seen in testkit::collected(&plan, "errors6") {
        assert!(wire::ipv6::check(&seen.bytes).is_ok() && seen.bytes.len() <= 1280);
    }
    for rest in ["ip", "frames"] {
        testkit::collected(&plan, rest);
    }
    router.check();
    drop((router, plan));
    assert_eq!(pool::balance(), before, "buffers were leaked");
}
