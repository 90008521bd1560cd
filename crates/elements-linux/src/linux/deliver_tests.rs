use forwarding::{Interface, Kernel, Member, Neighbour, Prefix};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::{Bench, ip4, ip6};
use wire::EtherAddr;

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const FOUR: &str = "c :: CheckIPHeader -> DecIPTTL -> arp :: LinuxARP(eth0) -> out :: Collect;
    arp[1] -> back :: Collect";

struct Link {
    bench: Bench,
    kernel: Arc<Kernel>,
    eth0: Arc<Interface>,
}

impl Link {
    fn new(text: &str) -> Link {
        let mut bench = Bench::new(crate::with_basics(), text);
        let kernel = bench.router_wide::<Kernel>();
        let eth0 = kernel.interface("eth0").expect("room");
        eth0.set_state(true, US, 1500);
        Link {
            bench,
            kernel,
            eth0,
        }
    }

    fn says(&self, address: &str, neighbour: Neighbour) {
        let address = address.parse().expect("an address");
        self.eth0.set_neighbour(address, neighbour);
    }

    /// Addresses that the kernel was requested to resolve.
    fn asked(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.kernel.take_asks(&mut |ask| {
            assert_eq!(ask.interface, self.eth0.number());
            all.push(ask.address.to_string());
        });
        all
    }

    fn wait(&mut self, millis: u64) {
        self.bench.advance(Duration::from_millis(millis));
    }
}

fn to(dst: &str, n: u16) -> Vec<u8> {
    ip4().src("10.0.0.9").dst(dst).udp(n, 2).bytes()
}

/// The frame in which a packet leaves, one hop later.
fn frame(mac: [u8; 6], dst: &str, n: u16) -> Vec<u8> {
    let text = |mac| EtherAddr(mac).to_string();
    let packet = ip4().src("10.0.0.9").dst(dst).udp(n, 2).ttl(63);
    packet.ether(text(US), text(mac)).bytes()
}

#[test]
fn packets_wait_in_order_until_the_kernel_knows() {
    let mut link = Link::new(FOUR);
    link.bench
        .push("c", &[to("10.0.0.2", 1), to("10.0.0.2", 2)]);
    assert_eq!(link.asked(), ["10.0.0.2"], "once for both");
    link.says("10.0.0.2", Neighbour::Reachable(A));
    link.wait(5);
    assert_eq!(
        link.bench.take("out"),
        [frame(A, "10.0.0.2", 1), frame(A, "10.0.0.2", 2)]
    );
    link.bench.push("c", &[to("10.0.0.2", 3)]);
    assert_eq!(link.bench.take("out"), [frame(A, "10.0.0.2", 3)]);
    assert!(link.asked().is_empty(), "it is reachable");
    // The neighbour's Ethernet address changes; then our own.
    link.says("10.0.0.2", Neighbour::Reachable(B));
    link.bench.push("c", &[to("10.0.0.2", 4)]);
    assert_eq!(link.bench.take("out"), [frame(B, "10.0.0.2", 4)]);
    link.eth0.set_state(true, A, 1500);
    link.bench.push("c", &[to("10.0.0.2", 4)]);
    assert_eq!(link.bench.take("out")[0][6..12], A);
}

#[test]
fn a_stale_neighbour_is_used_on_and_asked_for_once_a_second() {
    let mut link = Link::new(FOUR);
    link.says("10.0.0.2", Neighbour::Stale(A));
    for second in 0..9 {
        for _ in 0..10 {
            link.bench.push("c", &[to("10.0.0.2", 1)]);
            link.wait(100);
        }
        assert_eq!(link.asked(), ["10.0.0.2"], "second {second}");
    }
    assert_eq!(
        link.bench.take("out").len(),
        90,
        "nobody has called it gone"
    );
    link.says("10.0.0.2", Neighbour::Permanent(A));
    link.wait(2000);
    link.bench.push("c", &[to("10.0.0.2", 1)]);
    assert!(link.asked().is_empty());
}

#[test]
fn packets_for_a_neighbour_that_fails_leave_unchanged_by_output_1() {
    let mut link = Link::new(FOUR);
    link.bench.push("c", &[to("10.0.0.2", 1)]);
    link.says("10.0.0.2", Neighbour::Failed);
    link.wait(300);
    link.bench.push("c", &[to("10.0.0.2", 2)]);
    assert_eq!(
        link.bench.take("back"),
        [to("10.0.0.2", 1), to("10.0.0.2", 2)]
    );
    link.asked();
    // Later it is requested again.
    link.wait(1000);
    link.bench.push("c", &[to("10.0.0.2", 3)]);
    assert_eq!(link.asked(), ["10.0.0.2"]);
    assert!(link.bench.take("back").is_empty());
    link.says("10.0.0.2", Neighbour::Reachable(A));
    link.wait(5);
    assert_eq!(link.bench.take("out"), [frame(A, "10.0.0.2", 3)]);
}

#[test]
fn a_neighbour_that_is_gone_is_resolved_again() {
    let mut link = Link::new(FOUR);
    link.says("10.0.0.2", Neighbour::Reachable(A));
    link.says("10.0.0.2", Neighbour::Gone);
    link.bench.push("c", &[to("10.0.0.2", 1)]);
    assert_eq!(link.asked(), ["10.0.0.2"]);
}

#[test]
fn packets_wait_two_seconds_and_then_with_the_kernel() {
    let mut link = Link::new(FOUR);
    link.bench.push("c", &[to("10.0.0.2", 1)]);
    link.wait(1900);
    assert!(link.bench.take("back").is_empty());
    // The kernel is still resolving: it takes three seconds, and answers for packets that it has by then.
    link.wait(900);
    assert_eq!(link.bench.take("back"), [to("10.0.0.2", 1)]);
    assert_eq!(link.asked().len(), 2, "a question a second");
}

#[test]
fn groups_need_no_questions_and_the_rest_is_dropped_by_name() {
    let mut link = Link::new(FOUR);
    link.bench.push("c", &[to("224.0.0.5", 1)]);
    assert_eq!(link.bench.take("out")[0][..6], [1, 0, 0x5e, 0, 0, 5]);
    link.eth0.set_state(false, US, 1500);
    link.bench.push("c", &[to("10.0.0.2", 1)]);
    assert_eq!(link.bench.drops("arp", "down"), 1);
    assert!(link.asked().is_empty());
}

#[test]
fn too_many_packets_make_room_by_name() {
    let mut link = Link::new(FOUR);
    let many: Vec<_> = (0..100).map(|n| to("10.0.0.2", n)).collect();
    link.bench.push("c", &many);
    assert_eq!(link.bench.read("arp.length"), "64");
    assert_eq!(link.bench.drops("arp", "full"), 36);
}

#[test]
fn a_reload_keeps_neighbours_and_packets_that_wait_for_them() {
    let mut link = Link::new(FOUR);
    link.says("10.0.0.3", Neighbour::Reachable(B));
    link.bench.push("c", &[to("10.0.0.2", 1)]);
    let more = FOUR.replace("-> DecIPTTL", "-> Counter -> DecIPTTL");
    link.bench.reload(&more).expect("sound");
    link.says("10.0.0.2", Neighbour::Reachable(A));
    link.bench.push("c", &[to("10.0.0.3", 2)]);
    link.wait(5);
    let mut out = link.bench.take("out");
    out.sort();
    assert_eq!(out, [frame(A, "10.0.0.2", 1), frame(B, "10.0.0.3", 2)]);
    let table = link.bench.read("arp.table");
    assert_eq!(
        table,
        "10.0.0.2 02:00:00:00:00:0a reachable\n10.0.0.3 02:00:00:00:00:0b reachable\n"
    );
}

#[test]
fn ip6_neighbours_are_found_alike() {
    let mut link = Link::new(
        "c :: CheckIP6Header -> DecIP6HLIM -> nd :: LinuxND(eth0) -> out :: Collect;
        nd[1] -> back :: Collect",
    );
    let to = |dst: &str| ip6().src("2001:db8::9").dst(dst).udp(1, 2).bytes();
    link.bench
        .push("c", &[to("2001:db8::2"), to("2001:db8::3")]);
    assert_eq!(link.asked(), ["2001:db8::2", "2001:db8::3"]);
    link.says("2001:db8::2", Neighbour::Reachable(A));
    link.says("2001:db8::3", Neighbour::Failed);
    link.wait(300);
    let out = link.bench.take("out");
    assert_eq!(
        (out.len(), &out[0][..6], &out[0][12..14]),
        (1, &A[..], &[0x86, 0xdd][..])
    );
    assert_eq!(out[0][14 + 7], 63, "one hop less");
    assert_eq!(link.bench.take("back"), [to("2001:db8::3")]);
    let known: Vec<(IpAddr, Neighbour)> = link.eth0.neighbours();
    assert_eq!(known.len(), 1);
}

#[test]
fn an_ip4_packet_can_go_by_an_ip6_next_hop() {
    let mut link = Link::new(
        "c :: CheckIPHeader -> rt :: LinuxIPLookup(eth0) -> Discard; rt[1] -> Discard;
        rt[2] -> DecIPTTL -> arp :: LinuxARP(eth0) -> out :: Collect; arp[1] -> back :: Collect",
    );
    let routes = link.kernel.routes4().expect("memory");
    let hop = Member {
        gateway: Some("fe80::9".parse().expect("an address")),
        port: link.eth0.number(),
        labels: wire::mpls::Labels::NONE,
        weight: 1,
    };
    let group = routes.add_group(&[hop]).expect("an id");
    let all = Prefix::new([0; 4], 0);
    routes.apply(&[(all, Some(group))]).expect("room");
    link.bench.push("c", &[to("20.0.0.2", 1)]);
    assert_eq!(link.asked(), ["fe80::9"]);
    link.says("fe80::9", Neighbour::Reachable(A));
    link.wait(5);
    link.bench.push("c", &[to("20.0.0.3", 2)]);
    let frames = [frame(A, "20.0.0.2", 1), frame(A, "20.0.0.3", 2)];
    assert_eq!(link.bench.take("out"), frames);
}
