//! The balancer on running routers: it evens out the load, workers sleep and wake, and ports' queues change owner.
//! Nothing is lost meanwhile, and no packet overtakes another of its flow.

use control::balance::{Balance, Mode, Settings};
use ports::Directory;
use ports::memory::Memory;
use router::Router;
use router_tests::start;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use steer::Moves;
use testkit::{ip4, wait_until};

const FLOWS: usize = 64;
const LONG: Duration = Duration::from_secs(20);

/// Two ports with one queue each: the first starts on worker 0, the other on worker 1.
const ROUTER: &str =
    "a :: FromDevice(mem:a, QUEUES 1, CLASSIFY hash BUCKETS 64) -> out :: ToDevice(mem:b);
    c :: FromDevice(mem:c, QUEUES 1, CLASSIFY hash BUCKETS 64) -> out;";
const TABLE: &str = "mem_a@steer";

fn balance(mode: Mode) -> Balance {
    Balance::new(Settings {
        mode,
        ..Settings::default()
    })
}

/// Sends packets of all flows in turn, some each millisecond, until it is dropped.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    fn start(into: Memory, each: usize) -> Traffic {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let thread = std::thread::spawn({
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            move || Traffic::run(&into, each, &stop, &sent)
        });
        Traffic {
            stop,
            sent,
            thread: Some(thread),
        }
    }

    fn run(into: &Memory, each: usize, stop: &AtomicBool, sent: &AtomicUsize) {
        let mut frames: Vec<Vec<u8>> = (0..FLOWS)
            .map(|flow| {
                let packet = ip4().udp(1000 + flow as u16, 53).payload([0; 8]);
                packet
                    .ether("02:00:00:00:00:03", "42:00:00:00:00:01")
                    .bytes()
            })
            .collect();
        while !stop.load(Relaxed) {
            for _ in 0..each {
                let n = sent.load(Relaxed);
                let frame = &mut frames[n % FLOWS];
                let number = (n / FLOWS) as u32;
                let end = frame.len();
                frame[end - 8] = (n % FLOWS) as u8;
                frame[end - 4..].copy_from_slice(&number.to_be_bytes());
                // The port is full while other programs have the workers' cores.
                while !into.inject(0, frame) {
                    if stop.load(Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
                sent.store(n + 1, Relaxed);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until `more` further packets have been sent.
    fn wait(&self, more: usize) {
        let end = self.sent.load(Relaxed) + more;
        wait_until("traffic", || self.sent.load(Relaxed) >= end);
    }

    /// Ends it; returns how many packets it has sent.
    fn end(mut self) -> usize {
        self.stop.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|e| e.is_ok()));
        self.sent.load(Relaxed)
    }
}

/// Two workers with traffic, all of it on worker 0, and a balancer that has measured once.
fn all_on_worker_0(mode: Mode) -> (Router, Arc<Directory>, Balance, Traffic) {
    let (router, ports) = start(ROUTER, 2);
    let all: Vec<u16> = (0..64).collect();
    router
        .move_buckets(TABLE, &all, 0)
        .expect("it is worker 0's");
    let (balance, traffic) = (balance(mode), Traffic::start(ports.memory("a"), 10));
    balance.run_interval(&router);
    (router, ports, balance, traffic)
}

/// Checks that no packet is missing and every flow is in order. Returns packets by worker, of the last `last`.
fn check(out: &Memory, sent: usize, last: usize) -> BTreeMap<usize, usize> {
    let mut frames = Vec::new();
    let until = Instant::now() + LONG;
    while frames.len() < sent && Instant::now() < until {
        frames.extend(out.collect_at_least(1, Duration::from_millis(100)));
    }
    assert_eq!(frames.len(), sent, "none is lost");
    let mut next = [0u32; FLOWS];
    for sent in &frames {
        let end = sent.frame.len();
        let flow = usize::from(sent.frame[end - 8]);
        let number = sent.frame[end - 4..].try_into().expect("four bytes");
        assert_eq!(
            u32::from_be_bytes(number),
            next[flow],
            "flow {flow} is in order"
        );
        next[flow] += 1;
    }
    let mut by_worker = BTreeMap::new();
    for sent in &frames[sent - last..] {
        *by_worker.entry(sent.queue).or_default() += 1;
    }
    by_worker
}

#[test]
fn load_on_one_worker_is_balanced_in_few_intervals_without_loss_or_reordering() {
    let (router, ports, balance, traffic) = all_on_worker_0(Mode::Even);
    for _ in 0..4 {
        // The balancer measures each 100 ms: these are half a second.
        traffic.wait(1000);
        balance.run_interval(&router);
    }
    let (moved, moves, _) = balance.moves();
    assert!(moved > 0 && moved <= 40, "{moved} buckets in {moves} moves");
    traffic.wait(3200);
    let sent = traffic.end();
    let by_worker = check(&ports.memory("b"), sent, 1920);
    for (worker, packets) in &by_worker {
        let off = (*packets as f64 - 960.0).abs() / 960.0;
        assert!(
            off <= 0.1,
            "worker {worker}: {by_worker:?}\n{}",
            balance.show()
        );
    }
    assert_eq!(by_worker.len(), 2, "{}", balance.show());
}

#[test]
fn workers_deactivate_and_reactivate_without_loss_or_reordering() {
    let (router, ports) = start(ROUTER, 2);
    let balance = balance(Mode::On);
    let traffic = Traffic::start(ports.memory("c"), 10);
    balance.set(&router, "workers 2").expect("it can be set");
    let owners = || router.read("c.queue_owners", "").expect("it can be read");
    for _ in 0..5 {
        traffic.wait(200);
        balance.set(&router, "workers 1").expect("it can be set");
        balance.run_interval(&router);
        assert_eq!((owners(), balance.workers()), ("0 0\n".to_owned(), (1, 2)));
        traffic.wait(100);
        let moved = || router.progress(1).busy_turns.load(Relaxed);
        let (before, sleeps) = (moved(), router.times(1).sleeps.load(Relaxed));
        traffic.wait(500);
        assert_eq!(moved(), before, "nothing moves on a worker that rests");
        let until = Instant::now() + LONG;
        while router.times(1).sleeps.load(Relaxed) == sleeps {
            assert!(Instant::now() < until, "it sleeps");
        }
        balance.set(&router, "workers 2").expect("it can be set");
        balance.run_interval(&router);
        assert_eq!((owners(), balance.workers()), ("0 1\n".to_owned(), (2, 2)));
    }
    let sent = traffic.end();
    check(&ports.memory("b"), sent, 0);
}

#[test]
fn without_load_one_worker_is_enough_and_with_much_all_come_back() {
    let (router, ports) = start(ROUTER, 2);
    let balance = balance(Mode::On);
    let until = Instant::now() + LONG;
    while balance.workers() != (1, 2) {
        assert!(Instant::now() < until, "{}", balance.show());
        // A measurement counts only if enough time has passed since the last to tell how busy workers are.
        std::thread::sleep(Duration::from_millis(10));
        balance.run_interval(&router);
    }
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    let until = Instant::now() + LONG;
    while balance.workers() != (2, 2) {
        assert!(Instant::now() < until, "{}", balance.show());
        // Offers the full load of one worker.
        let frame = ip4()
            .udp(1, 2)
            .ether("02:00:00:00:00:03", "42:00:00:00:00:01");
        let frame = frame.bytes();
        a.inject_all(0, vec![&frame[..]; 8000]);
        b.collect();
        balance.run_interval(&router);
    }
}

#[test]
fn a_queue_goes_from_hand_to_hand_under_traffic_and_who_cannot_have_it_is_told() {
    let (router, ports) = start(ROUTER, 2);
    let traffic = Traffic::start(ports.memory("a"), 10);
    for n in 0..100 {
        let to = (n + 1) % 2;
        assert_eq!(
            router.write("a.queue_owners", &format!("0 {to}")),
            Ok(String::new())
        );
        assert_eq!(router.read("a.queue_owners", ""), Ok(format!("0 {to}\n")));
        traffic.wait(10);
    }
    for wrong in ["0", "1 0", "0 7", "x y"] {
        assert!(router.write("a.queue_owners", wrong).is_err(), "{wrong}");
    }
    let sent = traffic.end();
    check(&ports.memory("b"), sent, 0);
}

#[test]
fn disabled_balancer_reports_moves_without_making_them() {
    let (router, ports, balance, traffic) = all_on_worker_0(Mode::Off);
    traffic.wait(1000);
    balance.run_interval(&router);
    let said = balance.show();
    assert!(said.contains("would move from worker 0 to 1"), "{said}");
    assert!(said.contains("worker 0 is 100% off the mean"), "{said}");
    assert_eq!(balance.moves(), (0, 0, 0));
    balance.set(&router, "now").expect("it can be told");
    assert!(balance.moves().0 > 0, "{}", balance.show());
    let sent = traffic.end();
    check(&ports.memory("b"), sent, 0);
}
