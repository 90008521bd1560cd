//! Names of this machine's interfaces as arguments: they stand for the interfaces' addresses.

use arguments::{Kind, Names};
use engine::port::PortDirectory;
use machine::Machine;
use std::net::{IpAddr, Ipv4Addr};

/// The interfaces that a router's arguments mention. Names of AddressInfo take precedence.
pub(super) fn names(router: &lang::Router, ports: &dyn PortDirectory) -> Names {
    let mut names = Names::default();
    let mentioned = |name: &str| router.elements.iter().any(|e| e.config.text.contains(name));
    let mut known: Vec<String> = Vec::new();
    for (interface, address) in Machine::here().addresses() {
        if known.contains(&interface) || !mentioned(&interface) {
            continue;
        }
        if let IpAddr::V4(address) = address {
            names.insert_default(&interface, Kind::Ip, address.to_string());
            if let Ok(info) = ports.probe(&interface) {
                let address = wire::EtherAddr(info.mac).to_string();
                names.insert_default(&interface, Kind::Ether, address);
            }
            known.push(interface);
        }
    }
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    for (interface, gateway) in gateways(&routes) {
        names.insert_default(&format!("{interface}:gw"), Kind::Ip, gateway.to_string());
    }
    names
}

/// Interfaces of default routes, and their gateways, from Linux's table of routes: columns in hexadecimal, addresses as
/// they lie in memory.
fn gateways(routes: &str) -> Vec<(&str, Ipv4Addr)> {
    let lines = routes.lines().skip(1);
    let found = lines.filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let (interface, network) = (columns.next()?, columns.next()?);
        let gateway = u32::from_str_radix(columns.next()?, 16).ok()?;
        let mask = columns.nth(4)?;
        let default = network
            .bytes()
            .chain(mask.bytes())
            .all(|digit| digit == b'0');
        (default && gateway != 0).then(|| (interface, Ipv4Addr::from(gateway.to_ne_bytes())))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_are_those_of_default_routes() {
        let gateway = u32::from_ne_bytes([192, 0, 2, 1]);
        let routes = format!(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t{gateway:08X}\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth1\t00000000\t00000000\t0001\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth1\t0000000A\t{gateway:08X}\t0003\t0\t0\t100\t000000FF\t0\t0\t0\nbroken\n"
        );
        assert_eq!(gateways(&routes), [("eth0", Ipv4Addr::new(192, 0, 2, 1))]);
    }

    #[test]
    fn the_loopback_interface_has_its_address_unless_another_is_given() {
        let text = "AddressInfo(other 192.0.2.1); Idle -> IPEncap(4, lo, other) -> Discard";
        let mut map = lang::SourceMap::new();
        let file = map.add("test", text);
        let (router, _) = lang::parse(&mut map, file, &[]);
        let names = names(&router, &engine::port::NoPorts);
        // No interface may be up where the tests run.
        if let Some(address) = names.get("lo", Kind::Ip) {
            assert_eq!(address, "127.0.0.1");
        }
        assert_eq!(names.get("other", Kind::Ip), None);
    }
}
