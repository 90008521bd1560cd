//! `conf/linux-router.click` as a whole, controlled by a test in place of a kernel: what it forwards, and what it
//! passes to the kernel.

use engine::graph::Walker;
use forwarding::{
    BLACKHOLE, EXCEPTION, GroupId, Interface, Kernel, LOCAL, Member, Neighbour, Prefix,
};
use router_tests::{InMemory, Whole, conf, run};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{Build, arp_reply, arp_request, ip4, ip6, wait_until};
use wire::{EtherAddr, Ipv4};

/// Devices by number, in the order of their names.
const DEVICES: &[(&str, &str)] = &[("DEV0", "port0"), ("DEV1", "port1")];
const TWIN: usize = 2;

fn text() -> String {
    of("linux-router.click")
}

/// A ready configuration.
fn of(name: &str) -> String {
    let file = conf(name);
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

mod labels;
mod policies;

/// The Ethernet address of an interface.
fn us(port: usize) -> String {
    EtherAddr([2, 0, 0, 0, 0, port as u8]).to_string()
}

/// Address of a host on its link.
fn host(port: usize, n: u8) -> EtherAddr {
    EtherAddr([2, 0, 0, 1, port as u8, n])
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A router with interfaces eth0 (10.0.0.1/24, 2001:db8:0::1/64) and eth1 (10.0.1.1/24, 2001:db8:1::1/64).
struct Steered {
    router: Whole,
    kernel: Arc<Kernel>,
    eth: [Arc<Interface>; 2],
}

impl Steered {
    fn of(text: &str, devices: &[(&str, &str)], walker: Walker) -> Steered {
        let router = Whole::new(text, devices, walker);
        let kernel = router.router_wide::<Kernel>();
        let eth = [0, 1].map(|port| {
            let name = devices.iter().find(|(key, _)| *key == format!("IF{port}"));
            let name = name.map_or(format!("eth{port}"), |(_, name)| (*name).to_owned());
            let eth = kernel.interface(&name).expect("room");
            eth.set_state(true, [2, 0, 0, 0, 0, port as u8], 1500);
            eth
        });
        let mut steered = Steered {
            router,
            kernel,
            eth,
        };
        for port in 0..2 {
            let via = steered.hop(port, None);
            steered.route(&format!("10.0.{port}.0/24"), &[via]);
            steered.route(&format!("10.0.{port}.1/32"), &[at(LOCAL)]);
            steered.route(&format!("2001:db8:{port}::/64"), &[via]);
            steered.route(&format!("2001:db8:{port}::1/128"), &[at(LOCAL)]);
            for n in [2, 3] {
                let known = Neighbour::Reachable(host(port, n).0);
                steered.says(port, &format!("10.0.{port}.{n}"), known);
                steered.says(port, &format!("2001:db8:{port}::{n}"), known);
            }
        }
        steered
    }

    /// A next hop by a port.
    fn hop(&self, port: usize, gateway: Option<&str>) -> Member {
        Member {
            gateway: gateway.map(address),
            port: self.eth[port].number(),
            labels: wire::mpls::Labels::NONE,
            weight: 1,
        }
    }

    /// Sets a route. Returns the group that it leads to.
    fn route(&mut self, prefix: &str, hops: &[Member]) -> GroupId {
        let (net, length) = prefix.split_once('/').expect("a prefix");
        let length = length.parse().expect("a length");
        match address(net) {
            IpAddr::V4(net) => {
                let routes = self.kernel.routes4().expect("memory");
                let group = routes.add_group(hops).expect("an id");
                let prefix = Prefix::new(net.octets(), length);
                routes.apply(&[(prefix, Some(group))]).expect("room");
                group
            }
            IpAddr::V6(net) => {
                let routes = self.kernel.routes6().expect("memory");
                let group = routes.add_group(hops).expect("an id");
                let prefix = Prefix::new(net.octets(), length);
                routes.apply(&[(prefix, Some(group))]).expect("room");
                group
            }
        }
    }

    fn says(&self, port: usize, neighbour: &str, what: Neighbour) {
        self.eth[port].set_neighbour(address(neighbour), what);
    }

    /// Addresses that the kernel was asked for, with the interface.
    fn asked(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let names = self.kernel.interfaces();
        self.kernel.take_asks(&mut |ask| {
            let eth = names.iter().find(|eth| eth.number() == ask.interface);
            let name = eth.expect("one of ours").name().to_owned();
            all.push((name, ask.address.to_string()));
        });
        all
    }

    /// Receives a frame by a device. Returns the frames that left, with their devices.
    fn send(&mut self, device: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.router.receive(device, [frame]);
        self.router.settle();
        self.sent()
    }

    fn sent(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        for device in 0..4 {
            let sent = self.router.sent(device).into_iter();
            all.extend(sent.map(|frame| (device, frame)));
        }
        all
    }

    fn drops(&self, name: &str) -> u64 {
        let drops = self.router.books().drops();
        drops
            .iter()
            .filter(|d| d.0.ends_with(name))
            .map(|d| d.1)
            .sum()
    }
}

fn at(port: u16) -> Member {
    Member {
        gateway: None,
        port,
        labels: wire::mpls::Labels::NONE,
        weight: 1,
    }
}

/// Runs a test on both walkers, and on a router with MPLS labels, which do not affect IP packets.
fn on_both(test: impl Fn(&mut Steered)) {
    on_both_of("linux-router.click", &test);
    on_both_of("linux-mpls.click", &test);
}

fn on_both_of(name: &str, test: impl Fn(&mut Steered)) {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut steered = Steered::of(&of(name), DEVICES, walker);
        test(&mut steered);
        steered.router.check();
    }
}

/// A packet of a host on port 0, as a frame to us.
fn frame(packet: &Build) -> Vec<u8> {
    packet.clone().ether(host(0, 2).to_string(), us(0)).bytes()
}

/// The packet's frame after it is forwarded by a port.
fn onward(packet: &Build, port: usize, to: EtherAddr) -> Vec<u8> {
    packet
        .clone()
        .ttl(63)
        .ether(us(port), to.to_string())
        .bytes()
}

fn to4(dst: &str) -> Build {
    ip4()
        .src("10.0.0.2")
        .dst(dst)
        .udp(1000, 2000)
        .payload_len(20)
}

fn to6(dst: &str) -> Build {
    ip6()
        .src("2001:db8::2")
        .dst(dst)
        .udp(1000, 2000)
        .payload_len(20)
}

#[test]
fn packets_are_forwarded_to_neighbours_and_gateways() {
    on_both(|steered| {
        let via = steered.hop(1, Some("10.0.1.3"));
        steered.route("0.0.0.0/0", &[via]);
        let via = steered.hop(1, Some("2001:db8:1::3"));
        steered.route("::/0", &[via]);
        for (packet, n) in [
            (to4("10.0.1.2"), 2),
            (to4("198.51.100.7"), 3),
            (to6("2001:db8:1::2"), 2),
            (to6("2001:db8:ffff::7"), 3),
        ] {
            let out = steered.send(0, &frame(&packet));
            assert_eq!(out, [(1, onward(&packet, 1, host(1, n)))]);
        }
        assert!(steered.asked().is_empty());
    });
}

#[test]
fn few_packets_that_return_to_their_link_go_to_the_kernel_for_a_redirect() {
    on_both(|steered| {
        for packet in [to4("10.0.0.3"), to6("2001:db8::3")] {
            let came = frame(&packet);
            let straight = [(0, onward(&packet, 0, host(0, 3)))];
            let up = [(TWIN, came.clone())];
            let all: Vec<_> = (0..50).map(|_| steered.send(0, &came)).collect();
            let (first, rest) = all.split_at(10);
            assert!(first.iter().all(|out| *out == up));
            assert!(rest.iter().all(|out| *out == up || *out == straight));
            let count = all.iter().filter(|out| **out == up).count();
            assert!((10..=12).contains(&count), "{count}");
        }
    });
}

#[test]
fn packets_with_the_routers_own_source_address_are_dropped() {
    on_both(|steered| {
        // The kernel handles packets to the router itself, such as a daemon's returned BFD echo.
        steered.route("10.0.1.255/32", &[at(LOCAL)]);
        let from = |source: &str| to4("10.0.1.2").src(source);
        for source in ["10.0.0.1", "10.0.1.1", "10.0.1.255"] {
            assert_eq!(steered.send(0, &frame(&from(source))), []);
            let own = frame(&to4("10.0.0.1").src(source));
            assert_eq!(steered.send(0, &own), [(TWIN, own)], "{source}");
        }
        assert_eq!(steered.drops("own_source"), 3);
        // An address that the router no longer has.
        let via = steered.hop(1, None);
        steered.route("10.0.1.1/32", &[via]);
        for source in ["10.0.1.1", "10.0.1.9"] {
            let packet = from(source);
            let out = steered.send(0, &frame(&packet));
            assert_eq!(out, [(1, onward(&packet, 1, host(1, 2)))]);
        }
        assert_eq!(steered.drops("own_source"), 3);
    });
}

#[test]
fn packets_to_the_router_reach_the_tap_of_their_port_unchanged() {
    on_both(|steered| {
        let asker = host(0, 2).to_string();
        let options = ip4()
            .src("10.0.0.2")
            .dst("10.0.1.2")
            .options(&[1; 4])
            .udp(1, 2);
        let mut lldp = vec![0; 60];
        lldp[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0xe]);
        lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
        for up in [
            frame(&to4("10.0.0.1")),
            // Also to an address of the other port.
            frame(&to4("10.0.1.1")),
            frame(&to6("2001:db8:1::1")),
            frame(&to6("fe80::1")),
            frame(&options),
            arp_request(&asker, "10.0.0.2", "10.0.0.1"),
            arp_reply(&asker, "10.0.0.2", us(0), "10.0.0.1"),
            to4("224.0.0.5")
                .ether(asker.clone(), "01:00:5e:00:00:05")
                .bytes(),
            // A router advertisement, by which a daemon finds its neighbour (RFC 8950).
            ip6()
                .src("fe80::2")
                .dst("ff02::1")
                .icmp(134, 0, 0x4000_0708)
                .ether(asker.clone(), "33:33:00:00:00:01")
                .bytes(),
            // No router forwards a packet that the link sent to all.
            to4("10.0.1.2")
                .ether(asker.clone(), "ff:ff:ff:ff:ff:ff")
                .bytes(),
            lldp,
        ] {
            assert_eq!(steered.send(0, &up), [(TWIN, up)]);
        }
        // Packets of the kernel are sent unchanged.
        let down = arp_request(us(1), "10.0.1.1", "10.0.1.9");
        assert_eq!(steered.send(TWIN + 1, &down), [(1, down)]);
    });
}

#[test]
fn exceptions_go_up_unchanged_by_the_twin_of_the_port_of_arrival() {
    on_both(|steered| {
        steered.route("192.0.2.0/24", &[at(EXCEPTION)]);
        steered.route("198.51.100.0/24", &[at(BLACKHOLE)]);
        let big = |packet: Build| packet.payload_len(1473);
        for packet in [
            to4("203.0.113.1"),     // no route
            to4("192.0.2.1"),       // unreachable, or by a tunnel
            to4("10.0.1.2").ttl(1), // no hop left
            big(to4("10.0.1.2")).df(),
            to6("2001:db9::1"),
            to6("2001:db8:1::2").ttl(1),
            to6("2001:db8:1::2").src("fe80::2"), // must not leave its link
            big(to6("2001:db8:1::2")),
        ] {
            let up = frame(&packet);
            assert_eq!(steered.send(0, &up), [(TWIN, up)]);
        }
        assert!(steered.send(0, &frame(&to4("198.51.100.1"))).is_empty());
        assert_eq!(steered.drops("rt4 blackhole"), 1);
        for source in ["127.0.0.1", "224.0.0.5", "0.0.0.0"] {
            assert!(
                steered
                    .send(0, &frame(&to4("10.0.1.2").src(source)))
                    .is_empty()
            );
        }
        assert_eq!(steered.drops("bad_source"), 3);
    });
}

#[test]
fn the_interfaces_mtu_counts_as_it_is_now() {
    on_both(|steered| {
        let packet = to4("10.0.1.2").payload_len(1000);
        assert_eq!(steered.send(0, &frame(&packet)).len(), 1);
        steered.eth[1].set_state(true, [2, 0, 0, 0, 0, 1], 600);
        let out = steered.send(0, &frame(&packet));
        assert_eq!(out.len(), 2);
        for (device, fragment) in &out {
            let ip = Ipv4::new_checked(&fragment[14..]).expect("a sound header");
            assert!(*device == 1 && ip.total_len() <= 600 && ip.ttl() == 63);
        }
        let up = frame(&to6("2001:db8:1::2").payload_len(1000));
        assert_eq!(steered.send(0, &up), [(TWIN, up)], "IPv6 routers never cut");
    });
}

#[test]
fn neighbours_come_change_fail_and_go() {
    on_both(|steered| {
        let packet = to4("10.0.1.9");
        assert!(steered.send(0, &frame(&packet)).is_empty(), "it waits");
        assert_eq!(
            steered.asked(),
            [("eth1".to_owned(), "10.0.1.9".to_owned())]
        );
        steered.says(1, "10.0.1.9", Neighbour::Reachable(host(1, 9).0));
        steered.router.advance(Duration::from_millis(5));
        assert_eq!(steered.sent(), [(1, onward(&packet, 1, host(1, 9)))]);
        // The neighbour has a new network card.
        steered.says(1, "10.0.1.9", Neighbour::Stale(host(1, 10).0));
        let out = steered.send(0, &frame(&packet));
        assert_eq!(out, [(1, onward(&packet, 1, host(1, 10)))]);
        assert_eq!(steered.asked().len(), 1, "its use asks");
        // The neighbour has failed.
        steered.says(1, "10.0.1.9", Neighbour::Failed);
        let up = frame(&packet);
        assert_eq!(
            steered.send(0, &up),
            [(TWIN, up)],
            "with the hop that it came with"
        );
        let packet = to6("2001:db8:1::9");
        assert!(steered.send(0, &frame(&packet)).is_empty());
        steered.says(1, "2001:db8:1::9", Neighbour::Failed);
        steered.router.advance(Duration::from_millis(300));
        assert_eq!(steered.sent(), [(TWIN, frame(&packet))]);
    });
}

#[test]
fn flows_are_spread_over_next_hops_and_a_lost_one_moves_its_own_only() {
    on_both(|steered| {
        let hops = [
            steered.hop(1, Some("10.0.1.2")),
            steered.hop(1, Some("10.0.1.3")),
            steered.hop(0, Some("10.0.0.3")),
        ];
        let group = steered.route("0.0.0.0/0", &hops);
        let flow = |n: u16| ip4().src("10.0.0.2").dst("198.51.100.7").udp(n, 53);
        let ways = |steered: &mut Steered| -> Vec<EtherAddr> {
            let way = |n| {
                let out = steered.send(0, &frame(&flow(n)));
                assert_eq!(out.len(), 1);
                match &out[0] {
                    // The packet goes back on the same link, and its source could send it directly.
                    (TWIN, _) => host(0, 3),
                    (_, frame) => EtherAddr(*frame.first_chunk().expect("a frame")),
                }
            };
            (0..1200).map(way).collect()
        };
        let before = ways(steered);
        for to in [host(1, 2), host(1, 3), host(0, 3)] {
            let share = before.iter().filter(|mac| **mac == to).count();
            // Six standard deviations: the hash has a different key in each run.
            assert!((300..500).contains(&share), "{to}: {share}");
        }
        let routes = steered.kernel.routes4().expect("memory");
        routes
            .change_groups([(group, &hops[1..])])
            .expect("members");
        let after = ways(steered);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || *before == host(1, 2));
        }
        assert!(!after.contains(&host(1, 2)));
    });
}

#[test]
fn an_interface_that_is_down_neither_receives_nor_sends() {
    on_both(|steered| {
        steered.eth[1].set_state(false, [2, 0, 0, 0, 0, 1], 1500);
        assert!(steered.send(0, &frame(&to4("10.0.1.2"))).is_empty());
        let back = ip4().src("10.0.1.2").dst("10.0.0.2").udp(1, 2);
        let back = back.ether(host(1, 2).to_string(), us(1)).bytes();
        assert!(steered.send(1, &back).is_empty());
        assert_eq!(
            (steered.drops("arp down"), steered.drops("in down")),
            (1, 1)
        );
        steered.eth[1].set_state(true, [2, 0, 0, 0, 0, 1], 1500);
        assert_eq!(steered.send(1, &back).len(), 1);
        let other = to4("10.0.1.2").ether(host(0, 2).to_string(), host(0, 9).to_string());
        assert!(steered.send(0, &other.bytes()).is_empty());
        assert_eq!(steered.drops("in other_host"), 1);
    });
}

#[test]
fn a_flood_goes_up_at_its_classes_rate_only() {
    on_both(|steered| {
        steered.router.handler("port0/punt.rate", "icmp 100 20");
        let ping = ip4().src("10.0.0.2").dst("10.0.0.1").icmp_echo(1, 1);
        let flood = vec![frame(&ping); 200];
        steered.router.receive(0, flood.iter().map(Vec::as_slice));
        steered.router.settle();
        let up = steered.sent();
        assert!(up.len() <= 20 && up.iter().all(|(device, _)| *device == TWIN));
        assert_eq!(steered.drops("port0/punt icmp"), 200 - up.len() as u64);
        let request = arp_request(host(0, 2).to_string(), "10.0.0.2", "10.0.0.1");
        assert_eq!(steered.send(0, &request), [(TWIN, request)]);
    });
}

#[test]
fn a_reload_keeps_what_the_kernel_said() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut steered = Steered::of(&text(), DEVICES, walker);
        let waits = to4("10.0.1.9");
        assert!(steered.send(0, &frame(&waits)).is_empty());
        let generation = steered.kernel.generation();
        let changed = text().replace("ControlPlanePolicer", "ControlPlanePolicer(ICMP 10)");
        assert_ne!(changed, text());
        steered.router = steered.router.reload(&changed, DEVICES);
        assert!(Arc::ptr_eq(&steered.kernel, &steered.router.router_wide()));
        assert_eq!(
            steered.kernel.generation(),
            generation,
            "no interface is new"
        );
        let packet = to4("10.0.1.2");
        let out = steered.send(0, &frame(&packet));
        assert_eq!(out, [(1, onward(&packet, 1, host(1, 2)))]);
        steered.says(1, "10.0.1.9", Neighbour::Reachable(host(1, 9).0));
        steered.router.advance(Duration::from_millis(5));
        assert_eq!(steered.sent(), [(1, onward(&waits, 1, host(1, 9)))]);
    }
}

#[test]
fn workers_share_the_image_and_the_rates() {
    let ports = Arc::new(InMemory::default());
    let rates = text().replace("ControlPlanePolicer", "ControlPlanePolicer(ICMP 1 20)");
    let plan = router_tests::plan(&rates, DEVICES, 2, &*ports, None);
    let kernel = plan.router_wide::<Kernel>();
    let [eth0, eth1] = ["eth0", "eth1"].map(|name| kernel.interface(name).expect("room"));
    eth0.set_state(true, [2, 0, 0, 0, 0, 0], 1500);
    eth1.set_state(true, [2, 0, 0, 0, 0, 1], 1500);
    let routes = kernel.routes4().expect("memory");
    let hop = Member {
        gateway: None,
        port: eth1.number(),
        labels: wire::mpls::Labels::NONE,
        weight: 1,
    };
    let [net, here] = [hop, at(LOCAL)].map(|hop| routes.add_group(&[hop]).expect("an id"));
    let said = [
        (Prefix::new([10, 0, 1, 0], 24), Some(net)),
        (Prefix::new([10, 0, 0, 1], 32), Some(here)),
    ];
    routes.apply(&said).expect("room");
    let far = ["port0", "port1", "tap:eth0"].map(|name| ports.far(name));
    let mut router = run(&plan, ports);

    // Both workers have packets for an unknown neighbour.
    for queue in [0, 1] {
        assert!(far[0].inject(queue, &frame(&to4("10.0.1.2"))));
    }
    wait_until("both to wait", || {
        router.read("port1/arp.length", "").as_deref() == Ok("2")
    });
    eth1.set_neighbour(address("10.0.1.2"), Neighbour::Reachable(host(1, 2).0));
    let sent = far[1].collect_at_least(2, Duration::from_secs(20));
    let expected = onward(&to4("10.0.1.2"), 1, host(1, 2));
    assert!(sent.iter().all(|sent| sent.frame == expected));
    let queues = sent.iter().map(|sent| sent.queue).sum::<usize>();
    assert_eq!((sent.len(), queues), (2, 1), "each worker sends its own");

    // One source floods the router and uses up the tokens. Only then the other one sends, with a later time on its
    // clock. If both sent together, a worker with a late clock could find half of the burst used up, and take the
    // source's share for it.
    let began = Instant::now();
    let ping = frame(&ip4().src("10.0.0.2").dst("10.0.0.1").icmp_echo(1, 1));
    (0..100).for_each(|_| assert!(far[0].inject(0, &ping)));
    let first = far[2].collect_at_least(12, Duration::from_secs(20)).len();
    (0..100).for_each(|_| assert!(far[0].inject(1, &ping)));
    wait_until("all to have come in", || {
        router.read("port0/in.packets", "").as_deref() == Ok("202")
    });
    router.stop();
    router.join();
    // Half of the burst and a source's share of the rest, and the tokens added since.
    let up = (first + far[2].collect().len()) as u64;
    let most = 12 + 2 * (began.elapsed().as_secs() + 1);
    assert!((12..=most).contains(&up), "{up} of {most}");
}

/// A frame with the tag of a VLAN.
fn tagged(frame: &[u8], id: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, id], &frame[12..]].concat()
}

#[test]
fn vlan_port_has_its_own_tap_interface() {
    let devices = [("DEV0", "eth0"), ("DEV1", "eth0.100"), ("IF1", "eth0.100")];
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut steered = Steered::of(&text(), &devices, walker);
        // Devices: eth0, tap:eth0, tap:eth0.100.
        let send = |steered: &mut Steered, device, frame: &[u8]| {
            steered.router.receive(device, [frame]);
            steered.router.settle();
            [0, 1, 2].map(|device| steered.router.sent(device))
        };
        let packet = to4("10.0.1.2");
        let out = send(&mut steered, 0, &frame(&packet));
        assert_eq!(
            out,
            [
                vec![tagged(&onward(&packet, 1, host(1, 2)), 100)],
                vec![],
                vec![]
            ]
        );
        let back = ip4().src("10.0.1.2").dst("10.0.0.2").udp(1, 2);
        let came = back.clone().ether(host(1, 2).to_string(), us(1)).bytes();
        let out = send(&mut steered, 0, &tagged(&came, 100));
        assert_eq!(out, [vec![onward(&back, 0, host(0, 2))], vec![], vec![]]);
        // Towards the kernel, without the tag; from the kernel, it gets one.
        let request = arp_request(host(1, 2).to_string(), "10.0.1.2", "10.0.1.1");
        let out = send(&mut steered, 0, &tagged(&request, 100));
        assert_eq!(out, [vec![], vec![], vec![request]]);
        let ours = arp_request(us(1), "10.0.1.1", "10.0.1.2");
        let out = send(&mut steered, 2, &ours);
        assert_eq!(out, [vec![tagged(&ours, 100)], vec![], vec![]]);
        let expired = back.ttl(1).ether(host(1, 2).to_string(), us(1)).bytes();
        let out = send(&mut steered, 0, &tagged(&expired, 100));
        assert_eq!(out, [vec![], vec![], vec![expired]]);
        steered.router.check();
    }
}
