//! Classes with a fast path for common packets and a general path for all: both give the same results.

use crate::linux::linux_input::LinuxInput;
use crate::mpls::mpls_ether_encap::MplsEtherEncap;
use engine::element::Class;
use forwarding::Kernel;
use testkit::fast_path::{FastOrSlow, ME, OTHER, both_paths_agree};
use wire::EtherAddr;

const fn classes<const FAST: bool>() -> [Class; 2] {
    [
        Class::of::<FastOrSlow<LinuxInput, FAST>>(),
        Class::of::<FastOrSlow<MplsEtherEncap, FAST>>(),
    ]
}

const BOTH: [&[Class]; 2] = [&classes::<true>(), &classes::<false>()];

#[test]
fn labelled_packets_get_headers_alike() {
    let elements = ["MPLSEtherEncap(2:0:0:0:0:1, 2:0:0:0:0:2)"];
    both_paths_agree(BOTH, &elements, |_| (), |_, _| ());
}

#[test]
fn frames_for_an_interface_are_told_apart_alike() {
    let elements = ["LinuxInput(eth0, p0)"];
    both_paths_agree(
        BOTH,
        &elements,
        |bench| {
            let kernel = bench.router_wide::<Kernel>();
            let eth0 = kernel.interface("eth0").expect("room");
            eth0.set_state(true, ME, 1500);
            eth0.set_others(vec![EtherAddr(OTHER)]);
        },
        |_, _| (),
    );
}
