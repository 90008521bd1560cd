//! The Click configuration of a balancer.

use super::description::{Description, Inside, Port};
use arguments::units::FromArg;
use std::fmt::{Display, Write};
use wire::Prefix4;

/// Name of the BalancePool element, whose handlers commands use.
pub const POOL: &str = "lb";
/// Name of the BalanceHealth element.
pub const HEALTH: &str = "health";

/// Name of the BalancePeer element, present if there are other balancers.
pub const PEER: &str = "peer";

/// Configuration of the balancer as text.
pub fn text(description: &Description) -> String {
    let mut out = format!(
        "// The balancer {}, in front of {}.\n\
         // Made by `ashlar balance text`: change the balancer's file instead, and `ashlar reload` it.\n\n",
        description.name,
        lang::count(description.backends.len(), "back end")
    );
    pool(&mut out, description);
    match description.inside {
        Inside::Flat => write_flat(&mut out, description),
        Inside::Vlan => vlans(&mut out, description),
    }
    out
}

fn joined<T>(
    all: impl IntoIterator<Item = T>,
    between: &str,
    word: impl Fn(T) -> String,
) -> String {
    all.into_iter().map(word).collect::<Vec<_>>().join(between)
}

fn prefix<A: Display>((address, length): &(A, u8)) -> String {
    format!("{address}/{length}")
}

/// Writes the BalancePool: back ends and the method of choosing them.
fn pool(out: &mut String, description: &Description) {
    let mut arguments: Vec<String> = description
        .backends
        .iter()
        .map(|one| {
            let weight = match one.weight {
                1 => String::new(),
                weight => format!(" WEIGHT {weight}"),
            };
            format!("{} {} {}{weight}", one.name, one.ether, one.address)
        })
        .collect();
    let own: Vec<String> = description
        .all_ports()
        .flat_map(|port| {
            let v4 = port.v4.iter().map(|(address, _)| address.to_string());
            v4.chain(port.v6.iter().map(|(address, _)| address.to_string()))
        })
        .collect();
    arguments.push(format!("OWN {}", own.join(" ")));
    arguments.push(format!(
        "SPEAKER {}",
        joined(&description.speakers, " ", |at| description.backends[*at]
            .name
            .clone())
    ));
    let owners = description
        .backends
        .iter()
        .filter(|one| !one.owns.is_empty());
    let owns = joined(owners, " ", |one| {
        format!("{} {}", one.name, joined(&one.owns, " ", prefix))
    });
    if !owns.is_empty() {
        arguments.push(format!("OWNS {owns}"));
    }
    let (address, length) = description.address;
    arguments.push(format!("INSIDE {}", Prefix4::new(address, length)));
    if description.algorithm != "flows" {
        arguments.push(format!("ALGORITHM {}", description.algorithm));
    }
    arguments.push(format!("KEY {}", description.key));
    if description.seed != 0 {
        arguments.push(format!("SEED {}", description.seed));
    }
    if !description.classes.is_empty() {
        let classes = joined(&description.classes, " ", |class| {
            let dscps = class.dscps.iter().map(u8::to_string);
            let priorities = class.priorities.iter().map(|pcp| format!("pcp{pcp}"));
            let dscps = joined(dscps.chain(priorities), "+", |word| word);
            format!(
                "{dscps}={}",
                joined(&class.backends, "+", |at| description.backends[*at]
                    .name
                    .clone())
            )
        });
        arguments.push(format!("CLASSES {classes}"));
    }
    for (name, time) in [
        ("IDLE", description.idle),
        ("DEADLINE", description.deadline),
        ("SETTLE", description.settle),
    ] {
        arguments.push(format!("{name} {}", time.unparse()));
    }
    let _ = writeln!(
        out,
        "{POOL} :: BalancePool({});\n",
        arguments.join(",\n    ")
    );
}

/// Ethernet addresses in the internal network: back ports, other balancers, back ends. After a switch has forgotten an
/// address, it floods frames, which must not leave by a front port.
fn backs(description: &Description) -> String {
    let own = description
        .back
        .iter()
        .map(|device| format!("{device}:eth"));
    let others = description.peers.iter().map(|peer| peer.ether.to_string());
    let backends = description.backends.iter().map(|one| one.ether.to_string());
    joined(own.chain(others).chain(backends), " ", |word| word)
}

/// A front port in the syntax of BalanceARP.
fn arp_port(port: &Port) -> String {
    let addresses: String = port
        .v4
        .iter()
        .map(|net| format!(" {}", prefix(net)))
        .collect();
    format!("{}{addresses}", port.ether())
}

fn proxy<'a>(ports: impl IntoIterator<Item = &'a Port>) -> String {
    let all: Vec<String> = ports
        .into_iter()
        .flat_map(|port| port.proxy.iter().map(prefix))
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(", PROXY {}", all.join(" ")),
    }
}

/// True if a port has IPv6 addresses.
fn six<'a>(ports: impl IntoIterator<Item = &'a Port>) -> bool {
    ports.into_iter().any(|port| !port.v6.is_empty())
}

/// A front port in the syntax of BalanceND.
fn nd_port(port: &Port) -> String {
    let addresses: String = port
        .v6
        .iter()
        .map(|net| format!(" {}", prefix(net)))
        .collect();
    format!("{}{addresses}", port.ether())
}

/// Arguments of a front port's BalanceIn: its Ethernet address, and the BalanceOut that learns senders.
fn front(number: usize, port: &Port, out: &str) -> String {
    let front = match number {
        0 => String::new(),
        number => format!(", FRONT {number}"),
    };
    let outside = if port.outside { ", OUTSIDE true" } else { "" };
    format!("{}, OUT {out}{front}{outside}", port.ether())
}

/// Writes the health checks, whose probes take precedence over packets queued at the back port.
fn health(out: &mut String, description: &Description) {
    let (health, back) = (&description.health, &description.back[0]);
    let kind = match &*health.kind {
        "echo" => String::new(),
        kind => format!(", KIND {kind}"),
    };
    let _ = writeln!(
        out,
        "// Probes show which back ends forward.\n\
         {HEALTH} :: BalanceHealth({POOL}, {back}:eth, {}, INTERVAL {}, MISSES {}, ANSWERS {}{kind}) -> [1] back0;\n",
        description.address.0,
        health.interval.unparse(),
        health.misses,
        health.answers,
    );
}

/// Writes the exchange of messages between balancers.
fn peers(out: &mut String, description: &Description) {
    if description.peers.is_empty() {
        return;
    }
    let others = joined(&description.peers, ", ", |peer| {
        format!("{} {} {}", peer.name, peer.ether, peer.address)
    });
    let _ = writeln!(
        out,
        "// Messages between the balancers: which buckets move.\n\
         {PEER} :: BalancePeer({POOL}, {}:eth, {}, {others}) -> [1] back0;\n",
        description.back[0], description.address.0,
    );
}

/// Writes the filter for the balancer's own frames from the back ports.
fn write_own_filter(out: &mut String, description: &Description, source: &str) {
    // Patterns of BFD control packets, echo replies, or BFD echo.
    let probes = match &*description.health.kind {
        "bfd" => "12/0800 23/11 36/0ec8",
        "icmp" => "12/0800 23/01 34/00",
        _ => "12/0800 23/11 36/0ec9",
    };
    // The UDP port of BalancePeer messages.
    let (pattern, rest) = match description.peers.is_empty() {
        true => ("", "own[3] -> Discard;".to_owned()),
        false => (
            ", 12/0800 23/11 36/c661",
            format!("own[3] -> {PEER};\nown[4] -> Discard;"),
        ),
    };
    let _ = writeln!(
        out,
        "// Frames from the back ports to the balancer itself: ARP, and returned probes.\n\
         {source} -> own :: Classifier(12/0806, {probes}, 12/86dd{pattern}, -);\n\
         own[1] -> {HEALTH};\n{rest}",
    );
}

/// Writes the configuration for front ports that share one internal Ethernet segment.
fn write_flat(out: &mut String, description: &Description) {
    let count = description.ports.len();
    for (number, device) in description.back.iter().enumerate() {
        let _ = writeln!(out, "back{number} :: ToDevice({device});");
    }
    health(out, description);
    peers(out, description);
    let fronts = joined(&description.ports, " ", |port| {
        format!("{}:eth", port.device)
    });
    let ports = joined(&description.ports, ",\n    ", arp_port);
    let (address, length) = description.address;
    let _ = writeln!(
        out,
        "// Packets from back ends: the front port follows from the destination address of the frame.\n\
         out :: BalanceOut(FRONT {fronts}, BACK {}, POOL {POOL});\n\
         arp :: BalanceARP({POOL}, out, {ports},\n    BACK {}:eth {address}/{length}{});\n\
         arp[{count}] -> back0;\narp[{}] -> [1] {HEALTH};\n\
         // Frames of back ends have destinations outside, not the back port's address: so the port is promiscuous.",
        backs(description),
        description.back[0],
        proxy(&description.ports),
        count + 1,
    );
    for device in &description.back {
        let _ = writeln!(out, "FromDevice({device}, PROMISC true) -> out;");
    }
    write_own_filter(out, description, &format!("out[{count}]"));
    let _ = writeln!(out, "own[0] -> [{count}] arp;");
    if six(&description.ports) {
        let ports = joined(&description.ports, ",\n    ", nd_port);
        let _ = writeln!(
            out,
            "nd :: BalanceND({POOL}, out, {ports});\nown[2] -> [{count}] nd;\nnd[{count}] -> back0;\n"
        );
    } else {
        out.push_str("own[2] -> Discard;  // no IPv6\n\n");
    }
    for (number, port) in description.ports.iter().enumerate() {
        let device = &port.device;
        let _ = writeln!(
            out,
            "// Front port {number}: {}\n\
             front{number} :: ToDevice({device});\n\
             out[{number}] -> front{number};\narp[{number}] -> front{number};\n\
             FromDevice({device}){} -> in{number} :: BalanceIn({POOL}, {});",
            port.name,
            sorted(description, number, port),
            front(number, port, "out"),
        );
        for back in 0..description.back.len() {
            let _ = writeln!(out, "in{number}[{back}] -> back{back};");
        }
        let _ = writeln!(
            out,
            "in{number}[{}] -> rest{number} :: Classifier(12/0806, 12/86dd, -);\n\
             rest{number}[0] -> [{number}] arp;\nrest{number}[2] -> Discard;",
            description.back.len()
        );
        for (at, class) in classes(description).into_iter().enumerate() {
            let name = format!("in{number}class{class}");
            let _ = writeln!(
                out,
                "class{number}[{}] -> {name} :: BalanceIn({POOL}, {}, CLASS {class});",
                at + 1,
                front(number, port, "out")
            );
            for back in 0..description.back.len() {
                let _ = writeln!(out, "{name}[{back}] -> back{back};");
            }
            let _ = writeln!(out, "{name}[{}] -> rest{number};", description.back.len());
        }
        let _ = match six(&description.ports) {
            true => writeln!(
                out,
                "rest{number}[1] -> [{number}] nd;\nnd[{number}] -> front{number};\n"
            ),
            false => writeln!(out, "rest{number}[1] -> Discard;\n"),
        };
    }
}

/// Indices of the classes with VLAN priorities.
fn classes(description: &Description) -> Vec<usize> {
    let all = description.classes.iter().enumerate();
    let by_priority = all.filter(|(_, class)| !class.priorities.is_empty());
    by_priority.map(|(at, _)| at + 1).collect()
}

/// Writes a classifier for the VLAN priorities of classes on a front port; empty if no class has any.
fn sorted(description: &Description, number: usize, port: &Port) -> String {
    let classes = classes(description);
    if classes.is_empty() {
        return String::new();
    }
    let output = |priority: u8| {
        let class = description
            .classes
            .iter()
            .position(|class| class.priorities.contains(&priority));
        let place = class.and_then(|class| {
            classes
                .iter()
                .position(|description| *description == class + 1)
        });
        place.map_or(0, |place| place + 1)
    };
    let map = joined(0..8, " ", |priority| output(priority).to_string());
    format!(
        " -> HostEtherFilter({}) -> class{number} :: PCPSwitch(MAP {map}, ANNO true)",
        port.ether()
    )
}

/// Element that passes frames while this balancer is the VRRP master of a shared port.
fn master(name: &str, port: &Port) -> String {
    port.vrrp.as_ref().map_or_else(String::new, |vrrp| {
        let (control, device) = (&vrrp.control, &port.device);
        format!(
            " -> {name} :: LinuxMaster({control}, {device}, {})",
            port.ether()
        )
    })
}

/// Source of frames on a front port. VRRP packets go to the port's control-plane interface instead.
fn arrival(number: usize, port: &Port) -> String {
    let device = &port.device;
    let Some(vrrp) = &port.vrrp else {
        return format!("FromDevice({device})");
    };
    let control = &vrrp.control;
    format!(
        "FromDevice({device}, PROMISC true) -> vrrp{number} :: Classifier(12/0800 23/70, 12/86dd 20/70, -);\n\
         vrrp{number}[0], vrrp{number}[1] -> ToDevice(tap:{control});\nFromDevice(tap:{control}) -> front{number};\n\
         vrrp{number}[2]{}",
        master(&format!("master{number}"), port)
    )
}

/// Writes the configuration for front ports with a separate internal VLAN each.
fn vlans(out: &mut String, description: &Description) {
    let (device, backs) = (&description.back[0], backs(description));
    let (address, length) = description.address;
    let _ = writeln!(
        out,
        "// The back port: frames without a tag are the balancer's own.\n\
         back0 :: ToDevice({device});"
    );
    health(out, description);
    peers(out, description);
    let _ = writeln!(
        out,
        "none :: BalanceOut(BACK {backs});\nIdle -> none -> Discard;\n\
         arp :: BalanceARP({POOL}, none, BACK {device}:eth {address}/{length});\n\
         arp[0] -> back0;\narp[1] -> [1] {HEALTH};"
    );
    write_own_filter(
        out,
        description,
        &format!("FromDevice({device}, PROMISC true)"),
    );
    let _ = writeln!(out, "own[0] -> arp;\nown[2] -> Discard;\n");
    for (number, port) in description.ports.iter().enumerate() {
        let (own, ether) = (&port.device, port.ether());
        let vlan = port.vlan.unwrap_or_default();
        let master = master(&format!("behind{number}"), port);
        let _ = writeln!(
            out,
            "// Front port {number}: {}, VLAN {vlan} inside\n\
             front{number} :: ToDevice({own});\nvlan{number} :: ToDevice({device}.{vlan});\n\
             FromDevice({device}.{vlan}){master} -> out{number} :: BalanceOut(FRONT {ether}, BACK {backs}, POOL \
             {POOL}) -> front{number};\n\
             arp{number} :: BalanceARP({POOL}, out{number}, {}, BACK {device}:eth{});\n\
             out{number}[1] -> rest{number} :: Classifier(12/0806, 12/86dd, -) -> [1] arp{number};\n\
             rest{number}[2] -> Discard;\n\
             arp{number}[0] -> front{number};\narp{number}[1] -> vlan{number};\narp{number}[2] -> Discard;\n\
             {}{} -> in{number} :: BalanceIn({POOL}, {}) -> vlan{number};\n\
             in{number}[1] -> other{number} :: Classifier(12/0806, 12/86dd, -) -> arp{number};\nother{number}[2] -> \
             Discard;",
            port.name,
            arp_port(port),
            proxy([port]),
            arrival(number, port),
            sorted(description, number, port),
            front(0, port, &format!("out{number}")),
        );
        for (at, class) in classes(description).into_iter().enumerate() {
            let _ = writeln!(
                out,
                "class{number}[{}] -> in{number}class{class} :: BalanceIn({POOL}, {}, CLASS {class}) -> vlan{number};\n\
                 in{number}class{class}[1] -> other{number};",
                at + 1,
                front(0, port, &format!("out{number}")),
            );
        }
        let _ = match six([port]) {
            true => writeln!(
                out,
                "nd{number} :: BalanceND({POOL}, out{number}, {});\nother{number}[1] -> nd{number};\n\
                 rest{number}[1] -> [1] nd{number};\nnd{number}[0] -> front{number};\nnd{number}[1] -> vlan{number};\n",
                nd_port(port)
            ),
            false => writeln!(out, "other{number}[1], rest{number}[1] -> Discard;\n"),
        };
    }
}
