//! Packets for the leader's kernel, if it has interfaces for the external ports.

use super::routes::Family;
use super::{identifier, port_name};
use crate::description::cluster::description::Port;
use std::fmt::Write;

pub(super) const CLASS: &str = include_str!("punt.click");
pub(super) const HERE4: &str = include_str!("here4_punt.click");

/// Groups of IPv6 daemons: OSPFv3 (RFC 5340) and RIPng (RFC 2080).
const GROUPS6: &str = "ff02::5 ff02::6 ff02::9";

/// The class of an external port, `text`, with an output for the leader's kernel.
pub(super) fn port_class(text: &str, family: Family) -> String {
    let frames = "//   out 1: frames to send\n";
    match family {
        Family::V4 => {
            let more =
                format!("{frames}//   out 2: ARP replies, which the leader's kernel gets, too\n");
            let text = text.replace(frames, &more);
            let replies = "    question[1] -> replies :: Tee -> [1] arp;   // ARP replies\n    \
                           replies[1] -> [2] output;\n";
            with_line(&text, "    question[1] -> ", replies)
        }
        Family::V6 => {
            let more = format!("{frames}//   out 2: packets for the leader's kernel\n");
            let groups = format!("IP6Local($LOCAL6 $ll, GROUPS {GROUPS6})");
            let text = text
                .replace(frames, &more)
                .replace("IP6Local($LOCAL6 $ll)", &groups);
            let replies = "    nd[1] -> replies6 :: Tee -> [1] nd6;    \
                           // advertisements and other messages of neighbours\n    \
                           replies6[1] -> answers6 :: IP6ProtocolSwitch(icmp6 136, -) -> [2] output;\n    \
                           answers6[1] -> Discard;\n";
            let text = with_line(&text, "    nd[1] -> ", replies);
            let ping = "        -> ping6 :: ICMP6PingResponder($ip6 $ll)\n";
            let text = with_line(&text, "        -> ICMP6PingResponder(", ping);
            let text = with_line(&text, "    what6[1] -> ", "    what6[1] -> [2] output;\n");
            let others = "    what6[3] -> [2] output;\n    ping6[1] -> [2] output;             \
                          // ICMPv6 other than echo requests\n";
            with_line(&text, "    what6[3] -> ", others)
        }
    }
}

/// The text with another line instead of the one that begins so.
fn with_line(text: &str, start: &str, line: &str) -> String {
    let lines = text.split_inclusive('\n');
    let lines = lines.map(|known| {
        if known.starts_with(start) {
            line
        } else {
            known
        }
    });
    lines.collect()
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
