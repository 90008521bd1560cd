//! The thread with a real kernel, in the test's own network namespace. Only root can make one.

use super::fpm::Fpm;
use super::socket::Requests;
use super::{Collector, Listen, Netlink, To};
use forwarding::{EXCEPTION, FORWARDED, Kernel, LOCAL, Member, Neighbour};
use ports::Namespace;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;
use testkit::wait_until;
use wire::netlink::{
    NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NewHop, NewRoute, RTM_NEWROUTE, RouteKind,
    TABLE_MAIN, Target, Writer,
};

/// A namespace with two links, whose ends are `v0` and `v1`, and `v2` and `v3`. The thread follows it.
struct Bed {
    kernel: Arc<Kernel>,
    /// Dropped before the namespace that it follows.
    netlink: Option<Netlink>,
    namespace: testkit::Namespace,
}

impl Bed {
    fn new(test: &str) -> Bed {
        let bed = Bed {
            kernel: Arc::default(),
            netlink: None,
            namespace: testkit::Namespace::new(&format!("netlink-{test}")),
        };
        bed.ip("link set lo up");
        for (a, b) in [("v0", "v1"), ("v2", "v3")] {
            bed.ip(&format!("link add {a} type veth peer name {b}"));
            bed.ip(&format!("link set {a} up"));
            bed.ip(&format!("link set {b} up"));
        }
        bed.kernel.interface("v0").expect("room");
        bed.kernel.interface("v2").expect("room");
        bed
    }

    fn follow(&mut self) {
        let namespace = self.open();
        let kernel = Arc::clone(&self.kernel);
        self.netlink = Some(
            Netlink::start((kernel, Arc::default()), Some(Arc::new(namespace)), None)
                .expect("it starts"),
        );
    }

    fn open(&self) -> Namespace {
        Namespace::open(self.namespace.name()).expect("it was made")
    }

    fn ip(&self, args: &str) {
        self.namespace.ip(args);
    }

    fn exec(&self, command: &str) {
        self.namespace.exec(command);
    }

    /// Group members for packets to an address.
    fn way(&self, address: &str) -> Vec<Member> {
        let address: Ipv4Addr = address.parse().expect("an address");
        let routes = self.kernel.routes4().expect("memory");
        let group = routes.lookup(address.octets());
        group.map_or_else(Vec::new, |group| routes.members(group))
    }

    fn neighbour(&self, address: &str) -> Option<Neighbour> {
        let address: IpAddr = address.parse().expect("an address");
        let v0 = self.kernel.interface("v0").expect("it is there");
        let mut all = v0.neighbours().into_iter();
        all.find(|(a, _)| *a == address).map(|(_, n)| n)
    }

    fn count(&self, name: &str) -> u64 {
        let counts = self.netlink.as_ref().expect("it follows").counts().list();
        let mut counts = counts.into_iter();
        counts
            .find(|c| c.1 == name)
            .expect("there is such a count")
            .3
    }
}

#[test]
fn address_of_one_back_end_is_refused_for_another() {
    let bed = Bed::new("own");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("addr add 10.0.0.9/24 dev v0");
    bed.ip("addr add 2001:db8::1/64 dev v0 nodad");
    bed.ip("route add local 10.7.0.0/16 dev lo");
    let namespace = bed.open();
    for (address, own) in [
        ("10.0.0.1", true),
        ("10.0.0.9", true),
        ("::ffff:10.0.0.9", true),
        ("10.7.8.9", true),
        ("2001:db8::1", true),
        ("10.0.0.2", false),
        ("2001:db8::2", false),
    ] {
        let listen = Listen {
            address: "0.0.0.0:0".parse().expect("an address"),
            users: Vec::new(),
            from: Some(address.parse().expect("an address")),
            stale: std::time::Duration::ZERO,
        };
        let opened = namespace.run(move || Fpm::open(listen).map(|_| ()));
        let refused = opened.err().map(|e| e.to_string());
        let text = "every user of this machine";
        assert_eq!(refused.is_some_and(|e| e.contains(text)), own, "{address}");
    }
}

fn hop(gateway: &str, port: u16, weight: u16) -> Member {
    Member {
        gateway: gateway.parse().ok(),
        port,
        labels: wire::mpls::Labels::NONE,
        weight,
    }
}

#[test]
fn existing_and_changing_objects_are_in_the_image() {
    let mut bed = Bed::new("image");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("route add 192.0.2.0/24 via 10.0.0.2");
    bed.follow();
    wait_until("the first answers", || bed.count("synced") == 1);
    let v0 = bed.kernel.interface("v0").expect("it is there");
    assert!(v0.is_up() && v0.mtu() == 1500);
    assert_eq!(bed.way("10.0.0.1"), [hop("", LOCAL, 1)]);
    assert_eq!(bed.way("192.0.2.1"), [hop("10.0.0.2", 3, 1)]);
    bed.ip("addr add 10.0.2.1/24 dev v2");
    bed.ip(
        "route replace 192.0.2.0/24 nexthop via 10.0.0.3 weight 2 nexthop via 10.0.2.3 weight 5",
    );
    let both = [hop("10.0.0.3", 3, 2), hop("10.0.2.3", 4, 5)];
    wait_until("two hops", || bed.way("192.0.2.1") == both);
    bed.ip("link set v2 down");
    wait_until("one hop", || {
        bed.way("192.0.2.1") == [hop("10.0.0.3", 3, 2)]
    });
    bed.ip("route add unreachable 198.51.100.0/24");
    wait_until("a refusal", || {
        bed.way("198.51.100.1") == [hop("", EXCEPTION, 1)]
    });
    bed.ip("link set v0 mtu 1400");
    wait_until("the MTU", || v0.mtu() == 1400);
    bed.ip("link set v0 down");
    wait_until("down", || !v0.is_up() && bed.way("192.0.2.1").is_empty());
}

#[test]
fn ipv6_routes_that_go_with_a_link_without_a_word_make_room_for_others() {
    let mut bed = Bed::new("silent6");
    bed.exec("sysctl -qw net.ipv6.route.skip_notify_on_dev_down=1");
    bed.ip("addr add 2001:db8::1/64 dev v0 nodad");
    bed.ip("addr add 2001:db8:2::1/64 dev v2 nodad");
    bed.ip("route add 2001:db8:f::/48 via 2001:db8::2 metric 10");
    bed.ip("route add 2001:db8:f::/48 via 2001:db8:2::2 metric 20");
    bed.follow();
    wait_until("the first answers", || bed.count("synced") == 1);
    let way = || {
        let routes = bed.kernel.routes6().expect("memory");
        let address: std::net::Ipv6Addr = "2001:db8:f::1".parse().expect("an address");
        let group = routes.lookup(address.octets());
        group.map_or_else(Vec::new, |group| routes.members(group))
    };
    assert_eq!(way(), [hop("2001:db8::2", 3, 1)]);
    bed.ip("link set v0 down");
    wait_until("the other", || way() == [hop("2001:db8:2::2", 4, 1)]);
    bed.ip("link set v0 up");
    wait_until("up", || {
        bed.kernel.interface("v0").is_some_and(|v0| v0.is_up())
    });
    assert_eq!(way(), [hop("2001:db8:2::2", 4, 1)]);
}

#[test]
fn routes_removed_silently_with_an_address_are_detected() {
    let mut bed = Bed::new("silent");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("route add 192.0.2.0/24 via 10.0.0.2");
    bed.follow();
    wait_until("the route", || {
        bed.way("192.0.2.1") == [hop("10.0.0.2", 3, 1)]
    });
    bed.ip("addr del 10.0.0.1/24 dev v0");
    wait_until("it has gone", || bed.way("192.0.2.1").is_empty());
}

#[test]
fn neighbours_are_mirrored_and_requested() {
    let mut bed = Bed::new("neighbours");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev v0");
    bed.follow();
    let mac = |n| [2, 0, 0, 0, 0, n];
    wait_until("one by hand", || {
        bed.neighbour("10.0.0.2") == Some(Neighbour::Permanent(mac(2)))
    });
    bed.ip("neigh replace 10.0.0.2 lladdr 02:00:00:00:00:03 dev v0 nud stale");
    wait_until("another address", || {
        bed.neighbour("10.0.0.2") == Some(Neighbour::Stale(mac(3)))
    });
    bed.ip("neigh del 10.0.0.2 dev v0");
    wait_until("it has gone", || bed.neighbour("10.0.0.2").is_none());
}

#[test]
fn an_interface_that_is_named_later_is_found() {
    let mut bed = Bed::new("named");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("addr add 10.0.3.1/24 dev v3");
    bed.ip("route add 192.0.2.0/24 via 10.0.3.2");
    bed.ip("neigh add 10.0.3.2 lladdr 02:00:00:00:00:02 dev v3");
    bed.follow();
    wait_until("the kernel's", || {
        bed.way("192.0.2.1") == [hop("", FORWARDED, 1)]
    });
    let v3 = bed.kernel.interface("v3").expect("room");
    bed.netlink.as_ref().expect("it follows").rematch();
    wait_until("ours", || bed.way("192.0.2.1") == [hop("10.0.3.2", 5, 1)]);
    wait_until("its neighbours", || {
        v3.is_up() && v3.neighbours().len() == 1
    });
}

#[test]
fn routes_that_differ_in_the_routers_own_address_alone_are_two() {
    let mut bed = Bed::new("source");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("addr add 10.0.0.9/24 dev v0");
    bed.follow();
    wait_until("the first answers", || bed.count("synced") == 1);
    for source in ["10.0.0.1", "10.0.0.9"] {
        bed.ip(&format!(
            "route append 192.0.2.0/24 via 10.0.0.2 src {source}"
        ));
    }
    wait_until("the route", || {
        bed.way("192.0.2.1") == [hop("10.0.0.2", 3, 1)]
    });
    bed.ip("route del 192.0.2.0/24 src 10.0.0.1");
    // This message comes after the deletion.
    bed.ip("route add 198.51.100.0/24 via 10.0.0.2");
    wait_until("another", || !bed.way("198.51.100.1").is_empty());
    assert_eq!(bed.way("192.0.2.1"), [hop("10.0.0.2", 3, 1)]);
    bed.ip("route del 192.0.2.0/24");
    wait_until("none", || bed.way("192.0.2.1").is_empty());
}

#[test]
fn rules_that_are_not_followed_are_counted() {
    let mut bed = Bed::new("rules");
    bed.ip("rule add from 192.0.2.0/24 table 1000");
    bed.follow();
    wait_until("one at the start", || bed.count("rules") == 1);
    bed.ip("-6 rule add pref 7 lookup 1000");
    wait_until("another", || bed.count("rules") == 2);
    bed.ip("rule del from 192.0.2.0/24 table 1000");
    bed.ip("-6 rule del pref 7");
    wait_until("none", || bed.count("rules") == 0);
}

#[test]
fn interfaces_from_which_the_kernel_forwards_nothing_are_counted() {
    let mut bed = Bed::new("forwarding");
    let set = |bed: &Bed, v4: u8, v6: u8| {
        bed.exec(&format!(
            "sysctl -qw net.ipv4.ip_forward={v4} net.ipv6.conf.all.forwarding={v6}"
        ));
    };
    set(&bed, 1, 1);
    bed.follow();
    wait_until("the first answers", || bed.count("synced") == 1);
    assert_eq!(bed.count("not_forwarding"), 0);
    let links = bed.count("links_used");
    set(&bed, 0, 1);
    wait_until("IPv4 of all", || bed.count("not_forwarding") == links);
    set(&bed, 1, 0);
    wait_until("IPv6 of all", || bed.count("not_forwarding") == links);
    bed.exec("sysctl -qw net.ipv4.conf.v0.forwarding=0");
    wait_until("IPv4 of one more", || {
        bed.count("not_forwarding") == links + 1
    });
    // Setting `all` to 1 again does not change the value of one interface.
    bed.exec("sysctl -qw net.ipv4.conf.v0.forwarding=1");
    set(&bed, 1, 1);
    wait_until("none", || bed.count("not_forwarding") == 0);
}

#[test]
fn routes_without_carrier_rest_if_the_kernel_ignores_them() {
    let mut bed = Bed::new("linkdown");
    bed.exec("sysctl -qw net.ipv4.conf.v0.ignore_routes_with_linkdown=1");
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.ip("addr add 10.0.2.1/24 dev v2");
    bed.ip("route add 192.0.2.0/24 via 10.0.0.2");
    bed.ip("route add 192.0.2.0/24 via 10.0.2.2 metric 50");
    bed.follow();
    let (first, second) = ([hop("10.0.0.2", 3, 1)], [hop("10.0.2.2", 4, 1)]);
    wait_until("the first", || bed.way("192.0.2.1") == first);
    bed.ip("link set v1 down");
    wait_until("the other", || bed.way("192.0.2.1") == second);
    // The kernel marks such routes as dead, though they still exist.
    bed.netlink = None;
    bed.follow();
    wait_until("a new start", || bed.count("synced") == 1);
    assert_eq!(bed.way("192.0.2.1"), second);
    bed.ip("link set v1 up");
    wait_until("the first again", || bed.way("192.0.2.1") == first);
    bed.exec("sysctl -qw net.ipv4.conf.v0.ignore_routes_with_linkdown=0");
    bed.ip("link set v1 down");
    bed.ip("route add 198.51.100.0/24 via 10.0.2.2");
    wait_until("another", || !bed.way("198.51.100.1").is_empty());
    assert_eq!(bed.way("192.0.2.1"), first);
    bed.exec("sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1");
    wait_until("the other again", || bed.way("192.0.2.1") == second);
}

/// Makes the kernel of the calling thread's namespace add `count` routes with a 24-bit prefix, from 11.0.0.0 on.
fn burst(count: u32) {
    let mut requests = Requests::open().expect("a socket");
    let hop = NewHop {
        interface: 0,
        gateway: "10.0.0.2".parse().ok(),
        weight: 1,
        flags: 0,
    };
    let mut buffer = vec![0; 60 << 10];
    let mut writer = Writer::new(&mut buffer);
    for n in 0..count {
        let route = NewRoute {
            dst: IpAddr::V4(Ipv4Addr::from_bits((11 << 24) + (n << 8))),
            dst_len: 24,
            table: TABLE_MAIN,
            protocol: 4,
            kind: RouteKind::Unicast,
            priority: 0,
            target: Target::Hops(&[hop]),
        };
        let flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE;
        if writer.route(RTM_NEWROUTE, flags, 0, &route).is_err() {
            requests.send(writer.bytes()).expect("it is sent");
            writer.clear();
            let again = writer.route(RTM_NEWROUTE, flags, 0, &route);
            again.expect("an empty buffer has room");
        }
    }
    requests.send(writer.bytes()).expect("it is sent");
    assert_eq!(requests.refusals(), 0);
}

#[test]
fn burst_of_routes_reaches_the_table_completely() {
    let mut bed = Bed::new("burst");
    // For measurements: ASHLAR_BURST=500000 cargo test --release, with a clock or callgrind.
    let count = std::env::var("ASHLAR_BURST").map_or(20_000, |n| n.parse().expect("a number"));
    bed.ip("addr add 10.0.0.1/24 dev v0");
    bed.follow();
    wait_until("the first answers", || bed.count("synced") == 1);
    let before = bed.count("routes4");
    let namespace = bed.open();
    let begun = Instant::now();
    namespace.run(move || burst(count));
    let sent = begun.elapsed();
    wait_until("all routes", || {
        bed.count("routes4") == before + u64::from(count)
    });
    println!(
        "{count} routes: sent in {sent:?}, known after {:?}",
        begun.elapsed()
    );
    assert_eq!(bed.count("lost"), 0);
    let last = Ipv4Addr::from_bits((11 << 24) + ((count - 1) << 8) + 7);
    assert_eq!(bed.way(&last.to_string()), [hop("10.0.0.2", 3, 1)]);
}

#[test]
fn a_collector_has_the_gateways_of_all_routes_by_whatever_link_and_says_when_all_are_there() {
    let bed = Bed::new("collect");
    bed.ip("link add stand type veth peer name far");
    bed.ip("link set far up");
    bed.ip("addr add 10.0.1.1/24 dev stand");
    bed.ip("link set stand up");
    bed.ip("route add 198.51.100.0/24 via 10.0.1.2");
    bed.ip("route add 203.0.113.0/24 via 10.9.9.9 dev v0 onlink");
    bed.ip("route add blackhole 192.0.2.0/24");
    bed.ip("-6 route add 2001:db8::/32 via fe80::2 dev v2");
    let collector = Collector::new(Box::new(|| {}));
    let namespace = Arc::new(bed.open());
    let _netlink = Netlink::collect(Arc::clone(&collector), namespace).expect("it starts");
    let mut known = std::collections::BTreeMap::new();
    let mut until_all = |what: &str, right: &dyn Fn(&[String]) -> bool| {
        wait_until(what, || {
            let (changed, complete) = collector.take(2);
            for ((address, length), to) in changed {
                let to = match to {
                    Some(To::Gateways(vias)) => {
                        let each = vias.iter();
                        let each = each.map(|via| format!("{} {}", via.gateway, via.interface));
                        each.collect::<Vec<_>>().join(" | ")
                    }
                    Some(To::Nowhere) => "nowhere".to_owned(),
                    Some(To::Elsewhere(_)) => "elsewhere".to_owned(),
                    None => {
                        known.remove(&(address, length));
                        continue;
                    }
                };
                known.insert((address, length), format!("{address}/{length} {to}"));
            }
            let known: Vec<String> = known.values().cloned().collect();
            complete && right(&known)
        });
    };
    let first = [
        "192.0.2.0/24 nowhere",
        "198.51.100.0/24 10.0.1.2 stand",
        "203.0.113.0/24 10.9.9.9 v0",
        "2001:db8::/32 fe80::2 v2",
    ];
    until_all("all routes", &|known| known == first);
    bed.ip("route replace 198.51.100.0/24 nexthop via 10.0.1.3 nexthop via 10.0.1.4");
    bed.ip("route del 192.0.2.0/24");
    let second = "198.51.100.0/24 10.0.1.3 stand | 10.0.1.4 stand";
    until_all("a change", &|known| known.len() == 3 && known[0] == second);
    // A link that goes takes its routes with it.
    bed.ip("link del stand");
    until_all("the end of a link", &|known| known == &first[2..]);
    collector.repeat();
    let (again, complete) = collector.take(100);
    assert!(complete && again.len() >= 2, "{again:?}");
}
