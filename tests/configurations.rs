//! The ready configurations of `conf/`, each run on packets.

use engine::graph::Walker;
use engine::port::PortDirectory;
use planner::Options;
use ports::Directory;
use ports::pcap::format::{Reader, Writer};
use router::{Router, Workers};
use router_tests::{Books, InMemory, Whole, conf};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn text(name: &str) -> String {
    std::fs::read_to_string(conf(name)).unwrap_or_else(|e| panic!("conf/{name}: {e}"))
}

const DEVICES: &[(&str, &str)] = &[("DEV0", "mem:0"), ("DEV1", "mem:1")];

#[test]
fn forward_passes_every_frame_both_ways_as_it_is() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut router = Whole::new(&text("forward.click"), DEVICES, walker);
        let frames = testkit::traffic::mix(1, 500);
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        for (from, to) in [(0, 1), (1, 0)] {
            router.receive(from, frames.iter().copied());
            router.settle();
            assert_eq!(router.sent(to), frames);
            assert!(router.sent(from).is_empty());
        }
        router.books().check();
    }
}

#[test]
fn the_linux_router_drops_everything_by_name_as_long_as_no_kernel_speaks() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut router = Whole::new(&text("linux-router.click"), DEVICES, walker);
        let frames = testkit::traffic::mix(1, 500);
        router.receive(0, frames.iter().map(Vec::as_slice));
        router.settle();
        let drops = router.check().drops();
        let refused = ["port0/in down", "port0/in too_short"];
        let known = |name: &str| refused.contains(&name);
        assert!(drops.iter().all(|(name, _)| known(name)), "{drops:?}");
        assert_eq!(drops.iter().map(|d| d.1).sum::<u64>(), 500);
        assert_eq!(router.sent_so_far(), 0);
    }
}

/// A frame of a priority with a number.
fn of_priority(priority: u8, number: u8, size: usize) -> Vec<u8> {
    let mut frame = vec![2; size];
    frame[12..18].copy_from_slice(&[0x81, 0, priority << 5, 7, 8, 0]);
    frame[18] = number;
    frame
}

/// Priorities of frames.
fn priorities(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().map(|frame| frame[14] >> 5).collect()
}

#[test]
fn transmit_queues_are_served_by_priority_and_in_turn_when_the_port_is_slow() {
    let mut router = Whole::new(&text("transmit-queues.click"), DEVICES, Walker::Strict);
    let slow = router.far(1);
    slow.limit(1024, 0);
    // Packets that the port already has have passed the scheduler.
    let before: Vec<_> = (0..8).map(|n| of_priority(2, n, 64)).collect();
    let later = [0, 2, 5, 7].map(|p| (8..12).map(move |n| of_priority(p, n, 64)));
    let later: Vec<_> = later.into_iter().flatten().collect();
    router.receive(0, before.iter().map(Vec::as_slice));
    router.settle();
    router.receive(0, later.iter().map(Vec::as_slice));
    router.settle();
    // Meanwhile the shapers save tokens for the waiting packets.
    router.advance(Duration::from_millis(10));
    assert!(router.sent(1).is_empty());
    slow.limit(1024, 1024);
    router.advance(Duration::from_millis(200));
    let sent = router.sent(1);
    assert_eq!(priorities(&sent[..8]), [2; 8]);
    assert_eq!(priorities(&sent[8..12]), [7; 4]);
    assert_eq!(priorities(&sent[12..20]), [5, 2, 5, 2, 5, 2, 5, 2]);
    assert_eq!(priorities(&sent[20..]), [0; 4]);
    router.check();
}

#[test]
fn a_transmit_queue_sends_no_faster_than_its_rate_and_others_do_not_wait_for_it() {
    let definitions = [DEVICES, &[("CONTROL", "8Mbps")]].concat();
    let mut router = Whole::new(&text("transmit-queues.click"), &definitions, Walker::Strict);
    let frames = [7, 3].map(|p| (0..200).map(move |n| of_priority(p, n, 1000)));
    let frames: Vec<_> = frames.into_iter().flatten().collect();
    router.receive(0, frames.iter().map(Vec::as_slice));
    router.settle();
    let mut sent = priorities(&router.sent(1));
    assert_eq!(sent.iter().filter(|p| **p == 3).count(), 200, "at once");
    let of_control = |sent: &[u8]| sent.iter().filter(|p| **p == 7).count();
    let first = of_control(&sent);
    // 8 Mbps are a frame of 1000 bytes each millisecond.
    router.advance(Duration::from_millis(100));
    sent = priorities(&router.sent(1));
    let within = of_control(&sent);
    assert!((95..=105).contains(&within), "{first}, then {within}");
    router.handler("control.rate", "80Mbps");
    router.advance(Duration::from_millis(100));
    let rest = priorities(&router.sent(1)).len();
    assert_eq!(first + within + rest, 200, "all of them");
    router.check();
}

/// Runs a configuration on separate workers.
fn start(
    name: &str,
    definitions: &[(&str, &str)],
    workers: usize,
    ports: Arc<dyn PortDirectory>,
) -> Router {
    let plan = router_tests::plan(&text(name), definitions, workers, &*ports, None);
    router_tests::run(&plan, ports)
}

#[test]
fn two_queues_are_read_by_two_workers_and_sent_by_one() {
    let directory = Arc::new(Directory::new());
    let (near, far) = (directory.memory("0"), directory.memory("1"));
    let mut router = start("two-queues.click", DEVICES, 2, directory);
    for n in 0..400u16 {
        let mut frame = [0xffu8; 60];
        frame[58..].copy_from_slice(&n.to_be_bytes());
        assert!(near.inject(usize::from(n % 2), &frame));
    }
    let sent = far.collect_at_least(400, Duration::from_secs(20));
    let mut last = [None, None];
    for sent in &sent {
        assert_eq!(sent.queue, 0, "one worker sends");
        let n = u16::from_be_bytes([sent.frame[58], sent.frame[59]]);
        let last = &mut last[usize::from(n % 2)];
        assert!(*last < Some(n), "each queue's order is kept");
        *last = Some(n);
    }
    assert_eq!(sent.len(), 400);
    assert_eq!(router.read("seen.count", "").expect("a count"), "400");
    for stats in router.stats().expect("workers answer") {
        let at = router.plan().find("seen").expect("the Counter");
        assert_eq!(stats[at].packets, 200, "each worker had its queue");
    }
    Books::of_router(&router).check();
    router.stop();
    router.join();
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let file = BufReader::new(File::open(path).expect("the router wrote it"));
    let mut reader = Reader::new(file).expect("a capture file");
    let (mut frame, mut all) = (Vec::new(), Vec::new());
    while reader.next(&mut frame).expect("a whole file").is_some() {
        all.push(frame.clone());
    }
    all
}

/// Runs packets of a file through the pcap router: returns its accounts, and what it has written to its two files.
fn through_the_pcap_router(name: &str, frames: &[Vec<u8>]) -> (Books, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let folder = std::env::temp_dir().join(format!("ashlar-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let (input, low, high) = (path("in"), path("low"), path("high"));
    let mut writer = Writer::new(File::create(&input).expect("a file")).expect("a header");
    for (i, frame) in frames.iter().enumerate() {
        writer.write(i as u64, frame).expect("a frame");
    }
    drop(writer);

    let definitions = [("IN", &*input), ("OUT0", &*low), ("OUT1", &*high)];
    let mut router = start(
        "pcap-router.click",
        &definitions,
        1,
        Arc::new(Directory::new()),
    );
    assert!(router.wait_ended(Duration::from_secs(60)), "the file ends");
    let books = Books::of_router(&router);
    books.check();
    router.stop();
    router.join();
    drop(router); // closes its ports, and with them the files

    let (low, high) = (read(Path::new(&low)), read(Path::new(&high)));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    (books, low, high)
}

#[test]
fn the_pcap_router_takes_frames_with_priority_tags() {
    let mut frames = [
        testkit::ip4()
            .src("10.0.0.1")
            .dst("10.0.0.2")
            .udp(1, 2)
            .payload([0; 20])
            .bytes(),
        testkit::ip6()
            .src("2001:db8::5")
            .dst("2001:db8::6")
            .udp(1, 2)
            .payload([0; 20])
            .bytes(),
    ];
    for (frame, kind) in frames.iter_mut().zip([[8, 0], [0x86, 0xdd]]) {
        let mut tagged = vec![2; 12];
        tagged.extend([0x81, 0, 0xe0, 0]);
        tagged.extend(kind);
        tagged.append(frame);
        *frame = tagged;
    }
    let (books, low, high) = through_the_pcap_router("pcap-router-priority", &frames);
    assert_eq!((low.len(), high.len()), (2, 0), "{:?}", books.drops());
    assert!(low.iter().all(|frame| frame[12..14] != [0x81, 0]));
}

#[test]
fn the_pcap_router_accounts_for_every_packet_of_a_file() {
    let frames = testkit::traffic::mix(9, 5000);
    let (books, low, high) = through_the_pcap_router("pcap-router", &frames);
    let sent = books.ended_at("ToDevice");
    assert_eq!(sent, (low.len() + high.len()) as u64);
    let dropped: u64 = books.drops().iter().map(|d| d.1).sum();
    assert_eq!(sent + dropped, frames.len() as u64, "{:?}", books.drops());
    // The destination decides: 198.18.0.0/15 is high, 2001:db8::/32 low.
    let version4 = |frame: &&Vec<u8>| frame[12..14] == [8, 0];
    assert!(high.len() > 3000 && high.iter().all(|f| version4(&f) && f[30] >= 128));
    assert!(low.iter().filter(version4).all(|f| f[30] < 128));
}

#[test]
fn two_routers_of_a_file_run_in_one_process_and_each_has_its_own_drops() {
    let path = conf("routers.toml");
    let folder = path.parent().expect("it is in a folder");
    let parsed = control::file::parse("routers.toml", &text("routers.toml"), folder);
    assert_eq!(parsed.errors(), 0, "{}", parsed.text());
    let namespaces = parsed.routers.iter().map(|r| r.netns.as_deref());
    assert!(namespaces.eq([Some("red"), Some("blue")]));
    let workers = Workers::start(2, &ports::waiter::of_worker).expect("threads start");
    let start = |section: &control::file::Section| {
        let ports = Arc::new(InMemory::default());
        let options = Options::new(2, &*ports);
        let compiled = control::compile(&section.source, router_tests::registry(), &options);
        let plan = compiled
            .plan
            .unwrap_or_else(|| panic!("{} is wrong", section.name));
        let directory = Arc::clone(&ports) as Arc<dyn PortDirectory>;
        let router = Router::start_on(&workers, &plan, directory, section.share, 1);
        (router.unwrap_or_else(|e| panic!("{e}")), ports)
    };
    let [(red, of_red), (blue, of_blue)] = [0, 1].map(|n| start(&parsed.routers[n]));
    let frames = testkit::traffic::mix(1, 300);
    for (ports, device, count) in [(&of_red, "eth0", 200), (&of_blue, "eth2", 300)] {
        for frame in &frames[..count] {
            assert!(ports.far(device).inject(0, frame));
        }
        assert!(ports.far(device).wait_received(Duration::from_secs(10)));
    }
    // There is no kernel: each router drops all packets under a name.
    for (router, count) in [(&red, 200), (&blue, 300)] {
        let books = Books::of_router(router);
        books.check();
        assert_eq!(books.drops().iter().map(|d| d.1).sum::<u64>(), count);
    }
}

/// Flows of deadlines.click: DSCP, guaranteed bits a second, and bytes of a burst.
const GUARANTEED: [(u8, u64, u64); 4] = [
    (46, 100_000_000, 200_000),
    (34, 20_000_000, 200_000),
    (10, 2_000_000, 200_000),
    (12, 1_000_000, 5_000),
];
/// Width of a bin of the queue.
const BIN_NS: f64 = 1e6;

/// A flow as the manual page defines it, in nanoseconds of the router's clock.
#[derive(Clone, Copy, Default)]
struct Paced {
    /// Time at which the last packet would have left a private link with the flow's rate.
    finish: f64,
    /// The same of the packets within the burst, which the token bucket counts.
    full: f64,
}

impl Paced {
    /// The deadline of a packet; none if it exceeds the flow's burst.
    fn deadline(&mut self, rate: u64, burst: u64, now: f64, bytes: usize) -> Option<f64> {
        let time = |bytes: f64| bytes * 8e9 / rate as f64;
        let full = self.full.max(now) + time(bytes as f64);
        if full - now > time(burst as f64) {
            return None;
        }
        self.full = full;
        self.finish = self.finish.max(now) + time(bytes as f64);
        Some(self.finish)
    }
}

/// A frame with an IP packet of a code point.
fn of_dscp(dscp: u8, payload: usize) -> testkit::Build {
    let packet = testkit::ip4().src("10.0.0.1").dst("10.9.9.9");
    let packet = packet.tos(dscp << 2).udp(1, 2).payload_len(payload);
    packet.ether("02:00:00:00:00:01", "02:00:00:00:00:02")
}

/// A frame that gets no deadline: ARP, IPv6, with a tag, with a broken header, or of no flow.
fn without_deadline(rng: &mut testkit::Rng, payload: usize) -> Vec<u8> {
    let mut other = vec![rng.u8(); 60 + payload];
    match rng.below(5) {
        0 => other[12..14].copy_from_slice(&[8, 6]),
        1 => other[12..14].copy_from_slice(&[0x86, 0xdd]),
        2 => other = of_dscp(46, payload).vlan(7).bytes(),
        3 => other = of_dscp(46, payload).bad_checksum().bytes(),
        _ => other = of_dscp(0, payload).bytes(),
    }
    other
}

#[test]
fn frames_leave_by_deadline_as_from_a_list_that_is_searched_and_others_after_them() {
    for (walker, seed) in [(Walker::Sweep, 71), (Walker::Strict, 72)] {
        let definitions = [DEVICES, &[("LINK", "1Gbps")]].concat();
        let mut router = Whole::new(&text("deadlines.click"), &definitions, walker);
        for (dscp, rate, burst) in GUARANTEED {
            let flow = format!("{dscp} RATE {rate}bps BURST {burst} PACKET 1500");
            router.handler("flows.add", &flow);
        }
        let mut rng = testkit::Rng::seed(seed);
        let slow = router.far(1);
        slow.limit(1024, 0);
        // The port's element takes packets out until it finds the port full; it does not sort them.
        let mut expected: Vec<_> = (0..100).map(|_| without_deadline(&mut rng, 20)).collect();
        for frame in &expected {
            router.receive(0, [&frame[..]]);
            router.settle();
        }
        let left: usize = router
            .handler("order.length", "")
            .parse()
            .expect("a number");
        assert!((1..100).contains(&left), "{left}");
        let left = expected.split_off(expected.len() - left);

        let mut flows = [Paced::default(); GUARANTEED.len()];
        // Bin and frame of each waiting packet, in the order of arrival; the last bin is for those without a deadline.
        let mut waiting: Vec<_> = left.into_iter().map(|frame| (u64::MAX, frame)).collect();
        let mut excess = 0;
        for _ in 0..400 {
            router.advance(Duration::from_micros(rng.below(700) as u64));
            let now = router.graph().now().0 as f64;
            let payload = rng.range(20..1400);
            let at = rng.below(GUARANTEED.len() + 1);
            let (bin, frame) = match GUARANTEED.get(at) {
                None => (Some(u64::MAX), without_deadline(&mut rng, payload)),
                Some(&(dscp, rate, burst)) => {
                    let deadline = flows[at].deadline(rate, burst, now, 28 + payload);
                    let bin = deadline.map(|deadline| (deadline / BIN_NS) as u64);
                    (bin, of_dscp(dscp, payload).bytes())
                }
            };
            router.receive(0, [&frame[..]]);
            router.settle();
            match bin {
                Some(bin) => waiting.push((bin, frame)),
                None => excess += 1,
            }
        }
        assert_eq!(
            router.handler("order.length", ""),
            waiting.len().to_string()
        );
        slow.limit(1024, 1024);
        router.advance(Duration::from_millis(100));
        while let Some(least) = waiting.iter().map(|(bin, _)| *bin).min() {
            let first = waiting.iter().position(|(bin, _)| *bin == least);
            expected.push(waiting.remove(first.expect("it is there")).1);
        }
        let sent = router.sent(1);
        let other =
            (0..expected.len().max(sent.len())).find(|&at| sent.get(at) != expected.get(at));
        assert_eq!(other, None, "the first that differs, of {}", sent.len());
        assert!(excess > 10, "{excess}");
        let drops: u64 = router.check().drops().iter().map(|d| d.1).sum();
        assert_eq!(drops, excess);
        assert_eq!(router.handler("order.beyond", "").trim(), "0");

        let back = testkit::traffic::mix(seed, 100);
        router.receive(1, back.iter().map(Vec::as_slice));
        router.settle();
        assert_eq!(router.sent(0), back);
    }
}

#[test]
fn each_worker_sorts_its_own_queue_by_deadline_and_sends_it_itself() {
    const OTHERS: usize = 200;
    const OF_FLOW: usize = 100;
    /// Packets that a port's element takes out before it finds the port full.
    const TAKEN_MAX: usize = 64;
    let directory = Arc::new(Directory::new());
    let (near, far) = (directory.memory("0"), directory.memory("1"));
    far.limit(1024, 0);
    let mut router = start("deadlines.click", DEVICES, 2, directory);
    let flow = "46 RATE 100Mbps BURST 100000 PACKET 1500";
    router.write("flows.add", flow).expect("the link has room");
    let arp = [8, 6];
    let mut other = vec![2; 60];
    other[12..14].copy_from_slice(&arp);
    let guaranteed = of_dscp(46, 20).bytes();
    for (frame, count) in [(&other, OTHERS), (&guaranteed, OF_FLOW)] {
        for queue in 0..2 {
            for _ in 0..count {
                assert!(near.inject(queue, frame));
            }
        }
    }
    assert!(near.wait_received(Duration::from_secs(60)));
    far.limit(1024, 1024);
    let sent = far.collect_at_least(2 * (OTHERS + OF_FLOW), Duration::from_secs(60));
    for queue in 0..2 {
        let of_queue = sent.iter().filter(|sent| sent.queue == queue);
        let is_other: Vec<bool> = of_queue.map(|sent| sent.frame == other).collect();
        assert_eq!(is_other.len(), OTHERS + OF_FLOW, "queue {queue}");
        let taken = is_other.iter().take_while(|other| **other).count();
        assert!(taken <= TAKEN_MAX, "{taken} before those with a deadline");
        assert!(is_other[taken..][..OF_FLOW].iter().all(|other| !other));
        assert!(is_other[taken + OF_FLOW..].iter().all(|other| *other));
    }
    Books::of_router(&router).check();
    router.stop();
    router.join();
}
