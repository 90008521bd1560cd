//! Instructions per packet of the ready routers' packet loops, side by side, without any driver:
//!
//! ```text
//! cargo build --release -p router-tests --example router_turns
//! for conf in ip-router linux-router; do
//!     valgrind --tool=callgrind --toggle-collect='*Graph*turn*' --callgrind-out-file=/dev/null \
//!         target/release/examples/router_turns $conf 2>&1 | grep -E 'packets|Collected'
//! done
//! ```
//!
//! Divide the collected instructions by the packets. Bursts of 32 packets go from one port to the other, by in-memory
//! ports, each packet to a destination of its own behind one gateway.
#![allow(clippy::print_stdout)]

use engine::graph::Walker;
use forwarding::{Kernel, Member, Neighbour, Prefix};
use router_tests::{Whole, conf};
use testkit::ip4;

const BURSTS: u32 = 3000;
const BURST: u32 = 32;
const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GATEWAY: [u8; 4] = [10, 0, 2, 254];

/// Makes the kernel's image lead all packets to the gateway.
fn steer(router: &Whole) {
    let kernel = router.router_wide::<Kernel>();
    for name in ["eth0", "eth1"] {
        let eth = kernel.interface(name).expect("room");
        eth.set_state(true, US, 1500);
    }
    let eth1 = kernel.interface("eth1").expect("room");
    eth1.set_neighbour(GATEWAY.into(), Neighbour::Reachable([2, 0, 0, 0, 0, 9]));
    let hop = Member {
        gateway: Some(GATEWAY.into()),
        port: eth1.number(),
        labels: wire::mpls::Labels::NONE,
        weight: 1,
    };
    let routes = kernel.routes4().expect("memory");
    let group = routes.add_group(&[hop]).expect("an id");
    let all = Prefix::new([0; 4], 0);
    routes.apply(&[(all, Some(group))]).expect("room");
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or("linux-router".to_owned());
    let text = std::fs::read_to_string(conf(&format!("{name}.click"))).expect("a ready router");
    let devices = [("DEV0", "mem:0"), ("DEV1", "mem:1")];
    let mut router = Whole::new(&text, &devices, Walker::Sweep);
    if name == "linux-router" {
        steer(&router);
    } else {
        router.handler("rt4.add", "0.0.0.0/0 10.0.2.254 2");
        router.handler("i1/arp.insert", "10.0.2.254 02:00:00:00:00:09");
    }
    let mut sent = 0;
    for burst in 0..BURSTS {
        let frames: Vec<_> = (0..BURST)
            .map(|n| {
                let dst = std::net::Ipv4Addr::from(0x1400_0000 + (burst * BURST + n) * 257);
                let packet = ip4()
                    .src("10.0.1.2")
                    .dst(dst)
                    .udp(1000, 2000)
                    .payload_len(18);
                packet
                    .ether("02:00:00:00:00:08", "02:00:00:00:00:01")
                    .bytes()
            })
            .collect();
        router.receive(0, frames.iter().map(Vec::as_slice));
        router.settle();
        sent += router.sent(1).len();
    }
    println!("{name}: {sent} packets");
}
