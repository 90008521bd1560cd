//! A server of a cluster whose file has elements for its external ports.

use control::cluster::generate;
use control::file::parse_cluster;
use engine::graph::Walker;
use router_tests::{Whole, dropped_as};
use testkit::{Build, ip4};

const FILE: &str = r#"
[cluster]
name = "one"
rate = "1Gbps"
elements = '''
// No telnet from outside; what leaves is counted.
elementclass Edge {
    input[0] -> filter :: IPFilter(deny dst tcp port 23, allow all) -> [0] output;
    input[1] -> out :: Counter -> [1] output;
}
'''
[[server]]
name = "only"
[[server.port]]
name = "outside"
device = "mem:0"
addresses = ["10.0.1.1/24"]
gateways = ["10.0.1.9"]
elements4 = "Edge"
[[server.port]]
device = "mem:1"
addresses = ["10.0.2.1/24"]
[[route]]
prefix = "0.0.0.0/0"
via = "10.0.1.9"
"#;

/// A frame to the router's station, which is the same at all ports in memory.
fn frame(packet: Build) -> Vec<u8> {
    packet
        .ether("02:00:00:00:01:09", "02:00:00:00:00:01")
        .bytes()
}

#[test]
fn packets_to_and_from_a_link_pass_the_elements_of_the_file() {
    let parsed = parse_cluster("cluster.toml", FILE);
    let said = parsed.text();
    let of = parsed.description.unwrap_or_else(|| panic!("{said}"));
    let text = generate::text(&of, 0, "cluster.toml");
    let mut router = Whole::new(&text, &[], Walker::Sweep);
    router.handler("port_outside_4/arp.insert", "10.0.1.9 02:00:00:00:01:09");
    router.handler("port_p1_4/arp.insert", "10.0.2.5 02:00:00:00:02:05");
    let host = |port| ip4().src("192.0.2.7").dst("10.0.2.5").tcp(1000, port);
    let frames = [23, 22].map(|port| frame(host(port)));
    router.receive(0, frames.iter().map(Vec::as_slice));
    router.settle();
    let sent = router.sent(1);
    assert_eq!(sent.len(), 1, "telnet does not pass");
    assert_eq!(sent[0][36..38], 22u16.to_be_bytes());
    let drops = router.books().drops();
    let denied = dropped_as(&drops, "port_outside_4/own/filter denied");
    assert_eq!(denied, 1, "{drops:?}");
    let answer = frame(ip4().src("10.0.2.5").dst("192.0.2.7").tcp(23, 1000));
    router.receive(1, [answer.as_slice()]);
    router.settle();
    assert_eq!(router.sent(0).len(), 1);
    assert_eq!(router.handler("port_outside_4/own/out.count", ""), "1");
    router.check();
}
