//! Set-up of a plain Linux box as a back end: commands that configure it, and commands that show differences.

use super::description::{Description, Inside};
use std::fmt::Write;

/// Network interface of a back end, with its required settings.
struct Interface {
    name: String,
    /// Parent interface and VLAN identifier of a VLAN interface; `None` for others.
    vlan: Option<(String, u16)>,
    /// Addresses with prefix length, each with its purpose.
    addresses: Vec<(String, String)>,
}

/// Required configuration of a back end.
struct RequiredConfig {
    interfaces: Vec<Interface>,
    /// Names and values of sysctl settings.
    settings: Vec<(String, u8)>,
}

fn needs(description: &Description, number: usize) -> RequiredConfig {
    let own = &description.backends[number];
    let device = &own.device;
    let (_, length) = description.address;
    let behind = "the network behind the balancer, on which probes come back to it".to_owned();
    let mut interfaces = vec![Interface {
        name: device.clone(),
        vlan: None,
        addresses: vec![(format!("{}/{length}", own.address), behind)],
    }];
    for port in description.all_ports() {
        let four = port.v4.iter().map(|(ip, length)| format!("{ip}/{length}"));
        let six = port.v6.iter().map(|(ip, length)| format!("{ip}/{length}"));
        let of_port = |address| (address, port.name.clone());
        let mut addresses: Vec<_> = four.chain(six).map(of_port).collect();
        if !port.v6.is_empty() {
            let link_local = "the router's link-local address".to_owned();
            addresses.push(("fe80::1/64".to_owned(), link_local));
        }
        match description.inside {
            Inside::Flat => {
                let known = &mut interfaces[0].addresses;
                addresses.retain(|(new, _)| known.iter().all(|(address, _)| address != new));
                known.extend(addresses);
            }
            Inside::Vlan => {
                let vlan = port.vlan.unwrap_or_default();
                interfaces.push(Interface {
                    name: format!("{device}.{vlan}"),
                    vlan: Some((device.clone(), vlan)),
                    addresses,
                });
            }
        }
    }
    let setting = |name: &str, value| (name.to_owned(), value);
    // In flat mode, all ports of the router are one link, so a packet may leave by the interface on which it arrived.
    let mut settings = vec![
        setting("net.ipv4.ip_forward", 1),
        setting("net.ipv4.conf.all.send_redirects", 0),
        setting("net.ipv4.conf.all.accept_redirects", 0),
        setting("net.ipv4.conf.all.arp_ignore", 1),
    ];
    if description.all_ports().any(|port| !port.v6.is_empty()) {
        settings.push(setting("net.ipv6.conf.all.forwarding", 1));
    }
    for interface in &interfaces {
        let path = interface.name.replace('.', "/");
        let name = format!("net.ipv4.conf.{path}.send_redirects");
        settings.push((name, 0));
    }
    RequiredConfig {
        interfaces,
        settings,
    }
}

/// Shell script that configures a machine as back end `number`.
pub fn script(description: &Description, number: usize) -> String {
    let Some(own) = description.backends.get(number) else {
        return String::new();
    };
    let mut out = format!(
        "# Back end {} of the balancer {}: a stock Linux box. Its port to the switch is {}.\n\
         # Run this as root. Routes and filters are yours: give all back ends the same.\n\
         set -e\n\n\
         # The port has the address that the file says. No back end asks whether another has the router's addresses: \
         all have.\n",
        own.name, description.name, own.device
    );
    let RequiredConfig {
        interfaces,
        settings,
    } = needs(description, number);
    for Interface {
        name,
        vlan,
        addresses,
    } in &interfaces
    {
        let _ = match vlan {
            None => writeln!(
                out,
                "ip link set {name} down\nip link set {name} address {} up",
                own.ether
            ),
            Some((device, id)) => writeln!(
                out,
                "ip link show {name} >/dev/null 2>&1 || ip link add link {device} name {name} type vlan id {id}\n\
                 ip link set {name} up"
            ),
        };
        for (address, what) in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            let _ = writeln!(
                out,
                "ip address replace {address} dev {name}{nodad}   # {what}"
            );
        }
    }
    out.push_str("\n# It forwards, tells no host of a shorter way, and answers ARP for the port's own addresses \
        only.\n");
    for (name, value) in settings {
        let _ = writeln!(out, "sysctl -qw {name}={value}");
    }
    if !own.owns.is_empty() {
        let nets = own.owns.iter();
        let nets: Vec<String> = nets.map(|(ip, length)| format!("{ip}/{length}")).collect();
        let _ = writeln!(
            out,
            "\n# Packets to {} come to this box only: translate to these addresses, and to no others.",
            nets.join(" ")
        );
    }
    out
}

/// Shell script that prints the differences between a machine and the requirements for back end `number`, one per line.
/// The script changes nothing.
pub fn check(description: &Description, number: usize) -> String {
    let Some(own) = description.backends.get(number) else {
        return String::new();
    };
    let mut out = format!(
        "# Says what on back end {} of the balancer {} differs from the file, and ends with 1 if something does.\n\
         status=0\n\
         differs() {{ echo \"{}: $*\"; status=1; }}\n\
         link() {{\n  \
           now=$(cat \"/sys/class/net/$1/address\" 2>/dev/null)\n  \
           [ \"$now\" = \"$2\" ] || differs \"$1 has the Ethernet address ${{now:-of no interface}}, not $2\"\n  \
           ip link show dev \"$1\" up 2>/dev/null | grep -q . || differs \"$1 is not up\"\n\
         }}\n\
         address() {{ ip -o address show dev \"$1\" 2>/dev/null | grep -qF \" $2 \" || differs \"$1 lacks $2 ($3)\"; \
         }}\n\
         setting() {{\n  \
           now=$(sysctl -n \"$1\" 2>/dev/null)\n  \
           [ \"$now\" = \"$2\" ] || differs \"$1 is ${{now:-missing}}, not $2\"\n\
         }}\n",
        own.name, description.name, own.name
    );
    let RequiredConfig {
        interfaces,
        settings,
    } = needs(description, number);
    for interface in &interfaces {
        let name = &interface.name;
        let _ = writeln!(out, "link {name} {}", own.ether);
        for (address, what) in &interface.addresses {
            let _ = writeln!(out, "address {name} {address} \"{what}\"");
        }
    }
    for (name, value) in settings {
        let _ = writeln!(out, "setting {name} {value}");
    }
    out.push_str("exit $status\n");
    out
}
