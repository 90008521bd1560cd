//! Rates of a cluster's server between two readings: external ports, links to other servers, workers, drops.

use crate::rates::Rates;
use control::client::Client;
use control::client::cluster::{Links, Place};
use control::view::{CopyStats, Member, NO_LOSS_REASONS, Stats};
use std::collections::BTreeMap;

/// One reading of a server.
pub(super) struct Reading {
    pub(super) member: Member,
    stats: Stats,
}

impl Reading {
    /// Asks a server. The error is a sentence.
    pub(super) fn of(client: &Client) -> Result<Reading, String> {
        Ok(Reading {
            member: client.get_json("/v1/member")?,
            stats: client.get_json("/v1/stats")?,
        })
    }
}

/// Rates of a server.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServerRates {
    pub(super) ports: Vec<Port>,
    /// Part of the time, 0 to 1, in which each worker moved packets.
    pub(super) busy: Vec<f64>,
    /// Dropped packets a second: element or port, name of the drop, rate. Only those that are not 0.
    pub(super) drops: Vec<(String, String, f64)>,
}

/// Rates of an external port, of a link to another server, or of the underlay port.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Port {
    /// Name of the port.
    pub(super) name: String,
    /// Server at the other end of a link.
    pub(super) peer: Option<String>,
    pub(super) up: bool,
    pub(super) received: Rate,
    pub(super) sent: Rate,
}

/// Packets and bits a second. `None` where only packets are counted: links over the underlay share its port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) packets: f64,
    pub(super) bits: Option<f64>,
}

/// Rates between two readings.
///
/// # Errors
///
/// The server was started anew between them; a sentence.
pub(super) fn between(before: &Reading, after: &Reading) -> Result<ServerRates, String> {
    let rates = Rates::new(&before.stats, &after.stats);
    let rates = rates.ok_or("it was started again a moment ago")?;
    let workers = 0..after.stats.workers.len();
    Ok(ServerRates {
        ports: rates.server_ports(&after.member),
        busy: workers.map(|worker| rates.busy(worker)).collect(),
        drops: rates.losses(),
    })
}

/// Counts of one direction of a port: before and after.
struct Traffic {
    receives: bool,
    packets: (u64, u64),
    /// `None` where only packets are counted.
    bytes: Option<(u64, u64)>,
}

/// Traffic that a copy of an element counts: its place, the device, and the counts.
fn traffic<'e>(
    links: &Links,
    element: &str,
    was: &CopyStats,
    now: &'e CopyStats,
) -> Vec<(Place, &'e str, Traffic)> {
    if let Some(device) = &now.device {
        let was = was.device.clone().unwrap_or_default();
        let traffic = Traffic {
            receives: device.receives,
            packets: (was.packets, device.packets),
            bytes: Some((was.bytes, device.bytes)),
        };
        let place = links.place(element, &device.port);
        let there = place.map(|place| (place, &*device.port, traffic));
        return there.into_iter().collect();
    }
    let counted = |number, receives, packets| {
        let traffic = Traffic {
            receives,
            packets,
            bytes: None,
        };
        (Place::Link(number), "", traffic)
    };
    let outputs = links.received_tunnels(element).iter().zip(&now.sent);
    let received = outputs.enumerate().map(|(output, (&number, &now))| {
        let was = was.sent.get(output).copied().unwrap_or(0);
        counted(number, true, (was, now))
    });
    let sent = links.sending_tunnel(element);
    let sent = sent.map(|number| counted(number, false, (was.packets, now.packets)));
    received.chain(sent).collect()
}

impl Rates<'_> {
    /// Ports in the order of their places.
    fn server_ports(&self, member: &Member) -> Vec<Port> {
        let links = Links::of(self.after);
        let mut ports: BTreeMap<Place, Port> = BTreeMap::new();
        for element in &self.after.elements {
            for copy in &element.copies {
                let was = self.earlier_counts(element, copy.worker);
                for (place, device, traffic) in traffic(&links, &element.name, &was, copy) {
                    let port = ports
                        .entry(place)
                        .or_insert_with(|| self.server_port(member, place, device));
                    let rate = match traffic.receives {
                        true => &mut port.received,
                        false => &mut port.sent,
                    };
                    rate.packets += self.rate(traffic.packets.0, traffic.packets.1);
                    if let Some((was, now)) = traffic.bytes {
                        let bits = 8.0 * self.rate(was, now);
                        rate.bits = Some(rate.bits.unwrap_or(0.0) + bits);
                    }
                }
            }
        }
        ports.into_values().collect()
    }

    /// A port without rates. A cable may be up without being in use; then its link is not.
    fn server_port(&self, member: &Member, place: Place, device: &str) -> Port {
        let up = self.is_up(device);
        match place {
            Place::External(number) => Port {
                name: member
                    .ports
                    .get(number)
                    .map_or(device, String::as_str)
                    .to_owned(),
                up,
                ..Port::default()
            },
            Place::Link(number) => {
                let link = member.links.get(number);
                Port {
                    name: format!("link{number}"),
                    peer: link.map(|link| link.peer.clone()),
                    up: link.map_or(up, |link| link.up),
                    ..Port::default()
                }
            }
            Place::Underlay => Port {
                name: "underlay".to_owned(),
                up,
                ..Port::default()
            },
        }
    }

    /// Lost packets a second: element or port, name of the drop, rate. The greatest rate comes first.
    fn losses(&self) -> Vec<(String, String, f64)> {
        let mut drops = Vec::new();
        for element in &self.after.elements {
            for (name, packets) in element.drop_names.iter().zip(self.drop_counts(element)) {
                if !NO_LOSS_REASONS.contains(&&**name) {
                    drops.push((element.name.clone(), name.clone(), self.rate(0, packets)));
                }
            }
        }
        for port in &self.after.ports {
            for counter in &port.counters {
                let rate = self.rate(self.earlier_value(port, counter), counter.value);
                drops.push((port.name.clone(), counter.name.clone(), rate));
            }
        }
        drops.retain(|(.., rate)| *rate > 0.0);
        drops.sort_by(|a, b| b.2.total_cmp(&a.2));
        drops
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use control::view::{DeviceUse, ElementStats, MemberLink, PortCounter, PortStats, WorkerStats};

    /// Reading of a server with a port, a cable to b, and a link over the underlay to c, after some seconds at constant
    /// rates.
    pub(in crate::cmd::cluster) fn reading(seconds: u64) -> Reading {
        let device = |port: &str, receives, packets| DeviceUse {
            port: port.to_owned(),
            receives,
            packets: packets * seconds,
            bytes: 125 * packets * seconds,
            ..DeviceUse::default()
        };
        let copy = |device| CopyStats {
            device,
            ..CopyStats::default()
        };
        let element = |name: &str, drops: &[&str], copy| ElementStats {
            name: name.to_owned(),
            drop_names: drops.iter().map(|&name| name.to_owned()).collect(),
            copies: vec![copy],
            ..ElementStats::default()
        };
        let mut queue = copy(None);
        queue.drops = vec![3 * seconds, 7 * seconds];
        let mut counter = copy(None);
        counter.packets = 40 * seconds;
        let mut from = copy(None);
        from.sent = vec![50 * seconds];
        let stats = Stats {
            time_ns: (100 + seconds) * 1_000_000_000,
            elements: vec![
                element(
                    "d0/FromDevice@1",
                    &[],
                    copy(Some(device("eth0", true, 100))),
                ),
                element("d0/ToDevice@4", &[], copy(Some(device("eth0", false, 90)))),
                element("FromDevice@9", &[], copy(Some(device("to-b", true, 80)))),
                element("link0", &[], copy(Some(device("to-b", false, 70)))),
                element("link1", &[], counter),
                element("from", &[], from),
                element("under/recv", &[], copy(Some(device("eth9", true, 60)))),
                element("beat", &["full", "heard"], queue),
            ],
            workers: vec![WorkerStats {
                busy_ns: seconds * 250_000_000,
                ..WorkerStats::default()
            }],
            ports: vec![PortStats {
                name: "eth0".to_owned(),
                up: true,
                counters: vec![PortCounter {
                    name: "kernel_drops".to_owned(),
                    value: 2 * seconds,
                    ..PortCounter::default()
                }],
                ..PortStats::default()
            }],
            ..Stats::default()
        };
        let link = |peer: &str, up| MemberLink {
            peer: peer.to_owned(),
            up,
        };
        let member = Member {
            server: "a".to_owned(),
            ports: vec!["lan".to_owned()],
            links: vec![link("b", true), link("c", false)],
            ..Member::default()
        };
        Reading { member, stats }
    }

    #[test]
    fn rates_are_those_of_ports_links_workers_and_drops() {
        let rates = between(&reading(10), &reading(12)).unwrap();
        let rate = |packets: f64| Rate {
            packets,
            bits: Some(1000.0 * packets),
        };
        let counted = |packets| Rate {
            packets,
            bits: None,
        };
        let port = |name: &str, peer: Option<&str>, up, received, sent| Port {
            name: name.to_owned(),
            peer: peer.map(str::to_owned),
            up,
            received,
            sent,
        };
        let right = ServerRates {
            ports: vec![
                port("lan", None, true, rate(100.0), rate(90.0)),
                port("link0", Some("b"), true, rate(80.0), rate(70.0)),
                port("link1", Some("c"), false, counted(50.0), counted(40.0)),
                port("underlay", None, true, rate(60.0), Rate::default()),
            ],
            busy: vec![0.25],
            drops: vec![
                ("beat".to_owned(), "full".to_owned(), 3.0),
                ("eth0".to_owned(), "kernel_drops".to_owned(), 2.0),
            ],
        };
        assert_eq!(rates, right);
    }

    #[test]
    fn a_server_that_was_started_again_has_no_rates() {
        assert!(between(&reading(10), &reading(10)).is_err());
        assert!(between(&reading(10), &reading(2)).is_err());
    }
}
