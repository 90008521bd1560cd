//! Two or three balancers in virtual time, whose messages take time and get lost.

use super::message::Message;
use super::*;
use crate::simulate::rng::SimRng;

const MS: u64 = 1_000_000;
const SETTINGS: Settings = Settings {
    idle: 100 * MS,
    deadline: 3000 * MS,
    settle: 0,
};

struct Box {
    pool: Pool,
    agreement: Agreement,
    /// Messages on their way to this balancer: arrival time, sender and content.
    coming: Vec<(u64, usize, Message)>,
}

struct Net {
    boxes: Vec<Box>,
    now: u64,
    chance: SimRng,
    /// Percentage of messages that are lost.
    loss: u64,
}

impl Net {
    fn new(versions: &[u64], seed: u64) -> Net {
        let members = ["r1", "r2", "r3"].map(|name| Member {
            name: name.to_owned(),
            weight: 1,
        });
        let one = |(number, version): (usize, &u64)| {
            // Each balancer lists the back ends in another order, which must not matter.
            let mut members = members.to_vec();
            members.rotate_left(number);
            Box {
                pool: Pool::new(SETTINGS, members, Vec::new(), vec![0]),
                agreement: Agreement::new(*version, versions.len() - 1, 0),
                coming: Vec::new(),
            }
        };
        Net {
            boxes: versions.iter().enumerate().map(one).collect(),
            now: 0,
            chance: SimRng::new(seed),
            loss: 0,
        }
    }

    /// Advances by one millisecond.
    fn step(&mut self) {
        self.now += MS;
        let now = self.now;
        for at in 0..self.boxes.len() {
            let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.boxes[at].coming)
                .into_iter()
                .partition(|(when, ..)| *when <= now);
            let one = &mut self.boxes[at];
            one.coming = later;
            for (_, from, message) in due {
                let number = if from < at { from } else { from - 1 };
                one.agreement.hear(number, message, now, &one.pool);
            }
            // Balancers do not tick at the same time.
            if !(now / MS + 7 * at as u64).is_multiple_of(20) {
                continue;
            }
            one.pool.sweep(now);
            let mut messages = Vec::new();
            one.agreement.tick(now, &one.pool, |m| messages.push(m));
            for message in messages {
                let read = Message::read(&message.write());
                assert_eq!(read.as_ref(), Ok(&message));
                for to in (0..self.boxes.len()).filter(|to| *to != at) {
                    if self.chance.below(100) >= self.loss {
                        let coming = &mut self.boxes[to].coming;
                        coming.push((now + MS, at, message.clone()));
                    }
                }
            }
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.step();
        }
    }

    /// Name of the back end that gets a packet of a bucket at a balancer.
    fn owner(&self, at: usize, bucket: u16) -> String {
        let pool = &self.boxes[at].pool;
        let owner = pool.owner(0, bucket, self.now);
        pool.states()[usize::from(owner)].member.name.clone()
    }

    fn names(&self, at: usize) -> Vec<String> {
        let pool = &self.boxes[at].pool;
        let states = pool.states();
        let owners = pool.owners(0).into_iter();
        owners
            .map(|of| states[usize::from(of)].member.name.clone())
            .collect()
    }

    fn drain(&self, at: usize, name: &str, within: Option<u64>) {
        let pool = &self.boxes[at].pool;
        let of = pool.number(name).expect("a back end");
        pool.intend(of, Intent::Drained, within);
    }

    fn buckets_of(&self, name: &str, count: usize) -> Vec<u16> {
        let names = self.names(0);
        let all = (0..=u16::MAX).filter(|b| names[usize::from(*b)] == name);
        all.take(count).collect()
    }
}

#[test]
fn operator_change_at_one_balancer_is_made_by_all_and_tables_end_equal() {
    let mut net = Net::new(&[1, 1, 1], 1);
    net.run(200);
    net.drain(1, "r2", None);
    net.run(300);
    for at in 0..3 {
        assert!(net.buckets_of("r2", 1).is_empty());
        assert_eq!(net.names(at), net.names(0));
        let of = net.boxes[at].pool.number("r2").expect("r2");
        let state = &net.boxes[at].pool.states()[usize::from(of)];
        assert_eq!(state.intent, Intent::Drained);
    }
    let one = &net.boxes[2].pool;
    one.intend(one.number("r2").expect("r2"), Intent::Used, None);
    one.set_weight(one.number("r1").expect("r1"), 4, None);
    net.run(400);
    assert_eq!(net.names(0), net.names(2));
    assert_eq!(net.names(0), net.names(1));
    assert!(net.buckets_of("r1", 65536).len() > 40_000);
}

/// The two directions of a flow enter by different balancers, and one direction may be silent for longer than `idle`:
/// they still reach the same back end.
#[test]
fn directions_of_a_flow_meet_while_buckets_move() {
    for seed in 0..3 {
        let mut net = Net::new(&[1, 1], seed);
        net.run(300);
        let flows = net.buckets_of("r1", 200);
        let mut next: Vec<[u64; 2]> = flows.iter().map(|_| [net.now; 2]).collect();
        net.drain(0, "r1", Some(2500 * MS));
        let (mut packets, mut apart) = (0, 0);
        for _ in 0..3000 {
            net.step();
            // The second balancer numbers back ends in another order (rotated by one).
            let owners: Vec<_> = net.boxes.iter().map(|one| one.pool.owners(0)).collect();
            for (flow, next) in flows.iter().zip(&mut next) {
                for at in 0..2 {
                    if net.now < next[at] {
                        continue;
                    }
                    packets += 1;
                    let mine = net.boxes[at].pool.owner(0, *flow, net.now);
                    let other = owners[1 - at][usize::from(*flow)];
                    let (first, second) = [(mine, other), (other, mine)][at];
                    apart += usize::from(first != (second + 1) % 3);
                    // The first direction sends all the time, the other one seldom.
                    let pause = [10, 300][at];
                    next[at] = net.now + (1 + net.chance.below(pause)) * MS;
                }
            }
        }
        // Until the deadline the busy direction holds the silent one back. The two may differ once per bucket, while
        // the message about the deadline is on its way.
        assert!(packets > 50_000);
        assert!(apart * 1000 < packets, "{apart} of {packets}");
        assert_eq!(net.names(0), net.names(1));
        assert!(net.buckets_of("r1", 1).is_empty());
    }
}

/// Without messages between the balancers, the two directions of a flow do reach different back ends. So the test above
/// can fail.
#[test]
fn balancers_that_cannot_hear_each_other_decide_alone() {
    let mut net = Net::new(&[1, 1], 9);
    net.loss = 100;
    net.run(300);
    let [flow] = net.buckets_of("r1", 1)[..] else {
        panic!("r1 has buckets");
    };
    net.drain(0, "r1", None);
    net.drain(1, "r1", None);
    for _ in 0..500 {
        net.step();
        net.owner(0, flow);
    }
    assert_eq!(net.owner(0, flow), "r1", "busy here");
    assert_ne!(net.owner(1, flow), "r1", "silent there");
    net.run(3000);
    assert_eq!(net.names(0), net.names(1), "equal after the deadline");
}

#[test]
fn silent_peer_has_no_effect() {
    let mut net = Net::new(&[1, 1], 3);
    net.run(300);
    let [flow] = net.buckets_of("r1", 1)[..] else {
        panic!("r1 has buckets");
    };
    net.drain(0, "r1", Some(60_000 * MS));
    let kept = |net: &mut Net, ms: u64| {
        for _ in 0..ms {
            net.step();
            net.owner(1, flow);
        }
    };
    kept(&mut net, 500);
    assert_eq!(net.owner(0, flow), "r1", "the other one is busy");
    net.loss = 100;
    kept(&mut net, 600);
    assert_ne!(net.names(0)[usize::from(flow)], "r1");
}

#[test]
fn another_file_is_told_and_has_no_say() {
    let mut net = Net::new(&[1, 2], 4);
    net.run(300);
    let relation = |net: &Net| net.boxes[0].agreement.relation(0, net.now).0;
    assert_eq!(relation(&net), Relation::OtherFile(2));
    net.drain(0, "r1", None);
    net.run(300);
    assert!(net.buckets_of("r1", 1).is_empty());
    assert!(net.names(1).iter().any(|name| name == "r1"));
    net.loss = 100;
    net.run(400);
    assert_eq!(relation(&net), Relation::Silent);
}

#[test]
fn old_and_repeated_messages_are_not_heard_and_a_restart_is() {
    let mut net = Net::new(&[1, 1], 5);
    let mut first = Vec::new();
    let sender = &mut net.boxes[1];
    let send = |m| first.push(m);
    sender.agreement.tick(0, &sender.pool, send);
    let one = &mut net.boxes[0];
    let mut hear = |m: &Message, now| one.agreement.hear(0, m.clone(), now, &one.pool);
    let learnt = Heard::Learnt(Vec::new());
    assert_eq!(hear(&first[1], 0), learnt);
    assert_eq!(hear(&first[1], 1), Heard::Old);
    assert_eq!(hear(&first[0], 1), Heard::Old);
    assert_eq!(hear(&first[0], 2000 * MS), learnt);
    assert_eq!(
        one.agreement.hear(7, first[0].clone(), 0, &one.pool),
        Heard::Old
    );
}

#[test]
fn a_restarted_balancer_learns_the_operators_settings() {
    let mut net = Net::new(&[1, 1], 6);
    net.drain(0, "r3", None);
    net.run(400);
    let fresh = Net::new(&[1, 1], 0).boxes.remove(1);
    net.boxes[1] = Box {
        agreement: Agreement::new(1, 1, net.now),
        ..fresh
    };
    net.run(100);
    assert_eq!(net.names(0), net.names(1));
    assert!(net.buckets_of("r3", 1).is_empty());
}

#[test]
fn messages_lost_at_random_leave_tables_equal() {
    let mut net = Net::new(&[1, 1, 1], 7);
    net.loss = 30;
    for round in 0..6 {
        let name = ["r1", "r2", "r3"][round % 3];
        let one = &net.boxes[round % 2].pool;
        let intent = match round % 4 {
            0 | 1 => Intent::Drained,
            _ => Intent::Used,
        };
        one.intend(one.number(name).expect("a back end"), intent, None);
        net.run(1500);
        assert_eq!(net.names(0), net.names(1), "{round}");
        assert_eq!(net.names(0), net.names(2), "{round}");
    }
}
