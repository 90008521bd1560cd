use super::*;
use crate::cluster::file::parse;
use crate::source::{Source, compile};
use engine::plan::Options;

const RB4: &str = include_str!("../../../../../conf/cluster.toml");

fn description(text: &str) -> Description {
    let parsed = parse("cluster.toml", text);
    let said = parsed.text();
    parsed.description.unwrap_or_else(|| panic!("{said}"))
}

/// The mistakes of what a server runs.
fn mistakes(of: &Description, server: usize) -> String {
    let source = Source {
        name: "server".into(),
        text: text(of, server),
        ..Source::default()
    };
    let ports = ports::Directory::new();
    let options = Options {
        devices_must_exist: false,
        ..Options::new(2, &ports)
    };
    let compiled = compile(&source, &elements::registry(), &options);
    let bad = compiled.diagnostics.iter();
    // Nobody has these devices here.
    let bad = bad.filter(|d| {
        d.is_error() || !d.message.contains("device") && !d.message.contains("interface")
    });
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
    let said = text(&of, 0);
    assert!(said.contains("0.0.0.0/0 10.0.2.9 1,"), "{said}");
    assert!(!said.contains("VLB"), "{said}");
}

#[test]
fn the_ready_example_is_right_for_each_of_its_servers() {
    let of = description(RB4);
    for server in 0..of.servers.len() {
        assert_eq!(mistakes(&of, server), "", "{}", text(&of, server));
    }
}

#[test]
fn keys_and_resequencers_are_part_of_each_server() {
    let text = RB4.replace("[[link]]", "[[link]]\nmtu = 1522");
    let more = "key = \"000102030405060708090a0b0c0d0e0f\"\nresequence = \"2ms\"\ndelta";
    let of = description(&text.replace("delta", more));
    for server in 0..of.servers.len() {
        assert_eq!(mistakes(&of, server), "");
        let said = self::text(&of, server);
        assert!(
            said.contains("KEY 000102030405060708090a0b0c0d0e0f, RESEQUENCE 2ms);"),
            "{said}"
        );
        assert_eq!(said.matches("PROMISC true, QUEUES 1)").count(), 3, "{said}");
        assert!(
            said.contains("transit[3] -> order :: VLBResequencer(vlb) -> family"),
            "{said}"
        );
    }
}

#[test]
fn a_packets_input_node_knows_where_it_leaves() {
    let two = crate::cluster::file::tests::TWO;
    let of = description(two);
    let a = text(&of, 0);
    for line in [
        // The MTU and the address of the port at the other server.
        "rt4[3] -> far_1_0_4 :: Remote4(1400, 10.0.2.1, 10.0.2.1/24) -> [1] enter;  // wan of b",
        "enter :: VLBInput(vlb, b/255, b/0);",
        "leave4 :: VLBOutput(vlb, 0 10.0.1.254 0.0.0.0);",
        "leave6 :: VLBOutput6(vlb, 0 :: fe80::9);",
        "    10.0.2.0/24 3,",
        "    203.0.113.0/24 10.0.1.254 0,",
        "FromDevice(to-b, PROMISC true) -> [0] transit;",
    ] {
        assert!(a.contains(line), "{line}\n{a}");
    }
    let b = text(&of, 1);
    for line in [
        "enter :: VLBInput(vlb, a/255, a/0, a/0/1);",
        "    203.0.113.0/24 4,",
        "rt4[4] -> far_0_0_via1_4 :: Remote4(1500, 10.0.1.1, 10.0.1.1/24) -> [2] enter;",
        "family[1] -> Discard;",
    ] {
        assert!(b.contains(line), "{line}\n{b}");
    }
}

#[test]
fn servers_that_only_carry_others_packets_need_no_tables() {
    let three = crate::cluster::file::tests::TWO.replace(
        "[[link]]\nbetween = [\"b\", \"a\"]",
        "[[server]]\nname = \"c\"\n[[link]]\nbetween = [\"b\", \"c\"]\ndevices = [\"x\", \"y\"]\n[[link]]\nbetween = [\"c\", \"a\"]",
    );
    let of = description(&three);
    let c = text(&of, 2);
    assert!(
        c.contains("transit[1] -> link1;") && !c.contains("rt4"),
        "{c}"
    );
    assert_eq!(mistakes(&of, 2), "");
}

#[test]
fn a_server_has_no_ways_for_packets_that_cannot_come_in_there() {
    let two = crate::cluster::file::tests::TWO;
    let mixed = two.replacen(
        "[[server]]\nname = \"b\"",
        "[[server.port]]\ndevice = \"eth1\"\naddresses = [\"fd00:3::1/64\"]\n[[server]]\nname = \"b\"",
        1,
    ) + "[[route]]\nprefix = \"2001:db8::/32\"\nvia = \"fe80::9\"\n";
    let of = description(&mixed);
    for server in 0..2 {
        assert_eq!(mistakes(&of, server), "", "{}", text(&of, server));
    }
    let (a, b) = (text(&of, 0), text(&of, 1));
    assert!(a.contains("    2001:db8::/32 fe80::9 0,"), "{a}");
    assert!(
        b.contains("enter :: VLBInput(vlb, a/255, a/0, a/0/1);") && !b.contains("rt6"),
        "{b}"
    );
}

#[test]
fn names_that_are_alike_when_put_together_stay_apart() {
    let two = crate::cluster::file::tests::TWO.replace("name = \"wan\"\n", "");
    let more = "[[server]]\nname = \"a_b\"\n[[server.port]]\nname = \"c\"\ndevice = \"eth0\"\naddresses = [\"10.0.3.1/24\"]\n\
        [[link]]\nbetween = [\"a_b\", \"b\"]\ndevices = [\"x\", \"to-a_b\"]\n\
        [[link]]\nbetween = [\"a_b\", \"a\"]\ndevices = [\"y\", \"to-a_b\"]\n";
    let alike = two
        .replace("[[route]]", &format!("{more}[[route]]"))
        .replacen("[[server.port]]\n", "[[server.port]]\nname = \"b_c\"\n", 1);
    let of = description(&alike);
    for server in 0..3 {
        assert_eq!(mistakes(&of, server), "", "{}", text(&of, server));
    }
}

#[test]
fn devices_of_links_may_have_commas_and_times_may_be_short() {
    let two = crate::cluster::file::tests::TWO
        .replace("\"to-b\"", "\"memif:role=server,id=0\"")
        .replace(
            "name = \"two\"",
            "name = \"two\"\ndelta = \"500ns\"\nheartbeat = \"100us\"",
        );
    let of = description(&two);
    assert_eq!(mistakes(&of, 0), "");
    let a = text(&of, 0);
    for part in [
        "FromDevice(\"memif:role=server,id=0\", PROMISC true) -> [0] transit;",
        "link0 :: ToDevice(\"memif:role=server,id=0\");",
        "DELTA 500ns",
        "INTERVAL 100us, DEAD 40ms",
    ] {
        assert!(a.contains(part), "{part}\n{a}");
    }
}
