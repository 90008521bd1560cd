//! The services of `conf/services`, and hosts around them that answer ARP and Neighbour Discovery.

use crate::{Whole, conf};
use engine::graph::Walker;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;
use testkit::{arp_reply, nd_advert};
use wire::dps::{self, State};
use wire::mpls::Entry;
use wire::{EtherAddr, ether};

/// The Ethernet address of every in-memory port.
pub const ROUTER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
/// Number of ports of a service.
pub const PORTS: usize = 3;
/// Definitions of the ports.
pub const DEVICES: &[(&str, &str)] = &[("DEV0", "port0"), ("DEV1", "port1"), ("DEV2", "port2")];
/// Time in which a service sends what a test hands it.
const STEP: Duration = Duration::from_millis(20);

/// A service, and its labels where packets have some.
pub struct Service {
    /// Name of the file.
    pub name: &'static str,
    /// For each port the label that leads there, and the label with which packets leave; `None` if it is popped.
    pub labels: Option<[(u32, Option<u32>); PORTS]>,
}

const fn plain(name: &'static str) -> Service {
    Service { name, labels: None }
}

const fn popped(name: &'static str) -> Service {
    let labels = Some([(18, None), (16, None), (17, None)]);
    Service { name, labels }
}

const fn swapped(name: &'static str) -> Service {
    let labels = Some([(102, Some(202)), (100, Some(200)), (101, Some(201))]);
    Service { name, labels }
}

/// All services.
pub const SERVICES: [Service; 12] = [
    plain("null_prefix_fifo"),
    plain("null_prefix_sort"),
    popped("null_look_fifo"),
    popped("null_look_sort"),
    plain("tag_prefix_fifo"),
    plain("tag_prefix_sort"),
    swapped("tag_look_fifo"),
    swapped("tag_look_sort"),
    plain("match_prefix_fifo"),
    plain("match_prefix_sort"),
    plain("match_look_fifo"),
    plain("match_look_sort"),
];

impl Service {
    /// The file.
    pub fn file(&self) -> PathBuf {
        conf(&format!("services/{}.click", self.name))
    }

    /// The configuration.
    pub fn text(&self) -> String {
        let file = self.file();
        std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }

    /// A router that runs the service, or `text` in its place.
    pub fn router(&self, text: &str, definitions: &[(&str, &str)], walker: Walker) -> Whole {
        let all = [DEVICES, definitions].concat();
        Whole::of_file(&self.file(), text, &all, walker)
    }

    /// True if packets leave by deadline.
    pub fn sorts(&self) -> bool {
        self.name.ends_with("_sort")
    }

    /// True if packets say when they are due.
    pub fn has_state(&self) -> bool {
        self.name.starts_with("null_") && self.sorts()
    }

    /// Tables, and the flows from the host at a port to that at another by which they know their packets.
    pub fn flows(&self, from: usize, to: usize) -> Vec<(String, String)> {
        let names = match (self.name.split('_').next(), self.labels) {
            (Some("match"), _) => vec![
                format!("{} 1 {} 9 udp", host4(from), host4(to)),
                format!("{} 1 {} 9 udp", host6(from), host6(to)),
            ],
            (Some("tag"), Some(labels)) => vec![labels[to].0.to_string()],
            (Some("tag"), None) => vec!["46".to_owned()],
            _ => Vec::new(),
        };
        let flows = names.into_iter().map(|name| {
            if self.name.contains("look") {
                ("flows".to_owned(), format!("{name} PORT {to}"))
            } else {
                (format!("flows{to}"), name)
            }
        });
        flows.collect()
    }

    /// An IP packet to a port in the frame in which the service takes it: with a label that leads there, and with a
    /// state whose time of a hop is `hop`.
    pub fn frame(&self, to: usize, packet: &[u8], hop: u32) -> Vec<u8> {
        match self.labels {
            Some(labels) => {
                let entry = Entry {
                    label: labels[to].0,
                    exp: 5,
                    bottom: true,
                    ttl: 64,
                };
                let labelled = [&entry.word().to_be_bytes()[..], packet].concat();
                self.frame_of(ether::MPLS, &labelled, hop)
            }
            None => self.ip_frame(packet, hop),
        }
    }

    /// An IP packet without a label in a frame.
    pub fn ip_frame(&self, packet: &[u8], hop: u32) -> Vec<u8> {
        let kind = match packet[0] >> 4 {
            6 => ether::IPV6,
            _ => ether::IPV4,
        };
        self.frame_of(kind, packet, hop)
    }

    fn frame_of(&self, kind: u16, payload: &[u8], hop: u32) -> Vec<u8> {
        let host = EtherAddr([2, 0, 0, 0, 9, 9]);
        if !self.has_state() {
            return [&ether::header(ROUTER, host, kind)[..], payload].concat();
        }
        let mut bytes = [0; dps::LEN];
        let state = State {
            payload: kind,
            hop,
            lead: if hop == 0 { 0 } else { 3_000_000 },
        };
        state.write(&mut bytes);
        let header = ether::header(ROUTER, host, dps::ETHERTYPE);
        [&header[..], &bytes, payload].concat()
    }
}

/// IPv4 address of the host at a port.
pub fn host4(port: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, port as u8, 0, 1)
}

/// IPv6 address of the host at a port.
pub fn host6(port: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, port as u16, 0, 0, 0, 0, 0, 1)
}

/// IPv4 address of the router at a port.
pub fn own4(port: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, port as u8, 0, 254)
}

/// IPv6 address of the router at a port.
pub fn own6(port: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, port as u16, 0, 0, 0, 0, 0, 0xfe)
}

/// Ethernet address of the host at a port.
pub fn mac(port: usize) -> EtherAddr {
    EtherAddr([2, 0, 0, 0, port as u8, 2])
}

/// A packet that a service sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The port.
    pub port: usize,
    /// Destination Ethernet address of the frame.
    pub to: EtherAddr,
    /// Core-stateless state of the packet, if the service writes one.
    pub state: Option<State>,
    /// Label, traffic class and time to live, if the packet has a label.
    pub label: Option<(u32, u8, u8)>,
    /// Bytes of the packet from the IP header on.
    pub packet: Vec<u8>,
}

impl Sent {
    /// Takes a frame apart. Panics if its headers do not say what follows.
    pub fn of(port: usize, frame: &[u8]) -> Sent {
        let address = |at: usize| EtherAddr(std::array::from_fn(|i| frame[at + i]));
        assert_eq!(address(6), ROUTER, "the router says who it is");
        let mut kind = u16::from_be_bytes([frame[12], frame[13]]);
        let mut rest = &frame[ether::LEN..];
        let mut state = None;
        if kind == dps::ETHERTYPE {
            let read = State::read(rest).expect("a state");
            (kind, state, rest) = (read.payload, Some(read), &rest[dps::LEN..]);
        }
        let mut label = None;
        if kind == ether::MPLS {
            let entry = Entry::read(rest, 0).expect("a label");
            assert!(entry.bottom);
            (label, rest) = (Some((entry.label, entry.exp, entry.ttl)), &rest[4..]);
        } else {
            let expected = match rest[0] >> 4 {
                4 => ether::IPV4,
                6 => ether::IPV6,
                version => panic!("version {version} behind Ethertype {kind:#x}"),
            };
            assert_eq!(kind, expected);
        }
        Sent {
            port,
            to: address(0),
            state,
            label,
            packet: rest.to_vec(),
        }
    }
}

/// A service with a host at each port.
pub struct Net {
    /// The service.
    pub service: &'static Service,
    /// The router.
    pub router: Whole,
    /// Questions for neighbours that the router has asked: port and frame.
    pub asked: BTreeSet<(usize, Vec<u8>)>,
}

impl Net {
    /// A service with further definitions.
    pub fn new(service: &'static Service, definitions: &[(&str, &str)], walker: Walker) -> Net {
        Net {
            service,
            router: service.router(&service.text(), definitions, walker),
            asked: BTreeSet::new(),
        }
    }

    /// The host at a port sends an IP packet without labels; gives the packets that come of it.
    pub fn send(&mut self, port: usize, packet: &[u8]) -> Vec<Sent> {
        let frame = self.service.ip_frame(packet, 0);
        self.receive(port, &[frame])
    }

    /// Frames come in by a port; gives the packets that the service sends then.
    pub fn receive(&mut self, port: usize, frames: &[Vec<u8>]) -> Vec<Sent> {
        self.router.receive(port, frames.iter().map(Vec::as_slice));
        self.wait(STEP)
    }

    /// Lets time pass, while hosts answer questions for neighbours; gives the packets that the service sends.
    pub fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let mut packets = Vec::new();
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            left -= step;
            self.router.advance(step);
            for (port, frame) in self.frames() {
                let Some(answer) = answer(port, &frame) else {
                    packets.push(Sent::of(port, &frame));
                    continue;
                };
                self.asked.insert((port, frame));
                if let Some(answer) = answer {
                    self.router.receive(port, [&answer[..]]);
                    left += STEP;
                }
            }
        }
        packets
    }

    /// Frames that the router has sent since the last call.
    pub fn frames(&mut self) -> Vec<(usize, Vec<u8>)> {
        let ports = 0..PORTS;
        let sent = ports.flat_map(|port| {
            let frames = self.router.sent(port);
            frames.into_iter().map(move |frame| (port, frame))
        });
        sent.collect()
    }
}

/// Answer of the host at a port to a question for a neighbour; the inner one is `None` if it is not asked itself.
/// `None` for other frames.
pub fn answer(port: usize, frame: &[u8]) -> Option<Option<Vec<u8>>> {
    let four = |at: usize| Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| frame[at + i]));
    let six = |at: usize| Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| frame[at + i]));
    match &frame[12..14] {
        [8, 6] if frame[21] == 1 => {
            let (target, asker) = (four(38), four(28));
            let own = target == host4(port);
            Some(own.then(|| arp_reply(mac(port), target, ROUTER, asker)))
        }
        [0x86, 0xdd] if frame[20] == 58 && frame[54] == 135 => {
            let (target, asker) = (six(62), six(22));
            let own = target == host6(port);
            Some(own.then(|| nd_advert(mac(port), target, ROUTER, asker)))
        }
        _ => None,
    }
}
