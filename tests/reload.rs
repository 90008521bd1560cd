//! A hundred reloads of the whole router under traffic, each with another change, while a full set of routes and
//! neighbours must stay.

use engine::plan::Plan;
use engine::port::PortDirectory;
use ports::Directory;
use router::Router;
use router_tests::run;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::{Rng, ip4};

const CONF: &str = include_str!("../conf/ip-router.click");
const WORKERS: usize = 2;
const ROUTES: usize = 256 * 1024;
const NEIGHBOURS: u32 = 10_000;
const RELOADS: usize = 100;
const LONG: Duration = Duration::from_secs(60);

fn make(text: &str, ports: &Directory, previous: Option<&Plan>) -> Arc<Plan> {
    let settings = [
        ("DEV0", "mem:a"),
        ("DEV1", "mem:b"),
        ("IP1", "10.2.0.1"),
        ("LEN1", "16"),
    ];
    router_tests::plan(text, &settings, WORKERS, ports, previous)
}

/// The `round`-th configuration: in turn one more element, none, another setting, and one more port.
fn variant(round: usize) -> String {
    let text = CONF.replace("ARPQuerier(here,", "ARPQuerier(ENTRY_CAPACITY 32768, here,");
    assert_ne!(
        text, CONF,
        "the configuration has changed: this test must follow"
    );
    let edited = match round % 5 {
        0 => text.clone(),
        1 => text.replace(
            "-> DropDirectedBroadcasts",
            &format!("-> c{round} :: Counter -> DropDirectedBroadcasts"),
        ),
        2 => text.replace("$MTU1 $DEV1:mtu", &format!("$MTU1 {}", 1400 + round)),
        3 => format!("{text}\nFromDevice(mem:more{round}) -> Discard;\n"),
        _ => text.replace(
            "ENTRY_CAPACITY 32768",
            &format!("ENTRY_CAPACITY 32768, TIMEOUT {}", 300 + round),
        ),
    };
    assert!(
        round.is_multiple_of(5) || edited != text,
        "round {round} changes nothing"
    );
    edited
}

fn gateway(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a02_0000 + 16 + n)
}

/// Sorted lines, for tables of unspecified order.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Neighbours without their age: all other columns.
fn neighbours(router: &Router) -> Vec<String> {
    let table = router
        .read("i1/arp.table", "")
        .expect("the table can be read");
    let columns = |line: &str| {
        line.split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut all: Vec<String> = table.lines().map(columns).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_hundred_reloads_lose_no_packet_route_or_neighbour() {
    let ports = Arc::new(Directory::new());
    let mut current = make(&variant(0), &ports, None);
    let router = run(&current, Arc::clone(&ports) as _);

    let mut rng = Rng::seed(256);
    let mut routes = String::new();
    let mut targets = Vec::new();
    for i in 0..ROUTES {
        // Disjoint /26 networks from 20.0.0.0 on: each is a separate route.
        let network = Ipv4Addr::from(0x1400_0000 + ((i as u32) << 6));
        let via = gateway(rng.below(NEIGHBOURS as usize) as u32);
        writeln!(routes, "add {network}/26 {via} 2").expect("a string grows");
        if i % 64 == 0 {
            targets.push(network);
        }
    }
    router
        .write("rt4.ctrl", &routes)
        .unwrap_or_else(|e| panic!("{e}"));
    for n in 0..NEIGHBOURS {
        let entry = format!("{} 02:00:00:00:{:02x}:{:02x}", gateway(n), n >> 8, n & 0xff);
        router
            .write("i1/arp.insert", &entry)
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let table = lines(&router.read("rt4.table", "").expect("the table can be read"));
    let known = neighbours(&router);
    assert!(table.len() >= ROUTES, "{} routes", table.len());
    assert_eq!(known.len(), NEIGHBOURS as usize);

    let mac = wire::EtherAddr(ports.probe("mem:a").expect("the port is open").mac);
    let frames: Vec<Vec<u8>> = targets
        .iter()
        .map(|network| {
            let host = Ipv4Addr::from(u32::from(*network) + 5);
            ip4()
                .src("10.0.1.77")
                .dst(host)
                .udp(1000, 2000)
                .payload([7; 64])
                .ether("02:09:09:09:09:09", mac)
                .bytes()
        })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let injected = Arc::new(AtomicU64::new(0));
    let source = std::thread::spawn({
        let (a, stop, injected) = (ports.memory("a"), Arc::clone(&stop), Arc::clone(&injected));
        move || {
            let started = Instant::now();
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // 20,000 frames a second, paced by the clock.
                while started.elapsed() < Duration::from_micros(50 * n as u64) {
                    std::thread::yield_now();
                }
                if a.inject(n % WORKERS, &frames[n % frames.len()]) {
                    injected.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });

    let b = ports.memory("b");
    let mut received = 0;
    for round in 1..=RELOADS {
        let next = make(&variant(round), &ports, Some(&current));
        router
            .reload(&next)
            .unwrap_or_else(|e| panic!("round {round}: {e}"));
        current = next;
        received += b.collect().len() as u64;
    }
    stop.store(true, Ordering::Relaxed);
    source.join().expect("the source does not panic");
    let injected = injected.load(Ordering::Relaxed);
    let until = Instant::now() + LONG;
    while received < injected && Instant::now() < until {
        received += b.collect_at_least(1, Duration::from_millis(50)).len() as u64;
    }
    println!(
        "{RELOADS} reloads, {injected} packets, {} lost",
        injected - received
    );
    assert_eq!(received, injected);
    let from = current
        .elements
        .iter()
        .find(|e| e.class.name == "FromDevice" && e.text.contains("mem:a"))
        .expect("it receives");
    let counted = router.read(&format!("{}.count", from.name), "");
    assert_eq!(
        counted.as_deref(),
        Ok(injected.to_string().as_str()),
        "counters that stay go on"
    );
    assert_eq!(
        lines(&router.read("rt4.table", "").expect("the table can be read")),
        table
    );
    assert_eq!(neighbours(&router), known);
}
