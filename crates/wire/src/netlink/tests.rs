//! Messages of Linux 6.18, recorded after the `ip` commands given here.

use super::*;
use crate::mpls::Labels;
use crate::testing::hammer;
use crate::{EtherAddr, Prefix4};
use core::net::IpAddr;
use std::vec;
use std::vec::Vec;

/// `ip link set v0 up, the attributes that are read`
const LINK: &str = "5400000010000000000000000000000000000100030000000310010001000000070003007630000008000d00e8030000050\
     010000300000008000400dc05000005002100010000000a000100464e500c905e0000";
/// `ip addr add 10.0.0.1/24 dev v0`
const ADDRESS: &str = "4c00000014000000202e026be95b00000218800003000000080001000a000001080002000a0000010700030076300000\
     080008008000000014000600ffffffffffffffffc3544800c3544800";
/// `ip addr add 2001:db8::1/64 dev v0 nodad`
const ADDRESS6: &str = "480000001400000000000000000000000a408200030000001400010020010db80000000000000000000000011400060\
     0ffffffffffffffff32554800325548000800080082000000";
/// `ip route add 192.0.2.0/24 via 10.0.0.2 metric 20 proto bird`
const ROUTE: &str = "4400000018000006222e026b085c000002180000fe0c00010000000008000f00fe00000008000100c00002000800060014\
     000000080005000a0000020800040003000000";
/// `ip route add 198.51.100.0/24 table 1000 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.2.2 weight 5`
const MULTIPATH: &str = "5000000018000006222e026b1f5c000002180000fc0300010000000008000f00e803000008000100c6336400240009\
     001000000203000000080005000a0000021000000405000000080005000a000202";
/// `ip route add 203.0.113.0/24 via inet6 fe80::7 dev v0`
const VIA: &str = "4c00000018000006232e026b265c000002180000fe0300010000000008000f00fe00000008000100cb007100160012000a00\
     fe80000000000000000000000000000700000800040003000000";
/// `ip route append 2001:db8:1::/48 via 2001:db8::4`
const APPENDED: &str = "c40000001800000c232e026b2a5c00000a300000fe0300010000000008000f00fe0000001400010020010db80001000\
     000000000000000000800060000040000580009001c000000030000001400050020010db80000000000000000000000041c00000003000000\
     1400050020010db80000000000000000000000021c000001030000001400050020010db800000000000000000000000324000c00\
     00000000000000000000000000000000000000000000000000000000000000000500140000000000";
/// `ip route add unreachable 2001:db8:9::/48`
const UNREACHABLE: &str = "7400000018000006232e026b305c00000a300000fe0300070000000008000f00fe0000001400010020010db80009\
     000000000000000000000800060000040000080004000100000024000c00000000000000000000000000000000000000000000000000000000\
     00000000000500140000000000";
/// `ip route add default via 10.0.0.9`
const DEFAULT: &str = "3400000018000006232e026b395c000002000000fe0300010000000008000f00fe000000080005000a0000090800040\
    003000000";
/// `ip nexthop add id 8 via fe80::9 dev v2`
const NEXTHOP: &str = "3c00000068000506242e026b475c00000afd0000000000000800010008000000080005000500000014000600fe800000\
     000000000000000000000009";
/// `ip nexthop add id 9 blackhole`
const BLACKHOLE: &str = "2400000068000506242e026b515c00000200000000000000080001000900000004000400";
/// `ip nexthop add id 70 group 7,4/8,250`
const GROUP: &str = "4400000068000506242e026b555c0000000000000000000008000100460000000600030000000000140002000700000003\
     00000008000000f900000008000e0000000080";
/// `ip route add 10.77.0.0/16 nhid 70`
const BY_GROUP: &str = "6800000018000006242e026b5d5c000002100000fe0300010000000008000f00fe000000080001000a4d000008001e0\
     046000000340009001000000303000000080005000a000002200000f905000000160012000a00fe8000000000000000000000000000090000";
/// `ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev v0`
const NEIGHBOUR: &str = "4c0000001c00000000000000675c0000020000000300000080000001080001000a0000020a00020002000000000200\
     0008000400000000001400030000000000000000000000000001000000";
/// `ip neigh add 2001:db8::2 lladdr 02:00:00:00:00:03 dev v0 nud stale`
const STALE: &str = "580000001c000000000000006d5c00000a00000003000000040000011400010020010db80000000000000000000000020a\
     000200020000000003000008000400000000001400030070170000000000000000000001000000";
/// `ip route del 2001:db8:1::/48 via 2001:db8::3`
const REMOVED: &str = "8800000019000000262e026b915c00000a300000fe0300010000000008000f00fe0000001400010020010db800010000\
     000000000000000008000600000400001400050020010db8000000000000000000000003080004000300000024000c000000000000000000\
     0000000000000000000000000000000000000000000000000500140000000000";
/// `ip nexthop del id 7`
const NEXTHOP_GONE: &str = "3000000069000500272e026b955c000002fd00000000000008000100070000000800050003000000080006000a\
    000002";
/// `ip rule`: 0: from all lookup local
const RULE_LOCAL: &str = "340000002000020001000000666a000002000000ff0000010000000008000f00ff00000008000e00ffffffff0500\
    150002000000";
/// `ip -6 rule`: 32766: from all lookup main
const RULE_MAIN6: &str = "3c0000002000020001000000666a00000a000000fe0000010000000008000f00fe00000008000e00ffffffff05001\
     5000200000008000600fe7f0000";
/// `ip rule add from 10.0.0.0/8 table 1000 pref 100`
const RULE_FROM: &str = "440000002000020001000000666a000002000800fc0000010000000008000f00e803000008000e00ffffffff050015\
     00000000000800060064000000080002000a000000";
/// `ip rule add pref 200 fwmark 5 lookup main`
const RULE_MARK: &str = "4c0000002000020001000000666a000002000000fe0000010000000008000f00fe00000008000e00ffffffff050015\
     000000000008000600c800000008000a000500000008001000ffffffff";
/// `ip netconf show dev v0`, after `sysctl net.ipv4.conf.v0.ignore_routes_with_linkdown=1`
const NETCONF: &str = "4c0000005000020001000000666a00000200000008000100030000000800020000000000080003000000000008000400\
     00000000080008000000000008000500000000000800060001000000";
/// `ip netconf show dev all`
const NETCONF_OF_ALL: &str = "4c0000005000020001000000666a00000200000008000100ffffffff080002000000000008000300000000000\
     800040000000000080008000000000008000500000000000800060000000000";
/// `ip ntable`: arp_cache, as far as its thresholds
const ARP_CACHE: &str = "4800000040000200010000005673000002000000\
     0e0001006172705f6361636865000000\
     0c00080030750000000000000800020080000000\
     08000300000200000800040000040000";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).unwrap() as u8;
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Parses a recorded message, and calls `f` with its only event.
fn event(hex: &str, f: impl FnOnce(Message<'_>, Event<'_>)) {
    let bytes = bytes(hex);
    let mut all = messages(&bytes);
    let message = all.next().unwrap().unwrap();
    f(message, message.event().unwrap());
    assert_eq!(all.next(), None);
}

fn route(hex: &str, f: impl FnOnce(Change, Route<'_>)) {
    event(hex, |_, event| match event {
        Event::Route(change, route) => f(change, route),
        other => panic!("{other:?}"),
    });
}

fn hop(interface: u32, gateway: &str, weight: u16) -> Hop {
    Hop {
        interface,
        gateway: Some(ip(gateway)),
        weight,
        flags: 0,
        labels: Some(Labels::NONE),
    }
}

#[test]
fn a_route_has_destination_table_metric_and_hop() {
    route(ROUTE, |change, route| {
        assert_eq!(change, Change::New);
        assert_eq!(route.prefix4(), "192.0.2.0/24".parse().ok());
        assert_eq!((route.table, route.protocol), (TABLE_MAIN, 12));
        assert_eq!((route.kind, route.priority), (RouteKind::Unicast, 20));
        assert!(route.hops().eq([hop(3, "10.0.0.2", 1)]));
    });
    route(DEFAULT, |_, route| {
        assert_eq!(route.prefix4(), Some(Prefix4::ALL));
        assert!(route.hops().eq([hop(3, "10.0.0.9", 1)]));
    });
    route(UNREACHABLE, |_, route| {
        assert_eq!(route.prefix6(), "2001:db8:9::/48".parse().ok());
        assert_eq!((route.kind, route.priority), (RouteKind::Unreachable, 1024));
    });
}

#[test]
fn hops_of_a_route_have_weights_flags_and_gateways_of_either_family() {
    route(MULTIPATH, |_, route| {
        assert_eq!(route.table, 1000);
        let expected = [hop(3, "10.0.0.2", 3), hop(5, "10.0.2.2", 5)];
        assert!(route.hops().eq(expected));
    });
    route(VIA, |_, route| {
        assert!(route.hops().eq([hop(3, "fe80::7", 1)]));
    });
    route(APPENDED, |_, route| {
        let gateways = route.hops().map(|h| (h.gateway, h.weight));
        let expected = [("2001:db8::4", 1), ("2001:db8::2", 1), ("2001:db8::3", 2)];
        assert!(gateways.eq(expected.map(|(g, w)| (Some(ip(g)), w))));
    });
    event(APPENDED, |message, _| {
        assert_eq!(message.flags, NLM_F_CREATE | NLM_F_APPEND);
    });
    route(REMOVED, |change, route| {
        assert_eq!(change, Change::Gone);
        assert!(route.hops().eq([hop(3, "2001:db8::3", 1)]));
    });
}

#[test]
fn next_hops_stand_alone_drop_or_make_groups_with_weights() {
    let nexthop = |hex, f: fn(Change, Nexthop<'_>)| {
        event(hex, |_, event| match event {
            Event::Nexthop(change, nexthop) => f(change, nexthop),
            other => panic!("{other:?}"),
        });
    };
    nexthop(NEXTHOP, |change, hop| {
        assert_eq!((change, hop.id, hop.interface), (Change::New, 8, 5));
        assert_eq!(hop.gateway, Some(ip("fe80::9")));
        assert!(
            !hop.is_group() && !hop.blackhole && !hop.bridge && hop.labels == Some(Labels::NONE)
        );
    });
    nexthop(BLACKHOLE, |_, hop| assert!(hop.blackhole && hop.id == 9));
    nexthop(GROUP, |_, group| {
        let members = [(7, 4), (8, 250)].map(|(id, weight)| Member { id, weight });
        assert!(group.is_group() && group.members().eq(members));
    });
    nexthop(NEXTHOP_GONE, |change, hop| {
        assert_eq!((change, hop.id), (Change::Gone, 7));
    });
    route(BY_GROUP, |_, route| {
        assert_eq!(route.nexthop, 70);
        let expected = [hop(3, "10.0.0.2", 4), hop(5, "fe80::9", 250)];
        assert!(route.hops().map(|h| Hop { flags: 0, ..h }).eq(expected));
    });
}

#[test]
fn neighbours_links_and_addresses_are_read() {
    let neighbour = |hex, state, dst, last| {
        event(hex, |_, event| {
            let Event::Neighbour(Change::New, neighbour) = event else {
                panic!("{event:?}");
            };
            assert_eq!((neighbour.interface, neighbour.state), (3, state));
            assert_eq!(neighbour.dst, Some(ip(dst)));
            assert_eq!(neighbour.ether, Some(EtherAddr([2, 0, 0, 0, 0, last])));
        });
    };
    neighbour(NEIGHBOUR, NUD_PERMANENT, "10.0.0.2", 2);
    neighbour(STALE, NUD_STALE, "2001:db8::2", 3);
    event(LINK, |_, event| {
        let Event::Link(Change::New, link) = event else {
            panic!("{event:?}");
        };
        assert_eq!((link.index, link.name, link.mtu), (3, &b"v0"[..], 1500));
        assert!(link.is_up() && link.has_carrier() && link.ether.is_some());
        assert_eq!(link.family, AF_UNSPEC);
    });
    for (hex, family) in [(ADDRESS, AF_INET), (ADDRESS6, AF_INET6)] {
        let address = Address {
            family,
            interface: 3,
        };
        event(hex, |_, event| {
            assert_eq!(event, Event::Address(Change::New, address));
        });
    }
}

#[test]
fn written_messages_parse_to_the_same_values() {
    let mut buffer = [0; 1024];
    let mut writer = Writer::new(&mut buffer);
    let hops = [
        NewHop {
            interface: 3,
            gateway: Some(ip("10.0.0.2")),
            weight: 3,
            flags: 0,
        },
        NewHop {
            interface: 5,
            gateway: Some(ip("fe80::9")),
            weight: 256,
            flags: RTNH_F_LINKDOWN,
        },
    ];
    let mut new = NewRoute {
        dst: ip("198.51.100.0"),
        dst_len: 24,
        table: 1000,
        protocol: 4,
        kind: RouteKind::Unicast,
        priority: 7,
        target: Target::Hops(&hops),
    };
    let flags = NLM_F_REQUEST | NLM_F_CREATE;
    writer.route(RTM_NEWROUTE, flags, 1, &new).unwrap();
    (new.target, new.dst_len, new.table) = (Target::Nexthop(70), 0, TABLE_MAIN);
    writer.route(RTM_DELROUTE, flags, 2, &new).unwrap();
    let members = [
        Member { id: 7, weight: 1 },
        Member {
            id: 8,
            weight: 65_536,
        },
    ];
    writer
        .nexthop(flags, 3, 70, &Target::Group(&members))
        .unwrap();
    writer
        .nexthop(flags, 4, 8, &Target::Hops(&hops[1..]))
        .unwrap();
    let events: Vec<_> = messages(writer.bytes())
        .map(|m| m.unwrap().event().unwrap())
        .collect();
    let [
        Event::Route(Change::New, a),
        Event::Route(Change::Gone, b),
        Event::Nexthop(_, c),
        Event::Nexthop(_, d),
    ] = events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(
        (a.prefix4(), a.table, a.priority),
        ("198.51.100.0/24".parse().ok(), 1000, 7)
    );
    let read = a.hops().map(|h| NewHop {
        interface: h.interface,
        gateway: h.gateway,
        weight: h.weight,
        flags: h.flags,
    });
    assert!(read.eq(hops));
    assert_eq!(
        (b.nexthop, b.prefix4(), b.hops().count()),
        (70, Some(Prefix4::ALL), 0)
    );
    assert!(c.members().eq(members));
    assert_eq!((d.id, d.interface, d.gateway), (8, 5, Some(ip("fe80::9"))));
}

#[test]
fn a_hop_that_is_alone_is_read_back_with_its_weight() {
    for (interface, gateway, weight) in [
        (3, Some(ip("10.0.0.2")), 4),
        (3, Some(ip("fe80::9")), 1),
        (3, None, 256),
        (0, None, 1),
    ] {
        let hop = NewHop {
            interface,
            gateway,
            weight,
            flags: RTNH_F_LINKDOWN,
        };
        let new = NewRoute {
            dst: ip("198.51.100.0"),
            dst_len: 24,
            table: TABLE_MAIN,
            protocol: 4,
            kind: RouteKind::Unicast,
            priority: 7,
            target: Target::Hops(&[hop]),
        };
        let mut buffer = [0; 256];
        let mut writer = Writer::new(&mut buffer);
        writer.route(RTM_NEWROUTE, 0, 1, &new).unwrap();
        let message = messages(writer.bytes()).next().unwrap().unwrap();
        let Ok(Event::Route(_, route)) = message.event() else {
            panic!("{message:?}");
        };
        let read: Vec<_> = route.hops().collect();
        let [read] = read[..] else {
            panic!("{hop:?} became {read:?}");
        };
        assert_eq!((read.interface, read.gateway), (interface, gateway));
        assert_eq!((read.weight, read.flags), (weight, RTNH_F_LINKDOWN));
    }
}

#[test]
fn requests_stand_as_the_kernel_demands_and_not_at_all_where_they_do_not_fit() {
    let mut buffer = [0xff; 60];
    let mut writer = Writer::new(&mut buffer);
    writer.dump(RTM_GETROUTE, AF_INET, 9).unwrap();
    let dump = [
        28, 0, 0, 0, 26, 0, 1, 3, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(writer.bytes(), dump);
    assert_eq!(writer.use_neighbour(3, ip("2001:db8::7"), 0, 1), Err(Full));
    assert_eq!(writer.bytes(), dump);
    writer.clear();
    writer.use_neighbour(3, ip("10.0.0.77"), 0, 5).unwrap();
    let message = messages(writer.bytes()).next().unwrap().unwrap();
    assert_eq!(
        (message.kind, message.flags, message.sequence),
        (RTM_NEWNEIGH, NLM_F_REQUEST, 5)
    );
    let Ok(Event::Neighbour(_, neighbour)) = message.event() else {
        panic!("{message:?}");
    };
    assert_eq!(
        (neighbour.flags, neighbour.dst),
        (NTF_USE, Some(ip("10.0.0.77")))
    );
}

#[test]
fn ends_and_errors_of_answers_are_told_apart() {
    let read = |kind: u8, body: &[u8]| {
        let mut bytes = [&[0; 16], body].concat();
        (bytes[0], bytes[4], bytes[6]) = (bytes.len() as u8, kind, 0x10);
        let message = messages(&bytes).next().unwrap().unwrap();
        assert!(message.interrupted());
        message.event().map(|e| match e {
            Event::Done(n) => ("done", n),
            Event::Error(n) => ("error", n),
            _ => ("other", 0),
        })
    };
    let errno = (-13i32).to_ne_bytes();
    assert_eq!(read(3, &[]), Ok(("done", 0)));
    assert_eq!(read(3, &errno), Ok(("done", -13)));
    assert_eq!(read(2, &errno), Ok(("error", -13)));
    assert_eq!(read(2, &[]), Err(BadHeader::TooShort));
    assert_eq!(read(99, &[1]), Ok(("other", 0)));
}

#[test]
fn lengths_that_leave_a_message_are_faults() {
    let route = bytes(ROUTE);
    let fault = |bytes: &[u8]| messages(bytes).find_map(|m| m.and_then(|m| m.event()).err());
    assert_eq!(fault(&route), None);
    assert_eq!(fault(&route[..10]), Some(BadHeader::TooShort));
    assert_eq!(fault(&route[..route.len() - 1]), Some(BadHeader::Truncated));
    let with = |at: usize, byte: u8| {
        let mut bytes = route.clone();
        bytes[at] = byte;
        fault(&bytes)
    };
    assert_eq!(with(0, 15), Some(BadHeader::BadLength));
    assert_eq!(with(0, 24), Some(BadHeader::TooShort));
    assert_eq!(
        with(17, 33),
        Some(BadHeader::BadField),
        "a prefix longer than an address"
    );
    assert_eq!(
        with(28, 3),
        Some(BadHeader::BadOption),
        "an attribute shorter than its header"
    );
    assert_eq!(with(28, 200), Some(BadHeader::BadOption));
    assert_eq!(
        with(28, 7),
        Some(BadHeader::BadOption),
        "a table of three bytes"
    );
}

#[test]
fn rules_beside_the_kernels_own_are_told_from_them() {
    let rule = |hex: &str| {
        let mut found = None;
        event(hex, |_, event| match event {
            Event::Rule(Change::New, rule) => found = Some(rule),
            other => panic!("{other:?}"),
        });
        found.unwrap()
    };
    assert!(rule(RULE_LOCAL).is_initial() && rule(RULE_MAIN6).is_initial());
    let (from, mark) = (rule(RULE_FROM), rule(RULE_MARK));
    assert!(!from.is_initial() && !mark.is_initial());
    assert_eq!(
        (from.family, from.priority, from.table),
        (AF_INET, 100, 1000)
    );
    assert_eq!(
        (mark.priority, mark.table, mark.matches_all),
        (200, TABLE_MAIN, false)
    );
    // A rule that matches all packets, but has another priority.
    let moved = RULE_MAIN6.replace("fe7f0000", "05000000");
    assert!(rule(&moved).matches_all && !rule(&moved).is_initial());
}

#[test]
fn tables_of_neighbours_have_room() {
    event(ARP_CACHE, |_, event| {
        let table = NeighbourTable {
            family: AF_INET,
            entries_max: Some(1024),
        };
        assert_eq!(event, Event::NeighbourTable(table));
    });
}

#[test]
fn settings_of_interfaces_are_read() {
    for (hex, interface, ignores_linkdown) in [
        (NETCONF, 3, Some(true)),
        (NETCONF_OF_ALL, NETCONF_ALL, Some(false)),
    ] {
        let netconf = Netconf {
            family: AF_INET,
            interface,
            forwards: Some(false),
            ignores_linkdown,
            input: None,
        };
        event(hex, |_, event| {
            assert_eq!(event, Event::Netconf(Change::New, netconf));
        });
    }
}

/// Builds an MPLS message from its type, the header after the family, and attributes.
fn mpls(kind: u16, head: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = [&[AF_MPLS], head].concat();
    for (kind, value) in attributes {
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

/// `ip route replace 10.2.0.0/24 encap mpls 210/200 via 10.0.2.2` (Linux 6.1)
const ENCAP: &str = "5400000018000001155d076bd000000002180000fe0300010000000008000f00fe000000080001000a020000080005000a\
     0002020800040003000000100016000c000100000d2000000c81000600150001000000";

#[test]
fn routes_put_labels_on_packets() {
    route(ENCAP, |_, route| {
        let hop = Hop {
            labels: Labels::new([210, 200]),
            ..hop(3, "10.0.2.2", 1)
        };
        assert!(route.hops().eq([hop]));
    });
    // Another type, a TTL of its own, an unterminated stack: only the kernel can process these.
    let odd = [
        ("0600150001000000", "0600150002000000"),
        ("000d2000000c8100", "000d2000000c8000"),
        ("10001600", "10001700"),
    ];
    for (from, to) in odd {
        route(&ENCAP.replace(from, to), |_, route| {
            assert_eq!(route.hops().next().unwrap().labels, None);
        });
    }
}

#[test]
fn routes_of_mpls_have_labels() {
    const DST: &[u8] = &[0x00, 0x06, 0x41, 0x00]; // 100
    const NEW: &[u8] = &[0x00, 0x0c, 0x80, 0x00, 0x00, 0x12, 0xc1, 0x00]; // 200/300
    let via = [&AF_INET.to_ne_bytes()[..], &[0, 10, 0, 1, 2]].concat();
    let head = [20, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let route = |attributes: &[(u16, &[u8])], f: &dyn Fn(Route<'_>)| {
        let bytes = mpls(RTM_NEWROUTE, &head, attributes);
        match messages(&bytes).next().unwrap().unwrap().event().unwrap() {
            Event::Route(Change::New, route) => f(route),
            other => panic!("{other:?}"),
        }
    };
    let oif = 3u32.to_ne_bytes();
    let labels = |labels: &[u32]| Labels::new(labels.iter().copied());
    let one = [(1, DST), (19, NEW), (18, &via[..]), (4, &oif[..])];
    route(&one, &|route| {
        assert_eq!((route.label, route.family), (Some(100), AF_MPLS));
        assert_eq!((route.prefix4(), route.prefix6()), (None, None));
        let hop = Hop {
            labels: labels(&[200, 300]),
            ..hop(3, "10.0.1.2", 1)
        };
        assert!(route.hops().eq([hop]));
    });
    // A pop, and unsupported hops: a next hop given by its Ethernet address, nine labels.
    route(&one[..1], &|route| assert_eq!(route.hops().count(), 0));
    let packet = [17, 0, 2, 0, 0, 0, 0, 9];
    route(&[(1, DST), (18, &packet), (4, &oif)], &|route| {
        assert_eq!(route.hops().next().unwrap().labels, None);
    });
    let mut nine = [0, 1, 0, 0].repeat(9);
    nine[34] |= 1;
    route(&[(1, DST), (19, &nine), (18, &via), (4, &oif)], &|route| {
        assert_eq!(route.hops().next().unwrap().labels, None);
    });
    let hop_of = |labels: &[u8]| {
        let mut hop = vec![0, 0, 0, 1, 3, 0, 0, 0];
        hop.extend([&[10, 0, 18, 0][..], &via, &[0, 0]].concat());
        hop.extend([&[8, 0, 19, 0][..], labels].concat());
        hop[0] = hop.len() as u8;
        hop
    };
    let both = [hop_of(&[0, 0x0c, 0x81, 0]), hop_of(&[0, 0x0c, 0x91, 0])].concat();
    route(&[(1, DST), (9, &both)], &|route| {
        let each = route.hops().map(|hop| hop.labels);
        assert!(each.eq([labels(&[200]), labels(&[201])]));
    });
    let bad = mpls(RTM_NEWROUTE, &head, &[(1, &DST[..3])]);
    assert!(messages(&bad).next().unwrap().unwrap().event().is_err());
    let input = [(1, &oif[..]), (7, &1u32.to_ne_bytes()[..])];
    let netconf = mpls(RTM_NEWNETCONF, &[0; 3], &input);
    match messages(&netconf).next().unwrap().unwrap().event() {
        Ok(Event::Netconf(Change::New, netconf)) => {
            assert_eq!((netconf.family, netconf.interface), (AF_MPLS, 3));
            assert_eq!(netconf.input, Some(true));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_bytes_make_it_panic() {
    for hex in [
        LINK, ADDRESS, ROUTE, MULTIPATH, VIA, APPENDED, NEXTHOP, GROUP, BY_GROUP, NEIGHBOUR,
        RULE_MARK, NETCONF, ENCAP,
    ] {
        hammer(&bytes(hex), |bytes| {
            for message in messages(bytes).flatten() {
                match message.event() {
                    Ok(Event::Route(_, route)) => assert!(route.hops().count() < bytes.len()),
                    Ok(Event::Nexthop(_, hop)) => assert!(hop.members().count() < bytes.len()),
                    _ => {}
                }
            }
        });
    }
}
