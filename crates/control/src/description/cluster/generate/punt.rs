//! Packets for the leader's kernel, if it has interfaces for the external ports.

use super::routes::Family;
use super::{identifier, port_name};
use crate::description::cluster::description::Port;
use std::fmt::Write;

pub(super) const CLASS: &str = include_str!("punt.click");
pub(super) const HERE4: &str = include_str!("here4_punt.click");

/// A place in the class of an external port that depends on interfaces in the leader's kernel.
pub(super) struct Place {
    pub(super) marker: &'static str,
    /// Text for a cluster without interfaces.
    without: &'static str,
    /// Text for a cluster with interfaces.
    with: &'static str,
}

/// Places in port4.click.
const PLACES4: &[Place] = &[
    Place {
        marker: "OUT2\n",
        without: "",
        with: "//   out 2: ARP replies, which the leader's kernel gets, too\n",
    },
    Place {
        marker: "ARP_REPLIES",
        without: "[1] arp;             // ARP replies",
        with: "replies :: Tee -> [1] arp;   // ARP replies\n    \
               replies[1] -> [2] output;",
    },
];

/// Places in port6.click.
const PLACES6: &[Place] = &[
    Place {
        marker: "OUT2\n",
        without: "",
        with: "//   out 2: packets for the leader's kernel\n",
    },
    // Groups of IPv6 daemons: OSPFv3 (RFC 5340) and RIPng (RFC 2080).
    Place {
        marker: " GROUPS6",
        without: "",
        with: ", GROUPS ff02::5 ff02::6 ff02::9",
    },
    Place {
        marker: "NEIGHBOURS6",
        without: "[1] nd6;                   // advertisements and other messages of neighbours",
        with: "replies6 :: Tee -> [1] nd6;    // advertisements and other messages of neighbours\n    \
               replies6[1] -> answers6 :: IP6ProtocolSwitch(icmp6 136, -) -> [2] output;\n    \
               answers6[1] -> Discard;",
    },
    Place {
        marker: "PING6",
        without: "ICMP6PingResponder($ip6 $ll) // ping; other ICMPv6 is dropped (not_echo)",
        with: "ping6 :: ICMP6PingResponder($ip6 $ll)",
    },
    Place {
        marker: "UDP6",
        without: "ICMP6Error($ip6 $ll $HOSTS6, unreachable, port) -> own6;        // no UDP service here",
        with: "[2] output;",
    },
    Place {
        marker: "OTHERS6",
        without: "ICMP6Error($ip6 $ll $HOSTS6, parameterproblem) -> own6; // nor any other protocol",
        with: "[2] output;\n    \
               ping6[1] -> [2] output;             // ICMPv6 other than echo requests",
    },
];

/// Places in the class of an external port for a family.
pub(super) fn places(family: Family) -> &'static [Place] {
    match family {
        Family::V4 => PLACES4,
        Family::V6 => PLACES6,
    }
}

/// The class of an external port, `text`, with an output for the leader's kernel if the cluster has interfaces there.
pub(super) fn fill(text: &str, family: Family, interfaces: bool) -> String {
    places(family).iter().fold(text.to_owned(), |text, place| {
        let filling = if interfaces {
            place.with
        } else {
            place.without
        };
        text.replace(place.marker, filling)
    })
}

/// The element that carries the packets of an external port.
fn name(port: &Port) -> String {
    format!("punt_{}", identifier(&port.name))
}

/// The carrier of an external port's packets.
pub(super) fn external(out: &mut String, number: usize, port: &Port) {
    let (punt, device) = (name(port), &port.device);
    let _ = writeln!(out, "{punt} :: Punt({device}, {}) -> d{number};", port.name);
    if port.v4.is_some() {
        let _ = writeln!(out, "{}[2] -> [2] {punt};", port_name(port, Family::V4));
    } else {
        // The planner must know that frames would come by input 2.
        let frames = format!("EtherEncap(0x0806, {device}:eth, {device}:eth)");
        let _ = writeln!(
            out,
            "Idle -> [0] {punt};  // no IPv4 here, and no ARP\nIdle -> {frames} -> [2] {punt};"
        );
    }
    if port.v6.is_some() {
        let _ = writeln!(out, "{}[2] -> [1] {punt};", port_name(port, Family::V6));
    } else {
        let _ = writeln!(out, "Idle -> [1] {punt};  // no IPv6 here");
    }
}

/// IPv4 packets for the leader's kernel: to the port at which they have arrived. Packets that another server has
/// received go to the first port.
pub(super) fn arrived4(out: &mut String, ports: &[Port]) {
    let Some(first) = ports.iter().find(|port| port.v4.is_some()) else {
        return;
    };
    let _ = writeln!(
        out,
        "// ---- IPv4 packets for the leader's kernel: to the port at which they have arrived\n\n\
         here4[1] -> arrived4 :: PaintSwitch;\narrived4[0] -> [0] {};  // another server has received them",
        name(first)
    );
    for (color, port) in (1..).zip(ports) {
        let to = port
            .v4
            .map_or("Discard".to_owned(), |_| format!("[0] {}", name(port)));
        let _ = writeln!(out, "arrived4[{color}] -> {to};");
    }
}
