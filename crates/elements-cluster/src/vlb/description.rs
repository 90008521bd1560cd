//! The description of a cluster that stands in a VLBNode's arguments.

use crate::prelude::*;
use arguments::units::Bandwidth;
use cluster::address::{NODES_MAX, NodeId};
use cluster::auth::Keys;
use cluster::map::{self, Map};
use cluster::resequencer::WORKERS;
use cluster::spread::Settings;
use cluster::tag::LANES;
use std::collections::HashMap;
use std::time::Duration;

/// Keywords of VLBNode.
pub(super) const KEYWORDS: &[&str] = &[
    "NAME",
    "NODE",
    "NODES",
    "LINKS",
    "DELTA",
    "FLOWS",
    "BURST",
    "KEY",
    "RESEQUENCE",
];

/// Maximum number of links of a node. VLBTransit has one output per link and two more.
const LINKS_MAX: usize = 250;
const FLOWS_MAX: usize = 1 << 24;
const BURST_MAX: Duration = Duration::from_secs(1);
const RESEQUENCE_MAX: Duration = Duration::from_secs(60);

/// Description of a cluster from the view of one node.
#[derive(Default)]
pub(crate) struct Description {
    /// Name of the cluster.
    pub(crate) name: String,
    /// Names of the nodes, by number.
    pub(crate) labels: Vec<String>,
    /// Number of this node.
    pub(crate) node: NodeId,
    pub(crate) map: Map,
    pub(crate) settings: Settings,
    /// Authentication keys: frames and heartbeats without a valid code are dropped. `None` without authentication.
    pub(crate) keys: Option<Keys>,
    /// Maximum time that a packet waits for earlier packets at its output node. `None`: packets carry no sequence
    /// numbers.
    pub(crate) resequence: Option<Duration>,
}

impl Description {
    /// Parses the arguments. Errors are recorded in `args`.
    pub(super) fn parse(args: &mut Args) -> Description {
        let name = args.key("NAME", "cluster".to_owned(), "name of the cluster");
        let own: Option<String> = args.key_maybe("NODE", "name of this node");
        let nodes: Option<String> = args.key_maybe("NODES", "each node's name and external rate");
        let links: Option<String> = args.key_maybe("LINKS", "pairs `A-B`, each with its rate");
        let usual = Settings::default();
        let delta = args.key(
            "DELTA",
            Duration::from_nanos(usual.delta),
            "idle time for which a flow keeps its path",
        );
        let flows = args.key(
            "FLOWS",
            usual.flows,
            "flows on each worker whose path is kept",
        );
        let burst = args.key(
            "BURST",
            Duration::from_nanos(usual.burst.into()),
            "time for which unused rates are saved up",
        );
        let resequence = args.key_maybe("RESEQUENCE", "longest time that packets wait for others");
        let too_much = [
            (
                flows > FLOWS_MAX,
                format!("FLOWS is more than {FLOWS_MAX}"),
                "a flow without a place chooses its way anew: tens of thousands are enough",
            ),
            (
                burst > BURST_MAX,
                "BURST is more than a second".to_owned(),
                "so long may links be sent more than they carry: write a few milliseconds",
            ),
            (
                resequence > Some(RESEQUENCE_MAX),
                "RESEQUENCE is more than a minute".to_owned(),
                "write the difference in delay between paths, such as 2ms",
            ),
        ];
        for (_, wrong, help) in too_much.into_iter().filter(|(is, ..)| *is) {
            args.error_in_whole(wrong, help);
        }
        let settings = Settings {
            delta: nanoseconds(delta),
            flows,
            burst: nanoseconds(burst.min(BURST_MAX)) as u32,
            ..usual
        };
        let mut described = Description {
            name,
            labels: Vec::new(),
            node: 0,
            map: Map::default(),
            settings,
            keys: None,
            resequence,
        };
        described.read_keys(args);
        if args.element().is_empty() && nodes.is_none() {
            return described; // a class that describes itself
        }
        if let Err((wrong, help)) = described.fill(own, nodes, links) {
            args.error_in_whole(wrong, help);
        }
        described
    }

    /// Reads the keys that authenticate frames of this cluster.
    fn read_keys(&mut self, args: &mut Args) {
        let given: Option<String> = args.key_maybe("KEY", "32 hexadecimal digits, or two of these");
        let Some(given) = given else {
            return;
        };
        self.keys = Keys::parse(&given);
        if self.keys.is_none() {
            args.error_in_whole(
                "KEY is no key",
                "write 32 hexadecimal digits, the same for each node of the cluster; and behind a space another key \
                 that is accepted, while the cluster changes its key",
            );
        }
    }

    fn fill(
        &mut self,
        own: Option<String>,
        nodes: Option<String>,
        links: Option<String>,
    ) -> Result<(), (String, String)> {
        let wrong = |wrong: String, help: &str| (wrong, help.to_owned());
        let nodes = nodes.ok_or_else(|| {
            let help =
                "give each node's name and the rate of its external ports: NODES a 10Gbps b 10Gbps";
            wrong("NODES is missing".into(), help)
        })?;
        self.read_nodes(&nodes)?;
        let numbers: HashMap<&str, NodeId> =
            self.labels.iter().map(String::as_str).zip(0..).collect();
        let own = own.ok_or_else(|| {
            wrong(
                "NODE is missing".into(),
                "say which of NODES this router is",
            )
        })?;
        let unknown = |name: &str| {
            let help = format!("NODES are {}", self.labels.join(", "));
            (format!("`{name}` is no node"), help)
        };
        self.node = *numbers.get(own.as_str()).ok_or_else(|| unknown(&own))?;
        let links = links.unwrap_or_default();
        let mut words = links.split_whitespace().peekable();
        while let Some(pair) = words.next() {
            let (a, b) = pair.split_once('-').ok_or_else(|| {
                wrong(
                    format!("`{pair}` is no link"),
                    "write LINKS a-b 5Gbps a-c 5Gbps",
                )
            })?;
            let end = |name| numbers.get(name).copied().ok_or_else(|| unknown(name));
            let mut ends = [end(a)?, end(b)?];
            ends.sort_unstable();
            if ends[0] == ends[1] {
                return Err(wrong(
                    format!("link `{pair}` has one end only"),
                    "a link connects two nodes",
                ));
            }
            let given = words.next_if(|word| !word.contains('-'));
            let rate = match given {
                Some(word) => rate(word)?,
                None => self.map.usual_rate(ends).ok_or_else(|| {
                    wrong(
                        format!("link `{pair}` has no rate, and a node that has none, either"),
                        "write the link's rate behind it: LINKS a-b 5Gbps",
                    )
                })?,
            };
            self.map.links.push(map::Link { ends, rate });
        }
        if self.map.links_of(self.node).count() > LINKS_MAX {
            return Err(wrong(
                format!("node `{own}` has more than {LINKS_MAX} links"),
                "leave links out: nodes reach each other by way of others",
            ));
        }
        Ok(())
    }

    fn read_nodes(&mut self, nodes: &str) -> Result<(), (String, String)> {
        let mut words = nodes.split_whitespace();
        while let Some(label) = words.next() {
            let help = "write NODES a 10Gbps b 10Gbps";
            if label.contains(['-', '/']) {
                let help =
                    "a node's name has neither `-` nor `/`: links and ports are written with these";
                return Err((format!("`{label}` cannot be a node's name"), help.into()));
            }
            if self.labels.iter().any(|known| known == label) {
                return Err((format!("node `{label}` is named twice"), help.into()));
            }
            let Some(word) = words.next() else {
                return Err((format!("node `{label}` has no rate"), help.into()));
            };
            let rate = rate(word)?;
            self.labels.push(label.to_owned());
            self.map.nodes.push(map::Node { rate });
        }
        if self.labels.len() < 2 || self.labels.len() > NODES_MAX {
            let help = format!("a cluster has 2 to {NODES_MAX} nodes");
            return Err((format!("there are {} NODES", self.labels.len()), help));
        }
        Ok(())
    }

    /// Maximum number of workers that tags can tell apart; `None` if frames carry no tags.
    pub(super) fn workers_max(&self) -> Option<usize> {
        let keyed = self.keys.as_ref().map(|_| LANES);
        self.resequence.map(|_| WORKERS).or(keyed)
    }

    /// Number of the node with this name.
    pub(super) fn number(&self, label: &str) -> Option<NodeId> {
        let at = self.labels.iter().position(|known| known == label)?;
        Some(at as NodeId)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Parses a rate, in bits per second.
fn rate(word: &str) -> Result<f64, (String, String)> {
    let rate: Result<Bandwidth, String> = arguments::units::parse(word);
    match rate {
        Ok(rate) => Ok(rate.0 as f64 * 8.0),
        Err(wrong) => Err((
            wrong.replacen("the value", "a rate", 1),
            "write a rate as 10Gbps; in NODES behind each name, in LINKS behind each pair".into(),
        )),
    }
}
