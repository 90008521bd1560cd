//! `conf/ipsec-linux.click`: policies about ports, and packets that come in fragments.

use super::{DEVICES, Steered, TWIN, frame, of, to4, to6};
use engine::graph::Walker;
use testkit::Build;
use wire::ether;

/// Only packets to UDP port 2000 come in.
const POLICIES: &str = "\
    policy in src 0.0.0.0/0 dst 0.0.0.0/0 proto udp dport 2000 bypass, \
    policy in src 0.0.0.0/0 dst 0.0.0.0/0 discard, \
    policy in src ::/0 dst ::/0 proto udp dport 2000 bypass, \
    policy in src ::/0 dst ::/0 discard";

#[test]
fn fragments_for_the_router_itself_come_whole_to_policies_about_ports() {
    let definitions = [DEVICES, &[("IPSEC", POLICIES)]].concat();
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut steered = Steered::of(&of("ipsec-linux.click"), &definitions, walker);
        let mut send = |whole: &Build| -> Vec<(usize, Vec<u8>)> {
            let link = frame(whole)[..ether::LEN].to_vec();
            let pieces = whole.fragments(400).into_iter();
            let frames = pieces.map(|piece| [&link[..], &piece].concat());
            frames.flat_map(|frame| steered.send(0, &frame)).collect()
        };
        for whole in [to4("10.0.0.1"), to6("2001:db8::1")] {
            let whole = whole.ident(7).payload_len(1000);
            let [(TWIN, up)] = &send(&whole)[..] else {
                panic!("it goes to the kernel, once");
            };
            assert_eq!(up[ether::LEN..], whole.bytes());
            assert!(send(&whole.udp(1000, 2001)).is_empty());
        }
        steered.router.check();
    }
}
