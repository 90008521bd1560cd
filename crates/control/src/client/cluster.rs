//! State of a cluster's server, as its router reports it: links, paths of packets, and drops.
//!
//! The element names are those that [`generate`](crate::description::cluster::generate) chooses.

use super::{Client, encode};
use crate::description::cluster::Description;
use crate::view::{ElementStats, Info, NO_LOSS_REASONS, Stats};
use std::time::{Duration, Instant};

/// Classes of elements between external ports and internal links.
const NODE_CLASSES: [&str; 7] = [
    "enter", "transit", "order", "leave4", "leave6", "beat", "from",
];
/// Name prefix of an element that receives from an internal link; the link's number follows.
const LINK_PREFIX: &str = "link";
/// Name prefix of elements that check packets from the underlay.
const UNDERLAY_PREFIX: &str = "under/";
/// Names of VLBInput's packet counters, by path.
const PATH_COUNTERS: [&str; 4] = ["direct", "straight", "phase1", "moved"];

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
    let number = of.strip_prefix(LINK_PREFIX).map(str::parse::<usize>);
    NODE_CLASSES.contains(&of) || of.starts_with(UNDERLAY_PREFIX) || matches!(number, Some(Ok(_)))
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
        ] {
            assert!(made(name, class, drop) && is_node(name), "{name}");
        }
        for name in ["d0", "rt4", "linked", "ordered@queue0"] {
            assert!(!is_node(name), "{name}");
        }
    }

    #[test]
    fn a_links_state_is_found_by_its_number() {
        let states = "0 a up 0 12us for 3.5s\n1 b down silent for 61s\n10 c up\n";
        assert_eq!(state(states, 1), ("down silent".to_owned(), Some(61.0)));
        assert_eq!(state(states, 10), ("up".to_owned(), None));
        assert_eq!(state(states, 2), ("unknown".to_owned(), None));
    }
}
