//! State of a cluster's server, as its router reports it: links, paths of packets, and drops.
//!
//! The element names are those that [`generate`](crate::description::cluster::generate) chooses, and `ashlar cluster
//! text` shows.

use super::{Client, encode};
use crate::description::cluster::Description;
use crate::view::{ElementStats, Info, NO_LOSS_REASONS, Stats};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Classes of elements between external ports and internal links.
const NODE_CLASSES: [&str; 7] = [
    "enter", "transit", "order", "leave4", "leave6", "beat", FROM,
];
/// Name of the classifier of frames from the underlay. It has an output for each link over the underlay.
const FROM: &str = "from";
/// Name prefix of the compound element of an external port; the port's number follows.
const PORT_PREFIX: &str = "d";
/// Name prefix of an element that sends on an internal link; the link's number follows.
const LINK_PREFIX: &str = "link";
/// Name prefix of elements of the underlay port.
const UNDERLAY_PREFIX: &str = "under/";
/// Names of VLBInput's packet counters, by path.
const PATH_COUNTERS: [&str; 4] = ["direct", "straight", "phase1", "moved"];

/// Place of an element's device in the cluster, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// External port, by its number.
    External(usize),
    /// Internal link, by its number.
    Link(usize),
    /// The underlay port.
    Underlay,
}

/// Number in a name that consists of a prefix and the number.
fn numbered(name: &str, prefix: &str) -> Option<usize> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// Number of the internal link on which an element sends.
fn link(element: &str) -> Option<usize> {
    numbered(element, LINK_PREFIX)
}

/// Number of the external port that an element is a part of.
fn external_port(element: &str) -> Option<usize> {
    let (compound, _) = element.split_once('/')?;
    numbered(compound, PORT_PREFIX)
}

/// Internal links of a server by their carriers.
pub struct Links<'a> {
    /// Numbers of links that are cables, by their devices.
    cables: BTreeMap<&'a str, usize>,
    /// Numbers of links over the underlay, in the order of the classifier's outputs.
    tunnels: Vec<usize>,
}

impl<'a> Links<'a> {
    /// Links of the server with these counters.
    pub fn of(stats: &'a Stats) -> Links<'a> {
        let mut links = Links {
            cables: BTreeMap::new(),
            tunnels: Vec::new(),
        };
        for element in &stats.elements {
            let Some(number) = link(&element.name) else {
                continue;
            };
            let mut copies = element.copies.iter();
            if let Some(device) = copies.find_map(|copy| copy.device.as_ref()) {
                links.cables.insert(&device.port, number);
            } else {
                links.tunnels.push(number);
            }
        }
        links.tunnels.sort_unstable();
        links
    }

    /// Place of an element that uses a device; `None` if the device is no part of the cluster.
    pub fn place(&self, element: &str, device: &str) -> Option<Place> {
        if element.starts_with(UNDERLAY_PREFIX) {
            return Some(Place::Underlay);
        }
        if element.contains('/') {
            return external_port(element).map(Place::External);
        }
        self.cables.get(device).copied().map(Place::Link)
    }

    /// Number of the link over the underlay on which an element sends.
    pub fn sending_tunnel(&self, element: &str) -> Option<usize> {
        link(element).filter(|number| self.tunnels.contains(number))
    }

    /// Numbers of the links over the underlay whose frames leave an element, in the order of its outputs. Empty for an
    /// element other than the classifier of frames from the underlay.
    pub fn received_tunnels(&self, element: &str) -> &[usize] {
        if element == FROM { &self.tunnels } else { &[] }
    }
}

/// Elements that use the device of an external port.
#[derive(Debug, PartialEq, Eq)]
pub struct PortElements {
    /// Name of the element that receives from the port.
    pub receiver: String,
    /// Name of the element that sends to the port.
    pub sender: Option<String>,
}

impl PortElements {
    /// Elements of an external port by its number; `None` if the server receives nothing by it.
    pub fn of(stats: &Stats, number: usize) -> Option<PortElements> {
        let (mut receiver, mut sender) = (None, None);
        for element in &stats.elements {
            if external_port(&element.name) != Some(number) {
                continue;
            }
            match element.copies.iter().find_map(|copy| copy.device.as_ref()) {
                Some(device) if device.receives => receiver = Some(element.name.clone()),
                Some(_) => sender = Some(element.name.clone()),
                None => {}
            }
        }
        Some(PortElements {
            receiver: receiver?,
            sender,
        })
    }
}

/// State of a server.
pub struct Seen {
    /// Time since the start of the server's router.
    pub uptime: Duration,
    /// State of each link of the server.
    pub links: Vec<SeenLink>,
    /// Packets that entered the cluster here, by path.
    pub spread: Vec<(&'static str, u64)>,
    /// Dropped packets: element, drop reason, number.
    pub drops: Vec<(String, String, u64)>,
}

/// State of a link, as reported by one of its servers.
pub struct SeenLink {
    /// Name of the server at the other end.
    pub peer: String,
    /// Rate of the link, in bits per second.
    pub rate: u64,
    /// State from the heartbeats.
    pub state: String,
    /// Seconds since the link's last change between used and unused.
    pub age: Option<f64>,
    /// Rate of sent traffic, in bits per second.
    pub load: f64,
}

impl SeenLink {
    /// True if the link is in use.
    pub fn up(&self) -> bool {
        self.state.starts_with("up")
    }
}

/// First measurement of a server; rates need a second one.
pub struct Look<'a> {
    description: &'a Description,
    server: usize,
    client: Client,
    since: Instant,
    /// Bytes sent on each link of the server.
    sent: Vec<u64>,
}

impl Look<'_> {
    /// Reads the state of a server.
    ///
    /// # Errors
    ///
    /// The server does not answer as expected; a message.
    pub fn begin(
        description: &Description,
        server: usize,
        client: Client,
    ) -> Result<Look<'_>, String> {
        let stats: Stats = client.get_json("/v1/stats")?;
        let mut look = Look {
            description,
            server,
            client,
            since: Instant::now(),
            sent: Vec::new(),
        };
        look.sent = look.sent(&stats);
        Ok(look)
    }

    /// Measures again, at the end of the interval.
    ///
    /// # Errors
    ///
    /// The server does not answer as expected; a message.
    pub fn end(&self) -> Result<Seen, String> {
        let info: Info = self.client.get_json("/v1/info")?;
        let stats: Stats = self.client.get_json("/v1/stats")?;
        let seconds = self.since.elapsed().as_secs_f64();
        let (sent, states) = (self.sent(&stats), self.handler("beat.links"));
        let states = states.unwrap_or_default();
        let links = self.description.links_of(self.server).enumerate();
        let links = links.map(|(own, (link, end))| {
            let at = |all: &[u64]| all.get(own).copied().unwrap_or_default();
            let (state, age) = state(&states, own);
            SeenLink {
                peer: self.description.servers[link.ends[1 - end]].name.clone(),
                rate: link.rate,
                state,
                age,
                load: at(&sent).saturating_sub(at(&self.sent)) as f64 * 8.0 / seconds,
            }
        });
        let spread = PATH_COUNTERS.into_iter();
        Ok(Seen {
            uptime: Duration::from_nanos(info.uptime_ns),
            links: links.collect(),
            spread: spread
                .filter_map(|what| Some((what, self.count(&format!("enter.{what}"))?)))
                .collect(),
            drops: stats.elements.iter().flat_map(drops).collect(),
        })
    }

    fn handler(&self, path: &str) -> Option<String> {
        let target = format!("/v1/handlers/{}", encode(path));
        let bytes = self.client.get(&target).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn count(&self, path: &str) -> Option<u64> {
        self.handler(path)?.trim().parse().ok()
    }

    /// Bytes that the server has sent on each link, from the counters of a device or of the link's Counter.
    fn sent(&self, stats: &Stats) -> Vec<u64> {
        let links = self.description.links_of(self.server).enumerate();
        let all = links.map(|(own, (link, end))| {
            let name = format!("{LINK_PREFIX}{own}");
            if link.device(end).is_none() {
                let counted = self.count(&format!("{name}.byte_count"));
                return counted.unwrap_or_default();
            }
            let found = stats.elements.iter().filter(|e| e.name == name);
            let devices = found.flat_map(|e| &e.copies);
            let devices = devices.filter_map(|copy| copy.device.as_ref());
            devices.map(|device| device.bytes).sum()
        });
        all.collect()
    }
}

/// State of a link, and the seconds since its last change.
fn state(states: &str, own: usize) -> (String, Option<f64>) {
    let mut lines = states.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(number, _)| *number == own.to_string());
    // The peer's name follows the link's number.
    let state = line.and_then(|(_, rest)| rest.split_once(' '));
    let state = state.map_or("unknown", |(_, state)| state.trim());
    let parts = state.rsplit_once(" for ");
    match parts.and_then(|(state, age)| Some((state, age.strip_suffix('s')?.parse().ok()?))) {
        Some((state, age)) => (state.to_owned(), Some(age)),
        None => (state.to_owned(), None),
    }
}

/// True if an element belongs to the node, or is a queue `NAME@...` that the plan has inserted before one.
fn is_node(name: &str) -> bool {
    let of = name.split_once('@').map_or(name, |(of, _)| of);
    NODE_CLASSES.contains(&of) || of.starts_with(UNDERLAY_PREFIX) || link(of).is_some()
}

/// Drops of an element that belongs to the node.
fn drops(element: &ElementStats) -> Vec<(String, String, u64)> {
    if !is_node(&element.name) {
        return Vec::new();
    }
    let names = element.drop_names.iter().enumerate();
    let counted = names.map(|(at, name)| {
        let copies = element.copies.iter();
        let packets = copies.filter_map(|copy| copy.drops.get(at)).sum();
        (element.name.clone(), name.clone(), packets)
    });
    counted
        .filter(|(_, name, packets)| *packets > 0 && !NO_LOSS_REASONS.contains(&&**name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::cluster::testing::{compiled, description, over};
    use crate::view::{CopyStats, DeviceUse};
    use engine::plan::Plan;

    /// Counters of a router that runs a plan, all 0.
    fn stats(plan: &Plan) -> Stats {
        let elements = plan.elements.iter().map(|element| {
            let device = element.device().map(|device| DeviceUse {
                port: device.name,
                receives: device.receives,
                ..DeviceUse::default()
            });
            ElementStats {
                name: element.name.clone(),
                class: element.class.name.to_owned(),
                copies: vec![CopyStats {
                    device,
                    ..CopyStats::default()
                }],
                ..ElementStats::default()
            }
        });
        Stats {
            elements: elements.collect(),
            ..Stats::default()
        }
    }

    #[test]
    fn the_elements_that_are_asked_are_those_of_what_a_server_runs() {
        let whole = over("udp").replace("key = ", "resequence = \"2ms\"\nkey = ");
        let both = whole.replace("10.0.2.1/24\"", "10.0.2.1/24\", \"fd00:2::1/64\"");
        let cable =
            "[[link]]\nbetween = [\"a\", \"b\"]\nmtu = 1530\ndevices = [\"x\", \"y\"]\n[[route]]";
        let compiled = compiled(&description(&both.replace("[[route]]", cable)), 0, 2);
        let plan = compiled.plan.as_ref();
        let plan = plan.unwrap_or_else(|| panic!("{}", compiled.text()));
        let made = |name: &str, class: &str, drop: &str| {
            let found = plan.elements.iter().find(|e| e.name == name);
            let known = found.filter(|e| e.class.name == class);
            known.is_some_and(|e| drop.is_empty() || e.class.drops.contains(&drop))
        };
        for name in NODE_CLASSES {
            assert!(plan.elements.iter().any(|e| e.name == name), "{name}");
        }
        for (name, class, drop) in [
            ("order@queue0", "Queue", "full"),
            ("beat@queue0", "Queue", "full"),
            ("link0", "Counter", ""),
            ("link1", "ToDevice", "full"),
            ("under/send", "ToDevice", "full"),
            (FROM, "IPClassifier", "no_match"),
        ] {
            assert!(made(name, class, drop) && is_node(name), "{name}");
        }
        for name in ["d0", "rt4", "linked", "ordered@queue0"] {
            assert!(!is_node(name), "{name}");
        }

        let stats = stats(plan);
        let of_class = |class: &str, place: Place| {
            let links = Links::of(&stats);
            let elements = stats.elements.iter().filter(|e| e.class == class);
            let mut there = elements.filter(|element| {
                let mut copies = element.copies.iter();
                let device = copies.find_map(|copy| copy.device.as_ref()).unwrap();
                links.place(&element.name, &device.port) == Some(place)
            });
            let found = there.next().map(|element| element.name.clone());
            assert!(there.next().is_none(), "{class} {place:?}");
            found
        };
        for place in [Place::External(0), Place::Link(1), Place::Underlay] {
            for class in ["FromDevice", "ToDevice"] {
                assert!(of_class(class, place).is_some(), "{class} {place:?}");
            }
        }
        let port = PortElements {
            receiver: of_class("FromDevice", Place::External(0)).unwrap(),
            sender: of_class("ToDevice", Place::External(0)),
        };
        assert_eq!(PortElements::of(&stats, 0), Some(port));
        assert_eq!(PortElements::of(&stats, 1), None);
        let links = Links::of(&stats);
        assert_eq!(links.received_tunnels(FROM), [0]);
        assert_eq!(links.sending_tunnel("link0"), Some(0));
        assert_eq!(links.sending_tunnel("link1"), None, "it is a cable");
    }

    #[test]
    fn a_ports_elements_are_those_of_its_number() {
        let element = |name: &str, receives: Option<bool>| ElementStats {
            name: name.to_owned(),
            copies: vec![CopyStats {
                device: receives.map(|receives| DeviceUse {
                    receives,
                    ..DeviceUse::default()
                }),
                ..CopyStats::default()
            }],
            ..ElementStats::default()
        };
        let stats = Stats {
            elements: vec![
                element("d1/FromDevice@1", Some(true)),
                element("d1/kind", None),
                element("d1/ToDevice@4", Some(false)),
                element("d10/FromDevice@1", Some(true)),
            ],
            ..Stats::default()
        };
        let right = PortElements {
            receiver: "d1/FromDevice@1".to_owned(),
            sender: Some("d1/ToDevice@4".to_owned()),
        };
        assert_eq!(PortElements::of(&stats, 1), Some(right));
        assert_eq!(PortElements::of(&stats, 0), None);
    }

    #[test]
    fn a_links_state_is_found_by_its_number() {
        let states = "0 a up 0 12us for 3.5s\n1 b down silent for 61s\n10 c up\n";
        assert_eq!(state(states, 1), ("down silent".to_owned(), Some(61.0)));
        assert_eq!(state(states, 10), ("up".to_owned(), None));
        assert_eq!(state(states, 2), ("unknown".to_owned(), None));
    }
}
