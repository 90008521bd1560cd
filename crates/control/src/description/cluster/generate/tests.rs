use super::*;
use crate::description::cluster::testing::{KEY, TWO, compiled, description, over};

const RB4: &str = include_str!("../../../../../../conf/cluster.toml");

/// Mistakes in a server's configuration.
fn mistakes(description: &Description, server: usize) -> String {
    mistakes_on(description, server, 2)
}

/// Mistakes in a server's configuration for `workers` workers.
fn mistakes_on(description: &Description, server: usize, workers: usize) -> String {
    let compiled = compiled(description, server, workers);
    let bad = compiled.diagnostics.iter();
    // This machine may lack the devices, or have an interface of that name with another MTU.
    let of_machine = |message: &str| {
        ["device", "interface", " takes "]
            .iter()
            .any(|word| message.contains(word))
    };
    let bad = bad.filter(|d| d.is_error() || !of_machine(&d.message));
    bad.map(|d| lang::render_all(std::slice::from_ref(d), &compiled.map))
        .collect()
}

#[test]
fn a_server_alone_is_a_router_as_any_other() {
    let alone = r#"
        [cluster]
        name = "one"
        rate = "1Gbps"
        [[server]]
        name = "only"
        [[server.port]]
        device = "eth0"
        addresses = ["10.0.1.1/24", "fd00:1::1/64"]
        [[server.port]]
        device = "eth1"
        addresses = ["10.0.2.1/24"]
        gateways = ["10.0.2.9"]
        [[server.port]]
        device = "eth2"
        addresses = ["fd00:3::1/64"]
        [[route]]
        prefix = "0.0.0.0/0"
        via = "10.0.2.9"
    "#;
    let of = description(alone);
    assert_eq!(mistakes(&of, 0), "");
    let said = text(&of, 0, "cluster.toml");
    assert!(said.contains("0.0.0.0/0 10.0.2.9 1,"), "{said}");
    assert!(!said.contains("VLB"), "{said}");
}

#[test]
fn the_ready_example_is_right_for_each_of_its_servers() {
    let of = description(RB4);
    for server in 0..of.servers.len() {
        assert_eq!(
            mistakes(&of, server),
            "",
            "{}",
            text(&of, server, "cluster.toml")
        );
    }
}

#[test]
fn internal_links_may_be_vlans_of_one_port() {
    let vlan = TWO.replace("\"to-a\", \"to-b\"", "\"eth1.100\", \"eth1.100\"");
    assert_ne!(vlan, TWO);
    let of = description(&vlan);
    for server in 0..2 {
        let said = text(&of, server, "cluster.toml");
        assert!(said.contains("ToDevice(eth1.100)"), "{said}");
        assert_eq!(mistakes(&of, server), "", "{said}");
    }
}

#[test]
fn keys_and_resequencers_are_part_of_each_server() {
    let text = RB4.replace("[[link]]", "[[link]]\nmtu = 1530");
    let more = format!("key = \"{KEY}\"\nresequence = \"2ms\"\ndelta");
    let of = description(&text.replace("delta", &more));
    for server in 0..of.servers.len() {
        assert_eq!(mistakes(&of, server), "");
        let said = self::text(&of, server, "cluster.toml");
        assert!(said.contains("KEY $KEY, RESEQUENCE 2ms);"), "{said}");
        assert!(!said.contains(KEY), "{said}");
        assert!(
            said.contains("transit[3] -> order :: VLBResequencer(vlb) -> family"),
            "{said}"
        );
        assert!(said.contains("transit :: VLBTransit(vlb);"), "{said}");
    }
}

/// The workers that receive each internal link of server a of RB4, out of two.
fn receivers(text: &str) -> Vec<Vec<usize>> {
    let compiled = compiled(&description(text), 0, 2);
    let plan = compiled.plan.as_ref();
    let plan = plan.unwrap_or_else(|| panic!("{}", compiled.text()));
    let transit = plan.elements.iter().position(|e| e.name == "transit");
    let links = plan.edges.iter().filter(|e| Some(e.to.0) == transit);
    let mut links: Vec<_> = links.map(|edge| (edge.to.1, edge.from.0)).collect();
    links.sort_unstable();
    let workers = links.iter().map(|(_, from)| &plan.elements[*from].workers);
    workers.map(|w| w.to_vec()).collect()
}

#[test]
fn cables_without_visible_flows_are_distributed_over_workers() {
    assert_eq!(receivers(RB4), [[0, 1]; 3]);
    let text = RB4.replace("[[link]]", "[[link]]\nmtu = 1530");
    for field in [format!("key = \"{KEY}\""), "resequence = \"2ms\"".into()] {
        let text = text.replace("delta", &format!("{field}\ndelta"));
        assert_eq!(receivers(&text), [[0], [1], [0]], "{field}");
    }
    // The port on an IP network distinguishes the flows by the datagrams' ports.
    assert!(!self::text(&description(&over("udp")), 0, "cluster.toml").contains("QUEUES"));
}

#[test]
fn shared_memory_has_a_queue_for_each_worker_of_the_peer() {
    let two = TWO
        .replace("\"to-b\"", "\"memif:role=server,id=0,socket=/run/ab.sock\"")
        .replace("[[route]]", "mtu = 1530\n[[route]]")
        .replace(
            "name = \"two\"",
            &format!("name = \"two\"\nkey = \"{KEY}\""),
        );
    let of = description(&two);
    let a = text(&of, 0, "cluster.toml");
    assert!(
        a.contains(
            "FromDevice(\"memif:role=server,id=0,socket=/run/ab.sock\", PROMISC true) -> [0]"
        ),
        "{a}"
    );
    assert!(text(&of, 1, "cluster.toml").contains("PROMISC true, QUEUES 1)"));
}

#[test]
fn a_packets_input_node_knows_where_it_leaves() {
    let of = description(TWO);
    let a = text(&of, 0, "cluster.toml");
    for line in [
        // The MTU and the address of the port at the other server.
        "rt4[3] -> far_1_0_4 :: Remote4(1400, 10.0.2.1, 10.0.2.1/24) -> [1] enter;  // wan of b",
        "enter :: VLBInput(vlb, b/255, b/0);",
        "leave4 :: VLBOutput(vlb, 0 10.0.1.254 0.0.0.0);",
        "leave6 :: VLBOutput6(vlb, 0 :: fe80::9);",
        "    10.0.2.0/24 3,",
        "    203.0.113.0/24 10.0.1.254 0,",
        "FromDevice(to-b, PROMISC true) -> [0] transit;",
        "LEAVE leave4 port_p0_4/arp,",
        "LEAVE6 leave6 port_p0_6/nd6);",
        "transit[3] -> d0;",
    ] {
        assert!(a.contains(line), "{line}\n{a}");
    }
    let b = text(&of, 1, "cluster.toml");
    for line in [
        "enter :: VLBInput(vlb, a/255, a/0, a/0/1);",
        "    203.0.113.0/24 4,",
        "rt4[4] -> far_0_0_via1_4 :: Remote4(1500, 10.0.1.1, 10.0.1.1/24) -> [2] enter;",
        "family[1] -> Discard;",
        "transit :: VLBTransit(vlb,\n    LEAVE leave4 port_wan_4/arp);",
    ] {
        assert!(b.contains(line), "{line}\n{b}");
    }
}

#[test]
fn servers_that_only_carry_others_packets_need_no_tables() {
    let three = TWO.replace(
        "[[link]]\nbetween = [\"b\", \"a\"]",
        "[[server]]\nname = \"c\"\n[[link]]\nbetween = [\"b\", \"c\"]\nrate = \"1Gbps\"\ndevices = [\"x\", \
            \"y\"]\n[[link]]\nrate = \"1Gbps\"\nbetween = [\"c\", \"a\"]",
    );
    let of = description(&three);
    let c = text(&of, 2, "cluster.toml");
    assert!(
        c.contains("transit[1] -> link1;") && !c.contains("rt4"),
        "{c}"
    );
    assert_eq!(mistakes(&of, 2), "");
}

#[test]
fn server_has_no_destinations_for_families_without_ports() {
    let mixed = TWO.replacen(
        "[[server]]\nname = \"b\"",
        "[[server.port]]\ndevice = \"eth1\"\naddresses = [\"fd00:3::1/64\"]\n[[server]]\nname = \"b\"",
        1,
    ) + "[[route]]\nprefix = \"2001:db8::/32\"\nvia = \"fe80::9\"\n";
    let of = description(&mixed);
    for server in 0..2 {
        assert_eq!(
            mistakes(&of, server),
            "",
            "{}",
            text(&of, server, "cluster.toml")
        );
    }
    let (a, b) = (text(&of, 0, "cluster.toml"), text(&of, 1, "cluster.toml"));
    assert!(a.contains("    2001:db8::/32 fe80::9 0,"), "{a}");
    assert!(
        b.contains("enter :: VLBInput(vlb, a/255, a/0, a/0/1);") && !b.contains("rt6"),
        "{b}"
    );
}

#[test]
fn names_that_are_alike_when_put_together_stay_apart() {
    let two = TWO.replace("name = \"wan\"\n", "");
    let more = "[[server]]\nname = \"a_b\"\n[[server.port]]\nname = \"c\"\ndevice = \"eth0\"\naddresses = \
        [\"10.0.3.1/24\"]\n[[link]]\nbetween = [\"a_b\", \"b\"]\ndevices = [\"x\", \"to-a_b\"]\n\
        [[link]]\nbetween = [\"a_b\", \"a\"]\ndevices = [\"y\", \"to-a_b\"]\n";
    let alike = two
        .replace("[[route]]", &format!("{more}[[route]]"))
        .replacen("[[server.port]]\n", "[[server.port]]\nname = \"b_c\"\n", 1);
    let of = description(&alike);
    for server in 0..3 {
        assert_eq!(
            mistakes(&of, server),
            "",
            "{}",
            text(&of, server, "cluster.toml")
        );
    }
}

#[test]
fn two_servers_may_have_several_links() {
    let second = "[[link]]\nbetween = [\"a\", \"b\"]\ndevices = [\"x\", \"y\"]\n";
    let of = description(&TWO.replace("[[route]]", &format!("{second}[[route]]")));
    for server in 0..2 {
        let said = text(&of, server, "cluster.toml");
        assert_eq!(mistakes(&of, server), "", "{said}");
        assert!(said.contains("LINKS a-b 1Gbps a-b 1Gbps"), "{said}");
    }
}

#[test]
fn more_workers_than_packets_numbers_tell_apart_are_refused() {
    let numbered = TWO
        .replace("rate = \"1Gbps\"", "rate = \"1Gbps\"\nresequence = \"2ms\"")
        .replace("[[route]]", "mtu = 1530\n[[route]]");
    let of = description(&numbered);
    assert_eq!(mistakes_on(&of, 0, 16), "");
    let said = mistakes_on(&of, 0, 17);
    for part in [
        "`enter :: VLBInput` tells 16 workers apart, and is reached from worker 16",
        "run with --workers 16 or fewer",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn devices_of_links_may_have_commas_and_times_may_be_short() {
    let two = TWO
        .replace("\"to-b\"", "\"memif:role=server,id=0,socket=/run/ab.sock\"")
        .replace(
            "name = \"two\"",
            "name = \"two\"\ndelta = \"500ns\"\nheartbeat = \"100us\"",
        );
    let of = description(&two);
    assert_eq!(mistakes(&of, 0), "");
    let a = text(&of, 0, "cluster.toml");
    for part in [
        "FromDevice(\"memif:role=server,id=0,socket=/run/ab.sock\", PROMISC true) -> [0] transit;",
        "link0 :: ToDevice(\"memif:role=server,id=0,socket=/run/ab.sock\");",
        "DELTA 500ns",
        "INTERVAL 100us, DEAD 40ms",
    ] {
        assert!(a.contains(part), "{part}\n{a}");
    }
}

#[test]
fn links_over_an_ip_network_have_headers_and_take_frames_of_their_peers_only() {
    for (what, parts) in [
        (
            "udp",
            [
                "link0 :: Counter -> UDPIPEncap(192.0.2.1, FLOW, 192.0.2.2, 49789, false, DF true) -> under;",
                "src host 192.0.2.2 and dst udp port 49789);",
                "from[0] -> Strip(42) -> Unstrip(14) -> [0] transit;",
            ],
        ),
        (
            "vxlan",
            [
                "link0 :: Counter -> VXLANEncap(1) -> UDPIPEncap(192.0.2.1, FLOW, 192.0.2.2, 4789, false, DF true) -> \
                    under;",
                "src host 192.0.2.2 and dst udp port 4789);",
                "from[0] -> Strip(28) -> VXLANDecap(1) -> [0] transit;",
            ],
        ),
    ] {
        let of = description(&over(what));
        for server in 0..2 {
            assert_eq!(
                mistakes(&of, server),
                "",
                "{}",
                text(&of, server, "cluster.toml")
            );
        }
        let a = text(&of, 0, "cluster.toml");
        let more = [
            "under :: Underlay(under, 192.0.2.1, 192.0.2.1/24);",
            "StaticIPLookup(192.0.2.0/24 0) -> arp;",
            "transit[0] -> link0;\nbeat[0] -> link0;\nenter[0] -> link0;",
        ];
        for part in parts.iter().chain(&more) {
            assert!(a.contains(part), "{part}\n{a}");
        }
    }
    let far = over("udp").replace("mtu = 1580", "mtu = 1580\ngateway = \"192.0.2.254\"");
    let a = text(&description(&far), 0, "cluster.toml");
    let hops = "StaticIPLookup(192.0.2.0/24 0, 0.0.0.0/0 192.0.2.254 0)";
    assert!(a.contains(hops), "{a}");
    let unused = far.replace("over = \"udp\"", "mtu = 1530\ndevices = [\"x\", \"y\"]");
    let a = text(&description(&unused), 0, "cluster.toml");
    assert!(!a.contains("under"), "no link passes there: {a}");
}

/// [`TWO`] with elements for the first server's port.
fn with_elements(classes: &str, names: &str) -> String {
    TWO.replace(
        "rate = \"1Gbps\"",
        &format!("rate = \"1Gbps\"\nelements = '''\n{classes}'''"),
    )
    .replacen("gateways", &format!("{names}\ngateways"), 1)
}

#[test]
fn packets_of_a_port_pass_the_elements_that_the_file_has_for_it() {
    let classes = "elementclass Edge { $port |\n\
        input[0] -> IPFilter(deny dst tcp port $port, allow all) -> [0] output;\n\
        input[1] -> out :: Counter -> [1] output;\n}\n\
        elementclass Edge6 { input[0] -> [0] output; input[1] -> Counter -> [1] output; }\n";
    let names = "elements4 = \"Edge(23)\"\nelements6 = \"Edge6\"";
    let of = description(&with_elements(classes, names));
    assert_eq!(mistakes(&of, 0), "", "{}", text(&of, 0, "cluster.toml"));
    let said = text(&of, 0, "cluster.toml");
    for line in [
        "own :: Edge(23);",
        "own :: Edge6;",
        "-> [0] own[0] -> [0] output;",
        "-> [1] own[1] -> arp",
        "input[1] -> [1] own;",
        "-> [1] own[1] -> nd6",
        "input[1] -> Paint(0) -> [1] own;",
        "port_p0_4 :: Port4_p0(",
        "port_p0_6 :: Port6_p0(",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // The other server has none of them.
    assert_eq!(
        text(&of, 1, "cluster.toml"),
        text(&description(TWO), 1, "cluster.toml")
    );
    assert_filled(&said);
}

/// Fails if a marker of the classes of external ports is in the text.
fn assert_filled(text: &str) {
    let own = [
        "OWN_ELEMENT",
        "FROM_LINK",
        "TO_LINK",
        "FROM_FAR",
        "FAR6_ROUTES",
    ];
    let places = [Family::V4, Family::V6].into_iter().flat_map(punt::places);
    for marker in own
        .into_iter()
        .chain(places.map(|place| place.marker.trim()))
    {
        assert!(!text.contains(marker), "{marker}: {text}");
    }
}

#[test]
fn each_place_for_the_leaders_kernel_is_in_its_class_once() {
    for (family, text) in [(Family::V4, PORT4), (Family::V6, PORT6)] {
        for place in punt::places(family) {
            assert_eq!(text.matches(place.marker).count(), 1, "{}", place.marker);
        }
    }
}

#[test]
fn mistakes_in_elements_of_the_file_have_its_lines() {
    let classes =
        "elementclass Edge {\n    input[0] -> Nonsense -> [0] output; input[1] -> [1] output;\n}\n";
    let file = with_elements(classes, "elements4 = \"Edge\"");
    let line = 1 + file
        .lines()
        .position(|line| line.contains("Nonsense"))
        .expect("it is there");
    let said = mistakes(&description(&file), 0);
    assert!(said.contains(&format!("cluster.toml:{line}:")), "{said}");
    let missing = mistakes(
        &description(&with_elements(classes, "elements4 = \"Edgy\"")),
        0,
    );
    assert!(missing.contains("Edgy"), "{missing}");
}

#[test]
fn a_kernels_routes_lead_to_every_gateway_by_outputs_with_names() {
    let wan = "addresses = [\"10.0.2.1/24\"]\n";
    let gateways = format!("{wan}gateways = [\"10.0.2.8\", \"10.0.2.9\"]\n");
    let routes = TWO.replace(
        "rate = \"1Gbps\"\n",
        "rate = \"1Gbps\"\n[cluster.routes]\nnamespace = \"r\"\n",
    );
    let of = description(&routes.replace(wan, &gateways));
    assert_eq!(of.namespace.as_deref(), Some("r"));
    for server in 0..2 {
        assert_eq!(mistakes(&of, server), "");
    }
    let said = text(&of, 0, "cluster.toml");
    let names = "OUTPUTS p0 here s1 s1p0 s1p0g1 s1p0g2 none nowhere,";
    assert!(said.contains(names), "{said}");
    assert!(
        said.contains("rt4[5] -> far_1_0_via2_4") && said.contains("rt4[7] -> Discard;"),
        "{said}"
    );
    let hops = |server, v4, hops: &[_]| KernelRoutes::new(&of, server).hops(v4, hops);
    let own = hops(0, true, &[(0, 0, 1, 1), (1, 0, 2, 3)]);
    assert_eq!(own.as_deref(), Some("10.0.1.254 0 | - 5 WEIGHT 3"));
    assert_eq!(
        hops(0, false, &[(0, 0, 2, 1)]).as_deref(),
        Some("fe80::9 0")
    );
    assert_eq!(hops(0, true, &[]).as_deref(), Some("- 7"));
    // No such gateway, one of the other family, no such server, and a server without IPv6.
    for unknown in [(0, 0, 3, 1), (0, 0, 2, 1), (2, 0, 1, 1), (0, 0, 0, 1)] {
        assert_eq!(hops(0, true, &[unknown]), None, "{unknown:?}");
    }
    assert!(!KernelRoutes::new(&of, 1).has(false));
    assert_eq!(hops(1, false, &[(0, 0, 2, 1)]), None);
    let prefixes = KernelRoutes::new(&of, 0).prefixes();
    for own in [
        "10.0.2.0/24",
        "10.0.1.1/32",
        "203.0.113.0/24",
        "fd00:1::/64",
        "224.0.0.0/4",
    ] {
        assert!(prefixes.iter().any(|prefix| prefix == own), "{prefixes:?}");
    }
}

#[test]
fn packets_to_the_router_go_to_the_leaders_kernel_if_it_has_interfaces() {
    let routes = "rate = \"1Gbps\"\n[cluster.routes]\nnamespace = \"r\"\ninterfaces = true\n";
    let more = "[[server.port]]\nname = \"six\"\ndevice = \"eth1\"\naddresses = [\"fd00:7::1/64\"]\n\n[[link]]";
    let file = TWO.replace("rate = \"1Gbps\"\n", routes);
    let of = description(&file.replacen("[[link]]", more, 1));
    for server in 0..2 {
        assert_eq!(
            mistakes(&of, server),
            "",
            "{}",
            text(&of, server, "cluster.toml")
        );
    }
    let a = text(&of, 0, "cluster.toml");
    for line in [
        "question[1] -> replies :: Tee -> [1] arp;",
        "replies[1] -> [2] output;",
        "local6 :: IP6Local($LOCAL6 $ll, GROUPS ff02::5 ff02::6 ff02::9)",
        "nd[1] -> replies6 :: Tee -> [1] nd6;",
        "what6[1] -> [2] output;",
        "what6[3] -> [2] output;",
        "ping6[1] -> [2] output;",
        "here4[1] -> arrived4 :: PaintSwitch;",
        "arrived4[1] -> [0] punt_p0;",
        "punt_p0 :: Punt(eth0, p0) -> d0;",
        "port_p0_4[2] -> [2] punt_p0;",
        "port_p0_6[2] -> [1] punt_p0;",
        "leave4[1] -> Paint(0) -> here4;",
    ] {
        assert!(a.contains(line), "{line}: {a}");
    }
    let b = text(&of, 1, "cluster.toml");
    for line in [
        "Idle -> [1] punt_wan;",
        "Idle -> [0] punt_six;",
        "-> [2] punt_six;",
        "arrived4[2] -> Discard;",
    ] {
        assert!(b.contains(line), "{line}: {b}");
    }
    assert_filled(&a);
    assert_filled(&b);
    // Without interfaces nothing of that is there.
    let plain = description(&file.replace("interfaces = true\n", ""));
    let plain = text(&plain, 0, "cluster.toml");
    assert!(!plain.to_lowercase().contains("punt"), "{plain}");
    for line in [
        "//   out 1: frames to send\nelementclass Port4 {",
        "//   out 1: frames to send\nelementclass Port6 {",
        "question[1] -> [1] arp;             // ARP replies",
        "local6 :: IP6Local($LOCAL6 $ll)\n",
        "nd[1] -> [1] nd6;                   // advertisements",
        "-> ICMP6PingResponder($ip6 $ll) // ping",
        "what6[1] -> ICMP6Error($ip6 $ll $HOSTS6, unreachable, port) -> own6;",
        "what6[3] -> ICMP6Error($ip6 $ll $HOSTS6, parameterproblem) -> own6;",
    ] {
        assert!(plain.contains(line), "{line}: {plain}");
    }
    assert_filled(&plain);
}
