//! Several routers on the workers of one process: their shares, and that adding, reloading or removing one does not
//! affect the others.

use engine::element::Runs;
use engine::plan::Plan;
use engine::port::PortDirectory;
use ports::Directory;
use ports::memory::Memory;
use router::worker::share::Share;
use router::{Router, Workers};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn plan(text: &str, workers: usize, ports: &Directory, previous: Option<&Plan>) -> Arc<Plan> {
    testkit::plan(classes::all(), text, workers, ports, previous).unwrap_or_else(|e| panic!("{e}"))
}

fn process(count: usize) -> Arc<Workers> {
    Workers::start(count, &ports::waiter::of_worker).expect("threads start")
}

fn share(tickets: u32, priority: u8) -> Share {
    Share {
        tickets,
        priority,
        ..Share::default()
    }
}

fn add(workers: &Arc<Workers>, text: &str, share: Share) -> (Router, Arc<Directory>) {
    let ports = Arc::new(Directory::new());
    let plan = plan(text, workers.count(), &ports, None);
    let directory: Arc<dyn PortDirectory> = Arc::clone(&ports) as _;
    let router = Router::start_on(workers, &plan, directory, share, 1);
    (router.unwrap_or_else(|e| panic!("{e}")), ports)
}

/// A source that never ends, whose packets are dropped.
const BUSY: &str = "InfiniteSource -> Counter -> Discard";
const FORWARD: &str = "FromDevice(mem:a) -> c :: Counter -> ToDevice(mem:b)";

/// Time that routers have had on worker 0 so far, in nanoseconds, at one moment.
fn had<const N: usize>(workers: &Workers, routers: [&Router; N]) -> [u64; N] {
    let busy = workers.busy().expect("the worker answers");
    routers.map(|router| {
        let had = busy[0]
            .iter()
            .find(|(number, _)| *number == router.number());
        had.expect("the worker runs it").1
    })
}

/// The longest finished turn of worker 0.
fn longest_turn(workers: &Workers) -> u64 {
    // A turn is recorded when the next one begins, after the messages between them.
    let turns = || workers.times(0).turns.load(Ordering::Acquire);
    let before = turns();
    wait("the worker turns", || turns() > before + 1);
    workers.times(0).longest_turn.load(Ordering::Relaxed)
}

#[test]
fn busy_routers_get_time_by_their_tickets() {
    let workers = process(1);
    let (one, _) = add(&workers, BUSY, share(1, 0));
    let (three, _) = add(&workers, BUSY, share(3, 0));
    let begin = had(&workers, [&one, &three]);
    let until = Instant::now() + LONG;
    loop {
        let now = had(&workers, [&one, &three]);
        let (a, b) = (now[0] - begin[0], now[1] - begin[1]);
        // However long turns are and other programs use the core, a router is ahead by at most a turn of each.
        let apart = (3 * a).abs_diff(b);
        let longest = longest_turn(&workers);
        assert!(apart <= 8 * longest, "{a} and {b}, {longest}");
        if a > 50_000_000 || apart * 20 < b && a > 10_000_000 {
            break;
        }
        assert!(Instant::now() < until, "they get on: {a} and {b}");
    }
}

#[test]
fn router_of_greater_priority_runs_first_and_leaves_unused_time() {
    let workers = process(1);
    let (low, _) = add(&workers, BUSY, share(1, 0));
    let count = |router: &Router| -> u64 {
        let sum = router.stats().expect("it answers")[0][1].packets;
        assert_eq!(router.plan().elements[0].runs, Runs::AsTask);
        sum
    };
    wait("the low one runs alone", || count(&low) > 1000);
    let (high, ports) = add(&workers, FORWARD, share(1, 1));
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..100 {
        assert!(a.inject(0, &[n; 60]));
        assert_eq!(b.collect_at_least(1, LONG).len(), 1);
    }
    let (busy, _) = add(&workers, BUSY, share(1, 7));
    let before = had(&workers, [&low, &high]);
    let was = count(&busy);
    wait("the busy one runs", || count(&busy) > was + 1000);
    assert_eq!(had(&workers, [&low, &high]), before, "nothing is left");
    // The router is removed, and the others continue.
    drop(busy);
    let was = count(&low);
    wait("the low one runs", || count(&low) > was);
    assert!(a.inject(0, &[1; 60]));
    assert_eq!(b.collect_at_least(1, LONG).len(), 1);
    // A change of priority reverses the order.
    low.set_share(share(1, 7)).expect("it is told");
    assert!(a.inject(0, &[2; 60]));
    let had_before = had(&workers, [&high]);
    let was = count(&low);
    wait("the low one runs", || count(&low) > was + 1000);
    assert_eq!(had(&workers, [&high]), had_before);
    assert!(b.collect().is_empty(), "it waits");
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// Sends numbered frames until it is stopped. Returns their number.
fn traffic(to: Memory, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u32> {
    std::thread::spawn(move || {
        let mut sent = 0u32;
        while !stop.load(Ordering::Relaxed) {
            let mut frame = [0; 60];
            frame[56..].copy_from_slice(&sent.to_be_bytes());
            match to.inject(0, &frame) {
                true => sent += 1,
                false => std::thread::yield_now(),
            }
        }
        sent
    })
}

#[test]
fn a_router_notices_nothing_of_others_that_come_change_and_go() {
    let workers = process(2);
    let (steady, ports) = add(&workers, FORWARD, Share::default());
    let stop = Arc::new(AtomicBool::new(false));
    let sender = traffic(ports.memory("a"), Arc::clone(&stop));
    let b = ports.memory("b");
    let seen = std::cell::Cell::new(0u32);
    let take = |at_least: usize| {
        for sent in b.collect_at_least(at_least, LONG) {
            let number = u32::from_be_bytes(sent.frame[56..60].try_into().expect("four bytes"));
            assert_eq!(number, seen.get(), "none is lost, none overtakes");
            seen.set(number + 1);
        }
    };
    for round in 0..50 {
        take(20);
        let (other, theirs) = add(&workers, FORWARD, share(1 + round, 0));
        assert!(theirs.memory("a").inject(1, &[7; 60]));
        assert_eq!(theirs.memory("b").collect_at_least(1, LONG).len(), 1);
        take(20);
        let running = other.plan();
        let text = "FromDevice(mem:a) -> c :: Counter -> n :: Null -> ToDevice(mem:b)";
        let next = plan(text, 2, &theirs, Some(&running));
        other.reload(&next).expect("it is reloaded");
        assert!(theirs.memory("a").inject(0, &[8; 60]));
        assert_eq!(theirs.memory("b").collect_at_least(1, LONG).len(), 1);
        assert_eq!(other.read("c.count", "").as_deref(), Ok("2"));
        take(20);
        let again = other.read("c.count", "");
        assert_eq!(again.as_deref(), Ok("2"), "the other's packets are its own");
        drop(other);
    }
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender does not panic");
    while seen.get() < sent {
        take(1);
    }
    assert_eq!(steady.read("c.count", ""), Ok(sent.to_string()));
}

#[test]
fn a_worker_sleeps_when_no_router_has_work_and_wakes_for_each() {
    let workers = process(1);
    let routers: Vec<_> = (0..3)
        .map(|_| add(&workers, FORWARD, Share::default()))
        .collect();
    let sleeps = || workers.times(0).sleeps.load(Ordering::Relaxed);
    for round in 0..30 {
        let before = sleeps();
        wait("the worker sleeps", || sleeps() > before);
        let (router, ports) = &routers[round % 3];
        assert!(ports.memory("a").inject(0, &[0; 60]));
        assert_eq!(ports.memory("b").collect_at_least(1, LONG).len(), 1);
        assert_eq!(
            router.read("c.count", ""),
            Ok((round / 3 + 1).to_string()),
            "of its own packets only"
        );
    }
}

#[test]
fn timers_of_all_routers_end_a_sleep() {
    let workers = process(1);
    let text = "t :: TimedSource(INTERVAL 20ms, LIMIT 5) -> c :: Counter -> Discard";
    let routers: Vec<_> = (0..3)
        .map(|_| add(&workers, text, Share::default()).0)
        .collect();
    for router in &routers {
        wait("all packets come", || {
            router.read("c.count", "").as_deref() == Ok("5")
        });
    }
}

#[test]
fn routers_continue_when_another_ends() {
    let workers = process(2);
    let (other, ports) = add(&workers, FORWARD, Share::default());
    let (short, _) = add(
        &workers,
        "InfiniteSource(LIMIT 100, STOP true) -> c :: Counter -> Discard",
        Share::default(),
    );
    assert!(short.wait_ended(LONG));
    assert!(!other.ended());
    assert_eq!(
        short.read("c.count", "").as_deref(),
        Ok("100"),
        "it answers"
    );
    let (first, second) = (other.number(), short.number());
    assert_ne!(first, second);
    assert!(ports.memory("a").inject(0, &[0; 60]));
    assert_eq!(ports.memory("b").collect_at_least(1, LONG).len(), 1);
    other.halt().expect("it answers");
    wait("it has halted", || other.ended());
    drop(short);
    // A new router starts on workers on which all others have stopped.
    let (_new, ports) = add(&workers, FORWARD, Share::default());
    assert!(ports.memory("a").inject(0, &[0; 60]));
    assert_eq!(ports.memory("b").collect_at_least(1, LONG).len(), 1);
    assert_eq!(other.read("c.count", "").as_deref(), Ok("1"));
}

#[test]
fn more_routers_than_published_tables_have_readers() {
    let workers = process(2);
    let count = engine::publish::READERS_MAX + 2;
    let text = "FromDevice(mem:a) -> Strip(14) -> CheckIPHeader -> r :: RadixIPLookup(10.0.0.0/8 0) -> Unstrip(14) -> \
        ToDevice(mem:b)";
    let routers: Vec<_> = (0..count)
        .map(|_| add(&workers, text, Share::default()))
        .collect();
    let destination = std::net::Ipv4Addr::new(10, 0, 0, 1);
    let frame = testkit::ip4()
        .dst(destination)
        .udp(1, 2)
        .ether("02:00:00:00:00:03", "42:00:00:00:00:01")
        .bytes();
    for (router, ports) in [&routers[0], &routers[count - 1]] {
        router.write("r.add", "11.0.0.0/8 0").expect("a route");
        assert!(ports.memory("a").inject(0, &frame));
        assert_eq!(ports.memory("b").collect_at_least(1, LONG).len(), 1);
    }
}

#[test]
fn router_holds_at_most_its_buffer_bound_without_loss() {
    const BURST: u64 = 8;
    let text = "FromDevice(mem:a, BURST 8) -> q :: Queue(1000) -> u :: Unqueue(ACTIVE false) -> c :: Counter -> \
        Discard";
    for beside in [false, true] {
        for (most, at_most) in [(Some(20), 20 + BURST - 1), (None, 200)] {
            let workers = process(1);
            let other = beside.then(|| add(&workers, FORWARD, Share::default()));
            let buffers = Share {
                buffers: most,
                ..Share::default()
            };
            let (router, ports) = add(&workers, text, buffers);
            let frames: Vec<Vec<u8>> = (0..200).map(|n| vec![n; 60]).collect();
            let wire = ports.memory("a");
            assert_eq!(wire.inject_all(0, frames.iter().map(|frame| &**frame)), 200);
            let number = |path: &str| -> u64 {
                let text = router.read(path, "").expect("it answers");
                text.parse().expect("a number")
            };
            let wanted = most.map_or(200, u64::from);
            wait("packets wait", || number("q.length") >= wanted);
            router
                .write("u.active", "true")
                .expect("it has the handler");
            wait("all packets go", || number("c.count") == 200);
            let highest = number("q.highwater_length");
            assert!(
                (wanted..=at_most).contains(&highest),
                "{highest} of {most:?}"
            );
            drop((router, other));
        }
    }
}
