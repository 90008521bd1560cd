//! Measures changes of the default IPv4 table under a reader: `cargo run --release -p tables --example churn
//! ROUTES [SECONDS]`.
//!
//! One thread looks addresses up in bulk and passes a quiescent point after each burst; the other removes
//! routes and puts them back, as fast as it can, and gives memory back as readers pass. Now and then a change
//! of one route is timed from before it is made until the reader has it in an answer. The reader
//! also makes sure that no answer is other than the old or the new one. Then: a next hop lost, by the number
//! of groups. What others do on the machine is in every time but the writer's own.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tables::fib::{Fib4, Limbo, Prefix, Rib4, Route, Structure};
use tables::groups::{GroupTable, Member};
use tables::sample::{Random, routes4};

const BURST: usize = 64;
/// Changes between two that are timed.
const BETWEEN: u64 = 1000;

/// Time that this thread was on a processor.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(first.expect("Linux says how long a thread ran"))
}

/// What the two threads tell each other.
#[derive(Default)]
struct Shared {
    done: AtomicBool,
    /// Turns that the reader has begun.
    turns: AtomicU64,
    /// Nanoseconds since the start when the reader first had the timed change, by its number; and in which turn.
    seen: [AtomicU64; 32],
    turn_seen: [AtomicU64; 32],
    wrong: AtomicU64,
}

/// The route that is timed: its ids count up from 1000, which no other route has.
fn beacon() -> Prefix<4> {
    Prefix::new([203, 0, 113, 0], 25)
}

fn read(fib: &Fib4, shared: &Shared, addresses: &[(u32, [u16; 2])], start: Instant) -> u64 {
    let mut ids = [0u16; BURST];
    let (mut last, mut count) = (0, 0);
    for burst in addresses.chunks_exact(BURST).cycle() {
        let turn = 1 + shared.turns.fetch_add(1, Ordering::AcqRel);
        if shared.done.load(Ordering::Acquire) {
            break;
        }
        let mut keys = [u32::from_be_bytes(beacon().address()); BURST];
        for (key, (address, _)) in keys.iter_mut().zip(&burst[1..]) {
            *key = *address;
        }
        // The last is the beacon's.
        fib.lookup_bulk(&keys, &mut ids);
        let now = ids[BURST - 1];
        if now != last {
            last = now;
            let time = start.elapsed().as_nanos() as u64;
            shared.turn_seen[usize::from(now) % 32].store(turn, Ordering::Release);
            shared.seen[usize::from(now) % 32].store(time, Ordering::Release);
        }
        let wrong = ids
            .iter()
            .zip(&burst[1..])
            .filter(|(id, (_, both))| !both.contains(id));
        shared
            .wrong
            .fetch_add(wrong.count() as u64, Ordering::Relaxed);
        count += BURST as u64;
    }
    count
}

fn write(rib: &mut Rib4, shared: &Shared, changed: &[Route<4>], start: Instant, end: Duration) {
    let mut random = Random::new(1);
    let mut retired: VecDeque<(u64, Limbo)> = VecDeque::new();
    let mut waits: Vec<u64> = Vec::new();
    let (mut changes, mut most) = (0u64, 0);
    let mut pending: Option<(u16, u64, u64)> = None;
    let mut turns_most = 0;
    let (wall, cpu) = (Instant::now(), busy());
    while start.elapsed() < end {
        for _ in 0..BETWEEN / 2 {
            let (prefix, id) = changed[random.below(changed.len() as u64) as usize];
            rib.remove(prefix).expect("room");
            rib.insert(prefix, id).expect("room");
            let limbo = rib.take_limbo();
            retired.push_back((shared.turns.load(Ordering::Acquire), limbo));
            // A turn that began later than the one that was under way has not seen it.
            while let Some((turn, _)) = retired.front()
                && shared.turns.load(Ordering::Acquire) > turn + 1
                && let Some((_, limbo)) = retired.pop_front()
            {
                rib.release(limbo);
            }
        }
        changes += BETWEEN;
        most = most.max(rib.fib().memory_bytes());
        if let Some((id, made, turn)) = pending {
            match shared.seen[usize::from(id) % 32].load(Ordering::Acquire) {
                0 => continue,
                seen => waits.push(seen.saturating_sub(made)),
            }
            let seen = shared.turn_seen[usize::from(id) % 32].load(Ordering::Acquire);
            turns_most = turns_most.max(seen.saturating_sub(turn));
        }
        let id = pending.map_or(1000, |(id, ..)| 1000 + (id - 999) % 32000);
        shared.seen[usize::from(id) % 32].store(0, Ordering::Release);
        let made = start.elapsed().as_nanos() as u64;
        rib.insert(beacon(), NonZeroU16::new(id).unwrap_or(NonZeroU16::MIN))
            .expect("room");
        pending = Some((id, made, shared.turns.load(Ordering::Acquire)));
        changes += 1;
    }
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), (busy() - cpu).as_secs_f64());
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "changes: {:.0} per second, {:.0} per second of the writer's own time; table at most {:.2} MB",
        changes as f64 / wall,
        changes as f64 / cpu,
        most as f64 / 1e6
    );
    println!(
        "seen at most {turns_most} bursts after the one that was under way when the change was made"
    );
    println!(
        "seen on another core after (microseconds, {} changes): median {:.1}, 90 % {:.1}, 99 % {:.1}, most {:.1}",
        waits.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

fn changes(routes: &[Route<4>], seconds: u64) {
    let mut rib = Rib4::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    rib.publish().expect("room");
    let limbo = rib.take_limbo();
    rib.release(limbo);
    widest(&mut rib);
    let mut random = Random::new(5);
    let mut changed: Vec<Route<4>> = Vec::new();
    for _ in 0..1 << 16 {
        changed.push(routes[random.below(routes.len() as u64) as usize]);
    }
    changed.sort();
    changed.dedup();
    // Of a prefix that none of the others covers or is in, any address has two answers: with and without it.
    let mut addresses = Vec::new();
    for pair in changed.windows(3) {
        let (prefix, id) = pair[1];
        let apart = !pair[0].0.covers(&prefix) && !prefix.covers(&pair[2].0);
        let address = u32::from_be_bytes(prefix.address());
        let nested = changed.iter().take(64).any(|(p, _)| p.covers(&prefix));
        let shorter = rib.covering(&prefix).map_or(0, |(_, id)| id.get());
        let own = rib.fib().lookup(address);
        if apart && !nested && own == id.get() {
            addresses.push((address, [own, shorter]));
        }
    }
    // Nor must what covers it change.
    let of = |p: &Prefix<4>| changed.binary_search_by_key(p, |(c, _)| *c).is_ok();
    addresses.retain(|(address, _)| {
        let above = (8..32).map(|length| Prefix::new(address.to_be_bytes(), length));
        above.filter(of).count() <= 1
    });
    let (shared, start) = (Shared::default(), Instant::now());
    let fib = rib.fib().clone();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&fib, &shared, &addresses, start));
        write(
            &mut rib,
            &shared,
            &changed,
            start,
            Duration::from_secs(seconds),
        );
        shared.done.store(true, Ordering::Release);
        let count = reader.join().expect("a reader that ended well");
        println!(
            "meanwhile {:.1} M look-ups, {} of them neither the old nor the new answer",
            count as f64 / 1e6,
            shared.wrong.load(Ordering::Relaxed)
        );
    });
}

/// The change of a short prefix with the most routes below it.
fn widest(rib: &mut Rib4) {
    let all: Vec<Route<4>> = rib.iter().collect();
    let mut most = (0, Prefix::ALL);
    for first in 1..224 {
        let prefix = Prefix::new([first, 0, 0, 0], 8);
        let end = all.partition_point(|(p, _)| *p <= prefix.last());
        let below = end - all.partition_point(|(p, _)| *p < prefix);
        most = most.max((below, prefix));
    }
    let (below, prefix) = most;
    let before = rib.get(&prefix);
    let mut least = Duration::MAX;
    for id in 1..20 {
        let start = Instant::now();
        rib.insert(prefix, NonZeroU16::new(id).unwrap_or(NonZeroU16::MIN))
            .expect("room");
        least = least.min(start.elapsed());
        let limbo = rib.take_limbo();
        rib.release(limbo);
    }
    match before {
        Some(id) => rib.insert(prefix, id).expect("room"),
        None => rib.remove(prefix).expect("room"),
    };
    println!(
        "a route of 8 bits with {below} routes below it changed: {:.3} ms",
        least.as_secs_f64() * 1e3
    );
}

/// A next hop that half of the groups have a share in is lost.
fn loss(groups: u32) {
    let hop = |n: u32| Member {
        gateway: Some(IpAddr::from(0x0a00_0000u32.wrapping_add(n).to_be_bytes())),
        port: 1,
        weight: 1,
    };
    let mut table = GroupTable::new();
    for n in 0..groups {
        let both = [hop(n % 2), hop(2 + n)];
        table.intern(&both).expect("an id");
    }
    let mut least = Duration::MAX;
    for _ in 0..20 {
        let before = table.groups();
        let start = Instant::now();
        let changed = table.set_up(false, |member| *member == hop(0));
        let published = table.groups();
        least = least.min(start.elapsed());
        assert_eq!(changed as u32, groups.div_ceil(2));
        drop((before, published));
        table.set_up(true, |member| *member == hop(0));
    }
    println!(
        "a next hop of {} of {groups} groups lost: {:.3} ms",
        groups.div_ceil(2),
        least.as_secs_f64() * 1e3
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let routes = match args.next() {
        None => routes4(1, 900_000, 255),
        Some(file) => {
            let text = std::fs::read_to_string(file).expect("a readable file");
            let route = |line: &str| {
                let (prefix, id) = line.split_once(' ')?;
                Some((
                    prefix.parse::<wire::Prefix4>().ok()?.into(),
                    id.parse().ok()?,
                ))
            };
            text.lines().filter_map(route).collect()
        }
    };
    let seconds = args.next().and_then(|word| word.parse().ok()).unwrap_or(5);
    changes(&routes, seconds);
    for groups in [1, 255, 4095, 65535] {
        loss(groups);
    }
}
