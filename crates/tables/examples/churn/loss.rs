//! Measures the loss of a next hop of half a million routes under a reader.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::publish::{Published, domain};
use tables::fib::{Fib4, Rib4, Route, Structure};
use tables::groups::{GroupTable, Groups, Member};

use crate::{REST, on_two_cores};

/// Number of times that the next hop is lost and comes back.
const TIMES: u64 = 20;
const BURST: usize = 64;

fn hop(n: u32) -> Member {
    Member {
        gateway: Some(IpAddr::from((0x0a00_0000 + n).to_be_bytes())),
        port: 1,
        labels: wire::mpls::Labels::NONE,
        weight: 1,
    }
}

/// State shared by writer and reader.
#[derive(Default)]
struct Shared {
    done: AtomicBool,
    /// True if readers must not find the next hop any more.
    lost: AtomicBool,
    /// Number of times that the reader has seen the loss or the return, and the time of the last one, in nanoseconds
    /// since the start.
    found: AtomicU64,
    at: AtomicU64,
}

/// True if no hash leads any of `addresses` to the lost next hop.
fn avoided(fib: &Fib4, groups: &Groups, addresses: &[u32]) -> bool {
    let mut ids = [0; BURST];
    let ids = &mut ids[..addresses.len()];
    fib.lookup_bulk(addresses, ids);
    ids.iter().all(|id| {
        let mut hashes = (0..16u32).map(|n| n << 28);
        hashes.all(|hash| groups.next_hop(*id, hash) != Some(&hop(0)))
    })
}

/// Looks up addresses that lead to the next hop until stopped. Returns the number of bursts that still found it after
/// its loss.
fn read(
    fib: &Fib4,
    groups: &Published<Groups>,
    shared: &Shared,
    of: &[u32],
    start: Instant,
) -> u64 {
    let mut reader = domain().register().expect("room for a reader");
    let (mut wrong, mut is_up) = (0, true);
    for burst in of.chunks_exact(BURST).cycle() {
        reader.quiescent();
        if shared.done.load(Ordering::Acquire) {
            break;
        }
        let lost = shared.lost.load(Ordering::Acquire);
        let avoided = avoided(fib, groups.read(&reader), burst);
        if avoided == is_up {
            is_up = !avoided;
            let time = start.elapsed().as_nanos() as u64;
            shared.at.store(time, Ordering::Release);
            shared.found.fetch_add(1, Ordering::Release);
        }
        wrong += u64::from(lost && !avoided);
    }
    wrong
}

/// Measures with this number of groups. The lost next hop is a member of 5 in 8 of them (or of the only one); each
/// has one other member.
pub(crate) fn measure(routes: &[Route<4>], groups: u16) {
    let has = |group: u16| group % 8 < 5;
    let mut table = GroupTable::new();
    for n in 0..groups {
        let both = [hop(if has(n) { 0 } else { 1 }), hop(2 + u32::from(n))];
        table.intern(&both).expect("an id");
    }
    let (mut rib, mut led) = (Rib4::new(), Vec::new());
    for (i, (prefix, _)) in routes.iter().enumerate() {
        let group = (i % usize::from(groups)) as u16;
        let id = NonZeroU16::new(group + 1).unwrap_or(NonZeroU16::MIN);
        rib.stage_insert(*prefix, id);
        if has(group) {
            led.push(prefix);
        }
    }
    rib.publish().expect("room");
    let limbo = rib.take_limbo();
    rib.release(limbo);
    // Addresses that no longer prefix contains.
    let address = |prefix: &&tables::fib::Prefix<4>| {
        let address = u32::from_be_bytes(prefix.address());
        let id = rib.fib().lookup(address);
        (id > 0 && has(id - 1)).then_some(address)
    };
    let of: Vec<u32> = led.iter().filter_map(address).collect();
    std::thread::sleep(4 * REST); // time to reach this point
    let published = Published::new(domain(), table.groups());
    let (shared, start) = (Shared::default(), Instant::now());
    let fib = rib.fib();
    let mut waits = Vec::new();
    let mut all_avoid = true;
    let reader = || read(fib, &published, &shared, &of, start);
    let ((), wrong) = on_two_cores(reader, || {
        for change in 1..=2 * TIMES {
            let up = change % 2 == 0;
            if up {
                shared.lost.store(false, Ordering::Release);
            }
            let called = start.elapsed();
            table.set_up(up, |member| *member == hop(0));
            published.replace(table.groups());
            shared.lost.store(!up, Ordering::Release);
            while shared.found.load(Ordering::Acquire) < change {
                std::hint::spin_loop();
            }
            if !up {
                let seen = Duration::from_nanos(shared.at.load(Ordering::Acquire));
                waits.push(seen.saturating_sub(called));
            }
            if change == 1 {
                let groups = published.snapshot();
                all_avoid = of.chunks(BURST).all(|some| avoided(fib, &groups, some));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.done.store(true, Ordering::Release);
    });
    waits.sort_unstable();
    let at = |i: usize| waits.get(i).map_or(f64::NAN, |w| w.as_secs_f64() * 1e3);
    println!(
        "a next hop under {} prefixes ({groups} groups) lost: elsewhere on the other core after (ms) median {:.3}, \
         most {:.3}; {wrong} look-ups led to it afterwards{}",
        led.len(),
        at(waits.len() / 2),
        at(waits.len() - 1),
        if all_avoid {
            ""
        } else {
            "; SOME STILL LEAD THERE"
        }
    );
}
