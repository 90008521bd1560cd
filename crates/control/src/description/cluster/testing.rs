//! Files that tests read.

use super::Description;
use super::generate;
use crate::compile::{Compiled, compile};
use crate::description::file::parse_cluster as parse;
use crate::description::source::Source;
use planner::Options;

/// Two servers, one external port each.
pub(crate) const TWO: &str = r#"
[cluster]
name = "two"
rate = "1Gbps"

[[server]]
name = "a"
[[server.port]]
device = "eth0"
addresses = ["10.0.1.1/24", "fd00:1::1/64"]
gateways = ["10.0.1.254", "fe80::9"]

[[server]]
name = "b"
[[server.port]]
name = "wan"
device = "eth0"
addresses = ["10.0.2.1/24"]
mtu = 1400

[[link]]
between = ["b", "a"]
devices = ["to-a", "to-b"]

[[route]]
prefix = "203.0.113.0/24"
via = "10.0.1.254"
"#;

/// A key.
pub(crate) const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// The same two, whose link passes over an IP network by `udp` or `vxlan`.
pub(crate) fn over(what: &str) -> String {
    let under = |name: &str, address: &str| {
        let head = format!("[[server]]\nname = \"{name}\"\n");
        let underlay = format!("device = \"under\"\naddress = \"{address}/24\"\nmtu = 1580\n");
        (head.clone(), format!("{head}[server.underlay]\n{underlay}"))
    };
    let (a, under_a) = under("a", "192.0.2.1");
    let (b, under_b) = under("b", "192.0.2.2");
    TWO.replace(&a, &under_a)
        .replace(&b, &under_b)
        .replace(
            "devices = [\"to-a\", \"to-b\"]",
            &format!("over = \"{what}\""),
        )
        .replace(
            "rate = \"1Gbps\"\n",
            &format!("rate = \"1Gbps\"\nkey = \"{KEY}\"\n"),
        )
}

/// A file that has no errors.
pub(crate) fn description(text: &str) -> Description {
    let parsed = parse("cluster.toml", text);
    let said = parsed.text();
    parsed.description.unwrap_or_else(|| panic!("{said}"))
}

/// Compiled configuration of a server, for `workers` workers, without its devices.
pub(crate) fn compiled(description: &Description, server: usize, workers: usize) -> Compiled {
    let source = Source {
        name: "server".into(),
        text: generate::text(description, server, "cluster.toml").into(),
        definitions: generate::secrets(description),
        ..Source::default()
    };
    let ports = ports::Directory::new();
    let options = Options {
        devices_must_exist: false,
        ..Options::new(workers, &ports)
    };
    compile(&source, &classes::registry(), &options)
}
