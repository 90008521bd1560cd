//! Commands that make a stock Linux box a back end.

use super::description::{Description, Inside};
use std::fmt::Write;

/// A shell script for a back end, by its number.
pub fn script(of: &Description, number: usize) -> String {
    let Some(own) = of.backends.get(number) else {
        return String::new();
    };
    let device = &own.device;
    let (_, length) = of.address;
    let mut out = format!(
        "# Back end {} of the balancer {}: a stock Linux box. Its port to the switch is {device}.\n\
         # Run this as root. Routes and filters are yours: give all back ends the same.\n\
         set -e\n",
        own.name, of.name
    );
    let mut devices = vec![device.clone()];
    if of.inside == Inside::Vlan {
        devices.extend(of.ports.iter().map(|port| vlan_device(device, port.vlan)));
    }
    // All ports of the router are one link in flat mode, so a packet leaves where it came in.
    let mut settings = vec![
        "net.ipv4.ip_forward=1".to_owned(),
        "net.ipv4.conf.all.send_redirects=0".to_owned(),
        "net.ipv4.conf.all.accept_redirects=0".to_owned(),
        "net.ipv4.conf.all.arp_ignore=1".to_owned(),
    ];
    let six = of.ports.iter().any(|port| !port.v6.is_empty());
    if six {
        settings.push("net.ipv6.conf.all.forwarding=1".to_owned());
    }
    let _ = writeln!(out, "\n# The port has the address that the file says.");
    let _ = writeln!(
        out,
        "ip link set {device} down\nip link set {device} address {} up",
        own.ether
    );
    let _ = writeln!(
        out,
        "\n# The network behind the balancer, on which probes come back to it."
    );
    let _ = writeln!(
        out,
        "ip address replace {}/{length} dev {device}",
        own.address
    );
    let _ = writeln!(
        out,
        "\n# The router's addresses: all back ends have them, so none asks whether another does."
    );
    for port in &of.ports {
        let on = match of.inside {
            Inside::Flat => device.clone(),
            Inside::Vlan => {
                let vlan = port.vlan.unwrap_or_default();
                let name = vlan_device(device, port.vlan);
                let _ = writeln!(
                    out,
                    "ip link show {name} >/dev/null 2>&1 || ip link add link {device} name {name} type vlan id {vlan}\n\
                     ip link set {name} up"
                );
                name
            }
        };
        for (address, length) in &port.v4 {
            let _ = writeln!(
                out,
                "ip address replace {address}/{length} dev {on}   # {}",
                port.name
            );
        }
        for (address, length) in &port.v6 {
            let _ = writeln!(
                out,
                "ip address replace {address}/{length} dev {on} nodad   # {}",
                port.name
            );
        }
        if !port.v6.is_empty() {
            let _ = writeln!(
                out,
                "ip address replace fe80::1/64 dev {on} nodad   # the router's link-local address"
            );
        }
    }
    let _ = writeln!(
        out,
        "\n# It forwards, tells no host of a shorter way, and answers ARP for the port's own addresses only."
    );
    for name in &devices {
        let path = name.replace('.', "/");
        settings.push(format!("net.ipv4.conf.{path}.send_redirects=0"));
    }
    for setting in settings {
        let _ = writeln!(out, "sysctl -qw {setting}");
    }
    if !own.owns.is_empty() {
        let nets: Vec<String> = own
            .owns
            .iter()
            .map(|(address, length)| format!("{address}/{length}"))
            .collect();
        let _ = writeln!(
            out,
            "\n# Packets to {} come to this box only: translate to these addresses, and to no others.",
            nets.join(" ")
        );
    }
    out
}

fn vlan_device(device: &str, vlan: Option<u16>) -> String {
    format!("{device}.{}", vlan.unwrap_or_default())
}
