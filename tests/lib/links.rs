//! The router between two links with hosts on them that answer ARP and Neighbour Discovery.

use crate::{Whole, router_text};
use engine::graph::Walker;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use testkit::{arp_reply, nd_advert};
use wire::EtherAddr;

/// The Ethernet address of every in-memory port.
const ROUTER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);

/// An IP packet that the router sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The port.
    pub port: usize,
    /// Destination Ethernet address of the frame.
    pub to: EtherAddr,
    /// From its IP header on.
    pub packet: Vec<u8>,
}

/// The packet in a frame.
pub fn strip(frame: &[u8]) -> Vec<u8> {
    frame[14..].to_vec()
}

/// `conf/ip-router.click` with its default addresses on `mem:0` and `mem:1`, and hosts around it.
///
/// Host `10.0.1.2` and `fd00:1::2` are on port 0, `10.0.2.2` and `fd00:2::2` on port 1; both have the
/// Ethernet address that [`Links::mac`] gives.
pub struct Links {
    /// The router.
    pub router: Whole,
    /// True if there is a host at every address of port 0's link.
    pub crowded: bool,
    neighbours4: BTreeMap<(usize, Ipv4Addr), EtherAddr>,
    neighbours6: BTreeMap<(usize, Ipv6Addr), EtherAddr>,
}

impl Links {
    /// The router with further definitions.
    pub fn new(walker: Walker, definitions: &[(&str, &str)]) -> Links {
        Links::of(&router_text(), walker, definitions)
    }

    /// A router of another text.
    pub fn of(text: &str, walker: Walker, definitions: &[(&str, &str)]) -> Links {
        let mut all = vec![("DEV0", "mem:0"), ("DEV1", "mem:1")];
        all.extend(definitions);
        let mut links = Links {
            router: Whole::new(text, &all, walker),
            crowded: false,
            neighbours4: BTreeMap::new(),
            neighbours6: BTreeMap::new(),
        };
        for port in 0..2u8 {
            let at = usize::from(port);
            links.join4(at, Ipv4Addr::new(10, 0, port + 1, 2), Links::mac(at));
            for address in [
                format!("fd00:{}::2", port + 1),
                format!("fe80::{}", port + 10),
            ] {
                let address = address.parse().expect("an address");
                links.neighbours6.insert((at, address), Links::mac(at));
            }
        }
        links
    }

    /// The Ethernet address of the host on a port.
    pub fn mac(port: usize) -> EtherAddr {
        EtherAddr([2, 0, 0, 0, 1, port as u8])
    }

    /// Puts one more IPv4 host on a link.
    pub fn join4(&mut self, port: usize, address: Ipv4Addr, mac: EtherAddr) {
        self.neighbours4.insert((port, address), mac);
    }

    /// Takes an IPv4 host off its link.
    pub fn leave4(&mut self, port: usize, address: Ipv4Addr) {
        self.neighbours4.remove(&(port, address));
    }

    /// Sends a packet from the host on a port. Returns the resulting packets once all is quiet.
    pub fn send(&mut self, port: usize, packet: &[u8]) -> Vec<Seen> {
        self.send_all(port, &[packet])
    }

    /// Sends packets from the host on a port at once.
    pub fn send_all<B: AsRef<[u8]>>(&mut self, port: usize, packets: &[B]) -> Vec<Seen> {
        let frames: Vec<Vec<u8>> = packets
            .iter()
            .map(|p| frame(ROUTER, Links::mac(port), p.as_ref()))
            .collect();
        self.send_frames(port, &frames)
    }

    /// Injects frames at a port unchanged.
    pub fn send_frames<B: AsRef<[u8]>>(&mut self, port: usize, frames: &[B]) -> Vec<Seen> {
        self.router.receive(port, frames.iter().map(AsRef::as_ref));
        self.settle()
    }

    /// Advances the time, in steps after which hosts answer.
    pub fn wait(&mut self, time: Duration) -> Vec<Seen> {
        const STEP: Duration = Duration::from_millis(100);
        let mut seen = self.settle();
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.router.advance(step);
            seen.extend(self.settle());
            left -= step;
        }
        seen
    }

    /// Runs until no packet moves; hosts answer neighbour discovery.
    fn settle(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            self.router.settle();
            let mut quiet = true;
            for port in 0..2 {
                for sent in self.router.sent(port) {
                    quiet = false;
                    match self.answer(port, &sent) {
                        Some(Some(answer)) => self.router.receive(port, [&answer[..]]),
                        Some(None) => {}
                        None => seen.push(parse(port, &sent)),
                    }
                }
            }
            if quiet {
                return seen;
            }
        }
    }

    /// True if a frame is a neighbour request; also the answer, if the neighbour exists.
    fn answer(&self, port: usize, frame: &[u8]) -> Option<Option<Vec<u8>>> {
        let address4 = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|i| frame[at + i]));
        match (&frame[12..14], frame.get(14 + 40)) {
            ([8, 6], _) if frame[21] == 1 => {
                let target = address4(38);
                let mac = self.neighbours4.get(&(port, target)).copied();
                let mac = mac.or_else(|| self.anybody(port));
                Some(mac.map(|mac| arp_reply(mac, target, ROUTER, address4(28))))
            }
            ([0x86, 0xdd], Some(135)) if frame[20] == 58 => {
                let address6 =
                    |at: usize| Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| frame[at + i]));
                let target = address6(14 + 48);
                let mac = self.neighbours6.get(&(port, target)).copied();
                let mac = mac.or_else(|| self.anybody(port));
                Some(mac.map(|mac| nd_advert(mac, target, ROUTER, address6(14 + 8))))
            }
            _ => None,
        }
    }

    fn anybody(&self, port: usize) -> Option<EtherAddr> {
        (self.crowded && port == 0).then(|| Links::mac(0))
    }

    /// Runs a handler, as `ashlar set` and `show` do.
    pub fn handler(&mut self, path: &str, value: &str) -> String {
        self.router.handler(path, value)
    }

    /// Packets dropped so far, by element and reason.
    pub fn drops(&self) -> BTreeMap<String, u64> {
        self.router.books().drops().into_iter().collect()
    }
}

/// Runs a test on both walkers and checks the accounts.
pub fn on_both(definitions: &[(&str, &str)], test: impl Fn(&mut Links)) {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut links = Links::new(walker, definitions);
        test(&mut links);
        links.router.books().check();
    }
}

/// Packets dropped for a reason, anywhere.
pub fn dropped(links: &Links, reason: &str) -> u64 {
    let drops = links.drops().into_iter();
    let of_it = drops.filter(|(path, _)| path.ends_with(&format!(" {reason}")));
    of_it.map(|d| d.1).sum()
}

/// A packet in an Ethernet frame.
fn frame(to: EtherAddr, from: EtherAddr, packet: &[u8]) -> Vec<u8> {
    let kind = match packet.first().map(|b| b >> 4) {
        Some(6) => [0x86, 0xdd],
        _ => [8, 0],
    };
    [&to.0[..], &from.0, &kind, packet].concat()
}

fn parse(port: usize, frame: &[u8]) -> Seen {
    let address = |at: usize| EtherAddr(std::array::from_fn(|i| frame[at + i]));
    assert_eq!(address(6), ROUTER, "the router says who it is");
    Seen {
        port,
        to: address(0),
        packet: strip(frame),
    }
}
