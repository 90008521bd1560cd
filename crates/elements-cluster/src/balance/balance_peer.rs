//! Exchanges messages with other balancers of the same router about buckets that move.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01 10.255.0.11, r2 02:00:00:00:00:02 10.255.0.12);
//! FromDevice(eth0) -> own :: Classifier(12/0800 23/11 36/c661, -);
//! own[0] -> peer :: BalancePeer(lb, 02:00:00:00:01:03, 10.255.0.1, right 02:00:00:00:02:03 10.255.0.2);
//! peer -> [1] back :: ToDevice(null:);
//! own[1] -> Discard;
//! FromDevice(eth1) -> in :: BalanceIn(lb) -> back;
//! in[1] -> Discard;
//! ```
//!
//! Flows may enter by one balancer in one direction and by another in the other direction. In a planned move, a
//! bucket moves only if it is idle at all balancers, and follows one that has moved at another balancer. An
//! operator's command at one balancer (`drain`, `use`, `weight` of BalancePool) applies to all.
//!
//! Messages are UDP packets to port 50785 with a TTL of 255 and increasing numbers. A message counts if both
//! addresses are a peer's, which no packet from outside has (see BalanceIn's `spoofed` and `inside`). Messages are
//! 100 ms apart while nothing moves and 20 ms while buckets move. A peer is ignored if it was silent for 350 ms, or
//! if its back ends, weights, OWNS, SPEAKER, CLASSES, ALGORITHM, KEY or SEED differ. Then each balancer decides
//! alone. BalancePool's journal records both.
//!
//! All packets end here, as `heard` or as invalid: `malformed`, `stranger` (of no peer), `old` (arrived after a later
//! message), `format` (of another release).
//!
//! Arguments:
//!
//! - `POOL`: the BalancePool.
//! - `ETHER`: the balancer's Ethernet address on its back port.
//! - `IP`: its address there.
//! - `PEER`, 1 to 15: another balancer's name, and its Ethernet and IPv4 address on the back port.

use super::Peer;
use super::shared::Shared;
use super::udp::{self, Ends};
use crate::prelude::*;
use cluster::balance::message::{Bad, Message};
use cluster::balance::{Agreement, Heard, Relation};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::EtherAddr;

drops! {
    HEARD = "heard",
    MALFORMED = "malformed",
    STRANGER = "stranger",
    OLD = "old",
    FORMAT = "format",
}

/// UDP port of messages between balancers.
const PORT: u16 = 50785;
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of other balancers.
const PEERS_MAX: usize = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Other {
    name: String,
    ether: EtherAddr,
    address: Ipv4Addr,
}

pub(super) struct Config {
    pool: Peer,
    own: (EtherAddr, Ipv4Addr),
    others: Vec<Other>,
}

pub(super) struct BalancePeer {
    config: Arc<Config>,
    shared: Arc<Shared>,
    agreement: Agreement,
    /// State of each peer when it was last logged.
    relations: Vec<Relation>,
    /// Time of the last tick on the router's clock, in nanoseconds.
    now: u64,
    sent: u64,
    no_buffer: u64,
}

impl Element for BalancePeer {
    const CONTRACT: Contract = Contract::new("BalancePeer", manual!())
        .ports(Ports::coded(&["messages"], &["back"], "h/h").apart())
        .gives(&[Facts::ETHER])
        .drops(DROPS)
        .copies(Copies::Owner)
        .runs(Runs::AsTask);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let pool = Peer::pool(args);
        if pool.is_by_load(args) {
            args.error_in_whole(
                "least-loaded with other balancers: each would level its own load",
                "give the BalancePool ALGORITHM flows, by which all balancers compute the same table",
            );
        }
        let ether = args.required("ETHER", "the balancer's Ethernet address on its back port");
        let address = args.required("IP", "the balancer's address there");
        let mut others: Vec<Other> = Vec::new();
        for arg in args.rest("PEER", "NAME ETHER IP", "another balancer") {
            let words = arg.words();
            let [name, ether, address] = &words[..] else {
                let wrong = format!("`{}` is no balancer", arg.raw);
                let help = "write its name, its Ethernet address and its IP address";
                args.error_with_help(&arg, wrong, help);
                continue;
            };
            let ether = args.value("the balancer's Ethernet address", ether, &arg);
            let address = args.value("the balancer's IP address", address, &arg);
            if let (Some(ether), Some(address)) = (ether, address) {
                let name = name.clone();
                others.push(Other {
                    name,
                    ether,
                    address,
                });
            }
        }
        if others.len() > PEERS_MAX {
            args.error_in_whole(
                format!("there are more than {PEERS_MAX} other balancers"),
                "let fewer share the back ends",
            );
            others.truncate(PEERS_MAX);
        }
        for (at, of) in others.iter().enumerate() {
            let is_same = |other: &Other| {
                other.name == of.name || other.ether == of.ether || other.address == of.address
            };
            if others[..at].iter().any(is_same) || (of.ether, of.address) == (ether, address) {
                args.error_in_whole(
                    format!("`{}` is named twice, or is this balancer itself", of.name),
                    "give each balancer a name and addresses of its own",
                );
            }
        }
        Config {
            pool,
            own: (ether, address),
            others,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> BalancePeer {
        let shared = config.pool.shared(init);
        BalancePeer {
            agreement: Agreement::new(shared.version, config.others.len(), 0),
            relations: vec![Relation::Silent; config.others.len()],
            config: Arc::clone(config),
            shared,
            now: init.now.0,
            sent: 0,
            no_buffer: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        // No message from before this restart has a later time of day.
        self.agreement.count_from(cx.timestamp());
        cx.set_timer(cx.now() + TICK);
    }

    fn task(&mut self, _: &mut Cx) -> Did {
        Did::Sleep
    }

    fn timer(&mut self, cx: &mut Cx) {
        let now = cx.now();
        self.now = now.0;
        let mut messages = Vec::new();
        self.agreement
            .tick(now.0, &self.shared.pool, |message| messages.push(message));
        for message in messages {
            let bytes = message.write();
            for other in &self.config.others {
                let ends = Ends {
                    from: self.config.own,
                    to: (other.ether, other.address),
                };
                match Packet::from_bytes(&udp::frame(ends, (PORT, PORT), &bytes)) {
                    Some(packet) => {
                        self.sent += 1;
                        cx.emit(0, packet);
                    }
                    None => self.no_buffer += 1,
                }
            }
        }
        self.note_relations(cx);
        cx.set_timer(now + TICK);
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let reason = self.heard(packet.data(), cx);
            cx.drop(packet, reason);
        }
    }

    fn take(&mut self, old: BalancePeer) {
        let own = &self.config.others;
        let place = |at: usize| old.config.others.iter().position(|of| *of == own[at]);
        for (at, relation) in self.relations.iter_mut().enumerate() {
            if let Some(known) = place(at) {
                *relation = old.relations[known];
            }
        }
        self.agreement.follow(old.agreement, place);
    }

    const HANDLERS: &'static [Handler<BalancePeer>] = &[
        Handler::text(
            "peers",
            "a line per other balancer: name, address, `agrees`, `silent` or `other_file`, seconds since it was heard",
            |e, _| Ok(e.show()),
        ),
        Handler::text(
            "version",
            "digest of what the files of all balancers must have in common",
            |e, _| Ok(format!("{:016x}", e.shared.version)),
        ),
        counter!("count", "messages sent", sent),
        counter!(
            "no_buffer",
            "messages not sent for want of a buffer",
            no_buffer
        ),
    ];
}

impl BalancePeer {
    /// Processes a message. Returns the index of the drop counter for the frame.
    fn heard(&mut self, frame: &[u8], cx: &Cx) -> u8 {
        let Some((from, body)) = udp::read(frame, self.config.own.1, PORT) else {
            return MALFORMED;
        };
        let mut all = self.config.others.iter();
        let Some(at) = all.position(|of| (of.ether, of.address) == from) else {
            return STRANGER;
        };
        let message = match Message::read(body) {
            Ok(message) => message,
            Err(Bad::Malformed) => return MALFORMED,
            Err(Bad::Format) => return FORMAT,
        };
        let pool = &self.shared.pool;
        let learnt = match self.agreement.hear(at, message, cx.now().0, pool) {
            Heard::Old => return OLD,
            Heard::Learnt(learnt) => learnt,
        };
        let states = match learnt.is_empty() {
            true => Vec::new(),
            false => pool.states(),
        };
        for of in learnt {
            let (peer, state) = (&self.config.others[at].name, &states[usize::from(of)]);
            let (name, weight) = (&state.member.name, state.member.weight);
            let what = match state.intent {
                cluster::balance::Intent::Used => "used",
                cluster::balance::Intent::Drained => "drained",
            };
            let line = format!("{name} {what} with weight {weight} at {peer}");
            self.shared.note(cx.timestamp(), &line);
        }
        HEARD
    }

    /// Logs peers that are heard, fall silent, or use another file.
    fn note_relations(&mut self, cx: &Cx) {
        for (at, told) in self.relations.iter_mut().enumerate() {
            let (relation, _) = self.agreement.relation(at, cx.now().0);
            if relation == *told {
                continue;
            }
            *told = relation;
            let name = &self.config.others[at].name;
            let own = self.shared.version;
            let line = match relation {
                Relation::Silent => format!("balancer {name} silent: buckets move without it"),
                Relation::Agrees => format!("balancer {name} heard"),
                Relation::OtherFile(version) => format!(
                    "balancer {name} has another file (version {version:016x}, here {own:016x}): give both the same \
                        back ends"
                ),
            };
            self.shared.note(cx.timestamp(), &line);
        }
    }

    fn show(&self) -> String {
        let now = self.now;
        let mut text = String::new();
        for (at, of) in self.config.others.iter().enumerate() {
            let (relation, age) = self.agreement.relation(at, now);
            let relation = match relation {
                Relation::Silent => "silent".to_owned(),
                Relation::Agrees => "agrees".to_owned(),
                Relation::OtherFile(version) => format!("other_file {version:016x}"),
            };
            let age = age.map_or("never heard".to_owned(), |age| {
                format!("heard {:.2}s ago", age as f64 / 1e9)
            });
            let _ = writeln!(text, "{} {} {relation} {age}", of.name, of.address);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, errors};

    const LEFT: &str =
        "lb :: BalancePool(r1 2:0:0:0:0:1 10.255.0.11, r2 2:0:0:0:0:2 10.255.0.12, SETTLE 0);
        peer :: BalancePeer(lb, 2:0:0:0:1:3, 10.255.0.1, right 2:0:0:0:2:3 10.255.0.2) -> back :: Collect";

    fn right() -> String {
        LEFT.replace(
            "2:0:0:0:1:3, 10.255.0.1, right 2:0:0:0:2:3 10.255.0.2",
            "2:0:0:0:2:3, 10.255.0.2, left 2:0:0:0:1:3 10.255.0.1",
        )
    }

    fn run(both: &mut [Bench; 2], ms: u64) {
        for _ in 0..ms / 20 {
            for one in both.iter_mut() {
                one.advance(Duration::from_millis(20));
            }
            let [a, b] = both;
            let (to_b, to_a) = (a.take("back"), b.take("back"));
            a.push("peer", &to_a);
            b.push("peer", &to_b);
        }
    }

    fn drained(bench: &mut Bench) -> bool {
        bench
            .read("lb.backends")
            .starts_with("r1 02:00:00:00:00:01 drained ")
    }

    #[test]
    fn operator_drains_at_one_balancer_and_both_do() {
        let mut both = [LEFT, &right()].map(|text| Bench::new(crate::with_basics(), text));
        run(&mut both, 400);
        assert!(
            both[0]
                .read("peer.peers")
                .starts_with("right 10.255.0.2 agrees heard 0.")
        );
        both[1].write("lb.drain", "r1");
        run(&mut both, 400);
        assert!(both.iter_mut().all(drained));
        let journal = both[0].read("lb.journal");
        assert!(
            journal.contains("r1 drained with weight 1 at right"),
            "{journal}"
        );
        // A reload keeps the state.
        both[0]
            .reload(&LEFT.replace("SETTLE 0", "SETTLE 1"))
            .expect("it is right");
        run(&mut both, 200);
        assert!(both.iter_mut().all(drained));
        assert_eq!(both[0].drops("peer", "old"), 0);
        // Nobody answers.
        both[0].advance(Duration::from_millis(500));
        assert!(both[0].read("peer.peers").contains(" silent "));
        assert!(both[0].read("lb.journal").contains("balancer right silent"));
    }

    #[test]
    fn another_file_is_told() {
        let other = right().replace("r2 2:0:0:0:0:2", "r3 2:0:0:0:0:2");
        let mut both = [LEFT, &other].map(|text| Bench::new(crate::with_basics(), text));
        run(&mut both, 200);
        let version = both[1].read("peer.version");
        let told = both[0].read("peer.peers");
        assert!(told.contains(&format!("other_file {version}")), "{told}");
        assert!(
            both[0]
                .read("lb.journal")
                .contains("balancer right has another file")
        );
    }

    #[test]
    fn order_of_back_ends_is_no_other_file() {
        let other = right().replace(
            "r1 2:0:0:0:0:1 10.255.0.11, r2 2:0:0:0:0:2 10.255.0.12",
            "r2 2:0:0:0:0:2 10.255.0.12, r1 2:0:0:0:0:1 10.255.0.11, SPEAKER r1",
        );
        let own = LEFT.replace("SETTLE 0", "SETTLE 0, SPEAKER r1");
        let mut both = [&own, &other].map(|text| Bench::new(crate::with_basics(), text));
        assert_eq!(both[0].read("peer.version"), both[1].read("peer.version"));
    }

    #[test]
    fn packets_of_strangers_and_of_yesterday_change_nothing() {
        let mut both = [LEFT, &right()].map(|text| Bench::new(crate::with_basics(), text));
        both[1].write("lb.drain", "r1");
        both[1].advance(Duration::from_millis(40));
        let frames = both[1].take("back");
        let changed = |at: usize| {
            let mut frame = frames[0].clone();
            frame[at] ^= 1;
            frame
        };
        // Ethernet source; IP source (its checksum, too); port; TTL; body.
        for at in [11, 29, 37, 22, 60] {
            both[0].push("peer", &[changed(at)]);
        }
        assert_eq!(both[0].drops("peer", "stranger"), 1);
        assert_eq!(both[0].drops("peer", "malformed"), 4);
        assert!(
            both[0]
                .read("lb.backends")
                .starts_with("r1 02:00:00:00:00:01 up ")
        );
        both[0].push("peer", &frames);
        both[0].push("peer", &frames);
        assert_eq!(both[0].drops("peer", "heard"), frames.len() as u64);
        assert_eq!(both[0].drops("peer", "old"), frames.len() as u64);
        assert!(
            !both[0]
                .read("lb.backends")
                .starts_with("r1 02:00:00:00:00:01 up ")
        );
    }

    #[test]
    fn mistakes_are_told() {
        for (peers, told) in [
            ("right", "`right` is no balancer"),
            ("right 2:0:0:0:2:3 x", "the balancer's IP address"),
            ("me 2:0:0:0:1:3 10.255.0.1", "is this balancer itself"),
            (
                "a 2:0:0:0:2:3 10.255.0.2, b 2:0:0:0:2:3 10.255.0.3",
                "`b` is named twice",
            ),
        ] {
            let text = LEFT.replace("right 2:0:0:0:2:3 10.255.0.2", peers);
            let all = errors(crate::with_basics(), &text);
            assert!(all.contains(told), "{all}");
        }
        let by_load = LEFT.replacen("BalancePool(", "BalancePool(ALGORITHM least-loaded, ", 1);
        assert_ne!(by_load, LEFT);
        let all = errors(crate::with_basics(), &by_load);
        assert!(all.contains("least-loaded with other balancers"), "{all}");
    }
}
