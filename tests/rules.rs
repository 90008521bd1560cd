//! A port that sorts by rules (Flow Director, VMDq): the rules that it gets, and that packets then need not cross.

use control::balance::{Balance, Mode, Settings};
use engine::plan::Plan;
use engine::port::{Match, Port};
use ports::Directory;
use ports::memory::{Memory, Sent};
use router::Router;
use router_tests::{Cards, run};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use steer::Moves;
use testkit::{Rng, ip4};
use wire::FlowKey;

const LONG: Duration = Duration::from_secs(20);

struct Stand {
    router: Router,
    ports: Arc<Cards<Directory>>,
    a: Memory,
    b: Memory,
}

fn plan(previous: Option<&Plan>, text: &str, ports: &Cards<Directory>) -> Arc<Plan> {
    router_tests::plan(text, &[], 2, ports, previous)
}

fn start(text: &str, room: usize) -> Stand {
    let ports = Arc::new(Cards::new(Directory::new(), "mem:a", room));
    let plan = plan(None, text, &ports);
    let router = run(&plan, Arc::clone(&ports) as _);
    // Workers have built their graphs when they answer.
    router.ask_all(|_| ()).expect("workers answer");
    Stand {
        router,
        a: ports.inner.memory("a"),
        b: ports.inner.memory("b"),
        ports,
    }
}

/// A frame of one flow, for a station of that number.
fn frame(n: u8) -> Vec<u8> {
    let packet = ip4().src(format!("10.0.0.{n}")).dst("192.0.2.1");
    let to = format!("02:00:00:00:01:{n:02x}");
    packet.udp(1000, 53).ether("02:00:00:00:00:01", &to).bytes()
}

/// The number of a frame.
fn read(frame: &[u8]) -> u8 {
    frame[29]
}

impl Stand {
    fn write(&self, handler: &str, value: &str) {
        let done = self.router.write(handler, value);
        done.unwrap_or_else(|e| panic!("{handler}: {e}"));
    }

    fn reload(&self, text: &str) {
        let next = plan(Some(&self.router.plan()), text, &self.ports);
        self.router.reload(&next).unwrap_or_else(|e| panic!("{e}"));
        self.router.ask_all(|_| ()).expect("workers answer");
    }

    /// Sends a frame of each flow to the queue that the card chooses. Returns, by flow, the queues by which it
    /// arrived and left. Each worker sends by its own queue.
    fn pass(&self, flows: std::ops::Range<u8>) -> HashMap<u8, (usize, usize)> {
        let card = self.ports.card();
        let came: Vec<(u8, usize)> = flows.map(|n| (n, card.queue(&frame(n)))).collect();
        for (n, queue) in &came {
            assert!(self.a.inject(*queue, &frame(*n)));
        }
        let sent: Vec<Sent> = self.b.collect_at_least(came.len(), LONG);
        let left: HashMap<u8, usize> = sent.iter().map(|s| (read(&s.frame), s.queue)).collect();
        let both = came.into_iter().map(|(n, queue)| (n, (queue, left[&n])));
        both.collect()
    }
}

fn crossed(passed: &HashMap<u8, (usize, usize)>) -> usize {
    passed.values().filter(|(came, left)| came != left).count()
}

fn flow(n: u8) -> String {
    format!("udp 10.0.0.{n} 1000 192.0.2.1 53")
}

/// Adds a rule for each of 64 flows, each with its own bucket.
fn give_rules(stand: &Stand) {
    let rules: Vec<String> = (0..64).map(|n| format!("{} {n}", flow(n))).collect();
    stand.write("mem_a@bucket.add", &rules.join("\n"));
}

/// Two workers with these rules.
fn with_rules() -> Stand {
    let text = "f :: FromDevice(mem:a, QUEUES 2, CLASSIFY flow BUCKETS 64) -> ToDevice(mem:b)";
    let stand = start(text, 1000);
    give_rules(&stand);
    stand
}

/// Moves all buckets to one worker.
fn move_all(stand: &Stand, to: usize) {
    let all: Vec<u16> = (0..64).collect();
    let moved = stand.router.move_buckets("mem_a@steer", &all, to);
    moved.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn flows_with_a_rule_arrive_on_the_worker_that_owns_them_and_need_not_cross() {
    let stand = with_rules();
    let passed = stand.pass(0..64);
    assert_eq!(crossed(&passed), 0, "{passed:?}");
    assert!((0..64).all(|n| passed[&n].1 == usize::from(n % 2)));
    let shown = stand.router.read("f.rss", "").expect("it is there");
    assert!(shown.contains("rules in the port: 64"), "{shown}");
    // A changed or removed rule is changed or removed in the port.
    stand.write("mem_a@bucket.add", &format!("{} 1", flow(0)));
    stand.write("mem_a@bucket.remove", &flow(1));
    assert_eq!(stand.pass(0..1)[&0], (1, 1));
    assert_eq!(stand.ports.card().rules().len(), 63);
    let two = [flow(2), flow(70)].map(|flow| format!("{flow} 5"));
    stand.write("mem_a@bucket.replace", &two.join("\n"));
    assert_eq!(stand.ports.card().rules().len(), 2);
    assert_eq!(stand.pass(2..3)[&2], (1, 1));
}

#[test]
fn buckets_that_move_are_steered_until_the_port_is_told_to_follow() {
    let stand = with_rules();
    move_all(&stand, 1);
    let passed = stand.pass(0..64);
    assert_eq!(crossed(&passed), 32);
    assert!(passed.values().all(|(_, left)| *left == 1));
    stand.write("f.rss", "");
    assert_eq!(crossed(&stand.pass(0..64)), 0);
}

#[test]
fn port_follows_moved_buckets_until_no_packet_changes_worker() {
    let stand = with_rules();
    move_all(&stand, 0);
    stand.write("f.rss", "");
    let balance = Balance::new(Settings {
        mode: Mode::Even,
        ..Settings::default()
    });
    let until = Instant::now() + LONG;
    while balance.moves().0 == 0 || crossed(&stand.pass(0..64)) > 0 {
        assert!(Instant::now() < until, "{}", balance.show());
        for _ in 0..50 {
            stand.pass(0..64);
        }
        balance.run_interval(&stand.router);
    }
    let count = || stand.router.read("mem_a@steer.crossed", "");
    let before = count();
    let passed = stand.pass(0..64);
    assert!(passed.values().any(|(_, left)| *left == 1), "{passed:?}");
    assert_eq!(count(), before);
    assert!(
        balance.show().contains("the port follows"),
        "{}",
        balance.show()
    );
}

/// Sets the flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A numbered frame of a flow that has a rule.
fn numbered(n: u8, number: u32) -> Vec<u8> {
    let mut frame = frame(n);
    frame.extend([0; 16]);
    let end = frame.len();
    frame[end - 4..].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn flows_keep_their_order_while_buckets_move_and_the_port_follows_on_running_workers() {
    let text = "f :: FromDevice(mem:a, QUEUES 2, CLASSIFY flow BUCKETS 64) -> ToDevice(mem:b)";
    let stand = start(text, 1000);
    stand.write("mem_a@steer.limit", "20s");
    give_rules(&stand);
    let (card, a, done) = (stand.ports.card(), stand.a.clone(), AtomicBool::new(false));
    let (sent, left) = std::thread::scope(|scope| {
        let source = scope.spawn(|| {
            let mut sent = 0;
            while !done.load(Relaxed) {
                for n in 0..64 {
                    // A card sorts a packet by the rules at its arrival.
                    let rules = card.rules();
                    let key = FlowKey::of_ip(&frame(n)[14..]).expect("it is IP");
                    let queue = rules[&Match::Flow(key)];
                    assert!(a.inject(queue.into(), &numbered(n, sent)));
                }
                sent += 1;
                while a.waiting(0).max(a.waiting(1)) > 4000 && !done.load(Relaxed) {
                    std::thread::yield_now();
                }
            }
            sent
        });
        // Ends the source even if a check fails here.
        let ends = Ends(&done);
        let (mut rng, mut left, mut followed) = (Rng::seed(3), Vec::new(), 0);
        for _ in 0..100 {
            let some: Vec<u16> = (0..64).filter(|_| rng.one_in(3)).collect();
            let moved = stand
                .router
                .move_buckets("mem_a@steer", &some, rng.below(2));
            moved.unwrap_or_else(|e| panic!("{e}"));
            let done = stand.router.follow("f", None);
            let done = done.unwrap_or_else(|e| panic!("{e}"));
            assert!(!done.late, "{done}");
            followed += done.buckets;
            left.extend(stand.b.collect());
        }
        assert!(followed > 500, "{followed}");
        drop(ends);
        (source.join().expect("it ends"), left)
    });
    // A worker without a core takes nothing from its rings, which are full after a while.
    let full = || -> usize {
        let drops = stand.router.read("mem_a@steer.named_drops", "");
        let drops = drops.expect("it can be read");
        let count = drops.lines().filter_map(|line| line.strip_prefix("full\t"));
        count.map(|n| n.parse::<usize>().expect("a number")).sum()
    };
    let (mut left, until) = (left, Instant::now() + LONG);
    while left.len() + full() < 64 * sent as usize {
        assert!(
            Instant::now() < until,
            "{} of {}, {} full",
            left.len(),
            64 * sent,
            full()
        );
        left.extend(stand.b.collect_at_least(1, Duration::from_millis(10)));
    }
    assert_eq!(left.len() + full(), 64 * sent as usize);
    let mut next = [0; 64];
    for one in &left {
        let (n, end) = (usize::from(read(&one.frame)), one.frame.len());
        let number = u32::from_be_bytes(one.frame[end - 4..].try_into().expect("4 bytes"));
        assert!(
            number >= next[n],
            "flow {n}: {number} came after {}",
            next[n] - 1
        );
        next[n] = number + 1;
    }
}

#[test]
fn disabled_balancer_names_buckets_that_a_port_would_follow() {
    let text = "f :: FromDevice(mem:a, QUEUES 2, CLASSIFY flow BUCKETS 64) -> ToDevice(mem:b)";
    let stand = start(text, 1000);
    let moved = stand.router.move_buckets("mem_a@steer", &[0, 2, 5], 1);
    moved.unwrap_or_else(|e| panic!("{e}"));
    let balance = Balance::new(Settings {
        mode: Mode::Off,
        ..Settings::default()
    });
    balance.run_interval(&stand.router);
    let shown = balance.show();
    let would = "f: the port would move packets from queue 0 to queue 1: buckets 0 2";
    assert!(shown.contains(would), "{shown}");
    assert_eq!(stand.ports.card().redirection_table()[..3], [0, 1, 0]);
    balance.set(&stand.router, "now").expect("it can be told");
    assert_eq!(stand.ports.card().redirection_table()[..3], [1, 1, 1]);
    assert!(!balance.show().contains("would give"), "{}", balance.show());
}

#[test]
fn a_reload_keeps_rules_ends_them_and_brings_others() {
    let text = |mode: &str, sender: &str| {
        format!("f :: FromDevice(mem:a, QUEUES 2, CLASSIFY {mode}) -> {sender}ToDevice(mem:b)")
    };
    let stand = start(&text("flow BUCKETS 64", ""), 1000);
    stand.write("mem_a@bucket.add", &format!("{} 3", flow(1)));
    let rules = || stand.ports.card().rules().len();
    stand.reload(&text("flow BUCKETS 64", "Counter -> "));
    assert_eq!(rules(), 1);
    stand.reload(&text("address 02:00:00:00:00:01 7 9", ""));
    assert_eq!(rules(), 3);
    stand.reload(&text("hash", ""));
    // The old plan is dropped when the last worker releases it.
    let begun = Instant::now();
    while rules() > 0 {
        assert!(begun.elapsed() < LONG, "rules that nobody has");
        std::thread::yield_now();
    }
    stand.reload(&text("flow BUCKETS 64", ""));
    stand.write("mem_a@bucket.add", &format!("{} 3", flow(1)));
    assert_eq!(stand.pass(1..2)[&1], (1, 1));
}

#[test]
fn the_port_follows_queues_that_have_changed_worker() {
    let stand = with_rules();
    for (queue, to) in [(0, 1), (1, 0)] {
        let moved = stand.router.move_queue("f", queue, to);
        moved.unwrap_or_else(|e| panic!("{e}"));
    }
    // Each arrives by the queue of its new worker.
    assert_eq!(crossed(&stand.pass(0..64)), 0);
    stand.write("f.rss", "");
    let passed = stand.pass(0..64);
    assert!((0..64).all(|n| passed[&n].1 == usize::from(n % 2)));
    assert_eq!(
        crossed(&passed),
        64,
        "queues and workers are the other way round"
    );
}

#[test]
fn a_reload_leaves_the_port_as_it_is_until_it_is_told_to_follow() {
    let text = |burst: usize, sender: &str| {
        let asked = "QUEUES 2, CLASSIFY flow BUCKETS 64";
        format!("f :: FromDevice(mem:a, {asked}, BURST {burst}) -> {sender}ToDevice(mem:b)")
    };
    let stand = start(&text(16, ""), 1000);
    give_rules(&stand);
    let card = stand.ports.card();
    let state = || (card.redirection_table(), card.rules().clone());
    let before = state();
    let half: Vec<u16> = (0..32).collect();
    let moved = stand.router.move_buckets("mem_a@steer", &half, 1);
    moved.unwrap_or_else(|e| panic!("{e}"));
    for (queue, to) in [(0, 1), (1, 0)] {
        let moved = stand.router.move_queue("f", queue, to);
        moved.unwrap_or_else(|e| panic!("{e}"));
    }
    // A different line, and then its own, which changes nothing in the port.
    for text in [text(16, "Counter -> "), text(32, "")] {
        stand.reload(&text);
        assert!(state() == before, "the port has followed by itself");
    }
    stand.write("f.rss", "");
    let after = state();
    assert!(after.0 != before.0 && after.1 != before.1);
    assert_eq!(after.0[..32], [0; 32]);
}

#[test]
fn rules_beyond_the_ports_room_are_steered() {
    let text = "FromDevice(mem:a, QUEUES 2, CLASSIFY flow BUCKETS 64) -> ToDevice(mem:b)";
    let stand = start(text, 10);
    give_rules(&stand);
    let passed = stand.pass(0..64);
    assert!((0..64).all(|n| passed[&n].1 == usize::from(n % 2)));
    assert!((22..=32).contains(&crossed(&passed)), "{passed:?}");
}

#[test]
fn stations_and_prefixes_are_given_to_the_port_when_it_is_opened() {
    let stations: Vec<String> = (0..8).map(|n| format!("02:00:00:00:01:{n:02x}")).collect();
    let text = format!(
        "FromDevice(mem:a, QUEUES 2, CLASSIFY address {}) -> ToDevice(mem:b)",
        stations.join(" ")
    );
    let stand = start(&text, 1000);
    let passed = stand.pass(0..8);
    assert_eq!(crossed(&passed), 0, "{passed:?}");
    assert!((0..8).all(|n| passed[&n].1 == usize::from(n % 2)));
    stand.write("mem_a@bucket.remove", &stations[0]);
    assert_eq!(stand.ports.card().rules().len(), 7);
    let prefixes = "prefix 10.0.0.0/8 10.1.0.0/16 2001:db8::/32";
    let text = format!("FromDevice(mem:a, QUEUES 2, CLASSIFY {prefixes}) -> ToDevice(mem:b)");
    let stand = start(&text, 1000);
    let prefix = |address: &str, len| Match::Prefix {
        address: address.parse().expect("an address"),
        len,
        is_source: false,
    };
    let all = [
        (prefix("10.0.0.0", 8), 0),
        (prefix("10.1.0.0", 16), 1),
        (prefix("2001:db8::", 32), 0),
    ];
    assert_eq!(*stand.ports.card().rules(), HashMap::from(all));
    stand.write("mem_a@bucket.add", "10.1.0.0/16 0");
    stand.write("mem_a@bucket.remove", "10.0.0.0/8");
    let left = [(prefix("10.1.0.0", 16), 0), (prefix("2001:db8::", 32), 0)];
    assert_eq!(*stand.ports.card().rules(), HashMap::from(left));
}
