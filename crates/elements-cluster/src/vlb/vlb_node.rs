//! Describes the cluster that the router is a node of.
//!
//! ```click
//! vlb :: VLBNode(NAME rb3, NODE a, NODES a 10Gbps b 10Gbps c 10Gbps, LINKS a-b a-c b-c);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> in :: VLBInput(vlb, b/0);
//! Idle -> t :: VLBTransit(vlb) -> ToDevice(null:); Idle -> [1]t;
//! in[0] -> ToDevice(null:); in[1] -> ToDevice(null:); t[1] -> ToDevice(null:);
//! t[2] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[3] -> Discard;
//! ```
//!
//! Every router of the cluster has the same NAME, NODES and LINKS; NODE is this router's node. VLBNode moves no
//! packets. VLBInput, VLBTransit and VLBOutput name it, and share its data: nodes, links, and the paths over links
//! that are up. A node's own links are the LINKS that name it, in the order of LINKS. Their numbers are those of the
//! outputs of VLBInput, and of the inputs and outputs of VLBTransit.
//!
//! At the start all links are up. The handler `link` sets links up or down by hand; this stays when the configuration
//! is replaced. With a VLBHeartbeat, VLBHeartbeat decides, and links that a new configuration adds are down until
//! heartbeats are received there.
//!
//! Keyword arguments:
//!
//! - `NODE`: the name of this node.
//! - `NODES`: each node's name and the total rate of its external ports. Rate 0: the node only carries packets
//!   of others.
//! - `LINKS`: each link as two names with `-` between, and its rate. The default rate is 2AB/S for nodes with
//!   the rates A and B and the total S of all nodes: 2R/N for N equal nodes. If there are several links between
//!   two nodes, handlers call the second one `A-B/2`.
//! - `NAME`: name of the cluster; frames of other clusters are dropped. Default `cluster`.
//! - `DELTA`: packets of a flow that follow each other within this time take the same path, if it is not full.
//!   Default 100 ms; 0: a path is chosen for each packet.
//! - `FLOWS`: flows on each worker whose path is remembered, 16 bytes each. Default 16384; 0: none; at most
//!   16777216.
//! - `RESEQUENCE`: packets are numbered, and a packet waits for earlier ones at its output node for at most
//!   this time (see VLBResequencer). All nodes must have it, and at most 16 workers. At most a minute. Default:
//!   packets are not numbered and not longer.
//! - `KEY`: 32 hexadecimal digits, a secret that all nodes share. Heartbeats and frames without a code of this
//!   key, and those that come twice, are dropped (see VLBTransit). It needs a VLBHeartbeat, by which the ends of
//!   each link agree on keys for frames. Two keys with a space between: frames are sent with the first one and
//!   accepted with both, while a cluster changes its key. Handlers do not show it. Default: none.
//! - `BURST`: time for which an unused rate is saved up, at most a second. Default 2 ms.

use super::description::Description;
use crate::prelude::*;
use cluster::address::{NodeId, cookie};
use cluster::auth::{Keys, Life};
use cluster::map::{self, Fabric, Links, Reach, Ways};
use cluster::session::{Cable, Names, Session};
use cluster::spread::Settings;
use engine::publish::{Published, domain};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use sync::Lock;

/// State shared by the elements of a node.
pub(crate) struct Node {
    /// Names of the nodes, by number.
    pub(crate) labels: Vec<String>,
    /// Number of this node.
    pub(crate) number: NodeId,
    /// Hash of the cluster's name.
    pub(crate) cookie: u8,
    /// Settings for spreading traffic over paths; each worker applies its own share.
    pub(crate) settings: Settings,
    /// Keys that authenticate frames of this cluster.
    pub(crate) keys: Option<Keys>,
    /// Name of the cluster.
    cluster: String,
    /// Maximum time that a packet waits for earlier packets at its output node. `None`: packets are not numbered.
    pub(crate) resequence: Option<Duration>,
    fabric: Arc<Fabric>,
    links: Lock<Links>,
    ways: Published<Ways>,
    /// Number of changes of `ways`.
    version: AtomicU64,
    /// True if a VLBHeartbeat monitors the links.
    watched: AtomicBool,
    /// Bytes of transit traffic, by link of this node.
    carried: Box<[AtomicU64]>,
    /// Authentication state by link of this node; empty without a key.
    cables: Vec<Arc<Cable>>,
    /// Sessions of links whose ends have exchanged epochs.
    sessions: Published<Sessions>,
}

/// Sessions by link of this node.
type Sessions = Vec<Option<Arc<Session>>>;

impl Node {
    /// Names that heartbeat authentication covers.
    pub(crate) fn members(&self) -> cluster::health::Names {
        cluster::health::Names {
            cluster: self.cluster.clone(),
            nodes: self.labels.clone(),
        }
    }

    /// A node whose links have the epochs `lives`, if the node has a key.
    fn new(described: Description, lives: Vec<Life>) -> Node {
        let Description {
            name,
            labels,
            node,
            map,
            settings,
            keys,
            resequence,
        } = described;
        let links = Links::all(&map);
        let fabric = Fabric::new(map);
        let ways = Ways::new(&Reach::new(&fabric, &links), node);
        Node {
            labels,
            number: node,
            cookie: cookie(&name),
            cluster: name,
            settings,
            keys,
            resequence,
            carried: ways.rates().iter().map(|_| AtomicU64::new(0)).collect(),
            sessions: Published::new(domain(), vec![None; lives.len()]),
            cables: lives
                .into_iter()
                .map(|life| Arc::new(Cable::new(life)))
                .collect(),
            fabric,
            links: Lock::new(links),
            ways: Published::new(domain(), ways),
            version: AtomicU64::new(0),
            watched: AtomicBool::new(false),
        }
    }

    /// Placeholder node without a cluster, for an element that names no VLBNode.
    pub(super) fn alone() -> Node {
        Node::new(Description::default(), Vec::new())
    }

    /// Nodes and links of the cluster.
    pub(crate) fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// Paths from this node over live links.
    pub(crate) fn ways(&self) -> &Published<Ways> {
        &self.ways
    }

    /// Version of the paths. If read before the paths, the version is never newer than they are.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Links that are up now.
    pub(crate) fn links(&self) -> Links {
        self.links.lock().clone()
    }

    /// Publishes the set of live links. Workers use it from their next batch on.
    pub(crate) fn publish(&self, links: Links) {
        self.change(|now| *now = links);
    }

    /// Changes the set of live links atomically, since several threads may change it.
    fn change(&self, change: impl FnOnce(&mut Links)) {
        let mut now = self.links.lock();
        let mut links = now.clone();
        change(&mut links);
        if *now == links {
            return;
        }
        let ways = Ways::new(&Reach::new(&self.fabric, &links), self.number);
        self.ways.replace(ways);
        self.version.fetch_add(1, Ordering::AcqRel);
        *now = links;
    }

    /// Marks the links as monitored: a VLBHeartbeat sets their state from now on.
    pub(super) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Counts bytes of transit traffic over a link of this node.
    #[inline]
    pub(crate) fn carry(&self, link: usize, bytes: u64) {
        if let Some(carried) = self.carried.get(link) {
            carried.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Session agreed on by both ends of a link; `None` before that.
    #[inline]
    pub(super) fn session<'a>(&'a self, link: usize, cx: &'a Cx) -> Option<&'a Session> {
        self.sessions.read(cx.reader()).get(link)?.as_deref()
    }

    /// Epochs ([`Life`]) of this node's links; empty without a key.
    pub(super) fn lives(&self) -> Vec<Life> {
        self.cables.iter().map(|cable| cable.life()).collect()
    }

    /// Records the peer's epoch of a link, which starts their session.
    pub(super) fn agree(&self, link: usize, peer: Life) {
        let (Some(keys), Some(cable)) = (&self.keys, self.cables.get(link)) else {
            return;
        };
        let mut sessions = (*self.sessions.snapshot()).clone();
        let known = sessions[link].as_ref();
        if known.is_none_or(|session| session.peer() != peer) {
            let names = self.names();
            let session = Session::new(keys, &names[link], Arc::clone(cable), peer);
            sessions[link] = Some(Arc::new(session));
            self.sessions.replace(sessions);
        }
    }

    /// Highest sequence number sent on a link, for one lane per `turn`; 0 if none was sent.
    pub(super) fn sent(&self, link: usize, turn: u64) -> u64 {
        self.cables.get(link).map_or(0, |cable| cable.sent(turn))
    }

    /// Highest sequence number received on the lane of `number`, and the number of refused frames on the link.
    pub(super) fn come(&self, link: usize, number: u64) -> (u64, u64) {
        let sessions = self.sessions.snapshot();
        let session = sessions.get(link).and_then(Option::as_ref);
        let refused = self.cables.get(link).map_or(0, |cable| cable.refused());
        (session.map_or(0, |session| session.newest(number)), refused)
    }

    /// Names of this node's links, equal at both ends.
    fn names(&self) -> Vec<Names<'_>> {
        let mut all: Vec<Names> = Vec::new();
        for &(peer, _) in self.fabric.neighbours(self.number) {
            let peer = &*self.labels[usize::from(peer)];
            let link = all.iter().filter(|other| other.peer == peer).count();
            all.push(Names {
                cluster: &self.cluster,
                own: &self.labels[usize::from(self.number)],
                peer,
                link,
            });
        }
        all
    }

    /// Number of this node's links.
    pub(crate) fn own_links(&self) -> usize {
        self.carried.len()
    }

    /// Bytes of transit traffic, by link of this node.
    #[inline]
    pub(crate) fn carried(&self) -> impl Iterator<Item = u64> {
        self.carried.iter().map(|c| c.load(Ordering::Relaxed))
    }

    /// Links of this node: the peer's name, and the index among parallel links to it.
    pub(crate) fn cables(&self) -> Vec<(String, usize)> {
        let names = self.names().into_iter();
        names.map(|of| (of.peer.to_owned(), of.link)).collect()
    }

    /// All links of the cluster, by number.
    fn all(&self) -> &[map::Link] {
        &self.fabric.map().links
    }

    /// Number of the link with this name.
    fn link(&self, name: &str) -> Option<usize> {
        let (pair, twin) = name.split_once('/').unwrap_or((name, "1"));
        let (a, b) = pair.split_once('-')?;
        let number = |name| self.labels.iter().position(|label| label == name);
        let mut ends = [number(a)? as NodeId, number(b)? as NodeId];
        ends.sort_unstable();
        let links = self.all().iter().enumerate();
        let mut twins = links.filter(|(_, link)| link.ends == ends);
        let twin = twin.parse::<usize>().ok()?.checked_sub(1)?;
        twins.nth(twin).map(|(number, _)| number)
    }

    /// Name of a link: the names of its ends, and its index if it is not the first between them.
    pub(super) fn pair(&self, link: usize) -> String {
        let ends = self.all()[link].ends;
        let [a, b] = ends.map(|end| &self.labels[usize::from(end)]);
        let before = self.all()[..link].iter();
        match before.filter(|other| other.ends == ends).count() {
            0 => format!("{a}-{b}"),
            twins => format!("{a}-{b}/{}", twins + 1),
        }
    }

    fn show_links(&self) -> String {
        let (links, mut text) = (self.links(), String::new());
        for (number, link) in self.fabric().map().links.iter().enumerate() {
            let state = if links.up(number) { "up" } else { "down" };
            let rate = link.rate / 1e6;
            let _ = writeln!(text, "{} {state} {rate}Mbps", self.pair(number));
        }
        text
    }

    /// Sets the state of a link: `A-B up` or `A-B down`.
    fn set_link(&self, value: &str) -> Result<(), String> {
        let help = "write a link and its state, such as `a-b down`";
        let (pair, state) = value.trim().split_once(' ').ok_or(help)?;
        let up = match state.trim() {
            "up" => true,
            "down" => false,
            _ => return Err(help.into()),
        };
        let link = self
            .link(pair)
            .ok_or_else(|| format!("there is no link `{pair}`; the handler `links` shows them"))?;
        self.change(|links| _ = links.set(link, up));
        Ok(())
    }

    /// Takes over the live links and the counters of their frames. Of monitored links, new ones are down until a peer
    /// is heard.
    fn follow(&mut self, old: &Node) {
        self.follow_cables(old);
        let watched = old.watched.load(Ordering::Relaxed);
        self.watched.store(watched, Ordering::Relaxed);
        let (mut links, was) = (self.links(), old.links());
        for number in 0..self.fabric().map().links.len() {
            let known = old.link(&self.pair(number));
            links.set(number, known.map_or(!watched, |known| was.up(known)));
        }
        self.publish(links);
    }

    /// Takes over the links' epochs, sequence numbers and received frames. Link numbers and the key may have changed.
    fn follow_cables(&mut self, old: &Node) {
        let were = old.sessions.snapshot();
        let known = old.cables().into_iter().zip(old.cables.iter().zip(&*were));
        let mut known: Vec<_> = known.collect();
        let mut sessions = vec![None; self.cables.len()];
        for (own, cable) in self.cables().into_iter().enumerate().take(sessions.len()) {
            let at = known.iter().position(|(was, _)| *was == cable);
            let Some((_, (cable, session))) = at.map(|at| known.swap_remove(at)) else {
                continue;
            };
            self.cables[own] = Arc::clone(cable);
            let both = session.as_ref().zip(self.keys.as_ref());
            sessions[own] = both.map(|(was, keys)| Arc::new(was.renew(keys, &self.names()[own])));
        }
        self.sessions.replace(sessions);
    }
}

/// Random epochs for `links` links.
///
/// # Errors
///
/// The kernel has no random numbers.
fn draw(links: usize) -> std::io::Result<Vec<Life>> {
    let mut lives = vec![Life::default(); links];
    for Life(bytes) in &mut lives {
        // getrandom(2) never returns less than requested for up to 256 bytes.
        while getrandom(&mut bytes[..], GetRandomFlags::empty())? < bytes.len() {}
    }
    Ok(lives)
}

pub(crate) struct VlbNode;

impl Element for VlbNode {
    const CONTRACT: Contract =
        Contract::new("VLBNode", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = Node;

    fn configure(args: &mut Args) -> Node {
        let described = Description::parse(args);
        let links = match described.keys {
            Some(_) => described.map.links_of(described.node).count(),
            None => 0,
        };
        let lives = draw(links).unwrap_or_else(|why| {
            let wrong = format!("the kernel gives no random numbers: {why}");
            args.error_in_whole(
                wrong,
                "KEY needs them: leave it out, or run a kernel that gives random numbers",
            );
            Vec::new()
        });
        Node::new(described, lives)
    }

    fn new(_: &Arc<Node>, _: &Init) -> VlbNode {
        VlbNode
    }

    fn inherit(config: &mut Node, old: &Node) {
        config.follow(old);
    }

    const HANDLERS: &'static [Handler<VlbNode>] = &[
        Handler::shared(
            "links",
            "a line per link: ends, state, rate",
            |node: &Node, _| Ok(node.show_links()),
        ),
        Handler::action(
            "link",
            "`A-B down` or `A-B up`; with a VLBHeartbeat until it sees a link change",
            |node: &Node, value| node.set_link(value).map(|()| String::new()),
        ),
        Handler::shared(
            "ways",
            "a line per other node: its name, links to it, and own links that lead there",
            |node: &Node, _| {
                let ways = node.ways.snapshot();
                let mut text = String::new();
                for (to, label) in (0..).zip(&node.labels).filter(|(to, _)| *to != node.number) {
                    let links: Vec<String> = ways.next(to).iter().map(u16::to_string).collect();
                    let hops = match links.len() {
                        0 => "-".to_owned(),
                        _ => ways.reach().hops(node.number, to).to_string(),
                    };
                    let _ = writeln!(text, "{label} {hops} {}", links.join(" "));
                }
                Ok(text)
            },
        ),
        Handler::shared(
            "carried",
            "bytes carried for other nodes, by own link",
            |node: &Node, _| {
                let all: Vec<String> = node.carried().map(|bytes| bytes.to_string()).collect();
                Ok(all.join(" "))
            },
        ),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, errors};

    const MESH: &str = "vlb :: VLBNode(NODE b, NODES a 1Gbps b 1Gbps c 1Gbps d 3Gbps,
        LINKS a-b a-c 7Mbps a-d b-c b-d c-d)";

    #[test]
    fn handlers_do_not_show_the_key() {
        let key = "00112233445566778899aabbccddeeff";
        let text = MESH.replace("LINKS", &format!("KEY {key}, LINKS"));
        let mut bench = Bench::new(crate::with_basics(), &text);
        let config = bench.read("vlb.config");
        let stars = "*".repeat(key.len());
        assert!(config.contains(&format!("KEY {stars}, LINKS")), "{config}");
        let wrong = text.replace(key, &format!("{}x", &key[..30]));
        let all = errors(crate::with_basics(), &wrong);
        assert!(
            all.contains("KEY is no key") && !all.contains(&key[..20]),
            "{all}"
        );
    }

    #[test]
    fn links_without_a_rate_have_that_of_a_mesh() {
        let mut bench = Bench::new(crate::with_basics(), MESH);
        let links = bench.read("vlb.links");
        let lines: Vec<&str> = links.lines().collect();
        assert_eq!(lines[1], "a-c up 7Mbps");
        assert_eq!(lines[4], "b-d up 1000Mbps", "{links}");
    }

    #[test]
    fn links_go_down_and_up_by_hand_and_stay_so_over_a_reload() {
        let mut bench = Bench::new(crate::with_basics(), MESH);
        assert_eq!(bench.read("vlb.ways"), "a 1 0\nc 1 1\nd 1 2\n");
        bench.write("vlb.link", "d-b down");
        assert_eq!(bench.read("vlb.ways"), "a 1 0\nc 1 1\nd 2 0 1\n");
        let more = MESH
            .replace("d 3Gbps", "d 3Gbps e 1Gbps")
            .replace("c-d", "c-d e-b");
        bench.reload(&more).expect("it is right");
        assert_eq!(bench.read("vlb.ways"), "a 1 0\nc 1 1\nd 2 0 1\ne 1 3\n");
        bench.write("vlb.link", "b-d up");
        assert!(bench.read("vlb.ways").contains("d 1 2"));
        for wrong in ["b-d", "b-d on", "b-x up", "b up"] {
            assert!(bench.try_write("vlb.link", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn links_between_the_same_nodes_have_names_and_states_of_their_own() {
        let text = "vlb :: VLBNode(NODE a, NODES a 1Gbps b 1Gbps, LINKS a-b a-b 3Mbps)";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.write("vlb.link", "b-a/2 down");
        bench
            .reload(&text.replace("3Mbps", "4Mbps"))
            .expect("it is right");
        let links = bench.read("vlb.links");
        assert_eq!(links, "a-b up 1000Mbps\na-b/2 down 4Mbps\n");
        assert_eq!(bench.read("vlb.ways"), "b 1 0\n");
        for wrong in ["a-b/0 up", "a-b/3 up", "a-b/x up"] {
            assert!(bench.try_write("vlb.link", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_remedies() {
        let two = "NODE a, NODES a 1Gbps b 1Gbps, LINKS a-b";
        for (text, told) in [
            ("NODE a", "NODES is missing"),
            ("NODES a 1Gbps b 1Gbps", "NODE is missing"),
            ("NODE c, NODES a 1Gbps b 1Gbps", "`c` is no node"),
            ("NODE a, NODES a 1Gbps", "there are 1 NODES"),
            ("NODE a, NODES a 1Gbps b", "node `b` has no rate"),
            ("NODE a, NODES a 1Gbps a 1Gbps", "node `a` is named twice"),
            (
                "NODE a, NODES a fast b 1Gbps",
                "a rate must be a bandwidth such as 10Mbps or 125kBps, not `fast`",
            ),
            (
                "NODE a, NODES a 1Gbps b 0bps, LINKS a-b",
                "link `a-b` has no rate",
            ),
            (&format!("{two}, FLOWS 16777217"), "FLOWS is more than"),
            (&format!("{two}, BURST 1.1s"), "BURST is more than a second"),
            (
                &format!("{two}, RESEQUENCE 61s"),
                "RESEQUENCE is more than a minute",
            ),
            ("NODE a, NODES a-b 1Gbps b 1Gbps", "cannot be a node's name"),
            ("NODE a, NODES a 1Gbps b 1Gbps, LINKS a-c", "`c` is no node"),
            ("NODE a, NODES a 1Gbps b 1Gbps, LINKS ab", "`ab` is no link"),
            ("NODE a, NODES a 1Gbps b 1Gbps, LINKS a-a", "one end only"),
        ] {
            let all = errors(crate::with_basics(), &format!("vlb :: VLBNode({text})"));
            assert!(all.contains(told), "{text}: {all}");
        }
    }
}
