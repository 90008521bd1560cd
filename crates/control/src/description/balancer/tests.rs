//! Test files, with their results or error texts.

use super::{backend, generate};
use crate::compile::compile;
use crate::description::file::{Parsed, parse};
use crate::description::source::Source;
use planner::Options;
use std::path::Path;

const EDGE: &str = r#"
[balancer]
name = "edge"
back = "eth2"
address = "10.255.0.1/24"
speaker = ["r2", "r1"]

[[balancer.port]]
name = "lan"
device = "eth0"
addresses = ["10.0.1.1/24", "fd00:1::1/64"]

[[balancer.port]]
name = "wan"
device = "eth1"
addresses = ["10.0.2.1/24"]
proxy = ["203.0.113.0/26"]
outside = true

[[balancer.class]]
dscp = [46, 34]
backends = ["r1"]

[[backend]]
name = "r1"
ether = "02:00:00:00:00:01"
address = "10.255.0.11"

[[backend]]
name = "r2"
ether = "02:00:00:00:00:02"
address = "10.255.0.12"
weight = 2
owns = ["203.0.113.0/26"]
device = "ens1"
"#;

fn parsed(text: &str) -> Parsed {
    parse("edge.toml", text, Path::new("."))
}

fn vlans() -> String {
    let inside = EDGE.replace("back = ", "inside = \"vlan\"\nback = ");
    inside
        .replace("device = \"eth0\"", "device = \"eth0\"\nvlan = 101")
        .replace("device = \"eth1\"", "device = \"eth1\"\nvlan = 102")
}

/// A file whose ports are shared with another balancer.
fn vrrp() -> String {
    vlans()
        .replace("vlan = 101", "vlan = 101\nvrrp = 1")
        .replace("vlan = 102", "vlan = 102\nvrrp = 255\ncontrol = \"wan0\"")
}

#[test]
fn a_shared_port_has_the_virtual_routers_address_and_passes_frames_at_the_master_only() {
    let parsed = parsed(&vrrp());
    let text = generate::text(parsed.balancer.as_ref().expect("a balancer"));
    for part in [
        "vrrp0[2] -> master0 :: LinuxMaster(lan, eth0, 00:00:5e:00:01:01) -> in0 :: BalanceIn(lb, 00:00:5e:00:01:01,",
        "FromDevice(eth2.102) -> behind1 :: LinuxMaster(wan0, eth1, 00:00:5e:00:01:ff) -> out1",
        "arp1 :: BalanceARP(lb, out1, 00:00:5e:00:01:ff 10.0.2.1/24,",
        "FromDevice(tap:wan0) -> front1;",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    for (from, to, told) in [
        ("vrrp = 255", "vrrp = 256", "there is no virtual router 256"),
        ("vrrp = 1\n", "vrrp = 0\n", "there is no virtual router 0"),
        (
            "\"wan0\"",
            "\"lan\"",
            "have the same control-plane interface",
        ),
        ("\"wan0\"", "\"wan0123456789abc\"", "has 1 to 15 characters"),
        (
            "vrrp = 255\n",
            "",
            "only a port that balancers share by VRRP",
        ),
        (
            "inside = \"vlan\"",
            "inside = \"flat\"",
            "need a VLAN of their own inside",
        ),
    ] {
        let text = vrrp().replacen(from, to, 1);
        assert_ne!(text, vrrp());
        let parsed = super::tests::parsed(&text);
        assert!(parsed.text().contains(told), "{to}: {}", parsed.text());
    }
}

fn errors_of(text: &str, workers: usize) -> String {
    let parsed = parsed(text);
    assert_eq!(parsed.errors(), 0, "{}", parsed.text());
    let of = parsed.balancer.as_ref().expect("a balancer");
    let source = Source {
        name: "edge".into(),
        text: generate::text(of).into(),
        ..Source::default()
    };
    let ports = ports::Directory::new();
    let options = Options {
        devices_must_exist: false,
        ..Options::new(workers, &ports)
    };
    let mut compiled = compile(&source, &classes::registry(), &options);
    compiled.diagnostics.retain(lang::Diagnostic::is_error);
    compiled.text()
}

#[test]
fn a_file_becomes_a_router_with_any_number_of_workers() {
    let both = EDGE.replace("back = \"eth2\"", "back = [\"eth2\", \"eth3\", \"eth4\"]");
    for text in [
        EDGE,
        &vlans(),
        &both,
        &EDGE.replace("back = ", "health = \"arp\"\nkey = \"outside\"\nback = "),
        &EDGE.replace("back = ", "health = \"icmp\"\nback = "),
        &EDGE.replace("back = ", "health = \"bfd\"\nback = "),
        &vrrp(),
        &EDGE.replace("dscp = [46, 34]", "priority = [5, 6]"),
        &both.replace("dscp = [46, 34]", "dscp = [46]\npriority = [5, 6]"),
        &vrrp().replace("dscp = [46, 34]", "priority = [7]"),
    ] {
        for workers in [1, 2, 4] {
            assert_eq!(errors_of(text, workers), "", "{workers}");
        }
    }
}

#[test]
fn the_router_of_a_file_is_one_of_its_sections() {
    let parsed = parsed(EDGE);
    let names: Vec<_> = parsed
        .routers
        .iter()
        .map(|section| &*section.name)
        .collect();
    assert_eq!(names, ["edge"]);
    assert!(
        parsed.routers[0]
            .source
            .text
            .contains("BalancePool(r1 02:00:00:00:00:01 10.255.0.11,")
    );
}

#[test]
fn a_back_ends_requirements_are_printed() {
    let parsed = parsed(EDGE);
    let of = parsed.balancer.expect("a balancer");
    let script = backend::script(&of, of.backend("r2").expect("r2"));
    for line in [
        "ip link set ens1 address 02:00:00:00:00:02 up",
        "ip address replace 10.255.0.12/24 dev ens1",
        "ip address replace 10.0.1.1/24 dev ens1   # lan",
        "ip address replace fd00:1::1/64 dev ens1 nodad   # lan",
        "sysctl -qw net.ipv4.conf.ens1.send_redirects=0",
        "# Packets to 203.0.113.0/26 come to this box only",
    ] {
        assert!(script.contains(line), "{line}: {script}");
    }
    let parsed = self::parsed(&vlans());
    let script = backend::script(&parsed.balancer.expect("a balancer"), 0);
    assert!(
        script.contains("ip link add link eth0 name eth0.101 type vlan id 101"),
        "{script}"
    );
    assert!(
        script.contains("ip address replace 10.0.2.1/24 dev eth0.102   # wan"),
        "{script}"
    );
    assert!(
        script.contains("net.ipv4.conf.eth0/101.send_redirects=0"),
        "{script}"
    );
    let check = backend::check(&of, 1);
    for line in [
        "link ens1 02:00:00:00:00:02\n",
        "address ens1 10.0.1.1/24 \"lan\"\n",
        "setting net.ipv4.ip_forward 1\n",
    ] {
        assert!(check.contains(line), "{line}: {check}");
    }
    assert!(of.backend("r9").is_err_and(|why| why.contains("r1, r2")));
}

#[test]
fn mistakes_are_told_with_place_cause_and_remedy() {
    for (from, to, told) in [
        ("name = \"edge\"", "name = \"-x\"", "`-x` is no name"),
        ("name = \"edge\"\n", "", "[balancer] has no `name`"),
        ("back = \"eth2\"\n", "", "[balancer] has no `back`"),
        (
            "back = \"eth2\"",
            "back = \"eth 2\"",
            "`eth 2` cannot be a port",
        ),
        (
            "back = \"eth2\"",
            "back = \"eth0\"",
            "`eth0` is a back port, too",
        ),
        (
            "10.255.0.1/24",
            "10.255.0.1",
            "no IPv4 address with the length",
        ),
        ("10.255.0.1/24", "10.0.1.7/24", "overlaps with 10.0.1.0/24"),
        ("[\"r2\", \"r1\"]", "[\"r22\"]", "did you mean `r2`?"),
        (
            "back = ",
            "key = \"outsid\"\nback = ",
            "write \"symmetric\" or \"flow\" or \"outside\"",
        ),
        (
            "back = ",
            "interval = \"1us\"\nback = ",
            "`interval` must be from 1ms",
        ),
        ("back = ", "misses = 1\nback = ", "`misses` cannot be 1"),
        (
            "back = ",
            "idle = \"25h\"\nback = ",
            "`idle` is more than a day",
        ),
        (
            "back = ",
            "inside = \"vlan\"\nback = ",
            "this port has no VLAN",
        ),
        ("back = ", "backs = 1\nback = ", "did you mean `back`?"),
        (
            "device = \"eth1\"",
            "device = \"eth1\"\nvlan = 7",
            "only with inside = \"vlan\"",
        ),
        (
            "device = \"eth1\"",
            "device = \"eth0\"",
            "two front ports are `eth0`",
        ),
        ("10.0.2.1/24", "10.0.1.9/25", "overlap"),
        ("10.0.2.1/24", "10.0.2.0/24", "no address of a host"),
        (
            "203.0.113.0/26\"]\noutside",
            "x\"]\noutside",
            "`x` is no IPv4 network",
        ),
        ("dscp = [46, 34]", "dscp = [64]", "`64` is no DSCP"),
        ("dscp = [46, 34]", "dscp = [-1]", "`-1` is no DSCP"),
        (
            "dscp = [46, 34]",
            "priority = [8]",
            "`8` is no VLAN priority",
        ),
        (
            "dscp = [46, 34]",
            "priority = [5, 5]",
            "VLAN priority 5 is named twice",
        ),
        (
            "dscp = [46, 34]",
            "dscp = [46, 46]",
            "DSCP 46 is named twice",
        ),
        (
            "backends = [\"r1\"]",
            "backends = []",
            "no packets or no back ends",
        ),
        (
            "02:00:00:00:00:02",
            "03:00:00:00:00:02",
            "the Ethernet address of no port",
        ),
        (
            "02:00:00:00:00:02",
            "02:00:00:00:00:01",
            "has the `ether` of `r2`",
        ),
        ("10.255.0.12", "10.255.0.11", "has the `address` of `r2`"),
        (
            "10.255.0.12",
            "10.254.0.12",
            "no address of a back end in 10.255.0.0/24",
        ),
        (
            "owns = [\"203.0.113.0/26\"]",
            "owns = [\"10.0.1.0/30\"]",
            "10.0.1.0/30, which `r2` owns, and 10.0.1.1 of the router itself overlap",
        ),
        (
            "owns = [\"203.0.113.0/26\"]",
            "owns = [\"10.255.0.64/26\"]",
            "10.255.0.1/24 of the router itself and 10.255.0.64/26, which `r2` owns, overlap",
        ),
        (
            "owns = [\"203.0.113.0/26\"]",
            "owns = [\"fd00:9::/64\", \"fd00::/16\"]",
            "fd00::/16, which `r2` owns,",
        ),
        ("weight = 2", "weight = 0", "`weight` cannot be 0"),
        ("weight = 2", "wieght = 2", "did you mean `weight`?"),
    ] {
        assert!(EDGE.contains(from), "{from}");
        let parsed = parsed(&EDGE.replacen(from, to, 1));
        let text = parsed.text();
        assert!(parsed.errors() > 0 && text.contains(told), "{to}: {text}");
        assert!(text.contains("edge.toml:"), "{text}");
        assert!(parsed.balancer.is_none() || parsed.errors() > 0);
    }
    for missing in ["[[backend]]", "[[balancer.port]]", "[balancer]"] {
        let cut: String = EDGE
            .split_inclusive("\n\n")
            .filter(|part| !part.trim_start().starts_with(missing))
            .collect();
        let parsed = parsed(&cut);
        assert!(parsed.errors() > 0, "{missing}");
    }
}

#[test]
fn frames_of_a_vlan_priority_have_a_class() {
    let parsed = parsed(&EDGE.replace("dscp = [46, 34]", "dscp = [46]\npriority = [5, 7]"));
    let text = generate::text(parsed.balancer.as_ref().expect("a balancer"));
    for part in [
        "CLASSES 46+pcp5+pcp7=r1,",
        "FromDevice(eth1) -> HostEtherFilter(eth1:eth) -> class1 :: PCPSwitch(MAP 0 0 0 0 0 1 0 1, ANNO true) -> in1",
        "class1[1] -> in1class1 :: BalanceIn(lb, eth1:eth, OUT out, FRONT 1, OUTSIDE true, CLASS 1);",
        "in1class1[1] -> rest1;",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_balancer_and_a_cluster_are_files_of_their_own() {
    let text = format!("{EDGE}\n[cluster]\nname = \"x\"\n");
    assert!(parsed(&text).text().contains("file of its own"));
}

const PEER: &str = r#"
[[balancer.peer]]
name = "right"
ether = "02:00:00:00:00:f2"
address = "10.255.0.2"

[[balancer.peer.port]]
name = "far"
addresses = ["10.0.3.1/24", "fd00:3::1/64"]
"#;

/// A file with another balancer.
fn with_peer(text: &str, peer: &str) -> String {
    let (before, after) = text.split_once("[[backend]]").expect("a back end");
    format!("{before}{peer}\n[[backend]]{after}")
}

#[test]
fn two_balancers_share_back_ends_and_know_each_other_s_ports() {
    let far = PEER.replace("addresses", "vlan = 103\naddresses");
    for text in [with_peer(EDGE, PEER), with_peer(&vlans(), &far)] {
        for workers in [1, 2] {
            assert_eq!(errors_of(&text, workers), "", "{workers}");
        }
        let parsed = parsed(&text);
        let of = parsed.balancer.expect("a balancer");
        let clicks = generate::text(&of);
        for part in [
            "BalancePeer(lb, eth2:eth, 10.255.0.1, right 02:00:00:00:00:f2 10.255.0.2)",
            "OWN 10.0.1.1 fd00:1::1 10.0.2.1 10.0.3.1 fd00:3::1",
            "BACK eth2:eth 02:00:00:00:00:f2 02:00:00:00:00:01",
        ] {
            assert!(clicks.contains(part), "{part}: {clicks}");
        }
        let script = backend::script(&of, 0);
        assert!(
            script.contains("ip address replace 10.0.3.1/24 dev eth0"),
            "{script}"
        );
    }
    let levelled = EDGE.replace("back = ", "algorithm = \"least-loaded\"\nback = ");
    let told = parsed(&with_peer(&levelled, PEER)).text();
    assert!(told.contains("least-loaded with other balancers"), "{told}");
    for (from, to, told) in [
        ("name = \"right\"\n", "", "[[balancer.peer]] has no `name`"),
        (
            "name = \"right\"",
            "name = \"edge\"",
            "a name or an address of another box",
        ),
        (
            "10.255.0.2",
            "10.255.0.11",
            "a name or an address of another box",
        ),
        (
            "10.255.0.2",
            "10.254.0.2",
            "10.254.0.2 is not in 10.255.0.0/24",
        ),
        ("10.255.0.2", "x", "`x` is no IPv4 address"),
        (
            "02:00:00:00:00:f2",
            "ff:ff:ff:ff:ff:ff",
            "the Ethernet address of no port",
        ),
        ("10.0.3.1/24", "10.0.2.7/24", "overlap"),
        (
            "name = \"far\"",
            "name = \"far\"\ndevice = \"eth5\"",
            "`device`",
        ),
    ] {
        let parsed = parsed(&with_peer(EDGE, &PEER.replacen(from, to, 1)));
        let text = parsed.text();
        assert!(parsed.errors() > 0 && text.contains(told), "{to}: {text}");
    }
}
