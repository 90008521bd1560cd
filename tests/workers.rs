//! Routers with threads, over in-memory ports: several workers, sleep and wake, messages, reload.

use engine::plan::Plan;
use ports::Directory;
use router::worker::Idle;
use router_tests::{run, start};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;
use testkit::wait_until;

const LONG: Duration = Duration::from_secs(20);

fn plan(text: &str, workers: usize, ports: &Directory, previous: Option<&Plan>) -> Arc<Plan> {
    testkit::plan(classes::all(), text, workers, ports, previous).unwrap_or_else(|e| panic!("{e}"))
}

/// A frame of one flow with a number.
fn frame(flow: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![flow; 60];
    frame[56..].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Numbers by flow, in the order in which they left.
fn by_flow(frames: impl Iterator<Item = Vec<u8>>) -> BTreeMap<u8, Vec<u32>> {
    let mut flows: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for frame in frames {
        let number = u32::from_be_bytes(frame[56..60].try_into().expect("four bytes"));
        flows.entry(frame[0]).or_default().push(number);
    }
    flows
}

#[test]
fn two_workers_forward_in_parallel_and_keep_the_order_of_flows() {
    let (router, ports) = start("FromDevice(mem:a) -> c :: Counter -> ToDevice(mem:b)", 2);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..2000 {
        assert!(a.inject(n as usize % 2, &frame((n % 2) as u8, n / 2)));
    }
    let sent = b.collect_at_least(2000, LONG);
    let queues: Vec<usize> = sent.iter().map(|s| s.queue).collect();
    assert!(
        queues.contains(&0) && queues.contains(&1),
        "each worker has a transmit queue of its own"
    );
    let flows = by_flow(sent.into_iter().map(|s| s.frame));
    assert_eq!(flows.len(), 2);
    for numbers in flows.values() {
        assert_eq!(*numbers, (0..1000).collect::<Vec<u32>>());
    }
    assert_eq!(router.read("c.count", "").as_deref(), Ok("2000"));
    let stats = router.stats().expect("the workers answer");
    let node = router.plan().find("c").expect("it is there");
    assert!(
        stats.iter().all(|s| s[node].packets == 1000),
        "each worker has its share"
    );
}

#[test]
fn packets_change_worker_through_a_queue_in_the_order_of_flows() {
    let text = "FromDevice(mem:a) -> q :: Queue(5000) -> u :: Unqueue(CORES 1) -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..4000 {
        assert!(a.inject(n as usize % 2, &frame((n % 2) as u8, n / 2)));
    }
    let flows = by_flow(b.collect_at_least(4000, LONG).into_iter().map(|s| s.frame));
    for numbers in flows.values() {
        assert_eq!(*numbers, (0..2000).collect::<Vec<u32>>());
    }
    assert_eq!(router.plan().crossings(), [("q", vec![0], 1)]);
    assert_eq!(router.read("q.drops", "").as_deref(), Ok("0"));
}

#[test]
fn mds_deadline_queue_has_an_order_for_each_worker() {
    let text = "FromDevice(mem:a) -> Strip(14) -> CheckIPHeader -> flows :: FlowTable(BY dscp, LINK 1Gbps, BIN 0)
        -> q :: MDSDeadlineQueue(1000, EXACT true) -> u :: Unqueue(ACTIVE false) -> Unstrip(14) -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    assert_eq!(router.plan().crossings(), []);
    for flow in ["0 RATE 80bps BURST 10000", "46 RATE 100Mbps BURST 10000"] {
        let told = router.write("flows.add", &format!("{flow} PACKET 100"));
        assert!(told.is_ok(), "{told:?}");
    }
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..100u16 {
        // Even numbers come to worker 0, odd ones to worker 1; each has packets of both flows.
        let tos = if n % 4 < 2 { 0 } else { 46 << 2 };
        let packet = testkit::ip4().tos(tos).udp(n, 9);
        let frame = packet.ether("2:0:0:0:0:1", "2:0:0:0:0:2").bytes();
        assert!(a.inject(usize::from(n % 2), &frame));
    }
    wait_until("all packets to wait", || {
        router.read("q.length", "").as_deref() == Ok("100")
    });
    assert!(router.write("u.active", "true").is_ok());
    let sent = b.collect_at_least(100, LONG);
    let number = |frame: &[u8]| u16::from_be_bytes([frame[34], frame[35]]);
    for worker in 0..2 {
        let of_worker = sent
            .iter()
            .map(|s| number(&s.frame))
            .filter(|n| n % 2 == worker);
        let urgent = (0..100).filter(|n| n % 4 >= 2 && n % 2 == worker);
        let others = (0..100).filter(|n| n % 4 < 2 && n % 2 == worker);
        let order: Vec<u16> = of_worker.collect();
        assert!(order.iter().copied().eq(urgent.chain(others)), "{order:?}");
    }
}

#[test]
fn mds_deadline_queue_before_one_shaper_has_one_order() {
    let text =
        "FromDevice(mem:a) -> q :: MDSDeadlineQueue(1000) -> BandwidthShaper(1Gbps) -> Unqueue
        -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..200u16 {
        let frame = testkit::ip4()
            .udp(n, 9)
            .ether("2:0:0:0:0:1", "2:0:0:0:0:2")
            .bytes();
        assert!(a.inject(usize::from(n % 2), &frame));
    }
    let sent = b.collect_at_least(200, LONG);
    let mut numbers: Vec<u16> = sent
        .iter()
        .map(|s| u16::from_be_bytes([s.frame[34], s.frame[35]]))
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..200));
    assert_eq!(router.read("q.length", "").as_deref(), Ok("0"));
    assert_eq!(router.read("q.drops", "").as_deref(), Ok("0"));
}

#[test]
fn mds_deadline_queue_of_one_order_holds_its_capacity_and_that_of_its_rings() {
    let text = "FromDevice(mem:a) -> q :: MDSDeadlineQueue(10) -> BandwidthShaper(1kbps) -> Unqueue
        -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    let a = ports.memory("a");
    for n in 0..400u16 {
        let frame = testkit::ip4()
            .udp(n, 9)
            .ether("2:0:0:0:0:1", "2:0:0:0:0:2")
            .bytes();
        assert!(a.inject(usize::from(n % 2), &frame));
    }
    let number = |handler: &str| -> u64 {
        let text = router.read(handler, "").expect("a number");
        text.parse().expect("a number")
    };
    wait_until("all packets to be held, dropped or sent", || {
        number("q.drops") >= 370
    });
    assert!(number("q.length") <= 20);
}

#[test]
fn deadlines_have_one_order_for_all_workers() {
    let text = "FromDevice(mem:a) -> Strip(14) -> CheckIPHeader -> flows :: FlowTable(BY dscp, LINK 1Gbps, BIN 0)
        -> q :: DeadlineQueue(1000, EXACT true) -> u :: Unqueue(ACTIVE false) -> Unstrip(14) -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    assert_eq!(router.plan().crossings(), [("q@queue0", vec![1], 0)]);
    // A packet of one flow may wait for seconds, one of the other for microseconds.
    for flow in ["0 RATE 80bps BURST 10000", "46 RATE 100Mbps BURST 10000"] {
        let told = router.write("flows.add", &format!("{flow} PACKET 100"));
        assert!(told.is_ok(), "{told:?}");
    }
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..100u16 {
        for (queue, tos) in [(0, 0), (1, 46 << 2)] {
            let packet = testkit::ip4().tos(tos).udp(n, 9);
            assert!(a.inject(queue, &packet.ether("2:0:0:0:0:1", "2:0:0:0:0:2").bytes()));
        }
    }
    wait_until("all packets to wait", || {
        router.read("q.length", "").as_deref() == Ok("200")
    });
    assert!(router.write("u.active", "true").is_ok());
    let sent = b.collect_at_least(200, LONG);
    let order: Vec<(u8, u16)> = sent
        .iter()
        .map(|s| {
            (
                s.frame[15] >> 2,
                u16::from_be_bytes([s.frame[34], s.frame[35]]),
            )
        })
        .collect();
    let of = |dscp| (0..100).map(move |n| (dscp, n));
    assert!(order.iter().copied().eq(of(46).chain(of(0))), "{order:?}");
}

#[test]
fn a_sleeping_router_wakes_for_every_packet_and_every_message() {
    let (router, ports) = start(
        "FromDevice(mem:a) -> q :: Queue -> u :: Unqueue(CORES 1) -> ToDevice(mem:b)",
        2,
    );
    // Only a packet or a message ends the sleep in time.
    let minute = Duration::from_secs(60);
    let told = router.runs_on().set_idle(Idle {
        spins: 0,
        first: minute,
        longest: minute,
        ..Idle::default()
    });
    told.expect("the workers answer");
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    let sleeps = |worker| router.times(worker).sleeps.load(Relaxed);
    let before = [sleeps(0), sleeps(1)];
    let mut n = 0;
    wait_until("both workers to have slept and woken 50 times", || {
        assert!(a.inject(0, &frame(0, n)));
        assert_eq!(b.collect_at_least(1, LONG).len(), 1, "packet {n}");
        n += 1;
        assert_eq!(router.read("u.count", ""), Ok(n.to_string()));
        [0, 1].iter().all(|&w| sleeps(w) >= before[w] + 50)
    });
}

#[test]
fn a_hundred_reloads_under_traffic_lose_nothing() {
    let base = "FromDevice(mem:a) -> c :: Counter -> q :: Queue(150000) -> u :: Unqueue(CORES 1) -> out :: \
        ToDevice(mem:b)";
    let painted = "FromDevice(mem:a, BURST 7) -> Paint(1) -> c :: Counter -> q :: Queue(160000) -> u :: Unqueue(CORES \
        1) -> out :: ToDevice(mem:b)";
    let straight = "FromDevice(mem:a) -> c :: Counter -> out :: ToDevice(mem:b, BURST 5)";
    let more = "FromDevice(mem:a) -> c :: Counter -> q :: Queue(150000) -> u :: Unqueue(CORES 0) -> out :: \
        ToDevice(mem:b); FromDevice(mem:x) -> Discard";
    let (router, ports) = start(base, 2);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    let paced = std::thread::spawn({
        let a = a.clone();
        move || {
            for n in 0..100_000u32 {
                // The port holds 8192 frames: wait for room, as a paced source would.
                wait_until("room", || {
                    a.inject(n as usize % 2, &frame((n % 2) as u8, n / 2))
                });
            }
        }
    });
    let mut current = router.plan();
    let mut sent = Vec::new();
    for round in 0..100 {
        let text = [painted, straight, more, base][round % 4];
        let next = plan(text, 2, &ports, Some(&current));
        router
            .reload(&next)
            .unwrap_or_else(|e| panic!("round {round}: {e}"));
        current = next;
        sent.extend(b.collect());
    }
    paced.join().expect("the source does not panic");
    sent.extend(b.collect_at_least(100_000 - sent.len(), LONG));
    assert_eq!(
        router.read("c.count", "").as_deref(),
        Ok("100000"),
        "a counter that stays keeps its count"
    );
    let plan = router.plan();
    let stats = router.stats().expect("the workers answer");
    let books: Vec<_> = stats
        .iter()
        .map(|s| {
            plan.elements
                .iter()
                .zip(s)
                .map(|(e, s)| (&e.name, s.packets, &s.drops))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(sent.len(), 100_000, "{books:?}, held {:?}", router.held());
    let mut flows = by_flow(sent.into_iter().map(|s| s.frame));
    for numbers in flows.values_mut() {
        numbers.sort_unstable();
        assert_eq!(*numbers, (0..50_000).collect::<Vec<u32>>());
    }
}

#[test]
fn a_reload_that_needs_more_queues_than_are_open_is_refused_and_changes_nothing() {
    let (router, ports) = start(
        "FromDevice(mem:a, CORES 0) -> c :: Counter -> ToDevice(mem:b)",
        2,
    );
    let next = plan(
        "FromDevice(mem:a) -> c :: Counter -> ToDevice(mem:b)",
        2,
        &ports,
        Some(&router.plan()),
    );
    let error = router.reload(&next).expect_err("the port has one queue");
    assert!(error.contains("must be stopped"), "{error}");
    assert!(ports.memory("a").inject(0, &frame(0, 0)));
    assert_eq!(ports.memory("b").collect_at_least(1, LONG).len(), 1);
}

#[test]
fn a_router_whose_sources_have_ended_is_over_when_all_is_delivered() {
    let (router, ports) = start(
        "InfiniteSource(LIMIT 1000) -> q :: Queue(2000) -> u :: Unqueue(CORES 1) -> c :: Counter -> Discard",
        2,
    );
    assert!(router.wait_ended(LONG));
    assert_eq!(router.read("c.count", "").as_deref(), Ok("1000"));
    drop(ports);
}

#[test]
fn unknown_handlers_are_explained() {
    let (router, _ports) = start("FromDevice(mem:a) -> c :: Counter -> Discard", 1);
    let error = |path: &str| {
        router
            .read(path, "")
            .expect_err("there is no such handler")
            .to_string()
    };
    assert!(error("d.count").contains("there is no element `d`"));
    assert!(error("c.cuont").contains("it has count, byte_count"));
    let refused = router
        .write("c.count", "5")
        .expect_err("counts are read")
        .to_string();
    assert!(refused.contains("can only be read"), "{refused}");
}

#[test]
fn a_router_that_gets_sources_by_a_reload_is_not_over_before_they_are() {
    let (router, ports) = start("Idle -> ToDevice(mem:b)", 2);
    let done = |w: usize| router.progress(w).done.load(Acquire);
    wait_until("both workers to be done", || done(0) && done(1));
    assert!(!router.ended(), "a router without sources waits for others");
    let text = "FromDevice(mem:a) -> ToDevice(mem:b)";
    let next = plan(text, 2, &ports, Some(&router.plan()));
    router.reload(&next).unwrap_or_else(|e| panic!("{e}"));
    for _ in 0..100 {
        assert!(!router.ended(), "more may come");
    }
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    assert!(a.inject(0, &frame(1, 1)));
    a.end();
    assert!(router.wait_ended(LONG));
    assert_eq!(b.collect().len(), 1);
}

#[test]
fn packets_handed_round_between_workers_all_arrive_before_the_end() {
    let text = "s :: InfiniteSource(LIMIT 20000, BURST 16) -> q1 :: Queue(50000) -> u1 :: Unqueue
        -> q2 :: Queue(50000) -> u2 :: Unqueue -> q3 :: Queue(50000) -> u3 :: Unqueue -> c :: Counter -> Discard;
        StaticThreadSched(s 0, u1 1, u2 2, u3 0);";
    for _ in 0..20 {
        let (router, _) = start(text, 3);
        assert!(router.wait_ended(LONG));
        router.halt().expect("the workers answer");
        assert_eq!(router.read("c.count", "").as_deref(), Ok("20000"));
    }
}

#[test]
fn requests_to_stop_reach_the_manager_on_another_worker() {
    let text = "InfiniteSource(LIMIT 10, STOP true) -> a :: Counter -> Discard;
        s :: InfiniteSource(LIMIT 20, STOP true, ACTIVE false) -> b :: Counter -> Discard;
        StaticThreadSched(s 1);
        m :: DriverManager(wait_stop, set first $(a.count), wait_stop, set second 1, pause)";
    let (router, _ports) = start(text, 2);
    let wait_for = |variable: &str| wait_until(variable, || router.read("m.get", variable).is_ok());
    wait_for("first");
    assert!(!router.ended());
    router.write("s.active", "true").expect("it can be set");
    wait_for("second");
    assert_eq!(router.read("b.count", "").as_deref(), Ok("20"));
    assert!(!router.ended());
    router.write("m.step", "").expect("it can be written");
    assert!(router.wait_ended(LONG));
}

/// A worker may build the graph of a plan only after the next plan has been made.
#[test]
fn a_queue_keeps_its_packets_over_a_reload_that_was_planned_before_it_was_built() {
    let text = |capacity| {
        format!(
            "FromDevice(mem:a) -> q :: Queue({capacity}) -> u :: Unqueue(CORES 1, ACTIVE false) -> ToDevice(mem:b)"
        )
    };
    let ports = Arc::new(Directory::new());
    let first = plan(&text(1000), 2, &ports, None);
    let second = plan(&text(2000), 2, &ports, Some(&first));
    let router = run(&first, Arc::clone(&ports) as _);
    let a = ports.memory("a");
    for n in 0..100 {
        wait_until("room", || a.inject(0, &frame(0, n)));
    }
    wait_until("the queue to hold all", || {
        router.read("q.length", "").as_deref() == Ok("100")
    });
    router.reload(&second).expect("it is taken up");
    assert_eq!(router.read("q.length", "").as_deref(), Ok("100"));
    router.write("u.active", "true").expect("it is a handler");
    assert_eq!(ports.memory("b").collect_at_least(100, LONG).len(), 100);
}
