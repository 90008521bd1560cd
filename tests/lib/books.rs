//! Packet accounts of a router: for every element, packets in = packets out + drops by name + held.
//!
//! Packets in are counted at the far ends of an element's edges and where the test injects packets. The element
//! itself counts packets out, dropped and held. So an element that loses a packet, frees it without a name, or counts
//! or makes one too many does not balance.

use engine::element::Class;
use engine::graph::Graph;
use engine::handler::Use;
use engine::plan::Plan;
use engine::stats::NodeStats;
use router::Router;
use std::fmt;

/// Rule of an element about the number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// In = out + dropped + held.
    Keeps,
    /// Makes packets and takes none: any number is right.
    Source,
    /// May be the end of a path: packets that were not sent, dropped or held have ended there.
    Sink,
    /// Every output gets every packet.
    Copies,
    /// In + made = out + dropped + held, where this handler counts what the element made.
    Makes(&'static str),
    /// Both ends of a device: in + received = out + dropped + held + sent, where handlers of these names count the
    /// device's packets.
    Trades,
    /// Like [`Trades`](Law::Trades), but with other programs: no device of the router has these packets.
    Talks,
}

/// Classes with another rule than `Keeps`.
const EXCEPTIONS: &[(&str, Law)] = &[
    ("Tee", Law::Copies),
    ("PaintTee", Law::Makes("copies")),
    ("IPFragmenter", Law::Makes("made")),
    ("IP6Fragmenter", Law::Makes("made")),
    ("ARPQuerier", Law::Makes("queries")),
    ("IP6NDSolicitor", Law::Makes("queries")),
    ("IP6NDAdvertiser", Law::Makes("count")),
    ("IP6RouterAdvertiser", Law::Makes("count")),
    ("ICMP6Redirect", Law::Makes("count")),
    ("ICMPPingSource", Law::Makes("count")),
    ("BalanceARP", Law::Makes("told")),
    ("BalanceHealth", Law::Makes("count")),
    ("BalancePeer", Law::Makes("count")),
    ("BalanceND", Law::Makes("made")),
    ("BalanceOut", Law::Makes("copies")),
    ("VLBHeartbeat", Law::Makes("count")),
    ("KernelTap", Law::Trades),
    ("KernelTun", Law::Trades),
    ("McastSocket", Law::Talks),
    ("Socket", Law::Talks),
    ("ToDump", Law::Sink),
    ("ToIPSummaryDump", Law::Sink),
];

/// The rule of a class about the number of packets.
pub fn law(class: &Class) -> Law {
    match EXCEPTIONS.iter().find(|(name, _)| *name == class.name) {
        Some((_, law)) => *law,
        None if class.ports.inputs.is_empty() => Law::Source,
        None if class.ports.outputs.is_empty() => Law::Sink,
        None => Law::Keeps,
    }
}

/// The account of one element, over all workers.
#[derive(Clone, Debug)]
pub struct Account {
    /// The element's name.
    pub name: String,
    /// Class of the element.
    pub class: &'static str,
    /// Rule of the class.
    pub law: Law,
    /// Number of its outputs.
    pub outputs: usize,
    /// Packets that came in over edges or were injected.
    pub came: u64,
    /// Packets that left.
    pub left: u64,
    /// Packets dropped, by name.
    pub drops: Vec<(String, u64)>,
    /// Packets held now.
    pub held: u64,
    /// Packets made, or received by a device.
    pub made: u64,
    /// Packets sent by a device.
    pub sent: u64,
}

impl Account {
    /// Packets dropped.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|d| d.1).sum()
    }

    /// Packets that ended here: those of a sink that it neither dropped nor holds.
    pub fn ended(&self) -> u64 {
        match self.law {
            Law::Sink => (self.came).saturating_sub(self.left + self.dropped() + self.held),
            _ => 0,
        }
    }

    fn balances(&self) -> bool {
        let gone = self.left + self.dropped() + self.held;
        match self.law {
            Law::Keeps => self.came == gone,
            Law::Source => self.came == 0,
            Law::Sink => self.came >= gone,
            Law::Copies => self.came * self.outputs as u64 == gone,
            Law::Makes(_) => self.came + self.made == gone,
            Law::Trades | Law::Talks => self.came + self.made == gone + self.sent,
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} :: {}: {} came, {} made, {} left, {} held, dropped {:?}",
            self.name, self.class, self.came, self.made, self.left, self.held, self.drops
        )
    }
}

/// The accounts of a router.
#[derive(Clone, Debug)]
pub struct Books {
    /// One account per element, in the plan's order.
    pub accounts: Vec<Account>,
}

impl Books {
    /// The accounts of a plan, from each element's counts and held packets, with the packets injected at elements.
    /// `count` reads a handler of an element, over all workers.
    pub fn new(
        plan: &Plan,
        stats: &[NodeStats],
        held: &[usize],
        let_in: &[u64],
        count: impl Fn(&str) -> u64,
    ) -> Books {
        let mut came = let_in.to_vec();
        came.resize(plan.elements.len(), 0);
        for edge in &plan.edges {
            came[edge.to.0] += stats[edge.from.0].sent[edge.from.1];
        }
        let elements = plan.elements.iter().zip(stats).enumerate();
        let accounts = elements.map(|(node, (element, stats))| {
            let names = engine::stats::drop_names(element).into_iter();
            let drops = names.zip(stats.drops.iter().copied());
            let law = law(element.class);
            let of_handler = |handler: &str| count(&format!("{}.{handler}", element.name));
            let (made, sent) = match law {
                Law::Makes(handler) => (of_handler(handler), 0),
                Law::Trades | Law::Talks => (of_handler("received"), of_handler("sent")),
                _ => (0, 0),
            };
            Account {
                name: element.name.clone(),
                class: element.class.name,
                law,
                outputs: element.outputs.len().max(1),
                came: came[node] + stats.cut,
                left: stats.sent.iter().sum(),
                drops: drops.filter(|d| d.1 > 0).collect(),
                held: held[node] as u64,
                made,
                sent,
            }
        });
        Books {
            accounts: accounts.collect(),
        }
    }

    /// The books of a router with one worker.
    pub fn of(graph: &Graph, let_in: &[u64]) -> Books {
        let plan = graph.plan();
        let held: Vec<usize> = (0..plan.elements.len()).map(|n| graph.held_by(n)).collect();
        let count = |path: &str| {
            let (node, handler, _) =
                Router::find_handler(plan, path, Use::Read).expect("a class of the table");
            let value = graph.read(node, handler, "").and_then(Result::ok);
            value.and_then(|v| v.parse().ok()).expect("a count")
        };
        Books::new(plan, graph.stats(), &held, let_in, count)
    }

    /// The books of a running router, over all its workers. Panics if a worker does not answer.
    pub fn of_router(router: &Router) -> Books {
        let plan = router.plan();
        let elements = plan.elements.len();
        let answers = router.ask_all(move |local| {
            let graph = local.graph();
            let held: Vec<usize> = (0..elements).map(|n| graph.held_by(n)).collect();
            (graph.stats().to_vec(), held)
        });
        let mut sum = vec![NodeStats::default(); elements];
        let mut all_held = vec![0; elements];
        for (stats, held) in answers.expect("workers answer") {
            sum.iter_mut().zip(&stats).for_each(|(s, w)| s.add(w));
            all_held.iter_mut().zip(&held).for_each(|(s, w)| *s += w);
        }
        let count = |path: &str| {
            let value = router.read(path, "").ok();
            value.and_then(|v| v.parse().ok()).expect("a count")
        };
        Books::new(&plan, &sum, &all_held, &[], count)
    }

    /// The accounts that do not balance, as text; empty if all balance.
    pub fn mistakes(&self) -> String {
        let wrong = self.accounts.iter().filter(|a| !a.balances());
        wrong.map(|a| format!("{a}\n")).collect()
    }

    /// Panics with the accounts that do not balance.
    #[track_caller]
    pub fn check(&self) {
        let mistakes = self.mistakes();
        assert!(mistakes.is_empty(), "the books do not balance:\n{mistakes}");
    }

    /// The account of an element.
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|a| a.name == name)
    }

    /// Packets that ended at elements of a class.
    pub fn ended_at(&self, class: &str) -> u64 {
        let of_class = self.accounts.iter().filter(|a| a.class == class);
        of_class.map(Account::ended).sum()
    }

    /// Packets dropped anywhere, by element and name.
    pub fn drops(&self) -> Vec<(String, u64)> {
        let all = self.accounts.iter().flat_map(|a| {
            let each = a.drops.iter();
            each.map(move |(name, n)| (format!("{} {name}", a.name), *n))
        });
        all.collect()
    }

    /// Packets held anywhere.
    pub fn held(&self) -> u64 {
        self.accounts.iter().map(|a| a.held).sum()
    }

    /// Classes of elements that packets came to, or that made some; without those of the rule `Source`.
    pub fn classes_used(&self) -> std::collections::BTreeSet<&'static str> {
        let used = self.accounts.iter().filter(|a| a.came + a.left > 0);
        used.map(|a| a.class).collect()
    }
}
