//! Classification into queues in whole routers: from a line of text to packets on the right workers.

use control::describe::describe;
use engine::plan::Plan;
use planner::Options;
use ports::Directory;
use router::Router;
use router_tests::start;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use testkit::ip4;

const LONG: Duration = Duration::from_secs(20);
const ENDS: (&str, &str) = ("02:00:00:00:00:01", "02:00:00:00:00:02");

/// Held by tests whose graph runs no turns while another test waits for all graphs of the process.
static TURNS: Mutex<()> = Mutex::new(());

/// A plan as `ashlar run` makes it, or its mistakes.
fn plan(text: &str, workers: usize, ports: &Directory) -> Result<Arc<Plan>, String> {
    plan_after(None, text, workers, ports)
}

/// Like `plan`, for a reload.
fn plan_after(
    previous: Option<&Plan>,
    text: &str,
    workers: usize,
    ports: &Directory,
) -> Result<Arc<Plan>, String> {
    let mut map = lang::SourceMap::new();
    let file = map.add("test.click", text);
    let (router, mut errors) = lang::parse(&mut map, file, &[]);
    let (plan, more) = planner::compile(
        &router,
        &classes::registry(),
        &Options {
            previous,
            ..Options::new(workers, ports)
        },
    );
    errors.extend(more);
    plan.ok_or_else(|| lang::render_all(&errors, &map))
}

/// A frame of one flow with a number; `back` is the flow's other direction.
fn frame(flow: u16, number: u32, back: bool) -> Vec<u8> {
    let (near, far) = (format!("10.0.{}.{}", flow >> 8, flow & 255), "192.0.2.1");
    let packet = match back {
        false => ip4().src(near).dst(far).udp(1000 + flow, 53),
        true => ip4().src(far).dst(near).udp(53, 1000 + flow),
    };
    let packet = packet.payload(number.to_be_bytes());
    packet.ether(ENDS.0, ENDS.1).bytes()
}

/// Flow, direction and number of such a frame.
fn read(frame: &[u8]) -> ((u16, bool), u32) {
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let back = port(34) == 53;
    let flow = port(if back { 36 } else { 34 }) - 1000;
    let number = frame[42..46].try_into().expect("four bytes");
    ((flow, back), u32::from_be_bytes(number))
}

/// The workers that flows came to (each sends by its own queue); also checks the order of each flow.
fn workers_of(sent: Vec<ports::memory::Sent>) -> BTreeMap<(u16, bool), usize> {
    let mut numbers: BTreeMap<(u16, bool), Vec<u32>> = BTreeMap::new();
    let mut workers = BTreeMap::new();
    for packet in sent {
        let (flow, number) = read(&packet.frame);
        numbers.entry(flow).or_default().push(number);
        let worker = *workers.entry(flow).or_insert(packet.queue);
        assert_eq!(worker, packet.queue, "{flow:?} is on two workers");
    }
    for (flow, numbers) in numbers {
        assert!(numbers.is_sorted(), "{flow:?} is out of order");
    }
    workers
}

#[test]
fn one_receive_queue_feeds_all_workers_and_flows_keep_their_order() {
    let text = "FromDevice(mem:a, QUEUES 1, CLASSIFY hash) -> c :: Counter -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    let plan = router.plan();
    let shown = describe(&plan).to_string();
    assert!(shown.contains("device `mem:a`: 1 receive queue"), "{shown}");
    assert!(shown.contains("mem_a@steer :: Steer"), "{shown}");
    let steered: Vec<_> = plan.gathering().collect();
    // Either worker may have the port's queue.
    assert_eq!(steered, [("mem_a@steer", &[0, 1][..], &[0, 1][..])]);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    for n in 0..4000u32 {
        assert!(a.inject(0, &frame((n % 100) as u16, n / 100, false)));
    }
    let workers = workers_of(b.collect_at_least(4000, LONG));
    assert_eq!(workers.len(), 100);
    let second = workers.values().filter(|&&worker| worker == 1).count();
    assert!((20..80).contains(&second), "{second} of 100 flows");
    let loads = router.read("mem_a@steer.loads", "").expect("it is there");
    let loads: u64 = loads
        .split(' ')
        .map(|n| n.parse::<u64>().unwrap_or(0))
        .sum();
    assert_eq!(loads, 4000);
}

#[test]
fn both_directions_of_a_flow_meet_on_one_worker_by_whatever_port_and_queue_they_come() {
    let text = "FromDevice(mem:a, CLASSIFY hash) -> Paint(1) -> o :: ToDevice(mem:out);
        FromDevice(mem:b, QUEUES 1, CORES 1, CLASSIFY hash) -> Paint(2) -> o";
    let (router, ports) = start(text, 2);
    let (a, b, out) = (ports.memory("a"), ports.memory("b"), ports.memory("out"));
    for n in 0..2000u32 {
        let flow = (n % 100) as u16;
        // Any queue: as from a port without flow classification.
        assert!(a.inject(flow as usize % 2, &frame(flow, n / 100, false)));
        assert!(b.inject(0, &frame(flow, n / 100, true)));
    }
    let workers = workers_of(out.collect_at_least(4000, LONG));
    for flow in 0..100 {
        assert_eq!(workers[&(flow, false)], workers[&(flow, true)], "{flow}");
    }
    let table = |name: &str| router.read(&format!("{name}@steer.table"), "");
    assert_eq!(table("mem_a"), table("mem_b"));
}

#[test]
fn the_workers_that_get_packets_can_be_named() {
    let text = "FromDevice(mem:a, QUEUES 1, CORES 0, CLASSIFY hash WORKERS 1-2) -> c :: Counter -> ToDevice(mem:b)";
    let (router, ports) = start(text, 3);
    let plan = router.plan();
    let of = |name: &str| {
        plan.elements[plan.find(name).expect("it is there")]
            .workers
            .clone()
    };
    assert_eq!((of("FromDevice@1"), of("c")), (vec![0], vec![1, 2]));
    for n in 0..500u32 {
        assert!(
            ports
                .memory("a")
                .inject(0, &frame((n % 50) as u16, n / 50, false))
        );
    }
    let workers = workers_of(ports.memory("b").collect_at_least(500, LONG));
    assert!(workers.values().all(|&worker| worker > 0));
    assert!(workers.values().any(|&worker| worker == 2));
}

#[test]
fn impossible_requests_are_refused_with_place_and_remedy() {
    let ports = Directory::new();
    for (said, parts) in [
        (
            "CLASSIFY hash WORKERS 0-3",
            ["worker 2 is asked for", "--workers 3"],
        ),
        (
            "CLASSIFY fast",
            ["`fast` is no classification", "hash, address"],
        ),
        ("CLASSIFY hash BUCKETS 100", ["a power of two", "give 256"]),
        (
            "CLASSIFY hash KEY short",
            ["KEY must be symmetric", "CLASSIFY hash KEY short"],
        ),
        ("CLASSIFY address 1:2", ["no Ethernet address", "a rule is"]),
        (
            "CLASSIFY program c",
            ["`c` is connected already", "declare an element"],
        ),
    ] {
        let text = format!("FromDevice(mem:a, {said}) -> c :: Counter -> Discard");
        let errors = match plan(&text, 2, &ports) {
            Ok(plan) => panic!("{said} should be refused:\n{}", describe(&plan)),
            Err(errors) => errors,
        };
        for part in parts {
            assert!(errors.contains(part), "{said}: {errors}");
        }
    }
}

#[test]
fn a_program_names_the_bucket_by_its_output() {
    let text = "sort :: { input -> c :: Classifier(23/11 36/0035, -); c[0] -> [1] output; c[1] -> [0] output }
        FromDevice(mem:a, QUEUES 1, CLASSIFY program sort) -> ToDevice(mem:b)";
    let (_router, ports) = start(text, 2);
    for n in 0..100u32 {
        assert!(ports.memory("a").inject(0, &frame(1, n, n % 2 == 0)));
    }
    let workers = workers_of(ports.memory("b").collect_at_least(100, LONG));
    assert_eq!(workers[&(1, false)], 1);
    assert_eq!(workers[&(1, true)], 0);
}

#[test]
fn ten_thousand_rule_changes_a_second_lose_no_packet() {
    let _turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let text =
        "FromDevice(mem:a, QUEUES 1, CLASSIFY flow RULES 8192 BUCKETS 64) -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    // A flow whose rule always exists, in bucket 1: a packet that misses the rule would be on the worker of its hash.
    let own = |n: u32| {
        format!(
            "udp 10.0.{}.{} {} 192.0.2.1 53",
            n >> 8 & 255,
            n & 255,
            1000 + n % 50_000
        )
    };
    router
        .write("mem_a@bucket.add", &format!("{} 1", own(7)))
        .expect("it fits");
    let rule = |n: u32| {
        format!(
            "tcp 10.1.{}.{} {} 10.2.0.1 80",
            n >> 8 & 255,
            n & 255,
            n % 50_000
        )
    };
    let many: Vec<String> = (0..8000)
        .map(|n| format!("{} {}", rule(n), n % 64))
        .collect();
    router
        .write("mem_a@bucket.add", &many.join("\n"))
        .expect("they fit");
    let memory = |router: &Router| {
        let plan = router.plan();
        plan.elements[plan.find("mem_a@bucket").expect("it is there")].memory()
    };
    let (before, begun) = (memory(&router), Instant::now());
    let (mut sent, mut changes) = (0u32, 0u32);
    while changes < 20_000 {
        // One by one, and then a hundred at once.
        let n = 8000 + changes;
        router
            .write("mem_a@bucket.remove", &rule(changes))
            .expect("it is known");
        router
            .write("mem_a@bucket.add", &format!("{} 3", rule(n)))
            .expect("there is room");
        changes += 2;
        if changes.is_multiple_of(1000) {
            let more: Vec<String> = (0..100).map(|k| format!("{} 5", rule(n - 2 * k))).collect();
            router
                .write("mem_a@bucket.add", &more.join("\n"))
                .expect("they are known");
        }
        for _ in 0..2 {
            assert!(a.inject(0, &frame(7, sent, false)));
            sent += 1;
        }
    }
    let took = begun.elapsed();
    let workers = workers_of(b.collect_at_least(sent as usize, LONG));
    assert_eq!(
        workers,
        BTreeMap::from([((7, false), 1)]),
        "bucket 1 is worker 1's"
    );
    assert_eq!(
        router.read("mem_a@bucket.matched", "").as_deref(),
        Ok(&*sent.to_string())
    );
    assert_eq!(memory(&router), before, "memory is given once");
    println!(
        "{:.0} changes a second",
        f64::from(changes) / took.as_secs_f64()
    );
}

/// Number of packets of a flow that left after later ones, and the greatest distance in numbers.
fn overtaken(numbers: &[u32]) -> (usize, u32) {
    let (mut highest, mut late, mut most) = (0, 0, 0);
    for &number in numbers {
        if number < highest {
            (late, most) = (late + 1, most.max(highest - number));
        }
        highest = highest.max(number);
    }
    (late, most)
}

/// Prints the number of overtaken packets (`cargo test -p router-tests lets_be_overtaken -- --nocapture`).
#[test]
fn changed_rule_reorders_only_packets_of_its_flow_in_flight() {
    /// Packets of a round, a third of them of each flow. Each round is injected before the previous one is over.
    const ROUND: usize = 384;
    const OF_FLOW: u32 = ROUND as u32 / 3;
    const ROUNDS: u32 = 100;
    let text = "FromDevice(mem:a, QUEUES 1, CLASSIFY flow BUCKETS 64) -> ToDevice(mem:b)";
    let (router, ports) = start(text, 2);
    let (a, b) = (ports.memory("a"), ports.memory("b"));
    let mut numbers: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    let mut collect = |wanted: usize| {
        let sent = b.collect_at_least(wanted, LONG);
        for packet in &sent {
            let ((flow, _), number) = read(&packet.frame);
            numbers.entry(flow).or_default().push(number);
        }
        sent.len()
    };
    // Buckets are assigned in turn: flow 1 changes its worker, flow 2 keeps it, flow 3 has no rule.
    let rule =
        |flow: u16, bucket: u32| format!("udp 10.0.0.{flow} {} 192.0.2.1 53 {bucket}", 1000 + flow);
    let mut under_way = 0;
    for round in 0..ROUNDS {
        for n in 0..OF_FLOW {
            if n == OF_FLOW / 2 {
                let rules = [rule(1, round % 2), rule(2, round % 2 * 2)];
                let done = router.write("mem_a@bucket.add", &rules.join("\n"));
                done.expect("there is room");
            }
            for flow in 1..4 {
                assert!(a.inject(0, &frame(flow, round * OF_FLOW + n, false)));
            }
        }
        under_way += ROUND;
        if under_way > ROUND {
            under_way -= collect(under_way - ROUND);
        }
    }
    collect(under_way);
    let lengths = numbers.values().map(Vec::len);
    assert!(lengths.eq([(ROUNDS * OF_FLOW) as usize; 3]), "none is lost");
    let all = [1, 2, 3].map(|flow| overtaken(&numbers[&flow]));
    assert_eq!(
        all[1..],
        [(0, 0); 2],
        "who stays with a worker keeps the order"
    );
    let (late, most) = all[0];
    // At most two rounds are under way. A worker that stalls may have all of them, and has half of the flow's packets
    // of every round. Twice as many numbers have been given meanwhile, and half a round more at either end.
    let bound = 4 * ROUND + OF_FLOW as usize;
    assert!(most as usize <= bound, "{most}");
    println!("100 changes of worker by rule: {late} packets overtaken, by {most} others at most");
}

#[test]
fn a_reload_that_would_sort_flows_otherwise_is_refused_while_somebody_keeps_them() {
    let text = |mode: &str, between: &str| {
        format!(
            "nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
            in :: FromDevice(mem:a, QUEUES 1{mode}) -> Strip(14) -> CheckIPHeader -> [0]nat;
            FromDevice(mem:b, QUEUES 1{mode}) -> Strip(14) -> CheckIPHeader -> [1]nat;
            nat[0] -> {between} EtherEncap(0x800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(mem:b);
            nat[1] -> EtherEncap(0x800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(mem:a);"
        )
    };
    let key = format!(", CLASSIFY hash KEY {}", "a55c".repeat(20));
    let (hash, few) = (", CLASSIFY hash", ", CLASSIFY hash BUCKETS 64");
    let owned = [", CLASSIFY flow", ", CORES 0", ", CORES 1"];
    for (from, workers, others) in [
        (hash, vec![0, 1], [few, &key, owned[0], owned[1]]),
        (owned[1], vec![0], [hash, few, &key, owned[2]]),
    ] {
        let (router, ports) = start(&text(from, ""), 2);
        let plan = router.plan();
        let nat = &plan.elements[plan.find("nat").expect("it is there")];
        assert_eq!(nat.workers, workers, "who has flows");
        let reload = |text: &str| {
            let next = plan_after(Some(&router.plan()), text, 2, &ports);
            router.reload(&next.unwrap_or_else(|e| panic!("{e}")))
        };
        for other in others {
            let refused = reload(&text(other, "")).expect_err(other);
            assert!(refused.contains("`nat` keeps flows"), "{refused}");
        }
        assert_eq!(reload(&text(from, "Counter ->")), Ok(Vec::new()));
    }
}

/// Packets by queue of real traffic, with buckets assigned in turn.
fn by_queue(mode: &str, frames: &[Vec<u8>], queues: usize) -> (usize, Vec<u64>) {
    let (class, arguments) = mode.split_once(' ').unwrap_or((mode, ""));
    let text = format!("b :: {class}({arguments}) -> out :: Collect");
    let mut bench = testkit::Bench::new(classes::all(), &text);
    bench.push("b", frames);
    let (mut loads, mut buckets) = (vec![0; queues], std::collections::BTreeSet::new());
    for packet in bench.take_packets("out") {
        loads[usize::from(packet.bucket) % queues] += 1;
        buckets.insert(packet.bucket);
    }
    (buckets.len(), loads)
}

/// Spreads real traffic over queues in every mode (`cargo test -p router-tests spread_over_queues -- --nocapture`).
#[test]
fn traffic_of_shared_data_is_spread_over_queues_by_every_mode() {
    let frames = testkit::recorded_inputs::frames("pcap/ndpi-mix-zeropay.pcap.zst");
    let _turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    // The destinations of this traffic, most frequent first, are assigned to buckets in turn.
    let mut stations: BTreeMap<&[u8], usize> = BTreeMap::new();
    frames
        .iter()
        .for_each(|f| *stations.entry(&f[..6]).or_default() += 1);
    let mut stations: Vec<_> = stations.into_iter().collect();
    stations.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let known = stations.iter().filter(|(mac, _)| mac[0] & 1 == 0).take(200);
    let known: Vec<String> = known
        .map(|(mac, _)| {
            mac.iter()
                .map(|b| format!("{b:02x}"))
                .collect::<Vec<_>>()
                .join(":")
        })
        .collect();
    let prefixes: Vec<String> = (0..64).map(|n| format!("{}.0.0.0/6={n}", n * 4)).collect();
    // For each mode, the buckets of this traffic, and the excess over the mean in the most loaded of eight queues.
    let modes = [
        ("BucketByHash KEY symmetric".to_owned(), 256, 1.5),
        ("BucketByHash KEY microsoft".to_owned(), 256, 1.5),
        (format!("BucketByAddress {}", known.join(", ")), 202, 2.0),
        (
            "BucketByFlow tcp/10.0.0.1/1/10.0.0.2/2=0".to_owned(),
            256,
            1.5,
        ),
        (
            format!("BucketByPrefix {}, DEFAULT 64", prefixes.join(", ")),
            64,
            4.0,
        ),
        (
            format!(
                "BucketByPrefix {}, DEFAULT 64, SOURCE true",
                prefixes.join(", ")
            ),
            64,
            4.0,
        ),
    ];
    for (mode, wanted, bound) in modes {
        let name: String = mode.chars().take(32).collect();
        for queues in [2, 4, 8] {
            let (buckets, loads) = by_queue(&mode, &frames, queues);
            let most = *loads.iter().max().expect("there are queues");
            let share = most as f64 * queues as f64 / frames.len() as f64;
            println!(
                "{name:32} {queues} queues, {buckets:3} buckets: {loads:?}, most {share:.2} of the mean"
            );
            assert_eq!(loads.iter().sum::<u64>(), frames.len() as u64);
            assert_eq!(buckets, wanted, "{name}");
            assert!(share < bound, "{name}: {share}");
        }
    }
}
