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
