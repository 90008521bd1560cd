use engine::packet::Packet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use testkit::{Bench, Rng, ip4, ip6};

const ALL: [&str; 5] = [
    "DirectIPLookup",
    "RadixIPLookup",
    "RangeIPLookup",
    "LinearIPLookup",
    "TrieIPLookup",
];

fn text(class: &str, routes: &str) -> String {
    format!(
        "rt :: {class}({routes}) -> a :: Collect;
         rt[1] -> b :: Collect; rt[2] -> c :: Collect"
    )
}

fn bench(routes: &str) -> Bench {
    Bench::new(crate::CLASSES, &text("DirectIPLookup", routes))
}

fn packet(dst: &str, port: u16) -> Packet {
    let dst: Ipv4Addr = dst.parse().expect("an address");
    let bytes = ip4().src("10.9.9.9").dst(dst).udp(port, 53).bytes();
    let mut packet = Packet::from_bytes(&bytes).expect("it fits");
    packet.set_network_offset(0);
    packet.anno_mut().set_dst4(dst.octets());
    packet
}

/// Next hops of packets to these destinations, among those that leave by `output`.
fn next(bench: &mut Bench, output: &str) -> Vec<String> {
    let packets = bench.take_packets(output);
    let each = packets
        .iter()
        .map(|p| Ipv4Addr::from(p.anno.dst4()).to_string());
    each.collect()
}

fn send(bench: &mut Bench, to: &[&str]) {
    bench.push_packets("rt", 0, to.iter().map(|dst| packet(dst, 1)).collect());
}

fn lookup(bench: &mut Bench, address: &str) -> String {
    bench.try_read("rt.lookup", address).expect("an address")
}

/// The table with single spaces between its columns.
fn table(bench: &mut Bench) -> String {
    bench
        .read("rt.table")
        .replace("\t\t", " ")
        .replace('\t', " ")
}

#[test]
fn columns_of_the_table_stand_below_each_other() {
    let mut bench =
        bench("192.168.100.128/25 100.100.100.100 1 | 10.0.0.1 2, 192.168.1.0/24 1.1.1.1 0");
    assert_eq!(
        bench.read("rt.table"),
        "192.168.1.0/24\t\t1.1.1.1\t\t0\n192.168.100.128/25\t10.0.0.1\t2 | 100.100.100.100 1\n"
    );
}

#[test]
fn the_longest_prefix_decides_the_port_and_the_gateway() {
    for class in ALL.into_iter().chain(["StaticIPLookup"]) {
        for make in [Bench::new, Bench::strict] {
            let routes =
                "18.26.4.24/32 0, 18.26.4/24 1, 0/0 18.26.4.1 2, 18.26.4.128/25 10.0.0.9 1";
            let mut bench = make(crate::CLASSES, &text(class, routes));
            send(
                &mut bench,
                &[
                    "18.26.4.24",
                    "18.26.4.200",
                    "1.2.3.4",
                    "18.26.4.7",
                    "0.0.0.0",
                ],
            );
            assert_eq!(next(&mut bench, "a"), ["18.26.4.24"]);
            assert_eq!(next(&mut bench, "b"), ["10.0.0.9", "18.26.4.7"]);
            assert_eq!(next(&mut bench, "c"), ["18.26.4.1", "18.26.4.1"]);
            assert!(bench.all_drops().is_empty());
        }
    }
}

/// Nested prefixes, so that each change uncovers or hides another route.
#[test]
fn routes_come_and_go_by_handlers() {
    for class in ALL {
        let mut bench = Bench::new(crate::CLASSES, &text(class, ""));
        for (handler, value, answer) in [
            ("add", "0/0 192.0.2.1 2", "2 192.0.2.1"),
            ("add", "172.16/12 0", "0"),
            ("add", "172.20.128/17 192.0.2.2 1", "1 192.0.2.2"),
            ("add", "172.20.129.7/32 192.0.2.3 2", "2 192.0.2.3"),
            ("set", "172.16/12 192.0.2.4 1", "2 192.0.2.3"),
            ("remove", "172.20.129.7/32", "1 192.0.2.2"),
            ("remove", "172.20.128/17 192.0.2.2 1", "1 192.0.2.4"),
            ("add", "172.20.129.6/32 2", "1 192.0.2.4"),
            ("set", "172.20.129.7/32 0", "0"),
            ("remove", "172.20.129.7/32 0", "1 192.0.2.4"),
            ("remove", "172.16/12", "2 192.0.2.1"),
            ("remove", "0/0", "-1"),
        ] {
            bench.write(&format!("rt.{handler}"), value);
            assert_eq!(
                lookup(&mut bench, "172.20.129.7"),
                answer,
                "{class} {handler} {value}"
            );
        }
    }
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let mut bench = bench("18.26/12 4.0.0.4 0, 10/8 1");
    let mut refused = |handler: &str, value: &str| {
        bench
            .try_write(&format!("rt.{handler}"), value)
            .expect_err(value)
    };
    assert_eq!(
        refused("add", "18.26/12 6.0.0.6 0"),
        "conflict with existing route '18.16.0.0/12 4.0.0.4 0'"
    );
    assert_eq!(
        refused("remove", "18.26/13"),
        "route '18.24.0.0/13 - -1' not found"
    );
    assert_eq!(
        refused("remove", "18.26/12 4.0.0.5 0"),
        "route '18.16.0.0/12 4.0.0.5 0' not found"
    );
    assert!(refused("set", "18.26/12 3").contains("there is no output 3, only 0 to 2"));
    assert!(refused("ctrl", "add 1/8 1\n\n set 2/8").contains("line 3: a route is written"));
    assert_eq!(bench.read("rt.length"), "2");
    assert_eq!(
        bench.read("rt.table"),
        "10.0.0.0/8\t\t-\t\t1\n18.16.0.0/12\t\t4.0.0.4\t\t0\n"
    );
    let fixed =
        Bench::new(crate::CLASSES, &text("StaticIPLookup", "0/0 0")).try_write("rt.add", "");
    assert!(fixed.expect_err("it is static").contains("no handler"));
}

#[test]
fn handlers_know_the_names_of_the_configuration() {
    let text = "AddressInfo(net 10.0.0.0/8, gw 1.2.3.4); ".to_owned() + &text("RadixIPLookup", "");
    let mut bench = Bench::new(crate::CLASSES, &text);
    bench.write("rt.add", "net gw 2");
    assert_eq!(lookup(&mut bench, "10.1.1.1"), "2 1.2.3.4");
    bench.write("rt.remove", "net:ipnet");
    assert_eq!(lookup(&mut bench, "10.1.1.1"), "-1");
}

#[test]
fn several_changes_are_made_all_or_none() {
    let mut bench = bench("10/8 1, 20/8 1.1.1.1 2");
    let before = bench.read("rt.table");
    for bad in ["add 10/8 0", "remove 11/8", "remove 20/8 1.1.1.2 2"] {
        let lines = format!("set 10/8 0\nremove 20/8\nadd 30/8 0\nset 20/9 0 # and\n{bad}");
        let wrong = bench.try_write("rt.ctrl", &lines).expect_err(bad);
        assert!(wrong.starts_with("line 5: "), "{wrong}");
        assert_eq!(bench.read("rt.table"), before);
    }
    bench.write("rt.ctrl", "set 10/8 0\nremove 20/8\nadd 30/8 0");
    assert_eq!(table(&mut bench), "10.0.0.0/8 - 0\n30.0.0.0/8 - 0\n");
    bench.write("rt.flush", "");
    assert_eq!(bench.read("rt.table"), "");
}

#[test]
fn an_icmp_error_takes_the_path_of_the_flow_that_it_is_about() {
    use testkit::{ip4, ip6};
    for (class, check, route) in [
        (
            "RadixIPLookup",
            "CheckIPHeader",
            "198.51.100.0/24 0 | 1 | 2 | 3",
        ),
        (
            "LookupIP6Route",
            "CheckIP6Header",
            "2001:db8:1::/64 0 | 1 | 2 | 3",
        ),
    ] {
        let outputs = (0..4).map(|n| format!("rt[{n}] -> o{n} :: Collect;"));
        let get = if class == "LookupIP6Route" {
            "GetIP6Address(24)"
        } else {
            "GetIPAddress(16)"
        };
        let text = format!(
            "c :: {check} -> {get} -> rt :: {class}({route}); {}",
            outputs.collect::<String>()
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        let mut used = std::collections::BTreeSet::new();
        for n in 0..60u16 {
            let (sent, error) = match class {
                "LookupIP6Route" => {
                    let (client, server) = (format!("2001:db8::{n:x}"), "2001:db8:1::1");
                    let answer = ip6()
                        .src(server)
                        .dst(&client)
                        .tcp(443, n + 1024)
                        .payload_len(1400)
                        .bytes();
                    let error = ip6()
                        .src("2001:db8:2::9")
                        .dst(server)
                        .icmp(2, 0, 1300)
                        .payload(&answer[..1232]);
                    (
                        ip6().src(&client).dst(server).tcp(n + 1024, 443).bytes(),
                        error.bytes(),
                    )
                }
                _ => {
                    let (client, server) = (format!("10.0.{n}.1"), "198.51.100.1");
                    let answer = ip4()
                        .src(server)
                        .dst(&client)
                        .df()
                        .tcp(443, n + 1024)
                        .payload_len(1400)
                        .bytes();
                    let error = ip4()
                        .src("192.0.2.9")
                        .dst(server)
                        .icmp(3, 4, 1300)
                        .payload(&answer[..28]);
                    (
                        ip4().src(&client).dst(server).tcp(n + 1024, 443).bytes(),
                        error.bytes(),
                    )
                }
            };
            bench.push("c", &[sent, error]);
            let both: Vec<usize> = (0..4)
                .filter(|n| bench.take(&format!("o{n}")).len() == 2)
                .collect();
            assert_eq!(both.len(), 1, "{class}: flow {n}");
            used.extend(both);
        }
        assert_eq!(used.len(), 4, "{class}");
    }
}

#[test]
fn next_hops_of_a_change_that_was_refused_can_be_used_by_the_next() {
    // A worker is delayed: the next hops of the refused change are not freed yet.
    let held_up = engine::publish::domain().register();
    let mut bench = bench("");
    bench.write("rt.next_hop_down", "192.0.2.8 1");
    let many: Vec<String> = (0..257)
        .map(|n| format!("10.0.{}.{} 1", n / 256, n % 256))
        .collect();
    let both = "192.0.2.9 1 | 192.0.2.8 1";
    let lines = format!("add 10.0.0.0/8 {both}\nadd 11.0.0.0/8 {}", many.join(" | "));
    let wrong = bench.try_write("rt.ctrl", &lines).expect_err("too many");
    assert!(wrong.contains("line 2: a next-hop group takes"), "{wrong}");
    bench.write("rt.add", &format!("10.0.0.0/8 {both}"));
    send(&mut bench, &["10.0.0.1"; 3]);
    assert_eq!(next(&mut bench, "b"), ["192.0.2.9"; 3]);
    drop(held_up);
}

#[test]
fn packets_without_route_are_dropped_by_name_or_leave_by_their_port() {
    let mut bench = bench("10/8 0");
    send(&mut bench, &["10.0.0.1", "11.0.0.1"]);
    assert_eq!(next(&mut bench, "a"), ["10.0.0.1"]);
    assert_eq!(bench.drops("rt", "no_route"), 1);
    let text = text("DirectIPLookup", "10/8 1.2.3.4 0, NOROUTE 2");
    bench.reload(&text).unwrap_or_else(|e| panic!("{e}"));
    send(&mut bench, &["10.0.0.1", "11.0.0.1"]);
    assert_eq!(next(&mut bench, "c"), ["11.0.0.1"]);
    bench.write("rt.next_hop_down", "1.2.3.4");
    send(&mut bench, &["10.0.0.1"]);
    assert_eq!(
        next(&mut bench, "c"),
        ["10.0.0.1"],
        "its annotation unchanged"
    );
}

fn flows() -> impl Iterator<Item = Packet> {
    (0..200).map(|port| packet("10.0.0.1", port))
}

/// The gateway of each flow.
fn spread(bench: &mut Bench) -> Vec<(u16, String)> {
    bench.push_packets("rt", 0, flows().collect());
    let mut all = Vec::new();
    for output in ["a", "b", "c"] {
        for packet in bench.take_packets(output) {
            let port = u16::from_be_bytes([packet.bytes[20], packet.bytes[21]]);
            all.push((port, Ipv4Addr::from(packet.anno.dst4()).to_string()));
        }
    }
    all.sort();
    all
}

#[test]
fn flows_are_spread_by_weight_stay_and_move_only_if_they_must() {
    let mut bench = bench("10/8 1.0.0.1 0 | 1.0.0.2 1 WEIGHT 2 | 1.0.0.3 2, 11/8 1.0.0.2 1");
    let before = spread(&mut bench);
    let count = |all: &[(u16, String)], hop: &str| all.iter().filter(|(_, g)| g == hop).count();
    for (hop, share) in [
        ("1.0.0.1", 20..80),
        ("1.0.0.2", 60..140),
        ("1.0.0.3", 20..80),
    ] {
        assert!(
            share.contains(&count(&before, hop)),
            "{hop}: {}",
            count(&before, hop)
        );
    }
    assert_eq!(spread(&mut bench), before);
    assert_eq!(
        bench.try_write("rt.next_hop_down", "1.0.0.2"),
        Ok("2".to_owned())
    );
    let without = spread(&mut bench);
    assert_eq!((without.len(), count(&without, "1.0.0.2")), (200, 0));
    for (was, is) in before.iter().zip(&without) {
        assert!(was == is || was.1 == "1.0.0.2", "it moved without need");
    }
    assert!(bench.read("rt.groups").contains("1.0.0.2 1 WEIGHT 2 down"));
    // A route added now uses it, too.
    bench.write("rt.add", "12/8 1.0.0.2 1 | 1.0.0.3 2");
    send(&mut bench, &["12.0.0.1"]);
    assert_eq!(next(&mut bench, "c"), ["1.0.0.3"]);
    // The last command counts, also for later routes.
    bench.write("rt.next_hop_up", "1.0.0.2 1");
    let again = spread(&mut bench);
    assert!(count(&again, "1.0.0.2") >= 60);
    for (was, is) in without.iter().zip(&again) {
        assert!(was == is || is.1 == "1.0.0.2", "it moved without need");
    }
    bench.write(
        "rt.ctrl",
        "add 13/8 1.0.0.2 0\nadd 14/8 1.0.0.2 1 | 1.0.0.9 1",
    );
    let groups = bench.read("rt.groups");
    assert!(
        groups.contains("1.0.0.2 0 down") && !groups.contains("1.0.0.2 1 down"),
        "{groups}"
    );
    bench.write("rt.next_hop_up", "1.0.0.2");
    assert!(!bench.read("rt.groups").contains("down"));
    assert!(bench.try_write("rt.next_hop_down", "-").is_err());
}

#[test]
fn added_routes_follow_the_names_of_outputs_when_a_reload_renumbers_them() {
    let graph = |rest: &str| {
        format!(
            "rt :: RadixIPLookup({rest}) -> a :: Collect;
             rt[1] -> b :: Collect; rt[2] -> c :: Collect"
        )
    };
    let old = graph("10.0.0.0/8 1, 11.0.0.0/8 2, OUTPUTS a b c");
    let mut bench = Bench::new(crate::CLASSES, &old);
    let added =
        "add 20.0.0.0/8 192.0.2.1 1\nadd 21.0.0.0/8 2\nset 11.0.0.0/8 0\nadd 22.0.0.0/8 1 | 2";
    bench.try_write("rt.ctrl", added).expect("routes");
    // Output b is the third now, and c is gone. The file's own routes mean the same as before, or something else.
    let new = graph("10.0.0.0/8 2, 11.0.0.0/8 1, OUTPUTS a x b");
    bench.reload(&new).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lookup(&mut bench, "10.1.1.1"), "2");
    assert_eq!(lookup(&mut bench, "11.1.1.1"), "1");
    assert_eq!(lookup(&mut bench, "20.1.1.1"), "2 192.0.2.1");
    for gone in ["21.1.1.1", "22.1.1.1"] {
        assert_eq!(lookup(&mut bench, gone), "-1");
    }
    // Without names numbers count.
    let plain = graph("10.0.0.0/8 1");
    bench.reload(&plain).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lookup(&mut bench, "20.1.1.1"), "2 192.0.2.1");
}

#[test]
fn a_reload_brings_the_difference_and_keeps_what_handlers_did() {
    let mut bench = bench("1/8 0, 2/8 0, 3/8 0, 4/8 0");
    bench.write(
        "rt.ctrl",
        "add 9/8 1.1.1.1 2\nset 2/8 1\nremove 3/8\nadd 10/8 0\nset 4/8 2",
    );
    bench.write("rt.next_hop_down", "1.1.1.1");
    let text = text("DirectIPLookup", "2/8 0, 3/8 0, 4/8 1, 5/8 1, 10/8 2");
    bench.reload(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        table(&mut bench).replace(".0.0.0", ""),
        // 1 is removed, 2 and 3 stay as handlers set them, 4, 5 and 10 are as configured now.
        "2/8 - 1\n4/8 - 1\n5/8 - 1\n9/8 1.1.1.1 2\n10/8 - 2\n"
    );
    assert!(bench.read("rt.groups").contains("1.1.1.1 2 down"));
}

#[test]
fn ids_and_memory_are_used_again_while_routes_come_and_go() {
    let mut bench = bench("");
    for round in 0..70_000u32 {
        let [_, a, b, c] = round.to_be_bytes();
        bench.write(
            "rt.set",
            &format!("10.0.0.1/32 1.{a}.{b}.{c} {}", round % 3),
        );
    }
    assert_eq!(bench.read("rt.groups").lines().count(), 1);
    assert_eq!(lookup(&mut bench, "10.0.0.1"), "0 1.1.17.111");
}

#[test]
fn a_quarter_million_routes_load_by_ctrl_and_from_a_file() {
    let mut rng = Rng::seed(9);
    let mut lines = String::new();
    for i in 0..262_144u32 {
        let (address, length) = (Ipv4Addr::from_bits(i << 14), 18 + rng.below(10));
        let hop = rng.below(40);
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{address}/{length} 192.0.2.{hop} {}", hop % 3);
    }
    let mut by_ctrl = bench("");
    let started = std::time::Instant::now();
    by_ctrl.write(
        "rt.ctrl",
        &lines
            .lines()
            .map(|l| format!("add {l}\n"))
            .collect::<String>(),
    );
    eprintln!("262144 routes by ctrl: {:?}", started.elapsed());
    assert_eq!(by_ctrl.read("rt.length"), "262144");
    let file = std::env::temp_dir().join(format!("ashlar-routes-{}", std::process::id()));
    std::fs::write(&file, &lines).expect("the temporary folder can be written");
    let by_file = Bench::new(
        crate::CLASSES,
        &text("DirectIPLookup", &format!("ROUTES \"{}\"", file.display())),
    );
    let _ = std::fs::remove_file(&file);
    let mut by_file = by_file;
    assert!(by_file.read("rt.table") == by_ctrl.read("rt.table"));
}

#[test]
fn ipv6_routes_are_looked_up_too() {
    let text = text(
        "LookupIP6Route",
        "2001:db8::1/128 ::0 0, 2001:db8::/64 1, ::0/0 2001:db8::fe 2",
    );
    for make in [Bench::new, Bench::strict] {
        let mut bench = make(crate::CLASSES, &text);
        let packets = ["2001:db8::1", "2001:db8::9", "2001:db9::9"].map(|dst| {
            let bytes = ip6().src("2001:db8::7").dst(dst).udp(1, 2).bytes();
            let mut packet = Packet::from_bytes(&bytes).expect("it fits");
            let dst: Ipv6Addr = dst.parse().expect("an address");
            packet.anno_mut().set_dst6(dst.octets());
            packet
        });
        bench.push_packets("rt", 0, packets.into_iter().collect());
        for (output, dst) in [
            ("a", "2001:db8::1"),
            ("b", "2001:db8::9"),
            ("c", "2001:db8::fe"),
        ] {
            let went = bench.take_packets(output);
            assert_eq!(Ipv6Addr::from(went[0].anno.dst6()).to_string(), dst);
        }
        bench.write(
            "rt.add",
            "2001:db8:0:0:8000::/65 2001:db8::fd 0 | 2001:db8::fc 1",
        );
        assert_eq!(
            lookup(&mut bench, "2001:db8::8000:0:0:1"),
            "1 2001:db8::fc | 0 2001:db8::fd"
        );
    }
}

#[test]
fn mistakes_of_the_configuration_are_told_with_their_places() {
    let refused = |class: &str, routes: &str| {
        testkit::errors(
            crate::CLASSES,
            &format!("Idle -> rt :: {class}({routes}) -> Discard"),
        )
    };
    let errors = refused("RadixIPLookup", "10/8 0, 11/33 0, 12/8 1.2.3 0, 13/8 x");
    for wrong in [
        "argument 2 should be `ADDR/MASK [GATEWAY] OUTPUT`",
        "argument 4 should be",
        "in `11/33 0` the destination must be an IPv4 prefix",
        "in `12/8 1.2.3 0` the gateway must be an IPv4 address",
        "in `13/8 x` the port must be a number",
    ] {
        assert!(errors.contains(wrong), "{errors}");
    }
    let errors = refused("DirectIPLookup", "10/8 0, 11/8 1");
    assert!(errors.contains("output 1 unused"), "{errors}");
    let errors = refused("DirectIPLookup", "10/8 0, NOROUTE 255");
    assert!(errors.contains("there is no port 255"), "{errors}");
    let errors = refused("DirectIPLookup", "ROUTES /nonexistent/routes");
    assert!(
        errors.contains("cannot read `/nonexistent/routes`"),
        "{errors}"
    );
}

#[test]
fn plans_report_the_memory_of_tables() {
    let text = "Idle -> rt :: RadixIPLookup(10.0.0.0/8 0) -> q :: Queue(100)
        -> Unqueue -> Discard;
        Idle -> direct :: DirectIPLookup(10.0.0.0/8 0) -> Discard;
        Idle -> arp :: ARPQuerier(10.0.0.1/8, 02:00:00:00:00:01, ENTRY_CAPACITY 1024)
        -> Discard; Idle -> [1]arp";
    let plan = testkit::plan(crate::CLASSES, text, 1, &engine::port::NoPorts, None);
    let plan = plan.expect("it is right");
    let bytes = |name| plan.elements[plan.find(name).expect("it is there")].memory();
    // The pages of those words for the first 18 bits of addresses that a route covers, and a node.
    assert!((1 << 10..128 << 10).contains(&bytes("rt")));
    // A word for each value of the first 24 bits.
    assert!((64 << 20..65 << 20).contains(&bytes("direct")));
    // Twice as many slots as entries, of 40 bytes and more each.
    assert!((80 << 10..200 << 10).contains(&bytes("arp")));
    assert_eq!(bytes("q"), 800);
}

#[test]
fn no_more_routes_come_than_the_router_may_have() {
    use forwarding::RouteBound;
    for class in ALL {
        let mut bench = Bench::new(crate::CLASSES, &text(class, "10.0.0.0/8 0, 10.1.0.0/16 1"));
        bench.router_wide::<RouteBound>().set(Some(3));
        bench.write("rt.add", "10.2.0.0/16 1");
        let refused = bench.try_write("rt.add", "10.3.0.0/16 1");
        let why = "each table of the router may have 3 routes at most (`routes`), and this makes 4";
        assert_eq!(refused, Err(why.to_owned()), "{class}");
        // A route may change, and a new route may replace another one.
        bench.write("rt.set", "10.2.0.0/16 2");
        bench.write("rt.ctrl", "add 10.3.0.0/16 1\nremove 10.2.0.0/16");
        let refused = bench.try_write("rt.ctrl", "add 10.4.0.0/16 1\nset 10.3.0.0/16 2");
        assert!(refused.is_err(), "{class}");
        assert_eq!(
            lookup(&mut bench, "10.3.0.1"),
            "1",
            "none of it was carried out"
        );
        // Existing routes stay when the bound is lowered, also over a reload.
        bench.router_wide::<RouteBound>().set(Some(2));
        let changed = text(class, "10.0.0.0/8 0, 10.1.0.0/16 2");
        bench.reload(&changed).expect("it is right");
        assert_eq!(lookup(&mut bench, "10.3.0.1"), "1", "{class}");
        assert_eq!(lookup(&mut bench, "10.1.0.1"), "2", "{class}");
        bench.write("rt.remove", "10.3.0.0/16");
        bench.router_wide::<RouteBound>().set(None);
        bench.write("rt.add", "10.3.0.0/16 1");
    }
}
