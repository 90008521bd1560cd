//! Finds out which links of a cluster are up, by heartbeats on this node's links.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b);
//! FromDevice(null:64) -> t :: VLBTransit(vlb);
//! t[1] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[2] -> hb :: VLBHeartbeat(vlb);
//! t -> link :: ToDevice(null:);
//! hb -> [1] link;
//! ```
//!
//! Sends a heartbeat on each link at every INTERVAL. The input takes the heartbeats of other nodes from the
//! last output of VLBTransit, with the link's number as paint annotation. Output i is the node's own link i
//! (see VLBNode). Connect it to the second input of ToDevice, where heartbeats go before packets, so that a
//! full link does not lose them.
//!
//! A link is up if each end receives well from the other. An end does not receive well if it hears nothing for DEAD,
//! if more than LOSS of the last heartbeats are missing, or if the round-trip time is three times in a row longer
//! than both SLOW and four times the best one of the node's links (if all links have full queues, that is no
//! failure). With VLBNode's KEY a link is also down if for a second all frames were refused that the peer reports as
//! sent (`stuck`). All nodes exchange these states, and VLBInput and VLBTransit avoid links that are down. A link
//! comes back after several good heartbeats in a row; after twice as many each time that it fails soon again. If the
//! node itself was late, it does not count this against others. A peer that was late in sending within the last ten
//! seconds may be silent for DEAD and twice its lateness, at most five times DEAD. At the start no link is up. When
//! the configuration is replaced, links that are up stay up.
//!
//! Every packet of the input ends here: as `heard`, or as an invalid heartbeat for this link: `malformed`, `foreign`
//! (from another cluster), `forged` (without the cluster's key), `misplaced` (from another cable), `replayed`
//! (received before).
//!
//! With KEY heartbeats also bring together the two random numbers of a link's ends, from which the keys of its
//! frames come (see VLBTransit).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//!
//! Keyword arguments:
//!
//! - `INTERVAL`: time between heartbeats; a fifth of it as soon as a link is in doubt. It should be the same on
//!   all nodes. Default 5ms.
//! - `DEAD`: silence after which a peer is dead. Default eight times INTERVAL.
//! - `LOSS`: share of the last 16 heartbeats that may be missing. Default 0.25.
//! - `SLOW`: maximum acceptable round-trip time. Default twice INTERVAL. A link is slow if that of all heartbeats
//!   within half of DEAD, at least three, is longer.

use super::{Member, Node};
use crate::prelude::*;
use cluster::address::NodeId;
use cluster::health::{Cabling, Cause, Health, LINKS_MAX, Refused};
use cluster::map::Links;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::time::Duration;

const HEARD: u8 = 0;

/// Number of lines kept in the journal.
const KEPT: usize = 256;

/// Minimum interval, so that heartbeats leave time for other work.
const SHORTEST: Duration = Duration::from_micros(100);
/// Maximum of the times in a configuration.
const LONGEST: Duration = Duration::from_secs(3600);

pub(crate) struct Config {
    member: Member,
    links: usize,
    interval: Duration,
    dead: Duration,
    loss: f64,
    slow: Duration,
}

pub(crate) struct VlbHeartbeat {
    config: Arc<Config>,
    node: Arc<Node>,
    /// Health of the links; `None` before the start, or if the map has too many links.
    health: Option<Health>,
    /// Node and health of the replaced configuration, until they are taken over.
    old: Option<(Arc<Node>, Health)>,
    sent: u64,
    /// Index of the lane reported next.
    turn: u64,
    /// Live links when the last line was written, and the most recent lines of the journal.
    known: Option<Links>,
    journal: VecDeque<String>,
    /// State of the node's links, by peer and index: true if in use, and the time of the last change.
    used: HashMap<(String, usize), (bool, u64)>,
}

impl Element for VlbHeartbeat {
    const CONTRACT: Contract = Contract::new("VLBHeartbeat", manual!())
        .ports(Ports::coded(&["heartbeats"], &["link*"], "h/h").apart())
        .gives(&[Facts::ETHER])
        .drops(&[
            "heard",
            Refused::Malformed.name(),
            Refused::Foreign.name(),
            Refused::Forged.name(),
            Refused::Misplaced.name(),
            Refused::Replayed.name(),
        ])
        .copies(Copies::Owner)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (member, described) = Member::named(args);
        let interval = Duration::from_millis(5);
        let interval = args.key("INTERVAL", interval, "time between heartbeats");
        let dead = args.key(
            "DEAD",
            interval.saturating_mul(8),
            "silence after which a peer is dead",
        );
        let loss = args.key("LOSS", 0.25, "share of heartbeats that may be missing");
        let slow = args.key(
            "SLOW",
            interval.saturating_mul(2),
            "longest round-trip time",
        );
        if interval < SHORTEST || dead < interval.saturating_mul(3) {
            args.error_in_whole(
                "INTERVAL and DEAD are too short",
                "INTERVAL is at least 100us, and DEAD three times INTERVAL",
            );
        }
        if interval.max(dead).max(slow) > LONGEST {
            args.error_in_whole(
                "INTERVAL, DEAD and SLOW are too long",
                "none may be longer than an hour; a cluster should see a dead link in milliseconds",
            );
        }
        if !(0.0..1.0).contains(&loss) {
            args.error_in_whole("LOSS must be from 0 to 1", "LOSS 0.25 allows every fourth");
        }
        if let Some(described) = &described
            && let Err(node) = Cabling::new(&described.map)
        {
            let label = &described.labels[usize::from(node)];
            args.error_in_whole(
                format!("node `{label}` has more than {LINKS_MAX} links, which heartbeats cannot tell of"),
                "leave links out: nodes reach each other by way of others",
            );
        }
        Config {
            member,
            links: described.map_or(0, |d| d.map.links_of(d.node).count()),
            interval,
            dead,
            loss,
            slow,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> VlbHeartbeat {
        VlbHeartbeat {
            node: config.member.node(init),
            config: Arc::clone(config),
            health: None,
            old: None,
            sent: 0,
            turn: 0,
            known: None,
            journal: VecDeque::new(),
            used: HashMap::new(),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        let map = self.node.fabric().map();
        let Ok(cabling) = Cabling::new(map) else {
            return;
        };
        let (me, settings) = (self.node.number, self.settings());
        let now = cx.now().0;
        let mut health = Health::new(map, Arc::new(cabling), me, cx.timestamp(), settings, now);
        if let Some((was, old)) = self.old.take() {
            health.follow(&old, |node| {
                let label = &self.node.labels[usize::from(node)];
                let at = was.labels.iter().position(|known| known == label)?;
                Some(at as NodeId)
            });
        }
        self.node.watch();
        // A session may have been agreed on since the node took over its predecessor's state.
        agree(&self.node, &health);
        self.node.publish(health.links().clone());
        health.take_change();
        self.known = Some(health.links().clone());
        self.health = Some(health);
        self.note_used(now);
        cx.set_timer(cx.now());
    }

    fn task(&mut self, _: &mut Cx) -> Did {
        match self.health {
            Some(_) => Did::Sleep,
            None => Did::End,
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.look(cx);
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let now = cx.now().0;
        for packet in batch.drain() {
            let own = usize::from(packet.anno().paint);
            let heard = match &mut self.health {
                Some(health) => health.heard(own, packet.data(), now),
                None => Err(Refused::Misplaced),
            };
            if let (Ok(()), Some(health)) = (heard, &mut self.health) {
                let told = health.told(own);
                if told > 0 {
                    health.compare(own, self.node.come(own, told), now);
                }
            }
            cx.drop(packet, heard.map_or_else(reason, |()| HEARD));
        }
        match &self.health {
            Some(health) if health.due() <= now => self.look(cx),
            _ => self.publish(cx),
        }
    }

    fn take(&mut self, old: VlbHeartbeat) {
        (self.used, self.journal) = (old.used, old.journal);
        self.old = old.health.map(|health| (old.node, health));
    }

    const HANDLERS: &'static [Handler<VlbHeartbeat>] = &[
        counter!("count", "heartbeats sent", sent),
        Handler::text(
            "links",
            "a line per own link: number, peer, used or not, reason, missing heartbeats, round-trip time, \
             seconds in this state",
            |e, _| Ok(e.show()),
        ),
        Handler::text(
            "journal",
            "the last 256 events, a line each: seconds since 1970; `A-B up` or `A-B down`, and why if it is an own \
             link; or `late` and how long this node did not look, if that was half of DEAD or more",
            |e, _| Ok(e.journal.iter().map(|line| format!("{line}\n")).collect()),
        ),
        Handler::text("interval", "see INTERVAL", |e, _| {
            Ok(arguments::show::interval(e.config.interval))
        }),
    ];
}

impl Resources for VlbHeartbeat {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(1), Some(config.links))
    }
}

/// Passes the agreed epochs of the node's links to the node.
fn agree(node: &Node, health: &Health) {
    for own in 0..node.own_links() {
        if let Some(peer) = health.agreed(own) {
            node.agree(own, peer);
        }
    }
}

/// Drop reason of a refused heartbeat.
fn reason(refused: Refused) -> u8 {
    let at = Refused::ALL.iter().position(|&known| known == refused);
    at.map_or(HEARD, |at| at as u8 + 1)
}

/// Adds a line to the journal.
fn enter(journal: &mut VecDeque<String>, at: u64, line: &str) {
    if journal.len() == KEPT {
        journal.pop_front();
    }
    let (seconds, nanoseconds) = (at / 1_000_000_000, at % 1_000_000_000);
    journal.push_back(format!("{seconds}.{nanoseconds:09} {line}"));
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl VlbHeartbeat {
    fn settings(&self) -> cluster::health::Config {
        cluster::health::Config {
            interval: nanoseconds(self.config.interval),
            dead: nanoseconds(self.config.dead),
            loss: self.config.loss,
            slow: nanoseconds(self.config.slow),
            cookie: self.node.cookie,
            keys: self.node.keys.clone(),
            names: self.node.members(),
            lives: self.node.lives(),
            ..cluster::health::Config::default()
        }
    }

    /// Updates the state of peers, sends due heartbeats and sets the timer.
    fn look(&mut self, cx: &mut Cx) {
        let Some(health) = &mut self.health else {
            return;
        };
        let late = health.lateness(cx.now().0);
        if late >= health.config().dead / 2 {
            let line = format!("late {:?}", Duration::from_nanos(late));
            enter(&mut self.journal, cx.timestamp(), &line);
        }
        for own in 0..self.config.links {
            health.tell(own, self.node.sent(own, self.turn));
        }
        self.turn += 1;
        let sent = &mut self.sent;
        health.tick(cx.now().0, &mut |own, bytes| {
            if let (Some(packet), true) = (Packet::from_bytes(bytes), own < self.config.links) {
                cx.emit(own, packet);
                *sent += 1;
            }
        });
        self.publish(cx);
    }

    fn publish(&mut self, cx: &mut Cx) {
        let Some(health) = &mut self.health else {
            return;
        };
        if health.take_agreement() {
            agree(&self.node, health);
        }
        cx.set_timer(Time(health.due()));
        if health.take_change() {
            self.node.publish(health.links().clone());
            self.note(cx.timestamp());
            self.note_used(cx.now().0);
        }
    }

    /// Records the time at which links of this node came into use or went out of use.
    fn note_used(&mut self, now: u64) {
        let states = self.health.iter().flat_map(Health::states);
        for (cable, state) in self.node.cables().into_iter().zip(states) {
            let (used, since) = self.used.entry(cable).or_insert((state.used, now));
            if *used != state.used {
                (*used, *since) = (state.used, now);
            }
        }
    }

    /// Logs links that went up or down.
    fn note(&mut self, at: u64) {
        let (Some(health), Some(known)) = (&self.health, &self.known) else {
            return;
        };
        let links = health.links();
        for link in 0..self.node.fabric().map().links.len() {
            let up = links.up(link);
            if up == known.up(link) {
                continue;
            }
            let own = health.states().find(|own| own.link == link);
            let why = match own.map(|own| own.cause) {
                Some(cause) if !up && cause != Cause::None => format!(" {cause}"),
                _ => String::new(),
            };
            let state = if up { "up" } else { "down" };
            let line = format!("{} {state}{why}", self.node.pair(link));
            enter(&mut self.journal, at, &line);
        }
        self.known = Some(links.clone());
    }

    fn show(&self) -> String {
        let mut text = String::new();
        let last_check = self.health.as_ref().map_or(0, Health::last_check);
        let states = self.health.iter().flat_map(Health::states);
        for (own, (cable, state)) in self.node.cables().iter().zip(states).enumerate() {
            let peer = self.node.labels.get(usize::from(state.peer));
            let peer = peer.map_or("?", String::as_str);
            let used = match (state.used, state.cause) {
                (true, _) => "up".to_owned(),
                (false, Cause::None) => "down".to_owned(), // the peer has not said so yet
                (false, cause) => format!("down {cause}"),
            };
            let delay = Duration::from_nanos(state.delay);
            let missing = state.missing;
            let since = self.used.get(cable).map_or(last_check, |(_, since)| *since);
            let age = Duration::from_nanos(last_check.saturating_sub(since));
            let _ = writeln!(
                text,
                "{own} {peer} {used} missing {missing} delay {delay:?} for {:.3}s",
                age.as_secs_f64()
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, errors};

    /// Two nodes in one router; each hears the other.
    const PAIR: &str = "a :: VLBNode(NODE a, NODES a 1Gbps b 1Gbps, LINKS a-b);
        b :: VLBNode(NODE b, NODES a 1Gbps b 1Gbps, LINKS a-b);
        ha :: VLBHeartbeat(a) -> way :: Switch -> hb :: VLBHeartbeat(b) -> ha; way[1] -> Discard";

    fn pair() -> Bench {
        let mut bench = Bench::new(crate::with_basics(), PAIR);
        assert_eq!(
            bench.read("a.links"),
            "a-b up 1000Mbps\n",
            "before the start"
        );
        bench.advance(Duration::from_millis(20));
        assert_eq!(bench.read("a.links"), "a-b down 1000Mbps\n");
        bench.advance(Duration::from_millis(60));
        assert_eq!(bench.read("a.links"), "a-b up 1000Mbps\n");
        bench
    }

    #[test]
    fn a_link_comes_up_with_heartbeats_and_goes_down_without() {
        let mut bench = pair();
        assert!(bench.read("ha.links").starts_with("0 b up missing 0"));
        bench.write("way.switch", "1");
        bench.advance(Duration::from_millis(50));
        assert_eq!(bench.read("a.links"), "a-b down 1000Mbps\n");
        assert!(bench.read("hb.links").starts_with("0 a down silent"));
        assert!(bench.read("ha.links").starts_with("0 b down unheard"));
        let age = |bench: &mut Bench| -> f64 {
            let links = bench.read("ha.links");
            let age = links.trim_end().rsplit_once(" for ").map(|(_, age)| age);
            let age = age.and_then(|age| age.strip_suffix('s')?.parse().ok());
            age.unwrap_or_else(|| panic!("no age: {links}"))
        };
        assert!(age(&mut bench) < 0.05);
        bench.advance(Duration::from_secs(2));
        assert!((2.0..2.05).contains(&age(&mut bench)));
        bench.write("way.switch", "0");
        bench.advance(Duration::from_millis(120));
        assert_eq!(bench.read("b.links"), "a-b up 1000Mbps\n");
        for (node, why) in [("ha", "unheard"), ("hb", "silent")] {
            let journal = bench.read(&format!("{node}.journal"));
            let events = journal
                .lines()
                .map(|line| line.split_once(' ').map_or("", |(_, e)| e));
            let expected = ["a-b up", &*format!("a-b down {why}"), "a-b up"];
            assert_eq!(events.collect::<Vec<_>>(), expected, "{node}");
        }
    }

    #[test]
    fn a_node_that_did_not_look_for_long_says_so() {
        let mut bench = pair();
        bench.oversleep(Duration::from_millis(30));
        bench.advance(Duration::from_millis(10));
        let journal = bench.read("ha.journal");
        assert!(
            journal.lines().any(|line| line.contains(" late 3")),
            "{journal}"
        );
        assert!(!journal.contains("down"), "{journal}");
    }

    #[test]
    fn a_new_configuration_takes_no_link_down() {
        let mut bench = pair();
        let more = PAIR.replace("b 1Gbps, LINKS a-b", "b 1Gbps c 1Gbps, LINKS a-b a-c b-c");
        let more = more.replace("way[1]", "ha[1] -> Discard; hb[1] -> Discard; way[1]");
        bench.reload(&more).expect("it is right");
        assert!(
            !bench
                .read("ha.links")
                .contains("b up missing 0 delay 0ns for 0.000s")
        );
        assert!(
            bench.read("a.links").contains("a-c down"),
            "nobody was heard there"
        );
        bench.run();
        for _ in 0..30 {
            let links = bench.read("a.links");
            assert!(
                links.starts_with("a-b up") && links.contains("a-c down"),
                "{links}"
            );
            bench.advance(Duration::from_millis(5));
        }
        assert_eq!(
            bench.drops("ha", "misplaced") + bench.drops("ha", "replayed"),
            0
        );
    }

    #[test]
    fn heartbeats_of_others_are_dropped_by_their_reason() {
        let key = "000102030405060708090a0b0c0d0e0f";
        for (from, to, reason) in [
            ("NODE a", &*format!("NODE a, KEY {key}"), "forged"),
            ("NODE a", "NAME x, NODE a", "foreign"),
            ("NODE a, NODES", "NODE a, NODES c 1Gbps", "misplaced"),
        ] {
            let mut bench = Bench::new(crate::with_basics(), &PAIR.replacen(from, to, 1));
            bench.advance(Duration::from_millis(60));
            assert!(bench.drops("hb", reason) > 5, "{reason}");
            assert_eq!(bench.drops("hb", "heard"), 0);
            assert!(bench.read("b.links").contains("down"));
        }
        let mut bench = pair();
        bench.push("ha", &[[0; 60]]);
        assert_eq!(bench.drops("ha", "malformed"), 1);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let node = "v :: VLBNode(NODE a, NODES a 1Gbps b 1Gbps, LINKS a-b";
        for (text, told) in [
            ("); VLBHeartbeat(v, INTERVAL 10us)", "too short"),
            ("); VLBHeartbeat(v, DEAD 10ms)", "too short"),
            ("); VLBHeartbeat(v, LOSS 1.5)", "LOSS must be"),
            (", KEY 123)", "KEY is no key"),
        ] {
            let all = errors(crate::with_basics(), &format!("{node}{text}"));
            assert!(all.contains(told), "{text}: {all}");
        }
    }
}
