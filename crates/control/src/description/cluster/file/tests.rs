use super::*;
use crate::description::cluster::LinkCarrier;
use crate::description::cluster::testing::{KEY, TWO, description, over};
use crate::description::file::parse_cluster as parse;
use crate::description::testing;

fn mistakes(text: &str) -> Vec<String> {
    testing::mistakes(&parse("cluster.toml", text))
}

#[test]
fn a_file_becomes_a_description() {
    let parsed = parse("cluster.toml", TWO);
    let two = parsed.description.expect("the file is right");
    assert_eq!(parsed.diagnostics, []);
    assert_eq!((&*two.name, two.servers.len()), ("two", 2));
    assert_eq!(two.delta, Duration::from_millis(100));
    let [a, b] = &*two.servers else {
        panic!("two servers")
    };
    assert_eq!(
        (&*a.ports[0].name, a.ports[0].rate, a.ports[0].mtu),
        ("p0", 1_000_000_000, 1500)
    );
    assert_eq!(
        (&*b.ports[0].name, b.ports[0].mtu, b.ports[0].v6),
        ("wan", 1400, None)
    );
    // The smaller number first, whatever the file's order; 2R/N without a rate.
    let link = &two.links[0];
    assert_eq!(
        (link.ends, link.device(0), link.rate),
        ([0, 1], Some("to-b"), 1_000_000_000)
    );
    let route = &two.routes[0];
    assert_eq!((route.server, route.port, route.gateway), (0, 0, 1));
    assert_eq!(two.connected().count(), 3);
    assert_eq!(two.map().rate(), 2e9);
}

#[test]
fn servers_that_share_memory_have_as_many_workers() {
    let wire = TWO.replace("name = \"a\"\n", "name = \"a\"\nworkers = 2\n");
    let two = parse("cluster.toml", &wire)
        .description
        .expect("it is right");
    assert_eq!(
        (two.servers[0].workers, two.servers[1].workers),
        (Some(2), None)
    );
    let shared = TWO.replace("\"to-b\"", "\"memif:role=server,id=0\"");
    assert!(
        mistakes(&shared).is_empty(),
        "the file says nothing of workers"
    );
    let with = |a: &str, b: &str| {
        let known = shared.replace("name = \"a\"\n", &format!("name = \"a\"\n{a}\n"));
        mistakes(&known.replace("name = \"b\"\n", &format!("name = \"b\"\n{b}\n")))
    };
    assert!(with("workers = 2", "workers = 2").is_empty());
    let differ = "23: workers of this link's ends differ: `a` has `workers = 2`, `b`";
    assert_eq!(
        with("workers = 2", "workers = 1"),
        [format!("{differ} has `workers = 1`")]
    );
    assert_eq!(
        with("workers = 2", ""),
        [format!("{differ} does not say how many it has")]
    );
    assert_eq!(with("workers = 0", "workers = 0").len(), 2);
    assert_eq!(with("workers = 65", "workers = 65").len(), 2);
}

#[test]
fn all_mistakes_are_told_at_once_each_with_its_line() {
    let text = r#"[cluster]
name = "no name"
rat = "1Gbps"
heartbeat = "20ms"
[[server]]
name = "a"
[[server.port]]
device = "eth0"
rate = 7.5
addresses = ["10.0.1.0/24", "10.0.1.5"]
gateways = ["10.0.2.1"]
[[server]]
name = "a"
[[link]]
between = ["a", "c"]
devices = ["eth1", "eth2"]
rate = "1Gbps"
[[route]]
prefix = "10.9.0.0/16"
via = "10.0.2.1"
"#;
    let said = mistakes(text);
    for wanted in [
        "2: `no name` is no name",
        "3: [cluster] has no field `rat`",
        "4: a link would count as dead before three heartbeats",
        "9: `rate` must be a text, not float",
        "10: `10.0.1.0/24` is no address of a host",
        "10: `10.0.1.5` is no address with a prefix length",
        "11: `10.0.2.1` is no neighbour on this port's networks",
        "12: there are two servers `a`",
        "15: there is no server `c`",
        "20: no port has the gateway `10.0.2.1`",
    ] {
        assert!(
            said.iter().any(|line| line == wanted),
            "{wanted}: {said:#?}"
        );
    }
}

#[test]
fn toml_errors_are_reported_and_reading_continues() {
    let said = mistakes("[cluster]\nname = \"x\"\nrate = = 3\n[[server]]\nnam = \"a\"\n");
    assert!(said.iter().any(|line| line.starts_with("3: ")), "{said:#?}");
    assert!(
        said.iter().any(|line| line.contains("no field `nam`")),
        "{said:#?}"
    );
    assert!(!mistakes("").is_empty());
}

#[test]
fn servers_that_no_link_reaches_and_things_that_are_there_twice_are_mistakes() {
    let third = format!("{TWO}\n[[server]]\nname = \"c\"\n");
    let last = mistakes(&third).pop();
    assert_eq!(last.as_deref(), Some("29: no links lead from `a` to `c`"));
    let again = TWO.replace("10.0.2.1/24", "10.0.1.9/24");
    assert_eq!(
        mistakes(&again),
        ["18: two ports are attached to the same network"]
    );
    let again = TWO.replace("\"to-b\"", "\"eth0\"");
    assert_eq!(mistakes(&again), ["21: `eth0` of `a` is used twice"]);
    let again = TWO.replace("203.0.113.0", "10.0.1.0");
    assert_eq!(mistakes(&again), ["25: there are two ways to 10.0.1.0/24"]);
}

#[test]
fn packets_must_fit_inside_with_their_tags() {
    let keyed = TWO.replace("rate = \"1Gbps\"", "rate = \"1Gbps\"\nresequence = \"2ms\"");
    let wanted = "22: this link takes 1500 bytes, but packets of 1500 come with a tag of 30";
    assert_eq!(mistakes(&keyed), [wanted]);
    let fits = keyed.replace("[[route]]", "mtu = 1530\n[[route]]");
    assert_eq!(mistakes(&fits), [""; 0]);
}

#[test]
fn more_destinations_than_a_table_has_outputs_are_refused() {
    let routes = |count: usize| -> String {
        let gateways: Vec<String> = (1..=count)
            .map(|n| format!("\"10.0.1.{}\"", n + 1))
            .collect();
        let text = TWO.replace("\"10.0.1.254\", \"fe80::9\"", &gateways.join(", "));
        let (text, _) = text.split_once("[[route]]").expect("there is one");
        let route = |n| {
            format!(
                "[[route]]\nprefix = \"203.0.{n}.0/24\"\nvia = \"10.0.1.{}\"\n",
                n + 1
            )
        };
        text.to_owned() + &(1..=count).map(route).collect::<String>()
    };
    assert_eq!(mistakes(&routes(246)), [""; 0]);
    let said = mistakes(&routes(247));
    assert_eq!(
        said,
        ["1: servers, ports and gateways are 251 destinations, and 250 are the most"]
    );
}

#[test]
fn links_that_cannot_carry_every_load_are_warned_of() {
    let slow = TWO.replace("[[route]]", "rate = \"500Mbps\"\n[[route]]");
    let said = mistakes(&slow);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].contains("the links of `a` carry 500.000 Mbit/s"),
        "{said:#?}"
    );
    assert!(parse("x", &slow).description.is_some());
}

#[test]
fn links_that_do_not_say_carry_what_a_full_mesh_of_their_servers_asks() {
    let third = |port: &str, rate: &str| {
        let server = format!("[[server]]\nname = \"c\"\n{port}");
        let link = |to: &str| {
            format!(
                "[[link]]\nbetween = [\"{to}\", \"c\"]\n{rate}devices = [\"to-c\", \"to-{to}\"]\n"
            )
        };
        TWO.replace(
            "[[route]]",
            &format!("{server}{}{}[[route]]", link("a"), link("b")),
        )
    };
    let port =
        "[[server.port]]\ndevice = \"eth0\"\nrate = \"3Gbps\"\naddresses = [\"10.0.3.1/24\"]\n";
    // 2AB/S: the links of a full mesh carry every load that the ports admit.
    let unequal = description(&third(port, ""));
    let rates: Vec<u64> = unequal.links.iter().map(|link| link.rate).collect();
    assert_eq!(rates, [400_000_000, 1_200_000_000, 1_200_000_000]);
    assert_eq!(mistakes(&third(port, "")), [""; 0]);
    let said = mistakes(&third("", ""));
    let wanted = "the rate of this link is not known: `c` has no external port";
    assert_eq!(said, [27, 30].map(|line| format!("{line}: {wanted}")));
    let slow = third(port, "").replace("\"1Gbps\"", "\"8bps\"");
    let wanted = "21: the rates of its servers give this link less than 8 bit/s";
    assert_eq!(mistakes(&slow), [wanted]);
    assert!(
        parse("x", &third("", "rate = \"1Gbps\"\n"))
            .description
            .is_some()
    );
}

#[test]
fn external_ports_have_devices_whose_address_has_a_name() {
    let port = |device: &str| mistakes(&TWO.replacen("\"eth0\"", &format!("\"{device}\""), 1));
    for device in ["0000:01:00.0", "eth0.5", "dpdk:0000:01:00.0", "net/tap_1@x"] {
        assert_eq!(port(device), [""; 0]);
    }
    for device in ["memif:role=server,id=0", "a//b", "eth#0"] {
        let wanted = format!("9: `{device}` cannot be an external port");
        assert_eq!(port(device), [wanted]);
    }
    assert_eq!(
        mistakes(&TWO.replace("\"to-b\"", "\"memif:role=server,id=0\"")),
        [""; 0]
    );
}

#[test]
fn rates_and_times_that_nothing_can_have_are_mistakes() {
    let fast = |rate: &str| mistakes(&TWO.replace("1Gbps", rate));
    assert_eq!(fast("1000000Gbps"), [""; 0]);
    assert_eq!(fast("1000001Gbps")[0], "4: a rate of more than 1000 Tbit/s");
    let timed =
        |line: &str| mistakes(&TWO.replace("name = \"two\"", &format!("name = \"two\"\n{line}")));
    assert_eq!(timed("heartbeat = \"100us\""), [""; 0]);
    let wanted = "4: heartbeats would leave no time for packets";
    assert_eq!(timed("heartbeat = \"99us\""), [wanted]);
    assert_eq!(timed("heartbeat = \"0s\""), [wanted]);
    for key in ["heartbeat", "dead", "delta", "resequence"] {
        for time in ["61s", "10000000000000000000"] {
            let said = timed(&format!("{key} = \"{time}\""));
            assert_eq!(said[0], format!("4: `{key}` is more than a minute"));
        }
    }
}

#[test]
fn addresses_without_an_owner_and_the_routers_own_addresses_are_mistakes() {
    let own = TWO.replace("fe80::9", "fe80::1");
    assert_eq!(
        mistakes(&own),
        ["11: `fe80::1` is this port's own link-local address"]
    );
    let other = own.replace(
        "addresses = [\"10.0.1.1",
        "link-local = \"fe80::2\"\naddresses = [\"10.0.1.1",
    );
    assert_eq!(mistakes(&other), [""; 0]);
    for (usual, alone) in [
        ("10.0.2.1/24", "10.0.2.1/32"),
        ("fd00:1::1/64", "fd00:1::1/128"),
    ] {
        let said = mistakes(&TWO.replace(usual, alone));
        assert!(
            said.len() == 1 && said[0].ends_with(&format!("only the router itself is in {alone}")),
            "{said:#?}"
        );
    }
    let said = mistakes(&TWO.replace("203.0.113.0/24", "10.0.2.1/32"));
    assert_eq!(said, ["25: 10.0.2.1 is the router's own address"]);
    let six = TWO.replace("10.0.1.254\"\n\"#", "")
        + "[[route]]\nprefix = \"fd00:1::1/128\"\nvia = \"fe80::9\"\n";
    assert_eq!(
        mistakes(&six),
        ["28: fd00:1::1 is the router's own address"]
    );
}

#[test]
fn servers_are_no_further_apart_than_frames_come_in_two_phases() {
    let row = |count: usize| {
        let server = |n: usize| format!("[[server]]\nname = \"s{n}\"\n");
        let link = |n: usize| {
            let (a, b) = (n - 1, n);
            format!(
                "[[link]]\nbetween = [\"s{a}\", \"s{b}\"]\nrate = \"1Gbps\"\ndevices = [\"up\", \"down\"]\n"
            )
        };
        let head = "[cluster]\nname = \"row\"\nrate = \"1Gbps\"\n".to_owned();
        head + &(0..count).map(server).collect::<String>()
            + &(1..count).map(link).collect::<String>()
    };
    assert_eq!(mistakes(&row(8)), [""; 0]);
    let wanted = "20: `s0` and `s8` are 8 links apart, and 7 are the most";
    assert_eq!(mistakes(&row(9)), [wanted]);
}

#[test]
fn links_over_an_ip_network_share_a_port_and_have_room_for_whole_packets() {
    let (udp, vxlan) = (description(&over("udp")), description(&over("vxlan")));
    let under = udp.servers[1].underlay.as_ref().expect("it has one");
    assert_eq!((&*under.device, under.mtu), ("under", 1580));
    assert_eq!(udp.links[0].over, LinkCarrier::Udp { port: 49789 });
    let usual = LinkCarrier::Vxlan { port: 4789, vni: 1 };
    assert_eq!(vxlan.links[0].over, usual);
    // Headers of IP, UDP, VXLAN and the inner frame are not part of packets.
    assert_eq!((udp.links[0].mtu, vxlan.links[0].mtu), (1538, 1530));
    let other = over("vxlan").replace("over = \"vxlan\"", "over = \"vxlan\"\nport = 8472\nvni = 9");
    let other = description(&other).links[0].over.clone();
    assert_eq!(other, LinkCarrier::Vxlan { port: 8472, vni: 9 });
}

#[test]
fn links_over_an_ip_network_need_a_key() {
    let open = over("udp").replace(&format!("key = \"{KEY}\"\n"), "");
    let wanted = "29: anyone on this link's IP network could send packets as a server does";
    assert_eq!(mistakes(&open), [wanted]);
}

#[test]
fn a_cluster_has_one_key_or_two_and_no_message_shows_one() {
    let with = |value: &str| {
        TWO.replace(
            "rate = \"1Gbps\"\n",
            &format!("rate = \"1Gbps\"\nkey = {value}\n"),
        )
    };
    let other = "f".repeat(32);
    for (value, keys) in [
        (format!("\"{KEY}\""), KEY.to_owned()),
        (format!("[\"{KEY}\"]"), KEY.to_owned()),
        (
            format!("[\"{KEY}\", \"{other}\"]"),
            format!("{KEY} {other}"),
        ),
    ] {
        let of = description(&with(&value).replace("devices", "mtu = 1530\ndevices"));
        let found = of.keys.as_ref().map(|keys| keys.secret_text());
        assert_eq!(found, Some(keys));
        let said = format!("{of:?}");
        assert!(!said.contains(KEY) && !said.contains(&other), "{said}");
    }
    let short = &KEY[1..];
    for (value, wanted) in [
        (
            "[]".to_owned(),
            "2: `key` must be one key, or two while it changes, not 0",
        ),
        (
            format!("[\"{KEY}\", \"{KEY}\", \"{other}\"]"),
            "2: `key` must be one key, or two while it changes, not 3",
        ),
        (
            format!("\"{short}\""),
            "5: the key is none of 32 hexadecimal digits",
        ),
        (
            format!("[\n\"{other}\",\n\"{short}\"]"),
            "7: the key is none of 32 hexadecimal digits",
        ),
        (format!("\"{KEY}"), "5: invalid basic string, expected `\"`"),
    ] {
        let text = with(&value);
        assert_eq!(mistakes(&text)[0], wanted);
        let said = parse("cluster.toml", &text).text();
        assert!(!said.contains(short) && !said.contains(&other), "{said}");
    }
}

#[test]
fn an_ip_network_that_would_cut_frames_is_refused() {
    let wanted = "30: this link takes 1529 bytes, but packets of 1500 come with a tag of 30";
    let narrow = over("vxlan").replacen("mtu = 1580", "mtu = 1579", 1);
    assert_eq!(mistakes(&narrow), [wanted]);
    let help = parse("x", &narrow).text();
    assert!(
        help.contains("to 1580 if") && help.contains("to 1499 at most"),
        "{help}"
    );
    let narrow = over("udp").replace("mtu = 1580", "");
    assert_eq!(
        mistakes(&narrow),
        ["30: this link takes 1458 bytes, but packets of 1500 come with a tag of 30"]
    );
    let tiny = over("udp").replacen("mtu = 1580", "mtu = 500", 1);
    let wanted = "12: heartbeats do not pass where packets are of 500 bytes at most";
    assert_eq!(mistakes(&tiny)[0], wanted);
}

#[test]
fn underlays_that_lead_nowhere_are_mistakes() {
    let with = |from: &str, to: &str| {
        let text = over("udp");
        assert!(text.contains(from), "{from}");
        mistakes(&text.replacen(from, to, 1))
    };
    for (from, to, wanted) in [
        (
            "192.0.2.1/24",
            "fd00::1/64",
            "11: links do not pass through IPv6 networks, such as that of `fd00::1/64`",
        ),
        (
            "192.0.2.1/24",
            "192.0.2.0/24",
            "11: `192.0.2.0/24` is no address of a host in a network",
        ),
        (
            "192.0.2.1/24",
            "192.0.2.1",
            "11: `192.0.2.1` is no address with a prefix length",
        ),
        (
            "192.0.2.1/24",
            "192.0.2.2/24",
            "22: 192.0.2.2 is there twice",
        ),
        ("192.0.2.1/24", "10.0.2.1/24", "11: 10.0.2.1 is there twice"),
        (
            "192.0.2.1/24",
            "198.51.100.1/24",
            "30: `a` does not know the way to 192.0.2.2 of `b`",
        ),
        (
            "mtu = 1580",
            "mtu = 1580\ngateway = \"10.9.9.9\"",
            "13: `10.9.9.9` is no neighbour on this network",
        ),
        (
            "device = \"under\"",
            "device = \"eth0\"",
            "11: `eth0` of `a` is used twice",
        ),
        (
            "over = \"udp\"",
            "over = \"gre\"",
            "32: links do not pass over `gre`",
        ),
        (
            "over = \"udp\"",
            "over = \"udp\"\ndevices = [\"x\", \"y\"]",
            "33: this link has both `devices` and `over`",
        ),
        (
            "over = \"udp\"",
            "over = \"udp\"\nmtu = 1530",
            "33: this link has no `mtu`",
        ),
        (
            "over = \"udp\"",
            "over = \"udp\"\nvni = 2",
            "33: this link has no `vni`",
        ),
        (
            "over = \"udp\"",
            "over = \"udp\"\nport = 0",
            "33: there is no UDP port 0",
        ),
        (
            "over = \"udp\"",
            "over = \"vxlan\"\nvni = 16777216",
            "33: there is no VXLAN network 16777216",
        ),
        (
            "over = \"udp\"",
            "devices = [\"x\", \"y\"]\nport = 7",
            "33: this link has no `port`",
        ),
    ] {
        let said = with(from, to);
        assert!(
            said.iter().any(|line| line == wanted),
            "{wanted}: {said:#?}"
        );
    }
    let none = TWO.replace("devices = [\"to-a\", \"to-b\"]", "over = \"udp\"");
    let said = mistakes(&none);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].ends_with("`a` has no underlay for this link"),
        "{said:#?}"
    );
    let twice = over("udp") + "[[link]]\nbetween = [\"a\", \"b\"]\nover = \"vxlan\"\n";
    let said = mistakes(&twice);
    assert!(
        said[0].ends_with("a second link between two servers over the same IP network"),
        "{said:#?}"
    );
}

#[test]
fn servers_in_different_networks_reach_each_other_by_gateways() {
    let far = over("udp")
        .replace(
            "192.0.2.1/24\"",
            "198.51.100.1/24\"\ngateway = \"198.51.100.254\"",
        )
        .replace(
            "192.0.2.2/24\"",
            "192.0.2.2/24\"\ngateway = \"192.0.2.254\"",
        );
    assert_eq!(mistakes(&far), [""; 0]);
}

#[test]
fn routes_to_prefixes_that_no_router_forwards_are_mistakes() {
    let to = |prefix: &str| mistakes(&TWO.replace("203.0.113.0/24", prefix));
    for (prefix, why) in [
        (
            "255.255.255.255/32",
            "is everybody on a link: never further (RFC 1812, 5.3.5.1)",
        ),
        (
            "224.0.0.0/4",
            "is for groups, and this router forwards to none",
        ),
        (
            "239.1.0.0/16",
            "is for groups, and this router forwards to none",
        ),
        ("127.0.0.0/8", "never leaves a host"),
    ] {
        assert_eq!(to(prefix), [format!("25: {prefix} {why}")]);
    }
    assert_eq!(to("0.0.0.0/0"), [""; 0]);
    let six = |prefix: &str| {
        let route = format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"fe80::9\"\n");
        mistakes(&(TWO.to_owned() + &route))
    };
    let group = "28: ff00::/8 is for groups, and this router forwards to none";
    assert_eq!(six("ff00::/8"), [group]);
    assert_eq!(
        six("fe80::/64"),
        ["28: fe80::/64 never leaves a link (RFC 4291, 2.5.6)"]
    );
    assert_eq!(six("::/0"), [""; 0]);
}

#[test]
fn routes_of_a_kernel_need_the_name_of_a_namespace() {
    let with = |line: &str| {
        let table = format!("rate = \"1Gbps\"\n[cluster.routes]\n{line}\n");
        TWO.replace("rate = \"1Gbps\"\n", &table)
    };
    let good = description(&with("namespace = \"routes-1.x\""));
    assert_eq!(good.namespace.as_deref(), Some("routes-1.x"));
    assert_eq!(good.hold, Duration::ZERO);
    let held = description(&with("namespace = \"r\"\nhold = \"90s\""));
    assert_eq!(
        (held.hold, held.interfaces),
        (Duration::from_secs(90), false)
    );
    assert!(description(&with("namespace = \"r\"\ninterfaces = true")).interfaces);
    for (line, why) in [
        ("", "[cluster.routes] has no `namespace`"),
        (
            "namespace = \"../net\"",
            "is no name of a network namespace",
        ),
        ("namespace = \"\"", "`namespace` is empty"),
        ("namespace = \"r\"\ntable = 7", "table"),
        ("namespace = \"r\"\nhold = \"3601s\"", "more than an hour"),
        ("namespace = \"r\"\ninterfaces = 7", "`interfaces` must be"),
    ] {
        let said = mistakes(&with(line));
        assert!(said.len() == 1 && said[0].contains(why), "{line}: {said:?}");
    }
    let long = with("namespace = \"r\"\ninterfaces = true").replace("wan", "uplink-to-city");
    let said = mistakes(&long);
    let why = "the interface `b-uplink-to-city` of [cluster.routes] would have a name of more than 15 bytes";
    assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
    // Servers `a` and `a-x` with ports `x-y` and `y`.
    let same = with("namespace = \"r\"\ninterfaces = true")
        .replace(
            "name = \"a\"\n[[server.port]]",
            "name = \"a\"\n[[server.port]]\nname = \"x-y\"",
        )
        .replace("name = \"b\"", "name = \"a-x\"")
        .replace("name = \"wan\"", "name = \"y\"")
        .replace("[\"b\", \"a\"]", "[\"a-x\", \"a\"]");
    let said = mistakes(&same);
    assert!(
        said.len() == 1 && said[0].contains("two ports would have the interface `a-x-y`"),
        "{said:?}"
    );
}
