use super::*;

const A: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 0xa]);
/// Chooses the places of neighbours in tables.
const SECRET: u64 = 1;
const SECOND: Duration = Duration::from_secs(1);

fn link(packets: usize, packets_each: usize) -> Arc<Link<u32>> {
    Arc::new(Link::new(
        Bounds {
            entries: 64,
            packets,
            packets_each,
            drop_divisor: usize::MAX,
            timing: Timing::default(),
            asks: (0, 0),
        },
        SECRET,
    ))
}

#[derive(Default)]
struct Log {
    ready: Vec<Vec<u8>>,
    asked: Vec<(u32, Option<EtherAddr>)>,
    failed: usize,
    full: Vec<Vec<u8>>,
}

impl Log {
    fn note(&mut self) -> impl FnMut(Event<u32>) {
        |event| match event {
            Event::Ready(_, p) => self.ready.push(p.data().to_vec()),
            Event::Ask(key, at) => self.asked.push((key, at)),
            Event::Failed(_) => self.failed += 1,
            Event::Full(p) => self.full.push(p.data().to_vec()),
        }
    }
}

fn send(r: &mut Resolver<u32>, key: u32, bytes: &[u8], now: Time, log: &mut Log) -> Resolution {
    let found = r.find(key, || 0, now, &mut log.note());
    if found == Resolution::Wait {
        let packet = Packet::from_bytes(bytes).expect("it fits");
        r.hold(key, packet, now, &mut log.note());
    }
    found
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let link = link(10, 10);
    let (mut r, mut log, now) = (Resolver::new(&link, 1), Log::default(), Time(5));
    for byte in [b"1", b"2", b"3"] {
        assert_eq!(send(&mut r, 7, byte, now, &mut log), Resolution::Wait);
    }
    assert_eq!((&log.asked[..], r.held()), (&[(7, None)][..], 3));
    r.answered(7, A, now, &mut log.note());
    assert_eq!((log.ready.concat(), r.held()), (b"123".to_vec(), 0));
    assert_eq!(send(&mut r, 7, b"4", now, &mut log), Resolution::Known(A));
}

#[test]
fn answer_at_one_worker_releases_packets_of_another() {
    let link = link(10, 10);
    let (mut a, mut b) = (Resolver::new(&link, 2), Resolver::new(&link, 2));
    let (mut log, now) = (Log::default(), Time(5));
    send(&mut a, 7, b"a", now, &mut log);
    send(&mut b, 7, b"b", now, &mut log);
    assert_eq!(log.asked.len(), 1, "one of them asks");
    b.answered(7, A, now, &mut log.note());
    assert_eq!(log.ready.concat(), b"b");
    let next = a.tick(now + CHECK_INTERVAL, &mut log.note());
    assert_eq!((log.ready.concat(), a.held()), (b"ba".to_vec(), 0));
    assert_eq!(a.arm(now + CHECK_INTERVAL), None, "that is armed already");
    assert_eq!(
        next,
        Some(now + CHECK_INTERVAL + STEP),
        "then the table is only aged"
    );
}

#[test]
fn a_packet_does_not_overtake_those_that_wait_for_the_same_neighbour() {
    let link = link(10, 10);
    let (mut r, mut log, now) = (Resolver::new(&link, 1), Log::default(), Time(5));
    send(&mut r, 7, b"1", now, &mut log);
    link.table().set_permanent(7, A, 0).unwrap();
    assert_eq!(send(&mut r, 7, b"2", now, &mut log), Resolution::Known(A));
    assert_eq!(log.ready.concat(), b"1");
}

#[test]
fn the_oldest_packet_makes_room() {
    let link = link(3, 2);
    let (mut r, mut log, now) = (Resolver::new(&link, 1), Log::default(), Time(5));
    for (key, byte) in [(7, b"1"), (7, b"2"), (7, b"3")] {
        send(&mut r, key, byte, now, &mut log);
    }
    assert_eq!(log.full.concat(), b"1", "more than one neighbour may have");
    send(&mut r, 8, b"4", now, &mut log);
    send(&mut r, 9, b"5", now, &mut log);
    assert_eq!(log.full.concat(), b"12", "more than may wait in all");
    send(&mut r, 9, b"6", now, &mut log);
    send(&mut r, 9, b"7", now, &mut log);
    assert_eq!(log.full.concat(), b"1235");
    assert_eq!(r.held(), 3);
}

#[test]
fn a_silent_neighbour_is_asked_thrice_a_second_apart_then_given_up() {
    let link = link(10, 10);
    let (mut r, mut log, start) = (Resolver::new(&link, 1), Log::default(), Time(5));
    send(&mut r, 7, b"1", start, &mut log);
    let mut now = start;
    let mut asked = Vec::new();
    while log.failed == 0 {
        now = r.tick(now, &mut log.note()).expect("a packet waits");
        asked.extend(log.asked.drain(..).map(|_| now.since(start).as_secs()));
        assert!(now.since(start) < 5 * SECOND);
    }
    assert_eq!(asked.len(), 3);
    assert!(now.since(start) >= 3 * SECOND, "{:?}", now.since(start));
    assert_eq!(
        send(&mut r, 7, b"2", now, &mut log),
        Resolution::Unreachable
    );
    assert_eq!(
        send(&mut r, 7, b"3", now + 2 * SECOND, &mut log),
        Resolution::Wait
    );
}

#[test]
fn a_full_table_says_so() {
    let link = link(10, 10);
    let mut made = 0;
    for key in 0..1000 {
        made += u32::from(link.table().set_permanent(key, A, 0).is_ok());
    }
    assert!((64..1000).contains(&made), "{made}");
    let (mut r, mut log) = (Resolver::new(&link, 1), Log::default());
    let found = (2000..2100).map(|key| r.find(key, || 0, Time(5), &mut log.note()));
    assert!(found.into_iter().any(|f| f == Resolution::TableFull));
}

#[test]
fn changed_bounds_keep_known_neighbours() {
    let (old, new) = (link(10, 10), link(20, 10));
    old.table().learn(7, A, 5).unwrap();
    old.table().set_permanent(8, A, 5).unwrap();
    old.table().ask(9, 5).unwrap();
    assert!(Arc::ptr_eq(&Link::inherit(&link(10, 10), &old), &old));
    let link = Link::inherit(&new, &old);
    assert!(Arc::ptr_eq(&link, &new));
    assert_eq!(link.table().address(7), Some((A, State::Stale)));
    assert_eq!(link.table().address(8), Some((A, State::Permanent)));
    assert_eq!(link.table().address(9), None);
}

#[test]
fn ages_count_to_the_latest_answer_or_announcement() {
    let link = link(10, 10);
    let (mut r, mut log, start) = (Resolver::new(&link, 1), Log::default(), Time(5));
    r.learn(7, A, true, start, &mut log.note());
    assert_eq!(r.find(8, || 0, start, &mut log.note()), Resolution::Wait);
    r.answered(8, A, start + SECOND, &mut log.note());
    let ages = || -> Vec<_> { link.entries().iter().map(|e| (e.0, e.2)).collect() };
    let of = |key| ages().iter().find(|e| e.0 == key).map(|e| e.1);
    assert_eq!((of(7), of(8)), (Some(SECOND), Some(Duration::ZERO)));
    r.learn(9, A, true, start + 3 * SECOND, &mut log.note());
    assert_eq!((of(7), of(9)), (Some(3 * SECOND), Some(Duration::ZERO)));
}

#[test]
fn a_source_that_scans_a_network_keeps_no_other_source_from_new_neighbours() {
    let link = Arc::new(Link::new(
        Bounds {
            entries: 4096,
            packets: 4096,
            packets_each: 4,
            drop_divisor: usize::MAX,
            timing: Timing::default(),
            asks: (100, 20),
        },
        SECRET,
    ));
    let (mut r, mut log) = (Resolver::new(&link, 1), Log::default());
    let mut waits = [0; 2];
    for tick in 0..1000 {
        let now = Time(1) + Duration::from_millis(tick);
        for (source, which) in [(1, 0), (1, 0), (1, 0), (2, 1)] {
            // The other host needs a new neighbour ten times a second.
            if which == 1 && tick % 100 != 0 {
                continue;
            }
            let key = 10_000 + waits[0] + waits[1] + 7919 * tick as u32;
            let found = r.find(key, || source, now, &mut log.note());
            assert!(
                [Resolution::Wait, Resolution::TooMany].contains(&found),
                "{found:?}"
            );
            waits[which] += u32::from(found == Resolution::Wait);
        }
    }
    assert_eq!(waits[1], 10, "{waits:?}");
    assert!((100..=140).contains(&(waits[0] + waits[1])), "{waits:?}");
    let asked = log.asked.len();
    assert!(asked <= 140, "nobody hears more than the rate: {asked}");
    // Packets to a known neighbour are still sent.
    r.learn(5, A, true, Time(1), &mut log.note());
    assert_eq!(
        r.find(5, || 1, Time(2), &mut log.note()),
        Resolution::Known(A)
    );
}
